//! Who goes next on this device?
//!
//! Source: [IANUS §4]. A seam: one file per answer. The engine shows what waits and carries out the
//! choice. An order that knows classes alone (`fifo`) is shown the heads of the waiting classes; one
//! that tells streams apart (`edf`) is shown the candidates that `streams` keeps ready.
//!
//! ```text
//! profile ─▶ cost: what is a request worth? ─▶ reserve: does the promise fit? ─▶ a share of the drive
//!                                                                                   │
//! request ─▶ streams: D = max(T, arrival) + e/u ─▶ order (edf): who of the candidates? ─▶ device
//!                                                                                   │
//!                          delivery: was the promise kept over its window? ◀────────┘
//! ```

pub mod admit;
pub(crate) mod apart;
pub(crate) mod batches;
pub mod cost;
pub(crate) mod deadline;
pub mod delivery;
pub(crate) mod edf;
pub(crate) mod fifo;
pub(crate) mod fios;
pub(crate) mod lanes;
pub(crate) mod observed;
pub mod reserve;
pub(crate) mod sfq;
mod sliced;
pub mod streams;
mod tags;
mod tree;

use crate::io::queue::Class;
use tandem_block::Instant;

/// What a choice is made from: the order of arrival of the first waiting job of each class.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueView {
    /// Of the reads.
    pub read: Option<u64>,
    /// Of the writes.
    pub write: Option<u64>,
    /// Of the background jobs.
    pub background: Option<u64>,
    /// When the first waiting read came, if there is one.
    pub(crate) read_came: Instant,
    /// … and the first waiting write.
    pub(crate) write_came: Instant,
    /// Background commands in flight on this device.
    pub(crate) background_in_flight: u32,
}

/// Who of the streams could go next; none that its limit holds back. A stream to which its share is
/// owed stands for the slack too: whether that waits for what is owed is the order's business.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamsView {
    /// Among the streams whose share is owed to them now: the earliest deadline.
    pub(crate) due: Option<Instant>,
    /// Among the streams with a weight: the one that has had the least of the slack.
    pub(crate) weighted: Option<u64>,
    /// Among the streams with a reservation and no weight: the one that has had the least beyond its
    /// share.
    pub(crate) ahead: Option<u64>,
    /// Deadline of the first background job, if its share is owed to it now.
    pub(crate) background_due: Option<Instant>,
    /// … and what background work has had of the slack, if any waits.
    pub(crate) background: Option<u64>,
    /// Background commands in flight on this device.
    pub(crate) background_in_flight: u32,
}

/// Whom an order chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// The earliest deadline.
    Due,
    /// The weighted stream with the least of the slack.
    Weighted,
    /// The reserved stream with the least beyond its share.
    Ahead,
    /// Background work, because its share is owed to it.
    BackgroundDue,
    /// Background work, in the slack.
    Background,
}

/// By what requests are told apart in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Divide {
    /// Reads from writes.
    ReadsFromWrites,
    /// Sequential writes from random ones; reads go at any time.
    SequentialFromRandomWrites,
}

/// Requests of one sort are served for a while, then those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Which sorts.
    pub(crate) divide: Divide,
    /// How long writes, or random writes, are served while others wait, in ns; and how long reads, or
    /// sequential writes.
    pub(crate) slice_ns: [u64; 2],
}

impl Apart {
    /// Which slice a request belongs to; `None`: any.
    #[inline]
    pub(crate) fn side(&self, read: bool, sequential: bool) -> Option<bool> {
        match self.divide {
            Divide::ReadsFromWrites => Some(read),
            Divide::SequentialFromRandomWrites => (!read).then_some(sequential),
        }
    }
}

/// An order of service.
pub trait Qos: std::fmt::Debug + Send {
    /// Which class goes next; `None` to wait.
    fn next(&self, view: &QueueView) -> Option<Class>;
    /// Does it tell streams apart? Then `next_stream` is asked, of SSDs.
    fn tells_streams(&self) -> bool {
        false
    }
    /// Does it keep what was promised? Otherwise all streams are alike but for their weights.
    fn keeps_promises(&self) -> bool {
        true
    }
    /// Does it serve some requests apart from others, in slices of time?
    fn apart(&self) -> Option<Apart> {
        None
    }
    /// Which candidate goes next; `None` to wait.
    fn next_stream(&self, _: &StreamsView) -> Option<Candidate> {
        None
    }
    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Qos>;
}

impl Clone for Box<dyn Qos> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A registered order.
#[derive(Clone, Copy, Debug)]
pub struct QosEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Makes one.
    pub build: fn() -> Box<dyn Qos>,
}

/// Every order there is; the first is the default.
pub const ORDERS: &[QosEntry] = &[
    fifo::ENTRY,
    edf::ENTRY,
    apart::ENTRY,
    batches::ENTRY,
    fios::ENTRY,
    sfq::ENTRY,
    deadline::ENTRY,
];

/// The order of this name.
pub fn named(name: &str) -> Option<&'static QosEntry> {
    ORDERS.iter().find(|entry| entry.name == name)
}
