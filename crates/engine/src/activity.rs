//! What is going on right now? For crash tests, which must meet every kind of work, and for people.

use crate::engine::Engine;
use crate::io::Phase;
use crate::owner::MoveKind;

/// Kinds of work that may be under way at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The engine formats or recovers.
    pub starting: bool,
    /// The engine takes nothing new and settles.
    pub stopping: bool,
    /// A commit is under way, or someone waits for one.
    pub commit: bool,
    /// A checkpoint is being written.
    pub checkpoint: bool,
    /// Blocks move from an SSD to their homes.
    pub write_back: bool,
    /// Blocks move from a log to their homes.
    pub log_gc: bool,
    /// A block and its fragments are being merged.
    pub merge: bool,
    /// A block that is read again and again moves from a log to an SSD.
    pub promotion: bool,
    /// An extent comes to an SSD for its tier.
    pub promoting: bool,
    /// Extents are on their way out of a tier.
    pub demoting: bool,
    /// The tail of a hard drive is being copied to an SSD.
    pub tail_copy: bool,
    /// A hard drive is being flushed.
    pub hdd_flush: bool,
    /// A drive is being replaced.
    pub replacement: bool,
    /// … and the new one becomes the member now
    pub switch: bool,
    /// A drive is being drained, or removed.
    pub drain: bool,
    /// A write waits for space.
    pub short_of_space: bool,
    /// No log takes a redirected write any more.
    pub logs_full: bool,
}

impl Engine {
    /// What is going on now.
    pub fn activity(&self) -> Activity {
        let moves =
            |kind| !self.migration.moves.is_idle() && self.migration.moves.counts_as() == kind;
        Activity {
            starting: self.io.phase() == Phase::Starting,
            stopping: self.io.is_stopping(),
            commit: !self.store.commit.is_idle(),
            checkpoint: !self.store.checkpoint.is_idle(),
            write_back: moves(MoveKind::WriteBack),
            log_gc: moves(MoveKind::LogGc),
            merge: moves(MoveKind::Merge),
            promotion: moves(MoveKind::Promotion),
            promoting: !self.policy.tiers.tiers_are_idle(),
            demoting: self.policy.tiers.is_demoting(),
            tail_copy: self.migration.tail_copies.under_way() > 0,
            hdd_flush: self.io.drives().iter().any(|device| device.flushing.is_some()),
            replacement: self.replicas.replacement.is_under_way(),
            switch: self.replicas.replacement.is_switching(),
            drain: self.migration.evacuation.is_under_way(),
            short_of_space: self.io.waits_for_space(),
            logs_full: self.logs_are_full(),
        }
    }

    fn logs_are_full(&self) -> bool {
        let stop_percent = self.io.config().log_stop_percent;
        let mut logs = self.io.drives().iter().filter_map(|device| device.log.as_ref()).peekable();
        logs.peek().is_some() && logs.all(|log| log.used_percent() >= stop_percent)
    }

    /// How often the journal of this life has begun at its start again.
    pub fn journal_turns(&self) -> u64 {
        self.store.journal.mark().0 / self.store.journal.ring_bytes()
    }
}
