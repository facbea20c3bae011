//! How does a run start, watch and end a server? Its log goes to a file that is kept.

use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longest wait for a start or an end, on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(300);
/// A server says where it stands within this.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A server that runs. Killed when dropped.
pub struct Server {
    child: Child,
    tandem: PathBuf,
    folder: PathBuf,
}

/// Memory of a server, in KiB: now, and the most that it had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub now_kib: u64,
    pub most_kib: u64,
}

impl Server {
    /// Starts `tandem serve CONFIG WORDS` and waits until it says that it serves.
    ///
    /// # Errors
    /// If it ends instead, or says nothing for long; the log says why.
    pub fn start(tandem: &Path, folder: &Path, words: &[String]) -> Result<Server, String> {
        let log = File::options().create(true).append(true).open(folder.join("server.log"));
        let log = log.map_err(|error| format!("server.log: {error}"))?;
        let mut child = Command::new(tandem)
            .arg("serve")
            .arg(folder.join("pool.toml"))
            .args(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", tandem.display()))?;
        let out = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let (tandem, folder) = (tandem.to_owned(), folder.to_owned());
        let mut server = Server { child, tandem, folder };
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // nobody listens any more when it serves
                let _ = sender.send(line);
            }
        });
        loop {
            match lines.recv_timeout(LONG) {
                Ok(line) if line.starts_with("serving") => return Ok(server),
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("it does not serve after {} s", LONG.as_secs()));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = server.child.wait().map_err(|error| error.to_string())?;
                    return Err(format!("it ended with {status} instead of serving"));
                }
            }
        }
    }

    /// How much memory it has.
    pub fn memory(&self) -> Memory {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        let [now, most] = ["VmRSS", "VmHWM"].map(|name| of(name).unwrap_or(0));
        Memory { now_kib: now, most_kib: most }
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGTERM: asks it to settle everything and end.
    pub fn ask_to_end(&self) {
        // it may have ended by itself, which `wait` tells
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it does not end.
    pub fn wait(mut self) -> Result<ExitStatus, String> {
        let began = Instant::now();
        while began.elapsed() < LONG {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.keep_status();
        Err(format!("it did not end within {} s of SIGTERM", LONG.as_secs()))
    }

    /// Does it say where it stands? One that goes round in circles answers nobody. One that has ended is told of
    /// elsewhere.
    ///
    /// # Errors
    /// If it lives, and says nothing for long.
    pub fn answers(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while self.is_alive() {
            // it gives up by itself after some seconds
            let asked = Command::new(&self.tandem)
                .args(["status", "--json"])
                .arg(self.folder.join("pool.toml"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if asked.is_ok_and(|status| status.success()) {
                break;
            }
            if began.elapsed() > ANSWER_MAX {
                let s = ANSWER_MAX.as_secs();
                return Err(format!("`tandem status` was not answered for {s} s"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// A server that hangs may still say where it stands: that is kept in its folder, as `status.json`.
    pub fn keep_status(&self) {
        let asked = Command::new("timeout")
            .arg("10")
            .arg(&self.tandem)
            .args(["status", "--json"])
            .arg(self.folder.join("pool.toml"))
            .stdin(Stdio::null())
            .output();
        if let Ok(output) = asked {
            // that it cannot be kept is no news: the run is reported anyway
            let _ = std::fs::write(
                self.folder.join("status.json"),
                [output.stdout, output.stderr].concat(),
            );
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
