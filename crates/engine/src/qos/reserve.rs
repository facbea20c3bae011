//! What has been promised to whom, and which share of the drive is that?
//!
//! Source: [IANUS §4.2]: a rate, at a window and a confidence, is converted to *utilisation*, the
//! share of the drive's time that is given to the stream: rate times the cost of a request. Weights
//! and limits are those of mClock (requirements, frontier C5).

use super::cost::{CostTable, Curve, Kind, UNBOUNDED_NS};
use std::sync::Arc;
use tandem_block::{DeviceId, Duration, ObjectId, StreamId};

/// A whole drive, in billionths.
pub const WHOLE_PPB: u64 = 1_000_000_000;
/// Commands in the drive at most, where streams are told apart: beyond it the drive, not the
/// deadlines, would decide. That of the paper ([IANUS §2.1]).
pub const DEPTH: u32 = 31;
/// The weight of a stream without reservation that has none of its own.
pub(crate) const WEIGHT: u32 = 100;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;
/// A promise holds over windows of this length, unless it says otherwise (guess: the shortest over
/// which I9's drive keeps its promises).
pub const WINDOW: Duration = Duration::from_s(10);
/// … and in all but a twentieth of the windows profiled, as the paper's Figure 7.
pub const CONFIDENCE_PPM: u32 = 950_000;
/// The share of background work, unless it says otherwise: what makes room must go on beside
/// reservations (guess).
pub const BACKGROUND_PPB: u64 = WHOLE_PPB / 20;
/// The weight of background work in the slack.
pub(crate) const BACKGROUND_WEIGHT: u32 = 50;

/// So much in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Requests.
    Requests(u64),
    /// Bytes.
    Bytes(u64),
}

impl Rate {
    /// Requests of this size in a second, rounded up.
    pub fn requests(self, size_bytes: u64) -> u64 {
        match self {
            Rate::Requests(count) => count,
            Rate::Bytes(bytes) => bytes.div_ceil(size_bytes.max(1)),
        }
    }

    /// A rate of the same unit that comes to so many requests of this size.
    #[must_use]
    pub(crate) fn of_requests(self, count: u64, size_bytes: u64) -> Rate {
        match self {
            Rate::Requests(_) => Rate::Requests(count),
            Rate::Bytes(_) => Rate::Bytes(count.saturating_mul(size_bytes)),
        }
    }

    /// How long one request of this size takes at this rate, in ns.
    pub(crate) fn interval_ns(self, size_bytes: u64) -> u64 {
        let (per_second, part) = match self {
            Rate::Requests(count) => (count, 1),
            Rate::Bytes(bytes) => (bytes, size_bytes),
        };
        let ns = u128::from(part) * u128::from(WHOLE_PPB) / u128::from(per_second.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rate::Requests(count) => write!(f, "{count} requests/s"),
            Rate::Bytes(bytes) if *bytes >= 10_000_000 => write!(f, "{} MB/s", bytes / 1_000_000),
            Rate::Bytes(bytes) => write!(f, "{} kB/s", bytes / 1_000),
        }
    }
}

/// Which of reading and writing a promise is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Does {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Either: the dearer counts.
    #[default]
    Either,
}

/// What is promised to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// How much.
    pub rate: Rate,
    /// Of what.
    pub does: Does,
    /// … in sequence?
    pub sequential: bool,
    /// … of how many bytes each?
    pub size_bytes: u64,
    /// Over windows of this length.
    pub window: Duration,
    /// In so many millionths of the windows that were profiled.
    pub confidence_ppm: u32,
}

impl Promise {
    /// A rate of requests of this size, either way, at random, with the usual window and confidence.
    pub fn of(rate: Rate, size_bytes: u64) -> Promise {
        Promise {
            rate,
            does: Does::Either,
            sequential: false,
            size_bytes,
            window: WINDOW,
            confidence_ppm: CONFIDENCE_PPM,
        }
    }

    /// The cost of one of its requests on this curve, in ns.
    pub fn cost_ns(&self, curve: &Curve) -> u64 {
        self.cost_by(&|kind, bytes| curve.cost_ns(kind, bytes))
    }

    /// … by these costs.
    pub(crate) fn cost_by(&self, cost_ns: &dyn Fn(Kind, u64) -> u64) -> u64 {
        let cost = |read| cost_ns(Kind { read, sequential: self.sequential }, self.size_bytes);
        match self.does {
            Does::Read => cost(true),
            Does::Write => cost(false),
            Does::Either => cost(true).max(cost(false)),
        }
    }

    /// The share of a drive that it takes at this cost, in billionths: rate x cost. `None`: no share
    /// would do.
    pub fn share_ppb(&self, cost_ns: u64) -> Option<u64> {
        if cost_ns == UNBOUNDED_NS {
            return None;
        }
        Some(self.rate.requests(self.size_bytes).saturating_mul(cost_ns).max(1))
    }
}

/// Whose requests make a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Everything on a volume.
    Volume(ObjectId),
    /// What a client or a trace numbers so.
    Stream(StreamId),
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Its name.
    pub name: String,
    /// Whose requests.
    pub of: Selector,
    /// What is promised to it.
    pub promise: Option<Promise>,
    /// Its part of the slack, 1 to `WEIGHT_MAX`. `None`: without a promise `WEIGHT`; with one it gets
    /// of the slack what streams with weights leave, in proportion to its share.
    pub weight: Option<u32>,
    /// No more than this.
    pub limit: Option<Rate>,
}

/// How requests are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosConfig {
    /// The order's registered name. Default `fifo`.
    pub order: String,
    /// The streams that are told apart; everything else is one more, without promise.
    pub streams: Vec<StreamConfig>,
    /// More may be promised than there is: everyone gets the proportion of it. Default no.
    pub overcommit: bool,
    /// Commands in an SSD at most, where streams are told apart. Default 31.
    pub depth: u32,
    /// The share of background work, in billionths. Default a twentieth.
    pub background_ppb: u64,
    /// What is believed of the costs of each drive, by id; a drive that is missing has no profile.
    pub costs: Vec<Option<Arc<CostTable>>>,
}

impl Default for QosConfig {
    fn default() -> Self {
        QosConfig {
            order: super::ORDERS[0].name.into(),
            streams: Vec::new(),
            overcommit: false,
            depth: DEPTH,
            background_ppb: BACKGROUND_PPB,
            costs: Vec::new(),
        }
    }
}

impl QosConfig {
    /// What is believed of a drive's costs.
    pub(crate) fn costs_of(&self, device: DeviceId) -> Option<&CostTable> {
        self.costs.get(usize::from(device.0))?.as_deref()
    }

    /// Is anything promised?
    pub fn promises(&self) -> bool {
        self.streams.iter().any(|stream| stream.promise.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_become_shares() {
        let promise = Promise::of(Rate::Requests(20_000), 4096);
        // I10: 20,000 writes a second of 50 us each are the whole drive
        assert_eq!(promise.share_ppb(50_000), Some(WHOLE_PPB));
        assert_eq!(promise.share_ppb(UNBOUNDED_NS), None);
        assert_eq!(Rate::Bytes(10_000).requests(4096), 3);
        assert_eq!(Rate::Bytes(10_000).of_requests(3, 4096), Rate::Bytes(12_288));
        assert_eq!(Rate::Requests(4).interval_ns(1 << 20), 250_000_000);
        assert_eq!(Rate::Bytes(1 << 20).interval_ns(1 << 18), 250_000_000);
        assert_eq!(Rate::Bytes(25_000_000).to_string(), "25 MB/s");
    }
}
