//! Which places of homes on other drives take what a hard drive leaves behind?

use super::homes::LOOK_RUNS_MAX;
use crate::drain::{DrainError, Evacuation};
use crate::format::superblock::Standing;
use crate::io::DeviceIo;
use crate::map::entry::HOME;
use crate::map::objects::Objects;
use crate::map::space::BlockRange;
use crate::map::{Logical, Map};
use crate::metadata::MetadataHomes;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Evacuation {
    /// Does a reader, or a crash, find something in the home of this block?
    pub(crate) fn needs_home(&self, block: Logical, map: &Map) -> bool {
        map.state(block) & HOME != 0 || map.leaves().recorded_home(block)
    }

    /// Could this hard drive be drained?
    pub(crate) fn can_vacate(
        &self,
        device: DeviceId,
        metadata: &MetadataHomes,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Result<u64, DrainError> {
        if io.config().metadata_replica_device() == Some(device) {
            let what = "the metadata replica";
            return Err(DrainError::Keeps { device, what });
        }
        if metadata.metadata_homes(io).contains(&device) {
            return Err(DrainError::Keeps { device, what: "the pool's metadata" });
        }
        if !objects.has_table() {
            return Err(DrainError::NotNow(
                "was made by a version that could not drain hard drives",
            ));
        }
        let places = io.home_places(device);
        let (free, room) = objects.room_without(places, &io.open_places(device));
        assert!(free <= places.count, "a place has the home of one block");
        let wanted = places.count - free;
        if wanted > room {
            let (room, wanted) = (room * BLOCK_BYTES, wanted * BLOCK_BYTES);
            return Err(DrainError::NoRoom { room, wanted });
        }
        Ok(self.lies_on(device, map, objects, io))
    }

    /// Do homes lie at other blocks' numbers, or may they soon?
    pub(crate) fn has_moved_homes(&self, objects: &Objects, io: &DeviceIo) -> bool {
        let mut hdds = io.hdds().iter().map(|id| io[*id].standing);
        !objects.homes().is_empty() || hdds.any(|standing| standing != Standing::Serves)
    }

    /// The homes on this drive are to be left.
    pub(crate) fn evacuate(&self, device: DeviceId, objects: &mut Objects, io: &DeviceIo) {
        let (places, open) = (io.home_places(device), io.open_places(device));
        objects.evacuate(places, &open);
    }

    /// They stay after all.
    pub(crate) fn vacate_no_more(&mut self, objects: &mut Objects) {
        objects.vacate_no_more();
        let rehomed = self.current.as_deref_mut().map(|drain| std::mem::take(&mut drain.rehomed));
        rehomed.into_iter().flatten().for_each(|known| known.give_back(objects));
    }

    /// Takes blocks that nobody has, at most so many, whose homes lie behind each other on another drive
    /// that takes something new. `None`: there are none.
    pub(super) fn take_target(
        &self,
        device: DeviceId,
        wanted: u64,
        objects: &mut Objects,
        io: &DeviceIo,
    ) -> Option<BlockRange> {
        assert!(wanted > 0, "places are taken for some homes");
        for _ in 0..LOOK_RUNS_MAX {
            let Some(next) = objects.reserved_next() else {
                let open = io.open_places(device);
                objects.reserve_homes(&open);
                objects.reserved_next()?;
                continue;
            };
            let (on, _) = objects.home_of(next.first, io);
            if !io[on].takes_new() {
                objects.drop_reserved(next);
                continue;
            }
            let (place, places) = (objects.homes().of(next.first), io.home_places(on));
            let behind = places.first + places.count - place;
            let taken = BlockRange { count: next.count.min(behind).min(wanted), ..next };
            assert!(on != device, "what takes new homes is not the drive that drains");
            assert!(taken.count > 0, "what is reserved lies on its drive");
            objects.take_reserved(taken);
            return Some(taken);
        }
        None
    }

    /// Blocks on a hard drive that a record names, or that are being written.
    pub(crate) fn blocks_on_hdd(
        &self,
        device: DeviceId,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> u64 {
        let homes = objects.homes().lying_in(io.home_places(device));
        let count = |range: &BlockRange| map.leaves().recorded_homes_in(range.first, range.count);
        let log = io[device].log.as_ref();
        homes.iter().map(count).sum::<u64>() + log.map_or(0, |log| log.live_slots())
    }
}
