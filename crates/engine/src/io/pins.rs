//! Pins: which blocks of a drive does a command name, so that nothing else may use them before it is over?
//!
//! Rule: a place that a command names stays as it is until the command has ended. The queue of a drive
//! takes the pin itself, for each command that moves data, when the command begins to wait. So no caller
//! can forget it. A slot that was freed is used again, and a home is written over, only where no pin lies.

use crate::map::Run;
use crate::port::IoOp;
use slab::Slab;
use tandem_block::BLOCK_BYTES;

/// One command's claim to the blocks that it names. It is given back once, with `Pins::unpin`.
///
/// It can be cloned only because a whole engine can, for tests that fork one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a pin that is not given back keeps its blocks for ever"]
pub struct Pin(Option<u32>);

impl Pin {
    /// The pin of what names no blocks: a flush, metadata, or a write whose blocks are not chosen yet.
    pub const NONE: Pin = Pin(None);
}

#[derive(Clone, Copy, Debug)]
struct Pinned {
    first_block: u64,
    end_block: u64,
    /// Somebody waits for the end of this pin.
    awaited: bool,
}

/// Blocks that are counted together in [`Pins::near`]: 64 KiB, about one command of a full queue.
const NEAR_BLOCKS: u64 = 16;

/// Counters in [`Pins::near`], a power of two. A drive has some hundred commands in flight (a guess of 2,048
/// is 8 KiB, which stays in the processor's cache).
const NEARS: u64 = 2_048;

/// The pins of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    pinned: Slab<Pinned>,
    /// How many pins touch the blocks of each stretch, all stretches of equal remainder together: a thousand
    /// slots are freed at once, and most of them lie near no pin.
    near: Box<[u32]>,
    /// A pin that somebody waited for has ended.
    freed: bool,
    #[cfg(feature = "mutants")]
    skips_next: bool,
}

impl Default for Pins {
    fn default() -> Pins {
        Pins {
            pinned: Slab::new(),
            near: vec![0; NEARS as usize].into_boxed_slice(),
            freed: false,
            #[cfg(feature = "mutants")]
            skips_next: false,
        }
    }
}

/// The counters in [`Pins::near`] of these blocks, each once.
#[inline]
fn nears(first_block: u64, end_block: u64) -> impl Iterator<Item = usize> {
    let (from, to) = (first_block / NEAR_BLOCKS, end_block.div_ceil(NEAR_BLOCKS));
    (from..to.min(from + NEARS)).map(|stretch| (stretch % NEARS) as usize)
}

impl Pins {
    /// Pins the blocks that a command names.
    ///
    /// # Panics
    /// If there are 2^32 pins: commands in flight are bounded far below.
    #[inline]
    pub(crate) fn pin(&mut self, op: &IoOp) -> Pin {
        let (offset_bytes, length_bytes) = match *op {
            IoOp::Read { offset_bytes, length_bytes, .. }
            | IoOp::Write { offset_bytes, length_bytes, .. }
            | IoOp::Trim { offset_bytes, length_bytes } => (offset_bytes, length_bytes),
            IoOp::ReadMeta { .. } | IoOp::WriteMeta { .. } | IoOp::Flush => return Pin::NONE,
        };
        #[cfg(feature = "mutants")]
        if std::mem::take(&mut self.skips_next) {
            return Pin::NONE;
        }
        let first_block = offset_bytes / BLOCK_BYTES;
        let end_block = (offset_bytes + length_bytes).div_ceil(BLOCK_BYTES);
        assert!(length_bytes > 0, "a command that moves data names some");
        let key = self.pinned.insert(Pinned { first_block, end_block, awaited: false });
        nears(first_block, end_block).for_each(|at| self.near[at] += 1);
        Pin(Some(u32::try_from(key).expect("commands in flight are bounded")))
    }

    /// For a mutant: the next command names blocks that it does not pin.
    #[cfg(feature = "mutants")]
    pub(crate) fn skip_next(&mut self) {
        self.skips_next = true;
    }

    /// The command is over.
    ///
    /// # Panics
    /// If the pin is not one of this drive's.
    #[inline]
    pub(crate) fn unpin(&mut self, pin: Pin) {
        if let Pin(Some(key)) = pin {
            let ended = self.pinned.remove(key as usize);
            self.freed |= ended.awaited;
            for at in nears(ended.first_block, ended.end_block) {
                assert!(self.near[at] > 0, "a pin that ends was counted");
                self.near[at] -= 1;
            }
        }
    }

    /// How many commands pin blocks.
    pub(crate) fn len(&self) -> usize {
        self.pinned.len()
    }

    /// Does any command pin blocks?
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pinned.is_empty()
    }

    /// Does a command name any of these blocks of the drive?
    #[inline]
    pub(crate) fn touches(&self, first_block: u64, count: u64) -> bool {
        let end_block = first_block + count;
        let is_near = nears(first_block, end_block).any(|at| self.near[at] > 0);
        let touches = |pin: &Pinned| pin.first_block < end_block && first_block < pin.end_block;
        is_near && self.pinned.iter().any(|(_, pin)| touches(pin))
    }

    /// Does no command name any of these blocks of the drive? If one does, it is noted that somebody waits.
    pub(crate) fn await_free(&mut self, first_block: u64, count: u64) -> bool {
        !self.touches(first_block, count)
            || self.first_pinned(first_block, first_block + count).is_none()
    }

    /// Has a pin ended that somebody waited for, since this was asked last?
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// The first part of `first..end` that a command names; who asked waits for it.
    fn first_pinned(&mut self, first: u64, end: u64) -> Option<(u64, u64)> {
        let mut found: Option<(u64, u64)> = None;
        for (_, pinned) in &mut self.pinned {
            let (from, to) = (pinned.first_block.max(first), pinned.end_block.min(end));
            if from < to {
                pinned.awaited = true;
                found = match found {
                    Some(known) if known.0 <= from => found,
                    _ => Some((from, to)),
                };
            }
        }
        found
    }

    /// Splits a run of freed slots, whose first one lies in this block of the drive, into parts that no
    /// command names (true) and parts that wait for a command's end (false).
    pub(crate) fn split(&mut self, run: Run, first_block: u64) -> Vec<(Run, bool)> {
        let mut parts = Vec::new();
        let (mut at, end) = (first_block, first_block + run.count);
        let part =
            |from: u64, to: u64| Run { slot: run.slot + (from - first_block), count: to - from };
        assert!(run.count > 0, "slots were freed");
        while at < end {
            let Some((from, to)) = self.first_pinned(at, end) else {
                parts.push((part(at, end), true));
                break;
            };
            if at < from {
                parts.push((part(at, from), true));
            }
            parts.push((part(from, to), false));
            at = to;
        }
        assert!(
            parts.iter().map(|(run, _)| run.count).sum::<u64>() == run.count,
            "the parts are the run"
        );
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::PayloadId;

    fn read(block: u64, count: u64) -> IoOp {
        IoOp::Read {
            offset_bytes: block * BLOCK_BYTES,
            length_bytes: count * BLOCK_BYTES,
            into: PayloadId::NONE,
            into_offset_bytes: 0,
        }
    }

    fn run(slot: u64, count: u64) -> Run {
        Run { slot, count }
    }

    #[test]
    fn what_a_command_names_waits_and_the_rest_does_not() {
        let mut pins = Pins::default();
        assert_eq!(pins.split(run(100, 10), 1000), [(run(100, 10), true)]);
        let long = pins.pin(&read(1002, 3));
        let short = pins.pin(&read(1004, 2));
        let far = pins.pin(&read(5000, 1));
        let parts = pins.split(run(100, 10), 1000);
        let want = [(100, 2, true), (102, 3, false), (105, 1, false), (106, 4, true)];
        assert_eq!(parts, want.map(|(slot, count, free)| (run(slot, count), free)));
        assert!(!pins.take_freed());
        pins.unpin(far);
        assert!(!pins.take_freed(), "nobody waited for it");
        pins.unpin(long);
        assert!(pins.take_freed() && !pins.take_freed());
        assert!(!pins.await_free(1003, 2) && pins.await_free(1006, 100));
        assert!(pins.touches(1005, 1) && !pins.touches(1002, 2) && !pins.touches(5000, 1));
        assert!(!pins.touches(0, 1), "what was given back lies nowhere");
        pins.unpin(short);
        assert!(pins.await_free(0, u64::MAX) && pins.is_empty());
    }

    #[test]
    fn a_part_of_a_block_pins_all_of_it_and_metadata_pins_nothing() {
        let mut pins = Pins::default();
        let sector = pins.pin(&IoOp::Trim { offset_bytes: 4096 + 512, length_bytes: 512 });
        assert!(!pins.await_free(1, 1) && pins.await_free(2, 1) && pins.await_free(0, 1));
        assert_eq!(pins.pin(&IoOp::Flush), Pin::NONE);
        pins.unpin(Pin::NONE);
        pins.unpin(sector);
        assert!(pins.is_empty());
    }
}
