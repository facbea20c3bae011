//! Which logical blocks belong to several objects?
//!
//! Source: requirements L3, L4 (snapshots and clones of files and volumes). Runs of blocks with the number
//! of their *holders*: the pieces of objects that lie over them. Blocks with one holder, or none, are not
//! noted, so a pool without clones keeps nothing here. It is never written to the drives: a start counts
//! the pieces that the table of objects names, and so nothing can disagree with them.

use crate::map::Logical;
use crate::map::space::BlockRange;
use std::collections::BTreeMap;

/// Blocks with two holders or more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// First block to count and holders, never touching each other with the same number of holders.
    runs: BTreeMap<Logical, (u64, u32)>,
    /// Holders beyond the first, over all blocks.
    extra: u64,
}

impl Shares {
    /// Is nothing shared?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Blocks counted once for each holder but one.
    pub(crate) fn extra_blocks(&self) -> u64 {
        self.extra
    }

    /// Parts of a range that are shared, in order.
    pub(crate) fn within(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let end = range.first + range.count;
        let begin = self.runs.range(..=range.first).next_back().map_or(range.first, |(&at, _)| at);
        self.runs.range(begin..end).filter_map(move |(&first, &(count, _))| {
            let (low, high) = (first.max(range.first), (first + count).min(end));
            (low < high).then(|| BlockRange { first: low, count: high - low })
        })
    }

    /// Does any block of it have several holders?
    pub(crate) fn has_any(&self, range: BlockRange) -> bool {
        !self.is_empty() && self.within(range).next().is_some()
    }

    /// Blocks of a range that have several holders.
    pub(crate) fn blocks_within(&self, range: BlockRange) -> u64 {
        self.within(range).map(|part| part.count).sum()
    }

    /// These blocks, which somebody holds, have one holder more.
    pub(crate) fn join(&mut self, range: BlockRange) {
        for (part, holders) in self.take(range) {
            self.put(part, holders + 1);
        }
        assert!(range.count > 0, "some blocks are shared");
        self.extra += range.count;
        self.merge(range);
    }

    /// One holder of these blocks has left them. Returns those that nobody holds any more.
    pub(crate) fn leave(&mut self, range: BlockRange) -> Vec<BlockRange> {
        if self.is_empty() {
            return vec![range];
        }
        let mut left = Vec::new();
        for (part, holders) in self.take(range) {
            if holders == 1 {
                left.push(part);
                continue;
            }
            assert!(self.extra >= part.count, "each holder beyond the first is counted");
            self.extra -= part.count;
            self.put(part, holders - 1);
        }
        self.merge(range);
        assert!(
            !self.runs.is_empty() || self.extra == 0,
            "where nothing is shared none is counted"
        );
        left
    }

    /// Takes what is noted of a range away: all of it, in parts of so many holders each.
    fn take(&mut self, range: BlockRange) -> Vec<(BlockRange, u32)> {
        let end = range.first + range.count;
        let mut parts = Vec::new();
        let mut at = range.first;
        for part in self.within(range).collect::<Vec<_>>() {
            if part.first > at {
                parts.push((BlockRange { first: at, count: part.first - at }, 1));
            }
            let (&first, &(count, holders)) =
                self.runs.range(..=part.first).next_back().expect("it was found");
            self.runs.remove(&first);
            let (part_end, run_end) = (part.first + part.count, first + count);
            if first < part.first {
                self.runs.insert(first, (part.first - first, holders));
            }
            if part_end < run_end {
                self.runs.insert(part_end, (run_end - part_end, holders));
            }
            parts.push((part, holders));
            at = part_end;
        }
        if at < end {
            parts.push((BlockRange { first: at, count: end - at }, 1));
        }
        parts
    }

    fn put(&mut self, range: BlockRange, holders: u32) {
        if holders > 1 {
            let before = self.runs.insert(range.first, (range.count, holders));
            assert!(before.is_none(), "what was noted of a range was taken away first");
        }
    }

    /// Runs that touch, in this range or at its ends, with the same number of holders become one.
    fn merge(&mut self, range: BlockRange) {
        let end = range.first + range.count;
        let begin = self.runs.range(..range.first).next_back().map_or(range.first, |(&at, _)| at);
        let touched: Vec<Logical> = self.runs.range(begin..=end).map(|(&at, _)| at).collect();
        for pair in touched.windows(2).rev() {
            let (count, holders) = self.runs[&pair[0]];
            let (more, others) = self.runs[&pair[1]];
            if pair[0] + count == pair[1] && holders == others {
                self.runs.remove(&pair[1]);
                self.runs.insert(pair[0], (count + more, holders));
            }
        }
    }

    /// Counts the holders of all blocks anew, from pieces in the order of their first blocks.
    pub(crate) fn count(pieces: &[BlockRange]) -> Shares {
        let mut changes: BTreeMap<Logical, i64> = BTreeMap::new();
        for piece in pieces {
            *changes.entry(piece.first).or_default() += 1;
            *changes.entry(piece.first + piece.count).or_default() -= 1;
        }
        let (mut shares, mut holders, mut from) = (Shares::default(), 0i64, 0);
        for (at, change) in changes {
            if holders > 1 && at > from {
                shares.runs.insert(from, (at - from, holders as u32));
                shares.extra += (at - from) * (holders as u64 - 1);
            }
            (holders, from) = (holders + change, at);
        }
        let all = BlockRange { first: 0, count: Logical::MAX };
        shares.merge(all);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    #[test]
    fn the_last_holder_leaves_them_free() {
        let mut shares = Shares::default();
        assert_eq!(shares.leave(range(5, 5)), [range(5, 5)], "nothing was shared");
        shares.join(range(0, 100));
        shares.join(range(40, 20));
        assert_eq!(shares.extra_blocks(), 120);
        assert_eq!(shares.leave(range(30, 20)), []);
        assert_eq!(shares.leave(range(30, 20)), [range(30, 10)]);
        assert!(!shares.has_any(range(30, 20)) && shares.has_any(range(29, 1)));
        assert_eq!(
            shares.within(range(20, 60)).collect::<Vec<_>>(),
            [range(20, 10), range(50, 10), range(60, 20)]
        );
    }

    /// Against a number for each block.
    #[test]
    fn as_plain_numbers_would() {
        let mut rng = Rng::new(3);
        let (mut shares, mut plain) = (Shares::default(), [1u32; 64]);
        for _ in 0..20_000 {
            let first = rng.below(63);
            let part = range(first, rng.between(1, 64 - first));
            let blocks = part.first as usize..(part.first + part.count) as usize;
            if rng.chance_ppm(500_000) {
                if plain[blocks.clone()].iter().all(|&holders| holders < 5) {
                    plain[blocks].iter_mut().for_each(|holders| *holders += 1);
                    shares.join(part);
                }
            } else {
                let mut left = [false; 64];
                for gone in shares.leave(part) {
                    (gone.first..gone.first + gone.count).for_each(|b| left[b as usize] = true);
                }
                for block in blocks {
                    assert_eq!(left[block], plain[block] == 1, "block {block}");
                    // held by somebody else at once
                    plain[block] = if left[block] { 1 } else { plain[block] - 1 };
                }
            }
            let extra: u32 = plain.iter().map(|holders| holders - 1).sum();
            assert_eq!(shares.extra_blocks(), u64::from(extra));
            let (mut at, mut runs) = (0, 0);
            while at < 64 {
                let end = (at..64).find(|&b| plain[b] != plain[at]).unwrap_or(64);
                runs += usize::from(plain[at] > 1);
                let noted = shares.has_any(range(at as u64, (end - at) as u64));
                assert_eq!(noted, plain[at] > 1);
                at = end;
            }
            assert_eq!(shares.runs.len(), runs, "runs that touch are one");
        }
        let mut pieces: Vec<BlockRange> = Vec::new();
        for (block, &holders) in (0..).zip(&plain) {
            pieces.extend((0..holders).map(|_| range(block, 1)));
        }
        let counted = Shares::count(&pieces);
        assert_eq!((counted.runs, counted.extra), (shares.runs, shares.extra));
    }
}
