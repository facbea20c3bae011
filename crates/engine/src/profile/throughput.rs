//! What does a request cost, over windows of which length, and how surely?
//!
//! Source: [IANUS §3.1, §4.2, Figs 6, 7, 13]: requests of one kind, size and depth run alone, the
//! drive in its worst state; throughput is looked at over every window of a length, and the one that
//! all but a share of the windows reach is what can be reserved. Windows slide by a bin.

use super::probe::{MeasureError, Session};
use crate::qos::cost::{CostRow, CostTable, Kind, UNBOUNDED_NS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tandem_block::{BLOCK_BYTES, DriveOp, DriveOpKind, KIB, Rng};

/// Requests are counted by bins of this length.
pub const BIN_NS: u64 = 100_000_000;
/// Windows, in bins: 0.1 s to 10 s [IANUS Figs 6, 7, 13].
pub const WINDOWS: [usize; 9] = [1, 2, 5, 10, 20, 30, 40, 50, 100];
/// Confidences, in millionths.
pub const CONFIDENCES_PPM: [u32; 5] = [500_000, 900_000, 950_000, 990_000, 1_000_000];
/// At most so many requests between two looks at the clock; the queue runs empty there.
const BATCH_MAX: u64 = 200_000;

/// What is to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostPlan {
    /// Kinds of request.
    pub kinds: Vec<Kind>,
    /// Bytes of each.
    pub sizes_bytes: Vec<u64>,
    /// Requests outstanding.
    pub depths: Vec<u32>,
    /// Bytes of the drive that are written to; 0 for all. A user who writes no wider may promise more.
    pub range_bytes: u64,
    /// How long each row is measured, in ns.
    pub row_ns: u64,
    /// … after so long that is not counted.
    pub warm_up_ns: u64,
}

impl CostPlan {
    /// Small and large requests of all kinds at the paper's depth, two minutes each.
    pub fn usual() -> CostPlan {
        CostPlan {
            kinds: Kind::ALL.to_vec(),
            sizes_bytes: vec![4 * KIB, 64 * KIB, 256 * KIB],
            depths: vec![31],
            range_bytes: 0,
            row_ns: 120_000_000_000,
            warm_up_ns: 5_000_000_000,
        }
    }
}

/// Requests by bin of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    /// Requests that ended in each bin.
    pub bins: Vec<u32>,
}

impl Throughput {
    /// Counts one that ended so long after the beginning.
    #[inline]
    pub fn count(&mut self, at_ns: u64) {
        let bin = (at_ns / BIN_NS) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
    }

    /// Requests in every window of so many bins, fewest first.
    pub fn windows(&self, bins: usize) -> Vec<u64> {
        if bins == 0 || self.bins.len() < bins {
            return Vec::new();
        }
        let mut sum: u64 = self.bins[..bins].iter().map(|count| u64::from(*count)).sum();
        let mut sums = vec![sum];
        for (enters, leaves) in self.bins[bins..].iter().zip(&self.bins) {
            sum = sum + u64::from(*enters) - u64::from(*leaves);
            sums.push(sum);
        }
        sums.sort_unstable();
        sums
    }

    /// Requests that windows of so many bins reach in all but `1 - confidence` of the cases; `None`
    /// if the measurement was shorter than a window.
    pub(crate) fn reached(&self, bins: usize, confidence_ppm: u32) -> Option<u64> {
        let sorted = self.windows(bins);
        let left_out = 1_000_000 - u64::from(confidence_ppm.min(1_000_000));
        let index = sorted.len() as u64 * left_out / 1_000_000;
        sorted.get((index as usize).min(sorted.len().saturating_sub(1))).copied()
    }

    /// Time per request over all of it, in ns; `None` without any.
    pub fn mean_ns(&self) -> Option<u64> {
        let count: u64 = self.bins.iter().map(|count| u64::from(*count)).sum();
        (self.bins.len() as u64 * BIN_NS).checked_div(count)
    }

    /// The costs of a row of a table, by window and confidence.
    pub fn costs(&self, windows: &[usize], confidences_ppm: &[u32]) -> Vec<u64> {
        let mut costs = Vec::with_capacity(windows.len() * confidences_ppm.len());
        for bins in windows {
            for confidence_ppm in confidences_ppm {
                let reached = self.reached(*bins, *confidence_ppm).unwrap_or(0);
                let cost = (*bins as u64 * BIN_NS).checked_div(reached);
                costs.push(cost.unwrap_or(UNBOUNDED_NS));
            }
        }
        costs
    }
}

/// Measures every row of a plan, worst state first made by the caller. Writes go anywhere in the
/// range; reads anywhere on the drive.
///
/// # Errors
/// The drive's, or the budget's.
pub fn measure(session: &mut Session<'_>, plan: &CostPlan) -> Result<CostTable, MeasureError> {
    let mut rows = Vec::new();
    for &depth in &plan.depths {
        for &size_bytes in &plan.sizes_bytes {
            for &kind in &plan.kinds {
                let seen = row(session, plan, kind, size_bytes, depth)?;
                rows.push(CostRow {
                    kind,
                    size_bytes,
                    depth,
                    mean_ns: seen.mean_ns().unwrap_or(UNBOUNDED_NS),
                    cost_ns: seen.costs(&WINDOWS, &CONFIDENCES_PPM),
                });
            }
        }
    }
    let range_bytes =
        if plan.range_bytes == 0 { session.capacity_bytes() } else { plan.range_bytes };
    Ok(CostTable {
        windows_ns: WINDOWS.map(|bins| bins as u64 * BIN_NS).to_vec(),
        confidences_ppm: CONFIDENCES_PPM.to_vec(),
        range_bytes,
        rows,
    })
}

/// One row: requests of one kind, as many outstanding as `depth` says, for as long as the plan says.
///
/// # Errors
/// As [`measure`].
pub fn row(
    session: &mut Session<'_>,
    plan: &CostPlan,
    kind: Kind,
    size_bytes: u64,
    depth: u32,
) -> Result<Throughput, MeasureError> {
    session.begin(what(kind));
    assert!(size_bytes > 0, "a request has some bytes");
    let range = match plan.range_bytes {
        0 => session.capacity_bytes(),
        bytes => bytes.min(session.capacity_bytes()),
    };
    let range = if kind.read { session.capacity_bytes() } else { range };
    let slots = (range / size_bytes.max(BLOCK_BYTES)).max(1);
    let mut rng = Rng::new(size_bytes ^ u64::from(depth));
    let (mut seen, mut number) = (Throughput::default(), 0u64);
    let begin = session.now_ns();
    let mut batch = u64::from(depth).max(1) * 64;
    let mut under_way: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    loop {
        let at = session.now_ns() - begin;
        if at >= plan.warm_up_ns + plan.row_ns {
            break;
        }
        let ops: Vec<DriveOp> = (0..batch)
            .map(|_| {
                let slot = if kind.sequential { number % slots } else { rng.below(slots) };
                number += 1;
                let kind = match kind.read {
                    true => DriveOpKind::Read,
                    false => DriveOpKind::Write { fua: false },
                };
                DriveOp { kind, offset_bytes: slot * size_bytes, length_bytes: size_bytes }
            })
            .collect();
        let latencies = session.keep(depth as usize, &ops)?;
        // each begins when there is room for it: when the earliest of those under way ends
        under_way.clear();
        let mut now = at;
        for latency in latencies {
            if under_way.len() >= depth as usize
                && let Some(Reverse(end)) = under_way.pop()
            {
                now = now.max(end);
            }
            let end = now + latency;
            under_way.push(Reverse(end));
            if end >= plan.warm_up_ns && end < plan.warm_up_ns + plan.row_ns {
                seen.count(end - plan.warm_up_ns);
            }
        }
        // some two seconds at a time
        let took = (session.now_ns() - begin - at).max(1);
        batch = (batch * 2_000_000_000 / took).clamp(u64::from(depth).max(1) * 8, BATCH_MAX);
    }
    seen.bins.resize((plan.row_ns / BIN_NS) as usize, 0);
    Ok(seen)
}

fn what(kind: Kind) -> &'static str {
    match (kind.read, kind.sequential) {
        (true, false) => "the costs of random reads",
        (true, true) => "the costs of sequential reads",
        (false, false) => "the costs of random writes",
        (false, true) => "the costs of sequential writes",
    }
}

#[cfg(test)]
mod tests {
    use super::super::Probe;
    use super::*;
    use tandem_block::IoError;

    #[test]
    fn longer_windows_reach_more_and_confidence_costs() {
        // a second of nothing, four of 20 in a bin, and again
        let mut seen = Throughput::default();
        for bin in 0..500u64 {
            let count = if bin % 50 < 10 { 0 } else { 20 };
            (0..count).for_each(|_| seen.count(bin * BIN_NS));
        }
        let reached = |bins, ppm| seen.reached(bins, ppm);
        assert_eq!(reached(1, 1_000_000), Some(0));
        assert_eq!(reached(10, 1_000_000), Some(0));
        assert_eq!(reached(20, 1_000_000), Some(200));
        assert_eq!(reached(50, 1_000_000), Some(800), "a window of the period always has the mean");
        assert_eq!(reached(10, 500_000), Some(200));
        assert_eq!(reached(501, 1_000_000), None);
        let costs = seen.costs(&[10, 50], &[500_000, 1_000_000]);
        assert_eq!(costs, [5_000_000, UNBOUNDED_NS, 6_250_000, 6_250_000]);
        assert_eq!(seen.mean_ns(), Some(6_250_000));
        assert_eq!(Throughput::default().mean_ns(), None);
    }

    /// Takes 1 ms for every request, one after another.
    struct Steady {
        now_ns: u64,
        free_ns: u64,
    }

    impl Probe for Steady {
        fn capacity_bytes(&self) -> u64 {
            1 << 30
        }
        fn now_ns(&self) -> u64 {
            self.now_ns
        }
        fn rest(&mut self, ns: u64) {
            self.now_ns += ns;
        }
        fn keep(&mut self, depth: usize, ops: &[DriveOp]) -> Result<Vec<u64>, IoError> {
            let begin = self.now_ns;
            let end = |number: usize| begin + (number as u64 + 1) * 1_000_000;
            let latencies = (0..ops.len())
                .map(|n| end(n) - if n < depth { begin } else { end(n - depth) })
                .collect();
            self.free_ns = end(ops.len() - 1);
            self.now_ns = self.free_ns;
            Ok(latencies)
        }
    }

    #[test]
    fn a_steady_drive_costs_the_same_over_all_windows() {
        let plan = CostPlan {
            kinds: vec![Kind { read: false, sequential: false }],
            sizes_bytes: vec![4096],
            row_ns: 20_000_000_000,
            warm_up_ns: 1_000_000_000,
            ..CostPlan::usual()
        };
        let mut probe = Steady { now_ns: 7, free_ns: 0 };
        let mut quiet = |_: &'static str| {};
        let mut session = Session::new(&mut probe, u64::MAX, &mut quiet);
        let table = measure(&mut session, &plan).expect("no errors");
        let [row] = table.rows.as_slice() else { panic!("one row") };
        assert_eq!(row.mean_ns, 1_000_000);
        assert!(row.cost_ns.iter().all(|ns| ns.abs_diff(1_000_000) <= 10_200), "{row:?}");
        let mut session = Session::new(&mut probe, 1 << 20, &mut quiet);
        assert!(matches!(measure(&mut session, &plan), Err(MeasureError::Budget { .. })));
    }
}
