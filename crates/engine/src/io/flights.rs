//! Commands in flight: whose are they, and for how long already?
//!
//! The commands of a drive are a list in order of issue through the arena that holds them, so that steering
//! may ask for the age of the oldest one with every write.

use super::load::Place;
use super::pins::Pin;
use super::queue::Queue;
use crate::arena::Arena;
use crate::port::{IoId, IoOp};
use tandem_block::{DeviceId, Instant};

/// A command in flight, of an owner.
#[derive(Clone, Debug)]
pub(crate) struct Flight<O> {
    /// Which drive.
    pub(crate) device: DeviceId,
    /// Who waits for its end.
    pub(crate) owner: O,
    /// Bytes that it moves.
    pub(crate) bytes: u64,
    /// When it went out.
    pub(crate) issued: Instant,
    /// No user waits for it.
    pub(crate) background: bool,
    /// It changes what the drive holds.
    pub(crate) changes: bool,
    /// Where it stands among others.
    pub(crate) place: Place,
    /// What it names on the drive.
    pub(crate) pin: Pin,
}

/// All commands in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flights<O> {
    flights: Arena<IoId, Flight<O>>,
}

impl<O> Default for Flights<O> {
    fn default() -> Self {
        Flights { flights: Arena::default() }
    }
}

/// What goes out.
#[derive(Debug)]
pub(crate) struct Departure<'a> {
    /// To which drive.
    pub(crate) device: DeviceId,
    /// What.
    pub(crate) op: &'a IoOp,
    /// No user waits for it.
    pub(crate) background: bool,
    /// What it names on the drive.
    pub(crate) pin: Pin,
    /// When.
    pub(crate) now: Instant,
}

impl<O> Flights<O> {
    /// A command goes out to the drive of this queue: the newest of its drive.
    #[inline]
    pub(crate) fn begin<J>(
        &mut self,
        queue: &mut Queue<J>,
        departs: Departure<'_>,
        owner: O,
    ) -> IoId {
        let Departure { device, op, background, pin, now: issued } = departs;
        let bytes = op.bytes();
        let place = queue.goes_out(op, bytes, background);
        let changes = matches!(op, IoOp::Write { .. } | IoOp::WriteMeta { .. } | IoOp::Trim { .. });
        let flight = Flight { device, owner, bytes, issued, background, changes, place, pin };
        let id = self.flights.insert(flight);
        if place.listed {
            let older = queue.load_mut().join(id);
            assert!(
                older.is_none_or(|older| self.flights[older].issued <= issued),
                "commands go out in the order of time"
            );
            self.flights[id].place.neighbours.follow(None, older);
            if let Some(older) = older {
                self.flights[older].place.neighbours.precede(None, Some(id));
            }
        }
        id
    }

    /// Which drive has this command?
    ///
    /// # Panics
    /// If it is not in flight.
    #[inline]
    pub(crate) fn device(&self, id: IoId) -> DeviceId {
        self.flights[id].device
    }

    /// A command has ended. It names nothing any more.
    ///
    /// # Panics
    /// If it is not in flight, or not with the drive of this queue.
    #[inline]
    pub(crate) fn end<J>(&mut self, queue: &mut Queue<J>, id: IoId) -> Flight<O> {
        let mut flight = self.flights.remove(id);
        queue.ended(&flight.place, flight.bytes, flight.background);
        queue.pins_mut().unpin(std::mem::replace(&mut flight.pin, Pin::NONE));
        assert!(
            queue.load().reads_in_flight <= queue.in_flight(),
            "reads are counted among all commands"
        );
        if flight.place.listed {
            let (older, newer) = flight.place.neighbours.both();
            queue.load_mut().leave(id, older, newer);
            if let Some(older) = older {
                self.flights[older].place.neighbours.precede(Some(id), newer);
            }
            if let Some(newer) = newer {
                self.flights[newer].place.neighbours.follow(Some(id), older);
            }
        }
        flight
    }

    /// How long the oldest read or write of the drive with this queue has been in flight, in ns.
    #[inline]
    pub(crate) fn oldest_ns<J>(&self, queue: &Queue<J>, now: Instant) -> u64 {
        queue.load().oldest().map_or(0, |id| now.since(self.flights[id].issued).ns)
    }

    /// Reads and writes of the drive with this queue, the oldest first.
    pub(crate) fn oldest_first<J>(
        &self,
        queue: &Queue<J>,
    ) -> impl Iterator<Item = (IoId, &Flight<O>)> {
        let with_flight = |id: IoId| (id, &self.flights[id]);
        std::iter::successors(queue.load().oldest(), |id| {
            self.flights[*id].place.neighbours.both().1
        })
        .map(with_flight)
    }

    /// It has another owner from now on.
    ///
    /// # Panics
    /// If it is not in flight.
    pub(crate) fn hand_over(&mut self, id: IoId, to: impl FnOnce(&O) -> O) {
        let owner = &mut self.flights[id].owner;
        *owner = to(owner);
    }

    /// When it went out.
    ///
    /// # Panics
    /// If it is not in flight.
    pub(crate) fn issued(&self, id: IoId) -> Instant {
        self.flights[id].issued
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IoId, &Flight<O>)> {
        self.flights.iter()
    }

    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    /// None?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::queue::QueuedJob;

    struct NoJob;

    impl QueuedJob for NoJob {
        fn op(&self) -> Option<&IoOp> {
            None
        }
    }

    fn read(block: u64) -> IoOp {
        IoOp::ReadMeta { offset_bytes: block * 4096, length_bytes: 4096 }
    }

    struct Drive {
        queue: Queue<NoJob>,
        flights: Flights<&'static str>,
    }

    impl Drive {
        fn begin(&mut self, at_ns: u64, op: &IoOp, owner: &'static str) -> IoId {
            let pin = self.queue.pins_mut().pin(op);
            let now = Instant { ns: at_ns };
            let departs = Departure { device: DeviceId(0), op, background: false, pin, now };
            self.flights.begin(&mut self.queue, departs, owner)
        }

        fn end(&mut self, id: IoId) -> &'static str {
            self.flights.end(&mut self.queue, id).owner
        }

        fn oldest_ns(&self) -> u64 {
            self.flights.oldest_ns(&self.queue, Instant { ns: 100 })
        }
    }

    #[test]
    fn the_oldest_is_known_in_whatever_order_they_end() {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for order in orders {
            let mut drive = Drive { queue: Queue::default(), flights: Flights::default() };
            drive.begin(1, &IoOp::Flush, "a flush has no usual latency");
            let ids = [10, 20, 30].map(|at| (at, drive.begin(at, &read(at), "read")));
            let mut open: Vec<u64> = vec![10, 20, 30];
            for index in order {
                assert_eq!(drive.oldest_ns(), 100 - open[0], "{order:?}");
                assert_eq!(drive.end(ids[index].1), "read");
                open.retain(|at| *at != ids[index].0);
            }
            assert_eq!((drive.oldest_ns(), drive.flights.len()), (0, 1));
            assert_eq!((drive.queue.in_flight(), drive.queue.reads_in_flight()), (1, 0));
        }
    }

    #[test]
    fn what_a_command_names_is_free_when_it_ends() {
        let mut drive = Drive { queue: Queue::default(), flights: Flights::default() };
        let trim = IoOp::Trim { offset_bytes: 4096, length_bytes: 8192 };
        let id = drive.begin(0, &trim, "trim");
        assert!(drive.queue.pins().touches(2, 1));
        assert_eq!(drive.flights.device(id), DeviceId(0));
        drive.end(id);
        assert!(drive.queue.pins().is_empty());
    }

    #[test]
    #[should_panic(expected = "invalid key")]
    fn a_command_ends_once() {
        let mut drive = Drive { queue: Queue::default(), flights: Flights::default() };
        let id = drive.begin(0, &IoOp::Flush, "flush");
        drive.end(id);
        drive.end(id);
    }
}
