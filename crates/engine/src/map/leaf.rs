//! Where 1,024 logical blocks live that follow each other.
//!
//! A leaf has bits that say where each of its blocks lies, and the slots that they lie in, in the order of the blocks. How many bits are set before a block's own says where its slot stands. Bits that few leaves
//! need are kept apart. A leaf whose blocks lie in no slot and are all alike has neither.

use super::entry::{Entry, FRAGMENTS, HOME, LOG, SSD};
use super::slot_list::{Packing, SlotList, allocated};
use super::slots::NONE;

/// Blocks of a leaf.
pub(super) const LEAF_BLOCKS: u64 = LEAF_ROWS as u64 * ROW_BLOCKS;
const LEAF_ROWS: usize = 16;
/// Blocks whose bits are in one word, and in one cache line.
pub(super) const ROW_BLOCKS: u64 = u64::BITS as u64;
pub(super) const LINE_BLOCKS: u64 = 8 * ROW_BLOCKS;

/// A bit for each block.
type Words = [u64; LEAF_ROWS];

/// Blocks that are not all alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    ssd: Words,
    homes: Words,
    /// Slots before those of each row.
    before: [u16; LEAF_ROWS],
    slots: SlotList,
    log: Option<Box<Words>>,
    fragmented: Option<Box<Words>>,
    /// Homes that are valid and that the newest composed batch, or an older one, does not call so; or the other way
    /// round.
    unlike: Option<Box<Words>>,
}

#[inline]
fn word_of(words: Option<&Words>, row: usize) -> u64 {
    words.map_or(0, |words| words[row])
}

#[inline]
fn is_zero(words: &Words) -> bool {
    words.iter().all(|word| *word == 0)
}

/// Sets a bit among words that are not there where all of them are zero.
fn set_rare(words: &mut Option<Box<Words>>, row: usize, bit: u64, value: bool) {
    let known = words.get_or_insert_default();
    set(&mut known[row], bit, value);
    if known[row] == 0 && is_zero(known) {
        *words = None;
    }
}

impl Rows {
    #[inline]
    fn log(&self, row: usize) -> u64 {
        word_of(self.log.as_deref(), row)
    }

    #[inline]
    fn fragmented(&self, row: usize) -> u64 {
        word_of(self.fragmented.as_deref(), row)
    }

    #[inline]
    fn recorded(&self, row: usize) -> u64 {
        self.homes[row] ^ word_of(self.unlike.as_deref(), row)
    }

    /// Where the block's first slot stands, or would.
    #[inline]
    fn rank(&self, row: usize, bit: u64) -> usize {
        let log = self.log(row);
        let in_log = if log == 0 { 0 } else { (log & (bit - 1)).count_ones() };
        usize::from(self.before[row]) + ((self.ssd[row] & (bit - 1)).count_ones() + in_log) as usize
    }

    #[inline]
    fn state(&self, row: usize, bit: u64) -> u8 {
        let of = |word: u64, state: u8| if word & bit != 0 { state } else { 0 };
        of(self.homes[row], HOME)
            | of(self.ssd[row], SSD)
            | of(self.log(row), LOG)
            | of(self.fragmented(row), FRAGMENTS)
    }

    #[inline]
    fn get(&self, row: usize, bit: u64, packing: Packing) -> Entry {
        let is_placed = (self.ssd[row] | self.log(row)) & bit != 0;
        self.get_at(row, bit, if is_placed { self.rank(row, bit) } else { 0 }, packing)
    }

    #[inline]
    fn get_at(&self, row: usize, bit: u64, at: usize, packing: Packing) -> Entry {
        let (on_ssd, in_log) = (self.ssd[row] & bit != 0, self.log(row) & bit != 0);
        Entry {
            home: self.homes[row] & bit != 0,
            ssd: if on_ssd { self.slots.get(at, packing) } else { NONE },
            log: if in_log { self.slots.get(at + usize::from(on_ssd), packing) } else { NONE },
            fragmented: self.fragmented(row) & bit != 0,
        }
    }

    fn replace(&mut self, row: usize, bit: u64, new: Entry, packing: Packing) -> Entry {
        let at = self.rank(row, bit);
        let old = self.get_at(row, bit, at, packing);
        let had = usize::from(old.ssd != NONE) + usize::from(old.log != NONE);
        let needs = usize::from(new.ssd != NONE) + usize::from(new.log != NONE);
        if needs > had {
            self.slots.insert(at, needs - had, packing);
            self.before[row + 1..].iter_mut().for_each(|count| *count += (needs - had) as u16);
        } else if needs < had {
            self.slots.remove(at, had - needs, packing);
            self.before[row + 1..].iter_mut().for_each(|count| *count -= (had - needs) as u16);
        }
        let slots = [new.ssd, new.log].into_iter().filter(|slot| *slot != NONE);
        slots.zip(at..).for_each(|(slot, at)| self.slots.set(at, slot, packing));
        set(&mut self.ssd[row], bit, new.ssd != NONE);
        if (old.log != NONE) != (new.log != NONE) {
            set_rare(&mut self.log, row, bit, new.log != NONE);
        }
        if old.fragmented != new.fragmented {
            set_rare(&mut self.fragmented, row, bit, new.fragmented);
        }
        if old.home != new.home {
            // what is recorded stays as it is
            set(&mut self.homes[row], bit, new.home);
            self.flip_unlike(row, bit);
        }
        old
    }

    fn flip_unlike(&mut self, row: usize, bits: u64) {
        let unlike = self.unlike.get_or_insert_default();
        unlike[row] ^= bits;
        if unlike[row] == 0 && is_zero(unlike) {
            self.unlike = None;
        }
    }

    /// Bytes of memory held, with the allocator's own.
    #[inline]
    fn memory_bytes(&self) -> usize {
        let rare = [&self.log, &self.fragmented, &self.unlike].into_iter().flatten().count();
        let words = allocated(size_of::<Words>());
        allocated(size_of::<Rows>()) + self.slots.memory_bytes() + rare * words
    }

    /// Whether all blocks of a row lie at home, now and as recorded, if they are alike and lie in no slot.
    #[inline]
    fn alike(&self, row: usize) -> Option<(bool, bool)> {
        let all = |word: u64| [0, u64::MAX].contains(&word).then_some(word != 0);
        if self.ssd[row] | self.log(row) | self.fragmented(row) != 0 {
            return None;
        }
        Some((all(self.homes[row])?, all(self.recorded(row))?))
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
    Rows(Box<Rows>),
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
    fn rows(&mut self) -> &mut Rows {
        if let Leaf::Alike { homes, recorded } = *self {
            let word = |all: bool| if all { u64::MAX } else { 0 };
            let unlike = (homes != recorded).then(|| Box::new([u64::MAX; LEAF_ROWS]));
            let rows = Rows { homes: [word(homes); LEAF_ROWS], unlike, ..Rows::default() };
            *self = Leaf::Rows(Box::new(rows));
        }
        let Leaf::Rows(rows) = self else { unreachable!("they were made") };
        rows
    }

    /// Rows that are all alike go. The one that was changed is this one.
    #[inline]
    fn join(&mut self, changed: usize) {
        let Leaf::Rows(rows) = self else { return };
        let Some(alike) = rows.alike(changed) else { return };
        if (0..LEAF_ROWS).all(|row| rows.alike(row) == Some(alike)) {
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
            Leaf::Rows(rows) => rows.state(row, bit),
        }
    }

    /// Where the block lives.
    #[inline]
    pub(super) fn get(&self, block: u64, packing: Packing) -> Entry {
        let (row, bit) = row_of(block);
        match self {
            Leaf::Alike { homes, .. } => Entry { home: *homes, ..Entry::NOWHERE },
            Leaf::Rows(rows) => rows.get(row, bit, packing),
        }
    }

    /// Replaces where the block lives. Returns where it lived.
    #[inline]
    pub(super) fn replace(&mut self, block: u64, new: Entry, packing: Packing) -> Entry {
        if let Leaf::Alike { homes, .. } = *self
            && new == (Entry { home: homes, ..Entry::NOWHERE })
        {
            return new;
        }
        let (row, bit) = row_of(block);
        let old = self.rows().replace(row, bit, new, packing);
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
            Leaf::Rows(rows) => rows.recorded(row) & bit != 0,
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
            Leaf::Rows(rows) => rows.recorded(row),
        }
    }

    /// Notes whether a record calls the block's home valid.
    #[inline]
    pub(super) fn set_recorded_home(&mut self, block: u64, valid: bool) {
        if self.recorded_home(block) == valid {
            return;
        }
        let (row, bit) = row_of(block);
        self.rows().flip_unlike(row, bit);
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
        let rows = self.rows();
        for row in row_of(first).0..=row_of(end - 1).0 {
            let bits = bits_within(row, first, end);
            let unlike = word_of(rows.unlike.as_deref(), row) & bits;
            rows.homes[row] |= bits;
            if unlike != 0 {
                rows.flip_unlike(row, unlike);
            }
        }
        self.join(row_of(first).0);
    }

    /// The first block in `from..to` that lies in a slot or under fragments.
    pub(super) fn next_in_slot(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |rows, row| rows.ssd[row] | rows.log(row) | rows.fragmented(row))
    }

    /// The first block in `from..to` that lies on an SSD or under fragments.
    pub(super) fn next_on_ssd(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |rows, row| rows.ssd[row] | rows.fragmented(row))
    }

    /// The first block in `from..to` that lies on an SSD, and neither at home nor in a log, without fragments.
    pub(super) fn next_dirty(&self, from: u64, to: u64) -> Option<u64> {
        let dirty = |rows: &Rows, row: usize| {
            rows.ssd[row] & !rows.homes[row] & !rows.log(row) & !rows.fragmented(row)
        };
        self.next(from, to, dirty)
    }

    /// The first block in `from..to` that lies on an SSD, and at home or in a log, without fragments.
    pub(super) fn next_clean(&self, from: u64, to: u64) -> Option<u64> {
        let clean = |rows: &Rows, row: usize| {
            rows.ssd[row] & (rows.homes[row] | rows.log(row)) & !rows.fragmented(row)
        };
        self.next(from, to, clean)
    }

    /// The first blocks in `from..to` that lie anywhere, and follow each other in a row: the first one, and behind
    /// the last.
    pub(super) fn next_used(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        if let Leaf::Alike { homes, .. } = self {
            return homes.then_some((from, to));
        }
        let used = |rows: &Rows, row: usize| {
            rows.ssd[row] | rows.log(row) | rows.fragmented(row) | rows.homes[row]
        };
        let first = self.next(from, to, used)?;
        let end = self.next(first, to, |rows, row| !used(rows, row)).unwrap_or(to);
        Some((first, end.min((first / ROW_BLOCKS + 1) * ROW_BLOCKS)))
    }

    fn next(&self, from: u64, to: u64, wanted: impl Fn(&Rows, usize) -> u64) -> Option<u64> {
        let Leaf::Rows(rows) = self else { return None };
        for row in row_of(from).0..to.div_ceil(ROW_BLOCKS) as usize {
            let found = wanted(rows, row) & bits_within(row, from, to);
            if found != 0 {
                return Some(row as u64 * ROW_BLOCKS + u64::from(found.trailing_zeros()));
            }
        }
        None
    }

    /// Asks memory for the block's bits.
    #[inline]
    pub(super) fn prefetch(&self, block: u64) {
        if let Leaf::Rows(rows) = self {
            let row = row_of(block).0;
            tandem_block::prefetch(&rows.ssd, 0);
            tandem_block::prefetch(&rows.ssd, row);
            tandem_block::prefetch(&rows.homes, row);
        }
    }

    /// Asks memory for the block's slot. It reads the bits, so they should be there.
    #[inline]
    pub(super) fn prefetch_slot(&self, block: u64, packing: Packing) {
        if let Leaf::Rows(rows) = self {
            let (row, bit) = row_of(block);
            rows.slots.prefetch(rows.rank(row, bit), packing);
        }
    }

    /// Bytes of memory held, without the leaf itself.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Leaf::Alike { .. } => 0,
            Leaf::Rows(rows) => rows.memory_bytes(),
        }
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
    use super::super::slots::{DRIVE_SLOTS_MAX, SlotRegion};
    use super::*;
    use crate::format::pointer::NUMBERS_END;
    use tandem_block::{DeviceId, Rng};

    /// Of the largest pool.
    fn packing() -> Packing {
        Packing::of(&[SlotRegion::new(DeviceId(63), false, DRIVE_SLOTS_MAX, 0)])
    }

    fn entry(rng: &mut Rng, density_ppm: u64) -> Entry {
        let mut slot = |ppm| if rng.chance_ppm(ppm) { rng.below(NUMBERS_END - 1) } else { NONE };
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
                assert_eq!(
                    leaf.replace(block, new, packing()),
                    plain[block as usize],
                    "round {round}"
                );
                plain[block as usize] = new;
                let asked = rng.below(LEAF_BLOCKS);
                let want = plain[asked as usize];
                assert_eq!((leaf.get(asked, packing()), leaf.state(asked)), (want, want.state()));
            }
            compare(&leaf, &plain);
            let slots: usize = plain.iter().map(slots_of).sum();
            // five bytes for each slot, and half of that more where slots have left
            let most = 352 + 3 * 144 + 8 * slots + 32;
            assert!(leaf.memory_bytes() <= most, "{} of {most} bytes", leaf.memory_bytes());
            for block in 0..LEAF_BLOCKS {
                leaf.replace(block, Entry::NOWHERE, packing());
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
            assert_eq!((leaf.get(from, packing()), leaf.state(from)), (*want, want.state()));
            assert_eq!(
                leaf.next_on_ssd(from, LEAF_BLOCKS),
                next(from, |it| it.ssd != NONE || it.fragmented)
            );
            assert_eq!(leaf.next_dirty(from, LEAF_BLOCKS), next(from, |it| it.state() == SSD));
            assert_eq!(
                leaf.next_clean(from, LEAF_BLOCKS),
                next(from, |it| {
                    let state = it.state();
                    state & SSD != 0 && state & (HOME | LOG) != 0 && !it.fragmented
                })
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
        assert_eq!(leaf.memory_bytes(), 352);
        for block in 0..LEAF_BLOCKS {
            let is_home = (3..1000).contains(&block);
            assert_eq!(
                (leaf.get(block, packing()).home, leaf.recorded_home(block)),
                (is_home, is_home)
            );
        }
        leaf.assume_home(0, LEAF_BLOCKS);
        assert_eq!(leaf.memory_bytes(), 0);
        leaf.set_recorded_home(77, false);
        assert!(leaf.get(77, packing()).home && !leaf.recorded_home(77) && leaf.recorded_home(78));
        assert_eq!(leaf.recorded_homes(1), !(1 << 13));
        leaf.set_recorded_home(77, true);
        assert_eq!((leaf.memory_bytes(), leaf.recorded_homes(1)), (0, u64::MAX));
        leaf.replace(9, Entry { home: true, ..Entry::in_slot(5, false) }, packing());
        assert!((368..540).contains(&leaf.memory_bytes()));
        for block in 0..LEAF_BLOCKS {
            leaf.replace(block, Entry::NOWHERE, packing());
        }
        assert_eq!(leaf.memory_bytes(), 0);
        assert!(
            leaf.recorded_home(5) && !leaf.get(5, packing()).home,
            "as recorded they are still valid"
        );
    }
}
