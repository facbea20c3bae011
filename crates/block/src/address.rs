//! How is a place named? Devices, objects and streams by id; places in bytes, sectors or blocks.

/// The smallest unit a request may name, and what a power cut can tear.
pub const SECTOR_BYTES: u64 = 512;
/// The unit of mapping and checksumming; never torn after a crash.
pub const BLOCK_BYTES: u64 = 4096;
/// Sectors in one block.
pub const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// One drive of a set, numbered from 0 in the order of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u8);

/// One object: a block volume, or later a file. Never reused within a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// Who is asking: an export, a connection, or a named stream of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);
