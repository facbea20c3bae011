//! Where are a pair's writes noted, so that a power cut and the death of a leg at once lose nothing?
//!
//! Source: requirements I16, B9, frontier D4. What one leg lacks is in RAM, so without a journal what was
//! flushed is on one leg alone until roles have changed. A third drive keeps a ring of units
//! (`format/pair_journal.rs`), each with the extents, checksums and data of some writes:
//!
//! ```text
//!   a write ──▶ cache ──┬──▶ the writing leg                 ring:  ░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒░░░░
//!                       └──▶ waiting ──▶ one unit at a time            ▲ tail      ▲   ▲ next
//!   FLUSH ──▶ both are flushed, then it is answered                 (head)   durable   acknowledged
//! ```
//! - Every write is noted, in the order of acceptance. What was trimmed and what is the engine's own is
//!   not: the one is not read again, the other is on both legs (`meta.rs`).
//! - FLUSH and FUA wait for the writing leg and for the journal; FLUSH also for the other leg, if that
//!   was written metadata which is not durable there. So what was flushed survives a power cut together
//!   with the death of either leg (by the journal), or of the journal (by the leg).
//! - A unit is kept until what it has is on both legs, and each of them was flushed since then. The head
//!   that says so is durable before the unit's place is used again.
//! - At a start after a crash the ring is written to the legs that are there, in order, before anybody is
//!   served; then a generation begins with an empty ring. Units of anything older than what a leg has
//!   are followed by the newer one, or that was not flushed.
//! - The legs' records name the generation that counts, the head the legs for which it does. A journal
//!   that dies is struck off the records before anything is answered without it.
//! - A full ring holds writes back and lets roles change early.

use super::cache::{Cache, EntryId, Progress};
use super::commands::Commands;
use super::config::{Answer, PairConfig};
use super::flight::Flight;
use super::ring::Ring;
use super::roles::{Phase, Roles};
use super::unit::{Unit, Waiting};
use super::view::{JournalStats, JournalView};
use super::windows::Windows;
use crate::format::pair_journal::{HEAD_BYTES, JournalHead, UnitHeader, ring_bytes};
use crate::mutant::Mutant;
use crate::port::IoOp;
use tandem_block::{DeviceId, Instant, MIB};

/// A unit takes so much data at most, unless one write has more (guess).
const UNIT_BYTES: u64 = MIB;
/// Units wait for a window until they would take this part of the ring.
const RING_PART: u64 = 8;

/// What the journal is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// There is none, or it is dead.
    #[default]
    Off,
    /// What is accepted will be noted.
    Starting,
    /// It is on record.
    Open,
}

#[derive(Clone, Debug)]
struct Flushing {
    /// Units acknowledged before it.
    upto: u64,
    /// For a FLUSH of the pair.
    batch: bool,
}

/// What others know that decides what the journal does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Legs that lack nothing but what the ring has, a bit for each.
    pub(crate) members: u8,
    /// A FLUSH waits.
    pub(crate) is_waited_for: bool,
    /// The cache is filling.
    pub(crate) cache_fills: bool,
}

/// A pair's journal.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    state: State,
    device: DeviceId,
    rule: Answer,
    own: u128,
    generation: u32,
    head_sequence: u64,
    slot: u8,
    ring: Ring,
    waiting: Waiting,
    writing: Option<Unit>,
    /// FUA writes that wait for a flush.
    fua: Vec<(EntryId, u64)>,
    flushing: Option<Flushing>,
    flush_wanted: bool,
    /// The head being written: the first unit that it keeps.
    heading: Option<u64>,
    head_wanted: bool,
    /// Keeps a hard drive's writes fast.
    windows: Option<Windows>,
    stats: JournalStats,
    failures: u64,
}

impl Journal {
    pub(crate) fn new(pair: &PairConfig, device: DeviceId) -> Journal {
        let config = pair.journal.as_ref();
        let absent = config.is_none_or(|config| config.absent);
        Journal {
            state: if absent { State::Off } else { State::Starting },
            device,
            rule: pair.answer,
            own: config.map_or(0, |config| config.uuid),
            generation: 0,
            head_sequence: 0,
            slot: 0,
            ring: Ring::new(config.map_or(0, |config| ring_bytes(config.capacity_bytes))),
            waiting: Waiting::default(),
            writing: None,
            fua: Vec::new(),
            flushing: None,
            flush_wanted: false,
            heading: None,
            head_wanted: false,
            windows: config.and_then(|config| config.profile.as_ref()).map(Windows::new),
            stats: JournalStats::default(),
            failures: 0,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.state != State::Off
    }

    pub(crate) fn ring_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Has the ring room for one more write?
    pub(crate) fn has_room(&self, length: u64) -> bool {
        !self.is_on() || self.ring.has_room(length, self.waiting.bytes())
    }

    /// A leg has a write of this unit.
    pub(crate) fn reached(&mut self, unit: u64, leg: usize) {
        self.ring.reached(unit, leg);
    }

    /// What a flush of a leg that begins now will cover.
    pub(crate) fn ticks(&self) -> u64 {
        self.ring.ticks()
    }

    pub(crate) fn leg_flushed(&mut self, leg: usize, ticks: u64) {
        self.ring.leg_flushed(leg, ticks);
    }

    /// Is a write on the journal, durably?
    pub(crate) fn has_durably(&self, unit: u64) -> bool {
        !self.is_on() || (unit > 0 && unit <= self.ring.durable())
    }

    /// Nobody waits for the flush under way, or the one that is wanted, any more.
    pub(crate) fn forget_batch(&mut self) {
        self.flush_wanted = false;
        if let Some(flushing) = &mut self.flushing {
            flushing.batch = false;
        }
    }

    /// Is the drive asked for something?
    fn is_busy(&self) -> bool {
        self.writing.is_some() || self.flushing.is_some() || self.heading.is_some()
    }

    /// Does anything wait for a flush?
    fn wants_flush(&self) -> bool {
        let window = self.windows.as_ref().is_some_and(Windows::wants_flush);
        self.flush_wanted || window || !self.fua.is_empty()
    }

    /// Nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let waits = !self.waiting.is_empty() || !self.fua.is_empty() || self.head_wanted;
        !self.is_busy() && (self.state == State::Off || !waits)
    }

    /// When it wants to be asked again.
    pub(crate) fn due(&self) -> Instant {
        self.windows.as_ref().map_or(Instant::NEVER, Windows::ask_at)
    }

    pub(crate) fn view(&self, replayed_bytes: u64) -> JournalView {
        JournalView {
            device: self.device,
            alive: self.is_on(),
            ring_bytes: self.ring.bytes(),
            used_bytes: self.ring.used_bytes(),
            window: self.windows.as_ref().map(Windows::state),
            forced: self.windows.as_ref().map_or(0, Windows::forced),
            stats: JournalStats { replayed_bytes, ..self.stats },
        }
    }
}

/// Begin and end.
impl Journal {
    /// It begins anew, with an empty ring, when its head is durable.
    pub(crate) fn begins(&mut self, pair: u128, members: u8, commands: &mut Commands) {
        assert!(!self.is_busy(), "nothing is asked of the drive before its head is written");
        self.begin(self.generation + 1);
        self.write_head(1, (pair, members), commands);
    }

    fn begin(&mut self, generation: u32) {
        assert!(generation > self.generation, "generations rise");
        assert_eq!(self.state, State::Starting, "a journal begins once in a life");
        assert!(self.waiting.is_empty(), "nothing is noted before it begins");
        self.generation = generation;
        self.ring.begins();
    }

    /// It begins, and counts at once.
    pub(crate) fn begin_now(&mut self) {
        if self.is_on() {
            self.begin(1);
            self.state = State::Open;
        }
    }

    /// It was formatted just now.
    pub(crate) fn is_formatted(&mut self) {
        self.head_sequence = 1;
        self.begin_now();
    }

    pub(crate) fn first_head(&self, pair: u128, slot: u8) -> JournalHead {
        JournalHead {
            sequence: u64::from(slot),
            pair,
            own: self.own,
            generation: 1,
            members: 3,
            ring_bytes: self.ring.bytes(),
            tail_at: 0,
            tail_unit: 1,
        }
    }

    /// What was found of it, and the newest generation that a leg knows of.
    pub(crate) fn resumes(&mut self, head: Option<&(JournalHead, u8)>, generation: u32) {
        self.generation = generation.max(head.map_or(0, |(head, _)| head.generation));
        if let Some((head, slot)) = head {
            self.own = head.own;
            self.head_sequence = head.sequence;
            self.slot = 1 - slot;
        }
    }

    /// Its drive cannot be read.
    pub(crate) fn is_missing(&mut self) {
        self.state = State::Off;
    }

    /// The legs know the generation that counts.
    pub(crate) fn opens(&mut self, generation: u32) {
        assert!(generation <= self.generation, "no leg knows of a generation to come");
        if self.state == State::Starting && generation == self.generation {
            self.state = State::Open;
        }
    }

    /// It is dead. Returns whether a flush for a FLUSH of the pair was wanted and will not be.
    pub(crate) fn dies(&mut self) -> bool {
        self.state = State::Off;
        self.failures += 1;
        self.waiting.clear();
        self.ring.clear();
        self.fua.clear();
        self.head_wanted = false;
        if let Some(windows) = &mut self.windows {
            windows.forgets();
        }
        std::mem::take(&mut self.flush_wanted)
    }
}

/// Units.
impl Journal {
    /// A write was accepted.
    pub(crate) fn note(&mut self, id: EntryId, cache: &mut Cache) {
        let entry = cache.entry_mut(id);
        if entry.is_trim || !self.is_on() {
            return;
        }
        assert!(entry.journal == Progress::Done && entry.unit == 0, "a write is noted once");
        entry.journal = Progress::Waiting;
        self.waiting.push(id, entry);
    }

    /// Writes what may be written now. Returns the legs whose flush would make room in the ring.
    pub(crate) fn run(
        &mut self,
        pair: u128,
        demand: Demand,
        roles: &Roles,
        cache: &mut Cache,
        commands: &mut Commands,
    ) -> [bool; 2] {
        if let Some(windows) = &mut self.windows {
            windows.is_asked();
        }
        if self.state != State::Open || roles.blocks_all() {
            return [false; 2];
        }
        if self.windows.is_none() && self.writing.is_none() {
            self.compose(cache, commands);
        }
        let tail = self.ring.first_kept(roles, commands.breaks(Mutant::PairJournalTrimmedEarly));
        let pressed = self.ring.presses(tail, roles);
        let free = match self.windows {
            Some(_) => !self.is_busy(),
            None => self.heading.is_none(),
        };
        if free && (self.head_wanted || self.ring.is_worth_moving(tail)) {
            self.write_head(tail, (pair, demand.members), commands);
        }
        self.run_windows(demand, roles, cache, commands);
        pressed
    }

    /// Writes the next unit to a hard drive, or flushes it, if it is time.
    fn run_windows(
        &mut self,
        demand: Demand,
        roles: &Roles,
        cache: &mut Cache,
        commands: &mut Commands,
    ) {
        if self.is_busy() || self.wants_flush() {
            return; // a hard drive is asked for one thing at a time
        }
        let bytes = self.waiting.bytes().min(self.unit_bytes());
        let Some(windows) = &mut self.windows else { return };
        // does somebody wait, or would something be full, if units waited for a window?
        let is_pressed = windows.is_lost()
            || demand.is_waited_for
            || self.waiting.is_urgent()
            || roles.phase() == Phase::Stopping
            || self.waiting.bytes() > self.ring.bytes() / RING_PART
            || demand.cache_fills;
        if windows.may_write(commands.now(), bytes, is_pressed) {
            self.compose(cache, commands);
        }
    }

    /// Data of a unit at most, unless one write has more.
    fn unit_bytes(&self) -> u64 {
        let window = self.windows.as_ref().map_or(u64::MAX, Windows::unit_bytes_max);
        UNIT_BYTES.min(self.ring.bytes() / 8).min(window)
    }

    /// The next unit, of what has waited longest.
    fn compose(&mut self, cache: &mut Cache, commands: &mut Commands) {
        assert!(self.writing.is_none(), "one unit after the other");
        let next = self.waiting.next(self.unit_bytes(), cache);
        let room = if next.is_empty() { None } else { self.ring.room(next.ring_bytes()) };
        if room.is_some() || next.is_empty() {
            self.waiting.take(&next);
        }
        let Some(room) = room else { return };
        let sequence = self.ring.next_unit();
        self.ring.push(room, next.begin(sequence, cache));
        let unit = UnitHeader {
            own: self.own,
            generation: self.generation,
            sequence,
            durable_upto: self.ring.durable(),
            extents: Vec::new(),
            checksums: Vec::new(),
        };
        let unit = self.writing.insert(Unit::new(unit, room.at, next, cache, commands));
        if commands.has_contents() {
            commands.sum(unit.staged(), Flight::JournalSum);
        } else {
            self.write_unit(commands);
        }
    }

    /// The checksums of the unit's data are known.
    pub(crate) fn unit_summed(&mut self, checksums: &[u32], commands: &mut Commands) {
        self.writing.as_mut().expect("its checksums were asked for").is_summed(checksums);
        if self.is_on() {
            self.write_unit(commands);
        } else {
            self.drop_unit(commands);
        }
    }

    fn write_unit(&mut self, commands: &mut Commands) {
        let unit = self.writing.as_mut().expect("it was composed");
        let (header, header_bytes, data_bytes) = unit.begin();
        self.stats.units += 1;
        self.stats.data_bytes += data_bytes;
        self.stats.written_bytes += data_bytes + header_bytes;
        if let Some(windows) = &mut self.windows {
            windows.takes(commands.now(), header_bytes);
        }
        commands.send_to_journal(header, Flight::Unit);
        if self.windows.is_none() {
            self.write_data(commands);
        }
    }

    /// The data of a unit: beside its header, or on a hard drive behind it.
    fn write_data(&mut self, commands: &mut Commands) {
        let unit = self.writing.as_ref().expect("its header was written");
        if let Some(windows) = &mut self.windows {
            windows.takes(commands.now(), unit.data_bytes());
        }
        commands.send_to_journal(unit.data(), Flight::Unit);
    }

    /// A part of the unit was written, or the journal died by it. Returns writes that may be answered
    /// now.
    pub(crate) fn unit_written(
        &mut self,
        issued: Instant,
        cache: &mut Cache,
        commands: &mut Commands,
    ) -> Vec<EntryId> {
        let mut is_last = self.writing.as_mut().expect("it was sent").is_part_written();
        if let Some(windows) = &mut self.windows {
            windows.wrote(issued, commands.now());
            if !is_last && self.is_on() {
                self.write_data(commands);
            } else {
                is_last = true; // the data of a unit whose header failed is not sent
            }
        }
        if !is_last {
            return Vec::new();
        }
        let unit = self.drop_unit(commands).expect("it was sent");
        if !self.is_on() {
            return Vec::new();
        }
        self.ring.is_acknowledged(unit.sequence());
        unit.acknowledge(self.rule, &mut self.fua, cache, commands.has_contents())
    }

    fn drop_unit(&mut self, commands: &mut Commands) -> Option<Unit> {
        let unit = self.writing.take()?;
        commands.release_if(unit.buffer());
        Some(unit)
    }
}

/// Flushes and the head.
impl Journal {
    /// Has the journal acknowledged all that was accepted up to here?
    pub(crate) fn has(&self, upto: u64, cache: &Cache) -> bool {
        let is_written = self.writing.as_ref().is_some_and(|unit| unit.begins_upto(upto));
        !self.is_on() || (!is_written && !self.waiting.has_upto(upto, cache))
    }

    /// A FLUSH of the pair begins. Must the journal be flushed for what it has acknowledged? If not, or
    /// if the FLUSH does without, nothing is wanted of it.
    pub(crate) fn flush_for_batch(&mut self, counts: bool) -> bool {
        assert!(!self.flush_wanted, "the batch before has got its flush");
        let is_volatile = self.ring.durable() < self.ring.acknowledged();
        self.flush_wanted = counts && self.state == State::Open && is_volatile;
        self.flush_wanted
    }

    /// Flushes the journal for FUA writes, or for a FLUSH.
    pub(crate) fn run_flush(&mut self, commands: &mut Commands) {
        let busy = match self.windows {
            Some(_) => self.is_busy(),
            None => self.flushing.is_some(),
        };
        if !self.wants_flush() || self.state != State::Open || busy {
            return;
        }
        if let Some(windows) = &mut self.windows {
            windows.flush_begins(commands.now());
        }
        let batch = std::mem::take(&mut self.flush_wanted);
        self.flushing = Some(Flushing { upto: self.ring.acknowledged(), batch });
        self.stats.flushes += 1;
        commands.send_to_journal(IoOp::Flush, Flight::JournalFlush);
    }

    /// A flush has ended, or the journal died by it. Returns FUA writes that it has durably now, and
    /// whether a FLUSH of the pair waited.
    pub(crate) fn flushed(
        &mut self,
        is_ok: bool,
        cache: &Cache,
        now: Instant,
    ) -> (Vec<EntryId>, bool) {
        let Flushing { upto, batch } = self.flushing.take().expect("it was sent");
        if let Some(windows) = &mut self.windows {
            windows.flush_ends(now, is_ok);
        }
        let mut durable = Vec::new();
        if self.is_on() {
            self.ring.is_durable_upto(upto);
            for (id, sequence) in std::mem::take(&mut self.fua) {
                match cache.find(id, sequence) {
                    None => {}
                    Some(entry) if !self.has_durably(entry.unit) => self.fua.push((id, sequence)),
                    Some(_) => durable.push(id),
                }
            }
        }
        (durable, batch)
    }

    /// The head is to be written anew, whatever it says.
    pub(crate) fn wants_head(&mut self) {
        self.head_wanted |= self.is_on();
    }

    /// The ring begins at this unit from now on.
    fn write_head(&mut self, tail: u64, (pair, members): (u128, u8), commands: &mut Commands) {
        assert!(self.is_on(), "a journal that is dead has no head");
        assert!(self.heading.is_none(), "one head after the other");
        self.head_wanted = false;
        self.heading = Some(tail);
        self.head_sequence += 1;
        self.stats.heads += 1;
        let head = JournalHead {
            sequence: self.head_sequence,
            pair,
            own: self.own,
            generation: self.generation,
            members,
            ring_bytes: self.ring.bytes(),
            tail_at: self.ring.at(tail),
            tail_unit: tail,
        };
        let offset_bytes = u64::from(self.slot) * HEAD_BYTES;
        self.slot ^= 1;
        let op = IoOp::WriteMeta { offset_bytes, bytes: head.encode(), fua: true };
        if let Some(windows) = &mut self.windows {
            windows.head_begins();
        }
        commands.send_to_journal(op, Flight::Head);
    }

    /// The head was written, or the journal died by it. Returns whether it begins a generation.
    pub(crate) fn head_written(&mut self, now: Instant) -> bool {
        let tail = self.heading.take().expect("it was sent");
        if let Some(windows) = &mut self.windows {
            windows.head_ends(now);
        }
        if !self.is_on() {
            return false;
        }
        self.ring.begins_at(tail);
        self.state == State::Starting
    }
}
