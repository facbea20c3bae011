//! Which copies on SSDs can go, since their blocks are safe at home?
//!
//! They are looked for from where the next write of an SSD goes, some at a time. A copy under fragments stays, and
//! so does one whose home is on a drive of which nothing is asked any more.

mod steps;

/// Clean copies dropped in one step at most.
const DROP_BLOCKS_MAX: usize = 4096;
/// Slots of an SSD in which they are looked for at a time.
const DROP_LOOKS_MAX: u64 = 65_536;

/// How far the search is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropping {
    /// Slots of each SSD in which no clean copy was found, from where its next write goes.
    looked: u64,
    /// No clean copy on any SSD could be dropped, when this batch was durable.
    nothing: Option<u64>,
}

impl Dropping {
    /// Could no clean copy be dropped, since this batch was durable?
    pub(crate) fn found_nothing(&self, durable: u64) -> bool {
        self.nothing == Some(durable)
    }
}
