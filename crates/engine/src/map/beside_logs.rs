//! When does a copy on an SSD lie beside a place in a log, and when does it stand alone?

use super::{Logical, Map, NONE, Slot, Touch, entry};

/// Adds an SSD slot as a copy of a place in a log that its drive was flushed for. Returns false if the block lies
/// otherwise: the SSD is its place then.
pub(crate) fn add_copy_of_log(map: &mut Map, block: Logical, ssd: Slot, checksum: u32) -> bool {
    map.state(block) == entry::LOG
        && map.is_safe_in_log(block)
        && map.add_copy(block, (map.entry(block).log, ssd), checksum)
}

/// The place in a log is none any more, since its drive has died: a copy on an SSD stands alone. False: the block has no
/// such place, or nothing else.
pub(crate) fn leave_log(map: &mut Map, block: Logical, log: Slot) -> bool {
    let entry = map.entry(block);
    if entry.log != log || entry.ssd == NONE || entry.fragmented || !map.drop_place(block, log) {
        return false;
    }
    map.touch(Touch { logical: block, count: 1 }, NONE, true);
    true
}
