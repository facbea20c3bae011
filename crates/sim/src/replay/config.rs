//! What can a replay be told, and why can it not begin or end?

use crate::profiles::{self, DriveProfile};
use tandem_block::{DurabilityClass, GIB, ObjectId};
use tandem_drives::SsdState;
use tandem_drives::spec::{DriveSpec, SpecError, load};
use tandem_engine::profile::MeasureError;
use tandem_engine::{ConfigError, Placement, StartError, SteerConfig, TierConfig};

/// One drive of the replay.
#[derive(Clone, Debug)]
pub struct DriveChoice {
    /// What it is.
    pub spec: DriveSpec,
    /// What the engine believes of it; a hard drive without profile is not steered to.
    pub profile: Option<DriveProfile>,
    /// Another capacity than the spec's, in bytes.
    pub size_bytes: Option<u64>,
}

impl DriveChoice {
    /// A shipped drive with its shipped profile, perhaps of another capacity.
    ///
    /// # Panics
    /// If no drive has this name.
    pub fn shipped(name: &str, size_bytes: Option<u64>) -> DriveChoice {
        let spec = load(name).expect("a shipped drive");
        DriveChoice { spec, profile: profiles::shipped(name), size_bytes }
    }
}

/// Where blocks live that a trace reads before it writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resident {
    /// As clean copies on the SSDs, in the order of their addresses until these are 80 % full, and
    /// at home.
    Ssd,
    /// At home on the hard drives.
    #[default]
    Hdd,
    /// Nowhere: they read as zeroes, without a drive.
    None,
}

impl Resident {
    /// All of them with their names.
    pub const NAMED: [(&'static str, Resident); 3] =
        [("ssd", Resident::Ssd), ("hdd", Resident::Hdd), ("none", Resident::None)];

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|named| named.1 == self).expect("every one has a name").0
    }
}

/// Everything that decides a replay beside the trace.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The SSDs.
    pub ssds: Vec<DriveChoice>,
    /// The hard drives.
    pub hdds: Vec<DriveChoice>,
    /// The policy of every volume.
    pub steer: SteerConfig,
    /// Where the data of every volume belongs …
    pub tier: TierConfig,
    /// … but for these.
    pub volume_tiers: Vec<(ObjectId, TierConfig)>,
    /// Mapped or fixed.
    pub placement: Placement,
    /// What the SSDs hold at the start.
    pub ssd_state: SsdState,
    /// Where data lives at the start.
    pub resident: Resident,
    /// What an acknowledgement means.
    pub durability: DurabilityClass,
    /// Seeds the drives.
    pub seed: u64,
    /// Keep so many requests outstanding instead of following the times of the trace.
    pub closed_loop: Option<u32>,
    /// How much redirecting may cost the hard drives.
    pub budgets: Budgets,
    /// What becomes of redirected data that is read.
    pub read_back: ReadBack,
    /// When a warm-up is over, what hard drives have in their logs is taken to have gone home.
    pub at_home: bool,
    /// Note what happened when, for plots.
    pub timeline: bool,
}

impl ReplayConfig {
    /// These drives under this policy; the rest is what `tandem replay` does unasked.
    pub fn of(steer: SteerConfig, ssds: Vec<DriveChoice>, hdds: Vec<DriveChoice>) -> ReplayConfig {
        ReplayConfig {
            ssds,
            hdds,
            steer,
            tier: TierConfig::default(),
            volume_tiers: Vec::new(),
            placement: Placement::Mapped,
            ssd_state: SsdState::Steady,
            resident: Resident::Hdd,
            durability: DurabilityClass::VolatileOk,
            seed: 1,
            closed_loop: None,
            budgets: Budgets::default(),
            read_back: ReadBack::default(),
            at_home: false,
            timeline: false,
        }
    }
}

/// What becomes of redirected data that is read; what is `None` is the engine's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Bytes of it that stay in RAM beside tails. Under fixed placement none do.
    pub bytes: Option<u64>,
    /// So many reads of a hard drive promote a block of its log to an SSD; 0: none do.
    pub promote_after_reads: Option<u32>,
}

/// What redirecting may take of a hard drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Bytes of log that the visible part of a hard drive has at least. Default 8 GiB (guess): room
    /// for a burst of a minute at 130 MB/s, so that the log's end is not what a short trace measures.
    pub log_bytes: u64,
    /// Bytes of padding in a day; `None` is the engine's default (B4). The paper has none.
    pub padding_bytes_per_day: Option<u64>,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets { log_bytes: 8 * GIB, padding_bytes_per_day: None }
    }
}

/// Why a replay has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// No drives at all.
    #[error("a replay needs at least one drive: name an --ssd or an --hdd")]
    NoDrives,
    /// Fixed placement is the identity on the SSDs.
    #[error("--placement fixed puts every block on an SSD: name an --ssd")]
    FixedWithoutSsd,
    /// The policy needs other drives.
    #[error("{lacks}: name other drives, or another policy")]
    Drives {
        /// What is lacking, in words.
        lacks: String,
    },
    /// The trace reaches further than one set of drives can.
    #[error(
        "the trace reaches over {footprint_bytes} bytes in all; one set of drives has at most 16 TiB of addresses"
    )]
    TooWide {
        /// The sum over its devices.
        footprint_bytes: u64,
    },
    /// Nothing to replay.
    #[error("the trace has no requests")]
    Empty,
    /// A drive cannot have the size that is needed.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// What requests cost cannot be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The engine refuses the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The pool could not be formatted.
    #[error(transparent)]
    Start(#[from] StartError),
    /// An error of the engine: requests are outstanding and nothing will ever happen.
    #[error(
        "the engine stands still at {now_ns} ns with {outstanding} requests unanswered: please report this trace and these options"
    )]
    Stuck {
        /// When.
        now_ns: u64,
        /// How many requests wait.
        outstanding: usize,
    },
}
