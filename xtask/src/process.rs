//! Which processes run below this one, and how much have they done? Read from `/proc`.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often, and after how long each time, an empty environment is read again.
const EXEC_LOOKS: u32 = 20;
const EXEC_LOOK_EVERY: Duration = Duration::from_millis(5);

/// A process as `/proc` tells of it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The number of the process that waits for it.
    pub parent: i32,
    /// R: runs, S: sleeps, D: waits for a device, Z: has ended, and nobody asked how.
    pub state: char,
    /// Processor time of itself and of its children that ended and were asked about, in ticks.
    ticks: u64,
    /// When it began, in ticks since the machine did: with its number this names it for ever.
    began_ticks: u64,
}

impl Process {
    /// Has it ended?
    pub fn is_over(&self) -> bool {
        self.state == 'Z'
    }

    /// Its number and its beginning: numbers are given out again, both together are not.
    pub fn name(&self) -> (i32, u64) {
        (self.pid, self.began_ticks)
    }

    /// Processor time of itself and of its children that ended.
    pub fn cpu(&self) -> Duration {
        ticks(self.ticks)
    }

    /// Reads `/proc/PID/stat`. None if there is no such process.
    pub fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold any byte, brackets too. What follows it begins with
        // the third field of proc_pid_stat(5).
        let (_, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            ticks: number(14)? + number(15)? + number(16)? + number(17)?,
            began_ticks: number(22)?,
        })
    }

    /// Bytes that it has read and written so far; 0 if that may not be known.
    pub fn io_bytes(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.pid)).unwrap_or_default();
        let of = |line: &str| {
            let (name, count) = line.split_once(": ")?;
            ["rchar", "wchar"].contains(&name).then(|| count.parse::<u64>().ok())?
        };
        io.lines().filter_map(of).sum()
    }

    /// Does its environment hold this, as `NAME=VALUE`? Within an `exec` the kernel shows none for a moment,
    /// and cuts short what is being read. So it says no when two looks in a row saw the same.
    pub fn has_environment(&self, wanted: &str) -> bool {
        let mut seen: Option<Vec<u8>> = None;
        for _ in 0..EXEC_LOOKS {
            let read = std::fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
            if read.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) {
                return true;
            }
            let is_settled = !read.is_empty() && seen.as_ref() == Some(&read);
            if is_settled || Self::read(self.pid).is_none_or(|now| now.is_over()) {
                return false;
            }
            if read.is_empty() {
                std::thread::sleep(EXEC_LOOK_EVERY);
            }
            seen = Some(read);
        }
        false
    }

    /// Names of its threads, each cut to 15 bytes by the kernel.
    pub fn threads(&self) -> Vec<String> {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return Vec::new();
        };
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        let names = tasks.filter_map(Result::ok).filter_map(name);
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    /// Its number, its state, what it waits for and what was called.
    pub fn describe(&self) -> String {
        let Self { pid, state, .. } = self;
        let of = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let [words, waits, name] = ["cmdline", "wchan", "comm"]
            .map(|what| String::from_utf8_lossy(&of(what)).into_owned());
        let words = words.replace('\0', " ");
        let words = if words.trim().is_empty() { name.trim() } else { words.trim() };
        let shown: String = words.chars().take(200).collect();
        format!("process {pid} ({state} {}) {shown}", waits.trim())
    }

    /// Ends it, if it is still there.
    pub fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended since it was seen.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// Takes note of its end, if it has ended and this process is its parent.
    pub fn reap(&self) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_over()) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Ticks of a second in what the kernel tells programs, `USER_HZ`: 100 on x86-64 and on ARM.
const TICKS_PER_S: u64 = 100;

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / TICKS_PER_S)
}

/// All processes that there are, by number.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn all() -> Result<BTreeMap<i32, Process>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").context("reading /proc")? {
        let name = entry.context("reading /proc")?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some(process) = pid.and_then(Process::read) {
            all.insert(process.pid, process);
        }
    }
    Ok(all)
}

/// Those below one of these, and these, in the order of their numbers.
pub fn below(all: &BTreeMap<i32, Process>, tops: &[i32]) -> Vec<Process> {
    let is_below = |process: &&Process| {
        let mut pid = process.pid;
        // a chain of parents is no longer than there are processes: what is read may change meanwhile
        for _ in 0..all.len() {
            if tops.contains(&pid) {
                return true;
            }
            let Some(above) = all.get(&pid) else { return false };
            pid = above.parent;
        }
        false
    };
    all.values().filter(is_below).cloned().collect()
}

/// The number of this process.
pub fn own() -> i32 {
    std::process::id().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A process that executes itself again and again has its mark at every look.
    #[test]
    fn a_mark_is_seen_in_the_middle_of_an_exec() {
        let again = "[ $1 = 0 ] || exec sh -c \"$0\" \"$0\" $(($1 - 1))";
        let mut command = Command::new("sh");
        command.args(["-c", again, again, "3000"]).env("Z_MARK", "here");
        // more than is read in one piece
        command.envs((0..400).map(|it| (format!("FILLS_{it}"), "x".repeat(100))));
        let mut child = command.spawn().expect("it starts");
        let pid = child.id().cast_signed();
        let mut looks = 0;
        while child.try_wait().expect("it may be asked").is_none() {
            let process = Process::read(pid).expect("nobody reaped it");
            let sees = process.has_environment("Z_MARK=here");
            // it may have ended between the questions
            let runs = || Process::read(pid).is_some_and(|process| !process.is_over());
            assert!(sees || !runs(), "look {looks} did not see it");
            assert!(!process.has_environment("Z_MARK=her"), "a part of a value is no value");
            looks += 1;
        }
        assert!(looks > 100, "{looks} looks");
    }
}
