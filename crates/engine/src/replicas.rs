//! Replicas: drives that hold, or shall hold, what another one holds.

pub(crate) mod piece;

use crate::config::EngineConfig;
use crate::mirror::Pairs;
use crate::replacement::Replacement;

/// What is written to two drives.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    /// A drive that takes another one's place.
    pub(crate) replacement: Replacement,
    /// Mirrored pairs.
    pub(crate) pairs: Pairs,
}

impl Replicas {
    /// The pairs of a configuration, and no replacement.
    pub(crate) fn of(config: &EngineConfig) -> Replicas {
        Replicas { replacement: Replacement::default(), pairs: Pairs::of(config) }
    }
}
