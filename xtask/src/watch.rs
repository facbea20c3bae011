//! How is a command kept from waiting for ever, and what did it leave behind?
//!
//! This process adopts what its commands abandon (the kernel's child subreaper), so everything that a
//! test started can be found below it in `/proc`, also when its parent is gone. A command that takes
//! much longer than it may is told of with the processes that it waited for, and ended; one that
//! ends leaves no process. Both are failures: a run that hangs tells nobody why, and a server that
//! outlives its test keeps ports, mounts and the output of whoever waits for the run.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::BTreeMap;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long what a command started may take to end behind it.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who sees all that is started below this process. One a process.
pub struct Watch(());

/// How a watched command ended.
#[derive(Debug)]
pub struct Ended {
    /// Whether it succeeded in its time.
    pub succeeded: bool,
    /// Processes that it left, told as they were found; they are ended.
    pub left: Vec<String>,
}

impl Ended {
    /// Whether it succeeded and left nothing.
    pub fn is_clean(&self) -> bool {
        self.succeeded && self.left.is_empty()
    }
}

impl Watch {
    /// Begins to adopt what is abandoned below this process.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .context("adopting what tests leave behind")?;
        Ok(Self(()))
    }

    /// Runs a command to its end, or ends it and all that it started after `limit`.
    ///
    /// # Errors
    /// If it cannot be started or waited for.
    pub fn run(&self, command: &mut Command, limit: Duration) -> Result<Ended> {
        let mut child = command.spawn().context("starting it")?;
        let in_time = wait(&mut child, limit)?;
        if in_time.is_none() {
            println!("== it did not end within {} s; it waited for:", limit.as_secs());
            for process in below_this()? {
                println!("   {process}");
            }
            // This takes note of the child's end, too; and waits for nobody who cannot be killed.
            end_all()?;
        }
        let mut left = Vec::new();
        if in_time.is_some() {
            left.extend(abandoned()?.iter().map(ToString::to_string));
            end_all()?;
        }
        for what in &left {
            println!("== left behind: {what}");
        }
        Ok(Ended { succeeded: in_time.is_some_and(|status| status.success()), left })
    }
}

/// Waits until a child has ended, at most this long.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("waiting for it")? {
            return Ok(Some(status));
        }
        if began.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What still runs below this process when it had time to end.
fn abandoned() -> Result<Vec<Process>> {
    let began = Instant::now();
    loop {
        reap();
        let living = below_this()?;
        if living.is_empty() || began.elapsed() >= GRACE {
            return Ok(living);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Kills all below this process, again and again until nothing is there or the grace is over.
fn end_all() -> Result<()> {
    let began = Instant::now();
    loop {
        let living = below_this()?;
        if living.is_empty() || began.elapsed() >= GRACE {
            return Ok(());
        }
        for process in &living {
            if let Some(pid) = Pid::from_raw(process.pid) {
                // It may have ended since it was seen.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        reap();
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Takes note of the ends of adopted processes.
fn reap() {
    for process in below_this().unwrap_or_default() {
        if let Some(pid) = Pid::from_raw(process.pid).filter(|_| process.is_over()) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// A process as `/proc` tells of it.
struct Process {
    pid: i32,
    parent: i32,
    state: char,
    words: String,
}

impl Process {
    /// Ended, and nobody asked how.
    fn is_over(&self) -> bool {
        self.state == 'Z'
    }

    /// Reads `/proc/PID`. None if it has ended meanwhile.
    fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold any byte, brackets too.
        let (head, tail) = stat.rsplit_once(')')?;
        let mut fields = tail.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = String::from_utf8_lossy(&words).replace('\0', " ").trim().to_string();
        if words.is_empty() {
            words = head.split_once('(').map_or("", |(_, name)| name).to_string();
        }
        Some(Self { pid, parent, state, words })
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, state, words, .. } = self;
        let shown: String = words.chars().take(200).collect();
        let waits = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        write!(f, "process {pid} ({state} {waits}) {shown}")
    }
}

/// All processes below this one, ended ones that nobody asked about too.
fn below_this() -> Result<Vec<Process>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").context("reading /proc")? {
        let name = entry.context("reading /proc")?.file_name();
        if let Some(process) =
            name.to_str().and_then(|name| name.parse().ok()).and_then(Process::read)
        {
            all.insert(process.pid, process);
        }
    }
    let own = i32::try_from(std::process::id()).context("the number of this process")?;
    let is_below = |process: &Process| {
        let mut parent = process.parent;
        while parent > 1 && parent != own {
            parent = all.get(&parent).map_or(0, |above| above.parent);
        }
        parent == own
    };
    let pids: Vec<i32> =
        all.values().filter(|process| is_below(process)).map(|it| it.pid).collect();
    Ok(pids.iter().filter_map(|pid| all.remove(pid)).collect())
}
