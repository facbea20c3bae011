//! Is what the volume says possible under the promise?
//!
//! Source: design "The promise". For every block the oracle keeps the writes it has seen, in order
//! (requests that overlap are ordered), and how far a FLUSH or FUA has made them durable. A running
//! volume must answer with the state at the time of the read; after a crash a block must be one of
//! its states, whole, and none older than the durable one.
//!
//! A write that failed is there or not, per block and for good: what a read has shown stays so.

use std::collections::BTreeMap;
use tandem_block::{Op, Request, RequestId, SECTOR_BYTES, SECTORS_PER_BLOCK};

const SECTORS: usize = SECTORS_PER_BLOCK as usize;

/// Contents of a block: a token a sector.
pub type BlockState = [u64; SECTORS];

/// What one write did to a block.
#[derive(Clone, Debug)]
struct Change {
    /// Bit n: sector n is written.
    mask: u8,
    tokens: BlockState,
    /// It failed: it is there or not.
    doubtful: bool,
    /// It was answered.
    ended: bool,
    /// Before it is answered it may have failed here: drives fail.
    may_fail: bool,
    /// What reads after it have shown, if that decided anything.
    shown: Option<Vec<BlockState>>,
    /// It is a truncation: there if the batch of this number is, and only then.
    batch: Option<u64>,
}

impl Change {
    fn over(&self, state: &BlockState) -> BlockState {
        std::array::from_fn(|i| if self.mask >> i & 1 == 1 { self.tokens[i] } else { state[i] })
    }
}

/// A block: version 0 is before the first change, version n is after the n-th.
#[derive(Clone, Debug)]
struct History {
    /// What version 0 may be: one state, or several after an unreadable crash.
    first: Vec<BlockState>,
    changes: Vec<Change>,
    /// Newest version whose write was answered.
    answered: usize,
    /// Newest version known to be durable.
    durable: usize,
}

impl Default for History {
    fn default() -> Self {
        History::of(vec![[0; SECTORS]])
    }
}

impl History {
    fn of(first: Vec<BlockState>) -> Self {
        History { first, changes: Vec::new(), answered: 0, durable: 0 }
    }

    fn newest(&self) -> usize {
        self.changes.len()
    }

    /// A write was answered. Those that overlap are carried out one after the other, so the answer to one
    /// says that those before it are over. One that fails may have been refused at once, and says nothing.
    fn answers(&mut self, version: Option<usize>) {
        self.answered = self.answered.max(version.unwrap_or(0));
        while self.changes.get(self.answered).is_some_and(|change| change.ended) {
            self.answered += 1;
        }
    }

    /// What each version from `from` on may be, in order, each state once a version.
    fn possible(&self, from: usize) -> Vec<Vec<BlockState>> {
        let mut now = self.first.clone();
        let mut all = Vec::new();
        if from == 0 {
            all.push(now.clone());
        }
        for (number, change) in (1..).zip(&self.changes) {
            let mut next: Vec<BlockState> = now.iter().map(|state| change.over(state)).collect();
            if change.doubtful || change.may_fail && !change.ended {
                next.append(&mut now);
            }
            if next.len() > 1 {
                next.sort_unstable();
                next.dedup();
            }
            now = change.shown.clone().unwrap_or(next);
            if number >= from {
                all.push(now.clone());
            }
        }
        all
    }

    /// Notes that the newest version is one of those that `fits` accepts.
    fn show(&mut self, fits: impl Fn(&BlockState) -> bool) {
        let newest = self.newest();
        let mut states = self.possible(newest).remove(0);
        if states.len() == 1 {
            return;
        }
        states.retain(fits);
        match self.changes.last_mut() {
            Some(change) => change.shown = Some(states),
            None => self.first = states,
        }
    }
}

/// (block, number of a version)
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
    /// A request failed, and no fault that a drive had explains it.
    #[error("request {request:?} failed without a cause: {error}")]
    Unexplained {
        /// Which.
        request: RequestId,
        /// How.
        error: tandem_block::IoError,
    },
    /// Objects are not as the promise allows.
    #[error("{0}")]
    Objects(String),
    /// All faults are over, and requests fail for ever.
    #[error("after all faults {op:?} still fails: {error}")]
    NoFlow {
        /// Which request.
        op: Op,
        /// How.
        error: tandem_block::IoError,
    },
    /// One of several objects.
    #[error("object {}: {violation}; {told}", .object.0)]
    OfObject {
        /// Which.
        object: tandem_block::ObjectId,
        /// What is wrong with it.
        violation: Box<Violation>,
        /// Whose the contents are that were found, in words.
        told: String,
    },
    /// A start was refused, and no fault that a drive had explains it.
    #[error("refused without a cause: {error}")]
    RefusedUnexplained {
        /// What was said.
        error: tandem_engine::StartError,
    },
}

/// Knows what every block of one volume may hold.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<u64, History>,
    writes: BTreeMap<RequestId, Vec<Version>>,
    reads: BTreeMap<RequestId, Vec<Version>>,
    flushes: BTreeMap<RequestId, Vec<Version>>,
    may_fail: bool,
}

/// The token that request `number` writes into the `index`-th of its sectors.
pub fn token(number: u64, index: u64) -> u64 {
    (number + 1) << 16 | index & 0xffff
}

impl Oracle {
    /// Drives fail: a write that is under way may have failed on some of its blocks already, and what comes
    /// after it is carried out.
    pub fn expect_failures(&mut self) {
        self.may_fail = true;
    }

    /// A request is handed in.
    pub fn issued(&mut self, request: &Request) {
        let id = request.id;
        match request.op {
            Op::Flush => {
                let open = self.blocks.iter().filter(|(_, h)| h.answered > h.durable);
                let versions = open.map(|(&block, h)| (block, h.answered)).collect();
                self.flushes.insert(id, versions);
            }
            Op::Read => {
                let versions = blocks_of(request)
                    .map(|block| (block, self.blocks.entry(block).or_default().newest()))
                    .collect();
                self.reads.insert(id, versions);
            }
            Op::Write | Op::Discard | Op::WriteZeroes => {
                let versions = blocks_of(request).map(|block| self.push(block, request)).collect();
                self.writes.insert(id, versions);
            }
        }
    }

    /// A read is handed in of an object whose requests are carried out in parts, while drives fail: a write
    /// before it, of which one part has failed and another is under way, is not answered yet.
    pub fn issued_before_answers(&mut self, request: &Request) {
        let versions = blocks_of(request)
            .map(|block| (block, self.blocks.entry(block).or_default().answered))
            .collect();
        self.reads.insert(request.id, versions);
    }

    fn push(&mut self, block: u64, request: &Request) -> Version {
        let history = self.blocks.entry(block).or_default();
        let first = request.offset_bytes / SECTOR_BYTES;
        let end = first + request.length_bytes / SECTOR_BYTES;
        let (mut mask, mut tokens) = (0u8, [0; SECTORS]);
        for (i, sector) in tokens.iter_mut().enumerate() {
            let at = block * SECTORS_PER_BLOCK + i as u64;
            if (first..end).contains(&at) {
                mask |= 1 << i;
                *sector = if request.op == Op::Write { token(request.id.0, at - first) } else { 0 };
            }
        }
        let (shown, batch, may_fail) = (None, None, self.may_fail);
        let change = Change { mask, tokens, doubtful: false, ended: false, may_fail, shown, batch };
        history.changes.push(change);
        (block, history.newest())
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
        for (block, version) in self.writes.remove(&id).unwrap_or_default() {
            let history = self.blocks.entry(block).or_default();
            let change = &mut history.changes[version - 1];
            (change.doubtful, change.ended) = (status.is_err(), true);
            history.answers(status.is_ok().then_some(version));
            if request.fua && status.is_ok() {
                history.durable = history.durable.max(version);
            }
        }
        let reads = self.reads.remove(&id);
        let flushed = self.flushes.remove(&id).unwrap_or_default();
        if let Err(error) = status {
            return if may_fail { Ok(()) } else { Err(Violation::Failed { request: id, error }) };
        }
        for (block, version) in flushed {
            let history = self.blocks.entry(block).or_default();
            history.durable = history.durable.max(version);
        }
        match reads {
            Some(versions) => self.check_read(request, &versions, tokens),
            None => Ok(()),
        }
    }

    fn check_read(
        &mut self,
        request: &Request,
        versions: &[Version],
        tokens: &[u64],
    ) -> Result<(), Violation> {
        let first = request.offset_bytes / SECTOR_BYTES;
        let end = first + request.length_bytes / SECTOR_BYTES;
        for &(block, version) in versions {
            let low = first.max(block * SECTORS_PER_BLOCK);
            let high = end.min((block + 1) * SECTORS_PER_BLOCK);
            let start = (low - block * SECTORS_PER_BLOCK) as usize;
            let part = start..start + (high - low) as usize;
            let found = &tokens[(low - first) as usize..(high - first) as usize];
            let history = self.blocks.get_mut(&block).expect("made when the read was handed in");
            // a write handed in after the read and before its answer is concurrent with it
            let possible = history.possible(version);
            let fits = |state: &BlockState| state[part.clone()] == *found;
            if !possible.iter().flatten().any(fits) {
                let expected = possible[0][0][part].to_vec();
                return Err(Violation::StaleRead { block, found: found.to_vec(), expected });
            }
            if version == history.newest() && history.answered == version {
                history.show(fits);
            }
        }
        Ok(())
    }

    /// What is answered now, block by block.
    pub fn answered(&self) -> Vec<(u64, usize)> {
        self.blocks.iter().map(|(&block, history)| (block, history.answered)).collect()
    }

    /// From now on this counts as durable, as after a flush: whoever says so has a reason to expect it.
    pub fn expect_durable(&mut self, answered: &[(u64, usize)]) {
        for &(block, version) in answered {
            let history = self.blocks.entry(block).or_default();
            history.durable = history.durable.max(version);
        }
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
        let possible = after_crash(history);
        if !possible.contains(&found) {
            return Err(Violation::Lost { block, found, possible });
        }
        *history = History::of(vec![found]);
        Ok(())
    }

    /// A batch of this number, applied now, cuts everything from `block` on off. Nothing is under way.
    pub fn truncated(&mut self, block: u64, batch: u64) {
        for (_, history) in self.blocks.range_mut(block..) {
            let (mask, tokens) = (255, [0; SECTORS]);
            let batch = Some(batch);
            let (shown, doubtful) = (None, false);
            history.changes.push(Change {
                mask,
                tokens,
                doubtful,
                ended: true,
                may_fail: false,
                shown,
                batch,
            });
            history.answered = history.newest();
        }
    }

    /// After a crash that left batches up to this number, `block` holds `found`.
    ///
    /// # Errors
    /// If the promise does not allow it.
    pub fn found_with_batches(
        &mut self,
        block: u64,
        found: BlockState,
        batches: u64,
    ) -> Result<(), Violation> {
        let history = self.blocks.entry(block).or_default();
        let possible = with_batches(history, batches);
        if !possible.contains(&found) {
            return Err(Violation::Lost { block, found, possible });
        }
        *history = History::of(vec![found]);
        Ok(())
    }

    /// What a clone made just now shows of a block: what was answered last, or if somebody wrote since
    /// version `low`, anything from there on.
    pub fn shown_by_clone(&self, block: u64, low: Option<usize>) -> Vec<BlockState> {
        let Some(history) = self.blocks.get(&block) else { return vec![[0; SECTORS]] };
        let high = if low.is_some() { history.newest() } else { history.answered };
        let low = low.unwrap_or(history.answered);
        let mut versions = history.possible(low);
        versions.truncate((high + 1).saturating_sub(low));
        let mut states = versions.concat();
        states.sort_unstable();
        states.dedup();
        states
    }

    /// A batch of this number, applied now, makes a block one of these. Nothing is under way there.
    pub fn became(&mut self, block: u64, states: Vec<BlockState>, batch: u64) {
        let history = self.blocks.entry(block).or_default();
        let (tokens, shown) = (states[0], Some(states));
        let batch = Some(batch);
        let (mask, doubtful) = (255, false);
        history.changes.push(Change {
            mask,
            tokens,
            doubtful,
            ended: true,
            may_fail: false,
            shown,
            batch,
        });
        history.answered = history.newest();
    }

    /// Nothing lies from `block` on, and never did.
    pub fn ends_at(&mut self, block: u64) {
        self.blocks.split_off(&block);
    }

    /// A block is one of these states from the first moment on.
    pub fn begins_as(&mut self, block: u64, states: Vec<BlockState>) {
        self.blocks.insert(block, History::of(states));
    }

    /// After a crash `block` cannot be read: it may be anything that the promise allows.
    pub fn unreadable_after_crash(&mut self, block: u64) {
        let history = self.blocks.entry(block).or_default();
        *history = History::of(after_crash(history));
    }

    /// Every block ever touched.
    pub fn touched(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.keys().copied()
    }
}

fn after_crash(history: &History) -> Vec<BlockState> {
    let mut states = history.possible(history.durable).concat();
    states.sort_unstable();
    states.dedup();
    states
}

/// The states of a block among which truncations up to a number have happened, and later ones have not.
fn with_batches(history: &History, batches: u64) -> Vec<BlockState> {
    let (mut low, mut high) = (history.durable, history.newest());
    for (number, change) in (1..).zip(&history.changes) {
        match change.batch {
            Some(batch) if batch <= batches => low = low.max(number),
            Some(_) => high = high.min(number - 1),
            None => {}
        }
    }
    let mut versions = history.possible(low);
    versions.truncate((high + 1).saturating_sub(low));
    let mut states = versions.concat();
    states.sort_unstable();
    states.dedup();
    states
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

    /// A write of two blocks that failed: each has it or not, whole, and does not change its mind.
    #[test]
    fn a_failed_write_is_there_or_not_and_stays_so() {
        let mut oracle = Oracle::default();
        run(&mut oracle, 1, Op::Write, 0, 8192);
        let failed = request(2, Op::Write, 0, 8192);
        oracle.issued(&failed);
        let error = tandem_block::IoError::NoSpace;
        assert!(oracle.clone().done(&failed, Err(error), &[], false).is_err());
        oracle.done(&failed, Err(error), &[], true).unwrap();
        run(&mut oracle, 3, Op::Write, 0, 512);
        let tokens = |of: u64| {
            let sectors = (0..8).map(move |i| token(if i == 0 { 3 } else { of }, i));
            sectors.collect::<Vec<u64>>()
        };
        let read = |oracle: &mut Oracle, tokens: &[u64]| {
            let read = request(9, Op::Read, 0, 4096);
            oracle.issued(&read);
            oracle.done(&read, Ok(()), tokens, true)
        };
        let mut mixed = tokens(1);
        mixed[5] = token(2, 5);
        assert!(read(&mut oracle, &mixed).is_err());
        assert!(read(&mut oracle.clone(), &tokens(1)).is_ok());
        assert!(read(&mut oracle, &tokens(2)).is_ok());
        assert!(read(&mut oracle, &tokens(1)).is_err(), "it was there before");
        // nothing was flushed: a crash may leave all three versions, with or without the failed one
        let mut after = oracle.clone();
        assert!(after.found_after_crash(0, tokens(1).try_into().unwrap()).is_err());
        let mut second = oracle.clone();
        assert!(
            second.found_after_crash(1, std::array::from_fn(|i| token(2, i as u64 + 8))).is_ok()
        );
        assert!(oracle.found_after_crash(0, [0; 8]).is_ok());
    }

    #[test]
    fn an_unreadable_block_may_be_what_it_was() {
        let mut oracle = Oracle::default();
        run(&mut oracle, 1, Op::Write, 0, 4096);
        oracle.crashed();
        oracle.unreadable_after_crash(0);
        run(&mut oracle, 2, Op::Write, 0, 512);
        let mut found = [0; 8];
        found[0] = token(2, 0);
        assert!(oracle.clone().found_after_crash(0, found).is_ok());
        found[1] = token(5, 1);
        assert!(oracle.found_after_crash(0, found).is_err());
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
