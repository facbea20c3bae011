//! How long until the head is there? Seek, rotation and the media rate of a zone.
//!
//! Source: models §5.2 (seek curve, zones) and §4 (parameters).

use crate::rate::{bytes_in, transfer_ns};
use crate::spec::{HddSpec, Rotation};
use tandem_block::{MIB, Rng};

/// The moving parts of one hard drive.
#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    capacity_bytes: u64,
    turn_ns: u64,
    seek_adjacent_ns: u64,
    seek_average_ns: u64,
    seek_full_ns: u64,
    outer_bytes_per_s: u64,
    inner_bytes_per_s: u64,
    rotation: Rotation,
    placing_ppm: u64,
    /// Where the head stands, in bytes.
    pub(super) head: u64,
    rng: Rng,
}

/// One in the fixed point of stroke shares: 16 fractional bits before the square root, 8 after.
const STROKE_ONE: u64 = 1 << 32;

impl Mechanics {
    pub(super) fn new(spec: &HddSpec, capacity_bytes: u64, rng: Rng) -> Self {
        Mechanics {
            capacity_bytes,
            turn_ns: 60_000_000_000 / spec.rpm.get(),
            seek_adjacent_ns: spec.seek_adjacent.get().0,
            seek_average_ns: spec.seek_average.get().0,
            seek_full_ns: spec.seek_full.get().0,
            outer_bytes_per_s: spec.rate_outer.get().0,
            inner_bytes_per_s: spec.rate_inner.get().0,
            rotation: spec.rotation.get(),
            placing_ppm: spec.placing_ppm().unsigned_abs(),
            head: 0,
            rng,
        }
    }

    /// Other parts from now on; the head stays where it is.
    pub(super) fn adopt(&mut self, spec: &HddSpec) {
        let rng = self.rng.split(1);
        *self = Mechanics { head: self.head, ..Mechanics::new(spec, self.capacity_bytes, rng) };
    }

    /// One turn, in nanoseconds.
    pub(super) fn turn_ns(&self) -> u64 {
        self.turn_ns
    }

    /// Media rate at `offset`: falls linearly from the outer to the inner edge.
    pub(super) fn rate(&self, offset: u64) -> u64 {
        let (here, whole) = (offset.min(self.capacity_bytes) / MIB, self.capacity_bytes / MIB);
        self.outer_bytes_per_s - (self.outer_bytes_per_s - self.inner_bytes_per_s) * here / whole
    }

    /// Time for `bytes` to pass under the head at `offset`.
    pub(super) fn media_ns(&self, offset: u64, bytes: u64) -> u64 {
        transfer_ns(bytes, self.rate(offset))
    }

    /// Bytes that pass under the head at `offset` in `ns`.
    pub(super) fn media_bytes(&self, offset: u64, ns: u64) -> u64 {
        bytes_in(ns, self.rate(offset))
    }

    /// Moving the head from `from` to `to`: the square root of the distance up to a third of the
    /// stroke, where it meets the average, then linear to the full stroke.
    pub(super) fn seek_ns(&self, from: u64, to: u64) -> u64 {
        if from == to {
            return 0;
        }
        let distance = u128::from(from.abs_diff(to)) * u128::from(STROKE_ONE);
        let share = u64::try_from(distance / u128::from(self.capacity_bytes))
            .expect("the head stays on the drive")
            .min(STROKE_ONE);
        if share < STROKE_ONE / 3 {
            let root = (3 * share * STROKE_ONE).isqrt(); // sqrt(3x) with 32 fractional bits
            let span = self.seek_average_ns - self.seek_adjacent_ns;
            self.seek_adjacent_ns + scale(span, root)
        } else {
            let beyond = (share - STROKE_ONE / 3) * 3 / 2;
            self.seek_average_ns + scale(self.seek_full_ns - self.seek_average_ns, beyond)
        }
    }

    /// Waiting for the sector at `offset` once the head arrived at `at_ns`.
    pub(super) fn rotation_ns(&mut self, at_ns: u64, offset: u64) -> u64 {
        match self.rotation {
            Rotation::Random => self.rng.below(self.turn_ns),
            Rotation::Positional => {
                let track = self.media_bytes(offset, self.turn_ns).max(1);
                let angle_ns = self.media_ns(offset, offset % track) % self.turn_ns;
                (angle_ns + self.turn_ns - at_ns % self.turn_ns) % self.turn_ns
            }
        }
    }

    /// Seek plus rotation to `offset`, starting at `at_ns`.
    pub(super) fn reach_ns(&mut self, at_ns: u64, offset: u64) -> u64 {
        let seek = self.seek_ns(self.head, offset);
        seek + self.rotation_ns(at_ns + seek, offset)
    }

    /// What a buffered write at `offset` costs that continues no stream, starting at `at_ns`: its share of seek and turn.
    pub(super) fn placing_ns(&mut self, at_ns: u64, offset: u64) -> u64 {
        self.reach_ns(at_ns, offset) * self.placing_ppm / 1_000_000
    }
}

/// `span * share` where `share` has 32 fractional bits.
fn scale(span: u64, share: u64) -> u64 {
    u64::try_from((u128::from(span) * u128::from(share)) >> 32).expect("a share is at most one")
}
