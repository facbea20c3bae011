//! What becomes of a request for a thin object, whose blocks lie in runs and holes?
//!
//! Source: requirements L3, L4; design decision 10 (who over-commits gets ENOSPC). A write first takes
//! blocks for the holes that it will fill; the record that says so goes into the same commit as the first
//! record of what lies in them, or an earlier one. Then a request over one run is like one for a volume.
//! One over several is a *parent* that waits for a *part* for each run: parts are ordered, steered and
//! written like requests, and share the parent's buffer.
//!
//! ```text
//! object     0 ····· 8 ▓▓▓▓▓▓▓ 16 ▒▒▒▒▒ 20          a read of 4..20: one buffer of 16 blocks, zeroes
//! logical            900..908     77..81            part 8..16 → byte 4 x 4096, part 16..20 → byte 12 x 4096
//! ```
//! What a request changes of the runs has to fit the next commit beside other changes of objects; if it
//! does not, the request waits, and later ones for the same object behind it.

mod steps;

use crate::format::pointer::NUMBERS_END;
use crate::format::record::PIECE_RECORD_BYTES;
use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::journal::Journal;
use crate::map::objects::Objects;
use crate::map::runs::Piece;
use crate::mutant::Mutant;
use crate::qos::delivery::StreamIndex;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::store::commit::Commit;
use crate::tier::TierNumber;
use crate::volumes::batch::ObjectChanges;
use tandem_block::{BLOCK_BYTES, ObjectId, PayloadId, Request};

/// A piece that changes takes so much of the next commit at most: it may lie between two others.
const CHANGE_BYTES: usize = 3 * PIECE_RECORD_BYTES;

/// What a part has of its request.
#[derive(Clone, Copy)]
struct Part {
    request: Request,
    parent: TaskId,
    volume: ObjectId,
    tier: Option<TierNumber>,
    stream: StreamIndex,
    sequential: bool,
    buffer: PayloadId,
    /// Where the request's first block lies in the buffer.
    base_bytes: u64,
}

impl Part {
    fn of(task: &Task, parent: TaskId) -> Self {
        Self {
            request: task.request,
            parent,
            volume: task.volume,
            tier: task.tier,
            stream: task.stream,
            sequential: task.sequential,
            buffer: task.buffer,
            base_bytes: task.base_bytes,
        }
    }
}

/// The blocks of an object that a request touches: the first, and behind the last.
fn blocks(request: &Request) -> (u64, u64) {
    let end = (request.offset_bytes + request.length_bytes).div_ceil(BLOCK_BYTES);
    assert!(request.length_bytes > 0, "a request for blocks touches some");
    assert!(end < NUMBERS_END, "an object has fewer than 2^40 blocks");
    (request.offset_bytes / BLOCK_BYTES, end)
}

/// Parts of the runs of these blocks in which nothing lies: the first block of each, and behind the
/// last.
fn empty_pieces(
    object: ObjectId,
    first: u64,
    end: u64,
    io: &DeviceIo,
    map: &Map,
    objects: &Objects,
) -> Vec<(u64, u64)> {
    let mut empty: Vec<(u64, u64)> = Vec::new();
    for piece in objects.pieces(object, first, end) {
        let Some(logical) = piece.logical else { continue };
        for i in 0..piece.count {
            let is_written = map.leaves().state(logical + i) != 0;
            if is_written && !io.breaks(Mutant::GivesUpWritten) {
                continue;
            }
            let at = piece.offset + i;
            match empty.last_mut() {
                Some((_, to)) if *to == at && i > 0 => *to += 1,
                _ => empty.push((at, at + 1)),
            }
        }
    }
    empty
}

impl ObjectChanges {
    /// Pieces whose change the next commit has room for.
    pub(super) fn changes_that_fit(
        &self,
        objects: &Objects,
        journal: &Journal,
        commit: &Commit,
    ) -> usize {
        let room =
            self.changes_bytes_max(commit, journal).saturating_sub(objects.changes().bytes());
        room / CHANGE_BYTES
    }
}

/// The part of a request that lies in a piece.
fn part_of(request: &Request, piece: Piece) -> Request {
    let begin = piece.offset * BLOCK_BYTES;
    let end = begin + piece.count * BLOCK_BYTES;
    let offset_bytes = request.offset_bytes.max(begin);
    let end = end.min(request.offset_bytes + request.length_bytes);
    assert!(offset_bytes < end, "a request has some bytes of each of its pieces");
    Request { offset_bytes, length_bytes: end - offset_bytes, ..*request }
}
