//! Is what a move has read what was written there once?
//!
//! The checksum of a version that a record names is in the table of blocks, and its page need not be in RAM. It is
//! read while the sources are. A move goes on when it knows all of them.

use super::{Move, Moves, Part, Stage};
use crate::drain::Evacuation;
use crate::io::DeviceIo;
use crate::map::checksums::page_of;
use crate::map::{Map, NONE};
use crate::mutant::Mutant;
use crate::owner::MoveKind;
use crate::store::Store;
use tandem_block::IoError;

/// Goes on with a move that reads its sources: looks up what they must hold, asks for the pages that say so, and
/// compares when all has come.
pub(crate) fn advance_reading(
    moves: &mut Moves,
    evacuation: &mut Evacuation,
    store: &mut Store,
    io: &mut DeviceIo,
) {
    let Some(m) = &mut moves.active else { return };
    if m.stage != Stage::Reading || m.kind.is_of_one_block() {
        return;
    }
    let looks = io.config().contents;
    if looks && lacks_checksums(m, evacuation, store, io) || m.outstanding > 0 {
        return;
    }
    m.stage = Stage::Waiting;
    if !looks {
        return;
    }
    if m.kind == MoveKind::Rehome {
        m.failed |= differs(m, evacuation, store);
    } else {
        compare_read(moves, evacuation, &mut store.map, io);
    }
}

/// Does it matter whether this part was read as it was written? What has changed since is dropped when it would be
/// written.
fn matters(part: &Part, evacuation: &Evacuation, map: &Map) -> bool {
    match &part.copied {
        Some(copied) => map.is_latest(copied),
        // a home: others may have taken its place
        None => evacuation.needs_home(part.logical, map),
    }
}

/// Looks up what the sources must hold, when they have been read. True: some pages are on their way.
fn lacks_checksums(
    m: &mut Move,
    evacuation: &Evacuation,
    store: &mut Store,
    io: &mut DeviceIo,
) -> bool {
    if m.sums.are_known() {
        return false;
    }
    if !m.sums.is_gathered() {
        let pages = look_up(m, evacuation, store);
        m.sums.gather(pages).iter().for_each(|page| store.checksums.pin(*page));
    }
    // homes have no other copy that would be asked later, so their pages are tried until they are given up
    let insists = matches!(m.kind, MoveKind::Drain | MoveKind::Rehome);
    let has_ssds = !io.ssds().is_empty();
    loop {
        while let Some(page) = m.sums.ask(has_ssds) {
            load(page, store, io);
        }
        let Some(page) = m.sums.next() else { break };
        if insists && !store.checksums.has_page(page) {
            load(page, store, io);
        }
        let is_coming = store.pages.is_under_way(page);
        if is_coming || insists && !store.checksums.has_page(page) {
            return true;
        }
        m.sums.pass();
    }
    if m.outstanding > 0 {
        return true;
    }
    if !look_up(m, evacuation, store).is_empty() && insists {
        m.sums.ask_again();
        return true;
    }
    m.sums.learn().into_iter().for_each(|page| store.checksums.unpin(page));
    false
}

/// Asks for a page that is not in RAM.
fn load(page: u32, store: &mut Store, io: &mut DeviceIo) {
    if !store.checksums.has_page(page) && !store.pages.is_under_way(page) {
        let pages = (&mut store.pages, &store.checksums);
        store.metadata_replica.load_checksum_page(page, None, pages, &store.metadata, io);
    }
}

/// Looks up what each part must hold. Returns the pages that say it of the others.
fn look_up(m: &mut Move, evacuation: &Evacuation, store: &Store) -> Vec<u32> {
    let mut pages = Vec::new();
    for part in &mut m.parts {
        if part.checksum.is_some() || !matters(part, evacuation, &store.map) {
            continue;
        }
        let is_home = part.copied.is_none();
        let checksums = &store.checksums;
        let found = if is_home {
            checksums.get(part.logical)
        } else {
            checksums.of_place(part.logical, part.slot, &store.map)
        };
        // a home may be written again before it is compared
        part.checksum = found.filter(|_| !is_home);
        pages.extend(found.is_none().then(|| page_of(part.logical)));
    }
    pages
}

/// Is a home not what was written there once?
fn differs(m: &Move, evacuation: &Evacuation, store: &Store) -> bool {
    let is_bad = |part: &Part| {
        let known = store.checksums.get(part.logical);
        part.found != known && matters(part, evacuation, &store.map)
    };
    !m.failed && m.parts.iter().any(is_bad)
}

/// All sources were read. A source that was freed and rewritten meanwhile looks like a damaged one, and so does one of
/// which nobody knows what it must hold: it does not go home, and if it is still current a user's read says so.
fn compare_read(moves: &mut Moves, evacuation: &mut Evacuation, map: &mut Map, io: &DeviceIo) {
    let m = moves.active.as_mut().expect("asked by the caller");
    let moves_home = matches!(m.kind, MoveKind::LogGc | MoveKind::WriteBack);
    let (mut bad, mut unmovable) = (Vec::new(), Vec::new());
    for part in &mut m.parts {
        let Some(found) = part.found.filter(|_| part.slot != NONE) else { continue };
        if part.checksum == Some(found) {
            continue;
        }
        let slot = std::mem::replace(&mut part.slot, NONE);
        if !matters(part, evacuation, map) && !io.breaks(Mutant::LeavesWritten) {
            continue; // its new version may well be sound
        }
        bad.extend((m.kind == MoveKind::Drain).then_some(slot));
        let device = map.slots().region(slot).device;
        let left = (part.logical, IoError::Checksum(device));
        unmovable.extend(moves_home.then_some(left));
    }
    for (block, error) in unmovable {
        moves.leave_unmovable(block, error, map, io);
    }
    evacuation.note_unreadable(&bad);
}
