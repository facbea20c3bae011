//! Who goes next? Reads before writes, in time slices, every stream alike.
//!
//! Source: FIOS (FAST'12), as [IANUS §6] describes it: fair time slices and preference to reads. Its
//! slices of streams are fair queueing by cost here, its preference is that writes get a tenth of the
//! time while reads wait. **Guess:** both lengths.

use super::sliced::Sliced;
use super::{Apart, Divide, QosEntry};

/// Registry line.
pub(crate) const ENTRY: QosEntry = QosEntry {
    name: "fios",
    summary: "reads before writes in time slices, streams alike (like FIOS)",
    source: "IANUS 6, a baseline (P8)",
    build: || Box::new(ORDER),
};

const ORDER: Sliced = Sliced {
    apart: Apart { divide: Divide::ReadsFromWrites, slice_ns: [10_000_000, 90_000_000] },
    promises: false,
};
