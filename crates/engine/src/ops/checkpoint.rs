//! What steps does a checkpoint take, so that the journal can be cut?
//!
//! Source: design decision 7.
//!
//! ```text
//! mark the journal ─▶ carry home checksums into their pages ─▶ write the changed shards, each over
//! its older copy ─▶ write the table of objects, if one changed (`table`) ─▶ flush ─▶ wait until every
//! batch that a shard or the table may show is durable ─▶ write the root ─▶ cut the journal at the mark
//! ```
//! A step that fails on the last home of the metadata ends the attempt: the root before still holds, and
//! what was written lies over older copies alone. The next attempt writes the same copies again. A root that
//! failed may be on the drive all the same, so it is written again, and nothing else before it.
//!
//! Shards show the recorded state at the moment they are written, which may be younger than the
//! mark: replay is by absolute assignment, so that is harmless. Each step is bounded: one shard, or
//! one page, at a time per command.

use crate::device::{Class, Job};
use crate::engine::Engine;
use crate::format::page::PAGE_BYTES;
use crate::format::shard::{Root, RootImage, SHARD_BYTES};
use crate::map::bits::Bits;
use crate::map::checksums::Loaded;
use crate::map::image::ImageJob;
use crate::mutant::Mutant;
use crate::ordering::TaskId;
use crate::owner::{MetadataIo, Owner};
use crate::port::IoOp;
use std::collections::BTreeMap;
use tandem_block::{DeviceId, Duration, Instant, IoError};

/// Checkpoint commands in flight at once.
const IN_FLIGHT_MAX: u32 = 4;
/// Attempts in a row that may fail: some four minutes (guess).
const ATTEMPTS_MAX: u32 = 8;
/// Tries of a page of home checksums before it is taken as lost: half a minute (guess).
const PAGE_TRIES_MAX: u32 = 5;
/// Half of the pause before the second attempt; each further one is twice as long, up to 64 times this.
const RETRY_AFTER: Duration = Duration::from_ms(500);
/// Home checksums that wait for a checkpoint at most: bounds RAM to some 16 MiB.
const FRESH_CHECKSUMS_MAX: usize = 262_144;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Idle,
    Pages,
    Shards,
    Table,
    Flush,
    AwaitBatch,
    Root,
}

/// State of checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub(super) stage: Stage,
    /// Number of the newest durable checkpoint.
    number: u64,
    /// Its table of objects, and the one being written.
    image: Option<RootImage>,
    pub(super) image_job: Option<ImageJob>,
    /// With this batch everything is durable that the table may show.
    objects_due: u64,
    mark: (u64, u64),
    replay_sequence: u64,
    dirty: Bits,
    next_shard: usize,
    next_page: u32,
    /// For each shard, does its second copy hold?
    copies: Bits,
    composed: u64,
    pub(super) outstanding: u32,
    /// A step of the attempt under way has failed on the last home of the metadata.
    error: bool,
    /// Pages of home checksums that could not be read.
    unread_pages: BTreeMap<u32, Unread>,
    /// Attempts that failed in a row, and when the next one may begin.
    attempts: u32,
    retry_at: Instant,
    /// The root that is being written, and whether that has failed.
    root: Vec<u8>,
    root_failed: bool,
    /// Shards that were ever written.
    written: Bits,
    /// Asked for by a stop; done when a checkpoint that began after the asking is durable.
    stop: StopWish,
}

/// A page that could not be read: how often, and when it is tried again.
#[derive(Clone, Copy, Debug)]
struct Unread {
    tries: u32,
    next: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StopWish {
    #[default]
    None,
    Asked,
    Done,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Checkpoint {
            stage: Stage::Idle,
            number: 0,
            image: None,
            image_job: None,
            objects_due: 0,
            mark: (0, 0),
            replay_sequence: 1,
            dirty: Bits::new(0),
            next_shard: 0,
            next_page: 0,
            copies: Bits::new(0),
            composed: 0,
            outstanding: 0,
            error: false,
            unread_pages: BTreeMap::new(),
            attempts: 0,
            retry_at: Instant::ZERO,
            root: Vec::new(),
            root_failed: false,
            written: Bits::new(0),
            stop: StopWish::None,
        }
    }
}

impl Checkpoint {
    /// Sized for a map of so many shards.
    pub(crate) fn begin_life(&mut self, shards: usize) {
        let none = Bits::new(shards);
        *self = Checkpoint {
            dirty: none.clone(),
            copies: none.clone(),
            written: none,
            ..Self::default()
        };
    }

    /// What recovery found: the checkpoint's number, for a shard which copy is newer, and the table of
    /// objects.
    pub(crate) fn recovered(
        &mut self,
        number: u64,
        copies: Bits,
        written: Bits,
        image: Option<RootImage>,
    ) {
        self.number = number;
        self.image = image;
        self.copies = copies;
        self.written = written;
    }

    /// Which copies hold once the checkpoint under way is durable: the other one of every shard that
    /// it writes.
    fn copies_after(&self) -> Bits {
        let mut after = self.copies.clone();
        for (word, dirty) in after.words_mut().iter_mut().zip(self.dirty.words()) {
            *word ^= dirty;
        }
        after
    }

    /// The table of objects once the checkpoint under way is durable.
    fn image_after(&self) -> Option<RootImage> {
        self.image_job.as_ref().map(ImageJob::end).or(self.image)
    }

    /// With which batch is everything durable that the table shows, if it waits for that alone?
    pub(super) fn awaits_batch(&self) -> Option<u64> {
        let waits = self.stage == Stage::AwaitBatch && self.outstanding == 0 && !self.error;
        waits.then_some(self.objects_due)
    }

    /// Have so many failed that no more are tried, and the journal is never cut again?
    pub(crate) fn has_failed(&self) -> bool {
        self.attempts >= ATTEMPTS_MAX
    }

    /// An attempt, or the write of a root, has failed: when is the next one?
    fn note_failed(&mut self, now: Instant) {
        self.attempts += 1;
        self.error = false;
        self.retry_at = now + Duration::from_ns(RETRY_AFTER.ns << self.attempts.min(6));
    }

    /// Number of the newest durable one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Was this shard ever written?
    pub(crate) fn has_written(&self, shard: usize) -> bool {
        self.written.get(shard)
    }

    /// Is none under way?
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }
}

impl Engine {
    /// Begins or advances a checkpoint.
    #[inline]
    pub(crate) fn run_checkpoint(&mut self) {
        if self.checkpoint.stage == Stage::Idle {
            if !self.is_checkpoint_due() {
                return;
            }
            self.begin_checkpoint();
        }
        self.advance_checkpoint();
    }

    fn is_checkpoint_due(&self) -> bool {
        let c = &self.checkpoint;
        if self.io.is_fixed()
            || self.commit.is_broken()
            || c.has_failed()
            || self.io.now() < c.retry_at
        {
            return false;
        }
        self.is_checkpoint_wanted() && !self.metadata.is_copying()
    }

    pub(super) fn is_checkpoint_wanted(&self) -> bool {
        self.journal.used_bytes() * 2 > self.journal.ring_bytes()
            || self.checksums.fresh_count() > FRESH_CHECKSUMS_MAX
            || self.checkpoint.stop == StopWish::Asked
            || self.follower.wants_checkpoint(&self.io)
            || self.levelling_wants_checkpoint()
    }

    /// When a checkpoint that failed is tried again, or a page that somebody may wait for.
    pub(crate) fn checkpoint_due(&self) -> Instant {
        let c = &self.checkpoint;
        let pages = c.unread_pages.values().map(|unread| unread.next);
        let page = pages.filter(|next| *next > self.io.now()).min().unwrap_or(Instant::NEVER);
        if c.stage == Stage::Pages {
            return page;
        }
        let waits = c.retry_at > self.io.now() && !c.has_failed() && !self.commit.is_broken();
        let waits = waits && (c.root_failed || self.is_checkpoint_wanted());
        if waits { c.retry_at.min(page) } else { page }
    }

    fn begin_checkpoint(&mut self) {
        let c = &mut self.checkpoint;
        c.stage = Stage::Pages;
        c.mark = self.journal.mark();
        c.replay_sequence = self.journal.next_sequence();
        c.dirty = self.map.take_dirty_shards();
        c.next_shard = 0;
        c.next_page = 0;
        let (dirty, mark, sequence) = (c.dirty.clone(), c.mark, c.replay_sequence);
        let is_due = self.objects.has_table() && (self.objects.take_unsaved() || c.image.is_none());
        c.image_job = is_due.then(|| ImageJob::begin(c.number + 1, c.image));
        self.follower.checkpoint_begins(&dirty, mark, sequence, is_due, &mut self.io);
    }

    fn advance_checkpoint(&mut self) {
        loop {
            let before = self.checkpoint.stage;
            match before {
                Stage::Idle => return,
                Stage::Pages => self.carry_pages(),
                Stage::Shards => self.write_shards(),
                Stage::Table => self.write_table(),
                Stage::Flush => self.flush_checkpoint(),
                Stage::AwaitBatch => self.await_batch(),
                Stage::Root => self.end_checkpoint(),
            }
            if self.checkpoint.stage == before {
                return;
            }
        }
    }

    /// A page, shard, flush or root write ended.
    pub(crate) fn checkpoint_step_done(&mut self, device: DeviceId, status: Result<(), IoError>) {
        self.checkpoint.outstanding -= 1;
        let Err(error) = status else { return };
        if self.checkpoint.stage == Stage::Idle {
            return;
        }
        if self.metadata.sound_homes(&self.io).iter().any(|&home| home != device) {
            // it goes on with the homes that are left; this one would be a step behind them
            self.fault(device, error);
        } else {
            self.checkpoint.error = true;
        }
    }

    pub(super) fn submit_checkpoint(&mut self, device: DeviceId, op: IoOp) {
        self.checkpoint.outstanding += 1;
        self.io.submit(device, op, Owner::Metadata(MetadataIo::Checkpoint));
    }

    fn carry_pages(&mut self) {
        if self.checkpoint.error {
            if self.checkpoint.outstanding == 0 {
                self.checksums.carried_done(false);
                self.abandon_checkpoint();
            }
            return;
        }
        while self.checkpoint.outstanding < IN_FLIGHT_MAX {
            let Some(page) = self.checksums.next_fresh_page(self.checkpoint.next_page) else {
                if self.checkpoint.outstanding == 0 {
                    self.checksums.carried_done(!self.checkpoint.error);
                    self.checkpoint.stage = Stage::Shards;
                }
                return;
            };
            if !self.checksums.has_page(page) {
                self.load_checksum_page(page, None);
                return;
            }
            let (copy, bytes) = self.checksums.carry(self.io.config().pool, page);
            self.checkpoint.next_page = page + 1;
            for device in self.metadata.metadata_homes(&self.io) {
                let layout = &self.io[device].layout;
                let offset_bytes =
                    layout.checksum_offset + (u64::from(page) * 2 + copy) * PAGE_BYTES;
                let bytes = bytes.clone();
                self.submit_checkpoint(device, IoOp::WriteMeta { offset_bytes, bytes, fua: false });
            }
            self.follower.note_page(page);
        }
    }

    fn write_shards(&mut self) {
        while self.checkpoint.outstanding < IN_FLIGHT_MAX {
            let c = &mut self.checkpoint;
            let Some(shard) = c.dirty.next_set(c.next_shard, c.dirty.len()) else {
                if c.outstanding == 0 {
                    c.stage = Stage::Table;
                }
                return;
            };
            c.next_shard = shard + 1;
            c.written.set(shard, true);
            let copy = u64::from(!c.copies.get(shard));
            let number = c.number + 1;
            let bytes = self.map.encode_shard(self.io.config().pool, number, shard);
            for device in self.metadata.metadata_homes(&self.io) {
                let layout = &self.io[device].layout;
                let offset_bytes = layout.shard_offset + (shard as u64 * 2 + copy) * SHARD_BYTES;
                let bytes = bytes.clone();
                self.submit_checkpoint(device, IoOp::WriteMeta { offset_bytes, bytes, fua: false });
            }
        }
    }

    fn flush_checkpoint(&mut self) {
        self.checkpoint.composed = self.commit.composed();
        self.checkpoint.objects_due = self.objects_due();
        for device in self.metadata.metadata_homes(&self.io) {
            let skips = self.io.breaks(Mutant::RootWithoutFlush);
            if self.io[device].is_volatile() && !skips {
                self.submit_checkpoint(device, IoOp::Flush);
            }
        }
        self.checkpoint.stage = Stage::AwaitBatch;
    }

    fn await_batch(&mut self) {
        if self.checkpoint.outstanding > 0 || self.commit.is_broken() {
            return;
        }
        if self.checkpoint.error {
            self.abandon_checkpoint();
            return;
        }
        self.checksums.carried_durably();
        let c = &self.checkpoint;
        if self.commit.durable() < c.composed || !self.are_durable_as_rooted(c.objects_due) {
            return;
        }
        let image = c.image_after();
        let root = Root {
            checkpoint: self.checkpoint.number + 1,
            replay_sequence: self.checkpoint.replay_sequence,
            replay_offset: self.checkpoint.mark.1,
            replay_upto: self.durable_unit(),
            written: self.checkpoint.written.words().to_vec(),
            second_copy: self.checkpoint.copies_after().words().to_vec(),
            objects: if image.is_none() { self.objects.records() } else { Vec::new() },
            image,
        };
        self.checkpoint.root = root.encode(self.io.config().pool);
        self.checkpoint.stage = Stage::Root;
        self.write_root();
    }

    fn write_root(&mut self) {
        let (bytes, number) = (self.checkpoint.root.clone(), self.checkpoint.number + 1);
        for device in self.metadata.metadata_homes(&self.io) {
            let layout = self.io[device].layout;
            assert!(bytes.len() as u64 <= layout.root_bytes, "creating objects is bounded by this");
            let offset_bytes = layout.root_offset + number % 2 * layout.root_bytes;
            let op = IoOp::WriteMeta { offset_bytes, bytes: bytes.clone(), fua: true };
            self.submit_checkpoint(device, op);
        }
    }

    /// An attempt failed before its root: the checkpoint before still holds, and what has changed since is
    /// due again.
    fn abandon_checkpoint(&mut self) {
        let dirty = std::mem::take(&mut self.checkpoint.dirty);
        let mut shard = dirty.next_set(0, dirty.len());
        while let Some(found) = shard {
            self.map.mark_shard_dirty(found);
            shard = dirty.next_set(found + 1, dirty.len());
        }
        if self.checkpoint.image_job.take().is_some() {
            self.objects.note_unsaved();
        }
        self.checkpoint.stage = Stage::Idle;
        self.checkpoint.note_failed(self.io.now());
    }

    fn end_checkpoint(&mut self) {
        if self.checkpoint.outstanding > 0 {
            return;
        }
        let (now, is_broken) = (self.io.now(), self.commit.is_broken());
        let c = &mut self.checkpoint;
        if c.error {
            c.root_failed = true;
            c.note_failed(now);
        }
        if c.root_failed {
            if now >= c.retry_at && !c.has_failed() && !is_broken {
                c.root_failed = false;
                self.write_root();
            }
            return;
        }
        c.attempts = 0;
        c.stage = Stage::Idle;
        c.number += 1;
        c.image = c.image_after();
        c.image_job = None;
        c.copies = c.copies_after();
        if c.stop == StopWish::Asked {
            c.stop = StopWish::Done;
        }
        self.journal.cut(self.checkpoint.mark.0);
        self.io.stats_mut().checkpoints += 1;
    }

    /// Asks for a last checkpoint; true once it is durable.
    pub(crate) fn finish_checkpoint_for_stop(&mut self) -> bool {
        if self.checkpoint.has_failed() {
            return self.checkpoint.outstanding == 0;
        }
        if self.checkpoint.stop == StopWish::None && self.checkpoint.is_idle() {
            self.checkpoint.stop = StopWish::Asked;
            self.run_checkpoint();
        }
        self.checkpoint.stop == StopWish::Done
    }

    /// Loads a page of home checksums; a task that needs it begins again when it is there.
    /// One that nobody waits for, and that could not be read, is not read again at once.
    pub(crate) fn load_checksum_page(&mut self, page: u32, waiter: Option<TaskId>) {
        let failed = self.checkpoint.unread_pages.get(&page);
        if waiter.is_none() && failed.is_some_and(|failed| self.io.now() < failed.next) {
            return;
        }
        let under_way = self.page_waiters.iter().any(|(known, _)| *known == page);
        if waiter.is_some() || !under_way {
            self.page_waiters.push((page, waiter));
        }
        if !under_way {
            let home = self.page_homes(page).first().copied();
            self.read_checksum_page(
                home.unwrap_or(self.metadata.first_metadata_home(&self.io)),
                page,
            );
        }
    }

    /// A page that nobody waits for cannot be read, from nobody who has it. It is tried again later; the
    /// attempt of a checkpoint that needs it is over. When that was in vain for long, what the page knew is
    /// lost, and reads of its homes say so.
    fn page_unread(&mut self, page: u32) {
        let now = self.io.now();
        let c = &mut self.checkpoint;
        let failed = c.unread_pages.entry(page).or_insert(Unread { tries: 0, next: now });
        failed.tries += 1;
        failed.next = now + Duration::from_ns(RETRY_AFTER.ns << failed.tries.min(6));
        if failed.tries > PAGE_TRIES_MAX {
            c.unread_pages.remove(&page);
            self.io.stats_mut().lost_pages += 1;
            self.checksums.load_empty(page);
        } else if c.stage == Stage::Pages {
            c.error = true;
        }
    }

    /// Who has this page, in the order in which they are asked. The drive that follows is the last one, and
    /// only where it has what the others have.
    fn page_homes(&self, page: u32) -> Vec<DeviceId> {
        let believes_all = self.io.breaks(Mutant::BelievesLagging);
        let mut homes = if believes_all {
            self.metadata.metadata_homes(&self.io)
        } else {
            self.metadata.sound_homes(&self.io)
        };
        homes.extend(self.follower.level_home(page));
        homes
    }

    fn read_checksum_page(&mut self, device: DeviceId, page: u32) {
        let layout = &self.io[device].layout;
        let op = IoOp::ReadMeta {
            offset_bytes: layout.checksum_offset + u64::from(page) * 2 * PAGE_BYTES,
            length_bytes: 2 * PAGE_BYTES,
        };
        let job = Job::Io(op, Owner::Metadata(MetadataIo::ChecksumPage(page)));
        self.io.enqueue(device, Class::Read, job, None);
    }

    /// A page of home checksums was read.
    pub(crate) fn checksum_page_read(
        &mut self,
        device: DeviceId,
        page: u32,
        status: Result<(), IoError>,
        bytes: &[u8],
    ) {
        let found = if !self.io.config().contents {
            self.checksums.load_empty(page);
            Loaded::Sound
        } else if status.is_ok() {
            self.checksums.load(self.io.config().pool, page, bytes)
        } else {
            Loaded::Lost
        };
        if found != Loaded::Sound {
            // another home may have it, or a newer one
            self.io.stats_mut().checksum_errors += 1;
            let homes = self.page_homes(page);
            let at = homes.iter().position(|&home| home == device);
            if let Some(&next) = homes.get(at.map_or(0, |at| at + 1)) {
                self.read_checksum_page(next, page);
                return;
            }
        }
        let loaded = self.checksums.has_page(page);
        let mut waiters = Vec::new();
        self.page_waiters.retain(|&(known, waiter)| {
            if known == page {
                waiters.extend(waiter);
            }
            known != page
        });
        if !loaded && waiters.is_empty() {
            self.page_unread(page);
        } else if loaded {
            self.checkpoint.unread_pages.remove(&page);
        }
        for id in waiters {
            let task = &mut self.tasks[id];
            task.outstanding -= 1;
            if !loaded {
                self.note_error(id, status.err().unwrap_or(IoError::Checksum(device)));
            }
            let task = &self.tasks[id];
            if task.outstanding > 0 {
                continue;
            }
            if task.status.is_err() {
                self.answer(id, tandem_block::PayloadId::NONE, 0);
            } else {
                self.begin_user_read(id);
            }
        }
    }
}
