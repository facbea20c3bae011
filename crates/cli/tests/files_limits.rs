//! What does a mount say at its limits, and to whom does it speak?

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::mounting::{end, errno, has_fuse, mount_as, with_point};
use crate::support::program::told;
use crate::support::synced::Cleared;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
/// With a volume of blocks beside it, whose room is reserved.
fn files() -> String {
    PoolText::named("p")
        .ssd("64MiB")
        .hdd("192MiB")
        .files("files")
        .mounted()
        .volume("vol0", "64MiB")
        .text()
}

/// A formatted pool with an empty mount point, unless there is no FUSE, which is said.
fn prepared() -> Option<(PoolFixture, PathBuf, Cleared)> {
    has_fuse("limits of files").then(|| with_point(&files()))
}

/// Too large is another error than full, and neither hurts what is there.
#[test]
fn a_file_is_too_large_before_a_pool_is_full() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount_as(&pool, &point, &[]);
    const LARGEST: u64 = (1 << 52) - 2 * 4096;
    const EFBIG: Option<i32> = Some(27);
    let path = point.join("large");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"last", LARGEST - 4).unwrap();
    // over the edge: what fits, or nothing
    match file.write_at(b"more", LARGEST - 3) {
        Ok(count) => assert!(count <= 3, "{count}"),
        Err(error) => assert_eq!(error.raw_os_error(), EFBIG),
    }
    file.write_all_at(b"last", LARGEST - 4).unwrap();
    for beyond in [LARGEST, 1 << 52, 1 << 53, 1 << 62, (1 << 63) - 10] {
        assert_eq!(errno(file.write_at(b"more", beyond)), EFBIG, "{beyond}");
    }
    for size in [LARGEST + 1, 1 << 52, 1 << 62] {
        assert_eq!(errno(file.set_len(size)), EFBIG, "{size}");
    }
    assert_eq!(file.metadata().unwrap().len(), LARGEST);
    let mut found = [0; 5];
    file.read_exact_at(&mut found, LARGEST - 5).unwrap();
    assert_eq!(&found, b"\0last");
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"first");
    file.set_len(LARGEST).unwrap();
    file.set_len(5).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first");
    end(mounted, &pool);
}

/// What `df` says is free can be written, and no more; what others have reserved is not in it.
#[test]
fn free_room_is_what_can_be_written() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount_as(&pool, &point, &[]);
    let room = || {
        let stat = rustix::fs::statvfs(&point).unwrap();
        assert_eq!(stat.f_bfree, stat.f_bavail);
        (stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)
    };
    let (total, free) = room();
    // a pool of 256 MiB keeps logs, journal and the like; 64 MiB are the other volume's
    assert!(total <= 192 * MIB && free <= total, "{free} of {total}");
    let bytes = |number: u64| vec![(number % 250) as u8 + 1; 64 << 10];
    let file = File::create_new(point.join("full")).unwrap();
    let mut written = 0;
    let why = loop {
        match file.write_all_at(&bytes(written >> 16), written) {
            Ok(()) => written += 64 << 10,
            Err(error) => break error,
        }
        assert!(written < 256 * MIB, "it is never full");
    };
    assert_eq!(why.raw_os_error(), Some(28));
    assert!(written.abs_diff(free) < MIB, "{free} were free, {written} written");
    let (total_now, left) = room();
    assert!(total_now == total && left < MIB, "{left} of {total_now}");
    let whole = fs::read(point.join("full")).unwrap();
    for (number, found) in (0..written >> 16).zip(whole.chunks(64 << 10)) {
        assert!(found == bytes(number), "{number}");
    }
    drop(file);
    fs::remove_file(point.join("full")).unwrap();
    File::open(&point).unwrap().sync_all().unwrap();
    assert!(room().1.abs_diff(free) < MIB, "all of it is free again");
    end(mounted, &pool);
}

/// An errno cannot say why; the log does, once.
#[test]
fn a_tier_that_is_refused_is_explained() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount_as(&pool, &point, &[]);
    fs::write(point.join("f"), "x").unwrap();
    for wanted in ["lukewarm", "hot"] {
        let set = rustix::fs::setxattr(
            point.join("f"),
            "user.tandem.tier",
            wanted.as_bytes(),
            XattrFlags::empty(),
        );
        assert_eq!(set, Err(Errno::OPNOTSUPP));
    }
    let mut value = [0; 16];
    let found = rustix::fs::getxattr(point.join("f"), "user.tandem.tier", &mut value[..]);
    assert_eq!(found, Err(Errno::NODATA));
    let said = end(mounted, &pool);
    assert!(said.contains("\"lukewarm\"") && said.contains("`file_tiers`"), "{said}");
    assert!(!said.contains("\"hot\""), "once is enough: {said}");
}

/// Others come in if they are let in, and then as far as permissions go.
#[test]
fn other_users_come_in_where_they_are_let_in() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    fs::set_permissions(pool.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let other = |words: &[&str], path: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(words);
        command.arg(path).stdin(Stdio::null()).output()
    };
    let can = other(&["ls", "-d"], &point).is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: this needs setpriv and root, so other users are NOT tested");
        return;
    }
    for (words, is_open) in [(&[][..], false), (&["--allow-other"], true)] {
        let mounted = mount_as(&pool, &point, words);
        for (name, mode) in [("all", 0o644), ("own", 0o600)] {
            fs::write(point.join(name), name).unwrap();
            fs::set_permissions(point.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let read = other(&["cat"], &point.join("all")).unwrap();
        assert_eq!(read.status.success(), is_open, "{read:?}");
        assert_eq!(read.stdout == b"all", is_open);
        let own = other(&["cat"], &point.join("own")).unwrap();
        assert!(!own.status.success() && told(&own).contains("ermission denied"), "{own:?}");
        let made = other(&["touch"], &point.join("new")).unwrap();
        assert!(!made.status.success(), "the directory is not theirs");
        end(mounted, &pool);
    }
    // the configuration says the same
    let open = files().replace("mount = \"mnt\"", "mount = \"mnt\"\nallow_other = true");
    fs::write(&pool.config, open).unwrap();
    let mounted = mount_as(&pool, &point, &[]);
    assert!(other(&["cat"], &point.join("all")).unwrap().status.success());
    end(mounted, &pool);
}
