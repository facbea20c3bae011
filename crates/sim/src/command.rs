//! What does a command of the engine ask of a modelled drive, and what does it change there?

use crate::contents::{SimSector, sectors_of};
use hashbrown::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use tandem_block::{DriveOp, DriveOpKind, PayloadId, SECTOR_BYTES, Ticket};
use tandem_drives::media::{Contents, Write};
use tandem_engine::{Io, IoOp};

/// The command as a drive sees it.
pub(crate) fn drive_op(op: &IoOp) -> DriveOp {
    let (kind, offset_bytes, length_bytes) = match op {
        IoOp::Read { offset_bytes, length_bytes, .. }
        | IoOp::ReadMeta { offset_bytes, length_bytes } => {
            (DriveOpKind::Read, *offset_bytes, *length_bytes)
        }
        IoOp::Write { offset_bytes, length_bytes, fua, .. } => {
            (DriveOpKind::Write { fua: *fua }, *offset_bytes, *length_bytes)
        }
        IoOp::WriteMeta { offset_bytes, bytes, fua } => {
            (DriveOpKind::Write { fua: *fua }, *offset_bytes, bytes.len() as u64)
        }
        IoOp::Flush => (DriveOpKind::Flush, 0, 0),
        IoOp::Trim { offset_bytes, length_bytes } => {
            (DriveOpKind::Trim, *offset_bytes, *length_bytes)
        }
    };
    DriveOp { kind, offset_bytes, length_bytes }
}

/// The change of contents that a command makes, if it makes one; `payloads` are the buffers.
pub(crate) fn write_of<S: BuildHasher>(
    (io, ticket): (&Io, Ticket),
    payloads: &HashMap<PayloadId, Vec<SimSector>, S>,
) -> Option<Write<SimSector>> {
    let (offset_bytes, contents) = match &io.op {
        IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes, .. } => {
            let first = (from_offset_bytes / SECTOR_BYTES) as usize;
            let count = (length_bytes / SECTOR_BYTES) as usize;
            let buffer = payloads
                .get(from)
                .unwrap_or_else(|| panic!("{io:?} is written from a released buffer"));
            let sectors: Arc<[SimSector]> = buffer[first..first + count].into();
            (*offset_bytes, Contents::Data(sectors))
        }
        IoOp::WriteMeta { offset_bytes, bytes, .. } => {
            (*offset_bytes, Contents::Data(sectors_of(bytes)))
        }
        IoOp::Trim { offset_bytes, length_bytes } => {
            (*offset_bytes, Contents::Zeroes(length_bytes / SECTOR_BYTES))
        }
        IoOp::Read { .. } | IoOp::ReadMeta { .. } | IoOp::Flush => return None,
    };
    Some(Write { ticket, offset_bytes, contents })
}
