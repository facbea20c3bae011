//! What is asked of the pool, and what does its administrator do?

use super::budget::Places;
use super::known::{Known, Sort, Step};
use super::{Asked, Service, budget};
use crate::check::token;
use crate::coverage::Met;
use crate::pool::VOLUME;
use std::collections::BTreeMap;
use tandem_block::{
    BLOCK_BYTES, Batch, DurabilityClass, Duration, Instant, IoError, ObjectId, ObjectKind,
    ObjectOp, Op, Request, RequestId, SECTOR_BYTES, StreamId,
};

/// Places of blocks of writes before a request that are remembered with it, at most.
const PLACES_MAX: usize = 1024;

/// What a request is.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A request of a client.
    Io,
    /// A FLUSH, and the objects that were made, or removed (true), and answered, before it.
    Flush(Vec<(ObjectId, bool)>),
    /// A batch that makes an object, or removes one.
    Change {
        object: ObjectId,
        removes: bool,
        durable: bool,
        /// Of a snapshot: what had been answered of its volume when it was asked for.
        before: BTreeMap<u64, usize>,
    },
}

impl Service {
    /// Sends the next request to one of the objects.
    pub(super) fn send(&mut self) {
        let there: Vec<ObjectId> =
            self.objects.iter().filter(|(_, known)| known.is_there()).map(|(&id, _)| id).collect();
        let object = there[self.rng.below(there.len() as u64) as usize];
        let known = &self.objects[&object];
        let (sort, durability) = (known.sort, known.durability);
        let mut shape = self.plan.pool.shape;
        shape.footprint_offset_bytes = 0;
        shape.footprint_bytes = shape.footprint_bytes.min(known.size_bytes);
        shape.length_bytes_max = shape.length_bytes_max.min(shape.footprint_bytes / 2);
        let mut step = shape.draw(&mut self.rng);
        let number = self.sent;
        self.sent += 1;
        self.next_at = self.sim.now + step.pause;
        if self.plan.pool.without.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
            return;
        }
        if sort == Sort::Snapshot && step.op != Op::Flush {
            (step.op, step.fua) = (Op::Read, false);
        }
        let range = (step.offset_bytes, step.length_bytes);
        let mut request = Request::new(RequestId(number), object, step.op, range, self.sim.now);
        request.fua = step.fua;
        request.stream = StreamId(number as u32 % 4);
        self.ask(request, durability);
    }

    /// Sends one request; what its volume promises, the oracle takes at its word.
    pub(super) fn ask(&mut self, mut request: Request, durability: DurabilityClass) {
        let (id, object) = (request.id, request.object);
        if request.op == Op::Write {
            let sectors = request.length_bytes / SECTOR_BYTES;
            request.payload = self.sim.payload((0..sectors).map(|i| token(id.0, i)));
            self.written.insert(id.0, (object, request.offset_bytes / BLOCK_BYTES));
        }
        // what waits for a write to blocks that are shared may come to be carried out in parts
        let behind = self.behind(&request);
        let in_parts = behind.is_some();
        let known = self.objects.get_mut(&object).expect("it is there");
        if request.op == Op::Read && in_parts && self.plan.has_faults() {
            known.oracle.issued_before_answers(&request);
        } else {
            known.oracle.issued(&request);
        }
        let range = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        let mut places = match self.plan.has_faults() && request.op != Op::Flush {
            true => budget::places(&self.sim, object, range),
            false => Vec::new(),
        };
        let made = self.sim.now;
        self.sim.request(&request);
        request.fua |= request.op.is_write() && durability == DurabilityClass::Strict;
        let what = match request.op {
            Op::Flush => What::Flush(self.answered_steps(object)),
            _ => What::Io,
        };
        // a write that it waits for may fail by where its own blocks lie, and this one with it
        let (behind, places_before) = behind.unwrap_or((made, Vec::new()));
        places.extend(places_before);
        self.open.insert(id, Asked { request, made, behind, what, places });
    }

    /// When was the first of the writes made that this request may wait for? They are of the same volume, or of
    /// what shares its blocks, touch its blocks, and are not answered; or these wait for such. And where did
    /// their blocks lie?
    fn behind(&self, request: &Request) -> Option<(Instant, Vec<Places>)> {
        if self.plan.snapshots_max == 0 {
            return None;
        }
        let blocks = |it: &Request| {
            let end = it.offset_bytes + it.length_bytes;
            (it.offset_bytes / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES))
        };
        let (first, end) = blocks(request);
        let of = |object: &ObjectId| self.objects.get(object).map(|known| known.of);
        let is_before = |asked: &&Asked| {
            let (from, to) = blocks(&asked.request);
            let meets = from < end && first < to;
            meets && asked.request.op.is_write() && of(&asked.request.object) == of(&request.object)
        };
        let before = || self.open.values().filter(is_before);
        let first = before().map(|asked| asked.behind).min()?;
        let places = before().flat_map(|asked| asked.places.iter().cloned());
        Some((first, places.take(PLACES_MAX).collect()))
    }

    /// Objects of whose batches the last one was answered, and which a FLUSH of this object makes durable.
    fn answered_steps(&self, object: ObjectId) -> Vec<(ObjectId, bool)> {
        let of = self.objects[&object].of;
        let own = self.objects.iter().filter(|(_, known)| known.of == of);
        let last = |(&id, known): (&ObjectId, &Known)| match (known.made, known.removed) {
            (_, Step::Answered) => Some((id, true)),
            (Step::Answered, _) => Some((id, false)),
            _ => None,
        };
        own.filter_map(last).collect()
    }

    /// What the administrator does after this event.
    pub(super) fn administer(&mut self) {
        let Some(pause) = self.plan.pause else { return };
        if self.sim.now < self.admin_at || self.sent >= self.send_until {
            return;
        }
        self.admin_at = self.sim.now + Duration::from_ns(self.rng.between(1, pause.ns));
        match self.rng.below(4) {
            0 | 1 => self.change_snapshots(),
            2 => self.change_files(),
            _ => self.change_tier(),
        }
    }

    fn change_snapshots(&mut self) {
        let snapshots = self.of_sort(Sort::Snapshot);
        if self.plan.snapshots_max == 0 {
            return;
        }
        let many = snapshots.len() >= self.plan.snapshots_max;
        if many || !snapshots.is_empty() && self.rng.chance_ppm(400_000) {
            let object = snapshots[self.rng.below(snapshots.len() as u64) as usize];
            return self.remove(object);
        }
        let volumes = self.of_sort(Sort::Volume);
        let from = volumes[self.rng.below(volumes.len() as u64) as usize];
        let to = self.new_object();
        let op = ObjectOp::Snapshot { from, to, name: format!("snapshot {}", to.0) };
        let of = &self.objects[&from];
        let size_bytes = of.size_bytes;
        let before = of.oracle.answered().into_iter().collect();
        let known = Known::asked(Sort::Snapshot, (from, of), size_bytes);
        self.objects.insert(to, known);
        self.change(to, vec![op], before);
        self.met.add(Met::Snapshots, 1);
    }

    fn change_files(&mut self) {
        let files = self.of_sort(Sort::File);
        if self.plan.files == 0 {
            return;
        }
        if files.len() >= self.plan.files {
            let object = files[self.rng.below(files.len() as u64) as usize];
            return self.remove(object);
        }
        let object = self.new_object();
        let (kind, volume, owner) = (ObjectKind::Data, VOLUME, 0);
        let size_bytes = self.plan.file_bytes;
        let ops = vec![
            ObjectOp::CreateThin { object, kind, volume, owner },
            ObjectOp::Resize { object, size_bytes },
        ];
        let mut known = Known::asked(Sort::File, (VOLUME, &self.objects[&VOLUME]), size_bytes);
        if self.plan.has_faults() {
            known.oracle.expect_failures();
        }
        self.objects.insert(object, known);
        self.change(object, ops, BTreeMap::new());
    }

    fn change_tier(&mut self) {
        if self.plan.tiers.is_empty() {
            return;
        }
        let name = self.plan.tiers[self.rng.below(self.plan.tiers.len() as u64) as usize];
        let tier = self.plan.pool.tier_beside(name);
        let others = self.plan.pool.others.len() as u64;
        let which = self.rng.below(others + 1) as usize;
        let object = match which.checked_sub(1) {
            Some(other) => self.plan.pool.others[other].object,
            None => VOLUME,
        };
        // it may not fit the SSDs beside others; then nothing was changed
        if self.sim.engine.set_tier(object, tier.clone()).is_ok() {
            match which.checked_sub(1) {
                Some(other) => self.plan.pool.others[other].tier = tier,
                None => self.plan.pool.tier = tier,
            }
            self.met.add(Met::TierChanges, 1);
            self.sim.wake();
        }
    }

    /// Objects of a sort that are there, or about to be.
    fn of_sort(&self, sort: Sort) -> Vec<ObjectId> {
        let all = self.objects.iter();
        let alive = all.filter(|(_, known)| known.sort == sort && known.removed == Step::No);
        alive.map(|(&id, _)| id).collect()
    }

    fn new_object(&mut self) -> ObjectId {
        self.next_object += 1;
        ObjectId(self.next_object)
    }

    fn remove(&mut self, object: ObjectId) {
        let is_open = |asked: &Asked| asked.request.object == object;
        let known = self.objects.get_mut(&object).expect("it was chosen from them");
        if !known.is_there() || self.open.values().any(is_open) {
            return;
        }
        known.removed = Step::Asked;
        self.change(object, vec![ObjectOp::Remove { object }], BTreeMap::new());
        self.met.add(Met::ObjectsRemoved, 1);
    }

    fn change(&mut self, object: ObjectId, ops: Vec<ObjectOp>, before: BTreeMap<u64, usize>) {
        let removes = matches!(ops[0], ObjectOp::Remove { .. });
        // numbers of requests and of batches are apart
        let id = RequestId(1 << 40 | self.events);
        let durable = self.rng.chance_ppm(300_000);
        let batch = Batch { id, ops, durable };
        let made = self.sim.now;
        let mut request = Request::new(id, object, Op::Flush, (0, 0), made);
        request.fua = durable;
        let what = What::Change { object, removes, durable, before };
        self.open.insert(id, Asked { request, made, behind: made, what, places: Vec::new() });
        self.sim.batch(&batch);
    }

    /// A batch was answered.
    pub(super) fn changed(&mut self, asked: &Asked, status: Result<(), IoError>) {
        let What::Change { object, removes, durable, before } = &asked.what else { return };
        let step = match *durable && status.is_ok() {
            true => Step::Durable,
            false => Step::Answered,
        };
        let is_there = self.sim.engine.object(*object).is_some();
        if *removes {
            let known = self.objects.get_mut(object).expect("it was there");
            known.removed = if is_there { Step::No } else { step };
            if known.removed == Step::Durable {
                self.objects.remove(object);
            }
            return;
        }
        if !is_there {
            self.objects.remove(object);
            return;
        }
        let known = &self.objects[object];
        if known.sort == Sort::Snapshot {
            self.show_snapshot(*object, known.of, before);
        }
        self.objects.get_mut(object).expect("found above").made = step;
    }

    /// A snapshot shows its volume at a moment between the asking and the answer.
    pub(super) fn show_snapshot(
        &mut self,
        object: ObjectId,
        from: ObjectId,
        before: &BTreeMap<u64, usize>,
    ) {
        let source = &self.objects[&from].oracle;
        let blocks: Vec<u64> = source.touched().collect();
        let shown: Vec<_> = blocks
            .iter()
            .map(|block| {
                let low = before.get(block).copied().unwrap_or_default();
                (*block, source.shown_by_clone(*block, Some(low)))
            })
            .collect();
        let known = self.objects.get_mut(&object).expect("it was asked for");
        for (block, states) in shown {
            known.shows(block, states);
        }
    }
}
