//! What does a policy see, and what may it answer?
//!
//! Source: design decision 5 and [BCW §4.3]: MIOS watches the request queues of all SSDs and hard
//! drives; the others need no more than what stands here. Everything is kept up to date where it
//! changes, so that a view costs a few reads.

use crate::bcw::predictor::WriteState;
use crate::map::Logical;
use crate::port::ServedFrom;
use tandem_block::{DeviceId, Instant, ObjectId};

/// What a policy sees of one SSD.
#[derive(Clone, Copy, Debug)]
pub struct SsdView {
    /// Which.
    pub device: DeviceId,
    /// Commands accepted and not completed. Paper: `l(t)`.
    pub queue_length: u32,
    /// … of them reads.
    pub reads: u32,
    /// Bytes of commands that wait here.
    pub waiting_bytes: u64,
    /// Bytes of commands that are in flight.
    pub in_flight_bytes: u64,
    /// … of which so many are written of users' blocks.
    pub written_bytes: u64,
    /// How long its oldest read or write has been in flight, in ns; 0 without one.
    pub oldest_ns: u64,
}

/// What a policy sees of one hard drive.
#[derive(Clone, Copy, Debug)]
pub struct HddView {
    /// Which.
    pub device: DeviceId,
    /// Writes like this one may go there now. Paper: `flagHDD`.
    pub accepting: bool,
    /// A write may go there that may be slow, because the SSD would take even longer.
    pub takes_slow: bool,
    /// State that a write of this size would meet, everything committed before it counted.
    pub predicted: WriteState,
    /// Commands accepted and not completed. Paper: `l_HDD(t)`.
    pub queue_length: u32,
    /// Nothing is accepted or promised to it.
    pub idle: bool,
    /// What is before this write will take so long by the model, in ns. This and the next are 0 for a
    /// policy that does not weigh time, over a single hard drive.
    pub wait_ns: u64,
    /// … and with the write itself, in ns.
    pub expected_ns: u64,
    /// Users' reads per second that it served lately.
    pub reads_per_s: u64,
}

/// What a policy sees of a write. It is a user's, whom it keeps waiting, and without FUA: those go
/// to the SSD unasked.
#[derive(Clone, Copy, Debug)]
pub struct SteerView<'a> {
    /// The time.
    pub now: Instant,
    /// The volume or file that is written.
    pub object: ObjectId,
    /// First block.
    pub logical: Logical,
    /// Its size on the drive: whole blocks.
    pub bytes: u64,
    /// Its size as the user asked. Paper: `S` and sizes of requests are of these.
    pub request_bytes: u64,
    /// An SSD and a hard drive both have all that it writes over. Always false for a policy that does not balance.
    pub mirrored: bool,
    /// It may go to a log and follow to an SSD later: RAM has room for what waits for that.
    pub detours_have_room: bool,
    /// The SSD that has its place, under fixed placement.
    pub fixed_ssd: Option<DeviceId>,
    /// Commands accepted and not completed on the SSD that has its place, or else on that which has the
    /// fewest. Paper: `l(t)`.
    pub ssd_queue_length: u32,
    /// The SSDs in service.
    pub ssds: &'a [SsdView],
    /// The hard drives of the set that can take a log write of this size at all.
    pub hdds: &'a [HddView],
    /// Users' reads per second over the last second or so.
    pub reads_per_s: u64,
    /// Users' reads and writes per second.
    pub requests_per_s: u64,
}

impl SteerView<'_> {
    /// The hard drive that takes a write and will have it soonest by the model.
    pub(crate) fn soonest_hdd(&self) -> Option<&HddView> {
        let accepting = self.hdds.iter().filter(|hdd| hdd.accepting);
        accepting.min_by_key(|hdd| (hdd.expected_ns, hdd.device))
    }
}

/// Something that policies learn from.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    /// A user's read or write arrived.
    Arrival {
        /// Not a write.
        read: bool,
        /// Its size as the user asked.
        bytes: u64,
    },
    /// A user wants everything to be durable that was written before.
    Flush {
        /// The volume or file that he named.
        object: ObjectId,
    },
    /// A user's read or write was answered without error. Policies that hear answers are told.
    Answer(Answer),
    /// An SSD completed a read or write without error.
    Completion {
        /// Which.
        device: DeviceId,
        /// Not a write.
        read: bool,
        /// A user waits for it. Else it is the engine's own.
        is_users: bool,
        /// Its size.
        bytes: u64,
        /// From its issue on, in ns.
        latency_ns: u64,
        /// Commands accepted and not completed before it.
        queue_length: u32,
        /// Bytes in flight when it was issued, its own included.
        in_flight_bytes: u64,
        /// Of these, bytes that were written of users' blocks.
        written_bytes: u64,
    },
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// Not a write.
    pub read: bool,
    /// Where the bytes came from, the slowest place if several. Of a write where they went.
    pub from: ServedFrom,
    /// RAM had a part of what was read, which a log has as well.
    pub from_read_back: bool,
    /// An SSD could have served it, too.
    pub offloaded: bool,
    /// First block.
    pub logical: Logical,
    /// Its size as the user asked.
    pub bytes: u64,
    /// From its arrival on, in ns.
    pub latency_ns: u64,
    /// A write that was redirected, and given back unissued.
    pub is_returned: bool,
    /// A write that stayed on an SSD, and that a log has taken sooner.
    pub is_hedged: bool,
    /// Of a write: what its policy expected when it decided.
    pub expected: Expected,
}

impl Answer {
    /// A hard drive served it, or a part of it.
    pub(crate) fn is_of_hdd(&self) -> bool {
        matches!(self.from, ServedFrom::HddLog | ServedFrom::HddHome)
    }
}

/// Why a write went where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The policy never does otherwise.
    Policy,
    /// Redirected: the SSD's queue is longer than `L`.
    Congested,
    /// Redirected: a fast write is predicted.
    FastWrite,
    /// Kept on the SSD: its queue is short.
    ShortQueue,
    /// Kept on the SSD: no hard drive accepts writes like this now.
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
    /// Redirected: the policy uses hard drives alone.
    HddOnly,
    /// Kept on an SSD: the one whose turn it is.
    EvenSplit,
    /// Redirected: it is larger than the size threshold.
    LargeWrite,
    /// Kept on the SSD: it is not larger than the size threshold.
    SmallWrite,
    /// Kept on the SSD: it is so large that a hard drive would be slower in any case.
    TooLarge,
    /// Kept on the SSD: too few reads to protect.
    FewReads,
    /// Kept on the SSD: no hard drive is idle.
    HddBusy,
    /// Kept on the SSD: not enough was seen to know the thresholds.
    Learning,
    /// Redirected: the hard drive is expected to be done sooner.
    HddSooner,
    /// Redirected: hardly later, and the SSD is spared.
    Wear,
    /// Redirected: the SSD's oldest command is overdue.
    Stalled,
    /// Redirected: what may be written to SSDs in a day is spent.
    SsdBudget,
    /// Redirected: no SSD has room for it, and a log has.
    NoRoom,
    /// Kept on the SSD: it is expected to be done sooner, its wear counted.
    SsdSooner,
    /// Kept on the SSD: the hard drive would take longer than allowed.
    OverCap,
    /// Kept on the SSD: the hard drive drains its buffer, and nothing is urgent.
    Resting,
    /// Kept on the SSD: a FLUSH is expected soon.
    Synchronous,
    /// Redirected: it is the hard drive's share of what lies on both sides.
    Balanced,
    /// Kept on the SSD: users have been slowed down as far as they may be.
    OverBudget,
    /// Redirected: the SSD is busy. It follows there when that has time.
    Detour,
    /// Redirected: an SSD had it, but was overdue, and a log was done first.
    Hedged,
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
            Reason::HddOnly => "hdd_only",
            Reason::EvenSplit => "even_split",
            Reason::LargeWrite => "large_write",
            Reason::SmallWrite => "small_write",
            Reason::TooLarge => "too_large",
            Reason::FewReads => "few_reads",
            Reason::HddBusy => "hdd_busy",
            Reason::Learning => "learning",
            Reason::HddSooner => "hdd_sooner",
            Reason::Wear => "wear",
            Reason::Stalled => "stalled",
            Reason::SsdBudget => "ssd_budget",
            Reason::NoRoom => "no_room",
            Reason::SsdSooner => "ssd_sooner",
            Reason::OverCap => "over_cap",
            Reason::Resting => "resting",
            Reason::Synchronous => "synchronous",
            Reason::Balanced => "balanced",
            Reason::OverBudget => "over_budget",
            Reason::Detour => "detour",
            Reason::Hedged => "hedged",
        }
    }

    /// Does a write with this reason go to a hard drive?
    pub const fn redirects(self) -> bool {
        matches!(
            self,
            Reason::Congested
                | Reason::FastWrite
                | Reason::NoSsd
                | Reason::Tier
                | Reason::HddOnly
                | Reason::LargeWrite
                | Reason::HddSooner
                | Reason::Wear
                | Reason::Stalled
                | Reason::SsdBudget
                | Reason::Balanced
                | Reason::NoRoom
                | Reason::Detour
                | Reason::Hedged
        )
    }
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the SSD that has the fewest commands when it is queued.
    Ssd,
    /// To this SSD, unless it is out of service.
    ThisSsd(DeviceId),
    /// To the log of this hard drive.
    Log(DeviceId),
}

impl Target {
    /// Is it a hard drive?
    pub const fn is_log(self) -> bool {
        matches!(self, Target::Log(_))
    }
}

/// A decision and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where.
    pub target: Target,
    /// Why.
    pub(crate) reason: Reason,
    /// What the policy expects.
    pub(crate) expected: Expected,
}

/// What a policy expects of a write, in ns. 0: it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Where it goes.
    pub ns: u64,
    /// On an SSD.
    pub ssd_ns: u64,
}

impl Expected {
    /// The policy does not say.
    pub(crate) const NOTHING: Expected = Expected { ns: 0, ssd_ns: 0 };
}

impl Decision {
    /// It stays on an SSD.
    pub(crate) const fn stay(reason: Reason) -> Self {
        assert!(!reason.redirects(), "a write that stays was not redirected");
        Decision { target: Target::Ssd, reason, expected: Expected::NOTHING }
    }

    /// It goes to this SSD.
    pub(crate) const fn on(ssd: DeviceId, reason: Reason) -> Self {
        assert!(!reason.redirects(), "a write that goes to an SSD was not redirected");
        Decision { target: Target::ThisSsd(ssd), reason, expected: Expected::NOTHING }
    }

    /// With what is expected of it.
    #[must_use]
    pub(crate) const fn expecting(self, expected: Expected) -> Self {
        Decision { expected, ..self }
    }

    /// It goes to this hard drive.
    pub(crate) const fn go(hdd: &HddView, reason: Reason) -> Self {
        assert!(reason.redirects(), "a write that goes to a hard drive was redirected");
        Decision { target: Target::Log(hdd.device), reason, expected: Expected::NOTHING }
    }
}
