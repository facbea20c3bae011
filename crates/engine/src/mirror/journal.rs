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

use super::cache::{EntryId, Progress};
use super::config::Answer;
use super::flush::Then;
use super::ring::{Flushing, Journal, State, Unit, Waiting, Writing};
use super::{Flight, Mirror, Phase, Sent};
use crate::format::pair_journal::{
    EXTENTS_MAX, HEAD_BYTES, JournalHead, RING_AT, UnitHeader, header_bytes, padded,
};
use crate::mutant::Mutant;
use crate::port::{Command, Io, IoOp};
use tandem_block::{BLOCK_BYTES, Instant, IoError, MIB, PayloadId};

/// In the place of a leg: the journal.
pub(super) const JOURNAL: usize = 2;
/// A unit takes so much data at most, unless one write has more (guess).
const UNIT_BYTES: u64 = MIB;
/// The ring's tail is moved when so much of it is in use …
const USED_PERCENT: u64 = 50;
/// … and that brings so much.
const FREED_PERCENT: u64 = 12;
/// Legs are flushed for the journal's sake when so much is in use.
const PRESSING_PERCENT: u64 = 75;

impl Mirror {
    pub(super) fn send_to_journal(&mut self, op: IoOp, flight: Flight, out: &mut Vec<Command>) {
        let key = self.sent.insert(Sent { leg: JOURNAL, flight, issued: self.now });
        out.push(Command::Submit(Io { id: self.name(key), device: self.journal.device, op }));
    }

    /// A write was accepted.
    pub(super) fn note(&mut self, id: EntryId) {
        let entry = self.cache.entry_mut(id);
        if entry.is_trim || !self.journal.is_on() {
            return;
        }
        entry.journal = Progress::Waiting;
        self.journal.is_urgent |= entry.fua;
        let bytes = Journal::bytes_of(entry.length);
        self.journal.waiting.push_back(Waiting { id, sequence: entry.sequence, bytes });
        self.journal.waiting_bytes += bytes;
    }

    pub(super) fn run_journal(&mut self, out: &mut Vec<Command>) {
        self.journal.ask_at = Instant::NEVER;
        if self.journal.state != State::Open || self.records.blocks_all() {
            return;
        }
        if self.journal.bcw.is_none() && self.journal.writing.is_none() {
            self.compose(out);
        }
        self.press_legs();
        let tail = self.first_unit_kept();
        let free = match self.journal.bcw {
            Some(_) => !self.journal.is_busy(),
            None => self.journal.heading.is_none(),
        };
        if free && self.wants_head(tail) {
            self.write_head(tail, out);
        }
        if self.journal.bcw.is_some() {
            self.run_windows(out);
        }
    }

    /// Data of a unit at most, unless one write has more.
    pub(super) fn unit_bytes(&self) -> u64 {
        let window = self.journal.bcw.as_ref().map_or(u64::MAX, |bcw| bcw.write_bytes_max() / 2);
        UNIT_BYTES.min(self.journal.ring_bytes / 8).min(window)
    }

    /// The next unit, of what has waited longest.
    pub(super) fn compose(&mut self, out: &mut Vec<Command>) {
        let bound = self.unit_bytes();
        let (mut entries, mut extents) = (Vec::new(), Vec::new());
        let (mut data, mut taken) = (0, 0);
        for waiting in &self.journal.waiting {
            let live = self.cache.find(waiting.id, waiting.sequence);
            if let Some(entry) = live.filter(|entry| entry.journal == Progress::Waiting) {
                let bytes = padded(entry.length);
                let full = data + bytes > bound || extents.len() == EXTENTS_MAX;
                if full && !entries.is_empty() {
                    break;
                }
                data += bytes;
                entries.push((waiting.id, waiting.sequence));
                extents.push((entry.offset, entry.length));
            }
            taken += 1;
        }
        let blocks = (data / BLOCK_BYTES) as usize;
        let bytes = header_bytes(extents.len(), blocks) + data;
        let place = if entries.is_empty() { None } else { self.journal.place(bytes) };
        if place.is_some() || entries.is_empty() {
            let gone: u64 = self.journal.waiting.drain(..taken).map(|waiting| waiting.bytes).sum();
            self.journal.waiting_bytes -= gone;
            self.journal.is_urgent &= !self.journal.waiting.is_empty();
        }
        let Some((at, skipped)) = place else { return };
        let sequence = self.journal.next_unit();
        let mut unit =
            Unit { at, bytes: skipped + bytes, acknowledged: false, left: [0; 2], done_at: [0; 2] };
        for &(id, _) in &entries {
            let entry = self.cache.entry_mut(id);
            entry.journal = Progress::Sent;
            entry.unit = sequence;
            entry.units.push(sequence);
            for leg in 0..2 {
                unit.left[leg] += u32::from(entry.progress[leg] != Progress::Done);
            }
        }
        self.journal.ticks += 1;
        unit.done_at = [self.journal.ticks; 2];
        self.journal.units.push_back(unit);
        self.journal.used_bytes += skipped + bytes;
        self.journal.next_at = at + bytes;
        let header = UnitHeader {
            own: self.journal.own,
            generation: self.journal.generation,
            sequence,
            durable_upto: self.journal.durable,
            extents,
            checksums: vec![0; blocks],
        };
        let staging = self.stage(&entries, data, out);
        self.journal.writing =
            Some(Writing { header, at, entries, staging, part_bytes: 0, left: 0 });
        if self.contents {
            self.sum((staging, 0, data), Flight::JournalSum, out);
        } else {
            self.write_unit(out);
        }
    }

    /// Copies of the writes, one behind the other.
    fn stage(
        &mut self,
        entries: &[(EntryId, u64)],
        length_bytes: u64,
        out: &mut Vec<Command>,
    ) -> PayloadId {
        if !self.contents {
            return PayloadId::NONE;
        }
        let staging = self.name_buffer();
        out.push(Command::Reserve { payload: staging, length_bytes });
        let mut at = 0;
        for &(id, _) in entries {
            let entry = self.cache.entry(id);
            out.push(Command::Copy {
                from: entry.payload,
                from_offset_bytes: 0,
                into: staging,
                into_offset_bytes: at,
                length_bytes: entry.length,
            });
            at += padded(entry.length);
        }
        for &(id, _) in entries {
            self.forget_if_over(id, out);
        }
        staging
    }

    pub(super) fn unit_summed(&mut self, checksums: &[u32], out: &mut Vec<Command>) {
        let writing = self.journal.writing.as_mut().expect("its checksums were asked for");
        writing.header.checksums = checksums.to_vec();
        if self.journal.is_on() {
            self.write_unit(out);
        } else {
            self.drop_unit(out);
        }
    }

    fn write_unit(&mut self, out: &mut Vec<Command>) {
        let Writing { header, at, left, .. } =
            self.journal.writing.as_mut().expect("it was composed");
        let bytes = header.encode();
        let place = RING_AT + *at;
        let length_bytes = header.data_bytes();
        *left = 2;
        self.journal.stats.units += 1;
        self.journal.stats.data_bytes += length_bytes;
        self.journal.stats.written_bytes += length_bytes + bytes.len() as u64;
        let header_bytes = bytes.len() as u64;
        let header = IoOp::WriteMeta { offset_bytes: place, bytes, fua: false };
        self.window_takes(header_bytes);
        self.send_to_journal(header, Flight::Unit, out);
        if self.journal.bcw.is_none() {
            self.write_data(out);
        }
    }

    /// The data of a unit: beside its header, or on a hard drive behind it.
    fn write_data(&mut self, out: &mut Vec<Command>) {
        let Writing { header, at, staging, .. } =
            self.journal.writing.as_ref().expect("its header was written");
        let (length_bytes, from) = (header.data_bytes(), *staging);
        let offset_bytes = RING_AT + at + header.header_bytes();
        let data =
            IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes: 0, fua: false };
        self.window_takes(length_bytes);
        self.send_to_journal(data, Flight::Unit, out);
    }

    /// A hard drive is given so much.
    fn window_takes(&mut self, bytes: u64) {
        if let (Some(bcw), Some(writing)) = (&mut self.journal.bcw, &mut self.journal.writing) {
            bcw.commit(self.now, bytes);
            bcw.issued(bytes, false);
            writing.part_bytes = bytes;
        }
    }

    /// A part of the unit was written.
    pub(super) fn unit_written(
        &mut self,
        issued: Instant,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        let writing = self.journal.writing.as_mut().expect("it was sent");
        writing.left -= 1;
        let mut is_last = writing.left == 0;
        let part_bytes = writing.part_bytes;
        if status.is_err() {
            self.fail_journal(out);
        }
        if let Some(bcw) = &mut self.journal.bcw {
            bcw.completed(self.now, part_bytes, self.now.since(issued), false);
            if !is_last && self.journal.is_on() {
                self.write_data(out);
            } else {
                is_last = true; // the data of a unit whose header failed is not sent
            }
        }
        if !is_last {
            return;
        }
        if !self.journal.is_on() {
            self.drop_unit(out);
            return;
        }
        let writing = self.drop_unit(out).expect("it was sent");
        let Writing { header, entries, .. } = writing;
        self.journal.acknowledged = header.sequence;
        let index = header.sequence - self.journal.first_unit;
        self.journal.units[index as usize].acknowledged = true;
        let mut block = 0;
        for ((id, sequence), (_, bytes)) in entries.into_iter().zip(header.extents) {
            let sums = &header.checksums[block..block + (bytes / BLOCK_BYTES) as usize];
            block += (padded(bytes) / BLOCK_BYTES) as usize;
            if self.cache.find(id, sequence).is_none() {
                continue;
            }
            let contents = self.contents;
            let entry = self.cache.entry_mut(id);
            entry.journal = Progress::Done;
            if entry.fua && !entry.answered {
                self.journal.fua.push((id, sequence));
            } else if !entry.answered && self.config.answer == Answer::Journaled {
                if contents {
                    entry.checksums = sums.to_vec();
                }
                self.answer_if_written(id);
                self.forget_if_over(id, out);
            }
        }
    }

    fn drop_unit(&mut self, out: &mut Vec<Command>) -> Option<Writing> {
        let writing = self.journal.writing.take()?;
        if writing.staging != PayloadId::NONE {
            out.push(Command::Release(writing.staging));
        }
        Some(writing)
    }

    /// Has the journal acknowledged all that was accepted up to here?
    pub(super) fn journal_has(&self, upto: u64) -> bool {
        let waits = |waiting: &Waiting| {
            let live = self.cache.find(waiting.id, waiting.sequence);
            live.is_some_and(|entry| entry.journal == Progress::Waiting)
        };
        let journal = &self.journal;
        let older = journal.waiting.iter().take_while(|waiting| waiting.sequence <= upto);
        let writing = journal.writing.as_ref().and_then(|writing| writing.entries.first());
        !journal.is_on()
            || (writing.is_none_or(|&(_, sequence)| sequence > upto)
                && !older.into_iter().any(waits))
    }

    /// Must the journal be flushed for what it has acknowledged?
    pub(super) fn journal_is_volatile(&self) -> bool {
        let journal = &self.journal;
        journal.state == State::Open && journal.durable < journal.acknowledged
    }

    /// Flushes the journal for FUA writes, or `batch`: for a FLUSH.
    pub(super) fn run_journal_flush(&mut self, out: &mut Vec<Command>) {
        let journal = &mut self.journal;
        let wanted = journal.wants_flush();
        let busy = match journal.bcw {
            Some(_) => journal.is_busy(),
            None => journal.flushing.is_some(),
        };
        if !wanted || journal.state != State::Open || busy {
            return;
        }
        journal.window_wanted = false;
        if let Some(bcw) = &mut journal.bcw {
            bcw.flush_issued(self.now);
        }
        let batch = std::mem::take(&mut journal.flush_wanted);
        journal.flushing = Some(Flushing { upto: journal.acknowledged, batch });
        journal.stats.flushes += 1;
        self.send_to_journal(IoOp::Flush, Flight::JournalFlush, out);
    }

    pub(super) fn journal_flushed(&mut self, status: Result<(), IoError>, out: &mut Vec<Command>) {
        let Flushing { upto, batch } = self.journal.flushing.take().expect("it was sent");
        if let Some(bcw) = &mut self.journal.bcw {
            bcw.flush_done(self.now, status.is_ok());
        }
        if status.is_err() {
            self.fail_journal(out);
        }
        if self.journal.is_on() {
            self.journal.durable = upto;
            self.answer_fua(out);
        }
        if batch {
            self.batch_part_done();
        }
    }

    /// FUA writes that the journal has durably.
    fn answer_fua(&mut self, out: &mut Vec<Command>) {
        let waiting = std::mem::take(&mut self.journal.fua);
        for (id, sequence) in waiting {
            match self.cache.find(id, sequence) {
                None => {}
                Some(entry) if !self.journal.has_durably(entry.unit) => {
                    self.journal.fua.push((id, sequence));
                }
                Some(_) => {
                    self.answer_if_written(id);
                    self.forget_if_over(id, out);
                }
            }
        }
    }

    /// The first unit that a leg may lack.
    fn first_unit_kept(&self) -> u64 {
        let journal = &self.journal;
        let durable = |unit: &&Unit| {
            let on = |leg: usize| {
                let flushed = unit.done_at[leg] <= journal.flushed_to[leg];
                unit.left[leg] == 0 && (flushed || !self.durable)
            };
            let early = self.breaks(Mutant::PairJournalTrimmedEarly) && unit.left[self.lead] == 0;
            let all = (0..2).all(|leg| !self.alive[leg] || on(leg));
            unit.acknowledged && (all || early)
        };
        journal.first_unit + journal.units.iter().take_while(durable).count() as u64
    }

    fn wants_head(&self, tail: u64) -> bool {
        let journal = &self.journal;
        let count = (tail - journal.first_unit) as usize;
        let freed: u64 = journal.units.iter().take(count).map(|unit| unit.bytes).sum();
        let used = journal.used_bytes * 100 > journal.ring_bytes * USED_PERCENT;
        let some = freed * 100 > journal.ring_bytes * FREED_PERCENT || tail == journal.next_unit();
        journal.head_wanted || (used && freed > 0 && some)
    }

    /// A leg's flush that would let the tail be moved is brought about, if roles do not bring it, or
    /// not soon enough.
    fn press_legs(&mut self) {
        let journal = &self.journal;
        let percent = if self.takes_turns() { PRESSING_PERCENT } else { USED_PERCENT };
        let kept = (self.first_unit_kept() - journal.first_unit) as usize;
        let Some(unit) = journal.units.get(kept) else { return };
        if journal.used_bytes * 100 <= journal.ring_bytes * percent || self.phase == Phase::Turning
        {
            return;
        }
        let (left, done_at, flushed_to) = (unit.left, unit.done_at, journal.flushed_to);
        for leg in 0..2 {
            let lacks = left[leg] == 0 && done_at[leg] > flushed_to[leg];
            if self.alive[leg] && lacks && self.flushes.is_unflushed(leg) {
                self.flush_leg(leg, Then::Settle);
            }
        }
    }

    /// The ring begins at this unit from now on.
    pub(super) fn write_head(&mut self, tail: u64, out: &mut Vec<Command>) {
        self.journal.head_wanted = false;
        self.journal.heading = Some(tail);
        let members = (0..2).filter(|&leg| self.alive[leg] && !self.lacks_all(leg));
        let members = members.map(|leg| 1 << leg).sum();
        let index = (tail - self.journal.first_unit) as usize;
        let journal = &mut self.journal;
        let tail_at = journal.units.get(index).map_or(journal.next_at, |unit| unit.at);
        journal.head_sequence += 1;
        journal.stats.heads += 1;
        let head = JournalHead {
            sequence: journal.head_sequence,
            pair: self.config.uuids[0],
            own: journal.own,
            generation: journal.generation,
            members,
            ring_bytes: journal.ring_bytes,
            tail_at,
            tail_unit: tail,
        };
        let offset_bytes = u64::from(journal.slot) * HEAD_BYTES;
        journal.slot ^= 1;
        let op = IoOp::WriteMeta { offset_bytes, bytes: head.encode(), fua: true };
        if let Some(bcw) = &mut journal.bcw {
            bcw.disturbed(false);
        }
        self.send_to_journal(op, Flight::Head, out);
    }

    pub(super) fn head_written(&mut self, status: Result<(), IoError>, out: &mut Vec<Command>) {
        let tail = self.journal.heading.take().expect("it was sent");
        if let Some(bcw) = &mut self.journal.bcw {
            bcw.undisturbed(self.now);
        }
        if status.is_err() {
            self.fail_journal(out);
        }
        if !self.journal.is_on() {
            return;
        }
        while self.journal.first_unit < tail {
            let unit = self.journal.units.pop_front().expect("it was in the ring");
            self.journal.used_bytes -= unit.bytes;
            self.journal.first_unit += 1;
        }
        if self.journal.state == State::Starting {
            self.journal_is_begun(out);
        }
    }

    /// The journal is dead: the legs have to know before anything is answered that it took part in.
    pub(super) fn fail_journal(&mut self, out: &mut Vec<Command>) {
        if !self.journal.is_on() {
            return;
        }
        self.journal.state = State::Off;
        self.stats.journal_failures += 1;
        self.records.journal = 0;
        self.records.unjournaled_wanted = self.durable && self.alive != [false; 2];
        self.journal.waiting.clear();
        self.journal.waiting_bytes = 0;
        self.journal.units.clear();
        self.journal.used_bytes = 0;
        self.journal.fua.clear();
        self.journal.head_wanted = false;
        self.journal.window_wanted = false;
        self.journal.ask_at = Instant::NEVER;
        if std::mem::take(&mut self.journal.flush_wanted) {
            self.batch_part_done();
        }
        let all: Vec<EntryId> = self.cache.iter().map(|(id, _)| id).collect();
        for id in all {
            let entry = self.cache.entry_mut(id);
            if entry.journal == Progress::Waiting {
                entry.journal = Progress::Done;
            }
            entry.units.clear();
            self.answer_if_written(id);
            self.forget_if_over(id, out);
        }
    }
}
