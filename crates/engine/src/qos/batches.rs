//! Who goes next? Reads for a while, then writes: plain batching on one drive.
//!
//! Source: [IANUS §5.1], which says of it that it does not keep reads from blocking. Nothing is
//! promised. **Guess:** batches of 100 ms.

use super::edf::owed_then_slack;
use super::{Apart, Candidate, Divide, Qos, QosEntry, QueueView, StreamsView};
use crate::device::Class;

/// Registry line.
pub const ENTRY: QosEntry = QosEntry {
    name: "batches",
    summary: "reads and writes apart in batches of 100 ms, nothing promised",
    source: "IANUS 5.1, a baseline (P9)",
    build: || Box::new(Batches),
};

#[derive(Clone, Copy, Debug)]
struct Batches;

impl Qos for Batches {
    fn next(&self, view: &QueueView) -> Option<Class> {
        super::fifo::users_first(view)
    }

    fn tells_streams(&self) -> bool {
        true
    }

    fn keeps_promises(&self) -> bool {
        false
    }

    fn apart(&self) -> Option<Apart> {
        Some(Apart { divide: Divide::ReadsFromWrites, slice_ns: [100_000_000; 2] })
    }

    fn next_stream(&self, view: &StreamsView) -> Option<Candidate> {
        owed_then_slack(view)
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}
