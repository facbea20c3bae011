//! Does a pool work over bare block devices, and is one that somebody else uses left alone?
//!
//! Source: acceptance of the spine, bad input. Loop devices stand for drives; where they cannot be
//! made (no root, no loop module), these tests say so and skip.

use crate::support::PoolFixture;
use crate::support::fixture::is_refusal;
use crate::support::program::{json, printed, told};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A loop device over a file of its own; detached at the end.
struct Loop {
    path: String,
    mounted: Option<PathBuf>,
}

impl Loop {
    /// `None`, and says why, where there are none.
    fn over(file: &Path, bytes: u64) -> Option<Loop> {
        Self::with_sectors(file, bytes, 512)
    }

    /// The same with sectors of this size.
    fn with_sectors(file: &Path, bytes: u64, sector_bytes: u64) -> Option<Loop> {
        File::create(file).unwrap().set_len(bytes).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector_bytes.to_string()])
            .arg(file)
            .output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Loop { path: printed(&made).trim().into(), mounted: None })
            }
            Ok(made) => skip(&told(&made)),
            Err(error) => skip(&error.to_string()),
        }
    }

    /// Makes a file system and mounts it.
    fn mount(&mut self, point: PathBuf) -> bool {
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program).args(arguments).output().is_ok_and(|it| it.status.success())
        };
        std::fs::create_dir(&point).unwrap();
        let to = point.to_str().unwrap();
        let done = run("mkfs.ext4", &["-q", &self.path]) && run("mount", &[&self.path, to]);
        if done {
            self.mounted = Some(point);
        } else {
            println!(
                "skipped: ext4 cannot be made and mounted here, so mounted drives are NOT tested"
            );
        }
        done
    }

    fn unmount(&mut self) {
        if let Some(point) = self.mounted.take() {
            let _ = Command::new("umount").arg(point).status();
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

fn skip(why: &str) -> Option<Loop> {
    println!("skipped: loop devices cannot be made here ({why}), so block devices are NOT tested");
    None
}

/// A pool over an SSD and a hard drive.
fn pool_over(ssd: &str, hdd: &str) -> PoolFixture {
    PoolFixture::new(&format!(
        "[pool]\nname = \"bare\"\n[[device]]\nrole = \"ssd\"\npath = {ssd:?}\n[[device]]\n\
         role = \"hdd\"\npath = {hdd:?}\n[[volume]]\nname = \"vol0\"\nsize = \"32MiB\"\n[serve]\n\
         nbd = [\"unix:tandem.sock\"]\n"
    ))
}

fn content(round: u64) -> Vec<u8> {
    (round + 1).to_le_bytes().repeat(8192)
}

#[test]
fn needs_loop_a_pool_over_block_devices() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ssd) = Loop::over(&folder.path().join("a"), 64 << 20) else { return };
    let Some(hdd) = Loop::over(&folder.path().join("b"), 128 << 20) else { return };
    let pool = pool_over(&ssd.path, &hdd.path);
    let made = pool.run("format", &["--json", "--yes"]);
    assert!(made.status.success(), "{}", told(&made));
    assert_eq!(json(&made)["devices"][1]["bytes"], 128 << 20);
    for round in 0..6 {
        let server = pool.start();
        let mut target = pool.nbd();
        for known in 0..round {
            assert!(target.read(known * 65536, 65536).unwrap() == content(known), "round {known}");
        }
        target.write(round * 65536, &content(round), false).unwrap();
        target.flush().unwrap();
        if round == 0 {
            assert!(pool.status()["commits"].as_u64().unwrap() > 0);
            let Err(second) = pool.serve(&[]) else { panic!("twice") };
            let (text, process) = (told(&second), format!("by process {}", server.id()));
            assert!(text.contains(&ssd.path) && text.contains(&process), "{text}");
        }
        // every other life ends with SIGKILL
        if round % 2 == 0 { server.kill() } else { assert!(server.stop().0.success()) }
    }
    let check = pool.run("check", &["--json"]);
    assert!(check.status.success(), "{}", told(&check));
    assert_eq!(json(&check)["volumes"][0]["data_bytes"], 6 * 65536);
    let again = pool.run("format", &[]);
    assert!(told(&again).contains("a Tandem pool"), "{}", told(&again));
}

/// Drives whose sectors are blocks serve requests of any sectors, and keep what they were told.
#[test]
fn needs_loop_drives_with_large_sectors_take_requests_of_any_sectors() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name, bytes, sector| Loop::with_sectors(&folder.path().join(name), bytes, sector);
    for (ssd_sector, hdd_sector) in [(4096, 4096), (512, 4096)] {
        let Some(ssd) = made("a", 64 << 20, ssd_sector) else { return };
        let Some(hdd) = made("b", 128 << 20, hdd_sector) else { return };
        let pool = pool_over(&ssd.path, &hdd.path);
        let format = pool.run("format", &["--json", "--yes"]);
        assert!(format.status.success(), "{}", told(&format));
        let mut known = vec![0u8; 1 << 20];
        for round in 0..4u8 {
            let server = pool.start();
            let mut target = pool.nbd();
            for step in 0..40 {
                let at = (usize::from(round) * 40 + step) * 3 * 1536 % (known.len() - 65536);
                let length = [512, 1024, 4096, 9728, 65536][step % 5];
                known[at..at + length].fill(round * 40 + step as u8 + 1);
                target.write(at as u64, &known[at..at + length], step % 7 == 0).unwrap();
                let back = target.read(at as u64, length).unwrap();
                assert!(back == known[at..at + length], "round {round}, {at}+{length}");
            }
            target.flush().unwrap();
            assert!(target.read(0, known.len()).unwrap() == known, "round {round}");
            if round % 2 == 0 {
                server.kill()
            } else {
                assert!(server.stop().0.success())
            }
            // destaged or not: all sectors read the same in the next life, from their odd offsets on
            let server = pool.start();
            let mut target = pool.nbd();
            for at in (512..known.len() - 9728).step_by(41 * 512) {
                let back = target.read(at as u64, 9728).unwrap();
                assert!(back == known[at..at + 9728], "round {round}, {at}");
            }
            assert!(server.stop().0.success());
        }
        let check = pool.run("check", &["--json"]);
        assert!(check.status.success(), "{}", told(&check));
    }
}

/// Refused, and for this reason.
fn refused(run: impl FnOnce() -> Output, words: &[&str]) {
    let output = run();
    is_refusal(&output, 1, words);
}

#[test]
fn needs_loop_a_mounted_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut ssd) = Loop::over(&folder.path().join("a"), 64 << 20) else { return };
    let Some(hdd) = Loop::over(&folder.path().join("b"), 128 << 20) else { return };
    let pool = pool_over(&ssd.path, &hdd.path);
    let point = folder.path().join("point");
    if !ssd.mount(point.clone()) {
        return;
    }
    std::fs::write(point.join("file"), "precious").unwrap();
    let words = [ssd.path.as_str(), "mounted on", point.to_str().unwrap()];
    refused(|| pool.run("format", &["--force", "--yes"]), &words);
    refused(|| pool.run("check", &[]), &words);
    let serve = || pool.serve(&[]).err().expect("it does not serve");
    refused(serve, &words);
    assert_eq!(std::fs::read_to_string(point.join("file")).unwrap(), "precious");
    // unmounted it still holds something known
    ssd.unmount();
    refused(|| pool.run("format", &[]), &["ext4", "--force"]);
    let forced = pool.run("format", &["--force", "--yes"]);
    assert!(forced.status.success(), "{}", told(&forced));
}
