//! How much more may this process map, if somebody has limited it (`ulimit -v`, `prlimit --as`)?
//!
//! An allocation that fails ends the process, wherever it is made. So what a client asks for is refused
//! while there is still a margin for everything else.

use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// What stays free for all that is not asked for by clients (guess: the engine moves 1 MiB at a time, and
/// its tables grow by doubling).
pub const MARGIN_BYTES: u64 = 48 << 20;
/// What a request that wants little leaves of it (guess). So small requests are served where large ones
/// have taken all that they may.
const SMALL_MARGIN_BYTES: u64 = MARGIN_BYTES / 2;
/// A request that wants no more than this wants little.
const SMALL_BYTES: u64 = 128 << 10;
/// A limit may be changed while the process runs; it is looked at so often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The limit of this process, and how far it is from it.
#[derive(Debug)]
pub struct MemoryLimit {
    limit_bytes: Option<u64>,
    looked: Option<Instant>,
    /// Kept open: it may not be possible to open it later.
    statm: Option<File>,
}

impl MemoryLimit {
    /// That of this process.
    pub fn of_this_process() -> MemoryLimit {
        MemoryLimit { limit_bytes: None, looked: None, statm: File::open("/proc/self/statm").ok() }
    }

    /// Is there room for a request that maps `bytes`, beside `promised` bytes of others that are not mapped
    /// yet? Always true without a limit.
    pub fn has_room(&mut self, bytes: u64, promised_bytes: u64) -> bool {
        let Some(free) = self.free_bytes() else { return true };
        fits(free, bytes, promised_bytes)
    }

    /// Bytes that may be mapped beyond what is; `None` without a limit.
    fn free_bytes(&mut self) -> Option<u64> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN) {
            self.limit_bytes = getrlimit(Resource::As).current;
            self.looked = Some(Instant::now());
        }
        let limit = self.limit_bytes?;
        let mapped = self.mapped_bytes()?;
        Some(limit.saturating_sub(mapped))
    }

    /// What the process has mapped; `None` if the system does not tell.
    fn mapped_bytes(&self) -> Option<u64> {
        let mut text = [0u8; 128];
        let length = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        let first = std::str::from_utf8(&text[..length]).ok()?.split(' ').next()?;
        let pages: u64 = first.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
}

/// Do `bytes` fit into what is free, beside what is promised and the margin?
fn fits(free_bytes: u64, bytes: u64, promised_bytes: u64) -> bool {
    let margin = if bytes <= SMALL_BYTES { SMALL_MARGIN_BYTES } else { MARGIN_BYTES };
    bytes.saturating_add(promised_bytes).saturating_add(margin) <= free_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_large_requests_leave_serves_small_ones() {
        // (free, wanted, promised, fits)
        let table = [
            (MARGIN_BYTES + (32 << 20), 32 << 20, 0, true),
            (MARGIN_BYTES + (32 << 20), 32 << 20, 1, false),
            // the large ones have taken what they may, to the last byte
            (MARGIN_BYTES, 1 << 20, 0, false),
            (MARGIN_BYTES, 4096, 0, true),
            (MARGIN_BYTES + (17 << 20), 4096, 17 << 20, true),
            (SMALL_MARGIN_BYTES + SMALL_BYTES, SMALL_BYTES, 0, true),
            // nor do small ones take all
            (SMALL_MARGIN_BYTES, 4096, 0, false),
            (0, 0, 0, false),
        ];
        for (free, bytes, promised, is_so) in table {
            assert_eq!(fits(free, bytes, promised), is_so, "{bytes} and {promised} of {free}");
        }
    }

    #[test]
    fn what_is_mapped_is_known_and_grows() {
        let mut limit = MemoryLimit::of_this_process();
        let before = limit.mapped_bytes().expect("Linux tells");
        let memory = crate::buffer::Memory::zeroed(64 << 20);
        let after = limit.mapped_bytes().expect("Linux tells");
        // other tests map and unmap meanwhile
        assert!(after > before + (16 << 20), "{before} and then {after} with {}", memory.len());
        let unlimited = getrlimit(Resource::As).current.is_none();
        assert_eq!(limit.free_bytes().is_none(), unlimited);
    }
}
