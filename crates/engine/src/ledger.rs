//! What did each drive do today, and is that all that it may?
//!
//! Source: requirements B4 (workload ratings of hard drives); design decision 10: nothing is free;
//!         drive writes per day are how vendors and ZFS (`l2arc_dwpd_limit`) bound the wear of SSDs.
//!
//! Days are counted from the engine's start. What a drive did is told from its counters, so that no
//! command pays for the account.

use crate::bcw::predictor::WriteState;
use crate::config::{DriveBudget, EngineConfig, Role};
use crate::io::DeviceIo;
use crate::stats::DeviceStats;
use crate::steer::{Decision, HddView, Reason};
use tandem_block::{DeviceId, Duration, Instant};

const DAY: Duration = Duration::from_s(86_400);

/// The account of a day.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    day_ends: Instant,
    /// Of each drive what it had done when the day began, in bytes.
    at_dawn: Vec<u64>,
    bounds_ssds: bool,
}

impl Ledger {
    pub(crate) fn new(config: &EngineConfig) -> Ledger {
        Ledger {
            day_ends: Instant::ZERO,
            at_dawn: vec![0; config.devices.len()],
            bounds_ssds: config.budgets.iter().any(|budget| budget.ssd_write_bytes.is_some()),
        }
    }
}

/// What a drive of this role did that wears it: an SSD's writes, a hard drive's reads too.
fn work(role: Role, stats: &DeviceStats) -> u64 {
    let read = if role == Role::Hdd { stats.read_bytes } else { 0 };
    stats.written_bytes() + read
}

impl Ledger {
    /// Once an event: a new day may have begun.
    #[inline]
    pub(crate) fn turn_the_page(&mut self, io: &DeviceIo) {
        if io.now() >= self.day_ends {
            self.begin_day(io);
        }
    }

    #[cold]
    fn begin_day(&mut self, io: &DeviceIo) {
        let roles = io.config().devices.iter().map(|device| device.role);
        let works = roles.zip(&io.stats().devices).map(|(role, stats)| work(role, stats));
        self.at_dawn = works.collect();
        assert!(self.at_dawn.len() == io.drives().len(), "each drive has an account");
        self.day_ends = io.now() + DAY;
    }

    /// Bytes that a drive has taken since the day began: of an SSD writes, of a hard drive reads too.
    pub(crate) fn used_today(&self, device: DeviceId, io: &DeviceIo) -> u64 {
        let index = usize::from(device.0);
        let Some(stats) = io.stats().devices.get(index) else { return 0 };
        let at_dawn = self.at_dawn.get(index).copied().unwrap_or(0);
        work(io.config().devices[index].role, stats).saturating_sub(at_dawn)
    }

    /// What a drive may take in a day.
    pub(crate) fn budget(&self, device: DeviceId, io: &DeviceIo) -> DriveBudget {
        io.config().budget(device)
    }

    /// Time until the next day begins.
    pub(crate) fn day_left(&self, now: Instant) -> Duration {
        self.day_ends.since(now)
    }

    /// Has the drive done what it is rated for?
    pub(crate) fn rating_is_spent(&self, device: DeviceId, io: &DeviceIo) -> bool {
        let rated = io.config().budget(device).rated_bytes;
        rated.is_some_and(|rated| self.used_today(device, io) >= rated)
    }

    /// Is an SSD's budget of writes spent?
    pub(crate) fn ssd_writes_are_spent(&self, device: DeviceId, io: &DeviceIo) -> bool {
        let bound = io.config().budget(device).ssd_write_bytes;
        bound.is_some_and(|bound| self.used_today(device, io) >= bound)
    }

    /// A write that would stay although every SSD's budget is spent goes to a hard drive that takes it
    /// without a slow write. Its policy redirects writes.
    pub(crate) fn within_budget(
        &self,
        decision: Decision,
        hdds: &[HddView],
        io: &DeviceIo,
    ) -> Decision {
        if !self.bounds_ssds || decision.target.is_log() {
            return decision;
        }
        let in_service = |id: &&DeviceId| !io[**id].is_faulted();
        if !io.ssds().iter().filter(in_service).all(|&id| self.ssd_writes_are_spent(id, io)) {
            return decision;
        }
        let takes = |hdd: &&HddView| hdd.accepting && hdd.predicted != WriteState::Slow;
        let soonest = hdds.iter().filter(takes).min_by_key(|hdd| (hdd.expected_ns, hdd.device));
        soonest.map_or(decision, |hdd| Decision::go(hdd, Reason::SsdBudget))
    }
}
