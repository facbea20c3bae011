//! Is what a move has read what was written there once?
//!
//! The checksum of a version that a record names is in the table of blocks, and its page need not be in RAM. It is
//! read while the sources are. A move goes on when it knows all of them.

use super::{Move, Moves, Stage};
use crate::drain::Evacuation;
use crate::io::DeviceIo;
use crate::map::checksums::page_of;
use crate::map::{Map, NONE};
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
    // homes are looked up when they are read
    let looks = io.config().contents && m.kind != MoveKind::Rehome;
    if looks && lacks_checksums(m, store, io) {
        return;
    }
    if m.outstanding > 0 {
        return;
    }
    m.stage = Stage::Waiting;
    if looks {
        compare_read(moves, evacuation, &mut store.map, io);
    }
}

/// Looks up what the sources must hold. True: some pages are on their way.
fn lacks_checksums(m: &mut Move, store: &mut Store, io: &mut DeviceIo) -> bool {
    if m.sums.are_known() {
        return false;
    }
    let mut lacks = false;
    for part in &mut m.parts {
        let copied = part.copied.as_ref().expect("what is moved is watched");
        // what has changed since is dropped when it would be written
        if part.checksum.is_some() || !store.map.is_latest(copied) {
            continue;
        }
        part.checksum = store.checksums.of_place(part.logical, part.slot, &store.map);
        if part.checksum.is_some() {
            continue;
        }
        let page = page_of(part.logical);
        if m.sums.pin(page) {
            store.checksums.pin(page);
            let pages = (&mut store.pages, &store.checksums);
            store.metadata_replica.load_checksum_page(page, None, pages, &store.metadata, io);
        }
        lacks |= store.pages.is_under_way(page);
    }
    if !lacks {
        m.sums.learn().into_iter().for_each(|page| store.checksums.unpin(page));
    }
    lacks
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
        bad.extend((m.kind == MoveKind::Drain).then_some(part.slot));
        let device = map.slots().region(part.slot).device;
        let left = (part.logical, IoError::Checksum(device));
        unmovable.extend(moves_home.then_some(left));
        part.slot = NONE;
    }
    for (block, error) in unmovable {
        moves.leave_unmovable(block, error, map, io);
    }
    evacuation.note_unreadable(&bad);
}
