//! The bytes of the places of a group: where 1,024 logical blocks live, as recorded.
//!
//! They take a page, or several where many blocks lie in slots. They say neither whose they are nor how old: the
//! pointer of each page has the CRC, which covers pool and number as well. So a page of another group, or of an older
//! time, is never believed. A group whose blocks lie nowhere, or all at home, has no bytes.
//!
//! ```text
//! places = homes u64 x 16, in a slot u64 x 16, under fragments u64 x 16,
//!          of each block in a slot, in their order: slot u40,
//!          of each block under fragments: count u8, (slot u40, checksum u32, mask u8) x count, oldest first,
//!          zero to the end of the page
//! ```

use super::FormatError;
use super::cursor::{Reader, Writer};
use super::pointer::{self, FURTHER_PAGES_MAX, Kind, LEAF_BLOCKS, PAGE_BYTES};
use super::record::{FRAGMENTS_MAX, FragmentRecord};
use crate::map::Slot;

const WHAT: &str = "leaf";
/// Words of bits, a bit for each block.
const WORDS: usize = LEAF_BLOCKS / 64;
/// A bit for each block of a group.
pub type GroupBits = [u64; WORDS];
/// Bytes at most: each block with a slot and eight fragments.
const BYTES_MAX: usize = 3 * 8 * WORDS + LEAF_BLOCKS * (5 + 1 + FRAGMENTS_MAX * 10);
const _: () = assert!(
    (BYTES_MAX as u64).div_ceil(PAGE_BYTES) == 1 + FURTHER_PAGES_MAX,
    "there are numbers for all pages of a group"
);

/// Where the blocks of a group live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafImage {
    /// Blocks whose home holds the version.
    pub homes: GroupBits,
    /// Blocks that lie in a slot of an SSD or of a log.
    pub placed: GroupBits,
    /// Blocks under fragments.
    pub fragmented: GroupBits,
    /// Slots in the order of blocks.
    pub slots: Vec<Slot>,
    /// Fragments of the blocks under any, in order, the oldest first.
    pub fragments: Vec<Vec<FragmentRecord>>,
}

fn count(words: &GroupBits) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The bits of so many blocks, from the first one on.
fn first_bits(blocks: usize) -> GroupBits {
    std::array::from_fn(|word| match blocks.saturating_sub(64 * word) {
        0 => 0,
        count @ 1..64 => (1 << count) - 1,
        _ => u64::MAX,
    })
}

/// The blocks of a group that are marked, in order.
pub(crate) fn marked(words: &GroupBits) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(64 * index + bit)
        })
    })
}

impl LeafImage {
    /// What the pointer to it is, of a group of so many blocks.
    pub fn kind(&self, blocks: usize) -> Kind {
        let none = [0; WORDS];
        match (&self.homes, self.placed == none && self.fragmented == none) {
            (homes, true) if *homes == none => Kind::Nothing,
            // the last group may become a whole one
            (homes, true) if *homes == first_bits(LEAF_BLOCKS) && blocks == LEAF_BLOCKS => {
                Kind::AtHome
            }
            _ => Kind::Leaf,
        }
    }

    /// Of a group with so many blocks, all of which lie at home.
    pub(crate) fn at_home(blocks: usize) -> LeafImage {
        LeafImage { homes: first_bits(blocks), ..LeafImage::default() }
    }

    /// Does it say something of blocks behind these?
    pub fn is_within(&self, blocks: usize) -> bool {
        let exist = first_bits(blocks);
        let of = [&self.homes, &self.placed, &self.fragmented];
        of.iter().all(|words| words.iter().zip(&exist).all(|(word, exist)| word & !exist == 0))
    }

    /// The pages to write: one at least.
    ///
    /// # Panics
    /// If lists and bits differ, or a slot has no number of 40 bits.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        assert_eq!(self.slots.len(), count(&self.placed), "a slot for each bit");
        assert_eq!(self.fragments.len(), count(&self.fragmented), "fragments for each bit");
        let mut out = Writer { bytes: Vec::with_capacity(PAGE_BYTES as usize) };
        for words in [&self.homes, &self.placed, &self.fragmented] {
            words.iter().for_each(|word| out.u64(*word));
        }
        self.slots.iter().for_each(|slot| out.u40(*slot));
        for list in &self.fragments {
            let is_bounded = (1..=FRAGMENTS_MAX).contains(&list.len());
            assert!(is_bounded, "a block has one to eight fragments");
            out.u8(list.len() as u8);
            for fragment in list {
                assert!(!is_whole_or_empty(fragment.mask), "a fragment is some sectors of a block");
                out.u40(fragment.slot);
                out.u32(fragment.checksum);
                out.u8(fragment.mask);
            }
        }
        out.pad_to(out.bytes.len().next_multiple_of(PAGE_BYTES as usize));
        if out.bytes.len() as u64 == PAGE_BYTES {
            return vec![out.bytes];
        }
        out.bytes.chunks_exact(PAGE_BYTES as usize).map(<[u8]>::to_vec).collect()
    }

    /// Reads the pages, one behind the other. Their pointers vouch for the bytes.
    ///
    /// # Errors
    /// What no pool writes.
    pub fn decode(bytes: &[u8]) -> Result<LeafImage, FormatError> {
        let mut reader = Reader::new(bytes, WHAT);
        let mut image = LeafImage::default();
        let LeafImage { homes, placed, fragmented, .. } = &mut image;
        for words in [homes, placed, fragmented] {
            for word in words.iter_mut() {
                *word = reader.u64()?;
            }
        }
        let (placed, fragmented) = (count(&image.placed), count(&image.fragmented));
        image.slots.reserve_exact(placed);
        for _ in 0..placed {
            image.slots.push(slot(&mut reader)?);
        }
        for _ in 0..fragmented {
            image.fragments.push(fragments(&mut reader)?);
        }
        let at = reader.position();
        let is_end = bytes.len() == at.next_multiple_of(PAGE_BYTES as usize);
        if !is_end || bytes[at..].iter().any(|byte| *byte != 0) {
            let value = bytes.len() as u64;
            return Err(FormatError::Field { what: WHAT, field: "length", value });
        }
        Ok(image)
    }
}

fn is_whole_or_empty(mask: u8) -> bool {
    matches!(mask, 0 | 255)
}

fn slot(reader: &mut Reader<'_>) -> Result<Slot, FormatError> {
    match reader.u40()? {
        value if value == pointer::NUMBERS_END => {
            Err(FormatError::Field { what: WHAT, field: "slot", value })
        }
        slot => Ok(slot),
    }
}

fn fragments(reader: &mut Reader<'_>) -> Result<Vec<FragmentRecord>, FormatError> {
    let count = usize::from(reader.u8()?);
    if !(1..=FRAGMENTS_MAX).contains(&count) {
        let value = count as u64;
        return Err(FormatError::Field { what: WHAT, field: "number of fragments", value });
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let (slot, checksum, mask) = (slot(reader)?, reader.u32()?, reader.u8()?);
        if is_whole_or_empty(mask) {
            let value = u64::from(mask);
            return Err(FormatError::Field { what: WHAT, field: "mask of a fragment", value });
        }
        list.push(FragmentRecord { slot, checksum, mask });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    /// A leaf whose blocks lie at random locations.
    fn random(rng: &mut Rng, density_ppm: u64, fragments_max: u64) -> LeafImage {
        let mut image = LeafImage::default();
        for block in 0..LEAF_BLOCKS {
            let mut bit = |ppm| u64::from(rng.chance_ppm(ppm)) << (block % 64);
            image.homes[block / 64] |= bit(density_ppm);
            image.placed[block / 64] |= bit(density_ppm);
            image.fragmented[block / 64] |= bit(if fragments_max > 0 { density_ppm } else { 0 });
        }
        let slot = |rng: &mut Rng| rng.below(pointer::NUMBERS_END);
        image.slots = (0..count(&image.placed)).map(|_| slot(rng)).collect();
        for _ in 0..count(&image.fragmented) {
            let fragment = |rng: &mut Rng| FragmentRecord {
                slot: rng.below(pointer::NUMBERS_END),
                checksum: rng.bits() as u32,
                mask: rng.between(1, 254) as u8,
            };
            let list = (0..rng.between(1, fragments_max)).map(|_| fragment(rng)).collect();
            image.fragments.push(list);
        }
        image
    }

    fn comes_back(image: &LeafImage) -> u64 {
        let pages = image.encode();
        assert!(pages.iter().all(|page| page.len() as u64 == PAGE_BYTES));
        let bytes = pages.concat();
        assert_eq!(LeafImage::decode(&bytes).as_ref(), Ok(image));
        assert!(LeafImage::decode(&bytes[..bytes.len() - 4096]).is_err(), "cut short");
        let longer = [&bytes[..], &[0; 4096]].concat();
        assert!(LeafImage::decode(&longer).is_err(), "a page too many");
        pages.len() as u64
    }

    #[test]
    fn every_leaf_comes_back() {
        let mut rng = Rng::new(5);
        for density_ppm in [0, 1_000, 30_000, 500_000, 999_000] {
            for fragments_max in [0, 1, 8] {
                comes_back(&random(&mut rng, density_ppm, fragments_max));
            }
        }
        assert_eq!(comes_back(&LeafImage::default()), 1);
        let mut full = random(&mut rng, 1_000_000, 8);
        let fragment = FragmentRecord { slot: 3, checksum: 4, mask: 5 };
        full.fragments = vec![vec![fragment; FRAGMENTS_MAX]; LEAF_BLOCKS];
        assert_eq!(comes_back(&full), 1 + FURTHER_PAGES_MAX, "the largest");
    }

    /// As many slots as a page has room for, and one more.
    #[test]
    fn a_page_has_room_for_742_slots() {
        for (slots, pages) in [(742, 1), (743, 2), (1024, 2)] {
            let image = LeafImage {
                placed: first_bits(slots),
                slots: vec![7; slots],
                ..LeafImage::default()
            };
            assert_eq!(comes_back(&image), pages, "{slots}");
        }
    }

    #[test]
    fn what_lies_nowhere_or_at_home_has_no_page() {
        let nowhere = LeafImage::default();
        let homes = |blocks| LeafImage { homes: first_bits(blocks), ..LeafImage::default() };
        let placed = LeafImage { placed: first_bits(1), slots: vec![1], ..homes(70) };
        // (what it says, blocks of the group, the kind, does it end with them)
        for (image, blocks, kind, is_within) in [
            (&nowhere, 1024, Kind::Nothing, true),
            (&homes(1024), 1024, Kind::AtHome, true),
            (&homes(70), 70, Kind::Leaf, true),
            (&homes(70), 71, Kind::Leaf, true),
            (&homes(71), 70, Kind::Leaf, false),
            (&placed, 70, Kind::Leaf, true),
        ] {
            assert_eq!(
                (image.kind(blocks), image.is_within(blocks)),
                (kind, is_within),
                "{blocks}"
            );
        }
        assert_eq!(marked(&first_bits(130)).collect::<Vec<_>>(), (0..130).collect::<Vec<_>>());
    }

    #[test]
    fn what_no_pool_writes_is_refused() {
        let mut rng = Rng::new(6);
        let sound = random(&mut rng, 100_000, 3);
        let bytes = sound.encode().concat();
        let fragments_at = 384 + 5 * sound.slots.len();
        // (where, what stands there then, which field is named)
        for (at, value, field) in [
            (384, &[255; 5][..], "slot"),
            (fragments_at, &[0], "number of fragments"),
            (fragments_at, &[9], "number of fragments"),
            (fragments_at + 1, &[255; 5], "slot"),
            (fragments_at + 10, &[0], "mask of a fragment"),
            (fragments_at + 10, &[255], "mask of a fragment"),
            (bytes.len() - 1, &[1], "length"),
        ] {
            let mut wrong = bytes.clone();
            wrong[at..at + value.len()].copy_from_slice(value);
            let said = LeafImage::decode(&wrong).expect_err("it is refused").to_string();
            assert!(said.contains(field), "byte {at}: {said}");
        }
    }
}
