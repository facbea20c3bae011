//! What does a tier's share of the SSDs cost a request, and what does it start?
//!
//! Source: design decision 5; [LORIS §III]: one plugin is told of every request below the RAM cache, the
//! other one moves. `tier/space` keeps the account; what comes is in `promoting`, what leaves in `demoting`.

mod demoting;
pub(crate) mod file_tiers;
pub(crate) mod policies;
mod promoting;
mod steps;

use crate::config::{EngineConfig, Placement, Role};
use crate::config_error::ConfigError;
use crate::io::{DeviceIo, Phase};
use crate::map::objects::Objects;
use crate::map::{Logical, Map};
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::store::commit::Commit;
use crate::tier::collect::Extent;
use crate::tier::log_age::LogAge;
use crate::tier::settings as names;
use crate::tier::space::{Space, SpaceConfig, SpaceStats};
use crate::tier::{Comes, Intention, TierConfig, TierView};
use crate::tiering::demoting::Demoting;
use crate::tiering::policies::{Policies, VolumePolicy};
use crate::tiering::promoting::Arrivals;
use std::collections::BTreeMap;
use tandem_block::{Duration, Instant, ObjectId};

/// Where the data of each volume belongs, and the tiers' share of the SSDs.
#[derive(Clone, Debug)]
pub(crate) struct Tiers {
    pub(crate) policies: Policies,
    /// How the share is made, if any volume has one.
    config: Option<SpaceConfig>,
    /// The share itself.
    share: Option<Box<Tiering>>,
    /// What the share becomes when nothing of it is under way.
    next: Option<Option<SpaceConfig>>,
}

impl Tiers {
    /// For these volumes; the share is made later.
    pub(crate) fn new(
        policies: BTreeMap<ObjectId, VolumePolicy>,
        config: Option<SpaceConfig>,
    ) -> Self {
        Tiers { policies: Policies::new(policies), config, share: None, next: None }
    }

    /// Has any volume a share of the SSDs?
    #[inline]
    pub(crate) fn has_share(&self) -> bool {
        self.share.is_some()
    }

    /// Shall any volume have a share of the SSDs?
    pub(crate) fn wants_share(&self) -> bool {
        self.config.is_some()
    }

    /// What leaves the share.
    pub(crate) fn demoting(&self) -> Option<&Demoting> {
        self.share.as_ref().map(|share| &share.demoting)
    }

    /// Do extents leave the share?
    pub(crate) fn is_demoting(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.space.demoting() > 0)
    }
}

/// Everything that tiers with a share of the SSDs keep.
#[derive(Clone, Debug)]
pub(crate) struct Tiering {
    pub(crate) space: Space,
    pub(crate) arrivals: Arrivals,
    pub(crate) demoting: Demoting,
    /// Bytes that may come in this second, and when it ends.
    pub(crate) rate: Rate,
    /// What tiers that log first have logged.
    log_age: LogAge,
}

/// A bound on what comes in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    bytes_per_s: u64,
    left_bytes: u64,
    second_ends: Instant,
}

impl Rate {
    fn new(bytes_per_s: u64) -> Rate {
        Rate { bytes_per_s, left_bytes: bytes_per_s, second_ends: Instant::ZERO }
    }

    /// May anything come now?
    pub(crate) fn is_left(&mut self, now: Instant) -> bool {
        if now >= self.second_ends {
            self.second_ends = now + Duration::from_s(1);
            self.left_bytes = self.bytes_per_s;
        }
        self.left_bytes > 0
    }

    /// So much comes; the last of a second may go beyond it.
    pub(crate) fn spend(&mut self, bytes: u64) {
        if self.bytes_per_s != names::UNBOUNDED {
            self.left_bytes = self.left_bytes.saturating_sub(bytes);
        }
    }

    fn due(&self) -> Instant {
        if self.left_bytes == 0 { self.second_ends } else { Instant::NEVER }
    }
}

/// How the space of a pool is made, if any of its volumes has a share.
///
/// # Errors
/// If drives are missing, or the volumes contradict each other.
pub(crate) fn space_config(config: &EngineConfig) -> Result<Option<SpaceConfig>, ConfigError> {
    let mut space: Option<SpaceConfig> = None;
    let own = config.volumes.iter().map(|volume| (volume, &volume.tier, false));
    let of_files = config
        .volumes
        .iter()
        .flat_map(|volume| volume.file_tiers.iter().map(move |tier| (volume, tier, true)));
    for (volume, tier, is_of_files) in own.chain(of_files) {
        let wrong = |why: String| ConfigError::Tier {
            volume: volume.name.clone(),
            tier: tier.name().to_owned(),
            why,
        };
        let built = tier.build().ok_or_else(|| file_tiers::unknown(volume, tier))?;
        if !built.has_share() {
            continue;
        }
        check_drives(config).map_err(wrong)?;
        let extent = tier.get(names::EXTENT.name);
        if !extent.is_power_of_two() {
            return Err(wrong(format!("extent = {extent} bytes is no power of two")));
        }
        if is_of_files {
            file_tiers::join(&mut space, tier).map_err(wrong)?;
            continue;
        }
        let own = own_config(tier).map_err(wrong)?;
        match &mut space {
            None => space = Some(own),
            Some(space) => join(space, &own).map_err(wrong)?,
        }
    }
    Ok(space)
}

/// Could any tier have a share of these drives?
fn check_drives(config: &EngineConfig) -> Result<(), String> {
    if config.placement == Placement::Fixed {
        return Err("under fixed placement nothing moves: use mapped placement".into());
    }
    for (role, what) in [(Role::Ssd, "an SSD"), (Role::Hdd, "a hard drive")] {
        if config.with_role(role).next().is_none() {
            return Err(format!("it needs {what}, and there is none"));
        }
    }
    Ok(())
}

pub(crate) fn own_config(tier: &TierConfig) -> Result<SpaceConfig, String> {
    let interval = tier.get(names::INTERVAL.name);
    let collector = names::collector_name(tier.get(names::COLLECTOR.name));
    let ranks = crate::tier::collect::COLLECTORS.iter().any(|c| c.name == collector && c.ranks);
    if interval != names::NEVER && !ranks {
        return Err(format!(
            "the collector {collector} does not tell which extent on a hard drive is the hottest, so \
             nothing could come at intervals: take inverse-bitmap, counts or edt, or no interval"
        ));
    }
    Ok(SpaceConfig {
        tier: tier.clone(),
        interval: (interval != names::NEVER).then(|| Duration::from_ns(interval)),
        reads: u8::try_from(tier.get(names::READS.name)).expect("within the bounds"),
    })
}

/// The volumes of a pool share its SSDs and one collector.
pub(crate) fn join(space: &mut SpaceConfig, own: &SpaceConfig) -> Result<(), String> {
    let other = space.tier.name();
    let differs = |name: &&&str| space.tier.get(name) != own.tier.get(name);
    if let Some(name) = names::OF_THE_SPACE.iter().find(differs) {
        return Err(format!(
            "{name} is not what it is for the volume with tier {other}: volumes share the SSDs and one \
             collector, so {} are the same for all of them",
            names::OF_THE_SPACE.join(", ")
        ));
    }
    if let (Some(a), Some(b)) = (space.interval, own.interval)
        && a != b
    {
        return Err(format!("interval is not what it is for the volume with tier {other}"));
    }
    space.interval = space.interval.or(own.interval);
    space.reads = space.reads.max(own.reads);
    Ok(())
}

impl Tiers {
    /// Another tier for a volume, from now on: of what it holds on the SSDs nothing is lost, and what the new
    /// one does not keep there leaves as it always does. Until what is coming has come, the old account
    /// goes on.
    ///
    /// # Errors
    /// As for a new engine: the tier is not known, drives are missing for it, or another volume's tier
    /// contradicts it; `Volume` if there is no such volume. Nothing was changed.
    pub(crate) fn set_tier(
        &mut self,
        object: ObjectId,
        tier: TierConfig,
        map: &Map,
        io: &mut DeviceIo,
    ) -> Result<(), ConfigError> {
        let mut config = EngineConfig::clone(io.config());
        let volume = config.volumes.iter_mut().find(|volume| volume.object == object);
        let Some(volume) = volume else {
            let error = tandem_block::IoError::NoObject;
            return Err(ConfigError::Volume { volume: object.0.to_string(), error });
        };
        volume.tier = tier.clone();
        let space = space_config(&config)?;
        if let Some(space) = &space {
            let blocks = map.leaves().block_count() as u64;
            let trial = Space::new(space, map.ssd_slots(), blocks);
            let volume = config.volumes.iter().find(|v| v.object == object).expect("found above");
            trial.map_err(|why| ConfigError::Tier {
                volume: volume.name.clone(),
                tier: tier.name().to_owned(),
                why: why.to_string(),
            })?;
        }
        let volume = config.volumes.iter().find(|v| v.object == object).expect("found above");
        let of_files = file_tiers::build(volume)?;
        io.config_mut().volumes = config.volumes;
        if let Some(policy) = self.policies.get_mut(&object) {
            policy.tier = tier.build().expect("looked up with the space");
            policy.file_tiers = of_files;
        }
        self.next = Some(space);
        Ok(())
    }

    /// Could the tiers' share be made of so many slots?
    ///
    /// # Errors
    /// Words, if not.
    pub(crate) fn try_space(&self, ssd_slots: u64, map: &Map) -> Result<(), String> {
        let next = self.next.as_ref().unwrap_or(&self.config);
        let Some(config) = next else { return Ok(()) };
        let blocks = map.leaves().block_count() as u64;
        Space::new(config, ssd_slots, blocks).map(|_| ()).map_err(|why| why.to_string())
    }

    /// The SSDs have more room, or less: the share is made anew.
    pub(crate) fn share_anew(&mut self) {
        if self.config.is_some() && self.next.is_none() {
            self.next = Some(self.config.clone());
        }
    }

    /// After a start: what lies on the SSDs is held, as far as there is room; the rest leaves. How hot it
    /// was is not known any more.
    fn find_held(&self, tiering: &mut Tiering, map: &Map, objects: &Objects) {
        let mut has_room = true;
        for (id, object) in objects.iter() {
            let Some(class) = self.class_of(id, objects) else { continue };
            if object.lies_in_runs() {
                // a file, or there is a snapshot of it, or was
                for run in objects.runs().of(id) {
                    let first = run.logical.expect("a run");
                    tiering.space.classify(first, first + run.count, Some(class));
                    has_room = has_room && self.find_in(tiering, first, first + run.count, map);
                }
            } else if object.blocks > 0 {
                let end = object.first + object.blocks;
                tiering.space.classify(object.first, end, Some(class));
                has_room = has_room && self.find_in(tiering, object.first, end, map);
            }
        }
        if has_room {
            tiering.demoting.look();
        }
    }

    /// False: there is no room for what was found. The rest goes home by the watermarks.
    fn find_in(&self, tiering: &mut Tiering, first: Logical, end: Logical, map: &Map) -> bool {
        let mut block = first;
        while let Some(found) = map.leaves().next_on_ssd(block, end) {
            let extent = tiering.space.extent_of(found);
            if !tiering.space.found(extent) && !tiering.space.bring_away(extent) {
                return false;
            }
            block = Logical::try_from(tiering.space.blocks_of(extent).1).unwrap_or(end);
            if block >= end {
                break;
            }
        }
        true
    }

    /// Has so much to leave that moves must not wait for users to leave a hard drive alone?
    pub(crate) fn much_is_demoting(&self) -> bool {
        self.share.as_ref().is_some_and(|tiers| tiers.space.much_is_demoting())
    }

    /// These blocks are written to or zeroed: what is on its way to the SSD would be too old.
    pub(crate) fn note_changing(&mut self, first: Logical, end: Logical) {
        if let Some(tiers) = &mut self.share {
            tiers.arrivals.note_changing(first, end);
        }
    }

    /// These blocks are nobody's any more.
    pub(crate) fn note_removed(&mut self, first: Logical, end: Logical) {
        if let Some(tiers) = &mut self.share
            && first < end
        {
            tiers.space.removed(first, end);
        }
    }

    /// Is nothing of a tier under way?
    pub(crate) fn tiers_are_idle(&self) -> bool {
        self.share.as_ref().is_none_or(|tiers| tiers.arrivals.is_empty())
    }

    /// When something of a tier is due.
    pub(crate) fn tiers_due(&self, commit: &Commit, io: &DeviceIo) -> Instant {
        let running = (io.phase() == Phase::Running) && !commit.is_broken();
        let Some(tiers) = self.share.as_ref().filter(|_| running) else {
            return Instant::NEVER;
        };
        let comes = tiers.space.has_to_come() || tiers.log_age.has_to_come();
        let rate = if comes { tiers.rate.due() } else { Instant::NEVER };
        tiers.space.due().min(tiers.log_age.due()).min(rate)
    }

    /// Blocks that may be dirty on the SSDs without being due at home.
    #[inline]
    pub(crate) fn kept_blocks_max(&self, map: &Map, io: &DeviceIo) -> u64 {
        let Some(tiers) =
            self.share.as_ref().filter(|_| !map.is_short_of_space(io.waits_for_space()))
        else {
            return 0;
        };
        u64::from(tiers.space.keeping()) * tiers.space.extent_blocks()
    }

    /// Does this block stay on the SSD although it is dirty?
    pub(crate) fn is_kept(&self, block: Logical, map: &Map, io: &DeviceIo) -> bool {
        let Some(tiers) = &self.share else { return false };
        tiers.space.keeps(block) && !map.is_short_of_space(io.waits_for_space())
    }

    /// Does the share hold the extent of this block?
    pub(crate) fn holds(&self, block: Logical) -> bool {
        let Some(tiers) = &self.share else { return false };
        tiers.space.is_held(tiers.space.extent_of(block))
    }

    /// How does data of this block's owner come?
    pub(crate) fn comes(&self, block: Logical) -> Comes {
        self.share.as_ref().map_or(Comes::Never, |tiers| tiers.space.comes(block))
    }

    /// What the tiers' account has counted, and what their collector takes, in bytes; `None`: no volume's
    /// tier has a share.
    pub(crate) fn tier_account(&self) -> Option<(SpaceStats, u64)> {
        let tiers = self.share.as_ref()?;
        Some((tiers.space.stats(), tiers.space.memory_bytes()))
    }

    /// What the tiers hold, in extents and bytes, and what it may be: `(held, room, extent_bytes)`.
    pub(crate) fn tier_room(&self) -> Option<(u32, u32, u64)> {
        let tiers = self.share.as_ref()?;
        let (held, held_max) = tiers.space.held();
        Some((held, held_max, tiers.space.extent_blocks() * tandem_block::BLOCK_BYTES))
    }

    /// Where does this write belong?
    pub(crate) fn intend(
        &mut self,
        id: TaskId,
        io: &mut DeviceIo,
        requests: &Requests,
    ) -> Intention {
        let task = &requests[id];
        let (first, end) = (task.first, task.end);
        let request = task.request;
        let view = |held| TierView {
            logical: first,
            count: end - first,
            data_type: request.data_type,
            held,
        };
        let Some(policy) = self.policies.get(&task.volume) else { return Intention::Ssd };
        let tier = policy.tier_of(task.tier);
        let Some(tiers) = &mut self.share else { return tier.intend(&view(false)) };
        if !tier.has_share() {
            tiers.space.classify(first, end, None);
            return tier.intend(&view(false));
        }
        let view = view(tiers.space.touched(io.now(), first, end, tier.class()));
        if !tier.admits(&view) {
            io.stats_mut().tiers.sieved += 1;
            return Intention::Hdd;
        }
        let intention = tier.intend(&view);
        if intention == Intention::Hdd && tier.comes() == Comes::FromLog {
            let extents = tiers.space.extent_of(first).0..=tiers.space.extent_of(end - 1).0;
            extents.for_each(|extent| tiers.log_age.wrote(io.now(), Extent(extent)));
        }
        if intention == Intention::Hdd || view.held || tiers.space.claim(first, end) {
            return intention;
        }
        io.stats_mut().tiers.bypassed += 1;
        Intention::Hdd
    }

    /// A write of a volume with a share is on an SSD now; what is not held there is brought away again.
    pub(crate) fn note_on_ssd(
        &mut self,
        id: TaskId,
        first: Logical,
        count: u64,
        io: &mut DeviceIo,
        requests: &Requests,
    ) {
        let tier = self.policies.tier_of(&requests[id]);
        if self.share.is_none() || tier.is_none_or(|tier| !tier.has_share()) {
            return;
        }
        let logs_first = tier.is_some_and(|tier| tier.comes() == Comes::FromLog);
        let tiers = self.share.as_mut().expect("asked above");
        let mut block = first;
        let end = block + count;
        while block < end {
            let extent = tiers.space.extent_of(block as Logical);
            // what was to be logged first and was not belongs here all the same
            let stays = logs_first && tiers.space.claim(block, block + 1);
            if !stays && !tiers.space.is_held(extent) {
                io.stats_mut().tiers.strays += 1;
                tiers.space.bring_away(extent);
                tiers.demoting.look();
            }
            block = tiers.space.blocks_of(extent).1;
        }
    }
}
