//! How do the mirrored pairs of a server stand?

use serde::{Deserialize, Serialize};
use tandem_engine::mirror::{JournalView, PairView};

/// A pair; what is of two has one value for each leg.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pair {
    pub drives: [usize; 2],
    pub alive: [bool; 2],
    /// The leg that writes.
    pub writes: usize,
    /// The leg that is read.
    pub reads: usize,
    /// A power cut now would lose what only a dead leg had made durable.
    pub exposed: bool,
    pub behind_bytes: [u64; 2],
    pub cache_bytes: u64,
    pub cache_bytes_max: u64,
    pub cache_bytes_bound: u64,
    pub coalesced_bytes: u64,
    pub write_bytes_per_s: u64,
    pub idle_ns: u64,
    pub turns: u64,
    pub early_turns: u64,
    pub accepted_bytes: u64,
    pub written_bytes: [u64; 2],
    pub reads_by_drive: [u64; 2],
    pub cache_reads: u64,
    pub held: u64,
    pub held_ns: u64,
    pub resynced_bytes: u64,
    /// Blocks that could not be read while they were copied.
    pub unreadable_blocks: u64,
    pub repaired_reads: u64,
    pub failures: u64,
    pub journal: Option<Journal>,
}

impl Pair {
    pub(super) fn of(view: &PairView) -> Pair {
        let stats = &view.stats;
        Pair {
            drives: view.legs.map(|leg| usize::from(leg.0)),
            alive: view.alive,
            writes: view.lead,
            reads: view.reader,
            exposed: view.exposed,
            behind_bytes: view.stale_bytes,
            cache_bytes: view.cache_bytes,
            cache_bytes_max: view.cache_bytes_max,
            cache_bytes_bound: view.cache_bytes_bound,
            coalesced_bytes: view.coalesced_bytes,
            write_bytes_per_s: view.write_bytes_per_s,
            idle_ns: view.idle.ns,
            turns: stats.turns,
            early_turns: stats.early_turns,
            accepted_bytes: stats.accepted_bytes,
            written_bytes: stats.written_bytes,
            reads_by_drive: stats.reads,
            cache_reads: stats.cache_reads,
            held: stats.held,
            held_ns: stats.held_ns,
            resynced_bytes: stats.resynced_bytes,
            unreadable_blocks: stats.unreadable_blocks,
            repaired_reads: stats.repaired_reads,
            failures: stats.failures,
            journal: view.journal.as_ref().map(Journal::of),
        }
    }
}

/// The third drive of a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    pub drive: usize,
    pub alive: bool,
    pub ring_bytes: u64,
    pub used_bytes: u64,
    /// Where the buffer of a hard drive stands.
    pub window: Option<String>,
    /// Units that did not wait for the buffer of a hard drive.
    pub units_not_awaited: u64,
    pub units: u64,
    pub written_bytes: u64,
    pub data_bytes: u64,
    pub flushes: u64,
    pub heads: u64,
    pub replayed_bytes: u64,
}

impl Journal {
    fn of(view: &JournalView) -> Journal {
        let stats = &view.stats;
        Journal {
            drive: usize::from(view.device.0),
            alive: view.alive,
            ring_bytes: view.ring_bytes,
            used_bytes: view.used_bytes,
            window: view.window.map(str::to_owned),
            units_not_awaited: view.forced,
            units: stats.units,
            written_bytes: stats.written_bytes,
            data_bytes: stats.data_bytes,
            flushes: stats.flushes,
            heads: stats.heads,
            replayed_bytes: stats.replayed_bytes,
        }
    }
}
