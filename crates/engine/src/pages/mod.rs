//! A table of the metadata in pages that are never written over: leaves, and a tree of pointers to them.
//!
//! Source: docs/DECISIONS.md, "How a pool of petabytes is to fit". This is for checkpoints of version 3, and nobody
//! but tests uses it yet. A checkpoint goes in these steps:
//!
//! ```text
//! begin ─▶ write (each leaf that has changed, to other pages) ─▶ leaves_written ─▶ write_pointers, from below ─▶
//! flush ─▶ the root names `top` ─▶ durable                         … or, after any of them, failed
//! ```
//! The root that is durable names pages that stay as they are until the next one is durable. Those of the root
//! before it stay while there is other room, but not over a start. A read finds a leaf where it was written last, once that write has
//! ended.

mod space;
mod tree;

use self::space::PageSpace;
use self::tree::{At, Tree, wrong};
use crate::format::FormatError;
use crate::format::pointer::{Kind, PAGE_BYTES, PageName, Pointer};
use std::collections::VecDeque;

/// Pages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    count: u8,
}

impl Run {
    fn of(pointer: &Pointer) -> Option<Run> {
        (pointer.kind != Kind::Nothing).then_some(Run { first: pointer.page, count: pointer.pages })
    }
}

/// Runs of pages that are given back at once where room is short: each time a free page is searched for.
const GIVEN_BACK_AT_ONCE: usize = 256;

/// How many blocks of a leaf lie on an SSD, and how many of these nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) on_ssd: u16,
    pub(crate) dirty: u16,
}

/// Bytes that go to pages of the area, which they fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageWrite {
    /// The first page.
    pub(crate) page: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pool: u128,
    table: u8,
    space: PageSpace,
    tree: Tree,
    /// Leaves of the checkpoint under way that are being written.
    leaves: Vec<(u64, Pointer)>,
    /// What pointed where before the checkpoint under way, and what it has written.
    undo: Vec<(At, Pointer)>,
    fresh: Vec<Run>,
    /// Pages that the durable root names, and the one under way does not.
    left: Vec<Run>,
    /// Pages that only the root before the durable one names.
    old: VecDeque<Run>,
    is_under_way: bool,
}

impl Pages {
    /// An empty table with so many leaves, in an area with so many pages.
    pub(crate) fn new(pool: u128, table: u8, leaves: u64, pages: u64) -> Self {
        Pages {
            pool,
            table,
            space: PageSpace::new(pages),
            tree: Tree::new(leaves),
            leaves: Vec::new(),
            undo: Vec::new(),
            fresh: Vec::new(),
            left: Vec::new(),
            old: VecDeque::new(),
            is_under_way: false,
        }
    }

    /// Pages of an area in which a table of leaves of one page each always finds room: those of the durable root,
    /// and of one more.
    pub(crate) fn area_pages(leaves: u64) -> u64 {
        2 * tree::pages_at_most(leaves)
    }

    fn name(&self, at: At) -> PageName {
        PageName { pool: self.pool, table: self.table, level: at.level, index: at.index }
    }

    /// Where the leaf can be read.
    pub(crate) fn leaf(&self, leaf: u64) -> Pointer {
        self.tree.leaf(leaf)
    }

    /// Are these the bytes of the leaf that is there now?
    ///
    /// # Errors
    /// They are not: damaged, older, or of another leaf.
    pub(crate) fn check_leaf(&self, leaf: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let at = At { level: 0, index: leaf };
        self.check(at, &self.tree.leaf(leaf), bytes)
    }

    fn check(&self, at: At, pointer: &Pointer, bytes: &[u8]) -> Result<(), FormatError> {
        let what = if at.level == 0 { "leaf" } else { "page of pointers" };
        let is_whole = bytes.len() as u64 == u64::from(pointer.pages) * PAGE_BYTES;
        if is_whole && self.name(at).crc(bytes) == pointer.crc {
            Ok(())
        } else {
            Err(FormatError::Checksum { what })
        }
    }

    /// A checkpoint begins.
    pub(crate) fn begin(&mut self) {
        assert!(!self.is_under_way, "one checkpoint at a time");
        assert!(self.undo.is_empty() && self.fresh.is_empty() && self.left.is_empty());
        assert_eq!(self.tree.next_changed(), None, "what the root names was written");
        self.is_under_way = true;
    }

    /// A leaf that has changed, and its bytes: they go to other pages. `None`: there is no room.
    pub(crate) fn write(
        &mut self,
        leaf: u64,
        (bytes, is_plain): (Vec<u8>, bool),
        counts: Counts,
    ) -> Option<PageWrite> {
        assert!(self.is_under_way, "leaves are written by checkpoints");
        let is_sound = !is_plain || bytes.len() as u64 == PAGE_BYTES && counts == Counts::default();
        assert!(is_sound, "a plain leaf is one page, and all of its blocks lie at home alone");
        let kind = if is_plain { Kind::PlainLeaf } else { Kind::Leaf };
        let (pointer, write) = self.place(At { level: 0, index: leaf }, kind, bytes)?;
        let Counts { on_ssd, dirty } = counts;
        self.leaves.push((leaf, Pointer { on_ssd, dirty, ..pointer }));
        Some(write)
    }

    /// A leaf whose blocks lie nowhere any more.
    pub(crate) fn forget(&mut self, leaf: u64) {
        assert!(self.is_under_way, "leaves are forgotten by checkpoints");
        self.leaves.push((leaf, Pointer::default()));
    }

    /// All leaves of this checkpoint were written: from now on they are read where they are now.
    pub(crate) fn leaves_written(&mut self) {
        assert!(self.is_under_way, "leaves are written by checkpoints");
        for (leaf, pointer) in std::mem::take(&mut self.leaves) {
            self.point(At { level: 0, index: leaf }, pointer);
        }
    }

    /// The next page of pointers that has to be written. The leaves and the pages that it points to were written
    /// before it. `Ok(None)`: there is no other.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn write_pointers(&mut self) -> Result<Option<PageWrite>, NoRoom> {
        assert!(
            self.is_under_way && self.leaves.is_empty(),
            "pointers are written behind the leaves"
        );
        while let Some(at) = self.tree.next_changed() {
            let Some(bytes) = self.tree.write(at) else {
                self.point(at, Pointer::default());
                continue;
            };
            let Some((pointer, write)) = self.place(at, Kind::Pointers, bytes) else {
                self.tree.note_changed(at, true);
                return Err(NoRoom);
            };
            self.point(at, pointer);
            return Ok(Some(write));
        }
        Ok(None)
    }

    /// What the root says, when all pages were written.
    pub(crate) fn top(&self) -> &[Pointer] {
        assert!(
            self.leaves.is_empty() && self.tree.next_changed().is_none(),
            "a root names pages that were written"
        );
        self.tree.top()
    }

    /// The root is durable.
    pub(crate) fn durable(&mut self) {
        assert!(self.is_under_way && self.leaves.is_empty(), "a root is written behind the leaves");
        self.give_back_old(usize::MAX);
        self.old = std::mem::take(&mut self.left).into();
        self.undo.clear();
        self.fresh.clear();
        self.is_under_way = false;
    }

    /// The checkpoint has failed before its root was written, and none of its commands is under way: the root
    /// before it holds.
    pub(crate) fn failed(&mut self) {
        assert!(self.is_under_way, "a checkpoint that is under way fails");
        while let Some((at, pointer)) = self.undo.pop() {
            self.tree.set(at, pointer);
        }
        while let Some(at) = self.tree.next_changed() {
            // pages above it are as they were, too
            self.tree.note_changed(at, false);
        }
        for run in std::mem::take(&mut self.fresh) {
            self.space.give_back(run.first, usize::from(run.count));
        }
        self.leaves.clear();
        self.left.clear();
        self.is_under_way = false;
    }

    fn point(&mut self, at: At, to: Pointer) {
        let from = self.tree.set(at, to);
        self.undo.push((at, from));
        self.left.extend(Run::of(&from));
    }

    fn place(&mut self, at: At, kind: Kind, bytes: Vec<u8>) -> Option<(Pointer, PageWrite)> {
        assert!((bytes.len() as u64).is_multiple_of(PAGE_BYTES), "pages are written whole");
        let pages = u8::try_from(bytes.len() as u64 / PAGE_BYTES).expect("a leaf has a few pages");
        let page = self.take(usize::from(pages))?;
        self.fresh.push(Run { first: page, count: pages });
        let crc = self.name(at).crc(&bytes);
        let pointer = Pointer { kind, page, pages, crc, on_ssd: 0, dirty: 0 };
        Some((pointer, PageWrite { page, bytes }))
    }

    /// Pages for these: free ones, or else those of the root before the durable one, the oldest first.
    fn take(&mut self, count: usize) -> Option<u64> {
        loop {
            if let Some(first) = self.space.take(count) {
                return Some(first);
            }
            if self.old.is_empty() {
                return None;
            }
            self.give_back_old(count.max(GIVEN_BACK_AT_ONCE));
        }
    }

    fn give_back_old(&mut self, runs: usize) {
        for run in self.old.drain(..runs.min(self.old.len())) {
            self.space.give_back(run.first, usize::from(run.count));
        }
    }
}

/// The area is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// A start reads a table: the pages of pointers, from the root down.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    wanted: Vec<At>,
}

/// A page of pointers that has to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageWanted {
    at: At,
    /// Where it is.
    pub(crate) page: u64,
}

impl Reading {
    /// Begins with the pointers of a root.
    ///
    /// # Errors
    /// What no pool writes.
    pub(crate) fn begin(pages: &mut Pages, top: &[Pointer]) -> Result<Reading, FormatError> {
        pages.tree.adopt_top(top)?;
        let mut reading = Reading::default();
        reading.want(pages, (pages.tree.top_level(), 0), top)?;
        Ok(reading)
    }

    fn want(
        &mut self,
        pages: &mut Pages,
        (level, first): (u8, u64),
        pointers: &[Pointer],
    ) -> Result<(), FormatError> {
        for (pointer, index) in pointers.iter().zip(first..) {
            let Some(run) = Run::of(pointer) else { continue };
            if !pages.space.occupy(run.first, usize::from(run.count)) {
                return Err(wrong(
                    "page that another pointer names, or that does not exist:",
                    run.first,
                ));
            }
            if pointer.kind == Kind::Pointers {
                self.wanted.push(At { level, index });
            }
        }
        Ok(())
    }

    /// The next page that has to be read. `None`: none is known to be wanted.
    pub(crate) fn next(&mut self, pages: &Pages) -> Option<PageWanted> {
        let at = self.wanted.pop()?;
        Some(PageWanted { at, page: pages.tree.get(at).page })
    }

    /// Such a page was read.
    ///
    /// # Errors
    /// Damaged, older, of another place, or what no pool writes. It may be sound on another drive.
    pub(crate) fn read(
        &mut self,
        pages: &mut Pages,
        wanted: PageWanted,
        bytes: &[u8],
    ) -> Result<(), FormatError> {
        let At { level, index } = wanted.at;
        pages.check(wanted.at, &pages.tree.get(wanted.at), bytes)?;
        let below = *pages.tree.adopt(wanted.at, bytes)?;
        self.want(pages, (level - 1, index * below.len() as u64), &below)
    }
}

#[cfg(test)]
mod tests;
