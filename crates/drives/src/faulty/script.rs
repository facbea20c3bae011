//! Which command meets which fault? Rules, in order; the first that fires counts.

use tandem_block::{DriveOp, DriveOpKind, Duration, Instant};

/// What goes wrong with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends with an I/O error. A write may have been stored in part; a flush settles nothing.
    Error,
    /// The drive does nothing for so long, beginning now; commands in flight are late too.
    Stall(Duration),
    /// A write stores only some of its sectors, and says nothing.
    Torn,
    /// A write stores nothing, and says nothing.
    Lost,
    /// One bit is wrong: stored wrong by a write, returned wrong by a read.
    BitFlip,
    /// A flush says that it is done and settles nothing.
    IgnoreFlush,
    /// It ends with an I/O error and stores nothing: a file behind the drive has no room.
    Refused,
    /// A write is stored so many bytes further on, around the end of the drive, and says nothing; a read
    /// comes from there.
    Misdirect(u64),
    /// A read returns what is durable, not what was acknowledged since, and says nothing.
    Stale,
    /// It ends so much later; no other command does.
    Late(Duration),
    /// It never ends.
    Never,
    /// The drive dies now.
    Die,
}

/// Which commands a rule looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpFilter {
    /// All.
    #[default]
    Any,
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Flushes.
    Flushes,
}

/// One rule: commands that match are counted; after `skip` of them, each meets the fault by
/// chance, until `count` have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// What goes wrong.
    pub fault: Fault,
    /// Which commands.
    pub ops: OpFilter,
    /// Only commands that touch these bytes (first, end); a flush touches none.
    pub range: Option<(u64, u64)>,
    /// Only commands submitted at this time or later,
    pub from: Instant,
    /// … and before this one.
    pub upto: Instant,
    /// Matching commands that pass unharmed first.
    pub skip: u64,
    /// Faults at most.
    pub count: u64,
    /// Chance of each, in millionths.
    pub chance_ppm: u64,
}

impl FaultRule {
    /// The next command that the fault can happen to meets it, once.
    pub fn once(fault: Fault) -> Self {
        FaultRule {
            fault,
            ops: OpFilter::Any,
            range: None,
            from: Instant::ZERO,
            upto: Instant::NEVER,
            skip: 0,
            count: 1,
            chance_ppm: 1_000_000,
        }
    }

    /// Every command meets the fault with this chance.
    pub fn by_chance(fault: Fault, chance_ppm: u64) -> Self {
        FaultRule { count: u64::MAX, chance_ppm, ..FaultRule::once(fault) }
    }

    /// Does it look at this command, and can the fault happen to it?
    pub(super) fn matches(&self, now: Instant, op: &DriveOp) -> bool {
        let write = matches!(op.kind, DriveOpKind::Write { .. });
        let wanted = match self.ops {
            OpFilter::Any => true,
            OpFilter::Reads => op.kind == DriveOpKind::Read,
            OpFilter::Writes => write,
            OpFilter::Flushes => op.kind == DriveOpKind::Flush,
        };
        let possible = match self.fault {
            Fault::Error | Fault::Stall(_) | Fault::Die | Fault::Late(_) | Fault::Never => true,
            Fault::Torn | Fault::Lost | Fault::Refused => write,
            Fault::BitFlip | Fault::Misdirect(_) => write || op.kind == DriveOpKind::Read,
            Fault::Stale => op.kind == DriveOpKind::Read,
            Fault::IgnoreFlush => op.kind == DriveOpKind::Flush,
        };
        let touches = self.range.is_none_or(|(first, end)| {
            op.offset_bytes < end && first < op.offset_bytes + op.length_bytes
        });
        wanted && possible && touches && now >= self.from && now < self.upto
    }
}

/// Everything that will go wrong with one drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultScript {
    /// Rules for commands.
    pub rules: Vec<FaultRule>,
    /// When the drive dies, whatever it is asked.
    pub dies_at: Option<Instant>,
    /// When it stalls, and for how long; in the order of time.
    pub stalls: Vec<(Instant, Duration)>,
    /// From then on it has no room for what was never written to: it is a file, and what is behind it is
    /// full. Until then.
    pub full: Option<(Instant, Instant)>,
}

impl FaultScript {
    /// A script of rules alone.
    pub fn of(rules: impl Into<Vec<FaultRule>>) -> Self {
        FaultScript { rules: rules.into(), ..FaultScript::default() }
    }
}
