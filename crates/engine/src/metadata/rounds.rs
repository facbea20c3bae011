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
        let generation = self.generation();
        assert!(generation > 0, "a round of superblocks has a number");
        Superblock {
            generation,
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
            compatible: self.compatible_features(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::News;
    use crate::io::fixture::drives;

    /// One round that says who lags: its number, and whom it names.
    fn round(homes: &mut MetadataHomes, io: &mut DeviceIo, fails: bool) -> (u64, u64) {
        homes.tell();
        homes.ask_for_superblocks(false, io);
        let asked = io.next_news();
        assert!(matches!(asked, Some(News::Superblocks { clean: false, copy: 0 })), "{asked:?}");
        homes.begin_telling();
        let said = (homes.generation(), homes.said_mask());
        if fails {
            homes.superblock_failed(IoError::Dead(DeviceId(0)));
        }
        assert_eq!(homes.told(io.now()).is_err(), fails);
        homes.end_round();
        said
    }

    #[test]
    fn a_round_that_failed_keeps_its_number_while_it_says_the_same() {
        let (mut io, mut homes) = (drives(3, 0), MetadataHomes::default());
        homes.note_lagging(DeviceId(1), &io);
        assert_eq!(round(&mut homes, &mut io, true), (1, 0b010));
        assert_eq!(round(&mut homes, &mut io, true), (1, 0b010));
        homes.note_lagging(DeviceId(2), &io);
        assert_eq!(round(&mut homes, &mut io, true), (2, 0b110), "another one has another number");
        assert!(!homes.is_told());
        assert_eq!(round(&mut homes, &mut io, false), (2, 0b110));
        assert!(homes.is_told());
        homes.note_level(DeviceId(1));
        assert_eq!(round(&mut homes, &mut io, false), (3, 0b100));
    }

    /// Seen: a round was taken to have named a drive that was noted between its asking and its writing, or the
    /// other way round.
    #[test]
    fn a_round_has_told_what_its_superblocks_say_and_no_more() {
        let (mut io, mut homes) = (drives(3, 0), MetadataHomes::default());
        homes.note_lagging(DeviceId(1), &io);
        homes.tell();
        homes.ask_for_superblocks(false, &mut io);
        assert!(homes.writes_superblocks(), "a round is under way from the asking on");
        homes.note_level(DeviceId(1));
        homes.note_lagging(DeviceId(2), &io);
        homes.begin_telling();
        assert_eq!(homes.said_mask(), 0b100, "what is known when the first copies are written");
        homes.note_lagging(DeviceId(1), &io);
        assert_eq!(homes.said_mask(), 0b100, "the second copies say the same");
        assert_eq!(homes.told(io.now()), Ok(()));
        homes.end_round();
        assert!(!homes.is_told(), "nobody was told of the drive that failed meanwhile");
        assert!(homes.may_tell(io.now()));
    }

    #[test]
    fn a_number_that_was_taken_before_is_used_by_the_next_round() {
        let (mut io, mut homes) = (drives(2, 0), MetadataHomes::default());
        homes.ask_for_superblocks(false, &mut io);
        homes.begin_telling();
        assert_eq!(homes.generation(), 1);
        homes.end_round();
        // a successor writes its own superblock first, and the others follow under the same number
        homes.next_generation();
        homes.begin_telling();
        assert_eq!(homes.generation(), 2);
        // a second round of a drain has the number of the first one, and goes to one drive alone
        homes.note_lagging(DeviceId(1), &io);
        homes.begin_telling();
        assert_eq!((homes.generation(), homes.said_mask()), (2, 0b10));
        assert_eq!(homes.told(io.now()), Ok(()));
        assert!(!homes.is_told(), "the others do not know it yet");
        // as if it had never been
        homes.repeat_generation();
        homes.ask_for_superblocks(false, &mut io);
        homes.begin_telling();
        assert_eq!(homes.generation(), 2);
    }
}
