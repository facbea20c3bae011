//! What if a drive is drained and removed while all this goes on?
//!
//! The administrator drains a drive in the middle of the workload, at times changes her mind and begins
//! again, and removes it as soon as she may. Power cuts and deaths of the process come at any moment, and
//! at times her configuration is behind: the pool starts with the drive that was removed.

use crate::gone::Gone;
use crate::pool::SwarmConfig;
use crate::simulation::Simulation;
use crate::succession::{self, Turn};
use crate::swarm::Run;
use tandem_block::{DeviceId, KIB, MIB, Rng};
use tandem_engine::EngineConfig;

/// Events from a change of mind to the next attempt.
const PAUSE_EVENTS: u64 = 60;
/// Events within which a drain ends, if nothing comes between.
const EVENTS_MAX: u64 = 6_000;

/// What the administrator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which drive goes.
    pub device: DeviceId,
    /// After so many events.
    pub at: u64,
    /// She changes her mind once, so many events later.
    pub cancels: Option<u64>,
    /// So many events pass before a drained drive is removed.
    pub lingers: u64,
}

/// How a run's drain stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evacuation {
    began: Option<u64>,
    drained: Option<u64>,
    cancelled: bool,
    again_at: u64,
    /// The configuration calls it gone, whatever the pool says.
    by_word: Option<DeviceId>,
    /// Another drive has taken its place.
    is_filled: bool,
}

impl SwarmConfig {
    /// A drive of a small pool is drained and removed.
    pub fn drained(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = match seed % 5 {
            0 | 3 => SwarmConfig::tiny(seed, policy, requests),
            1 => SwarmConfig::crowded(seed, policy, requests),
            2 => SwarmConfig::logged(seed, policy, requests),
            _ => SwarmConfig::tiered(seed, policy, requests),
        };
        let mut rng = Rng::new(seed ^ 0xD4A1);
        config.drives = [(2, 1), (2, 2), (3, 1)][(seed / 2 % 3) as usize];
        if policy == "ssd-first" && seed % 5 == 3 {
            config.drives = (2, 0);
            config.shape.volume_bytes = 2 * MIB;
            config.shape.footprint_bytes = MIB;
        }
        config.shape.length_bytes_max = config.shape.length_bytes_max.min(128 * KIB);
        let device = DeviceId(rng.below(config.drives.0 as u64) as u8);
        let cancels = (seed % 3 == 2).then(|| rng.below(120));
        let lingers = [0, 40][(seed / 3 % 2) as usize];
        config.drain = Some(Plan { device, at: 30 + rng.below(150), cancels, lingers });
        config
    }
}

impl SwarmConfig {
    /// A hard drive is drained and removed: its homes and its log.
    pub fn vacated(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = match seed % 5 {
            0 => SwarmConfig::tiny(seed, policy, requests),
            1 => SwarmConfig::crowded(seed, policy, requests),
            2 => SwarmConfig::logged(seed, policy, requests),
            3 => SwarmConfig::filed(seed, policy, requests),
            _ => SwarmConfig::tiered(seed, policy, requests),
        };
        let mut rng = Rng::new(seed ^ 0xFACA);
        config.drives = [(2, 2), (1, 3), (2, 3)][(seed / 2 % 3) as usize];
        if policy == "ssd-first" && seed.is_multiple_of(2) && seed % 5 < 4 {
            config.drives = (0, 3);
        }
        let (ssds, hdds) = config.drives;
        // the first one keeps metadata where there is one SSD, or none; on the last one nothing lies
        let first = u64::from(ssds < 2);
        let nth = rng.between(first, hdds as u64 - 2);
        config.tuning.object_table_bytes = 256 * KIB;
        // much is at home before it begins
        config.tuning.writeback_percent = [(2, 1), (10, 5)][(seed / 3 % 2) as usize];
        config.shape.length_bytes_max = config.shape.length_bytes_max.min(128 * KIB);
        // the volume has blocks on every drive, and there is room without one of them
        let homes = config.homes_bytes();
        let largest = homes.iter().map(|(_, bytes)| *bytes).max().expect("it has hard drives");
        let left = if config.objects { 2 * MIB } else { 256 * KIB };
        let room = config.space_bytes() - largest;
        config.shape.volume_bytes = room.saturating_sub(left) / (4 * KIB) * (4 * KIB);
        let footprint = config.shape.footprint_bytes.clamp(2 * MIB, room / 2);
        config.shape.footprint_bytes = footprint;
        let begins = homes[nth as usize].0.saturating_sub(footprint / 2);
        let begins = begins.min(config.shape.volume_bytes - footprint);
        config.shape.footprint_offset_bytes = begins / (4 * KIB) * (4 * KIB);
        let cancels = (seed % 3 == 2).then(|| rng.below(200));
        let lingers = [0, 40][(seed / 3 % 2) as usize];
        let device = DeviceId(ssds as u8 + nth as u8);
        config.drain = Some(Plan { device, at: 200 + rng.below(800), cancels, lingers });
        config
    }
}

impl SwarmConfig {
    /// A drive leaves as in the other two, and another one takes its place.
    pub fn added(seed: u64, policy: &str, requests: u64) -> Self {
        let half = seed / 2;
        let mut config = match seed % 2 {
            0 => SwarmConfig::drained(half, policy, requests),
            _ => SwarmConfig::vacated(half, policy, requests),
        };
        let mut rng = Rng::new(seed ^ 0xADD);
        let plan = config.drain.as_mut().expect("a drive leaves");
        (plan.cancels, plan.lingers) = (None, 0);
        plan.at = if seed.is_multiple_of(2) { 20 + rng.below(60) } else { 100 + rng.below(300) };
        let turns = [None, Some(Turn::SuccessorDies), None, Some(Turn::Cancel)];
        let then = turns[(half % 4) as usize].map(|turn| (rng.below(60), turn));
        let more_bytes = [0, 256 * KIB][(half / 2 % 2) as usize];
        let device = plan.device;
        config.replace = Some(succession::Plan { device, at: 0, more_bytes, then });
        config
    }
}

impl Simulation {
    /// A drive was removed: whoever sends anything there is told.
    pub(crate) fn close(&mut self, device: DeviceId) {
        let capacity_bytes = self.stations[usize::from(device.0)].drive.capacity_bytes();
        let gone = Box::new(Gone { device, capacity_bytes, since: self.now });
        let empty = self.station(gone);
        let place = &mut self.stations[usize::from(device.0)];
        self.removed = Some((device, std::mem::replace(place, empty)));
    }

    /// The next life begins without the drive that was removed, unless its configuration is behind.
    fn arrange_removed(&mut self, config: &mut EngineConfig, lags: bool) {
        match self.removed.take() {
            // somebody else has its place, or is about to
            Some(removed) if config.successor.is_some() => {
                config.gone.push(removed.0);
                self.removed = Some(removed);
            }
            Some((device, station)) if lags => {
                self.stations[usize::from(device.0)] = station;
            }
            Some((device, station)) => {
                config.gone.push(device);
                self.removed = Some((device, station));
            }
            None => {}
        }
    }
}

impl Run {
    /// What the administrator does after this event.
    pub(crate) fn drain_drives(&mut self) {
        let Some(plan) = self.config.drain.filter(|_| !self.evacuation.is_filled) else { return };
        let engine = &mut self.sim.engine;
        let stage = engine.drain_view().filter(|view| view.ended.is_none()).map(|v| v.stage);
        let x = &mut self.evacuation;
        match stage {
            Some("moves" | "drained") => {
                let began = *x.began.get_or_insert(self.events);
                let due = plan.cancels.filter(|after| self.events >= began + after);
                if due.is_some() && !x.cancelled {
                    x.cancelled = true;
                    (x.began, x.drained) = (None, None);
                    x.again_at = self.events + PAUSE_EVENTS;
                    engine.cancel_drain().expect("it moves");
                } else if stage == Some("drained") {
                    let drained = *x.drained.get_or_insert(self.events);
                    if self.events < drained + plan.lingers {
                        return;
                    }
                    engine.remove(plan.device).expect("it is drained");
                } else {
                    x.drained = None;
                    return;
                }
            }
            Some(_) => return,
            None => {
                let is_due = self.events >= plan.at.max(x.again_at);
                if !is_due || engine.can_drain(plan.device).is_err() {
                    return;
                }
                engine.drain(plan.device).expect("asked before");
                (x.began, x.drained) = (Some(self.events), None);
            }
        }
        self.sim.wake();
    }

    /// Is it worth while to go on, although nobody asks for anything?
    pub(crate) fn is_draining(&self) -> bool {
        let under_way = self.sim.engine.drain_view().is_some_and(|view| view.ended.is_none());
        under_way && self.evacuation.began.is_some_and(|began| self.events < began + EVENTS_MAX)
    }

    /// Is the drive still there that another one shall take the place of?
    pub(crate) fn awaits_evacuation(&self) -> bool {
        let plan = self.config.drain.filter(|_| !self.evacuation.is_filled);
        let devices = self.sim.engine.devices();
        plan.is_some_and(|plan| !devices[usize::from(plan.device.0)].is_gone())
    }

    /// Another drive has taken the place of the one that left.
    pub(crate) fn note_filled(&mut self) {
        self.evacuation.is_filled = true;
    }

    /// From the next life on the configuration calls this drive gone, whatever the pool says.
    pub fn call_gone(&mut self, device: DeviceId) {
        self.evacuation.by_word = Some(device);
    }

    /// The next life's configuration. At times it still lists the drive that was removed.
    pub(crate) fn without_removed(&mut self, config: &mut EngineConfig) {
        (self.evacuation.began, self.evacuation.drained) = (None, None);
        let lags = Rng::new(self.config.seed ^ self.events ^ 0x90E).chance_ppm(300_000);
        if !self.evacuation.is_filled || config.successor.is_some() {
            self.sim.arrange_removed(config, lags);
        }
        config.gone.extend(self.evacuation.by_word);
    }
}
