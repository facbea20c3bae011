//! A configuration that no engine can run, and why.

use crate::format::layout;
use crate::qos::admit::AdmitError;

/// A configuration that no engine can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The drives cannot be laid out.
    #[error(transparent)]
    Layout(#[from] layout::LayoutError),
    /// No drives, or more than a set may have.
    #[error("a set has between 1 and {max} drives, this one has {found}")]
    Drives {
        /// The most.
        max: usize,
        /// The number found.
        found: usize,
    },
    /// A name that no registry knows.
    #[error("volume {volume}: there is no {what} called {name}; there are {known}")]
    Unknown {
        /// Which volume.
        volume: String,
        /// Policy or tier.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A tier that these drives, or its neighbours, do not let be as it is configured.
    #[error("volume {volume}: tier {tier}: {why}")]
    Tier {
        /// Which volume.
        volume: String,
        /// Its tier.
        tier: String,
        /// Why.
        why: String,
    },
    /// No order of service of this name.
    #[error("there is no order of service called {name}; there are {known}")]
    UnknownOrder {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// What is written home when, and what flushes for it may take, contradicts itself.
    #[error(
        "write-back begins at {high} % and ends at {low} %, and flushes may take {budget} % of a drive's time: low is \
         at most high, high at most 100, and the budget from 1 to 100"
    )]
    Destage {
        /// Where write-back begins, in percent.
        high: u64,
        /// Where it ends, in percent.
        low: u64,
        /// What flushes may take, in percent.
        budget: u64,
    },
    /// Memory for the metadata that does not do for these drives.
    #[error(
        "the metadata of these drives needs at least {least_mib}MiB of memory, and may take {given_mib}MiB: \
         write metadata = \"{least_mib}MiB\" or more under [memory], or leave it out for {usual_mib}MiB"
    )]
    Memory {
        /// What it may take, in MiB.
        given_mib: u64,
        /// The least, in MiB.
        least_mib: u64,
        /// Where nothing is said, in MiB.
        usual_mib: u64,
    },
    /// More streams than can be told apart.
    #[error("there are {found} streams, and at most {max} are told apart")]
    Streams {
        /// The number found.
        found: usize,
        /// The most.
        max: usize,
    },
    /// A place that no drive could take.
    #[error("device {device} is an empty place: {why}")]
    EmptyPlace {
        /// Position in the configuration.
        device: usize,
        /// Why not.
        why: &'static str,
    },
    /// None of the drives is left.
    #[error("every drive is listed as gone, or one that is not there: list those that are there")]
    AllGone,
    /// A successor that cannot be one.
    #[error("a successor needs a drive of a pool that is served as a whole, and no pair of drives")]
    Successor,
    /// A pair that would not keep what it promises.
    #[error(
        "device {device} is a pair {why}: what was answered would not survive a power cut. Take that out, or \
         ask for fixed placement and no journal, where nothing is promised"
    )]
    Pair {
        /// Position in the configuration.
        device: usize,
        /// What it lacks.
        why: &'static str,
    },
    /// A promise that cannot be made.
    #[error(transparent)]
    Promise(#[from] AdmitError),
    /// More volumes than the first root of a pool has room for.
    #[error(
        "a pool has room for the names of the first {fit} of these {found} volumes: list no more, or give \
         them shorter names"
    )]
    TooManyVolumes {
        /// The number found.
        found: usize,
        /// So many of them fit, in their order.
        fit: usize,
    },
    /// Two volumes with one name or id, or a size that is not possible.
    #[error("volume {volume}: {error}")]
    Volume {
        /// Which.
        volume: String,
        /// Why.
        error: tandem_block::IoError,
    },
}
