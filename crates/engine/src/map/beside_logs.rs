//! When does a copy on an SSD lie beside a place in a log, and when does it stand alone?

use super::{Logical, Map, NONE, Slot, Touch, entry};
use tandem_block::DeviceId;

/// Adds an SSD slot as a copy of a place in a log that its drive was flushed for. Returns false if the block lies
/// otherwise: the SSD is its place then.
pub(crate) fn add_copy_of_log(map: &mut Map, block: Logical, ssd: Slot, checksum: u32) -> bool {
    map.state(block) == entry::LOG
        && map.is_safe_in_log(block)
        && map.add_copy(block, (map.entry(block).log, ssd), checksum)
}

/// Gives up the place of a block in a log that died with its drive, where an SSD that has not died has a copy: the copy
/// stands alone. `is_dead` tells of a drive whether it gives no answer any more. False: nothing is given up.
pub(crate) fn leave_log(
    map: &mut Map,
    block: Logical,
    log: Slot,
    is_dead: impl Fn(DeviceId) -> bool,
) -> bool {
    let entry = map.entry(block);
    if entry.log != log || entry.ssd == NONE {
        return false;
    }
    let [of_log, of_ssd] = [log, entry.ssd].map(|slot| map.slots().region(slot).device);
    if !is_dead(of_log) || is_dead(of_ssd) || !map.drop_place(block, log) {
        return false;
    }
    map.touch(Touch { logical: block, count: 1 }, NONE, true);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Entry, SlotRegion};

    const SSD: DeviceId = DeviceId(0);
    const HDD: DeviceId = DeviceId(1);

    /// Block 0 in a log that was flushed, and, where wanted, a copy of it.
    fn map(is_copied: bool) -> (Map, Slot, Slot) {
        let regions = vec![SlotRegion::new(SSD, false, 4, 0), SlotRegion::new(HDD, true, 4, 0)];
        let mut map = Map::new(regions, 4, 1);
        let (ssd, log) = (map.allocate_ssd(1).expect("there is room").slot, first_of(&map, HDD));
        map.assign(0, log, 7);
        assert!(!is_copied || add_copy_of_log(&mut map, 0, ssd, 7));
        (map, ssd, log)
    }

    fn first_of(map: &Map, device: DeviceId) -> Slot {
        let mut regions = map.slots().regions().iter();
        regions.find(|region| region.device == device).expect("it has slots").first
    }

    #[test]
    fn a_copy_stands_alone_where_its_drive_lives_and_that_of_the_log_does_not() {
        for (is_copied, dead, is_left) in [
            (true, &[HDD][..], true),
            (true, &[], false),
            (true, &[SSD], false),
            (true, &[SSD, HDD], false),
            (false, &[HDD], false),
        ] {
            let (mut map, ssd, log) = map(is_copied);
            let left = leave_log(&mut map, 0, log, |drive| dead.contains(&drive));
            assert_eq!(left, is_left, "copied: {is_copied}, dead: {dead:?}");
            let wanted = match (is_copied, is_left) {
                (true, true) => Entry::in_slot(ssd, false),
                (true, false) => Entry { ssd, ..Entry::in_slot(log, true) },
                (false, _) => Entry::in_slot(log, true),
            };
            assert_eq!(map.entry(0), wanted, "copied: {is_copied}, dead: {dead:?}");
        }
    }

    #[test]
    fn what_is_not_flushed_or_lies_elsewhere_gets_no_copy() {
        let (mut map, ssd, log) = map(false);
        map.note_log_volatile(log, 1);
        assert!(!add_copy_of_log(&mut map, 0, ssd, 7));
        assert!(!add_copy_of_log(&mut map, 1, ssd, 7), "it lies nowhere");
    }
}
