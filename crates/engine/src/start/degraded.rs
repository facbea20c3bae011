//! What can still be read when drives are gone for good?
//!
//! Source: design decision 7 and "The promise": what redundancy adds is said per configuration. If the
//! administrator accepts the loss, the pool is served read-only from the drives that are left. With
//! the only SSD gone the map comes from the metadata replica, as of its last flush: blocks
//! that had their only place on the SSD are errors with the drive's name, and a block that was
//! overwritten since is caught by its checksum.

use crate::StartError;
use crate::config::EngineConfig;
use crate::device::Service;
use crate::format::layout::{self, Layout};
use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::entry::{FRAGMENTS, HOME, LOG, SSD};
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::port::Command;
use crate::replicas::Replicas;
use crate::start::Start;
use crate::store::Store;
use crate::volumes::Volumes;
use std::collections::BTreeMap;
use tandem_block::{DeviceId, IoError, ObjectId};

/// How much of an object cannot be read without a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which object.
    pub(crate) object: ObjectId,
    /// Blocks of 4 KiB whose only place, or part of it, is on that drive.
    pub blocks: u64,
}

impl Start {
    /// Marks the drives that are gone, and finds out where the metadata is read instead.
    pub(crate) fn begin_degraded(
        &self,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) -> Result<(), StartError> {
        for id in io.config().absent.clone() {
            if usize::from(id.0) < io.drives().len() {
                io[id].service = Service::Out(IoError::Dead(id));
            }
        }
        let sound = |id: &DeviceId| !io[*id].is_faulted();
        let homes = if io.ssds().is_empty() { &io.hdds()[..1] } else { io.ssds() };
        // whether it follows is known when the superblocks are read
        let metadata_replica = io.hdds().first().copied();
        let home = homes.iter().copied().find(sound).or(metadata_replica.filter(sound));
        metadata.degrade_to(home.ok_or(StartError::NoMetadata)?);
        Ok(())
    }

    /// Where the metadata is read, when it is known who missed writes.
    ///
    /// # Errors
    /// If nobody who is left has all of it.
    pub(crate) fn choose_sound_home(
        &self,
        metadata: &mut MetadataHomes,
        io: &DeviceIo,
    ) -> Result<(), StartError> {
        if metadata.is_degraded() {
            let serves = |id: &DeviceId| !io[*id].is_faulted() && !metadata.contains(*id);
            let homes = if io.ssds().is_empty() { &io.hdds()[..1] } else { io.ssds() };
            let home = homes.iter().copied().find(serves);
            let home = home.or(io.hdds().first().copied().filter(serves));
            if let Some(home) = home {
                metadata.degrade_to(home);
            }
        }
        match (metadata.sound_homes(io).first(), metadata.metadata_homes(io).first()) {
            (None, Some(&DeviceId(device))) => {
                Err(StartError::MetadataLags { device: usize::from(device) })
            }
            _ => Ok(()),
        }
    }

    /// Does the drive keep metadata where it shall be read?
    fn confirm_degraded(&self, metadata: &MetadataHomes, io: &DeviceIo) -> Result<(), StartError> {
        let Some(home) = metadata.degraded() else { return Ok(()) };
        let leads = io.ssds().is_empty() || io[home].is_ssd();
        let follows = io.config().metadata_replica_device() == Some(home);
        if leads || follows { Ok(()) } else { Err(StartError::NoMetadata) }
    }

    /// Layouts as they are planned, with metadata as large as this: those of absent drives have to be believed, the
    /// others are read.
    pub(crate) fn layouts_of_absent(
        &self,
        like: &Layout,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<Vec<Layout>, StartError> {
        self.confirm_degraded(metadata, io)?;
        let mut config = EngineConfig::clone(io.config());
        (config.journal_bytes, config.object_table_bytes) =
            (Some(like.journal_bytes), Some(like.table_bytes));
        config.areas.map_pages = Some(like.area_pages);
        // those that were removed since, or never were there, have their part of the numbering
        config.gone.clear();
        for (planned, device) in config.devices.iter_mut().zip(io.drives()) {
            planned.capacity_bytes = device.config.capacity_bytes;
        }
        if io.config().absent.is_empty() {
            return Ok(vec![Layout::default(); config.devices.len()]);
        }
        layout::plan(&config).map_err(|error| StartError::Corrupt(error.to_string()))
    }

    /// Was this drive gone from the beginning?
    pub(crate) fn is_absent(&self, device: DeviceId, io: &DeviceIo) -> bool {
        io.config().absent.contains(&device)
    }

    /// What would be lost, object by object, if this drive were gone: what it alone holds. Looks at
    /// every block that is in use.
    pub(crate) fn loss_without(
        &self,
        device: DeviceId,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Vec<Loss> {
        let mut losses = BTreeMap::<ObjectId, u64>::new();
        for (range, object) in objects.owned() {
            let (mut from, end) = (range.first, range.first + range.count);
            let lost = losses.entry(object).or_default();
            while let Some((used, behind)) = map.next_used(from, end) {
                let depends = |&block: &u64| self.depends_on(block, device, map, objects, io);
                *lost += (used..behind).filter(depends).count() as u64;
                from = behind;
            }
        }
        losses.retain(|_, blocks| *blocks > 0);
        losses.into_iter().map(|(object, blocks)| Loss { object, blocks }).collect()
    }

    fn depends_on(
        &self,
        block: u64,
        device: DeviceId,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> bool {
        let state = map.state(block);
        if state == 0 {
            return false;
        }
        let entry = map.entry(block);
        let elsewhere = |slot| map.slots().region(slot).device != device;
        let base = (state & HOME != 0 && objects.home_of(block, io).0 != device)
            || (state & SSD != 0 && elsewhere(entry.ssd))
            || (state & LOG != 0 && elsewhere(entry.log))
            || state & (HOME | SSD | LOG) == 0;
        let fragments = state & FRAGMENTS == 0
            || map.fragments(block).iter().all(|fragment| elsewhere(fragment.slot));
        !(base && fragments)
    }

    /// Everything is known that can be known: reads are welcome.
    pub(crate) fn serve_degraded(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        assert!(store.metadata.is_degraded(), "drives of the pool are gone");
        for volume in &io.config().volumes {
            let found = match volumes.objects.get(volume.object) {
                Some(known) if known.size_bytes == volume.size_bytes => continue,
                Some(known) => format!("{} of {} bytes", known.name, known.size_bytes),
                None => "no volume of this name".into(),
            };
            let error = StartError::VolumeDiffers { name: volume.name.clone(), found };
            self.refuse(error, io);
            return;
        }
        let gone = io.config().absent.first().copied().unwrap_or(DeviceId(0));
        store.commit.break_off(IoError::Dead(gone));
        store.metadata_replica.begin_life(None, store.map.group_count());
        self.runs(&mut replicas.pairs, io);
        io.send(Command::Started(Ok(())));
    }
}
