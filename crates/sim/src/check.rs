//! Is what the volume says possible under the promise?
//!
//! Source: design "The promise". For every block the oracle keeps the states it went through, in the
//! order of the writes (requests that overlap are ordered), and how far a FLUSH or FUA has made them
//! durable. A running volume must answer with the state at the time of the read; after a crash a
//! block must be one of its states, whole, and none older than the durable one.

use std::collections::BTreeMap;
use tandem_block::{Op, Request, RequestId, SECTOR_BYTES, SECTORS_PER_BLOCK};

const SECTORS: usize = SECTORS_PER_BLOCK as usize;

/// Contents of a block: a token a sector.
pub type BlockState = [u64; SECTORS];

#[derive(Clone, Debug)]
struct History {
    states: Vec<BlockState>,
    /// Newest acknowledged state.
    acked: usize,
    /// Newest state known to be durable.
    durable: usize,
    /// A write failed: the block may hold anything from `durable` on.
    doubtful: bool,
}

impl Default for History {
    fn default() -> Self {
        History { states: vec![[0; SECTORS]], acked: 0, durable: 0, doubtful: false }
    }
}

/// (block, index of a state)
type Version = (u64, usize);

/// A violation of the promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A running volume answered a read with something else than the newest state.
    #[error("read of block {block}: got {found:x?}, the newest state is {expected:x?}")]
    StaleRead {
        /// Which block.
        block: u64,
        /// What came.
        found: Vec<u64>,
        /// What should have come.
        expected: Vec<u64>,
    },
    /// After a crash a block is older than its durable state, torn, or someone else's.
    #[error("after a crash block {block} is {found:x?}; possible are {possible:x?}")]
    Lost {
        /// Which block.
        block: u64,
        /// What it holds.
        found: BlockState,
        /// What it may hold.
        possible: Vec<BlockState>,
    },
    /// A request failed although no drive had failed.
    #[error("request {request:?} failed: {error}")]
    Failed {
        /// Which.
        request: RequestId,
        /// How.
        error: tandem_block::IoError,
    },
}

/// Knows what every block of one volume may hold.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<u64, History>,
    writes: BTreeMap<RequestId, Vec<Version>>,
    reads: BTreeMap<RequestId, Vec<Version>>,
    flushes: BTreeMap<RequestId, Vec<Version>>,
}

/// The token that request `number` writes into the `index`-th of its sectors.
pub fn token(number: u64, index: u64) -> u64 {
    (number + 1) << 16 | index & 0xffff
}

impl Oracle {
    /// A request is handed in.
    pub fn issued(&mut self, request: &Request) {
        let id = request.id;
        match request.op {
            Op::Flush => {
                let open = self.blocks.iter().filter(|(_, h)| h.acked > h.durable);
                let versions = open.map(|(&block, h)| (block, h.acked)).collect();
                self.flushes.insert(id, versions);
            }
            Op::Read => {
                let versions = blocks_of(request)
                    .map(|block| (block, self.blocks.entry(block).or_default().states.len() - 1))
                    .collect();
                self.reads.insert(id, versions);
            }
            Op::Write | Op::Discard | Op::WriteZeroes => {
                let versions = blocks_of(request).map(|block| self.push(block, request)).collect();
                self.writes.insert(id, versions);
            }
        }
    }

    fn push(&mut self, block: u64, request: &Request) -> Version {
        let history = self.blocks.entry(block).or_default();
        let mut state = *history.states.last().expect("there is always a state");
        let first = request.offset_bytes / SECTOR_BYTES;
        let end = first + request.length_bytes / SECTOR_BYTES;
        for (i, sector) in state.iter_mut().enumerate() {
            let at = block * SECTORS_PER_BLOCK + i as u64;
            if (first..end).contains(&at) {
                *sector = if request.op == Op::Write { token(request.id.0, at - first) } else { 0 };
            }
        }
        history.states.push(state);
        (block, history.states.len() - 1)
    }

    /// A request ended; `tokens` are a read's sectors.
    ///
    /// # Errors
    /// If that breaks the promise.
    pub fn done(
        &mut self,
        request: &Request,
        status: Result<(), tandem_block::IoError>,
        tokens: &[u64],
        may_fail: bool,
    ) -> Result<(), Violation> {
        let id = request.id;
        if let Err(error) = status {
            for (block, index) in self.writes.remove(&id).unwrap_or_default() {
                let history = self.blocks.entry(block).or_default();
                history.doubtful = true;
                // later part writes lie over what may not be there
                history.durable = history.durable.min(index - 1);
            }
            self.reads.remove(&id);
            self.flushes.remove(&id);
            return if may_fail { Ok(()) } else { Err(Violation::Failed { request: id, error }) };
        }
        for (block, index) in self.writes.remove(&id).unwrap_or_default() {
            let history = self.blocks.entry(block).or_default();
            history.acked = history.acked.max(index);
            if request.fua && !history.doubtful {
                history.durable = history.durable.max(index);
            }
        }
        for (block, index) in self.flushes.remove(&id).unwrap_or_default() {
            let history = self.blocks.entry(block).or_default();
            if !history.doubtful {
                history.durable = history.durable.max(index);
            }
        }
        match self.reads.remove(&id) {
            Some(versions) => self.check_read(request, &versions, tokens),
            None => Ok(()),
        }
    }

    fn check_read(
        &self,
        request: &Request,
        versions: &[Version],
        tokens: &[u64],
    ) -> Result<(), Violation> {
        let first = request.offset_bytes / SECTOR_BYTES;
        let end = first + request.length_bytes / SECTOR_BYTES;
        for &(block, index) in versions {
            let low = first.max(block * SECTORS_PER_BLOCK);
            let high = end.min((block + 1) * SECTORS_PER_BLOCK);
            let part = |state: &BlockState| {
                let start = (low - block * SECTORS_PER_BLOCK) as usize;
                state[start..start + (high - low) as usize].to_vec()
            };
            let found = &tokens[(low - first) as usize..(high - first) as usize];
            let history = &self.blocks[&block];
            // a write handed in after the read and before its answer is concurrent with it
            let from = if history.doubtful { history.durable.min(index) } else { index };
            // a failed write is there or not, sector by sector, under the part writes after it
            let mixed = history.doubtful
                && (0..found.len())
                    .all(|i| history.states[from..].iter().any(|state| part(state)[i] == found[i]));
            if !mixed && !history.states[from..].iter().any(|state| part(state) == found) {
                let expected = part(&history.states[index]);
                return Err(Violation::StaleRead { block, found: found.to_vec(), expected });
            }
        }
        Ok(())
    }

    /// The power failed: requests under way are forgotten.
    pub fn crashed(&mut self) {
        self.writes.clear();
        self.reads.clear();
        self.flushes.clear();
    }

    /// After a crash `block` holds `found`. From now on that is its durable state.
    ///
    /// # Errors
    /// If the promise does not allow it.
    pub fn found_after_crash(&mut self, block: u64, found: BlockState) -> Result<(), Violation> {
        let history = self.blocks.entry(block).or_default();
        let possible = &history.states[history.durable..];
        let mixed = history.doubtful
            && (0..SECTORS).all(|i| possible.iter().any(|state| state[i] == found[i]));
        if !mixed && !possible.contains(&found) {
            return Err(Violation::Lost { block, found, possible: possible.to_vec() });
        }
        *history = History { states: vec![found], ..History::default() };
        Ok(())
    }

    /// Every block ever touched.
    pub fn touched(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.keys().copied()
    }
}

fn blocks_of(request: &Request) -> std::ops::Range<u64> {
    let first = request.offset_bytes / (SECTOR_BYTES * SECTORS_PER_BLOCK);
    let end = request.offset_bytes + request.length_bytes;
    first..end.div_ceil(SECTOR_BYTES * SECTORS_PER_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{Instant, ObjectId};

    fn request(id: u64, op: Op, offset: u64, length: u64) -> Request {
        Request::new(RequestId(id), ObjectId(1), op, (offset, length), Instant::ZERO)
    }

    fn run(oracle: &mut Oracle, id: u64, op: Op, offset: u64, length: u64) {
        let r = request(id, op, offset, length);
        oracle.issued(&r);
        oracle.done(&r, Ok(()), &[], false).unwrap();
    }

    #[test]
    fn flushed_writes_must_survive_and_unflushed_ones_may() {
        let mut oracle = Oracle::default();
        run(&mut oracle, 1, Op::Write, 0, 4096);
        run(&mut oracle, 2, Op::Flush, 0, 0);
        run(&mut oracle, 3, Op::Write, 0, 512);
        let one: BlockState = std::array::from_fn(|i| token(1, i as u64));
        let mut three = one;
        three[0] = token(3, 0);
        for (found, fine) in [(one, true), (three, true), ([0; 8], false)] {
            let mut fork = oracle.clone();
            assert_eq!(fork.found_after_crash(0, found).is_ok(), fine, "{found:x?}");
        }
        let mut torn = one;
        torn[3] = 0;
        assert!(oracle.clone().found_after_crash(0, torn).is_err());
    }

    #[test]
    fn a_flush_covers_only_what_was_acknowledged_before_it() {
        let mut oracle = Oracle::default();
        let write = request(1, Op::Write, 0, 4096);
        oracle.issued(&write);
        run(&mut oracle, 2, Op::Flush, 0, 0);
        oracle.done(&write, Ok(()), &[], false).unwrap();
        assert!(oracle.found_after_crash(0, [0; 8]).is_ok());
    }

    #[test]
    fn stale_reads_are_seen() {
        let mut oracle = Oracle::default();
        run(&mut oracle, 1, Op::Write, 4096, 4096);
        let read = request(2, Op::Read, 4096, 512);
        oracle.issued(&read);
        assert!(oracle.clone().done(&read, Ok(()), &[token(1, 0)], false).is_ok());
        assert!(oracle.done(&read, Ok(()), &[0], false).is_err());
    }
}
