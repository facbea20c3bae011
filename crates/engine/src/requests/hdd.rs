//! What does a hard drive do next?
//!
//! Users' reads come first, in the drive's order, and not more than a few of them before what else waits; then what its controller says about users' log writes, padding and flushes;
//! background moves have it when nobody redirects to it, or when space is urgent (B4). What is read for
//! the background, such as what a tier brings, goes behind users' writes: an interval may bring
//! thousands of extents, one behind the other, and a write that came then waited for all of them.

use crate::bcw::controller::{Action, Control};
use crate::bcw::padding::SLOW_PADDING_BYTES;
use crate::bcw::predictor::WriteState;
use crate::device::{Class, Device, Job};
use crate::drain::homes::Turn;
use crate::io::DeviceIo;
use crate::io::flights::Flight;
use crate::log::read_back::ReadBack;
use crate::map::Map;
use crate::metadata::MetadataHomes;
use crate::metadata_replica;
use crate::metadata_replica::MetadataReplica;
use crate::migration::Migration;
use crate::migration::moves::Moves;
use crate::migration::read_back::Promotions;
use crate::owner::{LogIo, MetadataIo, MigrationIo, Owner, RequestIo};
use crate::policy::Policy;
use crate::policy::steering::{Steering, write_ns};
use crate::port::IoOp;
use crate::requests::Requests;
use crate::requests::hedge::hedge;
use crate::store::Store;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, Duration, Instant, IoError, RequestKind};

impl Steering {
    pub(crate) fn return_all(&self, device: DeviceId, io: &mut DeviceIo, requests: &mut Requests) {
        loop {
            let d = &mut io[device];
            let Some(waiting) = d.queue.pop(Class::Write) else { return };
            d.queue.leave(1);
            match waiting.job {
                Job::Write { task, .. } => self.return_write(device, task, io, requests),
                other => unreachable!("only writes wait for a log beside an SSD: {other:?}"),
            }
        }
    }
}

/// Background work has an idle drive, or one whose space is running out.
fn background_may_run(device: DeviceId, io: &DeviceIo, moves: &Moves) -> bool {
    let d = &io[device];
    let demand = d.bcw.as_ref().is_some_and(|bcw| bcw.is_wanted(io.now()));
    let stopping = io.is_stopping();
    let pressing = moves.is_urgent() && !io.is_last_hdd(device);
    !demand || pressing || io.waits_for_space() || stopping
}

/// Does somebody wait for what background work makes?
fn makes_room(io: &DeviceIo, moves: &Moves) -> bool {
    moves.is_urgent() || io.waits_for_space() || io.is_stopping()
}

/// A tail that nobody adds to is flushed in the quiet: that frees its RAM, and gives the next
/// burst a whole fast stage. At its bound it is flushed in any case (design decision 8).
fn wants_tail_flush(device: DeviceId, io: &DeviceIo, metadata_replica: &MetadataReplica) -> bool {
    let d = &io[device];
    if d.flushing.is_some() {
        return false;
    }
    let wanted = d.bcw.as_ref().is_some_and(|bcw| bcw.is_wanted(io.now()));
    if !wanted && metadata_replica.wants_flush(device, io) {
        return true;
    }
    assert!(
        d.tail.items.is_empty() == (d.tail.bytes == 0) && d.tail.exposed_bytes <= d.tail.bytes,
        "the bytes of a tail are those of its items"
    );
    if d.tail.items.is_empty() {
        return false;
    }
    let bound = io.config().tail_bytes_max;
    let due = d.tail.bytes >= bound / 8 * 7 && !io.is_last_hdd(device);
    let rests = !wanted && (d.tail.bytes >= bound / 8 || io.is_quiet());
    due || d.tail.bytes >= bound / 16 * 15 || rests
}

/// Would the next write take the tail beyond its bound? Steering keeps off a log before that, and where there is no
/// other place the drive is flushed first.
fn is_tail_full(device: DeviceId, io: &DeviceIo) -> bool {
    let d = &io[device];
    let next_bytes = d.queue.first(Class::Write).map_or(0, |first| first.bytes);
    d.tail.bytes > 0 && d.tail.bytes + next_bytes > io.config().tail_bytes_max
}

/// Would this write wait for longer on an SSD than for a slow write, as far as its policy knew?
fn is_better_slow(job: &Job, device: &Device, bytes: u64, requests: &Requests) -> bool {
    let Job::Write { task, .. } = job else { return false };
    let ssd_ns = requests[*task].expected.ssd_ns;
    ssd_ns > 0 && device.bcw.is_some() && ssd_ns >= write_ns(device, WriteState::Slow, bytes)
}

/// Does a drive take users' writes that may be slow, so that they wait behind reads?
fn is_on_demand(device: &Device) -> bool {
    device.bcw.as_ref().is_some_and(|bcw| bcw.control() == Control::OnDemand)
}

/// Is no user waiting for what this drive would read next?
fn reads_for_background(device: DeviceId, io: &DeviceIo, requests: &Requests) -> bool {
    let mut reads = io[device].queue.jobs(Class::Read);
    reads.all(|job| match job {
        Job::Io(_, Owner::Request(RequestIo::Read(part))) => {
            let task = requests.get(part.task);
            task.is_some_and(|task| task.request.kind == RequestKind::Background)
        }
        _ => false,
    })
}

impl Steering {
    fn disturb(
        &mut self,
        device: DeviceId,
        read: bool,
        requests: &mut Requests,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let (requests, steering) = (requests, self);
        tiers.policies.disturb(device, read, io, requests, steering);
    }
}

impl MetadataReplica {
    /// When a controller wants to be asked next.
    pub(crate) fn controllers_due(&self, io: &DeviceIo) -> Instant {
        let mut due = Instant::NEVER;
        for &id in io.hdds() {
            let d = &io[id];
            if d.queue.in_flight() > 0 {
                continue;
            }
            if d.ask_at > io.now() {
                due = due.min(d.ask_at);
            }
            // background work that waits for users to leave the drive alone
            let held = d.queue.waits(Class::Background)
                || d.tail.bytes >= io.config().tail_bytes_max / 8
                || self.wants_drive(d.id, io);
            if held
                && let Some(bcw) = &d.bcw
                && bcw.is_wanted(io.now())
            {
                due = due.min(bcw.demand_ends());
            }
        }
        due
    }
}

impl Policy {
    /// Writes units of the journal that the metadata replica still lacks. A flush may follow at once. False: there are
    /// none.
    fn write_followed_units(
        &mut self,
        device: DeviceId,
        with_flush: bool,
        store: &mut Store,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let wanted = io[device].bcw.as_ref();
        let users =
            store.commit.is_settling_hdds() || wanted.is_some_and(|b| b.is_wanted(io.now()));
        let units = store.metadata_replica.take_units(device, users, &store.journal, io);
        let Some(mut units) = units else { return false };
        if with_flush {
            units = store.metadata_replica.leave_to_flush(units);
        }
        self.steering.disturb(device, false, requests, &self.tiers, io);
        io.submit(device, units, Owner::Metadata(MetadataIo::ReplicaUnits));
        true
    }

    /// The same where no user redirects to the drive.
    fn follows_in_quiet(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let is_wanted = io[device].bcw.as_ref().is_some_and(|bcw| bcw.is_wanted(io.now()));
        !is_wanted
            && store.metadata_replica.wants_units(device, io)
            && self.write_followed_units(device, false, store, requests, io)
    }

    /// Flushes the drive, after a flush that is under way, and what the metadata replica on it still lacks.
    pub(super) fn settle_hdd(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        if io[device].flushing.is_some()
            || store.metadata_replica.writes_units(device)
            || self.write_followed_units(device, true, store, requests, io)
        {
            io[device].flush_wanted = true;
        } else {
            self.tiers.flush_hdd(device, requests, &mut store.metadata_replica, &self.steering, io);
        }
    }

    fn carry_out(
        &mut self,
        device: DeviceId,
        action: Action,
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        match action {
            Action::Pad(bytes) => pad_log(
                device,
                bytes,
                &store.map,
                &mut migration.read_back,
                &mut migration.promotions,
                io,
            ),
            Action::Flush => {
                self.settle_hdd(device, store, requests, io);
                false
            }
            Action::Rest(until) => {
                io[device].ask_at = until;
                false
            }
            Action::Write | Action::Return => unreachable!("nobody waits"),
        }
    }

    /// Does what is due for the metadata on the drive. False: nothing can be done just now.
    fn serve_metadata_replica(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        match store.metadata_replica.turn(device, io) {
            metadata_replica::Turn::Nothing => return false,
            metadata_replica::Turn::Units => {
                // several writes take longer than a flush for all of them
                let with_flush = io[device].flush_wanted || store.metadata_replica.has_many_units();
                if with_flush || !self.write_followed_units(device, false, store, requests, io) {
                    self.settle_hdd(device, store, requests, io);
                }
            }
            metadata_replica::Turn::Flush => self.settle_hdd(device, store, requests, io),
            metadata_replica::Turn::Step => {
                self.steering.disturb(device, false, requests, &self.tiers, io);
                requests.issue_class(device, Class::Background, store, migration, self, io);
            }
        }
        true
    }

    /// What a hard drive does that is read only: reads, and the flush that is wanted of it.
    fn dispatch_read_only(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let d = &io[device];
        for class in Class::ALL {
            if d.queue.waits(class) {
                return requests.issue_class(device, class, store, migration, self, io);
            }
        }
        if d.flush_wanted && d.flushing.is_none() {
            self.tiers.flush_hdd(device, requests, &mut store.metadata_replica, &self.steering, io);
        }
        false
    }

    /// Sends the first write that waits for the log, or one that an SSD is overdue with. False: nothing can be done just
    /// now.
    fn dispatch_log_write(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let Some(first) = io[device].queue.first(Class::Write) else {
            let Migration { read_back, promotions, .. } = migration;
            return hedge(self, device, store, requests, read_back, promotions, io);
        };
        let bytes = match &first.job {
            Job::Write { .. } | Job::Edge { .. } => first.job.bytes(),
            Job::Io(..) => BLOCK_BYTES,
        };
        let is_spilled = requests.is_spilled(&first.job)
            || is_better_slow(&first.job, &io[device], bytes, requests);
        let now = io.now();
        let breaks = io.breaks_stream(device, bytes);
        let action = match &mut io[device].bcw {
            Some(_) if breaks => Action::Return,
            Some(bcw) => bcw.next(now, Some(bytes)),
            None => Action::Write,
        };
        match action {
            Action::Return if !(io.ssds().is_empty() || is_spilled) => {
                self.steering.return_all(device, io, requests);
                true
            }
            _ => {
                // without an SSD, or room on one, even a slow write is better than none
                if let Some(bcw) = &mut io[device].bcw {
                    bcw.issued(bytes, false);
                }
                if requests.issue_class(device, Class::Write, store, migration, self, io) {
                    return true;
                }
                if let Some(bcw) = &mut io[device].bcw {
                    bcw.commit(now, bytes);
                }
                if io.ssds().is_empty() {
                    return false;
                }
                self.steering.return_all(device, io, requests);
                true
            }
        }
    }

    /// Issues at most one command. True: ask again.
    pub(crate) fn dispatch_hdd(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let d = &io[device];
        assert!(d.streams.is_none(), "a hard drive has one queue by class");
        if d.is_out() {
            return requests.fail_one(device, &self.steering, io);
        }
        if d.queue.in_flight() >= d.config.depth {
            return false;
        }
        if d.is_faulted() {
            return self.dispatch_read_only(device, store, requests, migration, io);
        }
        if store.metadata_replica.is_late(device, io)
            && self.serve_metadata_replica(device, store, requests, migration, io)
        {
            return false;
        }
        match migration.evacuation.drain_turn(device, &migration.moves, &volumes.objects, io) {
            Some(Turn::Flush) => {
                self.settle_hdd(device, store, requests, io);
                return false;
            }
            Some(Turn::Move) => {
                self.steering.disturb(device, false, requests, &self.tiers, io);
                return requests.issue_class(device, Class::Background, store, migration, self, io);
            }
            None => {}
        }
        let d = &io[device];
        let reads = d.queue.waits(Class::Read);
        let writes = d.queue.waits(Class::Write);
        let in_turn = is_on_demand(d) && d.queue.writes_have_turn();
        let overdue = d.queue.others_are_overdue() || in_turn;
        let writes_first = writes && reads && reads_for_background(device, io, requests);
        if reads && !overdue && !writes_first {
            self.steering.disturb(device, true, requests, &self.tiers, io);
            return requests.issue_class(device, Class::Read, store, migration, self, io);
        }
        if d.flush_wanted {
            self.settle_hdd(device, store, requests, io);
            return false;
        }
        if writes && is_tail_full(device, io) {
            self.settle_hdd(device, store, requests, io);
            return false;
        }
        if self.dispatch_log_write(device, store, requests, migration, io) {
            return true;
        }
        // writes that wait for room in the log must not hold up the work that makes it
        let moves = io[device].queue.waits(Class::Background)
            && background_may_run(device, io, &migration.moves);
        let presses = overdue && moves && makes_room(io, &migration.moves);
        if reads && !presses {
            self.steering.disturb(device, true, requests, &self.tiers, io);
            return requests.issue_class(device, Class::Read, store, migration, self, io);
        }
        if moves {
            self.steering.disturb(device, false, requests, &self.tiers, io);
            return requests.issue_class(device, Class::Background, store, migration, self, io);
        }
        if self.follows_in_quiet(device, store, requests, io) {
            return false;
        }
        if wants_tail_flush(device, io, &store.metadata_replica) {
            self.settle_hdd(device, store, requests, io);
            return false;
        }
        match self.ask_controller(device, writes, io) {
            Some(action) => self.carry_out(device, action, store, requests, migration, io),
            None => false,
        }
    }

    /// What the controller of a hard drive wants while no user does. `None`: nothing, or users' writes wait.
    fn ask_controller(&self, device: DeviceId, writes: bool, io: &mut DeviceIo) -> Option<Action> {
        let now = io.now();
        let is_last = io.is_last_hdd(device);
        let rating_is_spent = self.ledger.rating_is_spent(device, io);
        let with_room = io.hdds_with_room();
        let bcw = io[device].bcw.as_mut()?;
        bcw.note_last(is_last);
        bcw.note_rating(rating_is_spent);
        bcw.note_stand_in(with_room > u32::from(bcw.has_room()));
        if writes {
            return None;
        }
        let action = bcw.next(now, None);
        let over_break = match action {
            Action::Rest(_) => io.pads_over_break(device),
            _ => None,
        };
        Some(over_break.unwrap_or(action))
    }
}

/// Writes padding at the head of the log. Nothing owns its slots, and nobody ever reads them.
pub(crate) fn pad_log(
    device: DeviceId,
    bytes: u64,
    map: &Map,
    read_back: &mut ReadBack,
    promotions: &mut Promotions,
    io: &mut DeviceIo,
) -> bool {
    let stop = io.config().log_stop_percent;
    let d = &io[device];
    let log = d.log.as_ref().expect("controllers belong to logs");
    let full = log.used_percent() >= stop;
    let blocks = bytes / BLOCK_BYTES;
    let run =
        if full { None } else { read_back.append_to_log(device, blocks, false, io, promotions) };
    let d = &mut io[device];
    let Some(run) = run else {
        d.ask_at = Instant::NEVER;
        return false;
    };
    let length_bytes = run.count * BLOCK_BYTES;
    d.bcw.as_mut().expect("asked above").issued(length_bytes, true);
    let region = map.slots().region(run.slot);
    assert!(region.device == device, "padding goes to the log of its drive");
    let offset_bytes = region.address(run.slot);
    assert!(length_bytes <= SLOW_PADDING_BYTES, "the buffer has room for the padding");
    let from = io.padding_buffer();
    let op = IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes: 0, fua: false };
    io.submit(device, op, Owner::Log(LogIo::Padding));
    false
}

/// A command of a hard drive ended: its controller learns from it.
pub(crate) fn note_hdd_completion(
    flight: &Flight<Owner>,
    status: Result<(), IoError>,
    took: Option<Duration>,
    metadata: &mut MetadataHomes,
    io: &mut DeviceIo,
) {
    let now = io.now();
    let device = &mut io[flight.device];
    let ended = took.map_or(now, |took| now.min(flight.issued + took));
    // a write in two pieces: the second waits for the first, which says nothing of the buffer
    let before = std::mem::replace(&mut device.last_end, ended);
    let latency = ended.since(flight.issued.max(before));
    if !matches!(flight.owner, Owner::Log(LogIo::Flush)) {
        let homes = match &flight.owner {
            Owner::Migration(MigrationIo::Home { kind, .. }) => Some(*kind),
            _ => None,
        };
        device.flush_costs().worked(latency, homes);
    }
    let Some(bcw) = &mut device.bcw else { return };
    match &flight.owner {
        Owner::Request(RequestIo::Write { .. } | RequestIo::Edge { .. }) | Owner::Late(_)
            if status.is_ok() =>
        {
            bcw.completed(now, flight.bytes, latency, false);
        }
        Owner::Log(LogIo::Padding) if status.is_ok() => {
            bcw.completed(now, flight.bytes, latency, true);
        }
        Owner::Log(LogIo::Flush)
        | Owner::Request(RequestIo::Write { .. })
        | Owner::Late(_)
        | Owner::Log(LogIo::Padding) => {}
        _ => bcw.undisturbed(now),
    }
    if let (Err(error), Owner::Log(LogIo::Padding)) = (status, &flight.owner) {
        metadata.fault(flight.device, error, io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use crate::port::Command;
    use std::collections::BTreeMap;
    use tandem_block::MIB;

    /// The configuration gives a hard drive one command at a time; these take several.
    #[test]
    fn a_hard_drive_is_flushed_once_at_a_time_however_many_commands_it_takes() {
        let (mut io, mut requests, mut store) = (
            drives(1, 1),
            Requests::default(),
            Store::new(MIB, crate::store::memory::MemoryBound::pages(8), true),
        );
        let tiers = Tiers::new(BTreeMap::new(), None);
        let mut policy = Policy::new(tiers, Steering::new(Vec::new(), io.config()), io.config());
        let hdd = DeviceId(1);
        let is_flush =
            |command: &Command| matches!(command, Command::Submit(io) if io.op == IoOp::Flush);
        for (flushes, wanted) in [(1, false), (0, true), (0, true)] {
            policy.settle_hdd(hdd, &mut store, &mut requests, &mut io);
            let told = io.next_event(Instant::ZERO);
            assert_eq!(told.iter().filter(|command| is_flush(command)).count(), flushes);
            assert_eq!(io[hdd].flush_wanted, wanted, "the second one waits for the first");
        }
        io[hdd].flushing = None;
        policy.settle_hdd(hdd, &mut store, &mut requests, &mut io);
        assert!(io[hdd].flushing.is_some() && !io[hdd].flush_wanted);
    }
}
