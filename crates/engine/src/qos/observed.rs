//! What do requests cost at present, and is the drive still the one that was profiled?
//!
//! Source: requirements B9: costs are updated online, with a floor, and a guarantee whose drive has
//! left its profiled envelope is reported as void. Only time in which the drive always had more to do
//! counts: then its time over the requests done is their cost. The floor is the profile's mean, so
//! that a lucky second makes nobody rich.

use super::cost::{CostTable, Curve, KINDS, Kind, UNBOUNDED_NS};
use tandem_block::{Duration, Instant};

/// One, as a factor: 16 bits behind the point.
const ONE: u64 = 1 << 16;
/// Costs follow by so much of saturated time at once.
const STEP_NS: u64 = 1_000_000_000;
/// … and by this part of the difference (guess).
const STEP_PART: u64 = 4;
/// Costs are at most so many times the profile's mean.
const FACTOR_MAX: u64 = 64;
/// The envelope is looked at over windows of this length.
const ENVELOPE: Duration = Duration::from_s(10);

/// One drive's costs as they are seen.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    mean: Curve,
    /// The dearest that the profile saw over `ENVELOPE`.
    worst: Option<Curve>,
    /// Times the mean, by kind, in fixed point.
    factor: [u64; KINDS],
    /// The drive has had more to do since then.
    saturated_since: Option<Instant>,
    saturated_ns: u64,
    /// What was done in that time, at the mean, by kind.
    done_ns: [u64; KINDS],
    /// … since the envelope was last looked at: saturated time, and at the dearest.
    envelope: (u64, u64),
    /// Windows looked at, and those in which the drive did less than the profile's worst.
    pub(crate) windows: u64,
    /// See `windows`.
    pub(crate) outside: u64,
    /// Was the last window outside?
    pub(crate) is_outside: bool,
}

impl Observed {
    /// Begins with the profile; without one with nominal costs, of which nothing is outside.
    pub(crate) fn new(table: Option<&CostTable>, depth: u32) -> Observed {
        let mean = table.and_then(|table| table.mean(depth).ok());
        let longest = table.and_then(|table| table.windows().filter(|w| *w <= ENVELOPE).last());
        let worst = longest
            .zip(table)
            .and_then(|(window, table)| table.curve(window, 1_000_000, depth).ok());
        Observed {
            mean: mean.unwrap_or_else(Curve::nominal),
            worst,
            factor: [ONE; KINDS],
            saturated_since: None,
            saturated_ns: 0,
            done_ns: [0; KINDS],
            envelope: (0, 0),
            windows: 0,
            outside: 0,
            is_outside: false,
        }
    }

    /// What one request costs now, in ns.
    #[inline]
    pub(crate) fn cost_ns(&self, kind: Kind, bytes: u64) -> u64 {
        // below 2^36 (a minute) times at most 2^22
        let mean = self.mean.cost_ns(kind, bytes).min(1 << 36);
        (mean * self.factor[kind.index()]) >> 16
    }

    /// … so many bytes of one. What lies in several places is read in pieces, and the cost of small
    /// requests would be charged for each: but one request was promised, whatever its pieces.
    #[inline]
    pub(crate) fn piece_ns(&self, kind: Kind, bytes: u64, request_bytes: u64) -> u64 {
        piece(self.cost_ns(kind, bytes.max(request_bytes)), bytes, request_bytes)
    }

    /// So many bytes of a user's request are done.
    #[inline]
    pub(crate) fn completed(&mut self, kind: Kind, bytes: u64, request_bytes: u64) {
        if self.saturated_since.is_none() {
            return;
        }
        let whole = bytes.max(request_bytes);
        self.done_ns[kind.index()] += piece(self.mean.cost_ns(kind, whole), bytes, request_bytes);
        if let Some(worst) = &self.worst {
            let cost = worst.cost_ns(kind, whole);
            let cost = if cost == UNBOUNDED_NS { ENVELOPE.ns } else { cost };
            let cost = piece(cost, bytes, request_bytes);
            self.envelope.1 = self.envelope.1.saturating_add(cost);
        }
    }

    /// So the drive stands: is there more to do than it takes? True if costs have changed.
    #[inline]
    pub(crate) fn stand(&mut self, now: Instant, is_saturated: bool) -> bool {
        if let Some(since) = self.saturated_since {
            assert!(since <= now, "time never goes back");
            let ns = now.since(since).ns;
            self.saturated_ns += ns;
            self.envelope.0 += ns;
        }
        self.saturated_since = is_saturated.then_some(now);
        let mut changed = false;
        if self.saturated_ns >= STEP_NS {
            self.follow();
            changed = true;
        }
        if self.envelope.0 >= ENVELOPE.ns {
            let (took_ns, worst_ns) = std::mem::take(&mut self.envelope);
            if self.worst.is_some() {
                self.windows += 1;
                // a twentieth is left to what the profile's windows did not begin with
                self.is_outside = worst_ns < took_ns - took_ns / 20;
                self.outside += u64::from(self.is_outside);
            }
        }
        changed
    }

    /// Every kind's factor goes towards what was seen, by its part in it.
    fn follow(&mut self) {
        let took_ns = std::mem::take(&mut self.saturated_ns);
        let done_ns = std::mem::take(&mut self.done_ns);
        let believed: [u64; KINDS] =
            std::array::from_fn(|kind| scaled(done_ns[kind], self.factor[kind], ONE));
        let sum: u64 = believed.iter().sum();
        if sum == 0 {
            return;
        }
        for (factor, believed) in self.factor.iter_mut().zip(believed) {
            // a drive that stood still in between may differ by any amount: bounded steps
            let seen = scaled(*factor, took_ns, sum).min(*factor * 4);
            let part = scaled(ONE, believed, sum) / STEP_PART;
            let next = if seen >= *factor {
                *factor + scaled(seen - *factor, part, ONE)
            } else {
                *factor - scaled(*factor - seen, part, ONE)
            };
            *factor = next.clamp(ONE, ONE * FACTOR_MAX);
        }
    }
}

/// The part of a request's cost that some of its bytes stand for.
#[inline]
fn piece(cost_ns: u64, bytes: u64, request_bytes: u64) -> u64 {
    if bytes >= request_bytes {
        return cost_ns;
    }
    // requests have at most 2^25 bytes, costs at most a minute times 64
    (u128::from(cost_ns) * u128::from(bytes) / u128::from(request_bytes)) as u64
}

fn scaled(value: u64, by: u64, over: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::cost::CostRow;
    use super::*;

    const READ: Kind = Kind { read: true, sequential: false };
    const WRITE: Kind = Kind { read: false, sequential: false };

    fn table() -> CostTable {
        let row = |kind, mean_ns, worst_ns| CostRow {
            kind,
            size_bytes: 4096,
            depth: 31,
            mean_ns,
            cost_ns: vec![worst_ns],
        };
        CostTable {
            windows_ns: vec![1_000_000_000],
            confidences_ppm: vec![1_000_000],
            range_bytes: 0,
            rows: vec![row(READ, 100_000, 150_000), row(WRITE, 400_000, 800_000)],
        }
    }

    /// A second of nothing but these requests, `count` of them.
    fn second(observed: &mut Observed, at_s: u64, kind: Kind, count: u64) {
        observed.stand(Instant::from_ns(at_s * 1_000_000_000), true);
        for _ in 0..count {
            observed.completed(kind, 4096, 4096);
        }
        observed.stand(Instant::from_ns((at_s + 1) * 1_000_000_000), true);
    }

    #[test]
    fn costs_follow_what_is_seen_and_never_fall_below_the_mean() {
        let mut observed = Observed::new(Some(&table()), 31);
        assert_eq!(observed.cost_ns(READ, 4096), 100_000);
        // twice as dear as the mean: 5,000 instead of 10,000 in a second
        (0..40).for_each(|s| second(&mut observed, s, READ, 5_000));
        let cost = observed.cost_ns(READ, 4096);
        assert!((195_000..=200_500).contains(&cost), "{cost}");
        assert_eq!(observed.cost_ns(WRITE, 4096), 400_000, "nobody wrote");
        // twice as cheap: the floor
        (40..80).for_each(|s| second(&mut observed, s, READ, 20_000));
        assert_eq!(observed.cost_ns(READ, 4096), 100_000);
        // an idle drive teaches nothing
        observed.stand(Instant::from_ns(100_000_000_000), false);
        observed.completed(READ, 4096, 4096);
        observed.stand(Instant::from_ns(900_000_000_000), false);
        assert_eq!(observed.cost_ns(READ, 4096), 100_000);
    }

    /// A request in pieces costs what it costs in one, also where the pieces are smaller than anything
    /// that was profiled: their stream was charged twice, and got less than it was promised.
    #[test]
    fn pieces_cost_what_their_request_does() {
        let mut observed = Observed::new(Some(&table()), 31);
        let pieces = [512, 1024, 2560].map(|bytes| observed.piece_ns(READ, bytes, 4096));
        assert_eq!(pieces, [12_500, 25_000, 62_500]);
        assert_eq!(observed.piece_ns(READ, 4096, 4096), observed.cost_ns(READ, 4096));
        assert_eq!(
            observed.piece_ns(READ, 8192, 4096),
            200_000,
            "whole blocks of a smaller request"
        );
        // twice as many halves are as much work
        for second in 0..20 {
            observed.stand(Instant::from_ns(second * 1_000_000_000), true);
            (0..20_000).for_each(|_| observed.completed(READ, 2048, 4096));
        }
        assert_eq!(observed.cost_ns(READ, 4096), 100_000);
    }

    #[test]
    fn a_drive_that_does_less_than_its_worst_has_left_its_envelope() {
        let mut observed = Observed::new(Some(&table()), 31);
        (0..20).for_each(|s| second(&mut observed, s, WRITE, 1_300));
        assert_eq!((observed.windows, observed.outside), (2, 0), "1,250 a second were the worst");
        (20..40).for_each(|s| second(&mut observed, s, WRITE, 1_000));
        assert_eq!((observed.windows, observed.outside, observed.is_outside), (4, 2, true));
        let mut unknown = Observed::new(None, 31);
        (0..20).for_each(|s| second(&mut unknown, s, WRITE, 1));
        assert_eq!(
            (unknown.windows, unknown.outside),
            (0, 0),
            "without profile nothing is outside"
        );
    }
}
