//! A write that nobody waits for any more: a log has its blocks already. Where they still lie there, an SSD takes them over.

use crate::io::DeviceIo;
use crate::map::{Logical, Map, NONE, Run, Slot, Touch};
use crate::mutant::Mutant;
use crate::owner::{Ended, InLog, Late};
use crate::store::Store;
use tandem_block::{DeviceId, IoError};

/// What a log's place holds of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// All of it, and no SSD has it.
    Block,
    /// Some of its sectors.
    Fragment,
}

/// What lies in this slot of a log now.
pub(super) fn in_log(slot: Slot, map: &Map, io: &DeviceIo) -> InLog {
    let device = map.slots().region(slot).device;
    let log = io[device].log.as_ref().expect("a slot of a log");
    InLog { slot, round: log.round(slot) }
}

/// So many slots further on.
pub(super) fn further(place: InLog, slots: u64) -> InLog {
    InLog { slot: place.slot + slots, ..place }
}

/// What does this block still have there?
pub(super) fn find(place: InLog, block: Logical, map: &Map, io: &DeviceIo) -> Option<Held> {
    if in_log(place.slot, map, io) != place {
        return None;
    }
    let entry = map.entry(block);
    if entry.log == place.slot {
        return (entry.ssd == NONE).then_some(Held::Block);
    }
    let mut fragments = map.fragments(block).iter();
    fragments.any(|fragment| fragment.slot == place.slot).then_some(Held::Fragment)
}

pub(super) fn release_log(hdd: DeviceId, run: Run, io: &mut DeviceIo) {
    let log = io[hdd].log.as_mut().expect("a log slot");
    (run.slot..run.slot + run.count).for_each(|slot| log.release(slot));
}

/// Gives back places in which nothing lies that anybody needs.
pub(super) fn give_back(
    device: DeviceId,
    run: Run,
    error: Option<IoError>,
    store: &mut Store,
    io: &mut DeviceIo,
) {
    if store.map.slots().is_log(run.slot) {
        release_log(device, run, io);
        if let Some(error) = error {
            store.metadata.fault(device, error, io);
        }
    } else {
        store.map.release_unused(run);
    }
}

/// A write that came too late has ended.
pub(crate) fn late_done(late: &Late, ended: Ended<'_>, store: &mut Store, io: &mut DeviceIo) {
    let Ended { device, status, checksums, .. } = ended;
    match (status, late.in_log) {
        (Ok(()), Some(place)) => take_over(late, place, checksums, store, io),
        _ => give_back(device, late.run, status.err(), store, io),
    }
    io.let_buffer_go(late.payload);
}

/// Blocks that still lie where the log has left them move to the SSD.
fn take_over(late: &Late, place: InLog, checksums: &[u32], store: &mut Store, io: &mut DeviceIo) {
    let mut is_taken = false;
    for i in 0..late.run.count {
        let (block, place, ssd) = (late.logical + i, further(place, i), late.run.slot + i);
        let checksum = checksums.get(i as usize).copied().unwrap_or(0);
        let map = &mut store.map;
        let held = find(place, block, map, io);
        match held {
            _ if io.breaks(Mutant::LateIsNewest) => map.assign(block, ssd, checksum),
            Some(Held::Block) => {
                assert!(map.add_copy(block, (place.slot, ssd), checksum), "it lies there");
                assert!(map.drop_place(block, place.slot), "it lies there");
            }
            Some(Held::Fragment) => {
                assert!(map.move_fragment(block, place.slot, ssd), "it lies there");
            }
            None => {
                map.release_unused(Run { slot: ssd, count: 1 });
                continue;
            }
        }
        map.touch(Touch { logical: block, count: 1 }, ssd, false);
        io.stats_mut().late.taken_over += 1;
        is_taken = true;
    }
    if is_taken {
        store.commit.note_pending(io.now());
    }
}
