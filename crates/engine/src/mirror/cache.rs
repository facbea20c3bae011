//! What does RAM hold that one of the legs has not got yet?
//!
//! Source: [IANUS §5.1, §5.2], requirements I13 to I15. Every write stays here until both legs have it, so
//! that the cache and either leg together are the latest data. What is overwritten before any leg
//! was sent it is dropped (I23: the prototype of the paper did not).

use super::config::Answer;
use crate::port::IoId;
use slab::Slab;
use std::collections::BTreeMap;
use tandem_block::PayloadId;

/// Names a write in the cache.
pub(super) type EntryId = u32;

/// How far a write has come on one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not sent.
    Waiting,
    /// With the leg.
    Sent,
    /// The leg has acknowledged it, or will never need it.
    Done,
}

/// A write or a TRIM that not both legs have.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Order of acceptance.
    pub(crate) sequence: u64,
    /// First byte of the pair.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The cache's own buffer; `NONE` for a TRIM, and in an event loop without contents.
    pub(crate) payload: PayloadId,
    pub(crate) is_trim: bool,
    pub(crate) fua: bool,
    pub(crate) progress: [Progress; 2],
    /// How far it has come on the journal; what no journal shall have is done.
    pub(crate) journal: Progress,
    /// The journal's unit that has it; 0: none yet.
    pub(crate) unit: u64,
    /// Units that are needed until both legs have this: its own, and those of what it replaced.
    pub(crate) units: Vec<u64>,
    /// It was answered.
    pub(crate) answered: bool,
    /// Older entries that it overlaps, newest first.
    pub(crate) after: Vec<(EntryId, u64)>,
    /// Reads that will copy from its buffer.
    pub(crate) pins: u32,
    /// The command that it is.
    pub(crate) io: IoId,
    /// Checksums of its blocks, as the first leg to have it told them.
    pub(crate) checksums: Vec<u32>,
}

impl Entry {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }

    fn is_over(&self) -> bool {
        self.progress == [Progress::Done; 2] && self.journal != Progress::Waiting
    }
}

/// A part of the pair whose newest bytes are those of an entry.
#[derive(Clone, Copy, Debug)]
struct Span {
    end: u64,
    entry: EntryId,
}

/// A part of a read that the cache answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(crate) entry: EntryId,
    pub offset: u64,
    pub(crate) length: u64,
}

/// The answer of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(crate) io: IoId,
    pub(crate) checksums: Vec<u32>,
    /// What it promises to be durable: the extent of a write with FUA.
    pub(crate) promise: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    entries: Slab<Entry>,
    /// The newest entry by first byte; spans do not overlap.
    newest: BTreeMap<u64, Span>,
    sequence: u64,
    bytes: u64,
    bytes_max: u64,
    coalesced_bytes: u64,
}

impl Cache {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// … and at most so far
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes that were overwritten before any leg was sent them.
    pub(crate) fn coalesced_bytes(&self) -> u64 {
        self.coalesced_bytes
    }

    /// Number of the last write accepted.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id as usize]
    }

    pub(crate) fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.entries[id as usize]
    }

    /// The entry that had this name when it was accepted, if it is still here.
    pub(crate) fn find(&self, id: EntryId, sequence: u64) -> Option<&Entry> {
        self.entries.get(id as usize).filter(|entry| entry.sequence == sequence)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id as EntryId, entry))
    }

    /// Writes that are not TRIMs.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|(_, entry)| entry).filter(|entry| !entry.is_trim)
    }

    fn ids(&self) -> Vec<EntryId> {
        self.entries.iter().map(|(id, _)| id as EntryId).collect()
    }

    pub(crate) fn has_reached(&self, id: EntryId, leg: usize) -> bool {
        self.entry(id).progress[leg] == Progress::Done
    }

    /// A read will copy from the buffer of this entry.
    pub(crate) fn pin(&mut self, id: EntryId) {
        let entry = self.entry_mut(id);
        assert!(!entry.is_trim, "a read copies from writes alone");
        entry.pins += 1;
    }

    /// … and does not need it any more.
    pub(crate) fn unpin(&mut self, id: EntryId) {
        let entry = self.entry_mut(id);
        assert!(entry.pins > 0, "a read lets go what it has pinned");
        entry.pins -= 1;
    }

    /// The entry is with this leg now.
    pub(crate) fn is_sent(&mut self, id: EntryId, leg: usize) {
        let progress = &mut self.entry_mut(id).progress[leg];
        assert_eq!(*progress, Progress::Waiting, "a leg is sent a write once");
        *progress = Progress::Sent;
    }

    /// … and is not any more: the leg has it, or is dead.
    pub(crate) fn has_landed(&mut self, id: EntryId, leg: usize) {
        let progress = &mut self.entry_mut(id).progress[leg];
        assert_eq!(*progress, Progress::Sent, "a leg has a write after it was sent");
        *progress = Progress::Done;
    }

    /// A leg is dead and lacks nothing any more; what is on its way to it ends by itself. Returns all
    /// entries: some of them may be answered, or are over.
    pub(crate) fn leg_died(&mut self, leg: usize) -> Vec<EntryId> {
        for (_, entry) in &mut self.entries {
            if entry.progress[leg] == Progress::Waiting {
                entry.progress[leg] = Progress::Done;
            }
        }
        self.ids()
    }

    /// As `leg_died`, for the journal.
    pub(crate) fn journal_died(&mut self) -> Vec<EntryId> {
        for (_, entry) in &mut self.entries {
            if entry.journal == Progress::Waiting {
                entry.journal = Progress::Done;
            }
            entry.units.clear();
        }
        self.ids()
    }

    /// A write is answered when these legs have it, or the journal; if there are none, at once.
    /// `is_durable`: does the journal have this unit durably?
    pub(crate) fn take_reply(
        &mut self,
        id: EntryId,
        rule: Answer,
        legs: &[usize],
        is_durable: impl Fn(u64) -> bool,
    ) -> Option<Reply> {
        let entry = self.entry_mut(id);
        let written = legs.iter().all(|&leg| entry.progress[leg] == Progress::Done);
        let noted = entry.unit > 0 && entry.journal == Progress::Done;
        let ready = match rule {
            _ if entry.fua => legs.is_empty() || (written && is_durable(entry.unit)),
            _ if entry.is_trim => written,
            Answer::Written => written,
            Answer::Journaled => written || noted,
            Answer::Cached => false, // it is told when its checksums are known
        };
        if entry.answered || !ready {
            return None;
        }
        entry.answered = true;
        let checksums = std::mem::take(&mut entry.checksums);
        let promise = entry.fua.then_some((entry.offset, entry.end()));
        Some(Reply { io: entry.io, checksums, promise })
    }

    /// Bytes that were acknowledged and that none of these legs has.
    pub(crate) fn risked_bytes(&self, alive: [bool; 2]) -> u64 {
        let has =
            |entry: &Entry| (0..2).any(|leg| alive[leg] && entry.progress[leg] == Progress::Done);
        let entries = self.entries.iter().map(|(_, entry)| entry);
        let risked = entries.filter(|entry| entry.answered && !entry.is_trim && !has(entry));
        risked.map(|entry| entry.length).sum()
    }

    /// Takes a write in. Returns its name, and entries that nobody needs any more.
    pub(crate) fn insert(&mut self, mut entry: Entry, over: &mut Vec<EntryId>) -> EntryId {
        assert!(entry.length > 0, "a write has bytes");
        assert!(!entry.is_trim || entry.payload == PayloadId::NONE, "a TRIM has no buffer");
        assert!(!entry.progress.contains(&Progress::Sent), "no leg has it before it is accepted");
        assert!(entry.units.is_empty(), "no unit has it before it is accepted");
        self.sequence += 1;
        entry.sequence = self.sequence;
        let (offset, end) = (entry.offset, entry.end());
        let shadowed = self.overlapped(offset, end);
        for &id in &shadowed {
            let older = &self.entries[id as usize];
            entry.after.push((id, older.sequence));
        }
        if !entry.is_trim {
            self.bytes += entry.length;
            self.bytes_max = self.bytes_max.max(self.bytes);
        }
        let id = self.entries.insert(entry) as EntryId;
        for older in shadowed {
            self.drop_if_covered(older, id, over);
        }
        self.carve(offset, end);
        self.newest.insert(offset, Span { end, entry: id });
        id
    }

    /// Entries whose newest bytes lie in `start..end`, each once.
    fn overlapped(&self, start: u64, end: u64) -> Vec<EntryId> {
        let mut found: Vec<EntryId> = Vec::new();
        for (_, span) in self.spans(start, end) {
            if !found.contains(&span.entry) {
                found.push(span.entry);
            }
        }
        found
    }

    fn spans(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Span)> + '_ {
        let before = self.newest.range(..start).next_back().filter(|(_, span)| span.end > start);
        let first = before.map_or(start, |(&at, _)| at);
        self.newest.range(first..end).map(|(&at, &span)| (at, span))
    }

    /// An older write that was answered, that no leg was sent and that a newer one covers need
    /// never reach a leg: what waited for it waits for the newer one.
    fn drop_if_covered(&mut self, older: EntryId, newer: EntryId, over: &mut Vec<EntryId>) {
        let (offset, end) =
            (self.entries[newer as usize].offset, self.entries[newer as usize].end());
        let entry = &mut self.entries[older as usize];
        let covered = offset <= entry.offset && entry.end() <= end;
        let unsent = entry.progress == [Progress::Waiting; 2];
        if !covered || !unsent || !entry.answered || self.entries[newer as usize].is_trim {
            return;
        }
        let entry = &mut self.entries[older as usize];
        entry.progress = [Progress::Done; 2];
        if entry.journal == Progress::Waiting {
            entry.journal = Progress::Done;
        }
        let (bytes, is_trim) = (entry.length, entry.is_trim);
        let after = std::mem::take(&mut entry.after);
        let units = std::mem::take(&mut entry.units);
        self.coalesced_bytes += bytes * u64::from(!is_trim);
        self.entries[newer as usize].after.extend(after);
        // what the journal has of it is needed until there is something newer on both legs
        self.entries[newer as usize].units.extend(units);
        over.push(older);
    }

    /// Takes `start..end` out of the spans.
    fn carve(&mut self, start: u64, end: u64) {
        let touched: Vec<(u64, Span)> = self.spans(start, end).collect();
        for (at, span) in touched {
            self.newest.remove(&at);
            if at < start {
                self.newest.insert(at, Span { end: start, ..span });
            }
            if span.end > end {
                self.newest.insert(end, span);
            }
        }
    }

    /// Has everything older that it overlaps reached `leg`?
    pub(crate) fn may_follow(&self, id: EntryId, leg: usize) -> bool {
        self.entries[id as usize].after.iter().all(|&(older, sequence)| {
            self.find(older, sequence).is_none_or(|e| e.progress[leg] == Progress::Done)
        })
    }

    /// Lets an entry go that nobody needs any more; returns its buffer.
    pub(crate) fn forget(&mut self, id: EntryId) -> Option<PayloadId> {
        let payload = self.remove_if_over(id)?.payload;
        (payload != PayloadId::NONE).then_some(payload)
    }

    fn remove_if_over(&mut self, id: EntryId) -> Option<Entry> {
        let entry = &self.entries[id as usize];
        if !entry.is_over() || entry.pins > 0 || !entry.answered {
            return None;
        }
        let (start, end) = (entry.offset, entry.end());
        let own: Vec<u64> =
            self.spans(start, end).filter(|(_, s)| s.entry == id).map(|(at, _)| at).collect();
        for at in own {
            self.newest.remove(&at);
        }
        let entry = self.entries.remove(id as usize);
        if !entry.is_trim {
            assert!(self.bytes >= entry.length, "what goes out of the cache was counted in it");
            self.bytes -= entry.length;
        }
        if self.entries.is_empty() {
            assert!(self.bytes == 0 && self.newest.is_empty(), "an empty cache holds nothing");
        }
        Some(entry)
    }

    /// What of `start..end` is newer here than on `leg`, in order. What was trimmed is not asked for
    /// again, so a TRIM under way changes nothing.
    pub(crate) fn newer_than(&self, leg: usize, start: u64, end: u64) -> Vec<Piece> {
        self.spans(start, end)
            .filter(|(_, span)| {
                let entry = &self.entries[span.entry as usize];
                entry.progress[leg] != Progress::Done && !entry.is_trim
            })
            .map(|(at, span)| {
                let offset = at.max(start);
                Piece { entry: span.entry, offset, length: span.end.min(end) - offset }
            })
            .collect()
    }

    /// Is a write under way, or waiting, on `leg` that overlaps `start..end`?
    pub(crate) fn busy(&self, start: u64, end: u64, leg: usize) -> bool {
        // entries that were overwritten and have not reached the leg are behind newer ones here
        self.spans(start, end).any(|(_, span)| {
            self.entries[span.entry as usize].progress[leg] != Progress::Done
                || !self.may_follow(span.entry, leg)
        })
    }

    #[cfg(test)]
    fn check(&self) {
        let mut end = 0;
        for (&at, span) in &self.newest {
            assert!(at >= end && span.end > at, "spans are apart");
            end = span.end;
            let entry = &self.entries[span.entry as usize];
            assert!(entry.offset <= at && span.end <= entry.end(), "a span is part of its entry");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, length: u64) -> Entry {
        Entry {
            sequence: 0,
            offset,
            length,
            payload: PayloadId::NONE,
            is_trim: false,
            fua: false,
            progress: [Progress::Waiting; 2],
            journal: Progress::Done,
            unit: 0,
            units: Vec::new(),
            answered: true,
            after: Vec::new(),
            pins: 0,
            io: IoId(0),
            checksums: Vec::new(),
        }
    }

    fn pieces(cache: &Cache, leg: usize, start: u64, end: u64) -> Vec<(EntryId, u64, u64)> {
        cache.newer_than(leg, start, end).iter().map(|p| (p.entry, p.offset, p.length)).collect()
    }

    /// By rule: is a write answered when the journal has it, when the lead has it, when both are dead?
    #[test]
    fn a_write_is_answered_by_its_rule() {
        let plain = Entry { answered: false, unit: 3, ..write(0, 10) };
        let (fua, is_trim) = (true, true);
        let table = [
            (Answer::Written, plain.clone(), [false, true, true]),
            (Answer::Journaled, plain.clone(), [true, true, true]),
            (Answer::Cached, plain.clone(), [false, false, false]),
            (Answer::Cached, Entry { is_trim, ..plain.clone() }, [false, true, true]),
            (Answer::Cached, Entry { fua, ..plain.clone() }, [false, true, true]),
            (Answer::Journaled, Entry { fua, ..plain.clone() }, [false, true, true]),
            (Answer::Written, Entry { fua, unit: 4, ..plain }, [false, false, true]),
        ];
        for (index, (rule, entry, want)) in table.into_iter().enumerate() {
            let promise = entry.fua.then_some((0, 10));
            let mut got = [false; 3];
            for (case, legs) in [&[0][..], &[0], &[]].into_iter().enumerate() {
                let mut cache = Cache::default();
                let id = cache.insert(entry.clone(), &mut Vec::new());
                if case == 1 {
                    cache.entry_mut(id).progress[0] = Progress::Done;
                }
                let reply = cache.take_reply(id, rule, legs, |unit| unit <= 3);
                got[case] = reply.is_some();
                assert!(reply.is_none_or(|reply| reply.promise == promise));
                assert!(cache.take_reply(id, rule, &[], |_| true).is_none() || !got[case], "once");
            }
            assert_eq!(got, want, "row {index}");
        }
    }

    /// Legs without roles answer together.
    #[test]
    fn a_write_waits_for_all_legs_that_answer() {
        let mut cache = Cache::default();
        let id = cache.insert(Entry { answered: false, ..write(0, 10) }, &mut Vec::new());
        for leg in [1, 0] {
            assert_eq!(cache.take_reply(id, Answer::Written, &[0, 1], |_| true), None);
            cache.entry_mut(id).progress[leg] = Progress::Done;
        }
        assert!(cache.take_reply(id, Answer::Written, &[0, 1], |_| true).is_some());
    }

    #[test]
    fn a_read_finds_the_newest_bytes_in_pieces() {
        let (mut cache, mut over) = (Cache::default(), Vec::new());
        let a = cache.insert(write(0, 100), &mut over);
        let b = cache.insert(write(40, 20), &mut over);
        let c = cache.insert(write(90, 20), &mut over);
        cache.check();
        assert!(over.is_empty(), "none is covered wholly");
        let all = [(a, 0, 40), (b, 40, 20), (a, 60, 30), (c, 90, 20)];
        assert_eq!(pieces(&cache, 0, 0, 200), all);
        assert_eq!(pieces(&cache, 0, 50, 95), [(b, 50, 10), (a, 60, 30), (c, 90, 5)]);
    }

    #[test]
    fn what_a_leg_has_is_read_from_it() {
        let (mut cache, mut over) = (Cache::default(), Vec::new());
        let a = cache.insert(write(0, 100), &mut over);
        cache.entry_mut(a).progress[1] = Progress::Done;
        assert_eq!(pieces(&cache, 0, 0, 100), [(a, 0, 100)]);
        assert_eq!(pieces(&cache, 1, 0, 100), []);
        assert!(cache.remove_if_over(a).is_none(), "the first leg has not got it");
        cache.entry_mut(a).progress[0] = Progress::Done;
        assert!(cache.remove_if_over(a).is_some());
        assert_eq!((cache.bytes(), cache.bytes_max), (0, 100));
        assert!(cache.entries.is_empty() && cache.newest.is_empty());
    }

    #[test]
    fn overlapping_writes_reach_a_leg_in_order() {
        let (mut cache, mut over) = (Cache::default(), Vec::new());
        let a = cache.insert(write(0, 100), &mut over);
        let b = cache.insert(write(50, 100), &mut over);
        assert!(cache.may_follow(a, 0) && !cache.may_follow(b, 0));
        cache.entry_mut(a).progress[0] = Progress::Done;
        assert!(cache.may_follow(b, 0) && !cache.may_follow(b, 1));
    }

    #[test]
    fn what_is_overwritten_before_it_was_sent_is_dropped_and_its_order_is_kept() {
        let (mut cache, mut over) = (Cache::default(), Vec::new());
        let a = cache.insert(write(0, 100), &mut over);
        cache.entry_mut(a).progress[0] = Progress::Sent;
        let b = cache.insert(write(50, 100), &mut over);
        let c = cache.insert(write(50, 100), &mut over);
        assert_eq!(over, [b], "the first was sent, the second not");
        assert_eq!(cache.coalesced_bytes, 100);
        assert!(cache.remove_if_over(b).is_some());
        cache.check();
        assert!(!cache.may_follow(c, 0), "what the dropped one waited for, its heir waits for");
        let unanswered = cache.insert(Entry { answered: false, ..write(400, 10) }, &mut over);
        over.clear();
        cache.insert(write(400, 10), &mut over);
        assert!(over.is_empty() && cache.find(unanswered, 4).is_some(), "somebody waits for it");
    }

    #[test]
    fn an_older_write_under_a_newer_one_keeps_the_place_busy() {
        let (mut cache, mut over) = (Cache::default(), Vec::new());
        let a = cache.insert(write(0, 100), &mut over);
        cache.entry_mut(a).progress[0] = Progress::Sent;
        let b = cache.insert(write(0, 100), &mut over);
        cache.entry_mut(b).progress = [Progress::Done; 2];
        assert!(cache.busy(10, 20, 0), "the older one is still on its way");
        assert!(!cache.busy(100, 120, 0));
    }
}
