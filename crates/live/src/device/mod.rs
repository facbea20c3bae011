//! Which drives does the real event loop have? A block device or file through the ring, RAM, and a
//! modelled drive behind a timer.

mod block;
mod emulated;
mod failures;
mod holder;
mod open;
mod overlay;
mod ram;
#[cfg(test)]
mod rig;
mod snapshot;

pub use emulated::EmulatedStats;
pub use failures::DriveFailures;
pub(crate) use holder::{is_alive, state as process_state};
pub use open::{OpenError, OpenedFile};

use crate::payload::Payloads;
use crate::uring::{Ring, Tag};
use std::collections::VecDeque;
use std::path::PathBuf;
use tandem_block::{DeviceId, Drive, Duration, Instant, IoError, PayloadId};
use tandem_engine::{Io, IoId, IoOp};

/// Where a device keeps its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A block device or a file that exists.
    Path(PathBuf),
    /// The same, but nothing is ever written to it: what the engine writes stays in this process's
    /// memory and is read from there. For looking at a pool without touching it.
    Snapshot(PathBuf),
    /// Memory of this many bytes, lost with the process.
    Ram {
        /// Its size, a multiple of 4096.
        bytes: u64,
    },
}

/// One device to be opened.
pub struct DeviceConfig {
    /// Where its bytes are.
    pub backing: Backing,
    /// Time it, and lose its buffer in a crash, like this modelled drive. The model's capacity must
    /// not exceed the backing's.
    pub emulate: Option<Box<dyn Drive>>,
}

/// A device command that is done.
#[derive(Debug)]
pub(crate) struct IoDone {
    pub io: IoId,
    pub status: Result<(), IoError>,
    /// The blocks whose checksums travel with the completion: payload, first byte, bytes.
    pub blocks: Option<(PayloadId, u64, u64)>,
    /// What a `ReadMeta` read.
    pub bytes: Vec<u8>,
    /// What the drive took, if that is known better than by when it was heard of.
    pub took: Option<Duration>,
}

/// What a device works with, lent for one call.
pub(crate) struct DeviceContext<'a> {
    pub now: Instant,
    pub ring: &'a mut Ring,
    pub payloads: &'a mut Payloads,
    pub done: &'a mut VecDeque<IoDone>,
    /// The owner in the tags of this device's operations.
    pub owner: u32,
}

impl DeviceContext<'_> {
    fn tag(&self, value: u64) -> Tag {
        Tag { owner: self.owner, value }
    }

    /// Reports `io` done without data.
    fn finish(&mut self, io: IoId, status: Result<(), IoError>) {
        self.done.push_back(IoDone { io, status, blocks: None, bytes: Vec::new(), took: None });
    }
}

/// One drive of the real event loop.
pub(crate) trait Device {
    /// Usable bytes.
    fn capacity_bytes(&self) -> u64;

    /// What commands begin and end at, in bytes: 512 or 4096. Reads of users may be of any sectors of 512.
    fn sector_bytes(&self) -> u64 {
        tandem_block::SECTOR_BYTES
    }

    /// Takes one command.
    fn submit(&mut self, io: Io, context: &mut DeviceContext<'_>);

    /// One of its ring operations is done.
    fn finished(&mut self, value: u64, result: i32, context: &mut DeviceContext<'_>);

    /// When `tick` is wanted.
    fn due(&self) -> Instant {
        Instant::NEVER
    }

    /// The instant of `due` has come: gives the answer that is due, no more than one. `due` lies later
    /// then, or there is one answer less to give.
    fn tick(&mut self, _context: &mut DeviceContext<'_>) {}

    /// Bytes that only process memory holds, and late acknowledgements; for emulated drives.
    fn emulated(&self) -> Option<EmulatedStats> {
        None
    }

    /// What it has failed so far, if anything.
    fn failures(&self) -> Option<DriveFailures> {
        None
    }
}

/// What stands in the place of a drive that was removed: whatever is asked of it is out of its range.
pub(crate) fn nothing() -> Box<dyn Device> {
    Box::new(ram::RamDevice::new(0))
}

/// Opens a device for one set of drives.
///
/// # Errors
/// If it cannot be opened, is in use, or has sectors of another size than 512 or 4096 bytes.
pub(crate) fn open(id: DeviceId, config: DeviceConfig) -> Result<Box<dyn Device>, OpenError> {
    match (config.backing, config.emulate) {
        (Backing::Ram { bytes }, None) => Ok(Box::new(ram::RamDevice::populated(bytes))),
        (Backing::Ram { bytes }, Some(model)) => {
            let memory = ram::RamDevice::new(bytes);
            Ok(Box::new(emulated::EmulatedDevice::over_ram(id, model, memory)?))
        }
        (Backing::Path(path), None) => {
            let file = OpenedFile::open(&path, true)?;
            Ok(Box::new(block::BlockDevice::new(id, file)))
        }
        (Backing::Snapshot(path), _) => {
            let file = OpenedFile::open_to_read(&path)?;
            Ok(Box::new(emulated::EmulatedDevice::snapshot(id, file)))
        }
        (Backing::Path(path), Some(model)) => {
            let file = OpenedFile::open(&path, false)?;
            Ok(Box::new(emulated::EmulatedDevice::over_file(id, model, file)?))
        }
    }
}

/// Where the checksums of a data command come from: nowhere, unless it is whole blocks.
fn block_range(
    device_offset: u64,
    payload: PayloadId,
    at: u64,
    length: u64,
) -> Option<(PayloadId, u64, u64)> {
    use tandem_block::BLOCK_BYTES;
    let aligned = device_offset.is_multiple_of(BLOCK_BYTES) && length.is_multiple_of(BLOCK_BYTES);
    aligned.then_some((payload, at, length))
}

/// First byte and bytes of a command on its drive; (0, 0) for a flush.
fn extent(op: &IoOp) -> (u64, u64) {
    match op {
        IoOp::Read { offset_bytes, length_bytes, .. }
        | IoOp::Write { offset_bytes, length_bytes, .. }
        | IoOp::ReadMeta { offset_bytes, length_bytes }
        | IoOp::Trim { offset_bytes, length_bytes } => (*offset_bytes, *length_bytes),
        IoOp::WriteMeta { offset_bytes, bytes, .. } => (*offset_bytes, bytes.len() as u64),
        IoOp::Flush => (0, 0),
    }
}

/// Does the command lie within the drive, on sectors?
fn fits(op: &IoOp, capacity_bytes: u64) -> bool {
    let (offset, length) = extent(op);
    let aligned = (offset | length).is_multiple_of(tandem_block::SECTOR_BYTES);
    let ends = offset.checked_add(length).is_some_and(|end| end <= capacity_bytes);
    aligned && ends && (length > 0 || matches!(op, IoOp::Flush))
}
