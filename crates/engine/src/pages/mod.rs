//! A table of the metadata in pages that are never written over: leaves, and a tree of pointers to them.
//!
//! Source: docs/DECISIONS.md, "How a pool of petabytes is to fit". The checksums of homes lie in one
//! (`map/checksums`), and the metadata replica has one of its own. A checkpoint goes in these steps:
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
use crate::format::pointer::{Kind, PAGE_BYTES, PageName, Pointer, TableRoot};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// What pointed where before the checkpoint under way, and the runs of pages that it has written.
    undo: Vec<(At, Pointer)>,
    fresh: BTreeMap<u64, u8>,
    /// Pages that the durable root names, and the one under way does not.
    left: Vec<Run>,
    /// Pages that only the root before the durable one names.
    old: VecDeque<Run>,
    is_under_way: bool,
    /// Pages of pointers that some drive could not give at the start. The next checkpoints write them anew.
    mended: BTreeSet<At>,
    /// Pages of a leaf at most.
    leaf_pages_max: u8,
    /// A mutant: leaves are written over those that the durable root names.
    in_place: bool,
}

impl Default for Pages {
    /// Of no leaves.
    fn default() -> Self {
        Pages::new(0, 0, 0, 0)
    }
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
            fresh: BTreeMap::new(),
            left: Vec::new(),
            old: VecDeque::new(),
            is_under_way: false,
            mended: BTreeSet::new(),
            leaf_pages_max: 1,
            in_place: false,
        }
    }

    /// Leaves may have so many pages.
    #[cfg(test)]
    fn with_leaf_pages_max(self, leaf_pages_max: u8) -> Pages {
        Pages { leaf_pages_max, ..self }
    }

    /// How many pages the area has.
    pub(crate) fn area_pages(&self) -> u64 {
        self.space.pages()
    }

    /// An empty table of the same leaves, in an area of the same size.
    pub(crate) fn emptied(&self) -> Pages {
        Pages::new(self.pool, self.table, self.leaves(), self.space.pages())
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
        for &at in &self.mended {
            self.tree.note_changed(at, true);
        }
    }

    /// Breaks the rule of this file, so that tests of whole engines can show that they find that.
    pub(crate) fn write_in_place(&mut self, in_place: bool) {
        self.in_place = in_place;
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
        let pages_max = u64::from(self.leaf_pages_max);
        assert!(bytes.len() as u64 <= pages_max * PAGE_BYTES, "a leaf has so many pages");
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

    /// Is a checkpoint under way?
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// The first page from this one on that is in use. `None`: none is.
    pub(crate) fn next_used(&self, page: u64) -> Option<u64> {
        self.space.next_used(page)
    }

    /// The first leaf from this one on that differs from that of another table: from one that a drive of its own
    /// has of the same leaves. `None`: no leaf does.
    pub(crate) fn next_that_differs(&self, other: &Pages, from: u64) -> Option<u64> {
        assert_eq!(self.leaves(), other.leaves(), "two drives have the same leaves");
        (from..self.leaves()).find(|&leaf| !self.leaf(leaf).is_same(&other.leaf(leaf)))
    }

    /// How many leaves it has.
    pub(crate) fn leaves(&self) -> u64 {
        self.tree.leaves()
    }

    /// What the root says, when all pages were written.
    pub(crate) fn root(&self) -> TableRoot {
        TableRoot { leaves: self.leaves(), top: self.top().to_vec() }
    }

    fn top(&self) -> &[Pointer] {
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
        self.mended.clear();
        self.is_under_way = false;
    }

    /// The checkpoint has failed before its root was written, and none of its commands is under way: the root
    /// before it holds. Returns the leaves that are as they were, each once.
    pub(crate) fn failed(&mut self) -> Vec<u64> {
        assert!(self.is_under_way, "a checkpoint that is under way fails");
        let mut leaves: Vec<u64> = self.leaves.drain(..).map(|(leaf, _)| leaf).collect();
        while let Some((at, pointer)) = self.undo.pop() {
            self.tree.set(at, pointer);
            if at.level == 0 {
                leaves.push(at.index);
            }
        }
        while let Some(at) = self.tree.next_changed() {
            // pages above it are as they were, too
            self.tree.note_changed(at, false);
        }
        for (first, count) in std::mem::take(&mut self.fresh) {
            self.space.give_back(first, usize::from(count));
        }
        self.left.clear();
        self.is_under_way = false;
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    fn point(&mut self, at: At, to: Pointer) {
        let from = self.tree.set(at, to);
        let is_moved = !self.in_place || from.page != to.page;
        let Some(run) = Run::of(&from).filter(|_| is_moved) else {
            self.undo.push((at, from));
            return;
        };
        if self.fresh.remove(&run.first).is_some() {
            // this checkpoint has written it twice: no root names the first one
            self.space.give_back(run.first, usize::from(run.count));
        } else {
            self.undo.push((at, from));
            self.left.push(run);
        }
    }

    fn place(&mut self, at: At, kind: Kind, bytes: Vec<u8>) -> Option<(Pointer, PageWrite)> {
        assert!((bytes.len() as u64).is_multiple_of(PAGE_BYTES), "pages are written whole");
        let pages = u8::try_from(bytes.len() as u64 / PAGE_BYTES).expect("a leaf has a few pages");
        let before = self.tree.get(at);
        let page = if self.in_place && at.level == 0 && before.kind == kind {
            before.page
        } else {
            let page = self.take(usize::from(pages))?;
            self.fresh.insert(page, pages);
            page
        };
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
#[derive(Clone, Debug, Default)]
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
    pub(crate) fn begin(pages: &mut Pages, root: &TableRoot) -> Result<Reading, FormatError> {
        if root.leaves != pages.leaves() {
            return Err(wrong("number of leaves in the root", root.leaves));
        }
        let top = &root.top;
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
            if level == 0 && run.count > pages.leaf_pages_max {
                return Err(wrong("number of pages of a leaf", u64::from(run.count)));
            }
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

    /// Not every drive has this page: it is written anew.
    pub(crate) fn mend(pages: &mut Pages, wanted: PageWanted) {
        pages.mended.insert(wanted.at);
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
