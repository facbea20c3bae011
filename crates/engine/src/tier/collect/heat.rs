//! How hot is an extent, if what it earned is worth half as much with every epoch that passes?
//!
//! Source: [LORIS §III] has a counter of 32 bits that never ages; without epochs this is that counter,
//! and it stops at its largest value instead of beginning anew. With them it is halved at each, rounded
//! down when it is next added to.
//!
//! It is kept as a number whose order never changes while nothing is added: the count times two to the
//! power of the epoch it was counted in. So millions of them age without being touched.

/// Epochs that can be told apart: 34 years of one second each.
const EPOCH_MAX: u32 = 1 << 30;

/// Above: the epoch plus how many bits the count has; below: the count, moved to the top of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Heat(u64);

impl Heat {
    /// Never used.
    pub(crate) const ZERO: Heat = Heat(0);
    /// Bits of its number that are always zero.
    pub(crate) const SPARE_BITS: u32 = 1;

    /// From a number that was [`Heat::number`]'s.
    #[inline]
    pub(crate) fn from_number(number: u64) -> Self {
        Heat(number)
    }

    /// A number of the same order.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// What it is worth in this epoch, rounded down. Epochs do not go back.
    #[inline]
    pub(crate) fn value(self, epoch: u32) -> u32 {
        let bits = (self.0 >> 32).saturating_sub(u64::from(epoch.min(EPOCH_MAX)));
        let count = u64::from(self.0 as u32);
        if bits > 32 { u32::MAX } else { ((count << bits) >> 32) as u32 }
    }

    /// With this much more, earned in this epoch.
    #[inline]
    pub(crate) fn plus(self, more: u32, epoch: u32) -> Heat {
        self.plus_worth(more, epoch).0
    }

    /// The same, and what it is worth then.
    #[inline]
    pub(crate) fn plus_worth(self, more: u32, epoch: u32) -> (Heat, u32) {
        let value = self.value(epoch).saturating_add(more);
        let free = value.leading_zeros();
        if value == 0 {
            return (Heat::ZERO, 0);
        }
        let bits = u64::from(epoch.min(EPOCH_MAX) + 32 - free);
        (Heat(bits << 32 | u64::from(value << free)), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_epochs_it_is_a_counter_that_stops() {
        let mut heat = Heat::ZERO;
        for upto in 1..=1000u32 {
            let more = heat.plus(1, 0);
            assert!(more > heat);
            heat = more;
            assert_eq!(heat.value(0), upto);
            assert_eq!(heat.plus_worth(3, 0).1, upto + 3);
        }
        let full = heat.plus(u32::MAX, 0);
        assert_eq!(full.value(0), u32::MAX);
        assert_eq!(full.plus(64, 0), full);
    }

    #[test]
    fn b8_it_is_halved_every_epoch() {
        let heat = Heat::ZERO.plus(100, 3);
        let values: Vec<u32> = (3..12).map(|epoch| heat.value(epoch)).collect();
        assert_eq!(values, [100, 50, 25, 12, 6, 3, 1, 0, 0]);
        // 25 left of it and 1 more, against 100 of long ago and 27 of now
        let later = heat.plus(1, 5);
        assert_eq!(later.value(5), 26);
        assert!(later > heat && later < Heat::ZERO.plus(27, 5));
        assert_eq!(Heat::ZERO.plus(25, 5), heat, "the same worth is the same heat");
    }

    #[test]
    fn the_last_epoch_has_room_above_it() {
        let heat = Heat::ZERO.plus(u32::MAX, u32::MAX);
        assert_eq!(heat.value(u32::MAX), u32::MAX);
        assert!(heat.number() >> (64 - Heat::SPARE_BITS) == 0);
    }
}
