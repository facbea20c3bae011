//! The bytes of a leaf: where 1,024 logical blocks live, as recorded, and their checksums.
//!
//! A leaf has a few pages. It says neither whose it is nor how old: its pointer has the CRC, which covers pool
//! and number as well. So a page of another leaf, or of an older time, is never believed.
//!
//! ```text
//! plain = checksum u32 x 1024                          all blocks lie at home, and nowhere else: one page
//! mixed = homes u64 x 16, on an SSD u64 x 16, in a log u64 x 16, under fragments u64 x 16,
//!         slot u40 of each block on an SSD and in a log, in the order of blocks, the SSD's first,
//!         checksum u32 of each block at home, on an SSD or in a log,
//!         of each block under fragments: count u8, (slot u40, checksum u32, mask u8) x count, oldest first,
//!         zero to the end of the page
//! ```

use super::FormatError;
use super::cursor::{Reader, Writer};
use super::pointer::{self, LEAF_BLOCKS, PAGE_BYTES};
use super::record::{FRAGMENTS_MAX, FragmentRecord};
use crate::map::Slot;

const WHAT: &str = "leaf";
/// Words of bits, a bit for each block.
const WORDS: usize = LEAF_BLOCKS / 64;
/// Pages of a leaf at most: each block with two slots, a checksum and eight fragments.
pub const LEAF_PAGES_MAX: u64 = ((4 * 8 * WORDS
    + LEAF_BLOCKS * (2 * 5 + 4 + 1 + FRAGMENTS_MAX * 10)) as u64)
    .div_ceil(PAGE_BYTES);

/// What a leaf says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafImage {
    /// Blocks whose home holds the version.
    pub homes: [u64; WORDS],
    /// Blocks that lie on an SSD.
    pub ssd: [u64; WORDS],
    /// Blocks that lie in a log.
    pub log: [u64; WORDS],
    /// Blocks under fragments.
    pub fragmented: [u64; WORDS],
    /// Slots in the order of blocks, of each block the SSD's first.
    pub slots: Vec<Slot>,
    /// Checksums of the blocks at home, on an SSD or in a log, in order.
    pub checksums: Vec<u32>,
    /// Fragments of the blocks under any, in order, the oldest first.
    pub fragments: Vec<Vec<FragmentRecord>>,
}

fn count(words: impl IntoIterator<Item = u64>) -> usize {
    words.into_iter().map(|word| word.count_ones() as usize).sum()
}

impl LeafImage {
    /// All blocks lie at home, and nowhere else.
    fn is_plain(&self) -> bool {
        self.homes == [u64::MAX; WORDS] && self.slots.is_empty() && self.fragments.is_empty()
    }

    fn slots_wanted(&self) -> usize {
        count(self.ssd) + count(self.log)
    }

    fn checksums_wanted(&self) -> usize {
        let words = self.homes.iter().zip(&self.ssd).zip(&self.log);
        count(words.map(|((home, ssd), log)| home | ssd | log))
    }

    /// The bytes to write, whole pages, and whether they are of a plain leaf.
    ///
    /// # Panics
    /// If lists and bits differ, or a slot has no number of 40 bits.
    pub fn encode(&self) -> (Vec<u8>, bool) {
        assert_eq!(self.slots.len(), self.slots_wanted(), "a slot for each bit");
        assert_eq!(self.checksums.len(), self.checksums_wanted(), "a checksum for each block");
        assert_eq!(self.fragments.len(), count(self.fragmented), "fragments for each bit");
        let mut out = Writer::default();
        if self.is_plain() {
            self.checksums.iter().for_each(|checksum| out.u32(*checksum));
            assert_eq!(out.bytes.len() as u64, PAGE_BYTES, "a plain leaf is one page");
            return (out.bytes, true);
        }
        for words in [&self.homes, &self.ssd, &self.log, &self.fragmented] {
            words.iter().for_each(|word| out.u64(*word));
        }
        self.slots.iter().for_each(|slot| out.u40(*slot));
        self.checksums.iter().for_each(|checksum| out.u32(*checksum));
        for list in &self.fragments {
            assert!(
                (1..=FRAGMENTS_MAX).contains(&list.len()),
                "a block has one to eight fragments"
            );
            out.u8(list.len() as u8);
            for fragment in list {
                assert!(!is_whole_or_empty(fragment.mask), "a fragment is some sectors of a block");
                out.u40(fragment.slot);
                out.u32(fragment.checksum);
                out.u8(fragment.mask);
            }
        }
        out.pad_to(out.bytes.len().next_multiple_of(PAGE_BYTES as usize));
        (out.bytes, false)
    }

    /// Reads a leaf whose bytes its pointer vouches for.
    ///
    /// # Errors
    /// What no pool writes.
    pub fn decode(bytes: &[u8], is_plain: bool) -> Result<LeafImage, FormatError> {
        let mut reader = Reader::new(bytes, WHAT);
        let mut image = LeafImage::default();
        if is_plain {
            image.homes = [u64::MAX; WORDS];
            image.checksums = (0..LEAF_BLOCKS).map(|_| reader.u32()).collect::<Result<_, _>>()?;
            return ends(reader, bytes, image);
        }
        let LeafImage { homes, ssd, log, fragmented, .. } = &mut image;
        for words in [homes, ssd, log, fragmented] {
            for word in words.iter_mut() {
                *word = reader.u64()?;
            }
        }
        for _ in 0..image.slots_wanted() {
            image.slots.push(slot(&mut reader)?);
        }
        for _ in 0..image.checksums_wanted() {
            image.checksums.push(reader.u32()?);
        }
        for _ in 0..count(image.fragmented) {
            image.fragments.push(fragments(&mut reader)?);
        }
        if image.is_plain() {
            return Err(FormatError::Field { what: WHAT, field: "kind of a plain leaf", value: 0 });
        }
        ends(reader, bytes, image)
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

/// Behind what was read come zeroes, to the end of that page.
fn ends(reader: Reader<'_>, bytes: &[u8], image: LeafImage) -> Result<LeafImage, FormatError> {
    let at = reader.position();
    let is_end = bytes.len() == at.next_multiple_of(PAGE_BYTES as usize);
    if !is_end || bytes[at..].iter().any(|byte| *byte != 0) {
        let value = bytes.len() as u64;
        return Err(FormatError::Field { what: WHAT, field: "length", value });
    }
    Ok(image)
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
            image.ssd[block / 64] |= bit(density_ppm);
            image.log[block / 64] |= bit(density_ppm / 2);
            image.fragmented[block / 64] |= bit(if fragments_max > 0 { density_ppm } else { 0 });
        }
        image.slots = (0..image.slots_wanted()).map(|_| rng.below(pointer::NUMBERS_END)).collect();
        image.checksums = (0..image.checksums_wanted()).map(|_| rng.bits() as u32).collect();
        for _ in 0..count(image.fragmented) {
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

    fn comes_back(image: &LeafImage) -> (u64, bool) {
        let (bytes, is_plain) = image.encode();
        assert_eq!(LeafImage::decode(&bytes, is_plain).as_ref(), Ok(image));
        // any page may be a plain leaf: its pointer says which kind it is
        let is_one_page = bytes.len() as u64 == PAGE_BYTES;
        assert_eq!(LeafImage::decode(&bytes, true).is_ok(), is_one_page);
        assert!(!is_plain || LeafImage::decode(&bytes, false).is_err(), "it is of one kind");
        assert!(LeafImage::decode(&bytes[..bytes.len() - 4096], is_plain).is_err(), "cut short");
        let longer = [&bytes[..], &[0; 4096]].concat();
        assert!(LeafImage::decode(&longer, is_plain).is_err(), "a page too many");
        (bytes.len() as u64 / PAGE_BYTES, is_plain)
    }

    #[test]
    fn every_leaf_comes_back() {
        let mut rng = Rng::new(5);
        for density_ppm in [0, 1_000, 30_000, 500_000, 999_000] {
            for fragments_max in [0, 1, 8] {
                comes_back(&random(&mut rng, density_ppm, fragments_max));
            }
        }
        assert_eq!(comes_back(&LeafImage::default()), (1, false));
        let mut full = random(&mut rng, 1_000_000, 8);
        full.log = [u64::MAX; WORDS];
        full.slots = vec![7; 2 * LEAF_BLOCKS];
        let fragment = FragmentRecord { slot: 3, checksum: 4, mask: 5 };
        full.fragments = vec![vec![fragment; FRAGMENTS_MAX]; LEAF_BLOCKS];
        assert_eq!(comes_back(&full), (LEAF_PAGES_MAX, false), "the largest");
    }

    #[test]
    fn a_leaf_whose_blocks_all_lie_at_home_is_a_page_of_checksums() {
        let homes = [u64::MAX; WORDS];
        let checksums: Vec<u32> = (0..LEAF_BLOCKS as u32).collect();
        let image = LeafImage { homes, checksums, ..LeafImage::default() };
        assert_eq!(comes_back(&image), (1, true));
        let (bytes, _) = image.encode();
        assert_eq!(bytes[4092..], 1023u32.to_le_bytes());
    }

    #[test]
    fn what_no_pool_writes_is_refused() {
        let mut rng = Rng::new(6);
        let sound = random(&mut rng, 100_000, 3);
        let (bytes, _) = sound.encode();
        let fragments_at = 512 + 5 * sound.slots.len() + 4 * sound.checksums.len();
        // (where, what stands there then, which field is named)
        for (at, value, field) in [
            (512, &[255; 5][..], "slot"),
            (fragments_at, &[0], "number of fragments"),
            (fragments_at, &[9], "number of fragments"),
            (fragments_at + 1, &[255; 5], "slot"),
            (fragments_at + 10, &[0], "mask of a fragment"),
            (fragments_at + 10, &[255], "mask of a fragment"),
            (bytes.len() - 1, &[1], "length"),
        ] {
            let mut wrong = bytes.clone();
            wrong[at..at + value.len()].copy_from_slice(value);
            let said = LeafImage::decode(&wrong, false).expect_err("it is refused").to_string();
            assert!(said.contains(field), "byte {at}: {said}");
        }
    }
}
