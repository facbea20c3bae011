//! The queue of one drive: what waits for it, and how much is in flight?
//!
//! A job is *accepted* when it is put in, and counts until it has ended, or until the commands that it became
//! count in its place. Jobs of a drive whose streams are told apart are kept elsewhere and are counted here.

use super::load::{Load, Place};
use super::pins::{Pin, Pins};
use super::read_order::{WaitingRead, next_read};
use crate::port::IoOp;
use crate::stats::queue_found::QueueFound;
use std::collections::VecDeque;
use tandem_block::Instant;

/// Reads of a hard drive that go one behind the other while something else waits, at most (guess: a tenth of a second).
pub(crate) const READS_IN_A_ROW_MAX: u32 = 16;
/// Writes that may follow each other then, where the drive takes them one behind the other without a move of its arm
/// (guess: less than what a read takes).
pub(crate) const WRITES_IN_A_ROW_MAX: u32 = 64;
/// Commands of users in a row after which background work is next that makes room for a write that waits.
const USERS_IN_A_ROW_MAX: u32 = 16;

/// Who waits: user reads, user writes, background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A user waits for bytes.
    Read,
    /// A user waits for an acknowledgement.
    Write,
    /// Nobody waits, or only a commit.
    Background,
}

impl Class {
    /// In the order in which a drive that is out of service is emptied.
    pub(crate) const ALL: [Class; 3] = [Class::Read, Class::Write, Class::Background];
}

/// What can wait for a drive.
pub trait QueuedJob {
    /// The command, if it is known while the job waits.
    fn op(&self) -> Option<&IoOp>;
}

/// One waiting job.
#[derive(Clone, Debug)]
pub struct Waiting<J> {
    /// Order of arrival at this drive.
    pub sequence: u64,
    /// Reads that had been taken in the drive's order when it came.
    came_after: u64,
    /// When it came.
    came: Instant,
    /// Its size; 0 for what moves none.
    pub bytes: u64,
    /// What.
    pub job: J,
    /// What it names on the drive, if that is known while it waits.
    pub pin: Pin,
}

impl<J> Waiting<J> {
    /// A job that waits behind none in the drive's order.
    pub fn new(sequence: u64, bytes: u64, job: J, pin: Pin) -> Waiting<J> {
        Waiting { sequence, came_after: 0, came: Instant::ZERO, bytes, job, pin }
    }

    /// When it came; the beginning of time for one that nobody queued.
    pub(crate) const fn came(&self) -> Instant {
        self.came
    }
}

/// The queue of one drive.
#[derive(Clone, Debug)]
pub struct Queue<J> {
    /// By class, where streams are not told apart.
    waiting: [VecDeque<Waiting<J>>; 3],
    arrivals: u64,
    /// In the drive's order, from those that waited.
    reads_taken: u64,
    waiting_bytes: u64,
    /// Accepted and not ended. Paper: `l(t)` in [BCW Alg. 3].
    length: u32,
    /// What `length` was when jobs came.
    found: QueueFound,
    in_flight: u32,
    background_in_flight: u32,
    load: Load,
    pins: Pins,
    /// Where on the drive the last command ends.
    head_bytes: u64,
    /// Reads that were taken since another command went out.
    reads_in_a_row: u32,
    /// Writes that may still follow those that went out before the reads that wait.
    writes_left: u32,
    /// Commands of users that went out since one for the background.
    users_in_a_row: u32,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Queue {
            waiting: Default::default(),
            arrivals: 0,
            reads_taken: 0,
            waiting_bytes: 0,
            length: 0,
            found: QueueFound::default(),
            in_flight: 0,
            background_in_flight: 0,
            load: Load::default(),
            pins: Pins::default(),
            head_bytes: 0,
            reads_in_a_row: 0,
            writes_left: 0,
            users_in_a_row: 0,
        }
    }
}

impl<J: QueuedJob> Queue<J> {
    /// Adds a job behind those of its class.
    pub(crate) fn enqueue(&mut self, class: Class, job: J, bytes: u64, now: Instant) {
        let waiting = self.accept(job, bytes, now);
        self.waiting[class as usize].push_back(waiting);
    }

    /// Counts a job that is going to wait elsewhere.
    #[inline]
    pub(crate) fn accept(&mut self, job: J, bytes: u64, now: Instant) -> Waiting<J> {
        self.arrivals += 1;
        self.found.note(self.length);
        self.length += 1;
        self.waiting_bytes += bytes;
        let pin = job.op().map_or(Pin::NONE, |op| self.pins.pin(op));
        Waiting {
            sequence: self.arrivals,
            came_after: self.reads_taken,
            came: now,
            bytes,
            job,
            pin,
        }
    }

    /// Takes the first waiting job of a class; it is still accepted.
    pub(crate) fn pop(&mut self, class: Class) -> Option<Waiting<J>> {
        let waiting = self.waiting[class as usize].pop_front()?;
        self.taken(waiting.bytes);
        Some(waiting)
    }

    /// Takes the waiting read that a hard drive does next; it is still accepted.
    pub(crate) fn pop_read(&mut self) -> Option<Waiting<J>> {
        let reads = &mut self.waiting[Class::Read as usize];
        let places = reads.iter().map(|waiting| WaitingRead {
            came_after: waiting.came_after,
            offset_bytes: waiting.job.op().and_then(IoOp::place).map(|place| place.start),
        });
        let at = next_read(places, self.head_bytes)?;
        let waiting = reads.remove(at).expect("it is one of those that wait");
        self.reads_taken += 1;
        self.reads_in_a_row = self.reads_in_a_row.saturating_add(1);
        self.taken(waiting.bytes);
        Some(waiting)
    }

    /// Were so many reads of a hard drive taken that whatever else waits is next?
    pub(crate) fn others_are_overdue(&self) -> bool {
        self.reads_in_a_row >= READS_IN_A_ROW_MAX
    }

    /// Did a write just go out before reads that wait, and may another one follow it?
    pub(crate) fn writes_have_turn(&self) -> bool {
        self.writes_left > 0 && self.waits(Class::Write)
    }

    /// Did so many commands of users go out that background work is next where a write waits for room?
    pub(crate) fn background_is_overdue(&self) -> bool {
        self.users_in_a_row >= USERS_IN_A_ROW_MAX
    }

    /// Puts it back where it was.
    pub(crate) fn unpop(&mut self, class: Class, waiting: Waiting<J>) {
        self.put_back(waiting.bytes);
        assert!(
            self.first(class).is_none_or(|next| waiting.sequence < next.sequence),
            "what goes back to its place came before all others"
        );
        self.waiting[class as usize].push_front(waiting);
    }

    /// Takes those of a class out that are like this, in order; they are still accepted.
    pub(crate) fn take(&mut self, class: Class, is_wanted: impl Fn(&J) -> bool) -> Vec<Waiting<J>> {
        let all = std::mem::take(&mut self.waiting[class as usize]);
        let mut taken = Vec::new();
        for waiting in all {
            if is_wanted(&waiting.job) {
                taken.push(waiting);
            } else {
                self.waiting[class as usize].push_back(waiting);
            }
        }
        self.taken(taken.iter().map(|waiting| waiting.bytes).sum());
        taken
    }

    /// The first job that waits in a class.
    #[inline]
    pub(crate) fn first(&self, class: Class) -> Option<&Waiting<J>> {
        self.waiting[class as usize].front()
    }

    /// Does anything wait in this class?
    #[inline]
    pub(crate) fn waits(&self, class: Class) -> bool {
        !self.waiting[class as usize].is_empty()
    }

    /// Jobs that wait in a class, oldest first.
    pub(crate) fn jobs(&self, class: Class) -> impl ExactSizeIterator<Item = &J> {
        self.waiting[class as usize].iter().map(|waiting| &waiting.job)
    }

    /// Does anything wait in any class?
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }
}

impl<J> Queue<J> {
    /// A job of so many bytes waits no more; it is still accepted.
    #[inline]
    pub(crate) fn taken(&mut self, bytes: u64) {
        self.waiting_bytes = self.waiting_bytes.checked_sub(bytes).expect("it waited");
    }

    /// It waits again.
    #[inline]
    pub(crate) fn put_back(&mut self, bytes: u64) {
        self.waiting_bytes += bytes;
    }

    /// So many jobs that wait no more are not accepted any more: their commands are, or nothing is.
    ///
    /// # Panics
    /// If more leave than were accepted.
    #[inline]
    pub(crate) fn leave(&mut self, jobs: u32) {
        self.length = self.length.checked_sub(jobs).expect("they were accepted");
        assert!(self.in_flight <= self.length, "commands in flight stay accepted");
    }

    /// A command goes out. Returns where it stands among those of its drive.
    #[inline]
    pub(super) fn goes_out(&mut self, op: &IoOp, bytes: u64, background: bool) -> Place {
        self.in_flight += 1;
        self.background_in_flight += u32::from(background);
        assert!(self.background_in_flight <= self.in_flight, "they are counted among all");
        if op.is_read() {
            self.writes_left = 0;
        } else {
            let begins = self.reads_in_a_row >= READS_IN_A_ROW_MAX;
            self.writes_left =
                if begins { WRITES_IN_A_ROW_MAX } else { self.writes_left.saturating_sub(1) };
            self.reads_in_a_row = 0;
        }
        self.users_in_a_row = if background { 0 } else { self.users_in_a_row.saturating_add(1) };
        self.head_bytes = op.place().map_or(self.head_bytes, |place| place.end);
        let place = self.load.add(op, bytes, self.length);
        self.length += 1;
        place
    }

    /// A command has ended.
    ///
    /// # Panics
    /// If none is in flight.
    #[inline]
    pub(super) fn ended(&mut self, place: &Place, bytes: u64, background: bool) {
        self.in_flight = self.in_flight.checked_sub(1).expect("it was in flight");
        assert!(
            self.background_in_flight >= u32::from(background),
            "a command ends as what it went out as"
        );
        self.background_in_flight -= u32::from(background);
        assert!(self.background_in_flight <= self.in_flight, "they are counted among all");
        self.leave(1);
        self.load.remove(place, bytes);
    }

    /// A user's read is counted for the rate of reads.
    #[inline]
    pub(crate) fn note_read(&mut self, now: Instant) {
        self.load.reads_lately.add(now);
    }

    /// Users' reads a second, lately.
    pub(crate) fn reads_per_s(&mut self, now: Instant) -> u64 {
        self.load.reads_lately.advance(now);
        self.load.reads_lately.per_s()
    }

    /// Accepted and not ended.
    #[inline]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// What the length was when jobs came.
    pub fn found(&self) -> &QueueFound {
        &self.found
    }

    /// Commands in flight.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// … of the background.
    #[inline]
    pub fn background_in_flight(&self) -> u32 {
        self.background_in_flight
    }

    /// … that read.
    #[inline]
    pub(crate) fn reads_in_flight(&self) -> u32 {
        self.load.reads_in_flight
    }

    /// Bytes in flight.
    #[inline]
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.load.in_flight_bytes
    }

    /// … of which so many are written of users' blocks.
    #[inline]
    pub(crate) fn written_bytes(&self) -> u64 {
        self.load.written_bytes()
    }

    /// Bytes of jobs that wait.
    #[inline]
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Blocks of the drive that commands name, and those that wait.
    #[inline]
    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The same, to pin and to unpin.
    #[inline]
    pub(crate) fn pins_mut(&mut self) -> &mut Pins {
        &mut self.pins
    }

    #[inline]
    pub(super) fn load(&self) -> &Load {
        &self.load
    }

    #[inline]
    pub(super) fn load_mut(&mut self) -> &mut Load {
        &mut self.load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::PayloadId;

    #[derive(Clone, Debug, PartialEq)]
    struct Job(u32, Option<IoOp>);

    impl QueuedJob for Job {
        fn op(&self) -> Option<&IoOp> {
            self.1.as_ref()
        }
    }

    fn trim(block: u64) -> IoOp {
        IoOp::Trim { offset_bytes: block * 4096, length_bytes: 4096 }
    }

    /// Length, bytes that wait, pins.
    fn counts(queue: &Queue<Job>) -> (u32, u64, usize) {
        (queue.length(), queue.waiting_bytes(), queue.pins().len())
    }

    #[test]
    fn a_job_counts_until_it_leaves() {
        let mut queue = Queue::default();
        assert_eq!(counts(&queue), (0, 0, 0));
        queue.enqueue(Class::Write, Job(1, None), 10, Instant::ZERO);
        queue.enqueue(Class::Write, Job(2, Some(trim(7))), 20, Instant::ZERO);
        queue.enqueue(Class::Read, Job(3, None), 40, Instant::ZERO);
        assert_eq!(counts(&queue), (3, 70, 1));
        let first = queue.pop(Class::Write).expect("two wait");
        assert_eq!((first.job.0, first.sequence, counts(&queue)), (1, 1, (3, 60, 1)));
        queue.unpop(Class::Write, first);
        let order: Vec<u32> = queue.jobs(Class::Write).map(|job| job.0).collect();
        assert_eq!((order, counts(&queue)), (vec![1, 2], (3, 70, 1)));
        let mut taken = queue.take(Class::Write, |job| job.0 == 2);
        assert_eq!((taken.len(), counts(&queue)), (1, (3, 50, 1)));
        queue.pins_mut().unpin(taken.remove(0).pin);
        queue.leave(1);
        assert_eq!(counts(&queue), (2, 50, 0));
        assert!(queue.waits(Class::Read) && !queue.waits(Class::Background));
    }

    fn read(block: u64) -> IoOp {
        IoOp::Read {
            offset_bytes: block * 4096,
            length_bytes: 4096,
            into: PayloadId::NONE,
            into_offset_bytes: 0,
        }
    }

    /// The head follows the commands that go out.
    #[test]
    fn reads_are_taken_as_they_lie() {
        let mut queue = Queue::default();
        assert!(queue.pop_read().is_none());
        queue.goes_out(&read(100), 4096, false);
        for (job, block) in [(1, 10), (2, 120), (3, 90)] {
            queue.enqueue(Class::Read, Job(job, Some(read(block))), 4096, Instant::ZERO);
        }
        let mut order = Vec::new();
        while let Some(taken) = queue.pop_read() {
            queue.goes_out(&taken.job.1.expect("a read has one"), 4096, false);
            queue.goes_out(&IoOp::Flush, 0, true);
            order.push(taken.job.0);
        }
        assert_eq!(order, [3, 2, 1]);
    }

    #[test]
    fn other_commands_are_overdue_after_so_many_reads() {
        let mut queue = Queue::default();
        for taken in 0..2 * READS_IN_A_ROW_MAX {
            assert_eq!(queue.others_are_overdue(), taken >= READS_IN_A_ROW_MAX, "{taken}");
            queue.enqueue(Class::Read, Job(taken, Some(read(7))), 4096, Instant::ZERO);
            queue.pop_read().expect("it waits");
            queue.goes_out(&read(7), 4096, false);
        }
        queue.goes_out(&IoOp::Flush, 0, false);
        assert!(!queue.others_are_overdue());
    }

    #[test]
    fn background_work_is_overdue_after_so_many_commands_of_users() {
        let mut queue = Queue::<Job>::default();
        for sent in 0..2 * USERS_IN_A_ROW_MAX {
            assert_eq!(queue.background_is_overdue(), sent >= USERS_IN_A_ROW_MAX, "{sent}");
            queue.goes_out(&read(7), 4096, false);
        }
        queue.goes_out(&read(7), 4096, true);
        assert!(!queue.background_is_overdue(), "a read counts, where it is one of the background");
    }

    /// A job finds those that wait, and the commands of others that have not ended.
    #[test]
    fn a_job_finds_what_was_accepted_before_it() {
        let mut queue = Queue::default();
        let found = |queue: &Queue<Job>| {
            (queue.found().count(), queue.found().percentile(50), queue.found().max())
        };
        queue.enqueue(Class::Write, Job(1, None), 10, Instant::ZERO); // 0
        queue.enqueue(Class::Write, Job(2, None), 10, Instant::ZERO); // 1
        assert_eq!(found(&queue), (2, 0, 1));
        // the first becomes two commands
        let first = queue.pop(Class::Write).expect("two wait");
        let flights = [first.bytes, 0].map(|bytes| queue.goes_out(&trim(1), bytes, false));
        queue.leave(1);
        queue.enqueue(Class::Read, Job(3, Some(read(7))), 4096, Instant::ZERO); // 3
        assert_eq!(found(&queue), (3, 1, 3));
        // what goes back to its place does not come again
        let read = queue.pop(Class::Read).expect("it waits");
        queue.unpop(Class::Read, read);
        flights.iter().zip([10, 0]).for_each(|(place, bytes)| queue.ended(place, bytes, false));
        queue.enqueue(Class::Background, Job(4, None), 0, Instant::ZERO); // 2
        queue.enqueue(Class::Background, Job(5, None), 0, Instant::ZERO); // 3
        assert_eq!(found(&queue), (5, 2, 3));
    }

    #[test]
    fn a_command_counts_until_it_ends() {
        let mut queue = Queue::<Job>::default();
        let first = queue.goes_out(&IoOp::Flush, 0, true);
        let second = queue.goes_out(&trim(1), 4096, false);
        assert_eq!((first.queue_length, second.queue_length), (0, 1));
        assert_eq!((queue.in_flight(), queue.background_in_flight(), queue.length()), (2, 1, 2));
        queue.ended(&first, 0, true);
        queue.ended(&second, 4096, false);
        let left = (queue.in_flight(), queue.background_in_flight(), queue.length());
        assert_eq!((left, queue.in_flight_bytes()), ((0, 0, 0), 0));
    }

    #[test]
    #[should_panic(expected = "they were accepted")]
    fn nobody_leaves_who_was_not_accepted() {
        Queue::<Job>::default().leave(1);
    }

    #[test]
    #[should_panic(expected = "it waited")]
    fn nothing_is_taken_that_does_not_wait() {
        Queue::<Job>::default().taken(1);
    }
}
