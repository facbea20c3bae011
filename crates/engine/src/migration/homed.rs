//! Homes that were written, and wait for a flush of their hard drive.

use crate::map::{FixedState, Logical};
use crate::migration::one_move::Part;
use hashbrown::HashSet;
use std::collections::VecDeque;
use tandem_block::DeviceId;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    /// The number of the home write, by its drive.
    number: u64,
    part: Part,
    from_ssd: bool,
}

/// These homes, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homed {
    waiting: VecDeque<Waiting>,
    blocks: HashSet<Logical, FixedState>,
    /// How many of them were read from an SSD: they still count as dirty there.
    from_ssds: u64,
    /// Home writes that a flush has made durable, by drive.
    durable: Vec<u64>,
}

impl Homed {
    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Does none wait?
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Does the home of this block wait?
    pub(crate) fn has(&self, block: Logical) -> bool {
        self.blocks.contains(&block)
    }

    /// How many of them were read from an SSD.
    pub(crate) fn ssd_blocks(&self) -> u64 {
        self.from_ssds
    }

    /// The slots that they were read from.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.waiting.iter().map(|waiting| &waiting.part)
    }

    /// The home of this part was written, as the home write of this number.
    pub(crate) fn add(&mut self, number: u64, part: Part, from_ssd: bool) {
        assert!(part.copied.is_some(), "what is on its way home is watched");
        let is_new = self.blocks.insert(part.logical);
        assert!(is_new, "one home of a block at a time waits for a flush");
        self.from_ssds += u64::from(from_ssd);
        self.waiting.push_back(Waiting { number, part, from_ssd });
        self.assert_counts();
    }

    /// Takes those out that are like this, by the number of their write, oldest first.
    pub(crate) fn take(&mut self, is_wanted: impl Fn(u64, &Part) -> bool) -> Vec<Part> {
        let mut taken = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if !is_wanted(waiting.number, &waiting.part) {
                self.waiting.push_back(waiting);
                continue;
            }
            let was_known = self.blocks.remove(&waiting.part.logical);
            assert!(was_known, "a home that waits for a flush is forgotten once");
            let from_ssd = u64::from(waiting.from_ssd);
            assert!(
                self.from_ssds >= from_ssd,
                "a home from an SSD is counted until it is forgotten"
            );
            self.from_ssds -= from_ssd;
            taken.push(waiting.part);
        }
        self.assert_counts();
        taken
    }

    /// How many blocks are noted for them.
    pub(crate) fn blocks_counted(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn assert_counts(&self) {
        assert!(self.waiting.len() == self.blocks.len(), "each home that waits is of one block");
        assert!(self.from_ssds <= self.waiting.len() as u64, "homes from SSDs are some of them");
    }

    /// Home writes of this drive that a flush has made durable.
    pub(crate) fn durable(&self, device: DeviceId) -> u64 {
        self.durable.get(usize::from(device.0)).copied().unwrap_or(0)
    }

    /// A flush made home writes of this drive durable, up to this number.
    pub(crate) fn flushed(&mut self, device: DeviceId, mark: u64) {
        let index = usize::from(device.0);
        if self.durable.len() <= index {
            self.durable.resize(index + 1, 0);
        }
        assert!(self.durable[index] <= mark, "homes that are durable stay so");
        self.durable[index] = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Map, SlotRegion};

    /// Parts of the first blocks, in the order of their writes.
    fn homed(from_ssd: &[bool]) -> (Homed, Map) {
        let region = SlotRegion::new(DeviceId(0), false, 10, 0);
        let mut map = Map::new(vec![region], 10, 2);
        let mut homed = Homed::default();
        for (block, from_ssd) in (0..).zip(from_ssd) {
            let mut part = Part::new(block, block + 1);
            part.copied = Some(map.watch(block));
            homed.add(block + 1, part, *from_ssd);
        }
        (homed, map)
    }

    #[test]
    fn they_wait_until_they_are_taken_in_the_order_of_their_writes() {
        let (mut homed, mut map) = homed(&[true, false, true]);
        assert_eq!((homed.count(), homed.ssd_blocks(), homed.is_empty()), (3, 2, false));
        assert!(homed.has(2) && !homed.has(3));
        let taken = homed.take(|number, _| number <= 2);
        let blocks: Vec<Logical> = taken.iter().map(|part| part.logical).collect();
        assert_eq!((blocks, homed.count(), homed.ssd_blocks()), (vec![0, 1], 1, 1));
        assert!(!homed.has(0) && homed.parts().all(|part| part.logical == 2));
        let rest = homed.take(|_, part| part.slot == 3);
        assert!(homed.is_empty() && homed.ssd_blocks() == 0);
        taken.into_iter().chain(rest).filter_map(|part| part.copied).for_each(|c| map.forget(c));
    }

    #[test]
    #[should_panic(expected = "one home of a block at a time")]
    fn a_block_has_one_home_that_waits() {
        let (mut homed, mut map) = homed(&[true]);
        let mut again = Part::new(0, 5);
        again.copied = Some(map.watch(0));
        homed.add(2, again, true);
    }

    #[test]
    fn what_is_durable_is_known_by_drive() {
        let mut homed = Homed::default();
        homed.flushed(DeviceId(2), 7);
        assert_eq!([0, 1, 2, 3].map(|id| homed.durable(DeviceId(id))), [0, 0, 7, 0]);
        homed.flushed(DeviceId(2), 7);
    }

    #[test]
    #[should_panic(expected = "homes that are durable stay so")]
    fn what_is_durable_stays_so() {
        let mut homed = Homed::default();
        homed.flushed(DeviceId(0), 7);
        homed.flushed(DeviceId(0), 6);
    }
}
