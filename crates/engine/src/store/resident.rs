//! Where do the blocks of a volume live before the first request of a replay?
//!
//! Source: design, "Where a replay starts decides its result". For event loops without contents alone:
//! nothing was ever written there, so nothing could be verified.

use crate::io::{DeviceIo, Phase};
use crate::map::entry::{LOG, SSD};
use crate::map::objects::Objects;
use crate::map::{Logical, Map, NONE, Touch};
use crate::metadata::MetadataHomes;
use crate::migration::moves::Moves;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use tandem_block::{BLOCK_BYTES, IoError, ObjectId};

fn reserved(object: ObjectId, objects: &mut Objects) -> Result<(Logical, u64), IoError> {
    let found = objects.locate(object)?;
    let blocks = found.size_bytes / BLOCK_BYTES;
    Ok((found.first, blocks))
}

impl DeviceIo {
    /// Takes every block of the object to be at its home on a hard drive, written, durable and
    /// recorded long ago.
    ///
    /// # Errors
    /// `NoObject`.
    ///
    /// # Panics
    /// If payloads have contents, if there are no hard drives, or once blocks were written.
    pub(crate) fn assume_home(
        &self,
        object: ObjectId,
        map: &mut Map,
        objects: &mut Objects,
    ) -> Result<(), IoError> {
        assert!(!self.config().contents, "homes can be assumed only where there are no contents");
        assert!(!self.hdds().is_empty(), "homes are on hard drives");
        assert!((self.phase() == Phase::Running), "volumes are made at start");
        let (first, blocks) = reserved(object, objects)?;
        map.assume_home(first, blocks);
        Ok(())
    }
}

impl Moves {
    /// Takes every block that lies in a hard drive's log, with or without a copy on an SSD, to have gone home, as it
    /// would in quiet hours. What a log holds that is not durable and recorded yet stays: flush before. The places
    /// in the logs are free when the next commits have recorded it.
    ///
    /// # Panics
    /// If payloads have contents.
    pub(crate) fn assume_logs_home(&mut self, map: &mut Map, commit: &mut Commit, io: &DeviceIo) {
        assert!(!io.config().contents, "homes can be assumed only where there are no contents");
        let (mut from, blocks) = (0, map.leaves().block_count() as Logical);
        while let Some(block) = map.leaves().next_in_slot(from, blocks) {
            from = block + 1;
            if map.state(block) & !SSD != LOG {
                continue;
            }
            let slot = map.entry(block).log;
            if !map.log_source(block, slot) {
                continue;
            }
            let copied = map.watch(block);
            if map.note_home(&copied) {
                self.homed_log.push((block, slot));
                map.touch(Touch { logical: block, count: 1 }, NONE, true);
            }
            map.forget(copied);
        }
        commit.note_pending(io.now());
    }
}

impl Tiers {
    /// Takes the blocks of the object, in the order of their addresses, to have clean copies on the
    /// SSDs beside their homes, until this share of the SSDs' slots is used. False: it is used up.
    ///
    /// # Errors
    /// `NoObject`.
    ///
    /// # Panics
    /// As `assume_home`, and if the homes of the object were not assumed before.
    pub(crate) fn assume_ssd_copies(
        &mut self,
        object: ObjectId,
        used_percent: u64,
        map: &mut Map,
        objects: &mut Objects,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<bool, IoError> {
        assert!(!io.config().contents, "copies can be assumed only where there are no contents");
        assert!(used_percent <= 100, "a share of the slots");
        let (first, blocks) = reserved(object, objects)?;
        let kept_free = map.ssd_slots() * (100 - used_percent) / 100;
        let room = |map: &crate::map::Map| map.ssd_free() > kept_free;
        let all = (first..first + blocks).all(|block| room(map) && map.assume_ssd_copy(block));
        // what a tier holds is counted anew
        self.make_space(map, objects, metadata, io).expect("it was made at start");
        Ok(all)
    }
}
