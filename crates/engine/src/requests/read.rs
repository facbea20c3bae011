//! What steps does a user's read take?
//!
//! ```text
//! map → runs of blocks at one place each → a device read a run → checksums → overlay fragments
//!                                                    │ wrong or failed: the next place, or EIO
//! ```

use crate::device::{Class, Job};
use crate::format::page::PAGE_CHECKSUMS;
use crate::io::DeviceIo;
use crate::log::read_back::ReadBack;
use crate::map::checksums::page_of;
use crate::map::{Logical, Map, NONE};
use crate::migration::Migration;
use crate::mutant::Mutant;
use crate::owner::{Owner, ReadPart, RequestIo};
use crate::policy::Policy;
use crate::port::{Command, IoOp, ServedFrom};
use crate::requests::locations::{Locations, Source};
use crate::requests::ordering::TaskId;
use crate::requests::task::Overlay;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, Op, PayloadId};

impl Requests {
    fn read_fragments(
        &mut self,
        id: TaskId,
        block: Logical,
        map: &Map,
        read_back: &mut ReadBack,
        io: &mut DeviceIo,
    ) {
        if map.state(block) & crate::map::entry::FRAGMENTS == 0 {
            return;
        }
        let fragments = map.fragments(block).to_vec();
        assert!(!fragments.is_empty(), "the map keeps the fragments that its bits tell of");
        for fragment in fragments {
            let from = io.name_payload();
            if io.config().contents {
                io.send(Command::Reserve { payload: from, length_bytes: BLOCK_BYTES });
            }
            let region = *map.slots().region(fragment.slot);
            let in_ram =
                region.is_log && read_back.fragment_from_ram(id, fragment.slot, from, io, self);
            let served = if region.is_log { ServedFrom::HddLog } else { ServedFrom::Ssd };
            let task = &mut self[id];
            task.overlays.push(Overlay {
                from,
                mask: fragment.mask,
                at_bytes: task.buffer_offset(block),
            });
            if in_ram {
                continue;
            }
            task.outstanding += 1;
            task.served_from = task.served_from.max(served);
            let part = ReadPart {
                task: id,
                logical: block,
                count: 1,
                slot: fragment.slot,
                expected: vec![map.fragment_checksum(fragment.slot)],
                from: served,
                tried: Vec::new(),
                into: from,
                into_offset_bytes: 0,
            };
            let op = IoOp::Read {
                offset_bytes: region.address(fragment.slot),
                length_bytes: BLOCK_BYTES,
                into: from,
                into_offset_bytes: 0,
            };
            let whose = self[part.task].whose();
            let job = Job::Io(op, Owner::Request(RequestIo::Read(Box::new(part))));
            io.enqueue(region.device, Class::Read, job, whose);
        }
    }

    /// Nothing of the read is under way. A request gets another buffer, and a part the place in its
    /// parent's again.
    fn begin_anew(&mut self, id: TaskId, io: &mut DeviceIo) {
        let task = &mut self[id];
        assert!(task.outstanding == 0, "the drives are done with what begins anew");
        assert!(!task.is_answered, "what was answered is not read anew");
        let is_whole = task.parent.is_none();
        let buffer = is_whole.then(|| std::mem::replace(&mut task.buffer, task.request.payload));
        let overlays = std::mem::take(&mut task.overlays);
        if io.config().contents {
            let buffers = overlays.into_iter().map(|overlay| overlay.from).chain(buffer);
            io.send_all(buffers.map(Command::Release));
        }
        io.stats_mut().repaired_reads += 1;
        self.lead_to(Next::Read(id));
    }

    /// A drive that left a read without an answer may still write to its buffers: the read begins again
    /// without the drive, into others. False: it ends with an error instead.
    fn reads_again(&mut self, id: TaskId, io: &mut DeviceIo) -> bool {
        let task = &mut self[id];
        let error = task.unanswered.take().expect("asked by the caller");
        if task.parent.is_some() || task.rides || task.status.is_err() {
            self.note_error(id, error);
            return false;
        }
        self.begin_anew(id, io);
        true
    }

    /// One of the things a read or a merge waited for is done.
    pub(crate) fn part_done(
        &mut self,
        id: TaskId,
        map: &mut Map,
        tiers: &mut Tiers,
        io: &mut DeviceIo,
    ) {
        let task = &mut self[id];
        assert!(task.outstanding > 0, "a part ends once");
        assert!(task.request.op == Op::Read, "parts of reads alone end here");
        task.outstanding -= 1;
        task.ended = io.now();
        if task.outstanding > 0 {
            return;
        }
        if self[id].unanswered.is_some() && self.reads_again(id, io) {
            return;
        }
        let task = &mut self[id];
        if task.again.take() && task.status.is_ok() {
            self.begin_anew(id, io);
            return;
        }
        self.lay_over(id, io);
        if self[id].rides && !tiers.end_tier_read(id, map, self, io) {
            return;
        }
        let task = &self[id];
        let buffer = task.buffer;
        let lead_bytes = task.lead_blocks * BLOCK_BYTES;
        let skip_bytes = lead_bytes + task.request.offset_bytes % BLOCK_BYTES;
        assert!(
            skip_bytes + task.request.length_bytes <= task.blocks() * BLOCK_BYTES,
            "what is answered lies within what was read"
        );
        if task.status.is_err() && buffer != PayloadId::NONE {
            if task.parent.is_none() {
                io.send(Command::Release(buffer));
            }
            self.answer(id, PayloadId::NONE, 0, io);
            return;
        }
        self.answer(id, buffer, skip_bytes, io);
    }

    /// What is recorded needs its page of checksums first. True if the task now waits for some. Those that it needs
    /// stay in RAM until it has what they say.
    fn await_checksum_pages(
        &mut self,
        id: TaskId,
        first: Logical,
        end: Logical,
        store: &mut Store,
        io: &mut DeviceIo,
    ) -> bool {
        let pages = page_of(first)..=page_of(end - 1);
        if pages.clone().all(|page| store.checksums.has_page(page)) {
            return false;
        }
        for page in pages {
            let low = first.max(u64::from(page) * PAGE_CHECKSUMS as u64);
            let high = end.min((u64::from(page) + 1) * PAGE_CHECKSUMS as u64);
            if store.checksums.has_page(page) {
                // it may be read by the time that the others have come
                store.checksums.pin(page);
                self[id].pinned_pages.push(page);
            } else if (low..high).any(|block| store.checksums.lacks(block, &store.map)) {
                store.checksums.pin(page);
                self[id].pinned_pages.push(page);
                self[id].outstanding += 1;
                store.metadata_replica.load_checksum_page(
                    page,
                    Some(id),
                    (&mut store.pages, &store.checksums),
                    &store.metadata,
                    io,
                );
            }
        }
        if self[id].outstanding == 0 {
            self.unpin_pages(id, store);
        }
        self[id].outstanding > 0
    }

    /// The task has what the pages of checksums say, or has failed.
    pub(crate) fn unpin_pages(&mut self, id: TaskId, store: &mut Store) {
        let pages = std::mem::take(&mut self[id].pinned_pages);
        pages.into_iter().for_each(|page| store.checksums.unpin(page));
    }
}

impl Policy {
    /// Do the blocks read have the checksums that the map knows?
    pub(crate) fn verify(
        &self,
        device: DeviceId,
        part: &ReadPart,
        checksums: &[u32],
        io: &mut DeviceIo,
    ) -> Option<IoError> {
        if !io.config().contents || io.is_fixed() {
            return None;
        }
        assert_eq!(
            checksums.len(),
            part.count as usize,
            "the event loop sums every block it reads"
        );
        assert!(
            part.expected.len() == part.count as usize,
            "a read knows what each of its blocks must hold"
        );
        if part.expected == checksums {
            return None;
        }
        io.stats_mut().checksum_errors += 1;
        Some(IoError::Checksum(device))
    }
}

impl Requests {
    fn read_run(
        &mut self,
        (id, logical, count): (TaskId, Logical, u64),
        (source, tried): (Source, Vec<DeviceId>),
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        let task = &mut self[id];
        assert!(count > 0 && count <= task.end - logical, "a part of a read lies within it");
        assert!(
            source.slot != NONE || io.is_fixed() || !io[source.device].is_ssd(),
            "homes are on hard drives"
        );
        task.outstanding += 1;
        task.served_from = task.served_from.max(source.from);
        let (into, into_offset_bytes) = (task.buffer, task.buffer_offset(logical));
        let part = Locations::of(store, volumes, policy, io).read_part(
            id,
            (logical, count),
            source,
            (into, into_offset_bytes),
        );
        let part = ReadPart { tried, ..part };
        let op = IoOp::Read {
            offset_bytes: source.address,
            length_bytes: count * BLOCK_BYTES,
            into,
            into_offset_bytes,
        };
        let whose = self[part.task].whose();
        let job = Job::Io(op, Owner::Request(RequestIo::Read(Box::new(part))));
        io.enqueue(source.device, Class::Read, job, whose);
    }

    /// Reads the blocks of a failed part one by one from where else they are. The map may have
    /// moved on meanwhile; then its newer version is as good an answer.
    pub(crate) fn retry_read(
        &mut self,
        (part, device, error): (ReadPart, DeviceId, IoError),
        store: &mut Store,
        volumes: &Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let id = part.task;
        let mut tried = part.tried;
        assert!(!tried.contains(&device), "a read tries each drive once");
        tried.push(device);
        let is_base = part.into == self[id].buffer;
        let retry = is_base
            && !io.is_fixed()
            && (part.logical..part.logical + part.count).all(|block| {
                Locations::of(store, volumes, policy, io).source(block, &tried).is_some()
            });
        // what the other place must hold may have left RAM
        let is_known = |block| {
            let locations = Locations::of(store, volumes, policy, io);
            let next = locations.source(block, &tried).expect("asked above");
            locations.checksum(block, next.slot).is_some()
        };
        let mut blocks = part.logical..part.logical + part.count;
        let knows = !retry || !io.config().contents || blocks.all(is_known);
        if !retry || (!knows && self[id].again.is_too_often()) {
            self.note_error(id, error);
            self.part_done(id, &mut store.map, &mut policy.tiers, io);
            return;
        }
        if !knows {
            self[id].again.ask();
            self.part_done(id, &mut store.map, &mut policy.tiers, io);
            return;
        }
        io.stats_mut().repaired_reads += 1;
        for block in part.logical..part.logical + part.count {
            let source = Locations::of(store, volumes, policy, io)
                .source(block, &tried)
                .expect("asked above");
            if !io.breaks(Mutant::KeepsOldFragments) {
                self.drop_overlays(id, block);
                self.read_fragments(id, block, &store.map, &mut migration.read_back, io);
            }
            self.read_run((id, block, 1), (source, tried.clone()), store, volumes, policy, io);
        }
        self.part_done(id, &mut store.map, &mut policy.tiers, io);
    }

    pub(crate) fn begin_user_read(
        &mut self,
        id: TaskId,
        store: &mut Store,
        volumes: &Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let task = &self[id];
        assert!(task.outstanding == 0 && !task.is_answered, "a read begins before it is answered");
        assert!(task.overlays.is_empty(), "fragments of an earlier try are gone");
        if policy.tiers.has_share() {
            policy.begin_tier_read(id, store, self, io);
        }
        let (first, end) = (self[id].first, self[id].end);
        if !io.is_fixed() && self.await_checksum_pages(id, first, end, store, io) {
            return;
        }
        if io.config().contents && self[id].parent.is_none() {
            let buffer = io.name_payload();
            self[id].buffer = buffer;
            let length_bytes = (end - first) * BLOCK_BYTES;
            io.send(Command::Reserve { payload: buffer, length_bytes });
        }
        self[id].outstanding += 1; // held while parts are issued
        let prefers_hdd = policy.prefers_hdd(&self[id], &store.map, io);
        self[id].offloaded = prefers_hdd;
        let mut block = first;
        while block < end {
            let locations = Locations::of(store, volumes, policy, io).preferring_hdd(prefers_hdd);
            let source = locations.source(block, &[]);
            let mut count = if source.is_some() {
                migration.read_back.read_from_ram(id, (block, end), io, &store.map, self)
            } else {
                1
            };
            if let (Some(source), 0) = (source, count) {
                count = 1;
                while block + count < end {
                    let locations = Locations::of(store, volumes, policy, io);
                    let next = locations.preferring_hdd(prefers_hdd).source(block + count, &[]);
                    if next.is_none_or(|next| !source.is_continued_by(next, count)) {
                        break;
                    }
                    count += 1;
                }
                self.read_run((id, block, count), (source, Vec::new()), store, volumes, policy, io);
            }
            for covered in block..block + count {
                self.read_fragments(id, covered, &store.map, &mut migration.read_back, io);
            }
            block += count;
        }
        assert!(block == end, "each block of a read is read once");
        self.unpin_pages(id, store);
        if io.config().verify_copies && io.config().contents && !io.is_fixed() {
            self.read_copies(id, (first, end), store, volumes, policy, io);
        }
        self.part_done(id, &mut store.map, &mut policy.tiers, io);
    }
}
