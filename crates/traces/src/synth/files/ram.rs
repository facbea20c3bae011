//! Which pages does the RAM above the block layer hold, and which of them are not written yet?
//!
//! ```text
//!  newest ⇄ … ⇄ oldest          every page, by its last use: what is taken when room is wanted
//!  newest ⇄ … ⇄ oldest          those not written yet, by when they became so
//! ```
//! Source: [LORIS §V]: a data cache of 64 MB. That it is LRU over pages of 4 KiB is a choice of ours.

use std::collections::HashMap;

/// A page: which volume, and which 4 KiB of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Page {
    pub(super) volume: u8,
    pub(super) number: u32,
}

const NONE: u32 = u32::MAX;
/// Every page is in this list …
const USED: usize = 0;
/// … and those not written yet in this one, too.
const DIRTY: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    page: Page,
    is_dirty: bool,
    /// By list: the neighbour that is newer, and the one that is older.
    links: [(u32, u32); 2],
}

/// The pages in RAM, at most so many.
#[derive(Clone, Debug)]
pub(super) struct Ram {
    capacity: usize,
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    at: HashMap<Page, u32>,
    /// By list: its newest and its oldest.
    ends: [(u32, u32); 2],
    dirty: usize,
}

impl Ram {
    /// Room for so many pages, at least one.
    pub(super) fn new(capacity: usize) -> Ram {
        assert!(capacity > 0, "a RAM without pages");
        Ram {
            capacity,
            nodes: Vec::new(),
            vacant: Vec::new(),
            at: HashMap::new(),
            ends: [(NONE, NONE); 2],
            dirty: 0,
        }
    }

    /// Is it full?
    pub(super) fn is_full(&self) -> bool {
        self.at.len() == self.capacity
    }

    /// How many pages it holds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// How many of them are not written yet.
    pub(super) fn dirty(&self) -> usize {
        self.dirty
    }

    /// Is it in RAM? Then it becomes the newest.
    pub(super) fn touch(&mut self, page: Page) -> bool {
        let Some(&index) = self.at.get(&page) else { return false };
        self.unlink(USED, index);
        self.link(USED, index);
        true
    }

    /// Is it in RAM and not written yet?
    pub(super) fn is_dirty(&self, page: Page) -> bool {
        self.at.get(&page).is_some_and(|&index| self.nodes[index as usize].is_dirty)
    }

    /// Takes a page in as the newest, clean.
    ///
    /// # Panics
    /// If it is in RAM, or there is no room.
    pub(super) fn insert(&mut self, page: Page) {
        assert!(!self.is_full(), "room is made before a page comes in");
        let node = Node { page, is_dirty: false, links: [(NONE, NONE); 2] };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("at most 16 GiB of RAM")
            }
        };
        assert!(self.at.insert(page, index).is_none(), "a page is in RAM once");
        self.link(USED, index);
    }

    /// It was changed and is not written yet.
    ///
    /// # Panics
    /// If it is not in RAM.
    pub(super) fn soil(&mut self, page: Page) {
        let index = self.at[&page];
        if !self.nodes[index as usize].is_dirty {
            self.nodes[index as usize].is_dirty = true;
            self.dirty += 1;
            self.link(DIRTY, index);
        }
    }

    /// It is written.
    pub(super) fn clean(&mut self, page: Page) {
        let Some(&index) = self.at.get(&page) else { return };
        if self.nodes[index as usize].is_dirty {
            self.unlink(DIRTY, index);
            self.nodes[index as usize].is_dirty = false;
            self.dirty -= 1;
        }
    }

    /// Gives a page up, written or not.
    pub(super) fn forget(&mut self, page: Page) {
        self.clean(page);
        if let Some(index) = self.at.remove(&page) {
            self.unlink(USED, index);
            self.vacant.push(index);
        }
    }

    /// The page that was not used for the longest time.
    pub(super) fn oldest(&self) -> Option<Page> {
        self.nodes.get(self.ends[USED].1 as usize).map(|node| node.page)
    }

    /// The page that has waited the longest to be written.
    pub(super) fn oldest_dirty(&self) -> Option<Page> {
        self.nodes.get(self.ends[DIRTY].1 as usize).map(|node| node.page)
    }

    fn link(&mut self, list: usize, index: u32) {
        let newest = self.ends[list].0;
        self.nodes[index as usize].links[list] = (NONE, newest);
        match newest {
            NONE => self.ends[list].1 = index,
            other => self.nodes[other as usize].links[list].0 = index,
        }
        self.ends[list].0 = index;
    }

    fn unlink(&mut self, list: usize, index: u32) {
        let (newer, older) = self.nodes[index as usize].links[list];
        match newer {
            NONE => self.ends[list].0 = older,
            other => self.nodes[other as usize].links[list].1 = older,
        }
        match older {
            NONE => self.ends[list].1 = newer,
            other => self.nodes[other as usize].links[list].0 = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    /// Against two plain lists.
    #[test]
    fn it_is_an_lru_list_and_a_list_of_what_is_not_written() {
        const CAPACITY: usize = 16;
        let mut ram = Ram::new(CAPACITY);
        let (mut used, mut dirty): (Vec<Page>, Vec<Page>) = Default::default();
        let mut rng = Rng::new(1);
        let mut full = 0;
        for _ in 0..20_000 {
            let volume = rng.below(2) as u8;
            let page = Page { volume, number: rng.below(20) as u32 };
            match rng.below(8) {
                0 => {
                    ram.forget(page);
                    used.retain(|known| *known != page);
                    dirty.retain(|known| *known != page);
                }
                1 => {
                    ram.clean(page);
                    dirty.retain(|known| *known != page);
                }
                what => {
                    assert_eq!(ram.touch(page), used.contains(&page));
                    if used.contains(&page) {
                        used.retain(|known| *known != page);
                    } else {
                        if ram.is_full() {
                            full += 1;
                            let gone = used.remove(0);
                            dirty.retain(|known| *known != gone);
                            assert_eq!(ram.oldest(), Some(gone));
                            ram.forget(gone);
                        }
                        ram.insert(page);
                    }
                    used.push(page);
                    if what < 4 {
                        ram.soil(page);
                        if !dirty.contains(&page) {
                            dirty.push(page);
                        }
                    }
                }
            }
            assert_eq!(ram.oldest(), used.first().copied());
            assert_eq!(ram.oldest_dirty(), dirty.first().copied());
            assert_eq!((ram.len(), ram.dirty()), (used.len(), dirty.len()));
            assert!(ram.is_dirty(page) == dirty.contains(&page) && ram.nodes.len() <= CAPACITY);
        }
        assert!(full > 1000, "{full}");
    }
}
