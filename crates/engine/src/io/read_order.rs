//! Which of the reads that wait for a hard drive is next?
//!
//! The head of a hard drive moves for each read. The one that lies nearest to it costs the least. A read is passed by
//! those that came with it or soon after it, so that none waits for ever at the far end of a drive.

/// While a read waits, so many others are taken. What comes later does not pass it (measured: docs/DECISIONS.md).
const TAKEN_MAX: u64 = 8;

/// A read that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRead {
    /// Reads that had been taken from the queue when it came.
    pub(super) came_after: u64,
    /// Its first byte, if it names a place.
    pub(super) offset_bytes: Option<u64>,
}

/// The place in the queue of the read that is next. `reads`: oldest first. `head_bytes`: where the last command ended.
pub(super) fn next_read(
    reads: impl Iterator<Item = WaitingRead>,
    head_bytes: u64,
) -> Option<usize> {
    let mut oldest = None;
    let near = reads.take_while(|read| {
        let first = *oldest.get_or_insert(read.came_after);
        assert!(first <= read.came_after, "jobs wait in the order in which they came");
        read.came_after < first + TAKEN_MAX
    });
    let distance = |offset: Option<u64>| offset.map_or(0, |offset| offset.abs_diff(head_bytes));
    let nearest = near.enumerate().min_by_key(|(_, read)| distance(read.offset_bytes));
    nearest.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn read(came_after: u64, offset_bytes: u64) -> WaitingRead {
        WaitingRead { came_after, offset_bytes: Some(offset_bytes) }
    }

    #[test]
    fn the_nearest_is_next_and_the_oldest_of_two_alike() {
        for (head, offsets, wanted) in [
            (0, &[][..], None),
            (0, &[7], Some(0)),
            (50, &[10, 60, 45], Some(2)),
            (50, &[60, 40], Some(0)),
            (0, &[60, 40], Some(1)),
        ] {
            let reads = offsets.iter().map(|offset| read(3, *offset));
            assert_eq!(next_read(reads, head), wanted, "{head}: {offsets:?}");
        }
        let without_place = WaitingRead { came_after: 1, offset_bytes: None };
        assert_eq!(next_read([read(1, 3), without_place].into_iter(), 0), Some(1));
    }

    /// A read at the far end waits while others come to where the head is.
    #[test]
    fn no_read_is_passed_for_ever() {
        let mut reads = VecDeque::from([read(0, 1 << 40)]);
        let mut passed = 0;
        for _ in 0..1_000 {
            reads.push_back(read(passed, 0));
            let at = next_read(reads.iter().copied(), 0).expect("two wait");
            let served = reads.remove(at).expect("it is one of them");
            if served.offset_bytes == Some(1 << 40) {
                break;
            }
            passed += 1;
        }
        assert_eq!(passed, TAKEN_MAX);
    }

    /// Of a crowd that came at once each one may be the first, however many there are.
    #[test]
    fn those_that_came_together_are_sorted() {
        let mut reads: VecDeque<_> = (0..100).map(|at| read(5, 1_000 - at)).collect();
        let mut order = Vec::new();
        while let Some(at) = next_read(reads.iter().copied(), 0) {
            order.push(reads.remove(at).expect("it is one of them").offset_bytes);
        }
        assert!(order.is_sorted() && order.len() == 100);
    }
}
