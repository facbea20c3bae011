//! Where on a hard drive does the home of a block lie?

use super::Objects;
use crate::io::DeviceIo;
use crate::map::Logical;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Objects {
    /// The hard drive and the byte where the home of a block lies.
    pub(crate) fn home_of(&self, block: Logical, io: &DeviceIo) -> (DeviceId, u64) {
        let place = u64::from(self.homes().of(block));
        for &id in io.hdds() {
            let layout = &io[id].layout;
            if place >= layout.home_first && place - layout.home_first < layout.home_blocks {
                return (id, layout.home_offset + (place - layout.home_first) * BLOCK_BYTES);
            }
        }
        unreachable!("every logical block of a pool with hard drives has a home")
    }
}
