//! The edges of a zeroing that begins or ends within a block.
//!
//! Source: design decision 9: a write never waits for a hard drive's read. Its buffer is laid out in
//! whole blocks; the base is read and merged if it lies on an SSD, otherwise the part is kept as a
//! fragment.

use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::map::{Logical, Map, Run, Touch};
use crate::migration::Migration;
use crate::migration::tail::Written;
use crate::mutant::Mutant;
use crate::owner::{Ended, Owner, RequestIo};
use crate::port::{Command, IoOp};
use crate::requests::ordering::TaskId;
use crate::requests::{Next, Requests};
use crate::steer::Target;
use crate::store::Store;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, SECTOR_BYTES};

impl Requests {
    /// Part blocks at the ends of a zeroing: zeroes over the sectors, as fragments.
    pub(crate) fn write_zero_edges(
        &mut self,
        id: TaskId,
        head: bool,
        tail: bool,
        map: &Map,
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
        assert!(
            edges.iter().all(|&(_, mask)| mask != 0 && mask != 255),
            "an edge is some sectors of a block, not none or all"
        );
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

    /// An edge's turn has come. False: no space yet.
    pub(crate) fn issue_edge(
        &self,
        device: DeviceId,
        id: TaskId,
        (block, mask): (Logical, u8),
        store: &mut Store,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let run = match io.ssds().iter().position(|&d| d == device) {
            Some(ssd) => store.map.allocate_on(ssd, 1),
            None => {
                let has_ssd = !io.ssds().is_empty();
                let log = io[device].log.as_ref();
                let has_room = log.is_some_and(|log| log.free_slots_of_users(has_ssd) > 0);
                has_room
                    .then(|| {
                        migration.read_back.append_to_log(
                            device,
                            1,
                            true,
                            io,
                            &mut migration.promotions,
                        )
                    })
                    .flatten()
            }
        };
        let Some(run) = run else { return false };
        let region = store.map.slots().region(run.slot);
        assert!(region.device == device && run.count == 1, "an edge takes one slot of its drive");
        let task = &self[id];
        assert!(task.outstanding > 0 && !task.is_answered, "a zeroing waits for its edges");
        let op = IoOp::Write {
            offset_bytes: region.address(run.slot),
            length_bytes: BLOCK_BYTES,
            from: task.buffer,
            from_offset_bytes: 0,
            fua: task.request.fua,
        };
        io.submit(
            device,
            op,
            Owner::Request(RequestIo::Edge { task: id, logical: block, run, mask }),
        );
        true
    }

    /// An edge of zeroes is on its device.
    pub(crate) fn edge_done(
        &mut self,
        (id, block, run, mask): (TaskId, Logical, Run, u8),
        ended: Ended<'_>,
        store: &mut Store,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, checksums, .. } = ended;
        let task = &self[id];
        assert!(
            run.count == 1 && (block == task.first || block == task.end - 1),
            "an edge is a block at an end of its request"
        );
        if let Err(error) = status {
            let before = self[id].status;
            self.write_failed(device, id, run, error, store, io);
            let task = &mut self[id];
            task.target = Target::Ssd;
            if let (IoError::NoAnswer(_), Some(other)) = (error, io.another_ssd(device)) {
                self[id].status = before;
                let whose = self[id].whose();
                io.enqueue(other, Class::Write, Job::Edge { task: id, block, mask }, whose);
                return;
            }
        } else {
            let checksum = checksums.first().copied().unwrap_or(0);
            if store.map.assign_fragment(block, run.slot, mask, checksum) {
                self[id].over_base = true;
            } else {
                store.map.assign(block, run.slot, checksum);
            }
            let fua = self[id].request.fua;
            if fua {
                store.map.note_durable(run.slot);
            } else if store.map.slots().is_log(run.slot) {
                migration.tail_copies.retain_for_tail(
                    id,
                    Written { device, logical: block, run, offset_bytes: 0, stays: false },
                    io,
                    &mut store.map,
                    self,
                );
                migration.read_back.keep_for_reads(id, run, 0, io, &store.map, self);
            }
            store.commit.note_pending(io.now());
            if io.breaks(Mutant::AwaitsNeedlessFlush) {
                store.map.note_log_volatile(run.slot, u64::MAX);
            }
            store.map.touch(Touch { logical: block, count: 1 }, run.slot, fua);
        }
        let task = &mut self[id];
        assert!(task.outstanding > 0, "an edge ends once");
        task.outstanding -= 1;
        if task.outstanding == 0 {
            self.lead_to(Next::Written(id));
        }
    }
}
