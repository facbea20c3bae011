//! What will be asked after each request of a trace?

use std::collections::HashMap;
use tandem_block::{Arrival, BLOCK_BYTES, Op};

/// Of a place that is never asked for again.
pub(super) const NEVER_NS: u64 = u64::MAX;
/// A block of the one object that there is.
pub(super) type Key = u64;

/// The blocks that a request touches.
pub(super) fn blocks(arrival: &Arrival) -> std::ops::Range<Key> {
    let first = arrival.offset_bytes / BLOCK_BYTES;
    let end = (arrival.offset_bytes + arrival.length_bytes).div_ceil(BLOCK_BYTES);
    first..end.max(first)
}

/// What follows each request, by its number.
#[derive(Debug)]
pub(super) struct Future {
    /// Of a write: some block of it is read before it is written again.
    pub is_read_next: Vec<bool>,
    /// When a read comes next that a hard drive must serve, in ns.
    pub next_home_read_ns: Vec<u64>,
}

impl Future {
    /// Of all requests in order of time. `has_homes`: what was not written yet is read from a hard drive.
    pub fn of(arrivals: &[Arrival], has_homes: bool) -> Future {
        // when each block is written for the first time, by the number of the request
        let mut first_write: HashMap<Key, usize> = HashMap::new();
        for (at, arrival) in arrivals.iter().enumerate().filter(|(_, it)| it.op == Op::Write) {
            for block in blocks(arrival) {
                first_write.entry(block).or_insert(at);
            }
        }
        let mut is_read_next = vec![false; arrivals.len()];
        let mut next_home_read_ns = vec![NEVER_NS; arrivals.len()];
        // of each block that is ever written: is the next request for it a read?
        let mut next_is_read: HashMap<Key, bool> = HashMap::new();
        let mut home_read_ns = NEVER_NS;
        for (at, arrival) in arrivals.iter().enumerate().rev() {
            next_home_read_ns[at] = home_read_ns;
            match arrival.op {
                Op::Write => {
                    let mut read = |block| next_is_read.insert(block, false).unwrap_or(false);
                    // each block is noted, whatever was found of the one before
                    is_read_next[at] = blocks(arrival).fold(false, |any, block| read(block) | any);
                }
                Op::Read => {
                    for block in blocks(arrival) {
                        let written = first_write.get(&block);
                        if written.is_some() {
                            next_is_read.insert(block, true);
                        }
                        if has_homes && written.is_none_or(|first| *first > at) {
                            home_read_ns = arrival.at.ns;
                        }
                    }
                }
                Op::Flush | Op::Discard | Op::WriteZeroes => {}
            }
        }
        Future { is_read_next, next_home_read_ns }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tandem_block::{Instant, ObjectId, RequestType, StreamId};

    pub(in crate::oracle) fn arrival(at_ns: u64, op: Op, block: u64, blocks: u64) -> Arrival {
        Arrival {
            at: Instant::from_ns(at_ns),
            object: ObjectId(0),
            op,
            offset_bytes: block * BLOCK_BYTES,
            length_bytes: blocks * BLOCK_BYTES,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        }
    }

    #[test]
    fn what_is_read_before_it_is_written_again_is_known() {
        let arrivals = [
            arrival(0, Op::Write, 0, 4),
            arrival(10, Op::Read, 3, 1),
            arrival(20, Op::Write, 3, 1),
            arrival(30, Op::Write, 3, 1),
            arrival(40, Op::Read, 9, 1),
            arrival(50, Op::Read, 2, 2),
            arrival(60, Op::Write, 9, 1),
        ];
        let future = Future::of(&arrivals, true);
        let of_writes = [0, 2, 3, 6].map(|at| future.is_read_next[at]);
        assert_eq!(of_writes, [true, false, true, false]);
        let next = [0, 3, 4, 6].map(|at| future.next_home_read_ns[at]);
        assert_eq!(next, [40, 40, NEVER_NS, NEVER_NS], "block 9 alone was not written before");
        let without = Future::of(&arrivals, false);
        assert!(without.next_home_read_ns.iter().all(|next| *next == NEVER_NS));
    }
}
