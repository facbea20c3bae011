//! How does a drive get what another one holds, a piece after the other?
//!
//! ```text
//! claim ─▶ read ─────────────▶ write ─▶ free, and a rest
//!            └─ unreadable: its blocks, one by one
//!                  └─ unreadable: lost, if who reads it can tell by a checksum
//! ```
//! What is written there waits while a piece is claimed. So nothing newer is under what is copied, and
//! what comes later goes to both drives as always. A block that could not be read counts as copied where a
//! checksum tells data from what the other drive has: a pair leaves it there, and a replacement, whose old
//! drive goes, writes zeroes. Where no checksum says so, it is not copied. Sends nothing itself: who copies
//! does.

use tandem_block::{BLOCK_BYTES, Instant, IoError, PayloadId};

/// Blocks that cannot be read at most: a drive that has lost more is not copied but mended otherwise
/// (guess).
const UNREADABLE_MAX: u64 = 4096;

/// A piece that is being copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte and end.
    pub(crate) range: (u64, u64),
    pub(crate) since: Instant,
    /// Where its bytes are, once it is sent.
    pub(crate) buffer: PayloadId,
    pub(crate) is_sent: bool,
}

/// What becomes of a piece that was read, or could not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// It is written.
    Whole,
    /// It is given free, and its blocks come one by one.
    ByBlocks,
    /// It counts as lost. Its checksum tells from data whatever the other drive has there.
    Unreadable,
    /// It cannot be copied.
    Lost,
}

/// Copies one piece after the other.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    claim: Option<Piece>,
    /// What could not be read as a whole goes block by block.
    careful: (u64, u64),
    unreadable_blocks: u64,
    rests_until: Instant,
}

impl Pieces {
    pub(crate) fn new() -> Pieces {
        Pieces { claim: None, careful: (0, 0), unreadable_blocks: 0, rests_until: Instant::ZERO }
    }

    pub(crate) fn claimed(&self) -> Option<Piece> {
        self.claim
    }

    /// Must who writes there wait?
    pub(crate) fn covers(&self, (start, end): (u64, u64)) -> bool {
        self.claim.is_some_and(|Piece { range, .. }| start < range.1 && range.0 < end)
    }

    /// Blocks that could not be read.
    pub(crate) fn unreadable_blocks(&self) -> u64 {
        self.unreadable_blocks
    }

    pub(crate) fn rests_until(&self) -> Instant {
        self.rests_until
    }

    /// The next piece waits until then.
    pub(crate) fn rest_until(&mut self, until: Instant) {
        self.rests_until = until;
    }

    /// Bytes of the piece that begins here, if it has so many otherwise.
    pub(crate) fn bytes_max(&self, first: u64, otherwise: u64) -> u64 {
        let careful = self.careful.0 <= first && first < self.careful.1;
        if careful { BLOCK_BYTES - first % BLOCK_BYTES } else { otherwise }
    }

    pub(crate) fn claim(&mut self, range: (u64, u64), since: Instant) {
        assert!(self.claim.is_none(), "one piece after the other");
        assert!(range.0 < range.1, "a piece has bytes");
        self.claim = Some(Piece { range, since, buffer: PayloadId::NONE, is_sent: false });
    }

    /// It is being read into this buffer, or other bytes take its place. Returns what it is.
    pub(crate) fn send(&mut self, buffer: PayloadId) -> Piece {
        let piece = self.claim.as_mut().expect("it was claimed");
        (piece.buffer, piece.is_sent) = (buffer, true);
        *piece
    }

    /// It was read, or could not be; `checked`: who reads it compares it with a checksum.
    pub(crate) fn read(&mut self, status: Result<(), IoError>, checked: bool) -> Read {
        let Err(error) = status else { return Read::Whole };
        let Piece { range: (first, end), is_sent, .. } = self.claim.expect("it was read");
        assert!(is_sent, "a piece is read after it was sent");
        // a silent drive may hold it
        let is_out = matches!(error, IoError::Dead(_) | IoError::NoAnswer(_));
        if is_out || self.unreadable_blocks >= UNREADABLE_MAX {
            return Read::Lost;
        }
        if end - first > BLOCK_BYTES {
            self.careful = (first, end);
            return Read::ByBlocks;
        }
        if !checked {
            return Read::Lost;
        }
        self.unreadable_blocks += 1;
        Read::Unreadable
    }

    /// It is free: it was written, or it will not be.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        self.claim.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::DeviceId;

    const REGION: u64 = 4 * BLOCK_BYTES;
    const BAD: Result<(), IoError> = Err(IoError::Device(DeviceId(0)));
    const DEAD: Result<(), IoError> = Err(IoError::Dead(DeviceId(0)));
    const SILENT: Result<(), IoError> = Err(IoError::NoAnswer(DeviceId(0)));

    fn block(index: u64) -> (u64, u64) {
        (index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES)
    }

    /// Reads the piece that begins here, and gives it free.
    fn copied(pieces: &mut Pieces, first: u64, status: Result<(), IoError>, checked: bool) -> Read {
        let range = (first, first + pieces.bytes_max(first, REGION));
        pieces.claim(range, Instant::ZERO);
        pieces.send(PayloadId(1));
        let read = pieces.read(status, checked);
        assert_eq!(pieces.take().map(|piece| (piece.range, piece.is_sent)), Some((range, true)));
        read
    }

    /// Two regions, of which the first one has two bad blocks: what is read, how, and what comes of it.
    #[test]
    fn a_region_with_bad_blocks_is_copied_block_by_block() {
        let mut pieces = Pieces::new();
        let table = [
            (0, BAD, true, Read::ByBlocks),
            (0, Ok(()), true, Read::Whole),
            (1, BAD, true, Read::Unreadable),
            (2, BAD, false, Read::Lost),
            (2, BAD, true, Read::Unreadable),
            (3, Ok(()), true, Read::Whole),
            (4, Ok(()), true, Read::Whole),
            (8, BAD, false, Read::ByBlocks),
            (8, DEAD, true, Read::Lost),
            (9, SILENT, true, Read::Lost),
            (12, SILENT, true, Read::Lost),
        ];
        for (index, (at, status, checked, want)) in table.into_iter().enumerate() {
            let read = copied(&mut pieces, block(at).0, status, checked);
            assert_eq!(read, want, "row {index}");
        }
        assert_eq!(pieces.unreadable_blocks(), 2, "those that a checksum tells from data");
        assert_eq!(pieces.bytes_max(block(7).0, REGION), REGION);
        assert_eq!(pieces.bytes_max(block(8).0 + 512, REGION), BLOCK_BYTES - 512);
    }

    #[test]
    fn what_is_written_there_waits_while_a_piece_is_claimed() {
        let mut pieces = Pieces::new();
        pieces.claim(block(3), Instant::ZERO);
        for (range, covered) in [(block(2), false), (block(3), true), (block(4), false)] {
            assert_eq!(pieces.covers(range), covered, "{range:?}");
        }
        pieces.take();
        assert!(!pieces.covers(block(3)), "what comes later goes to both drives");
    }

    #[test]
    fn a_drive_that_has_lost_too_much_is_not_copied() {
        let mut pieces = Pieces::new();
        copied(&mut pieces, 0, BAD, true);
        for _ in 0..UNREADABLE_MAX {
            assert_eq!(copied(&mut pieces, 0, BAD, true), Read::Unreadable);
        }
        for at in [0, REGION] {
            assert_eq!(copied(&mut pieces, at, BAD, true), Read::Lost, "at {at}");
        }
        assert_eq!(copied(&mut pieces, 0, Ok(()), true), Read::Whole, "what can be read is");
    }
}
