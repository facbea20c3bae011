//! Which errors does a fault excuse? Only those of what it struck.
//!
//! ```text
//! an error names drive D
//!   read    a fault of D on a place of one of the blocks, or on the checksums of their homes; or D is out of
//!           service for a fault of its own, and no place of the block is on a drive in service
//!   write   a fault of D while the request was under way; or no drive is left that could take it
//!   FLUSH   a flush of an SSD failed, or no drive with metadata is left in service
//! ```
//! A fault excuses no wrong data, and no request that is never answered.

use crate::world::{Hit, HitKind, World};
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, IoError, ObjectId, Op, Request};
use tandem_engine::format::page::{PAGE_BYTES, PAGE_CHECKSUMS};
use tandem_engine::map::{NONE, Place};

/// A range of bytes on a drive.
pub(super) type Extent = (DeviceId, (u64, u64));

/// What a read may blame.
const BAD_READS: &[HitKind] = &[HitKind::ReadError, HitKind::NeverEnds];
/// What a checksum that does not fit may blame.
const BAD_CONTENTS: &[HitKind] = &[
    HitKind::WrongContents,
    HitKind::WrongRead,
    HitKind::WriteError,
    HitKind::RolledBack,
    HitKind::FlushIgnored,
];
/// What takes a drive out of service.
const FAILURES: &[HitKind] =
    &[HitKind::ReadError, HitKind::WriteError, HitKind::FlushError, HitKind::NeverEnds];

/// Where the blocks of a request lie now, and the checksums of those that are at home.
pub(super) fn places(world: &World, object: ObjectId, range: (u64, u64)) -> Vec<Extent> {
    let mut extents = Vec::new();
    for block in range.0 / BLOCK_BYTES..range.1.div_ceil(BLOCK_BYTES) {
        if let Some(logical) = logical_of(world, object, block as u32) {
            places_of(world, logical, &mut extents);
        }
    }
    extents
}

/// The pool's block of a block of an object, if it has one.
fn logical_of(world: &World, object: ObjectId, block: u32) -> Option<u32> {
    let known = world.engine.object(object)?;
    if known.lies_in_runs() {
        return world.engine.objects().single(object, block, block + 1);
    }
    (block < known.blocks).then(|| known.first + block)
}

fn places_of(world: &World, logical: u32, extents: &mut Vec<Extent>) {
    let map = world.engine.map();
    let of_slot = |slot: u32| {
        let region = map.slots().region(slot);
        (region.device, (region.address(slot), region.address(slot) + BLOCK_BYTES))
    };
    for (place, _) in map.entry(logical).places() {
        match place {
            Place::Ssd(slot) | Place::Log(slot) if slot != NONE => extents.push(of_slot(slot)),
            Place::Ssd(_) | Place::Log(_) => {}
            Place::Home => {
                let (home, first) = world.engine.home_of(logical);
                extents.push((home, (first, first + BLOCK_BYTES)));
                for device in world.engine.devices() {
                    let layout = &device.layout;
                    if layout.checksum_pages > 0 {
                        let page = u64::from(logical) / PAGE_CHECKSUMS as u64;
                        let first = layout.checksum_offset + page * 2 * PAGE_BYTES;
                        extents.push((device.id, (first, first + 2 * PAGE_BYTES)));
                    }
                }
            }
        }
    }
    extents.extend(map.fragments(logical).iter().map(|fragment| of_slot(fragment.slot)));
}

fn strikes(hit: &Hit, extents: &[Extent]) -> bool {
    extents.iter().any(|(device, (first, end))| {
        hit.device == *device && hit.range.0 < *end && *first < hit.range.1
    })
}

fn had(world: &World, device: DeviceId, kinds: &[HitKind]) -> bool {
    world.hits().iter().any(|hit| hit.device == device && kinds.contains(&hit.what))
}

/// Is it out of service, and for a fault of its own?
fn is_out(world: &World, device: DeviceId) -> bool {
    let known = world.engine.devices().get(usize::from(device.0));
    known.is_some_and(|d| !d.takes_new()) && had(world, device, FAILURES)
}

fn serves(world: &World, wants_ssd: bool) -> bool {
    world.engine.devices().iter().any(|d| d.is_ssd() == wants_ssd && d.takes_new())
}

/// Does a fault that a drive had excuse this error? `places` are those of its blocks, when it was made
/// and now.
pub(super) fn excuses(
    world: &World,
    (request, made): (&Request, Instant),
    error: IoError,
    places: &[Extent],
) -> bool {
    let (IoError::Device(device) | IoError::Dead(device) | IoError::Checksum(device)) = error
    else {
        return false;
    };
    let since = |kinds: &[HitKind]| {
        let mut hits = world.hits().iter();
        hits.any(|hit| hit.device == device && hit.at >= made && kinds.contains(&hit.what))
    };
    let here = |kinds: &[HitKind]| {
        let mut hits = world.hits().iter();
        hits.any(|hit| hit.device == device && kinds.contains(&hit.what) && strikes(hit, places))
    };
    let is_bad = |place: &Extent| is_out(world, place.0) || strikes_any(world, place);
    match (request.op, error) {
        (Op::Read, IoError::Checksum(_)) => here(BAD_CONTENTS),
        (Op::Read, _) => here(BAD_READS) || is_out(world, device) && places.iter().all(is_bad),
        (Op::Flush, _) => loses_durability(world, device) || since(&[HitKind::NeverEnds]),
        (_, IoError::Checksum(_)) => here(BAD_CONTENTS),
        _ => {
            let needs_record = request.fua && loses_durability(world, device);
            needs_record || since(FAILURES) || here(BAD_READS) || nobody_takes_it(world, device)
        }
    }
}

fn strikes_any(world: &World, place: &Extent) -> bool {
    world.hits().iter().any(|hit| strikes(hit, std::slice::from_ref(place)))
}

/// No SSD takes anything any more, and in a pool without one no hard drive does.
fn nobody_takes_it(world: &World, device: DeviceId) -> bool {
    let has_ssd = world.engine.devices().iter().any(|d| d.is_ssd());
    is_out(world, device) && !serves(world, has_ssd)
}

/// What was acknowledged may be lost, or nothing can be recorded any more.
fn loses_durability(world: &World, device: DeviceId) -> bool {
    let devices = world.engine.devices();
    let has_ssd = devices.iter().any(|d| d.is_ssd());
    let is_ssd = devices.get(usize::from(device.0)).is_some_and(|d| d.is_ssd());
    let lost = had(world, device, &[HitKind::FlushError]) && is_ssd == has_ssd;
    lost || nobody_takes_it(world, device)
}
