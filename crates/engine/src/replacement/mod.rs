//! How does one drive take another one's place while the pool is served?
//!
//! Requirement L4. The old drive stays the member, and everything is read from it, until the successor
//! holds all that it holds, durably; then one superblock decides.
//!
//! ```text
//!             engine: commands to the old drive               copied   claimed     not yet
//!    reads │        │ writes, flushes             old drive  ▓▓▓▓▓▓▓▓▓│▒▒▒▒▒▒▒│░░░░░░░░░░░░
//!          ▼        ▼ double.rs                                  │        │          │
//!       old drive   old drive, and the successor         writes: both   wait   old drive alone
//!                   where it is copied already
//!
//!   marks ─▶ superblocks name the successor ─▶ copy (copy.rs), marks (mark.rs) ─▶ nothing is under way
//!   ─▶ successor flushed ─▶ its superblock: THE MOMENT ─▶ the other members' ─▶ the old drive's: replaced
//! ```
//! - Before that moment a crash leaves the old drive as the member and a copy that goes on at its mark;
//!   after it the successor is the member, whatever the other superblocks say already (`start.rs`).
//! - The old one's place is served again only when every superblock has been told.
//! - When the successor fails, or the administrator changes her mind, the superblocks are told before
//!   another write is acknowledged: its marks must not count when it comes back (`switch.rs`).
//!
//! A drive that takes an empty place comes in the same way, with little to copy (`join.rs`).
//!
//! A room between the device queues and the event loop, as `mirror` is: no other room knows of it.

mod copy;
mod double;
mod empty;
mod join;
mod mark;
mod start;
mod steps;
mod switch;

pub use crate::config::SuccessorConfig;
use crate::drain::Evacuation;
use crate::format::superblock::{Successor, SuccessorState};
use crate::io::{DeviceIo, Phase};
use crate::metadata::MetadataHomes;
use crate::port::{Io, IoId};
use crate::replicas::piece::Pieces;
use copy::Plan;
use double::Under;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tandem_block::{DeviceId, Instant, IoError};

/// Set in the ids of a replacement's own commands; the engine's other ids are small numbers.
const IO_BIT: u32 = 1 << 30;

/// Is this command a replacement's own?
pub(crate) fn owns(io: IoId) -> bool {
    io.0 & IO_BIT != 0 && crate::mirror::owner(io).is_none()
}

fn name(key: usize) -> IoId {
    assert!(key < 1 << 24, "commands in flight are bounded");
    IoId(IO_BIT | key as u32)
}

/// Where a replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// At the start: the successor's marks are read.
    Opening,
    /// The first marks are written.
    Marking,
    /// Superblocks are to name it, or are being written.
    Announcing { begun: bool },
    /// Regions are copied.
    Copying,
    /// All is copied; what is under way ends, and nothing new goes to the drive.
    Settling,
    /// Who is the member changes.
    Switching(Step),
    /// It has taken an empty place, and what went to it in another way ends.
    Landing,
    /// The superblocks are told that it is over.
    Voiding { begun: bool },
    /// What is under way with the successor ends.
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The successor is flushed,
    Flush,
    /// … gets its superblocks, one after the other,
    Own(usize),
    /// … then the other members,
    Others,
    /// … and the old drive.
    Retire(usize),
}

/// Why a command of the replacement's own is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    Open,
    CopyRead,
    CopyWrite,
    Double(IoId),
    MarkFlush,
    Mark,
    SwitchFlush,
    OwnSuperblock,
    Retire,
    Wipe,
}

/// How a replacement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The successor is the member.
    Finished,
    /// The administrator wanted it no more.
    Cancelled,
    /// The old drive failed, or cannot be read where it must.
    OldFailed,
    /// So did the one that the metadata is copied from to a drive that takes an empty place.
    SourceFailed,
    /// The successor failed.
    SuccessorFailed(IoError),
    /// The drive found in the successor's place at the start is none of this pool.
    NotKnown,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Finished => write!(out, "finished"),
            Ending::Cancelled => write!(out, "cancelled"),
            Ending::OldFailed => write!(out, "the old drive failed before all was copied"),
            Ending::SourceFailed => {
                write!(out, "the drive that the metadata is copied from cannot be read")
            }
            Ending::SuccessorFailed(error) => write!(out, "the new drive failed: {error}"),
            Ending::NotKnown => {
                write!(out, "the new drive holds no copy that this pool knows of: begin again")
            }
        }
    }
}

/// What a replacement did in this life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplacementStats {
    /// Bytes copied.
    pub(crate) copied_bytes: u64,
    /// Bytes of users' and other writes that went to both drives.
    pub doubled_bytes: u64,
    /// Blocks that the old drive could not read.
    pub unreadable_blocks: u64,
    /// Marks written.
    pub marks: u64,
    /// Bytes that were there already when this life began.
    pub resumed_bytes: u64,
}

/// A replacement as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacementView {
    /// Whose place is taken.
    pub device: DeviceId,
    /// It was empty.
    pub joins: bool,
    /// What goes on, in a word.
    pub stage: &'static str,
    /// Bytes that are copied.
    pub copied_bytes: u64,
    /// … of so many
    pub total_bytes: u64,
    /// … and those that a crash would not take back.
    pub marked_bytes: u64,
    /// Since when, in this life.
    pub began: Instant,
    /// When it ended, and how.
    pub ended: Option<(Instant, Ending)>,
    /// Counters.
    pub stats: ReplacementStats,
}

/// Why a drive cannot be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The pool does not run as it must for that.
    #[error("the pool {0}")]
    NotNow(&'static str),
    /// One at a time.
    #[error("device {} is being replaced already; wait for its end, or cancel it", .0.0)]
    UnderWay(DeviceId),
    /// Nothing to cancel.
    #[error("no drive is being replaced")]
    Nothing,
    /// It is decided already.
    #[error("all is copied and the new drive is taking over: it is too late to cancel")]
    TooLate,
    /// No such drive.
    #[error("there is no device {}", .0.0)]
    NoDevice(DeviceId),
    /// Legs are replaced in another way.
    #[error(
        "device {} is a mirrored pair: a leg of it is replaced by `replace` in its `leg`", .0.0
    )]
    IsPair(DeviceId),
    /// The old drive is out of service.
    #[error("device {} has failed and cannot be copied from", .0.0)]
    Faulted(DeviceId),
    /// What was promised to streams is sold on all SSDs.
    #[error("streams were promised a part of every SSD: take the promises back first")]
    Promised,
    /// Too small.
    #[error("the new drive has {found} bytes, and {wanted} are needed")]
    TooSmall {
        /// Bytes that it has.
        found: u64,
        /// Bytes that it needs.
        wanted: u64,
    },
}

/// A drive that takes another one's place, if there is one, and the last one that did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replacement {
    current: Option<Box<DriveCopy>>,
    ended: Option<ReplacementView>,
    /// It was asked for, and its first mark is not on its way yet.
    wanted: bool,
    /// Answers of the old drive that were kept back until the successor had answered, too.
    answered: VecDeque<(IoId, double::Ended)>,
}

impl Replacement {
    /// Is one under way?
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Does one take the commands to this drive?
    pub(crate) fn takes(&self, device: DeviceId) -> bool {
        self.current.as_deref().is_some_and(|h| h.takes(device))
    }

    /// Does its successor become the member now?
    pub(crate) fn is_switching(&self) -> bool {
        self.current.as_deref().is_some_and(DriveCopy::is_switching)
    }

    /// What superblocks say of it now.
    pub(crate) fn named(&self) -> Option<Successor> {
        self.current.as_deref().and_then(DriveCopy::named)
    }
}

/// A replacement under way.
#[derive(Clone, Debug)]
pub(crate) struct DriveCopy {
    /// Whose commands it takes: the old drive, or the one that metadata is copied from.
    device: DeviceId,
    /// Whose place is taken.
    bay: DeviceId,
    /// It was empty.
    joins: bool,
    /// The successor failed when it was too late to leave it out.
    is_lost: bool,
    /// Where the event loop has the successor.
    place: DeviceId,
    uuid: u128,
    old_uuid: u128,
    drive_bytes: u64,
    stage: Stage,
    plan: Plan,
    copied_bytes: u64,
    pieces: Pieces,
    marked_bytes: u64,
    mark_number: u64,
    marking: Option<u64>,
    flights: Slab<Flight>,
    /// The engine's commands to the old drive.
    under_way: BTreeMap<u32, Under>,
    /// … that were under way when the replacement began.
    early: BTreeSet<IoId>,
    held: VecDeque<Io>,
    /// Something went to the successor as well since its last flush.
    dirty: bool,
    /// Flushes of the engine's that the successor works on.
    flushes: u32,
    ending: Option<Ending>,
    found: start::Found,
    began: Instant,
    stats: ReplacementStats,
}

impl DriveCopy {
    fn new(device: DeviceId, place: DeviceId, drive_bytes: u64, now: Instant) -> DriveCopy {
        DriveCopy {
            device,
            bay: device,
            joins: false,
            is_lost: false,
            place,
            uuid: 0,
            old_uuid: 0,
            drive_bytes,
            stage: Stage::Opening,
            plan: Plan::of(&Default::default(), 2 * tandem_block::BLOCK_BYTES),
            copied_bytes: 0,
            pieces: Pieces::new(),
            marked_bytes: 0,
            mark_number: 0,
            marking: None,
            flights: Slab::new(),
            under_way: BTreeMap::new(),
            early: BTreeSet::new(),
            held: VecDeque::new(),
            dirty: false,
            flushes: 0,
            ending: None,
            found: start::Found::default(),
            began: now,
            stats: ReplacementStats::default(),
        }
    }

    /// What superblocks say of it now.
    pub(crate) fn named(&self) -> Option<Successor> {
        let (index, uuid) = (self.bay.0, self.uuid);
        let successor = Successor { state: SuccessorState::Copying, index, uuid };
        match self.stage {
            Stage::Announcing { .. } | Stage::Copying | Stage::Settling => Some(successor),
            Stage::Switching(Step::Flush) => Some(successor),
            _ => None,
        }
    }

    /// Does it take the commands to this drive?
    #[inline]
    pub(crate) fn takes(&self, device: DeviceId) -> bool {
        device == self.device || (device == self.bay && self.stage == Stage::Landing)
    }

    /// The drives whose commands it takes.
    fn taken(&self) -> [Option<DeviceId>; 2] {
        let bay = (self.stage == Stage::Landing).then_some(self.bay);
        [Some(self.device), bay]
    }

    /// Does the successor become the member now?
    pub(crate) fn is_switching(&self) -> bool {
        matches!(self.stage, Stage::Switching(_) | Stage::Landing)
    }

    /// Why it ends when the drive that it reads from fails.
    fn source_failed(&self) -> Ending {
        if self.joins { Ending::SourceFailed } else { Ending::OldFailed }
    }

    fn view(&self) -> ReplacementView {
        let stage = match self.stage {
            Stage::Opening | Stage::Marking | Stage::Announcing { .. } => "begins",
            Stage::Copying => "copies",
            Stage::Settling | Stage::Switching(_) | Stage::Landing => "takes over",
            Stage::Voiding { .. } | Stage::Leaving => "ends",
        };
        ReplacementView {
            device: self.bay,
            joins: self.joins,
            stage,
            copied_bytes: self.copied_bytes,
            total_bytes: self.plan.total_bytes(),
            marked_bytes: self.marked_bytes,
            began: self.began,
            ended: None,
            stats: ReplacementStats {
                unreadable_blocks: self.pieces.unreadable_blocks(),
                ..self.stats
            },
        }
    }
}

impl Replacement {
    /// The replacement under way, or the last one that ended in this life.
    pub(crate) fn replacement(&self) -> Option<ReplacementView> {
        self.current.as_deref().map(DriveCopy::view).or(self.ended)
    }

    /// Where the event loop has a successor, or would have one: behind all other drives.
    pub(crate) fn successor_place(&self, io: &DeviceIo) -> DeviceId {
        io.config().successor_place()
    }

    /// Ends the replacement under way; the old drive stays. The caller wakes the engine.
    ///
    /// # Errors
    /// If there is none, it is decided, or the pool is not served yet.
    pub(crate) fn cancel_replace(
        &mut self,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) -> Result<(), ReplaceError> {
        let h = self.current.as_deref().ok_or(ReplaceError::Nothing)?;
        if !io.is_serving() {
            // it is not known yet whether the successor is the member
            return Err(ReplaceError::NotNow("is not served"));
        }
        match h.stage {
            Stage::Settling | Stage::Switching(_) | Stage::Landing => Err(ReplaceError::TooLate),
            _ => {
                self.end_replacement(Ending::Cancelled, metadata, io);
                Ok(())
            }
        }
    }

    /// Which drives' commands are taken has changed.
    fn withhold(&self, io: &mut DeviceIo) {
        io.withhold(self.current.as_deref().map_or([None; 2], DriveCopy::taken));
    }

    fn replacement_stage(&self) -> Stage {
        self.current.as_deref().expect("asked while there is one").stage
    }

    /// Is nothing of it under way that a clean stop would cut?
    pub(crate) fn replacement_is_quiet(&self) -> bool {
        self.current.as_deref().is_none_or(|h| {
            h.stage == Stage::Copying
                && h.pieces.claimed().is_none()
                && h.flights.is_empty()
                && h.marked_bytes >= h.markable_bytes()
        })
    }

    /// Could this drive be replaced by one of so many bytes?
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn can_replace(
        &self,
        device: DeviceId,
        capacity_bytes: u64,
        metadata: &MetadataHomes,
        evacuation: &Evacuation,
        io: &DeviceIo,
    ) -> Result<(), ReplaceError> {
        if io.phase() != Phase::Running {
            return Err(ReplaceError::NotNow("is not served"));
        }
        if io.is_fixed() || metadata.is_degraded() {
            return Err(ReplaceError::NotNow("is served read-only"));
        }
        if let Some(h) = &self.current {
            return Err(ReplaceError::UnderWay(h.bay));
        }
        if evacuation.is_under_way() {
            return Err(ReplaceError::NotNow(
                "has a drive that is being drained: remove it, or cancel that, first",
            ));
        }
        let Some(old) = io.drives().get(device) else {
            return Err(ReplaceError::NoDevice(device));
        };
        if old.is_gone() {
            return self.can_join(device, capacity_bytes, metadata, io);
        }
        if old.is_pair {
            return Err(ReplaceError::IsPair(device));
        }
        if old.is_faulted() {
            return Err(ReplaceError::Faulted(device));
        }
        let wanted = old.config.capacity_bytes;
        if capacity_bytes < wanted {
            return Err(ReplaceError::TooSmall { found: capacity_bytes, wanted });
        }
        Ok(())
    }

    /// A drive that the event loop has added behind all others shall take the place of this one, which may have
    /// been removed, under an id that no drive had before. The caller wakes the engine.
    ///
    /// # Errors
    /// As `can_replace`.
    pub(crate) fn replace(
        &mut self,
        successor: SuccessorConfig,
        uuid: u128,
        metadata: &MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) -> Result<(), ReplaceError> {
        let SuccessorConfig { device, capacity_bytes } = successor;
        self.can_replace(device, capacity_bytes, metadata, evacuation, io)?;
        let mut h = DriveCopy::new(device, self.successor_place(io), capacity_bytes, io.now());
        let old = &io[device];
        h.plan = Plan::of(&old.layout, old.config.capacity_bytes);
        (h.uuid, h.old_uuid) = (uuid, old.config.uuid);
        h.stage = Stage::Marking;
        if old.is_gone() {
            self.plan_join(&mut h, metadata, io).expect("asked before");
        }
        let early = io.flights().iter().filter(|(_, io)| io.device == h.device);
        h.early = early.map(|(io, _)| io).collect();
        io.note_successor(Some(successor));
        self.current = Some(Box::new(h));
        self.withhold(io);
        self.ended = None;
        self.wanted = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use tandem_block::GIB;

    /// Seen: a start set the stage anew, and the copy that was cancelled went on.
    #[test]
    fn a_copy_is_cancelled_when_it_is_known_who_is_the_member() {
        let (mut io, mut metadata) = (drives(2, 0), MetadataHomes::default());
        let copy = DriveCopy::new(DeviceId(0), DeviceId(2), GIB, Instant::ZERO);
        let mut replacement = Replacement { current: Some(Box::new(copy)), ..Default::default() };
        io.enter(Phase::Starting);
        let refused = Err(ReplaceError::NotNow("is not served"));
        assert_eq!(replacement.cancel_replace(&mut metadata, &mut io), refused);
        assert_eq!(replacement.replacement_stage(), Stage::Opening);
        replacement.current.as_deref_mut().expect("it was kept").stage = Stage::Copying;
        io.enter(Phase::Running);
        assert_eq!(replacement.cancel_replace(&mut metadata, &mut io), Ok(()));
        assert_eq!(replacement.replacement_stage(), Stage::Voiding { begun: false });
    }
}
