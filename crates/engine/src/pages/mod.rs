//! A table of the metadata in pages that are never written over: leaves, and a tree of pointers to them.
//!
//! Source: docs/DECISIONS.md, "How a pool of petabytes is to fit". The places of blocks and their checksums
//! lie in one, and the metadata replica has one of its own. A checkpoint goes in these steps:
//!
//! ```text
//! begin ─▶ write (each leaf that has changed, to other pages) ─▶ leaves_written ─▶ write_pointers, from below ─▶
//! flush ─▶ the root names `top` ─▶ durable                         … or, after any of them, failed
//! ```
//! The root that is durable names pages that stay as they are until the next one is durable. Those of the root
//! before it stay while there is other room, but not over a start. A read finds a leaf where it was written last, once that write has
//! ended.

mod groups;
mod packed;
mod space;
mod tree;

use self::packed::{At, Before};
use self::space::PageSpace;
use self::tree::{Tree, wrong};
use crate::format::FormatError;
use crate::format::pointer::{Kind, PAGE_BYTES, PageName, Pointer, TableRoot, pages_of_levels};
use crate::map::marks::Marks;
use std::collections::{BTreeSet, VecDeque};

/// Pages that are given back at once where room is short: each time a free page is searched for.
const GIVEN_BACK_AT_ONCE: usize = 256;

/// No page of so many.
fn none_of(pages: u64) -> Marks {
    Marks::new(usize::try_from(pages).expect("an area has fewer pages than memory has bytes"))
}

/// How many blocks of a leaf lie on an SSD, and how many of these nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) on_ssd: u16,
    pub(crate) dirty: u16,
}

/// Bytes that go to a page of the area, or to pages that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageWrite {
    /// The first page.
    pub(crate) page: u64,
    /// They fill the pages.
    pub(crate) bytes: Vec<u8>,
}

impl PageWrite {
    /// Writes of pages that follow each other become one, in their order.
    pub(crate) fn join(self, queue: &mut VecDeque<PageWrite>) {
        match queue.back_mut() {
            Some(last) if last.page + last.bytes.len() as u64 / PAGE_BYTES == self.page => {
                last.bytes.extend_from_slice(&self.bytes);
            }
            _ => queue.push_back(self),
        }
    }
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pool: u128,
    table: u8,
    space: PageSpace,
    tree: Tree,
    /// Pages of pointers that there are at most.
    pointer_pages: u64,
    /// Leaves of the checkpoint under way that are being written.
    leaves: Vec<(u64, Pointer)>,
    /// What pointed where before the checkpoint under way, and the pages that it has written.
    undo: Vec<Before>,
    fresh: Marks,
    /// Pages that only the root before the durable one names, and how many.
    old: Marks,
    old_count: u64,
    is_under_way: bool,
    /// Pages of pointers that some drive lacks, or may lack. The next checkpoint that is durable has written them
    /// anew. And those of the one under way.
    mended: BTreeSet<At>,
    mending: BTreeSet<At>,
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
            pointer_pages: pages_of_levels(leaves).into_iter().sum(),
            leaves: Vec::new(),
            undo: Vec::new(),
            fresh: none_of(pages),
            old: none_of(pages),
            old_count: 0,
            is_under_way: false,
            mended: BTreeSet::new(),
            mending: BTreeSet::new(),
            in_place: false,
        }
    }

    /// Is there room for so many leaves more, and for all pages of pointers above them?
    pub(crate) fn has_room(&self, leaves: usize) -> bool {
        self.space.free() + self.old_count >= self.pointer_pages + leaves as u64
    }

    /// Leaves and pages of pointers of which the checkpoint under way remembers what pointed to them before.
    pub(crate) fn changed(&self) -> u64 {
        (self.undo.len() + self.leaves.len()) as u64
    }

    /// Memory that it takes, by calculation.
    pub(crate) fn memory_bytes(&self) -> usize {
        let leaves = self.leaves.capacity() * size_of::<(u64, Pointer)>();
        self.tree.memory_bytes() + self.undo.capacity() * size_of::<Before>() + leaves
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
        let is_page = bytes.len() as u64 == PAGE_BYTES && pointer.page().is_some();
        if is_page && self.name(at).crc(bytes) == pointer.crc {
            Ok(())
        } else {
            Err(FormatError::Checksum { what })
        }
    }

    /// A checkpoint begins.
    pub(crate) fn begin(&mut self) {
        assert!(!self.is_under_way, "one checkpoint at a time");
        let fresh = self.fresh.next(0);
        assert!(self.undo.is_empty() && fresh.is_none());
        assert_eq!(self.tree.next_changed(), None, "what the root names was written");
        self.is_under_way = true;
        self.mending.append(&mut self.mended);
        for &at in &self.mending {
            self.tree.note_changed(at, true);
        }
    }

    /// Breaks the rule of this file, so that tests of whole engines can show that they find that.
    pub(crate) fn write_in_place(&mut self, in_place: bool) {
        self.in_place = in_place;
    }

    /// A leaf that has changed, and its bytes: they go to another page. `None`: there is no room.
    pub(crate) fn write(&mut self, leaf: u64, bytes: Vec<u8>, counts: Counts) -> Option<PageWrite> {
        assert!(self.is_under_way, "leaves are written by checkpoints");
        let (pointer, write) = self.place(At { level: 0, index: leaf }, Kind::Leaf, bytes)?;
        let Counts { on_ssd, dirty } = counts;
        self.leaves.push((leaf, Pointer { on_ssd, dirty, ..pointer }));
        Some(write)
    }

    /// A leaf that has no page any more: its blocks lie nowhere, or all at home.
    pub(crate) fn write_none(&mut self, leaf: u64, at_home: bool) {
        assert!(self.is_under_way, "leaves are forgotten by checkpoints");
        let pointer = if at_home { Pointer::AT_HOME } else { Pointer::default() };
        if self.tree.leaf(leaf) != pointer {
            self.leaves.push((leaf, pointer));
        }
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
        self.tree.next_of_two(&other.tree, from, |one, other| !one.is_same(other))
    }

    /// The first leaf from this one on that is not to nothing. `None`: none is.
    pub(crate) fn next_leaf(&self, from: u64) -> Option<u64> {
        self.tree.next_of_two(&self.tree, from, |leaf, _| leaf.kind != Kind::Nothing)
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

    /// All pages of pointers are written anew by the next checkpoint that begins: memory has them, and what a drive
    /// has of them may be rotten.
    pub(crate) fn write_all_pointers(&mut self) {
        self.mended.extend(self.tree.pages());
    }

    /// The root is durable.
    pub(crate) fn durable(&mut self) {
        assert!(self.is_under_way && self.leaves.is_empty(), "a root is written behind the leaves");
        self.give_back_old(usize::MAX);
        for before in std::mem::take(&mut self.undo) {
            // what it pointed to, the durable root does not name any more
            let is_moved = before.pointer().page() != self.tree.get(before.at()).page();
            let page = before.pointer().page().filter(|_| is_moved || !self.in_place);
            if let Some(page) = page.filter(|&page| !self.old.get(page as usize)) {
                self.old.mark(page as usize);
                self.old_count += 1;
            }
        }
        self.fresh.clear();
        self.mending.clear();
        self.is_under_way = false;
    }

    /// The checkpoint has failed before its root was written, and none of its commands is under way: the root
    /// before it holds. Returns the leaves that are as they were, each once.
    pub(crate) fn failed(&mut self) -> Vec<u64> {
        assert!(self.is_under_way, "a checkpoint that is under way fails");
        let mut leaves: Vec<u64> = self.leaves.drain(..).map(|(leaf, _)| leaf).collect();
        while let Some(before) = self.undo.pop() {
            let at = before.at();
            self.tree.set(at, before.pointer());
            if at.level == 0 {
                leaves.push(at.index);
            }
        }
        while let Some(at) = self.tree.next_changed() {
            // pages above it are as they were, too
            self.tree.note_changed(at, false);
        }
        self.fresh.iter().for_each(|page| self.space.give_back(page as u64));
        self.fresh.clear();
        self.mended.append(&mut self.mending);
        self.is_under_way = false;
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    fn point(&mut self, at: At, to: Pointer) {
        let from = self.tree.set(at, to);
        let is_moved = !self.in_place || from.page() != to.page();
        match from.page().filter(|&page| is_moved && self.fresh.get(page as usize)) {
            Some(page) => {
                self.fresh.unmark(page as usize);
                // this checkpoint has written it twice: no root names the first one
                self.space.give_back(page);
            }
            None => self.undo.push(Before::new(at, from)),
        }
    }

    fn place(&mut self, at: At, kind: Kind, bytes: Vec<u8>) -> Option<(Pointer, PageWrite)> {
        assert!(bytes.len() as u64 == PAGE_BYTES, "pages are written whole");
        let before = self.tree.get(at);
        let page = if self.in_place && at.level == 0 && before.kind == kind {
            before.page
        } else {
            let page = self.take()?;
            self.fresh.mark(page as usize);
            page
        };
        let crc = self.name(at).crc(&bytes);
        let pointer = Pointer { kind, page, crc, on_ssd: 0, dirty: 0 };
        Some((pointer, PageWrite { page, bytes }))
    }

    /// A page: a free one, or else one of the root before the durable one, the lowest first.
    fn take(&mut self) -> Option<u64> {
        if let Some(page) = self.space.take() {
            return Some(page);
        }
        self.give_back_old(GIVEN_BACK_AT_ONCE);
        self.space.take()
    }

    fn give_back_old(&mut self, pages: usize) {
        let mut from = 0;
        for _ in 0..self.old_count.min(pages as u64) {
            let page = self.old.next(from).expect("old pages are counted");
            self.old.unmark(page);
            self.space.give_back(page as u64);
            from = page + 1;
        }
        self.old_count -= self.old_count.min(pages as u64);
    }
}

/// The area is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// A start reads a table: the pages of pointers, from the root down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    wanted: Vec<At>,
    /// The set has become larger since the root was written: so many leaves the table has then.
    grows_to: Option<u64>,
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
        let leaves = pages.leaves();
        if root.leaves > leaves {
            return Err(wrong("number of leaves in the root", root.leaves));
        }
        let top = &root.top;
        let mut tree = Tree::new(root.leaves);
        tree.adopt_top(top)?;
        let grows_to = (root.leaves < leaves).then_some(leaves);
        let mut reading = Reading { grows_to, ..Reading::default() };
        reading.want(pages, (tree.top_level(), 0), top)?;
        pages.tree = tree;
        Ok(reading)
    }

    fn want(
        &mut self,
        pages: &mut Pages,
        (level, first): (u8, u64),
        pointers: &[Pointer],
    ) -> Result<(), FormatError> {
        for (pointer, index) in pointers.iter().zip(first..) {
            let Some(page) = pointer.page() else { continue };
            if !pages.space.occupy(page) {
                let what = "page that another pointer names, or that does not exist:";
                return Err(wrong(what, page));
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

    /// All were read, or the table is given up: it has as many leaves as the set wants.
    pub(crate) fn end(self, pages: &mut Pages) {
        if let Some(leaves) = self.grows_to {
            let between = pages.tree.grow(leaves);
            pages.mended.extend(between);
        }
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
        let below = pages.tree.adopt(wanted.at, bytes)?;
        self.want(pages, (level - 1, index * below.len() as u64), &below)
    }
}

#[cfg(test)]
mod tests;
