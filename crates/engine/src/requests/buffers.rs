//! Buffers of requests: what is laid over a read, and what is kept beyond a write.

use crate::io::DeviceIo;
use crate::log::read_back::{Found, Keeper};
use crate::map::Logical;
use crate::port::Command;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use tandem_block::{BLOCK_BYTES, PayloadId, RequestKind};

impl Requests {
    pub(crate) fn copy_from_ram(
        &mut self,
        id: TaskId,
        found: &Found,
        (into, into_offset_bytes): (PayloadId, u64),
        count: u64,
        io: &mut DeviceIo,
    ) {
        let length_bytes = count * BLOCK_BYTES;
        assert!(0 < count && count <= found.count, "RAM answers no more than it has");
        if io.config().contents {
            assert!(into != PayloadId::NONE, "what is read from RAM has a buffer to go to");
            io.send(Command::Copy {
                from: found.payload,
                from_offset_bytes: found.offset_bytes,
                into,
                into_offset_bytes,
                length_bytes,
            });
        }
        if self[id].request.kind == RequestKind::Background {
            return;
        }
        self[id].from_read_back = true;
        let stats = &mut io.stats_mut().read_back;
        match found.keeper {
            Keeper::Tail => stats.from_tail.count(length_bytes),
            Keeper::Cache => stats.from_cache.count(length_bytes),
        }
    }

    /// The block is read again as it is now: fragments of what it was do not belong to that.
    pub(crate) fn drop_overlays(&mut self, id: TaskId, block: Logical) {
        let task = &mut self[id];
        let at_bytes = task.buffer_offset(block);
        let old = task.overlays.iter_mut().filter(|overlay| overlay.at_bytes == at_bytes);
        old.for_each(|overlay| overlay.mask = 0);
    }

    /// Lays fragments over the bases that were read.
    pub(crate) fn lay_over(&mut self, id: TaskId, io: &mut DeviceIo) {
        let into = self[id].buffer;
        assert!(self[id].outstanding == 0, "fragments are laid over what was read before");
        for overlay in std::mem::take(&mut self[id].overlays) {
            if !io.config().contents {
                continue;
            }
            assert!(into != PayloadId::NONE, "a read with fragments has a buffer");
            io.copy_sectors(overlay.from, into, overlay.at_bytes, overlay.mask);
            io.send(Command::Release(overlay.from));
        }
    }

    /// One more user of a task's buffer, which stays beyond the request.
    pub(crate) fn retain_buffer(&mut self, id: TaskId, io: &mut DeviceIo) -> PayloadId {
        let task = &mut self[id];
        assert!(!task.is_answered, "a buffer is kept before its request ends");
        let payload = task.buffer;
        if !task.retained {
            task.retained = true;
            io.hold_buffer(payload);
        }
        io.hold_buffer(payload);
        payload
    }
}
