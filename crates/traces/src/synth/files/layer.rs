//! What does a layer of files ask of the volumes below it?
//!
//! ```text
//!  create · read whole · append · delete · stat
//!        │
//!        ▼
//!  RAM, LRU, pages of 4 KiB ── what is not there ──▶ Read, at most `request` at once
//!        │
//!        ├── dirty beyond its share, or wanted for others ──▶ Write of the dirty run around the page
//!        └── a file is deleted ──▶ Discard at once; what of it was not written never will be
//! ```
//! From [LORIS §V]: a RAM cache above the tiers, so that these see what it lets through (§III-D, §V-A);
//! at most 64 pages in one operation (§III-D1); new data stays in RAM and is flushed later, deletes go
//! down at once (§V-D2); an append that begins inside a page reads that page first (§V-D1);
//! directories are files that hold entries, attributes belong to files (§III-C).
//! **Choices of ours:** LRU; write-back in the order in which pages became dirty, each with the run of
//! dirty pages of its file around it, when more than `dirty` of the RAM is so; whole files are read
//! ahead; a lookup reads the one page of the directory that has the entry (64 bytes each, as in
//! MINIX), and an open or a stat the page of its attributes (256 bytes each). Directories and
//! attributes lie at the front of each volume (`front`) and are of type metadata. Each directory and each
//! page of attributes has units of its own, as a file has, so that it is written in requests of its own
//! and a tier counts it alone. Nothing is written for its age, as the stream knows no time.

use super::front::{Front, Meta, MetaPage};
use super::names::Names;
use super::ram::{Page, Ram};
use super::space::{Run, Space};
use std::collections::VecDeque;
use tandem_block::{Arrival, BLOCK_BYTES, Instant, ObjectId, Op, RequestType, Rng, StreamId};

/// From one request to the next: a replay of these workloads keeps requests outstanding instead of
/// following times.
const STEP_NS: u64 = 1000;

/// What a layer of files can be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knobs {
    /// Pages of RAM.
    pub(super) ram_pages: usize,
    /// Pages of it that may wait to be written.
    pub(super) dirty_pages: usize,
    /// Pages of a unit of space.
    pub(super) unit_pages: u32,
    /// Pages of a request at most.
    pub(super) request_pages: u32,
    /// An append inside a page reads it first.
    pub(super) append_reads: bool,
}

/// A file of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId(u32);

#[derive(Clone, Debug)]
struct File {
    size_bytes: u64,
    runs: Vec<Run>,
    name: u32,
    /// Where it stands in the list of files to pick from; `None`: it is not picked.
    listed: Option<u32>,
}

/// A volume with its files.
#[derive(Clone, Debug)]
struct Volume {
    names: Names,
    space: Space,
    files: Vec<Option<File>>,
    vacant: Vec<u32>,
    listed: Vec<FileId>,
    front: Front,
}

/// Whose a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Meta(Meta),
    File(u32),
}

/// The layer: RAM above volumes.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    knobs: Knobs,
    ram: Ram,
    volumes: Vec<Volume>,
    out: VecDeque<Arrival>,
    sent: u64,
}

impl Layer {
    pub(super) fn new(knobs: Knobs) -> Layer {
        let ram = Ram::new(knobs.ram_pages);
        Layer { knobs, ram, volumes: Vec::new(), out: VecDeque::new(), sent: 0 }
    }

    /// One more volume, for at most so many files in so many directories.
    pub(super) fn add_volume(
        &mut self,
        files_max: u32,
        directories: u32,
        per_directory: u32,
    ) -> u8 {
        let names = Names::new(directories, per_directory);
        self.volumes.push(Volume {
            front: Front::new(&names, files_max, self.knobs.unit_pages),
            names,
            space: Space::new(),
            files: Vec::new(),
            vacant: Vec::new(),
            listed: Vec::new(),
        });
        u8::try_from(self.volumes.len() - 1).expect("a few volumes")
    }

    /// The next request that was caused.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        self.out.pop_front()
    }

    /// Requests that wait to be taken, and pages in RAM.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.out.len(), self.ram.len())
    }

    /// Any file that may be picked, all alike.
    pub(super) fn pick(&self, volume: u8, rng: &mut Rng) -> Option<FileId> {
        let listed = &self.volumes[volume as usize].listed;
        (!listed.is_empty()).then(|| listed[rng.below(listed.len() as u64) as usize])
    }

    /// The file that was made as the `index`-th, if none was deleted.
    pub(super) fn listed(&self, volume: u8, index: u64) -> FileId {
        self.volumes[volume as usize].listed[index as usize]
    }

    /// All files that may be picked.
    pub(super) fn all_listed(&self, volume: u8) -> impl Iterator<Item = FileId> + '_ {
        self.volumes[volume as usize].listed.iter().copied()
    }

    pub(super) fn size_bytes(&self, volume: u8, id: FileId) -> u64 {
        self.file(volume, id).size_bytes
    }

    pub(super) fn directory(&self, volume: u8, id: FileId) -> u32 {
        self.volumes[volume as usize].names.directory(self.file(volume, id).name)
    }

    /// Makes a file of this size in this directory, or in the next one that has room. `None`: the
    /// volume has as many files as it takes.
    pub(super) fn create(
        &mut self,
        volume: u8,
        directory: u32,
        size_bytes: u64,
        is_listed: bool,
    ) -> Option<FileId> {
        let of = &mut self.volumes[volume as usize];
        let id = match of.vacant.pop() {
            Some(id) => id,
            None if of.files.len() as u32 == of.front.files_max() => return None,
            None => {
                of.files.push(None);
                of.files.len() as u32 - 1
            }
        };
        let Some(name) = of.names.take(directory) else {
            of.vacant.push(id);
            return None;
        };
        let listed = is_listed.then_some(of.listed.len() as u32);
        if is_listed {
            of.listed.push(FileId(id));
        }
        of.files[id as usize] = Some(File { size_bytes: 0, runs: Vec::new(), name, listed });
        self.look_up(volume, FileId(id), true);
        self.grow(volume, FileId(id), size_bytes);
        self.settle();
        Some(FileId(id))
    }

    /// Opens a file and reads all of it.
    pub(super) fn read_whole(&mut self, volume: u8, id: FileId) {
        self.look_up(volume, id, false);
        let pages = self.file(volume, id).size_bytes.div_ceil(BLOCK_BYTES) as u32;
        self.read(volume, id, 0, pages);
        self.settle();
    }

    /// Opens a file and writes so many bytes behind its end.
    pub(super) fn append(&mut self, volume: u8, id: FileId, bytes: u64) {
        self.look_up(volume, id, false);
        let size_bytes = self.file(volume, id).size_bytes;
        if self.knobs.append_reads && !size_bytes.is_multiple_of(BLOCK_BYTES) {
            self.read(volume, id, (size_bytes / BLOCK_BYTES) as u32, 1);
        }
        self.attributes(volume, id, true);
        self.grow(volume, id, bytes);
        self.settle();
    }

    /// Deletes a file.
    pub(super) fn delete(&mut self, volume: u8, id: FileId) {
        self.look_up(volume, id, true);
        let of = &mut self.volumes[volume as usize];
        let file = of.files[id.0 as usize].take().expect("a file is deleted once");
        of.vacant.push(id.0);
        of.names.give(file.name);
        if let Some(index) = file.listed {
            of.listed.swap_remove(index as usize);
            if let Some(moved) = of.listed.get(index as usize).copied() {
                let moved = of.files[moved.0 as usize].as_mut().expect("what is listed is there");
                moved.listed = Some(index);
            }
        }
        for run in file.runs {
            self.volumes[volume as usize].space.give(run);
            let (first, count) = self.pages_of(volume, run);
            for number in first..first + count {
                self.ram.forget(Page { volume, number });
            }
            self.send(Op::Discard, volume, first, count);
        }
        self.settle();
    }

    /// Asks for a file's attributes.
    pub(super) fn stat(&mut self, volume: u8, id: FileId) {
        self.look_up(volume, id, false);
        self.settle();
    }

    fn file(&self, volume: u8, id: FileId) -> &File {
        self.volumes[volume as usize].files[id.0 as usize].as_ref().expect("the file is there")
    }

    /// Finds a name and its file's attributes, or changes both.
    fn look_up(&mut self, volume: u8, id: FileId, is_changed: bool) {
        let name = self.file(volume, id).name;
        let of = &self.volumes[volume as usize];
        let page = of.front.directory_page(of.names.page(name));
        self.meta(volume, page, is_changed);
        self.attributes(volume, id, is_changed);
    }

    fn attributes(&mut self, volume: u8, id: FileId, is_changed: bool) {
        let page = self.volumes[volume as usize].front.attributes_page(id.0);
        self.meta(volume, page, is_changed);
    }

    /// Uses a page of directories or attributes.
    fn meta(&mut self, volume: u8, of: MetaPage, is_changed: bool) {
        let front = &mut self.volumes[volume as usize].front;
        let number = front.number(of);
        let page = Page { volume, number };
        if !self.ram.touch(page) {
            if front.make(of) {
                self.send(Op::Read, volume, number, 1);
            }
            self.take_in(page);
        }
        if is_changed {
            self.ram.soil(page);
        }
    }

    /// Reads pages of a file, from its `from`-th.
    fn read(&mut self, volume: u8, id: FileId, from: u32, count: u32) {
        let mut missing = Run { first: 0, count: 0 };
        for index in from..from + count {
            let number = self.page_at(volume, id, index);
            if self.ram.touch(Page { volume, number }) {
                continue;
            }
            let follows = missing.first + missing.count == number;
            if missing.count > 0 && (!follows || missing.count == self.knobs.request_pages) {
                self.fetch(volume, missing);
                missing.count = 0;
            }
            if missing.count == 0 {
                missing.first = number;
            }
            missing.count += 1;
        }
        self.fetch(volume, missing);
    }

    /// Reads pages that are not in RAM.
    fn fetch(&mut self, volume: u8, pages: Run) {
        if pages.count == 0 {
            return;
        }
        self.send(Op::Read, volume, pages.first, pages.count);
        for number in pages.first..pages.first + pages.count {
            self.take_in(Page { volume, number });
        }
    }

    /// Writes `bytes` behind a file's end, into RAM.
    fn grow(&mut self, volume: u8, id: FileId, bytes: u64) {
        let size_bytes = self.file(volume, id).size_bytes;
        let end_bytes = size_bytes + bytes;
        let (first, end) = (size_bytes / BLOCK_BYTES, end_bytes.div_ceil(BLOCK_BYTES));
        let of = &mut self.volumes[volume as usize];
        let file = of.files[id.0 as usize].as_mut().expect("the file is there");
        let held: u32 = file.runs.iter().map(|run| run.count).sum();
        let units = u32::try_from(end).expect("files below 16 TiB").div_ceil(self.knobs.unit_pages);
        if units > held {
            let behind = file.runs.last().map(|run| run.first + run.count - 1);
            let run = of.space.take(units - held, id.0, behind);
            match file.runs.last_mut() {
                Some(last) if last.first + last.count == run.first => last.count += run.count,
                _ => file.runs.push(run),
            }
        }
        file.size_bytes = end_bytes;
        for index in first as u32..end as u32 {
            let page = Page { volume, number: self.page_at(volume, id, index) };
            if !self.ram.touch(page) {
                self.take_in(page);
            }
            self.ram.soil(page);
        }
    }

    /// Takes a page into RAM, and another one out of it where it is full.
    fn take_in(&mut self, page: Page) {
        if self.ram.is_full() {
            let oldest = self.ram.oldest().expect("a full RAM holds pages");
            if self.ram.is_dirty(oldest) {
                self.write_back(oldest);
            }
            self.ram.forget(oldest);
        }
        self.ram.insert(page);
    }

    /// Writes back until not too much of the RAM waits for it.
    fn settle(&mut self) {
        while self.ram.dirty() > self.knobs.dirty_pages {
            let oldest = self.ram.oldest_dirty().expect("some are dirty");
            self.write_back(oldest);
        }
    }

    /// Writes a page, and the dirty ones of its file that lie beside it.
    fn write_back(&mut self, page: Page) {
        let Page { volume, number } = page;
        let owner = self.owner(volume, number);
        let goes_along = |ram: &Ram, number: u32| {
            ram.is_dirty(Page { volume, number }) && self.owner(volume, number) == owner
        };
        let (mut first, mut end) = (number, number + 1);
        while end - first < self.knobs.request_pages
            && first > 0
            && goes_along(&self.ram, first - 1)
        {
            first -= 1;
        }
        while end - first < self.knobs.request_pages && goes_along(&self.ram, end) {
            end += 1;
        }
        for number in first..end {
            self.ram.clean(Page { volume, number });
        }
        self.send(Op::Write, volume, first, end - first);
    }

    /// Whose is this page? `None` if it is nobody's.
    fn owner(&self, volume: u8, number: u32) -> Option<Owner> {
        let of = &self.volumes[volume as usize];
        if let Some(meta) = of.front.owner(number) {
            return Some(Owner::Meta(meta));
        }
        let unit = (number - of.front.end()) / self.knobs.unit_pages;
        of.space.owner(unit).map(Owner::File)
    }

    /// Where a file's `index`-th page lies.
    fn page_at(&self, volume: u8, id: FileId, index: u32) -> u32 {
        let mut unit = index / self.knobs.unit_pages;
        for run in &self.file(volume, id).runs {
            if unit < run.count {
                let (first, _) = self.pages_of(volume, Run { first: run.first + unit, count: 1 });
                return first + index % self.knobs.unit_pages;
            }
            unit -= run.count;
        }
        unreachable!("pages lie in the file's units");
    }

    /// First page and pages of a run of units.
    fn pages_of(&self, volume: u8, run: Run) -> (u32, u32) {
        let unit_pages = self.knobs.unit_pages;
        let front = self.volumes[volume as usize].front.end();
        (front + run.first * unit_pages, run.count * unit_pages)
    }

    fn send(&mut self, op: Op, volume: u8, first: u32, count: u32) {
        let is_meta = first < self.volumes[volume as usize].front.end();
        self.out.push_back(Arrival {
            at: Instant::from_ns(self.sent * STEP_NS),
            object: ObjectId(volume.into()),
            op,
            offset_bytes: u64::from(first) * BLOCK_BYTES,
            length_bytes: u64::from(count) * BLOCK_BYTES,
            fua: false,
            stream: StreamId(0),
            data_type: if is_meta { RequestType::Metadata } else { RequestType::Data },
        });
        self.sent += 1;
    }
}
