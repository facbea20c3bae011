//! Where do bytes lie while drives and sockets read and write them? In aligned memory that outlives
//! every operation on it, taken from a bounded pool.
//!
//! A [`Memory`] is shared between the payload store and the ring (`Rc`), so it is used like a
//! `Cell`: bytes are copied in and out, and no reference into it escapes while it may be shared.
//! The kernel writes into it only within ranges that were given to an operation in flight; the
//! engine does not touch such a range, and if it did, the checksum would tell.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;

/// Alignment of every buffer in bytes: enough for `O_DIRECT` on any drive, and one page.
pub const ALIGN_BYTES: usize = 4096;
/// Memory of this size and more is mapped for itself.
pub const MAP_FROM_BYTES: usize = 1 << 20;

/// A piece of page-aligned memory of fixed size.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
}

impl Memory {
    /// Zero-filled memory of at least `length` bytes (at least 1), rounded up to whole pages. From
    /// [`MAP_FROM_BYTES`] on, a page costs nothing until it is touched.
    ///
    /// # Panics
    /// If the system has no memory left.
    pub fn zeroed(length: usize) -> Memory {
        Self::try_zeroed(length).unwrap_or_else(|| handle_alloc_error(Self::layout(length.max(1))))
    }

    /// As [`Memory::zeroed`]; `None` if the system, or a limit of this process, leaves no memory.
    pub fn try_zeroed(length: usize) -> Option<Memory> {
        let length = length.max(1).next_multiple_of(ALIGN_BYTES);
        if length >= MAP_FROM_BYTES {
            return Self::mapped(length);
        }
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(Self::layout(length)) };
        NonNull::new(start).map(|start| Memory { start, length })
    }

    /// The allocator would write the zeroes of aligned memory itself; the kernel does it lazily.
    fn mapped(length: usize) -> Option<Memory> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = NonNull::new(start.ok()?.cast::<u8>())?;
        Some(Memory { start, length })
    }

    /// Has every page made now, in large ones where the system has them, instead of at first touch:
    /// that took more than half of a RAM drive's time (measured). A refusal leaves it as it was.
    pub fn populate(&self) {
        if self.length < MAP_FROM_BYTES {
            return;
        }
        for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
            let start = self.pointer(0, self.length);
            // SAFETY: our own private anonymous mapping; neither advice changes what it holds.
            let _ = unsafe { madvise(start.cast(), self.length, advice) };
        }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGN_BYTES).expect("a buffer is smaller than half of RAM")
    }

    /// Its size in bytes, a multiple of 4096.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never true; for symmetry with `len`.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The address of byte `at`, for the ring.
    pub(crate) fn pointer(&self, at: usize, length: usize) -> *mut u8 {
        self.check(at, length);
        // SAFETY: `at` lies within the allocation (checked above).
        unsafe { self.start.as_ptr().add(at) }
    }

    fn check(&self, at: usize, length: usize) {
        let end = at.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length), "{at}+{length} ends beyond the buffer");
    }

    /// The bytes, where this is the only owner.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let start = self.pointer(range.start, range.len());
        // SAFETY: in bounds, initialised at birth, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start, range.len()) }
    }

    /// Lets `look` see a range. It must not change this memory meanwhile (private: every use is in
    /// this file and copies or sums).
    fn with<R>(&self, at: usize, length: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        let start = self.pointer(at, length);
        // SAFETY: in bounds and initialised at birth; not `Send`, and `look` changes nothing, so
        // nobody of this process writes meanwhile.
        look(unsafe { std::slice::from_raw_parts(start, length) })
    }

    /// Copies `bytes` to `at`.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let start = self.pointer(at, bytes.len());
        // SAFETY: in bounds; `bytes` cannot overlap, because no reference into it is ever given
        // out while it is shared.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
    }

    /// Copies from `at` into `bytes`.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        self.with(at, bytes.len(), |source| bytes.copy_from_slice(source));
    }

    /// Appends a range to `out`.
    pub fn append_to(&self, at: usize, length: usize, out: &mut Vec<u8>) {
        self.with(at, length, |source| out.extend_from_slice(source));
    }

    /// Writes `head` and then a range to a descriptor, in one call.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn write_out(
        &self,
        fd: BorrowedFd<'_>,
        head: &[u8],
        at: usize,
        length: usize,
    ) -> rustix::io::Result<usize> {
        self.with(at, length, |bytes| {
            rustix::io::writev(fd, &[IoSlice::new(head), IoSlice::new(bytes)])
        })
    }

    /// Fills a range with zeroes.
    pub fn zero(&self, at: usize, length: usize) {
        let start = self.pointer(at, length);
        // SAFETY: in bounds.
        unsafe { std::ptr::write_bytes(start, 0, length) }
    }

    /// Copies between two memories, or within one (ranges may overlap).
    pub fn copy_from(&self, at: usize, source: &Memory, from: usize, length: usize) {
        let from = source.pointer(from, length);
        let into = self.pointer(at, length);
        // SAFETY: both in bounds; `copy` allows overlap.
        unsafe { std::ptr::copy(from, into, length) }
    }

    /// CRC-32C of a range.
    pub fn crc32c(&self, at: usize, length: usize) -> u32 {
        self.with(at, length, crc_fast::crc32_iscsi)
    }

    /// Says that a range is not needed: it reads as before or as zeroes, until it is written again.
    /// The system takes whole pages back when it needs them, so writing soon costs no page fault
    /// (returning them at once cost 60 % of a RAM drive's time, measured).
    pub fn forget(&self, at: usize, length: usize) {
        let first = at.next_multiple_of(ALIGN_BYTES);
        let end = (at + length) / ALIGN_BYTES * ALIGN_BYTES;
        if end <= first || self.length < MAP_FROM_BYTES {
            return;
        }
        let start = self.pointer(first, end - first);
        // SAFETY: whole pages of our own private anonymous mapping, whose contents nobody needs. A
        // refusal changes nothing.
        let _ = unsafe { madvise(start.cast(), end - first, Advice::LinuxFree) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.length >= MAP_FROM_BYTES {
            // SAFETY: mapped in `mapped` with this very length; nobody holds a pointer any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        } else {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.length)) }
        }
    }
}

/// Smallest pooled buffer: 4 KiB = 2^12.
const CLASS_MIN_LOG2: u32 = 12;
/// Largest pooled buffer: 32 MiB = 2^25, the largest request.
const CLASS_MAX_LOG2: u32 = 25;
const CLASSES: usize = (CLASS_MAX_LOG2 - CLASS_MIN_LOG2 + 1) as usize;

/// Bytes of the buffer that a pool gives for so many: the next power of two, if it is a pooled one.
pub fn taken_bytes(length: usize) -> usize {
    match Pool::class(length) {
        Some(class) => 1 << (class as u32 + CLASS_MIN_LOG2),
        None => length.next_multiple_of(ALIGN_BYTES),
    }
}

/// Buffers that were used before, by powers of two.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Rc<Memory>>; CLASSES],
    free_bytes: usize,
    free_bytes_max: usize,
}

impl Pool {
    /// A pool that keeps at most `free_bytes_max` bytes of unused buffers.
    pub fn new(free_bytes_max: usize) -> Pool {
        Pool { free: std::array::from_fn(|_| Vec::new()), free_bytes: 0, free_bytes_max }
    }

    /// A buffer of at least `length` bytes. Its contents are whatever it held before.
    ///
    /// # Panics
    /// If the system has no memory left, and giving back what is unused does not help.
    pub fn take(&mut self, length: usize) -> Rc<Memory> {
        match self.try_take(length) {
            Some(memory) => memory,
            None => {
                self.shrink(0);
                Rc::new(Memory::zeroed(taken_bytes(length)))
            }
        }
    }

    /// The same; `None` if the system, or a limit of this process, leaves no memory.
    pub fn try_take(&mut self, length: usize) -> Option<Rc<Memory>> {
        let class = Self::class(length);
        match class.and_then(|class| self.free[class].pop()) {
            Some(memory) => {
                self.free_bytes -= memory.len();
                Some(memory)
            }
            None => Memory::try_zeroed(taken_bytes(length)).map(Rc::new),
        }
    }

    /// Is there an unused buffer for so many bytes?
    pub fn has(&self, length: usize) -> bool {
        Self::class(length).is_some_and(|class| !self.free[class].is_empty())
    }

    /// Bytes of unused buffers.
    pub fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// Gives unused buffers back to the system, the largest first, until at most so many bytes are left.
    pub fn shrink(&mut self, free_bytes_max: usize) {
        for free in self.free.iter_mut().rev() {
            while self.free_bytes > free_bytes_max
                && let Some(memory) = free.pop()
            {
                self.free_bytes -= memory.len();
            }
        }
    }

    /// Gives a buffer back. It is kept if nobody else holds it and there is room.
    pub fn give(&mut self, mut memory: Rc<Memory>) {
        let room = self.free_bytes + memory.len() <= self.free_bytes_max;
        if let Some(class) = Self::class(memory.len())
            && room
            && Rc::get_mut(&mut memory).is_some()
        {
            self.free_bytes += memory.len();
            self.free[class].push(memory);
        }
    }

    fn class(length: usize) -> Option<usize> {
        let log2 = length.max(1).next_power_of_two().trailing_zeros().max(CLASS_MIN_LOG2);
        (log2 <= CLASS_MAX_LOG2).then_some((log2 - CLASS_MIN_LOG2) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_copied() {
        let a = Memory::zeroed(5000);
        assert_eq!((a.len(), a.pointer(0, 1) as usize % ALIGN_BYTES), (8192, 0));
        a.write(4090, b"hello tandem");
        let b = Memory::zeroed(1);
        b.copy_from(3, &a, 4090, 12);
        let mut out = [0u8; 12];
        b.read(3, &mut out);
        assert_eq!(&out, b"hello tandem");
        assert_eq!(b.crc32c(3, 12), crc_fast::crc32_iscsi(b"hello tandem"));
    }

    /// The check value that every CRC-32C states for "123456789".
    #[test]
    fn crc32c_is_castagnoli() {
        let memory = Memory::zeroed(16);
        memory.write(0, b"123456789");
        assert_eq!(memory.crc32c(0, 9), 0xE306_9283);
    }

    #[test]
    fn forgetting_touches_nothing_beside_its_range() {
        let size = MAP_FROM_BYTES;
        let memory = Memory::zeroed(size);
        for (at, length) in [(512, 512), (100, 9000), (4096, 8192), (4095, 4098), (0, size)] {
            memory.write(0, &vec![7u8; size]);
            memory.forget(at, length);
            let mut all = vec![1u8; size];
            memory.read(0, &mut all);
            for (index, byte) in all.iter().enumerate() {
                let inside = (at..at + length).contains(&index);
                assert!(*byte == 7 || (inside && *byte == 0), "byte {index} of {at}+{length}");
            }
        }
    }

    #[test]
    fn the_pool_reuses_and_stays_bounded() {
        let mut pool = Pool::new(8192);
        let first = pool.take(4096);
        let address = first.pointer(0, 1);
        pool.give(first);
        let again = pool.take(100);
        assert_eq!(again.pointer(0, 1), address);
        let shared = Rc::clone(&again);
        pool.give(again);
        assert_eq!(pool.free_bytes, 0, "a buffer that another holds is not reused");
        drop(shared);
        for _ in 0..4 {
            pool.give(Rc::new(Memory::zeroed(4096)));
        }
        assert_eq!(pool.free_bytes, 8192);
    }

    #[test]
    fn what_cannot_be_had_is_none_and_not_the_end() {
        assert!(Memory::try_zeroed(1 << 60).is_none(), "more than any machine maps");
        let mut pool = Pool::new(1 << 20);
        assert!(pool.try_take(1 << 60).is_none());
        assert!(!pool.has(4096));
        pool.give(Rc::new(Memory::zeroed(4096)));
        pool.give(Rc::new(Memory::zeroed(1 << 16)));
        assert!(pool.has(1) && pool.has(1 << 16) && !pool.has(8192));
        pool.shrink(5000);
        assert_eq!((pool.free_bytes(), pool.has(4096)), (4096, true), "the largest go first");
        assert_eq!([1, 4096, 4097, 33 << 20].map(taken_bytes), [4096, 4096, 8192, 33 << 20]);
    }

    #[test]
    #[should_panic(expected = "ends beyond the buffer")]
    fn bounds_are_checked() {
        Memory::zeroed(4096).zero(4095, 2);
    }
}
