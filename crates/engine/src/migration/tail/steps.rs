//! Unflushed tails of logs, step by step: a flush, or a copy on an SSD.

use super::{copying_is_cheaper, is_beyond_rescue, leave_tail, settle_item};
use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::requests::ordering::TaskId;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, DurabilityClass, IoError};

impl Requests {
    /// A part of a write whose user waits for that is on the SSD too, or could not be brought there. A journaled
    /// one then waits for the drive's flush. Another one was to be in two places, and has to do with one.
    pub(crate) fn copied(&mut self, id: TaskId, copied: bool) {
        let task = &mut self[id];
        task.exposed |= !copied && task.request.class == DurabilityClass::Journaled;
        assert!(task.outstanding > 0, "a write waits for each of its copies");
        task.outstanding -= 1;
        if task.outstanding == 0 {
            self.lead_to(Next::Written(id));
        }
    }
}

impl Migration {
    /// Brings the tail of a drive nearer to being safe. True: it is, or nothing in it matters.
    pub(crate) fn settle_tail(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let d = &io[device];
        // writes that wait for room in the log may have to wait for what this settles
        let promoting = !io.waits_for_space()
            && d.queue.jobs(Class::Write).any(|job| matches!(job, Job::Write { .. }));
        let busy = promoting
            || (d.queue.in_flight() > 0 && d.flushing.is_none() && io.log_write_in_flight(device));
        if busy {
            return false;
        }
        if d.tail.items.iter().all(|item| item.copied) {
            return io.is_copied(device);
        }
        if d.flushing.is_some() || d.flush_wanted {
            return false;
        }
        let copies = d.is_faulted() && !io.ssds().is_empty();
        if copies || (!d.tail.copy_failed && copying_is_cheaper(device, io, &store.map)) {
            self.tail_copies.copy_tail(device, io, &mut store.map, requests);
            // where nothing of it is needed any more nothing was sent, and nobody would ask again
            if copies && is_beyond_rescue(device, io, &self.moves, &store.deferred_free) {
                store.commit.tails_failed(IoError::Dead(device));
                return false;
            }
            return io.is_copied(device);
        }
        io[device].flush_wanted = true;
        false
    }

    /// A flush of a hard drive ended.
    pub(crate) fn hdd_flush_done(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let now = io.now();
        let d = &mut io[device];
        let flush = d.flushing.take().expect("a flush was under way");
        if let Some(bcw) = &mut d.bcw {
            bcw.flush_done(now, status.is_ok());
        }
        if let Err(error) = status {
            store.metadata.fault(device, error, io);
            // also homes whose writes ended after the drive had been taken out of service
            self.moves.lose_homed(
                device,
                &mut store.map,
                &mut volumes.objects,
                &mut self.evacuation,
                io,
            );
            if io.ssds().is_empty() {
                // the drive may have lost what it acknowledged, and nobody else has it
                store.commit.tails_failed(error);
                store.commit.break_off(error);
            } else {
                leave_tail(device, &mut store.map, io);
            }
            return;
        }
        store.probed(device, status, volumes, policy, io);
        store.metadata_replica.flush_ended(device, io);
        let d = &mut io[device];
        d.flush_costs().flushed(now);
        assert!(flush.items <= d.tail.items.len(), "a tail only grows while its drive is flushed");
        d.tail.copy_failed = false;
        let mut durable = Vec::with_capacity(flush.items);
        for _ in 0..flush.items {
            let item = d.tail.items.pop_front().expect("the tail only grows at its end");
            let bytes = item.run.count * BLOCK_BYTES;
            let exposed_bytes = if item.copied { 0 } else { bytes };
            assert!(d.tail.bytes >= bytes, "a tail counts each of its writes");
            assert!(d.tail.exposed_bytes >= exposed_bytes, "what has no copy is exposed");
            d.tail.bytes -= bytes;
            d.tail.exposed_bytes -= exposed_bytes;
            durable.push(item);
        }
        assert!(!d.tail.items.is_empty() || d.tail.bytes == 0, "an empty tail has no bytes");
        assert!(d.tail.exposed_bytes <= d.tail.bytes, "what is exposed of a tail is a part of it");
        for item in durable {
            settle_item(&item, &mut store.map, &mut self.read_back, &policy.tiers, io);
        }
        store.commit.note_pending(now);
        self.homes_durable(device, flush.home_mark, store, volumes, policy, io);
    }
}
