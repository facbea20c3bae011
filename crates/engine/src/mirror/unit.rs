//! What is noted next on a pair's journal, and what is a unit made of?
//!
//! A unit has a header, with the extents and checksums of some writes, and behind it their data. While it
//! is written its data is a copy, so that the cache need not keep it.

use super::cache::{Cache, Entry, EntryId, Progress};
use super::commands::{Commands, Part};
use super::config::Answer;
use super::ring;
use crate::format::pair_journal::{EXTENTS_MAX, RING_AT, UnitHeader, header_bytes, padded};
use crate::port::IoOp;
use std::collections::VecDeque;
use tandem_block::{BLOCK_BYTES, PayloadId};

/// A write that was not noted yet, with its order of acceptance and what it takes in the ring at most.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    id: EntryId,
    sequence: u64,
    bytes: u64,
}

/// Writes that wait to be noted, in the order of acceptance.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    writes: VecDeque<Accepted>,
    bytes: u64,
    /// One of them has FUA.
    is_urgent: bool,
}

/// Those of them that come next.
#[derive(Clone, Debug, Default)]
pub(super) struct Next {
    /// With their order of acceptance.
    entries: Vec<(EntryId, u64)>,
    extents: Vec<(u64, u64)>,
    data_bytes: u64,
    /// With those that are gone.
    taken: usize,
}

impl Next {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn blocks(&self) -> usize {
        (self.data_bytes / BLOCK_BYTES) as usize
    }

    /// What they take in the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        header_bytes(self.extents.len(), self.blocks()) + self.data_bytes
    }

    /// They go into this unit. Returns how many of them each leg lacks.
    pub(crate) fn begin(&self, unit: u64, cache: &mut Cache) -> [u32; 2] {
        let mut left = [0; 2];
        for &(id, _) in &self.entries {
            let entry = cache.entry_mut(id);
            assert_eq!(entry.journal, Progress::Waiting, "what is noted has waited for it");
            assert_eq!(entry.unit, 0, "a write goes into one unit");
            entry.journal = Progress::Sent;
            entry.unit = unit;
            entry.units.push(unit);
            for (leg, left) in left.iter_mut().enumerate() {
                *left += u32::from(entry.progress[leg] != Progress::Done);
            }
        }
        left
    }
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What they take in the ring at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does a FUA write wait?
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    pub(crate) fn push(&mut self, id: EntryId, entry: &Entry) {
        let last = self.writes.back().map_or(0, |waiting| waiting.sequence);
        assert!(entry.sequence > last, "writes are noted in the order of acceptance");
        self.is_urgent |= entry.fua;
        let bytes = ring::bytes_of(entry.length);
        self.writes.push_back(Accepted { id, sequence: entry.sequence, bytes });
        self.bytes += bytes;
    }

    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.bytes = 0;
    }

    /// What has waited longest, of so much data at most unless the first write has more.
    pub(crate) fn next(&self, bytes_max: u64, cache: &Cache) -> Next {
        let mut next = Next::default();
        for waiting in &self.writes {
            let live = cache.find(waiting.id, waiting.sequence);
            if let Some(entry) = live.filter(|entry| entry.journal == Progress::Waiting) {
                let bytes = padded(entry.length);
                let full = next.data_bytes + bytes > bytes_max || next.extents.len() == EXTENTS_MAX;
                if full && !next.is_empty() {
                    break;
                }
                next.data_bytes += bytes;
                next.entries.push((waiting.id, waiting.sequence));
                next.extents.push((entry.offset, entry.length));
            }
            next.taken += 1;
        }
        next
    }

    /// These wait no more.
    pub(crate) fn take(&mut self, next: &Next) {
        let gone: u64 = self.writes.drain(..next.taken).map(|waiting| waiting.bytes).sum();
        assert!(self.bytes >= gone, "what waits no more was counted");
        self.bytes -= gone;
        assert!(!self.writes.is_empty() || self.bytes == 0, "where nothing waits no room is kept");
        self.is_urgent &= !self.writes.is_empty();
    }

    /// Does anything wait that was accepted up to here?
    pub(crate) fn has_upto(&self, upto: u64, cache: &Cache) -> bool {
        let waits = |waiting: &Accepted| {
            let live = cache.find(waiting.id, waiting.sequence);
            live.is_some_and(|entry| entry.journal == Progress::Waiting)
        };
        self.writes.iter().take_while(|waiting| waiting.sequence <= upto).any(waits)
    }
}

/// The unit that is being written.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    header: UnitHeader,
    at: u64,
    /// Its writes, with their order of acceptance.
    entries: Vec<(EntryId, u64)>,
    staging: PayloadId,
    /// Parts that are not written yet.
    left: u32,
}

impl Unit {
    /// A unit of these writes, with such a header, at this place of the ring.
    pub(crate) fn new(
        header: UnitHeader,
        at: u64,
        next: Next,
        cache: &mut Cache,
        commands: &mut Commands,
    ) -> Unit {
        assert!(at.is_multiple_of(BLOCK_BYTES), "units begin with a block");
        assert!(!next.is_empty(), "a unit has writes");
        let checksums = vec![0; next.blocks()];
        let Next { entries, extents, data_bytes, .. } = next;
        let staging = stage(&entries, data_bytes, cache, commands);
        Unit { header: UnitHeader { extents, checksums, ..header }, at, entries, staging, left: 0 }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.header.sequence
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        self.header.data_bytes()
    }

    /// The copy of its data.
    pub(crate) fn staged(&self) -> Part {
        Part { payload: self.staging, offset: 0, length: self.data_bytes() }
    }

    pub(crate) fn buffer(&self) -> Option<PayloadId> {
        (self.staging != PayloadId::NONE).then_some(self.staging)
    }

    /// Has it a write that was accepted up to here?
    pub(crate) fn begins_upto(&self, upto: u64) -> bool {
        self.entries.first().is_some_and(|&(_, sequence)| sequence <= upto)
    }

    pub(crate) fn is_summed(&mut self, checksums: &[u32]) {
        let wanted = self.header.checksums.len();
        assert_eq!(checksums.len(), wanted, "a checksum for every block of the unit");
        self.header.checksums = checksums.to_vec();
    }

    /// It is about to be written: its header, and the bytes of header and data.
    pub(crate) fn begin(&mut self) -> (IoOp, u64, u64) {
        assert_eq!(self.left, 0, "a unit is written once");
        self.left = 2;
        let bytes = self.header.encode();
        let header_bytes = bytes.len() as u64;
        let header = IoOp::WriteMeta { offset_bytes: RING_AT + self.at, bytes, fua: false };
        (header, header_bytes, self.data_bytes())
    }

    pub(crate) fn data(&self) -> IoOp {
        IoOp::Write {
            offset_bytes: RING_AT + self.at + self.header.header_bytes(),
            length_bytes: self.data_bytes(),
            from: self.staging,
            from_offset_bytes: 0,
            fua: false,
        }
    }

    /// A part was written, or failed. Was it the last one?
    pub(crate) fn is_part_written(&mut self) -> bool {
        assert!(self.left > 0, "a unit has two parts");
        self.left -= 1;
        self.left == 0
    }

    /// It was written. Returns writes that may be answered now; those with FUA wait for a flush.
    pub(crate) fn acknowledge(
        self,
        rule: Answer,
        fua: &mut Vec<(EntryId, u64)>,
        cache: &mut Cache,
        contents: bool,
    ) -> Vec<EntryId> {
        assert_eq!(self.entries.len(), self.header.extents.len(), "each write has an extent");
        let mut noted = Vec::new();
        let mut block = 0;
        for ((id, sequence), (_, bytes)) in self.entries.into_iter().zip(self.header.extents) {
            let sums = &self.header.checksums[block..block + (bytes / BLOCK_BYTES) as usize];
            block += (padded(bytes) / BLOCK_BYTES) as usize;
            if cache.find(id, sequence).is_none() {
                continue;
            }
            let entry = cache.entry_mut(id);
            assert_eq!(entry.journal, Progress::Sent, "what was noted was in the unit");
            entry.journal = Progress::Done;
            if entry.fua && !entry.answered {
                fua.push((id, sequence));
            } else if !entry.answered && rule == Answer::Journaled {
                if contents {
                    entry.checksums = sums.to_vec();
                }
                noted.push(id);
            }
        }
        noted
    }
}

/// Copies of the writes, one behind the other.
fn stage(
    entries: &[(EntryId, u64)],
    length_bytes: u64,
    cache: &mut Cache,
    commands: &mut Commands,
) -> PayloadId {
    if !commands.has_contents() {
        return PayloadId::NONE;
    }
    let staging = commands.name_buffer();
    commands.reserve(staging, length_bytes);
    let mut at = 0;
    for &(id, _) in entries {
        let entry = cache.entry(id);
        let part = Part { payload: entry.payload, offset: 0, length: entry.length };
        commands.copy(part, staging, at);
        at += padded(entry.length);
    }
    assert_eq!(at, length_bytes, "the copies fill the unit");
    for &(id, _) in entries {
        commands.release_if(cache.forget(id));
    }
    staging
}
