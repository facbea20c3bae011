//! How fast is a good client, and how much memory does a server use?

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem_fronts::nbd::wire::{self, RequestHeader, command};

/// Longest that a good client waits for any answer before it says that it is not served.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// Requests that the good client has under way.
const DEPTH: u64 = 16;
const BLOCK: usize = 4096;

/// One window of measuring.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub length: Duration,
}

/// A connection that waits for nothing longer than it should.
pub struct Line {
    pub stream: UnixStream,
}

impl Line {
    /// Connects; the greeting is read and answered.
    ///
    /// # Errors
    /// If nobody answers in time.
    pub fn greet(socket: &Path) -> Result<Line, String> {
        let stream = UnixStream::connect(socket).map_err(|e| format!("connecting: {e}"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        let mut line = Line { stream };
        line.take(18).map_err(|why| format!("no greeting: {why}"))?;
        line.send(&3u32.to_be_bytes())?;
        Ok(line)
    }

    /// Connects and chooses an export, with structured replies and block status.
    ///
    /// # Errors
    /// If the server refuses, or does not answer in time.
    pub fn choose(socket: &Path, export: &str) -> Result<Line, String> {
        let mut line = Line::greet(socket)?;
        line.option(wire::option::STRUCTURED_REPLY, &[])?;
        let mut query = Vec::new();
        wire::write_string(&mut query, export);
        query.extend_from_slice(&1u32.to_be_bytes());
        wire::write_string(&mut query, wire::BASE_ALLOCATION);
        line.option(wire::option::SET_META_CONTEXT, &query)?;
        let mut data = Vec::new();
        wire::write_string(&mut data, export);
        data.extend_from_slice(&0u16.to_be_bytes());
        line.option(wire::option::GO, &data)?;
        Ok(line)
    }

    /// Sends an option and reads its replies to the end.
    fn option(&mut self, option: u32, data: &[u8]) -> Result<(), String> {
        let mut out = Vec::new();
        wire::write_option(&mut out, option, data);
        self.send(&out)?;
        loop {
            let head = self.take(20)?;
            let number = |at: usize| {
                u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let (kind, length) = (number(12), number(16));
            let said = self.take(length as usize)?;
            match kind {
                wire::reply::ACK => return Ok(()),
                _ if kind & (1 << 31) != 0 => {
                    return Err(format!("refused: {}", String::from_utf8_lossy(&said)));
                }
                _ => {}
            }
        }
    }

    /// # Errors
    /// If it cannot be sent in time.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|e| format!("sending: {e}"))
    }

    /// # Errors
    /// If so many bytes do not come in time.
    pub fn take(&mut self, count: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).map_err(|e| format!("receiving: {e}"))?;
        Ok(bytes)
    }

    /// A request, and the bytes of its answer.
    fn call(&mut self, command: u16, at: (u64, u32), body: &[u8]) -> Result<Vec<u8>, String> {
        self.send(&request(command, 7, at, body))?;
        self.answer().map(|(_, bytes)| bytes)
    }

    /// Cookie and bytes of the next answer.
    fn answer(&mut self) -> Result<(u64, Vec<u8>), String> {
        let magic = self.take(4)?;
        let cookie_at = |bytes: &[u8]| Ok(u64::from_be_bytes(bytes.try_into().expect("8 bytes")));
        if magic == wire::SIMPLE_REPLY_MAGIC.to_be_bytes() {
            let rest = self.take(12)?;
            let error = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
            let cookie: Result<u64, String> = cookie_at(&rest[4..]);
            return if error == 0 {
                Ok((cookie?, Vec::new()))
            } else {
                Err(format!("error {error}"))
            };
        }
        let head = self.take(16)?;
        let length = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
        let bytes = self.take(length as usize)?;
        let kind = u16::from_be_bytes([head[2], head[3]]);
        if kind != wire::chunk::OFFSET_DATA {
            return Err(format!("a chunk of type {kind:#x}: {bytes:?}"));
        }
        Ok((cookie_at(&head[4..12])?, bytes[8..].to_vec()))
    }

    /// Writes blocks beside each other, durably, and reads them back: what it takes depends on how many
    /// of its requests the server has under way, and little on the processor.
    ///
    /// # Errors
    /// If it fails, does not come in time, or comes back changed.
    pub fn cycle(&mut self, byte: u8) -> Result<(), String> {
        let bytes = [byte; BLOCK];
        let at = |block: u64| (block * 3 * BLOCK as u64, BLOCK as u32);
        let mut out = Vec::new();
        for block in 0..DEPTH {
            let (offset, length) = at(block);
            let flags = wire::flag::FUA;
            RequestHeader { flags, command: command::WRITE, cookie: block, offset, length }
                .write(&mut out);
            out.extend_from_slice(&bytes);
        }
        self.send(&out)?;
        for _ in 0..DEPTH {
            self.answer()?;
        }
        out.clear();
        for block in 0..DEPTH {
            out.extend(request(command::READ, block, at(block), &[]));
        }
        self.send(&out)?;
        for _ in 0..DEPTH {
            let (block, found) = self.answer()?;
            if found != bytes {
                return Err(format!("block {block} came back changed"));
            }
        }
        Ok(())
    }

    /// Writes bytes anywhere.
    ///
    /// # Errors
    /// If it fails or does not come in time.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.call(command::WRITE, (offset, bytes.len() as u32), bytes).map(drop)
    }

    /// Reads from anywhere.
    ///
    /// # Errors
    /// If it fails or does not come in time.
    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, String> {
        self.call(command::READ, (offset, length), &[])
    }
}

/// A request with its body as bytes.
pub fn request(command: u16, cookie: u64, (offset, length): (u64, u32), body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    RequestHeader { flags: 0, command, cookie, offset, length }.write(&mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

/// Writes every other block of the first 64 MiB of `vol1`, so that reads have something to send and its
/// blocks lie in as many extents as there can be.
///
/// # Errors
/// If the server does not take it.
pub fn fill(socket: &Path) -> Result<(), String> {
    let mut line = Line::choose(socket, "vol1")?;
    let bytes = vec![0x5A; 8 << 20];
    for at in (0..64u64 << 20).step_by(bytes.len()) {
        line.write(at, &bytes)?;
    }
    for batch in 0..64u64 {
        let mut out = Vec::new();
        for block in 0..64u64 {
            let at = (64 << 20) + (batch * 64 + block) * 2 * BLOCK as u64;
            out.extend(request(command::WRITE, block, (at, BLOCK as u32), &[0x5A; BLOCK]));
        }
        line.send(&out)?;
        line.take(64 * wire::SIMPLE_REPLY_BYTES)?;
    }
    Ok(())
}

/// Cycles a second of a client that comes now.
///
/// # Errors
/// If it finds no way in, or is not served in time.
pub fn nbd_rate(socket: &Path, window: &Window) -> Result<f64, String> {
    let mut line = Line::choose(socket, "vol0")?;
    let begin = Instant::now();
    let mut count = 0u64;
    while begin.elapsed() < window.length {
        line.cycle(count as u8)?;
        count += 1;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

/// The median of three windows.
///
/// # Errors
/// If one of them fails.
pub fn median_of_three(
    good: &dyn Fn(&Window) -> Result<f64, String>,
    window: &Window,
) -> Result<f64, String> {
    let rates = (0..3).map(|_| good(window)).collect::<Result<Vec<f64>, _>>()?;
    Ok(median(&rates))
}

/// The median; 0 of nothing.
pub fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The median of three windows, or the upper quartile of more: of a machine that does something else as
/// well, the windows that it left to us.
pub fn upper_half(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = if sorted.len() <= 3 { sorted.len() / 2 } else { sorted.len() * 3 / 4 };
    sorted.get(at).copied().unwrap_or(0.0)
}

/// What a process has resident.
pub struct Resident {
    folder: PathBuf,
    before: u64,
}

impl Resident {
    /// Forgets the peak so far.
    ///
    /// # Errors
    /// If the kernel tells nothing of the process.
    pub fn begin(id: u32) -> Result<Resident, String> {
        let folder = PathBuf::from(format!("/proc/{id}"));
        fs::write(folder.join("clear_refs"), "5").map_err(|e| format!("clear_refs: {e}"))?;
        let before = status_bytes(&folder, "VmRSS")?;
        Ok(Resident { folder, before })
    }

    /// The most since then, less what it had then.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn peak_bytes(&self) -> Result<u64, String> {
        Ok(status_bytes(&self.folder, "VmHWM")?.saturating_sub(self.before))
    }
}

/// A line of a process's status in bytes.
///
/// # Errors
/// If there is none.
pub fn status_bytes(folder: &Path, name: &str) -> Result<u64, String> {
    let text = fs::read_to_string(folder.join("status")).map_err(|e| format!("status: {e}"))?;
    let line = text.lines().find(|line| line.starts_with(name));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = words.and_then(|word| word.parse().ok()).ok_or(format!("no {name}"))?;
    Ok(kib << 10)
}
