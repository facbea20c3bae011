//! What becomes of a write, or a zeroing, that begins or ends within a block?
//!
//! Source: design decision 9: a write never waits for a hard drive's read. Its buffer is laid out in
//! whole blocks; the base is read and merged if it lies on an SSD, otherwise the part is kept as a
//! fragment.

use crate::device::{Class, Job};
use crate::engine::Engine;
use crate::map::logical::{FRAGMENTS, SSD};
use crate::map::{Logical, Run, Slot, Touch};
use crate::mutant::Mutant;
use crate::owner::{Owner, RequestIo};
use crate::port::{Command, IoOp};
use crate::requests::ordering::TaskId;
use crate::steer::Target;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, Request, SECTOR_BYTES};

impl Engine {
    /// A write that begins or ends within a block: its buffer is laid out in whole blocks.
    pub(super) fn begin_part_blocks(&mut self, id: TaskId, request: &Request) {
        let task = &self.requests[id];
        let (first, last) = (task.first, task.end - 1);
        let on_ssd = !task.target.is_log();
        let head = (request.offset_bytes % BLOCK_BYTES / SECTOR_BYTES) as u32;
        let end_bytes = request.offset_bytes + request.length_bytes;
        let tail = (end_bytes.next_multiple_of(BLOCK_BYTES) - end_bytes) / SECTOR_BYTES;
        let head_mask = 255u8 << head;
        let tail_mask = 255u8 >> tail;
        let masks =
            if first == last { (head_mask & tail_mask, 255) } else { (head_mask, tail_mask) };
        if self.io.config().contents {
            let buffer = self.io.name_payload();
            self.requests[id].buffer = buffer;
            let length_bytes = u64::from(last - first + 1) * BLOCK_BYTES;
            self.io.send(Command::Reserve { payload: buffer, length_bytes });
        }
        self.requests[id].base_bytes = 0;
        self.requests[id].masks = masks;
        self.requests[id].outstanding += 1; // held while bases are read
        let edges = [(first, masks.0), (last, if first == last { 255 } else { masks.1 })];
        for (block, mask) in edges {
            if mask == 255 {
                continue;
            }
            let state = self.map.state(block);
            if state & (SSD | FRAGMENTS) == SSD && on_ssd {
                self.read_base(id, block);
            } else if state == 0 {
                self.mask_whole(id, block);
            }
        }
        self.merge_part_done(id);
    }

    fn read_base(&mut self, id: TaskId, block: Logical) {
        let slot = self.map.entry(block).ssd;
        let region = *self.map.slots().region(slot);
        let task = &mut self.requests[id];
        task.outstanding += 1;
        let op = IoOp::Read {
            offset_bytes: region.address(slot),
            length_bytes: BLOCK_BYTES,
            into: task.buffer,
            into_offset_bytes: task.buffer_offset(block),
        };
        self.io.stats_mut().merge_reads += 1;
        let owner = Owner::Request(RequestIo::Base { task: id, logical: block, slot });
        #[cfg(feature = "mutants")]
        if self.io.breaks(crate::mutant::Mutant::BaseUnpinned) {
            self.io[region.device].queue.pins_mut().skip_next();
        }
        let whose = self.requests[id].whose();
        self.io.enqueue(region.device, Class::Read, Job::Io(op, owner), whose);
    }

    /// The block's other sectors are known now: it will be written whole.
    fn mask_whole(&mut self, id: TaskId, block: Logical) {
        let task = &mut self.requests[id];
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
        logical: Logical,
        slot: Slot,
        status: Result<(), IoError>,
        checksums: &[u32],
    ) {
        let sound = !self.io.config().contents || checksums == [self.map.slots().checksum(slot)];
        if let Err(error @ IoError::NoAnswer(_)) = status {
            self.requests[id].unanswered = Some(error);
        } else if status.is_ok() && sound {
            self.io.stats_mut().merged += 1;
            self.mask_whole(id, logical);
        } else if !sound {
            // the base is damaged: the write itself is kept as a fragment, and only a read of the
            // damaged sectors will fail
            self.io.stats_mut().checksum_errors += 1;
        }
        self.merge_part_done(id);
    }

    fn merge_part_done(&mut self, id: TaskId) {
        let task = &mut self.requests[id];
        task.outstanding -= 1;
        if task.outstanding > 0 {
            return;
        }
        let (buffer, request) = (task.buffer, task.request);
        if task.unanswered.take().is_some() {
            // the drive may still write to this buffer: it begins again with another one
            if self.io.config().contents {
                self.io.send(Command::Release(buffer));
            }
            self.begin_part_blocks(id, &request);
            return;
        }
        let from_offset_bytes = task.payload_offset_bytes;
        if self.io.config().contents {
            // the buffer is its own from here on; a part's payload is its parent's
            let shared = std::mem::take(&mut task.retained);
            self.io.send(Command::Copy {
                from: request.payload,
                from_offset_bytes,
                into: buffer,
                into_offset_bytes: request.offset_bytes % BLOCK_BYTES,
                length_bytes: request.length_bytes,
            });
            if shared {
                self.io.let_buffer_go(request.payload);
            } else {
                self.io.send(Command::Release(request.payload));
            }
        }
        self.queue_write(id);
    }

    /// Part blocks at the ends of a zeroing: zeroes over the sectors, as fragments.
    pub(crate) fn write_zero_edges(&mut self, id: TaskId, head: bool, tail: bool) {
        let task = &self.requests[id];
        let request = task.request;
        let (first, last) = (task.first, task.end - 1);
        let head_sectors = (request.offset_bytes % BLOCK_BYTES / SECTOR_BYTES) as u32;
        let end_bytes = request.offset_bytes + request.length_bytes;
        let tail_sectors = (end_bytes.next_multiple_of(BLOCK_BYTES) - end_bytes) / SECTOR_BYTES;
        let mut edges = Vec::new();
        if first == last {
            edges.push((first, 255u8 << head_sectors & 255u8 >> tail_sectors));
        } else {
            if head {
                edges.push((first, 255u8 << head_sectors));
            }
            if tail {
                edges.push((last, 255u8 >> tail_sectors));
            }
        }
        edges.retain(|&(block, _)| self.map.state(block) != 0);
        self.requests[id].started = self.io.now();
        if edges.is_empty() {
            self.finish_write(id);
            return;
        }
        if self.io.config().contents {
            let buffer = self.io.name_payload();
            self.requests[id].buffer = buffer;
            self.io.send(Command::Reserve { payload: buffer, length_bytes: BLOCK_BYTES });
        }
        self.requests[id].outstanding = edges.len() as u32;
        for (block, mask) in edges {
            let device = if self.io.ssds().is_empty() {
                self.io.hdds()[0]
            } else {
                self.io.shortest_ssd().0
            };
            let now = self.io.now();
            if let Some(bcw) = &mut self.io[device].bcw {
                bcw.commit(now, BLOCK_BYTES);
            }
            let whose = self.requests[id].whose();
            self.io.enqueue(device, Class::Write, Job::Edge { task: id, block, mask }, whose);
        }
    }

    /// An edge's turn has come. False: no space yet.
    pub(crate) fn issue_edge(
        &mut self,
        device: DeviceId,
        id: TaskId,
        block: Logical,
        mask: u8,
    ) -> bool {
        let run = match self.io.ssds().iter().position(|&d| d == device) {
            Some(ssd) => self.map.allocate_on(ssd, 1),
            None => {
                let has_ssd = !self.io.ssds().is_empty();
                let log = self.io[device].log.as_ref();
                let has_room = log.is_some_and(|log| log.free_slots_of_users(has_ssd) > 0);
                has_room.then(|| self.append_to_log(device, 1, true)).flatten()
            }
        };
        let Some(run) = run else { return false };
        let task = &self.requests[id];
        let op = IoOp::Write {
            offset_bytes: self.map.slots().region(run.slot).address(run.slot),
            length_bytes: BLOCK_BYTES,
            from: task.buffer,
            from_offset_bytes: 0,
            fua: task.request.fua,
        };
        self.io.submit(
            device,
            op,
            Owner::Request(RequestIo::Edge { task: id, logical: block, run, mask }),
        );
        true
    }

    /// An edge of zeroes is on its device.
    pub(crate) fn edge_done(
        &mut self,
        device: DeviceId,
        edge: (TaskId, Logical, Run, u8),
        status: Result<(), IoError>,
        checksums: &[u32],
    ) {
        let (id, block, run, mask) = edge;
        if let Err(error) = status {
            let before = self.requests[id].status;
            self.write_failed(device, id, run, error);
            let task = &mut self.requests[id];
            task.target = Target::Ssd;
            if let (IoError::NoAnswer(_), Some(other)) = (error, self.another_ssd(device)) {
                self.requests[id].status = before;
                let whose = self.requests[id].whose();
                self.io.enqueue(other, Class::Write, Job::Edge { task: id, block, mask }, whose);
                return;
            }
        } else {
            let checksum = checksums.first().copied().unwrap_or(0);
            if self.map.assign_fragment(block, run.slot, mask, checksum) {
                self.requests[id].over_base = true;
            } else {
                self.map.assign(block, run.slot, checksum);
            }
            let fua = self.requests[id].request.fua;
            if fua {
                self.map.note_settled(run.slot);
            } else if self.map.slots().is_log(run.slot) {
                self.retain_for_tail(device, id, block, run, 0);
                self.keep_for_reads(id, run, 0);
            }
            self.commit.note_pending(self.io.now());
            if self.io.breaks(Mutant::AwaitsNeedlessFlush) {
                self.map.note_log_unsettled(run.slot, u64::MAX);
            }
            self.map.touch(Touch { logical: block, count: 1 }, run.slot, fua);
        }
        let task = &mut self.requests[id];
        task.outstanding -= 1;
        if task.outstanding == 0 {
            self.finish_write(id);
        }
    }
}
