//! What steps bring an extent to an SSD?
//!
//! Source: requirements L10, L14, L15; [LORIS §III] locks the file while it moves; here nobody waits.
//!
//! ```text
//! a user's read needs a hard drive ─▶ it reads the whole extent for him (`ride`) ─┐
//! the account names an extent ─▶ its blocks are read as a user would read them ───┤
//!                                                                                 ▼
//!              written to new slots ─▶ of each block that nobody has changed meanwhile, the map names the slot
//! ```
//! Differs from the paper, which reads again what was just read: a hard drive that has come to the place
//! reads 64 KiB more in a fraction of the time that coming there takes, and under load it would not come
//! there again for long. Where the read cannot be widened (parts of the extent lie elsewhere, or are
//! being written to) the extent is read in the background.
//!
//! A block at home keeps its home: the slot is a copy, and costs nothing when it leaves (an `exclusive`
//! space gives the home up, as the paper's tiers do). A block in a log, or under fragments, is moved.
//! One run of blocks is read in the background at a time, of 1 MiB at most.

mod audit;
mod steps;

use crate::map::{Copied, Logical, Run};
use crate::requests::ordering::TaskId;
use crate::tier::collect::Extent;
use tandem_block::PayloadId;

/// Blocks of one run at most: 1 MiB, so that a user waits for one command of that size.
const RUN_BLOCKS_MAX: u64 = 256;
/// Runs under way at most: bounds the RAM that they take to 16 MiB (guess).
const PROMOTING_MAX: usize = 16;

/// A block on its way.
#[derive(Clone, Debug)]
struct Part {
    copied: Copied,
    /// It is being written to, or zeroed.
    changes: bool,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A background read.
    Reading(TaskId),
    /// A user's read of the whole of it.
    Riding(TaskId),
    Writing,
}

/// A run of blocks on its way to the SSD.
#[derive(Clone, Debug)]
pub(crate) struct Promotion {
    number: u32,
    extent: Extent,
    first: Logical,
    parts: Vec<Part>,
    stage: Stage,
    buffer: PayloadId,
    runs: Vec<(Logical, Run)>,
    outstanding: u32,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    promoting: Vec<Promotion>,
    begun: u32,
}

impl Arrivals {
    pub(crate) fn is_empty(&self) -> bool {
        self.promoting.is_empty()
    }

    /// Is one read in the background?
    fn reads(&self) -> bool {
        self.promoting.iter().any(|promoting| matches!(promoting.stage, Stage::Reading(_)))
    }

    fn of(&self, extent: Extent) -> bool {
        self.promoting.iter().any(|promoting| promoting.extent == extent)
    }

    /// These blocks are written to or zeroed: what is on its way to the SSD would be too old.
    pub(crate) fn note_changing(&mut self, first: Logical, end: Logical) {
        for promoting in &mut self.promoting {
            let own_end = promoting.first + promoting.parts.len() as Logical;
            for block in first.max(promoting.first)..end.min(own_end) {
                promoting.parts[(block - promoting.first) as usize].changes = true;
            }
        }
    }

    fn position(&self, is_it: impl Fn(&Promotion) -> bool) -> Option<usize> {
        self.promoting.iter().position(is_it)
    }

    fn get(&mut self, number: u32) -> &mut Promotion {
        let at = self.position(|promoting| promoting.number == number).expect("it is under way");
        &mut self.promoting[at]
    }
}

/// What became of a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Yes,
    /// All of it is there, or under way.
    Nothing,
    /// It is being written to.
    Busy,
}

#[cfg(test)]
mod tests;
