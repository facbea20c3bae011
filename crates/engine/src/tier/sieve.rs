//! Was this extent read often enough to come?
//!
//! Source: requirements L11 "sieving by read count"; [LORIS §VI]: over 90 % of new files are opened less
//! than five times, and SieveStore (which the paper names) keeps such data out. Counts are kept for the
//! extents that share a place in a small table: the one that was read last has it, so that memory is
//! bounded and a count may be lost, but is never another's.

use super::collect::Extent;

/// Extents that are counted at most, 16 bytes each: 1 MiB (guess).
const PLACES: usize = 65_536;

/// Reads of extents that the SSD does not hold.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    wanted: u8,
    places: Vec<(Extent, u8)>,
}

impl Reads {
    /// Lets extents come at the read of this number; 0 and 1: at the first.
    pub(crate) fn new(wanted: u8) -> Reads {
        let places = if wanted > 1 { PLACES } else { 0 };
        Reads { wanted, places: vec![(Extent(u64::MAX), 0); places] }
    }

    /// It was read from a hard drive. May it come?
    pub(crate) fn may_come(&mut self, extent: Extent) -> bool {
        if self.places.is_empty() {
            return true;
        }
        let at = (extent.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize % self.places.len();
        let place = &mut self.places[at];
        if place.0 != extent {
            *place = (extent, 0);
        }
        place.1 = place.1.saturating_add(1);
        if place.1 < self.wanted {
            return false;
        }
        place.1 = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_read_lets_it_come() {
        let mut reads = Reads::new(3);
        let seen: Vec<bool> = (0..7).map(|_| reads.may_come(Extent(5))).collect();
        assert_eq!(seen, [false, false, true, false, false, true, false]);
        assert!(Reads::new(1).may_come(Extent(5)) && Reads::new(0).may_come(Extent(5)));
    }

    #[test]
    fn another_extent_never_counts_for_it() {
        let mut reads = Reads::new(2);
        for extent in 0..1_000_000 {
            assert!(!reads.may_come(Extent(extent)), "{extent} was read once");
        }
    }
}
