//! Where do the popular blocks lie? All over the footprint, not at its front.

use tandem_block::{Rng, Zipf};

/// Zipf-distributed slots of a footprint; the ranks are scattered over it by a multiplication
/// modulo the number of slots, which is a permutation since the factor has no divisor in common.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    zipf: Zipf,
    slots: u64,
    factor: u64,
    shift: u64,
}

impl Scatter {
    /// Over so many slots, with theta in millionths.
    pub(super) fn new(slots: u64, theta_ppm: u64, rng: &mut Rng) -> Scatter {
        // near the golden section, so that neighbouring ranks lie far apart
        let golden = u64::try_from(u128::from(slots) * 618_033_989 / 1_000_000_000)
            .expect("less than the slots");
        let factor = (golden.max(1)..).find(|&factor| gcd(factor, slots) == 1);
        Scatter {
            zipf: Zipf::new(slots, theta_ppm),
            slots,
            factor: factor.expect("slots + 1 has no divisor in common with slots"),
            shift: rng.below(slots),
        }
    }

    /// The next slot.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = self.zipf.draw(rng);
        let moved = u128::from(rank) * u128::from(self.factor) + u128::from(self.shift);
        u64::try_from(moved % u128::from(self.slots)).expect("less than the slots")
    }
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_a_slot_of_its_own() {
        for slots in [1, 2, 12, 1000, 4096] {
            let scatter = Scatter::new(slots, 0, &mut Rng::new(1));
            let mut taken = vec![false; slots as usize];
            for rank in 0..slots {
                let slot = (rank * scatter.factor + scatter.shift) % slots;
                assert!(!std::mem::replace(&mut taken[slot as usize], true));
            }
        }
    }
}
