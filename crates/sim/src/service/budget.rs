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

use crate::simulation::{Hit, HitKind, Simulation};
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, IoError, ObjectId, Op, Request};
use tandem_engine::config::DEADLINE;
use tandem_engine::format::page::PAGE_BYTES;
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

/// Where one block lies: its places, and the checksums of its home.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    data: Vec<Extent>,
    fragments: Vec<Extent>,
    pages: Vec<Extent>,
}

impl Places {
    fn is_struck(&self, hit: &Hit) -> bool {
        [&self.data, &self.fragments, &self.pages].iter().any(|extents| strikes(hit, extents))
    }

    /// Does it take drives that are out of service, or had a fault there, to read it?
    fn is_lost(&self, sim: &Simulation) -> bool {
        let is_bad = |place: &Extent| is_out(sim, place.0) || strikes_any(sim, place);
        let is_unknown = self.pages.iter().any(|page| is_out(sim, page.0));
        !self.data.is_empty() && self.data.iter().all(is_bad)
            || self.fragments.iter().any(is_bad)
            || is_unknown
    }
}

/// Where the blocks of a request lie now, block by block.
pub(super) fn places(sim: &Simulation, object: ObjectId, range: (u64, u64)) -> Vec<Places> {
    let blocks = range.0 / BLOCK_BYTES..range.1.div_ceil(BLOCK_BYTES);
    let logical = blocks.filter_map(|block| logical_of(sim, object, block));
    logical
        .map(|logical| {
            let mut places = Places::default();
            places_of(sim, logical, &mut places);
            places
        })
        .collect()
}

/// The pool's block of a block of an object, if it has one.
fn logical_of(sim: &Simulation, object: ObjectId, block: u64) -> Option<u64> {
    let known = sim.engine.object(object)?;
    if known.lies_in_runs() {
        return sim.engine.objects().single(object, block, block + 1);
    }
    (block < known.blocks).then(|| known.first + block)
}

fn places_of(sim: &Simulation, logical: u64, places: &mut Places) {
    let map = sim.engine.map();
    let of_slot = |slot: u64| {
        let region = map.slots().region(slot);
        (region.device, (region.address(slot), region.address(slot) + BLOCK_BYTES))
    };
    for (place, _) in map.entry(logical).places() {
        match place {
            Place::Ssd(slot) | Place::Log(slot) if slot != NONE => places.data.push(of_slot(slot)),
            Place::Ssd(_) | Place::Log(_) => {}
            Place::Home => {
                let (home, first) = sim.engine.home_of(logical);
                places.data.push((home, (first, first + BLOCK_BYTES)));
            }
        }
    }
    if !places.data.is_empty() {
        let pages = sim.engine.checksum_places(logical).into_iter();
        places.pages.extend(pages.map(|(id, first)| (id, (first, first + PAGE_BYTES))));
    }
    places.fragments.extend(map.fragments(logical).iter().map(|fragment| of_slot(fragment.slot)));
}

fn strikes(hit: &Hit, extents: &[Extent]) -> bool {
    extents.iter().any(|(device, (first, end))| {
        hit.device == *device && hit.range.0 < *end && *first < hit.range.1
    })
}

/// Until when does a fault strike requests? One whose drive gives no answer strikes all those that are made
/// before the drive is out of service.
fn ends(hit: &Hit) -> Instant {
    match hit.what {
        HitKind::NeverEnds => hit.at + DEADLINE,
        _ => hit.at,
    }
}

fn had(sim: &Simulation, device: DeviceId, kinds: &[HitKind]) -> bool {
    sim.hits().iter().any(|hit| hit.device == device && kinds.contains(&hit.what))
}

/// Is it out of service, and for a fault of its own?
fn is_out(sim: &Simulation, device: DeviceId) -> bool {
    let known = sim.engine.devices().get(usize::from(device.0));
    known.is_some_and(|d| !d.takes_new()) && had(sim, device, FAILURES)
}

fn serves(sim: &Simulation, wants_ssd: bool) -> bool {
    sim.engine.devices().iter().any(|d| d.is_ssd() == wants_ssd && d.takes_new())
}

/// A request that failed.
pub(super) struct Failed<'a> {
    pub request: &'a Request,
    /// When it was made.
    pub made: Instant,
    /// When the first of the writes was made that it may have waited for: these may have had parts under way
    /// when a drive failed.
    pub behind: Instant,
    /// It is answered only when it is durable.
    pub is_durable: bool,
    /// Where each of its blocks lay when it was made, and lies now.
    pub places: &'a [Places],
    /// Drives that are out of service are read.
    pub reads_all: bool,
    /// It may lie behind a write to blocks that its object shares, and fail with that.
    pub may_share: bool,
}

/// Does a fault that a drive had excuse this error?
pub(super) fn excuses(sim: &Simulation, failed: &Failed<'_>, error: IoError) -> bool {
    let (IoError::Device(device)
    | IoError::Dead(device)
    | IoError::NoAnswer(device)
    | IoError::Checksum(device)) = error
    else {
        return false;
    };
    let places = failed.places;
    let since = |kinds: &[HitKind]| {
        let mut hits = sim.hits().iter();
        hits.any(|hit| {
            hit.device == device && ends(hit) >= failed.made && kinds.contains(&hit.what)
        })
    };
    // a write to shared blocks that failed may have had other parts under way when this one was made
    let is_behind = || {
        failed.may_share
            && failed.behind < failed.made
            && sim.hits().iter().any(|hit| {
                hit.device == device && ends(hit) >= failed.behind && FAILURES.contains(&hit.what)
            })
    };
    let here = |kinds: &[HitKind]| {
        let mut hits = sim.hits().iter();
        hits.any(|hit| {
            hit.device == device
                && kinds.contains(&hit.what)
                && places.iter().any(|block| block.is_struck(hit))
        })
    };
    let was_rolled = || had(sim, device, &[HitKind::RolledBack]);
    // a drive that gave no answer is asked nothing any more
    let reads_all = failed.reads_all && !had(sim, device, &[HitKind::NeverEnds]);
    let is_lost = || places.iter().any(|block| block.is_lost(sim));
    match (failed.request.op, error) {
        // the block may have lain there for a part of the time that the read took
        (Op::Read, IoError::Checksum(_)) => {
            here(BAD_CONTENTS) || since(BAD_CONTENTS) || was_rolled()
        }
        (Op::Read, _) if failed.may_share && is_out(sim, device) => true,
        // what was read may have been written over since
        (Op::Read, _) if since(BAD_READS) => true,
        (Op::Read, _) if reads_all => here(BAD_READS),
        (Op::Read, _) => here(BAD_READS) || is_out(sim, device) && (is_lost() || since(FAILURES)),
        (Op::Flush, _) => loses_durability(sim, device) || since(&[HitKind::NeverEnds]),
        // a part of a block is laid over the rest of it, which is read for that
        (_, IoError::Checksum(_)) => {
            let reads_a_rest = failed.may_share || !covers_blocks(failed.request);
            here(BAD_CONTENTS)
                || reads_a_rest && since(BAD_CONTENTS)
                || refused_for_damage(sim, device)
                || was_rolled()
        }
        _ => {
            let is_unrecorded = failed.is_durable && loses_durability(sim, device);
            // a part of a shared block is written where the whole block was copied first
            let is_unread = failed.may_share && !reads_all && is_out(sim, device) && is_lost();
            is_unrecorded
                || is_unread
                || is_behind()
                || since(FAILURES)
                || here(BAD_READS)
                || nobody_takes_it(sim, device)
                || refused_for_room(sim, device)
                || is_in_doubt(sim, device)
        }
    }
}

/// Does it cover its first and its last block whole?
fn covers_blocks(request: &Request) -> bool {
    let end_bytes = request.offset_bytes + request.length_bytes;
    request.offset_bytes.is_multiple_of(BLOCK_BYTES) && end_bytes.is_multiple_of(BLOCK_BYTES)
}

/// Its flush failed, so nothing is recorded any more; and what needs a record, or room that records make,
/// fails.
fn is_in_doubt(sim: &Simulation, device: DeviceId) -> bool {
    had(sim, device, &[HitKind::FlushError, HitKind::NeverEnds]) && loses_durability(sim, device)
}

/// Writes waited for room that only this drive could make.
fn refused_for_room(sim: &Simulation, device: DeviceId) -> bool {
    is_out(sim, device) && sim.engine.stats().refused_without_room > 0
}

/// Writes waited for room, and what lies on this drive could not be moved.
fn refused_for_damage(sim: &Simulation, device: DeviceId) -> bool {
    had(sim, device, BAD_CONTENTS) && sim.engine.stats().refused_without_room > 0
}

fn strikes_any(sim: &Simulation, place: &Extent) -> bool {
    sim.hits().iter().any(|hit| strikes(hit, std::slice::from_ref(place)))
}

/// No SSD takes anything any more, and in a pool without one no hard drive does.
fn nobody_takes_it(sim: &Simulation, device: DeviceId) -> bool {
    let has_ssd = sim.engine.devices().iter().any(|d| d.is_ssd());
    is_out(sim, device) && !serves(sim, has_ssd)
}

/// What was acknowledged may be lost, or nothing could be recorded: a drive with metadata could not be
/// flushed, or the only one could not write some.
fn loses_durability(sim: &Simulation, device: DeviceId) -> bool {
    let devices = sim.engine.devices();
    let has_ssd = devices.iter().any(|d| d.is_ssd());
    let Some(known) = devices.get(usize::from(device.0)) else { return false };
    if known.is_ssd() != has_ssd {
        return nobody_takes_it(sim, device);
    }
    let others = devices.iter().filter(|d| d.is_ssd() == has_ssd && d.id != device);
    let is_only = if has_ssd { others.count() == 0 } else { device.0 == 0 };
    let data = if has_ssd { known.layout.slot_offset } else { known.layout.home_offset };
    let metadata = [(device, (0, data))];
    let unwritten = sim.hits().iter().any(|hit| {
        matches!(hit.what, HitKind::WriteError | HitKind::NeverEnds) && strikes(hit, &metadata)
    });
    // nobody can flush what a silent drive was given
    let is_silent = had(sim, device, &[HitKind::NeverEnds]) && is_out(sim, device);
    had(sim, device, &[HitKind::FlushError])
        || is_silent
        || is_only && is_out(sim, device)
        || is_only && unwritten
        || nobody_takes_it(sim, device)
}
