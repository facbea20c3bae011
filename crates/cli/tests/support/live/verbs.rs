//! What does somebody do to a pool while it is used? Verbs of the program, in random order.

use super::pools::{Kind, PoolPlan};
use super::snapshots::{Answer, Snapshots};
use super::volume::Volume;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_block::Rng;

/// Pieces of a snapshot that are looked at at once.
const PIECES: u64 = 4;
/// A verb that has not ended by then is left alone: the server has other things to do.
const VERB_MAX: Duration = Duration::from_secs(120);

/// How often each verb was done, refused, and cut off by the end of the server.
pub type Counts = BTreeMap<&'static str, [u64; 3]>;

/// Who administers a pool.
pub struct Administrator {
    pub tandem: PathBuf,
    pub folder: PathBuf,
    kind: Kind,
    tiers: Vec<String>,
    has_files: bool,
    /// What was called and how it was answered, the newest last.
    pub told: Vec<String>,
    pub counts: Counts,
    pub snapshots: Snapshots,
    /// Numbers of files for drives that come.
    next_file: u64,
    began: Instant,
}

/// A drive as the configuration lists it.
#[derive(Clone, Debug)]
struct Drive {
    role: String,
    path: String,
    is_there: bool,
}

impl Administrator {
    pub fn new(tandem: &Path, folder: &Path, pool: &PoolPlan) -> Administrator {
        Administrator {
            tandem: tandem.to_owned(),
            folder: folder.to_owned(),
            kind: pool.kind,
            tiers: pool.tiers.clone(),
            has_files: pool.has_files,
            told: Vec::new(),
            counts: Counts::new(),
            snapshots: Snapshots::default(),
            next_file: 1,
            began: Instant::now(),
        }
    }

    fn config(&self) -> PathBuf {
        self.folder.join("pool.toml")
    }

    /// Notes something that happened.
    pub fn note(&mut self, what: &str) {
        let ms = self.began.elapsed().as_millis();
        self.told.push(format!("{ms:>7} ms  {what}"));
    }

    /// Calls verbs until it shall stop.
    ///
    /// # Errors
    /// If a snapshot shows what it must not.
    pub fn work(
        &mut self,
        volumes: &[Volume],
        rng: &mut Rng,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        loop {
            let pause_ms = rng.between(20, 500);
            for _ in 0..pause_ms / 10 {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            self.one(volumes, rng)?;
        }
    }

    fn one(&mut self, volumes: &[Volume], rng: &mut Rng) -> Result<(), String> {
        let number = rng.below(volumes.len() as u64) as usize;
        let roll = rng.below(if self.kind == Kind::Many { 16 } else { 10 });
        match roll {
            0..=2 => {
                let tier = self.tiers[rng.below(self.tiers.len() as u64) as usize].clone();
                let names = volumes.iter().map(|volume| volume.name.as_str());
                let names: Vec<&str> = names.chain(self.has_files.then_some("files")).collect();
                self.call("tier", &[names[rng.below(names.len() as u64) as usize], &tier]);
            }
            3..=5 => self.snapshot(number, volumes),
            6 => self.delete_snapshot(rng),
            7 | 8 => {
                let socket = self.folder.join("tandem.sock");
                self.snapshots.glance(&socket, volumes, rng, PIECES)?;
                self.counts.entry("look").or_default()[0] += 1;
            }
            9 | 10 => self.replace(rng),
            11 | 12 => self.drain(rng),
            13 => self.remove(rng),
            14 => self.add(rng),
            _ => self.cancel(rng),
        }
        Ok(())
    }

    fn snapshot(&mut self, number: usize, volumes: &[Volume]) {
        let volume = &volumes[number];
        let Some(name) = self.snapshots.next_name(number) else { return };
        let look = volume.begin_snapshot();
        let answer = self.call("snapshot", &[&volume.name, &name]);
        self.snapshots.made(number, volume, &name, look, answer);
    }

    fn delete_snapshot(&mut self, rng: &mut Rng) {
        let Some(full) = self.snapshots.any(rng) else { return };
        let (volume, name) = full.split_once('@').expect("they are called VOLUME@NAME");
        let answer = self.call("snapshot", &[volume, name, "--delete"]);
        self.snapshots.deleted(&full, answer);
    }

    fn replace(&mut self, rng: &mut Rng) {
        let Some(drive) = self.any_drive(rng, true) else { return };
        let new = self.new_file(&drive);
        self.call("replace", &[&drive.path, &new, "--detach"]);
    }

    fn drain(&mut self, rng: &mut Rng) {
        if let Some(drive) = self.any_drive(rng, true) {
            self.call("drain", &[&drive.path, "--detach"]);
        }
    }

    fn remove(&mut self, rng: &mut Rng) {
        if let Some(drive) = self.any_drive(rng, true) {
            self.call("remove", &[&drive.path]);
        }
    }

    fn add(&mut self, rng: &mut Rng) {
        if let Some(drive) = self.any_drive(rng, false) {
            let new = self.new_file(&drive);
            self.call("add", &[&new, "--role", &drive.role, "--detach"]);
        }
    }

    fn cancel(&mut self, rng: &mut Rng) {
        let verb = ["replace", "drain", "add"][rng.below(3) as usize];
        self.call(verb, &["--cancel"]);
    }

    /// Calls a verb and says how the server answered.
    fn call(&mut self, verb: &'static str, words: &[&str]) -> Answer {
        let mut command = Command::new(&self.tandem);
        command.arg(verb).arg(self.config()).args(words).current_dir(&self.folder);
        let (answer, said) = ended(&mut command);
        self.note(&format!("tandem {verb} {}: {answer:?} {said}", words.join(" ")));
        self.counts.entry(verb).or_default()[answer as usize] += 1;
        answer
    }

    /// A drive that the pool has, or one that has left it or may come.
    fn any_drive(&self, rng: &mut Rng, is_there: bool) -> Option<Drive> {
        let drives: Vec<Drive> =
            self.drives().into_iter().filter(|drive| drive.is_there == is_there).collect();
        let index = rng.below(drives.len().max(1) as u64) as usize;
        drives.get(index).cloned()
    }

    fn drives(&self) -> Vec<Drive> {
        let text = std::fs::read_to_string(self.config()).unwrap_or_default();
        let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
        let devices = table.get("device").and_then(toml::Value::as_array);
        let of = |device: &toml::Value| {
            let text = |key: &str| Some(device.get(key)?.as_str()?.to_owned());
            let (role, path) = (text("role")?, text("path")?);
            let is_gone = device.get("gone").and_then(toml::Value::as_bool) == Some(true);
            let is_there = !is_gone && !path.starts_with("bay:");
            Some(Drive { role, path, is_there })
        };
        devices.into_iter().flatten().filter_map(of).collect()
    }

    /// A file for a drive that may take the place of another one, in its folder.
    fn new_file(&mut self, like: &Drive) -> String {
        let name = format!("{}-new-{}.img", like.role, self.next_file);
        self.next_file += 1;
        // as large as the largest of its role
        let images = self.drives().into_iter().filter(|drive| drive.role == like.role);
        let size = images
            .filter_map(|drive| std::fs::metadata(self.folder.join(drive.path)).ok())
            .map(|metadata| metadata.len())
            .max();
        if let Ok(file) = std::fs::File::create(self.folder.join(&name)) {
            // without a size it is refused, which is told
            let _ = file.set_len(size.unwrap_or(0));
        }
        name
    }

    /// Removes files of drives that the configuration does not name.
    pub fn clear(&self) {
        let text = std::fs::read_to_string(self.config()).unwrap_or_default();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains("-new-") && !text.contains(&name) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Runs a verb to its end, which must come.
fn ended(command: &mut Command) -> (Answer, String) {
    let spawned =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return (Answer::Refused, error.to_string()),
    };
    let began = Instant::now();
    while began.elapsed() < VERB_MAX && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // what has ended is not killed any more
    let _ = child.kill();
    let Ok(output) = child.wait_with_output() else {
        return (Answer::Cut, "nobody knows".to_owned());
    };
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    let said = said.concat().lines().next().unwrap_or_default().to_owned();
    // a server that is gone is told of in words; so is one that went while it was asked
    let is_gone = ["not being served", "did not answer", "does not answer", "closed", "reset"]
        .iter()
        .any(|word| said.contains(word));
    match output.status.code() {
        Some(0) => (Answer::Done, said),
        Some(_) if !is_gone => (Answer::Refused, said),
        _ => (Answer::Cut, said),
    }
}
