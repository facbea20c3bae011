//! Blocks that cannot be moved: which are left where they are, so that others can be moved?
//!
//! A move that could not read a block, or found it damaged, would fail again at once, and a log in which such a
//! block lies would never make room. The block is left for a while, or until it is written to.

use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::versions::Copied;
use crate::map::{Logical, Map, Run};
use crate::migration::moves::{Moves, Part};
use std::collections::BTreeMap;
use tandem_block::{Duration, Instant, IoError};

/// How long a block is left before it is tried again (guess).
const LEFT_FOR: Duration = Duration::from_s(60);
/// Blocks that are left at most: bounds RAM to some 64 KiB. One more is tried again and again.
const LEFT_MAX: usize = 1_024;
/// Segments in which something else to move is looked for at a time, where no write waits for room.
pub(crate) const SEGMENTS_MAX: usize = 16;

/// A block that is left.
#[derive(Clone, Debug)]
struct Left {
    /// The version that was.
    copied: Copied,
    until: Instant,
    /// Why it could not be moved.
    error: IoError,
}

/// Blocks that are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unmovable {
    blocks: BTreeMap<Logical, Left>,
}

impl Unmovable {
    /// Is none left?
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Why one of them could not be moved.
    pub(crate) fn error(&self) -> Option<IoError> {
        self.blocks.values().next().map(|left| left.error)
    }
}

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
