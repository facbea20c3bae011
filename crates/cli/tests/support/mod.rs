//! How does a test run the real program? As a server that it starts, kills and starts again.

#![allow(dead_code, reason = "every test uses its part")]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test stops where it fails")]

pub mod attacks;
pub mod certificates;
pub mod fixture;
pub mod mounting;
pub mod program;
pub mod sigkill;
pub mod synced;
pub mod user;

pub use fixture::PoolFixture;
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Longest wait for anything: far beyond what a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tandem serve`. Killed when dropped.
pub struct Server {
    child: Child,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    /// What it printed when it was ready.
    pub ready: String,
}

impl Server {
    /// Starts it and waits until requests are welcome.
    ///
    /// # Errors
    /// What it said, if it ended instead.
    pub fn start(tandem: &Path, arguments: &[&str]) -> Result<Server, Output> {
        let mut command = Command::new(tandem);
        command.arg("serve").args(arguments);
        Self::run(command)
    }

    /// As `start`, for a prepared command.
    pub fn run(command: Command) -> Result<Server, Output> {
        let mut server = Self::launch(command);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match server.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => {
                    let is_last = line.starts_with("serving");
                    server.ready.push_str(&line);
                    server.ready.push('\n');
                    if is_last {
                        return Ok(server);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => {
                    if Instant::now() >= deadline {
                        let _ = server.child.kill();
                    }
                    let (status, stderr) = server.end();
                    let stdout = std::mem::take(&mut server.ready).into_bytes();
                    return Err(Output { status, stdout, stderr: stderr.into_bytes() });
                }
            }
        }
    }

    /// Starts it and waits for nothing.
    pub fn launch(mut command: Command) -> Server {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            // nobody may be listening any more
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line).ok())
        });
        let mut err = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = err.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Server { child, lines, errors: Some(errors), ready: String::new() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Stops it cleanly; what it said.
    pub fn stops(self) -> String {
        let (ended, said) = self.stop();
        assert!(ended.success(), "{said}");
        said
    }

    /// Waits for its end: exit status and stderr.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("the server does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let errors = self.errors.take().map(|thread| thread.join().unwrap());
        (self.child.wait().unwrap(), errors.unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
