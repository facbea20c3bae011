//! What becomes of a write, or a zeroing, that begins or ends within a block?
//!
//! Source: design decision 9: a write never waits for a hard drive's read. Its buffer is laid out in
//! whole blocks; the base is read and merged if it lies on an SSD, otherwise the part is kept as a
//! fragment.

use crate::device::{Class, Job};
use crate::engine::Engine;
use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::{Logical, Run, Touch};
use crate::mutant::Mutant;
use crate::ops::tail::Written;
use crate::owner::{Owner, RequestIo};
use crate::port::{Command, IoOp};
use crate::requests::Next;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::steer::Target;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, SECTOR_BYTES};

impl Requests {
    /// Part blocks at the ends of a zeroing: zeroes over the sectors, as fragments.
    pub(crate) fn write_zero_edges(
        &mut self,
        id: TaskId,
        head: bool,
        tail: bool,
        map: &mut Map,
        io: &mut DeviceIo,
    ) {
        let task = &self[id];
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
        edges.retain(|&(block, _)| map.state(block) != 0);
        self[id].started = io.now();
        if edges.is_empty() {
            self.lead_to(Next::Written(id));
            return;
        }
        if io.config().contents {
            let buffer = io.name_payload();
            self[id].buffer = buffer;
            io.send(Command::Reserve { payload: buffer, length_bytes: BLOCK_BYTES });
        }
        self[id].outstanding = edges.len() as u32;
        for (block, mask) in edges {
            let device = if io.ssds().is_empty() { io.hdds()[0] } else { io.shortest_ssd().0 };
            let now = io.now();
            if let Some(bcw) = &mut io[device].bcw {
                bcw.commit(now, BLOCK_BYTES);
            }
            let whose = self[id].whose();
            io.enqueue(device, Class::Write, Job::Edge { task: id, block, mask }, whose);
        }
    }
}

impl Engine {
    /// An edge's turn has come. False: no space yet.
    pub(crate) fn issue_edge(
        &mut self,
        device: DeviceId,
        id: TaskId,
        block: Logical,
        mask: u8,
    ) -> bool {
        let run = match self.io.ssds().iter().position(|&d| d == device) {
            Some(ssd) => self.store.map.allocate_on(ssd, 1),
            None => {
                let has_ssd = !self.io.ssds().is_empty();
                let log = self.io[device].log.as_ref();
                let has_room = log.is_some_and(|log| log.free_slots_of_users(has_ssd) > 0);
                has_room
                    .then(|| {
                        self.migration.read_back.append_to_log(
                            device,
                            1,
                            true,
                            &mut self.io,
                            &mut self.migration.promotions,
                        )
                    })
                    .flatten()
            }
        };
        let Some(run) = run else { return false };
        let task = &self.requests[id];
        let op = IoOp::Write {
            offset_bytes: self.store.map.slots().region(run.slot).address(run.slot),
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
            self.requests.write_failed(device, id, run, error, &mut self.store, &mut self.io);
            let task = &mut self.requests[id];
            task.target = Target::Ssd;
            if let (IoError::NoAnswer(_), Some(other)) = (error, self.io.another_ssd(device)) {
                self.requests[id].status = before;
                let whose = self.requests[id].whose();
                self.io.enqueue(other, Class::Write, Job::Edge { task: id, block, mask }, whose);
                return;
            }
        } else {
            let checksum = checksums.first().copied().unwrap_or(0);
            if self.store.map.assign_fragment(block, run.slot, mask, checksum) {
                self.requests[id].over_base = true;
            } else {
                self.store.map.assign(block, run.slot, checksum);
            }
            let fua = self.requests[id].request.fua;
            if fua {
                self.store.map.note_durable(run.slot);
            } else if self.store.map.slots().is_log(run.slot) {
                self.migration.tail_copies.retain_for_tail(
                    id,
                    Written { device, logical: block, run, offset_bytes: 0 },
                    &mut self.io,
                    &mut self.store.map,
                    &mut self.requests,
                );
                self.migration.read_back.keep_for_reads(
                    id,
                    run,
                    0,
                    &mut self.io,
                    &mut self.store.map,
                    &mut self.requests,
                );
            }
            self.store.commit.note_pending(self.io.now());
            if self.io.breaks(Mutant::AwaitsNeedlessFlush) {
                self.store.map.note_log_volatile(run.slot, u64::MAX);
            }
            self.store.map.touch(Touch { logical: block, count: 1 }, run.slot, fua);
        }
        let task = &mut self.requests[id];
        task.outstanding -= 1;
        if task.outstanding == 0 {
            self.requests.lead_to(Next::Written(id));
        }
    }
}
