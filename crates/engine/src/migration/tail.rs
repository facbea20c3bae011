//! What steps make a hard drive's recent log writes durable?
//!
//! Source: design decision 8. A drive may destage in any order, so its *tail* is everything written
//! to its log since its last successful flush. A FLUSH takes the cheaper way: flush the drive, or
//! copy the tail from RAM to ordinary SSD slots and record both places. The SSD copies are given up
//! when a flush of the drive itself has succeeded and that is recorded.
//!
//! Where a tier wants a write in both places at once ([LORIS §II]: write-through forwards writes "to both the
//! cached SSD copy and the primary disk copy"), its copy is the cache's. It stays behind the flush, as a clean copy
//! beside the place in the log, as long as the tier holds its extent.

mod steps;

use crate::device::{HddFlush, TailItem};
use crate::io::DeviceIo;
use crate::log::read_back::ReadBack;
use crate::map::beside_logs::leave_log;
use crate::map::entry::{LOG, SSD};
use crate::map::{Logical, Map, NONE, Run, Slot, SlotRegion, Touch};
use crate::metadata_replica::MetadataReplica;
use crate::migration::moves::Moves;
use crate::migration::read_back::names;
use crate::mutant::Mutant;
use crate::owner::{LogIo, Owner, TailCopy};
use crate::policy::steering::Steering;
use crate::port::IoOp;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::reuse::DeferredFree;
use crate::tiering::Tiers;
use std::ops::Range;
use tandem_block::{BLOCK_BYTES, DeviceId, DurabilityClass, Duration, Instant, IoError, PayloadId};

/// Tail copies in flight at once.
const COPIES_IN_FLIGHT_MAX: usize = 16;
/// Slots of a log that died which are looked at in one turn at most.
const LOOKS_MAX: u64 = 16_384;
/// Places that were left and that no record has freed: with more of them no log is given up.
const LEFT_MAX: usize = 1 << 17;
/// How long after that the next ones are looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_ms(1);
/// Number of a write that its drive does not keep volatile.
const IN_NO_TAIL: u64 = u64::MAX;

/// Copies of unflushed log writes that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct TailCopies {
    /// Each with the buffer that it is written from.
    under_way: Vec<(TailCopy, PayloadId)>,
    /// What a drive that failed holds unflushed is not yet safe.
    rescue_wanted: bool,
    /// Logs that died with their drives, as far as copies beside them were not yet looked for.
    lost_logs: Vec<Range<Slot>>,
    /// When they are looked for next.
    looks_at_logs: Instant,
}

/// Blocks that a log has just taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) device: DeviceId,
    pub(crate) logical: Logical,
    pub(crate) run: Run,
    /// Where in the request's buffer they are.
    pub(crate) offset_bytes: u64,
    /// Their user waits for a copy on an SSD, which stays there.
    pub(crate) stays: bool,
}

impl TailCopies {
    /// How many are under way?
    #[inline]
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// A drive failed: what it holds unflushed is copied as soon as there is space.
    pub(crate) fn want_rescue(&mut self) {
        self.rescue_wanted = true;
    }

    /// A drive gives no answer any more. A copy on an SSD beside a place in its log stands alone, and the journal has to
    /// say so: a start believes the log, which is nowhere by then.
    pub(crate) fn lose_log(&mut self, device: DeviceId, map: &Map, io: &DeviceIo) {
        let regions = map.slots().regions().iter();
        let lost = regions.filter(|region| region.is_log && region.device == device);
        self.lost_logs.extend(lost.map(SlotRegion::slots));
        self.looks_at_logs = io.now();
    }

    /// When the next places of a log that died are to be given up.
    pub(crate) fn lost_logs_due(&self) -> Instant {
        if self.lost_logs.is_empty() { Instant::NEVER } else { self.looks_at_logs }
    }

    /// Gives up places in logs that died, some at a time.
    fn leave_lost_logs(&mut self, map: &mut Map, commit: &mut Commit, io: &DeviceIo) {
        if self.lost_logs.is_empty() || io.now() < self.looks_at_logs {
            return;
        }
        if map.population().log_copies() == 0 || commit.is_broken() {
            self.lost_logs.clear();
            return;
        }
        self.looks_at_logs = io.now() + LOOK_AGAIN_AFTER;
        if map.displaced_count() > LEFT_MAX {
            return; // the commit that is due records them
        }
        let Some(log) = self.lost_logs.last_mut() else { return };
        let (first, count) = (log.start, LOOKS_MAX.min(log.end - log.start));
        log.start += count;
        if log.is_empty() {
            self.lost_logs.pop();
        }
        let owners: Vec<_> = map.slots().log_owners((first, count)).collect();
        for (slot, block) in owners {
            if leave_log(map, block, slot, |drive| io[drive].is_out()) {
                commit.note_pending(io.now());
            }
        }
    }

    /// A copy has ended; returns the buffer that it was written from.
    fn ended(&mut self, copy: &TailCopy) -> PayloadId {
        let at = self.under_way.iter().position(|(known, _)| known == copy);
        self.under_way.swap_remove(at.expect("every copy under way is listed")).1
    }

    /// A log write was acknowledged by the drive: it joins the tail, and its bytes stay in RAM. Those
    /// of a journaled volume are copied to an SSD at once, and their user waits for that. So is what a tier wants
    /// in both places, whether or not the drive keeps anything volatile.
    pub(crate) fn retain_for_tail(
        &mut self,
        id: TaskId,
        written: Written,
        io: &mut DeviceIo,
        map: &mut Map,
        requests: &mut Requests,
    ) {
        let Written { device, logical, run, offset_bytes, stays } = written;
        assert!(
            map.slots().is_log(run.slot) && map.slots().region(run.slot).device == device,
            "a tail has what lies in the log of its drive"
        );
        if !io[device].is_volatile() {
            if stays {
                self.copy_beside(id, written, io, map, requests);
            }
            return;
        }
        let tail = &mut io[device].tail;
        let write = tail.writes;
        assert!(
            tail.items.back().is_none_or(|last| last.write < write),
            "the writes of a tail are numbered in their order"
        );
        tail.writes += 1;
        for slot in run.slot..run.slot + run.count {
            map.note_log_volatile(slot, write);
        }
        let payload = requests.retain_buffer(id, io);
        let mut item =
            TailItem { write, logical, run, payload, offset_bytes, copied: false, stays };
        let is_journaled = requests[id].request.class == DurabilityClass::Journaled;
        if is_journaled || stays {
            item.copied = self.copy_item(&item, Some(id), io, map, requests);
            // without room for a copy its user waits for the drive's flush; a cache does without it
            requests[id].exposed |= is_journaled && !item.copied;
            io.stats_mut().copies_forgone += if stays && !item.copied { run.count } else { 0 };
        }
        let bytes = run.count * BLOCK_BYTES;
        let tail = &mut io[device].tail;
        tail.bytes += bytes;
        tail.exposed_bytes += if item.copied { 0 } else { bytes };
        assert!(tail.exposed_bytes <= tail.bytes, "what is exposed of a tail is a part of it");
        tail.items.push_back(item);
        let at_risk = io.bytes_at_risk();
        io.stats_mut().bytes_at_risk_max = io.stats().bytes_at_risk_max.max(at_risk);
    }

    /// Copies a log write that was durable when its drive acknowledged it, so that it is in no tail.
    fn copy_beside(
        &mut self,
        id: TaskId,
        written: Written,
        io: &mut DeviceIo,
        map: &mut Map,
        requests: &mut Requests,
    ) {
        let Written { logical, run, offset_bytes, .. } = written;
        let payload = requests.retain_buffer(id, io);
        let item = TailItem {
            write: IN_NO_TAIL,
            logical,
            run,
            payload,
            offset_bytes,
            copied: false,
            stays: true,
        };
        if !self.copy_item(&item, Some(id), io, map, requests) {
            io.stats_mut().copies_forgone += run.count;
        }
        io.let_buffer_go(payload);
    }

    pub(crate) fn copy_tail(
        &mut self,
        device: DeviceId,
        io: &mut DeviceIo,
        map: &mut Map,
        requests: &mut Requests,
    ) {
        let mut in_flight = io.copies_in_flight(device);
        let mut index = 0;
        while in_flight < COPIES_IN_FLIGHT_MAX {
            let items = &mut io[device].tail.items;
            let Some(position) = items.iter().skip(index).position(|item| !item.copied) else {
                return;
            };
            index += position;
            let item = items[index];
            let alive = (0..item.run.count).any(|i| {
                let (block, slot) = (item.logical + i, item.run.slot + i);
                names(map, block, slot) && holds(map, io, slot, item.write)
            });
            if alive && !self.copy_item(&item, None, io, map, requests) {
                return; // no SSD space just now
            }
            let tail = &mut io[device].tail;
            let bytes = item.run.count * BLOCK_BYTES;
            assert!(tail.exposed_bytes >= bytes, "what has no copy yet is exposed");
            tail.items[index].copied = true;
            tail.exposed_bytes -= bytes;
            in_flight += usize::from(alive);
        }
    }

    /// Copies an item to the SSDs, for `task` if somebody waits for it. False: there is no room.
    pub(crate) fn copy_item(
        &mut self,
        item: &TailItem,
        task: Option<TaskId>,
        io: &mut DeviceIo,
        map: &mut Map,
        requests: &mut Requests,
    ) -> bool {
        assert!(!item.copied && item.run.count > 0, "what has no copy yet is copied");
        if map.ssd_free() < item.run.count {
            return false;
        }
        let mut done = 0;
        while done < item.run.count {
            let run = map.allocate_ssd(item.run.count - done).expect("counted above");
            let region = *map.slots().region(run.slot);
            let op = IoOp::Write {
                offset_bytes: region.address(run.slot),
                length_bytes: run.count * BLOCK_BYTES,
                from: item.payload,
                from_offset_bytes: item.offset_bytes + done * BLOCK_BYTES,
                fua: false,
            };
            let (logical, log) = (item.logical + done, item.run.slot + done);
            let stays = item.stays && task.is_some();
            let copy = TailCopy { task, write: item.write, logical, log, run, stays };
            if let Some(id) = task {
                requests[id].outstanding += 1;
            }
            io.hold_buffer(item.payload);
            self.under_way.push((copy.clone(), item.payload));
            io.submit(region.device, op, Owner::Log(LogIo::Copy(Box::new(copy))));
            done += run.count;
        }
        true
    }

    /// Rewrites the tails of faulted drives to the SSD, as space allows.
    pub(crate) fn rescue_tails(
        &mut self,
        io: &mut DeviceIo,
        map: &mut Map,
        commit: &mut Commit,
        requests: &mut Requests,
    ) {
        self.leave_lost_logs(map, commit, io);
        if !self.rescue_wanted || io.ssds().is_empty() {
            return;
        }
        let mut left = false;
        for index in 0..io.hdds().len() {
            let device = io.hdds()[index];
            if io[device].is_faulted() {
                self.copy_tail(device, io, map, requests);
                left |= io[device].tail.items.iter().any(|i| !i.copied);
            }
        }
        self.rescue_wanted = left;
    }
}

/// Does a log's place still hold, volatile, what this write left there? A log is written over, and its
/// place may belong to the same block again.
fn holds(map: &Map, io: &DeviceIo, slot: Slot, write: u64) -> bool {
    match io.breaks(Mutant::TailByPlace) {
        true => map.is_log_volatile(slot),
        false => map.is_log_volatile_by(slot, write),
    }
}

fn copying_is_cheaper(device: DeviceId, io: &DeviceIo, map: &Map) -> bool {
    if io.ssds().is_empty() {
        return false;
    }
    let d = &io[device];
    let flush_ns = d.bcw.as_ref().map_or(0, |bcw| bcw.flush_cost_ns());
    let bytes: u64 = d
        .tail
        .items
        .iter()
        .filter(|item| !item.copied)
        .map(|item| item.run.count * BLOCK_BYTES)
        .sum();
    let ssd = io[io.ssds()[0]].config.ssd_profile;
    let copy_ns = u128::from(bytes) * 1_000_000_000 / u128::from(ssd.write_bytes_per_s.max(1));
    copy_ns + u128::from(ssd.flush_ns) < u128::from(flush_ns)
        && map.ssd_free() * BLOCK_BYTES > 2 * bytes
}

/// Does a hard drive that failed hold what there is no room for on the SSDs, and does nothing under way
/// make any?
fn is_beyond_rescue(
    device: DeviceId,
    io: &DeviceIo,
    moves: &Moves,
    deferred_free: &DeferredFree,
) -> bool {
    let d = &io[device];
    d.is_faulted()
        && !d.tail.items.iter().all(|item| item.copied)
        && io.copies_in_flight(device) == 0
        && moves.is_idle()
        && deferred_free.is_empty()
}

impl TailCopies {
    /// A copy failed: its item is as exposed as before. A flush of the hard drive will do instead; if
    /// that is out of service, there is nothing left for who waits now.
    fn not_copied(
        &mut self,
        copy: &TailCopy,
        error: IoError,
        map: &Map,
        commit: &mut Commit,
        io: &mut DeviceIo,
    ) {
        let device = map.slots().region(copy.log).device;
        if io[device].is_faulted() {
            self.rescue_wanted = false; // each FLUSH tries again
            commit.tails_failed(error);
        }
        let tail = &mut io[device].tail;
        tail.copy_failed = true;
        let known = |item: &&mut TailItem| item.copied && item.write == copy.write;
        if let Some(item) = tail.items.iter_mut().find(known) {
            item.copied = false;
            tail.exposed_bytes += item.run.count * BLOCK_BYTES;
            assert!(tail.exposed_bytes <= tail.bytes, "what is exposed of a tail is a part of it");
        }
    }
}

impl Tiers {
    /// Issues a flush of a hard drive.
    pub(crate) fn flush_hdd(
        &self,
        device: DeviceId,
        requests: &mut Requests,
        metadata_replica: &mut MetadataReplica,
        steering: &Steering,
        io: &mut DeviceIo,
    ) {
        if !io.ssds().is_empty() {
            self.policies.return_before_flush(device, io, requests, steering);
        }
        let now = io.now();
        let d = &mut io[device];
        assert!(!d.is_ssd(), "the SSDs are flushed by commits");
        assert!(d.flushing.is_none(), "one flush of a hard drive at a time");
        d.flush_wanted = false;
        d.dirty = false;
        d.flushing = Some(HddFlush { items: d.tail.items.len(), home_mark: d.home_writes });
        d.flush_costs().flushes(now);
        if let Some(bcw) = &mut d.bcw {
            bcw.flush_issued(now);
        }
        metadata_replica.flush_begins(device);
        io.submit(device, IoOp::Flush, Owner::Log(LogIo::Flush));
    }
}

impl TailCopies {
    /// What a stop can still do for the tail of a hard drive that failed. False: nothing; what it holds may be
    /// lost, and the pool does not stop as if nothing were.
    pub(crate) fn rescue_for_stop(
        &mut self,
        device: DeviceId,
        map: &mut Map,
        requests: &mut Requests,
        moves: &Moves,
        deferred_free: &DeferredFree,
        io: &mut DeviceIo,
    ) -> bool {
        self.copy_tail(device, io, map, requests);
        !is_beyond_rescue(device, io, moves, deferred_free) || map.displaced_count() > 0
    }

    /// A part of a tail is on the SSD.
    pub(crate) fn tail_copied(
        &mut self,
        copy: &TailCopy,
        (status, checksums): (Result<(), IoError>, &[u32]),
        store: &mut Store,
        requests: &mut Requests,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let payload = self.ended(copy);
        let map = &mut store.map;
        for i in 0..copy.run.count {
            let (block, log, ssd) = (copy.logical + i, copy.log + i, copy.run.slot + i);
            let checksum = checksums.get(i as usize).copied().unwrap_or(0);
            // a flush of the drive that came first has made durable the log place: that alone is enough, unless a
            // tier wants the copy; or the place holds something newer by now
            let is_tail = holds(map, io, log, copy.write);
            let is_dead = io[map.slots().region(log).device].is_out();
            let taken = status.is_ok()
                && (is_tail || (copy.stays && (is_dead || tiers.holds(block))))
                && (map.add_copy(block, (log, ssd), checksum)
                    || is_tail && map.move_fragment(block, log, ssd));
            if taken {
                map.touch(Touch { logical: block, count: 1 }, ssd, false);
                if is_tail {
                    leave_failed_log(block, log, map, io);
                } else if !leave_log(map, block, log, |drive| io[drive].is_out()) {
                    io.stats_mut().copies_beside_logs += 1;
                }
            } else {
                map.release_unused(Run { slot: ssd, count: 1 });
                io.stats_mut().copies_forgone += u64::from(copy.stays);
            }
        }
        io.let_buffer_go(payload);
        if copy.stays && status.is_ok() {
            store.commit.note_pending(io.now());
        }
        if let Err(error) = status {
            self.not_copied(copy, error, &store.map, &mut store.commit, io);
        }
        if let Some(id) = copy.task {
            requests.copied(id, status.is_ok());
        }
    }
}

/// A flush of the drive has covered a write of its log: its place there is enough, and its copy on an SSD goes,
/// unless a tier wants it there.
pub(crate) fn settle_item(
    item: &TailItem,
    map: &mut Map,
    read_back: &mut ReadBack,
    tiers: &Tiers,
    io: &mut DeviceIo,
) {
    for i in 0..item.run.count {
        let (block, slot) = (item.logical + i, item.run.slot + i);
        let is_latest = holds(map, io, slot, item.write);
        map.note_log_durable(slot, item.write);
        let entry = map.entry(block);
        let has_copy = item.copied && is_latest && entry.log == slot && entry.ssd != NONE;
        if !has_copy || entry.home {
            continue;
        }
        if item.stays && tiers.holds(block) {
            // it was the cache's copy from the first
            map.note_copy_settled(block);
            io.stats_mut().copies_beside_logs += 1;
        } else {
            // the tail copy has done its duty: the log place alone is enough
            map.drop_place(block, entry.ssd);
        }
        map.touch(Touch { logical: block, count: 1 }, NONE, true);
    }
    read_back.left_tail(item.run.slot, item.payload);
    read_back.release_read_back(io);
    io.let_buffer_go(item.payload);
}

/// A volatile log place on a drive that failed will never be durable; a copy of it on an SSD stands alone.
pub(crate) fn leave_failed_log(block: Logical, log: Slot, map: &mut Map, io: &DeviceIo) {
    let device = map.slots().region(log).device;
    let is_copied = map.state(block) & (LOG | SSD) == LOG | SSD;
    if is_copied && io[device].is_faulted() {
        map.drop_place(block, log);
        map.touch(Touch { logical: block, count: 1 }, NONE, true);
    }
}

/// A flush of a hard drive failed: what its log holds volatile may be lost, and a later flush that
/// succeeds would not say so. Copies on an SSD stand alone.
pub(crate) fn leave_tail(device: DeviceId, map: &mut Map, io: &DeviceIo) {
    let items: Vec<_> = io[device].tail.items.iter().copied().collect();
    for item in items.iter().filter(|item| item.copied) {
        for i in 0..item.run.count {
            let (block, slot) = (item.logical + i, item.run.slot + i);
            if map.is_log_volatile_by(slot, item.write) && map.entry(block).log == slot {
                leave_failed_log(block, slot, map, io);
            }
        }
    }
}
