//! What does an SSD hold when a run begins?
//!
//! Source: design, "Where a replay starts decides its result"; models §6.3 (write amplification).
//!
//! *Steady* is constructed, not simulated. Under uniform random overwriting each page is as likely
//! as any other to be overwritten next, so the valid share of a line decays geometrically with its
//! age, and lines are closed at an even pace: ordered by age, the i-th closed line holds `r^i` of
//! its pages. `r` is the one for which the lines hold exactly the usable pages when only
//! `low_lines` lines are free. The victims that greedy collection meets first are then the ones
//! that it would meet after a long random run, and the first event is due at once. Valid pages lie
//! evenly within a line, and which host page lies where is a pseudo-random permutation.

use crate::rate::Divider;
use std::fmt;
use std::str::FromStr;
use tandem_block::Rng;

/// What an SSD holds at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SsdState {
    /// Nothing; the SLC cache is empty.
    Fresh,
    /// Nothing; the SLC cache is used up.
    SlcFull,
    /// Every usable page is valid, in random order; the SLC cache is used up.
    #[default]
    Steady,
    /// The same of so many percent of the usable pages, 1 to 99, at random places; the others were
    /// trimmed and have all been written once.
    Used(u8),
}

impl SsdState {
    /// How much of the usable pages is valid, in percent.
    fn valid_percent(self) -> u64 {
        match self {
            SsdState::Fresh | SsdState::SlcFull => 0,
            SsdState::Steady => 100,
            SsdState::Used(percent) => u64::from(percent),
        }
    }
}

/// Its name on the command line and in results.
impl fmt::Display for SsdState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SsdState::Fresh => f.write_str("fresh"),
            SsdState::SlcFull => f.write_str("slc-full"),
            SsdState::Steady => f.write_str("steady"),
            SsdState::Used(percent) => write!(f, "used-{percent}"),
        }
    }
}

impl FromStr for SsdState {
    type Err = String;

    fn from_str(text: &str) -> Result<SsdState, String> {
        let text = text.to_ascii_lowercase();
        let used = || {
            let percent = text.strip_prefix("used-")?.parse().ok()?;
            (1..=99).contains(&percent).then_some(SsdState::Used(percent))
        };
        match text.as_str() {
            "fresh" => Ok(SsdState::Fresh),
            "slc-full" => Ok(SsdState::SlcFull),
            "steady" => Ok(SsdState::Steady),
            _ => used().ok_or_else(|| {
                format!(
                    "an SSD begins fresh, slc-full, steady, or used-1 to used-99 (so many percent of \
                     its pages valid), not {text:?}"
                )
            }),
        }
    }
}

/// One in the fixed point of shares.
const SHARE_ONE: u64 = 1 << 62;

/// What an SSD held when the run began, as a formula: a page costs nothing before it is written, read or moved.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    order: Permutation,
    /// The first line that was filled; the others follow.
    first_line: u32,
    line_pages: u32,
    line_of: Divider,
    /// Pages of all lines before each one, in the order in which they were filled, and of all at the end.
    pages_before: Vec<u32>,
}

impl Initial {
    /// Fills the lines from `first_line` on as this state says, `count` of them. `None`: it holds nothing.
    pub(super) fn new(
        state: SsdState,
        (first_line, count): (u32, usize),
        line_pages: u32,
        host_pages: u32,
        rng: &mut Rng,
    ) -> Option<Initial> {
        let percent = state.valid_percent();
        if percent == 0 {
            return None;
        }
        let valid = valid_by_age(count, line_pages, u64::from(host_pages) * percent / 100);
        let mut pages_before = vec![0];
        // Oldest first, so that lines lie in the order in which they were written.
        for pages in valid.into_iter().rev() {
            pages_before.push(pages_before[pages_before.len() - 1] + pages);
        }
        let order = Permutation::new(u64::from(host_pages), rng);
        assert!(line_pages < 1 << 25, "the share of a word's pages is counted in 32 bits");
        let line_of = Divider::new(line_pages);
        Some(Initial { order, first_line, line_pages, line_of, pages_before })
    }

    /// The lines that it filled.
    pub(super) fn lines(&self) -> std::ops::Range<u32> {
        self.first_line..self.first_line + self.pages_before.len() as u32 - 1
    }

    /// How many pages it put into one of its lines.
    pub(super) fn pages(&self, line: u32) -> u32 {
        let at = (line - self.first_line) as usize;
        self.pages_before[at + 1] - self.pages_before[at]
    }

    /// Where it put a host page; `None` if it holds none.
    pub(super) fn find(&self, page: u32) -> Option<u32> {
        let index = self.order.index(page);
        let at = self.pages_before.partition_point(|&before| before <= index);
        if at == self.pages_before.len() {
            return None;
        }
        let line = self.first_line + at as u32 - 1;
        let rank = u64::from(index - self.pages_before[at - 1]);
        // pages lie evenly: the one of this rank lies where the running share passes a whole
        let passes = (rank + 1) * u64::from(self.line_pages);
        let in_line = passes.div_ceil(u64::from(self.pages(line))) - 1;
        Some(line * self.line_pages + in_line as u32)
    }

    /// Calls `put` with each of 64 physical pages from `first` on in one of its lines that `bits` names, and the
    /// host page that it put there. It has filled all of them.
    #[inline]
    pub(super) fn pages_of_word(
        &self,
        line: u32,
        first: u32,
        mut bits: u64,
        mut put: impl FnMut(u32, u32),
    ) {
        let pages = self.pages(line);
        let (line_pages, share) = (u64::from(self.line_pages), u64::from(first) * u64::from(pages));
        let before = self.pages_before[(line - self.first_line) as usize];
        // pages lie evenly: their rank is the running share, of which a word needs one true division
        let rank = before + (share / line_pages) as u32;
        let rest = (share % line_pages) as u32;
        while bits != 0 {
            let at = bits.trailing_zeros();
            put(first + at, self.order.page(rank + self.line_of.quotient(rest + at * pages)));
            bits &= bits - 1;
        }
    }

    /// Validity bits of one of its lines, as it was filled.
    pub(super) fn lay(&self, line: u32, words: &mut [u64]) {
        let pages = self.pages(line);
        if pages == self.line_pages {
            return words.fill(u64::MAX);
        }
        // As Bresenham draws a line: a page is valid where the running share passes a whole.
        let mut share = 0;
        for word in words {
            *word = 0;
            for bit in 0..64 {
                share += pages;
                if share >= self.line_pages {
                    share -= self.line_pages;
                    *word |= 1 << bit;
                }
            }
        }
    }
}

/// Valid pages of `count` closed lines, youngest first, `host_pages` in all: geometric in the age.
///
/// The youngest line is full, unless all pages together do not fill it.
fn valid_by_age(count: usize, line_pages: u32, host_pages: u64) -> Vec<u32> {
    let youngest = host_pages.min(u64::from(line_pages));
    let first_share =
        (u128::from(SHARE_ONE) * u128::from(youngest) / u128::from(line_pages)) as u64;
    let pages = |ratio: u64| {
        let mut share = first_share;
        (0..count).map(move |_| {
            let valid = (u128::from(share) * u128::from(line_pages)) >> 62;
            share = ((u128::from(share) * u128::from(ratio)) >> 62) as u64;
            valid as u64
        })
    };
    // The sum rises with the ratio: bisect to the largest that does not hold too many.
    let (mut low, mut high) = (0, SHARE_ONE);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if pages(middle).sum::<u64>() <= host_pages { low = middle } else { high = middle }
    }
    let mut valid: Vec<u64> = pages(low).collect();
    // Rounding leaves a few pages over; the oldest lines have room for them.
    let mut left = host_pages - valid.iter().sum::<u64>();
    for line in valid.iter_mut().rev() {
        let more = left.min(u64::from(line_pages) - *line).min(1 + left / count as u64);
        *line += more;
        left -= more;
    }
    assert!(left == 0, "the lines have room for every host page");
    valid.into_iter().map(|line| line as u32).collect()
}

/// The numbers below a bound, each once, in an order that looks random and needs no memory.
#[derive(Clone, Debug)]
struct Permutation {
    bound: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
    /// What undoes the multiplications with the first two keys.
    undo: [u64; 2],
}

impl Permutation {
    fn new(bound: u64, rng: &mut Rng) -> Self {
        let bits = 64 - (bound - 1).max(1).leading_zeros();
        let keys = [rng.bits() | 1, rng.bits() | 1, rng.bits()];
        let undo = [inverse(keys[0]), inverse(keys[1])];
        Permutation { bound, mask: (1 << bits) - 1, shift: bits.div_ceil(2), keys, undo }
    }

    /// A bijection on the numbers up to `mask`: odd multiplications and xor-shifts are invertible.
    fn mix(&self, number: u64) -> u64 {
        let mut x = (number ^ self.keys[2]) & self.mask;
        x = x.wrapping_mul(self.keys[0]) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(self.keys[1]) & self.mask;
        x ^= x >> self.shift;
        x.wrapping_mul(self.keys[0]) & self.mask
    }

    /// Undoes `mix`. A shift by half of the bits or more undoes itself.
    fn unmix(&self, mixed: u64) -> u64 {
        let mut x = mixed.wrapping_mul(self.undo[0]) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(self.undo[1]) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(self.undo[0]) & self.mask;
        (x ^ self.keys[2]) & self.mask
    }

    /// The number at an index below the bound. What lies outside is mixed again: fewer than half do.
    fn page(&self, index: u32) -> u32 {
        let mut x = self.mix(u64::from(index));
        while x >= self.bound {
            x = self.mix(x);
        }
        x as u32
    }

    /// The index of a number below the bound.
    fn index(&self, page: u32) -> u32 {
        let mut x = self.unmix(u64::from(page));
        while x >= self.bound {
            x = self.unmix(x);
        }
        x as u32
    }
}

/// The number that undoes a multiplication by an odd one, modulo 2^64: each step doubles the bits that are right.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_is_written() {
        let used = (1..=99).map(SsdState::Used);
        for state in [SsdState::Fresh, SsdState::SlcFull, SsdState::Steady].into_iter().chain(used)
        {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        for wrong in ["", "used", "used-0", "used-100", "used-x", "used-300", "full"] {
            let said = wrong.parse::<SsdState>().unwrap_err();
            assert!(said.contains("used-1 to used-99") && said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn permutation_visits_every_number_once_and_back() {
        for bound in [1u32, 2, 63, 64, 65, 10_000] {
            let order = Permutation::new(u64::from(bound), &mut Rng::new(3));
            let mut seen: Vec<u32> = (0..bound).map(|index| order.page(index)).collect();
            assert!(seen.iter().enumerate().all(|(at, &page)| order.index(page) == at as u32));
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..bound), "{bound}");
        }
    }

    #[test]
    fn a_page_is_found_where_its_line_holds_it() {
        for (state, held) in [(SsdState::Steady, 10_000), (SsdState::Used(40), 4_000)] {
            let rng = &mut Rng::new(5);
            let initial = Initial::new(state, (2, 30), 384, 10_000, rng).expect("it holds pages");
            let found = (0..10_000).filter_map(|page| initial.find(page).map(|at| (page, at)));
            let found: Vec<(u32, u32)> = found.collect();
            assert_eq!(found.len(), held);
            let mut valid = vec![0; 32 * 6];
            for line in initial.lines() {
                initial.lay(line, &mut valid[line as usize * 6..][..6]);
            }
            for (page, physical) in found {
                let (line, in_line) = (physical / 384, physical % 384);
                let (word, bit) = (in_line & !63, 1 << (in_line & 63));
                let mut named = None;
                initial.pages_of_word(line, word, bit, |at, page| named = Some((at, page)));
                assert_eq!(named, Some((in_line, page)));
                let word = &mut valid[(physical / 64) as usize];
                assert!(*word >> (physical % 64) & 1 == 1, "each in a place of its own");
                *word &= !(1 << (physical % 64));
            }
            assert!(valid.into_iter().all(|word| word == 0), "no bit without a page");
        }
    }

    /// Seen: a drive of which one percent does not fill a line took more pages from a sum than it held.
    #[test]
    fn every_share_of_every_size_is_held() {
        for (count, line_pages) in [(1usize, 64u32), (3, 384), (30, 384), (7, 5)] {
            let host_pages = count as u32 * line_pages * 9 / 10;
            for percent in 1..=99 {
                let rng = &mut Rng::new(5);
                let state = SsdState::Used(percent);
                let held = u64::from(host_pages) * u64::from(percent) / 100;
                let valid = valid_by_age(count, line_pages, held);
                assert_eq!(valid.iter().map(|&line| u64::from(line)).sum::<u64>(), held);
                assert!(valid.iter().all(|&line| line <= line_pages));
                let initial = Initial::new(state, (2, count), line_pages, host_pages, rng);
                let initial = initial.expect("it has a state");
                let mut places: Vec<u32> =
                    (0..host_pages).filter_map(|page| initial.find(page)).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len() as u64, held, "{count} lines, {percent} percent");
            }
        }
    }

    #[test]
    fn valid_pages_decay_with_age_and_sum_up() {
        let valid = valid_by_age(100, 1280, 100_000);
        assert_eq!(valid.iter().map(|line| u64::from(*line)).sum::<u64>(), 100_000);
        assert_eq!(valid[0], 1280);
        assert!(valid.windows(2).all(|pair| pair[0] + 2 >= pair[1]));
        assert!((760..768).contains(&valid[99]));
    }
}
