//! Do copies of files within a mount share blocks, and do both files keep what is theirs?
//!
//! Requirement L4. The real program over emulated drives, which lose what was not flushed when it dies.

use crate::support::PoolFixture;
use crate::support::mounting::{has_fuse, mount, with_point};
use crate::support::program::told;
use crate::support::synced::{Cleared, EMULATED};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tandem_block::Rng;

const MIB: usize = 1 << 20;

/// An empty mount point, unless there is no FUSE, which is said.
fn prepared() -> Option<(PoolFixture, PathBuf, Cleared)> {
    has_fuse("clones of files").then(|| with_point(EMULATED))
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.bits() as u8).collect()
}

fn free_bytes(point: &Path) -> u64 {
    let found = rustix::fs::statvfs(point).unwrap();
    found.f_bfree * found.f_frsize
}

/// As `cp` does: again and again until nothing is left. Gives how many bytes went at once.
fn copied(from: &Path, to: &Path) -> Vec<usize> {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    let mut steps = Vec::new();
    loop {
        match rustix::fs::copy_file_range(&from, None, &to, None, 1 << 40) {
            Ok(0) => return steps,
            Ok(bytes) => steps.push(bytes),
            Err(Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_copy_takes_no_room_and_keeps_what_it_has() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount(&pool, &point);
    let (one, two, three) = (point.join("one"), point.join("two"), point.join("three"));
    let mut bytes = noise(1, 16 * MIB + 1234);
    fs::write(&one, &bytes).unwrap();
    File::open(&one).unwrap().sync_all().unwrap();
    let before = free_bytes(&point);
    assert_eq!(copied(&one, &two).iter().sum::<usize>(), bytes.len());
    let output = Command::new("cp").arg("--reflink=auto").args([&one, &three]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let taken = before.saturating_sub(free_bytes(&point));
    assert!(taken < MIB as u64, "two clones of 16 MiB took {taken} bytes");
    assert!(fs::read(&two).unwrap() == bytes && fs::read(&three).unwrap() == bytes);
    // whole blocks, parts of blocks, the end, and a hole
    let file = File::options().write(true).open(&one).unwrap();
    let kept = bytes.clone();
    for (at, length) in [(0, 8192), (5 * MIB + 100, 700), (9 * MIB, 3 * MIB), (16 * MIB, 1234)] {
        let new = noise(at as u64 + 7, length);
        file.write_all_at(&new, at as u64).unwrap();
        bytes[at..at + length].copy_from_slice(&new);
    }
    file.set_len(17 * MIB as u64).unwrap();
    bytes.resize(17 * MIB, 0);
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 13 * MIB as u64 + 50, MIB as u64).unwrap();
    bytes[13 * MIB + 50..14 * MIB + 50].fill(0);
    file.sync_all().unwrap();
    // what was flushed is there after a crash, in all of them
    mounted.kill();
    let mounted = mount(&pool, &point);
    assert!(fs::read(&one).unwrap() == bytes, "as it was written");
    assert!(fs::read(&two).unwrap() == kept && fs::read(&three).unwrap() == kept, "as before");
    fs::remove_file(&one).unwrap();
    fs::remove_file(&three).unwrap();
    assert!(fs::read(&two).unwrap() == kept, "alone");
    assert!(mounted.stop().0.success());
    pool.done("check", &[]);
}

/// What does not lie in whole blocks is copied by the kernel, and nobody sees a difference.
#[test]
fn any_range_can_be_copied() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount(&pool, &point);
    let (one, two) = (point.join("one"), point.join("two"));
    let from = noise(3, 3 * MIB);
    let mut to = noise(4, 2 * MIB);
    fs::write(&one, &from).unwrap();
    fs::write(&two, &to).unwrap();
    let (source, target) =
        (File::open(&one).unwrap(), File::options().write(true).open(&two).unwrap());
    let mut rng = Rng::new(5);
    for round in 0..60 {
        let grain = [1, 4096][round % 2];
        let length = rng.between(1, MIB as u64 / grain) * grain;
        let at = rng.below((from.len() as u64 - length) / grain + 1) * grain;
        let into = rng.below(2 * MIB as u64 / grain) * grain;
        let (mut read, mut written) = (at, into);
        while read < at + length {
            let rest = (at + length - read) as usize;
            let step = rustix::fs::copy_file_range(
                &source,
                Some(&mut read),
                &target,
                Some(&mut written),
                rest,
            );
            assert!(step.unwrap() > 0, "round {round}");
        }
        let end = (into + length) as usize;
        to.resize(to.len().max(end), 0);
        to[into as usize..end].copy_from_slice(&from[at as usize..(at + length) as usize]);
        assert!(fs::read(&two).unwrap() == to, "round {round}: {length} from {at} to {into}");
    }
    assert!(fs::read(&one).unwrap() == from);
    assert!(mounted.stop().0.success());
    pool.done("check", &[]);
}
