//! Which extent is the hottest on the hard drives, which the coldest on the SSD? Two heaps, no scans.
//!
//! Source: [LORIS §III] picks the hottest with the highest counter, the most recently used of equals,
//! and the coldest with the lowest, the least recently used of equals; its arrays are searched whole,
//! and it wishes for priority queues.
//!
//! An extent is in the heap of one side. Both heaps lie in one table, from its two ends, so that
//! either may hold all. In 52 bytes an entry.

use super::index::Index;
use super::{Extent, Memory};
use tandem_block::Table;

/// Children of an entry: more levels cost a miss in the cache each, children lie side by side.
const ARITY: usize = 8;
/// Entries looked at for one that may be forgotten.
const LOOKED_AT: usize = 8;
const NIL: u32 = u32::MAX;

/// Where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On a hard drive alone.
    Hdd = 0,
    /// On an SSD, or with a copy there.
    Ssd = 1,
}

/// How much, and, among equals, how recently: the higher the hotter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// How hot.
    pub heat: u64,
    /// When it was used, as a number that rises.
    pub used: u64,
}

/// A node's words: the extent's halves, its position in its heap or the next free node, its side.
const POSITION: usize = 2;
const SIDE: usize = 3;

/// Every tracked extent in its order.
#[derive(Clone, Debug)]
pub struct Ranks {
    nodes: Table<[u32; 4]>,
    index: Index,
    /// Two numbers, the least of which is first out, and the node.
    entries: Table<[u64; 3]>,
    lens: [usize; 2],
    free: u32,
    fresh: u32,
    /// Where to look next for one to forget.
    hand: usize,
}

impl Ranks {
    /// For so many extents at most.
    ///
    /// # Panics
    /// If they cannot be numbered with 32 bits.
    pub fn new(entries_max: usize) -> Self {
        assert!(entries_max < NIL as usize, "{entries_max} entries are too many");
        Ranks {
            nodes: Table::new(entries_max),
            index: Index::new(entries_max),
            entries: Table::new(entries_max),
            lens: [0; 2],
            free: NIL,
            fresh: 0,
            hand: 0,
        }
    }

    /// The extent's node.
    #[inline]
    pub fn find(&self, extent: Extent) -> Option<u32> {
        let nodes: &[[u32; 4]] = &self.nodes;
        let words = [extent.0 as u32, (extent.0 >> 32) as u32];
        let is_in = |node: u32| {
            let node = &nodes[node as usize];
            [node[0], node[1]] == words
        };
        self.index.find(extent, is_in)
    }

    /// Is there no room?
    pub fn is_full(&self) -> bool {
        self.lens[0] + self.lens[1] == self.nodes.len()
    }

    /// How many are on a side.
    #[cfg(test)]
    pub fn len(&self, side: Side) -> usize {
        self.lens[side as usize]
    }

    /// Adds an extent that has no node.
    ///
    /// # Panics
    /// If there is no room.
    pub fn insert(&mut self, extent: Extent, side: Side, rank: Rank) -> u32 {
        assert!(!self.is_full(), "there is room for {extent:?}");
        let node = if self.free == NIL {
            self.fresh += 1;
            self.fresh - 1
        } else {
            let node = self.free;
            self.free = self.nodes[node as usize][POSITION];
            node
        };
        self.nodes[node as usize] = [extent.0 as u32, (extent.0 >> 32) as u32, 0, side as u32];
        self.index.insert(extent, node);
        self.push(side, rank, node);
        node
    }

    /// Forgets an extent.
    pub fn remove(&mut self, node: u32) {
        let extent = self.extent(node);
        self.pull(node);
        self.index.remove(extent, node);
        self.nodes[node as usize][POSITION] = self.free;
        self.free = node;
    }

    /// Moves an extent to a side, with its rank.
    pub fn shift(&mut self, node: u32, side: Side) {
        if self.side(node) != side {
            let rank = self.rank(node);
            self.pull(node);
            self.nodes[node as usize][SIDE] = side as u32;
            self.push(side, rank, node);
        }
    }

    /// It was used: its heat is what is made of the heat it had. Where is it?
    #[inline]
    pub fn heat_up(&mut self, node: u32, used: u64, heat: impl FnOnce(u64) -> u64) -> Side {
        let side = self.side(node);
        let mut heap = self.heap(side);
        let at = heap.nodes[node as usize][POSITION] as usize;
        let was = rank(side, heap.get(at)).heat;
        heap.place(at, entry(side, Rank { heat: heat(was), used }, node));
        side
    }

    /// Its rank.
    #[inline]
    pub fn rank(&self, node: u32) -> Rank {
        let side = self.side(node);
        let at = self.nodes[node as usize][POSITION] as usize;
        rank(side, &self.entries[physical(side, at, self.entries.len())])
    }

    /// Its side.
    #[inline]
    pub fn side(&self, node: u32) -> Side {
        if self.nodes[node as usize][SIDE] == 0 { Side::Hdd } else { Side::Ssd }
    }

    /// The extent of a node.
    #[inline]
    pub fn extent(&self, node: u32) -> Extent {
        let [low, high, ..] = self.nodes[node as usize];
        Extent(u64::from(high) << 32 | u64::from(low))
    }

    /// The hottest on the hard drives, the coldest on the SSD.
    #[inline]
    pub fn first(&self, side: Side) -> Option<u32> {
        let first = physical(side, 0, self.entries.len());
        (self.lens[side as usize] > 0).then(|| self.entries[first][2] as u32)
    }

    /// One that may be forgotten: the coldest of a few on the hard drives that have nothing colder
    /// below them. Exact it is not; it costs the same however many there are.
    pub fn cold(&mut self) -> Option<u32> {
        let len = self.lens[Side::Hdd as usize];
        // the last entry's parent has children, those after it have none
        let first = if len < 2 { 0 } else { (len - 2) / ARITY + 1 };
        let leaves = len.checked_sub(first).filter(|leaves| *leaves > 0)?;
        // far from each other: children of a hot parent may all be hot
        let looked_at = (0..LOOKED_AT)
            .map(|step| self.entries[first + (self.hand + step * leaves / LOOKED_AT) % leaves])
            .max()?;
        self.hand = (self.hand + 1) % leaves;
        Some(looked_at[2] as u32)
    }

    /// What it takes.
    pub fn memory(&self) -> Memory {
        let bytes =
            self.nodes.memory_bytes() + self.index.memory_bytes() + self.entries.memory_bytes();
        Memory { tracked_max: self.nodes.len() as u64, bytes: bytes as u64 }
    }

    fn push(&mut self, side: Side, rank: Rank, node: u32) {
        let at = self.lens[side as usize];
        self.lens[side as usize] += 1;
        self.heap(side).rise(at, entry(side, rank, node));
    }

    /// Takes a node's entry out of its heap.
    fn pull(&mut self, node: u32) {
        let side = self.side(node);
        let at = self.nodes[node as usize][POSITION] as usize;
        let last = self.lens[side as usize] - 1;
        let moves = *self.heap(side).get(last);
        self.lens[side as usize] = last;
        if at != last {
            self.heap(side).place(at, moves);
        }
    }

    #[inline]
    fn heap(&mut self, side: Side) -> Heap<'_> {
        let len = self.lens[side as usize];
        Heap { nodes: &mut self.nodes, entries: &mut self.entries, side, len }
    }
}

/// One side's heap; the tables behind it are looked up once.
struct Heap<'a> {
    nodes: &'a mut [[u32; 4]],
    entries: &'a mut [[u64; 3]],
    side: Side,
    len: usize,
}

impl Heap<'_> {
    #[inline]
    fn get(&self, at: usize) -> &[u64; 3] {
        &self.entries[physical(self.side, at, self.entries.len())]
    }

    #[inline]
    fn put(&mut self, at: usize, entry: [u64; 3]) {
        let physical = physical(self.side, at, self.entries.len());
        self.entries[physical] = entry;
        self.nodes[entry[2] as usize][POSITION] = at as u32;
    }

    /// Puts an entry where the one at this position was, or where it belongs above or below.
    #[inline]
    fn place(&mut self, at: usize, entry: [u64; 3]) {
        if at > 0 && is_before(&entry, self.get((at - 1) / ARITY)) {
            self.rise(at, entry);
        } else {
            self.sink(at, entry);
        }
    }

    #[inline]
    fn rise(&mut self, mut at: usize, entry: [u64; 3]) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = *self.get(parent);
            if !is_before(&entry, &above) {
                break;
            }
            self.put(at, above);
            at = parent;
        }
        self.put(at, entry);
    }

    #[inline]
    fn sink(&mut self, mut at: usize, entry: [u64; 3]) {
        loop {
            let first = at * ARITY + 1;
            let (mut least, mut child) = (entry, at);
            for next in first..(first + ARITY).min(self.len) {
                if is_before(self.get(next), &least) {
                    (least, child) = (*self.get(next), next);
                }
            }
            if child == at {
                break;
            }
            self.put(at, least);
            at = child;
        }
        self.put(at, entry);
    }
}

/// Where an entry of a heap lies in the table.
#[inline]
fn physical(side: Side, at: usize, entries: usize) -> usize {
    match side {
        Side::Hdd => at,
        Side::Ssd => entries - 1 - at,
    }
}

/// The hottest is first out on the hard drives, the coldest on the SSD.
#[inline]
fn entry(side: Side, rank: Rank, node: u32) -> [u64; 3] {
    match side {
        Side::Hdd => [!rank.heat, !rank.used, u64::from(node)],
        Side::Ssd => [rank.heat, rank.used, u64::from(node)],
    }
}

/// The rank of an entry.
#[inline]
fn rank(side: Side, &[heat, used, _]: &[u64; 3]) -> Rank {
    match side {
        Side::Hdd => Rank { heat: !heat, used: !used },
        Side::Ssd => Rank { heat, used },
    }
}

/// Is it out first? No two were used at the same time.
#[inline]
fn is_before(one: &[u64; 3], other: &[u64; 3]) -> bool {
    one[0] < other[0] || one[0] == other[0] && one[1] < other[1]
}
