//! Where 1,024 logical blocks live that follow each other.
//!
//! A leaf has 16 rows of 64 blocks. A row has five words of bits, which say where each of its blocks lies, and
//! the slots that they lie in: five bytes for each, in the order of the blocks. How many bits are set before a
//! block's own says where its slot stands. A leaf whose blocks lie in no slot and are all alike has no rows.

use super::entry::{Entry, FRAGMENTS, HOME, LOG, SSD};
use super::slots::{NONE, Packed, pack, unpack};

/// Blocks of a leaf.
pub(super) const LEAF_BLOCKS: u64 = LEAF_ROWS as u64 * ROW_BLOCKS;
const LEAF_ROWS: usize = 16;
/// Blocks whose state is in one cache line, and blocks whose slots are in one at least.
pub(super) const ROW_BLOCKS: u64 = u64::BITS as u64;
pub(super) const SLOT_BLOCKS: u64 = 16;

/// Bytes of the slots that a row has room for, in the steps in which it grows. Memory is given in multiples of 16
/// bytes, of which 8 are the allocator's own.
const ALLOCATOR_BYTES: usize = 8;
const ROOMS_BYTES: [usize; 9] = [24, 40, 56, 88, 120, 184, 248, 376, 648];
/// Slots that a row with few has room for.
const ROOM_MIN: usize = ROOMS_BYTES[0] / size_of::<Packed>();

/// 64 blocks: a cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct LeafRow {
    ssd: u64,
    log: u64,
    fragmented: u64,
    homes: u64,
    /// Homes that the newest composed batch, or an older one, calls valid.
    recorded: u64,
    slots: Vec<Packed>,
}

impl LeafRow {
    /// Where the block's first slot stands, or would.
    #[inline]
    fn rank(&self, bit: u64) -> usize {
        let before = bit - 1;
        let in_log = if self.log == 0 { 0 } else { (self.log & before).count_ones() };
        ((self.ssd & before).count_ones() + in_log) as usize
    }

    #[inline]
    fn state(&self, bit: u64) -> u8 {
        let of = |word: u64, state: u8| if word & bit != 0 { state } else { 0 };
        of(self.homes, HOME)
            | of(self.ssd, SSD)
            | of(self.log, LOG)
            | of(self.fragmented, FRAGMENTS)
    }

    #[inline]
    fn get(&self, bit: u64) -> Entry {
        self.get_at(bit, if (self.ssd | self.log) & bit == 0 { 0 } else { self.rank(bit) })
    }

    #[inline]
    fn get_at(&self, bit: u64, at: usize) -> Entry {
        let (on_ssd, in_log) = (self.ssd & bit != 0, self.log & bit != 0);
        Entry {
            home: self.homes & bit != 0,
            ssd: if on_ssd { unpack(self.slots[at]) } else { NONE },
            log: if in_log { unpack(self.slots[at + usize::from(on_ssd)]) } else { NONE },
            fragmented: self.fragmented & bit != 0,
        }
    }

    fn replace(&mut self, bit: u64, new: Entry) -> Entry {
        let at = self.rank(bit);
        let old = self.get_at(bit, at);
        let had = usize::from(old.ssd != NONE) + usize::from(old.log != NONE);
        let needs = usize::from(new.ssd != NONE) + usize::from(new.log != NONE);
        if needs > had {
            self.make_room(needs - had);
            (had..needs).for_each(|_| self.slots.insert(at, Packed::default()));
        } else if needs < had {
            self.slots.drain(at..at + (had - needs));
            self.give_room_back();
        }
        let slots = [new.ssd, new.log].into_iter().filter(|slot| *slot != NONE);
        slots.zip(at..).for_each(|(slot, at)| self.slots[at] = pack(slot));
        for (word, value) in [
            (&mut self.homes, new.home),
            (&mut self.ssd, new.ssd != NONE),
            (&mut self.log, new.log != NONE),
            (&mut self.fragmented, new.fragmented),
        ] {
            set(word, bit, value);
        }
        old
    }

    fn make_room(&mut self, more: usize) {
        let wanted = self.slots.len() + more;
        if wanted > self.slots.capacity() {
            let mut rooms = ROOMS_BYTES.into_iter().map(|bytes| bytes / size_of::<Packed>());
            let room = rooms.find(|room| *room >= wanted);
            let room = room.expect("a block has two slots at most");
            self.slots.reserve_exact(room - self.slots.len());
        }
    }

    /// Memory goes with what is used, also when much has left.
    fn give_room_back(&mut self) {
        let used = self.slots.len();
        if used == 0 {
            self.slots = Vec::new();
        } else if 2 * used + ROOM_MIN <= self.slots.capacity() {
            self.slots.shrink_to(used + used / 4);
        }
    }

    /// Bytes that the slots take, with the allocator's own.
    fn slots_bytes(&self) -> usize {
        match self.slots.capacity() {
            0 => 0,
            room => (size_of::<Packed>() * room + ALLOCATOR_BYTES).next_multiple_of(16),
        }
    }

    /// Whether all blocks lie at home, now and as recorded, if they are alike and lie in no slot.
    fn alike(&self) -> Option<(bool, bool)> {
        let all = |word: u64| [0, u64::MAX].contains(&word).then_some(word != 0);
        if self.ssd | self.log | self.fragmented != 0 {
            return None;
        }
        Some((all(self.homes)?, all(self.recorded)?))
    }
}

/// The leaf.
#[derive(Clone, Debug)]
pub(super) enum Leaf {
    /// No block lies in a slot or under fragments.
    Alike {
        homes: bool,
        recorded: bool,
    },
    Rows(Box<[LeafRow; LEAF_ROWS]>),
}

/// The row of a block, and its bit there.
#[inline]
fn row_of(block: u64) -> (usize, u64) {
    ((block / ROW_BLOCKS) as usize, 1 << (block % ROW_BLOCKS))
}

impl Leaf {
    /// A leaf whose blocks lie at home, now and as recorded, or nowhere.
    pub(super) fn new(at_home: bool) -> Self {
        Leaf::Alike { homes: at_home, recorded: at_home }
    }

    #[inline]
    fn rows(&mut self) -> &mut [LeafRow; LEAF_ROWS] {
        if let Leaf::Alike { homes, recorded } = *self {
            let word = |all: bool| if all { u64::MAX } else { 0 };
            let row =
                || LeafRow { homes: word(homes), recorded: word(recorded), ..LeafRow::default() };
            *self = Leaf::Rows(Box::new(std::array::from_fn(|_| row())));
        }
        let Leaf::Rows(rows) = self else { unreachable!("they were made") };
        rows
    }

    /// Rows that are all alike go. The one that was changed is this one.
    #[inline]
    fn join(&mut self, changed: usize) {
        let Leaf::Rows(rows) = self else { return };
        let Some(alike) = rows[changed].alike() else { return };
        if rows.iter().all(|row| row.alike() == Some(alike)) {
            *self = Leaf::Alike { homes: alike.0, recorded: alike.1 };
        }
    }

    /// The block's state.
    #[inline]
    pub(super) fn state(&self, block: u64) -> u8 {
        let (row, bit) = row_of(block);
        match self {
            Leaf::Alike { homes, .. } => {
                if *homes {
                    HOME
                } else {
                    0
                }
            }
            Leaf::Rows(rows) => rows[row].state(bit),
        }
    }

    /// Where the block lives.
    #[inline]
    pub(super) fn get(&self, block: u64) -> Entry {
        let (row, bit) = row_of(block);
        match self {
            Leaf::Alike { homes, .. } => Entry { home: *homes, ..Entry::NOWHERE },
            Leaf::Rows(rows) => rows[row].get(bit),
        }
    }

    /// Replaces where the block lives. Returns where it lived.
    #[inline]
    pub(super) fn replace(&mut self, block: u64, new: Entry) -> Entry {
        if let Leaf::Alike { homes, .. } = *self
            && new == (Entry { home: homes, ..Entry::NOWHERE })
        {
            return new;
        }
        let (row, bit) = row_of(block);
        let old = self.rows()[row].replace(bit, new);
        if new != old && new.state() & !HOME == 0 {
            self.join(row);
        }
        old
    }

    /// Does a record call the block's home valid?
    #[inline]
    pub(super) fn recorded_home(&self, block: u64) -> bool {
        let (row, bit) = row_of(block);
        match self {
            Leaf::Alike { recorded, .. } => *recorded,
            Leaf::Rows(rows) => rows[row].recorded & bit != 0,
        }
    }

    /// The same of the 64 blocks of a row.
    pub(super) fn recorded_homes(&self, row: usize) -> u64 {
        match self {
            Leaf::Alike { recorded, .. } => {
                if *recorded {
                    u64::MAX
                } else {
                    0
                }
            }
            Leaf::Rows(rows) => rows[row].recorded,
        }
    }

    /// Notes whether a record calls the block's home valid.
    #[inline]
    pub(super) fn set_recorded_home(&mut self, block: u64, valid: bool) {
        if self.recorded_home(block) == valid {
            return;
        }
        let (row, bit) = row_of(block);
        set(&mut self.rows()[row].recorded, bit, valid);
        self.join(row);
    }

    /// Homes of these blocks are valid, now and as recorded.
    pub(super) fn assume_home(&mut self, first: u64, end: u64) {
        assert!(first < end && end <= LEAF_BLOCKS, "blocks of one leaf");
        assert_eq!(self.next_in_slot(first, end), None, "blocks that lie in no slot");
        if matches!(self, Leaf::Alike { .. }) && (first, end) == (0, LEAF_BLOCKS) {
            *self = Leaf::new(true);
            return;
        }
        for index in row_of(first).0..=row_of(end - 1).0 {
            let bits = bits_within(index, first, end);
            let row = &mut self.rows()[index];
            row.homes |= bits;
            row.recorded |= bits;
        }
        self.join(row_of(first).0);
    }

    /// The first block in `from..to` that lies in a slot or under fragments.
    pub(super) fn next_in_slot(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |row| row.ssd | row.log | row.fragmented)
    }

    /// The first block in `from..to` that lies on an SSD or under fragments.
    pub(super) fn next_on_ssd(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |row| row.ssd | row.fragmented)
    }

    /// The first block in `from..to` that lies on an SSD but not at home, without fragments.
    pub(super) fn next_dirty(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |row| row.ssd & !row.homes & !row.fragmented)
    }

    /// The first blocks in `from..to` that lie anywhere, and follow each other in a row: the first one, and behind
    /// the last.
    pub(super) fn next_used(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        if let Leaf::Alike { homes, .. } = self {
            return homes.then_some((from, to));
        }
        let used = |row: &LeafRow| row.ssd | row.log | row.fragmented | row.homes;
        let first = self.next(from, to, used)?;
        let end = self.next(first, to, |row| !used(row)).unwrap_or(to);
        Some((first, end.min((first / ROW_BLOCKS + 1) * ROW_BLOCKS)))
    }

    fn next(&self, from: u64, to: u64, wanted: impl Fn(&LeafRow) -> u64) -> Option<u64> {
        let Leaf::Rows(rows) = self else { return None };
        for index in row_of(from).0..to.div_ceil(ROW_BLOCKS) as usize {
            let found = wanted(&rows[index]) & bits_within(index, from, to);
            if found != 0 {
                return Some(index as u64 * ROW_BLOCKS + u64::from(found.trailing_zeros()));
            }
        }
        None
    }

    /// Asks memory for the block's row.
    #[inline]
    pub(super) fn prefetch(&self, block: u64) {
        if let Leaf::Rows(rows) = self {
            tandem_block::prefetch(&rows[..], row_of(block).0);
        }
    }

    /// Asks memory for the block's slot. It reads the row, so that should be there.
    #[inline]
    pub(super) fn prefetch_slot(&self, block: u64) {
        if let Leaf::Rows(rows) = self {
            let (row, bit) = row_of(block);
            tandem_block::prefetch(&rows[row].slots, rows[row].rank(bit));
        }
    }

    /// Bytes of memory held for all rows, and for the slots of this block's row.
    #[inline]
    pub(super) fn held_bytes(&self, block: u64) -> usize {
        let Leaf::Rows(rows) = self else { return 0 };
        size_of_val::<[LeafRow]>(&rows[..]) + rows[row_of(block).0].slots_bytes()
    }

    /// Bytes of memory held, without the leaf itself.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let Leaf::Rows(rows) = self else { return 0 };
        let slots = rows.iter().map(LeafRow::slots_bytes);
        size_of_val::<[LeafRow]>(&rows[..]) + slots.sum::<usize>()
    }
}

/// Which blocks of a row lie in `from..to` of the leaf.
#[inline]
fn bits_within(row: usize, from: u64, to: u64) -> u64 {
    let first = row as u64 * ROW_BLOCKS;
    let (begin, end) = (from.max(first) - first, to.clamp(first, first + ROW_BLOCKS) - first);
    if begin >= end {
        return 0;
    }
    u64::MAX << begin & u64::MAX >> (ROW_BLOCKS - end)
}

#[inline]
fn set(word: &mut u64, bit: u64, value: bool) {
    *word = if value { *word | bit } else { *word & !bit };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::NUMBERS_END;
    use tandem_block::Rng;

    fn entry(rng: &mut Rng, density_ppm: u64) -> Entry {
        let mut slot = |ppm| if rng.chance_ppm(ppm) { rng.below(NUMBERS_END) } else { NONE };
        let (ssd, log) = (slot(density_ppm), slot(density_ppm / 4));
        let fragmented = rng.chance_ppm(density_ppm / 8);
        Entry { home: rng.chance_ppm(400_000), ssd, log, fragmented }
    }

    /// A leaf is what an array of entries would be, at every density, and in every order.
    #[test]
    fn as_an_array_would() {
        for (seed, density_ppm) in [(1, 3_000), (2, 100_000), (3, 700_000), (4, 1_000_000)] {
            let mut rng = Rng::new(seed);
            let (mut leaf, mut plain) = (Leaf::new(false), vec![Entry::NOWHERE; 1024]);
            let spread = [1024, 16, 1024, 300][seed as usize - 1];
            for round in 0..6000 {
                let far = rng.below(4) * 256 + rng.below(spread);
                let block = if round < 3000 { far % LEAF_BLOCKS } else { rng.below(LEAF_BLOCKS) };
                let new = entry(&mut rng, density_ppm);
                assert_eq!(leaf.replace(block, new), plain[block as usize], "round {round}");
                plain[block as usize] = new;
                let asked = rng.below(LEAF_BLOCKS);
                let want = plain[asked as usize];
                assert_eq!((leaf.get(asked), leaf.state(asked)), (want, want.state()));
            }
            compare(&leaf, &plain);
            let slots: usize = plain.iter().map(slots_of).sum();
            let rows = LEAF_ROWS * size_of::<LeafRow>();
            let most = rows + 12 * slots + LEAF_ROWS * 2 * ROOMS_BYTES[0];
            assert!(leaf.memory_bytes() <= most, "{} of {most} bytes", leaf.memory_bytes());
            for block in 0..LEAF_BLOCKS {
                leaf.replace(block, Entry::NOWHERE);
            }
            assert_eq!(leaf.memory_bytes(), 0);
        }
    }

    fn slots_of(entry: &Entry) -> usize {
        usize::from(entry.ssd != NONE) + usize::from(entry.log != NONE)
    }

    fn compare(leaf: &Leaf, plain: &[Entry]) {
        let next = |from: u64, wanted: fn(&Entry) -> bool| {
            (from..LEAF_BLOCKS).find(|block| wanted(&plain[*block as usize]))
        };
        for (from, want) in (0..).zip(plain) {
            assert_eq!((leaf.get(from), leaf.state(from)), (*want, want.state()));
            assert_eq!(
                leaf.next_on_ssd(from, LEAF_BLOCKS),
                next(from, |it| it.ssd != NONE || it.fragmented)
            );
            assert_eq!(
                leaf.next_dirty(from, LEAF_BLOCKS),
                next(from, |it| it.ssd != NONE && !it.home && !it.fragmented)
            );
            let in_slot = |entry: &Entry| entry.state() & !HOME != 0;
            assert_eq!(leaf.next_in_slot(from, LEAF_BLOCKS), next(from, in_slot));
            assert_eq!(leaf.next_in_slot(from, from), None);
        }
    }

    #[test]
    fn blocks_that_are_all_alike_take_no_memory() {
        let mut leaf = Leaf::new(false);
        leaf.assume_home(3, 1000);
        assert_eq!(leaf.memory_bytes(), 1024);
        for block in 0..LEAF_BLOCKS {
            let is_home = (3..1000).contains(&block);
            assert_eq!((leaf.get(block).home, leaf.recorded_home(block)), (is_home, is_home));
        }
        leaf.assume_home(0, LEAF_BLOCKS);
        assert_eq!(leaf.memory_bytes(), 0);
        leaf.set_recorded_home(77, false);
        assert!(leaf.get(77).home && !leaf.recorded_home(77) && leaf.recorded_home(78));
        assert_eq!(leaf.recorded_homes(1), !(1 << 13));
        leaf.set_recorded_home(77, true);
        assert_eq!((leaf.memory_bytes(), leaf.recorded_homes(1)), (0, u64::MAX));
        leaf.replace(9, Entry { home: true, ..Entry::in_slot(5, false) });
        assert!(leaf.memory_bytes() > 1024);
        for block in 0..LEAF_BLOCKS {
            leaf.replace(block, Entry::NOWHERE);
        }
        assert_eq!(leaf.memory_bytes(), 0);
        assert!(leaf.recorded_home(5) && !leaf.get(5).home, "as recorded they are still valid");
    }

    #[test]
    #[should_panic(expected = "as the format can")]
    fn a_slot_that_has_no_room_is_not_kept() {
        Leaf::new(false).replace(1, Entry::in_slot(NUMBERS_END, false));
    }
}
