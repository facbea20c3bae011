//! Who serves while something is measured? `tandem serve` over a configuration of its own, or another
//! server beside it; each is stopped at the end whatever happens.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to come up.
const START_MAX: Duration = Duration::from_secs(60);
/// How long it may take to end cleanly.
const END_MAX: Duration = Duration::from_secs(120);

/// A process that is ended with SIGTERM, and, if that does not help, killed.
pub struct Server {
    child: Option<Child>,
}

impl Server {
    /// Takes care of this process.
    pub fn new(child: Child) -> Server {
        Server { child: Some(child) }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Asks it to end and waits for it.
    ///
    /// # Errors
    /// If it does not end in time, or not well.
    pub fn stop(mut self) -> Result<()> {
        let status = self.end()?;
        if !status.success() {
            bail!("the server ended with {status}");
        }
        Ok(())
    }

    /// Kills it, as a crash would, and waits until it is gone.
    ///
    /// # Errors
    /// If it had ended before.
    pub fn kill(mut self) -> Result<()> {
        let mut child = self.child.take().context("it was ended before")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn end(&mut self) -> Result<ExitStatus> {
        let Some(mut child) = self.child.take() else { bail!("it was ended before") };
        // one that has ended already cannot be asked
        let _ = rustix::process::kill_process(Pid::from_child(&child), Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < END_MAX {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill()?;
        child.wait()?;
        bail!("the server did not end within {} s of SIGTERM", END_MAX.as_secs())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.end();
        }
    }
}

/// A command that is called when this is dropped, in whatever state the measurement stopped; that it
/// fails, because there is nothing left to undo, is no matter.
pub struct Undo(Vec<String>);

impl Undo {
    /// Will call this.
    pub fn new(words: &[&str]) -> Undo {
        Undo(words.iter().map(|word| (*word).to_owned()).collect())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(&self.0[0]).args(&self.0[1..]).output();
    }
}

/// A pool in a temporary folder.
pub struct Pool {
    tandem: PathBuf,
    folder: tempfile::TempDir,
}

impl Pool {
    /// A folder under `place` with this configuration in it; nothing is formatted yet.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(tandem: &Path, place: &Path, config: &str) -> Result<Pool> {
        std::fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
        let folder = tempfile::Builder::new().prefix("pool-").tempdir_in(place)?;
        std::fs::write(folder.path().join("pool.toml"), config)?;
        Ok(Pool { tandem: tandem.to_owned(), folder })
    }

    /// Another configuration, from the next server on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn configure(&self, config: &str) -> Result<()> {
        Ok(std::fs::write(self.folder().join("pool.toml"), config)?)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The URI of a volume over the socket `tandem.sock`.
    pub fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.folder().join("tandem.sock").display())
    }

    /// Calls a verb with words, then the configuration; what it printed.
    ///
    /// # Errors
    /// If it fails.
    pub fn call(&self, words: &[&str]) -> Result<String> {
        self.run(&[words, &["pool.toml"]].concat())
    }

    /// Calls the program with these words in its folder, where `pool.toml` is the configuration; what it printed.
    ///
    /// # Errors
    /// If it fails.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.tandem)
            .args(words)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("starting {}", self.tandem.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            let said = format!("{} {}", text(&output.stdout), text(&output.stderr));
            bail!("tandem {} gave {}: {}", words.join(" "), output.status, said.trim());
        }
        Ok(text(&output.stdout))
    }

    /// Serves it; returns when requests are welcome.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn serve(&self) -> Result<Server> {
        self.serve_with(&[])
    }

    /// Serves it with further words, which may name files in its folder.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn serve_with(&self, words: &[&str]) -> Result<Server> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder().join("server.log"))?;
        let mut child = Command::new(&self.tandem)
            .arg("serve")
            .arg(self.folder().join("pool.toml"))
            .args(words)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.tandem.display()))?;
        let stdout = child.stdout.take().context("its output")?;
        let server = Server::new(child);
        let (ready, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.starts_with("serving") {
                    let _ = ready.send(());
                }
            }
        });
        if hear.recv_timeout(START_MAX).is_err() {
            let said = std::fs::read_to_string(self.folder().join("server.log"));
            bail!("tandem serve did not come up: {}", said.unwrap_or_default().trim());
        }
        Ok(server)
    }
}

/// Serves a plugin of nbdkit on a socket.
///
/// # Errors
/// If it is not installed or does not come up.
pub fn nbdkit(socket: &Path, plugin: &[&str]) -> Result<Server> {
    let child = Command::new("nbdkit")
        .args(["--foreground", "--unix"])
        .arg(socket)
        .args(plugin)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting nbdkit (apt-get install nbdkit)")?;
    let server = Server::new(child);
    let began = Instant::now();
    while !socket.exists() {
        if began.elapsed() > START_MAX {
            bail!("nbdkit {} did not come up", plugin.join(" "));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(server)
}
