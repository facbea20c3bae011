//! What does a leg lack that serves alone, and what does its record say of that?
//!
//! Source: requirements I14, B9. Where the other one died while this one was still behind, some of the
//! latest data are on the dead one alone. A later start must know of it: alone this leg would show old
//! data, and beside a dead one that came back it would write old data over the new. So the record of
//! who serves alone lists what it lacks. What is written there afterwards leaves the list:
//!
//! ```text
//! written ─▶ the survivor is flushed ─▶ its record says so ─▶ FLUSH and FUA are answered
//! ```
//! Earlier, and old data could be shown after a crash; later, and what is brought from the one that
//! came back would lie over what was promised.

use super::commands::{Commands, Ended};
use super::roles::Roles;
use super::stale::Stale;
use crate::mutant::Mutant;
use crate::port::IoId;
use tandem_block::IoError;

/// An answer that promises something which the record does not say yet.
#[derive(Clone, Debug)]
struct Held {
    ended: Ended,
    /// What a write with FUA wrote; a FLUSH has made durable what it promises.
    extent: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Survivor {
    /// What the record on it says that it lacks; the first one is about to.
    missing: Stale,
    /// Of that: what the cache holds, or its own buffer, since the other one died.
    in_ram: Stale,
    /// All of that was written and flushed.
    is_covered: bool,
    /// Of what it lacked: written to since.
    written: Stale,
    /// … and a flush is under way
    settling: Stale,
    /// … and durable: the next record says so.
    durable: Stale,
    held: Vec<Held>,
    recording: Option<Recording>,
}

/// What becomes true with the record that is being written.
#[derive(Clone, Debug, Default)]
struct Recording {
    durable: Stale,
    answers: Vec<Ended>,
}

/// What has to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its record is to say what it lacks no longer.
    Record,
    /// It is to be flushed, unless it is being flushed.
    Flush,
}

impl Survivor {
    /// Would a power cut now lose what only the dead leg has, although it need not?
    pub(crate) fn is_exposed(&self) -> bool {
        !self.in_ram.is_empty()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.recording.is_none()
    }

    /// The other leg is written off. What this one lacks, and of what the cache held or its buffer: asked
    /// while the cache still knows what each of them had.
    pub(crate) fn begins(&mut self, lacks: &Stale, mut in_ram: Stale) {
        assert!(self.is_idle() && self.missing.is_empty(), "a leg is left alone once");
        in_ram.remove_all(lacks);
        let mut missing = lacks.clone();
        missing.add_all(&in_ram);
        *self = Survivor { missing, in_ram, ..Survivor::default() };
    }

    /// Both are dead: nothing is promised any more.
    pub(crate) fn ends(&mut self, error: IoError, commands: &mut Commands) {
        let Survivor { held, recording, .. } = std::mem::take(self);
        let answers = recording.map(|recording| recording.answers).unwrap_or_default();
        let held = held.into_iter().map(|held| held.ended);
        let after = commands.take_after();
        for Ended { io, .. } in held.chain(answers).chain(after) {
            commands.end(io, Err(error), Vec::new());
        }
    }

    /// The survivor lacks nothing of this any more, once it is flushed.
    pub(crate) fn has(&mut self, start: u64, end: u64) {
        for (from, to) in self.missing.within(start, end) {
            self.written.add(from, to);
        }
    }

    /// A flush of it begins.
    pub(crate) fn flush_begins(&mut self) {
        assert!(self.settling.is_empty(), "one flush after the other");
        self.settling.add_all(&std::mem::take(&mut self.written));
    }

    /// It ended well; `covers`: all that the dead leg had is in it.
    pub(crate) fn flush_ends(&mut self, covers: bool) {
        self.durable.add_all(&std::mem::take(&mut self.settling));
        self.is_covered |= covers;
    }

    /// Answers what promises that something is durable: a write with FUA of this extent, or a FLUSH
    /// that has made durable everything before it.
    pub(crate) fn promise(
        &mut self,
        (io, extent): (IoId, Option<(u64, u64)>),
        checksums: Vec<u32>,
        roles: &Roles,
        commands: &mut Commands,
    ) {
        let owes = match extent {
            Some((start, end)) => self.missing.touches(start, end),
            None => self.owes(),
        };
        if owes && roles.is_alone() && !commands.breaks(Mutant::PairPromiseBeforeRecord) {
            let ended = Ended { io, status: Ok(()), checksums, bytes: Vec::new() };
            self.held.push(Held { ended, extent });
        } else {
            commands.answer(roles, io, Ok(()), checksums);
        }
    }

    /// Lets answers go, and says what has to be done before more can.
    pub(crate) fn step(&mut self, roles: &Roles, commands: &mut Commands) -> Option<Step> {
        assert!(self.recording.is_none(), "one record after the other");
        if self.is_exposed() && !self.is_covered {
            return None;
        }
        if self.is_exposed() || !self.durable.is_empty() {
            let mut durable = std::mem::take(&mut self.durable);
            durable.add_all(&self.in_ram);
            let answers = self.take_durable();
            self.recording = Some(Recording { durable, answers });
            return Some(Step::Record);
        }
        for Ended { io, status, checksums, .. } in self.take_durable() {
            commands.answer(roles, io, status, checksums);
        }
        (!self.held.is_empty()).then_some(Step::Flush)
    }

    /// A record of who serves alone is durable.
    pub(crate) fn is_on_record(&mut self, roles: &Roles, commands: &mut Commands) {
        let Some(Recording { durable, answers }) = self.recording.take() else { return };
        self.missing.remove_all(&durable);
        self.in_ram = Stale::default();
        for Ended { io, status, checksums, .. } in answers {
            commands.answer(roles, io, status, checksums);
        }
    }

    /// Does a FLUSH that has made durable everything promise more than the record says?
    fn owes(&self) -> bool {
        self.is_exposed() || !self.durable.is_empty() || self.recording.is_some()
    }

    fn is_durable(&self, held: &Held) -> bool {
        held.extent.is_none_or(|(start, end)| {
            !self.written.touches(start, end) && !self.settling.touches(start, end)
        })
    }

    /// Takes the answers out that promise nothing which is not durable.
    fn take_durable(&mut self) -> Vec<Ended> {
        let held = std::mem::take(&mut self.held);
        let (durable, rest) = held.into_iter().partition(|held| self.is_durable(held));
        self.held = rest;
        let durable: Vec<Held> = durable;
        durable.into_iter().map(|held| held.ended).collect()
    }

    /// What the next record says that it lacks.
    pub(crate) fn next_missing(&self) -> Stale {
        let mut missing = self.missing.clone();
        if let Some(recording) = &self.recording {
            missing.remove_all(&recording.durable);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(parts: &[(u64, u64)]) -> Stale {
        let mut stale = Stale::default();
        parts.iter().for_each(|&(from, to)| stale.add(from, to));
        stale
    }

    fn held(extent: Option<(u64, u64)>) -> Held {
        let ended = Ended { io: IoId(1), status: Ok(()), checksums: vec![], bytes: vec![] };
        Held { ended, extent }
    }

    /// Only what a flush began after counts as durable by it.
    #[test]
    fn what_is_written_while_a_flush_is_under_way_waits_for_the_next() {
        let mut survivor = Survivor { written: stale(&[(0, 10)]), ..Survivor::default() };
        survivor.flush_begins();
        survivor.written.add(20, 30);
        survivor.held.extend([held(Some((0, 10))), held(Some((20, 30))), held(None)]);
        survivor.flush_ends(false);
        assert_eq!(survivor.durable, stale(&[(0, 10)]));
        assert_eq!(survivor.take_durable().len(), 2, "the second one is not durable");
        survivor.flush_begins();
        assert!(survivor.take_durable().is_empty());
        survivor.flush_ends(false);
        assert_eq!(survivor.take_durable().len(), 1);
    }
}
