//! What goes into the engine, and what comes out?
//!
//! Source: design decision 1. `Engine::on(now, Event, &mut Vec<Command>)` is the whole interface:
//! the live event loop feeds it completions of a ring and a monotonic clock, the virtual event loop a heap of
//! modelled completions. The engine reads no clock and does no I/O.

use crate::arena::Key;
use tandem_block::{
    BLOCK_BYTES, Batch, DeviceId, Duration, Instant, IoError, PayloadId, Request, RequestId,
    SECTOR_BYTES,
};

/// Names one device command in flight; chosen by the engine, echoed in its completion. Reused
/// after the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u32);

impl Key for IoId {
    #[inline]
    fn new(number: u32) -> Self {
        IoId(number)
    }

    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

/// Everything that can wake the engine.
#[derive(Debug)]
pub enum Event<'a> {
    /// The event loop has opened the devices; the engine formats or recovers and then answers
    /// `Command::Started`.
    Start,
    /// A user asks. A write's payload is stable: the event loop has copied or owns the bytes and has
    /// computed its checksums.
    Request(&'a Request),
    /// Changes of objects that happen together or not at all; answered like a request, with
    /// `Command::Complete`, when they are durable.
    Batch(&'a Batch),
    /// A device command is done.
    Completion {
        /// Which.
        io: IoId,
        /// How it ended.
        status: Result<(), IoError>,
        /// CRC-32C of each whole 4 KiB block read or written (for tokens: a digest of the block's
        /// tokens), in order. Empty in an event loop without contents, and for anything that is not
        /// block-aligned data.
        checksums: &'a [u32],
        /// The bytes of a `ReadMeta`; empty otherwise.
        bytes: &'a [u8],
        /// What the drive itself took, if the event loop knows: it may hear of the end late, because it had
        /// no processor, and the drive must not be blamed for that. `None`: until now.
        took: Option<Duration>,
    },
    /// The instant asked for with `Command::WakeAt` has come.
    Wake,
    /// Take no more requests, settle everything, leave a clean state, then answer
    /// `Command::Stopped`.
    Shutdown,
}

/// Everything that the engine can ask of the event loop. Commands of one `on` call are carried out in
/// order: a `Copy` sees the buffers as the commands before it left them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send this to a device.
    Submit(Io),
    /// A request is done. A read's bytes lie in `payload` from `skip_bytes` on, as many as the
    /// request's length; the event loop owns that payload now and releases it after the reply.
    Complete(Done),
    /// Make a zero-filled buffer under this engine-chosen name.
    Reserve {
        /// Its name.
        payload: PayloadId,
        /// Its size, a multiple of 512.
        length_bytes: u64,
    },
    /// Copy bytes between buffers (512-byte granular).
    Copy {
        /// Source buffer.
        from: PayloadId,
        /// First byte in it.
        from_offset_bytes: u64,
        /// Destination buffer.
        into: PayloadId,
        /// First byte in it.
        into_offset_bytes: u64,
        /// How many.
        length_bytes: u64,
    },
    /// Compute the CRC-32C of each whole 4 KiB block of this part of a buffer, and tell it as the
    /// completion of a command of this name.
    Checksum {
        /// Echoed in the completion.
        id: IoId,
        /// Which buffer.
        payload: PayloadId,
        /// First byte in it.
        offset_bytes: u64,
        /// How many.
        length_bytes: u64,
    },
    /// The engine needs this buffer no more.
    Release(PayloadId),
    /// Send `Event::Wake` at this instant (or as soon as possible after). A later call replaces an
    /// earlier one; `Instant::NEVER` disarms.
    WakeAt(Instant),
    /// Formatting or recovery is over; requests are welcome, or the pool cannot be served and why.
    Started(Result<(), crate::StartError>),
    /// The clean shutdown is complete.
    Stopped,
    /// The successor takes this drive's place in the event loop; what was there is let go. Nothing is under
    /// way with either.
    Succeed {
        /// Whose place.
        device: DeviceId,
    },
    /// This drive was removed: it is let go, and its place stays empty. Nothing is under way with it.
    Close {
        /// Which drive.
        device: DeviceId,
    },
    /// The successor of this drive is let go: it will not take its place. Nothing is under way with it.
    LetGo {
        /// Whose place it would have had.
        device: DeviceId,
    },
}

/// One device command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Echoed in the completion.
    pub id: IoId,
    /// Which drive.
    pub device: DeviceId,
    /// What to do.
    pub op: IoOp,
}

/// Kinds of device command. Offsets and lengths are in bytes, multiples of 512.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Read data into a buffer.
    Read {
        /// First byte on the drive.
        offset_bytes: u64,
        /// How many.
        length_bytes: u64,
        /// Which buffer.
        into: PayloadId,
        /// Where in it.
        into_offset_bytes: u64,
    },
    /// Write data from a buffer.
    Write {
        /// First byte on the drive.
        offset_bytes: u64,
        /// How many.
        length_bytes: u64,
        /// Which buffer.
        from: PayloadId,
        /// Where in it.
        from_offset_bytes: u64,
        /// Durable before it is acknowledged.
        fua: bool,
    },
    /// Read the engine's own bytes; they come with the completion.
    ReadMeta {
        /// First byte on the drive.
        offset_bytes: u64,
        /// How many.
        length_bytes: u64,
    },
    /// Write the engine's own bytes.
    WriteMeta {
        /// First byte on the drive.
        offset_bytes: u64,
        /// The bytes, a multiple of 512 of them.
        bytes: Vec<u8>,
        /// Durable before it is acknowledged.
        fua: bool,
    },
    /// Settle every write acknowledged before.
    Flush,
    /// The range is not needed any more.
    Trim {
        /// First byte on the drive.
        offset_bytes: u64,
        /// How many.
        length_bytes: u64,
    },
}

impl IoOp {
    /// Does it fetch bytes?
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, IoOp::Read { .. } | IoOp::ReadMeta { .. })
    }

    /// Does it name blocks with users' data?
    pub(crate) fn names_data(&self) -> bool {
        matches!(self, IoOp::Read { .. } | IoOp::Write { .. } | IoOp::Trim { .. })
    }

    /// Does it read whole sectors, or change whole blocks, from whole blocks of memory? So a drive may have
    /// sectors as large as a block.
    #[inline]
    pub(crate) fn is_aligned(&self) -> bool {
        match self {
            IoOp::Read { offset_bytes, length_bytes, .. } => {
                (offset_bytes | length_bytes).is_multiple_of(SECTOR_BYTES)
            }
            IoOp::Write { offset_bytes, length_bytes, from_offset_bytes, .. } => {
                (offset_bytes | length_bytes | from_offset_bytes).is_multiple_of(BLOCK_BYTES)
            }
            IoOp::ReadMeta { offset_bytes, length_bytes }
            | IoOp::Trim { offset_bytes, length_bytes } => {
                (offset_bytes | length_bytes).is_multiple_of(BLOCK_BYTES)
            }
            IoOp::WriteMeta { offset_bytes, bytes, .. } => {
                (offset_bytes | bytes.len() as u64).is_multiple_of(BLOCK_BYTES)
            }
            IoOp::Flush => true,
        }
    }

    /// The bytes of the drive that it reads or writes.
    #[inline]
    pub(crate) fn place(&self) -> Option<std::ops::Range<u64>> {
        match self {
            IoOp::Read { offset_bytes, .. }
            | IoOp::Write { offset_bytes, .. }
            | IoOp::ReadMeta { offset_bytes, .. }
            | IoOp::WriteMeta { offset_bytes, .. } => {
                Some(*offset_bytes..offset_bytes.saturating_add(self.bytes()))
            }
            IoOp::Flush | IoOp::Trim { .. } => None,
        }
    }

    /// Bytes that it moves.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            IoOp::Read { length_bytes, .. }
            | IoOp::Write { length_bytes, .. }
            | IoOp::ReadMeta { length_bytes, .. } => *length_bytes,
            IoOp::WriteMeta { bytes, .. } => bytes.len() as u64,
            IoOp::Flush | IoOp::Trim { .. } => 0,
        }
    }
}

/// The end of a request, with what statistics want to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which request.
    pub request: RequestId,
    /// How it ended.
    pub status: Result<(), IoError>,
    /// A read's buffer, or `PayloadId::NONE`.
    pub payload: PayloadId,
    /// Where in that buffer the requested bytes begin.
    pub skip_bytes: u64,
    /// Time from arrival to the first device command, in ns (stage *wait*).
    pub wait_ns: u64,
    /// Time from the first device command to the last completion, in ns (stage *device*).
    pub device_ns: u64,
    /// Where a read's bytes came from, the slowest place if several; where a write was steered to.
    pub served_from: ServedFrom,
}

/// Where the bytes of a read came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServedFrom {
    /// Not a read, or nothing had to be fetched: zeroes, and redirected data that is in RAM still.
    #[default]
    Ram,
    /// The only copy, on an SSD.
    Ssd,
    /// A clean copy on an SSD; the home is valid too.
    SsdCopy,
    /// A log of a hard drive.
    HddLog,
    /// The home on a hard drive.
    HddHome,
}
