//! What is in the ring of a pair's journal, and where does the next unit go?
//!
//! Source: requirements I16. The books alone: units, what is still needed of them and how much of the
//! ring they take. What is sent to the drive is `journal`'s.

use super::cache::EntryId;
use super::config::JournalConfig;
use super::windows;
use crate::bcw::controller::Controller;
use crate::format::pair_journal::{UnitHeader, header_bytes, padded, ring_bytes};
use std::collections::VecDeque;
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, PayloadId};

/// What the journal is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// There is none, or it is dead.
    #[default]
    Off,
    /// What is accepted will be noted.
    Starting,
    /// It is on record.
    Open,
}

/// A unit in the ring.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub at: u64,
    /// With what was left unused before it.
    pub bytes: u64,
    pub acknowledged: bool,
    /// Writes in it that each leg has not got yet.
    pub left: [u32; 2],
    /// When it got the last one.
    pub done_at: [u64; 2],
}

/// The unit that is being written.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub header: UnitHeader,
    pub at: u64,
    /// Its writes, with their order of acceptance.
    pub entries: Vec<(EntryId, u64)>,
    pub staging: PayloadId,
    /// Bytes of the part that is with a hard drive.
    pub part_bytes: u64,
    /// Commands under way.
    pub left: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Flushing {
    /// Units acknowledged before it.
    pub upto: u64,
    /// For a FLUSH of the pair.
    pub batch: bool,
}

/// A write that was not noted yet, with its order of acceptance and what it takes in the ring at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub id: EntryId,
    pub sequence: u64,
    pub bytes: u64,
}

/// A pair's journal.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    pub state: State,
    pub device: DeviceId,
    pub own: u128,
    pub generation: u32,
    pub head_sequence: u64,
    pub slot: u8,
    pub ring_bytes: u64,
    pub waiting: VecDeque<Waiting>,
    pub waiting_bytes: u64,
    pub writing: Option<Writing>,
    /// Units in the ring, the first with the number `first_unit`.
    pub units: VecDeque<Unit>,
    pub first_unit: u64,
    pub used_bytes: u64,
    pub next_at: u64,
    /// Units up to here are acknowledged, and durable.
    pub acknowledged: u64,
    pub durable: u64,
    /// FUA writes that wait for a flush.
    pub fua: Vec<(EntryId, u64)>,
    pub flushing: Option<Flushing>,
    pub flush_wanted: bool,
    /// The head being written: the first unit that it keeps.
    pub heading: Option<u64>,
    pub head_wanted: bool,
    /// Counts units that reached a leg; and where each leg's last flush stood.
    pub ticks: u64,
    pub flushed_to: [u64; 2],
    pub stats: JournalStats,
    /// Keeps a hard drive's writes fast; and when it wants to be asked again.
    pub bcw: Option<Box<Controller>>,
    pub ask_at: Instant,
    /// A flush opens the next window of a hard drive.
    pub window_wanted: bool,
    /// A FUA write waits to be noted.
    pub is_urgent: bool,
    /// Units that were written although they would be slow.
    pub waited: u64,
}

/// What a pair's journal has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Units written.
    pub units: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Bytes of users' and the engine's writes in them.
    pub data_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Times that the tail was moved.
    pub heads: u64,
    /// Bytes that were written to a leg at the start.
    pub replayed_bytes: u64,
}

/// A pair's journal as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalView {
    /// Its id in the event loop.
    pub device: DeviceId,
    /// Does it take part?
    pub alive: bool,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// … in use
    pub used_bytes: u64,
    /// Where the buffer of a hard drive stands.
    pub window: Option<&'static str>,
    /// Units of a hard drive that did not wait for its buffer.
    pub forced: u64,
    /// Counters.
    pub stats: JournalStats,
}

impl Journal {
    pub fn new(config: Option<&JournalConfig>, device: DeviceId) -> Journal {
        let absent = config.is_none_or(|config| config.absent);
        Journal {
            state: if absent { State::Off } else { State::Starting },
            device,
            own: config.map_or(0, |config| config.uuid),
            generation: 0,
            head_sequence: 0,
            slot: 0,
            ring_bytes: config.map_or(0, |config| ring_bytes(config.capacity_bytes)),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            writing: None,
            units: VecDeque::new(),
            first_unit: 1,
            used_bytes: 0,
            next_at: 0,
            acknowledged: 0,
            durable: 0,
            fua: Vec::new(),
            flushing: None,
            flush_wanted: false,
            heading: None,
            head_wanted: false,
            ticks: 0,
            flushed_to: [0; 2],
            stats: JournalStats::default(),
            bcw: config.and_then(|config| config.profile.as_ref()).map(windows::controller),
            ask_at: Instant::NEVER,
            window_wanted: false,
            is_urgent: false,
            waited: 0,
        }
    }

    pub fn is_on(&self) -> bool {
        self.state != State::Off
    }

    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// What a write takes in the ring at most.
    pub fn bytes_of(length: u64) -> u64 {
        let data = padded(length);
        header_bytes(1, (data / BLOCK_BYTES) as usize) + data
    }

    /// Has the ring room for one more write? One always passes when it is empty.
    pub fn has_room(&self, length: u64) -> bool {
        let accepted = self.used_bytes + self.waiting_bytes;
        !self.is_on()
            || accepted == 0
            || accepted + Journal::bytes_of(length) <= self.ring_bytes / 8 * 7
    }

    /// Where a unit of so many bytes may go, and what is left unused before it.
    pub fn place(&self, bytes: u64) -> Option<(u64, u64)> {
        assert!(bytes <= self.ring_bytes, "a ring holds the largest write: {bytes}");
        let (at, skipped) = if self.next_at + bytes <= self.ring_bytes {
            (self.next_at, 0)
        } else {
            // in an empty ring nothing lies there
            (0, if self.units.is_empty() { 0 } else { self.ring_bytes - self.next_at })
        };
        (self.used_bytes + skipped + bytes <= self.ring_bytes).then_some((at, skipped))
    }

    pub fn next_unit(&self) -> u64 {
        self.first_unit + self.units.len() as u64
    }

    /// A leg has a write of this unit.
    pub fn reached(&mut self, unit: u64, leg: usize) {
        let Some(index) = unit.checked_sub(self.first_unit) else { return };
        let Some(unit) = self.units.get_mut(index as usize) else { return };
        unit.left[leg] -= 1;
        if unit.left[leg] == 0 {
            self.ticks += 1;
            unit.done_at[leg] = self.ticks;
        }
    }

    /// What a flush of a leg that begins now will cover.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    pub fn leg_flushed(&mut self, leg: usize, ticks: u64) {
        self.flushed_to[leg] = self.flushed_to[leg].max(ticks);
    }

    /// Is a write on the journal, durably?
    pub fn has_durably(&self, unit: u64) -> bool {
        !self.is_on() || (unit > 0 && unit <= self.durable)
    }

    /// Nobody waits for the flush under way, or the one that is wanted, any more.
    pub fn forget_batch(&mut self) {
        self.flush_wanted = false;
        if let Some(flushing) = &mut self.flushing {
            flushing.batch = false;
        }
    }

    /// Is the drive asked for something?
    pub fn is_busy(&self) -> bool {
        self.writing.is_some() || self.flushing.is_some() || self.heading.is_some()
    }

    /// Does anything wait for a flush?
    pub fn wants_flush(&self) -> bool {
        self.flush_wanted || self.window_wanted || !self.fua.is_empty()
    }

    /// Nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        let waits = !self.waiting.is_empty() || !self.fua.is_empty() || self.head_wanted;
        !self.is_busy() && (self.state == State::Off || !waits)
    }

    /// It begins anew, with an empty ring.
    pub fn begin(&mut self, generation: u32) {
        self.generation = generation;
        self.state = State::Starting;
        (self.first_unit, self.next_at, self.used_bytes) = (1, 0, 0);
        (self.acknowledged, self.durable) = (0, 0);
        self.units.clear();
    }

    /// As `begin`, and it counts at once.
    pub fn begin_now(&mut self) {
        if self.is_on() {
            self.begin(1);
            self.state = State::Open;
        }
    }

    pub fn view(&self) -> JournalView {
        JournalView {
            device: self.device,
            alive: self.is_on(),
            ring_bytes: self.ring_bytes,
            used_bytes: self.used_bytes,
            window: self.bcw.as_ref().map(|bcw| bcw.state().name()),
            forced: self.waited,
            stats: self.stats,
        }
    }
}
