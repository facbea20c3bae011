//! What does the map say about one block?
//!
//! Source: design decision 7: an entry has one to three places, each with a role, and a shared
//! count. Inside, four bits and a slot number hold the common cases; this is the view of them.

use super::slots::{NONE, Slot};

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
    /// An SSD copy of a log place whose drive has not been flushed.
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

/// Some sectors of a block, in a slot of their own, at their own positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where.
    pub slot: Slot,
    /// Bit n: sector n of the block.
    pub(crate) mask: u8,
}

impl Entry {
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
