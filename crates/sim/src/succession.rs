//! What if a drive is replaced while all this goes on?
//!
//! Requirement L4. The administrator brings a drive in the middle of the workload, and again if that came
//! to nothing; she changes her mind, or either drive dies, as the seed says. Power cuts and deaths of the
//! process come at any moment, and at times her configuration is behind: the pool starts with both drives
//! although the new one is the member already.

use crate::erratic::Erratic;
use crate::gone::Gone;
use crate::pool::SwarmConfig;
use crate::simulation::{Simulation, Station};
use crate::swarm::{Failure, Run};
use tandem_block::{DeviceId, Drive, Instant, KIB, Rng};
use tandem_drives::media::Media;
use tandem_engine::EngineConfig;
use tandem_engine::replacement::{Ending, SuccessorConfig};

/// New drives that are brought at most.
const ATTEMPTS_MAX: u64 = 3;
/// Events from the end of one to the next.
const PAUSE_EVENTS: u64 = 100;
/// Events within which a replacement ends, if nothing comes between.
const EVENTS_MAX: u64 = 4_000;

/// What the administrator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whose place is taken.
    pub device: DeviceId,
    /// After so many events.
    pub at: u64,
    /// The new drive is larger by so much.
    pub more_bytes: u64,
    /// What happens so many events later.
    pub then: Option<(u64, Turn)>,
}

/// What ends a replacement early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// She changes her mind.
    Cancel,
    /// The new drive dies.
    SuccessorDies,
}

/// How a drive that was replaced is there in the next life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// Beside its successor: the configuration is behind.
    Beside,
    /// Without it.
    Instead,
}

/// How a run's replacement stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Succession {
    /// New drives brought so far.
    attempts: u64,
    /// When the last one was, in events.
    began: u64,
    /// The simulation has it now: whose place it shall take, and its bytes.
    present: Option<(DeviceId, u64)>,
    /// The drive that is the member now, if it is not the first one any more.
    member_bytes: Option<(DeviceId, u64)>,
    turned: bool,
    /// When it is tried again, in events.
    again_at: u64,
}

impl SwarmConfig {
    /// A drive of a small pool is replaced, in regions of which there are many.
    pub fn replaced(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = match seed % 3 {
            0 => SwarmConfig::tiny(seed, policy, requests),
            1 => SwarmConfig::logged(seed, policy, requests),
            _ => SwarmConfig::cycled(seed, policy, requests),
        };
        config.shape.footprint_bytes = config.shape.footprint_bytes.min(1024 * KIB);
        let (ssds, hdds) = config.drives;
        // the drive with the journal, the one that follows, or one with data alone
        let device = DeviceId((seed / 3 % (ssds + hdds) as u64) as u8);
        let mut rng = Rng::new(seed ^ 0x5CCE);
        // neighbouring seeds end in every way
        let turn = [None, Some(Turn::Cancel), Some(Turn::SuccessorDies)];
        let then = turn[((seed + seed / 3) % 3) as usize].map(|turn| (rng.below(200), turn));
        let more_bytes = [0, 256 * KIB][(seed / 2 % 2) as usize];
        config.replace = Some(Plan { device, at: 20 + rng.below(150), more_bytes, then });
        config
    }

    /// The new drive for a plan.
    fn successor(&self, plan: &Plan, attempt: u64) -> (Box<dyn Drive>, u64) {
        let is_ssd = usize::from(plan.device.0) < self.drives.0;
        let bytes = plan.more_bytes + if is_ssd { self.sizes.0 } else { self.sizes.1 };
        let tuning = self.tuning;
        let latency_ns = if is_ssd { tuning.ssd_latency_ns } else { tuning.hdd_latency_ns };
        let seed = self.seed.wrapping_mul(37).wrapping_add(attempt);
        (Box::new(Erratic::new(bytes, seed, latency_ns, !is_ssd)), bytes)
    }
}

impl Simulation {
    /// An empty drive takes the place of another one.
    pub fn replace_drive(&mut self, device: DeviceId, drive: Box<dyn Drive>) {
        self.stations[usize::from(device.0)] = self.station(drive);
    }

    /// A drive that had died is back with what it holds, by another cable: call it between two lives.
    pub fn revive_drive(&mut self, device: DeviceId, drive: Box<dyn Drive>) {
        self.stations[usize::from(device.0)].drive = drive;
    }

    /// A drive is added behind all others.
    pub fn adopt(&mut self, drive: Box<dyn Drive>) {
        let station = self.station(drive);
        self.stations.push(station);
    }

    /// The last drive takes this one's place.
    pub(crate) fn succeed(&mut self, device: DeviceId) {
        let station = self.stations.pop().expect("there is a successor");
        let place = &mut self.stations[usize::from(device.0)];
        self.released = Some((device, std::mem::replace(place, station)));
    }

    /// The last drive is taken out.
    pub(crate) fn let_go(&mut self) {
        self.stations.pop().expect("there is a successor");
    }

    /// In the next life the drive that was replaced in this one is in its place again, and its successor
    /// is gone.
    pub fn old_comes_back_alone(&mut self) {
        self.returns = Some(Returns::Instead);
    }

    /// The next life begins with these drives.
    pub(crate) fn arrange_drives(&mut self, config: &EngineConfig) {
        if let Some(returns) = self.returns.take() {
            let (device, old) = self.released.take().expect("a drive was replaced");
            let new = std::mem::replace(&mut self.stations[usize::from(device.0)], old);
            match returns {
                Returns::Beside => self.stations.push(new),
                Returns::Instead => {}
            }
        }
        self.released = None;
        assert_eq!(config.drive_count(), self.stations.len(), "a drive for every place");
    }

    pub(crate) fn station(&self, drive: Box<dyn Drive>) -> Station {
        let media = if self.has_contents { Media::ram() } else { Media::none() };
        Station { drive, media }
    }
}

impl Run {
    /// In the next life the configuration lists a bay for one hard drive more, which the pool has not heard of. It is
    /// filled so many events later.
    pub fn add_bay(&mut self, events: u64) {
        let device = DeviceId((self.config.drives.0 + self.config.drives.1) as u8);
        self.config.drives.1 += 1;
        self.config.spares.push(device);
        let at = self.events + events;
        self.config.replace = Some(Plan { device, at, more_bytes: 0, then: None });
        let (capacity_bytes, since) = (self.config.sizes.1, Instant::ZERO);
        self.sim.adopt(Box::new(Gone { device, capacity_bytes, since }));
    }

    /// What the administrator does after this event.
    pub(crate) fn administer(&mut self) -> Result<(), Failure> {
        if self.config.replace.is_some() {
            self.note_succession();
        }
        self.drain_drives();
        let Some(plan) = self.config.replace else { return Ok(()) };
        // one that joins has little to copy, so its time to die is short
        let is_early = self.joins() && !self.may_die();
        let s = &mut self.succession;
        if let Some((device, bytes)) = s.present {
            let due = plan.then.filter(|(after, _)| self.events >= s.began + after);
            let due = due.filter(|(_, turn)| *turn == Turn::Cancel || !is_early);
            if let (Some((_, turn)), false) = (due, s.turned) {
                s.turned = true;
                debug_assert!(bytes > 0 && device == plan.device);
                match turn {
                    Turn::Cancel => {
                        // it may be too late
                        let _ = self.sim.engine.cancel_replace();
                        self.sim.wake();
                    }
                    // afterwards it is the member
                    Turn::SuccessorDies if self.may_die() => {
                        let place = self.sim.engine.successor_place();
                        self.sim.kill_drive(place);
                    }
                    Turn::SuccessorDies => {}
                }
            }
            return Ok(());
        }
        let wants = s.member_bytes.is_none() && s.attempts < ATTEMPTS_MAX;
        if !wants || self.events < plan.at.max(s.again_at) || self.awaits_evacuation() {
            return Ok(());
        }
        let s = &mut self.succession;
        let (drive, bytes) = self.config.successor(&plan, s.attempts);
        if self.sim.engine.can_replace(plan.device, bytes).is_err() {
            return Ok(());
        }
        s.attempts += 1;
        (s.began, s.present) = (self.events, Some((plan.device, bytes)));
        let uuid = 1_000 + u128::from(s.attempts);
        self.sim.adopt(drive);
        let successor = SuccessorConfig { device: plan.device, capacity_bytes: bytes };
        self.sim.engine.replace(successor, uuid).expect("asked before");
        self.sim.wake();
        Ok(())
    }

    /// Does a drive take an empty place?
    fn joins(&self) -> bool {
        self.sim.engine.replacement().is_some_and(|view| view.joins && view.ended.is_none())
    }

    /// Is the new drive no member yet?
    fn may_die(&self) -> bool {
        self.sim.engine.replacement().is_some_and(|view| view.stage == "copies")
    }

    /// Is it worth while to go on, although nobody asks for anything?
    pub(crate) fn is_replacing(&self) -> bool {
        let replaces = self.succession.present.is_some()
            && self.sim.engine.replacement().is_some_and(|view| view.ended.is_none())
            && self.events < self.succession.began + EVENTS_MAX;
        replaces || self.is_draining()
    }

    /// Is who is the member about to change, or what is known of it? Crash tests look at each event then.
    pub fn changes_drives(&self) -> bool {
        let view = self.sim.engine.replacement().filter(|view| view.ended.is_none());
        let drain = self.sim.engine.drain_view();
        view.is_some_and(|view| view.stage != "copies")
            || drain.is_some_and(|view| view.stage == "leaves")
    }

    /// What has become of it meanwhile.
    fn note_succession(&mut self) {
        let Some(view) = self.sim.engine.replacement() else { return };
        let Some((_, ending)) = view.ended else { return };
        let s = &mut self.succession;
        let Some(present) = s.present.take() else { return };
        s.again_at = self.events + PAUSE_EVENTS;
        if ending == Ending::Finished {
            s.member_bytes = Some(present);
            if view.joins {
                self.note_filled();
            }
        }
    }

    /// The next life's configuration. At times it still lists the drive that was replaced.
    pub(crate) fn next_engine(&mut self) -> EngineConfig {
        self.note_succession();
        let mut rng = Rng::new(self.config.seed ^ self.events ^ 0x1A6);
        let lags = self.config.seed.is_multiple_of(2) && rng.chance_ppm(500_000);
        if self.sim.released.is_some() && self.sim.returns.is_none() && lags {
            self.sim.returns = Some(Returns::Beside);
            self.succession.present = self.succession.member_bytes.take();
        }
        if self.sim.returns == Some(Returns::Instead) {
            self.succession.member_bytes = None;
        }
        let s = &self.succession;
        let mut config = self.config.engine(false);
        config.successor =
            s.present.map(|(device, capacity_bytes)| SuccessorConfig { device, capacity_bytes });
        if let Some((device, bytes)) = s.member_bytes {
            config.gone.retain(|empty| *empty != device);
            config.devices[usize::from(device.0)].capacity_bytes = bytes;
        }
        self.without_removed(&mut config);
        config
    }
}
