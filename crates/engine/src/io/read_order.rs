//! Which of the reads that wait for a hard drive is next?
//!
//! The head of a hard drive moves for each read. The one that lies nearest to it costs the least. A read is passed by
//! no more than so many younger ones, so that none waits for ever at the far end of a drive.

/// Jobs that come to a drive after a read and may still be served before it: fewer than this (guess).
const PASSED_MAX: u64 = 24;

/// The place in the queue of the read that is next. `reads`: order of arrival and first byte, oldest first; a job that
/// names no place has none. `head_bytes`: where the last command ended.
pub(super) fn next_read(
    reads: impl Iterator<Item = (u64, Option<u64>)>,
    head_bytes: u64,
) -> Option<usize> {
    let mut oldest = None;
    let near = reads.take_while(|(sequence, _)| {
        let first = *oldest.get_or_insert(*sequence);
        assert!(first <= *sequence, "jobs wait in the order in which they came");
        *sequence < first + PASSED_MAX
    });
    let distance = |offset: Option<u64>| offset.map_or(0, |offset| offset.abs_diff(head_bytes));
    let nearest = near.enumerate().min_by_key(|(_, (_, offset))| distance(*offset));
    nearest.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn the_nearest_is_next_and_the_oldest_of_two_alike() {
        let order = |head, offsets: &[u64]| {
            let reads = (1..).zip(offsets.iter().map(|offset| Some(*offset)));
            next_read(reads, head)
        };
        for (head, offsets, wanted) in [
            (0, &[][..], None),
            (0, &[7], Some(0)),
            (50, &[10, 60, 45], Some(2)),
            (50, &[60, 40], Some(0)),
            (0, &[60, 40], Some(1)),
        ] {
            assert_eq!(order(head, offsets), wanted, "{head}: {offsets:?}");
        }
        assert_eq!(next_read([(1, Some(3)), (2, None)].into_iter(), 0), Some(1));
    }

    /// A read at the far end waits while others come to where the head is.
    #[test]
    fn no_read_is_passed_for_ever() {
        let mut reads = VecDeque::from([(0, Some(1 << 40))]);
        let mut passed = 0;
        for sequence in 1.. {
            reads.push_back((sequence, Some(0)));
            let at = next_read(reads.iter().copied(), 0).expect("two wait");
            let (served, _) = reads.remove(at).expect("it is one of them");
            if served == 0 {
                break;
            }
            passed += 1;
        }
        assert_eq!(passed, PASSED_MAX - 1);
    }
}
