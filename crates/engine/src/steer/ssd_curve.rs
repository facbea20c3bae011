//! How long will an SSD take for so many bytes, by what it took lately?
//!
//! A curve of latency over the bytes in flight, its own included: straight between nodes at powers of
//! two, and every completed write pulls its two nodes towards what it took. It begins with the
//! profile's rate. A write that met a stall pulls no further than a few times what was expected: how
//! long stalls last is known apart, from the commands that were overdue.
//!
//! Source: frontier D1 (backlog, and a stall detector by the age of the oldest command in flight).

use crate::profile::SsdProfile;

/// Nodes at 4 KiB, 8 KiB, … 4 GiB.
const NODES: usize = 21;
const FIRST_BITS: u32 = 12;
/// From this node on (256 KiB) bytes decide, not the command: what is beyond is in proportion (guess).
const MANY: usize = 6;
/// A sample weighs a sixteenth.
const WEIGHT_BITS: u32 = 4;
/// A sample counts as no more than so many times the expected latency.
const CLIP: u64 = 4;
/// So many samples of a node say what it takes.
const KNOWN: u8 = 4;
/// Least latency of a command that nothing was measured of, in ns (guess).
const BASE_NS: u64 = 20_000;
/// Longest latency that is believed, in ns: keeps sums far from overflow.
const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// What is known of one SSD.
#[derive(Clone, Debug)]
pub(crate) struct SsdCurve {
    /// Latency at each node, in ns.
    nodes: [u64; NODES],
    /// The last node that was measured. Beyond it, if it is of many bytes, more of them take longer in
    /// proportion.
    measured: usize,
    /// Mean length of a stall, in ns.
    stall_ns: u64,
    /// Was there any?
    has_stalled: bool,
    /// Samples of each node, up to what one weighs less then than the next.
    samples: [u8; NODES],
    /// The first samples weigh more.
    is_quick: bool,
}

impl SsdCurve {
    /// By profile; `stall_ns` is what a stall is believed to last.
    pub(crate) fn new(profile: &SsdProfile, stall_ns: u64) -> Self {
        let rate = profile.write_bytes_per_s.max(1);
        let node = |at: usize| {
            let bytes = 1u128 << (FIRST_BITS as usize + at);
            let transfer_ns = (bytes * 1_000_000_000 / u128::from(rate)) as u64;
            BASE_NS.max(transfer_ns).min(LATENCY_NS_MAX)
        };
        SsdCurve {
            nodes: std::array::from_fn(node),
            measured: 0,
            stall_ns,
            has_stalled: false,
            samples: [0; NODES],
            is_quick: false,
        }
    }

    /// The same, where the first samples of a node count as much as each other: what the profile says is soon forgotten.
    pub(crate) fn quick(self) -> Self {
        SsdCurve { is_quick: true, ..self }
    }

    /// The node at or below so many bytes, and how far behind it they are, in 256ths.
    fn position(bytes: u64) -> (usize, u64) {
        let octave = bytes.max(1 << FIRST_BITS).ilog2();
        let at = ((octave - FIRST_BITS) as usize).min(NODES - 2);
        let first = 1u64 << (FIRST_BITS as usize + at);
        let beyond = bytes.saturating_sub(first).min(first);
        (at, (beyond << 8) >> (FIRST_BITS as usize + at))
    }

    /// Expected latency of a command that makes it so many bytes in flight, in ns.
    #[inline]
    pub(crate) fn latency_ns(&self, bytes: u64) -> u64 {
        let (at, part) = Self::position(bytes);
        if at > self.measured && self.measured >= MANY {
            return self.beyond(bytes);
        }
        let (low, high) = (self.nodes[at], self.nodes[at + 1]);
        (low * (256 - part) + high * part) >> 8
    }

    /// Were so many bytes in flight often enough to say what they take? Of many what fewer took says enough.
    #[inline]
    pub(crate) fn knows(&self, bytes: u64) -> bool {
        let (at, part) = Self::position(bytes);
        let node = if part >= 128 { at + 1 } else { at };
        node > MANY || self.samples[node] >= KNOWN
    }

    /// The same, where the profile does not count against what was measured: what never was in flight is expected to take
    /// no more than in proportion to what was.
    #[inline]
    pub(crate) fn likely_ns(&self, bytes: u64) -> u64 {
        let (at, _) = Self::position(bytes);
        let latency_ns = self.latency_ns(bytes);
        if self.samples[at] > 0 {
            return latency_ns;
        }
        let Some(below) = (0..at).rev().find(|node| self.samples[*node] > 0) else {
            return latency_ns;
        };
        let scaled = u128::from(self.nodes[below]) * u128::from(bytes);
        let scaled_ns = u64::try_from(scaled >> (FIRST_BITS as usize + below));
        latency_ns.min(scaled_ns.unwrap_or(u64::MAX))
    }

    /// In proportion to the last node measured.
    fn beyond(&self, bytes: u64) -> u64 {
        let last = u128::from(self.nodes[self.measured]) * u128::from(bytes);
        let latency_ns = last >> (FIRST_BITS as usize + self.measured);
        u64::try_from(latency_ns).unwrap_or(u64::MAX).min(LATENCY_NS_MAX)
    }

    /// Is a command overdue that is so old, with so many bytes in flight? `slack_ns` is what it may
    /// be late.
    #[inline]
    pub(crate) fn is_overdue(&self, age_ns: u64, in_flight_bytes: u64, slack_ns: u64) -> bool {
        age_ns > slack_ns && age_ns > 2 * self.latency_ns(in_flight_bytes) + slack_ns
    }

    /// What is left of a stall that began so long ago, in ns: up to the usual length; beyond it, as
    /// long again as it has lasted.
    #[inline]
    pub(crate) fn rest_of_stall_ns(&self, age_ns: u64) -> u64 {
        if age_ns < self.stall_ns { self.stall_ns - age_ns } else { age_ns }
    }

    /// Was a write ever so late that it met a stall?
    pub(crate) fn has_stalled(&self) -> bool {
        self.has_stalled
    }

    /// A write is done.
    pub(crate) fn learn(&mut self, in_flight_bytes: u64, took_ns: u64, slack_ns: u64) {
        let took_ns = took_ns.min(LATENCY_NS_MAX);
        let expected = self.latency_ns(in_flight_bytes);
        if took_ns > slack_ns && took_ns > 2 * expected + slack_ns {
            self.has_stalled = true;
            self.stall_ns =
                self.stall_ns - (self.stall_ns >> WEIGHT_BITS) + (took_ns >> WEIGHT_BITS);
        }
        let sample = took_ns.min(expected * CLIP) as i64;
        let (at, part) = Self::position(in_flight_bytes);
        if at > self.measured {
            if self.measured >= MANY {
                for node in self.measured + 1..=at + 1 {
                    self.nodes[node] = self.beyond(1 << (FIRST_BITS as usize + node));
                }
            }
            self.measured = at;
        }
        for (node, weight) in [(at, 256 - part), (at + 1, part)] {
            let of_many = (self.samples[node] + 1).min(1 << WEIGHT_BITS);
            self.samples[node] = of_many;
            let error = sample - expected as i64;
            let error =
                if self.is_quick { error / i64::from(of_many) } else { error >> WEIGHT_BITS };
            let moved = self.nodes[node] as i64 + error * weight as i64 / 256;
            self.nodes[node] = moved.clamp(1_000, LATENCY_NS_MAX as i64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> SsdCurve {
        let profile = SsdProfile { flush_ns: 1_000_000, ..SsdProfile::default() };
        SsdCurve::new(&profile, 10_000_000)
    }

    #[test]
    fn profile_is_the_profiles_rate() {
        let curve = curve();
        assert_eq!(curve.latency_ns(512), BASE_NS);
        assert_eq!(curve.latency_ns(1 << 20), 3_495_253);
        let between = curve.latency_ns(3 << 19);
        assert!((5_242_800..5_242_900).contains(&between), "{between}");
        assert!(curve.latency_ns(u64::MAX) <= LATENCY_NS_MAX);
    }

    #[test]
    fn beyond_what_was_measured_bytes_count() {
        let mut curve = curve();
        for _ in 0..400 {
            curve.learn(1 << 20, 40_000_000, 500_000);
        }
        let at_1_mib = curve.latency_ns(1 << 20);
        assert!((20_000_000..=40_000_000).contains(&at_1_mib), "ten times slower: {at_1_mib}");
        let beyond = curve.latency_ns(64 << 20);
        assert!(beyond.abs_diff(at_1_mib * 64) * 100 <= beyond, "{beyond}");
    }

    #[test]
    fn what_is_measured_is_learned_and_stalls_are_told_apart() {
        let mut curve = curve();
        for round in 0..4_000 {
            // 15 us and 1 GB/s; every 200th meets a stall of 20 ms
            for bytes in [4096u64, 12_288, 65_536, 262_144] {
                let stalled = round % 200 == 199 && bytes == 4096;
                let took = if stalled { 20_000_000 } else { 15_000 + bytes };
                curve.learn(bytes, took, 500_000);
            }
        }
        for bytes in [4096u64, 12_288, 65_536, 262_144] {
            let (found, want) = (curve.latency_ns(bytes), 15_000 + bytes);
            assert!(found.abs_diff(want) * 4 <= want, "{bytes}: {found} ns, not {want}");
        }
        assert!((12_000_000..20_000_000).contains(&curve.stall_ns), "{}", curve.stall_ns);
        assert!(curve.is_overdue(1_000_000, 4096, 500_000));
        assert!(!curve.is_overdue(400_000, 4096, 500_000));
        assert!(!curve.is_overdue(900_000, 1 << 20, 500_000), "much was in flight");
        assert_eq!(curve.rest_of_stall_ns(30_000_000), 30_000_000);
        assert_eq!(curve.rest_of_stall_ns(2_000_000), curve.stall_ns - 2_000_000);
    }
}
