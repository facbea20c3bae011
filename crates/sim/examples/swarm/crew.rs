//! Who carries out runs side by side? A process a processor, begun anew when one dies of its run or must
//! be ended, because the run uses more processor time or memory than any sound one.

use crate::worker::Outcome;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use tandem_sim::arms::Case;
use tandem_sim::arms::shrink::Failed;

/// Processor time of one run, in s. The longest sound one takes two minutes in a build for tests.
const CPU_MAX_S: u64 = 3600;
/// Memory of a process, in pages of 4 KiB.
const MEMORY_MAX_PAGES: u64 = 4 << 18;
/// How often a run under way is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Ticks of a second in `/proc`.
const TICKS_PER_S: u64 = 100;

/// How many run at once.
pub fn size() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A process that carries out runs.
pub struct Worker {
    running: Option<Running>,
}

struct Running {
    child: Child,
    cases: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    fn start() -> io::Result<Running> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("work")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a worker has no pipe");
        let cases = child.stdin.take().ok_or_else(missing)?;
        let out = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line).ok())
        });
        Ok(Running { child, cases, lines })
    }

    /// Processor time in ticks, and pages of memory.
    fn usage(&self) -> (u64, u64) {
        let read = |what: &str| {
            std::fs::read_to_string(format!("/proc/{}/{what}", self.child.id())).unwrap_or_default()
        };
        let stat = read("stat");
        let fields = stat.rsplit_once(')').map_or("", |(_, tail)| tail).split_whitespace();
        let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let statm = read("statm");
        let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        (ticks, pages.unwrap_or(0))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// It begins with its first run.
    pub fn new() -> Worker {
        Worker { running: None }
    }

    /// Carries out one run.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn run(&mut self, case: &Case) -> io::Result<Outcome> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => Running::start()?,
        };
        writeln!(running.cases, "{case}")?;
        let (began_ticks, _) = running.usage();
        loop {
            let kind = match running.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => {
                    let outcome = Outcome::read(&line);
                    let outcome = outcome.ok_or_else(|| io::Error::other(line))?;
                    let panicked = |failed: &Failed| failed.kind.starts_with("Panic");
                    if !matches!(&outcome, Outcome::Failed(failed) if panicked(failed)) {
                        self.running = Some(running);
                    }
                    return Ok(outcome);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = running.child.wait()?;
                    format!("Died {status}")
                }
                Err(RecvTimeoutError::Timeout) => {
                    let (ticks, pages) = running.usage();
                    if ticks.saturating_sub(began_ticks) > CPU_MAX_S * TICKS_PER_S {
                        "Endless".to_owned()
                    } else if pages > MEMORY_MAX_PAGES {
                        "Memory".to_owned()
                    } else {
                        continue;
                    }
                }
            };
            let told = format!("{case}: the run was ended: {kind}");
            return Ok(Outcome::Failed(Failed { kind, at: 0, told }));
        }
    }
}
