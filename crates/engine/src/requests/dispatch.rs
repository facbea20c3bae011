//! What goes to a device next, and what is it counted as?

use crate::device::{Class, Issued, Job, Waiting};
use crate::io::{DeviceIo, News};
use crate::map::Map;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::policy::steering::Steering;
use crate::qos::QueueView;
use crate::requests::ordering::TaskId;
use crate::requests::{Next, Requests};
use crate::steer::{Reason, Target};
use crate::store::Store;
use crate::store::room::Room;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, DurabilityClass, Instant, IoError};

impl Requests {
    /// Another SSD that has room for a write for which this one has none: the one with the shortest queue.
    fn ssd_with_room(
        &self,
        full: DeviceId,
        job: &Job,
        map: &Map,
        io: &DeviceIo,
    ) -> Option<DeviceId> {
        let is_ssd = io[full].is_ssd();
        if !is_ssd || io.is_fixed() {
            return None;
        }
        let blocks = match job {
            Job::Write { task, .. } => self[*task].blocks(),
            Job::Edge { .. } => 1,
            Job::Io(..) => return None,
        };
        let ssds = io.ssds().iter().enumerate();
        ssds.filter(|&(ssd, &id)| {
            id != full
                && io[id].takes_new()
                && map.allocators()[ssd].free_count() >= blocks + self.reserved_slots(ssd, map)
        })
        .map(|(_, &id)| id)
        .min_by_key(|&id| (io[id].queue.length(), id))
    }

    /// A hard drive whose log takes a write for which no SSD has room: the one with the shortest queue.
    fn log_with_room(&self, full: DeviceId, job: &Job, io: &DeviceIo) -> Option<DeviceId> {
        let Job::Write { task, bytes } = job else { return None };
        let request = &self[*task].request;
        if !io[full].is_ssd() || io.is_fixed() || request.fua {
            return None;
        }
        let takes = |id: &DeviceId| {
            let d = &io[*id];
            let keeps = !d.is_volatile() || request.class == DurabilityClass::VolatileOk;
            let is_paid = d.bcw.as_ref().is_none_or(|bcw| bcw.may_spill(io.now()));
            let blocks = (d.queue.waiting_bytes() + bytes).div_ceil(BLOCK_BYTES);
            let percent = io.config().log_spill_percent();
            let has_room = d.log.as_ref().is_some_and(|log| log.takes_below(percent, blocks));
            // a write that waits for a flush waits longer than for the room that the flush makes
            d.takes_new() && d.flushing.is_none() && keeps && is_paid && has_room
        };
        let hdds = io.hdds().iter().copied().filter(takes);
        hdds.min_by_key(|&id| (io[id].queue.length(), id))
    }

    /// Blocks by which this write makes the room on SSDs smaller, where little is left. What lies on an SSD alone leaves
    /// its place for it.
    fn room_taken(&self, device: DeviceId, job: &Job, room: Room, map: &Map, io: &DeviceIo) -> u64 {
        let Job::Write { task, .. } = job else { return 0 };
        if !io[device].is_ssd() || io.is_fixed() || !room.is_scarce() {
            return 0;
        }
        let task = &self[*task];
        let takes = |block: &u64| !map.is_alone_on_ssd(*block);
        (task.first..task.end).filter(takes).count() as u64
    }

    /// A write that has left the queue of a full SSD goes into that of a hard drive's log.
    fn spill(&mut self, from: DeviceId, to: DeviceId, waiting: Waiting, io: &mut DeviceIo) {
        let Job::Write { task: id, bytes } = waiting.job else {
            unreachable!("only writes of whole requests are spilled")
        };
        assert!(
            io[from].is_ssd() && io[to].log.is_some(),
            "a log takes what an SSD has no room for"
        );
        assert!(self[id].outstanding == 0, "a write waits in one queue");
        self.count_redirected(id, to, Reason::NoRoom, io);
        let now = io.now();
        if let Some(bcw) = &mut io[to].bcw {
            bcw.commit(now, bytes);
        }
        let d = &mut io[from];
        d.queue.leave(1);
        d.queue.pins_mut().unpin(waiting.pin);
        let whose = self[id].whose();
        io.enqueue(to, Class::Write, Job::Write { task: id, bytes }, whose);
    }

    /// A write that was to stay on an SSD goes to a log after all: it is counted there, and once.
    pub(super) fn count_redirected(
        &mut self,
        id: TaskId,
        to: DeviceId,
        reason: Reason,
        io: &mut DeviceIo,
    ) {
        let task = &mut self[id];
        assert!(!task.target.is_log(), "only a write on an SSD is redirected later");
        task.target = Target::Log(to);
        let before = std::mem::replace(&mut task.reason, reason);
        let length_bytes = task.request.length_bytes;
        let stats = io.stats_mut();
        stats.steered.take_back(before, length_bytes);
        stats.steered.count(reason, length_bytes);
        stats.redirected.0 += 1;
        stats.redirected.1 += length_bytes;
    }

    /// Is this a write that no SSD had room for?
    pub(crate) fn is_spilled(&self, job: &Job) -> bool {
        matches!(job, Job::Write { task, .. } if self[*task].reason == Reason::NoRoom)
    }

    /// A job that has left the queue of an SSD goes into that of another one.
    fn pass_on(&self, from: DeviceId, to: DeviceId, waiting: Waiting, io: &mut DeviceIo) {
        let (Job::Write { task, .. } | Job::Edge { task, .. }) = &waiting.job else {
            unreachable!("only writes of users look for room")
        };
        let whose = self[*task].whose();
        assert!(from != to && io[to].takes_new(), "a write goes on to another SSD that takes it");
        let d = &mut io[from];
        d.queue.leave(1);
        d.queue.pins_mut().unpin(waiting.pin);
        io.enqueue(to, Class::Write, waiting.job, whose);
        io.note_passed_on();
    }

    fn fail_unissued(&mut self, id: TaskId, error: IoError) {
        self.note_error(id, error);
        let task = &mut self[id];
        task.target = Target::Ssd;
        task.is_refused = true;
        task.outstanding = task.outstanding.saturating_sub(1);
        if task.outstanding == 0 {
            self.lead_to(Next::Written(id));
        }
    }

    /// A job that has left its queue is not sent: the device does not take it any more.
    fn fail_waiting(
        &mut self,
        device: DeviceId,
        waiting: Waiting,
        steering: &Steering,
        io: &mut DeviceIo,
    ) {
        // a read must not be told that the drive gave no answer: it was not asked, and would ask again
        let is_write = matches!(waiting.job, Job::Write { .. } | Job::Edge { .. });
        let no_room = io.no_space().filter(|_| is_write);
        assert!(
            no_room.is_some() || !io[device].takes_job(&waiting.job),
            "a job fails where its drive does not take it, or nothing makes room for it"
        );
        io.stats_mut().refused_without_room += u64::from(no_room.is_some());
        let error = no_room.unwrap_or(IoError::Dead(device));
        let d = &mut io[device];
        d.queue.leave(1);
        d.queue.pins_mut().unpin(waiting.pin);
        match waiting.job {
            Job::Io(_, owner) => io.tell(News::Unsent(device, owner, error)),
            Job::Edge { task, block, mask } => match io.another_ssd(device) {
                Some(other) => {
                    let whose = self[task].whose();
                    let job = Job::Edge { task, block, mask };
                    io.enqueue(other, Class::Write, job, whose);
                }
                None => self.fail_unissued(task, error),
            },
            Job::Write { task: id, .. } => {
                if io.another_ssd(device).is_none() || io.is_fixed() {
                    self.fail_unissued(id, error);
                } else if io[device].is_ssd() {
                    self[id].target = Target::Ssd;
                    self.queue_write(id, io);
                } else {
                    steering.return_write(device, id, io, self);
                }
            }
        }
    }

    /// The first waiting job of a device of which nothing is asked fails.
    pub(crate) fn fail_one(
        &mut self,
        device: DeviceId,
        steering: &Steering,
        io: &mut DeviceIo,
    ) -> bool {
        let now = io.now();
        let d = &mut io[device];
        let waiting = Class::ALL.into_iter().find_map(|class| d.queue.pop(class));
        let Some(waiting) = waiting.or_else(|| d.pop_by_stream(now)) else {
            return false;
        };
        self.fail_waiting(device, waiting, steering, io);
        true
    }

    /// Issues a job that has left its queue; gives it back if it must wait for space.
    pub(crate) fn issue(
        &mut self,
        device: DeviceId,
        waiting: Waiting,
        store: &mut Store,
        migration: &mut Migration,
        policy: &Policy,
        io: &mut DeviceIo,
    ) -> Issued {
        let is_write = matches!(waiting.job, Job::Write { .. } | Job::Edge { .. });
        if (is_write && io.no_space().is_some()) || !io[device].takes_job(&waiting.job) {
            self.fail_waiting(device, waiting, &policy.steering, io);
            return Issued::Left;
        }
        let kept = policy.tiers.kept_blocks_max(&store.map, io);
        let room = Room::of(&store.map, kept);
        let taken = self.room_taken(device, &waiting.job, room, &store.map, io);
        if taken > 0 {
            // a commit that makes tails safe waits until no write waits for a log
            let settles = store.commit.is_settling_hdds();
            match self.log_with_room(device, &waiting.job, io).filter(|_| !settles) {
                Some(hdd) if room.is_low() => {
                    self.spill(device, hdd, waiting, io);
                    return Issued::Left;
                }
                None if store.room().holds(io.now()) && !io.is_stopping() => {
                    return Issued::NoRoom(waiting);
                }
                Some(_) | None => {}
            }
        }
        let issued = match &waiting.job {
            Job::Write { task, .. } => {
                let id = *task;
                if io[device].is_ssd() {
                    let is_issued = self.issue_ssd_write(device, id, io, &mut store.map);
                    if is_issued {
                        let makes = |hdd: usize| !io[DeviceId(hdd as u8)].is_faulted();
                        store.room().take(io.now(), taken, room, makes);
                    }
                    is_issued
                } else {
                    self.issue_log_write(
                        device,
                        id,
                        &store.map,
                        &mut migration.read_back,
                        &mut migration.promotions,
                        io,
                    )
                }
            }
            Job::Edge { task, block, mask } => {
                let (task, block, mask) = (*task, *block, *mask);
                self.issue_edge(device, task, (block, mask), store, migration, io)
            }
            Job::Io(..) => true,
        };
        if !issued {
            if let Some(other) = self.ssd_with_room(device, &waiting.job, &store.map, io) {
                self.pass_on(device, other, waiting, io);
                return Issued::Left;
            }
            let settles = store.commit.is_settling_hdds();
            let hdd = self.log_with_room(device, &waiting.job, io).filter(|_| !settles);
            if let Some(hdd) = hdd {
                self.spill(device, hdd, waiting, io);
                return Issued::Left;
            }
            self.wait_for_space(&waiting.job, io);
            return Issued::NoRoom(waiting);
        }
        if let Job::Io(op, owner) = waiting.job {
            self.note_first_command(&owner, io);
            io.submit_pinned(device, (op, waiting.pin), owner);
        }
        // its commands are counted instead of the job
        io[device].queue.leave(1);
        Issued::Sent
    }

    /// Issues the first job of a class. False: it must wait for space.
    pub(crate) fn issue_class(
        &mut self,
        device: DeviceId,
        class: Class,
        store: &mut Store,
        migration: &mut Migration,
        policy: &Policy,
        io: &mut DeviceIo,
    ) -> bool {
        let d = &mut io[device];
        let is_hdd_read = class == Class::Read && !d.is_ssd();
        let waiting = if is_hdd_read { d.queue.pop_read() } else { d.queue.pop(class) };
        let waiting = waiting.expect("the class was asked for");
        match self.issue(device, waiting, store, migration, policy, io) {
            Issued::Sent | Issued::Left => true,
            Issued::NoRoom(waiting) => {
                assert!(class == Class::Write, "only writes of users wait for space");
                io[device].queue.unpop(class, waiting);
                false
            }
        }
    }

    fn dispatch_one(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) -> bool {
        let d = &io[device];
        if d.is_out() {
            return self.fail_one(device, &policy.steering, io);
        }
        if d.streams.is_some() {
            return policy.dispatch_stream(device, store, self, migration, io);
        }
        if !d.has_waiting() {
            return false;
        }
        let (takes_reads, takes_others) = d.takes();
        if !takes_reads && !takes_others {
            return false;
        }
        let head = |class: Class| d.queue.first(class).map(|w| w.sequence);
        let came = |class: Class| d.queue.first(class).map_or(Instant::ZERO, |w| w.came());
        let view = QueueView {
            read: head(Class::Read).filter(|_| takes_reads),
            write: head(Class::Write).filter(|_| takes_others),
            background: head(Class::Background).filter(|_| takes_others),
            read_came: came(Class::Read),
            write_came: came(Class::Write),
            background_in_flight: d.queue.background_in_flight(),
        };
        match policy.qos.next(&view) {
            None => false,
            Some(Class::Write)
                if !self.issue_class(device, Class::Write, store, migration, policy, io) =>
            {
                // writes wait for space; reads and background work must not wait with them, and reads that never
                // end must not hold up the work that makes room
                let is_due = io[device].queue.background_is_overdue();
                let rest = beside_waiting_write(view, is_due);
                match policy.qos.next(&rest) {
                    Some(class) => self.issue_class(device, class, store, migration, policy, io),
                    None => false,
                }
            }
            Some(Class::Write) => true,
            Some(class) => self.issue_class(device, class, store, migration, policy, io),
        }
    }

    /// Issues what the device can take now.
    #[inline]
    pub(crate) fn dispatch(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        if io[device].is_ssd() {
            while self.dispatch_one(device, store, migration, policy, io) {}
        } else {
            while policy.dispatch_hdd(device, store, volumes, self, migration, io) {}
        }
    }
}

/// Share of a log in use from which users' writes keep off it, in percent.
pub(super) fn log_percent(kept_blocks: u64, store: &Store, io: &DeviceIo) -> u64 {
    if store.commit.is_settling_hdds() {
        return 0;
    }
    // what a full log takes is written twice, and its drive is needed to make room
    match Room::of(&store.map, kept_blocks).is_scarce() {
        true => io.config().log_spill_percent(),
        false => io.config().log_stop_percent,
    }
}

/// What may go where the first write has no room. `is_due`: the background has waited for long enough.
fn beside_waiting_write(view: QueueView, is_due: bool) -> QueueView {
    let makes_way = is_due && view.background.is_some();
    QueueView { write: None, read: view.read.filter(|_| !makes_way), ..view }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WriteCache;
    use crate::device::{HddFlush, Service};
    use crate::io::fixture::drives;
    use crate::log::Log;
    use crate::map::SlotRegion;
    use crate::requests::task::Task;
    use tandem_block::{BLOCK_BYTES, ObjectId, Op, Request, RequestId};

    const SLOTS: u64 = 64;
    /// What users' writes leave alone of so many slots.
    const RESERVED: u64 = 8;

    fn map_of(ssds: u64) -> Map {
        let region = |ssd: u64| SlotRegion::new(DeviceId(ssd as u8), false, SLOTS, 0);
        Map::new((0..ssds).map(region).collect(), 100, ssds as usize)
    }

    fn write(requests: &mut Requests, blocks: u64) -> Job {
        let bytes = blocks * BLOCK_BYTES;
        let request =
            Request::new(RequestId(1), ObjectId(1), Op::Write, (0, bytes), Instant::default());
        Job::Write { task: requests.insert(Task::new(request, 0, blocks)), bytes }
    }

    #[test]
    fn reads_that_never_end_leave_a_turn_to_what_makes_room() {
        let view = |read, background| QueueView {
            read,
            write: Some(1),
            background,
            ..QueueView::default()
        };
        for (read, background, is_due, wanted) in [
            (Some(2), Some(3), false, (Some(2), Some(3))),
            (Some(2), Some(3), true, (None, Some(3))),
            (Some(2), None, true, (Some(2), None)),
            (None, Some(3), true, (None, Some(3))),
        ] {
            let next = beside_waiting_write(view(read, background), is_due);
            assert_eq!(((next.read, next.background), next.write), (wanted, None));
        }
    }

    #[test]
    fn a_write_goes_on_to_the_ssd_with_room_and_the_shortest_queue() {
        let (mut io, mut requests, mut map) = (drives(3, 1), Requests::default(), map_of(3));
        let [full, second, third, hdd] = [0, 1, 2, 3].map(DeviceId);
        let job = write(&mut requests, 4);
        let Job::Write { task, .. } = job else { unreachable!("it is one") };
        let next = |requests: &Requests, map: &Map, io: &DeviceIo| {
            requests.ssd_with_room(full, &job, map, io)
        };
        assert_eq!(next(&requests, &map, &io), Some(second), "the first of equal ones");
        io.enqueue(second, Class::Write, Job::Write { task, bytes: 1 }, None);
        assert_eq!(next(&requests, &map, &io), Some(third), "a shorter queue");
        map.allocate_on(2, SLOTS - RESERVED - 3).expect("it is empty");
        assert_eq!(next(&requests, &map, &io), Some(second), "one slot too few");
        map.allocate_on(1, SLOTS - RESERVED - 3).expect("it is empty");
        assert_eq!(next(&requests, &map, &io), None, "no SSD has room");
        let edge = Job::Edge { task, block: 0, mask: 1 };
        assert_eq!(requests.ssd_with_room(full, &edge, &map, &io), Some(third), "one block");
        assert_eq!(requests.ssd_with_room(hdd, &edge, &map, &io), None, "a log is no SSD");
    }

    /// A drive with an empty log of so many slots in segments of 10.
    fn lay_log(io: &mut DeviceIo, hdd: DeviceId, slots: u64) {
        io[hdd].log = Some(Log::new(SlotRegion::new(hdd, true, slots, 0), 10));
    }

    type Change = fn(&mut Requests, TaskId, &mut DeviceIo);

    /// The mark up to which a log takes these is 80 % where a pool names none.
    #[test]
    fn a_write_goes_to_a_log_only_where_it_keeps_its_promise_and_finds_room() {
        const HDD: DeviceId = DeviceId(1);
        let cases: [(&str, bool, Change); 10] = [
            ("a sound drive", true, |_, _, _| {}),
            ("its own buffer may be lost", false, |requests, id, _| {
                requests[id].request.class = DurabilityClass::Protected;
            }),
            ("a buffer that is never lost", true, |requests, id, io| {
                requests[id].request.class = DurabilityClass::Protected;
                io[HDD].config.write_cache = WriteCache::Protected;
            }),
            ("it must be durable", false, |requests, id, _| requests[id].request.fua = true),
            ("no log", false, |_, _, io| io[HDD].log = None),
            ("a drive that takes nothing new", false, |_, _, io| {
                io[HDD].service = Service::ReadOnly(IoError::Device(HDD));
            }),
            ("its drive is being flushed", false, |_, _, io| {
                io[HDD].flushing = Some(HddFlush { items: 0, home_mark: 0 });
            }),
            ("just enough room", true, |_, _, io| {
                let log = io[HDD].log.as_mut().expect("it has one");
                assert!((0..7).all(|_| log.append(10, true).is_some()));
                assert!(log.append(6, true).is_some());
            }),
            ("a slot too few", false, |_, _, io| {
                let log = io[HDD].log.as_mut().expect("it has one");
                assert!((0..7).all(|_| log.append(10, true).is_some()));
                assert!(log.append(7, true).is_some());
            }),
            ("what waits for it takes the rest", false, |requests, id, io| {
                let log = io[HDD].log.as_mut().expect("it has one");
                assert!((0..7).all(|_| log.append(10, true).is_some()));
                assert!(requests[id].blocks() == 4);
                let job = Job::Write { task: id, bytes: 7 * BLOCK_BYTES };
                io.enqueue(HDD, Class::Write, job, None);
            }),
        ];
        for (what, is_taken, change) in cases {
            let (mut io, mut requests) = (drives(1, 1), Requests::default());
            lay_log(&mut io, HDD, 100);
            let job = write(&mut requests, 4);
            let Job::Write { task, .. } = job else { unreachable!("it is one") };
            change(&mut requests, task, &mut io);
            let found = requests.log_with_room(DeviceId(0), &job, &io);
            assert_eq!(found, is_taken.then_some(HDD), "{what}");
            assert_eq!(requests.log_with_room(HDD, &job, &io), None, "it is for a full SSD");
            let edge = Job::Edge { task, block: 0, mask: 1 };
            assert_eq!(requests.log_with_room(DeviceId(0), &edge, &io), None, "an edge of zeroes");
        }
    }

    #[test]
    fn what_is_spilled_goes_to_the_log_with_the_shortest_queue_and_counts_as_redirected() {
        let (mut io, mut requests) = (drives(1, 2), Requests::default());
        let [ssd, first, second] = [0, 1, 2].map(DeviceId);
        [first, second].into_iter().for_each(|hdd| lay_log(&mut io, hdd, 100));
        let before = write(&mut requests, 1);
        io.enqueue(first, Class::Write, before, None);
        let job = write(&mut requests, 4);
        let Job::Write { task, .. } = job else { unreachable!("it is one") };
        assert_eq!(requests.log_with_room(ssd, &job, &io), Some(second), "a shorter queue");
        io.stats_mut().steered.count(requests[task].reason, 4 * BLOCK_BYTES);
        io.enqueue(ssd, Class::Write, job, None);
        let waiting = io[ssd].queue.pop(Class::Write).expect("it waits");
        assert!(!requests.is_spilled(&waiting.job));
        requests.spill(ssd, second, waiting, &mut io);
        assert_eq!([ssd, first, second].map(|id| io[id].queue.length()), [0, 1, 1]);
        assert_eq!(requests[task].target, Target::Log(second));
        let waiting = io[second].queue.first(Class::Write).expect("it waits there");
        assert!(requests.is_spilled(&waiting.job));
        assert_eq!(io.stats().steered.get(Reason::NoRoom).bytes, 4 * BLOCK_BYTES);
        assert_eq!(io.stats().redirected, (1, 4 * BLOCK_BYTES));
    }

    #[test]
    fn what_is_passed_on_leaves_the_first_queue_and_joins_the_other() {
        let (mut io, mut requests) = (drives(2, 0), Requests::default());
        let job = write(&mut requests, 4);
        io.enqueue(DeviceId(0), Class::Write, job, None);
        assert!(io.take_queued() && !io.take_queued());
        let waiting = io[DeviceId(0)].queue.pop(Class::Write).expect("it waits");
        requests.pass_on(DeviceId(0), DeviceId(1), waiting, &mut io);
        assert_eq!([0, 1].map(|id| io[DeviceId(id)].queue.length()), [0, 1]);
        assert!(io.take_queued(), "the other drive is to be asked");
        assert_eq!(io.stats().passed_on_for_room, 1);
    }
}
