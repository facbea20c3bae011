//! Deadlines: what if a drive leaves a command without an answer?
//!
//! Rule: no wait without an end. Every command that goes out to a drive passes here and gets a name of its
//! own. A drive that leaves one without an answer for half of its deadline is *slow*. When the deadline is
//! over, all its commands are *abandoned*: whoever waits for them is told that there was no answer, and the
//! drive is out of service. An answer that comes later is for nobody. Until then the buffer that an
//! abandoned command names is kept, since the drive may still read it or write to it.

use crate::config::{DEADLINE, EngineConfig};
use crate::port::{Command, Io, IoId, IoOp};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tandem_block::{DeviceId, Duration, Instant, PayloadId};

/// Commands that ended and are still listed behind one that has not, at most, beside twice as many as are
/// out: bounds memory where one command is stuck.
const ENDED_MAX: usize = 256;

/// A command that is out.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// Its name inside the engine; `None` once it was abandoned.
    inner: Option<IoId>,
    /// Whose it is; nobody's if the event loop itself carries it out.
    drive: Option<DeviceId>,
    /// A buffer that it names.
    payload: PayloadId,
    serial: u64,
}

/// The commands of one drive, in the order in which they went out. Those that have ended stay until they
/// are first.
#[derive(Clone, Debug)]
struct Queue {
    out: VecDeque<(Instant, u32, u64)>,
    /// How many of them have not ended.
    live: usize,
    slow: bool,
    limit: Duration,
    /// When the first of them makes the drive slow, or is overdue: asked several times with each event.
    due: Instant,
}

impl Queue {
    fn new(limit: Duration) -> Self {
        Queue { out: VecDeque::new(), live: 0, slow: false, limit, due: Instant::NEVER }
    }

    /// The first command is another one, or the drive is slow by now, or not any more.
    fn note_due(&mut self) {
        let limit = if self.slow { self.limit } else { half(self.limit) };
        self.due = self.out.front().map_or(Instant::NEVER, |&(since, ..)| since + limit);
    }

    /// Commands that ended go, where they are first, or the most.
    fn tidy(&mut self, flights: &Slab<Flight>) {
        while self.out.front().is_some_and(|out| !is_out(flights, out)) {
            self.out.pop_front();
        }
        if self.out.len() > 2 * self.live + ENDED_MAX {
            self.out.retain(|out| is_out(flights, out));
        }
        self.note_due();
    }
}

/// What became of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is for this command.
    Of(IoId),
    /// It came too late, and is for nobody.
    TooLate,
}

/// All commands that are out.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    flights: Slab<Flight>,
    serial: u64,
    /// By drive of the event loop.
    queues: Vec<Queue>,
    /// When the next drive is slow, or its deadline is over: the first of the queues' own.
    due: Instant,
    /// Of each drive of the event loop.
    limits: Vec<Duration>,
    /// How many commands were abandoned and have not ended, by buffer.
    abandoned: BTreeMap<PayloadId, u32>,
    /// Buffers that the engine does not need any more, but an abandoned command names.
    kept: BTreeSet<PayloadId>,
}

impl Deadlines {
    /// For the drives of a set, and the second ones of pairs.
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let devices = (0..config.devices.len() as u8).map(DeviceId);
        let legs = config.pairs.iter().map(|pair| pair.device);
        Deadlines::new(devices.chain(legs).map(|id| config.deadline(id)).collect())
    }

    /// For drives with these deadlines; those that come later have the longest of them.
    pub(crate) fn new(limits: Vec<Duration>) -> Self {
        Deadlines {
            flights: Slab::new(),
            serial: 0,
            queues: Vec::new(),
            due: Instant::NEVER,
            limits,
            abandoned: BTreeMap::new(),
            kept: BTreeSet::new(),
        }
    }

    fn limit(&self, drive: DeviceId) -> Duration {
        let longest = || self.limits.iter().copied().max().unwrap_or(DEADLINE);
        self.limits.get(usize::from(drive.0)).copied().unwrap_or_else(longest)
    }

    fn queue(&mut self, drive: DeviceId) -> &mut Queue {
        let index = usize::from(drive.0);
        while index >= self.queues.len() {
            let limit = self.limit(DeviceId(self.queues.len() as u8));
            self.queues.push(Queue::new(limit));
        }
        &mut self.queues[index]
    }

    /// What the engine asks of the event loop from `first` on in `commands`: commands get the names that their
    /// completions will have, and buffers that the event loop must not reuse yet are not released.
    pub(crate) fn send(&mut self, now: Instant, commands: &mut Vec<Command>, first: usize) {
        for command in &mut commands[first..] {
            match command {
                Command::Submit(io) => {
                    let (drive, payload) = (Some(io.device), payload_of(io));
                    io.id = self.name(now, Some(io.id), drive, payload);
                }
                Command::Checksum { id, payload, .. } => {
                    *id = self.name(now, Some(*id), None, *payload);
                }
                _ => {}
            }
        }
        if self.abandoned.is_empty() {
            return;
        }
        let (mut at, kept) = (0, &mut self.kept);
        commands.retain(|command| {
            at += 1;
            let held = match command {
                Command::Release(payload) if at > first => self.abandoned.contains_key(payload),
                _ => false,
            };
            if let (true, Command::Release(payload)) = (held, command) {
                kept.insert(*payload);
            }
            !held
        });
    }

    fn name(
        &mut self,
        now: Instant,
        inner: Option<IoId>,
        drive: Option<DeviceId>,
        payload: PayloadId,
    ) -> IoId {
        self.serial += 1;
        let serial = self.serial;
        let key = self.flights.insert(Flight { inner, drive, payload, serial });
        let id = u32::try_from(key).expect("commands in flight are bounded");
        if let Some(drive) = drive {
            let queue = self.queue(drive);
            assert!(
                queue.out.back().is_none_or(|last| last.0 <= now),
                "commands are listed in the order in which they go out"
            );
            queue.out.push_back((now, id, serial));
            queue.live += 1;
            if queue.out.len() == 1 {
                queue.note_due();
                self.note_due();
            }
        }
        IoId(id)
    }

    /// A completion: whose is it?
    ///
    /// # Panics
    /// If no command has this name.
    pub(crate) fn completed(&mut self, id: IoId, commands: &mut Vec<Command>) -> Heard {
        let flight = self.flights.remove(id.0 as usize);
        if let Some(drive) = flight.drive {
            let queue = &mut self.queues[usize::from(drive.0)];
            let lived = usize::from(flight.inner.is_some());
            assert!(queue.live >= lived, "a command that ends was out");
            queue.live -= lived;
            queue.tidy(&self.flights);
            assert!(queue.live <= queue.out.len(), "commands that are out are listed");
            self.note_due();
        }
        if let Some(inner) = flight.inner {
            return Heard::Of(inner);
        }
        let count = self.abandoned.get_mut(&flight.payload).expect("counted when abandoned");
        assert!(*count > 0, "a buffer that is listed has abandoned commands");
        *count -= 1;
        if *count == 0 {
            self.abandoned.remove(&flight.payload);
            if self.kept.remove(&flight.payload) {
                commands.push(Command::Release(flight.payload));
            }
        }
        assert!(
            self.kept.len() <= self.abandoned.len(),
            "buffers are kept for abandoned commands alone"
        );
        Heard::TooLate
    }

    /// Drives whose deadline is over. Who is slow by now, or is not any more, is noted.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<DeviceId> {
        let mut overdue = Vec::new();
        for index in 0..self.queues.len() {
            let queue = &mut self.queues[index];
            let age = queue.out.front().map_or(Duration::ZERO, |&(since, ..)| now.since(since));
            queue.slow = !queue.out.is_empty() && age >= half(queue.limit);
            if queue.slow && age >= queue.limit {
                overdue.push(DeviceId(index as u8));
            }
            queue.note_due();
        }
        self.note_due();
        overdue
    }

    /// Abandons all commands of a drive. Returns their names inside the engine, in the order in which they
    /// went out.
    pub(crate) fn abandon(&mut self, drive: DeviceId) -> Vec<IoId> {
        let queue = self.queue(drive);
        let live = queue.live;
        (queue.live, queue.slow) = (0, false);
        let mut abandoned = Vec::new();
        for out in std::mem::take(&mut self.queue(drive).out) {
            if !is_out(&self.flights, &out) {
                continue;
            }
            let flight = &mut self.flights[out.1 as usize];
            if let Some(inner) = flight.inner.take() {
                abandoned.push(inner);
                *self.abandoned.entry(flight.payload).or_insert(0) += 1;
            }
        }
        assert!(abandoned.len() == live, "each command that was out is abandoned once");
        self.queue(drive).note_due();
        self.note_due();
        abandoned
    }

    /// When the next drive is slow, or its deadline is over.
    #[inline]
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Some queue's own has changed.
    #[inline]
    fn note_due(&mut self) {
        self.due = self.queues.iter().fold(Instant::NEVER, |due, queue| due.min(queue.due));
    }

    /// Is a command of this drive without an answer for more than half of its deadline?
    pub(crate) fn is_slow(&self, drive: DeviceId) -> bool {
        self.queues.get(usize::from(drive.0)).is_some_and(|queue| queue.slow)
    }

    /// Commands that were abandoned and have not ended.
    #[cfg(test)]
    pub(crate) fn abandoned(&self) -> usize {
        self.abandoned.values().map(|&count| count as usize).sum()
    }
}

fn half(limit: Duration) -> Duration {
    Duration::from_ns(limit.ns / 2)
}

fn is_out(flights: &Slab<Flight>, &(_, id, serial): &(Instant, u32, u64)) -> bool {
    flights.get(id as usize).is_some_and(|flight| flight.serial == serial)
}

fn payload_of(io: &Io) -> PayloadId {
    match io.op {
        IoOp::Read { into: payload, .. } | IoOp::Write { from: payload, .. } => payload,
        IoOp::ReadMeta { .. } | IoOp::WriteMeta { .. } | IoOp::Flush | IoOp::Trim { .. } => {
            PayloadId::NONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSD: DeviceId = DeviceId(0);
    const HDD: DeviceId = DeviceId(1);

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_s(s)
    }

    fn read(device: DeviceId, id: u32, payload: u64) -> Command {
        let op = IoOp::Read {
            offset_bytes: 0,
            length_bytes: 4096,
            into: PayloadId(payload),
            into_offset_bytes: 0,
        };
        Command::Submit(Io { id: IoId(id), device, op })
    }

    fn deadlines() -> Deadlines {
        Deadlines::new(vec![Duration::from_s(10), Duration::from_s(30)])
    }

    /// Sends and returns the name that it has outside.
    fn send(deadlines: &mut Deadlines, now: Instant, command: Command) -> IoId {
        let mut commands = vec![command];
        deadlines.send(now, &mut commands, 0);
        match &commands[0] {
            Command::Submit(io) => io.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_ends_under_the_name_that_it_has_inside() {
        let mut d = deadlines();
        let outer: Vec<IoId> =
            [7, 8, 9].map(|inner| send(&mut d, at(0), read(SSD, inner, 1))).into();
        let mut out = Vec::new();
        assert_eq!(d.completed(outer[1], &mut out), Heard::Of(IoId(8)));
        let again = send(&mut d, at(1), read(SSD, 10, 1));
        assert_eq!(again, outer[1], "names are used again");
        assert_eq!(d.completed(outer[0], &mut out), Heard::Of(IoId(7)));
        assert_eq!(d.completed(again, &mut out), Heard::Of(IoId(10)));
        assert_eq!(d.due(), at(5), "the oldest that is left counts");
        assert_eq!(d.completed(outer[2], &mut out), Heard::Of(IoId(9)));
        assert_eq!((d.due(), out.len(), d.abandoned()), (Instant::NEVER, 0, 0));
    }

    #[test]
    fn a_silent_drive_is_slow_then_abandoned_and_heard_too_late() {
        let mut d = deadlines();
        let first = send(&mut d, at(0), read(SSD, 1, 5));
        let second = send(&mut d, at(2), read(SSD, 2, 6));
        let other = send(&mut d, at(0), read(HDD, 3, 7));
        assert_eq!((d.due(), d.overdue(at(4))), (at(5), vec![]));
        assert!(!d.is_slow(SSD));
        assert_eq!((d.overdue(at(5)), d.is_slow(SSD), d.is_slow(HDD)), (vec![], true, false));
        assert_eq!(d.due(), at(10));
        assert_eq!(d.overdue(at(10)), vec![SSD]);
        assert_eq!(d.abandon(SSD), vec![IoId(1), IoId(2)]);
        assert_eq!((d.abandoned(), d.overdue(at(11)), d.due()), (2, vec![], at(15)));
        // the engine gives up both buffers, and one that nobody names
        let mut commands = [9, 5, 6].map(|p| Command::Release(PayloadId(p))).to_vec();
        d.send(at(11), &mut commands, 1);
        assert_eq!(commands, [Command::Release(PayloadId(9))]);
        let mut out = Vec::new();
        assert_eq!(d.completed(second, &mut out), Heard::TooLate);
        assert_eq!(out, [Command::Release(PayloadId(6))]);
        assert_eq!(d.completed(other, &mut out), Heard::Of(IoId(3)));
        assert_eq!(d.completed(first, &mut out), Heard::TooLate);
        assert_eq!((out.len(), d.abandoned()), (2, 0));
    }

    #[test]
    fn a_buffer_of_two_abandoned_commands_waits_for_both() {
        let mut d = deadlines();
        let ids = [1, 2].map(|inner| send(&mut d, at(0), read(SSD, inner, 5)));
        d.abandon(SSD);
        let mut out = Vec::new();
        assert_eq!(d.completed(ids[0], &mut out), Heard::TooLate);
        let mut commands = vec![Command::Release(PayloadId(5))];
        d.send(at(1), &mut commands, 0);
        assert!(commands.is_empty() && out.is_empty());
        assert_eq!(d.completed(ids[1], &mut out), Heard::TooLate);
        assert_eq!(out, [Command::Release(PayloadId(5))]);
    }

    #[test]
    fn a_drive_that_answers_is_not_slow_any_more() {
        let mut d = deadlines();
        let id = send(&mut d, at(0), read(SSD, 1, 5));
        d.overdue(at(6));
        assert!(d.is_slow(SSD));
        d.completed(id, &mut Vec::new());
        d.overdue(at(6));
        assert!(!d.is_slow(SSD));
    }
}
