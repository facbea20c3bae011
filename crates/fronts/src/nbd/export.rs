//! What is offered over NBD, and in which sizes may it be asked for?

use tandem_block::{ObjectId, StreamId};

/// Largest read or write, in bytes; said in the negotiation. What most servers and clients use.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Smallest unit, in bytes.
pub const SECTOR_BYTES: u32 = tandem_block::SECTOR_BYTES as u32;

/// A volume as clients see it; it may be offered under several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What clients ask for: the volume's name, or one that somebody was given.
    pub name: String,
    /// Its object.
    pub object: ObjectId,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// It is never written to.
    pub read_only: bool,
    /// Whose requests come by this name; none: each connection is a stream of its own.
    pub stream: Option<StreamId>,
}
