//! How large is the next request, so that many are small and the mean is still the paper's?
//!
//! ```text
//! share │█ body: 512 B .. 10 KiB, a fixed shape
//!       │█ █ ▄
//!       │█ █ █ ▂ ▄ ▁          short tail        long tail
//!       │█ █ █ █ █ █ ▁      ▃  ▃  ▃  ▃      ▁  ▁  ▁  ▁  ▁  ▁
//!       └ 0.5 1 2 4 6 10 KiB ─ 12 .. 32 KiB ─ 48 KiB .. 1 MiB
//! ```
//! Source: [BCW §2.3]: more than 75 % of the writes are 10 KiB or less, some are 1 MiB. The shapes of
//! body and tails are guesses. What is solved for is the mean: first the part of the long tail with
//! a body of exactly 75 %; where the mean is too small for that, the long tail is held at 1 % of the
//! tail and the body grows above 75 %. Means that are smaller than the body's have a smaller body.

use std::ops::RangeInclusive;
use tandem_block::{KIB, Rng};

/// Guess. Mean 1,994 bytes, small enough for the small means of nodes C and D.
const BODY: &[(u64, u64)] = &[
    (512, 35),
    (1024, 18),
    (1536, 5),
    (2048, 15),
    (3072, 4),
    (4096, 18),
    (6144, 2),
    (8192, 2),
    (10_240, 1),
];
/// Guess, for means below that of `BODY`: most of these requests are of one sector. Mean 760 bytes,
/// small enough for the bursts of nodes C and D.
const SMALL_BODY: &[(u64, u64)] =
    &[(512, 78), (1024, 13), (1536, 3), (2048, 3), (3072, 1), (4096, 2)];
/// Guess.
const SHORT_TAIL: &[(u64, u64)] = &[(12 * KIB, 1), (16 * KIB, 1), (24 * KIB, 1), (32 * KIB, 1)];
/// Guess: about as many in each octave. The last two are beyond 1 MiB, as the greatest group of
/// [BCW Fig. 9]; they are left out unless asked for.
const LONG_TAIL: [(u64, u64); 12] = [
    (48 * KIB, 1),
    (64 * KIB, 1),
    (96 * KIB, 1),
    (128 * KIB, 1),
    (192 * KIB, 1),
    (256 * KIB, 1),
    (384 * KIB, 1),
    (512 * KIB, 1),
    (768 * KIB, 1),
    (1024 * KIB, 1),
    (1536 * KIB, 1),
    (2048 * KIB, 1),
];
/// Those up to 1 MiB.
const UPTO_1_MIB: usize = 10;

/// Shares are kept in these parts.
const WHOLE: u64 = 1 << 32;
/// [BCW §2.3]: "more than 75 %".
const BODY_SHARE: u64 = WHOLE / 4 * 3;
/// Guess: the least part of the tail that is long, so that "some 1 MiB" writes are there.
const LONG_PART_LEAST: u64 = WHOLE / 100;

/// A distribution of sizes in multiples of 512 bytes, drawn so that every 1,024 requests hold nearly
/// its mean: a short run has the mean of a long one.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Upper end of each size's part of 2^64, and the size.
    parts: Vec<(u64, u64)>,
    deck: Deck,
}

impl Sizes {
    /// The sizes whose mean is this, or the nearest to it of `means_bytes`. `is_larger` lets the tail
    /// reach to 2 MiB instead of 1 MiB.
    pub(super) fn with_mean(mean_bytes: u64, is_larger: bool, rng: Rng) -> Sizes {
        let long_tail = long_tail(is_larger);
        let mean = u128::from(mean_bytes) << 16;
        let body_shape = if mean < mean_q16(BODY) { SMALL_BODY } else { BODY };
        let (body, short, long) = (mean_q16(body_shape), mean_q16(SHORT_TAIL), mean_q16(long_tail));
        // with a body of 75 %: mean = 3/4 body + 1/4 tail, tail = short + part (long - short)
        let tail = (mean * 4).saturating_sub(body * 3);
        let long_part = share(tail.saturating_sub(short), long - short);
        let (tail_share, long_part) = if long_part >= LONG_PART_LEAST {
            (WHOLE - BODY_SHARE, long_part)
        } else {
            let tail = short + (long - short) * u128::from(LONG_PART_LEAST) / u128::from(WHOLE);
            (share(mean.saturating_sub(body), tail - body), LONG_PART_LEAST)
        };
        let long_share = product(tail_share, long_part);
        let mut upto = 0u128;
        let mut parts = Vec::new();
        for (shape, share) in [
            (body_shape, WHOLE - tail_share),
            (SHORT_TAIL, tail_share - long_share),
            (long_tail, long_share),
        ] {
            let total: u64 = shape.iter().map(|&(_, weight)| weight).sum();
            for &(size, weight) in shape {
                upto += u128::from(weight) * (u128::from(share) << 32) / u128::from(total);
                parts.push((u64::try_from(upto).unwrap_or(u64::MAX), size));
            }
        }
        parts.last_mut().expect("three shapes").0 = u64::MAX;
        Sizes { parts, deck: Deck::new(rng) }
    }

    /// Every mean that the shapes allow.
    pub(super) fn means_bytes(is_larger: bool) -> RangeInclusive<u64> {
        let most = (mean_q16(BODY) * 3 + mean_q16(long_tail(is_larger))) / 4;
        let whole = |mean: u128| u64::try_from(mean >> 16).expect("a size fits");
        whole(mean_q16(SMALL_BODY)) + 1..=whole(most)
    }

    /// The next size.
    pub(super) fn draw(&mut self) -> u64 {
        let point = self.deck.draw();
        let index = self.parts.partition_point(|&(upto, _)| upto <= point);
        self.parts[index.min(self.parts.len() - 1)].1
    }
}

/// Uniform 64-bit draws without replacement: each 1,024 of them fall into 1,024 different parts of
/// the range, in random order.
#[derive(Clone, Debug)]
pub(super) struct Deck {
    rng: Rng,
    order: Vec<u16>,
    next: usize,
}

impl Deck {
    const CARDS: u16 = 1024;

    pub(super) fn new(rng: Rng) -> Deck {
        Deck { rng, order: (0..Self::CARDS).collect(), next: Self::CARDS.into() }
    }

    pub(super) fn draw(&mut self) -> u64 {
        if self.next == self.order.len() {
            shuffle(&mut self.order, &mut self.rng);
            self.next = 0;
        }
        let card = u64::from(self.order[self.next]);
        self.next += 1;
        (card << 54) | self.rng.below(1 << 54)
    }
}

/// Fisher and Yates.
pub(super) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

fn long_tail(is_larger: bool) -> &'static [(u64, u64)] {
    if is_larger { &LONG_TAIL } else { &LONG_TAIL[..UPTO_1_MIB] }
}

fn mean_q16(shape: &[(u64, u64)]) -> u128 {
    let total: u64 = shape.iter().map(|&(_, weight)| weight).sum();
    let sum: u64 = shape.iter().map(|&(size, weight)| size * weight).sum();
    (u128::from(sum) << 16) / u128::from(total)
}

/// `part / whole`, at most one, in `WHOLE`ths.
fn share(part: u128, whole: u128) -> u64 {
    u64::try_from(part * u128::from(WHOLE) / whole).map_or(WHOLE, |share| share.min(WHOLE))
}

fn product(left: u64, right: u64) -> u64 {
    u64::try_from(u128::from(left) * u128::from(right) / u128::from(WHOLE)).expect("at most one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_kept_and_three_quarters_are_small() {
        let means = [2521, 2634, 8889, 17_404, 32_045, 80_000];
        for (mean_bytes, is_larger) in
            means.into_iter().flat_map(|mean| [(mean, false), (mean, true)])
        {
            let mut sizes = Sizes::with_mean(mean_bytes, is_larger, Rng::new(5));
            // 2 MiB are so rare that more must be drawn
            let shift = if is_larger { 20 } else { 16 };
            let drawn: Vec<u64> = (0..1 << shift).map(|_| sizes.draw()).collect();
            let mean = drawn.iter().sum::<u64>() >> shift;
            assert!(mean.abs_diff(mean_bytes) * 200 <= mean_bytes, "{mean} for {mean_bytes}");
            let small = drawn.iter().filter(|&&size| size <= 10 * KIB).count();
            assert!(small * 1000 >= drawn.len() * 749, "{small} for {mean_bytes}");
            assert!(drawn.iter().all(|size| size % 512 == 0));
            assert_eq!(drawn.iter().max(), Some(&(if is_larger { 2048 } else { 1024 } * KIB)));
        }
    }

    #[test]
    fn small_means_have_small_bodies_and_large_requests_still() {
        for (mean_bytes, is_larger) in [(943, false), (1068, false), (1068, true), (1900, false)] {
            let mut sizes = Sizes::with_mean(mean_bytes, is_larger, Rng::new(5));
            let drawn: Vec<u64> = (0..1 << 20).map(|_| sizes.draw()).collect();
            let mean = drawn.iter().sum::<u64>() >> 20;
            assert!(mean.abs_diff(mean_bytes) * 100 <= mean_bytes, "{mean} for {mean_bytes}");
            let small = drawn.iter().filter(|&&size| size <= 4 * KIB).count();
            assert!(small * 100 >= drawn.len() * 93, "{small} for {mean_bytes}");
            assert!(drawn.iter().all(|size| size % 512 == 0));
            assert!(drawn.iter().any(|&size| size > 32 * KIB), "the long tail is there");
        }
    }

    #[test]
    fn every_mean_that_is_promised_is_kept() {
        for is_larger in [false, true] {
            let means = Sizes::means_bytes(is_larger);
            for mean_bytes in [*means.start(), 1_993, 1_994, 1_995, 60_000, *means.end()] {
                let mut sizes = Sizes::with_mean(mean_bytes, is_larger, Rng::new(5));
                let mean = (0..1 << 18).map(|_| sizes.draw()).sum::<u64>() >> 18;
                assert!(mean.abs_diff(mean_bytes) * 100 <= mean_bytes, "{mean} for {mean_bytes}");
            }
        }
    }

    #[test]
    fn a_deck_deals_every_part_once() {
        let mut deck = Deck::new(Rng::new(1));
        for _ in 0..3 {
            let mut cards: Vec<u64> = (0..1024).map(|_| deck.draw() >> 54).collect();
            let dealt = cards.clone();
            cards.sort_unstable();
            assert!(cards.iter().enumerate().all(|(i, &card)| i as u64 == card));
            assert_ne!(cards, dealt);
        }
    }
}
