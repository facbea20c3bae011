//! Blocks that cannot be moved, as moves meet them.

use super::{LEFT_FOR, LEFT_MAX, Left};
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::{Logical, Map, Run};
use crate::migration::moves::{Moves, Part};
use tandem_block::IoError;

impl Moves {
    /// A move could not read this block, or found it damaged.
    pub(crate) fn leave_unmovable(
        &mut self,
        block: Logical,
        error: IoError,
        map: &mut Map,
        io: &DeviceIo,
    ) {
        let now = io.now();
        self.unmovable.times += 1;
        let over: Vec<Logical> = self
            .unmovable
            .blocks
            .iter()
            .filter(|(_, left)| left.until <= now || !map.is_latest(&left.copied))
            .map(|(block, _)| *block)
            .collect();
        for block in over {
            let left = self.unmovable.blocks.remove(&block).expect("just seen");
            map.forget(left.copied);
        }
        if self.unmovable.blocks.len() < LEFT_MAX && !self.unmovable.blocks.contains_key(&block) {
            let copied = map.watch(block);
            let left = Left { copied, until: now + LEFT_FOR, error };
            self.unmovable.blocks.insert(block, left);
        }
    }

    /// Is it left where it is?
    pub(crate) fn is_unmovable(&self, block: Logical, map: &Map, io: &DeviceIo) -> bool {
        let left = self.unmovable.blocks.get(&block);
        left.is_some_and(|left| io.now() < left.until && map.is_latest(&left.copied))
    }

    /// Blocks in a run of log slots that can be moved home now, and are not left.
    pub(crate) fn movable_parts(
        &self,
        run: Run,
        blocks_max: usize,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Vec<Part> {
        if self.unmovable.is_empty() {
            return self.living_parts(run, blocks_max, map, objects, io);
        }
        let mut parts = self.living_parts(run, usize::MAX, map, objects, io);
        parts.retain(|part| !self.is_unmovable(part.logical, map, io));
        parts.truncate(blocks_max);
        parts
    }
}
