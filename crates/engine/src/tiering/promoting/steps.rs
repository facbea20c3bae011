//! Promotions, step by step: what comes to an SSD.

use super::{Arrivals, Begun, PROMOTING_MAX, Part, Promotion, RUN_BLOCKS_MAX, Stage};
use crate::device::{Class, Job};
use crate::io::{DeviceIo, Phase};
use crate::ledger::Ledger;
use crate::map::beside_logs::{add_copy_of_log, leave_log};
use crate::map::checksums::BlockChecksums;
use crate::map::entry::{FRAGMENTS, HOME, LOG, SSD};
use crate::map::{Logical, Map, NONE, Run, Slot, Touch};
use crate::mutant::Mutant;
use crate::owner::{Ended, MigrationIo, Owner};
use crate::policy::Policy;
use crate::port::{Command, IoOp};
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::store::commit::Commit;
use crate::tier::Comes;
use crate::tier::collect::Extent;
use crate::tier::settings as names;
use crate::tiering::Tiers;
use tandem_block::{BLOCK_BYTES, ObjectId, Op, PayloadId, Request, RequestId, RequestKind};

impl Tiers {
    /// Is this background read one of a run that comes?
    pub(crate) fn is_promoting(&self, id: TaskId) -> bool {
        let arrivals = self.share.as_ref().map(|tiers| &tiers.arrivals);
        arrivals.is_some_and(|a| a.position(|c| c.stage == Stage::Reading(id)).is_some())
    }

    /// Is there room for one more, in RAM, on the SSDs, and in the rate?
    fn may_come(&mut self, map: &Map, ledger: &Ledger, io: &DeviceIo) -> bool {
        let now = io.now();
        if self.next.is_some() {
            return false; // the account changes when all that comes has come
        }
        let tiers = self.share.as_mut().expect("asked by the caller");
        if tiers.arrivals.promoting.len() >= PROMOTING_MAX || !tiers.rate.is_left(now) {
            return false;
        }
        let spent = |id: &tandem_block::DeviceId| {
            io[*id].is_faulted() || ledger.ssd_writes_are_spent(*id, io)
        };
        !map.is_short_of_space(io.waits_for_space()) && !io.ssds().iter().all(spent)
    }

    fn blocks_of(&self, extent: Extent, map: &Map) -> (Logical, Logical) {
        let tiers = self.share.as_ref().expect("asked by the caller");
        let (from, to) = tiers.space.blocks_of(extent);
        let to = to.min(map.leaves().block_count() as u64);
        (from as Logical, to as Logical)
    }

    fn note_promoting(
        &mut self,
        extent: Extent,
        (first, end): (Logical, Logical),
        stage: Stage,
        map: &mut Map,
    ) {
        assert!(first < end && end - first <= RUN_BLOCKS_MAX, "a run has some blocks");
        assert!(stage != Stage::Writing, "a run is read before it is written");
        let parts = (first..end).map(|block| Part { copied: map.watch(block), changes: false });
        let parts = parts.collect();
        let tiers = self.share.as_mut().expect("asked by the caller");
        assert!(!tiers.arrivals.of(extent), "of an extent one run at a time comes");
        assert!(tiers.arrivals.promoting.len() < PROMOTING_MAX, "runs under way are bounded");
        tiers.rate.spend((end - first) * BLOCK_BYTES);
        tiers.arrivals.begun = tiers.arrivals.begun.wrapping_add(1);
        let number = tiers.arrivals.begun;
        tiers.arrivals.promoting.push(Promotion {
            number,
            extent,
            first,
            parts,
            stage,
            buffer: PayloadId::NONE,
            runs: Vec::new(),
            outstanding: 0,
        });
    }

    /// This user's read is to read these blocks of an extent for it, too.
    pub(super) fn note_riding(
        &mut self,
        id: TaskId,
        extent: Extent,
        range: (Logical, Logical),
        map: &mut Map,
    ) {
        self.note_promoting(extent, range, Stage::Riding(id), map);
    }

    /// Are the checksums of these homes in RAM? A page that is not would have to be read first.
    fn has_pages(
        &self,
        (first, end): (Logical, Logical),
        checksums: &BlockChecksums,
        io: &DeviceIo,
    ) -> bool {
        use crate::map::checksums::page_of;
        !io.config().contents
            || (page_of(first)..=page_of(end - 1)).all(|page| checksums.has_page(page))
    }

    /// The user's read failed, of its own blocks or of others: it is read again without them.
    pub(crate) fn fell_off(&mut self, id: TaskId, map: &mut Map) {
        let arrivals = self.arrivals();
        let at = arrivals.position(|promoting| promoting.stage == Stage::Riding(id));
        let promoting = arrivals.promoting.swap_remove(at.expect("the task rides"));
        assert!(promoting.outstanding == 0, "a run is not written before it was read");
        promoting.parts.into_iter().for_each(|part| map.forget(part.copied));
    }

    /// Commits by compare. False: the block is another one by now.
    fn name_what_came(
        &mut self,
        number: u32,
        block: Logical,
        (slot, checksum): (Slot, u32),
        commit: &mut Commit,
        map: &mut Map,
        io: &mut DeviceIo,
    ) -> bool {
        let promoting = self.arrivals().get(number);
        assert!(promoting.stage == Stage::Writing, "the map names what was written");
        assert!(block >= promoting.first, "a run writes its own blocks");
        let part = promoting.parts[(block - promoting.first) as usize].clone();
        let is_same = !part.changes && map.is_latest(&part.copied);
        if !is_same && !io.breaks(Mutant::StalePromoting) {
            return false;
        }
        if map.state(block) & (LOG | SSD | FRAGMENTS) == LOG | SSD {
            // a copy of the log came another way meanwhile
            return false;
        }
        let exclusive =
            self.config.as_ref().is_some_and(|s| s.tier.get(names::EXCLUSIVE.name) == 1);
        // what its tier keeps in two places stays in a log, as it stays at home
        let is_alone = exclusive || self.share.as_ref().is_some_and(|it| it.space.keeps(block));
        let is_copy = !exclusive && map.add_copy_of_home(block, slot, checksum)
            || !is_alone && add_copy_of_log(map, block, slot, checksum);
        if !is_copy {
            map.assign(block, slot, checksum);
        }
        map.touch(Touch { logical: block, count: 1 }, slot, false);
        // its drive may have died since it was read
        let log = map.entry(block).log;
        if log != NONE {
            leave_log(map, block, log, |drive| io[drive].is_out());
        }
        commit.note_pending(io.now());
        io.stats_mut().tiers.came_blocks += 1;
        true
    }

    /// Is what comes read by a read of its own?
    fn reads_again(&self) -> bool {
        self.config.as_ref().is_some_and(|space| space.tier.get(names::REREAD.name) == 1)
    }

    fn arrivals(&mut self) -> &mut Arrivals {
        &mut self.share.as_mut().expect("something is coming").arrivals
    }

    /// Begins with the first run of blocks in `from..to` that are not on an SSD.
    fn begin_promoting(
        &mut self,
        extent: Extent,
        from: Logical,
        to: Logical,
        map: &mut Map,
        requests: &mut Requests,
        io: &DeviceIo,
    ) -> Begun {
        let lacks = |block: Logical| {
            let state = map.state(block);
            let wants = match self.comes(block) {
                Comes::Never => false,
                Comes::FromLog => state & LOG != 0,
                Comes::WhenRead | Comes::AtIntervals => state != 0,
            };
            wants && state & SSD == 0
        };
        if self.share.as_ref().is_some_and(|tiers| tiers.arrivals.of(extent)) {
            return Begun::Nothing;
        }
        let Some(first) = (from..to).find(|&block| lacks(block)) else { return Begun::Nothing };
        let bound = to.min(first + RUN_BLOCKS_MAX);
        let end = (first..bound).find(|&block| !lacks(block)).unwrap_or(bound);
        if requests.is_held(first, end) {
            return Begun::Busy;
        }
        let length_bytes = (end - first) * BLOCK_BYTES;
        let request = Request {
            kind: RequestKind::Background,
            ..Request::new(
                RequestId(u64::MAX),
                ObjectId(u64::MAX),
                Op::Read,
                (0, length_bytes),
                io.now(),
            )
        };
        let id = requests.insert(Task::new(request, first, end));
        self.note_promoting(extent, (first, end), Stage::Reading(id), map);
        requests.lead_to(Next::Read(id));
        Begun::Yes
    }

    pub(crate) fn run_promoting(
        &mut self,
        map: &mut Map,
        requests: &mut Requests,
        ledger: &Ledger,
        io: &DeviceIo,
    ) {
        if !self.may_come(map, ledger, io) {
            return;
        }
        // those that cannot come now, since they are written to, wait for another event
        for _ in 0..8 {
            let tiers = self.share.as_mut().expect("asked by the caller");
            if tiers.arrivals.reads() {
                return;
            }
            let alone = |range| map.on_ssd_alone(range);
            let logged = tiers.log_age.next();
            let Some(extent) = logged.or_else(|| tiers.space.next_to_come(alone)) else { return };
            let (from, to) = self.blocks_of(extent, map);
            let tiers = self.share.as_mut().expect("as before");
            if logged.is_some() && !tiers.space.claim(from, to) {
                continue; // there is no room: it goes home when its log is cleaned
            }
            if self.begin_promoting(extent, from, to, map, requests, io) == Begun::Busy {
                self.share.as_mut().expect("asked by the caller").space.come_later(extent);
                return;
            }
        }
    }

    fn end_promoting(
        &mut self,
        number: u32,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        let arrivals = self.arrivals();
        let at =
            arrivals.position(|promoting| promoting.number == number).expect("it is under way");
        let mut promoting = arrivals.promoting.swap_remove(at);
        assert!(
            promoting.outstanding == 0 && promoting.stage == Stage::Writing,
            "a run ends when it was read and nothing of it is being written"
        );
        let from = promoting.first + promoting.parts.len() as Logical;
        promoting.parts.drain(..).for_each(|part| map.forget(part.copied));
        if promoting.buffer != PayloadId::NONE {
            io.send(Command::Release(promoting.buffer));
        }
        // the rest of the extent, if there was a gap in it
        let (_, to) = self.blocks_of(promoting.extent, map);
        let tiers = self.share.as_ref().expect("something was coming");
        let serving = io.phase() == Phase::Running;
        let serving = serving && self.next.is_none();
        if serving && tiers.space.is_held(promoting.extent) && from < to && !tiers.arrivals.reads()
        {
            let _ = self.begin_promoting(promoting.extent, from, to, map, requests, io);
        }
    }

    fn write_promoting(
        &mut self,
        number: u32,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        let promoting = self.arrivals().get(number);
        assert!(
            promoting.stage == Stage::Writing && promoting.runs.is_empty(),
            "a run is written once, when it was read"
        );
        let (first, blocks) = (promoting.first, promoting.parts.len() as u64);
        let mut at = 0;
        while at < blocks {
            let Some(run) = map.allocate_ssd(blocks - at) else {
                io.stats_mut().tiers.no_space += 1;
                break;
            };
            let region = *map.slots().region(run.slot);
            let promoting = self.arrivals().get(number);
            let index = promoting.runs.len() as u32;
            promoting.runs.push((first + at, run));
            promoting.outstanding += 1;
            let op = IoOp::Write {
                offset_bytes: region.address(run.slot),
                length_bytes: run.count * BLOCK_BYTES,
                from: promoting.buffer,
                from_offset_bytes: at * BLOCK_BYTES,
                fua: false,
            };
            let owner = Owner::Migration(MigrationIo::Extent { number, run: index });
            io.enqueue(region.device, Class::Background, Job::Io(op, owner), None);
            at += run.count;
        }
        if at == 0 {
            self.end_promoting(number, map, requests, io);
        }
    }

    /// The user's read is done: what it read is copied, and goes on to an SSD.
    pub(crate) fn rode(
        &mut self,
        id: TaskId,
        from: PayloadId,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        let tiers = self.share.as_mut().expect("something is coming");
        let at = tiers.arrivals.position(|promoting| promoting.stage == Stage::Riding(id));
        let at = at.expect("the task rides");
        let promoting = &mut tiers.arrivals.promoting[at];
        assert!(requests[id].first == promoting.first, "the read is of the blocks that come");
        promoting.stage = Stage::Writing;
        let (number, length_bytes) = (promoting.number, promoting.parts.len() as u64 * BLOCK_BYTES);
        if io.config().contents {
            let payload = io.name_payload();
            io.send(Command::Reserve { payload, length_bytes });
            io.send(Command::Copy {
                from,
                from_offset_bytes: 0,
                into: payload,
                into_offset_bytes: 0,
                length_bytes,
            });
            self.arrivals().get(number).buffer = payload;
        }
        self.write_promoting(number, map, requests, io);
    }

    /// A background read is done.
    pub(crate) fn promoting_read(
        &mut self,
        id: TaskId,
        payload: PayloadId,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        let task = requests.remove(id);
        let arrivals = self.arrivals();
        let at = arrivals.position(|promoting| promoting.stage == Stage::Reading(id));
        let promoting = &mut arrivals.promoting[at.expect("it was reading")];
        assert!(task.first == promoting.first, "the read is of the blocks that come");
        promoting.stage = Stage::Writing;
        promoting.buffer = payload;
        let number = promoting.number;
        if task.status.is_err() {
            self.end_promoting(number, map, requests, io);
        } else {
            self.write_promoting(number, map, requests, io);
        }
    }
}

impl Policy {
    /// A user's read of some blocks of an extent that shall come, and for which there is room: can it read
    /// all of the extent? Only what lies beside his blocks, at home or in a log, and nobody writes to.
    /// Returns the range.
    pub(crate) fn ride(
        &mut self,
        id: TaskId,
        extent: Extent,
        store: &mut Store,
        requests: &Requests,
        io: &DeviceIo,
    ) -> Option<(Logical, Logical)> {
        if self.tiers.reads_again() || !self.tiers.may_come(&store.map, &self.ledger, io) {
            return None;
        }
        let (from, to) = self.tiers.blocks_of(extent, &store.map);
        let is_plain = |block| {
            matches!(store.map.state(block), HOME | LOG) && self.tiers.comes(block) != Comes::Never
        };
        let follows = |block: Logical| {
            let [this, next] = [block, block + 1].map(|block| store.map.entry(block));
            (this.home && next.home) || this.log.checked_add(1) == Some(next.log)
        };
        let task = &requests[id];
        let inside = from <= task.first && task.end <= to && to - from <= RUN_BLOCKS_MAX;
        let lone = !self.tiers.share.as_ref().is_some_and(|tiers| tiers.arrivals.of(extent));
        if !inside || !lone {
            return None;
        }
        // at its ends an extent may hold blocks that nobody ever wrote
        let before = |&block: &Logical| is_plain(block) && follows(block);
        let behind = |&block: &Logical| is_plain(block) && follows(block - 1);
        let first = (from..task.first).rev().take_while(before).last();
        let last = (task.end..to).take_while(behind).last();
        let range = (first.unwrap_or(task.first), last.map_or(task.end, |last| last + 1));
        let sound = (task.first..task.end).all(is_plain);
        if !sound
            || requests.is_held(range.0, range.1)
            || !self.tiers.has_pages(range, &store.checksums, io)
        {
            return None;
        }
        self.tiers.note_riding(id, extent, range, &mut store.map);
        Some(range)
    }
}

impl Policy {
    /// A part of it was written.
    pub(crate) fn promoting_written(
        &mut self,
        (number, index): (u32, u32),
        ended: Ended<'_>,
        store: &mut Store,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) {
        let Ended { status, checksums, .. } = ended;
        let (logical, run) = self.tiers.arrivals().get(number).runs[index as usize];
        for i in 0..run.count {
            let (block, slot) = (logical + i, run.slot + i);
            let checksum = checksums.get(i as usize).copied().unwrap_or(0);
            if status.is_err()
                || !self.tiers.name_what_came(
                    number,
                    block,
                    (slot, checksum),
                    &mut store.commit,
                    &mut store.map,
                    io,
                )
            {
                store.map.release_unused(Run { slot, count: 1 });
                io.stats_mut().tiers.changed_blocks += 1;
            }
        }
        let promoting = self.tiers.arrivals().get(number);
        assert!(promoting.outstanding > 0, "a run waits for each of its writes");
        promoting.outstanding -= 1;
        if promoting.outstanding == 0 {
            self.tiers.end_promoting(number, &mut store.map, requests, io);
        }
    }
}
