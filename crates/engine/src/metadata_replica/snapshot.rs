//! A snapshot of the metadata for the replica on a hard drive: which steps does it take?
//!
//! Source: design decision 7; the folder's `mod.rs` has the journal units between two snapshots. A snapshot goes
//! with a checkpoint of the SSD, from the same marks, and in the background:
//!
//! ```text
//! the SSD's checkpoint is durable ─▶ pages of the map that differ, and the table of objects if
//! it does, a few at a time ─▶ the last batch that they may show is durable ─▶ its units written,
//! flush ─▶ root
//! ```

use super::{MetadataReplica, Stage};
use crate::device::{Class, Job};
use crate::format::layout::Layout;
use crate::format::pointer::{Kind, MapLeaf, PAGE_BYTES};
use crate::format::root::Root;
use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::batches::Batches;
use crate::map::checksums::BlockChecksums;
use crate::map::image::ImageJob;
use crate::map::journal::Journal;
use crate::map::marks::Marks;
use crate::map::objects::Objects;
use crate::owner::{MetadataIo, Owner};
use crate::pages::{Counts, NoRoom, PageWrite};
use crate::port::IoOp;
use tandem_block::{BLOCK_BYTES, DeviceId};

/// Where a checkpoint of the SSD stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointState {
    /// It is being written, or will be written again.
    UnderWay,
    /// It could not be written.
    Failed,
    /// It is durable; none is under way.
    Durable,
}

/// The write of pages to the drive.
fn page_write(write: PageWrite, layout: &Layout) -> IoOp {
    let end = write.page + write.bytes.len() as u64 / PAGE_BYTES;
    assert!(end <= layout.area_pages, "a page lies among the pages");
    let offset_bytes = layout.area_offset + write.page * PAGE_BYTES;
    IoOp::WriteMeta { offset_bytes, bytes: write.bytes, fua: false }
}

/// What of the map is to be written next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NextPages {
    /// This.
    Write(PageWrite),
    /// A page of checksums that has to be in memory first.
    Await(u32),
    /// Something, but not in this turn.
    Later,
    /// Nothing.
    Over,
}

/// Groups that are composed for one command, and in one turn.
const GROUPS_AT_ONCE: usize = 8;
const GROUPS_A_TURN: usize = 256;

/// What a snapshot is made of, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) map: &'a Map,
    pub(crate) checksums: &'a BlockChecksums,
    pub(crate) objects: &'a Objects,
    pub(crate) journal: &'a Journal,
    pub(crate) checkpoint: CheckpointState,
    pub(crate) batches: Batches,
}

impl MetadataReplica {
    /// A checkpoint writes the table of objects: a snapshot has to, too.
    pub(crate) fn note_table(&mut self, is_due: bool) {
        self.due_table |= is_due && self.home.is_some();
    }

    /// A round of checkpoints begins: its marks and groups are the replica's too.
    pub(crate) fn checkpoint_begins(
        &mut self,
        dirty: &Marks,
        mark: (u64, u64),
        sequence: u64,
        io: &DeviceIo,
    ) {
        let f = &mut *self;
        if f.home.is_none() {
            return;
        }
        f.due_groups.mark_all(dirty);
        if f.stage == Stage::Root {
            f.next = Some((mark, sequence));
        } else {
            self.begin_snapshot(mark, sequence, io);
        }
    }

    /// Begins a snapshot, or goes on with the one under way from newer marks.
    fn begin_snapshot(&mut self, mark: (u64, u64), sequence: u64, io: &DeviceIo) {
        let now = io.now();
        let f = &mut *self;
        assert!(mark.0 >= f.mark.0, "a snapshot never goes back in the journal");
        if f.stage == Stage::Idle {
            f.began = now;
        }
        f.stage = Stage::Checkpoint;
        f.goes_on = false;
        f.mark = mark;
        f.replay_sequence = sequence;
        if f.behind {
            // from here on everything is kept again
            assert!(f.dropped < sequence, "what was dropped lies before the mark");
            assert!(f.written < sequence, "what was handed over stays so");
            f.behind = false;
            f.written = sequence - 1;
        }
    }

    /// A checksum page was carried to the SSD.
    pub(crate) fn note_page(&mut self, page: u32) {
        if self.home.is_some() {
            self.due_pages.insert(page);
        }
    }

    /// Does a snapshot wait for the checkpoint that it goes with?
    pub(crate) fn awaits_checkpoint(&self) -> bool {
        self.stage == Stage::Checkpoint
    }

    /// Should a checkpoint be taken for the replica's sake?
    pub(crate) fn wants_checkpoint(&self, io: &DeviceIo) -> bool {
        let f = self;
        f.home.is_some()
            && f.stage == Stage::Idle
            && f.behind
            && (io.is_quiet() || self.snapshot_is_late(io) || io.is_stopping())
    }

    /// Advances the snapshot under way. Returns a page of checksums that it needs in memory.
    pub(crate) fn run(&mut self, source: &Source<'_>, io: &mut DeviceIo) -> Option<u32> {
        let mut wanted = None;
        while self.stage != Stage::Idle {
            if self.unknown_roots != [false; 2] {
                self.erase_next_root(io);
                break;
            }
            let before = self.stage;
            match before {
                Stage::Idle => return None,
                Stage::Checkpoint => self.await_checkpoint(source),
                Stage::Pages => wanted = self.write_next(source, io),
                Stage::Batch => self.await_batch(source, io),
                Stage::Flush { after, sequence } => self.await_flush(after, sequence, io),
                Stage::Root => self.end_snapshot(io),
            }
            if self.stage == before {
                break;
            }
        }
        wanted
    }

    /// Erases a root that nobody has read, if none is being erased.
    fn erase_next_root(&mut self, io: &mut DeviceIo) {
        let Some(home) = self.home else { return };
        if self.outstanding > 0 {
            return;
        }
        let copy = self.unknown_roots.iter().position(|&unknown| unknown).expect("asked before");
        self.erasing = Some(copy);
        let layout = &io[home].layout;
        let offset_bytes = layout.root_offset + copy as u64 * layout.root_bytes;
        let bytes = vec![0; BLOCK_BYTES as usize];
        self.enqueue(home, IoOp::WriteMeta { offset_bytes, bytes, fua: true }, io);
    }

    fn await_checkpoint(&mut self, source: &Source<'_>) {
        match source.checkpoint {
            CheckpointState::UnderWay => return,
            CheckpointState::Failed => {
                self.held = false;
                self.stage = Stage::Idle;
                return;
            }
            CheckpointState::Durable => {}
        }
        self.taken.mark_all(&self.due_groups);
        self.due_groups.clear();
        self.taken_from = 0;
        self.taken_pages.append(&mut self.due_pages);
        if !self.table.is_under_way() {
            self.table.begin();
        }
        if std::mem::take(&mut self.due_table) && source.objects.has_table() {
            self.image_job = Some(ImageJob::begin(self.number + 1, self.image));
            self.table_is_written = false;
        }
        self.stage = Stage::Pages;
    }

    /// The next pages with places of groups, if there are any to be written.
    fn next_places(&mut self, map: &Map) -> Result<Option<PageWrite>, NoRoom> {
        self.goes_on = false;
        if let Some(write) = self.writes.pop_front() {
            return Ok(Some(write));
        }
        let (mut composed, mut left) = (0, GROUPS_A_TURN);
        while composed < GROUPS_AT_ONCE && left > 0 {
            self.table.leaves_written(); // a group may come twice
            let next = self.taken.next(self.taken_from);
            let Some(group) = next else { break };
            left -= 1;
            self.taken_from = group;
            let (places, blocks) = (map.places(group as u64), map.blocks_of_group(group as u64));
            let writes = self.table.write_places(group as u64, &places, blocks).ok_or(NoRoom)?;
            self.taken.unmark(group);
            writes.into_iter().for_each(|write| write.join(&mut self.writes));
            // groups without a page are composed until there is something to write
            composed += usize::from(!self.writes.is_empty());
        }
        let write = self.writes.pop_front();
        self.goes_on = write.is_none() && left == 0;
        Ok(write)
    }

    /// A few pages at a time: users wait for one command at most. Returns a page that must be in memory
    /// first.
    fn write_next(&mut self, source: &Source<'_>, io: &mut DeviceIo) -> Option<u32> {
        let home = self.home?;
        if self.outstanding > 0 {
            return None;
        }
        if self.behind {
            self.give_up_snapshot(io);
            return None;
        }
        let layout = io[home].layout;
        match self.next_pages(source) {
            Ok(NextPages::Write(write)) => self.enqueue(home, page_write(write, &layout), io),
            Ok(NextPages::Await(page)) => return Some(page),
            Ok(NextPages::Later) => {}
            Err(NoRoom) => {
                self.give_up_snapshot(io);
                self.has_no_room = true;
            }
            Ok(NextPages::Over) => match self.next_table_page(home, source.objects, io) {
                Some(page) => self.enqueue(home, page, io),
                None => {
                    self.composed = source.batches.composed;
                    self.objects_due = source.batches.objects_due(source.objects);
                    self.stage = Stage::Batch;
                }
            },
        }
        None
    }

    /// The next pages of the map: places, then checksums, then pages of pointers.
    fn next_pages(&mut self, source: &Source<'_>) -> Result<NextPages, NoRoom> {
        if let Some(write) = self.next_places(source.map)? {
            return Ok(NextPages::Write(write));
        }
        if self.goes_on {
            return Ok(NextPages::Later);
        }
        if let Some(page) = self.next_taken_page(source.checksums) {
            if !source.checksums.has_page(page) {
                return Ok(NextPages::Await(page));
            }
            let bytes = source.checksums.encode(page);
            let leaf = MapLeaf::Checksums.leaf(u64::from(page));
            let write = self.table.write(leaf, bytes, Counts::default()).ok_or(NoRoom)?;
            self.taken_pages.remove(&page);
            return Ok(NextPages::Write(write));
        }
        let pointers = self.table.write_pointers()?;
        Ok(pointers.map_or(NextPages::Over, NextPages::Write))
    }

    /// The next page of checksums that is to be written. Those before it were written.
    fn next_taken_page(&mut self, checksums: &BlockChecksums) -> Option<u32> {
        self.table.leaves_written();
        while let Some(&page) = self.taken_pages.first() {
            let is_known = checksums.place(page).kind != Kind::Nothing;
            if is_known && !checksums.is_lost(page) {
                return Some(page);
            }
            self.taken_pages.remove(&page);
            if !is_known {
                // no checkpoint of the SSD has it, or has it any more
                self.table.write_none(MapLeaf::Checksums.leaf(u64::from(page)), false);
            }
            // nobody can read the newest one: the older one that the replica may have is not written over
        }
        self.table.leaves_written();
        None
    }

    /// The next page of the table of objects, if there is one to be written.
    fn next_table_page(
        &mut self,
        home: DeviceId,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Option<IoOp> {
        if self.table_is_written {
            return None;
        }
        let mut job = self.image_job.take()?;
        let (pages_max, pool) = (io.table_pages(), io.config().pool);
        let mut page = job.page(objects, pool, pages_max);
        if job.has_overflowed() {
            job.begin_anew(objects);
            page = job.page(objects, pool, pages_max);
        }
        let layout = &io[home].layout;
        let page = page.map(|(index, bytes)| {
            assert!(index < layout.table_pages(), "a page lies in its area of the table");
            let offset_bytes = layout.table_page_offset(job.area(), index);
            IoOp::WriteMeta { offset_bytes, bytes, fua: false }
        });
        self.table_is_written = page.is_none();
        self.image_job = Some(job);
        page
    }

    /// Pages or a root were written, or not. True: it was for the drive that still follows.
    pub(crate) fn step_done(&mut self, device: DeviceId) -> bool {
        assert!(self.outstanding > 0, "a command of a snapshot ends once");
        self.outstanding -= 1;
        if let Some(copy) = self.erasing.take() {
            self.unknown_roots[copy] = false; // or the drive is taken out of service
        }
        self.home == Some(device)
    }

    fn await_batch(&mut self, source: &Source<'_>, io: &DeviceIo) {
        if self.behind {
            self.give_up_snapshot(io);
            return;
        }
        if source.batches.durable < self.composed
            || source.batches.is_broken
            || !source.batches.are_durable_as_rooted(self.objects_due, source.objects)
        {
            return;
        }
        let image = self.image_job.as_ref().map(ImageJob::end).or(self.image);
        self.objects = if image.is_none() { source.objects.records() } else { Vec::new() };
        self.image_after = image;
        let sequence = source.journal.next_sequence() - 1;
        self.stage = Stage::Flush { after: self.flushes, sequence };
        self.held = false;
    }

    fn enqueue(&mut self, home: DeviceId, op: IoOp, io: &mut DeviceIo) {
        assert!(self.outstanding == 0, "users wait for one command at most");
        self.outstanding += 1;
        io.enqueue(
            home,
            Class::Background,
            Job::Io(op, Owner::Metadata(MetadataIo::Replica)),
            None,
        );
    }

    /// A snapshot without its units is none: what it has written is due again.
    fn give_up_snapshot(&mut self, io: &DeviceIo) {
        let now = io.now();
        let f = &mut *self;
        f.due_groups.mark_all(&f.taken);
        f.taken.clear();
        f.writes.clear();
        f.goes_on = false;
        f.due_pages.append(&mut f.taken_pages);
        for leaf in f.table.failed() {
            f.note_due(leaf);
        }
        f.due_table |= f.image_job.take().is_some();
        f.stage = Stage::Idle;
        f.held = false;
        f.rest(now);
    }

    fn await_flush(&mut self, after: u64, sequence: u64, io: &mut DeviceIo) {
        let f = &*self;
        let Some(home) = f.home else { return };
        if f.behind {
            self.give_up_snapshot(io);
            return;
        }
        let d = &mut io[home];
        if f.flushes <= after || d.flushing.is_some() || f.durable < sequence {
            if d.flushing.is_none() {
                d.flush_wanted = true;
            }
            return;
        }
        self.write_root(home, sequence, io);
        self.stage = Stage::Root;
    }

    fn write_root(&mut self, home: DeviceId, sequence: u64, io: &mut DeviceIo) {
        let f = &mut *self;
        assert!(sequence + 1 >= f.replay_sequence, "all units before the mark are durable");
        assert!(f.writes.is_empty() && !f.goes_on, "a root is written behind the leaves");
        f.number += 1;
        f.next_needed = (f.mark.1, f.handed_end.saturating_sub(f.mark.0));
        let root = Root {
            checkpoint: f.number,
            replay_sequence: f.replay_sequence,
            replay_offset: f.mark.1,
            replay_upto: sequence,
            objects: std::mem::take(&mut f.objects),
            image: f.image_after,
            map: f.table.root(),
        };
        f.image = f.image_after;
        f.image_job = None;
        let bytes = root.encode(io.config().pool);
        let layout = &io[home].layout;
        assert!(bytes.len() as u64 <= layout.root_bytes, "creating objects is bounded by this");
        let offset_bytes = layout.root_offset + root.checkpoint % 2 * layout.root_bytes;
        self.enqueue(home, IoOp::WriteMeta { offset_bytes, bytes, fua: true }, io);
    }

    fn end_snapshot(&mut self, io: &mut DeviceIo) {
        let now = io.now();
        let f = &mut *self;
        if f.outstanding > 0 {
            return;
        }
        f.table.durable();
        f.start = f.mark.0;
        f.needed = f.next_needed;
        f.held = false;
        f.stage = Stage::Idle;
        f.held = false;
        f.rest(now);
        f.gap = f.behind;
        if !f.gap {
            f.reach(f.durable, now);
        }
        // units behind its mark were dropped meanwhile: a snapshot from there would ask for them
        let is_whole = |&(_, sequence): &((u64, u64), u64)| !f.behind || f.dropped < sequence;
        let next = f.next.take().filter(is_whole);
        io.stats_mut().metadata_replica_snapshots += 1;
        if let Some((mark, sequence)) = next {
            self.begin_snapshot(mark, sequence, io);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::TableRoot;
    use crate::io::fixture::drives;
    use tandem_block::{Duration, Instant, MIB};

    const HDD: DeviceId = DeviceId(1);

    #[derive(Clone, Copy, Debug)]
    enum Happens {
        /// The SSD begins a checkpoint.
        Checkpoint,
        /// So many units are durable on the SSD. 17 are more than the replica keeps in RAM.
        Units(u64),
        /// What waits is written to the drive, and a flush of the drive begins.
        Flush,
    }

    /// Units of 1 MiB, by their number: the ring has room for many.
    fn units(f: &mut MetadataReplica, io: &mut DeviceIo, sequences: std::ops::RangeInclusive<u64>) {
        for sequence in sequences {
            f.unit_is_durable(sequence, sequence * MIB, 0, vec![0; MIB as usize], io);
        }
    }

    /// The writes of a replica's snapshot that the drive has got since it was asked last: offset, bytes, FUA.
    fn writes(io: &mut DeviceIo) -> Vec<(u64, Vec<u8>, bool)> {
        let jobs = std::iter::from_fn(|| io[HDD].queue.pop(Class::Background));
        jobs.map(|waiting| match waiting.job {
            Job::Io(IoOp::WriteMeta { offset_bytes, bytes, fua }, _) => (offset_bytes, bytes, fua),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    /// Roots that nobody has read are erased, one at a time and durably, before a page or a unit is written
    /// over what they name.
    #[test]
    fn unknown_roots_are_erased_first() {
        let map = Map::new(Vec::new(), 0, 2);
        let (checksums, objects) = (BlockChecksums::new(0, true), Objects::new(0));
        for unknown in [[true, true], [true, false], [false, true], [false, false]] {
            let (mut f, mut io) = (MetadataReplica::default(), drives(1, 1));
            let journal = Journal::new(64 * MIB, 0, 1);
            let leader = Root {
                checkpoint: 8,
                replay_sequence: 1,
                replay_offset: 0,
                replay_upto: 0,
                objects: Vec::new(),
                image: None,
                map: TableRoot::default(),
            };
            f.begin_life(Some(HDD), 1);
            f.recovered(Some(&leader), unknown, &leader, checksums.table(), &journal, io.now());
            let is_known = unknown == [false; 2];
            assert_eq!(f.behind, !is_known, "{unknown:?}: who has unknown roots is not level");
            f.checkpoint_begins(&Marks::new(1), (0, 0), 1, &io);
            units(&mut f, &mut io, 1..=1);
            let source = Source {
                map: &map,
                checksums: &checksums,
                objects: &objects,
                journal: &journal,
                checkpoint: CheckpointState::UnderWay,
                batches: Batches { composed: 0, durable: 0, durable_unit: 0, is_broken: false },
            };
            let layout = io[HDD].layout;
            for copy in (0..2).filter(|&copy| unknown[copy as usize]) {
                assert!(f.take_units(HDD, false, &journal, &mut io).is_none(), "{unknown:?}");
                f.run(&source, &mut io);
                f.run(&source, &mut io);
                let offset_bytes = layout.root_offset + copy * layout.root_bytes;
                let erased = vec![(offset_bytes, vec![0; BLOCK_BYTES as usize], true)];
                assert_eq!(writes(&mut io), erased, "{unknown:?}");
                f.step_done(HDD);
            }
            f.run(&source, &mut io);
            assert!(writes(&mut io).is_empty(), "{unknown:?}: the checkpoint is not durable yet");
            assert!(f.take_units(HDD, false, &journal, &mut io).is_some(), "{unknown:?}");
        }
    }

    /// A replica that writes the root of a checkpoint whose replay begins with unit 3. Its drive has 5 units.
    fn while_a_root_is_written() -> (MetadataReplica, DeviceIo) {
        let mut f = MetadataReplica::default();
        f.begin_life(Some(HDD), 1);
        f.table.begin();
        (f.mark, f.replay_sequence, f.stage) = ((2 * MIB, 0), 3, Stage::Root);
        (f.written, f.durable, f.handed_end) = (5, 5, 5 * MIB);
        (f, drives(1, 1))
    }

    #[test]
    fn a_snapshot_begins_only_if_no_unit_behind_its_mark_was_dropped() {
        use Happens::{Checkpoint, Flush, Units};
        // (what happens while the root is written, behind after it, is a snapshot under way, replay begins with)
        for (events, behind, under_way, first) in [
            (&[][..], false, false, 3),
            (&[Units(17)], true, false, 3),
            (&[Checkpoint], false, true, 6),
            (&[Checkpoint, Units(1)], false, true, 6),
            // dropped before the mark: the checkpoint has them
            (&[Units(17), Checkpoint], false, true, 23),
            (&[Units(17), Units(1), Checkpoint], false, true, 24),
            // dropped behind it
            (&[Checkpoint, Units(17)], true, false, 3),
            (&[Units(17), Checkpoint, Units(1)], true, false, 3),
            // a flush is under way for units behind it
            (&[Checkpoint, Units(2), Flush, Units(17)], true, false, 3),
            // a newer mark takes the place of the older one
            (&[Checkpoint, Units(17), Checkpoint], false, true, 23),
        ] {
            let (mut f, mut io) = while_a_root_is_written();
            let (mut next, journal) = (6, Journal::new(64 * MIB, 0, 1));
            f.flush_begins(HDD);
            for event in events {
                match *event {
                    Checkpoint => {
                        let mark = ((next - 1) * MIB, 0);
                        f.checkpoint_begins(&Marks::new(1), mark, next, &io);
                    }
                    Units(count) => {
                        units(&mut f, &mut io, next..=next + count - 1);
                        next += count;
                    }
                    Flush => {
                        while let Some(op) = f.take_units(HDD, false, &journal, &mut io) {
                            f.leave_to_flush(op);
                            f.units_written(HDD, true, &io);
                        }
                        f.flush_begins(HDD);
                    }
                }
            }
            let dropped = f.behind;
            f.end_snapshot(&mut io);
            assert_eq!((f.behind, f.takes_snapshot()), (behind, under_way), "{events:?}");
            assert_eq!(f.replay_sequence, first, "{events:?}");
            assert_eq!(f.gap, dropped, "{events:?}: units count again when the next root is there");
            f.flush_ended(HDD, &io);
            io.next_event(Instant::ZERO + Duration::from_s(3600));
            assert_eq!(f.wants_checkpoint(&io), behind, "{events:?}: a new mark makes up for it");
        }
    }
}
