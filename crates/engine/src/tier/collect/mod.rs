//! Which data is hot, and which should leave the SSD?
//!
//! A seam: one file per answer. Source: the data collection plugin of [LORIS §III]. A collector is told
//! what is read and written, below any cache in RAM, and where extents lie; it is asked which one on
//! the hard drives is the hottest, which one on the SSD should go, and whether one may come.
//!
//! Two kinds. Those that count keep both tiers in order of heat (`by_heat.rs`). Those made for caches
//! know what the SSD holds, and perhaps names of what it held, and only answer what should go.
//!
//! Each keeps at most a number of extents that is fixed when it is made, in at most
//! 64 bytes each, and no step looks through all of them. An extent is a number
//! that whoever asks has given: of a part of a volume, or of a whole object as in the paper.

mod apart;
pub(crate) mod arc;
pub(crate) mod by_heat;
mod by_uses;
pub(crate) mod counts;
pub(crate) mod edt;
mod ends;
pub(crate) mod heat;
mod index;
pub(crate) mod inverse_bitmap;
pub(crate) mod lfu;
mod lists;
pub(crate) mod lru;
mod on_demand;
mod ranks;
#[cfg(test)]
mod reference;
pub(crate) mod s3_fifo;
pub(crate) mod sieve;
#[cfg(test)]
mod tests;
pub(crate) mod two_q;

pub use on_demand::{OnDemand, Seen};
use tandem_block::{Duration, Instant};

/// What a collector may keep of an extent, index and order and all.
#[cfg(test)]
pub(crate) const BYTES_PER_EXTENT_MAX: u64 = 64;

/// A part of a volume, or a whole object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent(pub u64);

/// A read or write of an extent. Which of them it was makes no difference to any collector here; a tier
/// that counts only reads tells only those.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// Of what.
    pub extent: Extent,
    /// How many, one at least: a request of none is no use and is not told.
    pub bytes: u64,
    /// When; never before the last one.
    pub now: Instant,
}

/// A collector.
pub trait Collector: std::fmt::Debug + Send {
    /// An extent was read or written. Is it held by the SSD?
    fn touched(&mut self, touch: &Touch) -> bool;

    /// The SSD holds the extent from now on: told when its move or copy begins. There are never more
    /// of them than `CollectConfig::held_max`.
    fn promoted(&mut self, extent: Extent);

    /// The SSD gives the extent up: told when that begins; if it fails, the extent is promoted again.
    fn demoted(&mut self, extent: Extent);

    /// The extent is no more.
    fn removed(&mut self, extent: Extent);

    /// Does the SSD hold it, as far as was told?
    fn is_held(&self, extent: Extent) -> bool;

    /// May an extent that the SSD does not hold come to it? The paper's admission: only if it is hotter
    /// than the last one that was evicted. Those made for caches let everything in.
    fn qualifies(&self, _extent: Extent) -> bool {
        true
    }

    /// The hottest one that the SSD does not hold, if this collector ranks them.
    fn hottest(&self) -> Option<Extent> {
        None
    }

    /// Which one should leave the SSD, so that another can come? The same one till it is demoted or
    /// something is touched.
    fn victim(&mut self, comes: Option<Extent>) -> Option<Extent>;

    /// What it takes.
    fn memory(&self) -> Memory;

    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Collector>;
}

impl Clone for Box<dyn Collector> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// Memory that is all taken when all extents that can be tracked are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Extents that can be tracked, ghosts among them.
    pub(crate) tracked_max: u64,
    /// Bytes for all of them.
    pub bytes: u64,
}

impl Memory {
    /// Bytes for one, rounded up.
    pub fn bytes_per_extent(&self) -> u64 {
        self.bytes.div_ceil(self.tracked_max.max(1))
    }
}

/// How a collector is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectConfig {
    /// Extents that the SSD holds at most.
    pub(crate) held_max: u32,
    /// Extents that are tracked at most by those that count: more than the SSD holds.
    pub(crate) tracked_max: u32,
    /// After how long heat is worth half; none, as in the paper: it never falls.
    pub(crate) epoch: Option<Duration>,
    /// `edt`: requests above are large.
    pub(crate) large_bytes: u64,
}

impl CollectConfig {
    /// For an SSD that holds so many extents, of so many in all; the other settings as they are unless
    /// said otherwise: no epochs, 64 KiB.
    pub fn new(held_max: u32, tracked_max: u32) -> Self {
        CollectConfig { held_max, tracked_max, epoch: None, large_bytes: 64 << 10 }
    }
}

/// Why a collector cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// No such name.
    #[error("there is no collector {name:?}; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The SSD is too small or too large for extents of this size.
    #[error(
        "an SSD that holds {0} extents: a collector needs 1 to {EXTENTS_MAX}; choose other extents"
    )]
    Held(u32),
    /// Nothing could be tracked beside what the SSD holds.
    #[error(
        "{tracked} extents are tracked and the SSD holds {held}: track more than it holds, and at most {EXTENTS_MAX}"
    )]
    Tracked {
        /// Tracked.
        tracked: u32,
        /// Held.
        held: u32,
    },
    /// Time does not pass.
    #[error("an epoch of {0} ns: heat is halved after 1 s or more; leave it out for never")]
    Epoch(u64),
}

/// Extents that any collector can hold: half as many as have a link, for names of those that went.
pub(crate) const EXTENTS_MAX: u32 = lists::ENTRIES_MAX / 2 - 64;
/// Heat tells 2^30 epochs apart.
const EPOCH_NS_MIN: u64 = 1_000_000_000;

/// A registered collector.
#[derive(Clone, Copy, Debug)]
pub struct CollectorEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Does it know the hottest extent that the SSD does not hold?
    pub(crate) ranks: bool,
    /// Makes one; the configuration was checked.
    build: fn(&CollectConfig) -> Box<dyn Collector>,
}

/// Every collector there is.
pub const COLLECTORS: &[CollectorEntry] = &[
    inverse_bitmap::ENTRY,
    counts::ENTRY,
    edt::ENTRY,
    lru::ENTRY,
    lfu::ENTRY,
    arc::ENTRY,
    s3_fifo::ENTRY,
    sieve::ENTRY,
    two_q::ENTRY,
];

/// Makes the collector of this name.
///
/// # Errors
/// If there is none, or the configuration contradicts itself.
pub fn build(name: &str, config: &CollectConfig) -> Result<Box<dyn Collector>, CollectError> {
    let Some(entry) = COLLECTORS.iter().find(|entry| entry.name == name) else {
        let known: Vec<&str> = COLLECTORS.iter().map(|entry| entry.name).collect();
        return Err(CollectError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    let (held, tracked) = (config.held_max, config.tracked_max);
    if !(1..=EXTENTS_MAX).contains(&held) {
        return Err(CollectError::Held(held));
    }
    if entry.ranks && !(held + 1..=EXTENTS_MAX).contains(&tracked) {
        return Err(CollectError::Tracked { tracked, held });
    }
    match config.epoch {
        Some(epoch) if epoch.ns < EPOCH_NS_MIN => Err(CollectError::Epoch(epoch.ns)),
        _ => Ok((entry.build)(config)),
    }
}
