//! Where do the blocks of a volume live before the first request of a replay?
//!
//! Source: design, "Where a replay starts decides its result". For event loops without contents alone:
//! nothing was ever written there, so nothing could be verified.

use crate::engine::Engine;
use crate::io::Phase;
use crate::map::logical::LOG;
use crate::map::objects::Objects;
use crate::map::{Logical, NONE, Touch};
use tandem_block::{BLOCK_BYTES, IoError, ObjectId};

fn reserved(object: ObjectId, objects: &mut Objects) -> Result<(Logical, u32), IoError> {
    let found = objects.locate(object)?;
    let blocks = u32::try_from(found.size_bytes / BLOCK_BYTES).expect("checked at birth");
    Ok((found.first, blocks))
}

impl Engine {
    /// Takes every block of the object to be at its home on a hard drive, written, durable and
    /// recorded long ago.
    ///
    /// # Errors
    /// `NoObject`.
    ///
    /// # Panics
    /// If payloads have contents, if there are no hard drives, or once blocks were written.
    pub fn assume_home(&mut self, object: ObjectId) -> Result<(), IoError> {
        assert!(
            !self.io.config().contents,
            "homes can be assumed only where there are no contents"
        );
        assert!(!self.io.hdds().is_empty(), "homes are on hard drives");
        assert!((self.io.phase() == Phase::Running), "volumes are made at start");
        let (first, blocks) = reserved(object, &mut self.objects)?;
        self.map.assume_home(first, blocks);
        Ok(())
    }

    /// Takes every block that lies in a hard drive's log, and nowhere else, to have gone home, as it would in
    /// quiet hours. What a log holds that is not durable and recorded yet stays: flush before. The places
    /// in the logs are free when the next commits have recorded it.
    ///
    /// # Panics
    /// If payloads have contents.
    pub fn assume_logs_home(&mut self) {
        assert!(
            !self.io.config().contents,
            "homes can be assumed only where there are no contents"
        );
        for block in 0..self.map.logical().len() as Logical {
            if self.map.state(block) != LOG {
                continue;
            }
            let slot = self.map.entry(block).log;
            if !self.map.log_source(block, slot) {
                continue;
            }
            let copied = self.map.watch(block);
            if self.map.note_home(&copied) {
                self.moves.homed_log.push((block, slot));
                self.map.touch(Touch { logical: block, count: 1 }, NONE, true);
            }
            self.map.forget(copied);
        }
        self.commit.note_pending(self.io.now());
    }

    /// Takes the blocks of the object, in the order of their addresses, to have clean copies on the
    /// SSDs beside their homes, until this share of the SSDs' slots is used. False: it is used up.
    ///
    /// # Errors
    /// `NoObject`.
    ///
    /// # Panics
    /// As `assume_home`, and if the homes of the object were not assumed before.
    pub fn assume_ssd_copies(
        &mut self,
        object: ObjectId,
        used_percent: u64,
    ) -> Result<bool, IoError> {
        assert!(
            !self.io.config().contents,
            "copies can be assumed only where there are no contents"
        );
        assert!(used_percent <= 100, "a share of the slots");
        let (first, blocks) = reserved(object, &mut self.objects)?;
        let kept_free = self.map.ssd_slots() * (100 - used_percent) / 100;
        let room = |map: &crate::map::Map| map.ssd_free() > kept_free;
        let all = (first..first + blocks)
            .all(|block| room(&self.map) && self.map.assume_ssd_copy(block, 0));
        // what a tier holds is counted anew
        self.make_space().expect("it was made at start");
        Ok(all)
    }
}
