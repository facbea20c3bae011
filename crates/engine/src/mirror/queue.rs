//! What has each leg still to write, and in which order?
//!
//! Source: [IANUS §5.1, §5.2]. A leg has a backlog, which the other leg has already, and what is new to
//! both. Entries are named with their order of acceptance: one that is gone from the cache is over.

use super::cache::{Cache, EntryId, Progress};
use std::collections::VecDeque;

/// An entry and its order of acceptance.
type Named = (EntryId, u64);

#[derive(Clone, Debug, Default)]
struct Queue {
    /// What the other leg has already.
    backlog: VecDeque<Named>,
    /// What no leg has.
    fresh: VecDeque<Named>,
    /// Entries with the leg.
    in_flight: u32,
    /// … from the backlog
    catching_up: u32,
    /// Bytes sent from the backlog minus those from the fresh ones: whose turn it is.
    balance: i64,
}

impl Queue {
    fn head(&self, new: bool) -> Option<EntryId> {
        let queue = if new { &self.fresh } else { &self.backlog };
        queue.front().map(|&(id, _)| id)
    }

    /// Entries that were overwritten before they were sent are over.
    fn skip_gone(&mut self, leg: usize, cache: &Cache) {
        let gone = |head: Option<&Named>| {
            head.is_some_and(|&(id, sequence)| {
                cache.find(id, sequence).is_none_or(|e| e.progress[leg] != Progress::Waiting)
            })
        };
        while gone(self.backlog.front()) {
            self.backlog.pop_front();
        }
        while gone(self.fresh.front()) {
            self.fresh.pop_front();
        }
    }

    fn take(&mut self, new: bool, length: i64) {
        if new {
            self.fresh.pop_front();
        } else {
            self.backlog.pop_front();
        }
        self.balance = match (self.backlog.is_empty(), new) {
            (true, _) => 0,
            (false, true) => self.balance - length,
            (false, false) => self.balance + length,
        };
        self.catching_up += u32::from(!new);
        self.in_flight += 1;
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    legs: [Queue; 2],
}

impl Queues {
    pub(crate) fn are_empty(&self) -> bool {
        self.legs
            .iter()
            .all(|queue| queue.backlog.is_empty() && queue.fresh.is_empty() && queue.in_flight == 0)
    }

    pub(crate) fn in_flight(&self, leg: usize) -> u32 {
        self.legs[leg].in_flight
    }

    pub(crate) fn has_backlog(&self, leg: usize) -> bool {
        !self.legs[leg].backlog.is_empty()
    }

    /// Has the leg everything that the other one has?
    pub(crate) fn is_level(&self, leg: usize) -> bool {
        let queue = &self.legs[leg];
        queue.backlog.is_empty() && queue.catching_up == 0
    }

    pub(crate) fn has_new(&self, leg: usize) -> bool {
        !self.legs[leg].fresh.is_empty()
    }

    /// What is new to the leg and was accepted up to here.
    pub(crate) fn new_upto(&self, leg: usize, upto: u64) -> impl Iterator<Item = Named> + '_ {
        let fresh = self.legs[leg].fresh.iter().copied();
        fresh.take_while(move |&(_, sequence)| sequence <= upto)
    }

    pub(crate) fn push(&mut self, leg: usize, new: bool, entry: Named) {
        let queue = &mut self.legs[leg];
        let part = if new { &mut queue.fresh } else { &mut queue.backlog };
        let is_next = part.back().is_none_or(|&(_, sequence)| sequence < entry.1);
        assert!(is_next, "writes wait in the order of acceptance");
        part.push_back(entry);
    }

    /// The next entry for a leg and whether it is new: of those that may be sent, what is new if that
    /// goes first. `None`: by what was sent so far.
    pub(crate) fn pick(
        &mut self,
        leg: usize,
        new_first: Option<bool>,
        cache: &Cache,
        mut may_send: impl FnMut(EntryId, bool) -> bool,
    ) -> Option<(EntryId, bool)> {
        let queue = &mut self.legs[leg];
        queue.skip_gone(leg, cache);
        let new_first = new_first.unwrap_or(queue.balance >= 0);
        for new in [new_first, !new_first] {
            if let Some(id) = queue.head(new)
                && may_send(id, new)
            {
                queue.take(new, cache.entry(id).length as i64);
                return Some((id, new));
            }
        }
        None
    }

    /// An entry is not with the leg any more.
    pub(crate) fn ended(&mut self, leg: usize, new: bool) {
        let queue = &mut self.legs[leg];
        assert!(queue.in_flight > 0, "what has ended was with the leg");
        assert!(new || queue.catching_up > 0, "what has ended was from the backlog");
        queue.in_flight -= 1;
        queue.catching_up -= u32::from(!new);
        assert!(queue.catching_up <= queue.in_flight, "the backlog is a part of what is sent");
    }

    /// A leg is dead: all that the other one lacks is new to it, in the order of acceptance.
    pub(crate) fn leg_died(&mut self, leg: usize) {
        self.legs[leg].backlog.clear();
        self.legs[leg].fresh.clear();
        self.requeue(1 - leg);
    }

    fn requeue(&mut self, leg: usize) {
        let queue = &mut self.legs[leg];
        let mut all: Vec<Named> = queue.backlog.drain(..).chain(queue.fresh.drain(..)).collect();
        all.sort_unstable_by_key(|&(_, sequence)| sequence);
        queue.fresh = all.into();
        queue.balance = 0;
    }

    /// From now on the legs take turns, and this one is read: what it lacks the other one will have.
    pub(crate) fn begin_turns(&mut self, reader: usize) {
        assert!(self.legs[1 - reader].backlog.is_empty(), "who leads has what the other one has");
        self.requeue(reader);
        let queue = &mut self.legs[reader];
        queue.backlog = std::mem::take(&mut queue.fresh);
    }

    /// This leg writes from now on: what the old writer did not get to is new to both.
    pub(crate) fn turn(&mut self, writer: usize) {
        let old = &self.legs[1 - writer];
        assert!(old.backlog.is_empty() && old.in_flight == 0, "the old writer has caught up");
        assert!(self.legs[writer].fresh.is_empty(), "nothing new was for the leg that was read");
        let unwritten = std::mem::take(&mut self.legs[1 - writer].fresh);
        let first = unwritten.front().map(|&(_, sequence)| sequence);
        let queue = &mut self.legs[writer];
        if let Some(first) = first {
            let at = queue.backlog.partition_point(|&(_, sequence)| sequence < first);
            queue.fresh = queue.backlog.split_off(at);
        }
        queue.balance = 0;
        self.legs[1 - writer].backlog = unwritten;
    }

    /// What the leg lacks that the other one has.
    pub(crate) fn backlog(&self, leg: usize) -> impl Iterator<Item = Named> + '_ {
        self.legs[leg].backlog.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::Entry;
    use super::*;
    use crate::port::IoId;
    use tandem_block::PayloadId;

    fn accepted(cache: &mut Cache, count: u64) -> Vec<Named> {
        let entry = |number: u64| Entry {
            sequence: 0,
            offset: number * 10,
            length: 10,
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
        };
        let mut insert = |number| {
            let id = cache.insert(entry(number), &mut Vec::new());
            (id, cache.entry(id).sequence)
        };
        (0..count).map(&mut insert).collect()
    }

    fn picked(queues: &mut Queues, leg: usize, cache: &Cache, first: Option<bool>) -> Vec<bool> {
        let picks = std::iter::from_fn(|| queues.pick(leg, first, cache, |_, _| true));
        picks.map(|(_, new)| new).collect()
    }

    #[test]
    fn backlog_and_new_have_equal_shares_unless_one_goes_first() {
        let mut cache = Cache::default();
        let entries = accepted(&mut cache, 6);
        let mut queues = Queues::default();
        for (index, &entry) in entries.iter().enumerate() {
            queues.push(0, index >= 3, entry);
        }
        for (first, want) in [
            (None, [true, false, true, false, true, false]),
            (Some(true), [true, true, true, false, false, false]),
            (Some(false), [false, false, false, true, true, true]),
        ] {
            assert_eq!(picked(&mut queues.clone(), 0, &cache, first), want, "{first:?}");
        }
    }

    /// The writer got to two of four when roles change: the new writer lacks these, and all four later.
    #[test]
    fn what_the_old_writer_did_not_get_to_is_new_to_both() {
        let mut cache = Cache::default();
        let entries = accepted(&mut cache, 4);
        let mut queues = Queues::default();
        for &entry in &entries {
            queues.push(0, true, entry);
            queues.push(1, false, entry);
        }
        for _ in 0..2 {
            let (id, new) = queues.pick(0, None, &cache, |_, _| true).expect("there are four");
            cache.entry_mut(id).progress[0] = Progress::Done;
            queues.ended(0, new);
        }
        queues.turn(1);
        assert_eq!(queues.backlog(1).collect::<Vec<_>>(), entries[..2]);
        assert_eq!(queues.new_upto(1, u64::MAX).collect::<Vec<_>>(), entries[2..]);
        assert_eq!(queues.backlog(0).collect::<Vec<_>>(), entries[2..]);
        queues.leg_died(0);
        assert_eq!(queues.new_upto(1, u64::MAX).collect::<Vec<_>>(), entries);
        assert!(queues.is_level(1) && !queues.has_backlog(0));
    }
}
