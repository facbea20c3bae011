//! Writes of users on their way: to which queue, to which slots, and what they read before.

use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::map::entry::{FRAGMENTS, SSD};
use crate::map::{Logical, Map, Run};
use crate::owner::{Ended, Owner, RequestIo};
use crate::port::{Command, IoId, IoOp};
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::steer::{Reason, Target};
use crate::store::Store;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, Request, SECTOR_BYTES};

impl Requests {
    /// Puts the write into the queue of its device.
    pub(crate) fn queue_write(&self, id: TaskId, io: &mut DeviceIo) {
        let task = &self[id];
        assert!(
            task.holds && task.outstanding == 0 && !task.is_answered,
            "a write waits in one queue, and nothing of it is under way"
        );
        let device = io.device_of(task.target);
        let bytes = task.blocks() * BLOCK_BYTES;
        let job = Job::Write { task: id, bytes };
        io.enqueue(device, Class::Write, job, task.whose());
    }

    /// The write's turn on an SSD has come: chooses places and issues it. False: no space yet.
    pub(crate) fn issue_ssd_write(
        &mut self,
        device: DeviceId,
        id: TaskId,
        io: &mut DeviceIo,
        map: &mut Map,
    ) -> bool {
        let blocks = self[id].blocks();
        let ssd = io.ssds().iter().position(|&d| d == device).expect("an SSD");
        if map.allocators()[ssd].free_count() < blocks + self.reserved_slots(ssd, map) {
            return false;
        }
        assert!(self[id].outstanding == 0, "a write goes out once");
        let (mut logical, end) = (self[id].first, self[id].end);
        self.mark_started(id, io);
        while logical < end {
            let run = map.allocate_on(ssd, end - logical).expect("counted above");
            self.issue_write_run(device, id, logical, run, io, map);
            logical += run.count;
        }
        true
    }

    /// SSD slots that users' writes leave alone: merges and tail copies need them to make progress.
    pub(crate) fn reserved_slots(&self, ssd: usize, map: &Map) -> u64 {
        (map.allocators()[ssd].slot_count() / 64).clamp(8, 16_384)
    }

    pub(crate) fn mark_started(&mut self, id: TaskId, io: &mut DeviceIo) {
        let now = io.now();
        let task = &mut self[id];
        if task.started == tandem_block::Instant::NEVER {
            task.started = now;
        }
        if let Some(since) = task.short_of_space_since.take() {
            io.stats_mut().backpressure_ns += now.since(since).ns;
        }
    }

    pub(crate) fn issue_write_run(
        &mut self,
        device: DeviceId,
        id: TaskId,
        logical: Logical,
        run: Run,
        io: &mut DeviceIo,
        map: &Map,
    ) -> IoId {
        let region = map.slots().region(run.slot);
        assert!(region.device == device, "a run lies on the drive that it is sent to");
        assert!(
            run.count > 0 && region.contains(run.slot + run.count - 1),
            "a run lies in one region"
        );
        map.prefetch_slots(logical, run.count);
        let task = &mut self[id];
        assert!(run.count <= task.end - logical, "a run is of no more than its write");
        task.outstanding += 1;
        let op = IoOp::Write {
            offset_bytes: region.address(run.slot),
            length_bytes: run.count * BLOCK_BYTES,
            from: task.buffer,
            from_offset_bytes: task.buffer_offset(logical),
            fua: task.request.fua,
        };
        io.submit(device, op, Owner::Request(RequestIo::Write { task: id, logical, run }))
    }

    /// A write that was redirected goes to an SSD after all: it is counted there, and once.
    pub(crate) fn count_returned(&mut self, id: TaskId, io: &mut DeviceIo) {
        let task = &mut self[id];
        assert!(task.target.is_log(), "only a write that was redirected returns");
        task.target = Target::Ssd;
        let length_bytes = task.request.length_bytes;
        let reason = std::mem::replace(&mut task.reason, Reason::Returned);
        io.stats_mut().steered.take_back(reason, length_bytes);
        io.stats_mut().steered.count(Reason::Returned, length_bytes);
        let redirected = &mut io.stats_mut().redirected;
        assert!(
            redirected.0 > 0 && redirected.1 >= length_bytes,
            "a write that returns was counted as redirected"
        );
        redirected.0 -= 1;
        redirected.1 -= length_bytes;
    }

    /// A write that begins or ends within a block: its buffer is laid out in whole blocks.
    pub(crate) fn begin_part_blocks(
        &mut self,
        id: TaskId,
        request: &Request,
        io: &mut DeviceIo,
        store: &Store,
    ) {
        let task = &self[id];
        assert!(task.outstanding == 0, "a buffer is laid out while nothing is written to it");
        let (first, last) = (task.first, task.end - 1);
        let on_ssd = !task.target.is_log();
        let head = (request.offset_bytes % BLOCK_BYTES / SECTOR_BYTES) as u32;
        let end_bytes = request.offset_bytes + request.length_bytes;
        let tail = (end_bytes.next_multiple_of(BLOCK_BYTES) - end_bytes) / SECTOR_BYTES;
        let head_mask = 255u8 << head;
        let tail_mask = 255u8 >> tail;
        let masks =
            if first == last { (head_mask & tail_mask, 255) } else { (head_mask, tail_mask) };
        assert!(masks.0 != 0 && masks.1 != 0, "a write has some sectors of each of its blocks");
        if io.config().contents {
            let buffer = io.name_payload();
            self[id].buffer = buffer;
            let length_bytes = (last - first + 1) * BLOCK_BYTES;
            io.send(Command::Reserve { payload: buffer, length_bytes });
        }
        self[id].base_bytes = 0;
        self[id].masks = masks;
        self[id].outstanding += 1; // held while bases are read
        let edges = [(first, masks.0), (last, if first == last { 255 } else { masks.1 })];
        for (block, mask) in edges {
            if mask == 255 {
                continue;
            }
            let state = store.map.state(block);
            if state & (SSD | FRAGMENTS) == SSD && on_ssd {
                // a write does not wait for a page of checksums: without it the part stays a fragment
                let slot = store.map.entry(block).ssd;
                let known = store.checksums.of_place(block, slot, &store.map);
                let known = known.or((!io.config().contents).then_some(0));
                if let Some(checksum) = known {
                    self.read_base(id, (block, checksum), io, &store.map);
                }
            } else if state == 0 {
                self.mask_whole(id, block);
            }
        }
        self.merge_part_done(id, io, store);
    }

    pub(crate) fn read_base(
        &mut self,
        id: TaskId,
        (block, checksum): (Logical, u32),
        io: &mut DeviceIo,
        map: &Map,
    ) {
        let slot = map.entry(block).ssd;
        let region = *map.slots().region(slot);
        assert!(!region.is_log, "only a base that lies on an SSD is read");
        let task = &mut self[id];
        task.outstanding += 1;
        let op = IoOp::Read {
            offset_bytes: region.address(slot),
            length_bytes: BLOCK_BYTES,
            into: task.buffer,
            into_offset_bytes: task.buffer_offset(block),
        };
        io.stats_mut().merge_reads += 1;
        let owner = Owner::Request(RequestIo::Base { task: id, logical: block, slot, checksum });
        #[cfg(feature = "mutants")]
        if io.breaks(crate::mutant::Mutant::BaseUnpinned) {
            io[region.device].queue.pins_mut().skip_next();
        }
        let whose = self[id].whose();
        io.enqueue(region.device, Class::Read, Job::Io(op, owner), whose);
    }

    /// The block's other sectors are known now: it will be written whole.
    pub(crate) fn mask_whole(&mut self, id: TaskId, block: Logical) {
        let task = &mut self[id];
        assert!(
            block == task.first || block == task.end - 1,
            "only the ends of a write are written in part"
        );
        if block == task.first {
            task.masks.0 = 255;
        } else {
            task.masks.1 = 255;
        }
    }

    /// A base that a part-block write merges with was read.
    pub(crate) fn base_read(
        &mut self,
        id: TaskId,
        (logical, checksum): (Logical, u32),
        ended: Ended<'_>,
        io: &mut DeviceIo,
        store: &Store,
    ) {
        let Ended { status, checksums, .. } = ended;
        let sound = !io.config().contents || checksums == [checksum];
        if let Err(error @ IoError::NoAnswer(_)) = status {
            self[id].unanswered = Some(error);
        } else if status.is_ok() && sound {
            io.stats_mut().merged += 1;
            self.mask_whole(id, logical);
        } else if !sound {
            // the base is damaged: the write itself is kept as a fragment, and only a read of the
            // damaged sectors will fail
            io.stats_mut().checksum_errors += 1;
        }
        self.merge_part_done(id, io, store);
    }

    pub(crate) fn merge_part_done(&mut self, id: TaskId, io: &mut DeviceIo, store: &Store) {
        let task = &mut self[id];
        assert!(task.outstanding > 0, "a base is read once");
        task.outstanding -= 1;
        if task.outstanding > 0 {
            return;
        }
        let (buffer, request) = (task.buffer, task.request);
        if task.unanswered.take().is_some() {
            // the drive may still write to this buffer: it begins again with another one
            if io.config().contents {
                io.send(Command::Release(buffer));
            }
            self.begin_part_blocks(id, &request, io, store);
            return;
        }
        let from_offset_bytes = task.payload_offset_bytes;
        let end_bytes = request.offset_bytes % BLOCK_BYTES + request.length_bytes;
        assert!(
            end_bytes <= task.blocks() * BLOCK_BYTES,
            "the buffer has room for what is written"
        );
        if io.config().contents {
            // the buffer is its own from here on; a part's payload is its parent's
            let shared = std::mem::take(&mut task.retained);
            io.send(Command::Copy {
                from: request.payload,
                from_offset_bytes,
                into: buffer,
                into_offset_bytes: request.offset_bytes % BLOCK_BYTES,
                length_bytes: request.length_bytes,
            });
            if shared {
                io.let_buffer_go(request.payload);
            } else {
                io.send(Command::Release(request.payload));
            }
        }
        self.queue_write(id, io);
    }

    pub(crate) fn note_first_command(&mut self, owner: &Owner, io: &mut DeviceIo) {
        if let Owner::Request(of) = owner
            && !matches!(of, RequestIo::Write { .. } | RequestIo::Edge { .. })
        {
            self.mark_started(of.task(), io);
        }
    }

    pub(crate) fn wait_for_space(&mut self, job: &Job, io: &mut DeviceIo) {
        io.note_wait_for_space();
        if let Job::Write { task, .. } = job {
            let now = io.now();
            self[*task].short_of_space_since.get_or_insert(now);
        }
    }
}
