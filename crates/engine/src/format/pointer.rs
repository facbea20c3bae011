//! Pages of pointers: how the tables of the metadata are found, from the root down.
//!
//! A table is a tree. Its leaves are pages of data, and above them stand pages of 256 pointers each. The map is
//! such a table: `MapLeaf` says which leaf has what. A pointer has the CRC of what it points to, which covers pool, table, level and number as well. So a page that lies
//! where another one should, or an older one, is never believed. Pages are never written over: what has changed
//! goes to other pages, and so do the pointers above it.
//!
//! ```text
//! pointer = page u40, 0 u8, kind u8 (0 nothing, 1 page of pointers, 2 leaf, 3 all blocks lie at home), 0 u8, crc u32,
//!           blocks on an SSD u16, of these not at home u16
//! page    = pointer x 256
//! ```
//! Pages are counted from the begin of the area for pages. It lies at the same page on each drive that has it.

use super::FormatError;
use super::cursor::{Reader, Writer};

const WHAT: &str = "page of pointers";
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Blocks of a leaf.
pub const LEAF_BLOCKS: usize = 1024;
/// Pointers in a page.
pub const POINTERS: usize = PAGE_BYTES as usize / POINTER_BYTES;
pub(crate) const POINTER_BYTES: usize = 16;
/// Leaves of a table at most: those of 4 PiB.
pub const LEAVES_MAX: u64 = (1 << 30) * (SET_LEAVES / SET_GROUPS);
/// The table of the map.
pub const MAP_TABLE: u8 = 1;
/// Groups of blocks whose leaves have numbers next to each other. The first page of places and the checksums of
/// these fill one page of pointers.
const SET_GROUPS: u64 = 128;
/// Leaves of such a set.
const SET_LEAVES: u64 = SET_GROUPS * (2 + FURTHER_PAGES_MAX);
/// Pages of places of a group beside the first one, at most.
pub(crate) const FURTHER_PAGES_MAX: u64 = 21;
/// Slots of a group for each page of places beside its first one, at least. A slot takes 11 bytes at most.
const FURTHER_PAGE_SLOTS: u64 = 300;
/// Pages of an area beside those of two tables. A leaf that changes again before its checkpoint is durable is
/// written anew before the page that it had is free.
const AREA_PAGES_SPARE: u64 = 16;
/// Numbers of blocks, slots and pages are below this one: it stands for none.
pub const NUMBERS_END: u64 = (1 << 40) - 1;

/// What a pointer points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the blocks below it lie nowhere.
    #[default]
    Nothing,
    /// A page of pointers.
    Pointers,
    /// A leaf.
    Leaf,
    /// No page: all blocks of the group lie at home, and nowhere else.
    AtHome,
}

/// The pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    /// To what.
    pub kind: Kind,
    /// The page.
    pub page: u64,
    /// CRC-32C, as `crc` computes it.
    pub crc: u32,
    /// Blocks of the leaf that lie on an SSD, or under fragments.
    pub on_ssd: u16,
    /// Of these, blocks that lie nowhere else.
    pub dirty: u16,
}

/// What a leaf of the map says of a group: of 1,024 blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapLeaf {
    /// Where the blocks lie. The first page, or a further one: they are counted from 0.
    Places(u64),
    /// The checksums of what they hold.
    Checksums,
}

impl MapLeaf {
    /// The number of the leaf. It does not change when the map grows.
    ///
    /// # Panics
    /// If a group has no such page.
    pub fn leaf(self, group: u64) -> u64 {
        let (set, within) = (group / SET_GROUPS * SET_LEAVES, group % SET_GROUPS);
        set + match self {
            MapLeaf::Places(0) => 2 * within,
            MapLeaf::Checksums => 2 * within + 1,
            MapLeaf::Places(page) => {
                assert!(page <= FURTHER_PAGES_MAX, "a group has so many pages of places");
                2 * SET_GROUPS + within * FURTHER_PAGES_MAX + page - 1
            }
        }
    }

    /// Of which group it is, and what it says.
    pub fn of_leaf(leaf: u64) -> (u64, MapLeaf) {
        let (first, within) = (leaf / SET_LEAVES * SET_GROUPS, leaf % SET_LEAVES);
        match within.checked_sub(2 * SET_GROUPS) {
            None if within.is_multiple_of(2) => (first + within / 2, MapLeaf::Places(0)),
            None => (first + within / 2, MapLeaf::Checksums),
            Some(further) => {
                let (group, page) = (further / FURTHER_PAGES_MAX, further % FURTHER_PAGES_MAX);
                (first + group, MapLeaf::Places(page + 1))
            }
        }
    }
}

/// Groups of so many blocks.
pub const fn groups_of(blocks: u64) -> u64 {
    blocks.div_ceil(LEAF_BLOCKS as u64)
}

/// Leaves of a map of so many groups: numbers of whole sets.
pub const fn leaves_of(groups: u64) -> u64 {
    groups.div_ceil(SET_GROUPS) * SET_LEAVES
}

/// Which page this is, of all that a pool ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageName {
    /// The pool.
    pub pool: u128,
    /// Which table.
    pub table: u8,
    /// How many pages of pointers are below this one: 0 for a leaf.
    pub level: u8,
    /// Its number on this level.
    pub index: u64,
}

impl PageName {
    /// CRC-32C of the page: of its name, and of its bytes.
    pub fn crc(&self, bytes: &[u8]) -> u32 {
        let mut named = Writer { bytes: Vec::with_capacity(32 + bytes.len()) };
        named.u128(self.pool);
        named.u64(self.index);
        named.u8(self.table);
        named.u8(self.level);
        named.bytes.extend_from_slice(bytes);
        super::crc32c(&named.bytes)
    }
}

impl Pointer {
    /// Of a group whose blocks all lie at home, and nowhere else.
    pub const AT_HOME: Pointer =
        Pointer { kind: Kind::AtHome, page: 0, crc: 0, on_ssd: 0, dirty: 0 };

    /// The page that it is to.
    pub fn page(&self) -> Option<u64> {
        matches!(self.kind, Kind::Pointers | Kind::Leaf).then_some(self.page)
    }

    /// Does the other one point to the same bytes of the same page, wherever they lie? Of two drives.
    pub fn is_same(&self, other: &Pointer) -> bool {
        (self.kind, self.crc) == (other.kind, other.crc)
    }

    /// Appends it.
    ///
    /// # Panics
    /// If it cannot be.
    pub(crate) fn write(&self, out: &mut Writer) {
        if self.kind == Kind::Nothing {
            assert_eq!(*self, Pointer::default(), "a pointer to nothing says nothing");
            out.bytes.extend_from_slice(&[0; POINTER_BYTES]);
            return;
        }
        assert!(self.kind != Kind::AtHome || *self == Pointer::AT_HOME, "it says nothing else");
        assert!(self.dirty <= self.on_ssd, "what lies nowhere else lies on an SSD");
        assert!(usize::from(self.on_ssd) <= LEAF_BLOCKS, "a leaf has no more blocks");
        out.u40(self.page);
        out.u8(0);
        out.u8(match self.kind {
            Kind::Nothing => unreachable!("written above"),
            Kind::Pointers => 1,
            Kind::Leaf => 2,
            Kind::AtHome => 3,
        });
        out.u8(0);
        out.u32(self.crc);
        out.u16(self.on_ssd);
        out.u16(self.dirty);
    }

    /// Reads one.
    ///
    /// # Errors
    /// What no pool writes.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Pointer, FormatError> {
        let wrong = |field, value| Err(FormatError::Field { what: WHAT, field, value });
        let (page, zero, kind) = (reader.u40()?, reader.u8()?, reader.u8()?);
        let zero = zero | reader.u8()?;
        let (crc, on_ssd, dirty) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let found = Pointer { kind: Kind::Nothing, page, crc, on_ssd, dirty };
        let is_at_home = Pointer { kind: Kind::AtHome, ..found } == Pointer::AT_HOME;
        let kind = match kind {
            0 if zero == 0 && found == Pointer::default() => return Ok(found),
            1 if on_ssd == 0 => Kind::Pointers,
            2 => Kind::Leaf,
            3 if is_at_home => Kind::AtHome,
            _ => return wrong("kind of a pointer", u64::from(kind)),
        };
        if zero != 0 {
            return wrong("byte of a pointer that is zero", u64::from(zero));
        }
        if page >= NUMBERS_END {
            return wrong("page", page);
        }
        if dirty > on_ssd || usize::from(on_ssd) > LEAF_BLOCKS {
            return wrong("number of blocks", u64::from(on_ssd));
        }
        Ok(Pointer { kind, ..found })
    }
}

/// Pages of pointers on each level above so many leaves, the lowest first.
pub(crate) fn pages_of_levels(leaves: u64) -> Vec<u64> {
    let mut below = leaves;
    let mut pages = Vec::new();
    while below > POINTERS as u64 {
        below = below.div_ceil(POINTERS as u64);
        pages.push(below);
    }
    pages
}

/// Pages of an area in which the table of a map always finds room: those of the durable root, and of one more.
/// `slots`: how many there are for its blocks.
pub fn area_pages(groups: u64, slots: u64) -> u64 {
    if groups == 0 {
        return 0;
    }
    let leaves = 2 * groups + slots / FURTHER_PAGE_SLOTS + 1;
    let pointers: u64 = pages_of_levels(leaves_of(groups)).into_iter().sum();
    2 * (leaves + pointers) + AREA_PAGES_SPARE
}

/// Pages of an area in which the table of a map finds room, though a checkpoint may have to take what has changed in
/// parts: those of the durable root, pages of pointers anew, and leaves of one group or more.
pub(crate) fn area_pages_least(groups: u64, slots: u64) -> u64 {
    if groups == 0 {
        return 0;
    }
    let leaves = 2 * groups + slots / FURTHER_PAGE_SLOTS + 1;
    let pointers: u64 = pages_of_levels(leaves_of(groups)).into_iter().sum();
    (leaves + leaves / 16 + 2 * pointers + 2 * (1 + FURTHER_PAGES_MAX))
        .min(area_pages(groups, slots))
}

/// A table as a root names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRoot {
    /// How many leaves it has, `LEAVES_MAX` at most.
    pub leaves: u64,
    /// Pointers to the highest pages, or to the leaves of a table that has few.
    pub top: Vec<Pointer>,
}

impl TableRoot {
    /// A table of which nothing was written.
    pub fn empty(leaves: u64) -> Self {
        let highest = pages_of_levels(leaves).last().copied().unwrap_or(leaves);
        TableRoot { leaves, top: vec![Pointer::default(); highest as usize] }
    }

    /// How many levels of pages stand between the root and the leaves.
    pub fn levels(&self) -> u8 {
        pages_of_levels(self.leaves).len() as u8
    }

    /// Appends it.
    pub(super) fn write(&self, out: &mut Writer) {
        assert_eq!(
            self.top.len(),
            TableRoot::empty(self.leaves).top.len(),
            "a root has all pointers"
        );
        out.u64(self.leaves);
        out.u32(self.top.len() as u32);
        out.u32(0);
        self.top.iter().for_each(|pointer| pointer.write(out));
    }

    /// Reads one.
    ///
    /// # Errors
    /// What no pool writes.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<TableRoot, FormatError> {
        let wrong =
            |field, value| Err(FormatError::Field { what: "checkpoint root", field, value });
        let leaves = reader.u64()?;
        if leaves > LEAVES_MAX {
            return wrong("number of leaves", leaves);
        }
        let (count, zero) = (reader.u32()?, reader.u32()?);
        let mut found = TableRoot::empty(leaves);
        if count as usize != found.top.len() || zero != 0 {
            return wrong("number of pointers", u64::from(count));
        }
        for pointer in &mut found.top {
            *pointer = Pointer::read(reader)?;
        }
        Ok(found)
    }
}

/// The bytes of a page of pointers.
pub fn encode(pointers: &[Pointer; POINTERS]) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::with_capacity(PAGE_BYTES as usize) };
    pointers.iter().for_each(|pointer| pointer.write(&mut out));
    assert_eq!(out.bytes.len() as u64, PAGE_BYTES, "pointers fill a page");
    out.bytes
}

/// Reads a page of pointers.
///
/// # Errors
/// What no pool writes.
pub fn decode(bytes: &[u8]) -> Result<[Pointer; POINTERS], FormatError> {
    if bytes.len() as u64 != PAGE_BYTES {
        return Err(FormatError::Short { what: WHAT, at: bytes.len() });
    }
    let mut reader = Reader::new(bytes, WHAT);
    let mut pointers = [Pointer::default(); POINTERS];
    for pointer in &mut pointers {
        *pointer = Pointer::read(&mut reader)?;
    }
    Ok(pointers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [Pointer; POINTERS] {
        let mut pointers = [Pointer::default(); POINTERS];
        let leaf = Pointer { kind: Kind::Leaf, page: 77, crc: 5, on_ssd: 1024, dirty: 9 };
        pointers[1] = leaf;
        pointers[2] = Pointer::AT_HOME;
        let page = NUMBERS_END - 1;
        pointers[255] = Pointer { kind: Kind::Pointers, page, on_ssd: 0, dirty: 0, ..leaf };
        pointers
    }

    #[test]
    fn pointers_come_back() {
        for pointers in [sample(), [Pointer::default(); POINTERS]] {
            assert_eq!(decode(&encode(&pointers)), Ok(pointers));
        }
        assert!(decode(&encode(&sample())[..4000]).is_err());
    }

    #[test]
    fn what_no_pool_writes_is_refused() {
        let bytes = encode(&sample());
        // (which pointer, which byte of it, what stands there then)
        for (pointer, at, value) in [
            (0, 0, 1),
            (0, 7, 1),
            (0, 15, 1),
            (1, 5, 1),
            (1, 6, 4),
            (1, 6, 3),
            (1, 7, 1),
            (1, 15, 8),
            (1, 13, 5),
            (2, 0, 2),
            (2, 8, 2),
            (2, 12, 1),
            (255, 5, 2),
            (255, 12, 1),
            (255, 0, 255),
        ] {
            let mut wrong = bytes.clone();
            wrong[pointer * POINTER_BYTES + at] = value;
            assert!(decode(&wrong).is_err(), "byte {at} of pointer {pointer}");
        }
    }

    /// Each part of each group has a leaf of its own, and the map grows at its end.
    #[test]
    fn leaves_are_numbered_once() {
        let mut seen = std::collections::BTreeSet::new();
        for group in 0..300 {
            let places = (0..=FURTHER_PAGES_MAX).map(MapLeaf::Places);
            for part in places.chain([MapLeaf::Checksums]) {
                let leaf = part.leaf(group);
                assert!(seen.insert(leaf), "{part:?} of {group}");
                assert_eq!(MapLeaf::of_leaf(leaf), (group, part));
                assert!(leaf < leaves_of(group + 1), "{part:?} of {group}");
            }
        }
        assert_eq!((leaves_of(0), leaves_of(1), leaves_of(128)), (0, SET_LEAVES, SET_LEAVES));
        assert_eq!(leaves_of(groups_of(1 << 40)), LEAVES_MAX);
        let end = MapLeaf::Places(FURTHER_PAGES_MAX).leaf((1 << 30) - 1);
        assert_eq!(end, LEAVES_MAX - 1);
    }

    #[test]
    fn a_checksum_is_of_one_page_alone() {
        let name = PageName { pool: 1, table: 0, level: 1, index: 9 };
        let bytes = encode(&sample());
        let mut other = bytes.clone();
        other[4095] ^= 1;
        let crc = name.crc(&bytes);
        assert_eq!(name.crc(&bytes), crc);
        for (name, bytes) in [
            (PageName { pool: 2, ..name }, &bytes),
            (PageName { table: 1, ..name }, &bytes),
            (PageName { level: 0, ..name }, &bytes),
            (PageName { index: 10, ..name }, &bytes),
            (name, &other),
        ] {
            assert_ne!(name.crc(bytes), crc);
        }
    }
}
