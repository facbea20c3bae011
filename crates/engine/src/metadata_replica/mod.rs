//! How does a hard drive keep a metadata replica, and how far may it fall behind?
//!
//! Source: design decision 7. In a set with one SSD, that SSD's death must not take the map with it.
//! So the first hard drive follows: it has a journal ring, pages of the map and roots at the same
//! offsets as the SSD. It knows the volumes from the format on: the first root, which both have, names
//! them. Afterwards it is brought up to date in the quiet, at flushes of the drive and with every checkpoint:
//!
//! ```text
//! a unit is durable on the SSD ─▶ kept in RAM ─▶ written with FUA, or before a flush that no user
//!                                                waits for ─▶ durable here: the metadata replica is level
//! a checkpoint of the SSD ends ─▶ a snapshot, in the background (`snapshot`)
//! ```
//! Under load that never pauses users wait after all, a little: once a unit has been missing here for
//! `metadata_replica_lag` the drive is taken from them for one write (`lag`). A flush that comes by in
//! the second half of that time takes the units along, and so does a quiet moment.
//!
//! What the drive's newest root needs of the ring is not written over before the next root is about to
//! take its place: units wait in RAM meanwhile. Deltas that find no room there or in the ring are dropped: the metadata replica is *behind* until its next
//! snapshot, which is asked for in the quiet, or when the lag is over. It never holds a commit or a
//! checkpoint up.

mod lag;
mod snapshot;

pub(crate) use self::lag::Turn;
pub(crate) use self::snapshot::{CheckpointState, Source};

use crate::format::pointer::{MAP_TABLE, MapLeaf, Pointer};
use crate::format::root::{Root, RootImage};
use crate::io::DeviceIo;
use crate::map::image::ImageJob;
use crate::map::journal::Journal;
use crate::map::marks::Marks;
use crate::pages::{PageWrite, Pages};
use crate::port::IoOp;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use tandem_block::{DeviceId, Duration, Instant, MIB};

/// Journal bytes that wait in RAM for the drive's next flush at most (guess: a flush every few seconds
/// at 1 MiB of journal a second).
const WAITING_BYTES_MAX: u64 = 16 * MIB;
/// From here on they are written as soon as nobody wants the drive.
const WAITING_BYTES_WRITE: u64 = MIB;
/// From here on users wait for it: what is dropped costs a snapshot.
const WAITING_BYTES_DUE: u64 = WAITING_BYTES_MAX / 2;
/// One write of units at most.
const WRITE_BYTES_MAX: u64 = MIB;

/// A journal unit that is durable on the SSD.
#[derive(Clone)]
struct Waiting {
    /// Position of its end: only rises.
    end: u64,
    /// Where in the ring it lies.
    offset: u64,
    sequence: u64,
    /// When it was durable.
    since: Instant,
    bytes: Vec<u8>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {} of {} bytes at {}", self.sequence, self.bytes.len(), self.offset)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No snapshot under way.
    #[default]
    Idle,
    /// Waits until the checkpoint that it goes with is durable.
    Checkpoint,
    /// Writes pages.
    Pages,
    /// Waits for the last batch that a leaf may show.
    Batch,
    /// Waits for a flush that began after everything was written.
    Flush {
        /// Flushes of the drive before it.
        after: u64,
        /// The unit that has to be on the drive.
        sequence: u64,
    },
    /// Writes the root.
    Root,
}

/// The replica's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetadataReplica {
    /// The drive, if the set has one that follows and it is sound.
    home: Option<DeviceId>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// Some are on their way to the drive.
    writing: bool,
    /// Units that are not durable here, and when they were durable on the SSD.
    missing: VecDeque<(u64, Instant)>,
    /// The batch under way changes objects; the last unit that did, and when it was durable, until it
    /// is durable here.
    objects_change: bool,
    prompt: Option<(u64, Instant)>,
    /// When such a change reached it last, in this life.
    prompted: Option<Instant>,
    /// The last unit handed to the drive, and the last one that is durable there.
    written: u64,
    durable: u64,
    /// The last unit that recovery would reach from the drive's newest root.
    level: u64,
    /// Units were dropped: nothing more is written before the next snapshot …
    behind: bool,
    /// … which has to begin behind the last one of them …
    dropped: u64,
    /// … and until its root is there, what is written does not count.
    gap: bool,
    /// How long the oldest of those units has been missing.
    gap_since: Instant,
    /// Groups whose places differ from the drive's, and pages of checksums that do.
    due_groups: Marks,
    due_pages: BTreeSet<u32>,
    stage: Stage,
    /// When the snapshot under way began, when users had to make room for it, and until when none
    /// after it may ask that of them.
    began: Instant,
    forced: Option<Instant>,
    rests_until: Instant,
    /// A reader was let through since its last step.
    yielded: bool,
    /// Number of the drive's newest root.
    number: u64,
    /// Where replay begins for that root, as a position.
    start: u64,
    /// The part of the ring that the root cannot do without: offset and bytes. And that of the root
    /// being written.
    needed: (u64, u64),
    next_needed: (u64, u64),
    /// The last unit that was written before a flush, and not made durable by the write itself.
    volatile_upto: u64,
    /// Position behind the last unit handed over.
    handed_end: u64,
    /// Units wait since they would lie over that part: the snapshot under way ends that.
    held: bool,
    /// Of the snapshot under way: what is still to be written, and pages of groups that were composed.
    taken: Marks,
    /// None before this one is.
    taken_from: usize,
    taken_pages: BTreeSet<u32>,
    writes: VecDeque<PageWrite>,
    /// It has looked at as many groups as one turn may.
    goes_on: bool,
    /// A snapshot has found no free page.
    has_no_room: bool,
    mark: (u64, u64),
    replay_sequence: u64,
    composed: u64,
    /// The objects as they were when its last batch was durable.
    objects: Vec<u8>,
    /// The table of objects of the drive's newest root, whether it differs, the one being written, whether
    /// all of that is, what batch it has to wait for, and what the next root says.
    image: Option<RootImage>,
    due_table: bool,
    image_job: Option<ImageJob>,
    table_is_written: bool,
    objects_due: u64,
    image_after: Option<RootImage>,
    outstanding: u32,
    /// Which of the drive's two roots nobody has read. Their numbers may be higher than those that this life
    /// gives, so they are erased before anything is written over what they name. And which one is being erased.
    unknown_roots: [bool; 2],
    erasing: Option<usize>,
    /// Its own table of the map. The pages of it lie elsewhere than on the SSDs.
    table: Pages,
    /// Flushes of the drive so far, and what the one under way covers.
    flushes: u64,
    covers: u64,
    /// The marks of a checkpoint that began while the root was being written.
    next: Option<((u64, u64), u64)>,
}

/// What there is to know of the metadata replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataReplicaStatus {
    /// The drive.
    pub device: DeviceId,
    /// Journal units that are durable on the SSD and not yet here.
    pub units_behind: u64,
    /// Some of them can only be caught up by the next snapshot.
    pub awaits_snapshot: bool,
    /// When the oldest of them was durable on the SSD.
    pub missing_since: Option<Instant>,
    /// So old may it become before users wait for it.
    pub lag_max: Duration,
}

impl MetadataReplica {
    /// Sized for a map of so many groups.
    pub(crate) fn begin_life(&mut self, home: Option<DeviceId>, groups: usize) {
        *self = MetadataReplica {
            home,
            due_groups: Marks::new(groups),
            taken: Marks::new(groups),
            number: 1,
            ..Self::default()
        };
    }

    /// The drive, if there is one.
    pub(crate) fn home(&self) -> Option<DeviceId> {
        self.home
    }

    /// A life begins with an empty table, with the leaves of the one on the SSDs.
    pub(crate) fn begin_table(&mut self, pool: u128, like: &Pages, area_pages: u64) {
        self.table = Pages::new(pool, MAP_TABLE, like.leaves(), area_pages);
    }

    /// Memory that its table takes, by calculation.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// The table, while a start reads it.
    pub(crate) fn table_mut(&mut self) -> &mut Pages {
        assert!(self.stage == Stage::Idle, "a start reads the table before any snapshot");
        &mut self.table
    }

    /// What a start has read of the table is not believed.
    pub(crate) fn forget_table(&mut self) {
        self.table = self.table.emptied();
    }

    /// The drive and the page, if it has these bytes of a page of checksums.
    pub(crate) fn place_of(&self, page: u32, wanted: Pointer) -> Option<(DeviceId, u64)> {
        let home = self.home?;
        let own = self.table.leaf(MapLeaf::Checksums.leaf(u64::from(page)));
        own.is_same(&wanted).then_some((home, own.page))
    }

    /// What recovery found on the drive: its newest root. It counts if it goes with the SSD's; units
    /// behind it are caught up by the next snapshot, which writes what has changed since. Roots that nobody has
    /// read may be newer than that one.
    pub(crate) fn recovered(
        &mut self,
        own: Option<&Root>,
        unknown_roots: [bool; 2],
        leader: &Root,
        table: &Pages,
        journal: &Journal,
        now: Instant,
    ) {
        if let Some(root) = own {
            self.number = root.checkpoint;
            self.image = root.image;
            let ring = journal.ring_bytes();
            let upto_head = (journal.mark().1 + ring - root.replay_offset % ring) % ring;
            let needs_units = root.replay_upto >= root.replay_sequence;
            // units that end where they begin fill the ring
            let upto_head = if upto_head == 0 { ring } else { upto_head };
            self.needed = (root.replay_offset, if needs_units { upto_head } else { 0 });
        }
        self.unknown_roots = unknown_roots;
        let level = unknown_roots == [false; 2]
            && own.is_some_and(|root| root.replay_sequence == leader.replay_sequence);
        if !level {
            self.due_table = true;
        }
        if self.home.is_some() {
            // what it lacks the CRCs say, whatever happened since its root was written
            let mut from = 0;
            while let Some(leaf) = table.next_that_differs(&self.table, from) {
                self.note_due(leaf);
                from = leaf + 1;
            }
        }
        self.written = leader.replay_sequence - 1;
        self.durable = self.written;
        self.start = leader.replay_offset;
        self.level = if level { self.durable } else { 0 };
        self.behind = !level || journal.next_sequence() > leader.replay_sequence;
        self.dropped = journal.next_sequence() - 1;
        self.gap = self.behind;
        self.gap_since = now;
    }

    /// A leaf of the map has to be written here.
    fn note_due(&mut self, leaf: u64) {
        match MapLeaf::of_leaf(leaf) {
            (group, MapLeaf::Places(_)) => self.due_groups.mark(group as usize),
            (group, MapLeaf::Checksums) => _ = self.due_pages.insert(group as u32),
        }
    }

    /// Recovery would reach this unit.
    fn reach(&mut self, sequence: u64, now: Instant) {
        assert!(sequence >= self.level, "recovery never reaches less than before");
        self.level = sequence;
        if self.prompt.is_some_and(|(upto, _)| upto <= sequence) {
            self.prompt = None;
            self.prompted = Some(now);
        }
    }

    /// Where the metadata replica stands; `None` if the set has none beside its SSDs.
    pub(crate) fn status(&self, journal: &Journal, io: &DeviceIo) -> Option<MetadataReplicaStatus> {
        let f = self;
        let newest = journal.next_sequence() - 1;
        f.home.map(|device| MetadataReplicaStatus {
            device,
            units_behind: newest.saturating_sub(f.level),
            awaits_snapshot: f.gap,
            missing_since: f.missing_since(),
            lag_max: io.config().metadata_replica_lag,
        })
    }

    /// A batch was composed: does it change objects?
    pub(crate) fn note_objects(&mut self, change: bool) {
        self.objects_change = change;
    }

    /// A unit is durable on the SSD; `end` is the position of its end.
    pub(crate) fn unit_is_durable(
        &mut self,
        sequence: u64,
        end: u64,
        offset: u64,
        bytes: Vec<u8>,
        io: &mut DeviceIo,
    ) {
        let now = io.now();
        let f = &mut *self;
        if f.objects_change {
            let since = f.prompt.map_or(now, |(_, since)| since);
            f.prompt = Some((sequence, since));
        }
        if f.home.is_none() {
            return;
        }
        if f.behind {
            f.dropped = sequence;
            return;
        }
        assert!(
            f.missing.back().is_none_or(|&(last, _)| last < sequence),
            "units are durable in order"
        );
        assert!(
            f.waiting.back().is_none_or(|last| last.sequence < sequence && last.end < end),
            "units lie one behind the other"
        );
        f.missing.push_back((sequence, now));
        f.waiting_bytes += bytes.len() as u64;
        f.waiting.push_back(Waiting { end, offset, sequence, since: now, bytes });
        if f.waiting_bytes > WAITING_BYTES_MAX {
            self.fall_behind(io);
        }
    }

    fn fall_behind(&mut self, io: &mut DeviceIo) {
        let now = io.now();
        let f = &mut *self;
        f.gap_since = f.missing_since().unwrap_or(now);
        f.behind = true;
        f.held = false;
        f.gap = true;
        f.dropped = f.waiting.back().expect("one has no room").sequence;
        f.waiting.clear();
        f.waiting_bytes = 0;
        f.missing.clear();
        io.stats_mut().metadata_replica_gaps += 1;
    }

    /// Does it wait for quiet?
    pub(crate) fn awaits_quiet(&self) -> bool {
        let f = self;
        f.home.is_some() && (f.waiting_bytes > 0 || f.written > f.durable || f.behind)
    }

    /// A root that nobody knows may need what lies in the ring, so it goes first.
    fn takes_units_on(&self, device: DeviceId) -> bool {
        self.home == Some(device) && self.unknown_roots == [false; 2]
    }

    /// Takes waiting units to be written to the drive, which is free. They are durable then, without a flush. `None`:
    /// there are none, or users want the drive (`users`) or wait for a flush, and the units are young.
    pub(crate) fn take_units(
        &mut self,
        device: DeviceId,
        users: bool,
        journal: &Journal,
        io: &mut DeviceIo,
    ) -> Option<IoOp> {
        let can_wait = self.waiting_bytes < WAITING_BYTES_DUE && !io.is_stopping();
        // with users, what is old enough goes along, and what a root or a change of objects needs
        let old = Duration::from_ns(io.config().metadata_replica_lag.ns / 2);
        let root_upto = if let Stage::Flush { sequence, .. } = self.stage { sequence } else { 0 };
        let wanted_upto = root_upto.max(self.prompt.map_or(0, |(sequence, _)| sequence));
        let now = io.now();
        let goes = |unit: &Waiting| {
            !(users && can_wait) || unit.since + old <= now || unit.sequence <= wanted_upto
        };
        if !self.takes_units_on(device) || !self.waiting.front().is_some_and(goes) {
            return None;
        }
        let ring_bytes = journal.ring_bytes();
        let start = if self.stage == Stage::Idle { self.start } else { self.mark.0 };
        let (mut bytes, mut offset) = (Vec::new(), 0);
        while let Some(unit) = self.waiting.front() {
            if !goes(unit) {
                break;
            }
            let apart = !bytes.is_empty() && offset + bytes.len() as u64 != unit.offset;
            if apart || bytes.len() as u64 + unit.bytes.len() as u64 > WRITE_BYTES_MAX {
                break;
            }
            let length = unit.bytes.len() as u64;
            let hurts = overlaps(self.needed, (unit.offset, length), ring_bytes);
            let is_last_resort =
                matches!(self.stage, Stage::Flush { .. }) && unit.sequence <= root_upto;
            if unit.end - start.min(unit.end) > ring_bytes || (hurts && self.stage == Stage::Idle) {
                // it would lie over units that the drive's root still needs
                self.fall_behind(io);
                break;
            }
            if hurts && is_last_resort && unit.sequence < self.replay_sequence {
                // the leaves have it, and the next root does not ask for it
                if !self.gap {
                    (self.gap, self.gap_since) = (true, unit.since);
                }
                self.written = unit.sequence;
                assert!(self.waiting_bytes >= length, "what waits is counted");
                self.waiting_bytes -= length;
                self.waiting.pop_front();
                continue;
            }
            if hurts && !is_last_resort {
                // the root must not be lost before the next one is about to take its place
                self.held = true;
                break;
            }
            if bytes.is_empty() {
                offset = unit.offset;
            }
            assert!(unit.end > self.handed_end, "units are handed over in their order");
            assert!(self.waiting_bytes >= length, "what waits is counted");
            self.handed_end = unit.end;
            self.waiting_bytes -= length;
            self.written = unit.sequence;
            bytes.extend_from_slice(&unit.bytes);
            self.waiting.pop_front();
        }
        assert!(
            !self.waiting.is_empty() || self.waiting_bytes == 0,
            "where nothing waits nothing is counted"
        );
        if bytes.is_empty() {
            return None;
        }
        assert!(!self.writing, "units are on their way once");
        assert!(
            offset + bytes.len() as u64 <= ring_bytes,
            "units lie in the ring, and none over its end"
        );
        self.writing = true;
        let offset_bytes = io[device].layout.journal_offset + offset;
        Some(IoOp::WriteMeta { offset_bytes, bytes, fua: true })
    }

    /// The units that were taken with this command are made durable by a flush that follows at once.
    pub(crate) fn leave_to_flush(&mut self, op: IoOp) -> IoOp {
        let IoOp::WriteMeta { offset_bytes, bytes, .. } = op else {
            unreachable!("units are written as metadata")
        };
        self.volatile_upto = self.written;
        IoOp::WriteMeta { offset_bytes, bytes, fua: false }
    }

    /// Units were written, or not.
    pub(crate) fn units_written(&mut self, device: DeviceId, is_sound: bool, io: &DeviceIo) {
        if self.home == Some(device) {
            self.writing = false;
            // one write at a time: all that was handed over before is durable, too, or awaits its flush
            if is_sound && self.volatile_upto <= self.durable {
                self.settle(self.written, io);
            }
        }
    }

    /// Units up to this one are durable here.
    fn settle(&mut self, upto: u64, io: &DeviceIo) {
        let now = io.now();
        let f = &mut *self;
        assert!(upto <= f.written, "what is durable was handed over");
        f.durable = f.durable.max(upto);
        while f.missing.front().is_some_and(|&(sequence, _)| sequence <= f.durable) {
            f.missing.pop_front();
        }
        if !f.gap {
            f.reach(f.durable, now);
        }
    }

    /// Is it level, so that the pool may stop?
    pub(crate) fn is_level(&self, checkpoint_failed: bool, journal: &Journal) -> bool {
        let newest = journal.next_sequence() - 1;
        self.home.is_none()
            || checkpoint_failed
            || (self.stage == Stage::Idle && !self.behind && !self.gap && self.durable >= newest)
    }

    /// Commands that the snapshot under way waits for.
    pub(crate) fn commands_counted(&self) -> u64 {
        u64::from(self.outstanding)
    }

    /// Is a snapshot under way?
    #[inline]
    pub(crate) fn takes_snapshot(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Are units on their way to this drive, so that a flush of it would miss them?
    pub(crate) fn writes_units(&self, device: DeviceId) -> bool {
        self.writing && self.home == Some(device)
    }

    /// The drive whose area had no room for a snapshot. Nothing follows there any more in this life, and the next one
    /// begins with an empty table. That is not so in a pool of our own: its area has room for two tables.
    pub(crate) fn lose_without_room(&mut self) -> Option<DeviceId> {
        let home = self.home.filter(|_| self.has_no_room)?;
        self.lose(home);
        Some(home)
    }

    /// The drive is taken out of service: nothing follows any more.
    pub(crate) fn lose(&mut self, device: DeviceId) {
        if self.home == Some(device) {
            let groups = self.due_groups.len();
            // what it was given is under way still
            let outstanding = self.outstanding;
            self.begin_life(None, groups);
            self.outstanding = outstanding;
        }
    }

    /// A flush of a hard drive begins.
    pub(crate) fn flush_begins(&mut self, device: DeviceId) {
        let f = &mut *self;
        if f.home == Some(device) {
            f.flushes += 1;
            f.covers = f.written;
        }
    }

    /// … and has succeeded.
    pub(crate) fn flush_ended(&mut self, device: DeviceId, io: &DeviceIo) {
        if self.home == Some(device) {
            self.settle(self.covers, io);
        }
    }

    /// The pool stops: units that are not durable yet need a flush, and nothing else will ask for it.
    pub(crate) fn flush_for_stop(&self, io: &mut DeviceIo) {
        let f = self;
        let Some(home) = f.home else { return };
        let d = &mut io[home];
        if f.stage == Stage::Idle && d.flushing.is_none() && d.queue.in_flight() == 0 {
            d.flush_wanted |= f.waiting_bytes > 0 || f.written > f.durable;
        }
    }
}

/// Do two parts of a ring, each an offset and bytes, have anything in common?
fn overlaps(a: (u64, u64), b: (u64, u64), ring_bytes: u64) -> bool {
    let ahead = |from: u64, to: u64| (to + ring_bytes - from) % ring_bytes;
    a.1 > 0 && b.1 > 0 && (ahead(a.0, b.0) < a.1 || ahead(b.0, a.0) < b.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;

    const HDD: DeviceId = DeviceId(1);

    /// A metadata replica on the hard drive beside one SSD, with a ring of 1 MiB.
    fn metadata_replica() -> (MetadataReplica, DeviceIo, Journal) {
        let mut metadata_replica = MetadataReplica::default();
        metadata_replica.begin_life(Some(HDD), 1);
        (metadata_replica, drives(1, 1), Journal::new(MIB, 0, 1))
    }

    fn unit(metadata_replica: &mut MetadataReplica, io: &mut DeviceIo, sequence: u64) {
        let end = sequence * 4096;
        metadata_replica.unit_is_durable(sequence, end, end - 4096, vec![0; 4096], io);
    }

    /// The sequences of the units that a write brings, by their count.
    fn written_bytes(op: Option<IoOp>) -> u64 {
        op.map_or(0, |op| op.bytes())
    }

    #[test]
    fn units_go_to_the_drive_before_a_flush_that_nobody_waits_for() {
        // (users want the drive, seconds since the unit was durable, bytes written)
        for (users, age_s, want) in [
            (false, 0, 4096),
            (true, 0, 0),
            (true, 14, 0),
            // half of metadata_replica_lag: it goes along with whatever comes by
            (true, 15, 4096),
        ] {
            let (mut f, mut io, journal) = metadata_replica();
            unit(&mut f, &mut io, 1);
            io.next_event(Instant::ZERO + Duration::from_s(age_s));
            let op = f.take_units(HDD, users, &journal, &mut io);
            assert_eq!(written_bytes(op), want, "users {users}, {age_s} s old");
            assert_eq!(f.writes_units(HDD), want > 0);
        }
    }

    #[test]
    fn a_write_that_has_ended_well_makes_it_level() {
        for is_sound in [false, true] {
            let (mut f, mut io, mut journal) = metadata_replica();
            journal.place(4096);
            unit(&mut f, &mut io, 1);
            f.flush_begins(HDD);
            let op = f.take_units(HDD, false, &journal, &mut io);
            assert!(matches!(op, Some(IoOp::WriteMeta { fua: true, .. })));
            f.flush_ended(HDD, &io);
            assert!(
                !f.is_level(false, &journal),
                "the flush began before, and the write has not ended"
            );
            f.units_written(HDD, is_sound, &io);
            assert_eq!(f.is_level(false, &journal), is_sound);
        }
    }

    /// Units that were written for the sake of a flush wait for it, and those behind them do.
    #[test]
    fn what_a_flush_shall_cover_is_level_when_it_has_ended() {
        let (mut f, mut io, mut journal) = metadata_replica();
        journal.place(4096);
        unit(&mut f, &mut io, 1);
        let op = f.take_units(HDD, false, &journal, &mut io).expect("one waits");
        assert!(matches!(f.leave_to_flush(op), IoOp::WriteMeta { fua: false, .. }));
        f.units_written(HDD, true, &io);
        assert!(!f.is_level(false, &journal));
        journal.place(4096);
        f.unit_is_durable(2, 8192, 4096, vec![0; 4096], &mut io);
        assert!(f.take_units(HDD, false, &journal, &mut io).is_some());
        f.units_written(HDD, true, &io);
        assert!(!f.is_level(false, &journal), "the first one is not durable yet");
        f.flush_begins(HDD);
        f.flush_ended(HDD, &io);
        assert!(f.is_level(false, &journal));
    }

    /// A snapshot was given up as no checkpoint could be written, and units were kept again since it began.
    #[test]
    fn units_behind_a_gap_do_not_make_it_level() {
        let (mut f, mut io, mut journal) = metadata_replica();
        journal.place(4096);
        (f.gap, f.behind) = (true, false);
        unit(&mut f, &mut io, 1);
        assert!(f.take_units(HDD, false, &journal, &mut io).is_some());
        f.units_written(HDD, true, &io);
        f.flush_begins(HDD);
        f.flush_ended(HDD, &io);
        assert!(!f.is_level(false, &journal), "its root does not lead to them");
        assert!(f.is_level(true, &journal), "a stop does not wait for what cannot come");
        f.gap = false;
        assert!(f.is_level(false, &journal));
    }

    #[test]
    fn too_many_units_for_its_memory_are_dropped_until_the_next_snapshot() {
        let (mut f, mut io, journal) = metadata_replica();
        let bytes = vec![0; MIB as usize];
        for sequence in 1..=17 {
            f.unit_is_durable(sequence, sequence * MIB, 0, bytes.clone(), &mut io);
        }
        assert_eq!(io.stats().metadata_replica_gaps, 1);
        assert!(f.take_units(HDD, false, &journal, &mut io).is_none());
        assert!(f.awaits_quiet());
        io.next_event(Instant::ZERO + Duration::from_s(3600));
        assert!(f.wants_checkpoint(&io), "a snapshot makes up for it");
        f.lose(HDD);
        assert!(!f.wants_checkpoint(&io), "a drive that is out of service gets none");
    }

    #[test]
    fn parts_of_a_ring_overlap_also_around_its_end() {
        for (a, b, want) in [
            ((10, 5), (15, 5), false),
            ((10, 5), (14, 5), true),
            ((10, 5), (5, 5), false),
            ((10, 5), (5, 6), true),
            ((90, 20), (5, 5), true),
            ((90, 20), (10, 5), false),
            ((90, 20), (80, 10), false),
            ((0, 0), (0, 100), false),
        ] {
            assert_eq!(overlaps(a, b, 100), want, "{a:?} {b:?}");
            assert_eq!(overlaps(b, a, 100), want, "{b:?} {a:?}");
        }
    }
}
