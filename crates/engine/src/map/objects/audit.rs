//! What does an audit count of objects and the space that they take?

use super::Objects;
use super::shares::Shares;
use crate::map::Logical;
use crate::map::space::BlockRange;

impl Objects {
    /// Ranges that nobody has, and that can be taken.
    pub(crate) fn free_ranges(&self) -> impl Iterator<Item = BlockRange> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let range = self.space.next(from)?;
            from = range.first + range.count;
            Some(range)
        })
    }

    /// The first block of a range that can be taken.
    pub(crate) fn first_free_of(&self, range: BlockRange) -> Option<Logical> {
        let free = self.space.next(range.first)?;
        (free.first < range.first + range.count).then_some(free.first)
    }

    /// Holders beyond the first over all blocks, and runs of blocks that several have: as counted, and
    /// as these pieces give them.
    pub(crate) fn holders(&self, pieces: &[BlockRange]) -> ((u64, usize), (u64, usize)) {
        let all = BlockRange { first: 0, count: Logical::MAX };
        let found = Shares::count(pieces);
        let of = |shares: &Shares| (shares.extra_blocks(), shares.within(all).count());
        (of(&self.shares), of(&found))
    }
}
