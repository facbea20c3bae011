//! Which words does every room share?
//!
//! Units of time and space, the request, the drive port, errors with an errno, a seeded generator
//! with integer distributions, and the memory of large tables. Nothing here reads a clock, allocates
//! a device or does I/O, and no floating point is used, so every machine computes the same bits.

mod address;
mod arrival;
mod batch;
mod drive;
mod error;
pub mod fixed;
mod quantity;
mod request;
mod rng;
mod table;
mod units;
mod zipf;

pub use address::{BLOCK_BYTES, DeviceId, ObjectId, SECTOR_BYTES, SECTORS_PER_BLOCK, StreamId};
pub use arrival::Arrival;
pub use batch::{
    Batch, KEY_BYTES_MAX, NAME_BYTES_MAX, ObjectKind, ObjectOp, TIER_KEY, VALUE_BYTES_MAX,
};
pub use drive::{
    ContentFault, ContentFaultKind, Drive, DriveEvent, DriveEventKind, DriveOp, DriveOpKind,
    Outcome, Ticket,
};
pub use error::IoError;
pub use quantity::{BadQuantity, Quantity};
pub use request::{DurabilityClass, Op, PayloadId, Request, RequestId, RequestKind, RequestType};
pub use rng::Rng;
pub use table::{Table, TableEntry, prefetch};
pub use units::{Duration, GIB, Instant, KIB, MIB, TIB};
pub use zipf::Zipf;
