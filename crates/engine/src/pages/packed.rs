//! A pointer in as few bytes as it has on the drives, and what pointed where before a checkpoint.
//!
//! There are two pointers for each group of 1,024 blocks that was written, so a TiB of hard drive has half a million.

use crate::format::pointer::{Kind, NUMBERS_END, Pointer};

/// Where a page of pointers stands: 1 is the lowest level, of those that point to leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) level: u8,
    pub(super) index: u64,
}

/// Bits of a page's number. The kind stands above them.
const PAGE_BITS: u32 = 40;

/// A pointer in 16 bytes. All zero is one to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    kind_and_page: u64,
    crc: u32,
    on_ssd: u16,
    dirty: u16,
}

impl Packed {
    /// Does it point to nothing?
    #[inline]
    pub(super) fn is_to_nothing(self) -> bool {
        self.kind_and_page >> PAGE_BITS == 0
    }
}

impl From<Pointer> for Packed {
    #[inline]
    fn from(pointer: Pointer) -> Packed {
        assert!(pointer.page < NUMBERS_END, "an area has fewer pages");
        let kind = match pointer.kind {
            Kind::Nothing => 0,
            Kind::Pointers => 1,
            Kind::Leaf => 2,
            Kind::AtHome => 3,
        };
        let Pointer { crc, on_ssd, dirty, .. } = pointer;
        Packed { kind_and_page: kind << PAGE_BITS | pointer.page, crc, on_ssd, dirty }
    }
}

impl From<Packed> for Pointer {
    #[inline]
    fn from(packed: Packed) -> Pointer {
        let kind = match packed.kind_and_page >> PAGE_BITS {
            0 => Kind::Nothing,
            1 => Kind::Pointers,
            2 => Kind::Leaf,
            _ => Kind::AtHome,
        };
        let page = packed.kind_and_page & ((1 << PAGE_BITS) - 1);
        Pointer { kind, page, crc: packed.crc, on_ssd: packed.on_ssd, dirty: packed.dirty }
    }
}

/// A place that points elsewhere now: in which level it is, and its number there. 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    at: u64,
    pointer: Packed,
}

/// Bits of a number within its level.
const INDEX_BITS: u32 = 56;

impl Before {
    /// There it pointed.
    pub(super) fn new(at: At, pointer: Pointer) -> Before {
        assert!(at.index >> INDEX_BITS == 0, "a table has fewer leaves");
        Before { at: u64::from(at.level) << INDEX_BITS | at.index, pointer: pointer.into() }
    }

    /// The place.
    pub(super) fn at(self) -> At {
        let index = self.at & ((1 << INDEX_BITS) - 1);
        At { level: (self.at >> INDEX_BITS) as u8, index }
    }

    /// To what it pointed.
    pub(super) fn pointer(self) -> Pointer {
        self.pointer.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_comes_back_as_it_was() {
        let leaf = Pointer { kind: Kind::Leaf, page: 5, crc: u32::MAX, on_ssd: 1024, dirty: 7 };
        let highest = Pointer { page: NUMBERS_END - 1, ..leaf };
        let pointers = Pointer { kind: Kind::Pointers, page: 0, crc: 0, on_ssd: 0, dirty: 0 };
        for pointer in [Pointer::default(), Pointer::AT_HOME, leaf, highest, pointers] {
            let packed = Packed::from(pointer);
            assert_eq!(Pointer::from(packed), pointer);
            assert_eq!(packed.is_to_nothing(), pointer.kind == Kind::Nothing, "{pointer:?}");
            for at in [At { level: 0, index: 0 }, At { level: 5, index: (1 << INDEX_BITS) - 1 }] {
                let before = Before::new(at, pointer);
                assert_eq!((before.at(), before.pointer()), (at, pointer));
            }
        }
        assert_eq!((size_of::<Packed>(), size_of::<Before>()), (16, 24));
    }
}
