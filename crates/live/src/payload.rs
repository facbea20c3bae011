//! Where are the bytes of a request while the engine decides? In numbered payloads, each with the
//! CRC-32C of its blocks beside it.
//!
//! Source: design decisions 1 and 7. The event loop numbers what users bring (a slab), the engine what it
//! reserves. Checksums of a user's bytes are computed when the payload is sealed, those of bytes
//! read from a drive when the read completes; both travel with the completion, so the engine's map
//! learns what was really handed over.
//!
//! A reserved buffer is zero-filled by promise, but zeroes are written only where nothing else is:
//! `defined` is the part that holds bytes (or will, when a read in flight lands), and it grows by
//! filling gaps.

use crate::buffer::{Memory, Pool, taken_bytes};
use crate::memory::MemoryLimit;
use slab::Slab;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use tandem_block::{BLOCK_BYTES, PayloadId};

const BLOCK: usize = BLOCK_BYTES as usize;
/// Lists of checksums that are kept for later payloads, and the longest of them, in blocks: that of a
/// payload of 1 MiB.
const SPARE_MAX: usize = 1024;
const SPARE_BLOCKS_MAX: usize = 256;

#[derive(Debug)]
struct Payload {
    memory: Rc<Memory>,
    length: usize,
    /// The contiguous part that holds bytes; outside it the buffer reads as zeroes.
    defined: Range<usize>,
    /// First byte of the first whole block, for checksums.
    phase: usize,
    /// CRC-32C of each whole block from `phase` on, where known.
    checksums: Vec<Option<u32>>,
}

impl Payload {
    /// Makes `range` part of the defined bytes; gaps between become zeroes, the range itself is
    /// left as it is.
    fn define(&mut self, range: Range<usize>) {
        assert!(range.end <= self.length, "a range ends beyond its payload");
        if self.defined.is_empty() {
            self.defined = range;
            return;
        }
        if range.start > self.defined.end {
            self.memory.zero(self.defined.end, range.start - self.defined.end);
        } else if range.end < self.defined.start {
            self.memory.zero(range.end, self.defined.start - range.end);
        }
        self.defined = self.defined.start.min(range.start)..self.defined.end.max(range.end);
    }

    /// Makes `range` readable: what is not defined becomes zeroes.
    fn settle(&mut self, range: Range<usize>) {
        if self.defined.is_empty() {
            self.memory.zero(range.start, range.len());
        } else {
            if range.start < self.defined.start {
                self.memory.zero(range.start, self.defined.start - range.start);
            }
            if range.end > self.defined.end {
                self.memory.zero(self.defined.end, range.end - self.defined.end);
            }
        }
        self.define(range);
    }

    /// Slots of the blocks that `range` touches.
    fn slots(&self, range: &Range<usize>) -> Range<usize> {
        let first = range.start.saturating_sub(self.phase) / BLOCK;
        let end = range.end.saturating_sub(self.phase).div_ceil(BLOCK);
        first.min(self.checksums.len())..end.min(self.checksums.len())
    }

    fn forget_checksums(&mut self, range: &Range<usize>) {
        let slots = self.slots(range);
        self.checksums[slots].fill(None);
    }

    /// CRC-32C of the block at `at`, from memory if it is known.
    fn checksum(&mut self, at: usize) -> u32 {
        if at >= self.phase && (at - self.phase).is_multiple_of(BLOCK) {
            let slot = (at - self.phase) / BLOCK;
            if let Some(known) = self.checksums.get(slot).copied().flatten() {
                return known;
            }
            let sum = self.memory.crc32c(at, BLOCK);
            if let Some(place) = self.checksums.get_mut(slot) {
                *place = Some(sum);
            }
            return sum;
        }
        self.memory.crc32c(at, BLOCK)
    }
}

/// Spreads the engine's ids, which are small numbers with the top bit set.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

/// All payloads of one event loop.
#[derive(Debug)]
pub struct Payloads {
    user: Slab<Payload>,
    engine: HashMap<u64, Payload, BuildHasherDefault<IdHasher>>,
    pool: Pool,
    spare: Vec<Vec<Option<u32>>>,
    used_bytes: u64,
    /// Unused buffers are kept as far as these and those in use are no more than this together.
    kept_bytes_max: u64,
    limit: MemoryLimit,
}

impl Payloads {
    /// A store that keeps buffers for later payloads as long as it has, with them, `kept_bytes_max` in
    /// all. How much is in use is not its affair: front ends and the engine each bound themselves.
    pub fn new(kept_bytes_max: u64) -> Payloads {
        Payloads {
            user: Slab::new(),
            engine: HashMap::default(),
            pool: Pool::new(usize::try_from(kept_bytes_max / 2).unwrap_or(usize::MAX)),
            spare: Vec::new(),
            used_bytes: 0,
            kept_bytes_max,
            limit: MemoryLimit::of_this_process(),
        }
    }

    /// Bytes of all payloads now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Leaves a limit of the process room for so many bytes, beside those that were promised before?
    /// Asked before what a client wants is begun; always true without such a limit.
    pub fn has_memory(&mut self, bytes: u64, promised_bytes: u64) -> bool {
        if self.limit.has_room(bytes, promised_bytes) {
            return true;
        }
        self.pool.shrink(0);
        self.limit.has_room(bytes, promised_bytes)
    }

    /// Room among what is kept for a buffer that is new.
    fn make_room(&mut self, length: usize) {
        let wanted = self.used_bytes.saturating_add(taken_bytes(length) as u64);
        let left = self.kept_bytes_max.saturating_sub(wanted);
        self.pool.shrink(usize::try_from(left).unwrap_or(usize::MAX));
    }

    fn payload(&mut self, memory: Rc<Memory>, length: usize, phase: usize) -> Payload {
        let mut checksums = self.spare.pop().unwrap_or_default();
        checksums.resize(length.saturating_sub(phase) / BLOCK, None);
        self.used_bytes += length as u64;
        Payload { memory, length, defined: 0..0, phase, checksums }
    }

    /// A payload for `length` bytes that a user is about to bring for `offset_bytes` of an object.
    /// Fill it with [`Payloads::fill`] or through [`Payloads::memory`], then [`Payloads::seal`] it.
    /// `None` if there is no memory for it: the request is to be refused (`IoError::NoMemory`).
    pub fn begin(&mut self, length: usize, offset_bytes: u64) -> Option<PayloadId> {
        let memory = self.try_scratch(length)?;
        Some(self.adopt(memory, length, offset_bytes))
    }

    /// The same after [`Payloads::has_memory`] said that there is some.
    ///
    /// # Panics
    /// If there is none all the same.
    pub fn begin_anyway(&mut self, length: usize, offset_bytes: u64) -> PayloadId {
        let memory = self.scratch(length);
        self.adopt(memory, length, offset_bytes)
    }

    /// A payload around memory that a user has filled already, `length` bytes from its beginning
    /// on. Seal it.
    pub fn adopt(&mut self, memory: Rc<Memory>, length: usize, offset_bytes: u64) -> PayloadId {
        assert!(length <= memory.len(), "more bytes than the memory has");
        let past = (offset_bytes % BLOCK_BYTES) as usize;
        let mut payload = self.payload(memory, length, (BLOCK - past) % BLOCK);
        payload.defined = 0..length;
        PayloadId(self.user.insert(payload) as u64)
    }

    /// Copies a user's bytes into a payload that is being filled.
    pub fn fill(&mut self, id: PayloadId, at: usize, bytes: &[u8]) {
        let payload = self.get_mut(id);
        assert!(at + bytes.len() <= payload.length, "more bytes than were announced");
        payload.memory.write(at, bytes);
    }

    /// Computes the checksums of a filled payload; it is stable from here on.
    pub fn seal(&mut self, id: PayloadId) {
        let payload = self.get_mut(id);
        let (phase, blocks) = (payload.phase, payload.checksums.len());
        for slot in 0..blocks {
            payload.checksums[slot] = Some(payload.memory.crc32c(phase + slot * BLOCK, BLOCK));
        }
    }

    /// The memory behind a payload, for the ring: at least `length` bytes.
    pub fn memory(&self, id: PayloadId) -> Rc<Memory> {
        Rc::clone(&self.get(id).memory)
    }

    /// Makes the zero-filled buffer that the engine asked for.
    pub fn reserve(&mut self, id: PayloadId, length_bytes: u64) {
        assert!(id.0 & PayloadId::ENGINE_BIT != 0 && id != PayloadId::NONE, "not an engine's id");
        let length = usize::try_from(length_bytes).expect("a payload fits the address space");
        let memory = self.scratch(length);
        let payload = self.payload(memory, length, 0);
        let before = self.engine.insert(id.0, payload);
        assert!(before.is_none(), "payload {:x} is reserved twice", id.0);
    }

    /// Copies between payloads; checksums of whole blocks travel along.
    pub fn copy(&mut self, from: (PayloadId, u64), into: (PayloadId, u64), length_bytes: u64) {
        let length = length_bytes as usize;
        let (from_at, into_at) = (from.1 as usize, into.1 as usize);
        let source = self.get_mut(from.0);
        source.settle(from_at..from_at + length);
        let memory = Rc::clone(&source.memory);
        let mut known = self.spare.pop().unwrap_or_default();
        self.known_blocks(from.0, from_at, length, &mut known);
        let target = self.get_mut(into.0);
        target.define(into_at..into_at + length);
        target.memory.copy_from(into_at, &memory, from_at, length);
        target.forget_checksums(&(into_at..into_at + length));
        if into_at >= target.phase && (into_at - target.phase).is_multiple_of(BLOCK) {
            let first = (into_at - target.phase) / BLOCK;
            for (place, sum) in target.checksums.iter_mut().skip(first).zip(&known) {
                *place = *sum;
            }
        }
        known.clear();
        if known.capacity() <= SPARE_BLOCKS_MAX {
            self.spare.push(known);
        }
    }

    /// Known checksums of the whole blocks in a range that begins at a block.
    fn known_blocks(&self, id: PayloadId, at: usize, length: usize, out: &mut Vec<Option<u32>>) {
        let payload = self.get(id);
        if at >= payload.phase && (at - payload.phase).is_multiple_of(BLOCK) {
            let first = (at - payload.phase) / BLOCK;
            out.extend(payload.checksums.iter().skip(first).take(length / BLOCK));
        }
    }

    /// Forgets a payload; its buffer returns to the pool.
    pub fn release(&mut self, id: PayloadId) {
        let payload = if id.0 & PayloadId::ENGINE_BIT == 0 {
            self.user.try_remove(id.0 as usize)
        } else {
            self.engine.remove(&id.0)
        };
        let mut payload = payload.expect("the engine releases a payload once");
        self.used_bytes -= payload.length as u64;
        payload.checksums.clear();
        if self.spare.len() < SPARE_MAX && payload.checksums.capacity() <= SPARE_BLOCKS_MAX {
            self.spare.push(payload.checksums);
        }
        self.pool.give(payload.memory);
    }

    /// A read from a drive into `at..at + length` begins.
    pub fn read_begins(&mut self, id: PayloadId, at: u64, length: u64) -> Rc<Memory> {
        let range = at as usize..(at + length) as usize;
        let payload = self.get_mut(id);
        payload.define(range.clone());
        payload.forget_checksums(&range);
        Rc::clone(&payload.memory)
    }

    /// A read from a drive failed: its range becomes zeroes, so that no stranger's bytes show.
    pub fn read_failed(&mut self, id: PayloadId, at: u64, length: u64) {
        self.get_mut(id).memory.zero(at as usize, length as usize);
    }

    /// The bytes that a write sends to a drive.
    pub fn source(&mut self, id: PayloadId, at: u64, length: u64) -> Rc<Memory> {
        let payload = self.get_mut(id);
        payload.settle(at as usize..(at + length) as usize);
        Rc::clone(&payload.memory)
    }

    /// Appends the CRC-32C of each whole block of a range that begins at a block of its drive.
    pub fn checksums(&mut self, id: PayloadId, at: u64, length: u64, out: &mut Vec<u32>) {
        let payload = self.get_mut(id);
        let range = at as usize..(at + length) as usize;
        payload.settle(range.clone());
        out.extend(range.step_by(BLOCK).map(|at| payload.checksum(at)));
    }

    /// Appends a range of a payload to `out`, for a reply.
    pub fn append_to(&mut self, id: PayloadId, at: u64, length: u64, out: &mut Vec<u8>) {
        let payload = self.get_mut(id);
        payload.settle(at as usize..(at + length) as usize);
        payload.memory.append_to(at as usize, length as usize, out);
    }

    /// Writes `head` and then a range of a payload to a descriptor, in one call.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn write_out(
        &mut self,
        fd: BorrowedFd<'_>,
        head: &[u8],
        (id, at, length): (PayloadId, u64, u64),
    ) -> rustix::io::Result<usize> {
        let payload = self.get_mut(id);
        payload.settle(at as usize..(at + length) as usize);
        payload.memory.write_out(fd, head, at as usize, length as usize)
    }

    /// A buffer of the event loop's own, with whatever bytes it held before.
    ///
    /// # Panics
    /// If the system has no memory left; what clients ask for is refused before that ([`Payloads::begin`],
    /// [`Payloads::has_memory`]).
    pub fn scratch(&mut self, length: usize) -> Rc<Memory> {
        if !self.pool.has(length) {
            self.make_room(length);
        }
        self.pool.take(length)
    }

    /// The same for a client; `None` if the system, or a limit of the process, leaves no memory.
    pub fn try_scratch(&mut self, length: usize) -> Option<Rc<Memory>> {
        if !self.pool.has(length) {
            self.make_room(length);
            if !self.has_memory(taken_bytes(length) as u64, 0) {
                return None;
            }
        }
        self.pool.try_take(length)
    }

    /// Gives such a buffer back.
    pub fn give_back(&mut self, memory: Rc<Memory>) {
        self.pool.give(memory);
    }

    fn get(&self, id: PayloadId) -> &Payload {
        let found = if id.0 & PayloadId::ENGINE_BIT == 0 {
            self.user.get(id.0 as usize)
        } else {
            self.engine.get(&id.0)
        };
        found.expect("a payload is used between its reservation and its release")
    }

    fn get_mut(&mut self, id: PayloadId) -> &mut Payload {
        let found = if id.0 & PayloadId::ENGINE_BIT == 0 {
            self.user.get_mut(id.0 as usize)
        } else {
            self.engine.get_mut(&id.0)
        };
        found.expect("a payload is used between its reservation and its release")
    }
}

#[cfg(test)]
#[path = "payload/tests.rs"]
mod tests;
