//! Which aligned requests does one request of a user of files become?
//!
//! The engine moves whole 512-byte sectors. A part of a sector is written by reading its sectors,
//! merging and writing them back ([`Step::Merge`]), while nobody else may write there
//! ([`Claims`]): two small writes beside each other must not undo one another.

use tandem_block::{ObjectId, Op, SECTOR_BYTES};

/// Zeroing is cut into pieces of this many bytes, so that none holds the engine for long.
const ZERO_BYTES_MAX: u64 = 1 << 30;

/// What is put into the middle of sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Patch {
    Bytes(Vec<u8>),
    Zeroes(usize),
}

impl Patch {
    pub fn len(&self) -> usize {
        match self {
            Patch::Bytes(bytes) => bytes.len(),
            Patch::Zeroes(count) => *count,
        }
    }

    /// Overwrites its place in `sectors`.
    pub fn apply(&self, sectors: &mut [u8], at: usize) {
        let place = &mut sectors[at..at + self.len()];
        match self {
            Patch::Bytes(bytes) => place.copy_from_slice(bytes),
            Patch::Zeroes(_) => place.fill(0),
        }
    }
}

/// One thing to be done before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Discard or zero whole sectors.
    Zero { op: Op, offset: u64, length: u64 },
    /// Put `patch` at any byte.
    Merge { offset: u64, patch: Patch },
}

/// The whole sectors around a range of bytes: first byte and bytes.
pub(super) fn cover(offset: u64, length: u64) -> (u64, u64) {
    let first = offset / SECTOR_BYTES * SECTOR_BYTES;
    let end = (offset + length).next_multiple_of(SECTOR_BYTES);
    (first, end - first)
}

pub(super) fn is_aligned(offset: u64, length: u64) -> bool {
    (offset | length).is_multiple_of(SECTOR_BYTES)
}

/// Zeroes for any range of bytes, last step first.
pub(super) fn zero_steps(op: Op, offset: u64, length: u64) -> Vec<Step> {
    let end = offset + length;
    let first = offset.next_multiple_of(SECTOR_BYTES);
    let last = end / SECTOR_BYTES * SECTOR_BYTES;
    let merge = |from: u64, to: u64| Step::Merge {
        offset: from,
        patch: Patch::Zeroes(usize::try_from(to - from).expect("part of a sector")),
    };
    let mut steps = Vec::new();
    if first > last {
        steps.push(merge(offset, end)); // within one sector
    } else {
        if offset < first {
            steps.push(merge(offset, first));
        }
        let mut at = first;
        while at < last {
            let length = (last - at).min(ZERO_BYTES_MAX);
            steps.push(Step::Zero { op, offset: at, length });
            at += length;
        }
        if last < end {
            steps.push(merge(last, end));
        }
    }
    steps.reverse();
    steps
}

/// A range of an object: first byte and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub object: ObjectId,
    pub first: u64,
    pub end: u64,
}

impl Place {
    fn overlaps(&self, other: &Place) -> bool {
        self.object == other.object && self.first < other.end && other.first < self.end
    }
}

/// Places that only one job may write.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Vec<(usize, Place)>,
}

impl Claims {
    pub fn is_free(&self, place: &Place) -> bool {
        self.claims.iter().all(|(_, claimed)| !claimed.overlaps(place))
    }

    pub fn take(&mut self, job: usize, place: Place) {
        self.claims.push((job, place));
    }

    /// Gives back what a job has; true if it had something.
    pub fn give_back(&mut self, job: usize) -> bool {
        let before = self.claims.len();
        self.claims.retain(|(owner, _)| *owner != job);
        self.claims.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zero(offset: u64, length: u64) -> Step {
        Step::Zero { op: Op::Discard, offset, length }
    }

    fn merge(offset: u64, length: usize) -> Step {
        Step::Merge { offset, patch: Patch::Zeroes(length) }
    }

    #[test]
    fn zeroes_are_merged_at_the_edges_only() {
        for ((offset, length), want) in [
            ((0, 512), vec![zero(0, 512)]),
            ((1, 510), vec![merge(1, 510)]),
            ((1, 511), vec![merge(1, 511)]),
            ((100, 1000), vec![merge(100, 412), zero(512, 512), merge(1024, 76)]),
            ((511, 2), vec![merge(511, 1), merge(512, 1)]),
            ((512, (1 << 30) + 512), vec![zero(512, 1 << 30), zero(512 + (1 << 30), 512)]),
        ] {
            let mut steps = zero_steps(Op::Discard, offset, length);
            steps.reverse();
            assert_eq!(steps, want, "{length} bytes at {offset}");
        }
    }

    #[test]
    fn a_cover_is_the_sectors_around() {
        assert_eq!(cover(511, 2), (0, 1024));
        assert_eq!(cover(512, 512), (512, 512));
        assert!(is_aligned(512, 1024) && !is_aligned(1, 512) && !is_aligned(512, 100));
    }

    #[test]
    fn a_claim_keeps_others_out_until_it_is_given_back() {
        let place = |object, first, end| Place { object: ObjectId(object), first, end };
        let mut claims = Claims::default();
        claims.take(3, place(1, 512, 1024));
        assert!(!claims.is_free(&place(1, 0, 513)));
        assert!(claims.is_free(&place(1, 0, 512)) && claims.is_free(&place(2, 512, 1024)));
        assert!(claims.give_back(3) && !claims.give_back(3));
        assert!(claims.is_free(&place(1, 0, 513)));
    }
}
