//! Drive models: how do hard drives and SSDs behave, and what do they hold after a power cut?
//!
//! A model is told the time and answers with times (design decision 4): it reads no clock, keeps
//! no event queue and uses no floating point, so the same submissions give the same outcomes on
//! every machine, in virtual time and, behind a timer, in real time. What a drive holds is apart
//! from how it behaves: contents are [`media`].
//!
//! ```text
//!   specs/*.toml ──▶ spec ──▶ build ──▶ hdd | ssd | null ──▶ faulty (wraps any of them)
//!                                        Outcome │ tickets, content faults
//!                                                ▼
//!                                   the event loop ──▶ media (durable, volatile, cut)
//! ```

mod construct;
pub mod faulty;
pub mod hdd;
mod ledger;
pub mod media;
mod null;
mod rate;
pub mod spec;
pub mod ssd;
pub mod study;

pub use construct::{BuildOptions, build};
pub use hdd::HddModel;
pub use null::NullDrive;
pub use ssd::{SsdModel, SsdState};

use tandem_block::{DriveOp, DriveOpKind, SECTOR_BYTES};

/// What every drive asks of a command (the contract of [`tandem_block::Drive::submit`]).
///
/// # Panics
/// If the range is misaligned, empty where it must not be, or beyond the capacity.
pub(crate) fn check_range(op: &DriveOp, capacity_bytes: u64) {
    if op.kind == DriveOpKind::Flush {
        return;
    }
    let misaligned = (op.offset_bytes | op.length_bytes) % SECTOR_BYTES;
    assert!(misaligned == 0, "a drive's ranges are multiples of 512 bytes");
    let end = op.offset_bytes.checked_add(op.length_bytes);
    assert!(end.is_some_and(|end| end <= capacity_bytes), "the range ends beyond the drive");
    assert!(op.length_bytes > 0, "an empty range");
}
