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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use crate::log::Log;
    use crate::map::SlotRegion;
    use crate::map::entry::{LOG, SSD};
    use crate::store::memory::MemoryBound;
    use tandem_block::MIB;

    const HDD: DeviceId = DeviceId(1);
    const BLOCK: Logical = 7;

    /// A block in a log, which an SSD has room for.
    struct Scene {
        io: DeviceIo,
        store: Store,
        late: Late,
    }

    fn append(io: &mut DeviceIo) -> Slot {
        let log = io[HDD].log.as_mut().expect("it has one");
        log.append(1, true).expect("there is room").slot
    }

    fn scene() -> Scene {
        let (mut io, mut store) = (drives(1, 1), Store::new(MIB, MemoryBound::pages(8), true));
        let regions =
            vec![SlotRegion::new(DeviceId(0), false, 64, 0), SlotRegion::new(HDD, true, 4, 0)];
        store.map = Map::new(regions, 100, 2);
        io[HDD].log = Some(Log::new(store.map.slots().regions()[1], 2));
        let slot = append(&mut io);
        store.map.assign(BLOCK, slot, 1);
        let run = store.map.allocate_on(0, 1).expect("it is empty");
        let payload = io.name_payload();
        io.hold_buffer(payload);
        let in_log = Some(in_log(slot, &store.map, &io));
        Scene { io, store, late: Late { logical: BLOCK, run, payload, in_log } }
    }

    type Change = fn(&mut Scene);

    /// What happens before the write of the SSD ends, how it ends, and where the block lies then.
    #[test]
    fn an_ssd_takes_over_what_still_lies_there_and_nothing_else() {
        let ok: Result<(), IoError> = Ok(());
        let cases: [(&str, Change, Result<(), IoError>, u8); 5] = [
            ("nothing", |_| {}, ok, SSD),
            ("the SSD fails", |_| {}, Err(IoError::Device(DeviceId(0))), LOG),
            (
                "it is written again, to the log",
                |s| {
                    let slot = append(&mut s.io);
                    s.store.map.assign(BLOCK, slot, 2);
                },
                ok,
                LOG,
            ),
            ("it is discarded", |s| s.store.map.clear(BLOCK), ok, 0),
            // segments are opened in turn: the place is the same block's again
            (
                "its place is written again",
                |s| {
                    s.store.map.clear(BLOCK);
                    let log = s.io[HDD].log.as_mut().expect("it has one");
                    let first = s.late.in_log.expect("it lies in a log").slot;
                    for _ in 0..3 {
                        let slot = log.append(1, true).expect("there is room").slot;
                        log.release(slot);
                    }
                    log.release(first);
                    let again = log.append(1, true).expect("there is room").slot;
                    assert_eq!(again, first, "the first segment is opened again");
                    s.store.map.assign(BLOCK, again, 3);
                },
                ok,
                LOG,
            ),
        ];
        for (what, change, status, wanted) in cases {
            let mut scene = scene();
            let free = scene.store.map.ssd_free();
            change(&mut scene);
            let Scene { mut io, mut store, late } = scene;
            let ended = Ended { device: DeviceId(0), status, checksums: &[9], bytes: &[] };
            late_done(&late, ended, &mut store, &mut io);
            assert_eq!(store.map.state(BLOCK), wanted, "{what}");
            let is_taken = wanted == SSD;
            assert_eq!(store.map.ssd_free(), free + u64::from(!is_taken), "{what}");
            assert_eq!(io.stats().late.taken_over, u64::from(is_taken), "{what}");
        }
    }
}
