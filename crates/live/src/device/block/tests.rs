//! Does a file answer as a drive does?

use super::super::rig::Rig;
use super::super::{Backing, DeviceConfig, open};
use super::*;

const SIZE: u64 = 1 << 20;

fn rigs() -> Vec<(tempfile::NamedTempFile, Rig)> {
    // one beside the build (a disk), one in shared memory (where direct I/O may be refused)
    let folders = [std::env::temp_dir(), "/dev/shm".into()];
    let make = |folder: std::path::PathBuf| {
        let file = tempfile::NamedTempFile::new_in(folder).ok()?;
        file.as_file().set_len(SIZE).unwrap();
        let config = DeviceConfig { backing: Backing::Path(file.path().into()), emulate: None };
        Some((file, Rig::new(open(DeviceId(3), config).unwrap())))
    };
    folders.into_iter().filter_map(make).collect()
}

#[test]
fn what_is_written_is_read_at_any_sector() {
    for (_file, mut rig) in rigs() {
        for (index, (at, length)) in
            [(0, 4096), (512, 512), (8192 + 1536, 65536), (SIZE - 4096, 4096)]
                .into_iter()
                .enumerate()
        {
            let byte = index as u8 + 1;
            let done = rig.write(at, &vec![byte; length as usize], index % 2 == 0);
            assert_eq!(
                (done.status, done.blocks.is_some()),
                (Ok(()), at % 4096 == 0 && length % 4096 == 0)
            );
            assert!(rig.run(IoOp::Flush).status.is_ok());
            let (bytes, done) = rig.read(at, length);
            assert!(done.status.is_ok() && bytes.iter().all(|b| *b == byte), "{at}+{length}");
        }
        rig.run(IoOp::WriteMeta { offset_bytes: 512, bytes: vec![8; 1024], fua: true });
        let done = rig.run(IoOp::ReadMeta { offset_bytes: 0, length_bytes: 2048 });
        assert_eq!(done.bytes, [[1; 512], [8; 512], [8; 512], [1; 512]].concat());
        assert!(rig.run(IoOp::Trim { offset_bytes: 0, length_bytes: 8192 }).status.is_ok());
        assert_eq!(rig.read(0, 8192).0, vec![0; 8192]);
    }
}

#[test]
fn beyond_the_end_is_an_error_and_so_is_a_file_that_was_cut() {
    for (file, mut rig) in rigs() {
        assert_eq!(rig.write(SIZE, &[1; 512], false).status, Err(IoError::OutOfRange));
        assert_eq!(rig.read(SIZE - 512, 1024).1.status, Err(IoError::OutOfRange));
        file.as_file().set_len(4096).unwrap();
        let (bytes, done) = rig.read(8192, 4096);
        assert_eq!((done.status, bytes), (Err(IoError::Device(DeviceId(3))), vec![0; 4096]));
    }
}

#[test]
fn many_commands_are_under_way_at_once() {
    for (_file, mut rig) in rigs() {
        let mut waiting = Vec::new();
        for block in 0..64u8 {
            let op = rig.write_op(u64::from(block) * 4096, &[block; 4096], false);
            waiting.push(rig.submit(op));
        }
        for io in waiting {
            assert!(rig.wait(io).status.is_ok());
        }
        for block in 0..64u8 {
            assert_eq!(rig.read(u64::from(block) * 4096, 4096).0, vec![block; 4096]);
        }
    }
}

/// A loop device over a file, if this user may make one; removed when dropped.
struct Loop {
    path: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    /// Of so many bytes, with sectors of this size.
    fn attach(bytes: u64, sector_bytes: u64) -> Option<Loop> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let output = std::process::Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on", "--sector-size"])
            .arg(sector_bytes.to_string())
            .arg(file.path())
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8(output.stdout).unwrap().trim().to_owned();
                Some(Loop { path, _file: file })
            }
            _ => {
                println!("skipped: no loop device can be made here (root and losetup are needed)");
                None
            }
        }
    }

    fn config(&self) -> DeviceConfig {
        DeviceConfig { backing: Backing::Path(self.path.clone().into()), emulate: None }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[test]
fn needs_root_a_block_device_trims_and_is_exclusive() {
    let Some(device) = Loop::attach(SIZE, 512) else { return };
    let mut rig = Rig::new(open(DeviceId(0), device.config()).unwrap());
    assert_eq!(rig.device.capacity_bytes(), SIZE);
    assert!(rig.write(0, &[5; 65536], true).status.is_ok());
    assert!(rig.write(512, &[6; 512], false).status.is_ok());
    assert!(rig.run(IoOp::Flush).status.is_ok());
    let (bytes, _) = rig.read(0, 4096);
    assert_eq!((bytes[0], bytes[512], bytes[1024]), (5, 6, 5));
    assert!(rig.run(IoOp::Trim { offset_bytes: 4096, length_bytes: 8192 }).status.is_ok());
    let (bytes, _) = rig.read(0, 16384);
    assert_eq!((bytes[4095], bytes[4096], bytes[12287], bytes[12288]), (5, 0, 0, 5));
    let second = OpenedFile::open_once(device.path.as_ref(), true).expect_err("it is in use");
    assert!(matches!(second, super::super::OpenError::InUse { .. }), "{second}");
}

/// A drive whose sectors are blocks: any sectors of a request can be read, and blocks alone are written.
#[test]
fn needs_root_a_drive_with_large_sectors() {
    const BYTES: u64 = 8 << 20;
    let Some(device) = Loop::attach(BYTES, 4096) else { return };
    let mut rig = Rig::new(open(DeviceId(0), device.config()).unwrap());
    let written: Vec<u8> = (0..BYTES / 512).flat_map(|sector| [sector as u8; 512]).collect();
    assert!(rig.write(0, &written, true).status.is_ok());
    // (where, how much): part of a block, over blocks, the last sector, and more than one piece of a buffer
    for (at, length) in [
        (0, 4096),
        (512, 512),
        (3584, 1024),
        (BYTES - 512, 512),
        (1536, PIECE_BYTES_MAX),
        (4096 - 512, 3 * PIECE_BYTES_MAX + 1024),
    ] {
        let (bytes, done) = rig.read(at, length);
        assert_eq!(done.status, Ok(()), "{at}+{length}");
        assert!(bytes == written[at as usize..(at + length) as usize], "{at}+{length}");
        let is_whole = (at | length).is_multiple_of(4096);
        assert_eq!(done.blocks.is_some(), is_whole, "{at}+{length}: only blocks have checksums");
    }
    // blocks that go to an odd sector of memory
    let into = PayloadId(PayloadId::ENGINE_BIT | 1 << 40);
    rig.payloads.reserve(into, 16384);
    let (offset_bytes, length_bytes) = (8192, 8192);
    let op = IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes: 512 };
    let done = rig.run(op);
    assert_eq!((done.status, done.blocks), (Ok(()), Some((into, 512, 8192))));
    let mut read = Vec::new();
    rig.payloads.append_to(into, 512, 8192, &mut read);
    assert!(read == written[8192..16384]);
    // nothing smaller is written
    for at in [512, 4096] {
        assert_eq!(rig.write(at, &[1; 512], false).status, Err(IoError::OutOfRange), "{at}");
    }
    let op = IoOp::WriteMeta { offset_bytes: 512, bytes: vec![8; 4096], fua: true };
    assert_eq!(rig.run(op).status, Err(IoError::OutOfRange));
    assert!(rig.run(IoOp::Trim { offset_bytes: 4096, length_bytes: 8192 }).status.is_ok());
    let (bytes, _) = rig.read(3584, 1024);
    assert_eq!((bytes[0], bytes[512]), (written[3584], 0));
}

/// A file on a file system with large blocks. While it is sparse nobody can tell.
#[test]
fn needs_root_a_file_on_a_file_system_with_large_blocks() {
    let Some(device) = Loop::attach(64 << 20, 4096) else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, words: &[&str]| {
        let output = std::process::Command::new(program).args(words).output();
        output.is_ok_and(|output| output.status.success())
    };
    let mount = folder.path().to_str().unwrap();
    let is_there = run("mkfs.ext4", &["-q", &device.path]) && run("mount", &[&device.path, mount]);
    if !is_there {
        println!("skipped: ext4 cannot be made and mounted here");
        return;
    }
    let path = folder.path().join("drive");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    for life in 0..2 {
        let config = DeviceConfig { backing: Backing::Path(path.clone()), emulate: None };
        let mut rig = Rig::new(open(DeviceId(0), config).unwrap());
        if life == 0 {
            assert!(rig.write(0, &[5; 65536], true).status.is_ok());
        }
        for (at, length) in [(512, 512), (4096, 4096), (3584, 9216), (65024, 512)] {
            let (bytes, done) = rig.read(at, length);
            assert_eq!(done.status, Ok(()), "life {life}: {at}+{length}");
            assert_eq!(bytes, vec![5; length as usize], "life {life}: {at}+{length}");
        }
    }
    assert!(run("umount", &[mount]));
}

#[test]
fn needs_root_sectors_of_another_size_are_refused() {
    let Some(device) = Loop::attach(SIZE, 2048) else { return };
    let error =
        OpenedFile::open(device.path.as_ref(), true).expect_err("none has such").to_string();
    for words in [device.path.as_str(), "sectors of 2048 bytes", "512 or 4096", "sg_format"] {
        assert!(error.contains(words), "{error}");
    }
}

/// Bytes of sectors come in any pieces: what is wanted of them is taken, and nothing else changes.
#[test]
fn a_part_of_sectors_is_taken_from_whatever_comes() {
    let read: Vec<u8> = (0..12288u32).map(|byte| (byte / 7) as u8).collect();
    for (skip, length) in [(512, 512), (0, 4096), (3584, 8192), (512, 11_776), (11_776, 512)] {
        for pieces in [vec![12288], vec![4096; 3], vec![512; 24], vec![3584, 8192, 512]] {
            let (into, piece) = (Rc::new(Memory::zeroed(16384)), Memory::zeroed(12288));
            let part = Part { into: Rc::clone(&into), into_at: 1024, skip, length };
            let mut from = 0;
            for bytes in pieces {
                piece.write(0, &read[from as usize..(from + bytes) as usize]);
                part.take(&piece, 0, from, bytes);
                from += bytes;
            }
            let mut found = Vec::new();
            into.append_to(0, 16384, &mut found);
            let (skip, length) = (skip as usize, length as usize);
            assert!(found[1024..1024 + length] == read[skip..skip + length], "{skip}+{length}");
            assert!(found[..1024].iter().chain(&found[1024 + length..]).all(|byte| *byte == 0));
        }
    }
}
