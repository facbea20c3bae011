//! What steps move data home?
//!
//! Source: design decisions 6, 9 and 10. Log GC chooses in `log_gc`, merges are in `merge`, what
//! becomes of written homes in `homes`.
//!
//! ```text
//! write-back: dirty SSD blocks in LBA order ─▶ read ─▶ (their records durable, no read of the homes
//!             under way) ─▶ write the homes ─▶ flush the drive ─▶ the map adds the homes
//! log GC:     the same, from the living slots of a segment; the log places are then given up
//! merge:      a block and its fragments, read like a user would ─▶ one whole SSD slot
//! promotion:  the same, of a block that is read again and again from a log
//! ```
//! A move commits by compare: if the block changed since it was read, the move is dropped. One move
//! reads, or writes slots, while those before it write homes (`home_writes`). A user waits for one command at most.

pub(crate) mod known;
mod merging;
mod run;
mod steps;
mod sums;

pub(crate) use self::known::Sums;
use self::merging::Merging;
use crate::map::{Logical, Slot};
use crate::migration::dropping::Dropping;
use crate::migration::home_writes::HomeWrites;
use crate::migration::homed::Homed;
pub(crate) use crate::migration::one_move::{Move, Part, Stage};
use crate::migration::unmovable::Unmovable;
use tandem_block::{DeviceId, Duration, Instant};

/// State of background moves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Blocks whose homes are being recorded; their log locations are given up afterwards.
    pub(crate) homed_log: Vec<(Logical, Slot)>,
    /// The one that reads, or that writes to slots.
    pub(crate) active: Option<Move>,
    pub(crate) home_writes: HomeWrites,
    /// Write-back is between its watermarks.
    pub(crate) writing_back: bool,
    /// Some log is to be cleaned, and something of it can be moved.
    pub(crate) cleans_logs: bool,
    cursor: Logical,
    merging: Merging,
    /// Homes written and not yet flushed.
    pub(crate) homed: Homed,
    urgent: bool,
    /// Moves that failed in a row, and until when none begins.
    failures: u32,
    rests_until: Instant,
    pub(crate) unmovable: Unmovable,
    /// So many blocks of a move that could not be read together are moved one by one.
    single: usize,
    /// Write-back has looked at every block in vain, when this batch was durable.
    barren_since: Option<u64>,
    /// Blocks looked at in vain since that batch.
    barren_looked: u64,
    barren_as_of: u64,
    pub(crate) dropping: Dropping,
}

/// Blocks of one command of a move, at most (1 MiB): a user waits for 5 ms of it (guess).
pub(crate) const COMMAND_BLOCKS_MAX: usize = 256;
/// Stretches of homes that one move goes to at most: each may take a seek, and a stop waits for them (guess).
pub(crate) const STRETCHES_MAX: usize = 128;
/// Home writes that gather before their drive is flushed for them, in blocks, at most (256 MiB) …
pub(crate) const HOMED_BLOCKS_MAX: usize = 65_536;
/// … and at least (32 MiB): a flush costs up to 300 ms, so it should settle many (guess).
pub(crate) const HOMED_BLOCKS_MIN: usize = 8_192;
/// Dirty blocks looked at in one step at most: bounds the time that an event takes.
const LOOK_BLOCKS_MAX: u64 = 65_536;
/// … where all were looked at in vain before.
const LOOK_BLOCKS_AGAIN_MAX: u64 = 1024;
/// The pause after a move that failed; it doubles with each in a row, up to 512 times this (guess).
const REST_AFTER_FAILURE: Duration = Duration::from_ms(100);

/// How many parts from the first on form one device read.
fn run_length(
    parts: &[Part],
    follows: impl Fn(&Part, &Part) -> bool,
    device: impl Fn(&Part) -> DeviceId,
) -> usize {
    let mut count = 1;
    while count < parts.len().min(COMMAND_BLOCKS_MAX)
        && follows(&parts[count - 1], &parts[count])
        && device(&parts[count]) == device(&parts[0])
    {
        count += 1;
    }
    count
}

/// Counts stretches of homes that lie behind each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretches {
    count: usize,
    behind: Logical,
}

impl Stretches {
    /// The home of this block is one more.
    pub(crate) fn add(&mut self, block: Logical) {
        self.count += usize::from(self.count == 0 || block != self.behind);
        self.behind = block + 1;
    }

    /// May a move go to one more?
    pub(crate) fn has_room(&self) -> bool {
        self.count < STRETCHES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_behind_each_other_are_one_stretch_and_a_move_goes_to_so_many() {
        let mut stretches = Stretches::default();
        for stretch in 0..STRETCHES_MAX as Logical {
            assert!(stretches.has_room(), "{stretch}");
            (0..3).for_each(|at| stretches.add(stretch * 10 + at));
        }
        assert!(!stretches.has_room());
    }
}
