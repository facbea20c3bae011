//! How does a write reach both legs?
//!
//! Source: [IANUS §5.1, §5.2]. It is accepted at half of a leg's rate and while the cache has room,
//! written to the leg that writes, and to the other one when that writes.

use super::cache::{Entry, EntryId, Progress};
use super::{Answer, Flight, Mirror, Phase};
use crate::format::pair::EXTENTS_MAX;
use crate::mutant::Mutant;
use crate::port::{Command, IoId, IoOp};
use tandem_block::{Instant, IoError, PayloadId};

/// Extents of a record that are not used up before roles change: those of one command are few.
const EXTENTS_SPARE: usize = 64;

/// A write or TRIM that was not accepted yet.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub io: IoId,
    pub op: IoOp,
    pub since: Instant,
}

fn extent(op: &IoOp) -> (u64, u64) {
    match *op {
        IoOp::Write { offset_bytes, length_bytes, .. }
        | IoOp::Trim { offset_bytes, length_bytes } => (offset_bytes, length_bytes),
        _ => unreachable!("only writes and TRIMs are held"),
    }
}

impl Mirror {
    pub(super) fn hold(&mut self, io: IoId, op: IoOp) {
        let (offset, length) = extent(&op);
        assert!(offset + length <= self.capacity_bytes, "a write lies within the pair");
        self.held.push_back(Held { io, op, since: self.now });
    }

    /// When the first held write may be accepted, as far as time decides it.
    pub(super) fn admission_at(&self) -> Instant {
        if !self.may_accept() {
            return Instant::NEVER; // something else has to happen first
        }
        self.pace.next_at()
    }

    /// Is there room for the first held write?
    fn may_accept(&self) -> bool {
        let Some(held) = self.held.front() else { return false };
        let serving = !matches!(self.phase, Phase::Created | Phase::Opening | Phase::Restoring);
        serving && self.has_room(&held.op)
    }

    fn has_room(&self, op: &IoOp) -> bool {
        if matches!(op, IoOp::Trim { .. }) {
            return true;
        }
        let (_, length) = extent(op);
        // one write always passes, however small the cache is
        let fits =
            self.cache.bytes() == 0 || self.cache.bytes() + length <= self.config.cache_bytes;
        let noted = self.journal.has_room(length);
        fits && noted && !(self.durable && self.takes_turns() && self.record_is_full())
    }

    /// Would the extents of one more write not fit the next record?
    pub(super) fn record_is_full(&self) -> bool {
        self.records.lacking.len() + EXTENTS_SPARE > EXTENTS_MAX
    }

    /// Does a write wait for something that only a change of roles brings?
    pub(super) fn is_stuck(&self) -> bool {
        self.held.front().is_some_and(|held| !self.has_room(&held.op))
    }

    /// Accepts what may be accepted.
    pub(super) fn admit(&mut self, out: &mut Vec<Command>) {
        while self.may_accept() {
            let paced = self.alternates() && self.phase != Phase::Stopping;
            if paced && self.pace.next_at() > self.now {
                return;
            }
            let held = self.held.pop_front().expect("may_accept looked at it");
            if self.now > held.since {
                self.stats.held += 1;
                self.stats.held_ns += self.now.since(held.since).ns;
            }
            self.accept(held, out);
        }
    }

    fn accept(&mut self, held: Held, out: &mut Vec<Command>) {
        let (offset, length) = extent(&held.op);
        let mut payload = PayloadId::NONE;
        let (is_trim, fua) = match held.op {
            IoOp::Write { from, from_offset_bytes, length_bytes, fua, .. } => {
                self.pace.accept(self.now, length);
                self.stats.accepted_bytes += length;
                if self.contents {
                    payload = self.name_buffer();
                    out.push(Command::Reserve { payload, length_bytes });
                    out.push(Command::Copy {
                        from,
                        from_offset_bytes,
                        into: payload,
                        into_offset_bytes: 0,
                        length_bytes,
                    });
                }
                (false, fua)
            }
            _ => (true, false),
        };
        let mut progress = [Progress::Waiting; 2];
        for (leg, progress) in progress.iter_mut().enumerate() {
            if !self.alive[leg] {
                *progress = Progress::Done;
            }
        }
        let entry = Entry {
            sequence: 0,
            offset,
            length,
            payload,
            is_trim,
            fua,
            progress,
            journal: Progress::Done,
            unit: 0,
            units: Vec::new(),
            answered: false,
            after: Vec::new(),
            pins: 0,
            io: held.io,
            checksums: Vec::new(),
        };
        let mut over = Vec::new();
        let id = self.cache.insert(entry, &mut over);
        for older in over {
            self.forget_if_over(older, out);
        }
        self.note(id);
        let (sequence, alternates) = (self.cache.entry(id).sequence, self.alternates());
        for leg in 0..2 {
            if !self.alive[leg] {
                continue;
            }
            let queue = &mut self.queues[leg];
            let now = leg == self.lead || !alternates;
            let queue = if now { &mut queue.fresh } else { &mut queue.backlog };
            queue.push_back((id, sequence));
        }
        if !is_trim {
            if self.alternates() {
                self.records.lacking.add(offset, offset + length);
            }
            if self.config.answer == Answer::Cached && !fua {
                self.answer_from_cache(id, out);
            }
        }
    }

    fn answer_from_cache(&mut self, id: EntryId, out: &mut Vec<Command>) {
        let &Entry { io, payload, length, .. } = self.cache.entry(id);
        if self.contents {
            self.sum((payload, 0, length), Flight::WriteSum(io, id), out);
        } else {
            self.cache.entry_mut(id).answered = true;
            self.end(io, Ok(()), Vec::new());
        }
    }

    pub(super) fn write_summed(
        &mut self,
        io: IoId,
        id: EntryId,
        checksums: &[u32],
        out: &mut Vec<Command>,
    ) {
        // it is here until it was answered
        if !self.cache.entry(id).answered {
            self.cache.entry_mut(id).answered = true;
            self.end(io, Ok(()), checksums.to_vec());
        }
        self.forget_if_over(id, out);
    }

    /// Sends what the writing legs can take.
    pub(super) fn send_writes(&mut self, out: &mut Vec<Command>) {
        if !matches!(self.phase, Phase::Serving | Phase::Stopping) || self.records.blocks_all() {
            return;
        }
        for leg in 0..2 {
            let writes = self.alive[leg] && (leg == self.lead || !self.takes_turns());
            if !writes {
                continue;
            }
            while self.queues[leg].in_flight < self.config.depth && self.send_one(leg, out) {}
            let queue = &self.queues[leg];
            let catches_up = !queue.backlog.is_empty() || queue.catching_up > 0;
            if catches_up || queue.in_flight >= self.config.depth {
                self.pace.begins(self.now);
            } else {
                self.pace.ends(self.now);
            }
        }
    }

    /// Is only one leg written to at a time?
    pub(super) fn takes_turns(&self) -> bool {
        self.alternates() && self.phase != Phase::Stopping
    }

    fn send_one(&mut self, leg: usize, out: &mut Vec<Command>) -> bool {
        self.skip_gone(leg);
        let queue = &self.queues[leg];
        // a user waits for what is new, unless the cache has answered; then the backlog goes first, as
        // in the paper. Shares are equal, since what is accepted is half of what a leg writes
        let new_first = match self.config.answer {
            Answer::Written => queue.balance >= 0,
            Answer::Cached | Answer::Journaled => self.flushes.is_waiting(),
        };
        for new in [new_first, !new_first] {
            let queue = &self.queues[leg];
            let head = if new { queue.fresh.front() } else { queue.backlog.front() };
            let Some(&(id, _)) = head else { continue };
            if self.may_send(leg, id, new) {
                let queue = &mut self.queues[leg];
                if new {
                    queue.fresh.pop_front()
                } else {
                    queue.backlog.pop_front()
                };
                let length = self.cache.entry(id).length as i64;
                queue.balance = match (queue.backlog.is_empty(), new) {
                    (true, _) => 0,
                    (false, true) => queue.balance - length,
                    (false, false) => queue.balance + length,
                };
                queue.catching_up += u32::from(!new);
                self.send_entry(leg, id, new, out);
                return true;
            }
        }
        false
    }

    /// Entries that were overwritten before they were sent are over.
    fn skip_gone(&mut self, leg: usize) {
        let cache = &self.cache;
        let gone = |head: Option<&(EntryId, u64)>| {
            head.is_some_and(|&(id, sequence)| {
                cache.find(id, sequence).is_none_or(|e| e.progress[leg] != Progress::Waiting)
            })
        };
        let queue = &mut self.queues[leg];
        while gone(queue.backlog.front()) {
            queue.backlog.pop_front();
        }
        while gone(queue.fresh.front()) {
            queue.fresh.pop_front();
        }
    }

    fn may_send(&mut self, leg: usize, id: EntryId, new: bool) -> bool {
        let entry = self.cache.entry(id);
        let (offset, end, is_trim) = (entry.offset, entry.end(), entry.is_trim);
        if !self.cache.may_follow(id, leg) || self.resync.covers(offset, end) {
            return false;
        }
        // what the record calls behind is copied back after a crash: nothing new may lie there
        let behind = new && !is_trim && self.records.behind_touches(offset, end);
        let recorded = !new && leg == self.lead;
        !behind && (recorded || is_trim || self.is_marked(offset, end))
    }

    fn send_entry(&mut self, leg: usize, id: EntryId, new: bool, out: &mut Vec<Command>) {
        let place = self.place(self.cache.entry(id).offset);
        // where both are written to at once, either may have to answer for it
        let first = leg == self.lead || !self.takes_turns();
        let entry = self.cache.entry_mut(id);
        entry.progress[leg] = Progress::Sent;
        let op = if entry.is_trim {
            IoOp::Trim { offset_bytes: place, length_bytes: entry.length }
        } else {
            self.stats.written_bytes[leg] += entry.length;
            IoOp::Write {
                offset_bytes: place,
                length_bytes: entry.length,
                from: entry.payload,
                from_offset_bytes: 0,
                fua: entry.fua && first,
            }
        };
        self.queues[leg].in_flight += 1;
        self.send(leg, op, Flight::Entry(id, new), out);
    }

    pub(super) fn entry_written(
        &mut self,
        leg: usize,
        (id, new): (EntryId, bool),
        status: Result<(), IoError>,
        checksums: &[u32],
        out: &mut Vec<Command>,
    ) {
        self.queues[leg].in_flight -= 1;
        self.queues[leg].catching_up -= u32::from(!new);
        let is_trim = self.cache.entry(id).is_trim;
        if status.is_err() && !is_trim {
            // what it holds there is not known
            self.fail_leg(leg, out);
        }
        self.has_reached(id, leg);
        let entry = self.cache.entry_mut(id);
        if !entry.answered && status.is_ok() {
            entry.checksums = checksums.to_vec();
        }
        let (offset, end, length) = (entry.offset, entry.end(), entry.length);
        if self.alive[leg] && !is_trim {
            self.records.touched(offset, end);
            self.pace.written(length);
            // it is new there whatever it was before
            if !self.resync.covers(offset, end) {
                self.is_new_there(leg, offset, end);
            }
        }
        self.answer_if_written(id);
        self.forget_if_over(id, out);
    }

    /// A leg has this.
    fn has_reached(&mut self, id: EntryId, leg: usize) {
        let entry = self.cache.entry_mut(id);
        entry.progress[leg] = Progress::Done;
        for &unit in &entry.units {
            self.journal.reached(unit, leg);
        }
    }

    /// A leg lacks nothing of this any more.
    pub(super) fn is_new_there(&mut self, leg: usize, offset: u64, end: u64) {
        self.stale[leg].remove(offset, end);
        if leg != self.lead {
            self.resync.wanted.remove(offset, end);
        } else if self.is_alone() {
            self.survivor_has(offset, end);
        }
    }

    /// A write is answered when the leg that leads has it, or the journal; where a death must be
    /// recorded first, when it is.
    pub(super) fn answer_if_written(&mut self, id: EntryId) {
        let entry = self.cache.entry(id);
        let dead = !self.alive[0] && !self.alive[1];
        let written = entry.progress[self.lead] == Progress::Done;
        let noted = entry.unit > 0 && entry.journal == Progress::Done;
        let ready = match self.config.answer {
            _ if entry.fua => dead || (written && self.journal.has_durably(entry.unit)),
            _ if entry.is_trim => dead || written,
            Answer::Written => dead || written,
            Answer::Journaled => dead || written || noted,
            Answer::Cached => false, // it is told when its checksums are known
        };
        if entry.answered || !ready {
            return;
        }
        let (io, leg) = (entry.io, self.legs[self.lead]);
        let entry = self.cache.entry_mut(id);
        entry.answered = true;
        let checksums = std::mem::take(&mut entry.checksums);
        let (fua, extent) = (entry.fua, (entry.offset, entry.end()));
        if dead {
            self.answer(io, Err(IoError::Dead(leg)), checksums);
        } else if fua {
            self.promise(io, Some(extent), checksums);
        } else {
            self.answer(io, Ok(()), checksums);
        }
    }

    /// Lets an entry go that nobody needs.
    pub(super) fn forget_if_over(&mut self, id: EntryId, out: &mut Vec<Command>) {
        if let Some(entry) = self.cache.remove_if_over(id)
            && entry.payload != PayloadId::NONE
        {
            out.push(Command::Release(entry.payload));
        }
    }

    /// Marks are wanted where something new is about to be written.
    fn is_marked(&mut self, offset: u64, end: u64) -> bool {
        if !self.durable || self.is_alone() || self.breaks(Mutant::WriteBeforeMark) {
            return true;
        }
        self.records.mark(offset, end)
    }
}
