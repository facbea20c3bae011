//! Pages of pointers: how the tables of the metadata are found, from the root down.
//!
//! A table is a tree. Its leaves are pages of data, and above them stand pages of 256 pointers each. A pointer
//! has the CRC of what it points to, which covers pool, table, level and number as well. So a page that lies
//! where another one should, or an older one, is never believed. Pages are never written over: what has changed
//! goes to other pages, and so do the pointers above it.
//!
//! ```text
//! pointer = page u40, pages u8, kind u8 (0 nothing, 1 page of pointers, 2 leaf, 3 plain leaf), 0 u8, crc u32,
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
pub const LEAVES_MAX: u64 = 1 << 30;
/// The table of the checksums of homes.
pub const HOME_CHECKSUMS: u8 = 1;
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
    /// A leaf in which all blocks lie at home, and nowhere else.
    PlainLeaf,
}

/// The pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    /// To what.
    pub kind: Kind,
    /// The first page.
    pub page: u64,
    /// How many.
    pub pages: u8,
    /// CRC-32C, as `crc` computes it.
    pub crc: u32,
    /// Blocks of the leaf that lie on an SSD, or under fragments.
    pub on_ssd: u16,
    /// Of these, blocks that lie nowhere else.
    pub dirty: u16,
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
    /// Does the other one point to the same bytes of the same page, wherever they lie? Of two drives.
    pub fn is_same(&self, other: &Pointer) -> bool {
        (self.kind, self.pages, self.crc) == (other.kind, other.pages, other.crc)
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
        assert!(self.pages > 0, "a pointer is to some pages");
        assert!(self.dirty <= self.on_ssd, "what lies nowhere else lies on an SSD");
        assert!(usize::from(self.on_ssd) <= LEAF_BLOCKS, "a leaf has no more blocks");
        out.u40(self.page);
        out.u8(self.pages);
        out.u8(match self.kind {
            Kind::Nothing => unreachable!("written above"),
            Kind::Pointers => 1,
            Kind::Leaf => 2,
            Kind::PlainLeaf => 3,
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
        let (page, pages, kind) = (reader.u40()?, reader.u8()?, reader.u8()?);
        let zero = reader.u8()?;
        let (crc, on_ssd, dirty) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let found = Pointer { kind: Kind::Nothing, page, pages, crc, on_ssd, dirty };
        let kind = match kind {
            0 if zero == 0 && found == Pointer::default() => return Ok(found),
            1 if pages == 1 && on_ssd == 0 => Kind::Pointers,
            2 if pages > 0 => Kind::Leaf,
            3 if pages == 1 && on_ssd == 0 => Kind::PlainLeaf,
            _ => return wrong("kind of a pointer", u64::from(kind)),
        };
        if zero != 0 {
            return wrong("byte of a pointer that is zero", u64::from(zero));
        }
        if page + u64::from(pages) > NUMBERS_END {
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

/// Pages of a table with so many leaves of one page each, and of all pointers above them.
pub(crate) fn pages_at_most(leaves: u64) -> u64 {
    leaves + pages_of_levels(leaves).into_iter().sum::<u64>()
}

/// Pages of an area in which a table of leaves of one page each always finds room: those of the durable root,
/// and of one more.
pub fn area_pages(leaves: u64) -> u64 {
    if leaves == 0 { 0 } else { 2 * pages_at_most(leaves) + AREA_PAGES_SPARE }
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
        let leaf = Pointer { kind: Kind::Leaf, page: 77, pages: 3, crc: 5, on_ssd: 1024, dirty: 9 };
        pointers[1] = leaf;
        pointers[2] = Pointer { kind: Kind::PlainLeaf, pages: 1, on_ssd: 0, dirty: 0, ..leaf };
        let page = NUMBERS_END - 1;
        pointers[255] = Pointer { kind: Kind::Pointers, page, ..pointers[2] };
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
            (1, 5, 0),
            (1, 6, 4),
            (1, 6, 3),
            (1, 7, 1),
            (1, 15, 8),
            (1, 13, 5),
            (2, 5, 2),
            (2, 12, 1),
            (255, 5, 2),
            (255, 0, 255),
        ] {
            let mut wrong = bytes.clone();
            wrong[pointer * POINTER_BYTES + at] = value;
            assert!(decode(&wrong).is_err(), "byte {at} of pointer {pointer}");
        }
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
