//! What is done to a pool in service, and what goes wrong with its drives?

use crate::pool::SwarmConfig;
use tandem_block::{DeviceId, Drive, Duration, Instant};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::format::layout::{self, Layout};

/// Faults begin after the pool was formatted.
pub const FORMATTED: Instant = Instant::from_ns(3_000_000);

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// All of it.
    Any,
    /// The ring of the journal.
    Journal,
    /// Roots and pages of checkpoints.
    Checkpoint,
    /// Pages of the map.
    Pages,
    /// Blocks of volumes.
    Data,
}

impl Area {
    /// Its first byte and the one behind it; `None`: no matter where, flushes too.
    pub fn range(self, layout: &Layout, capacity_bytes: u64) -> Option<(u64, u64)> {
        let data = if layout.home_blocks > 0 { layout.home_offset } else { layout.slot_offset };
        match self {
            Area::Any => None,
            Area::Journal => {
                Some((layout.journal_offset, layout.journal_offset + layout.journal_bytes))
            }
            Area::Checkpoint => Some((layout.root_offset, data)),
            Area::Pages => Some((layout.area_offset, data)),
            Area::Data => Some((data, capacity_bytes - 2 * layout::SUPERBLOCK_BYTES)),
        }
    }
}

/// Something that goes wrong with one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Which drive.
    pub device: DeviceId,
    /// What happens.
    pub fault: Fault,
    /// To which commands,
    pub ops: OpFilter,
    /// … where,
    pub area: Area,
    /// … how many of which pass first,
    pub skip: u64,
    /// … and how many meet it, each by this chance.
    pub count: u64,
    /// In millionths.
    pub chance_ppm: u64,
    /// From when on.
    pub from: Instant,
    /// … and until when.
    pub upto: Instant,
}

impl FaultPlan {
    /// The next command of this drive that it can happen to.
    pub fn once(device: DeviceId, fault: Fault, ops: OpFilter, area: Area) -> FaultPlan {
        FaultPlan {
            device,
            fault,
            ops,
            area,
            skip: 0,
            count: 1,
            chance_ppm: 1_000_000,
            from: FORMATTED,
            upto: Instant::NEVER,
        }
    }
}

/// How a life of the pool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power fails.
    Cut(CutMode),
    /// The process dies.
    Kill,
    /// It is stopped.
    Stop,
    /// It is stopped, or the process dies, and this drive is what it was at the event.
    RolledBack {
        /// Which drive.
        device: DeviceId,
        /// What it held after so many events is there again.
        image_at: u64,
        /// The process died.
        killed: bool,
    },
}

/// A run of a pool in service.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Drives, the first volume, and the load.
    pub pool: SwarmConfig,
    /// Files that are made at the beginning, and made anew when they were removed.
    pub files: usize,
    /// Bytes of each of them.
    pub file_bytes: u64,
    /// Snapshots at once, at most.
    pub snapshots_max: usize,
    /// The longest pause between two things that the administrator does; `None`: nothing.
    pub pause: Option<Duration>,
    /// Tiers that volumes get while they are served.
    pub tiers: Vec<&'static str>,
    /// After so many events a life ends so.
    pub ends: Vec<(u64, End)>,
    /// Of every so many events one is followed by a power cut, in a fork; 0: none is.
    pub stride: u64,
    /// What goes wrong.
    pub faults: Vec<FaultPlan>,
    /// A drive that is a file, and gets no more room from then on, until then.
    pub full: Option<(DeviceId, Instant, Instant)>,
    /// A command fails that is chosen while it runs (`every`).
    pub fails_one: bool,
    /// A request is answered so long after it was made, or after the last fault.
    pub patience: Duration,
}

impl Plan {
    /// Nothing but requests.
    pub fn of(pool: SwarmConfig) -> Plan {
        Plan {
            pool,
            files: 0,
            file_bytes: 0,
            snapshots_max: 0,
            pause: None,
            tiers: Vec::new(),
            ends: Vec::new(),
            stride: 0,
            faults: Vec::new(),
            full: None,
            fails_one: false,
            patience: Duration::from_s(120),
        }
    }

    /// Drives, each with what goes wrong with it.
    pub(super) fn drives(&self) -> Vec<Box<dyn Drive>> {
        let layouts = layout::plan(&self.pool.engine(true)).expect("the pool can be laid out");
        let drives = self.pool.drives().into_iter().enumerate();
        let faulty = |(index, drive): (usize, Box<dyn Drive>)| {
            let device = DeviceId(index as u8);
            let script = self.script(device, layouts.get(index), drive.capacity_bytes());
            let seed = self.pool.seed.wrapping_mul(41).wrapping_add(index as u64);
            Box::new(Faulty::new(drive, device, script, seed)) as Box<dyn Drive>
        };
        drives.map(faulty).collect()
    }

    fn script(&self, device: DeviceId, layout: Option<&Layout>, capacity: u64) -> FaultScript {
        let rule = |plan: &FaultPlan| FaultRule {
            ops: plan.ops,
            range: layout.and_then(|layout| plan.area.range(layout, capacity)),
            from: plan.from,
            upto: plan.upto,
            skip: plan.skip,
            count: plan.count,
            chance_ppm: plan.chance_ppm,
            ..FaultRule::once(plan.fault)
        };
        let own = self.faults.iter().filter(|plan| plan.device == device);
        let mut script = FaultScript::of(own.map(rule).collect::<Vec<_>>());
        let full = self.full.filter(|(which, ..)| *which == device);
        script.full = full.map(|(_, from, upto)| (from, upto));
        script
    }

    /// Is everything that goes wrong over at some time, so that drives are sound afterwards?
    pub(super) fn heals(&self) -> bool {
        let stays = |plan: &FaultPlan| {
            let is_endless = plan.count == u64::MAX && plan.upto == Instant::NEVER;
            is_endless || matches!(plan.fault, Fault::Never | Fault::Die)
        };
        !self.faults.iter().any(stays)
    }

    /// Can anything go wrong with the drives?
    pub(super) fn has_faults(&self) -> bool {
        let rolled = |(_, end): &(u64, End)| matches!(end, End::RolledBack { .. });
        !self.faults.is_empty()
            || self.fails_one
            || self.full.is_some()
            || self.ends.iter().any(rolled)
    }
}
