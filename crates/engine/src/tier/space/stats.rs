//! What the account of a tier's space counts.

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Extents that came because they were read, or at intervals.
    pub came: u64,
    /// Extents that were taken in because they were written.
    pub claimed: u64,
    /// Extents that had to leave.
    pub left: u64,
    /// … of them what the background cleaner chose.
    pub(crate) cleaned: u64,
    /// Promotions refused: colder than the last one that left.
    pub unqualified: u64,
    /// … its move would take more of the drives' time than it is expected to save.
    pub unpaid: u64,
    /// … too few reads yet.
    pub sieved_reads: u64,
    /// … nothing could leave, or too much is leaving already.
    pub full: u64,
    /// … too many wait.
    pub forgone: u64,
}
