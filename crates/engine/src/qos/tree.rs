//! Which of many keys is the smallest? A winner tree: any key changes in the logarithm of their
//! number, the smallest is read at once.
//!
//! A heap would do for streams that come and go in order; streams change keys in the middle, by
//! limits and by writes that must wait for space.

/// Nobody has this key.
pub(crate) const ABSENT: u64 = u64::MAX;

/// Keys by index; equal keys: the lower index wins.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Leaves from `size` on; node `n` has its children at `2n` and `2n + 1`.
    nodes: Vec<u64>,
    size: usize,
}

impl Tree {
    /// So many keys, all absent.
    pub(crate) fn new(count: usize) -> Tree {
        let size = count.next_power_of_two().max(2);
        Tree { nodes: vec![ABSENT; 2 * size], size }
    }

    /// Changes a key.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, key: u64) {
        let mut at = self.size + index;
        if self.nodes[at] == key {
            return;
        }
        self.nodes[at] = key;
        while at > 1 {
            at /= 2;
            let smaller = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
            if self.nodes[at] == smaller {
                return;
            }
            self.nodes[at] = smaller;
        }
    }

    /// The key of an index.
    #[cfg(test)]
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.nodes[self.size + index]
    }

    /// The smallest key.
    #[inline]
    pub(crate) fn least(&self) -> Option<u64> {
        (self.nodes[1] != ABSENT).then_some(self.nodes[1])
    }

    /// Who has the smallest key.
    #[inline]
    pub(crate) fn winner(&self) -> Option<usize> {
        let key = self.least()?;
        let mut at = 1;
        while at < self.size {
            at *= 2;
            at += usize::from(self.nodes[at] != key);
        }
        assert!(self.nodes[at] == key, "the smallest key is somebody's");
        Some(at - self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    #[test]
    fn the_smallest_wins_whatever_changes() {
        for count in [1usize, 2, 3, 17, 64] {
            let mut tree = Tree::new(count);
            let mut keys = vec![ABSENT; count];
            let mut rng = Rng::new(count as u64);
            assert_eq!((tree.winner(), tree.least()), (None, None));
            for _ in 0..2_000 {
                let index = rng.below(count as u64) as usize;
                let key = if rng.chance_ppm(300_000) { ABSENT } else { rng.below(20) };
                (keys[index], _) = (key, tree.set(index, key));
                let least = keys.iter().copied().min().filter(|key| *key != ABSENT);
                let first = least.and_then(|least| keys.iter().position(|key| *key == least));
                assert_eq!((tree.least(), tree.winner()), (least, first));
                assert_eq!(tree.get(index), key);
            }
        }
    }
}
