//! The pointers of a table, from the root down to its leaves, in memory.
//!
//! The root has at most 256 pointers. Pages of 256 pointers stand between it and the leaves, in as many levels
//! as that takes. A page whose pointers are all to nothing takes no memory and no page.

use super::packed::{At, Packed};
use crate::format::FormatError;
use crate::format::pointer::{self, Kind, POINTERS, Pointer, pages_of_levels};
use crate::map::marks::Marks;

/// What the allocator takes for itself.
const ALLOCATOR_BYTES: usize = 16;

type PointerPage = Box<[Packed; POINTERS]>;

#[derive(Clone, Debug)]
struct Level {
    pages: Vec<Option<PointerPage>>,
    /// Pages that differ from what was written of them.
    changed: Marks,
    /// How many pages there are.
    held: usize,
    /// How many pointers there are on this level.
    pointers: u64,
}

impl Level {
    fn note_changed(&mut self, index: usize, is_changed: bool) {
        if is_changed {
            self.changed.mark(index);
        } else {
            self.changed.unmark(index);
        }
    }
}

/// All pointers of a table.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// The lowest first.
    levels: Vec<Level>,
    top: Vec<Pointer>,
}

impl Tree {
    /// A table with so many leaves, none of which was written.
    pub(super) fn new(leaves: u64) -> Self {
        let mut pointers = leaves;
        let mut levels = Vec::new();
        for pages in pages_of_levels(leaves) {
            let changed = Marks::new(pages as usize);
            let all = vec![None; pages as usize];
            levels.push(Level { pages: all, changed, held: 0, pointers });
            pointers = pages;
        }
        Tree { levels, top: vec![Pointer::default(); pointers as usize] }
    }

    /// The same pointers in a table with more leaves. Returns pages that nothing was written of yet: what the root pointed
    /// to may need pages between.
    pub(super) fn grow(&mut self, leaves: u64) -> Vec<At> {
        assert!(leaves >= self.leaves(), "a table only grows");
        assert_eq!(self.next_changed(), None, "it grows as it was read");
        let old = std::mem::replace(self, Tree::new(leaves));
        let level = old.top_level();
        for (new, old) in self.levels.iter_mut().zip(old.levels) {
            for (page, read) in new.pages.iter_mut().zip(old.pages) {
                *page = read;
            }
            new.held = old.held;
        }
        for (index, pointer) in (0..).zip(old.top) {
            if pointer.kind != Kind::Nothing {
                self.set(At { level, index }, pointer);
            }
        }
        let mut between = Vec::new();
        while let Some(at) = self.next_changed() {
            self.note_changed(at, false);
            between.push(at);
        }
        between
    }

    /// How many leaves it has.
    pub(super) fn leaves(&self) -> u64 {
        self.levels.first().map_or(self.top.len() as u64, |lowest| lowest.pointers)
    }

    /// Where the leaf is.
    pub(super) fn leaf(&self, leaf: u64) -> Pointer {
        self.get(At { level: 0, index: leaf })
    }

    /// What points to this leaf (level 0) or page of pointers.
    pub(super) fn get(&self, at: At) -> Pointer {
        let Some(above) = self.levels.get(usize::from(at.level)) else {
            return self.top[at.index as usize];
        };
        assert!(at.index < above.pointers, "there are so many leaves and pages");
        let page = above.pages[at.index as usize / POINTERS].as_ref();
        page.map_or_else(Pointer::default, |page| page[at.index as usize % POINTERS].into())
    }

    /// The first leaf from this one on that is not to nothing in one of the two tables, of the same leaves, and of
    /// which `wanted` says so. `None`: there is none.
    pub(super) fn next_of_two(
        &self,
        other: &Tree,
        from: u64,
        wanted: impl Fn(&Pointer, &Pointer) -> bool,
    ) -> Option<u64> {
        assert_eq!(self.leaves(), other.leaves(), "two tables of the same leaves");
        let mut leaf = from;
        while leaf < self.leaves() {
            let end = (leaf + 1).next_multiple_of(POINTERS as u64).min(self.leaves());
            let index = leaf as usize / POINTERS;
            let has_some = |tree: &Tree| {
                tree.levels.first().is_none_or(|lowest| lowest.pages[index].is_some())
            };
            let is_wanted = |&leaf: &u64| wanted(&self.leaf(leaf), &other.leaf(leaf));
            if (has_some(self) || has_some(other))
                && let Some(found) = (leaf..end).find(is_wanted)
            {
                return Some(found);
            }
            leaf = end;
        }
        None
    }

    /// Points elsewhere. Returns where it pointed.
    pub(super) fn set(&mut self, at: At, to: Pointer) -> Pointer {
        let is_leaf = matches!(to.kind, Kind::Leaf | Kind::AtHome);
        assert!(
            to.kind == Kind::Nothing || is_leaf == (at.level == 0),
            "a kind goes with its level"
        );
        let Some(above) = self.levels.get_mut(usize::from(at.level)) else {
            return std::mem::replace(&mut self.top[at.index as usize], to);
        };
        assert!(at.index < above.pointers, "there are so many leaves and pages");
        let index = at.index as usize / POINTERS;
        let page = &mut above.pages[index];
        above.held += usize::from(page.is_none());
        let page = page.get_or_insert_with(|| Box::new([Packed::default(); POINTERS]));
        let old = std::mem::replace(&mut page[at.index as usize % POINTERS], to.into());
        above.note_changed(index, true);
        old.into()
    }

    /// The lowest page of pointers that has changed since it was written.
    pub(super) fn next_changed(&self) -> Option<At> {
        self.levels.iter().zip(1..).find_map(|(level, number)| {
            let index = level.changed.next(0)?;
            Some(At { level: number, index: index as u64 })
        })
    }

    /// The bytes of a page of pointers, which counts as written now. `None`: all of them are to nothing.
    pub(super) fn write(&mut self, at: At) -> Option<Vec<u8>> {
        let level = self.level_mut(at.level);
        level.note_changed(at.index as usize, false);
        let page = &mut level.pages[at.index as usize];
        if page.as_ref().is_some_and(|page| page.iter().all(|pointer| pointer.is_to_nothing())) {
            *page = None;
            level.held -= 1;
        }
        page.as_ref().map(|page| pointer::encode(&page.map(Pointer::from)))
    }

    /// Memory that it takes, by calculation.
    pub(super) fn memory_bytes(&self) -> usize {
        let page_bytes = size_of::<[Packed; POINTERS]>() + ALLOCATOR_BYTES;
        let of_level = |level: &Level| {
            level.pages.len() * size_of::<Option<PointerPage>>() + level.held * page_bytes
        };
        self.levels.iter().map(of_level).sum()
    }

    /// All pages of pointers that there are.
    pub(super) fn pages(&self) -> impl Iterator<Item = At> + '_ {
        self.levels.iter().zip(1..).flat_map(|(level, number)| {
            let exist = level.pages.iter().enumerate().filter(|(_, page)| page.is_some());
            exist.map(move |(index, _)| At { level: number, index: index as u64 })
        })
    }

    /// A page of pointers counts as written, or as changed.
    pub(super) fn note_changed(&mut self, at: At, is_changed: bool) {
        self.level_mut(at.level).note_changed(at.index as usize, is_changed);
    }

    fn level_mut(&mut self, level: u8) -> &mut Level {
        assert!(level > 0, "leaves are no pages of pointers");
        &mut self.levels[usize::from(level) - 1]
    }

    /// The root's pointers.
    pub(super) fn top(&self) -> &[Pointer] {
        &self.top
    }

    /// Level of what the root's pointers are to: 0 for leaves.
    pub(super) fn top_level(&self) -> u8 {
        self.levels.len() as u8
    }

    /// Takes the pointers of the root as they were read.
    ///
    /// # Errors
    /// They are not as many as this table has, or not of their level.
    pub(super) fn adopt_top(&mut self, read: &[Pointer]) -> Result<(), FormatError> {
        if read.len() != self.top.len() {
            return Err(wrong("number of pointers in the root", read.len() as u64));
        }
        let level = self.top_level();
        read.iter().try_for_each(|pointer| is_of_level(pointer, level))?;
        self.top.copy_from_slice(read);
        Ok(())
    }

    /// Takes a page of pointers as it was read.
    ///
    /// # Errors
    /// What no pool writes.
    pub(super) fn adopt(
        &mut self,
        at: At,
        bytes: &[u8],
    ) -> Result<[Pointer; POINTERS], FormatError> {
        let read = pointer::decode(bytes)?;
        let level = self.level_mut(at.level);
        let first = at.index * POINTERS as u64;
        let count = (level.pointers - first).min(POINTERS as u64) as usize;
        read[..count].iter().try_for_each(|pointer| is_of_level(pointer, at.level - 1))?;
        if read.iter().all(|pointer| pointer.kind == Kind::Nothing) {
            return Err(wrong("number of pointers in a page", 0));
        }
        if read[count..].iter().any(|pointer| pointer.kind != Kind::Nothing) {
            return Err(wrong("pointer behind the last leaf", first + count as u64));
        }
        let page = &mut level.pages[at.index as usize];
        level.held += usize::from(page.is_none());
        *page = Some(Box::new(read.map(Packed::from)));
        Ok(read)
    }
}

fn is_of_level(pointer: &Pointer, level: u8) -> Result<(), FormatError> {
    let fits = match pointer.kind {
        Kind::Nothing => true,
        Kind::Pointers => level > 0,
        Kind::Leaf | Kind::AtHome => level == 0,
    };
    if fits { Ok(()) } else { Err(wrong("level of a pointer", u64::from(level))) }
}

pub(super) fn wrong(field: &'static str, value: u64) -> FormatError {
    FormatError::Field { what: "page of pointers", field, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_with_the_leaves() {
        // (leaves, pages on each level, pointers in the root)
        for (leaves, pages, top) in [
            (0, &[][..], 0),
            (1, &[], 1),
            (256, &[], 256),
            (257, &[2], 2),
            (65_536, &[256], 256),
            (65_537, &[257, 2], 2),
            (1 << 30, &[1 << 22, 1 << 14, 64], 64),
        ] {
            assert_eq!(pages_of_levels(leaves), pages, "{leaves}");
            if leaves < 1 << 20 {
                let tree = Tree::new(leaves);
                assert_eq!((tree.top().len(), usize::from(tree.top_level())), (top, pages.len()));
            }
        }
    }

    fn leaf(page: u64) -> Pointer {
        Pointer { kind: Kind::Leaf, page, ..Pointer::default() }
    }

    #[test]
    fn what_changes_is_written_from_below() {
        let mut tree = Tree::new(70_000);
        let at = |level, index| At { level, index };
        assert_eq!((tree.leaf(69_999), tree.next_changed()), (Pointer::default(), None));
        assert_eq!(tree.set(at(0, 69_999), leaf(7)), Pointer::default());
        assert_eq!(tree.set(at(0, 69_999), leaf(8)), leaf(7));
        assert_eq!(tree.next_changed(), Some(at(1, 273)));
        let bytes = tree.write(at(1, 273)).expect("it points to a leaf");
        assert_eq!(tree.next_changed(), None, "its own pointer has not changed yet");
        let page = Pointer { kind: Kind::Pointers, ..leaf(9) };
        tree.set(at(1, 273), page);
        assert_eq!(tree.next_changed(), Some(at(2, 1)));
        let above = tree.write(at(2, 1)).expect("it points to a page");
        tree.set(at(2, 1), Pointer { page: 10, ..page });
        assert_eq!(tree.top(), [Pointer::default(), Pointer { page: 10, ..page }]);
        // and back
        let mut again = Tree::new(70_000);
        again.adopt_top(tree.top()).unwrap();
        assert_eq!(again.adopt(at(2, 1), &above).unwrap()[273 - 256], page);
        assert_eq!(again.adopt(at(1, 273), &bytes).unwrap()[69_999 % 256], leaf(8));
        assert_eq!((again.leaf(69_999), again.leaf(69_998)), (leaf(8), Pointer::default()));
        // a page that points to nothing any more is none
        tree.set(at(0, 69_999), Pointer::default());
        assert_eq!(tree.write(at(1, 273)), None);
    }

    #[test]
    fn what_no_pool_writes_is_refused() {
        let mut tree = Tree::new(300);
        let page = Pointer { kind: Kind::Pointers, ..leaf(9) };
        for top in [&[page][..], &[page; 3], &[page, leaf(1)]] {
            assert!(tree.adopt_top(top).is_err(), "{top:?}");
        }
        assert_eq!(tree.adopt_top(&[page, Pointer::default()]), Ok(()));
        // (which page, where a pointer stands in it, to what, is it refused)
        for (index, place, pointer, holds) in [
            (0, 255, leaf(1), true),
            (0, 0, page, false),
            (1, 43, leaf(1), true),
            (1, 44, leaf(1), false),
            (1, 0, Pointer::default(), false),
        ] {
            let mut pointers = [Pointer::default(); POINTERS];
            pointers[place] = pointer;
            let read = tree.adopt(At { level: 1, index }, &pointer::encode(&pointers));
            assert_eq!(read.is_ok(), holds, "page {index}, pointer {place}: {read:?}");
        }
        assert!(tree.adopt(At { level: 1, index: 0 }, &[0; 100]).is_err());
    }

    #[test]
    #[should_panic(expected = "so many leaves")]
    fn a_leaf_behind_the_last_one_is_not_pointed_to() {
        Tree::new(300).set(At { level: 0, index: 300 }, leaf(1));
    }
}
