//! What has changed of the objects that no journal unit says yet?
//!
//! Source: design decision 7: records say what holds now, absolutely. So it is kept *which* parts
//! changed, and what they are is looked up when the unit is composed. All of it goes into one unit, which
//! makes batches whole and keeps their order; `bytes` bounds what that unit will be from above.

use super::attributes::ATTRIBUTE_RECORD_BYTES;
use super::space::BlockRange;
use crate::format::record::{HOMES_RECORD_BYTES, OBJECT_RECORD_BYTES, PIECE_RECORD_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use tandem_block::{NAME_BYTES_MAX, ObjectId};

/// Bytes of the header of an object, and of the record that it is gone, at most.
pub(crate) const HEADER_BYTES_MAX: usize = OBJECT_RECORD_BYTES + NAME_BYTES_MAX + 12;

/// What changed of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// It went; if it is there, it was made again.
    pub(crate) gone: bool,
    /// Name, size, or that it is there.
    pub(crate) header: bool,
    /// Ranges of its blocks: first and behind the last.
    pub(crate) blocks: Vec<(u64, u64)>,
    /// Keys of attributes.
    pub(crate) keys: BTreeSet<Box<[u8]>>,
}

/// Changes of all objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    objects: BTreeMap<ObjectId, Changed>,
    /// Blocks whose homes lie elsewhere.
    homes: Vec<BlockRange>,
    bytes: usize,
    named: bool,
}

impl Changes {
    /// Is there nothing?
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.homes.is_empty()
    }

    /// Bytes of records at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Did a volume come, go or change?
    pub(crate) fn has_named(&self) -> bool {
        self.named
    }

    /// Its name or size changed, or it is new.
    pub(crate) fn header(&mut self, object: ObjectId, is_volume: bool) {
        self.bytes += HEADER_BYTES_MAX;
        self.named |= is_volume;
        self.objects.entry(object).or_default().header = true;
    }

    /// It is gone, and so is what was to be said of it.
    pub(crate) fn gone(&mut self, object: ObjectId, is_volume: bool) {
        self.bytes += HEADER_BYTES_MAX;
        self.named |= is_volume;
        self.objects.insert(object, Changed { gone: true, ..Changed::default() });
    }

    /// An attribute was set, to a value of so many bytes, or went.
    pub(crate) fn attribute(&mut self, object: ObjectId, key: &[u8], value_bytes: usize) {
        self.bytes += ATTRIBUTE_RECORD_BYTES + key.len() + value_bytes;
        let keys = &mut self.objects.entry(object).or_default().keys;
        if !keys.contains(key) {
            keys.insert(key.into());
        }
    }

    /// These blocks lie elsewhere, in so many pieces, or nowhere any more.
    pub(crate) fn blocks(&mut self, object: ObjectId, from: u64, to: u64, pieces: usize) {
        assert!(from < to, "some blocks changed");
        // it may lie between others that had been named as one
        self.bytes += (pieces + 2) * PIECE_RECORD_BYTES;
        let blocks = &mut self.objects.entry(object).or_default().blocks;
        match blocks.last_mut() {
            Some(last) if last.0 <= to && from <= last.1 => {
                *last = (last.0.min(from), last.1.max(to));
            }
            _ => blocks.push((from, to)),
        }
    }

    /// The homes of these blocks, which lie in one piece, lie elsewhere.
    pub(crate) fn homes(&mut self, blocks: BlockRange) {
        assert!(blocks.count > 0, "some homes changed");
        // … and a part of them may since lie elsewhere again
        self.bytes += 3 * HOMES_RECORD_BYTES;
        self.homes.push(blocks);
    }

    /// Blocks whose homes lie elsewhere.
    pub(crate) fn take_homes(&mut self) -> Vec<BlockRange> {
        std::mem::take(&mut self.homes)
    }

    /// Everything else, and nothing is left.
    pub(crate) fn take(&mut self) -> BTreeMap<ObjectId, Changed> {
        self.homes.clear();
        self.bytes = 0;
        self.named = false;
        std::mem::take(&mut self.objects)
    }
}
