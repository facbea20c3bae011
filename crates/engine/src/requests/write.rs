//! What steps does a user's write take?
//!
//! ```text
//! tier intends → steer decides → (a part block: buffer aligned, base on the SSD read and merged,
//! otherwise kept as a fragment) → device queue → a place is chosen at dispatch → written
//! → the map names the new place → acknowledged (FUA: after a commit)
//! ```

use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::ledger::Ledger;
use crate::log::read_back::ReadBack;
use crate::map::{Logical, Map, Run, Touch};
use crate::migration::Migration;
use crate::migration::read_back::Promotions;
use crate::migration::tail::Written;
use crate::mutant::Mutant;
use crate::owner::{Ended, Owner, RequestIo};
use crate::policy::Policy;
use crate::policy::balance::is_on_both;
use crate::policy::steering::{Asked, Steering};
use crate::port::{Command, IoOp};
use crate::requests::detour::note_detour;
use crate::requests::dispatch::log_percent;
use crate::requests::hedge::{goes_on_elsewhere, outrun};
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::requests::{Next, Requests};
use crate::steer::Target;
use crate::store::Store;
use crate::tier::Intention;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, Op, PayloadId, Request};

impl Steering {
    /// Gives a write that waits for a log back to steering, which has only the SSD left for it.
    pub(crate) fn return_write(
        &self,
        device: DeviceId,
        id: TaskId,
        io: &mut DeviceIo,
        requests: &mut Requests,
    ) {
        assert!(!io.ssds().is_empty(), "without an SSD nothing is returned");
        let bytes = requests[id].blocks() * BLOCK_BYTES;
        if let Some(bcw) = &mut io[device].bcw {
            bcw.uncommit(bytes);
        }
        self.give_to_ssd(id, io, requests);
    }

    /// An SSD takes a write that was for a log.
    fn give_to_ssd(&self, id: TaskId, io: &mut DeviceIo, requests: &mut Requests) {
        requests.count_returned(id, io);
        if io.is_fixed() {
            self.begin_fixed_write(id, io, requests);
        } else {
            requests.queue_write(id, io);
        }
    }

    /// The SSD and byte of a block under fixed placement.
    pub(crate) fn fixed_place(&self, block: Logical, io: &DeviceIo) -> (DeviceId, u64) {
        let mut bytes = block * BLOCK_BYTES;
        if let Some(stripes) = self.stripes {
            return stripes.place(io.ssds(), bytes);
        }
        for &id in io.ssds() {
            let capacity = io[id].config.capacity_bytes;
            if bytes < capacity {
                return (id, bytes);
            }
            bytes -= capacity;
        }
        unreachable!("logical blocks under fixed placement are the SSDs' own")
    }

    pub(crate) fn begin_fixed_write(&self, id: TaskId, io: &mut DeviceIo, requests: &mut Requests) {
        let task = &mut requests[id];
        assert!(task.outstanding == 0, "a write goes out once");
        if let Target::Log(_) = task.target {
            requests.queue_write(id, io);
            return;
        }
        let request = task.request;
        let first_bytes = task.first * BLOCK_BYTES + request.offset_bytes % BLOCK_BYTES;
        let mut done = 0;
        while done < request.length_bytes {
            let at = first_bytes + done;
            let (device, block_bytes) = self.fixed_place((at / BLOCK_BYTES) as Logical, io);
            let rest = request.length_bytes - done;
            let length_bytes = self.stripes.map_or(rest, |stripes| stripes.rest(at).min(rest));
            assert!(length_bytes > 0, "each piece brings a write further");
            let op = IoOp::Write {
                offset_bytes: block_bytes + at % BLOCK_BYTES,
                length_bytes,
                from: request.payload,
                from_offset_bytes: done,
                fua: request.fua,
            };
            requests[id].outstanding += 1;
            let job = Job::Io(op, Owner::Request(RequestIo::Fixed { task: id }));
            io.enqueue(device, Class::Write, job, requests[id].whose());
            done += length_bytes;
        }
    }
}

/// Has it all of each block that it writes?
fn is_whole(task: &Task) -> bool {
    let request = &task.request;
    let end_bytes = request.offset_bytes + request.length_bytes;
    request.offset_bytes.is_multiple_of(BLOCK_BYTES)
        && end_bytes.is_multiple_of(BLOCK_BYTES)
        && task.base_bytes.is_multiple_of(BLOCK_BYTES)
}

impl Requests {
    /// The write's turn in a log has come. False: the log is full.
    pub(crate) fn issue_log_write(
        &mut self,
        device: DeviceId,
        id: TaskId,
        map: &Map,
        read_back: &mut ReadBack,
        promotions: &mut Promotions,
        io: &mut DeviceIo,
    ) -> bool {
        let blocks = self[id].blocks();
        let has_ssd = !io.ssds().is_empty();
        let log = io[device].log.as_mut().expect("steered to a log");
        if log.free_slots_of_users(has_ssd) < blocks {
            return false;
        }
        assert!(self[id].outstanding == 0, "a write goes out once");
        let (mut logical, end) = (self[id].first, self[id].end);
        self.mark_started(id, io);
        while logical < end {
            let run = read_back
                .append_to_log(device, end - logical, true, io, promotions)
                .expect("counted above");
            self.issue_write_run(device, id, logical, run, io, map);
            logical += run.count;
        }
        true
    }

    /// Where does this write go? Asks the tier, then the policy, and counts the reason.
    fn steer_write(
        &mut self,
        id: TaskId,
        store: &Store,
        steering: &mut Steering,
        tiers: &mut Tiers,
        ledger: &Ledger,
        io: &mut DeviceIo,
    ) -> Target {
        tiers.policies.keep_class(id, self);
        let task = &self[id];
        // who decides knows volumes alone
        let (request, blocks) = (Request { object: task.volume, ..task.request }, task.blocks());
        let bytes = blocks * BLOCK_BYTES;
        let intention = tiers.intend(id, io, self);
        self[id].both = intention == Intention::Both;
        // a write that belongs on a hard drive does not wait there behind anything but writes, unless its
        // tier says so: it is brought there later
        let task = &self[id];
        let detours = tiers.policies.tier_of(task).is_none_or(|tier| tier.detours());
        let steer = tiers.policies.get(&request.object).map(|policy| policy.steer);
        let mirrored =
            steering.knows_mirrors(steer) && is_on_both((task.first, task.end), &store.map);
        // its user waits for both places: a log takes it at once, as what belongs on a hard drive, and a copy of it
        // follows on an SSD
        let in_both = tiers.policies.awaits_both(id, self);
        let asked = Asked {
            request: &request,
            object: task.request.object,
            logical: task.first,
            bytes,
            mirrored,
            intention: if in_both { Intention::Hdd } else { intention },
            detours,
            steer,
            log_percent: log_percent(tiers.kept_blocks_max(&store.map, io), store, io),
            detours_have_room: self.detours.takes(bytes),
        };
        let decision = steering.decide(&asked, ledger, io);
        assert!(
            decision.target.is_log() == decision.reason.redirects(),
            "a write goes where its reason says"
        );
        io.stats_mut().steered.count(decision.reason, request.length_bytes);
        (self[id].reason, self[id].expected) = (decision.reason, decision.expected);
        match decision.target {
            Target::Log(device) => {
                let d = &io[device];
                assert!(d.log.is_some() || d.is_out(), "a write is redirected to a drive's log");
                io.stats_mut().redirected.0 += 1;
                io.stats_mut().redirected.1 += request.length_bytes;
                let now = io.now();
                if let Some(bcw) = &mut io[device].bcw {
                    bcw.commit(now, bytes);
                }
            }
            Target::Ssd | Target::ThisSsd(_) => io.note_missed(decision.reason, bytes),
        }
        decision.target
    }

    pub(crate) fn begin_user_write(
        &mut self,
        id: TaskId,
        store: &mut Store,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let task = &self[id];
        assert!(task.holds && task.outstanding == 0, "a write holds its blocks, and begins once");
        let target = self.steer_write(
            id,
            store,
            &mut policy.steering,
            &mut policy.tiers,
            &policy.ledger,
            io,
        );
        self[id].target = target;
        if io.is_fixed() {
            policy.steering.begin_fixed_write(id, io, self);
            return;
        }
        let task = &self[id];
        let request = task.request;
        store.map.prefetch(task.first, task.end - task.first);
        if is_whole(task) {
            self.queue_write(id, io);
        } else {
            self.begin_part_blocks(id, &request, io, store);
        }
    }

    pub(crate) fn write_failed(
        &mut self,
        device: DeviceId,
        id: TaskId,
        run: Run,
        error: IoError,
        store: &mut Store,
        io: &mut DeviceIo,
    ) {
        let is_log = store.map.slots().is_log(run.slot);
        assert!(
            store.map.slots().region(run.slot).device == device,
            "a run has failed on the drive that it lies on"
        );
        if is_log {
            let log = io[device].log.as_mut().expect("a log slot");
            for slot in run.slot..run.slot + run.count {
                log.release(slot);
            }
            store.metadata.fault(device, error, io);
        } else {
            store.map.release_unused(run);
        }
        self.note_error(id, error);
    }
}

impl Store {
    /// The identity place holds the newest version again.
    pub(crate) fn zero_fixed(&mut self, first: Logical, end: Logical) {
        for block in first..end {
            if self.map.state(block) != 0 {
                self.map.clear(block);
            }
        }
    }
}

impl Requests {
    pub(crate) fn fixed_write_done(
        &mut self,
        id: TaskId,
        status: Result<(), IoError>,
        store: &mut Store,
    ) {
        if let Err(error) = status {
            self.note_error(id, error);
        }
        let task = &mut self[id];
        assert!(task.outstanding > 0, "a piece of a write ends once");
        task.outstanding -= 1;
        if task.outstanding > 0 {
            return;
        }
        let (first, end) = (task.first, task.end);
        store.zero_fixed(first, end);
        self.lead_to(Next::Written(id));
    }

    /// All device commands of a write are done.
    pub(crate) fn finish_write(
        &mut self,
        id: TaskId,
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let task = &mut self[id];
        assert!(task.outstanding == 0, "all its commands have ended");
        assert!(!task.is_answered, "a write is answered once");
        assert!(task.request.op.is_write() && task.holds, "what was written holds its blocks");
        // where its blocks are gone, or no drive takes it, another one has no place for it either
        let may_go_elsewhere = task.blocks_gone.is_none() && !task.is_refused;
        if let (true, Err(_), Target::Log(_), false) =
            (may_go_elsewhere, task.status, task.target, io.ssds().is_empty())
        {
            // the log failed, the bytes are still here: the SSD takes them
            task.status = Ok(());
            policy.steering.give_to_ssd(id, io, self);
            return;
        }
        // the edges of a zeroing have gone to another drive one by one (`edge_done`)
        if let (Err(IoError::NoAnswer(device)), false, Op::Write) =
            (task.status, task.target.is_log(), task.request.op)
            && may_go_elsewhere
            && !io.is_fixed()
            && io.another_ssd(device).is_some()
        {
            let task = &mut self[id];
            (task.status, task.target) = (Ok(()), Target::Ssd);
            self.queue_write(id, io);
            return;
        }
        let task = &self[id];
        let (durable, exposed) = (task.request.fua, task.exposed);
        let sound = task.status.is_ok();
        let is_linked_in_part = volumes.note_link_written(id, store, self, policy, io);
        let task = &self[id];
        let (buffer, retained) = (task.buffer, task.retained);
        let shares = task.parent.is_some() && buffer == task.request.payload;
        assert!(
            retained || !shares || task.request.op != Op::Write,
            "a part does not release the bytes of its whole request"
        );
        if retained {
            io.let_buffer_go(buffer);
        } else if buffer != PayloadId::NONE {
            io.send(Command::Release(buffer));
        }
        if exposed && sound {
            store.commit.wait_flush(id);
        } else if durable && sound && !io.is_fixed() && !io.breaks(Mutant::EarlyFua) {
            if self[id].over_base || is_linked_in_part {
                // its record must name a base that may be in some drive's buffer still
                store.commit.wait_flush(id);
            } else {
                store.commit.wait_fua(id);
            }
        } else if sound && !self[id].target.is_log() && policy.tiers.policies.awaits_both(id, self)
        {
            migration.copies.await_both(id);
        } else {
            self.answer(id, PayloadId::NONE, 0, io);
        }
    }

    fn name_places(
        &mut self,
        (id, logical, run): (TaskId, Logical, Run),
        ended: Ended<'_>,
        store: &mut Store,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let Ended { device, checksums, .. } = ended;
        let task = &self[id];
        let (first, last, masks) = (task.first, task.end - 1, task.masks);
        let fua = task.request.fua;
        assert!(
            first <= logical && last - logical >= run.count - 1,
            "what was written lies within its request"
        );
        assert!(
            store.map.slots().region(run.slot).device == device,
            "a run was written to the drive that it lies on"
        );
        assert!(
            !io.config().contents || checksums.len() == run.count as usize,
            "the event loop sums every block it writes"
        );
        let mut is_part = false;
        for i in 0..run.count {
            let (block, slot) = (logical + i, run.slot + i);
            let checksum = checksums.get(i as usize).copied().unwrap_or(0);
            let mask = if block == first {
                masks.0
            } else if block == last {
                masks.1
            } else {
                255
            };
            if mask != 255
                && !io.is_fixed()
                && store.map.assign_fragment(block, slot, mask, checksum)
            {
                io.stats_mut().fragments += 1;
                self[id].over_base = true;
                is_part = true;
            } else {
                store.map.assign(block, slot, checksum);
            }
            if fua {
                store.map.note_durable(slot);
            }
        }
        if io.is_fixed() {
            return;
        }
        let is_log = store.map.slots().is_log(run.slot);
        // what a fragment was made of lacks a base on the SSD, so its copy would be none of the block
        let stays = is_log && !is_part && !fua && policy.tiers.policies.awaits_both(id, self);
        if stays {
            migration.copies.are_made(logical, run.count);
        } else if self[id].both && !io.hdds().is_empty() {
            migration.copies.want_copies(logical, run.count, io);
        }
        if is_log {
            let offset_bytes = self[id].buffer_offset(logical);
            // what went there with FUA, in a pool without SSD, waits for no flush
            if !fua {
                migration.tail_copies.retain_for_tail(
                    id,
                    Written { device, logical, run, offset_bytes, stays },
                    io,
                    &mut store.map,
                    self,
                );
            }
            migration.read_back.keep_for_reads(id, run, offset_bytes, io, &store.map, self);
            note_detour(self, id, (logical, run), &store.map, io);
        }
        if !is_log && policy.tiers.has_share() {
            policy.tiers.note_on_ssd(id, logical, run.count, io, self);
        }
        store.commit.note_pending(io.now());
        store.map.touch(Touch { logical, count: run.count }, run.slot, fua);
    }

    /// A run of a user's write is on its device: the map names it.
    pub(crate) fn write_done(
        &mut self,
        (id, logical, run): (TaskId, Logical, Run),
        ended: Ended<'_>,
        store: &mut Store,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, .. } = ended;
        if let Err(error) = status {
            if goes_on_elsewhere(self, device, (id, run), error, store, io) {
                return;
            }
            self.write_failed(device, id, run, error, store, io);
        } else {
            self.name_places((id, logical, run), ended, store, migration, policy, io);
            outrun(self, device, (id, run), &store.map, io);
        }
        let task = &mut self[id];
        assert!(task.outstanding > 0, "a run of a write ends once");
        task.outstanding -= 1;
        if task.outstanding == 0 {
            self.lead_to(Next::Written(id));
        }
    }
}
