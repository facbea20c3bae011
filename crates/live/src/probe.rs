//! How is a real device asked while it is measured? Through the ring, past the page cache, alone.
//!
//! The thread spins where a wait may be short: one that sleeps would add its waking to every latency.
//! What has taken a millisecond already, as a seek does, can be woken for.
//!
//! A spinning thread knows when it was not running: its clock jumps. What has ended meanwhile counts as
//! ended when it was last seen under way, which is far nearer to the truth than a time slice of others;
//! a modelled drive's answer, when it was due.

use crate::clock::Clock;
use crate::device::{self, Device, DeviceConfig, DeviceContext, IoDone, OpenError};
use crate::payload::Payloads;
use crate::uring::{Finished, Ring, Submission};
use std::collections::VecDeque;
use tandem_block::{DeviceId, DriveOp, DriveOpKind, Duration, Instant, IoError, MIB, PayloadId};
use tandem_engine::profile::Probe;
use tandem_engine::{Io, IoId, IoOp};

/// Most that one command writes.
const WRITE_BYTES_MAX: usize = MIB as usize;
/// So long is spun; waking costs a fortieth of that (deps 3).
const SPIN_NS: u64 = 1_000_000;
/// Who spins sees the clock every few microseconds; beyond this others were running.
const AWAY_NS: u64 = 100_000;
/// A modelled drive's answer is spun for when it is as near as this.
const NEAR: Duration = Duration::from_us(200);
/// Longest sleep: a signal may have to be seen.
const SLEEP_MAX: Duration = Duration::from_ms(100);
/// A command that takes longer than this will not end.
const ENDLESS_NS: u64 = 300_000_000_000;

/// Why a device cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel gives no ring.
    #[error("the kernel gives no io_uring: {0}")]
    Ring(std::io::Error),
}

/// A device under measurement, locked.
pub struct LiveProbe {
    device: Box<dyn Device>,
    payloads: Payloads,
    ring: Ring,
    done: VecDeque<IoDone>,
    finished: Vec<Finished>,
    clock: Clock,
    next: u32,
    /// What is written: bytes that no drive can compress.
    noise: PayloadId,
}

impl LiveProbe {
    /// Opens and locks the device.
    ///
    /// # Errors
    /// If it cannot be used, or is in use.
    pub fn open(config: DeviceConfig) -> Result<LiveProbe, ProbeError> {
        let device = device::open(DeviceId(0), config)?;
        let ring = Ring::new(Submission::Eager).map_err(ProbeError::Ring)?;
        let mut payloads = Payloads::new(64 * MIB);
        let mut rng = tandem_block::Rng::new(1);
        let bytes: Vec<u8> =
            (0..WRITE_BYTES_MAX / 8).flat_map(|_| rng.bits().to_le_bytes()).collect();
        let noise = payloads.begin(bytes.len(), 0).expect("some MiB are there");
        payloads.fill(noise, 0, &bytes);
        payloads.seal(noise);
        Ok(LiveProbe {
            device,
            payloads,
            ring,
            done: VecDeque::new(),
            finished: Vec::new(),
            clock: Clock::start(),
            next: 0,
            noise,
        })
    }

    /// What requests to it begin and end at, in bytes: 512 or 4096.
    pub fn sector_bytes(&self) -> u64 {
        self.device.sector_bytes()
    }

    fn with(&mut self, act: impl FnOnce(&mut dyn Device, &mut DeviceContext<'_>)) {
        let LiveProbe { device, payloads, ring, done, clock, .. } = self;
        act(&mut **device, &mut DeviceContext { now: clock.now(), ring, payloads, done, owner: 0 });
    }

    fn io_op(&self, op: &DriveOp) -> IoOp {
        let (offset_bytes, length_bytes) = (op.offset_bytes, op.length_bytes);
        match op.kind {
            DriveOpKind::Read => IoOp::ReadMeta { offset_bytes, length_bytes },
            DriveOpKind::Write { fua } => {
                let from = self.noise;
                IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes: 0, fua }
            }
            DriveOpKind::Flush => IoOp::Flush,
            DriveOpKind::Trim => IoOp::Trim { offset_bytes, length_bytes },
        }
    }

    /// Sleeps until the ring or a modelled drive has something, if that is not near. Returns until when
    /// nothing can have ended, if that is known.
    fn sleep(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let due = self.device.due();
        if due <= now + NEAR {
            return None;
        }
        let sleep = Duration::from_ns(due.since(now).min(SLEEP_MAX).ns - NEAR.ns / 2);
        self.ring.wait(Some(sleep));
        let until = self.clock.now().ns.min((now + sleep).ns);
        Some(until)
    }

    /// One turn: what the ring has, and what a modelled drive's timer has.
    fn turn(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        self.ring.poll(&mut finished);
        for one in finished.drain(..) {
            self.with(|device, context| device.finished(one.tag.value, one.result, context));
        }
        self.finished = finished;
        if self.device.due() <= self.clock.now() {
            self.with(|device, context| device.tick(context));
        }
    }
}

impl Probe for LiveProbe {
    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    fn now_ns(&self) -> u64 {
        self.clock.now().ns
    }

    fn rest(&mut self, ns: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(ns));
    }

    fn keep(&mut self, depth: usize, ops: &[DriveOp]) -> Result<Vec<u64>, IoError> {
        let first = self.next;
        let mut latencies = vec![0; ops.len()];
        let mut begun = Vec::with_capacity(ops.len());
        let mut ended = 0;
        let mut last_ns = self.clock.now().ns;
        let mut seen_ns = last_ns;
        while ended < ops.len() {
            while begun.len() < ops.len() && begun.len() - ended < depth.max(1) {
                let op = self.io_op(&ops[begun.len()]);
                let io = Io { id: IoId(self.next), device: DeviceId(0), op };
                self.next = self.next.wrapping_add(1);
                begun.push(self.clock.now().ns);
                self.with(|device, context| device.submit(io, context));
            }
            // the kernel may do a real device's work while it is being asked
            if self.device.due() == Instant::NEVER {
                seen_ns = self.clock.now().ns;
            }
            if self.clock.now().ns > last_ns + SPIN_NS {
                seen_ns = self.sleep().unwrap_or(seen_ns);
            }
            let (before_ns, due) = (self.clock.now().ns, self.device.due());
            self.turn();
            let now = self.clock.now().ns;
            let is_modelled = due <= Instant::from_ns(now);
            let at = match now > seen_ns + AWAY_NS {
                true if is_modelled => due.ns.max(seen_ns),
                true => seen_ns,
                false => now,
            };
            while let Some(done) = self.done.pop_front() {
                done.status?;
                let index = done.io.0.wrapping_sub(first) as usize;
                latencies[index] = at.saturating_sub(begun[index]).max(1);
                (ended, last_ns) = (ended + 1, now);
            }
            seen_ns = before_ns;
            if now - last_ns > ENDLESS_NS {
                return Err(IoError::Device(DeviceId(0)));
            }
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Backing;
    use tandem_block::BLOCK_BYTES;
    use tandem_engine::profile::{Session, hdd};

    #[test]
    fn a_file_answers_each_command_once() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(MIB).expect("room");
        let backing = Backing::Path(file.path().to_owned());
        let mut probe = LiveProbe::open(DeviceConfig { backing, emulate: None }).expect("open");
        let write = DriveOpKind::Write { fua: false };
        let ops: Vec<DriveOp> = [write, DriveOpKind::Read, write, DriveOpKind::Read]
            .into_iter()
            .zip(0..)
            .map(|(kind, at)| DriveOp {
                kind,
                offset_bytes: at / 2 * BLOCK_BYTES,
                length_bytes: BLOCK_BYTES,
            })
            .collect();
        let latencies = probe.keep(1, &ops).expect("it works");
        assert!(latencies.len() == 4 && latencies.iter().all(|ns| *ns > 0), "{latencies:?}");
        assert_eq!(probe.keep(64, &ops).expect("it works").len(), 4);
        let beyond = DriveOp { kind: write, offset_bytes: MIB, length_bytes: BLOCK_BYTES };
        assert!(probe.keep(1, &[beyond]).is_err());
    }

    /// Reads alone: not one byte of the file may change.
    #[test]
    fn without_leave_nothing_is_written() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), vec![7; 64 << 20]).expect("room");
        let backing = Backing::Path(file.path().to_owned());
        let mut probe = LiveProbe::open(DeviceConfig { backing, emulate: None }).expect("open");
        let mut silent = |_| {};
        let found = hdd::measure(&mut Session::new(&mut probe, 0, &mut silent), false);
        let found = found.expect("reads need no budget");
        assert!(found.none().is_some_and(|why| why.contains("not allowed")));
        assert!(std::fs::read(file.path()).expect("it is there").iter().all(|byte| *byte == 7));
    }
}
