//! Which blocks have an SSD and a hard drive both?
//!
//! Source: P20 of the requirements. A policy that balances is asked for each read that a hard drive could serve as
//! well, and is told what every answer took (`streams.rs`).

use crate::map::entry::{FRAGMENTS, HOME, LOG, SSD};
use crate::map::{Logical, Map};

/// Have an SSD and a hard drive both all of these blocks?
pub(crate) fn is_on_both((first, end): (Logical, Logical), map: &Map) -> bool {
    (first..end).all(|block| {
        let state = map.state(block);
        state & SSD != 0 && state & (HOME | LOG) != 0 && state & FRAGMENTS == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::SlotRegion;
    use tandem_block::DeviceId;

    #[test]
    fn only_what_both_sides_have_whole_is_on_both() {
        let ssd = SlotRegion::new(DeviceId(0), false, 100, 0);
        let mut map = Map::new(vec![ssd], 100, 2);
        for block in [1, 2] {
            map.assume_home(block, 1);
            assert!(map.assume_ssd_copy(block));
        }
        map.assume_home(0, 1);
        let slot = map.allocate_ssd(1).expect("there is room").slot;
        map.assign(3, slot, 0);
        for (range, want) in [
            ((0, 1), false),
            ((1, 2), true),
            ((1, 3), true),
            ((0, 3), false),
            ((2, 4), false),
            ((4, 5), false),
        ] {
            assert_eq!(is_on_both(range, &map), want, "{range:?}");
        }
        let slot = map.allocate_ssd(1).expect("there is room").slot;
        assert!(map.assign_fragment(1, slot, 1, 0));
        assert!(!is_on_both((1, 2), &map), "a part of it is newer on one side");
    }
}
