//! The engine: what is to be done, now that this has happened? Events in, commands out.
//!
//! A single-threaded state machine. It reads no clock, does no I/O, spawns nothing.
//!
//! ```text
//!             Event                                                     Command
//!               │                                                          ▲
//!               ▼                                                          │
//! admit ─▶ ordering ─▶ map ─▶ tier: where does it belong? ─▶ steer: where now? ─▶ device queue
//! (requests/)       (map/)        (tier/)                    (steer/, bcw/)        │ qos/
//!                                                                                    ▼
//!                                     which leg, if the device is a pair of SSDs? (mirror/)
//!                                                                                    │
//!                                                                                    ▼
//! answered ◀─ commit (FLUSH, FUA: map/ journal ─ format/) ◀─ named in the map ◀─ written, read
//! (store/commit/)                                            (requests/)
//!
//! in the background, as commands of the same queues: checkpoints, write-back, log GC, merges
//! ```
//! `engine/turn.rs` alone knows this order. Each owner has a folder: `io`, `store`, `volumes`, `requests`,
//! `migration`, `policy`, `replicas`.

#![deny(clippy::float_arithmetic)]

mod activity;
mod arena;
pub mod bcw;
mod checkpoint;
pub mod config;
mod config_error;
pub mod device;
pub mod drain;
mod engine;
pub mod format;
pub mod io;
mod job;
mod ledger;
pub(crate) mod log;
pub mod map;
mod metadata;
pub(crate) mod metadata_replica;
mod migration;
pub mod mirror;
pub mod mutant;
pub mod owner;
mod pages;
mod policy;
mod port;
pub mod profile;
pub mod qos;
pub mod replacement;
mod replicas;
mod requests;
pub mod settings;
mod start;
pub mod stats;
pub mod steer;
mod store;
mod stripes;
pub mod tier;
mod tiering;
mod volumes;

pub use activity::Activity;
pub use config::{
    AreaSizes, DEADLINE, DeviceConfig, DriveBudget, EngineConfig, Placement, Role, SteerConfig,
    TierConfig, VolumeConfig, WriteCache,
};
pub use config_error::ConfigError;
pub use engine::{Awake, Engine, Rest, audit};
pub use port::{Command, Done, Event, Io, IoId, IoOp, ServedFrom};
pub use requests::arrival::REQUEST_BYTES_MAX;
pub use start::degraded::Loss;
pub use stats::BadPlace;
pub use store::memory::{
    MetadataMemory, metadata_memory_default_bytes, metadata_memory_least_bytes,
};

/// Why a pool cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A drive failed while it was read or formatted.
    #[error(transparent)]
    Device(tandem_block::IoError),
    /// A mirrored pair cannot serve.
    #[error(transparent)]
    Pair(mirror::PairError),
    /// The tiers' share of the SSDs cannot be made.
    #[error("tiers: {0}")]
    Tier(String),
    /// The bytes on disk contradict themselves.
    #[error("{0}")]
    Corrupt(String),
    /// A journal unit that was durable cannot be read.
    #[error(
        "journal unit {missing} cannot be read although unit {later} proves that it was durable: the journal is damaged, and data written since would be lost silently"
    )]
    JournalGap {
        /// The unit that is missing.
        missing: u64,
        /// A later one that is there.
        later: u64,
    },
    /// The newest journal unit was written to its end and cannot be read.
    #[error(
        "journal unit {unit} was written whole and cannot be read now: the journal is damaged, and data written since would be lost silently"
    )]
    JournalDamaged {
        /// The unit.
        unit: u64,
    },
    /// Too many drives are gone.
    #[error("no drive that is left holds the metadata of this pool: there is no map to read by")]
    NoMetadata,
    /// No superblock.
    #[error("device {device} is not part of a pool: format the pool first")]
    NotFormatted {
        /// Position in the configuration.
        device: usize,
    },
    /// Another program made the pool.
    #[error("device {device}: {error}")]
    OtherFormat {
        /// Position in the configuration.
        device: usize,
        /// Which version it is.
        error: format::FormatError,
    },
    /// Both superblocks are damaged.
    #[error("device {device}: both superblocks are damaged or cannot be read")]
    DamagedSuperblock {
        /// Position in the configuration.
        device: usize,
    },
    /// The drive belongs to another pool.
    #[error("device {device} belongs to pool {pool}, the first one to pool {expected}")]
    OtherPool {
        /// Position in the configuration.
        device: usize,
        /// The pool's name on that drive.
        pool: String,
        /// The pool's name on the first drive.
        expected: String,
    },
    /// The drives are listed in another order, or with another role.
    #[error(
        "device {device} was formatted as number {place}, or with another role: list the drives as they were"
    )]
    WrongPlace {
        /// Position in the configuration.
        device: usize,
        /// Position at format.
        place: usize,
    },
    /// Too few or too many drives.
    #[error(
        "the pool has {members} drives, the configuration lists {found} (one that was removed keeps its entry, with gone = true)"
    )]
    Members {
        /// Drives in the configuration.
        found: usize,
        /// Drives in the pool.
        members: usize,
    },
    /// A bay that the configuration lists behind all drives, and that this pool cannot have.
    #[error("device {device} is a bay that the pool does not have yet: {why}")]
    Bay {
        /// Position in the configuration.
        device: usize,
        /// Why it cannot have it.
        why: &'static str,
    },
    /// The drive is smaller than it was.
    #[error("device {device} had {was} bytes when it was formatted and has {is} now")]
    Shrunk {
        /// Position in the configuration.
        device: usize,
        /// Then.
        was: u64,
        /// Now.
        is: u64,
    },
    /// The home of the metadata is an older state of itself.
    #[error(
        "device {device} was rolled back: its newest journal unit is {newest}, and device {witness} has unit {later}, which was written there only after it was durable on device {device}: put the newer state back (or serve read-only what device {witness} knows, without device {device})"
    )]
    RolledBack {
        /// Position in the configuration.
        device: usize,
        /// The newest unit there.
        newest: u64,
        /// Position of the drive that has a later one.
        witness: usize,
        /// The later unit.
        later: u64,
    },
    /// A checkpoint's root cannot be read, and without it nothing fits together.
    #[error(
        "a checkpoint root on device {device} cannot be read ({why}), and the older one does not fit what the drives hold: {found}"
    )]
    RootUnreadable {
        /// Position in the configuration.
        device: usize,
        /// Why it cannot be read.
        why: String,
        /// What was found without it.
        found: String,
    },
    /// All drives that are left missed writes of the metadata.
    #[error(
        "device {device} missed writes of the pool's metadata before it was last stopped, and the drive that has them is not there: bring that one back"
    )]
    MetadataLags {
        /// Position in the configuration.
        device: usize,
    },
    /// The drive missed a life of the pool.
    #[error("device {device} is an older copy: the pool has been in use without it")]
    StaleDevice {
        /// Position in the configuration.
        device: usize,
    },
    /// A drive is listed as removed that the pool did not remove.
    #[error("device {device} is listed as gone, but the pool has it: take that line away")]
    NotGone {
        /// Position in the configuration.
        device: usize,
    },
    /// The drive was replaced.
    #[error("device {device} was replaced by another drive, which has to be listed in its place")]
    Replaced {
        /// Position in the configuration.
        device: usize,
    },
    /// A volume in the configuration is not the one in the pool.
    #[error("volume {name}: the pool has {found}; change the configuration to match")]
    VolumeDiffers {
        /// Its name.
        name: String,
        /// What the pool has.
        found: String,
    },
    /// A volume could not be made.
    #[error("volume {name}: {error}")]
    Volume {
        /// Its name.
        name: String,
        /// Why.
        error: tandem_block::IoError,
    },
}
