//! What does an engine consist of, and how is one built?
//!
//! Source: design decision 1: one state machine for both event loops. In which order an event is taken in is in
//! `turn`, whose a command was in `ended`, and what there is to see of an engine from outside in `view`.

pub mod audit;
mod commits;
mod ended;
mod rest;
mod turn;
mod view;

pub use rest::{Awake, Rest};

use crate::bcw::controller::{Control, Controller};
use crate::config::{EngineConfig, Placement, Role};
use crate::config_error::ConfigError;
use crate::device::{Device, Service};
use crate::format::layout::{self, Layout};
use crate::format::pointer;
use crate::format::superblock::{Numbered, Standing};
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::{Map, SlotRegion};
use crate::migration::Migration;
use crate::policy::Policy;
use crate::policy::steering::{SharedSteer, Steering};
use crate::qos::{self, Qos};
use crate::replicas::Replicas;
use crate::requests::Requests;
use crate::start::Start;
use crate::steer::{self, DriveProfiles};
use crate::store::Store;
use crate::store::memory::{self, MemoryBound};
use crate::tier::Tier;
use crate::tier::space::SpaceConfig;
use crate::tiering::file_tiers::{self};
use crate::tiering::policies::VolumePolicy;
use crate::tiering::{self, Tiers};
use crate::volumes::Volumes;
use std::collections::BTreeMap;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, ObjectId};

/// The engine of one set of drives. See `port` for its interface.
#[derive(Clone, Debug)]
pub struct Engine {
    io: DeviceIo,
    /// The start, while it is under way.
    start: Start,
    store: Store,
    volumes: Volumes,
    requests: Requests,
    migration: Migration,
    policy: Policy,
    replicas: Replicas,
    digest: u64,
}

impl Store {
    /// What keeps the writes of a hard drive fast, if it has a profile.
    pub(crate) fn controller_of(
        &self,
        device: DeviceId,
        policy: &Policy,
        io: &DeviceIo,
    ) -> Option<Controller> {
        let profile = io[device].config.hdd_profile.clone();
        let profile = profile.filter(|_| !self.metadata.is_degraded())?;
        // a tier sends hard drives what belongs there, whatever the steering policy does
        let for_tiers = policy.tiers.wants_share().then_some(Control::Bare);
        let steers = policy.steering.shared.iter().filter_map(|steer| steer.policy.control());
        let control = steers.chain(for_tiers).max();
        let (loops, padding) = (io.config().bcw_loops_max, io.config().padding_bytes_per_day);
        let budget = io.config().budget(device);
        let padding = budget.padding_bytes.unwrap_or(padding);
        let mut c = Controller::new(profile, loops, padding, io.config().recalibrate);
        if let Some(bytes) = budget.log_bytes {
            c.bound_log(bytes);
        }
        if let Some(control) = control {
            c.enable(control);
        }
        if io.hdds_there() > 1 {
            c.join_others();
        }
        Some(c)
    }
}

impl Volumes {
    /// Would the volumes fit an empty pool? Its first root has them all, whether it has a table or not.
    fn check_volumes(&self, io: &DeviceIo) -> Result<(), ConfigError> {
        let volumes = &io.config().volumes;
        let mut trial = self.objects.clone();
        for (fit, volume) in volumes.iter().enumerate() {
            trial
                .create(volume.object, &volume.name, volume.size_bytes)
                .map_err(|error| ConfigError::Volume { volume: volume.name.clone(), error })?;
            if trial.record_bytes().0 > io.config().areas.root_bytes / 2 {
                return Err(ConfigError::TooManyVolumes { found: volumes.len(), fit });
            }
        }
        Ok(())
    }
}

impl Store {
    /// Sizes everything that hangs on the drives' layouts (again, if the superblocks differ from
    /// what would be planned today).
    pub(crate) fn lay_out(
        &mut self,
        layouts: &[Layout],
        volumes: &mut Volumes,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        assert!(layouts.len() == io.drives().len(), "each drive has a layout");
        let mut regions = Vec::new();
        for want_log in [false, true] {
            for (id, layout) in layouts.iter().enumerate() {
                let is_log = io.config().devices[id].role == Role::Hdd;
                if is_log != want_log || layout.slot_count == 0 {
                    continue;
                }
                let (device, count) = (DeviceId(id as u8), layout.slot_count);
                regions.push(SlotRegion::new(device, is_log, count, layout.slot_offset));
            }
        }
        let blocks = layout::logical_blocks(layouts, io.config());
        let segment_slots = io.config().log_segment_bytes / BLOCK_BYTES;
        for (id, layout) in layouts.iter().enumerate() {
            let bcw = self.controller_of(DeviceId(id as u8), policy, io);
            let device = &mut io[DeviceId(id as u8)];
            device.layout = *layout;
            device.log = regions
                .iter()
                .find(|r| r.is_log && r.device == device.id)
                .map(|r| crate::log::Log::new(*r, segment_slots));
            device.bcw = bcw;
        }
        self.map = Map::new(regions, blocks as usize, io.drives().len());
        volumes.objects = Objects::new(blocks);
        volumes.object_changes.bound_objects(
            &layouts[io.config().metadata_device()],
            &mut volumes.objects,
            io,
        );
        self.checkpoint = crate::checkpoint::Checkpoint::new(io.config().areas.part_leaves);
        let metadata_replica = io.config().metadata_replica_device();
        self.metadata_replica.begin_life(metadata_replica, self.map.group_count());
        // all homes of the metadata have their pages at the same places
        let keeps = |(index, layout): (usize, &Layout)| {
            io.config().keeps_map(index).then_some(layout.area_pages)
        };
        let has_area = |&pages: &u64| pages > 0;
        let area_pages =
            layouts.iter().enumerate().filter_map(keeps).filter(has_area).min().unwrap_or(0);
        let homes: u64 = layouts.iter().map(|layout| layout.home_blocks).sum();
        let homes = if area_pages == 0 { 0 } else { homes };
        // what a stranger's superblock has beyond that takes no memory
        let slots = self.map.slots().count();
        let needed = pointer::area_pages(pointer::groups_of(blocks), slots);
        let (pool, area_pages) = (io.config().pool, area_pages.min(needed));
        self.checksums.begin_life(pool, (blocks, homes), area_pages);
        let replica_pages =
            metadata_replica.map_or(0, |home| layouts[usize::from(home.0)].area_pages);
        let replica_pages = replica_pages.min(needed);
        self.metadata_replica.begin_table(pool, self.checksums.table(), replica_pages);
        io.stats_mut().devices = vec![Default::default(); io.drives().len()];
        io.stats_mut().queue_length_max = vec![0; io.drives().len()];
    }
}

impl Engine {
    /// An engine that waits for `Event::Start`.
    ///
    /// # Errors
    /// If the configuration contradicts itself; nothing was touched.
    pub fn new(mut config: EngineConfig) -> Result<Engine, ConfigError> {
        let found = config.devices.len();
        let max = crate::format::superblock::MEMBERS_MAX;
        if found == 0 || found > max {
            return Err(ConfigError::Drives { max, found });
        }
        let is_wrong = |id: &DeviceId| usize::from(id.0) >= found;
        if config.gone.len() >= found || config.gone.iter().any(is_wrong) {
            return Err(ConfigError::AllGone);
        }
        memory::check(&config)?;
        let (high, low) = (config.writeback_high_percent, config.writeback_low_percent);
        let budget = config.flush_budget_percent;
        if low > high || high > 100 || !(1..=100).contains(&budget) {
            return Err(ConfigError::Destage { high, low, budget });
        }
        if let Some(successor) = config.successor {
            let is_pair = config.pairs.iter().any(|pair| pair.device == successor.device);
            let whole = config.placement == Placement::Mapped && config.absent.is_empty();
            if usize::from(successor.device.0) >= found || is_pair || config.format || !whole {
                return Err(ConfigError::Successor);
            }
        }
        config.check_pairs()?;
        let layouts = match config.placement {
            Placement::Mapped if config.format => config.lay_out_places()?,
            Placement::Mapped => layout::plan(&config.with_least_areas())?,
            Placement::Fixed => layout::plan_fixed(&config)?,
        };
        let space = tiering::space_config(&config)?;
        let mut policies = BTreeMap::new();
        let mut steers: Vec<SharedSteer> = Vec::new();
        let profiles = DriveProfiles::of(&config.devices);
        for volume in &config.volumes {
            let known = steers.iter().position(|shared| shared.config == volume.steer);
            let steer = known.unwrap_or(steers.len());
            if known.is_none() {
                let policy = steer::build(&volume.steer, &profiles);
                let policy = policy.ok_or_else(|| ConfigError::Unknown {
                    volume: volume.name.clone(),
                    what: "steering policy",
                    name: volume.steer.policy().to_owned(),
                    known: names(steer::POLICIES.iter().map(|p| p.name)),
                })?;
                steers.push(SharedSteer { config: volume.steer.clone(), policy });
            }
            let tier = volume.tier.build().expect("looked up with the space");
            let (durability, file_tiers) = (volume.durability, file_tiers::build(volume)?);
            let policy = VolumePolicy { steer, tier, file_tiers, durability };
            policies.insert(volume.object, policy);
        }
        let order = qos::named(&config.qos.order).ok_or_else(|| ConfigError::UnknownOrder {
            name: config.qos.order.clone(),
            known: names(qos::ORDERS.iter().map(|o| o.name)),
        })?;
        let (found, max) = (config.qos.streams.len(), crate::policy::streams::STREAMS_MAX);
        if found > max {
            return Err(ConfigError::Streams { found, max });
        }
        let mut engine = Engine::with_layouts(config, &layouts, (policies, space), steers);
        engine.policy.qos = (order.build)();
        engine.policy.lay_streams(&mut engine.io)?;
        engine.migration.leave_places_empty(&mut engine.store, &mut engine.volumes, &engine.io);
        engine.volumes.check_volumes(&engine.io)?;
        Ok(engine)
    }

    /// An engine for the next life of the same pool, with the policies that `with_tier` and
    /// `with_qos` gave to this one.
    ///
    /// # Errors
    /// As `new`.
    pub fn next_life(&self, config: EngineConfig) -> Result<Engine, ConfigError> {
        let mut next = Engine::new(config)?;
        next = next.with_qos(self.policy.qos.clone());
        next.policy.tiers.policies.keep_tiers_of(&self.policy.tiers.policies);
        #[cfg(feature = "mutants")]
        next.set_mutant(self.io.mutant());
        Ok(next)
    }

    /// Replaces the tier of a volume by one that no registry knows: for experiments and tests.
    #[must_use]
    pub fn with_tier(mut self, object: ObjectId, tier: Box<dyn Tier>) -> Engine {
        if let Some(policy) = self.policy.tiers.policies.get_mut(&object) {
            policy.tier = tier;
        }
        self
    }

    /// Replaces the order of service by one that no registry knows: for experiments and tests.
    ///
    /// # Panics
    /// If it tells streams apart and these were promised more than there is.
    #[must_use]
    pub fn with_qos(mut self, qos: Box<dyn Qos>) -> Engine {
        self.policy.qos = qos;
        self.policy
            .lay_streams(&mut self.io)
            .expect("promises were made at birth, or there are none");
        self
    }

    fn with_layouts(
        config: EngineConfig,
        layouts: &[Layout],
        (policies, space): (BTreeMap<ObjectId, VolumePolicy>, Option<SpaceConfig>),
        steers: Vec<SharedSteer>,
    ) -> Engine {
        let drives = devices_of(&config, layouts);
        let journal_bytes = layouts[config.metadata_device()].journal_bytes.max(BLOCK_BYTES);
        let memory = MemoryBound::of(&config);
        let mut engine = Engine {
            start: Start::default(),
            store: Store::new(journal_bytes, memory, config.contents),
            volumes: Volumes::default(),
            requests: Requests::default(),
            migration: Migration::new(&config),
            policy: Policy::new(
                Tiers::new(policies, space),
                Steering::new(steers, &config),
                &config,
            ),
            replicas: Replicas::of(&config),
            digest: 0xcbf2_9ce4_8422_2325,
            io: DeviceIo::new(config, drives),
        };
        engine.store.lay_out(layouts, &mut engine.volumes, &engine.policy, &mut engine.io);
        engine
    }
}

fn devices_of(config: &EngineConfig, layouts: &[Layout]) -> Vec<Device> {
    let device = |(index, (d, layout)): (usize, (&crate::config::DeviceConfig, &Layout))| {
        let id = DeviceId(index as u8);
        let mut device = Device::new(id, d.clone(), *layout);
        device.is_pair = config.pairs.iter().any(|pair| pair.device == id);
        // what it leaves behind is known when the superblocks are read
        if config.gone.contains(&id) {
            device.service = Service::Out(IoError::Dead(id));
        }
        if config.format && device.is_out() {
            device.standing = Standing::Gone(Numbered::of(layout));
        }
        device
    };
    config.devices.iter().zip(layouts).enumerate().map(device).collect()
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;

    #[test]
    fn marks_that_cross_and_budgets_of_nothing_are_told() {
        for (high, low, budget, is_sound) in [
            (60, 40, 2, true),
            (100, 0, 100, true),
            (50, 50, 1, true),
            (40, 41, 2, false),
            (101, 40, 2, false),
            (60, 40, 0, false),
            (60, 40, 101, false),
        ] {
            let config = EngineConfig {
                writeback_high_percent: high,
                writeback_low_percent: low,
                flush_budget_percent: budget,
                ..drives(1, 1).config().as_ref().clone()
            };
            let told = Engine::new(config).map(|_| ()).map_err(|why| why.to_string());
            let wanted = format!("flushes may take {budget} % of a drive's time");
            let is_told = told.as_ref().is_err_and(|why| why.contains(&wanted));
            assert!(told.is_ok() == is_sound && is_told != is_sound, "{told:?}");
        }
    }
}
