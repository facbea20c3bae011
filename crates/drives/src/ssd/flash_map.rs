//! Where on the flash is each page, and which line is cheapest to reclaim?
//!
//! Source: models §6.1: page map of 4 KiB pages in 32 bits each way, a validity bit per physical
//! page, lines of one block per die, victims from a bucket list by valid count (greedy, O(1)).
//!
//! Memory: 8.1 bytes per page; vectors begin as zeroes, so that an unused drive costs none.

use crate::rate::Divider;
use std::collections::VecDeque;

const NO_LINE: u32 = u32::MAX;
/// `first_unit` of lines that the host frontier did not write.
pub(super) const NO_UNIT: u64 = u64::MAX;

/// One line: a block of every die.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Valid pages.
    pub(super) valid: u32,
    /// Neighbours in the bucket of this valid count, if closed.
    previous: u32,
    next: u32,
    /// Full, and so in a bucket.
    pub(super) closed: bool,
    /// Number of its first unit in the order of host units, or [`NO_UNIT`].
    first_unit: u64,
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
    /// Physical page + 1 of each host page; 0 = not written.
    pub(super) physical: Vec<u32>,
    /// Host page of each physical page; meaningful where the validity bit is set.
    pub(super) logical: Vec<u32>,
    /// One bit per physical page.
    pub(super) valid: Vec<u64>,
    pub(super) lines: Vec<Line>,
    /// First closed line of each valid count.
    buckets: Vec<u32>,
    /// No bucket below this one holds a line.
    lowest: usize,
    pub(super) free: VecDeque<u32>,
    host: Frontier,
    gc: Frontier,
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
        let line =
            Line { valid: 0, previous: NO_LINE, next: NO_LINE, closed: false, first_unit: NO_UNIT };
        let nowhere = Frontier { line: NO_LINE, page: 0, end: 0 };
        let mut map = FlashMap {
            physical: vec![0; host_pages as usize],
            logical: vec![0; physical_pages],
            valid: vec![0; physical_pages / 64],
            lines: vec![line; line_count as usize],
            buckets: vec![NO_LINE; line_pages as usize + 1],
            lowest: 0,
            free: (0..line_count).collect(),
            host: nowhere,
            gc: nowhere,
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

    /// Lines that hold nothing.
    #[inline]
    pub(super) fn free_lines(&self) -> usize {
        self.free.len()
    }

    /// The physical page of `page`, if it was written.
    #[inline]
    pub(super) fn find(&self, page: u32) -> Option<u32> {
        self.physical[page as usize].checked_sub(1)
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

    /// Writes `page` at the host frontier.
    #[inline]
    pub(super) fn write(&mut self, page: u32) {
        if let Some(old) = self.find(page) {
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
            self.physical[page as usize] = 0;
        }
        found.is_some()
    }

    /// Moves the valid pages of the cheapest line and frees it. Returns how many were moved, or
    /// `None` if no line would give room.
    pub(super) fn reclaim(&mut self) -> Option<u32> {
        while *self.buckets.get(self.lowest)? == NO_LINE {
            self.lowest += 1;
        }
        let victim = self.buckets[self.lowest];
        let moved = self.lines[victim as usize].valid;
        if moved == self.line_pages {
            return None;
        }
        self.unlink(victim);
        let words = self.line_pages / 64;
        for word in victim * words..(victim + 1) * words {
            let bits = std::mem::take(&mut self.valid[word as usize]);
            if bits != 0 {
                self.relocate(word * 64, bits);
            }
        }
        let line = &mut self.lines[victim as usize];
        (line.closed, line.valid, line.first_unit) = (false, 0, NO_UNIT);
        self.free.push_back(victim);
        Some(moved)
    }

    /// Moves the pages at `base` plus each set bit to the frontier of garbage collection. This is
    /// the innermost loop of a drive in steady state: counts and bits are kept per run.
    fn relocate(&mut self, base: u32, mut bits: u64) {
        while bits != 0 {
            let room = self.gc.end - self.gc.page;
            let run = room.min(bits.count_ones());
            let begin = self.gc.page;
            for at in begin..begin + run {
                let page = self.logical[(base + bits.trailing_zeros()) as usize];
                bits &= bits - 1;
                self.logical[at as usize] = page;
                self.physical[page as usize] = at + 1;
            }
            self.set_valid(begin, run);
            self.lines[self.gc.line as usize].valid += run;
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
        self.lines[line as usize].valid += 1;
    }

    #[inline]
    fn invalidate(&mut self, physical: u32) {
        self.valid[(physical >> 6) as usize] &= !(1 << (physical & 63));
        let line = self.line_of.quotient(physical);
        if self.lines[line as usize].closed {
            self.unlink(line);
            self.lines[line as usize].valid -= 1;
            self.link(line);
        } else {
            self.lines[line as usize].valid -= 1;
        }
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
    pub(super) fn close(&mut self, line: u32) {
        self.lines[line as usize].closed = true;
        self.link(line);
    }

    #[inline]
    fn unlink(&mut self, line: u32) {
        let Line { valid, previous, next, .. } = self.lines[line as usize];
        if previous == NO_LINE {
            self.buckets[valid as usize] = next;
        } else {
            self.lines[previous as usize].next = next;
        }
        if next != NO_LINE {
            self.lines[next as usize].previous = previous;
        }
    }

    #[inline]
    fn link(&mut self, line: u32) {
        let valid = self.lines[line as usize].valid as usize;
        let head = std::mem::replace(&mut self.buckets[valid], line);
        let entry = &mut self.lines[line as usize];
        (entry.previous, entry.next) = (NO_LINE, head);
        if head != NO_LINE {
            self.lines[head as usize].previous = line;
        }
        self.lowest = self.lowest.min(valid);
    }

    /// Checks that both directions of the map, the validity bits and the counts agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut valid_pages = 0u64;
        for (page, entry) in self.physical.iter().enumerate() {
            let Some(physical) = entry.checked_sub(1) else { continue };
            assert_eq!(self.logical[physical as usize] as usize, page);
            assert!(self.valid[(physical >> 6) as usize] >> (physical & 63) & 1 == 1);
            valid_pages += 1;
        }
        let bits: u64 = self.valid.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(bits, valid_pages, "no bit without a page");
        let words = self.line_pages as usize / 64;
        for (index, line) in self.lines.iter().enumerate() {
            let bits = &self.valid[index * words..(index + 1) * words];
            assert_eq!(line.valid, bits.iter().map(|word| word.count_ones()).sum::<u32>());
        }
        let mut in_buckets = 0;
        for (valid, first) in self.buckets.iter().enumerate() {
            let mut line = *first;
            while line != NO_LINE {
                let entry = &self.lines[line as usize];
                assert!(entry.closed && entry.valid as usize == valid && valid >= self.lowest);
                line = entry.next;
                in_buckets += 1;
            }
        }
        let closed = self.lines.iter().filter(|line| line.closed).count();
        assert_eq!(in_buckets, closed);
        assert_eq!(closed + self.free.len() + 2, self.lines.len(), "two frontiers");
    }
}
