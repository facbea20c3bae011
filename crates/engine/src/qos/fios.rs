//! Who goes next? Reads before writes, in time slices, every stream alike.
//!
//! Source: FIOS (FAST'12), as [IANUS §6] describes it: fair time slices and preference to reads. Its
//! slices of streams are fair queueing by cost here, its preference is that writes get a tenth of the
//! time while reads wait. **Guess:** both lengths.

use super::edf::owed_then_slack;
use super::{Apart, Candidate, Divide, Qos, QosEntry, QueueView, StreamsView};
use crate::device::Class;

/// Registry line.
pub const ENTRY: QosEntry = QosEntry {
    name: "fios",
    summary: "reads before writes in time slices, streams alike (like FIOS)",
    source: "IANUS 6, a baseline (P8)",
    build: || Box::new(Fios),
};

#[derive(Clone, Copy, Debug)]
struct Fios;

impl Qos for Fios {
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
        Some(Apart { divide: Divide::ReadsFromWrites, slice_ns: [10_000_000, 90_000_000] })
    }

    fn next_stream(&self, view: &StreamsView) -> Option<Candidate> {
        owed_then_slack(view)
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}
