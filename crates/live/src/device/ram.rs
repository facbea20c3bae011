//! How does a RAM drive answer? At once, by copying.

use super::{Device, DeviceContext, IoDone, block_range, fits};
use crate::buffer::Memory;
use std::rc::Rc;
use tandem_block::{BLOCK_BYTES, IoError};
use tandem_engine::{Io, IoOp};

/// Memory as a drive. Nothing survives the process.
pub(crate) struct RamDevice {
    pub(super) memory: Rc<Memory>,
}

impl RamDevice {
    /// A drive of `bytes`, rounded down to 4096 (at least 4096), all zeroes.
    pub(crate) fn new(bytes: u64) -> RamDevice {
        let whole = (bytes / BLOCK_BYTES).max(1) * BLOCK_BYTES;
        let length = usize::try_from(whole).expect("a RAM drive fits the address space");
        RamDevice { memory: Rc::new(Memory::zeroed(length)) }
    }

    /// The same with all its memory there from the beginning: for a drive that is to be fast.
    pub(crate) fn populated(bytes: u64) -> RamDevice {
        let drive = RamDevice::new(bytes);
        drive.memory.populate();
        drive
    }
}

impl Device for RamDevice {
    fn capacity_bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    fn submit(&mut self, io: Io, context: &mut DeviceContext<'_>) {
        let mut done =
            IoDone { io: io.id, status: Ok(()), blocks: None, bytes: Vec::new(), took: None };
        if !fits(&io.op, self.capacity_bytes()) {
            done.status = Err(IoError::OutOfRange);
            context.done.push_back(done);
            return;
        }
        match io.op {
            IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes } => {
                let target = context.payloads.read_begins(into, into_offset_bytes, length_bytes);
                let (at, from) = (into_offset_bytes as usize, offset_bytes as usize);
                target.copy_from(at, &self.memory, from, length_bytes as usize);
                done.blocks = block_range(offset_bytes, into, into_offset_bytes, length_bytes);
            }
            IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes, .. } => {
                let source = context.payloads.source(from, from_offset_bytes, length_bytes);
                let (at, from_at) = (offset_bytes as usize, from_offset_bytes as usize);
                self.memory.copy_from(at, &source, from_at, length_bytes as usize);
                done.blocks = block_range(offset_bytes, from, from_offset_bytes, length_bytes);
            }
            IoOp::ReadMeta { offset_bytes, length_bytes } => {
                let (at, length) = (offset_bytes as usize, length_bytes as usize);
                self.memory.append_to(at, length, &mut done.bytes);
            }
            IoOp::WriteMeta { offset_bytes, bytes, .. } => {
                self.memory.write(offset_bytes as usize, &bytes);
            }
            // its memory stays: giving pages back and faulting them in again costs more than it frees
            IoOp::Trim { .. } | IoOp::Flush => {}
        }
        context.done.push_back(done);
    }

    fn finished(&mut self, _value: u64, _result: i32, _context: &mut DeviceContext<'_>) {
        unreachable!("a RAM drive starts no ring operations");
    }
}
