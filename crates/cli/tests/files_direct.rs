//! Do handles that go past the kernel's memory and those that use it show one file?

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::mounting::{end, has_fuse, mount, with_point};
use crate::support::program::{printed, told};
use crate::support::synced::{Cleared, Mounted};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tandem_block::Rng;

fn files() -> String {
    PoolText::named("p").ssd("512MiB").files("files").mounted().text()
}

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

/// A mounted pool, unless there is no FUSE, which is said.
fn mounted() -> Option<(Mounted, PoolFixture, PathBuf, Cleared)> {
    if !has_fuse("handles that go past the kernel's memory") {
        return None;
    }
    let (pool, point, cleared) = with_point(&files());
    Some((mount(&pool, &point), pool, point, cleared))
}

fn direct(path: &Path) -> File {
    let flags = OFlags::DIRECT.bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).open(path).unwrap()
}

/// Whoever writes, all see it: through the kernel's memory, past it, and by a handle that was opened
/// before or after.
#[test]
fn what_one_handle_writes_all_others_see() {
    let Some((mounted, pool, point, _cleared)) = mounted() else { return };
    let path = point.join("shared");
    fs::write(&path, vec![0; BLOCK * BLOCKS as usize]).unwrap();
    let mut expected = vec![0; BLOCK * BLOCKS as usize];
    let cached = File::options().read(true).write(true).open(&path).unwrap();
    let mut past = direct(&path);
    let mut rng = Rng::new(1);
    for round in 0..3000u32 {
        // in blocks, and now and then at any byte
        let any = rng.below(8) == 0;
        let length = if any { rng.between(1, 9000) } else { rng.between(1, 4) * BLOCK as u64 };
        let whole = expected.len() as u64;
        let at = rng.below(whole - length);
        let at = if any { at } else { at / BLOCK as u64 * BLOCK as u64 };
        let range = at as usize..(at + length) as usize;
        let mut bytes = vec![0; length as usize];
        match rng.below(5) {
            0 | 1 => {
                bytes.fill_with(|| round as u8 ^ rng.bits() as u8);
                let writer = if rng.below(2) == 0 { &cached } else { &past };
                writer.write_all_at(&bytes, at).unwrap();
                expected[range].copy_from_slice(&bytes);
            }
            2 => {
                past.read_exact_at(&mut bytes, at).unwrap();
                assert!(bytes == expected[range], "past the memory, round {round}");
            }
            3 => {
                cached.read_exact_at(&mut bytes, at).unwrap();
                assert!(bytes == expected[range], "through the memory, round {round}");
            }
            _ => past = direct(&path),
        }
    }
    assert!(fs::read(&path).unwrap() == expected);
    drop((cached, past));
    end(mounted, &pool);
}

/// Side by side: each block is what one of its writers wrote last, and grows with the file.
#[test]
fn direct_writers_of_one_file_go_side_by_side() {
    let Some((mounted, pool, point, _cleared)) = mounted() else { return };
    let path = point.join("many");
    fs::write(&path, vec![0; BLOCK * BLOCKS as usize / 2]).unwrap();
    let block = |writer: u64, round: u64| vec![(writer * 60 + round) as u8; BLOCK];
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (path, block) = (&path, &block);
            scope.spawn(move || {
                // half of them begin behind the end, and one uses the kernel's memory
                let cached = File::options().read(true).write(true).open(path).unwrap();
                let past = direct(path);
                let file = if writer == 3 { &cached } else { &past };
                for round in 1..60 {
                    for at in (writer..BLOCKS).step_by(4) {
                        file.write_all_at(&block(writer, round), at * BLOCK as u64).unwrap();
                    }
                    let mut found = vec![0; BLOCK];
                    let at = writer + 4 * (round % (BLOCKS / 4));
                    cached.read_exact_at(&mut found, at * BLOCK as u64).unwrap();
                    assert!(found == block(writer, round), "{writer} reads what it wrote");
                }
            });
        }
    });
    let found = fs::read(&path).unwrap();
    assert_eq!(found.len(), BLOCK * BLOCKS as usize);
    for (at, found) in (0..).zip(found.chunks_exact(BLOCK)) {
        assert!(found == block(at % 4, 59), "block {at}");
    }
    end(mounted, &pool);
}

/// A file that was opened past the kernel's memory can be mapped and shared all the same.
#[test]
fn files_opened_for_direct_io_can_be_mapped() {
    let Some((mounted, pool, point, _cleared)) = mounted() else { return };
    if Command::new("fio").arg("--version").output().is_err() {
        println!("skipped: this needs fio, so maps of direct files are NOT tested");
        return;
    }
    let fio = |engine: &str, more: &[&str]| {
        let mut fio = Command::new("timeout");
        fio.args(["60", "fio", "--name=map", "--rw=randwrite", "--bs=4k"])
            // small: with direct=1 fio's maps are synchronised after each write
            .args(["--size=1m", "--direct=1", "--verify=crc32c", "--end_fsync=1", "--randseed=7"])
            .arg(format!("--ioengine={engine}"))
            .arg(format!("--filename={}", point.join("mapped").display()))
            .args(more)
            .current_dir(pool.folder.path())
            .stdin(Stdio::null());
        let output = fio.output().unwrap();
        assert!(output.status.success(), "{engine}: {}{}", printed(&output), told(&output));
    };
    fio("mmap", &[]);
    fio("psync", &["--verify_only"]);
    fio("psync", &["--verify_only", "--direct=0"]);
    // many at once, which the kernel sends as they come
    fio("libaio", &["--iodepth=32"]);
    fio("mmap", &["--verify_only"]);
    end(mounted, &pool);
}

/// A program that somebody else has written to does not run as its owner any more.
#[test]
fn writers_without_the_right_take_the_privileges_of_a_program() {
    let Some((mounted, pool, point, _cleared)) = mounted() else { return };
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !has_setpriv || !rustix::process::geteuid().is_root() {
        println!("skipped: this needs setpriv and root, so set-user-ID is NOT tested");
        return;
    }
    let path = point.join("program");
    // version 2, CAP_NET_RAW, as setcap writes it
    let capability = [&[1, 0, 0, 2, 0, 0x20][..], &[0; 14]].concat();
    let privileged = || {
        fs::write(&path, [1; 8192]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        let set =
            rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty());
        set.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6755);
    };
    let found = || {
        let mut value = [0; 64];
        let has = rustix::fs::getxattr(&path, "security.capability", &mut value[..]);
        assert!(has == Err(Errno::NODATA) || has == Ok(20), "{has:?}");
        (fs::metadata(&path).unwrap().mode() & 0o7777, has.is_ok())
    };
    let dd = |words: &[&str]| {
        let mut dd = Command::new("setpriv");
        dd.args(["--inh-caps=-fsetid", "--bounding-set=-fsetid", "dd", "status=none"])
            .args(["if=/dev/zero", "bs=4096", "count=1"])
            .arg(format!("of={}", path.display()))
            .args(words);
        let output = dd.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", told(&output));
    };
    for words in [&["conv=notrunc"][..], &["conv=notrunc", "oflag=direct"], &[]] {
        privileged();
        dd(words);
        assert_eq!(found(), (0o755, false), "{words:?}");
    }
    privileged();
    std::os::unix::fs::chown(&path, Some(1), None).unwrap();
    assert_eq!(found(), (0o755, false), "another owner");
    // who has the right leaves the mode as it is
    privileged();
    direct(&path).write_all_at(&[2; 512], 512).unwrap();
    assert_eq!(found(), (0o6755, false));
    end(mounted, &pool);
}
