//! Snapshots and clones: in which steps does an object share blocks, and where do writes to such blocks go?
//!
//! Source: requirements L3, L4 (snapshots and clones of files and volumes).
//!
//! ```text
//! clone   the batch is next ─▶ writes to both objects wait ─▶ those under way are answered
//!              ─▶ FLUSH: what was written is recorded ─▶ pieces are shared, writes go on
//! write   to shared blocks ─▶ new blocks, a link ─▶ written ─▶ recorded, and behind that the piece
//!              (a part of a block: the whole block is copied there first)
//! zeroes  over shared blocks ─▶ a hole
//! ```
//! So a clone shows one moment, also after a crash, and blocks with several holders never change: their
//! places may be moved like all others.

mod audit;
mod steps;

use crate::format::record::PIECE_RECORD_BYTES;
use crate::format::record_writer::RecordWriter;
use crate::io::DeviceIo;
use crate::map::journal::Journal;
use crate::map::objects::{BlockRange, Objects};
use crate::mutant::Mutant;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::volumes::batch::ObjectChanges;
use tandem_block::{BLOCK_BYTES, IoError, ObjectId, Op, Request};

/// Links at once, at most; one request may have more if it is alone (guess).
const LINKS_MAX: u64 = 4096;

/// Does a write, or a zeroing, leave blocks that its object shares?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// They are not part of it any more: a hole, which is to be recorded.
    Shared,
    /// No, or for links.
    Nothing,
    /// There is no room for that now.
    NotNow,
}

/// A block that is copied before a part of it is written to.
#[derive(Clone, Copy, Debug)]
struct CopyUp {
    read: TaskId,
    write: TaskId,
}

/// What goes on between objects that share blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    /// Objects of the clone that is next: requests that write to them wait, and for some all.
    frozen: Vec<(ObjectId, bool)>,
    /// The task of its batch, which waits for a FLUSH, and how that ended.
    settling: Option<(TaskId, Option<Result<(), IoError>>)>,
    copy_ups: Vec<CopyUp>,
    /// Blocks that nobody has any more, but that somebody reads.
    lingering: Vec<BlockRange>,
}

impl Sharing {
    /// A FLUSH that a batch waits for has ended. False: it is not one of these.
    pub(crate) fn settles(&mut self, id: TaskId, status: Result<(), IoError>) -> bool {
        match &mut self.settling {
            Some((waiting, ended)) if *waiting == id && ended.is_none() => {
                *ended = Some(status);
                true
            }
            _ => false,
        }
    }

    /// Is a FLUSH that a batch waits for under way? Nothing becomes of the batch before it has ended.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.settling, Some((_, None)))
    }

    /// Blocks that are nobody's once nobody reads them.
    pub(crate) fn lingering_blocks(&self) -> u64 {
        self.lingering.iter().map(|range| range.count).sum()
    }

    /// Must it wait until a clone is made?
    pub(crate) fn is_frozen(&self, request: &Request) -> bool {
        let stops = |&(object, all): &(ObjectId, bool)| {
            object == request.object && (all || request.op.is_write())
        };
        self.frozen.iter().any(stops)
    }

    /// Links at once at most.
    fn links_max(&self, journal: &Journal) -> usize {
        let room = journal.ring_bytes() / 16 / PIECE_RECORD_BYTES as u64;
        room.min(LINKS_MAX) as usize
    }

    /// Must links be recorded, though no FLUSH asks for it?
    pub(crate) fn links_press(
        &self,
        journal: &Journal,
        objects: &Objects,
        somebody_waits: bool,
    ) -> bool {
        let written = objects.links().written();
        written > 0 && (2 * written >= self.links_max(journal) || somebody_waits)
    }

    /// Is it a step of such a copy?
    pub(crate) fn is_copy_up(&self, id: TaskId) -> bool {
        self.copy_ups.iter().any(|copy| copy.read == id || copy.write == id)
    }

    /// Links of which everything stands in a batch, or in one before it, become pieces, and stand behind
    /// that. Returns the blocks that nobody has any more.
    pub(crate) fn record_links(
        &self,
        objects: &mut Objects,
        store: &mut Store,
        io: &DeviceIo,
    ) -> Vec<BlockRange> {
        if objects.links().written() == 0 {
            return Vec::new();
        }
        let ahead = io.breaks(Mutant::LinksAhead);
        let is_recorded = |block| ahead || store.map.is_recorded(block);
        let (durable, left) = objects.settle_links(is_recorded);
        let mut records = RecordWriter::default();
        let max = store.commit.body_bytes_max(&store.journal);
        let batch = store.commit.batch_mut();
        if ahead && !batch.bodies.is_empty() {
            // the rule that is broken: first what lies there, then that it is the object's
            durable.iter().for_each(|&(object, piece)| records.piece(object.0, piece, false));
            batch.bodies.insert(0, records.take());
            return left;
        }
        for (object, piece) in durable {
            let whole = batch.bodies.last().map_or(0, Vec::len) + records.len_bytes();
            if whole + PIECE_RECORD_BYTES > max {
                add(&mut batch.bodies, records.take(), max);
            }
            let is_shared = objects.is_shared(&piece);
            records.piece(object.0, piece, is_shared);
        }
        if !records.is_empty() {
            add(&mut batch.bodies, records.take(), max);
        }
        left
    }

    /// A FLUSH is about to be answered with this batch: no write that was answered may be left out.
    pub(crate) fn check_links(&self, commit: &Commit, objects: &Objects, io: &DeviceIo) {
        assert!(
            !commit.flush_waits()
                || objects.links().written() == 0
                || io.breaks(Mutant::FlushWithoutTails),
            "what was written is recorded by the commit of a FLUSH, and then its links are"
        );
    }

    /// May the batch that is next share blocks, or why not? `None`: not yet.
    pub(crate) fn ready_to_share(
        &mut self,
        id: TaskId,
        objects: &Objects,
        requests: &Requests,
        commit: &mut Commit,
        object_changes: &ObjectChanges,
        io: &DeviceIo,
    ) -> Option<Result<(), IoError>> {
        if self.frozen.is_empty() {
            assert!(self.settling.is_none(), "writes are held back before a clone waits for them");
            let batch = object_changes.next_batch().expect("it is next");
            let mut frozen = Vec::new();
            for op in &batch.ops {
                if let Some(from) = op.shared_from() {
                    frozen.extend([(from, false), (op.object(), true)]);
                }
            }
            assert!(!frozen.is_empty(), "a clone has blocks of some object");
            self.frozen = frozen;
        }
        if let Some((waiting, ended)) = self.settling {
            assert!(waiting == id, "one clone is made at a time");
            return ended;
        }
        let is_in_the_way = |task: &Task| {
            !task.is_answered && task.request.op != Op::Flush && self.is_frozen(&task.request)
        };
        if requests.iter().any(|(_, task)| is_in_the_way(task)) {
            return None;
        }
        if io.breaks(Mutant::ClonesVolatile) && objects.links().is_empty() {
            return Some(Ok(()));
        }
        self.settling = Some((id, None));
        commit.wait_flush(id);
        None
    }
}

/// Adds records to the last body, or as one more.
fn add(bodies: &mut Vec<Vec<u8>>, records: Vec<u8>, max: usize) {
    assert!(records.len() <= max, "what is added fits into one unit");
    match bodies.last_mut() {
        Some(last) if last.len() + records.len() <= max => last.extend(records),
        _ if records.is_empty() => {}
        _ => bodies.push(records),
    }
}

/// Shared parts that a request touches: blocks at its ends that it touches a part of, and the rest.
#[allow(clippy::type_complexity)]
fn apart(
    request: &Request,
    shared: &[(u64, u64)],
    from: u64,
    to: u64,
) -> (Vec<(u64, u64)>, Vec<(u64, u64)>) {
    let end_bytes = request.offset_bytes + request.length_bytes;
    let head = (!request.offset_bytes.is_multiple_of(BLOCK_BYTES)).then_some(from);
    let tail = (!end_bytes.is_multiple_of(BLOCK_BYTES)).then_some(to - 1);
    let tail = tail.filter(|&tail| head != Some(tail));
    let (mut edges, mut whole) = (Vec::new(), Vec::new());
    for &(mut begin, mut end) in shared {
        if head == Some(begin) {
            edges.push((begin, begin + 1));
            begin += 1;
        }
        if begin < end && tail == Some(end - 1) {
            edges.push((end - 1, end));
            end -= 1;
        }
        if begin < end {
            whole.push((begin, end));
        }
    }
    assert!(edges.len() <= 2, "a request has two ends");
    (edges, whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Instant;
    use tandem_block::RequestId;

    #[test]
    fn blocks_at_the_ends_are_told_apart() {
        let request = |offset, length| {
            Request::new(RequestId(1), ObjectId(1), Op::Write, (offset, length), Instant::ZERO)
        };
        let of = |offset, length, shared: &[(u64, u64)]| {
            let r = request(offset, length);
            apart(&r, shared, offset / 4096, (offset + length).div_ceil(4096))
        };
        assert_eq!(of(4096, 8192, &[(1, 3)]), (vec![], vec![(1, 3)]));
        assert_eq!(of(4608, 512, &[(1, 2)]), (vec![(1, 2)], vec![]));
        assert_eq!(of(4608, 12288, &[(1, 5)]), (vec![(1, 2), (4, 5)], vec![(2, 4)]));
        assert_eq!(of(4608, 12288, &[(2, 3)]), (vec![], vec![(2, 3)]));
        assert_eq!(of(4608, 4096, &[(1, 3)]), (vec![(1, 2), (2, 3)], vec![]));
    }
}
