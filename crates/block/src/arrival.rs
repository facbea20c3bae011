//! What does one line of a trace say? This record, whatever the format.

use crate::{Instant, ObjectId, Op, RequestType, StreamId};

/// One request as it arrives, from a trace or a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, in nanoseconds after the first request of the trace.
    pub at: Instant,
    /// Which device of the trace (each is one object).
    pub object: ObjectId,
    /// What is asked; `Op::Flush` has neither offset nor length.
    pub op: Op,
    /// First byte, a multiple of 512.
    pub offset_bytes: u64,
    /// Bytes, a multiple of 512.
    pub length_bytes: u64,
    /// The write must be durable before it is acknowledged.
    pub fua: bool,
    /// Who asks; 0 where the format does not say.
    pub stream: StreamId,
    /// Data or metadata; `Data` where the format does not say.
    pub data_type: RequestType,
}
