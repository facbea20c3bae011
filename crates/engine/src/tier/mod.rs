//! Where does this data belong?
//!
//! A seam: one file per answer. A tier names the intended place; steering may detour a write, and
//! write-back restores the intention.

pub mod collect;
pub mod none;

use crate::map::Logical;
use tandem_block::RequestType;

/// What a tier sees of a write.
#[derive(Clone, Copy, Debug)]
pub struct TierView {
    /// First block.
    pub logical: Logical,
    /// How many blocks.
    pub count: u32,
    /// What the bytes are.
    pub data_type: RequestType,
}

/// The intended place of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intention {
    /// On an SSD.
    Ssd,
    /// On a hard drive: its log now, its home in time.
    Hdd,
    /// On an SSD and on a hard drive: written to one of them, and then copied to the other.
    Both,
}

/// A tiering or caching policy.
pub trait Tier: std::fmt::Debug + Send {
    /// Where this write belongs.
    fn intend(&self, view: &TierView) -> Intention;
    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Tier>;
}

impl Clone for Box<dyn Tier> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A registered tier.
#[derive(Clone, Copy, Debug)]
pub struct TierEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Makes one.
    pub build: fn() -> Box<dyn Tier>,
}

/// Every tier there is.
pub const TIERS: &[TierEntry] = &[none::ENTRY];
