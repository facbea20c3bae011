//! What would a store of objects in RAM do, and what would a power cut leave of it?
//!
//! For tests, simulations and measurements: the same promises as the engine's, and not one more.
//! Batches become durable in their order, so a crash leaves a beginning of them; of the bytes written
//! since the last flush it leaves any blocks of 4 KiB, in any combination. [`Mounted`] does the steps
//! of operations one after another, as a front end does them between other work.

use crate::attributes::SetAttributes;
use crate::data::cover;
use crate::objects::{Change, Objects, Space};
use crate::privileges::Strip;
use crate::tree::{Caller, Tree};
use crate::{NameError, VolumeMark};
use std::collections::BTreeMap;
use std::ops::Bound;
use tandem_block::{BLOCK_BYTES, IoError, ObjectId, SECTOR_BYTES};

/// Files without a name that are removed in one batch.
const REAPED_AT_ONCE: usize = 64;

type Block = [u8; BLOCK_BYTES as usize];

#[derive(Clone, Debug, Default)]
struct Object {
    size_bytes: u64,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    blocks: BTreeMap<u64, Box<Block>>,
}

impl Object {
    fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let (number, at) = (offset_bytes / BLOCK_BYTES, (offset_bytes % BLOCK_BYTES) as usize);
        let block = self.blocks.entry(number).or_insert_with(|| Box::new([0; _]));
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// What happened since the last flush.
#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<Change>),
    /// Within one block.
    Write {
        object: ObjectId,
        offset_bytes: u64,
        bytes: Vec<u8>,
    },
}

#[derive(Clone, Debug, Default)]
struct State {
    objects: BTreeMap<ObjectId, Object>,
    /// Blocks of all objects.
    blocks: u64,
    last_id: u64,
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { object, .. } => {
                self.last_id = self.last_id.max(object.0);
                let before = self.objects.insert(*object, Object::default());
                assert!(before.is_none(), "ids are used once");
            }
            Change::Remove { object } => {
                let removed = self.objects.remove(object).expect("what is removed is there");
                self.blocks -= removed.blocks.len() as u64;
            }
            Change::Resize { object, size_bytes } => {
                assert!(size_bytes.is_multiple_of(BLOCK_BYTES), "sizes are whole blocks");
                let object = self.object(*object);
                object.size_bytes = *size_bytes;
                let cut = object.blocks.split_off(&(size_bytes / BLOCK_BYTES));
                self.blocks -= cut.len() as u64;
            }
            Change::Share { from, from_block, to, to_block, blocks } => {
                let (first, at) = (*from_block, *to_block);
                let count = *blocks;
                let source = &self.object(*from).blocks;
                let shared: Vec<(u64, Box<Block>)> = source
                    .range(first..first + count)
                    .map(|(number, block)| (number - first + at, block.clone()))
                    .collect();
                let target = self.object(*to);
                assert!((at + count) * BLOCK_BYTES <= target.size_bytes, "it has room");
                let before = target.blocks.len() as u64;
                target.blocks.retain(|number, _| !(at..at + count).contains(number));
                target.blocks.extend(shared);
                let after = target.blocks.len() as u64;
                self.blocks = self.blocks - before + after;
            }
            Change::Set { object, key, value } => {
                assert!(!key.is_empty() && key.len() <= 264 && value.len() <= 4096);
                self.object(*object).attributes.insert(key.clone(), value.clone());
            }
            Change::Unset { object, key } => {
                let before = self.object(*object).attributes.remove(key);
                assert!(before.is_some(), "what is unset is there");
            }
        }
    }

    fn object(&mut self, object: ObjectId) -> &mut Object {
        self.objects.get_mut(&object).expect("what is changed is there")
    }

    /// Bytes for what is not there any more, or never grew so far, are nobody's.
    fn write(&mut self, object: ObjectId, offset_bytes: u64, bytes: &[u8]) {
        let found = self.objects.get_mut(&object);
        if let Some(object) = found.filter(|object| offset_bytes < object.size_bytes) {
            let before = object.blocks.len();
            object.put(offset_bytes, bytes);
            self.blocks += (object.blocks.len() - before) as u64;
        }
    }
}

/// Objects in RAM. A clone is independent of the original.
#[derive(Clone, Debug)]
pub struct Memory {
    now: State,
    /// As of the last flush.
    flushed: State,
    since: Vec<Step>,
    flushes: u64,
    objects_max: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new(u64::MAX)
    }
}

impl Memory {
    /// Nothing yet, and room for so many objects.
    pub fn new(objects_max: u64) -> Memory {
        let (now, flushed) = (State::default(), State::default());
        Memory { now, flushed, since: Vec::new(), flushes: 0, objects_max }
    }

    /// Room for so many objects from now on.
    pub fn let_objects(&mut self, objects_max: u64) {
        self.objects_max = objects_max;
    }

    /// A new object that is the root of a volume.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn format(
        &mut self,
        root: ObjectId,
        permissions: u32,
        owner: &Caller,
    ) -> Result<(), IoError> {
        self.commit(&[Change::Create { object: root, is_directory: true, volume: root }])?;
        self.commit(&Tree::format(root, permissions, owner))
    }

    /// All changes, or none.
    ///
    /// # Errors
    /// `NoSpace`.
    ///
    /// # Panics
    /// If a change makes no sense: names must not ask for it.
    pub fn commit(&mut self, changes: &[Change]) -> Result<(), IoError> {
        let made = changes.iter().filter(|change| matches!(change, Change::Create { .. })).count();
        if made as u64 > self.space().free_objects {
            return Err(IoError::NoSpace);
        }
        if changes.iter().any(|change| matches!(change, Change::Share { .. })) {
            // as the engine does: what is shared is durable first
            self.flush();
        }
        changes.iter().for_each(|change| self.now.apply(change));
        if !changes.is_empty() {
            self.since.push(Step::Batch(changes.to_vec()));
        }
        Ok(())
    }

    /// Whole sectors of an object.
    ///
    /// # Panics
    /// If they are not whole, or not within it.
    pub fn read(&self, object: ObjectId, offset_bytes: u64, length_bytes: u64) -> Vec<u8> {
        let found = &self.now.objects[&object];
        check_range(found, offset_bytes, length_bytes);
        let mut bytes = vec![0; length_bytes as usize];
        for (sector, at) in bytes.chunks_mut(SECTOR_BYTES as usize).zip(0..) {
            let offset = offset_bytes + at * SECTOR_BYTES;
            if let Some(block) = found.blocks.get(&(offset / BLOCK_BYTES)) {
                let at = (offset % BLOCK_BYTES) as usize;
                sector.copy_from_slice(&block[at..at + SECTOR_BYTES as usize]);
            }
        }
        bytes
    }

    /// Writes whole sectors.
    ///
    /// # Panics
    /// If they are not whole, or not within the object.
    pub fn write(&mut self, object: ObjectId, offset_bytes: u64, bytes: &[u8]) {
        check_range(&self.now.objects[&object], offset_bytes, bytes.len() as u64);
        let mut at = 0;
        while at < bytes.len() {
            let offset_bytes = offset_bytes + at as u64;
            let to_end = (BLOCK_BYTES - offset_bytes % BLOCK_BYTES) as usize;
            let part = &bytes[at..bytes.len().min(at + to_end)];
            self.now.write(object, offset_bytes, part);
            self.since.push(Step::Write { object, offset_bytes, bytes: part.to_vec() });
            at += part.len();
        }
    }

    /// Everything is durable now.
    pub fn flush(&mut self) {
        self.flushes += 1;
        for step in self.since.drain(..) {
            match step {
                Step::Batch(changes) => {
                    changes.iter().for_each(|change| self.flushed.apply(change));
                }
                Step::Write { object, offset_bytes, bytes } => {
                    self.flushed.write(object, offset_bytes, &bytes);
                }
            }
        }
    }

    /// Flushes so far.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// There will be no crash: what happened since the last flush need not be remembered.
    pub fn forget_crashes(&mut self) {
        self.since.clear();
    }

    /// Batches that a crash may still take.
    pub fn unflushed_batches(&self) -> usize {
        self.since.iter().filter(|step| matches!(step, Step::Batch(_))).count()
    }

    /// Blocks written that a crash may still take.
    pub fn unflushed_writes(&self) -> usize {
        self.since.len() - self.unflushed_batches()
    }

    /// What a power cut leaves: the first `batches` of those that were not flushed, and of the
    /// blocks written those that `stays` says.
    #[must_use]
    pub fn after_crash(&self, batches: usize, mut stays: impl FnMut() -> bool) -> Memory {
        let mut left = self.flushed.clone();
        let mut seen = 0;
        for step in &self.since {
            match step {
                Step::Batch(changes) => {
                    seen += 1;
                    if seen <= batches {
                        changes.iter().for_each(|change| left.apply(change));
                    }
                }
                Step::Write { object, offset_bytes, bytes } => {
                    if stays() {
                        left.write(*object, *offset_bytes, bytes);
                    }
                }
            }
        }
        let objects_max = self.objects_max;
        Memory { now: left.clone(), flushed: left, since: Vec::new(), flushes: 0, objects_max }
    }
}

fn check_range(object: &Object, offset_bytes: u64, length_bytes: u64) {
    assert!((offset_bytes | length_bytes).is_multiple_of(SECTOR_BYTES), "whole sectors");
    assert!(offset_bytes + length_bytes <= object.size_bytes, "within the object");
}

impl Objects for Memory {
    fn size_bytes(&self, object: ObjectId) -> Option<u64> {
        self.now.objects.get(&object).map(|object| object.size_bytes)
    }

    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        Some(self.now.objects.get(&object)?.attributes.get(key)?)
    }

    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        let attributes = &self.now.objects.get(&object)?.attributes;
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        attributes.range::<[u8], _>(behind).next().map(|(key, value)| (&key[..], &value[..]))
    }

    fn next_object(&self, after: ObjectId) -> Option<ObjectId> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        self.now.objects.range(behind).next().map(|(object, _)| *object)
    }

    fn fresh_ids(&self, _count: u64) -> ObjectId {
        ObjectId(self.now.last_id + 1)
    }

    fn space(&self) -> Space {
        let objects = self.now.objects.len() as u64;
        Space {
            total_bytes: u64::MAX / 2,
            free_bytes: u64::MAX / 2 - self.now.blocks * BLOCK_BYTES,
            objects,
            free_objects: self.objects_max.saturating_sub(objects),
        }
    }
}

/// A volume in RAM, mounted.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// Its objects.
    pub store: Memory,
    /// Its names.
    pub tree: Tree,
}

impl Mounted {
    /// Mounts the volume of `root`, which must lie in the store.
    ///
    /// # Errors
    /// As [`Tree::mount`].
    pub fn mount(mut store: Memory, root: ObjectId, tiers: &[&str]) -> Result<Self, NameError> {
        let (tree, changes) = Tree::mount(&store, root, tiers)?;
        let mut mounted = {
            store.commit(&changes).expect("nothing is made");
            store.flush();
            Mounted { store, tree }
        };
        loop {
            let changes = mounted.tree.reap(&mounted.store, REAPED_AT_ONCE)?;
            if changes.is_empty() {
                break;
            }
            mounted.commit(&changes)?;
        }
        mounted.clear_deleted(REAPED_AT_ONCE)?;
        Ok(mounted)
    }

    /// Gives back what deleted snapshots hold.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn clear_deleted(&mut self, limit: usize) -> Result<(), NameError> {
        loop {
            let changes = self.tree.clear_deleted(&self.store, limit, None)?;
            if changes.is_empty() {
                return Ok(());
            }
            self.commit(&changes)?;
        }
    }

    /// Takes a snapshot; its directory.
    ///
    /// # Errors
    /// As [`Tree::begin_snapshot`]; what is there of it goes with the next [`Mounted::clear_deleted`].
    pub fn snapshot(&mut self, name: &[u8], now_ns: i64) -> Result<ObjectId, NameError> {
        let mut it = self.tree.begin_snapshot(&self.store, name, now_ns)?;
        while !it.is_done() {
            let changes = it.plan(&self.tree, &self.store)?;
            self.commit(&changes)?;
            it.applied();
        }
        Ok(it.top())
    }

    /// Unmounts it, cleanly.
    pub fn unmount(mut self) -> Memory {
        let root = self.tree.root();
        let changes = self.tree.unmount();
        self.store.commit(&changes).expect("nothing is made");
        self.store.flush();
        assert!(VolumeMark::of(&self.store, root).is_some_and(|mark| mark.is_ok()));
        self.store
    }

    /// Commits what an operation answered.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn commit(&mut self, changes: &[Change]) -> Result<(), NameError> {
        self.store.commit(changes).map_err(|_| NameError::NoSpace)
    }

    /// Bytes of a file, up to its end.
    ///
    /// # Errors
    /// As [`Tree::range`].
    pub fn read(&self, file: ObjectId, offset: u64, length: u64) -> Result<Vec<u8>, NameError> {
        let range = self.tree.range(&self.store, file, offset, length)?;
        if range.length_bytes == 0 {
            return Ok(Vec::new());
        }
        let whole = cover(range.offset_bytes, range.length_bytes);
        let sectors = self.store.read(file, whole.offset_bytes, whole.length_bytes);
        let skip = (range.offset_bytes - whole.offset_bytes) as usize;
        Ok(sectors[skip..][..range.length_bytes as usize].to_vec())
    }

    /// Writes bytes of a file at any offset.
    ///
    /// # Errors
    /// As [`Tree::make_room`].
    pub fn write(
        &mut self,
        file: ObjectId,
        offset: u64,
        bytes: &[u8],
        now_ns: i64,
    ) -> Result<(), NameError> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(NameError::FileTooLarge)?;
        if bytes.is_empty() {
            return self.tree.check_file(&self.store, file);
        }
        self.clean(file, end)?;
        let changes = self.tree.make_room(&self.store, file, end)?;
        self.commit(&changes)?;
        self.put(file, offset, bytes);
        let changes = self.tree.written(&self.store, file, end, Strip::Nothing, now_ns)?;
        self.commit(&changes)
    }

    /// Sets attributes.
    ///
    /// # Errors
    /// As [`Tree::set_attributes`].
    pub fn set_attributes(
        &mut self,
        file: ObjectId,
        set: &SetAttributes,
        now_ns: i64,
    ) -> Result<(), NameError> {
        if let Some(size_bytes) = set.size_bytes {
            self.clean(file, size_bytes)?;
        }
        let changes = self.tree.set_attributes(&self.store, file, set, now_ns)?;
        self.commit(&changes)
    }

    fn clean(&mut self, file: ObjectId, end: u64) -> Result<(), NameError> {
        let Some(tail) = self.tree.stale_tail(&self.store, file, end)? else { return Ok(()) };
        if tail.from_bytes < tail.to_bytes {
            let zeroes = vec![0; (tail.to_bytes - tail.from_bytes) as usize];
            self.put(file, tail.from_bytes, &zeroes);
            self.store.flush();
        }
        let changes = self.tree.tail_is_zero(&self.store, file)?;
        self.commit(&changes)
    }

    /// Puts bytes anywhere into an object: parts of sectors are read, merged and written.
    fn put(&mut self, object: ObjectId, offset: u64, bytes: &[u8]) {
        let whole = cover(offset, bytes.len() as u64);
        let mut sectors = vec![0; whole.length_bytes as usize];
        for part in whole.parts.into_iter().flatten() {
            let at = (part - whole.offset_bytes) as usize;
            let old = self.store.read(object, part, SECTOR_BYTES);
            sectors[at..at + old.len()].copy_from_slice(&old);
        }
        let skip = (offset - whole.offset_bytes) as usize;
        sectors[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.store.write(object, whole.offset_bytes, &sectors);
    }
}
