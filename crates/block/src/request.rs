//! What does one request say?

use crate::{Duration, Instant, ObjectId, StreamId};

/// Names one request in flight; chosen by the event loop, echoed in its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a buffer that the event loop keeps until the engine (or, for a read's result, the front end)
/// releases it. The engine never sees the bytes.
///
/// The event loop numbers the payloads it takes from users with the top bit clear; the engine numbers
/// those that it reserves with the top bit set, so neither has to ask the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadId(pub u64);

impl PayloadId {
    /// Set in the ids that the engine chooses.
    pub const ENGINE_BIT: u64 = 1 << 63;
    /// No bytes at all: reads before they have a buffer, flushes, discards.
    pub const NONE: PayloadId = PayloadId(u64::MAX);
}

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Return bytes.
    Read,
    /// Store bytes.
    Write,
    /// Make every write acknowledged before this request durable.
    Flush,
    /// The bytes are not needed any more; they read as zeroes afterwards.
    Discard,
    /// The bytes shall read as zeroes.
    WriteZeroes,
}

impl Op {
    /// Does it change the object?
    pub const fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::Discard | Op::WriteZeroes)
    }
}

/// What an acknowledgement of a write means before any FLUSH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DurabilityClass {
    /// Block-device semantics: may be in a volatile buffer; FLUSH and FUA are honoured.
    #[default]
    VolatileOk,
    /// Redirected only to drives whose caches survive a power cut.
    Protected,
    /// A redirected write is on an SSD too until its hard drive has been flushed: no less safe than
    /// one that was not redirected.
    Journaled,
    /// Acknowledged when it is durable, as if every write carried FUA.
    Strict,
}

impl DurabilityClass {
    /// Of what a volume promises and what a request asks for, that which promises more.
    #[must_use]
    pub const fn stronger(self, other: DurabilityClass) -> DurabilityClass {
        if other as u8 > self as u8 { other } else { self }
    }
}

/// On whose behalf the request runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A user waits for it.
    #[default]
    User,
    /// Write-back, GC, migration, scrub.
    Background,
}

/// What the bytes are, where the front end knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestType {
    /// File or volume contents.
    #[default]
    Data,
    /// Directories, attributes and the like.
    Metadata,
}

/// One request as a front end hands it to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Echoed in the completion.
    pub id: RequestId,
    /// Which object.
    pub object: ObjectId,
    /// What to do.
    pub op: Op,
    /// First byte within the object, a multiple of 512. 0 for a flush.
    pub offset_bytes: u64,
    /// Bytes, a multiple of 512. 0 for a flush.
    pub length_bytes: u64,
    /// Durable before it is acknowledged.
    pub fua: bool,
    /// Who asks.
    pub stream: StreamId,
    /// What its acknowledgement promises.
    pub class: DurabilityClass,
    /// User or background.
    pub kind: RequestKind,
    /// Data or metadata.
    pub data_type: RequestType,
    /// A write's bytes; `PayloadId::NONE` otherwise.
    pub payload: PayloadId,
    /// When the user asked; latency counts from here, also where the event loop held it back.
    pub arrived: Instant,
}

impl Request {
    /// A plain user request with default class, kind and type.
    pub const fn new(
        id: RequestId,
        object: ObjectId,
        op: Op,
        range: (u64, u64),
        at: Instant,
    ) -> Self {
        Request {
            id,
            object,
            op,
            offset_bytes: range.0,
            length_bytes: range.1,
            fua: false,
            stream: StreamId(0),
            class: DurabilityClass::VolatileOk,
            kind: RequestKind::User,
            data_type: RequestType::Data,
            payload: PayloadId::NONE,
            arrived: at,
        }
    }

    /// How long it has been under way at `now`.
    pub const fn age(&self, now: Instant) -> Duration {
        now.since(self.arrived)
    }
}
