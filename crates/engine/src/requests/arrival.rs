//! The first and the last steps of a request: is it sound, must it wait, and what follows its answer?

use crate::io::{DeviceIo, Phase};
use crate::map::objects::Objects;
use crate::map::{Logical, Touch};
use crate::metadata::MetadataHomes;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::store::pace::paces_writes;
use crate::volumes::Volumes;
use crate::volumes::sharing::Sharing;
use tandem_block::{BLOCK_BYTES, IoError, Op, PayloadId, Request, RequestKind, SECTOR_BYTES};

/// Longest request in bytes: NBD's usual limit.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Longest discard or zeroing in bytes: it moves no bytes, so NBD bounds it by 32 bits alone.
const ZEROED_BYTES_MAX: u64 = u32::MAX as u64;

/// Must this request wait for a clone, or behind one that does?
#[inline]
fn waits_for_a_clone(request: &Request, requests: &Requests, sharing: &Sharing) -> bool {
    let waits = || sharing.is_frozen(request) || requests.holds_back(request);
    request.op != Op::Flush && waits()
}

#[inline]
fn are_writes_paced(store: &Store, io: &DeviceIo) -> bool {
    let Store { map, commit, checkpoint, journal, metadata, .. } = store;
    paces_writes(map, commit, (checkpoint, journal), metadata, io)
}

impl Requests {
    pub(crate) fn enter(
        &mut self,
        mut task: Task,
        store: &mut Store,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        policy.name_stream(&mut task, io);
        let op = task.request.op;
        let id = self.insert(task);
        if op == Op::Flush {
            if store.metadata.is_degraded() {
                self.answer(id, PayloadId::NONE, 0, io); // nothing was written that could be lost
            } else {
                store.commit.wait_flush(id);
            }
            return;
        }
        self.take_blocks(id, io);
    }

    /// Zeroing: whole blocks only change the map; part blocks at the ends are written as zeroes.
    pub(crate) fn begin_zeroes(
        &mut self,
        id: TaskId,
        store: &mut Store,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        policy.tiers.policies.keep_class(id, self);
        let task = &self[id];
        let request = task.request;
        let (first, end) = (task.first, task.end);
        assert!(task.holds && task.outstanding == 0, "a zeroing holds its blocks, and begins once");
        let head_part = !request.offset_bytes.is_multiple_of(BLOCK_BYTES);
        let end_bytes = request.offset_bytes + request.length_bytes;
        let tail_part = !end_bytes.is_multiple_of(BLOCK_BYTES);
        if io.is_fixed() {
            store.zero_fixed(first, end);
        } else {
            let inner_first = first + Logical::from(head_part);
            let inner_end = end - Logical::from(tail_part);
            if inner_first < inner_end {
                for block in inner_first..inner_end {
                    store.map.clear(block);
                }
                let touch = Touch { logical: inner_first, count: inner_end - inner_first };
                store.map.touch(touch, crate::map::NONE, true);
            }
            if (head_part || tail_part) && inner_first <= inner_end {
                self.write_zero_edges(
                    id,
                    head_part,
                    tail_part && end - first > u64::from(head_part),
                    &store.map,
                    io,
                );
                return;
            }
            if head_part || tail_part {
                // one block, both ends within it
                self.write_zero_edges(id, true, false, &store.map, io);
                return;
            }
        }
        self[id].started = io.now();
        self.lead_to(Next::Written(id));
    }

    /// A request arrives.
    pub(crate) fn on_request(
        &mut self,
        request: &Request,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        assert!(
            request.kind == RequestKind::User,
            "the engine's own reads and writes come in another way"
        );
        io.note_request();
        policy.steering.note_arrival(request, io);
        if io.phase() != Phase::Running {
            return io.refuse_request(request, IoError::Stopping);
        }
        if self.waits_its_turn(request, store, io) {
            // one that is refused does not wait for that
            let checked = check_request(request, &mut volumes.objects, &store.metadata);
            if let Err(error) = checked {
                return io.refuse_request(request, error);
            }
            io.stats_mut().writes_paced += u64::from(request.op.is_write());
            return self.pace(*request);
        }
        self.admit(request, store, volumes, policy, io);
    }

    fn pace(&mut self, request: Request) {
        assert!(request.op != Op::Flush, "a FLUSH adds nothing that is to be recorded");
        self.paced.push_back(request);
    }

    /// Does a write wait whose bytes this read is to see?
    fn paces_write_before(&self, read: &Request) -> bool {
        let end = |request: &Request| request.offset_bytes.saturating_add(request.length_bytes);
        self.paced.iter().any(|write| {
            write.object == read.object
                && write.offset_bytes < end(read)
                && read.offset_bytes < end(write)
        })
    }

    /// Must it wait until commits and the checkpoint can follow, or behind what waits for them?
    #[inline]
    fn waits_its_turn(&self, request: &Request, store: &Store, io: &DeviceIo) -> bool {
        match request.op {
            Op::Flush => false,
            Op::Read => self.paces_write_before(request),
            _ => !self.paced.is_empty() || are_writes_paced(store, io),
        }
    }

    /// Does one wait that need not wait any more?
    #[inline]
    pub(crate) fn lets_paced_begin(&self, store: &Store, io: &DeviceIo) -> bool {
        !self.paced.is_empty() && !are_writes_paced(store, io)
    }

    /// Requests begin that waited until commits and the checkpoint could follow.
    #[inline]
    pub(crate) fn run_paced(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        while self.lets_paced_begin(store, io) {
            let request = self.paced.pop_front().expect("one waits");
            self.admit(&request, store, volumes, policy, io);
        }
    }

    /// A request begins, is held back, or is refused.
    fn admit(
        &mut self,
        request: &Request,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        match check_request(request, &mut volumes.objects, &store.metadata) {
            Ok(_) if waits_for_a_clone(request, self, &volumes.sharing) => self.hold_back(*request),
            Ok(Some((first, end))) => {
                self.enter(Task::new(*request, first, end), store, policy, io)
            }
            Ok(None) => volumes.enter_thin(request, store, self, policy, io),
            Err(error) => io.refuse_request(request, error),
        }
    }

    /// What it wanted to be durable is, or never will be.
    pub(crate) fn durable(
        &mut self,
        id: TaskId,
        status: Result<(), IoError>,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        if volumes.sharing.settles(id, status) {
            volumes.run_batches(store, self, policy, io);
            return;
        }
        if let Err(error) = status {
            self.note_error(id, error);
        }
        self.answer(id, PayloadId::NONE, 0, io);
    }

    pub(crate) fn end(
        &mut self,
        (id, payload): (TaskId, PayloadId),
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let task = &self[id];
        assert!(task.is_answered, "only what was answered is over");
        if task.request.kind == RequestKind::Background {
            if volumes.sharing.is_copy_up(id) {
                volumes.copied_up(id, payload, store, self, policy, io);
            } else if policy.tiers.is_promoting(id) {
                policy.tiers.promoting_read(id, payload, &mut store.map, self, io);
            } else {
                migration.merge_read(id, payload, store, self, policy, io);
            }
            return;
        }
        let (task, woken) = self.release(id);
        match task.parent {
            Some(parent) => self.part_answered(parent, &task, &mut store.commit, &policy.tiers, io),
            None => {
                policy.count_delivered(&task, io);
                policy.note_answer(&task, io);
            }
        }
        let request = task.request;
        if request.op == Op::Discard && task.volume != request.object && task.status.is_ok() {
            volumes.give_up_discarded(&request, store, self, policy, io);
        }
        self.wake(woken);
    }
}

/// The logical blocks that a sound request touches. `None`: those of a thin object.
pub(crate) fn check_request(
    request: &Request,
    objects: &mut Objects,
    metadata: &MetadataHomes,
) -> Result<Option<(Logical, Logical)>, IoError> {
    let found = objects.locate(request.object)?;
    if request.op.is_write() && metadata.is_degraded() {
        return Err(IoError::ReadOnly);
    }
    if request.op.is_write() && found.is_snapshot {
        return Err(IoError::Snapshot);
    }
    if request.op == Op::Flush {
        return Ok(Some((0, 0)));
    }
    let (offset, length) = (request.offset_bytes, request.length_bytes);
    let limit = if request.op.is_write() && request.op != Op::Write {
        ZEROED_BYTES_MAX
    } else {
        REQUEST_BYTES_MAX
    };
    if length == 0
        || length > limit
        || !offset.is_multiple_of(SECTOR_BYTES)
        || !length.is_multiple_of(SECTOR_BYTES)
    {
        return Err(IoError::Misaligned);
    }
    let end = offset.checked_add(length).ok_or(IoError::OutOfRange)?;
    if found.is_thin {
        // its size is to the byte
        let whole_bytes = found.size_bytes.next_multiple_of(BLOCK_BYTES);
        return if end > whole_bytes { Err(IoError::OutOfRange) } else { Ok(None) };
    }
    if end > found.size_bytes {
        return Err(IoError::OutOfRange);
    }
    let block = |bytes: u64| found.first + (bytes / BLOCK_BYTES) as Logical;
    Ok(Some((block(offset), found.first + end.div_ceil(BLOCK_BYTES) as Logical)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{GIB, Instant, ObjectId, RequestId};

    /// Each kind of request at its longest, and a sector beyond that, and over the end.
    #[test]
    fn requests_are_bounded_in_length() {
        const VOLUME: ObjectId = ObjectId(1);
        const BLOCKS: u64 = 8 * GIB / BLOCK_BYTES;
        let metadata = MetadataHomes::default();
        let mut objects = Objects::new(BLOCKS);
        objects.create(VOLUME, "vol0", BLOCKS * BLOCK_BYTES).expect("there is room");
        let mut check = |op, offset, length| {
            let request =
                Request::new(RequestId(1), VOLUME, op, (offset, length), Instant::default());
            check_request(&request, &mut objects, &metadata)
        };
        let zeroed_max = 4 * GIB - SECTOR_BYTES;
        let lengths = [
            (Op::Read, REQUEST_BYTES_MAX),
            (Op::Write, REQUEST_BYTES_MAX),
            (Op::Discard, zeroed_max),
            (Op::WriteZeroes, zeroed_max),
        ];
        for (op, longest) in lengths {
            let blocks = longest.div_ceil(BLOCK_BYTES);
            assert_eq!(check(op, 0, longest), Ok(Some((0, blocks))), "{op:?}");
            let too_long = check(op, 0, longest + SECTOR_BYTES);
            assert_eq!(too_long, Err(IoError::Misaligned), "{op:?}: longer than any may be");
            let last = BLOCKS * BLOCK_BYTES - SECTOR_BYTES;
            assert_eq!(check(op, last, SECTOR_BYTES), Ok(Some((BLOCKS - 1, BLOCKS))), "{op:?}");
            assert_eq!(check(op, last, BLOCK_BYTES), Err(IoError::OutOfRange), "{op:?}");
        }
    }
}
