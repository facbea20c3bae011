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
    /// Only commands submitted at this time or later.
    pub from: Instant,
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
            Fault::Error | Fault::Stall(_) | Fault::Die => true,
            Fault::Torn | Fault::Lost => write,
            Fault::BitFlip => write || op.kind == DriveOpKind::Read,
            Fault::IgnoreFlush => op.kind == DriveOpKind::Flush,
        };
        let touches = self.range.is_none_or(|(first, end)| {
            op.offset_bytes < end && first < op.offset_bytes + op.length_bytes
        });
        wanted && possible && touches && now >= self.from
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
}

impl FaultScript {
    /// A script of rules alone.
    pub fn of(rules: impl Into<Vec<FaultRule>>) -> Self {
        FaultScript { rules: rules.into(), ..FaultScript::default() }
    }
}
