//! Which parts of a leg must not be read?
//!
//! Source: B9, requirements I14: after a crash or a replacement a leg lacks what the other one has, until
//! it was copied.

use std::collections::BTreeMap;

/// Parts of a leg that are behind, apart and ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    /// End by first byte.
    parts: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Stale {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        let before = self.parts.range(..end).next_back();
        before.is_some_and(|(_, &to)| to > start)
    }

    pub(crate) fn add(&mut self, start: u64, end: u64) {
        assert!(start < end, "a part has bytes");
        self.remove(start, end);
        let mut merged = (start, end);
        if let Some((&from, &to)) = self.parts.range(..start).next_back()
            && to == start
        {
            self.parts.remove(&from);
            merged.0 = from;
        }
        if let Some(to) = self.parts.remove(&end) {
            merged.1 = to;
        }
        self.parts.insert(merged.0, merged.1);
        self.bytes += end - start;
    }

    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        assert!(start < end, "a part has bytes");
        let mut first = start;
        if let Some((&from, &to)) = self.parts.range(..start).next_back()
            && to > start
        {
            first = from;
        }
        let touched: Vec<(u64, u64)> =
            self.parts.range(first..end).map(|(&a, &b)| (a, b)).collect();
        for (from, to) in touched {
            self.parts.remove(&from);
            let gone = to.min(end) - from.max(start);
            assert!(self.bytes >= gone, "what goes was counted");
            self.bytes -= gone;
            if from < start {
                self.parts.insert(from, start);
            }
            if to > end {
                self.parts.insert(end, to);
            }
        }
        assert_eq!(self.parts.is_empty(), self.bytes == 0, "each part is counted");
    }

    pub(crate) fn add_all(&mut self, other: &Stale) {
        other.parts().for_each(|(start, end)| self.add(start, end));
    }

    pub(crate) fn remove_all(&mut self, other: &Stale) {
        other.parts().for_each(|(start, end)| self.remove(start, end));
    }

    /// The first part, of at most so many bytes.
    pub(crate) fn first(&self, bytes_max: u64) -> Option<(u64, u64)> {
        self.parts.first_key_value().map(|(&from, &to)| (from, to.min(from + bytes_max)))
    }

    /// What of `start..end` is behind.
    pub(crate) fn within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.parts.range(..start).next_back();
        let before = before.filter(|(_, to)| **to > start).map(|(&from, &to)| (from, to));
        let rest = self.parts.range(start..end).map(|(&from, &to)| (from, to));
        before.into_iter().chain(rest).map(|(from, to)| (from.max(start), to.min(end))).collect()
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.parts.iter().map(|(&from, &to)| (from, to))
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..16), 0..60)) {
            let (mut stale, mut naive) = (Stale::default(), [false; 96]);
            for (add, start, length) in steps {
                let end = start + length;
                naive[start as usize..end as usize].fill(add);
                if add { stale.add(start, end) } else { stale.remove(start, end) }
                let count = naive.iter().filter(|&&b| b).count() as u64;
                prop_assert_eq!(stale.bytes(), count);
                for at in 0..95u64 {
                    prop_assert_eq!(stale.touches(at, at + 1), naive[at as usize]);
                }
                let within: u64 = stale.within(start, end).iter().map(|(from, to)| to - from).sum();
                prop_assert_eq!(within, naive[start as usize..end as usize].iter().filter(|&&b| b).count() as u64);
                let runs = naive.windows(2).filter(|w| !w[0] && w[1]).count() + usize::from(naive[0]);
                prop_assert_eq!(stale.len(), runs, "neighbours are one part");
            }
        }
    }
}
