//! What tiers do in each turn, and with reads.

use super::{Rate, Tiering, Tiers};
use crate::bcw::controller::Control;
use crate::io::{DeviceIo, Phase};
use crate::map::Map;
use crate::map::entry::{LOG, SSD};
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::port::Command;
use crate::requests::ordering::TaskId;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::tier::benefit::DriveCosts;
use crate::tier::log_age::LogAge;
use crate::tier::settings as names;
use crate::tier::space::Space;
use crate::tier::{Comes, TierView};
use crate::tiering::demoting::Demoting;
use crate::tiering::promoting::Arrivals;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, PayloadId, RequestKind};

impl Tiers {
    /// The space is made when it is known how large the drives are, and holds what the SSDs have.
    ///
    /// # Errors
    /// Words, if there is too little room for it.
    pub(crate) fn make_space(
        &mut self,
        map: &Map,
        objects: &Objects,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<(), String> {
        let comes = self.share.take().is_some_and(|tiers| !tiers.arrivals.is_empty());
        assert!(!comes, "the account begins anew while nothing comes");
        let Some(config) = self.config.clone().filter(|_| !metadata.is_degraded()) else {
            return Ok(());
        };
        let blocks = map.leaves().block_count() as u64;
        let rate = Rate::new(config.tier.get(names::RATE.name));
        let mut space = Space::new(&config, map.ssd_slots(), blocks).map_err(|e| e.to_string())?;
        space.price(DriveCosts::of(io.config()));
        let get = |setting: &str| config.tier.get(setting);
        let log_age = LogAge::new(get(names::LOG_AGE.name), get(names::LOG_READS.name));
        let (arrivals, demoting) = (Arrivals::default(), Demoting::default());
        let mut tiering = Tiering { space, arrivals, demoting, rate, log_age };
        self.find_held(&mut tiering, map, objects);
        self.share = Some(Box::new(tiering));
        Ok(())
    }

    /// The account begins anew, with what the SSDs hold, once nothing is under way.
    fn change_space(
        &mut self,
        map: &Map,
        objects: &Objects,
        metadata: &MetadataHomes,
        io: &mut DeviceIo,
    ) {
        if !self.tiers_are_idle() {
            return;
        }
        self.config = self.next.take().flatten();
        if self.make_space(map, objects, metadata, io).is_err() {
            // an SSD failed meanwhile, and there is too little room on those that are left
            self.config = None;
        }
        if self.config.is_some() {
            for bcw in io.drives_mut().iter_mut().filter_map(|device| device.bcw.as_mut()) {
                bcw.enable(Control::Bare);
            }
        }
    }

    /// A user's read of a whole extent is done. False: it failed, and begins again for the user's blocks
    /// alone.
    pub(crate) fn end_tier_read(
        &mut self,
        id: TaskId,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let task = &mut requests[id];
        let request = task.request;
        let first = task.first + task.lead_blocks;
        let blocks =
            (request.offset_bytes % BLOCK_BYTES + request.length_bytes).div_ceil(BLOCK_BYTES);
        assert!(task.rides && task.parent.is_none(), "a request reads for an extent, not a part");
        assert!(first + blocks <= task.end, "what was read has all that the user asked for");
        if task.status.is_ok() {
            task.rides = false;
            let buffer = task.buffer;
            self.rode(id, buffer, map, requests, io);
            return true;
        }
        (task.first, task.end) = (first, first + blocks);
        (task.rides, task.lead_blocks, task.status) = (false, 0, Ok(()));
        let buffer = std::mem::replace(&mut task.buffer, request.payload);
        if buffer != PayloadId::NONE {
            io.send(Command::Release(buffer));
        }
        self.fell_off(id, map);
        requests.lead_to(Next::Read(id));
        false
    }
}

impl Policy {
    /// A user's read begins: it counts, and if it needs a hard drive it may bring its extent.
    pub(crate) fn begin_tier_read(
        &mut self,
        id: TaskId,
        store: &mut Store,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        let task = &requests[id];
        let (request, first, end) = (task.request, task.first, task.end);
        if task.noted || request.kind == RequestKind::Background {
            return;
        }
        let (volume, named, is_part) = (task.volume, task.tier, task.parent.is_some());
        requests[id].noted = true;
        let Some(policy) = self.tiers.policies.get(&volume) else { return };
        // a policy that balances may say that nothing comes to the SSD now
        let admits = self.steering.shared[policy.steer].policy.admits();
        let tier = policy.tier_of(named);
        let Some(tiers) = self.tiers.share.as_mut().filter(|_| tier.has_share()) else {
            return;
        };
        let held = tiers.space.touched(io.now(), first, end, tier.class());
        let lacks = |block| {
            let state = store.map.state(block);
            state != 0 && state & SSD == 0
        };
        let missing = (first..end).map(|block| u64::from(lacks(block))).sum::<u64>();
        io.stats_mut().tiers.hit_blocks += (end - first) - missing;
        io.stats_mut().tiers.missed_blocks += missing;
        if missing > 0 {
            tiers.space.note_missed(first, end);
        }
        if tier.comes() == Comes::FromLog {
            let in_log = |block| store.map.state(block) & (SSD | LOG) == LOG;
            tiers.log_age.read((first..end).any(in_log));
        }
        if missing == 0 || tier.comes() != Comes::WhenRead {
            return;
        }
        let view =
            TierView { logical: first, count: end - first, data_type: request.data_type, held };
        if !tier.admits(&view) || !admits {
            io.stats_mut().tiers.sieved += 1;
            return;
        }
        let extent = tiers.space.extent_of(first);
        // a part reads into the buffer of the whole, which has room for no more
        let is_one = extent == tiers.space.extent_of(end - 1) && !is_part;
        if !is_one || !tiers.space.may_come_at_once(extent, |range| store.map.on_ssd_alone(range)) {
            tiers.space.missed(first, end);
            return;
        }
        match self.ride(id, extent, store, requests, io) {
            Some((from, to)) => {
                assert!(from <= first && end <= to, "what is read has all that the user asked for");
                let task = &mut requests[id];
                task.rides = true;
                task.lead_blocks = first - from;
                (task.first, task.end) = (from, to);
                io.stats_mut().tiers.rode += 1;
            }
            // its room is taken: it is read in the background
            None => self.tiers.share.as_mut().expect("asked above").space.come_later(extent),
        }
    }

    /// What tiers have to do, once an event.
    #[inline]
    pub(crate) fn run_tiers(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        if self.tiers.next.is_some() && (io.phase() == Phase::Running) {
            self.tiers.change_space(&store.map, &volumes.objects, &store.metadata, io);
        }
        if self.tiers.share.is_none() || io.phase() != Phase::Running || store.commit.is_broken() {
            return;
        }
        let now = io.now();
        let tiers = self.tiers.share.as_mut().expect("asked above");
        tiers.space.advance(now);
        tiers.log_age.advance(now);
        self.run_demoting(store, volumes, requests, migration, io);
        self.tiers.run_promoting(&mut store.map, requests, &self.ledger, io);
    }
}
