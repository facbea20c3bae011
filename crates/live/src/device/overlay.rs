//! What does an emulated drive hold in its volatile buffer, and in which order may it leave?
//!
//! Source: design decision 4: what the drive holds volatile stays in process memory and reaches the
//! file only when drained or flushed, so that SIGKILL is a power cut.
//!
//! Every acknowledged write is a *version* with its own bytes. It is first *held*, then *due* (the
//! drive has made it durable, or a flush or FUA asks for it), then *written* to the backing, and is
//! forgotten once no read is under way that began before it was written. A version may be written
//! before older ones, as real drives do, but never before an older one that it overlaps. Reads see
//! the newest bytes: the map of `pieces` lies over the backing.
//!
//! ```text
//!   put ──▶ held ──settle──▶ due ──next_batch──▶ writing ──written──▶ written ──▶ forgotten
//! ```

use crate::buffer::Memory;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Rises by one per version.
pub(super) type Sequence = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Due,
    Writing,
    /// Forgotten once every read numbered below is done.
    Written {
        reads_before: u64,
    },
}

#[derive(Debug)]
struct Version {
    start: u64,
    end: u64,
    /// `None`: trimmed, reads as zeroes.
    data: Option<Rc<Memory>>,
    /// Older versions that it overlaps.
    over: Vec<Sequence>,
    state: State,
}

/// A part of a version that is the newest of its place.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    version: Sequence,
}

/// What to write to the backing next.
#[derive(Debug)]
pub(super) struct Batch {
    pub start: u64,
    pub length: u64,
    pub versions: Vec<Sequence>,
    /// Buffers in order, each with its length; `None`: a hole.
    pub data: Option<Vec<(Rc<Memory>, usize, usize)>>,
}

/// One batch is at most this long …
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// … and of this many versions.
const BATCH_VERSIONS_MAX: usize = 256;

/// The volatile contents of one drive.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    versions: BTreeMap<Sequence, Version>,
    pieces: BTreeMap<u64, Piece>,
    held: VecDeque<Sequence>,
    due: BTreeSet<Sequence>,
    held_bytes: u64,
    bytes: u64,
    last: Sequence,
    next_read: u64,
    reads: BTreeSet<u64>,
    freed: Vec<Rc<Memory>>,
}

impl Overlay {
    /// Bytes that are neither written nor due.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Bytes that are not in the backing yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The newest version.
    pub fn last(&self) -> Sequence {
        self.last
    }

    /// Buffers that are not needed any more.
    pub fn take_freed(&mut self) -> impl Iterator<Item = Rc<Memory>> + '_ {
        self.freed.drain(..)
    }

    /// Adds a version: bytes at the beginning of `data`, or a hole.
    pub fn put(&mut self, start: u64, length: u64, data: Option<Rc<Memory>>) -> Sequence {
        assert!(length > 0, "a version has bytes");
        self.last += 1;
        let (version, end) = (self.last, start + length);
        let over = self.cut_out(start, end);
        self.pieces.insert(start, Piece { end, version });
        let hole = data.is_none();
        self.versions.insert(version, Version { start, end, data, over, state: State::Held });
        self.bytes += length;
        self.held_bytes += length;
        if hole {
            self.make_due(version); // nothing to lose by doing it
        } else {
            self.held.push_back(version);
        }
        version
    }

    /// Removes `start..end` from the map of newest pieces; which versions lay there.
    fn cut_out(&mut self, start: u64, end: u64) -> Vec<Sequence> {
        let mut over = Vec::new();
        let before = self.pieces.range(..start).next_back().map(|(at, piece)| (*at, *piece));
        if let Some((at, piece)) = before
            && piece.end > start
        {
            over.push(piece.version);
            self.pieces.insert(at, Piece { end: start, ..piece });
            if piece.end > end {
                self.pieces.insert(end, piece);
            }
        }
        while let Some((at, piece)) = self.pieces.range(start..end).next().map(|(a, p)| (*a, *p)) {
            over.push(piece.version);
            self.pieces.remove(&at);
            if piece.end > end {
                self.pieces.insert(end, piece);
            }
        }
        over.sort_unstable();
        over.dedup();
        over
    }

    /// Lets a version go to the backing, and what it lies over with it.
    pub fn make_due(&mut self, version: Sequence) {
        let mut stack = vec![version];
        while let Some(sequence) = stack.pop() {
            if let Some(version) = self.versions.get_mut(&sequence)
                && version.state == State::Held
            {
                version.state = State::Due;
                self.held_bytes -= version.end - version.start;
                self.due.insert(sequence);
                stack.extend(&version.over);
            }
        }
    }

    /// Makes due what the drive does not hold volatile any more: all but the newest `limit` bytes.
    pub fn settle_beyond(&mut self, limit: u64) {
        while self.held_bytes > limit
            && let Some(oldest) = self.held.pop_front()
        {
            self.make_due(oldest);
        }
    }

    /// Makes due every version up to this one.
    pub fn settle_until(&mut self, version: Sequence) {
        while self.held.front().is_some_and(|oldest| *oldest <= version)
            && let Some(oldest) = self.held.pop_front()
        {
            self.make_due(oldest);
        }
    }

    /// Is every version up to this one in the backing?
    pub fn written_until(&self, version: Sequence) -> bool {
        let mut older = self.versions.range(..=version);
        older.all(|(_, version)| matches!(version.state, State::Written { .. }))
    }

    /// Is this version in the backing?
    pub fn is_written(&self, version: Sequence) -> bool {
        let found = self.versions.get(&version);
        found.is_none_or(|version| matches!(version.state, State::Written { .. }))
    }

    fn may_be_written(&self, version: &Version) -> bool {
        version.over.iter().all(|older| self.is_written(*older))
    }

    /// The next versions to write, adjacent ones together; they count as being written from now on.
    pub fn next_batch(&mut self) -> Option<Batch> {
        let ready = |sequence: &&Sequence| {
            self.versions.get(*sequence).is_some_and(|version| self.may_be_written(version))
        };
        let first = *self.due.iter().find(ready)?;
        let (start, mut end) = (self.versions[&first].start, self.versions[&first].end);
        let mut versions = vec![first];
        let mut data = self.versions[&first]
            .data
            .clone()
            .map(|memory| vec![(memory, 0, (end - start) as usize)]);
        if let Some(pieces) = &mut data {
            for sequence in self.due.range(first + 1..) {
                let next = &self.versions[sequence];
                let length = next.end - next.start;
                let fits =
                    end - start + length <= BATCH_BYTES_MAX && versions.len() < BATCH_VERSIONS_MAX;
                let Some(memory) = &next.data else { break };
                if next.start != end || !fits || !self.may_be_written(next) {
                    break;
                }
                pieces.push((Rc::clone(memory), 0, length as usize));
                versions.push(*sequence);
                end = next.end;
            }
        }
        for sequence in &versions {
            self.due.remove(sequence);
            self.versions.get_mut(sequence).expect("due versions exist").state = State::Writing;
        }
        Some(Batch { start, length: end - start, versions, data })
    }

    /// Bytes of these versions together.
    pub fn bytes_of(&self, versions: &[Sequence]) -> u64 {
        versions.iter().map(|sequence| &self.versions[sequence]).map(|v| v.end - v.start).sum()
    }

    /// Where the first of these versions begins.
    pub fn offset_of(&self, versions: &[Sequence]) -> u64 {
        versions.iter().map(|sequence| self.versions[sequence].start).min().unwrap_or(0)
    }

    /// A batch is in the backing.
    pub fn written(&mut self, versions: &[Sequence]) {
        let reads_before = self.next_read;
        for sequence in versions {
            let version = self.versions.get_mut(sequence).expect("written once");
            assert_eq!(version.state, State::Writing, "only a batch is written");
            version.state = State::Written { reads_before };
            self.bytes -= version.end - version.start;
        }
        self.forget(versions);
    }

    /// Forgets those of `versions` that no read needs any more.
    fn forget(&mut self, versions: &[Sequence]) {
        let oldest_read = self.reads.first().copied().unwrap_or(u64::MAX);
        for sequence in versions {
            let Some(version) = self.versions.get(sequence) else { continue };
            if !matches!(version.state, State::Written { reads_before } if oldest_read >= reads_before)
            {
                continue;
            }
            let (start, end) = (version.start, version.end);
            let mine: Vec<u64> = self
                .pieces
                .range(start..end)
                .filter_map(|(at, piece)| (piece.version == *sequence).then_some(*at))
                .collect();
            for at in mine {
                self.pieces.remove(&at);
            }
            let version = self.versions.remove(sequence).expect("found above");
            self.freed.extend(version.data);
        }
    }

    /// A read of the backing begins; returns its number.
    pub fn read_begins(&mut self) -> u64 {
        let read = self.next_read;
        self.next_read += 1;
        self.reads.insert(read);
        read
    }

    /// A read of the backing is over, with its bytes laid over by [`Overlay::lay_over`].
    pub fn read_ends(&mut self, read: u64) {
        let was_oldest = self.reads.first() == Some(&read);
        self.reads.remove(&read);
        if was_oldest && !self.versions.is_empty() {
            // versions are written roughly in order, so those to forget are near the front
            let done: Vec<Sequence> = self
                .versions
                .iter()
                .take(64)
                .filter(|(_, version)| matches!(version.state, State::Written { .. }))
                .map(|(sequence, _)| *sequence)
                .collect();
            self.forget(&done);
        }
    }

    /// Puts the newest bytes of `start..start + length` into `memory` from `at` on; what is not
    /// held stays as it is.
    pub fn lay_over(&self, start: u64, length: u64, memory: &Memory, at: usize) {
        let end = start + length;
        let first = self.pieces.range(..=start).next_back().map_or(start, |(at, _)| *at);
        for (piece_start, piece) in self.pieces.range(first..end) {
            let (from, until) = ((*piece_start).max(start), piece.end.min(end));
            if from >= until {
                continue;
            }
            let (into, bytes) = (at + (from - start) as usize, (until - from) as usize);
            let version = &self.versions[&piece.version];
            match &version.data {
                Some(data) => memory.copy_from(into, data, (from - version.start) as usize, bytes),
                None => memory.zero(into, bytes),
            }
        }
    }
}

#[cfg(test)]
#[path = "overlay/tests.rs"]
mod tests;
