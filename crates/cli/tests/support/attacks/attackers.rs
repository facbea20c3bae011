//! Who misbehaves, and how?

use super::Victim;
use super::measured::{Line, request};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tandem_fronts::nbd::wire::{self, command, option};

/// A byte of those who are slow.
const SLOW: Duration = Duration::from_millis(50);
/// How many requests of a kind that costs the client nothing an attacker sends before it waits.
const FLOOD: usize = 20_000;
/// The largest request that the server allows.
const LARGEST: u32 = 32 << 20;

/// A way to misbehave.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Silent { count: usize },
    SlowNegotiation { count: usize },
    Options { count: usize, reads: bool },
    HalfHeaders { count: usize },
    Bodies { count: usize, trickle: bool },
    Unread { count: usize, request_bytes: u32 },
    UnreadFlush { count: usize },
    UnreadStatus { count: usize },
    ComesAndGoes { negotiates: bool },
    ControlHalfLines { count: usize },
    ControlUnread { count: usize },
}

/// Those who misbehave, until this is dropped.
pub struct Attackers {
    lines: Vec<UnixStream>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Attackers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for line in &self.lines {
            let _ = line.shutdown(std::net::Shutdown::Both); // may be closed by the server already
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Attackers {
    /// Lets them loose. Those who cannot connect or are closed have lost; that is no error.
    ///
    /// # Errors
    /// If not even the first of them finds the server.
    pub fn begin(shape: &Shape, victim: &Victim) -> Result<Attackers, String> {
        let over = Arc::new(AtomicBool::new(false));
        let mut all = Attackers { lines: Vec::new(), over, threads: Vec::new() };
        let (nbd, control) = (victim.nbd(), victim.control());
        match *shape {
            Shape::Silent { count } => all.connect(&nbd, count)?,
            Shape::ControlHalfLines { count } => {
                all.connect(&control, count)?;
                all.say(b"{\"verb\":");
            }
            Shape::SlowNegotiation { count } => {
                all.connect(&nbd, count)?;
                let mut bytes = 3u32.to_be_bytes().to_vec();
                wire::write_option(&mut bytes, option::GO, &[0; 4096]);
                all.trickle(bytes);
            }
            Shape::Options { count, reads } => {
                for _ in 0..count.min(if reads { count } else { 8 }) {
                    all.repeat(&nbd, move |socket, over| options(socket, over, reads));
                }
            }
            Shape::HalfHeaders { count } => {
                all.choose(&nbd, count)?;
                all.say(&request(command::READ, 1, (0, 4096), &[])[..13]);
            }
            Shape::Bodies { count, trickle } => {
                all.choose(&nbd, count)?;
                all.say(&request(command::WRITE, 1, (0, LARGEST), &[1]));
                if trickle {
                    all.trickle(vec![1; 4096]);
                }
            }
            Shape::Unread { count, request_bytes } => {
                all.choose(&nbd, count)?;
                let spread = (64 << 20) / u64::from(request_bytes);
                all.flood(move |number| {
                    let at = number % spread * u64::from(request_bytes);
                    request(command::READ, number, (at, request_bytes), &[])
                });
            }
            Shape::UnreadFlush { count } => {
                all.choose(&nbd, count)?;
                all.flood(|number| request(command::FLUSH, number, (0, 0), &[]));
            }
            Shape::UnreadStatus { count } => {
                all.choose(&nbd, count)?;
                all.flood(|number| {
                    request(command::BLOCK_STATUS, number, (64 << 20, 32 << 20), &[])
                });
            }
            Shape::ComesAndGoes { negotiates } => {
                all.repeat(&nbd, move |socket, _| {
                    if negotiates {
                        let _ = Line::choose(socket, "vol1");
                    } else {
                        let _ = UnixStream::connect(socket);
                    }
                });
            }
            Shape::ControlUnread { count } => {
                all.connect(&control, count)?;
                all.flood(|_| b"{\"verb\":\"status\"}\n".to_vec());
            }
        }
        Ok(all)
    }

    /// So many connections. Those that the server does not take wait in its socket, or are refused.
    fn connect(&mut self, socket: &Path, count: usize) -> Result<(), String> {
        for number in 0..count {
            match connect_now(socket) {
                Ok(stream) => self.lines.push(stream),
                Err(error) if number == 0 => return Err(format!("connecting: {error}")),
                Err(_) => break, // the queue of the socket is full
            }
        }
        Ok(())
    }

    /// So many connections that have chosen an export.
    fn choose(&mut self, socket: &Path, count: usize) -> Result<(), String> {
        for number in 0..count {
            match Line::choose(socket, "vol1") {
                Ok(line) => self.lines.push(line.stream),
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            }
        }
        for line in &self.lines {
            line.set_nonblocking(true).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Each says this.
    fn say(&mut self, bytes: &[u8]) {
        for line in &mut self.lines {
            let _ = line.write_all(bytes); // who was closed says nothing
        }
    }

    /// Each says this a byte at a time.
    fn trickle(&mut self, bytes: Vec<u8>) {
        let mut lines: Vec<UnixStream> =
            self.lines.iter().filter_map(|line| line.try_clone().ok()).collect();
        let over = Arc::clone(&self.over);
        self.threads.push(std::thread::spawn(move || {
            polite();
            for byte in bytes.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                for line in &mut lines {
                    let _ = line.write(std::slice::from_ref(byte));
                }
                std::thread::sleep(SLOW);
            }
        }));
    }

    /// Each sends requests until nobody takes them any more, and reads nothing.
    fn flood(&mut self, make: impl Fn(u64) -> Vec<u8> + Send + 'static) {
        let mut lines: Vec<UnixStream> =
            self.lines.iter().filter_map(|line| line.try_clone().ok()).collect();
        for line in &lines {
            let _ = line.set_nonblocking(true);
        }
        let over = Arc::clone(&self.over);
        self.threads.push(std::thread::spawn(move || {
            polite();
            let requests: Vec<Vec<u8>> =
                (0..64).map(|n| (0..16).flat_map(|k| make(n * 16 + k)).collect()).collect();
            let mut sent = vec![(0usize, 0usize); lines.len()];
            while !over.load(Ordering::Relaxed) {
                for (line, (batch, at)) in lines.iter_mut().zip(&mut sent) {
                    if *batch * 16 >= FLOOD {
                        continue;
                    }
                    let bytes = &requests[*batch % requests.len()][*at..];
                    match line.write(bytes) {
                        Ok(count) if count == bytes.len() => (*batch, *at) = (*batch + 1, 0),
                        Ok(count) => *at += count,
                        Err(_) => {}
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }));
    }

    /// Does something again and again.
    fn repeat(&mut self, socket: &Path, act: impl Fn(&Path, &AtomicBool) + Send + 'static) {
        let (socket, over): (PathBuf, _) = (socket.to_owned(), Arc::clone(&self.over));
        self.threads.push(std::thread::spawn(move || {
            polite();
            while !over.load(Ordering::Relaxed) {
                act(&socket, &over);
            }
        }));
    }
}

/// Attackers come from other machines in truth: what their threads take of this one is no part of the
/// attack.
fn polite() {
    let _ = rustix::process::nice(19);
}

/// A connection, unless the socket's queue is full.
fn connect_now(socket: &Path) -> std::io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(fd))
}

/// One connection that asks for the list of exports until it is closed.
fn options(socket: &Path, over: &AtomicBool, reads: bool) {
    let Ok(mut line) = Line::greet(socket) else { return };
    let mut list = Vec::new();
    wire::write_option(&mut list, option::LIST, &[]);
    let many = list.repeat(64);
    if line.stream.set_nonblocking(true).is_err() {
        return;
    }
    let mut bytes = vec![0; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        let said = line.stream.write(&many);
        let heard = if reads { line.stream.read(&mut bytes) } else { Ok(1) };
        let waits = |result: &std::io::Result<usize>| {
            result.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
        };
        if matches!(heard, Ok(0)) || (said.is_err() && !waits(&said)) {
            return; // closed by the server
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
