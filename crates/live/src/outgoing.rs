//! What is sent next on a socket? Small pieces copied into one staging buffer, large ones by
//! reference, in order.

use crate::buffer::Memory;
use std::rc::Rc;

/// Pieces in one send at most: the kernel takes 1024 vectors, and each insert may split the
/// staging buffer once.
const INSERTS_MAX: usize = 500;

/// A large piece between two positions of the staging buffer.
#[derive(Debug)]
struct Insert {
    after_staged: usize,
    memory: Rc<Memory>,
    at: usize,
    length: usize,
}

/// A batch of bytes for one socket. It is moved into the ring while it is sent, and comes back.
#[derive(Debug, Default)]
pub struct Outgoing {
    staged: Vec<u8>,
    inserts: Vec<Insert>,
    length: usize,
    sent: usize,
}

/// One piece in place: address and length.
pub(crate) type Piece = (*const u8, usize);

impl Outgoing {
    /// An empty batch.
    pub fn new() -> Outgoing {
        Outgoing::default()
    }

    /// Bytes in it that are not sent yet.
    pub fn remaining(&self) -> usize {
        self.length - self.sent
    }

    /// Is there nothing to send?
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// May another shared piece be added?
    pub fn takes_more(&self) -> bool {
        self.inserts.len() < INSERTS_MAX
    }

    /// Lets `write` append to the staging buffer.
    pub fn stage<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = self.staged.len();
        let result = write(&mut self.staged);
        assert!(self.staged.len() >= before, "staged bytes are only appended");
        self.length += self.staged.len() - before;
        result
    }

    /// Appends bytes by reference.
    pub fn push_shared(&mut self, memory: Rc<Memory>, at: usize, length: usize) {
        assert!(at + length <= memory.len(), "a piece ends beyond its buffer");
        self.inserts.push(Insert { after_staged: self.staged.len(), memory, at, length });
        self.length += length;
    }

    /// Notes that the kernel took `bytes` more.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        assert!(self.sent <= self.length, "more was sent than there is");
    }

    /// Bytes of its own that it keeps, in use or not.
    pub fn kept_bytes(&self) -> usize {
        self.staged.capacity()
    }

    /// Bytes that were staged, sent or not.
    pub fn staged_bytes(&self) -> usize {
        self.staged.len()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.staged.clear();
        self.inserts.clear();
        (self.length, self.sent) = (0, 0);
    }

    /// What is not sent yet, piece by piece. The addresses hold until the batch is changed.
    pub(crate) fn pieces(&self, mut take: impl FnMut(Piece)) {
        let mut skip = self.sent;
        let mut emit = |start: *const u8, length: usize| {
            let skipped = skip.min(length);
            skip -= skipped;
            if skipped < length {
                take((start.wrapping_add(skipped), length - skipped));
            }
        };
        let mut staged_at = 0;
        for insert in &self.inserts {
            let staged = &self.staged[staged_at..insert.after_staged];
            emit(staged.as_ptr(), staged.len());
            staged_at = insert.after_staged;
            emit(insert.memory.pointer(insert.at, insert.length), insert.length);
        }
        let rest = &self.staged[staged_at..];
        emit(rest.as_ptr(), rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_and_resume_anywhere() {
        let memory = Rc::new(Memory::zeroed(4096));
        memory.write(10, b"PAYLOAD");
        let mut batch = Outgoing::new();
        batch.stage(|out| out.extend_from_slice(b"head"));
        batch.push_shared(Rc::clone(&memory), 10, 7);
        batch.push_shared(Rc::clone(&memory), 12, 2);
        batch.stage(|out| out.extend_from_slice(b"tail"));
        assert_eq!(batch.remaining(), 17);
        for (sent, want) in
            [(0, vec![4, 7, 2, 4]), (4, vec![7, 2, 4]), (3, vec![4, 2, 4]), (5, vec![1])]
        {
            batch.advance(sent);
            let mut lengths = Vec::new();
            batch.pieces(|(_, length)| lengths.push(length));
            let total: usize = lengths.iter().sum();
            assert_eq!(total, batch.remaining());
            if sent != 5 {
                assert_eq!(lengths, want, "after {sent}");
            }
        }
        batch.clear();
        assert!(batch.is_empty());
    }
}
