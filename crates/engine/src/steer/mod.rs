//! Where does this write go now?
//!
//! A seam: one file per answer. A policy is a synchronous function from a read-only view to a
//! decision with a reason; every reason is a counter.

pub mod mios;
pub mod settings;
pub mod ssd_first;

use crate::bcw::predictor::WriteState;
use settings::{Setting, SteerConfig};
use tandem_block::DeviceId;

/// What a policy sees of one hard drive.
#[derive(Clone, Copy, Debug)]
pub struct HddView {
    /// Which.
    pub device: DeviceId,
    /// Buffer-controlled writes are possible now. Paper: `flagHDD`.
    pub accepting: bool,
    /// State that a write of this size would meet, everything committed before it counted.
    pub predicted: WriteState,
    /// Commands accepted and not completed.
    pub queue_length: u32,
}

/// What a policy sees of a write.
#[derive(Clone, Copy, Debug)]
pub struct SteerView<'a> {
    /// Its size on the drive.
    pub bytes: u64,
    /// Commands accepted and not completed on the SSD it would go to. Paper: `l(t)`.
    pub ssd_queue_length: u32,
    /// The hard drives of the set that can take a log write of this size at all.
    pub hdds: &'a [HddView],
}

/// Why a write went where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The policy never redirects.
    Policy,
    /// Redirected: the SSD's queue is longer than `L` and a fast or mid write is predicted.
    Congested,
    /// Redirected: a fast write is predicted.
    FastWrite,
    /// Kept on the SSD: its queue is short.
    ShortQueue,
    /// Kept on the SSD: no hard drive accepts buffer-controlled writes now.
    NotAccepting,
    /// Kept on the SSD: the next write would be slow.
    PredictedSlow,
    /// Kept on the SSD: FUA, or a durability class that a hard drive's buffer cannot keep.
    Durability,
    /// Redirected: there is no SSD.
    NoSsd,
    /// Redirected: the tier says so.
    Tier,
    /// Redirected first, but returned unissued and sent to the SSD.
    Returned,
}

impl Reason {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Policy => "policy",
            Reason::Congested => "congested",
            Reason::FastWrite => "fast_write",
            Reason::ShortQueue => "short_queue",
            Reason::NotAccepting => "not_accepting",
            Reason::PredictedSlow => "predicted_slow",
            Reason::Durability => "durability",
            Reason::NoSsd => "no_ssd",
            Reason::Tier => "tier",
            Reason::Returned => "returned",
        }
    }
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To an SSD.
    Ssd,
    /// To the log of this hard drive.
    Log(DeviceId),
}

/// A decision and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where.
    pub target: Target,
    /// Why.
    pub reason: Reason,
}

/// A steering policy.
pub trait Steer: std::fmt::Debug + Send {
    /// Where does this write go?
    fn decide(&self, view: &SteerView<'_>) -> Decision;
    /// Does it ever redirect? If not, hard drives are left alone.
    fn redirects(&self) -> bool;
    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Steer>;
}

impl Clone for Box<dyn Steer> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A registered policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// Makes one.
    pub build: fn(&SteerConfig) -> Box<dyn Steer>,
}

/// Every policy there is.
pub const POLICIES: &[PolicyEntry] = &[ssd_first::ENTRY, mios::ENTRY_D, mios::ENTRY_E];

/// Makes the policy that a volume asks for; `None` if there is none of that name.
pub fn build(config: &SteerConfig) -> Option<Box<dyn Steer>> {
    config.entry().map(|entry| (entry.build)(config))
}
