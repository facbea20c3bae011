//! Do file systems live on the FUSE file? Each volume is a file in a mount; a loop device over it is a
//! block device without nbd or ublk in the kernel.
//!
//! Source: acceptance of the spine, line 5: mkfs, mount, copy a tree, unmount, fsck clean, `check`
//! clean, for ext4 and for XFS. Needs root, for the mounts.

use super::{call, row};
use crate::row::Row;
use crate::served::{Pool, Undo};
use crate::{bench, cargo};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

const POOL: &str = r#"
[pool]
name = "files"
[[device]]
role = "ssd"
path = "ssd.img"
size = "4GiB"
[[device]]
role = "hdd"
path = "hdd.img"
size = "8GiB"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "2GiB"
steer = "mios-d"
[serve]
nbd = ["unix:tandem.sock"]
fuse = "mnt"
"#;

/// A file system and how it is made and checked.
struct FileSystem {
    name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const FILE_SYSTEMS: [FileSystem; 2] = [
    FileSystem { name: "ext4", make: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-f", "-n"] },
    FileSystem { name: "XFS", make: &["mkfs.xfs", "-q", "-f"], check: &["xfs_repair", "-n"] },
];

pub(super) fn rows(tandem: &Path) -> Vec<Row> {
    let one = |system: &FileSystem| {
        let wanted = format!(
            "{} on the FUSE file through a loop device: a tree is copied, fsck and check are clean",
            system.name
        );
        row(wanted, copy_a_tree(tandem, system))
    };
    FILE_SYSTEMS.iter().map(one).collect()
}

fn copy_a_tree(tandem: &Path, system: &FileSystem) -> Result<String> {
    let pool = Pool::new(tandem, &bench::folder(), POOL)?;
    std::fs::create_dir_all(pool.folder().join("mnt"))?;
    pool.call(&["format", "--yes"])?;
    let server = pool.serve()?;
    let file = pool.folder().join("mnt").join("vol0");
    if !file.exists() {
        bail!("{} is not there: the volume is not mounted", file.display());
    }
    let copied = on_a_loop_device(&pool, &file, system)?;
    server.stop()?;
    pool.call(&["check"])?;
    Ok(copied)
}

fn on_a_loop_device(pool: &Pool, file: &Path, system: &FileSystem) -> Result<String> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path in UTF-8");
    let device = call("losetup", &["--direct-io=on", "--find", "--show", &text(file)?])?;
    let device = device.trim();
    let _loop = Undo::new(&["losetup", "--detach", device]);
    let with_device = |words: &[&str]| {
        let (program, rest) = words.split_first().context("a program")?;
        call(program, &[rest, &[device]].concat())
    };
    with_device(system.make)?;
    let mounted = pool.folder().join("mounted");
    std::fs::create_dir_all(&mounted)?;
    let (mounted, source) = (text(&mounted)?, cargo::root());
    let mut files = 0;
    for round in ["copied", "read back"] {
        call("mount", &[device, &mounted])?;
        let _mount = Undo::new(&["umount", &mounted]);
        for folder in ["crates", "xtask", "docs"] {
            let (from, into) = (text(&source.join(folder))?, format!("{mounted}/{folder}"));
            if round == "copied" {
                call("cp", &["-a", &from, &into])?;
                files += count(&source.join(folder))?;
            } else {
                call("diff", &["-r", &from, &into])?;
            }
        }
        call("sync", &["-f", &mounted])?;
        call("umount", &[&mounted])?;
    }
    with_device(system.check)?;
    Ok(format!("{files} files copied and read back, fsck clean, check clean"))
}

fn count(folder: &Path) -> Result<u64> {
    let mut files = 0;
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                files += 1;
            }
        }
    }
    Ok(files)
}
