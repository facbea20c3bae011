//! What steps does a snapshot of the metadata on the hard drive that follows take?
//!
//! Source: design decision 7; `follow` has the journal units between two snapshots. A snapshot goes
//! with a checkpoint of the SSD, from the same marks, and in the background:
//!
//! ```text
//! the SSD's checkpoint is durable ─▶ shards and checksum pages that differ, and the table of objects if
//! it does, one page at a time ─▶ the last batch that they may show is durable ─▶ its units written,
//! flush ─▶ root
//! ```

use super::follow::Stage;
use crate::device::{Class, Job};
use crate::engine::Engine;
use crate::format::page::PAGE_BYTES;
use crate::format::shard::{Root, SHARD_BYTES};
use crate::map::bits::Bits;
use crate::map::image::ImageJob;
use crate::ops::table::page_offset;
use crate::owner::{MetadataIo, Owner};
use crate::port::IoOp;
use tandem_block::{DeviceId, IoError};

impl Engine {
    /// A checkpoint begins: its marks and shards are the follower's too.
    pub(crate) fn follow_checkpoint(
        &mut self,
        dirty: &Bits,
        mark: (u64, u64),
        sequence: u64,
        table: bool,
    ) {
        let f = &mut self.follower;
        if f.home.is_none() {
            return;
        }
        f.due_table |= table;
        for (due, dirty) in f.due_shards.words_mut().iter_mut().zip(dirty.words()) {
            *due |= dirty;
        }
        if f.stage == Stage::Root {
            f.next = Some((mark, sequence));
        } else {
            self.begin_snapshot(mark, sequence);
        }
    }

    /// Begins a snapshot, or goes on with the one under way from newer marks.
    fn begin_snapshot(&mut self, mark: (u64, u64), sequence: u64) {
        let now = self.io.now();
        let f = &mut self.follower;
        if f.stage == Stage::Idle {
            f.began = now;
        }
        f.stage = Stage::Checkpoint;
        f.mark = mark;
        f.replay_sequence = sequence;
        if f.behind {
            // what was dropped lies before the mark: from here on everything is kept again
            f.behind = false;
            f.written = sequence - 1;
        }
    }

    /// A checksum page was carried to the SSD.
    pub(crate) fn follow_page(&mut self, page: u32) {
        if self.follower.home.is_some() {
            self.follower.due_pages.insert(page);
        }
    }

    /// Should a checkpoint be taken for the follower's sake?
    pub(crate) fn follower_wants_checkpoint(&self) -> bool {
        let f = &self.follower;
        f.home.is_some()
            && f.stage == Stage::Idle
            && f.behind
            && (self.io.is_quiet() || self.snapshot_is_late() || self.io.is_stopping())
    }

    /// Advances the snapshot under way.
    #[inline]
    pub(crate) fn run_follower(&mut self) {
        while self.follower.stage != Stage::Idle {
            let before = self.follower.stage;
            match before {
                Stage::Idle => return,
                Stage::Checkpoint => self.follow_after_checkpoint(),
                Stage::Shards => self.follow_shards(),
                Stage::Batch => self.follow_batch(),
                Stage::Flush { after, sequence } => self.follow_flush(after, sequence),
                Stage::Root => self.end_snapshot(),
            }
            if self.follower.stage == before {
                return;
            }
        }
    }

    fn follow_after_checkpoint(&mut self) {
        if !self.checkpoint.is_idle() {
            return;
        }
        let f = &mut self.follower;
        if self.checkpoint.has_failed() {
            f.stage = Stage::Idle;
            return;
        }
        let due = std::mem::replace(&mut f.due_shards, Bits::new(f.taken.len()));
        for (taken, due) in f.taken.words_mut().iter_mut().zip(due.words()) {
            *taken |= due;
        }
        f.taken_pages.append(&mut f.due_pages);
        if std::mem::take(&mut f.due_table) && self.objects.has_table() {
            f.image_job = Some(ImageJob::begin(f.number + 1, f.image));
            f.table_is_written = false;
        }
        f.stage = Stage::Shards;
    }

    /// One shard or page at a time: users wait for one command at most.
    fn follow_shards(&mut self) {
        let Some(home) = self.follower.home else { return };
        if self.follower.outstanding > 0 {
            return;
        }
        if self.follower.behind {
            self.give_up_snapshot();
            return;
        }
        let f = &mut self.follower;
        if let Some(shard) = f.taken.next_set(0, f.taken.len()) {
            f.taken.set(shard, false);
            f.flips.set(shard, true);
            f.existing.set(shard, true);
            let copy = u64::from(!f.copies.get(shard));
            let bytes = self.map.encode_shard(self.io.config().pool, f.number + 1, shard);
            let layout = &self.io[home].layout;
            let offset_bytes = layout.shard_offset + (shard as u64 * 2 + copy) * SHARD_BYTES;
            self.enqueue_follow(home, IoOp::WriteMeta { offset_bytes, bytes, fua: false });
            return;
        }
        if let Some(&page) = self.follower.taken_pages.first() {
            if !self.checksums.has_page(page) {
                self.load_checksum_page(page, None);
                return;
            }
            self.follower.taken_pages.remove(&page);
            let (copy, bytes) = self.checksums.encode(self.io.config().pool, page);
            let layout = &self.io[home].layout;
            let offset_bytes = layout.checksum_offset + (u64::from(page) * 2 + copy) * PAGE_BYTES;
            self.enqueue_follow(home, IoOp::WriteMeta { offset_bytes, bytes, fua: false });
            return;
        }
        if let Some((offset_bytes, bytes)) = self.follow_table(home) {
            self.enqueue_follow(home, IoOp::WriteMeta { offset_bytes, bytes, fua: false });
            return;
        }
        self.follower.composed = self.commit.composed();
        self.follower.objects_due = self.objects_due();
        self.follower.stage = Stage::Batch;
    }

    /// The next page of the table of objects, if there is one to be written.
    fn follow_table(&mut self, home: DeviceId) -> Option<(u64, Vec<u8>)> {
        if self.follower.table_is_written {
            return None;
        }
        let mut job = self.follower.image_job.take()?;
        let (pages_max, pool) = (self.io.table_pages(), self.io.config().pool);
        let mut page = job.page(&self.objects, pool, pages_max);
        if job.has_overflowed() {
            job.begin_anew(&self.objects);
            page = job.page(&self.objects, pool, pages_max);
        }
        let layout = &self.io[home].layout;
        let page = page.map(|(index, bytes)| (page_offset(layout, job.area(), index), bytes));
        self.follower.table_is_written = page.is_none();
        self.follower.image_job = Some(job);
        page
    }

    fn enqueue_follow(&mut self, home: DeviceId, op: IoOp) {
        self.follower.outstanding += 1;
        self.io.enqueue(
            home,
            Class::Background,
            Job::Io(op, Owner::Metadata(MetadataIo::Follow)),
            None,
        );
    }

    /// A shard, page or root of the follower was written, or not.
    pub(crate) fn follow_step_done(&mut self, device: DeviceId, status: Result<(), IoError>) {
        self.follower.outstanding -= 1;
        if self.follower.home != Some(device) {
            return; // it was taken out of service meanwhile
        }
        if let Err(error) = status {
            self.fault(device, error);
        }
    }

    /// A snapshot without its units is none: what it has written is due again.
    fn give_up_snapshot(&mut self) {
        let now = self.io.now();
        let f = &mut self.follower;
        let due = f.due_shards.words_mut().iter_mut();
        for (due, (taken, flips)) in due.zip(f.taken.words().iter().zip(f.flips.words())) {
            *due |= taken | flips;
        }
        f.taken = Bits::new(f.taken.len());
        f.flips = Bits::new(f.flips.len());
        f.due_pages.append(&mut f.taken_pages);
        f.due_table |= f.image_job.take().is_some();
        f.stage = Stage::Idle;
        f.held = false;
        f.rest(now);
    }

    fn follow_batch(&mut self) {
        if self.follower.behind {
            self.give_up_snapshot();
            return;
        }
        if self.commit.durable() < self.follower.composed
            || self.commit.is_broken()
            || !self.are_durable_as_rooted(self.follower.objects_due)
        {
            return;
        }
        let image = self.follower.image_job.as_ref().map(ImageJob::end).or(self.follower.image);
        let objects = if image.is_none() { self.objects.records() } else { Vec::new() };
        let f = &mut self.follower;
        (f.objects, f.image_after) = (objects, image);
        let sequence = self.journal.next_sequence() - 1;
        f.stage = Stage::Flush { after: f.flushes, sequence };
        f.held = false;
    }

    fn follow_flush(&mut self, after: u64, sequence: u64) {
        let f = &self.follower;
        let Some(home) = f.home else { return };
        if f.behind {
            self.give_up_snapshot();
            return;
        }
        let d = &mut self.io[home];
        if f.flushes <= after || d.flushing.is_some() || f.settled < sequence {
            if d.flushing.is_none() {
                d.flush_wanted = true;
            }
            return;
        }
        self.write_follower_root(home, sequence);
        self.follower.stage = Stage::Root;
    }

    fn write_follower_root(&mut self, home: DeviceId, sequence: u64) {
        let f = &mut self.follower;
        for (copy, flip) in f.copies.words_mut().iter_mut().zip(f.flips.words()) {
            *copy ^= flip;
        }
        f.flips = Bits::new(f.flips.len());
        f.number += 1;
        f.next_needed = (f.mark.1, f.handed_end.saturating_sub(f.mark.0));
        let root = Root {
            checkpoint: f.number,
            replay_sequence: f.replay_sequence,
            replay_offset: f.mark.1,
            replay_upto: sequence,
            written: f.existing.words().to_vec(),
            second_copy: f.copies.words().to_vec(),
            objects: std::mem::take(&mut f.objects),
            image: f.image_after,
        };
        f.image = f.image_after;
        f.image_job = None;
        let bytes = root.encode(self.io.config().pool);
        let layout = &self.io[home].layout;
        assert!(bytes.len() as u64 <= layout.root_bytes, "creating objects is bounded by this");
        let offset_bytes = layout.root_offset + root.checkpoint % 2 * layout.root_bytes;
        self.enqueue_follow(home, IoOp::WriteMeta { offset_bytes, bytes, fua: true });
    }

    fn end_snapshot(&mut self) {
        let now = self.io.now();
        let f = &mut self.follower;
        if f.outstanding > 0 {
            return;
        }
        f.start = f.mark.0;
        f.needed = f.next_needed;
        f.held = false;
        f.stage = Stage::Idle;
        f.held = false;
        f.rest(now);
        f.gap = f.behind;
        if !f.gap {
            f.reach(f.settled, now);
        }
        let next = f.next.take();
        self.io.stats_mut().follower_snapshots += 1;
        if let Some((mark, sequence)) = next {
            self.begin_snapshot(mark, sequence);
        }
    }
}
