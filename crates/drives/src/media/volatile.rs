//! Which acknowledged writes may a power cut still take?
//!
//! Source: design decision 4 and "The promise". Writes settle in any order. A newer write that
//! settles first takes its sectors from the older ones, so that no old data can come back over it.
//!
//! An emulated drive keeps this list in memory and the durable contents in a file: what settles is
//! handed to a sink.

use super::Sector;
use super::ranges::Ranges;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tandem_block::{Instant, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Ticket};

/// What a write stores.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents<C> {
    /// These sectors.
    Data(Arc<[C]>),
    /// So many sectors of zeroes (a TRIM).
    Zeroes(u64),
}

/// One write or TRIM.
#[derive(Clone, Debug, PartialEq)]
pub struct Write<C> {
    /// The command's ticket.
    pub ticket: Ticket,
    /// First byte, a multiple of 512.
    pub offset_bytes: u64,
    /// What is stored there.
    pub contents: Contents<C>,
}

/// A part that settles.
#[derive(Debug)]
pub enum Piece<'a, C> {
    /// These sectors.
    Data(&'a [C]),
    /// So many sectors of zeroes.
    Zeroes(u64),
}

/// What a power cut leaves of the volatile writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CutMode {
    /// All, those in flight too.
    KeepAll,
    /// None.
    DropAll,
    /// Any subset; what is kept may be torn at sectors.
    RandomSubset,
}

/// A point in the order of acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// Where durable pieces go: first sector and contents.
type Sink<'a, C> = &'a mut dyn FnMut(u64, Piece<'_, C>);

#[derive(Clone, Debug)]
struct Entry<C> {
    write: Write<C>,
    durable_at: Option<Instant>,
    /// Sectors that a newer, durable write has taken.
    taken: Ranges,
}

/// The volatile writes of one drive, in the order of their acknowledgement.
#[derive(Clone, Debug)]
pub struct Volatile<C> {
    entries: BTreeMap<u64, Entry<C>>,
    /// Data writes by the 4 KiB blocks they touch. TRIMs are long and few: they are searched.
    by_block: BTreeMap<u64, Vec<u64>>,
    trims: BTreeSet<u64>,
    due: BTreeSet<(Instant, u64)>,
    next: u64,
    bytes: u64,
}

impl<C> Default for Volatile<C> {
    fn default() -> Self {
        Volatile {
            entries: BTreeMap::new(),
            by_block: BTreeMap::new(),
            trims: BTreeSet::new(),
            due: BTreeSet::new(),
            next: 0,
            bytes: 0,
        }
    }
}

impl<C: Sector> Write<C> {
    fn sectors(&self) -> u64 {
        match &self.contents {
            Contents::Data(data) => data.len() as u64,
            Contents::Zeroes(count) => *count,
        }
    }

    /// First sector and the one after the last.
    fn range(&self) -> (u64, u64) {
        let first = self.offset_bytes / SECTOR_BYTES;
        (first, first + self.sectors())
    }

    /// The part from sector `first` to `end`.
    fn part(&self, first: u64, end: u64) -> Write<C> {
        let contents = match &self.contents {
            Contents::Data(data) => {
                let begin = self.range().0;
                Contents::Data(data[(first - begin) as usize..(end - begin) as usize].into())
            }
            Contents::Zeroes(_) => Contents::Zeroes(end - first),
        };
        Write { ticket: self.ticket, offset_bytes: first * SECTOR_BYTES, contents }
    }

    /// A random subset of its sectors, as runs in order. TRIMs tear in at most a few places.
    pub fn torn(&self, rng: &mut Rng) -> Vec<Write<C>> {
        let (first, end) = self.range();
        let step = match self.contents {
            Contents::Data(_) => 1,
            Contents::Zeroes(count) => count.div_ceil(64).max(1),
        };
        let mut parts = Vec::new();
        let mut at = first;
        while at < end {
            let next = (at + step).min(end);
            if rng.below(2) == 1 {
                parts.push(self.part(at, next));
            }
            at = next;
        }
        parts
    }
}

impl<C: Sector> Volatile<C> {
    /// A write is acknowledged.
    ///
    /// # Panics
    /// If its offset is no multiple of 512 or it is empty.
    pub fn push(&mut self, write: Write<C>, durable_at: Option<Instant>) {
        assert!(write.offset_bytes.is_multiple_of(SECTOR_BYTES) && write.sectors() > 0);
        let seq = self.next;
        self.next += 1;
        self.bytes += write.sectors() * SECTOR_BYTES;
        match write.contents {
            Contents::Data(_) => {
                for block in blocks(write.range()) {
                    self.by_block.entry(block).or_default().push(seq);
                }
            }
            Contents::Zeroes(_) => {
                self.trims.insert(seq);
            }
        }
        if let Some(at) = durable_at {
            self.due.insert((at, seq));
        }
        self.entries.insert(seq, Entry { write, durable_at, taken: Ranges::default() });
    }

    /// Bytes acknowledged and not durable.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The point after everything acknowledged so far.
    pub fn mark(&self) -> Mark {
        Mark(self.next)
    }

    /// Lays the volatile writes over durable contents that were read from sector `first` on.
    pub fn overlay(&self, first: u64, out: &mut [C]) {
        let wanted = (first, first + out.len() as u64);
        for seq in self.overlapping(wanted, u64::MAX) {
            let entry = &self.entries[&seq];
            let begin = entry.write.range().0;
            entry.taken.gaps(common(entry.write.range(), wanted), |from, upto| {
                let target = &mut out[(from - first) as usize..(upto - first) as usize];
                match &entry.write.contents {
                    Contents::Data(data) => target
                        .clone_from_slice(&data[(from - begin) as usize..(upto - begin) as usize]),
                    Contents::Zeroes(_) => target.fill(C::zero()),
                }
            });
        }
    }

    /// Settles the writes whose time has come.
    pub fn settle_due(&mut self, now: Instant, sink: Sink<'_, C>) {
        while let Some((at, seq)) = self.due.first().copied()
            && at <= now
        {
            self.settle_one(seq, sink);
        }
    }

    /// Settles what was acknowledged before `mark`.
    pub fn settle_upto(&mut self, mark: Mark, sink: Sink<'_, C>) {
        while let Some((seq, _)) = self.entries.first_key_value()
            && *seq < mark.0
        {
            self.settle_one(*seq, sink);
        }
    }

    /// Settles the writes without a settle time that are older than the newest `volatile_bytes`.
    /// TRIMs bring no bytes to a buffer and do not count.
    pub fn settle_older_than(&mut self, volatile_bytes: u64, sink: Sink<'_, C>) {
        if self.bytes <= volatile_bytes {
            return; // all of it may be in the buffer
        }
        let mut newer = 0;
        let mut old = Vec::new();
        for (seq, entry) in self.entries.iter().rev() {
            if entry.durable_at.is_none() && newer >= volatile_bytes {
                old.push(*seq);
            }
            if let Contents::Data(_) = entry.write.contents {
                newer += entry.write.sectors() * SECTOR_BYTES;
            }
        }
        for seq in old.into_iter().rev() {
            self.settle_one(seq, sink);
        }
    }

    /// The power fails: what `mode` leaves is durable, the rest is gone.
    pub fn cut(&mut self, mode: CutMode, rng: &mut Rng, sink: Sink<'_, C>) {
        for (_, entry) in std::mem::take(&mut self.entries) {
            let parts = match (mode, rng.below(3)) {
                (CutMode::DropAll, _) | (CutMode::RandomSubset, 0) => Vec::new(),
                (CutMode::KeepAll, _) | (CutMode::RandomSubset, 1) => vec![entry.write],
                (CutMode::RandomSubset, _) => entry.write.torn(rng),
            };
            for part in parts {
                emit(&part, &entry.taken, sink);
            }
        }
        *self = Volatile { next: self.next, ..Volatile::default() };
    }

    /// Damages one bit of the newest volatile version of `sector`. Is there one with contents?
    pub fn corrupt(&mut self, sector: u64, bit: u16) -> bool {
        let newest =
            self.overlapping((sector, sector + 1), u64::MAX).into_iter().rev().find(|seq| {
                let mut live = false;
                self.entries[seq].taken.gaps((sector, sector + 1), |_, _| live = true);
                live
            });
        let Some(entry) = newest.and_then(|seq| self.entries.get_mut(&seq)) else { return false };
        let begin = entry.write.range().0;
        let Contents::Data(data) = &mut entry.write.contents else { return false };
        let mut copy = data.to_vec();
        copy[(sector - begin) as usize].flip(bit);
        *data = copy.into();
        true
    }

    /// One write is on the medium: older ones lose the sectors they share with it.
    fn settle_one(&mut self, seq: u64, sink: Sink<'_, C>) {
        let entry = self.entries.remove(&seq).expect("it was just found");
        let range = entry.write.range();
        self.bytes -= entry.write.sectors() * SECTOR_BYTES;
        if let Some(at) = entry.durable_at {
            self.due.remove(&(at, seq));
        }
        if !self.trims.remove(&seq) {
            for block in blocks(range) {
                if let Some(list) = self.by_block.get_mut(&block) {
                    list.retain(|other| *other != seq);
                    if list.is_empty() {
                        self.by_block.remove(&block);
                    }
                }
            }
        }
        for older in self.overlapping(range, seq) {
            let older = self.entries.get_mut(&older).expect("the index names entries");
            older.taken.add(common(older.write.range(), range));
        }
        emit(&entry.write, &entry.taken, sink);
    }

    /// Entries older than `before` that share sectors with `range`, oldest first.
    fn overlapping(&self, range: (u64, u64), before: u64) -> Vec<u64> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<u64> = self.trims.range(..before).copied().collect();
        for (_, list) in self.by_block.range(blocks(range)) {
            found.extend(list.iter().filter(|seq| **seq < before));
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|seq| {
            let (first, end) = common(self.entries[seq].write.range(), range);
            first < end
        });
        found
    }
}

/// Hands the sectors of `write` that are not taken to the sink.
fn emit<C: Sector>(write: &Write<C>, taken: &Ranges, sink: Sink<'_, C>) {
    let begin = write.range().0;
    taken.gaps(write.range(), |first, end| match &write.contents {
        Contents::Data(data) => {
            sink(first, Piece::Data(&data[(first - begin) as usize..(end - begin) as usize]));
        }
        Contents::Zeroes(_) => sink(first, Piece::Zeroes(end - first)),
    });
}

/// The blocks that a range of sectors touches.
fn blocks(range: (u64, u64)) -> std::ops::Range<u64> {
    range.0 / SECTORS_PER_BLOCK..range.1.div_ceil(SECTORS_PER_BLOCK)
}

/// What two ranges share; empty if the first is not below the second.
fn common(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0.max(other.0), one.1.min(other.1))
}
