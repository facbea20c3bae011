//! Which side serves what an SSD and a hard drive both have?
//!
//! Source: P20 of the requirements. A policy that balances is asked for each read that a hard drive could serve as
//! well, and is told what every answer took. Whether what was read comes to the SSD is its affair, too.

use crate::io::DeviceIo;
use crate::map::entry::{FRAGMENTS, HOME, LOG, SSD};
use crate::map::{Logical, Map};
use crate::policy::Policy;
use crate::port::ServedFrom;
use crate::requests::task::Task;
use crate::steer::Seen;
use tandem_block::{ObjectId, Op, RequestKind};

/// Have an SSD and a hard drive both all of these blocks?
pub(crate) fn is_on_both((first, end): (Logical, Logical), map: &Map) -> bool {
    (first..end).all(|block| {
        let state = map.state(block);
        state & SSD != 0 && state & (HOME | LOG) != 0 && state & FRAGMENTS == 0
    })
}

impl Policy {
    /// Does a hard drive serve this read, although an SSD could?
    #[inline]
    pub(crate) fn prefers_hdd(&mut self, task: &Task, map: &Map, io: &DeviceIo) -> bool {
        let is_users = task.request.kind == RequestKind::User && !task.rides;
        // who compares all copies reads the fastest one first
        if !self.steering.balances() || !is_users || io.is_fixed() || io.config().verify_copies {
            return false;
        }
        let Some(volume) = self.tiers.policies.get(&task.volume) else { return false };
        let policy = &mut self.steering.shared[volume.steer].policy;
        policy.balances() && is_on_both((task.first, task.end), map) && policy.reads_from_hdd()
    }

    /// May what this volume reads from a hard drive come to the SSD, if its tier wants that?
    #[inline]
    pub(crate) fn admits(&self, volume: &ObjectId) -> bool {
        let steer = self.tiers.policies.get(volume).map(|policy| policy.steer);
        steer.is_none_or(|steer| self.steering.shared[steer].policy.admits())
    }

    /// A user's request was answered: policies that balance are told what that took.
    #[inline]
    pub(crate) fn note_answer(&mut self, task: &Task, io: &DeviceIo) {
        if !self.steering.balances() || task.status.is_err() {
            return;
        }
        let (read, hdd) = match (task.request.op, task.served_from) {
            // no drive had a part in it
            (Op::Read, ServedFrom::Ram) => return,
            (Op::Read, from) => (true, matches!(from, ServedFrom::HddLog | ServedFrom::HddHome)),
            (Op::Write, _) => (false, task.target.is_log()),
            (Op::Flush | Op::Discard | Op::WriteZeroes, _) => return,
        };
        let answer = Seen::Answer {
            read,
            hdd,
            offloaded: task.offloaded,
            bytes: task.request.length_bytes,
            latency_ns: task.request.age(io.now()).ns,
        };
        self.steering.tell(&answer, io);
    }
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
