//! What steps keep redirected writes in RAM for reads, and bring those to an SSD that are read again?
//!
//! Source: requirements S17, B5; frontier D9. `log/read_back` knows what is in RAM: a redirected write
//! from its acknowledgement on. What is not, a hard drive reads; a block that it reads for the n-th time
//! is promoted: its bytes stay in RAM, and a move brings it to an SSD slot of its own, as a merge does
//! (`merge`), committed by compare. Promotions have a rate that they keep to, and wait for everything
//! that makes space.

use crate::io::DeviceIo;
use crate::ledger::Ledger;
use crate::log::read_back::{Found, ReadBack};
use crate::map::entry::LOG;
use crate::map::{FixedState, Logical, Map, NONE, Run, Slot};
use crate::migration::moves::Moves;
use crate::mutant::Mutant;
use crate::owner::{MoveKind, ReadPart};
use crate::port::{Command, ServedFrom};
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use hashbrown::HashMap;
use std::collections::VecDeque;
use tandem_block::{BLOCK_BYTES, DeviceId, Duration, Instant, PayloadId, RequestKind};

/// Slots whose reads are counted, at most: 0.5 MiB. When there are more, counting begins anew (guess).
const COUNTED_MAX: usize = 65_536;
/// Blocks that wait to be promoted, at most; further ones are forgone (guess).
const WAITING_MAX: usize = 4096;

/// Which blocks of the logs are read again and again, and which of them wait for their SSD slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promotions {
    /// Reads of hard drives by log slot.
    reads: HashMap<Slot, u32, FixedState>,
    waiting: VecDeque<(Logical, Slot)>,
    /// The second for which the rate is counted ends then.
    second_ends: Instant,
    left_bytes: u64,
}

impl ReadBack {
    fn shrink_read_back(&mut self, map: &Map, io: &mut DeviceIo) {
        self.shrink(|run| {
            (run.slot..run.slot + run.count)
                .any(|slot| names(map, map.slots().log_owner(slot), slot))
        });
        self.release_read_back(io);
    }

    /// A hard drive was flushed, or these slots are appended anew.
    pub(crate) fn release_read_back(&mut self, io: &mut DeviceIo) {
        while let Some(payload) = self.take_dropped() {
            io.let_buffer_go(payload);
        }
    }

    /// Nothing will be read any more.
    pub(crate) fn drop_read_back(&mut self, io: &mut DeviceIo) {
        self.clear();
        self.release_read_back(io);
    }

    /// Bytes of redirected writes that the cache keeps in RAM beside the tails, and how many it may.
    pub(crate) fn read_back_bytes(&self) -> (u64, u64) {
        self.cached_bytes()
    }

    /// For a mutant: some version of the block that is in RAM, whatever the map says.
    fn stale_in_ram(&mut self, block: Logical, map: &Map, io: &DeviceIo) -> Option<Found> {
        if !io.breaks(Mutant::StaleReadBack) {
            return None;
        }
        let slots = map.slots();
        let slot = self.runs().find_map(|run| {
            (run.slot..run.slot + run.count).find(|&slot| slots.log_owner(slot) == block)
        })?;
        self.find(slot).map(|found| Found { count: 1, ..found })
    }

    /// The move need not read again what was just read.
    fn keep_what_was_read(
        &mut self,
        slot: Slot,
        (from, from_offset_bytes): (PayloadId, u64),
        map: &Map,
        io: &mut DeviceIo,
    ) {
        let run = Run { slot, count: 1 };
        let payload = io.name_payload();
        if !self.add(run, payload, 0, false) {
            return;
        }
        io.hold_buffer(payload);
        if io.config().contents {
            io.send(Command::Reserve { payload, length_bytes: BLOCK_BYTES });
            let (into, into_offset_bytes, length_bytes) = (payload, 0, BLOCK_BYTES);
            let copy =
                Command::Copy { from, from_offset_bytes, into, into_offset_bytes, length_bytes };
            io.send(copy);
        }
        self.shrink_read_back(map, io);
    }

    /// A redirected write was acknowledged by its drive: it may be read from RAM from now on.
    pub(crate) fn keep_for_reads(
        &mut self,
        id: TaskId,
        run: Run,
        offset_bytes: u64,
        io: &mut DeviceIo,
        map: &Map,
        requests: &mut Requests,
    ) {
        assert!(map.slots().is_log(run.slot), "only what lies in a log is kept for reads");
        let device = map.slots().region(run.slot).device;
        let tail = io[device].tail.items.back();
        let in_tail = tail.is_some_and(|item| item.run == run);
        let payload = requests[id].buffer;
        // who compares all copies wants to see what the drives hold
        let keeps = !io.config().verify_copies;
        if keeps && self.add(run, payload, offset_bytes, in_tail) {
            requests.retain_buffer(id, io);
        }
        self.shrink_read_back(map, io);
    }

    /// Answers as many blocks from `block` on as RAM has, if they are in a log. 0: none.
    pub(crate) fn read_from_ram(
        &mut self,
        id: TaskId,
        (block, end): (Logical, Logical),
        io: &mut DeviceIo,
        map: &Map,
        requests: &mut Requests,
    ) -> u64 {
        assert!(block < end, "a read is of a block at least");
        if self.is_empty() {
            return 0;
        }
        let found = match self.stale_in_ram(block, map, io) {
            Some(stale) => stale,
            None if map.state(block) & LOG == 0 => return 0,
            None => match self.find(map.entry(block).log) {
                Some(found) => found,
                None => return 0,
            },
        };
        let log = map.entry(block).log;
        let mut count = 1;
        while count < found.count
            && block + count < end
            && map.state(block + count) & LOG != 0
            && map.entry(block + count).log == log + count
        {
            count += 1;
        }
        let task = &requests[id];
        let into = (task.buffer, task.buffer_offset(block));
        requests.copy_from_ram(id, &found, into, count, io);
        count
    }

    /// A fragment in a log, if RAM has it: copied to a buffer.
    pub(crate) fn fragment_from_ram(
        &mut self,
        id: TaskId,
        slot: Slot,
        into: PayloadId,
        io: &mut DeviceIo,
        requests: &mut Requests,
    ) -> bool {
        let Some(found) = self.find(slot) else { return false };
        requests.copy_from_ram(id, &found, (into, 0), 1, io);
        true
    }

    /// Appends to the log of a drive, whose controller is told if the stream breaks there.
    pub(crate) fn append_to_log(
        &mut self,
        device: DeviceId,
        count: u64,
        live: bool,
        io: &mut DeviceIo,
        promotions: &mut Promotions,
    ) -> Option<Run> {
        let d = &mut io[device];
        let log = d.log.as_mut().expect("a hard drive that takes writes has a log");
        let breaks = log.slots_before_break() == 0 && log.breaks_within(1);
        let run = log.append(count, live)?;
        if let (true, Some(bcw)) = (breaks, &mut d.bcw) {
            bcw.stream_breaks();
        }
        self.forget_slots(run, io, promotions);
        Some(run)
    }

    /// These slots are about to be written: what was known of their old contents is no more.
    pub(crate) fn forget_slots(
        &mut self,
        run: Run,
        io: &mut DeviceIo,
        promotions: &mut Promotions,
    ) {
        self.forget(run);
        self.release_read_back(io);
        if !promotions.reads.is_empty() {
            for slot in run.slot..run.slot + run.count {
                promotions.reads.remove(&slot);
            }
        }
    }
}

impl Promotions {
    fn count_read(&mut self, slot: Slot) -> u32 {
        let reads = &mut self.reads;
        if reads.len() == COUNTED_MAX && !reads.contains_key(&slot) {
            reads.clear();
        }
        let count = reads.entry(slot).or_insert(0);
        *count += 1;
        *count
    }

    /// Is there room for a promotion, on the SSDs and in the rate?
    fn promotion_is_due(&mut self, map: &Map, ledger: &Ledger, io: &DeviceIo) -> bool {
        let spent = |id: &DeviceId| ledger.ssd_writes_are_spent(*id, io);
        if map.is_short_of_space(io.waits_for_space()) || io.ssds().iter().all(spent) {
            return false;
        }
        if io.now() >= self.second_ends {
            self.second_ends = io.now() + Duration::from_s(1);
            self.left_bytes = io.config().promote_bytes_per_s;
        }
        self.left_bytes >= BLOCK_BYTES
    }

    /// A hard drive has read blocks of its log for a user: those that it was asked for often enough are
    /// to be promoted.
    pub(crate) fn note_log_read(
        &mut self,
        part: &ReadPart,
        map: &Map,
        requests: &Requests,
        read_back: &mut ReadBack,
        io: &mut DeviceIo,
    ) {
        if part.from != ServedFrom::HddLog
            || requests[part.task].request.kind == RequestKind::Background
        {
            return;
        }
        assert!(
            part.slot != NONE && map.slots().is_log(part.slot),
            "what a log has served lies in slots of a log"
        );
        io.stats_mut().read_back.from_drive.count(part.count * BLOCK_BYTES);
        let after = io.config().promote_after_reads;
        if after == 0 || io.ssds().is_empty() || io.is_fixed() || requests[part.task].rides {
            return; // what rides on a read comes with its extent
        }
        for i in 0..part.count {
            let (block, slot) = (part.logical + i, part.slot + i);
            if self.count_read(slot) >= after && map.entry(block).log == slot {
                self.reads.remove(&slot);
                if self.waiting.len() == WAITING_MAX {
                    io.stats_mut().read_back.forgone += 1;
                    continue;
                }
                self.waiting.push_back((block, slot));
                let at_bytes = part.into_offset_bytes + i * BLOCK_BYTES;
                read_back.keep_what_was_read(slot, (part.into, at_bytes), map, io);
            }
        }
    }
}

/// Does the map name this log slot as a place, or a fragment, of the block?
pub(super) fn names(map: &Map, block: Logical, slot: Slot) -> bool {
    if block == NONE {
        return false;
    }
    let entry = map.entry(block);
    entry.log == slot || (entry.fragmented && map.fragments(block).iter().any(|f| f.slot == slot))
}

/// An empty cache of the size that the configuration gives, if it has any use.
pub(crate) fn new(config: &crate::config::EngineConfig) -> ReadBack {
    let is_mapped = config.placement == crate::config::Placement::Mapped;
    ReadBack::new(if is_mapped { config.read_back_bytes } else { 0 })
}

impl Promotions {
    /// Begins to move a block that is read again and again to an SSD. False: none may be moved now.
    /// Does no block wait to be promoted?
    #[inline]
    pub(crate) fn wait_for_none(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn begin_promotion(
        &mut self,
        map: &mut Map,
        requests: &mut Requests,
        moves: &mut Moves,
        ledger: &Ledger,
        io: &mut DeviceIo,
    ) -> bool {
        if self.waiting.is_empty() || !self.promotion_is_due(map, ledger, io) {
            return false;
        }
        while let Some((block, slot)) = self.waiting.pop_front() {
            if map.entry(block).log != slot || map.entry(block).ssd != NONE {
                continue; // another version is elsewhere
            }
            if moves.start_move_to_ssd(MoveKind::Promotion, block, map, requests, io) {
                assert!(self.left_bytes >= BLOCK_BYTES, "promotions keep to their rate");
                self.left_bytes -= BLOCK_BYTES;
                return true;
            }
            io.stats_mut().read_back.forgone += 1;
        }
        false
    }
}
