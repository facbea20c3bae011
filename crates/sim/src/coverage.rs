//! What did the crash tests meet?
//!
//! A campaign that never crashed during a checkpoint says nothing about checkpoints. Every crash is
//! counted by what was going on, every run by the work it did, and a share of the swarm fails if it
//! met too little. Source: acceptance of the spine, "never cut or postponed" and line 6.

use std::ops::AddAssign;
use tandem_engine::drain;
use tandem_engine::replacement::Ending;
use tandem_engine::{Activity, Engine};

/// What is counted: crashes while something went on, then work done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names in NAMES say it")]
pub enum Met {
    Crashes,
    Faults,
    InCommit,
    InCheckpoint,
    InWriteBack,
    InLogGc,
    InMerge,
    InPromotion,
    InPromoting,
    InDemoting,
    InTailCopy,
    BesideLog,
    InHddFlush,
    ShortOfSpace,
    BothFull,
    InStop,
    InRecovery,
    Checkpoints,
    CheckpointParts,
    JournalTurns,
    BlocksHome,
    LogGcBytes,
    Merges,
    Fragments,
    Redirected,
    TailBytes,
    CopiesDropped,
    ReadBacks,
    Promoted,
    Came,
    Demoted,
    LeftAsCopies,
    CopiesBesideLogs,
    Hedged,
    HedgedSooner,
    Detours,
    TakenOver,
    Batches,
    InPieces,
    WithoutSpace,
    Cloned,
    CopiedUp,
    InReplacement,
    InSwitch,
    Replaced,
    Added,
    ReplaceResumed,
    ReplaceEnded,
    Doubled,
    InDrain,
    Removed,
    DrainCancelled,
    Drained,
    Restarts,
    StartsRefused,
    RolledBack,
    Excused,
    TierChanges,
    Snapshots,
    ObjectsRemoved,
    PageReads,
}

/// What each count is called, in the order of `Met`.
const NAMES: [&str; COUNTS] = [
    "crashes",
    "faults",
    "in commits",
    "in checkpoints",
    "in write-back",
    "in log GC",
    "in merges",
    "in promotions",
    "while extents came",
    "while extents left",
    "in tail copies",
    "while copies stayed beside logs",
    "in hard drives' flushes",
    "while writes waited for space",
    "while the logs were full too",
    "while stopping",
    "in recoveries",
    "checkpoints",
    "checkpoints of a part",
    "journal turns",
    "blocks moved home",
    "log GC bytes",
    "merges",
    "fragments",
    "redirected writes",
    "tail bytes",
    "clean copies dropped",
    "reads of redirected data from RAM",
    "blocks promoted",
    "blocks that came to a tier",
    "blocks written home as their extents left",
    "copies dropped as their extents left",
    "copies that stayed beside logs",
    "writes sent to a log as well",
    "… with which the log was first",
    "writes that went to a log to follow",
    "blocks taken over from logs",
    "batches of objects",
    "requests in pieces",
    "writes without space",
    "clones and snapshots",
    "shared blocks copied for a part",
    "while a drive was replaced",
    "while its successor took over",
    "drives replaced",
    "… in places that were empty",
    "replacements resumed",
    "replacements ended early",
    "bytes written to both drives",
    "while a drive was drained",
    "drives removed",
    "drains cancelled",
    "bytes moved off drives",
    "lives that ended",
    "starts refused for a fault",
    "drives rolled back",
    "errors excused by a fault",
    "tiers changed",
    "snapshots asked for",
    "objects removed",
    "pages of checksums read",
];

impl Met {
    /// What it is called.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

const COUNTS: usize = Met::PageReads as usize + 1;

/// Counts of what was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage([u64; COUNTS]);

impl Default for Coverage {
    fn default() -> Self {
        Coverage([0; COUNTS])
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Coverage) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

impl Coverage {
    /// One count.
    pub fn get(&self, what: Met) -> u64 {
        self.0[what as usize]
    }

    /// All counts, in the order of `Met`.
    pub fn counts(&self) -> &[u64] {
        &self.0
    }

    /// Counts in the order of `Met`. None if there are not as many as kinds.
    pub fn from_counts(counts: &[u64]) -> Option<Coverage> {
        Some(Coverage(counts.try_into().ok()?))
    }

    /// What was met at all, and how often.
    pub fn met(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, what: Met, count: u64) {
        self.0[what as usize] += count;
    }

    /// So many crashes while this went on.
    pub fn crashed(&mut self, now: Activity, crashes: u64) {
        self.add(Met::Crashes, crashes);
        for (goes_on, what) in [
            (now.commit, Met::InCommit),
            (now.checkpoint, Met::InCheckpoint),
            (now.write_back, Met::InWriteBack),
            (now.log_gc, Met::InLogGc),
            (now.merge, Met::InMerge),
            (now.promotion, Met::InPromotion),
            (now.promoting, Met::InPromoting),
            (now.demoting, Met::InDemoting),
            (now.tail_copy, Met::InTailCopy),
            (now.beside_log, Met::BesideLog),
            (now.hdd_flush, Met::InHddFlush),
            (now.short_of_space, Met::ShortOfSpace),
            (now.short_of_space && now.logs_full, Met::BothFull),
            (now.stopping, Met::InStop),
            (now.starting, Met::InRecovery),
            (now.replacement, Met::InReplacement),
            (now.switch, Met::InSwitch),
            (now.drain, Met::InDrain),
        ] {
            if goes_on {
                self.add(what, crashes);
            }
        }
    }

    /// The work that an engine did in its life.
    pub fn worked(&mut self, engine: &Engine) {
        let stats = engine.stats();
        self.add(Met::Checkpoints, stats.checkpoints);
        self.add(Met::CheckpointParts, stats.checkpoint_parts);
        self.add(Met::JournalTurns, engine.journal_turns());
        self.add(Met::PageReads, stats.page_reads);
        self.add(Met::BlocksHome, stats.moves);
        self.add(Met::LogGcBytes, stats.devices.iter().map(|d| d.gc_bytes).sum());
        self.add(Met::Merges, stats.merged);
        self.add(Met::Fragments, stats.fragments);
        self.add(Met::Redirected, stats.redirected.0);
        self.add(Met::TailBytes, stats.devices.iter().map(|d| d.tail_bytes).sum());
        self.add(Met::CopiesDropped, stats.copies_dropped);
        let read_back = &stats.read_back;
        self.add(Met::ReadBacks, read_back.from_tail.count + read_back.from_cache.count);
        self.add(Met::Promoted, read_back.promoted);
        self.add(Met::Came, stats.tiers.came_blocks);
        self.add(Met::Demoted, stats.tiers.demoted_blocks);
        self.add(Met::LeftAsCopies, stats.tiers.dropped_blocks);
        self.add(Met::CopiesBesideLogs, stats.copies_beside_logs);
        self.add(Met::Hedged, stats.late.hedged);
        self.add(Met::HedgedSooner, stats.late.hedged_sooner);
        self.add(Met::Detours, stats.late.detours);
        self.add(Met::TakenOver, stats.late.taken_over);
        self.add(Met::Batches, stats.batches);
        self.add(Met::InPieces, stats.in_pieces);
        self.add(Met::WithoutSpace, stats.without_space);
        self.add(Met::Cloned, stats.clones);
        self.add(Met::CopiedUp, stats.copied_up);
        if let Some(view) = engine.drain_view() {
            let ended = view.ended.map(|(_, ending)| ending);
            self.add(Met::Removed, u64::from(ended == Some(drain::Ending::Removed)));
            self.add(Met::DrainCancelled, u64::from(ended == Some(drain::Ending::Cancelled)));
            self.add(Met::Drained, view.moved_bytes);
        }
        let Some(view) = engine.replacement() else { return };
        let ended = view.ended.map(|(_, ending)| ending);
        self.add(Met::Replaced, u64::from(ended == Some(Ending::Finished)));
        let added = view.joins && ended == Some(Ending::Finished);
        self.add(Met::Added, u64::from(added));
        self.add(Met::ReplaceEnded, u64::from(ended.is_some_and(|e| e != Ending::Finished)));
        self.add(Met::ReplaceResumed, u64::from(view.stats.resumed_bytes > 0));
        self.add(Met::Doubled, view.stats.doubled_bytes);
    }

    /// What was met less often than it must be, in words.
    pub fn missing(&self, least: &[(Met, u64)]) -> Vec<String> {
        least
            .iter()
            .filter(|(what, least)| self.get(*what) < *least)
            .map(|(what, least)| {
                format!("{}: {}, at least {least} wanted", NAMES[*what as usize], self.get(*what))
            })
            .collect()
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, count)) in self.met().enumerate() {
            let gap = if index == 0 { "" } else { ", " };
            write!(out, "{gap}{count} {name}")?;
        }
        Ok(())
    }
}
