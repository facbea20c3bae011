//! Where on a hard drive does the home of a block lie, and for how many blocks are the drives large enough?

use super::Objects;
use crate::format::layout;
use crate::format::superblock::Standing;
use crate::io::DeviceIo;
use crate::map::Logical;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Objects {
    /// The hard drive and the byte where the home of a block lies.
    pub(crate) fn home_of(&self, block: Logical, io: &DeviceIo) -> (DeviceId, u64) {
        let place = self.homes().of(block);
        for &id in io.hdds() {
            let layout = &io[id].layout;
            if place >= layout.home_first && place - layout.home_first < layout.home_blocks {
                return (id, layout.home_offset + (place - layout.home_first) * BLOCK_BYTES);
            }
        }
        unreachable!("every logical block of a pool with hard drives has a home")
    }

    /// Without hard drives blocks have no homes, and what fits the SSDs that take something new is all that
    /// there is: the rest is withheld.
    pub(crate) fn fit_objects(&mut self, io: &DeviceIo) {
        if !io.hdds().is_empty() || io.is_fixed() {
            return;
        }
        let serves = |id: &&DeviceId| io[**id].standing == Standing::Serves;
        let slots = |id: &DeviceId| io[*id].layout.slot_count;
        let there: u64 = io.ssds().iter().filter(serves).map(slots).sum();
        let all: u64 = io.ssds().iter().map(slots).sum();
        let (all, there) = (layout::blocks_without_homes(all), layout::blocks_without_homes(there));
        self.withhold(all - there);
    }
}
