//! What the event loop does for the engine beside commands to drives: buffers, copies and answers.

use super::DeviceIo;
use crate::bcw::padding::SLOW_PADDING_BYTES;
use crate::port::{Command, Done, ServedFrom};
use tandem_block::{BLOCK_BYTES, IoError, PayloadId, Request, RequestId, SECTOR_BYTES};

impl DeviceIo {
    /// A buffer of our own; none where contents are of no account.
    pub(crate) fn reserve(&mut self, length_bytes: u64) -> PayloadId {
        if !self.config().contents {
            return PayloadId::NONE;
        }
        assert!(
            length_bytes > 0 && length_bytes.is_multiple_of(SECTOR_BYTES),
            "a buffer has whole sectors"
        );
        let payload = self.name_payload();
        self.send(Command::Reserve { payload, length_bytes });
        payload
    }

    /// A request that nothing was done for.
    pub(crate) fn refuse_request(&mut self, request: &Request, error: IoError) {
        if request.payload != PayloadId::NONE {
            self.send(Command::Release(request.payload));
        }
        self.say(request.id, Err(error));
    }

    /// Copies the masked sectors of a block-sized buffer into another buffer's block.
    pub(crate) fn copy_sectors(&mut self, from: PayloadId, into: PayloadId, at: u64, mask: u8) {
        assert!(from != into, "a buffer is not laid over itself");
        assert!(at.is_multiple_of(BLOCK_BYTES), "sectors are laid over a whole block");
        let mut sector = 0u64;
        while sector < 8 {
            if mask >> sector & 1 == 0 {
                sector += 1;
                continue;
            }
            let start = sector;
            while sector < 8 && mask >> sector & 1 == 1 {
                sector += 1;
            }
            self.send(Command::Copy {
                from,
                from_offset_bytes: start * SECTOR_BYTES,
                into,
                into_offset_bytes: at + start * SECTOR_BYTES,
                length_bytes: (sector - start) * SECTOR_BYTES,
            });
        }
    }

    /// Says no, or of a batch that was not durable yes, at once.
    pub(crate) fn say(&mut self, request: RequestId, status: Result<(), IoError>) {
        self.send(Command::Complete(Done {
            request,
            status,
            payload: PayloadId::NONE,
            skip_bytes: 0,
            wait_ns: 0,
            device_ns: 0,
            served_from: ServedFrom::Ram,
        }));
    }

    /// One more user of a buffer, which stays until the last one lets go of it.
    pub(crate) fn hold_buffer(&mut self, payload: PayloadId) {
        *self.held_buffers.entry(payload).or_insert(0) += 1;
    }

    /// One user of a buffer is gone.
    pub(crate) fn let_buffer_go(&mut self, payload: PayloadId) {
        let users = self.held_buffers.get_mut(&payload).expect("buffers that are held are counted");
        assert!(*users > 0, "a buffer that is held has users");
        *users -= 1;
        if *users == 0 {
            self.held_buffers.remove(&payload);
            if payload != PayloadId::NONE {
                self.send(Command::Release(payload));
            }
        }
    }

    /// A buffer of zeroes for padding, made once: padding must never carry anyone's data.
    pub(crate) fn padding_buffer(&mut self) -> PayloadId {
        if let Some(payload) = self.padding_buffer {
            return payload;
        }
        let payload = self.reserve(SLOW_PADDING_BYTES);
        self.padding_buffer = Some(payload);
        payload
    }
}
