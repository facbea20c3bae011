//! Rounds of superblocks: who lags is told before anything else is answered.

use crate::drain::Evacuation;
use crate::format::superblock::{Member, Superblock};
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::replacement::Replacement;
use tandem_block::{DeviceId, IoError};

impl MetadataHomes {
    /// What a drive's superblock says now.
    pub(crate) fn superblock(
        &self,
        device: DeviceId,
        clean: bool,
        objects: &Objects,
        replacement: &Replacement,
        evacuation: &Evacuation,
        io: &DeviceIo,
    ) -> Superblock {
        Superblock {
            generation: self.generation(),
            pool: io.config().pool,
            name: io.config().name.clone(),
            index: device.0,
            clean,
            layout: io[device].layout,
            successor: replacement.named(),
            members: io
                .drives()
                .iter()
                .map(|d| Member {
                    uuid: d.config.uuid,
                    role: d.config.role,
                    capacity_bytes: d.config.capacity_bytes,
                })
                .collect(),
            standings: io.drives().iter().map(|d| replacement.standing_of(d)).collect(),
            has_moved_homes: evacuation.has_moved_homes(objects, io),
            has_metadata_replica: io.config().has_metadata_replica,
            lagging: self.mask(),
        }
    }

    /// Begins a round of superblocks that say who lags.
    pub(crate) fn tell_of_lagging(
        &mut self,
        replacement: &Replacement,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let others = replacement.round_is_replacements(io) || evacuation.round_is_drains(io);
        let serves = io.is_serving() && !self.is_degraded() && !io.is_fixed();
        if serves && !others && self.may_tell(io.now()) {
            self.tell();
            self.ask_for_superblocks(false, io);
        }
    }

    /// A drive did not take its superblock.
    pub(crate) fn superblock_refused(
        &mut self,
        device: DeviceId,
        error: IoError,
        io: &mut DeviceIo,
    ) {
        if !io.is_serving() {
            return; // the one that it has still says "not clean", which is true
        }
        self.fault(device, error, io);
        if !io[device].is_faulted() {
            self.superblock_failed(error);
        }
    }

    pub(crate) fn superblock_written(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        io: &mut DeviceIo,
    ) {
        if let Err(error) = status {
            self.superblock_refused(device, error, io);
        }
        self.superblock_ended(io);
    }
}
