//! What is offered over NBD, and in which sizes may it be asked for?

use tandem_block::ObjectId;

/// Largest read or write, in bytes; said in the negotiation. What most servers and clients use.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Smallest unit, in bytes.
pub const SECTOR_BYTES: u32 = tandem_block::SECTOR_BYTES as u32;

/// One volume as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The volume's name.
    pub name: String,
    /// Its object.
    pub object: ObjectId,
    /// Its size in bytes.
    pub size_bytes: u64,
}
