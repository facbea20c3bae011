//! Do the users of a mount keep their service beside NBD clients that misbehave?

use super::measured::{self, Window};
use super::{Attack, Outcome, Plan, Victim, beside, finish};
use crate::support::mounting::has_fuse;
use crate::support::synced::Cleared;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Users of the mount at once.
const USERS: u64 = 16;
const BLOCK: usize = 4096;

/// A pool in memory with a volume of files beside those of blocks.
const WITH_FILES: &str = r#"[pool]
name = "attacked"
[[device]]
role = "ssd"
path = "ram:512MiB"
emulate = "960evo"
[[volume]]
name = "vol0"
size = "16MiB"
[[volume]]
name = "vol1"
size = "128MiB"
[[volume]]
name = "files"
files = true
mount = "mnt"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// Users of a mount beside attackers on the NBD socket.
pub fn beside_files(attack: &Attack, plan: &Plan) -> Result<Outcome, String> {
    if !has_fuse("the users of a mount beside attackers") {
        return Err("skipped: there is no /dev/fuse here".into());
    }
    let text = WITH_FILES.replace("\"mnt\"", "\"MNT\"");
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let point = folder.path().join("mnt");
    fs::create_dir(&point).map_err(|e| e.to_string())?;
    let _cleared = Cleared(point.clone());
    let text = text.replace("MNT", &point.display().to_string());
    let victim = Victim::start(plan, &text, "")?;
    measured::fill(&victim.nbd())?;
    let good = |window: &Window| rate(&point, window);
    let outcome = beside(attack, plan, &victim, &good)?;
    finish(outcome, victim)
}

/// Cycles a second of all users together: each makes a file, writes to it, reads it past the kernel's
/// memory and removes it.
fn rate(point: &Path, window: &Window) -> Result<f64, String> {
    let count = AtomicU64::new(0);
    let begin = Instant::now();
    let one = |user: u64| -> Result<(), std::io::Error> {
        let path = point.join(format!("user{user}"));
        while begin.elapsed() < window.length {
            let file =
                File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            file.write_all_at(&[user as u8; BLOCK], 0)?;
            file.sync_data()?;
            drop(file);
            fs::remove_file(&path)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS).map(|user| scope.spawn(move || one(user))).collect();
        users.into_iter().try_for_each(|user| user.join().expect("it does not panic"))
    })
    .map_err(|error| format!("a file: {error}"))?;
    Ok(count.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64())
}
