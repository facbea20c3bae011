//! What does the map say about one block?
//!
//! Source: design decision 7: an entry has one to three places, each with a role. Four bits say which. Leaves
//! keep these bits and the slots.

use super::slots::{NONE, Slot};

/// The current version is (also) at the block's home on a hard drive.
pub const HOME: u8 = 1;
/// The current version is (also) in an SSD slot.
pub(crate) const SSD: u8 = 2;
/// The current version is (also) in a log slot.
pub(crate) const LOG: u8 = 4;
/// Fragments lie over the base that the other bits name.
pub(crate) const FRAGMENTS: u8 = 8;

/// Where one block lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// At its home.
    pub home: bool,
    /// In this SSD slot, or `NONE`.
    pub ssd: Slot,
    /// In this log slot, or `NONE`.
    pub log: Slot,
    /// Fragments lie over it.
    pub(crate) fragmented: bool,
}

/// What a place is to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaceRole {
    /// The only one.
    Only,
    /// One of several that hold the same version.
    Copy,
    /// An SSD copy of a log place: until its drive was flushed, or as long as a tier wants it.
    Tail,
}

/// One place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The block's home.
    Home,
    /// An SSD slot.
    Ssd(Slot),
    /// A log slot.
    Log(Slot),
}

/// What is known of a slot that holds a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentSlot {
    /// Bit n: sector n of the block.
    pub(super) mask: u8,
    /// Its place among the fragments of the block, as recorded.
    pub(super) order: u8,
    /// CRC-32C of what the slot holds, or a digest of tokens.
    pub(super) checksum: u32,
}

/// Some sectors of a block, in a slot of their own, at their own positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where.
    pub slot: Slot,
    /// Bit n: sector n of the block.
    pub(crate) mask: u8,
}

impl Entry {
    /// Of a block that reads as zeroes.
    pub(crate) const NOWHERE: Entry =
        Entry { home: false, ssd: NONE, log: NONE, fragmented: false };

    /// Of a block that lies in this slot alone.
    #[inline]
    pub(crate) fn in_slot(slot: Slot, is_log: bool) -> Self {
        let (ssd, log) = if is_log { (NONE, slot) } else { (slot, NONE) };
        Entry { ssd, log, ..Self::NOWHERE }
    }

    /// All of it but the slots: `HOME`, `SSD`, `LOG`, `FRAGMENTS`.
    #[inline]
    pub(crate) fn state(&self) -> u8 {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        bit(self.home, HOME)
            | bit(self.ssd != NONE, SSD)
            | bit(self.log != NONE, LOG)
            | bit(self.fragmented, FRAGMENTS)
    }

    /// The places with their roles, fastest to read first; at most three.
    pub fn places(&self) -> impl Iterator<Item = (Place, PlaceRole)> {
        let count = u8::from(self.home) + u8::from(self.ssd != NONE) + u8::from(self.log != NONE);
        let role = if count > 1 { PlaceRole::Copy } else { PlaceRole::Only };
        let ssd_role = if self.log != NONE && !self.home { PlaceRole::Tail } else { role };
        [
            (self.ssd != NONE).then_some((Place::Ssd(self.ssd), ssd_role)),
            (self.log != NONE).then_some((Place::Log(self.log), role)),
            self.home.then_some((Place::Home, role)),
        ]
        .into_iter()
        .flatten()
    }
}
