//! How is a command kept from waiting for ever, and what did it leave behind?
//!
//! A guard looks at what a command *does*, never at how long it takes, since a machine that others use
//! may be five times slower. Lines of output, processor time and bytes read and written, of the command
//! and all that it started, are progress. Only two things are ended, and named with the processes that
//! were there:
//!
//! - who makes no progress for long: it sleeps, and nobody will wake it;
//! - who uses much processor time without a line: it runs in circles. That limit counts processor time,
//!   not time.
//!
//! This process adopts what its commands abandon (the kernel's child subreaper), so everything that one
//! started can be found in `/proc`, also when its parent is gone. A command that ends and leaves a
//! process has failed: a server that outlives its test keeps ports, mounts and the output of whoever
//! waits for the run.

use crate::process::{self, Process};
use anyhow::{Context as _, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{PipeReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long what a command started may take to end behind it.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a command has ended.
const ENDED_EVERY: Duration = Duration::from_millis(20);
/// How often it is looked what a command does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes read or written that are progress. Less is what servers that only wait read and write.
const STEP_BYTES: u64 = 1 << 20;
/// Output that is kept of a command: its end, which says how it ended.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// What all that a command starts has in its environment.
const MARK: &str = "XTASK_WATCHED";

/// How much a command may do without progress before it is ended.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// So long without a line, without `step` of processor time and without a MiB read or written.
    pub asleep: Duration,
    /// Processor time that is progress.
    pub step: Duration,
    /// So much processor time without a line.
    pub spinning: Duration,
}

impl Patience {
    /// For one test. The longest one sleeps for seconds and takes a minute of processor time.
    pub const TEST: Patience = Patience {
        asleep: Duration::from_secs(600),
        step: Duration::from_secs(1),
        spinning: Duration::from_secs(3600),
    };
    /// For a build, which may wait for another one to give the folder free.
    pub const BUILD: Patience = Patience {
        asleep: Duration::from_secs(3600),
        step: Duration::from_secs(1),
        spinning: Duration::from_secs(4 * 3600),
    };
}

/// Where what a command prints goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// To whoever started this process, as it comes.
    Shown,
    /// Into `Ended::said`.
    Kept,
}

/// Who sees all that is started below this process.
pub struct Watch {
    /// Children that other calls wait for.
    children: Mutex<BTreeSet<i32>>,
    next_mark: AtomicU64,
}

/// How a watched command ended.
#[derive(Debug)]
pub struct Ended {
    /// Whether it ended by itself, and well.
    pub succeeded: bool,
    /// Why it was ended, if it did not end by itself, and what ran then.
    pub hung: Option<Hung>,
    /// Processes that it left, told as they were found; they are ended.
    pub left: Vec<String>,
    /// What it printed, or the end of that. Nothing if that was shown.
    pub said: String,
    /// How long it took.
    pub took: Duration,
    /// Processor time that it took, about.
    pub cpu: Duration,
}

/// Why a command was ended.
#[derive(Debug)]
pub struct Hung {
    /// In words.
    pub why: String,
    /// Its processes.
    pub processes: Vec<String>,
    /// Names of the threads of the command itself, each cut to 15 bytes. A test's bears its name.
    pub threads: Vec<String>,
}

impl Ended {
    /// Whether it succeeded and left nothing.
    pub fn is_clean(&self) -> bool {
        self.succeeded && self.left.is_empty()
    }

    /// What is wrong beside how it ended, a line each.
    pub fn troubles(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(Hung { why, processes, .. }) = &self.hung {
            lines.push(format!("{why}; it was ended, with"));
            lines.extend(processes.iter().map(|process| format!("   {process}")));
        }
        lines.extend(self.left.iter().map(|what| format!("left behind: {what}")));
        lines
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
        Ok(Self { children: Mutex::default(), next_mark: AtomicU64::new(0) })
    }

    /// Runs a command to its end, or ends it and all that it started when it makes no progress.
    ///
    /// # Errors
    /// If it cannot be started or waited for.
    pub fn run(&self, command: &mut Command, patience: Patience, output: Output) -> Result<Ended> {
        let mark = self.next_mark.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{mark}", std::process::id());
        let (reader, writer) = std::io::pipe().context("a pipe for its output")?;
        let began = Instant::now();
        let mut child = {
            let errors = writer.try_clone().context("a pipe for its output")?;
            // children are known to all calls before any of them looks at what is there
            let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
            let child = command.env(MARK, &mark).stdout(writer).stderr(errors).spawn();
            // the command has the pipe's other end, which must be closed here to end with the child
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            let child = child.context("starting it")?;
            children.insert(child.id().cast_signed());
            child
        };
        let said = Said::listen(reader, output);
        let mark = format!("{MARK}={mark}");
        let mut tree =
            Tree { watch: self, mark, top: child.id().cast_signed(), known: BTreeMap::new() };
        let ended = tree.wait(&mut child, patience, &said);
        self.children.lock().unwrap_or_else(PoisonError::into_inner).remove(&tree.top);
        let (status, hung, cpu) = ended?;
        let left = if hung.is_none() { tree.abandoned()? } else { Vec::new() };
        tree.end_all()?;
        Ok(Ended {
            succeeded: status.is_some_and(|status| status.success()),
            hung,
            left,
            said: said.text(),
            took: began.elapsed(),
            cpu,
        })
    }

    /// What still runs below this process when nothing should, told as it was found; it is ended. Only
    /// what left its parents *and* emptied its environment is found nowhere else.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn end_the_rest(&self) -> Result<Vec<String>> {
        let (mut told, mut seen) = (Vec::new(), BTreeSet::new());
        for _ in 0..100 {
            let all = process::all()?;
            let rest = process::below(&all, &[process::own()]);
            let rest: Vec<&Process> = rest.iter().filter(|it| it.pid != process::own()).collect();
            rest.iter().for_each(|it| it.reap());
            let living: Vec<_> = rest.into_iter().filter(|process| !process.is_over()).collect();
            if living.is_empty() {
                break;
            }
            // one that is slow to end is told of once, however it stands by then
            let fresh = living.iter().filter(|process| seen.insert(process.name()));
            told.extend(fresh.map(|process| process.describe()));
            living.iter().for_each(|process| process.kill());
            std::thread::sleep(ENDED_EVERY);
        }
        Ok(told)
    }
}

/// All that one command started.
struct Tree<'a> {
    watch: &'a Watch,
    mark: String,
    top: i32,
    /// Processes seen, by their names: bytes that each had read and written.
    known: BTreeMap<(i32, u64), u64>,
}

/// How it stands with a command since its last progress.
struct Progress {
    at_lines: u64,
    cpu: Duration,
    /// What the processes had used together at the last look: less than before if one is gone.
    cpu_seen: Duration,
    /// At the last progress of any kind, and at the last line.
    cpu_at_progress: Duration,
    cpu_at_line: Duration,
    bytes: u64,
    bytes_at_progress: u64,
    /// Time in which it was looked at: a machine that stood still counts as one look.
    asleep: Duration,
}

type Waited = (Option<ExitStatus>, Option<Hung>, Duration);

impl Tree<'_> {
    /// Waits for its end, or ends it. What comes back has no status if it was ended.
    fn wait(&mut self, child: &mut Child, patience: Patience, said: &Said) -> Result<Waited> {
        let zero = Duration::ZERO;
        let mut progress = Progress {
            at_lines: 0,
            cpu: zero,
            cpu_seen: zero,
            cpu_at_progress: zero,
            cpu_at_line: zero,
            bytes: 0,
            bytes_at_progress: 0,
            asleep: zero,
        };
        let mut looked = Instant::now();
        loop {
            if let Some(cpu) = self.over()? {
                let status = child.wait().context("waiting for it")?;
                return Ok((Some(status), None, progress.cpu.max(cpu)));
            }
            std::thread::sleep(ENDED_EVERY);
            let since = looked.elapsed();
            if since < LOOK_EVERY {
                continue;
            }
            looked = Instant::now();
            self.look(&mut progress, said, patience, since.min(2 * LOOK_EVERY))?;
            let spun = progress.cpu.saturating_sub(progress.cpu_at_line);
            let why = if progress.asleep >= patience.asleep {
                format!("it did nothing for {} s", patience.asleep.as_secs())
            } else if spun >= patience.spinning {
                let most = patience.spinning.as_secs();
                format!("it used {most} s of processor time without a line")
            } else {
                continue;
            };
            let processes = self.living()?;
            let top = processes.iter().find(|process| process.pid == self.top);
            let threads = top.map(Process::threads).unwrap_or_default();
            let processes = processes.iter().map(Process::describe).collect();
            self.end_all()?;
            // it was killed; one that cannot be is waited for by nobody
            let _ = child.try_wait();
            return Ok((None, Some(Hung { why, processes, threads }), progress.cpu));
        }
    }

    /// Its processor time if it has ended; nobody was told of its end yet.
    fn over(&self) -> Result<Option<Duration>> {
        let pid = Pid::from_raw(self.top).context("its number")?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let over = rustix::process::waitid(WaitId::Pid(pid), options).context("waiting for it")?;
        let cpu = || Process::read(self.top).map_or(Duration::ZERO, |process| process.cpu());
        Ok(over.map(|_| cpu()))
    }

    /// What it did since the last look.
    fn look(
        &mut self,
        progress: &mut Progress,
        said: &Said,
        patience: Patience,
        since: Duration,
    ) -> Result<()> {
        let mut cpu = Duration::ZERO;
        for process in self.processes()? {
            cpu += process.cpu();
            let bytes = process.io_bytes();
            let before = self.known.insert(process.name(), bytes).unwrap_or(0);
            progress.bytes += bytes.saturating_sub(before);
        }
        progress.cpu += cpu.saturating_sub(progress.cpu_seen);
        progress.cpu_seen = cpu;
        let lines = said.lines.load(Ordering::Relaxed);
        let has_line = lines != progress.at_lines;
        let has_time = progress.cpu.saturating_sub(progress.cpu_at_progress) >= patience.step;
        let has_bytes = progress.bytes - progress.bytes_at_progress >= STEP_BYTES;
        progress.asleep += since;
        if has_line {
            (progress.at_lines, progress.cpu_at_line) = (lines, progress.cpu);
        }
        if has_line || has_time || has_bytes {
            progress.cpu_at_progress = progress.cpu;
            progress.bytes_at_progress = progress.bytes;
            progress.asleep = Duration::ZERO;
        }
        Ok(())
    }

    /// All its processes: those below it, and those that were abandoned.
    fn processes(&mut self) -> Result<Vec<Process>> {
        let all = process::all()?;
        let children = self.watch.children.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let adopted = all
            .values()
            .filter(|process| process.parent == process::own() && !children.contains(&process.pid));
        let is_ours = |process: &&Process| {
            self.known.contains_key(&process.name()) || process.has_environment(&self.mark)
        };
        let mut tops: Vec<i32> = adopted.filter(is_ours).map(|process| process.pid).collect();
        tops.push(self.top);
        let found = process::below(&all, &tops);
        for process in &found {
            self.known.entry(process.name()).or_default();
        }
        Ok(found)
    }

    fn living(&mut self) -> Result<Vec<Process>> {
        let all = self.processes()?;
        Ok(all.into_iter().filter(|process| !process.is_over()).collect())
    }

    /// What still runs when it had time to end.
    fn abandoned(&mut self) -> Result<Vec<String>> {
        let began = Instant::now();
        loop {
            let all = self.processes()?;
            all.iter().filter(|process| process.pid != self.top).for_each(Process::reap);
            let living = all.iter().filter(|process| !process.is_over());
            let left: Vec<String> = living.map(Process::describe).collect();
            if left.is_empty() || began.elapsed() >= GRACE {
                return Ok(left);
            }
            std::thread::sleep(ENDED_EVERY);
        }
    }

    /// Kills all of it, again and again until nothing is there or the grace is over.
    fn end_all(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let living = self.living()?;
            if living.is_empty() || began.elapsed() >= GRACE {
                return Ok(());
            }
            living.iter().for_each(Process::kill);
            std::thread::sleep(ENDED_EVERY);
        }
    }
}

/// What a command prints.
struct Said {
    lines: Arc<AtomicU64>,
    kept: Arc<Mutex<Vec<u8>>>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl Said {
    /// Listens until nobody has the pipe any more.
    fn listen(mut reader: PipeReader, output: Output) -> Said {
        let (lines, kept) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let (end, ended) = std::sync::mpsc::channel();
        let said = Said { lines: Arc::clone(&lines), kept: Arc::clone(&kept), ended };
        std::thread::spawn(move || {
            let mut bytes = [0; 1 << 14];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let bytes = &bytes[..count];
                let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
                lines.fetch_add(ends as u64, Ordering::Relaxed);
                if output == Output::Shown {
                    // nobody may be there to see it
                    let _ = std::io::stdout().write_all(bytes);
                    let _ = std::io::stdout().flush();
                    continue;
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(bytes);
                let more = kept.len().saturating_sub(KEPT_BYTES_MAX);
                kept.drain(..more);
            }
            let _ = end.send(());
        });
        said
    }

    /// What was said. All of it, unless somebody who cannot be killed holds the pipe.
    fn text(&self) -> String {
        let _ = self.ended.recv_timeout(GRACE);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}
