//! Moves of one block: a merge of a block and the fragments over it, and a promotion from a log to an SSD.
//!
//! Source: design decision 9. The block is read like a user would read it, and written to one SSD slot;
//! the merge counts only if nothing has changed meanwhile. Without an SSD it goes to a log, with FUA, from
//! where it is moved home; users' writes leave a segment of each log for that (design decision 10).

use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::log::read_back::ReadBack;
use crate::map::{Logical, Map, NONE, Run, Touch};
use crate::metadata::MetadataHomes;
use crate::migration::Migration;
use crate::migration::moves::{Move, Moves, Part, Stage, Sums};
use crate::migration::read_back::Promotions;
use crate::mutant::Mutant;
use crate::owner::{MigrationIo, MoveKind, Owner, Parts};
use crate::policy::Policy;
use crate::port::IoOp;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::requests::{Next, Requests};
use crate::store::Store;
use tandem_block::{
    BLOCK_BYTES, DeviceId, IoError, ObjectId, Op, PayloadId, Request, RequestId, RequestKind,
};

/// On an SSD; in a pool without, in a log, whose last segment only merges may use.
fn slot_for_merge(
    io: &mut DeviceIo,
    map: &mut Map,
    read_back: &mut ReadBack,
    promotions: &mut Promotions,
) -> Option<Run> {
    if !io.ssds().is_empty() {
        return map.allocate_ssd(1);
    }
    (0..io.hdds().len()).find_map(|index| {
        let device = io.hdds()[index];
        let d = &io[device];
        let usable = d.takes_new() && d.log.is_some();
        usable.then(|| read_back.append_to_log(device, 1, true, io, promotions)).flatten()
    })
}

/// Would there be a slot for it? Without one, reading the block is in vain.
fn has_slot_for_merge(map: &Map, io: &DeviceIo) -> bool {
    if !io.ssds().is_empty() {
        return map.ssd_free() > 0;
    }
    let has_slot = |hdd: &DeviceId| {
        let d = &io[*hdd];
        d.takes_new() && d.log.as_ref().is_some_and(|log| log.free_slots() > 0)
    };
    io.hdds().iter().any(has_slot)
}

impl Moves {
    /// The same, whatever it is for.
    pub(crate) fn start_move_to_ssd(
        &mut self,
        kind: MoveKind,
        block: Logical,
        map: &mut Map,
        requests: &mut Requests,
        io: &DeviceIo,
    ) -> bool {
        assert!(self.active.is_none(), "one move at a time");
        assert!(kind.is_of_one_block(), "a move to an SSD is of one block");
        // a write under way would make it vain; but one that waits for room may wait for this
        if requests.is_held(block, block + 1) && !(io.waits_for_space() && io.ssds().is_empty()) {
            return false;
        }
        let entry = map.entry(block);
        let slot = if entry.ssd != NONE { entry.ssd } else { entry.log };
        assert!(
            kind == MoveKind::Merge || (entry.log != NONE && entry.ssd == NONE),
            "what is promoted lies in a log alone"
        );
        let copied = Some(map.watch(block));
        let mut part = Part::new(block, slot);
        part.copied = copied;
        let request = Request {
            kind: RequestKind::Background,
            ..Request::new(
                RequestId(u64::MAX),
                ObjectId(u64::MAX),
                Op::Read,
                (0, BLOCK_BYTES),
                io.now(),
            )
        };
        self.active = Some(Move {
            kind,
            stage: Stage::Reading,
            parts: vec![part],
            buffer: PayloadId::NONE,
            outstanding: 0,
            failed: false,
            after_batch: 0,
            target: Run { slot: NONE, count: 1 },
            targets: Vec::new(),
            since: io.now(),
            sums: Sums::default(),
        });
        let id = requests.insert(Task::new(request, block, block + 1));
        requests.lead_to(Next::Read(id));
        true
    }

    /// Reads a block as a user would and writes it to a slot of its own. False: not now.
    pub(crate) fn start_merge(
        &mut self,
        block: Logical,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let starts = has_slot_for_merge(map, io)
            && self.start_move_to_ssd(MoveKind::Merge, block, map, requests, io);
        io.stats_mut().merge_reads += u64::from(starts);
        starts
    }
}

impl Migration {
    /// The block of a merge was read, as a user would read it.
    pub(crate) fn merge_read(
        &mut self,
        id: TaskId,
        payload: PayloadId,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let task = requests.remove(id);
        let m = self.moves.active.as_mut().expect("a merge was reading");
        assert!(
            m.kind.is_of_one_block() && m.stage == Stage::Reading,
            "a read of one block ends while its move reads"
        );
        assert!(task.first == m.parts[0].logical, "the block that was read is the one that moves");
        m.buffer = payload;
        m.stage = Stage::Writing;
        m.failed = task.status.is_err();
        if let (Err(error), MoveKind::Merge) = (task.status, m.kind) {
            let block = m.parts[0].logical;
            self.moves.leave_unmovable(block, error, &mut store.map, io);
        }
        let run = if task.status.is_ok() {
            slot_for_merge(io, &mut store.map, &mut self.read_back, &mut self.promotions)
        } else {
            None
        };
        let Some(run) = run else {
            self.moves.end_move(
                &mut store.map,
                &mut self.copies,
                &mut policy.tiers,
                &mut self.evacuation,
                io,
            );
            return;
        };
        let m = self.moves.active.as_mut().expect("asked above");
        assert!(run.count == 1, "one block goes to one slot");
        assert!(m.target.slot == NONE && m.outstanding == 0, "a block is written once");
        m.target = run;
        m.outstanding = 1;
        let (parts, kind) = (Parts { first: 0, count: 1 }, m.kind);
        let region = *store.map.slots().region(run.slot);
        let op = IoOp::Write {
            offset_bytes: region.address(run.slot),
            length_bytes: BLOCK_BYTES,
            from: payload,
            from_offset_bytes: 0,
            fua: region.is_log,
        };
        let owner = Owner::Migration(MigrationIo::Write { parts, kind });
        io.enqueue(region.device, Class::Background, Job::Io(op, owner), None);
    }

    pub(crate) fn merge_written(
        &mut self,
        status: Result<(), IoError>,
        checksum: u32,
        store: &mut Store,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let m = self.moves.active.as_ref().expect("a merge was writing");
        let (block, target) = (m.parts[0].logical, m.target);
        assert!(
            m.kind.is_of_one_block() && target.slot != NONE,
            "one block was written to its slot"
        );
        let copied = m.parts[0].copied.as_ref().expect("a block that is merged is watched");
        let unchanged = store.map.is_latest(copied) || io.breaks(Mutant::MoveWithoutCompare);
        let is_promotion = m.kind == MoveKind::Promotion;
        if status.is_ok() && unchanged && !m.failed {
            store.map.assign(block, target.slot, checksum);
            let durable = store.map.slots().is_log(target.slot);
            store.map.touch(Touch { logical: block, count: 1 }, target.slot, durable);
            store.commit.note_pending(io.now());
            let moved = if is_promotion {
                &mut io.stats_mut().read_back.promoted
            } else {
                &mut io.stats_mut().merged
            };
            *moved += 1;
            self.copies.restoring_done(true, io);
        } else {
            self.moves.active.as_mut().expect("asked above").failed |= status.is_err();
            release_merged(target, status, &mut store.map, io, &mut store.metadata);
            io.stats_mut().moves_dropped += 1;
        }
        self.moves.end_move(
            &mut store.map,
            &mut self.copies,
            &mut policy.tiers,
            &mut self.evacuation,
            io,
        );
    }
}

pub(crate) fn release_merged(
    target: Run,
    status: Result<(), IoError>,
    map: &mut Map,
    io: &mut DeviceIo,
    metadata: &mut MetadataHomes,
) {
    let region = map.slots().region(target.slot);
    let (device, is_log) = (region.device, region.is_log);
    if !is_log {
        map.release_unused(target);
        return;
    }
    let log = io[device].log.as_mut().expect("a log slot");
    log.release(target.slot);
    if let Err(error) = status {
        metadata.fault(device, error, io);
    }
}
