//! Which bytes can the drive return without moving its head? What it holds or has read ahead.
//!
//! Source: models §2 (DiskSim's segments) and §6.1 ("buffer read hits"); sizes are the spec's.

use std::collections::VecDeque;

/// Extents that the buffer remembers at most. Source: guess; drives of that time have some dozens
/// of segments.
const SEGMENTS_MAX: usize = 32;

/// The drive's memory of recent writes and of the last read.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Recently written extents (first byte, end), oldest first.
    writes: VecDeque<(u64, u64)>,
    written_bytes: u64,
    bytes_max: u64,
    /// End of the last read from the platter, and when it ended.
    read_end: Option<(u64, u64)>,
    read_ahead_bytes: u64,
}

impl Buffer {
    pub(super) fn new(bytes_max: u64, read_ahead_bytes: u64) -> Self {
        let writes = VecDeque::with_capacity(SEGMENTS_MAX + 1);
        Buffer { writes, written_bytes: 0, bytes_max, read_end: None, read_ahead_bytes }
    }

    /// Remembers a write and forgets the oldest beyond the buffer's size.
    pub(super) fn note_write(&mut self, offset: u64, bytes: u64) {
        match self.writes.back_mut() {
            Some(last) if last.1 == offset => last.1 += bytes,
            _ => self.writes.push_back((offset, offset + bytes)),
        }
        self.written_bytes += bytes;
        while self.written_bytes > self.bytes_max || self.writes.len() > SEGMENTS_MAX {
            let Some(oldest) = self.writes.front_mut() else { break };
            let excess = self.written_bytes.saturating_sub(self.bytes_max);
            let length = oldest.1 - oldest.0;
            if excess > 0 && excess < length {
                oldest.0 += excess;
                self.written_bytes -= excess;
            } else {
                self.written_bytes -= length;
                self.writes.pop_front();
            }
        }
    }

    /// Remembers where and when a read from the platter ended.
    pub(super) fn note_read(&mut self, end: u64, ended_ns: u64) {
        self.read_end = Some((end, ended_ns));
    }

    /// The head went elsewhere: reading ahead has stopped.
    pub(super) fn stop_reading_ahead(&mut self) {
        self.read_end = None;
    }

    /// Does a read at `offset` continue the last one?
    pub(super) fn continues(&self, offset: u64) -> bool {
        self.read_end.is_some_and(|(end, _)| end == offset)
    }

    /// Is the whole range among the recent writes, in one piece?
    pub(super) fn holds_written(&self, offset: u64, bytes: u64) -> bool {
        self.writes.iter().any(|extent| extent.0 <= offset && offset + bytes <= extent.1)
    }

    /// Is the whole range read ahead, if the platter passes `passed(ns)` bytes in `ns`?
    pub(super) fn holds_read(
        &self,
        now_ns: u64,
        (offset, bytes): (u64, u64),
        passed: impl Fn(u64) -> u64,
    ) -> bool {
        self.read_end.is_some_and(|(end, ended_ns)| {
            let ahead = passed(now_ns.saturating_sub(ended_ns)).min(self.read_ahead_bytes);
            offset >= end && offset + bytes <= end + ahead
        })
    }

    /// The power failed.
    pub(super) fn clear(&mut self) {
        self.writes.clear();
        self.written_bytes = 0;
        self.read_end = None;
    }
}
