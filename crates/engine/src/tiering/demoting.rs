//! What steps take an extent off the SSDs?
//!
//! Source: requirements L13, B8: copy, commit, free. A block that has a home only loses its copy; one
//! that lies on the SSD alone is moved home first, as write-back does it (`moves`), and is given up when
//! the record of its home is durable. Many extents leave together, in the order of their addresses, so
//! that hard drives write in runs and are flushed seldom.

mod steps;

use crate::map::Slot;
use crate::tier::collect::Extent;

/// Extents looked at in one step at most: bounds the time that an event takes.
const LOOK_MAX: usize = 64;

/// State of what leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demoting {
    /// Where to look next.
    cursor: Extent,
    /// Something may have changed since all of them were looked at.
    looks: bool,
    /// As of this batch.
    durable: u64,
    /// Extents looked at since one could be helped.
    fruitless: usize,
    /// Dirty blocks were seen that want to go home.
    has_dirty: bool,
}

impl Demoting {
    /// Something has changed.
    pub(crate) fn look(&mut self) {
        self.looks = true;
        self.fruitless = 0;
    }
}

/// What a leaving block needs.
enum Need {
    Nothing,
    /// Its copy can go: this slot.
    Drop(Slot),
    /// Its home written from this slot.
    Home(Slot),
    /// Fragments merged.
    Merge,
    /// A batch or a flush.
    Wait,
}
