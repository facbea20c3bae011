//! What steps make acknowledged writes durable?
//!
//! Source: design decisions 6 and 8. One commit at a time:
//!
//! ```text
//! (FLUSH) hard drives' tails: flush or copy ─▶ compose the batch, flush the SSDs that were written
//!      ─▶ write the journal units with FUA ─▶ durable: places freed, FLUSH and FUA answered
//! ```
//! Everything that arrives meanwhile gathers for the next one, so that one flush serves many; `gather`
//! says whether that one waits a little for those who were just answered.
//!
//! A unit that cannot be written, on a drive that no other one can stand in for, is tried again. The commit is
//! suspended meanwhile, with all that it has composed, so that nothing is lost when the drive works again.
//! Who waits is answered with the error after a few tries. A flush that failed is not tried again: what was
//! acknowledged before it is in doubt.

mod audit;
pub(crate) mod gather;
pub(crate) mod participants;
mod retry;
mod steps;

use self::participants::Participants;
use self::retry::{Suspended, TRIES_MAX};
use crate::format::unit::{self, UNIT_BYTES_MAX};
use crate::io::DeviceIo;
use crate::map::journal::Journal;
use crate::map::{Batch, Slot};
use crate::metadata::MetadataHomes;
use crate::mutant::Mutant;
use crate::owner::{MetadataIo, Owner};
use crate::port::IoOp;
use crate::requests::ordering::TaskId;
use crate::store::commit::gather::Gathering;
use std::collections::VecDeque;
use std::fmt;
use tandem_block::{BLOCK_BYTES, Instant, IoError};

/// Block changes that are gathered at most before a commit begins unasked: bounds the time that
/// composing takes.
const PENDING_BLOCKS_MAX: u64 = 16_384;

/// Bytes that one block's change takes in the journal at most: a record with eight fragments.
const BLOCK_RECORD_BYTES_MAX: u64 = 128;

/// The journal unit that is being written.
#[derive(Clone)]
struct UnitUnderWay {
    sequence: u64,
    /// Position of its end, and its place in the ring, in bytes.
    end: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl fmt::Debug for UnitUnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {} of {} bytes at {}", self.sequence, self.bytes.len(), self.offset)
    }
}

/// Where the commit stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing under way.
    #[default]
    Idle,
    /// Hard drives' tails are made safe first.
    Tails,
    /// The batch is composed; SSDs are being flushed.
    Flushing,
    /// Units are being written.
    Writing,
    /// They are durable; the superblocks are to say who missed them.
    Telling,
}

/// State of commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commit {
    stage: Stage,
    flush_waiting: Vec<TaskId>,
    fua_waiting: Vec<TaskId>,
    /// Answered when the commit under way is durable.
    served: Vec<TaskId>,
    oldest_pending: Option<Instant>,
    gathering: Gathering,
    batch: Batch,
    units: VecDeque<Vec<u8>>,
    /// Slots that batches displaced which never became durable.
    kept: Vec<Slot>,
    outstanding: u32,
    unit: Option<UnitUnderWay>,
    error: Option<IoError>,
    /// The unit under way is on a home of the metadata.
    written: bool,
    /// The step under way has failed, and no other drive can stand in.
    failed: Option<IoError>,
    suspended: Option<Suspended>,
    /// The last one that was to begin has found no room in the journal.
    lacks_room: bool,
    /// Nothing can be made durable any more.
    broken: Option<IoError>,
    /// Batches composed and batches durable so far.
    composed: u64,
    durable: u64,
}

impl Commit {
    /// A FLUSH waits.
    pub(crate) fn wait_flush(&mut self, id: TaskId) {
        debug_assert!(!self.flush_waiting.contains(&id), "a request waits once");
        self.flush_waiting.push(id);
    }

    /// A FUA write is on its device and waits for its record.
    pub(crate) fn wait_fua(&mut self, id: TaskId) {
        debug_assert!(!self.fua_waiting.contains(&id), "a request waits once");
        self.fua_waiting.push(id);
    }

    /// Something changed that a commit will have to record.
    #[inline]
    pub(crate) fn note_pending(&mut self, now: Instant) {
        if self.oldest_pending.is_none() {
            self.oldest_pending = Some(now);
        }
    }

    /// Are tails being made safe, so that no new log write may begin?
    pub(crate) fn is_settling_hdds(&self) -> bool {
        self.stage == Stage::Tails
    }

    /// Notes that the commit under way cannot succeed.
    pub(crate) fn fail(&mut self, error: IoError) {
        self.error.get_or_insert(error);
    }

    /// The commit that waits for tails, if one does, cannot have them.
    pub(crate) fn tails_failed(&mut self, error: IoError) {
        if self.stage == Stage::Tails {
            self.fail(error);
        }
    }

    /// Requests that wait for the next commit.
    fn waiting(&self) -> usize {
        self.flush_waiting.len() + self.fua_waiting.len()
    }

    /// Batches composed so far.
    pub(crate) fn composed(&self) -> u64 {
        self.composed
    }

    /// Batches durable so far.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Is nothing under way and nothing waiting?
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && self.flush_waiting.is_empty() && self.fua_waiting.is_empty()
    }

    /// Nothing can be made durable from now on.
    pub(crate) fn break_off(&mut self, error: IoError) {
        self.broken = Some(error);
    }

    /// Can nothing be made durable, for good or until a drive works again?
    pub(crate) fn is_broken(&self) -> bool {
        self.broken().is_some()
    }

    /// … and why?
    pub(crate) fn broken(&self) -> Option<IoError> {
        let suspended = self.suspended.filter(|suspended| suspended.tries >= TRIES_MAX);
        self.broken.or(suspended.map(|suspended| suspended.error))
    }

    /// Does anybody wait who can only be refused?
    pub(crate) fn refuses(&self) -> bool {
        self.broken.is_some() && self.stage == Stage::Idle && self.waiting() > 0
    }

    /// Does a FLUSH wait, and nobody else?
    pub(crate) fn is_for_flush_alone(&self) -> bool {
        !self.flush_waiting.is_empty() && self.fua_waiting.is_empty()
    }

    /// Longest body of a unit: an eighth of the ring, so that the room lost at its end is small.
    pub(crate) fn body_bytes_max(&self, journal: &Journal) -> usize {
        let eighth = journal.ring_bytes() / 8;
        let blocks = (eighth as usize).min(UNIT_BYTES_MAX) / BLOCK_BYTES as usize;
        unit::body_bytes_max(blocks * BLOCK_BYTES as usize)
    }

    /// The batch that is being composed.
    pub(crate) fn batch_mut(&mut self) -> &mut Batch {
        assert!(
            self.stage == Stage::Idle || self.stage == Stage::Tails,
            "it is not on its way yet"
        );
        &mut self.batch
    }

    /// Flushes the SSDs that were written to.
    fn send_flushes(&mut self, io: &mut DeviceIo) {
        assert!(self.stage == Stage::Flushing, "SSDs are flushed for a batch that is composed");
        for index in 0..io.ssds().len() {
            let device = io.ssds()[index];
            let d = &mut io[device];
            // also one that was taken out of service: what it holds volatile was acknowledged; but not
            // one that was drained and leaves, on which nothing lies any more
            if !d.dirty || !d.is_volatile() || d.is_gone() {
                continue;
            }
            d.dirty = false;
            if d.is_out() {
                self.put_in_doubt(IoError::Dead(device));
                continue;
            }
            self.outstanding += 1;
            io.submit(device, IoOp::Flush, Owner::Metadata(MetadataIo::CommitFlush));
        }
    }

    /// What was acknowledged may be lost, and a later flush that succeeds would not say so: a drive, or the
    /// system above it, may have dropped what it could not write. So nothing is promised any more before a
    /// restart, which believes what is recorded alone.
    pub(crate) fn put_in_doubt(&mut self, error: IoError) {
        self.fail(error);
        self.broken.get_or_insert(error);
    }

    /// Number of the last journal unit that is durable: one may be on its way.
    pub(crate) fn durable_unit(&self, journal: &Journal) -> u64 {
        let under_way = u64::from(self.stage == Stage::Writing);
        assert!(journal.next_sequence() > under_way, "the unit under way has a number");
        journal.next_sequence() - 1 - under_way
    }

    /// Who waited for this commit is told how it ended; where it failed, everybody is.
    fn answer(&mut self, status: Result<(), IoError>, participants: &mut dyn Participants) {
        assert!(self.durable <= self.composed, "what is durable was composed");
        assert!(
            status.is_err() || self.durable == self.composed,
            "success is answered when all that was composed is durable"
        );
        let mut served = std::mem::take(&mut self.served);
        if status.is_err() {
            served.append(&mut self.flush_waiting);
            served.append(&mut self.fua_waiting);
        }
        participants.answer(served, status);
    }

    /// Does a FLUSH wait?
    pub(crate) fn flush_waits(&self) -> bool {
        !self.flush_waiting.is_empty()
    }
}

/// How many block changes certainly fit the journal as it is, beside what is kept for others. The unit
/// header, the padding to 4 KiB and the room lost at the ring's end are allowed for.
fn blocks_that_fit(kept_bytes: u64, journal: &Journal) -> u64 {
    journal.room_for_commits().saturating_sub(kept_bytes) / BLOCK_RECORD_BYTES_MAX
}

impl Commit {
    /// When a commit is due without being asked for. `kept_bytes`: of the journal, by those who have a part.
    pub(crate) fn commit_due(&self, kept_bytes: u64, journal: &Journal, io: &DeviceIo) -> Instant {
        if self.suspended.is_some() {
            return self.retry_due();
        }
        if self.broken.is_some() {
            return Instant::NEVER; // who waits is refused at once
        }
        // one that waits for a checkpoint to make room begins with its end, not with time
        if self.stage != Stage::Idle || blocks_that_fit(kept_bytes, journal) == 0 {
            return Instant::NEVER;
        }
        let oldest = self.oldest_pending;
        let due = oldest.map_or(Instant::NEVER, |oldest| oldest + io.config().commit_interval);
        due.min(self.gathering.due())
    }

    /// Writes the unit under way to every home of the metadata: again at the same place, if it failed.
    fn send_unit(
        &mut self,
        participants: &mut dyn Participants,
        metadata: &MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let unit = self.unit.clone().expect("a unit is under way");
        assert!(self.stage == Stage::Writing, "units are written behind the flushes");
        assert!(self.outstanding == 0 && !self.written, "a unit is sent when no try is under way");
        for device in metadata.metadata_homes(io) {
            let layout = &io[device].layout;
            let offset_bytes = layout.journal_offset + unit.offset;
            let fua = !io.breaks(Mutant::UnitsWithoutFua);
            let op = IoOp::WriteMeta { offset_bytes, bytes: unit.bytes.clone(), fua };
            self.outstanding += 1;
            io.submit(device, op, Owner::Metadata(MetadataIo::Unit));
        }
        if self.outstanding == 0 {
            self.suspend_commit(IoError::Dead(metadata.first_metadata_home(io)), participants, io);
        }
    }
}
