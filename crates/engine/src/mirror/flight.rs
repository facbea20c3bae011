//! Why is a command with a drive of the pair?

use super::cache::{EntryId, Piece};
use crate::port::IoId;
use tandem_block::{Instant, PayloadId};

/// Why a command is with a drive.
#[derive(Clone, Debug)]
pub(super) enum Flight {
    Open {
        slot: u8,
    },
    Read(Box<Read>),
    /// Checksums of a read that the cache had a part in.
    ReadSum(IoId),
    /// Checksums of a write that the cache has.
    WriteSum(IoId, EntryId),
    /// A write; from what is new, or from the backlog.
    Entry(EntryId, bool),
    MetaRead(Box<MetaRead>),
    MetaWrite(usize),
    Flush,
    Record,
    ResyncRead,
    ResyncWrite,
    /// Checksums of the journal's next unit.
    JournalSum,
    /// Half of a unit.
    Unit,
    /// The journal's head.
    Head,
    JournalFlush,
    /// Headers in the ring, at this place of it.
    RingRead(u64, RingStep),
    /// The data of a unit that ends here.
    RingData(u64),
    /// Data of the ring, to a leg.
    Brought,
}

/// A command that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(crate) leg: usize,
    pub(crate) flight: Flight,
    pub(crate) issued: Instant,
}

/// A read that a leg has a part in.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(crate) io: IoId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) into: PayloadId,
    pub(crate) into_offset: u64,
    /// What comes from the cache, over what the leg reads.
    pub(crate) pieces: Vec<Piece>,
    /// The other leg was asked before.
    pub(crate) tried: bool,
}

impl Read {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// A read of metadata.
#[derive(Clone, Debug)]
pub(super) struct MetaRead {
    pub(crate) io: IoId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) tried: bool,
}

impl MetaRead {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// What is being asked of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingStep {
    /// The first block of a header.
    Header,
    /// All of it.
    LongHeader,
    /// What lies behind the end.
    Search,
}
