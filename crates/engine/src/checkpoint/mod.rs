//! What steps does a checkpoint take, so that the journal can be cut?
//!
//! Source: design decision 7.
//!
//! ```text
//! mark the journal ─▶ carry checksums into their pages, which go elsewhere (`pages`) ─▶ write where the blocks
//! of changed groups lie ─▶ write the pages of pointers above both ─▶ write the table of objects, if one changed
//! (`table`) ─▶ flush ─▶ wait until every batch that a leaf or the table may show is durable ─▶ write the root ─▶ cut
//! the journal at the mark
//! ```
//! A step that fails on the last home of the metadata ends the attempt: the root before still holds, and
//! what was written lies in pages that it does not name. The next attempt writes them again. A root that
//! failed may be on the drive all the same, so it is written again, and nothing else before it.
//!
//! Where the area has too few free pages for all that has changed, a checkpoint takes a part of it. Its root names
//! these leaves and the mark of the root before, so the journal is not cut. The pages that they had are free then, and
//! the next part begins at once. So an area needs room for little more than one table.
//!
//! Leaves show the recorded state at the moment they are composed, which may be younger than the
//! mark: replay is by absolute assignment, so that is harmless. Each step is bounded: a few groups, or
//! one page, at a time per command.

mod attempts;
mod carrying;
mod pace;
mod pages;
mod partial;
mod parts;
mod places;
mod rooted;
mod stage;

use self::attempts::Attempts;
use self::carrying::{Carrying, FRESH_BYTES_MAX};
use self::pace::{Pace, TABLE_IN_FLIGHT_MAX};
pub(crate) use self::pages::{PageRead, PageReads};
use self::partial::Partial;
pub(crate) use self::parts::Parts;
use self::places::{GROUPS_A_TURN, NextPlaces, PlacesWrite};
use self::rooted::Rooted;
use self::stage::{Stage, StopState};
use crate::format::image::IMAGE_PAGE_BYTES;
use crate::format::layout::Layout;
use crate::format::pointer::PAGE_BYTES;
use crate::format::root::{Root, RootImage};
use crate::io::DeviceIo;
use crate::map::batches::Batches;
use crate::map::checksums::BlockChecksums;
use crate::map::image::ImageJob;
use crate::map::journal::Journal;
use crate::map::objects::Objects;
use crate::metadata_replica::MetadataReplica;
use crate::mutant::Mutant;
use crate::owner::{MetadataIo, Owner};
use crate::pages::{NoRoom, PageWrite};
use crate::port::IoOp;
use std::num::NonZeroU64;
use tandem_block::{DeviceId, Instant, IoError};

/// State of checkpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoint {
    stage: Stage,
    /// Number of the newest durable checkpoint.
    number: u64,
    partial: Partial,
    /// Its table of objects, and the one being written.
    image: Option<RootImage>,
    image_job: Option<ImageJob>,
    /// With this batch everything is durable that the table may show.
    objects_due: u64,
    /// The objects of a pool without a table.
    rooted: Rooted,
    mark: (u64, u64),
    replay_sequence: u64,
    places: PlacesWrite,
    carrying: Carrying,
    pace: Pace,
    composed: u64,
    outstanding: u32,
    /// A step of the attempt under way has failed on the last home of the metadata.
    error: bool,
    attempts: Attempts,
    /// The root that is being written, and whether that has failed.
    root: Vec<u8>,
    root_failed: bool,
    /// A commit finds too little room in a journal that is not half full.
    room_is_short: bool,
    /// Asked for by a stop; done when a round that began after the asking is durable.
    stop: StopState,
}

impl Checkpoint {
    /// None was taken. `part_leaves`: one takes so many leaves at most, or a few more.
    pub(crate) fn new(part_leaves: NonZeroU64) -> Self {
        Checkpoint {
            partial: Partial::new(part_leaves),
            replay_sequence: 1,
            ..Checkpoint::default()
        }
    }

    /// What recovery found: the root.
    pub(crate) fn recovered(&mut self, root: &Root) {
        assert!(self.is_idle() && self.number == 0, "a life begins with what recovery found");
        self.number = root.checkpoint;
        self.partial.recovered((root.replay_offset, root.replay_sequence));
        self.image = root.image;
        self.rooted = Rooted::recovered(&root.objects);
    }

    /// The table of objects once the checkpoint under way is durable.
    fn image_after(&self) -> Option<RootImage> {
        self.image_job.as_ref().map(ImageJob::end).or(self.image)
    }

    /// With which batch is everything durable that the table shows, if it waits for that alone?
    fn awaits_batch(&self) -> Option<u64> {
        let waits = self.stage == Stage::AwaitBatch && self.outstanding == 0 && !self.error;
        waits.then_some(self.objects_due)
    }

    /// Have so many failed that no more are tried, and the journal is never cut again?
    pub(crate) fn has_failed(&self) -> bool {
        self.attempts.are_over()
    }

    /// An attempt, or the write of a root, has failed.
    fn note_failed(&mut self, now: Instant) {
        assert!(self.outstanding == 0, "an attempt fails when its commands have ended");
        self.attempts.note_failed(now);
        self.error = false;
    }

    /// The last attempt has failed, and there will be another.
    pub(crate) fn is_tried_again(&self) -> bool {
        self.attempts.goes_on()
    }

    /// Number of the newest round that is durable: all was taken that had changed when it began.
    pub(crate) fn durable_round(&self) -> u64 {
        self.partial.durable()
    }

    /// Number of the newest round that has begun.
    pub(crate) fn begun_round(&self) -> u64 {
        self.partial.begun()
    }

    /// Has the last one taken a part, so that another one is due at once?
    pub(crate) fn has_more(&self) -> bool {
        self.is_idle() && self.partial.is_part()
    }

    /// Is none under way?
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Does it wait for changes of objects that no batch has taken yet?
    pub(crate) fn awaits_objects(&self, objects: &Objects, batches: Batches) -> bool {
        let due = self.awaits_batch();
        objects.has_table() && !batches.is_broken && due.is_some_and(|due| due > batches.composed)
    }

    /// When one that failed is tried again, or one goes on that no command wakes. `is_wanted`: somebody asks for one.
    pub(crate) fn due(&self, is_wanted: bool, is_broken: bool, now: Instant) -> Instant {
        if self.stage == Stage::Places && self.outstanding == 0 && !is_broken {
            return now; // it has looked at as many groups as one turn may
        }
        let waits = self.attempts.retry_at() > now && !self.has_failed() && !is_broken;
        let waits = waits && self.stage != Stage::Pages && (self.root_failed || is_wanted);
        if waits { self.attempts.retry_at() } else { Instant::NEVER }
    }

    /// Should one be taken, by what it is made of?
    pub(crate) fn is_wanted(
        &self,
        journal: &Journal,
        checksums: &BlockChecksums,
        metadata_replica: &MetadataReplica,
        io: &DeviceIo,
    ) -> bool {
        journal.used_bytes() * 2 > journal.ring_bytes()
            || self.room_is_short
            || self.has_more()
            || checksums.waiting_bytes() > FRESH_BYTES_MAX
            || matches!(self.stop, StopState::Asked | StopState::Begun)
            || metadata_replica.wants_checkpoint(io)
            || self.is_tried_again() && metadata_replica.awaits_checkpoint()
    }

    /// A commit waits for room, of which much is kept for others. One that is under way makes some.
    pub(crate) fn ask_for_room(&mut self, journal: &Journal) {
        self.room_is_short |= self.is_idle() && journal.used_bytes() > 0;
    }

    /// Is another one due of which no event may tell? A commit waits for room that it makes, or the last one took a part.
    pub(crate) fn is_due_at_once(&self) -> bool {
        self.room_is_short || self.has_more()
    }

    /// Does the journal fill faster than it is written, so that commits would find no room before its end?
    pub(crate) fn is_outrun(&self, journal: &Journal) -> bool {
        let goes_on = self.stage != Stage::Idle || self.has_more();
        goes_on && !self.has_failed() && self.pace.is_outrun(journal)
    }

    /// May one begin, if it is wanted?
    pub(crate) fn may_begin(&self, is_broken: bool, now: Instant) -> bool {
        self.is_idle() && !is_broken && !self.has_failed() && now >= self.attempts.retry_at()
    }

    /// Begins one: a round, or its next part.
    pub(crate) fn begin(&mut self, parts: &mut Parts<'_>) {
        assert!(self.is_idle(), "one at a time");
        assert!(self.outstanding == 0, "no command of the one before is under way");
        assert!(!self.has_failed(), "no more are tried");
        assert!(!self.error && !self.root_failed, "the attempt before has ended");
        assert!(self.image_job.is_none(), "the table of the one before was written, or given up");
        self.stage = Stage::Pages;
        let begins_round = self.partial.begin();
        let in_place = parts.io.breaks(Mutant::LeafInPlace);
        let forgets_carried = parts.io.breaks(Mutant::ForgetsCarried);
        parts.checksums.begin_checkpoint(in_place, forgets_carried);
        let objects = &mut *parts.objects;
        let is_due = objects.has_table() && (objects.take_unsaved() || self.image.is_none());
        self.image_job = is_due.then(|| ImageJob::begin(self.number + 1, self.image));
        parts.metadata_replica.note_table(is_due);
        if begins_round {
            self.begin_round(parts);
        } else {
            self.places.go_on();
        }
    }

    /// All that has changed until now is taken, in this part or the next ones.
    fn begin_round(&mut self, parts: &mut Parts<'_>) {
        self.room_is_short = false;
        if self.stop == StopState::Asked {
            self.stop = StopState::Begun;
        }
        let mark = parts.journal.mark();
        assert!(mark.0 >= self.mark.0, "a checkpoint never goes back in the journal");
        self.mark = mark;
        self.replay_sequence = parts.journal.next_sequence();
        self.carrying = Carrying::default();
        let dirty = parts.map.take_dirty_groups();
        parts.metadata_replica.checkpoint_begins(&dirty, mark, self.replay_sequence, parts.io);
        self.pace = Pace::of(&dirty, parts.kept_bytes, parts.journal);
        self.places = PlacesWrite::of(dirty);
    }

    /// Does what can be done now. Returns pages of checksums that have to be in memory first.
    pub(crate) fn advance(&mut self, parts: &mut Parts<'_>) -> Vec<u32> {
        let mut wanted = Vec::new();
        loop {
            let before = self.stage;
            if !matches!(before, Stage::Idle | Stage::Root) {
                self.rooted.note(parts.objects, parts.batches);
            }
            match before {
                Stage::Idle => return Vec::new(),
                Stage::Pages | Stage::Places | Stage::Pointers | Stage::Table if self.error => {
                    if self.outstanding == 0 {
                        self.abandon(parts);
                    }
                    return Vec::new();
                }
                Stage::Pages => wanted = self.carry_pages(parts),
                Stage::Places => self.write_places(parts),
                Stage::Pointers => self.write_pointers(parts),
                Stage::Table => self.write_table(parts),
                Stage::Flush => self.flush(parts),
                Stage::AwaitBatch => self.await_batch(parts),
                Stage::Root => self.end(parts),
            }
            if self.stage == before {
                return wanted;
            }
        }
    }

    /// A page, flush or root write has ended. The error of a drive that others can stand in for comes
    /// back: the checkpoint goes on with the homes that are left, and this one would be a step behind them.
    pub(crate) fn step_done(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        homes: &[DeviceId],
    ) -> Result<(), IoError> {
        assert!(self.outstanding > 0, "a command of a checkpoint ended");
        self.outstanding -= 1;
        if status.is_err() && self.stage != Stage::Idle {
            if homes.iter().any(|&home| home != device) {
                return status;
            }
            self.error = true;
        }
        Ok(())
    }

    fn submit(&mut self, device: DeviceId, op: IoOp, io: &mut DeviceIo) {
        assert!(self.stage != Stage::Idle, "a command is of a checkpoint that is under way");
        self.outstanding += 1;
        io.submit(device, op, Owner::Metadata(MetadataIo::Checkpoint));
    }

    /// Carries waiting values into their pages. Returns those that have to be in memory first.
    fn carry_pages(&mut self, parts: &mut Parts<'_>) -> Vec<u32> {
        let has_ssds = !parts.io.ssds().is_empty();
        while self.outstanding < self.pace.in_flight_max(parts.journal) {
            let takes_more = self.takes_more(1, parts);
            let next = takes_more.then(|| self.carrying.next(parts.checksums, has_ssds)).flatten();
            let Some(page) = next else {
                let is_over = !takes_more || self.carrying.is_over(parts.checksums);
                self.pace.note_carried_all(self.carrying.is_over(parts.checksums));
                if self.outstanding == 0 && is_over {
                    parts.checksums.pages_written();
                    self.stage = Stage::Places;
                }
                break;
            };
            parts.metadata_replica.note_page(page);
            let Some(write) = parts.checksums.carry(page) else {
                self.note_no_room(parts);
                return Vec::new();
            };
            self.pace.note_carried(self.places.takes(page));
            self.write_page(&write, parts);
        }
        if self.partial.is_part() { Vec::new() } else { self.carrying.missing(parts.checksums) }
    }

    /// Does it take another leaf, which needs so many pages?
    fn takes_more(&mut self, pages: usize, parts: &Parts<'_>) -> bool {
        let table = parts.checksums.table();
        self.partial.takes_more(table.changed(), table.has_room(pages))
    }

    fn write_page(&mut self, write: &PageWrite, parts: &mut Parts<'_>) {
        let end = write.page + write.bytes.len() as u64 / PAGE_BYTES;
        self.write_everywhere(&write.bytes, false, parts, |layout| {
            assert!(end <= layout.area_pages, "a page lies among the pages");
            layout.area_offset + write.page * PAGE_BYTES
        });
    }

    /// The area has no free page: the attempt fails. The next one finds those free that it has written.
    fn note_no_room(&mut self, parts: &mut Parts<'_>) {
        self.error = true;
        if self.outstanding == 0 {
            self.abandon(parts);
        }
    }

    /// Writes to each home, where its layout says.
    fn write_everywhere(
        &mut self,
        bytes: &[u8],
        fua: bool,
        parts: &mut Parts<'_>,
        offset: impl Fn(&Layout) -> u64,
    ) {
        for device in parts.homes() {
            let offset_bytes = offset(&parts.io[device].layout);
            let op = IoOp::WriteMeta { offset_bytes, bytes: bytes.to_vec(), fua };
            self.submit(device, op, parts.io);
        }
    }

    /// Writes pages of pointers. Nobody reads them before the root is durable, so they go in any order.
    fn write_pointers(&mut self, parts: &mut Parts<'_>) {
        while self.outstanding < self.pace.in_flight_max(parts.journal) {
            match parts.checksums.write_pointers() {
                Ok(Some(write)) => self.write_page(&write, parts),
                Ok(None) => {
                    if self.outstanding == 0 {
                        self.stage = Stage::Table;
                    }
                    return;
                }
                Err(NoRoom) => {
                    self.note_no_room(parts);
                    return;
                }
            }
        }
    }

    /// Writes where the blocks of changed groups lie. When no command is under way behind it, it goes on at once.
    fn write_places(&mut self, parts: &mut Parts<'_>) {
        let mut left = GROUPS_A_TURN;
        while self.outstanding < self.pace.in_flight_max(parts.journal) {
            if !self.places.has_composed() && !self.takes_more(0, parts) {
                return self.end_places();
            }
            let next = self.places.next(parts.map, parts.checksums, &mut left);
            self.pace.note_placed(self.places.composed());
            match next {
                NextPlaces::Write(write) => self.write_page(&write, parts),
                NextPlaces::NoRoom => {
                    let taken = parts.checksums.table().changed();
                    let fails = self.partial.takes_more(taken, false);
                    return if fails { self.note_no_room(parts) } else { self.end_places() };
                }
                NextPlaces::Later => return,
                NextPlaces::Over => return self.end_places(),
            }
        }
    }

    fn end_places(&mut self) {
        if self.outstanding == 0 {
            self.stage = Stage::Pointers;
        }
    }

    /// Writes pages of the table of objects, a few at a time.
    fn write_table(&mut self, parts: &mut Parts<'_>) {
        if self.partial.is_part() && self.image_job.take().is_some() {
            parts.objects.note_unsaved();
        }
        let Some(mut job) = self.image_job.take() else {
            self.stage = Stage::Flush;
            return;
        };
        while self.outstanding < TABLE_IN_FLIGHT_MAX {
            if job.has_overflowed() {
                if self.outstanding > 0 {
                    break;
                }
                job.begin_anew(parts.objects);
            }
            let pages_max = parts.io.table_pages();
            let page = job.page(parts.objects, parts.io.config().pool, pages_max);
            let Some((index, bytes)) = page else {
                if job.has_overflowed() {
                    continue;
                }
                if self.outstanding == 0 {
                    self.stage = Stage::Flush;
                }
                break;
            };
            parts.io.stats_mut().table_bytes += IMAGE_PAGE_BYTES;
            self.write_everywhere(&bytes, false, parts, |layout| {
                assert!(index < layout.table_pages(), "a page lies in its area of the table");
                layout.table_page_offset(job.area(), index)
            });
        }
        self.image_job = Some(job);
    }

    fn flush(&mut self, parts: &mut Parts<'_>) {
        assert!(self.outstanding == 0, "leaves and table are written before they are flushed");
        self.composed = parts.batches.composed;
        let takes_objects = !self.partial.is_part();
        self.objects_due = if takes_objects { parts.batches.objects_due(parts.objects) } else { 0 };
        for device in parts.homes() {
            let skips = parts.io.breaks(Mutant::RootWithoutFlush);
            if parts.io[device].is_volatile() && !skips {
                self.submit(device, IoOp::Flush, parts.io);
            }
        }
        self.stage = Stage::AwaitBatch;
    }

    fn await_batch(&mut self, parts: &mut Parts<'_>) {
        if self.outstanding > 0 || parts.batches.is_broken {
            return;
        }
        if self.error {
            self.abandon(parts);
            return;
        }
        let batches = parts.batches;
        let objects_due = match (self.rooted.due(), parts.objects.has_table()) {
            _ if self.partial.is_part() => 0,
            (_, true) => self.objects_due,
            (Some(batch), false) => batch,
            (None, false) => return,
        };
        if batches.durable < self.composed || batches.durable < objects_due {
            return;
        }
        assert!(
            batches.durable_unit + 1 >= self.replay_sequence,
            "all units before the mark are durable"
        );
        let image = self.image_after();
        let cuts = !self.partial.is_part() || parts.io.breaks(Mutant::PartCuts);
        let mark = (self.mark.1, self.replay_sequence);
        let (replay_offset, replay_sequence) = self.partial.root_from(mark, cuts);
        let root = Root {
            checkpoint: self.number + 1,
            replay_sequence,
            replay_offset,
            replay_upto: batches.durable_unit,
            objects: self.rooted.write(self.partial.is_part()),
            image,
            map: parts.checksums.root(),
        };
        self.root = root.encode(parts.io.config().pool);
        self.stage = Stage::Root;
        self.write_root(parts);
    }

    fn write_root(&mut self, parts: &mut Parts<'_>) {
        let number = self.number + 1;
        assert!(
            self.stage == Stage::Root && !self.root.is_empty(),
            "a root is written when all that it names is durable"
        );
        assert!(self.outstanding == 0 && !self.error, "one try of a root at a time");
        let bytes = self.root.clone();
        self.write_everywhere(&bytes, true, parts, |layout| {
            assert!(bytes.len() as u64 <= layout.root_bytes, "creating objects is bounded by this");
            layout.root_offset + number % 2 * layout.root_bytes
        });
    }

    /// An attempt failed before its root: the checkpoint before still holds, and what has changed since is
    /// due again.
    fn abandon(&mut self, parts: &mut Parts<'_>) {
        assert!(
            !matches!(self.stage, Stage::Idle | Stage::Root) && self.error,
            "an attempt is given up before its root, since a step has failed"
        );
        assert!(self.outstanding == 0, "… when its commands have ended");
        std::mem::take(&mut self.places).give_back(parts.map);
        if self.image_job.take().is_some() {
            parts.objects.note_unsaved();
        }
        parts.checksums.failed();
        self.rooted.forget();
        self.stage = Stage::Idle;
        self.partial.give_up();
        self.note_failed(parts.io.now());
    }

    fn end(&mut self, parts: &mut Parts<'_>) {
        if self.outstanding > 0 {
            return;
        }
        let now = parts.io.now();
        if self.error {
            self.root_failed = true;
            self.note_failed(now);
        }
        if self.root_failed {
            if now >= self.attempts.retry_at() && !self.has_failed() && !parts.batches.is_broken {
                self.root_failed = false;
                self.write_root(parts);
            }
            return;
        }
        self.attempts.note_durable(self.partial.is_part());
        self.stage = Stage::Idle;
        self.number += 1;
        self.image = self.image_after();
        self.image_job = None;
        assert!(!self.error, "an attempt that failed cuts nothing off the journal");
        parts.checksums.durable();
        parts.io.stats_mut().checkpoints += 1;
        self.partial.note_durable();
        if self.partial.is_part() {
            parts.io.stats_mut().checkpoint_parts += 1;
        } else {
            self.places = PlacesWrite::default();
            if self.stop == StopState::Begun {
                self.stop = StopState::Done;
            }
        }
        if !self.partial.is_part() || parts.io.breaks(Mutant::PartCuts) {
            parts.journal.cut(self.mark.0);
        }
    }

    /// The pool stops: a last one is asked for, if none was. True: it was not asked for before.
    pub(crate) fn ask_for_stop(&mut self) -> bool {
        let asks = self.stop == StopState::None && self.is_idle();
        if asks {
            self.stop = StopState::Asked;
        }
        asks
    }

    /// Is the last one durable, or are no more tried?
    pub(crate) fn is_over(&self) -> bool {
        if self.has_failed() { self.outstanding == 0 } else { self.stop == StopState::Done }
    }

    /// Commands that it waits for.
    pub(crate) fn commands_counted(&self) -> u64 {
        u64::from(self.outstanding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::area_pages;
    use crate::io::fixture::drives;
    use crate::map::Map;
    use crate::metadata::MetadataHomes;
    use crate::owner::Ended;
    use tandem_block::MIB;

    /// Much of a journal can be kept for changes of objects, so a commit may find no room before it is half full.
    #[test]
    fn a_commit_without_room_gets_a_checkpoint() {
        let (checksums, replica, io) =
            (BlockChecksums::new(0, true), MetadataReplica::default(), drives(1, 1));
        // (bytes in use, of 8 MiB, is one under way, is it wanted before a commit asks, and then)
        for (used_bytes, under_way, before, then) in [
            (0, false, false, false),
            (MIB, false, false, true),
            (MIB, true, false, false),
            (5 * MIB, false, true, true),
            (5 * MIB, true, true, true),
        ] {
            let mut checkpoint = Checkpoint::default();
            let mut journal = Journal::new(8 * MIB, 0, 1);
            if used_bytes > 0 {
                journal.place(used_bytes);
            }
            if under_way {
                checkpoint.stage = Stage::Places;
            }
            let wanted = |it: &Checkpoint| it.is_wanted(&journal, &checksums, &replica, &io);
            let case = format!("{used_bytes} in use, under way: {under_way}");
            assert_eq!(wanted(&checkpoint), before, "{case}");
            checkpoint.ask_for_room(&journal);
            assert_eq!(wanted(&checkpoint), then, "{case}");
        }
    }

    /// Pages that nobody can read are awaited side by side, and given up together. The checkpoint goes on then, and
    /// has not failed: else a few of them would end all checkpoints.
    #[test]
    fn pages_that_nobody_can_read_do_not_end_checkpoints() {
        let mut io = drives(1, 1);
        let (metadata, mut replica) = (MetadataHomes::default(), MetadataReplica::default());
        let (mut journal, mut map) = (Journal::new(8 * MIB, 0, 1), Map::new(Vec::new(), 0, 2));
        let (mut objects, mut reads) = (Objects::new(0), PageReads::default());
        let mut checksums = BlockChecksums::on_the_drives(4 * 1024, area_pages(4, 0));
        for page in 0..4 {
            checksums.set(page * 1024 + 5, 55);
        }
        let mut checkpoint = Checkpoint::default();
        let (mut tries, mut begins) = (0, true);
        while checkpoint.stage != Stage::Places {
            let batches = Batches { composed: 0, durable: 0, durable_unit: 0, is_broken: false };
            let mut parts = Parts {
                io: &mut io,
                metadata: &metadata,
                metadata_replica: &mut replica,
                journal: &mut journal,
                map: &mut map,
                checksums: &mut checksums,
                objects: &mut objects,
                batches,
                kept_bytes: 0,
            };
            if std::mem::take(&mut begins) {
                checkpoint.begin(&mut parts);
            }
            let wanted = checkpoint.carry_pages(&mut parts);
            assert!(wanted.len() <= 2, "as many as half of the cache, or two");
            // what was carried is written at once
            while checkpoint.outstanding > 0 {
                assert_eq!(checkpoint.step_done(DeviceId(0), Ok(()), &[]), Ok(()));
            }
            for page in wanted {
                reads.load(page, None, &checksums, (&metadata, &replica), &mut io);
                if !reads.is_under_way(page) {
                    continue; // it rests
                }
                tries += 1;
                let status = Err(IoError::Device(DeviceId(0)));
                let ended = Ended { device: DeviceId(0), status, checksums: &[], bytes: &[] };
                let read =
                    reads.read_done(page, ended, &mut checksums, (&metadata, &replica), &mut io);
                assert_eq!(read, PageRead::Over { waiters: Vec::new(), is_loaded: false });
            }
            let due = reads.due(io.now());
            if due != Instant::NEVER {
                io.next_event(due);
            }
        }
        assert_eq!((io.stats().lost_pages, tries, checkpoint.is_tried_again()), (4, 24, false));
        let seconds = io.now().since(Instant::ZERO).ns / 1_000_000_000;
        assert_eq!(seconds, 62, "twice the time of one, for two at a time");
    }
}
