//! Where does a logical block live, in one nibble?
//!
//! Four bits a block answer most questions without a search: absent, home, SSD, log, or "see the
//! fragments". A fifth bitmap holds the home bit as the journal last recorded it.

use super::bits::Bits;
use super::slots::Logical;
use tandem_block::Table;

/// The current version is (also) at the block's home on a hard drive.
pub const HOME: u8 = 1;
/// The current version is (also) in an SSD slot.
pub(crate) const SSD: u8 = 2;
/// The current version is (also) in a log slot.
pub(crate) const LOG: u8 = 4;
/// Fragments lie over the base that the other bits name.
pub(crate) const FRAGMENTS: u8 = 8;

/// State bits of every logical block.
#[derive(Clone, Debug)]
pub struct LogicalBits {
    nibbles: Table<u8>,
    recorded_home: Bits,
    blocks: usize,
}

impl LogicalBits {
    /// `blocks` logical blocks, all absent.
    pub(crate) fn new(blocks: usize) -> Self {
        LogicalBits {
            nibbles: Table::new(blocks.div_ceil(2)),
            recorded_home: Bits::new(blocks),
            blocks,
        }
    }

    /// How many blocks.
    pub fn block_count(&self) -> usize {
        self.blocks
    }

    /// The block's bits.
    #[inline]
    pub(crate) fn get(&self, block: Logical) -> u8 {
        self.nibbles[block as usize >> 1] >> ((block & 1) * 4) & 15
    }

    /// Asks memory for the block's bits.
    #[inline]
    pub(crate) fn prefetch(&self, block: Logical) {
        self.nibbles.prefetch(block as usize >> 1);
    }

    /// Replaces the block's bits.
    #[inline]
    pub(crate) fn set(&mut self, block: Logical, bits: u8) {
        debug_assert!(bits < 16);
        let shift = (block & 1) * 4;
        let byte = &mut self.nibbles[block as usize >> 1];
        *byte = *byte & !(15 << shift) | bits << shift;
    }

    /// Was the home valid in the newest composed batch?
    #[inline]
    pub(crate) fn recorded_home(&self, block: Logical) -> bool {
        self.recorded_home.get(block as usize)
    }

    /// Notes whether a composed batch calls the home valid.
    #[inline]
    pub(crate) fn set_recorded_home(&mut self, block: Logical, valid: bool) {
        self.recorded_home.set(block as usize, valid);
    }

    /// The recorded home bits, for checkpoints.
    pub(crate) fn recorded_homes(&self) -> &Bits {
        &self.recorded_home
    }

    /// Marks `count` homes from `start` valid, now and as recorded: the state that a replay begins
    /// with, and recovery.
    pub(crate) fn assume_home(&mut self, start: Logical, count: u64) {
        for block in start..start + count {
            let bits = self.get(block);
            self.set(block, bits | HOME);
        }
        self.recorded_home.set_run(start as usize, count as usize, true);
    }

    /// The first block in `from..to` that lies on an SSD, or under fragments.
    pub(crate) fn next_on_ssd(&self, from: Logical, to: Logical) -> Option<Logical> {
        let mut block = from;
        while block < to {
            if block & 1 == 0 && self.nibbles[block as usize >> 1] & 0xAA == 0 {
                block += 2;
                continue;
            }
            if self.get(block) & (SSD | FRAGMENTS) != 0 {
                return Some(block);
            }
            block += 1;
        }
        None
    }

    /// The first block in `from..to` that lies on an SSD but not at home, without fragments.
    pub(crate) fn next_dirty(&self, from: Logical, to: Logical) -> Option<Logical> {
        let mut block = from;
        while block < to {
            // both blocks of a byte absent or clean: skip quickly over bytes, then words
            if block & 1 == 0 {
                let byte = self.nibbles[block as usize >> 1];
                if byte & (SSD | SSD << 4) == 0 {
                    block += 2;
                    continue;
                }
            }
            let bits = self.get(block);
            if bits & (SSD | HOME | FRAGMENTS) == SSD {
                return Some(block);
            }
            block += 1;
        }
        None
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nibbles.memory_bytes() + self.recorded_home.memory_bytes()
    }
}
