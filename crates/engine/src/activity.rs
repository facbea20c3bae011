//! What is going on right now? For crash tests, which must meet every kind of work, and for people.

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
    /// Copies on an SSD stay beside places in a log that was flushed.
    pub beside_log: bool,
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
