//! What does a request cost, in time of the drive?
//!
//! Source: [IANUS §4.2]: from the throughput of the drive under requests of one kind and size, at a
//! queue depth, over windows of one length, in all but the share of them that the confidence leaves
//! out. A cost is the time per request: window over requests in it. What was not profiled lies on the
//! line between its neighbours, above the largest size in proportion.

use std::fmt;
use tandem_block::Duration;

/// Kinds of request by cost.
pub(crate) const KINDS: usize = 4;
/// Nothing was done in the worst window: no rate can be promised.
pub const UNBOUNDED_NS: u64 = u64::MAX;

/// What a request does, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// A read, or a write.
    pub read: bool,
    /// It begins where the one before it ended.
    pub sequential: bool,
}

impl Kind {
    /// All of them, by index.
    pub const ALL: [Kind; KINDS] = [
        Kind { read: true, sequential: false },
        Kind { read: true, sequential: true },
        Kind { read: false, sequential: false },
        Kind { read: false, sequential: true },
    ];

    /// Its place in `ALL`.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(!self.read) * 2 + usize::from(self.sequential)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = if self.sequential { "sequential" } else { "random" };
        write!(f, "{pattern} {}", if self.read { "read" } else { "write" })
    }
}

/// The costs of one kind of request of one size at one depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// Which kind.
    pub kind: Kind,
    /// Bytes of each request.
    pub size_bytes: u64,
    /// Requests outstanding.
    pub depth: u32,
    /// Time per request over the whole measurement, in ns.
    pub mean_ns: u64,
    /// By window and confidence: `cost_ns[window * confidences + confidence]`; `UNBOUNDED_NS` where
    /// nothing was done.
    pub cost_ns: Vec<u64>,
}

/// What is believed of the costs of one drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostTable {
    /// Profiled windows in ns, rising.
    pub windows_ns: Vec<u64>,
    /// Profiled confidences in millionths, rising; 1,000,000 is the worst window seen.
    pub confidences_ppm: Vec<u32>,
    /// Bytes of the drive over which it wrote: costs hold for users who write no wider.
    pub range_bytes: u64,
    /// The rows.
    pub rows: Vec<CostRow>,
}

/// Why a table does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// Shorter than any profiled window.
    #[error("a window of {wanted} is shorter than the shortest that was profiled, {shortest}")]
    Window {
        /// What was asked for.
        wanted: Duration,
        /// The shortest that there is.
        shortest: Duration,
    },
    /// The table has no rows.
    #[error("the cost profile has no rows")]
    Empty,
}

/// Cost by size, of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// `(size_bytes, cost_ns)`, sizes rising.
    points: [Vec<(u64, u64)>; KINDS],
}

impl CostTable {
    /// Costs at this window and confidence, at the profiled depth that is nearest to `depth`. The
    /// longest profiled window that is no longer than `window` counts, and the lowest profiled
    /// confidence that is no lower than `confidence_ppm`.
    ///
    /// # Errors
    /// If the window is shorter than any that was profiled.
    pub fn curve(
        &self,
        window: Duration,
        confidence_ppm: u32,
        depth: u32,
    ) -> Result<Curve, CostError> {
        let shortest = *self.windows_ns.first().ok_or(CostError::Empty)?;
        let at = self.windows_ns.iter().rposition(|ns| *ns <= window.ns);
        let at =
            at.ok_or(CostError::Window { wanted: window, shortest: Duration::from_ns(shortest) })?;
        let confidences = self.confidences_ppm.len();
        let confidence = self.confidences_ppm.iter().position(|ppm| *ppm >= confidence_ppm);
        let confidence = confidence.unwrap_or(confidences.saturating_sub(1));
        self.by_size(depth, |row| row.cost_ns[at * confidences + confidence])
    }

    /// Costs on average of the whole measurement: what costs never fall below.
    ///
    /// # Errors
    /// If the table is empty.
    pub(crate) fn mean(&self, depth: u32) -> Result<Curve, CostError> {
        self.by_size(depth, |row| row.mean_ns)
    }

    fn by_size(&self, depth: u32, cost: impl Fn(&CostRow) -> u64) -> Result<Curve, CostError> {
        let depths = self.rows.iter().map(|row| row.depth);
        // of two that are equally near the shallower, which is dearer
        let nearest = depths.min_by_key(|known| (known.abs_diff(depth), *known));
        let nearest = nearest.ok_or(CostError::Empty)?;
        let mut curve = Curve::default();
        for row in self.rows.iter().filter(|row| row.depth == nearest) {
            curve.points[row.kind.index()].push((row.size_bytes, cost(row)));
        }
        curve.points.iter_mut().for_each(|points| points.sort_unstable());
        Ok(curve)
    }

    /// What a pair of drives like this one costs: reads as they are, each write twice, in the share of
    /// its time in which a leg may write (in millionths). For pairs that were not profiled as a whole.
    #[must_use]
    pub fn of_pair(&self, writing_ppm: u64) -> CostTable {
        let twice = |cost_ns: u64| {
            let cost =
                u128::from(cost_ns) * 2_000_000 / u128::from(writing_ppm.clamp(1, 1_000_000));
            u64::try_from(cost).unwrap_or(UNBOUNDED_NS)
        };
        let mut table = self.clone();
        for row in table.rows.iter_mut().filter(|row| !row.kind.read) {
            row.mean_ns = twice(row.mean_ns);
            row.cost_ns.iter_mut().for_each(|cost| *cost = twice(*cost));
        }
        table
    }

    /// Profiled windows, shortest first.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Duration> + '_ {
        self.windows_ns.iter().map(|ns| Duration::from_ns(*ns))
    }
}

impl Curve {
    /// What is taken of a drive without a profile, where streams have weights and limits alone: 50 us
    /// and 5 ns a byte (guess; nothing is promised by it).
    pub(crate) fn nominal() -> Curve {
        let point = |bytes: u64| (bytes, 50_000 + bytes * 5);
        Curve { points: std::array::from_fn(|_| [4096, 1 << 20].map(point).to_vec()) }
    }

    /// Has this kind been profiled?
    #[cfg(test)]
    pub(crate) fn knows(&self, kind: Kind) -> bool {
        !self.points[kind.index()].is_empty()
    }

    /// The cost of one request, in ns, at least 1. A kind that was not profiled costs what the other
    /// pattern costs, or what the dearest does.
    #[inline]
    pub(crate) fn cost_ns(&self, kind: Kind, bytes: u64) -> u64 {
        let points = &self.points[kind.index()];
        if points.is_empty() {
            return self.stand_in_ns(kind, bytes);
        }
        on_line(points, bytes).max(1)
    }

    #[cold]
    fn stand_in_ns(&self, kind: Kind, bytes: u64) -> u64 {
        let other = &self.points[Kind { sequential: !kind.sequential, ..kind }.index()];
        if !other.is_empty() {
            return on_line(other, bytes).max(1);
        }
        let known = self.points.iter().filter(|points| !points.is_empty());
        known.map(|points| on_line(points, bytes)).max().unwrap_or(1).max(1)
    }
}

fn on_line(points: &[(u64, u64)], bytes: u64) -> u64 {
    let behind = points.iter().position(|(size, _)| *size >= bytes);
    match behind {
        Some(0) => points[0].1,
        Some(at) => {
            let ((size0, cost0), (size1, cost1)) = (points[at - 1], points[at]);
            if cost0 == UNBOUNDED_NS || cost1 == UNBOUNDED_NS {
                return UNBOUNDED_NS;
            }
            let share = i128::from(bytes - size0);
            let rise = i128::from(cost1) - i128::from(cost0);
            let cost = i128::from(cost0) + rise * share / i128::from(size1 - size0);
            u64::try_from(cost).expect("between two costs")
        }
        None => {
            let (size, cost) = points[points.len() - 1];
            if cost == UNBOUNDED_NS {
                return UNBOUNDED_NS;
            }
            let cost = u128::from(cost) * u128::from(bytes) / u128::from(size);
            u64::try_from(cost).unwrap_or(UNBOUNDED_NS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CostTable {
        let row = |size_bytes, depth, mean_ns, cost_ns: [u64; 4]| CostRow {
            kind: Kind { read: false, sequential: false },
            size_bytes,
            depth,
            mean_ns,
            cost_ns: cost_ns.to_vec(),
        };
        CostTable {
            windows_ns: vec![1_000_000_000, 5_000_000_000],
            confidences_ppm: vec![900_000, 1_000_000],
            range_bytes: 0,
            rows: vec![
                row(4096, 31, 20, [60, UNBOUNDED_NS, 40, 50]),
                row(65_536, 31, 200, [600, 800, 400, 500]),
                row(4096, 1, 100, [600, 600, 400, 500]),
            ],
        }
    }

    #[test]
    fn window_and_confidence_choose_the_cost() {
        let (table, write) = (table(), Kind { read: false, sequential: false });
        let cost = |window_ms, ppm, depth| {
            let curve = table.curve(Duration::from_ms(window_ms), ppm, depth).expect("profiled");
            curve.cost_ns(write, 4096)
        };
        assert_eq!(cost(1_000, 900_000, 31), 60);
        assert_eq!(cost(4_999, 500_000, 31), 60, "the window below, the confidence above");
        assert_eq!(cost(5_000, 900_001, 31), 50);
        assert_eq!(cost(60_000, 999_999, 31), 50);
        assert_eq!(cost(1_000, 1_000_000, 31), UNBOUNDED_NS, "a window in which nothing was done");
        assert_eq!(cost(5_000, 900_000, 8), 400, "depth 1 is nearer");
        let error = table.curve(Duration::from_ms(999), 900_000, 31).expect_err("too short");
        let text = "a window of 999 ms is shorter than the shortest that was profiled, 1.0 s";
        assert_eq!(error.to_string(), text);
        assert_eq!(CostTable::default().mean(1), Err(CostError::Empty));
    }

    #[test]
    fn sizes_between_are_on_the_line_and_larger_ones_in_proportion() {
        let table = table();
        let curve = table.curve(Duration::from_s(5), 900_000, 31).expect("profiled");
        let random = Kind { read: false, sequential: false };
        for (bytes, want) in [(512, 40), (4096, 40), (34_816, 220), (65_536, 400), (131_072, 800)] {
            assert_eq!(curve.cost_ns(random, bytes), want, "{bytes}");
        }
        let sequential = Kind { sequential: true, ..random };
        assert!(!curve.knows(sequential) && curve.knows(random));
        assert_eq!(curve.cost_ns(sequential, 4096), 40, "the other pattern stands in");
        assert_eq!(curve.cost_ns(Kind { read: true, sequential: false }, 4096), 40);
        assert_eq!(table.mean(31).expect("rows").cost_ns(random, 4096), 20);
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
    }
}
