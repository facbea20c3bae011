//! Which knobs does a mirrored pair have? Each with its unit, default and source.

use crate::profile::HddProfile;
use tandem_block::{Duration, GIB, MIB};

/// When is a write of the pair answered?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Answer {
    /// When the writing leg has it and the cache too ([IANUS §5.2], "synchronous").
    #[default]
    Written,
    /// When the cache has it; FLUSH and FUA still reach a drive before they are answered
    /// ([IANUS §5.1], the default there).
    Cached,
    /// When the journal or the writing leg has it, whichever is first. Without a journal: `Written`.
    Journaled,
}

/// A third drive that a pair notes its writes on before a FLUSH is answered: what is flushed survives a
/// power cut and the death of either leg at once (requirements I16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalConfig {
    /// Its own id, written when it is made.
    pub uuid: u128,
    /// Bytes of the drive.
    pub capacity_bytes: u64,
    /// It is new: nothing on it counts.
    pub replaced: bool,
    /// It is gone.
    pub absent: bool,
    /// It is a hard drive of which this is believed: it is written when its buffer takes that fast.
    pub profile: Option<HddProfile>,
}

/// What a pair does with the time before its roles change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Idle {
    /// So long without writes. [IANUS §5.3]: 0 or 1 s.
    Fixed(Duration),
    /// As long as reads after the last changes were slower than later ones, between zero and this.
    Adaptive(Duration),
}

impl Idle {
    /// The longest that it can become.
    pub(crate) fn limit(self) -> Duration {
        match self {
            Idle::Fixed(length) | Idle::Adaptive(length) => length,
        }
    }
}

/// How the legs of a pair share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RoleRule {
    /// One is read and the other one is written, and they change places ([IANUS §5.1]).
    #[default]
    Alternate,
    /// Both are written, and a read goes to the leg with the fewest reads outstanding: RAID 1, to compare
    /// with. What `Answer::Written` says of the writing leg it says of both. Only under fixed placement and
    /// without a journal.
    Alike,
}

/// Two SSDs as one: the second leg of a device, and how roles change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairConfig {
    /// Ids of the legs, written at format and compared at start.
    pub uuids: [u128; 2],
    /// How the legs share the work. Default: they change places.
    pub role_rule: RoleRule,
    /// Roles change after this long at the earliest. Paper: `T_min`, 10 s there ([IANUS §5.3]). Default
    /// 10 s.
    pub period: Duration,
    /// Time without writes before each change. Default: none.
    pub idle: Idle,
    /// The writer is flushed before it is read. Default: it is. Where it is not, reads meet what it has
    /// still to program, as in the paper, which lets it rest instead ([IANUS §5.3]). That is possible only
    /// under fixed placement: what was answered would not be durable.
    pub settles: bool,
    /// RAM for what one of the legs has not got yet, at most. Paper: `2kT` ([IANUS §5.2]). Default 4 GiB.
    pub cache_bytes: u64,
    /// What a leg writes in a second until that was measured. Paper: `k`; writes are accepted at half
    /// of it. Default 200 MB/s ([IANUS §5.2]).
    pub write_bytes_per_s: u64,
    /// Commands with the writing leg at most. Default 32.
    pub depth: u32,
    /// When writes are answered.
    pub answer: Answer,
    /// Serve from a leg that is behind, although what the other one had is lost.
    pub accept_loss: bool,
    /// This leg is new: everything is copied to it.
    pub replaced: Option<u8>,
    /// This leg is gone: the other one serves alone.
    pub absent: Option<u8>,
    /// The journal. Default: none.
    pub journal: Option<JournalConfig>,
}

impl Default for PairConfig {
    fn default() -> Self {
        PairConfig {
            uuids: [0, 0],
            role_rule: RoleRule::default(),
            period: Duration::from_s(10),
            idle: Idle::Fixed(Duration::from_ns(0)),
            settles: true,
            cache_bytes: 4 * GIB,
            write_bytes_per_s: 200_000_000,
            depth: 32,
            answer: Answer::default(),
            accept_loss: false,
            replaced: None,
            absent: None,
            journal: None,
        }
    }
}

impl PairConfig {
    /// Why it would not keep what it promises over a power cut, if so.
    pub(crate) fn is_not_durable(&self) -> Option<&'static str> {
        if self.role_rule == RoleRule::Alike {
            Some("whose legs have no roles")
        } else if !self.settles {
            Some("whose legs are not flushed when they change places")
        } else {
            None
        }
    }

    /// Share of its time in which a leg may write at least, in millionths.
    pub fn writing_ppm(&self) -> u64 {
        super::pace::share_ppm(self.period, self.idle.limit())
    }
}

/// Bytes copied at once to a leg that is behind: a read of it delays users by a few ms at most (guess).
pub(super) const RESYNC_BYTES: u64 = MIB;
