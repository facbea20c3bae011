//! How is a drive spoken to, modelled or paired?
//!
//! Source: design decision 4. A drive is told the time and answers with times; it holds no event
//! queue and reads no clock. The event loop applies contents when the acknowledgement comes due.

use crate::{Instant, IoError};

/// What a drive is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriveOpKind {
    /// Return bytes.
    Read,
    /// Store bytes; with `fua` acknowledged only once they are durable.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Settle every write acknowledged before this command was submitted.
    Flush,
    /// The range is not needed any more.
    Trim,
}

/// One command to one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriveOp {
    /// What to do.
    pub kind: DriveOpKind,
    /// First byte on the drive, a multiple of 512; 0 for a flush.
    pub offset_bytes: u64,
    /// Bytes, a multiple of 512; 0 for a flush.
    pub length_bytes: u64,
}

/// Names one submitted command of one drive; rises by one per command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The drive's answer, known at submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the drive will acknowledge. `Instant::NEVER` for a command that is never answered.
    pub ack_at: Instant,
    /// When the bytes will be on the medium by themselves, where the drive knows; a flush may
    /// settle them earlier. `None`: only a flush or an idle drain settles them.
    pub durable_at: Option<Instant>,
    /// What the acknowledgement will say.
    pub status: Result<(), IoError>,
    /// Names the command. Death, a later stall or a role change may void it: ask
    /// `Drive::ticket_ack` when it comes due.
    pub ticket: Ticket,
}

/// Something a modelled drive did inside, for tests and tables; the engine never sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveEvent {
    /// When it began.
    pub start: Instant,
    /// When it ended (or will end).
    pub end: Instant,
    /// What it was.
    pub kind: DriveEventKind,
}

/// Kinds of inner events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DriveEventKind {
    /// A write met the fast state.
    Fast,
    /// A write met the mid state.
    Mid,
    /// A write met the slow state.
    Slow,
    /// The buffer drained by itself.
    IdleDrain,
    /// A flush.
    Flush,
    /// The SSD reclaimed lines.
    GarbageCollection,
    /// The SSD moved data out of its SLC cache.
    Fold,
    /// The SMR media cache was cleaned.
    BandRewrite,
    /// An injected stall.
    Stall,
    /// The drive died.
    Death,
}

/// Something a faulty drive did to contents, for the event loop to carry out: a drive says when, and
/// holds no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentFault {
    /// The command that it happened to.
    pub ticket: Ticket,
    /// What happened.
    pub kind: ContentFaultKind,
}

/// Kinds of damage to contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentFaultKind {
    /// The write is acknowledged and stores nothing.
    Lost,
    /// The write stores a random subset of its sectors, drawn from this seed.
    Torn {
        /// Seeds the subset.
        seed: u64,
    },
    /// One bit differs: of what the write stored, or of what the read returned.
    BitFlip {
        /// The sector, in bytes on the drive.
        offset_bytes: u64,
        /// Which of its 4096 bits.
        bit: u16,
    },
    /// The flush is acknowledged and settles nothing.
    FlushIgnored,
    /// The write went to, or the read came from, another place of the drive.
    Misdirected {
        /// That place, in bytes on the drive; as many bytes as the command has lie from there on.
        offset_bytes: u64,
    },
    /// The read returned what is durable, and not what was acknowledged since.
    Stale,
}

/// A drive as the event loops see it: a model, a wrapper around one, or later a pair.
pub trait Drive: Send {
    /// Usable bytes.
    fn capacity_bytes(&self) -> u64;

    /// Takes one command at `now`, which must not be earlier than in any call before.
    /// Ranges must lie within the capacity and be multiples of 512 (asserted).
    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome;

    /// When a submitted command will now be acknowledged and how: differs from its outcome if the
    /// drive stalled or died since.
    fn ticket_ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        (outcome.ack_at, outcome.status)
    }

    /// Bytes acknowledged by `now` that a power cut may lose, counted from the newest write back.
    fn volatile_bytes(&mut self, now: Instant) -> u64;

    /// The power fails and returns at `now`: buffers are empty, nothing is in flight. Contents are
    /// the media's affair.
    fn power_cycle(&mut self, now: Instant);

    /// Inner events since the last call, oldest first, if the model was told to keep them.
    fn take_events(&mut self) -> Vec<DriveEvent> {
        Vec::new()
    }

    /// Damage to contents since the last call, for the event loop to carry out when the command's
    /// acknowledgement comes due. Empty for drives that work.
    fn take_content_faults(&mut self) -> Vec<ContentFault> {
        Vec::new()
    }

    /// Flash pages programmed and host pages written since the start, for write amplification;
    /// (0, 0) where it has no meaning.
    fn flash_pages(&self) -> (u64, u64) {
        (0, 0)
    }

    /// A copy with all its state, so that a test can fork the event loop.
    fn fork(&self) -> Box<dyn Drive>;
}
