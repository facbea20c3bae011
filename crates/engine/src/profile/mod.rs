//! What do we believe of a drive?
//!
//! Source: [BCW §3, Table 2]. A profile, never the drive model: shipped from the papers, measured by a profiler,
//! refined online. The engine decides by these numbers and survives their being wrong.

mod detail;
pub(crate) mod drain;
pub(crate) mod flush;
pub mod hdd;
pub(crate) mod mechanics;
mod probe;
mod series;
pub mod ssd;
pub mod staircase;
pub mod throughput;

pub use detail::{DrainLaw, HddDetail, StageBySize};
pub use probe::{MeasureError, Probe, Session};

/// What is believed of a hard drive's buffered writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HddProfile {
    /// Latency of a write in the fast state by size: (bytes, ns), ascending. Paper: `L_f`.
    pub fast_latency: Vec<(u64, u64)>,
    /// … in the mid state. Paper: `L_m`.
    pub mid_latency: Vec<(u64, u64)>,
    /// What the slow state adds, in ns. Paper: `L_s`.
    pub slow_latency_ns: u64,
    /// Bytes that the fast stage takes. Paper: `W_f`.
    pub fast_stage_bytes: u64,
    /// Bytes that one mid stage takes. Paper: `W_m`.
    pub mid_stage_bytes: u64,
    /// Idle time after which the drive drains its buffer by itself, in ns.
    pub drain_idle_ns: u64,
    /// How fast it then drains, in bytes/s.
    pub drain_bytes_per_s: u64,
    /// A flush of an empty buffer, in ns; dirty bytes add their draining time.
    pub flush_base_ns: u64,
    /// A typical positioning, seek and half a turn, in ns.
    pub position_ns: u64,
    /// What a measurement adds; empty for a profile from the papers.
    pub detail: Box<HddDetail>,
}

/// What is believed of an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdProfile {
    /// Sustained write rate in bytes/s.
    pub write_bytes_per_s: u64,
    /// A flush, in ns.
    pub flush_ns: u64,
    /// A write of 4 KiB when writes have gone on for long, in ns, by the queue depths of
    /// `ssd::DEPTHS`; `None` if that was not measured.
    pub sustained_ns: Option<[u64; ssd::DEPTHS.len()]>,
}

impl SsdProfile {
    /// The smallest of the measured queue depths, and of those between, at which a write takes longer
    /// than `ns`. `None`: none does; and if nothing was measured.
    pub fn depth_slower_than(&self, ns: u64) -> Option<u64> {
        let table: Vec<(u64, u64)> = ssd::DEPTHS.into_iter().zip(self.sustained_ns?).collect();
        (1..=DEPTH_MAX).find(|depth| latency_ns(&table, *depth) > ns)
    }
}

/// The largest queue depth that is measured.
pub(crate) const DEPTH_MAX: u64 = ssd::DEPTHS[ssd::DEPTHS.len() - 1];

impl Default for SsdProfile {
    /// A SATA drive of middling age (guess): used until one is profiled.
    fn default() -> Self {
        SsdProfile { write_bytes_per_s: 300_000_000, flush_ns: 2_000_000, sustained_ns: None }
    }
}

/// A write's latency by size: linear between the anchors and beyond the last.
pub fn latency_ns(anchors: &[(u64, u64)], bytes: u64) -> u64 {
    assert!(!anchors.is_empty(), "a profile has at least one latency");
    if anchors.len() == 1 {
        return anchors[0].1;
    }
    let upper = anchors.iter().position(|a| a.0 >= bytes).unwrap_or(anchors.len() - 1);
    if anchors[upper].0 == bytes {
        return anchors[upper].1; // most sizes are an anchor's, and a division takes longer
    }
    let upper = upper.max(1);
    let (low, high) = (anchors[upper - 1], anchors[upper]);
    let span = high.0 - low.0;
    let rise = high.1.saturating_sub(low.1);
    if bytes >= low.0 {
        low.1 + (bytes - low.0) * rise / span
    } else {
        low.1.saturating_sub((low.0 - bytes) * rise / span)
    }
}

/// A latency between measured points; `None` without any.
fn latency_at(points: &[(u64, u64)], at: u64) -> Option<u64> {
    (!points.is_empty()).then(|| latency_ns(points, at))
}
