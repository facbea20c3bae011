//! Does an emulated drive lose what it may lose, keep what it must, and answer no sooner than its
//! model?

use super::super::rig::Rig;
use super::super::{Backing as Place, DeviceConfig, open};
use super::*;
use std::os::unix::fs::FileExt;
use tandem_block::MIB;

/// Answers every command after 300 us; everything written since the last flush is volatile.
#[derive(Clone)]
struct Simple {
    capacity: u64,
    volatile: u64,
    keeps: u64,
    last: u64,
}

const LATENCY: Duration = Duration::from_us(300);

impl Drive for Simple {
    fn capacity_bytes(&self) -> u64 {
        self.capacity
    }
    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        match op.kind {
            DriveOpKind::Write { fua: false } => self.volatile += op.length_bytes,
            DriveOpKind::Flush => self.volatile = 0,
            _ => {}
        }
        self.last += 1;
        Outcome {
            ack_at: now + LATENCY,
            durable_at: None,
            status: Ok(()),
            ticket: tandem_block::Ticket(self.last),
        }
    }
    fn volatile_bytes(&mut self, _now: Instant) -> u64 {
        self.volatile.min(self.keeps)
    }
    fn power_cycle(&mut self, _now: Instant) {
        self.volatile = 0;
    }
    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}

fn model(keeps: u64) -> Box<dyn Drive> {
    Box::new(Simple { capacity: MIB, volatile: 0, keeps, last: 0 })
}

struct OnFile {
    rig: Rig,
    file: tempfile::NamedTempFile,
}

fn on_file(keeps: u64) -> OnFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(MIB).unwrap();
    let config =
        DeviceConfig { backing: Place::Path(file.path().into()), emulate: Some(model(keeps)) };
    OnFile { rig: Rig::new(open(DeviceId(0), config).unwrap()), file }
}

impl OnFile {
    /// First byte of each 4 KiB block of the file, as a power cut would leave them.
    fn survivors(&self, blocks: u64) -> Vec<u8> {
        let first = |block| {
            let mut byte = [0];
            self.file.as_file().read_exact_at(&mut byte, block * 4096).unwrap();
            byte[0]
        };
        (0..blocks).map(first).collect()
    }
}

#[test]
fn unflushed_bytes_die_with_the_process_and_flushed_ones_do_not() {
    let mut drive = on_file(u64::MAX);
    for block in 0..4u8 {
        drive.rig.write(u64::from(block) * 4096, &[block + 1; 4096], false);
    }
    assert_eq!(drive.survivors(4), [0, 0, 0, 0]);
    assert_eq!(drive.rig.device.emulated().unwrap().volatile_bytes, 4 * 4096);
    let (bytes, _) = drive.rig.read(4096, 4096);
    assert_eq!(bytes, vec![2; 4096], "reads see the newest");
    drive.rig.run(IoOp::Flush);
    assert_eq!(drive.survivors(4), [1, 2, 3, 4]);
    drive.rig.write(0, &[9; 4096], false);
    assert_eq!(drive.survivors(1), [1]);
}

/// A flush covers what was acknowledged before it, not what comes during it.
#[test]
fn a_flush_settles_what_came_before_it() {
    let mut drive = on_file(u64::MAX);
    drive.rig.write(0, &[1; 4096], false);
    let flush = drive.rig.submit(IoOp::Flush);
    let op = drive.rig.write_op(4096, &[2; 4096], false);
    let late = drive.rig.submit(op);
    drive.rig.wait(flush);
    drive.rig.wait(late);
    assert_eq!(drive.survivors(2), [1, 0]);
}

#[test]
fn fua_settles_its_own_bytes_and_only_those() {
    let mut drive = on_file(u64::MAX);
    drive.rig.write(0, &[1; 4096], false);
    drive.rig.write(8192, &[3; 4096], false);
    drive.rig.write(4096, &[2; 4096], true);
    assert_eq!(drive.survivors(3), [0, 2, 0]);
    // over an older one: both, in order
    drive.rig.write(8192 + 512, &[4; 512], true);
    let (bytes, _) = drive.rig.read(8192, 4096);
    assert_eq!((bytes[0], bytes[512], bytes[1024]), (3, 4, 3));
    assert_eq!(drive.survivors(3), [0, 2, 3]);
    drive.rig.run(IoOp::WriteMeta { offset_bytes: 12288, bytes: vec![5; 4096], fua: true });
    assert_eq!(drive.survivors(4), [0, 2, 3, 5]);
}

/// The model's buffer is finite: what it has drained is in the file.
#[test]
fn what_the_model_has_drained_survives() {
    let mut drive = on_file(2 * 4096);
    for block in 0..6u8 {
        drive.rig.write(u64::from(block) * 4096, &[block + 1; 4096], false);
    }
    let begin = drive.rig.now();
    while drive.survivors(4) != [1, 2, 3, 4] {
        assert!(drive.rig.now().since(begin) < Duration::from_s(30), "they never reach the file");
        drive.rig.turn();
    }
    assert_eq!(drive.survivors(6), [1, 2, 3, 4, 0, 0]);
}

#[test]
fn trimmed_bytes_are_zeroes_at_once_and_after_a_flush() {
    let mut drive = on_file(u64::MAX);
    drive.rig.write(0, &[1; 8192], false);
    drive.rig.run(IoOp::Trim { offset_bytes: 4096, length_bytes: 4096 });
    let (bytes, _) = drive.rig.read(0, 8192);
    assert_eq!((bytes[0], bytes[4096]), (1, 0));
    drive.rig.run(IoOp::Flush);
    assert_eq!(drive.survivors(2), [1, 0]);
}

#[test]
fn no_answer_comes_before_the_model_gives_it() {
    for place in [None, Some(())] {
        let mut rig = match place {
            None => on_file(u64::MAX).rig,
            Some(()) => {
                let backing = Place::Ram { bytes: MIB };
                let config = DeviceConfig { backing, emulate: Some(model(u64::MAX)) };
                Rig::new(open(DeviceId(0), config).unwrap())
            }
        };
        let write = rig.write_op(0, &[7; 4096], false);
        for op in [write, IoOp::ReadMeta { offset_bytes: 0, length_bytes: 4096 }, IoOp::Flush] {
            let begin = rig.now();
            let done = rig.run(op);
            assert!(rig.now().since(begin) >= LATENCY);
            assert!(done.bytes.iter().all(|byte| *byte == 7), "a write is readable");
        }
        let done = rig.run(IoOp::Trim { offset_bytes: MIB, length_bytes: 512 });
        assert_eq!(done.status, Err(IoError::OutOfRange));
    }
}

#[test]
fn checksums_travel_with_data_in_both_directions() {
    let mut drive = on_file(u64::MAX);
    let done = drive.rig.write(0, &[7; 8192], false);
    let (payload, at, length) = done.blocks.unwrap();
    let mut sums = Vec::new();
    drive.rig.payloads.checksums(payload, at, length, &mut sums);
    let (_, done) = drive.rig.read(0, 8192);
    let (payload, at, length) = done.blocks.unwrap();
    drive.rig.payloads.checksums(payload, at, length, &mut sums);
    assert_eq!(sums, [crc_fast::crc32_iscsi(&[7; 4096]); 4]);
    assert!(drive.rig.read(512, 4096).1.blocks.is_none(), "no whole blocks, no checksums");
}

#[test]
fn a_model_needs_room_for_its_bytes() {
    let config = DeviceConfig { backing: Place::Ram { bytes: 4096 }, emulate: Some(model(0)) };
    let error = open(DeviceId(0), config).err().expect("it is too small");
    assert!(matches!(error, OpenError::TooSmall { .. }), "{error}");
}

/// As `Simple`, but a flush is acknowledged and not done.
#[derive(Clone)]
struct Liar(Simple, Vec<ContentFault>);

impl Drive for Liar {
    fn capacity_bytes(&self) -> u64 {
        self.0.capacity
    }
    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        let outcome = self.0.submit(now, op);
        if op.kind == DriveOpKind::Flush {
            let kind = ContentFaultKind::FlushIgnored;
            self.1.push(ContentFault { ticket: outcome.ticket, kind });
        }
        outcome
    }
    fn volatile_bytes(&mut self, _now: Instant) -> u64 {
        u64::MAX
    }
    fn power_cycle(&mut self, _now: Instant) {}
    fn take_content_faults(&mut self) -> Vec<ContentFault> {
        std::mem::take(&mut self.1)
    }
    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}

#[test]
fn a_model_that_ignores_a_flush_gets_its_way() {
    let mut drive = on_file(u64::MAX);
    let liar = Liar(Simple { capacity: MIB, volatile: 0, keeps: 0, last: 0 }, Vec::new());
    let backing = Place::Path(drive.file.path().into());
    // the honest one lets go of the file first
    drive.rig = Rig::new(
        open(DeviceId(0), DeviceConfig { backing: Place::Ram { bytes: MIB }, emulate: None })
            .unwrap(),
    );
    let config = DeviceConfig { backing, emulate: Some(Box::new(liar)) };
    drive.rig = Rig::new(open(DeviceId(0), config).unwrap());
    assert!(drive.rig.write(0, &[1; 4096], false).status.is_ok());
    assert!(drive.rig.run(IoOp::Flush).status.is_ok());
    assert!(drive.rig.write(4096, &[2; 4096], true).status.is_ok());
    assert_eq!(drive.survivors(2), [0, 2], "only FUA is honoured");
    assert_eq!(drive.rig.read(0, 4096).0, [1; 4096]);
}

/// What is written over a snapshot is read from it, and never reaches the device.
#[test]
fn a_snapshot_is_never_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all_at(&[7; 16384], 0).unwrap();
    let config = DeviceConfig { backing: Place::Snapshot(file.path().into()), emulate: None };
    let mut rig = Rig::new(open(DeviceId(0), config).unwrap());
    assert!(rig.write(0, &[1; 4096], false).status.is_ok());
    assert!(rig.write(4096, &[2; 4096], true).status.is_ok());
    let trim = IoOp::Trim { offset_bytes: 8192, length_bytes: 4096 };
    assert!(rig.run(trim).status.is_ok());
    assert!(rig.run(IoOp::Flush).status.is_ok());
    let meta = IoOp::WriteMeta { offset_bytes: 12288, bytes: vec![3; 512], fua: true };
    assert!(rig.run(meta).status.is_ok());
    let (bytes, _) = rig.read(0, 16384);
    let firsts: Vec<u8> = bytes.chunks_exact(512).step_by(8).map(|sector| sector[0]).collect();
    assert_eq!(firsts, [1, 2, 0, 3]);
    assert_eq!(bytes[13000], 7);
    drop(rig);
    assert_eq!(std::fs::read(file.path()).unwrap(), [7; 16384]);
}

/// Who hears late must not blame the drive: what it took is the model's time, not the host's.
#[test]
fn a_late_host_does_not_make_the_drive_slow() {
    let mut drive = on_file(u64::MAX);
    let op = drive.rig.write_op(0, &[7; 4096], false);
    let io = drive.rig.submit(op);
    let submitted = drive.rig.now();
    std::thread::sleep(std::time::Duration::from_millis(5)); // the host does something else
    let done = drive.rig.wait(io);
    assert!(drive.rig.now().since(submitted).ns >= 5_000_000);
    assert_eq!(done.took, Some(LATENCY));
}
