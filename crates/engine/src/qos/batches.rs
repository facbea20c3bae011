//! Who goes next? Reads for a while, then writes: plain batching on one drive.
//!
//! Source: [IANUS §5.1], which says of it that it does not keep reads from blocking. Nothing is
//! promised. **Guess:** batches of 100 ms.

use super::sliced::Sliced;
use super::{Apart, Divide, QosEntry};

/// Registry line.
pub(crate) const ENTRY: QosEntry = QosEntry {
    name: "batches",
    summary: "reads and writes apart in batches of 100 ms, nothing promised",
    source: "IANUS 5.1, a baseline (P9)",
    build: || Box::new(ORDER),
};

const ORDER: Sliced = Sliced {
    apart: Apart { divide: Divide::ReadsFromWrites, slice_ns: [100_000_000; 2] },
    promises: false,
};
