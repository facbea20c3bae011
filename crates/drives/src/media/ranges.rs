//! Which sectors of a range are taken already? A sorted list of disjoint ranges.

/// Disjoint ranges of sectors (first, end), sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range; touching and overlapping ones become one.
    pub(super) fn add(&mut self, (mut first, mut end): (u64, u64)) {
        let from = self.0.partition_point(|range| range.1 < first);
        let upto = self.0.partition_point(|range| range.0 <= end);
        for range in &self.0[from..upto] {
            first = first.min(range.0);
            end = end.max(range.1);
        }
        self.0.splice(from..upto, [(first, end)]);
    }

    /// Calls `gap` for every part of the range that is not in the list, in order.
    pub(super) fn gaps(&self, (first, end): (u64, u64), mut gap: impl FnMut(u64, u64)) {
        let mut at = first;
        let from = self.0.partition_point(|range| range.1 <= first);
        for range in self.0[from..].iter().take_while(|range| range.0 < end) {
            if range.0 > at {
                gap(at, range.0);
            }
            at = at.max(range.1);
        }
        if at < end {
            gap(at, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_leave_gaps() {
        let mut ranges = Ranges::default();
        for range in [(10, 20), (30, 40), (20, 22), (5, 6), (38, 50)] {
            ranges.add(range);
        }
        assert_eq!(ranges.0, [(5, 6), (10, 22), (30, 50)]);
        let mut gaps = Vec::new();
        ranges.gaps((0, 60), |first, end| gaps.push((first, end)));
        assert_eq!(gaps, [(0, 5), (6, 10), (22, 30), (50, 60)]);
        gaps.clear();
        ranges.gaps((12, 20), |first, end| gaps.push((first, end)));
        assert!(gaps.is_empty());
    }
}
