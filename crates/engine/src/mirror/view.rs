//! What is there to see of a pair?

use tandem_block::{DeviceId, Duration};

/// What a mirror has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairStats {
    /// Changes of roles.
    pub turns: u64,
    /// … of these before the period was over, because the cache or the record was full.
    pub early_turns: u64,
    /// Writes accepted, in bytes.
    pub accepted_bytes: u64,
    /// Bytes of writes sent to each leg.
    pub written_bytes: [u64; 2],
    /// Reads sent to each leg.
    pub reads: [u64; 2],
    /// Reads that the cache answered alone.
    pub cache_reads: u64,
    /// Reads that a leg and the cache answered together.
    pub mixed_reads: u64,
    /// Writes that waited for the pace or the cache, and how long in all.
    pub held: u64,
    /// … in nanoseconds
    pub held_ns: u64,
    /// Records written.
    pub(crate) records: u64,
    /// Bytes copied to a leg that was behind.
    pub resynced_bytes: u64,
    /// Blocks that could not be read for that: they are lost until they are written again.
    pub unreadable_blocks: u64,
    /// Reads that one leg could not answer and the other one did.
    pub repaired_reads: u64,
    /// Legs written off.
    pub failures: u64,
    /// Journals written off.
    pub(crate) journal_failures: u64,
}

/// A pair as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairView {
    /// Ids of the legs in the event loop.
    pub legs: [DeviceId; 2],
    /// Which of them serve.
    pub alive: [bool; 2],
    /// The leg that writes, and is right where they differ.
    pub lead: usize,
    /// The leg that is read.
    pub reader: usize,
    /// A leg died, and a power cut now would lose what only it had made durable: over as soon as the cache
    /// is written to the other one, and that one's record says so.
    pub exposed: bool,
    /// Bytes in the cache now.
    pub cache_bytes: u64,
    /// … and at most so far
    pub cache_bytes_max: u64,
    /// … and the bound
    pub cache_bytes_bound: u64,
    /// Bytes that were overwritten before any leg was sent them.
    pub coalesced_bytes: u64,
    /// Bytes of each leg that are behind and not read from it.
    pub stale_bytes: [u64; 2],
    /// What a leg writes in a second, as measured. Paper: `k`.
    pub write_bytes_per_s: u64,
    /// Time without writes before the next change of roles.
    pub idle: Duration,
    /// Its journal, if it has one.
    pub journal: Option<JournalView>,
    /// Counters.
    pub stats: PairStats,
}

/// What a pair's journal has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Units written.
    pub units: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Bytes of users' and the engine's writes in them.
    pub data_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Times that the tail was moved.
    pub heads: u64,
    /// Bytes that were written to a leg at the start.
    pub replayed_bytes: u64,
}

/// A pair's journal as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalView {
    /// Its id in the event loop.
    pub device: DeviceId,
    /// Does it take part?
    pub alive: bool,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// … in use
    pub used_bytes: u64,
    /// Where the buffer of a hard drive stands.
    pub window: Option<&'static str>,
    /// Units of a hard drive that did not wait for its buffer.
    pub forced: u64,
    /// Counters.
    pub stats: JournalStats,
}
