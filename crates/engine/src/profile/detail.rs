//! What more does a measured profile say of a hard drive than the papers do?
//!
//! Source: models §5.2 (each parameter "from profile"); [BCW §3, Table 2] for the stages.
//! The papers give one `W_f` and one `W_m` per drive although their own counts differ by size, so
//! both are kept by size here; a size between two measured ones is interpolated.

use super::HddProfile;

/// What was measured at one write size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageBySize {
    /// Size of the writes, in bytes.
    pub write_bytes: u64,
    /// Bytes that the fast stage takes at this size. Paper: `W_f`.
    pub fast_bytes: u64,
    /// … and a mid stage. Paper: `W_m`.
    pub mid_bytes: u64,
    /// Writes in the fast stage.
    pub fast_writes: u64,
    /// Writes in a mid stage.
    pub mid_writes: u64,
    /// What a slow write adds at this size, in ns. Paper: `T_s`.
    pub slow_latency_ns: u64,
}

/// When does the drive empty its buffer by itself?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainLaw {
    /// At all times, also while writes come.
    Continuous,
    /// After a time without commands.
    AfterIdle,
    /// Only when the buffer is full, and at a flush.
    WhenFull,
}

impl DrainLaw {
    /// All laws with their names in files.
    pub const NAMED: [(&'static str, DrainLaw); 3] = [
        ("continuous", DrainLaw::Continuous),
        ("after-idle", DrainLaw::AfterIdle),
        ("when-full", DrainLaw::WhenFull),
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        let named = Self::NAMED.iter().find(|named| named.1 == self);
        named.expect("every law has a name").0
    }
}

/// What a measurement adds; empty for a profile from the papers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HddDetail {
    /// Stages by write size, ascending.
    pub stages: Vec<StageBySize>,
    /// Standard deviation of the bytes of a fast stage, in millionths of them.
    pub fast_jitter_ppm: Option<u64>,
    /// … of a mid stage.
    pub mid_jitter_ppm: Option<u64>,
    /// When the buffer empties by itself.
    pub drain_law: Option<DrainLaw>,
    /// Dirty bytes that a flush writes per second, beyond its base.
    pub flush_bytes_per_s: Option<u64>,
    /// Media rate by region: (first byte, bytes/s), ascending.
    pub regions: Vec<(u64, u64)>,
    /// Reaching a place, command and seek without rotation: (distance in bytes, ns), ascending.
    pub seeks: Vec<(u64, u64)>,
    /// One turn, in ns.
    pub turn_ns: Option<u64>,
    /// Bytes per year that the maker warrants may be read and written.
    pub workload_bytes_per_year: Option<u64>,
}

impl HddProfile {
    /// Bytes that the fast stage takes where writes are of `bytes`. Paper: `W_f`.
    pub fn fast_stage_bytes_of(&self, bytes: u64) -> u64 {
        let points = self.detail.stages.iter().map(|stage| (stage.write_bytes, stage.fast_bytes));
        between(points, bytes).unwrap_or(self.fast_stage_bytes)
    }
}

/// Linear between the points, constant beyond the first and the last.
fn between(points: impl Iterator<Item = (u64, u64)>, at: u64) -> Option<u64> {
    let mut low: Option<(u64, u64)> = None;
    for high in points {
        if at <= high.0 {
            let Some(low) = low else { return Some(high.1) };
            let (from, to) = (i128::from(low.1), i128::from(high.1));
            let rise = (to - from) * i128::from(at - low.0) / i128::from((high.0 - low.0).max(1));
            return Some(u64::try_from(from + rise).expect("between two points"));
        }
        low = Some(high);
    }
    low.map(|low| low.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_between_the_measured_ones_are_interpolated() {
        let points = [(4, 100), (16, 40)];
        for (at, want) in [(1, 100), (4, 100), (10, 70), (16, 40), (99, 40)] {
            assert_eq!(between(points.into_iter(), at), Some(want), "{at}");
        }
        assert_eq!(between([].into_iter(), 3), None);
    }
}
