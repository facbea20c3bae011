//! In which order is a drive copied, and what goes before it?
//!
//! ```text
//! superblock A | journal, roots, map, tables    | slots, homes, log                 | superblock B
//!   never         last, at one go                 first: this is what marks tell of    never
//! ```
//! Data first: every place that a durable record names was durable on both drives before, so a crash
//! leaves them alike wherever it matters, and the copy goes on at the mark. Metadata is written in place,
//! and of what was under way at a crash one drive may hold more than the other one; so it is copied anew
//! in every life, after the data. That is about a hundredth of a drive.
//!
//! One region at a time (`replicas/piece.rs`): it is claimed, what is being written there ends (and what comes waits), it is
//! read, written, and given free. While users have work for the drive, the copy rests after each region
//! as long as it took.

use super::{DriveCopy, Ending, Flight, Stage};
use crate::format::layout::{Layout, SUPERBLOCK_BYTES};
use crate::io::DeviceIo;
use crate::metadata::MetadataHomes;
use crate::policy::steering::Steering;
use crate::port::{Command, IoOp};
use crate::replacement::Replacement;
use crate::replicas::piece::{Piece, Read};
use crate::requests::Requests;
use crate::tiering::Tiers;
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, IoError, PayloadId};

/// What is copied, in order. Offsets in bytes, alike on both drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    spans: [(u64, u64); 3],
}

impl Plan {
    pub(crate) fn of(layout: &Layout, capacity_bytes: u64) -> Plan {
        let slots = (layout.slot_offset, layout.slot_count * BLOCK_BYTES);
        let homes = (layout.home_offset, layout.home_blocks * BLOCK_BYTES);
        let parts = [slots, homes].into_iter().filter(|(_, bytes)| *bytes > 0);
        let last = capacity_bytes / BLOCK_BYTES * BLOCK_BYTES - SUPERBLOCK_BYTES;
        let first = parts.clone().map(|(at, _)| at).min().unwrap_or(last);
        let end = parts.map(|(at, bytes)| at + bytes).max().unwrap_or(last);
        Plan { spans: [(first, end), (SUPERBLOCK_BYTES, first), (end, last)] }
    }

    /// Of metadata alone, which ends here.
    pub(crate) fn of_metadata(end: u64, capacity_bytes: u64) -> Plan {
        let last = capacity_bytes / BLOCK_BYTES * BLOCK_BYTES - SUPERBLOCK_BYTES;
        Plan { spans: [(end, end), (SUPERBLOCK_BYTES, end), (last, last)] }
    }

    /// All of it.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.spans.iter().map(|(first, end)| end - first).sum()
    }

    /// … without metadata.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.spans[0].1 - self.spans[0].0
    }

    /// The region that comes after so much was copied, of so many bytes at most.
    fn region(&self, copied_bytes: u64, bytes_max: u64) -> (u64, u64) {
        assert!(bytes_max > 0, "a region has some bytes");
        let mut before = copied_bytes;
        for (first, end) in self.spans {
            if before < end - first {
                let region = (first + before, (first + before + bytes_max).min(end));
                assert!(!self.is_superblock(region), "a drive's superblocks are its own");
                return region;
            }
            before -= end - first;
        }
        unreachable!("asked only while something is left")
    }

    /// Does this range touch what was copied when so much was?
    pub(crate) fn is_copied(&self, range: (u64, u64), copied_bytes: u64) -> bool {
        let mut left = copied_bytes;
        for (first, end) in self.spans {
            let here = left.min(end - first);
            if here > 0 && range.0 < first + here && first < range.1 {
                return true;
            }
            left -= here;
        }
        false
    }

    /// Is it a superblock's place, which belongs to one drive?
    pub(crate) fn is_superblock(&self, range: (u64, u64)) -> bool {
        range.0 < SUPERBLOCK_BYTES || range.0 >= self.spans[2].1
    }
}

pub(super) fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

impl DriveCopy {
    fn is_drained(&self, range: (u64, u64)) -> bool {
        let mut ranges = self.under_way.values().filter_map(|under| under.range);
        self.early.is_empty() && !ranges.any(|other| overlap(other, range))
    }

    fn is_in_metadata(&self) -> bool {
        self.copied_bytes >= self.plan.data_bytes()
    }
}

impl Replacement {
    fn release_piece(&mut self, io: &mut DeviceIo) -> Option<Piece> {
        let h = self.current.as_deref_mut().expect("asked while there is one");
        let piece = h.pieces.take()?;
        if piece.buffer != PayloadId::NONE {
            io.send(Command::Release(piece.buffer));
        }
        Some(piece)
    }

    pub(super) fn region_read(
        &mut self,
        status: Result<(), IoError>,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("its command ended");
        assert!(
            h.pieces.claimed().is_some_and(|piece| piece.is_sent),
            "a region is read when nothing is written there"
        );
        if h.stage != Stage::Copying {
            self.release_piece(io);
            return;
        }
        let checked = !h.is_in_metadata();
        let Piece { range: (first, end), mut buffer, .. } =
            h.pieces.claimed().expect("a region is read");
        match h.pieces.read(status, checked) {
            Read::Whole => {}
            Read::ByBlocks => {
                self.release_piece(io);
                self.give_free(io);
                return;
            }
            Read::Lost => {
                let why = h.source_failed();
                self.end_replacement(why, metadata, io);
                self.release_piece(io);
                return;
            }
            Read::Unreadable => {
                if buffer != PayloadId::NONE {
                    io.send(Command::Release(buffer));
                }
                buffer = io.reserve(BLOCK_BYTES);
                h.pieces.send(buffer);
            }
        }
        let h = self.current.as_deref_mut().expect("its command ended");
        let place = h.place;
        let op = IoOp::Write {
            offset_bytes: first,
            length_bytes: end - first,
            from: buffer,
            from_offset_bytes: 0,
            fua: false,
        };
        self.send_replacement(place, op, Flight::CopyWrite, io);
    }

    pub(super) fn region_written(
        &mut self,
        status: Result<(), IoError>,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let piece = self.release_piece(io).expect("a region is written");
        assert!(piece.is_sent, "a region is written when it has been read");
        let now = io.now();
        let h = self.current.as_deref_mut().expect("its command ended");
        if h.stage != Stage::Copying {
            return;
        }
        if let Err(error) = status {
            self.end_replacement(Ending::SuccessorFailed(error), metadata, io);
            return;
        }
        let bytes = piece.range.1 - piece.range.0;
        h.copied_bytes += bytes;
        assert!(h.copied_bytes <= h.plan.total_bytes(), "no more is copied than there is");
        h.stats.copied_bytes += bytes;
        h.pieces.rest_until(now + now.since(piece.since));
        let device = h.device;
        if let Some(bcw) = &mut io[device].bcw {
            bcw.undisturbed(now);
        }
        self.give_free(io);
    }

    /// When the copy goes on although users have work for the drive.
    pub(crate) fn replacement_due(&self, io: &DeviceIo) -> Instant {
        let Some(h) = &self.current else { return Instant::NEVER };
        let is_free = h.stage == Stage::Copying && h.pieces.claimed().is_none();
        let rests_until = h.pieces.rests_until();
        if is_free && rests_until > io.now() { rests_until } else { Instant::NEVER }
    }

    /// Sends a command of the replacement's own.
    pub(super) fn send_replacement(
        &mut self,
        place: DeviceId,
        op: IoOp,
        flight: Flight,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("asked while there is one");
        let id = super::name(h.flights.insert(flight));
        io.send(Command::Submit(crate::port::Io { id, device: place, op }));
    }

    /// The next step of the copy, if it is its time.
    pub(super) fn run_copy(
        &mut self,
        requests: &mut Requests,
        steering: &mut Steering,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let (now, stopping) = (io.now(), io.is_stopping());
        let region_bytes = io.config().replacement_region_bytes;
        let h = self.current.as_deref_mut().expect("asked while there is one");
        if h.stage != Stage::Copying {
            return;
        }
        if h.pieces.claimed().is_none() {
            let busy = io[h.device].queue.length() > 0;
            if stopping || (busy && now < h.pieces.rests_until()) {
                return;
            }
            if h.copied_bytes == h.plan.total_bytes() {
                h.stage = Stage::Settling;
                return;
            }
            let (first, _) = h.plan.region(h.copied_bytes, BLOCK_BYTES);
            let bytes_max = h.pieces.bytes_max(first, region_bytes);
            h.pieces.claim(h.plan.region(h.copied_bytes, bytes_max), now);
        }
        let piece = h.pieces.claimed().expect("made above");
        assert!(
            piece.is_sent || piece.buffer == PayloadId::NONE,
            "a region has a buffer when it is read"
        );
        if piece.is_sent || !h.is_drained(piece.range) {
            return;
        }
        let (device, source) = (h.device, h.device);
        if !io[device].is_ssd() {
            tiers.policies.disturb(device, true, io, requests, steering);
        }
        let (first, end) = piece.range;
        let into = io.reserve(end - first);
        let h = self.current.as_deref_mut().expect("asked while there is one");
        h.pieces.send(into);
        let length_bytes = end - first;
        let op = IoOp::Read { offset_bytes: first, length_bytes, into, into_offset_bytes: 0 };
        self.send_replacement(source, op, Flight::CopyRead, io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::MIB;

    #[test]
    fn data_comes_first_metadata_last_and_superblocks_never() {
        let layout = Layout {
            home_offset: 10 * BLOCK_BYTES,
            home_blocks: 5,
            slot_offset: 15 * BLOCK_BYTES,
            slot_count: 3,
            ..Layout::default()
        };
        let plan = Plan::of(&layout, 20 * BLOCK_BYTES + 512);
        let block = |first: u64, end: u64| (first * BLOCK_BYTES, end * BLOCK_BYTES);
        assert_eq!(plan.spans, [block(10, 18), block(1, 10), block(18, 19)]);
        assert_eq!(plan.total_bytes(), 18 * BLOCK_BYTES);
        assert_eq!(plan.region(0, MIB), block(10, 18));
        assert_eq!(plan.region(8 * BLOCK_BYTES, 2 * BLOCK_BYTES), block(1, 3));
        assert_eq!(plan.region(17 * BLOCK_BYTES, MIB), block(18, 19));
        let copied = 10 * BLOCK_BYTES; // all data, and blocks 1 and 2
        for (range, is_copied) in [(block(17, 18), true), (block(2, 3), true), (block(3, 4), false)]
        {
            assert_eq!(plan.is_copied(range, copied), is_copied, "{range:?}");
        }
        assert!(!plan.is_copied(block(10, 11), 0));
        assert!(!plan.is_copied(block(18, 19), copied));
        for (at, is_superblock) in [(0, true), (1, false), (18, false), (19, true)] {
            assert_eq!(plan.is_superblock(block(at, at + 1)), is_superblock, "{at}");
        }
    }
}
