//! Which copies on SSDs can go, since their blocks are safe at home?
//!
//! They are looked for by block, from where the last search ended, some at a time. So each is as likely to go as any
//! other one, whenever it came: the same hits as first in, first out, where nobody knows better. A copy under fragments stays, and so does one whose home is on a drive of which nothing is asked any more.

mod steps;

use crate::map::Logical;

/// Clean copies dropped in one step at most.
const DROP_BLOCKS_MAX: usize = 4096;
/// Copies that are looked at in one step at most, and blocks of the map in which they are searched.
const DROP_LOOKS_MAX: u64 = 65_536;
const DROP_BLOCKS_SEARCHED_MAX: u64 = 1 << 24;

/// How far the search is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropping {
    /// The block to look at next.
    cursor: Logical,
    /// Blocks in which no copy was found that could be dropped, up to there.
    searched: u64,
    /// The batch that was durable when the search began: a later one may name homes that it has passed.
    as_of: u64,
    /// No clean copy on any SSD could be dropped, when this batch was durable.
    nothing: Option<u64>,
}

impl Dropping {
    /// Could no clean copy be dropped, since this batch was durable?
    pub(crate) fn found_nothing(&self, durable: u64) -> bool {
        self.nothing == Some(durable)
    }
}
