//! What can still be read when drives are gone for good?
//!
//! Source: design decision 7 and "The promise": what redundancy adds is said per configuration. If the
//! administrator accepts the loss, the pool is served read-only from the drives that are left. With
//! the only SSD gone the map comes from the second home of the metadata, as of its last flush: blocks
//! that had their only place on the SSD are errors with the drive's name, and a block that was
//! overwritten since is caught by its checksum.

use crate::StartError;
use crate::config::EngineConfig;
use crate::device::Service;
use crate::engine::Engine;
use crate::format::layout::{self, Layout};
use crate::map::logical::{FRAGMENTS, HOME, LOG, SSD};
use crate::port::Command;
use std::collections::BTreeMap;
use tandem_block::{DeviceId, IoError, ObjectId};

/// How much of an object cannot be read without a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which object.
    pub object: ObjectId,
    /// Blocks of 4 KiB whose only place, or part of it, is on that drive.
    pub blocks: u64,
}

impl Engine {
    /// Marks the drives that are gone, and finds out where the metadata is read instead.
    pub(crate) fn begin_salvage(&mut self) -> Result<(), StartError> {
        for id in self.io.config().absent.clone() {
            if usize::from(id.0) < self.io.drives().len() {
                self.io[id].service = Service::Out(IoError::Dead(id));
            }
        }
        let sound = |id: &DeviceId| !self.io[*id].is_faulted();
        let homes = if self.io.ssds().is_empty() { &self.io.hdds()[..1] } else { self.io.ssds() };
        // whether it follows is known when the superblocks are read
        let follower = self.io.hdds().first().copied();
        let home = homes.iter().copied().find(sound).or(follower.filter(sound));
        self.metadata.salvage_from(home.ok_or(StartError::NoMetadata)?);
        Ok(())
    }

    /// Where the metadata is read, when it is known who missed writes.
    ///
    /// # Errors
    /// If nobody who is left has all of it.
    pub(crate) fn choose_sound_home(&mut self) -> Result<(), StartError> {
        if self.metadata.is_salvaged() {
            let serves = |id: &DeviceId| !self.io[*id].is_faulted() && !self.metadata.contains(*id);
            let homes =
                if self.io.ssds().is_empty() { &self.io.hdds()[..1] } else { self.io.ssds() };
            let home = homes.iter().copied().find(serves);
            let home = home.or(self.io.hdds().first().copied().filter(serves));
            if let Some(home) = home {
                self.metadata.salvage_from(home);
            }
        }
        match (
            self.metadata.sound_homes(&self.io).first(),
            self.metadata.metadata_homes(&self.io).first(),
        ) {
            (None, Some(&DeviceId(device))) => {
                Err(StartError::MetadataLags { device: usize::from(device) })
            }
            _ => Ok(()),
        }
    }

    /// Does the drive keep metadata where it shall be read?
    fn confirm_salvage(&self) -> Result<(), StartError> {
        let Some(home) = self.metadata.salvaged() else { return Ok(()) };
        let leads = self.io.ssds().is_empty() || self.io[home].is_ssd();
        let follows = self.io.config().following_device() == Some(home);
        if leads || follows { Ok(()) } else { Err(StartError::NoMetadata) }
    }

    /// Layouts as they are planned: those of absent drives have to be believed, the others are read.
    pub(crate) fn layouts_of_absent(
        &self,
        journal_bytes: u64,
        table_bytes: u64,
    ) -> Result<Vec<Layout>, StartError> {
        self.confirm_salvage()?;
        let mut config = EngineConfig::clone(self.io.config());
        (config.journal_bytes, config.object_table_bytes) =
            (Some(journal_bytes), Some(table_bytes));
        // those that were removed since, or never were there, have their part of the numbering
        config.gone.clear();
        for (planned, device) in config.devices.iter_mut().zip(self.io.drives()) {
            planned.capacity_bytes = device.config.capacity_bytes;
        }
        if self.io.config().absent.is_empty() {
            return Ok(vec![Layout::default(); config.devices.len()]);
        }
        layout::plan(&config).map_err(|error| StartError::Corrupt(error.to_string()))
    }

    /// Everything is known that can be known: reads are welcome.
    pub(crate) fn serve_salvaged(&mut self) {
        for volume in &self.io.config().volumes {
            let found = match self.objects.get(volume.object) {
                Some(known) if known.size_bytes == volume.size_bytes => continue,
                Some(known) => format!("{} of {} bytes", known.name, known.size_bytes),
                None => "no volume of this name".into(),
            };
            let error = StartError::VolumeDiffers { name: volume.name.clone(), found };
            self.refuse(error);
            return;
        }
        let gone = self.io.config().absent.first().copied().unwrap_or(DeviceId(0));
        self.commit.break_off(IoError::Dead(gone));
        let shards = self.map.shard_count();
        self.follower.begin_life(None, shards);
        self.runs();
        self.io.send(Command::Started(Ok(())));
    }

    /// Was this drive gone from the beginning?
    pub fn is_absent(&self, device: DeviceId) -> bool {
        self.io.config().absent.contains(&device)
    }

    /// What would be lost, object by object, if this drive were gone: what it alone holds. Looks at
    /// every block.
    pub fn loss_without(&self, device: DeviceId) -> Vec<Loss> {
        let mut losses = BTreeMap::<ObjectId, u64>::new();
        for (range, object) in self.objects.owned() {
            let blocks = range.first..range.first + range.count;
            let lost = blocks.filter(|&block| self.depends_on(block, device)).count() as u64;
            *losses.entry(object).or_default() += lost;
        }
        losses.retain(|_, blocks| *blocks > 0);
        losses.into_iter().map(|(object, blocks)| Loss { object, blocks }).collect()
    }

    fn depends_on(&self, block: u32, device: DeviceId) -> bool {
        let state = self.map.state(block);
        if state == 0 {
            return false;
        }
        let entry = self.map.entry(block);
        let elsewhere = |slot| self.map.slots().region(slot).device != device;
        let base = (state & HOME != 0 && self.objects.home_of(block, &self.io).0 != device)
            || (state & SSD != 0 && elsewhere(entry.ssd))
            || (state & LOG != 0 && elsewhere(entry.log))
            || state & (HOME | SSD | LOG) == 0;
        let fragments = state & FRAGMENTS == 0
            || self.map.fragments(block).iter().all(|fragment| elsewhere(fragment.slot));
        !(base && fragments)
    }
}
