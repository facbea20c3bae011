//! Where on the flash is each page, and which line is cheapest to reclaim?
//!
//! Source: models §6.1: page map of 4 KiB pages in 32 bits each way, a validity bit per physical
//! page, lines of one block per die, the victim is the line with the fewest valid pages (greedy).
//! It is looked for when it is wanted, once in thousands of writes, over one word per line: lists
//! that are kept in order cost every write more.
//!
//! Memory: 8.1 bytes per page; tables begin as zeroes, so that an unused drive costs none.

use super::initial::{Initial, SsdState};
use crate::rate::Divider;
use std::collections::VecDeque;
use tandem_block::{Rng, Table};

const NO_LINE: u32 = u32::MAX;
/// `first_unit` of lines that the host frontier did not write.
pub(super) const NO_UNIT: u64 = u64::MAX;

/// In `physical`: the host page was forgotten.
const TRIMMED: u32 = u32::MAX;

/// In the count of a line's valid pages: it is open or free, and so no victim.
const OPEN: u32 = 1 << 31;

/// One line: a block of every die.
#[derive(Clone, Debug)]
struct Line {
    /// When its count last changed or it was closed, in such events: of lines with equally many
    /// valid pages the last one to get there goes first.
    changed: u64,
    /// Number of its first unit in the order of host units, or [`NO_UNIT`].
    first_unit: u64,
    holds: Held,
}

/// Where the pages of a line are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// In the tables.
    Tables,
    /// As the run began, and its validity bits are in the table.
    Begun,
    /// As the run began, and nothing of it is in the tables.
    Untouched,
}

/// Where the next page goes: absolute physical pages.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    line: u32,
    page: u32,
    end: u32,
}

/// The page map and the lines.
#[derive(Clone, Debug)]
pub(super) struct FlashMap {
    /// Physical page + 1 of each host page; 0 = as the run began; [`TRIMMED`].
    physical: Table<u32>,
    /// Host page of each physical page; meaningful where the validity bit is set, in lines of [`Held::Tables`].
    logical: Table<u32>,
    /// One bit per physical page, but of lines that are [`Held::Untouched`].
    valid: Table<u64>,
    /// What the drive held when the run began; `None` = nothing.
    initial: Option<Initial>,
    lines: Vec<Line>,
    /// Valid pages of each line, and [`OPEN`].
    counts: Vec<u32>,
    /// Changes of counts so far.
    changes: u64,
    free: VecDeque<u32>,
    host: Frontier,
    gc: Frontier,
    /// Pages of the open unit that the tables don't show yet, in the order of their writes.
    open_unit: Vec<u32>,
    /// Where they lay before; empty but while they are put into the tables.
    old_places: Vec<Option<u32>>,
    pub(super) line_pages: u32,
    units_per_line: u32,
    host_lines_opened: u64,
    line_of: Divider,
    unit_of: Divider,
}

/// Where a physical page lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    /// Number of its unit within its line.
    pub(super) unit_in_line: u32,
    /// Number of its unit in the order of host units, or [`NO_UNIT`].
    pub(super) host_unit: u64,
}

impl FlashMap {
    /// An erased drive.
    ///
    /// # Panics
    /// If a line is no multiple of 64 pages or of a unit, or there are too few lines.
    pub(super) fn new(host_pages: u32, line_pages: u32, unit_pages: u32, line_count: u32) -> Self {
        assert!(line_pages.is_multiple_of(64) && line_pages.is_multiple_of(unit_pages));
        let physical_pages = u64::from(line_pages) * u64::from(line_count);
        assert!(physical_pages < u64::from(u32::MAX), "physical pages are numbered in 32 bits");
        assert!(physical_pages >= u64::from(host_pages) + 3 * u64::from(line_pages));
        let physical_pages = physical_pages as usize;
        assert!(line_pages < OPEN, "valid pages are counted in 31 bits");
        let line = Line { changed: 0, first_unit: NO_UNIT, holds: Held::Tables };
        let nowhere = Frontier { line: NO_LINE, page: 0, end: 0 };
        let mut map = FlashMap {
            physical: Table::new(host_pages as usize),
            logical: Table::new(physical_pages),
            valid: Table::new(physical_pages / 64),
            initial: None,
            lines: vec![line; line_count as usize],
            counts: vec![OPEN; line_count as usize],
            changes: 0,
            free: (0..line_count).collect(),
            host: nowhere,
            gc: nowhere,
            open_unit: Vec::with_capacity(unit_pages as usize),
            old_places: Vec::with_capacity(unit_pages as usize),
            line_pages,
            units_per_line: line_pages / unit_pages,
            host_lines_opened: 0,
            line_of: Divider::new(line_pages),
            unit_of: Divider::new(unit_pages),
        };
        map.open_host_line();
        map.gc = map.open_line();
        map
    }

    /// Fills an erased drive as this state says with valid pages in random order, `keep_free` lines left
    /// free.
    pub(super) fn fill(&mut self, state: SsdState, keep_free: usize, rng: &mut Rng) {
        let count = self.free.len().saturating_sub(keep_free).max(1);
        let first = *self.free.front().expect("an erased drive has free lines");
        let (line_pages, host_pages) = (self.line_pages, self.host_pages());
        let initial = Initial::new(state, (first, count), line_pages, host_pages, rng);
        for line in initial.iter().flat_map(Initial::lines) {
            assert!(
                self.free.pop_front() == Some(line),
                "free lines of an erased drive follow one another"
            );
            self.lines[line as usize].holds = Held::Untouched;
            self.counts[line as usize] = initial.as_ref().expect("it has lines").pages(line) | OPEN;
            self.close(line);
        }
        self.initial = initial;
    }

    /// Pages that the host can write.
    #[inline]
    pub(super) fn host_pages(&self) -> u32 {
        self.physical.len() as u32
    }

    /// Lines that hold nothing.
    #[inline]
    pub(super) fn free_lines(&self) -> usize {
        self.free.len()
    }

    /// The physical page of `page`, if it was written.
    #[inline]
    pub(super) fn find(&mut self, page: u32) -> Option<u32> {
        self.settle();
        self.find_settled(page)
    }

    /// As `find`, of tables that show every write.
    #[inline]
    fn find_settled(&self, page: u32) -> Option<u32> {
        match self.physical[page as usize] {
            0 => self.initial.as_ref().and_then(|initial| initial.find(page)),
            TRIMMED => None,
            known => Some(known - 1),
        }
    }

    /// The number of the unit that a physical page lies in, over the whole drive.
    #[inline]
    pub(super) fn unit(&self, physical: u32) -> u32 {
        self.unit_of.quotient(physical)
    }

    /// Where a physical page lies.
    #[inline]
    pub(super) fn locate(&self, physical: u32) -> Location {
        let (line, in_line) = self.line_of.divide(physical);
        let unit_in_line = self.unit_of.quotient(in_line);
        let first = self.lines[line as usize].first_unit;
        let host_unit = if first == NO_UNIT { NO_UNIT } else { first + u64::from(unit_in_line) };
        Location { unit_in_line, host_unit }
    }

    /// Writes `page` at the host frontier. The tables show it when its unit is full, or when somebody asks:
    /// a processor then waits for memory once a unit, not once a page.
    #[inline]
    pub(super) fn write(&mut self, page: u32) {
        self.physical.prefetch(page as usize);
        self.open_unit.push(page);
        let end = self.host.page + self.open_unit.len() as u32;
        if self.unit_of.divide(end).1 == 0 {
            self.settle();
        }
    }

    /// Makes the tables show every write.
    #[inline]
    fn settle(&mut self) {
        if !self.open_unit.is_empty() {
            self.settle_open_unit();
        }
    }

    fn settle_open_unit(&mut self) {
        let mut pages = std::mem::take(&mut self.open_unit);
        for &page in &pages {
            let old = self.find_settled(page);
            self.valid.prefetch(old.map_or(0, |old| old >> 6) as usize);
            self.old_places.push(old);
        }
        let placed_here = self.host.page + 1..=self.host.page + pages.len() as u32;
        for (at, page) in pages.drain(..).enumerate() {
            let mut old = self.old_places[at];
            if placed_here.contains(&self.physical[page as usize]) {
                // the page was written twice since
                old = self.find_settled(page);
            }
            self.place(page, old);
        }
        self.old_places.clear();
        self.open_unit = pages;
    }

    /// Puts `page`, which lay at `old`, at the host frontier.
    #[inline]
    fn place(&mut self, page: u32, old: Option<u32>) {
        if let Some(old) = old {
            self.invalidate(old);
        }
        let at = self.host.page;
        self.put(page, at, self.host.line);
        self.host.page += 1;
        if self.host.page == self.host.end {
            self.close_host_line();
        }
    }

    /// Leaves `count` pages at the host frontier unused; they end within the line.
    pub(super) fn skip(&mut self, count: u32) {
        self.settle();
        self.host.page += count;
        assert!(self.host.page <= self.host.end, "padding ends with its unit");
        if self.host.page == self.host.end {
            self.close_host_line();
        }
    }

    /// Forgets `page`. Was it written?
    pub(super) fn forget(&mut self, page: u32) -> bool {
        let found = self.find(page);
        if let Some(old) = found {
            self.invalidate(old);
            self.physical[page as usize] = TRIMMED;
        }
        found.is_some()
    }

    /// Moves the valid pages of the cheapest line and frees it. Returns how many were moved, or
    /// `None` if no line would give room.
    pub(super) fn reclaim(&mut self) -> Option<u32> {
        self.settle();
        let (victim, moved) = self.victim()?;
        self.counts[victim as usize] |= OPEN;
        self.lay_bits(victim);
        let words = self.line_pages / 64;
        let in_tables = self.lines[victim as usize].holds == Held::Tables;
        for word in victim * words..(victim + 1) * words {
            if in_tables && word + 1 < (victim + 1) * words {
                self.prefetch_pages(word + 1);
            }
            let bits = std::mem::take(&mut self.valid[word as usize]);
            if bits != 0 {
                self.name_pages(victim, word * 64, bits);
                self.relocate(word * 64, bits);
            }
        }
        self.counts[victim as usize] = OPEN;
        self.lines[victim as usize].first_unit = NO_UNIT;
        self.lines[victim as usize].holds = Held::Tables;
        self.free.push_back(victim);
        Some(moved)
    }

    /// Asks memory for the places of the pages that a word of validity bits names.
    #[inline]
    fn prefetch_pages(&self, word: u32) {
        let bits = self.valid[word as usize];
        let pages = &self.logical[word as usize * 64..][..64];
        let valid = pages.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        self.physical.prefetch_each(valid.map(|(_, &page)| page as usize));
    }

    /// Puts the validity bits of a line into the table, if it is as the run began.
    #[inline]
    fn lay_bits(&mut self, line: u32) {
        if self.lines[line as usize].holds != Held::Untouched {
            return;
        }
        self.lines[line as usize].holds = Held::Begun;
        let words = self.line_pages as usize / 64;
        let initial = self.initial.as_ref().expect("a line is as the run began");
        initial.lay(line, &mut self.valid[line as usize * words..][..words]);
    }

    /// Puts the host pages at `base` plus each set bit into the table, if their line is as the run began.
    #[inline]
    fn name_pages(&mut self, line: u32, base: u32, bits: u64) {
        if self.lines[line as usize].holds != Held::Begun {
            return;
        }
        let initial = self.initial.as_ref().expect("a line is as the run began");
        let begin = line * self.line_pages;
        let named = &mut self.logical[begin as usize..][..self.line_pages as usize];
        initial.pages_of_word(line, base - begin, bits, |at, page| named[at as usize] = page);
    }

    /// The cheapest line and its valid pages; `None` if no line would give room.
    fn victim(&self) -> Option<(u32, u32)> {
        let fewest = *self.counts.iter().min().expect("a drive has lines");
        if fewest >= self.line_pages {
            return None;
        }
        let lines = self.counts.iter().zip(&self.lines).enumerate();
        let (victim, _) = lines
            .filter(|(_, (count, _))| **count == fewest)
            .max_by_key(|(_, (_, line))| line.changed)
            .expect("it was just found");
        Some((victim as u32, fewest))
    }

    /// Moves the pages at `base` plus each set bit to the frontier of garbage collection. This is
    /// the innermost loop of a drive in steady state: counts and bits are kept per run.
    fn relocate(&mut self, base: u32, mut bits: u64) {
        while bits != 0 {
            let room = self.gc.end - self.gc.page;
            let run = room.min(bits.count_ones());
            let begin = self.gc.page;
            let (logical, physical) = (&mut *self.logical, &mut *self.physical);
            for at in begin..begin + run {
                let page = logical[(base + bits.trailing_zeros()) as usize];
                bits &= bits - 1;
                logical[at as usize] = page;
                physical[page as usize] = at + 1;
            }
            self.set_valid(begin, run);
            self.counts[self.gc.line as usize] += run;
            self.gc.page += run;
            if run == room {
                self.close(self.gc.line);
                self.gc = self.open_line();
            }
        }
    }

    /// Sets the validity bits of `count` pages, at most 64, from `first` on.
    fn set_valid(&mut self, first: u32, count: u32) {
        let ones = u64::MAX >> (64 - count);
        let (word, shift) = ((first >> 6) as usize, first & 63);
        self.valid[word] |= ones << shift;
        if shift + count > 64 {
            self.valid[word + 1] |= ones >> (64 - shift);
        }
    }

    #[inline]
    fn put(&mut self, page: u32, physical: u32, line: u32) {
        self.physical[page as usize] = physical + 1;
        self.logical[physical as usize] = page;
        self.valid[(physical >> 6) as usize] |= 1 << (physical & 63);
        self.counts[line as usize] += 1;
    }

    #[inline]
    fn invalidate(&mut self, physical: u32) {
        let line = self.line_of.quotient(physical);
        self.lay_bits(line);
        self.valid[(physical >> 6) as usize] &= !(1 << (physical & 63));
        let line = line as usize;
        self.counts[line] -= 1;
        self.changes += 1;
        self.lines[line].changed = self.changes;
    }

    fn close_host_line(&mut self) {
        self.close(self.host.line);
        self.open_host_line();
    }

    fn open_host_line(&mut self) {
        self.host = self.open_line();
        let first_unit = self.host_lines_opened * u64::from(self.units_per_line);
        self.lines[self.host.line as usize].first_unit = first_unit;
        self.host_lines_opened += 1;
    }

    fn open_line(&mut self) -> Frontier {
        let line = self.free.pop_front().expect("garbage collection keeps two lines free");
        let page = line * self.line_pages;
        Frontier { line, page, end: page + self.line_pages }
    }

    /// The line is full: it may be reclaimed from now on.
    fn close(&mut self, line: u32) {
        self.counts[line as usize] &= !OPEN;
        self.changes += 1;
        self.lines[line as usize].changed = self.changes;
    }

    /// Checks that both directions of the map, the validity bits and the counts agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut whole = self.clone();
        whole.settle();
        for line in 0..whole.lines.len() as u32 {
            whole.lay_bits(line);
            for word in line * whole.line_pages / 64..(line + 1) * whole.line_pages / 64 {
                whole.name_pages(line, word * 64, whole.valid[word as usize]);
            }
        }
        whole.check_tables();
    }

    #[cfg(test)]
    fn check_tables(&self) {
        let mut valid_pages = 0u64;
        for page in 0..self.host_pages() {
            let Some(physical) = self.find_settled(page) else { continue };
            assert_eq!(self.logical[physical as usize], page);
            assert!(self.valid[(physical >> 6) as usize] >> (physical & 63) & 1 == 1);
            valid_pages += 1;
        }
        let bits: u64 = self.valid.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(bits, valid_pages, "no bit without a page");
        let words = self.line_pages as usize / 64;
        for (index, count) in self.counts.iter().enumerate() {
            let bits = &self.valid[index * words..(index + 1) * words];
            assert_eq!(count & !OPEN, bits.iter().map(|word| word.count_ones()).sum::<u32>());
        }
        let closed = self.counts.iter().filter(|count| *count & OPEN == 0).count();
        assert_eq!(closed + self.free.len() + 2, self.lines.len(), "two frontiers");
    }
}
