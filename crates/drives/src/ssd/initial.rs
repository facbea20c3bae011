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

use super::flash_map::FlashMap;
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

impl FlashMap {
    /// Fills an erased drive as this state says with valid pages in random order, `keep_free` lines left
    /// free.
    pub(super) fn fill(&mut self, state: SsdState, keep_free: usize, rng: &mut Rng) {
        let percent = state.valid_percent();
        if percent == 0 {
            return;
        }
        let count = self.free.len().saturating_sub(keep_free).max(1);
        let host_pages = self.physical.len() as u64;
        let valid = valid_by_age(count, self.line_pages, host_pages * percent / 100);
        let mut order = Permutation::new(host_pages, rng);
        // Oldest first, so that lines lie in the order in which they were written.
        for pages in valid.into_iter().rev() {
            let line = self.free.pop_front().expect("fewer lines are filled than are free");
            self.fill_line(line, pages, &mut order);
            self.close(line);
        }
        assert!(percent < 100 || order.next().is_none(), "every host page has a place");
    }

    /// Puts the next `pages` host pages of `order` evenly into an erased line.
    fn fill_line(&mut self, line: u32, pages: u32, order: &mut Permutation) {
        let first = line * self.line_pages;
        // As Bresenham draws a line: a page is valid where the running share passes a whole.
        let mut share = 0;
        for physical in first..first + self.line_pages {
            share += pages;
            if share < self.line_pages {
                continue;
            }
            share -= self.line_pages;
            let page = order.next().expect("the lines hold exactly the host pages");
            self.physical[page as usize] = physical + 1;
            self.logical[physical as usize] = page;
            self.valid[(physical >> 6) as usize] |= 1 << (physical & 63);
        }
        self.set_count(line, pages);
    }
}

/// Valid pages of `count` closed lines, youngest first, `host_pages` in all: geometric in the age.
fn valid_by_age(count: usize, line_pages: u32, host_pages: u64) -> Vec<u32> {
    let pages = |ratio: u64| {
        let mut share = SHARE_ONE;
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
struct Permutation {
    bound: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
    next: u64,
}

impl Permutation {
    fn new(bound: u64, rng: &mut Rng) -> Self {
        let bits = 64 - (bound - 1).max(1).leading_zeros();
        Permutation {
            bound,
            mask: (1 << bits) - 1,
            shift: bits.div_ceil(2),
            keys: [rng.bits() | 1, rng.bits() | 1, rng.bits()],
            next: 0,
        }
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

    fn next(&mut self) -> Option<u32> {
        while self.next <= self.mask {
            let mixed = self.mix(self.next);
            self.next += 1;
            if mixed < self.bound {
                return Some(u32::try_from(mixed).expect("host pages are numbered in 32 bits"));
            }
        }
        None
    }
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
    fn permutation_visits_every_number_once() {
        for bound in [1u64, 2, 63, 64, 65, 10_000] {
            let mut order = Permutation::new(bound, &mut Rng::new(3));
            let mut seen: Vec<u32> = std::iter::from_fn(|| order.next()).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..bound as u32), "{bound}");
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
