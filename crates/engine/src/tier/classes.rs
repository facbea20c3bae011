//! What does the tier of an extent's owner say, while no request of his is there to ask?
//!
//! Source: [LORIS §III]: each volume has its policy; here each file may have its own, too. Files take
//! blocks where there are some, so an extent may hold parts of several files, of different tiers: then the
//! last request for any of it decides. It is a matter of where bytes lie for a while, never of which.

use super::collect::Extent;
use super::{Class, Comes};

/// No tier with a share has its bytes.
const NOBODY: u8 = 0;
const COMES: u8 = 7;
const KEEPS_ALONE: u8 = 8;

/// The class of each extent: a byte for each.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    of: Vec<u8>,
}

fn code(class: Class) -> u8 {
    let comes = match class.comes {
        Comes::Never => 1,
        Comes::WhenRead => 2,
        Comes::AtIntervals => 3,
        Comes::FromLog => 4,
    };
    if class.keeps_alone { comes | KEEPS_ALONE } else { comes }
}

impl Classes {
    /// For so many extents.
    pub(crate) fn new(extents: u64) -> Classes {
        let extents = usize::try_from(extents).expect("they have an index");
        Classes { of: vec![NOBODY; extents] }
    }

    /// A request of this class, or of no tier with a share, touches an extent. Returns whether what it
    /// keeps alone changes.
    #[inline]
    pub(crate) fn note(&mut self, extent: Extent, class: Option<Class>) -> bool {
        let code = class.map_or(NOBODY, code);
        let before = std::mem::replace(&mut self.of[extent.0 as usize], code);
        (before ^ code) & KEEPS_ALONE != 0
    }

    /// When does it come, if a hard drive was read for it?
    #[inline]
    pub(crate) fn comes(&self, extent: Extent) -> Comes {
        match self.of[extent.0 as usize] & COMES {
            2 => Comes::WhenRead,
            3 => Comes::AtIntervals,
            4 => Comes::FromLog,
            _ => Comes::Never,
        }
    }

    /// Does it stay on the SSD alone, if it was written there?
    #[inline]
    pub(crate) fn keeps_alone(&self, extent: Extent) -> bool {
        self.of[extent.0 as usize] & KEEPS_ALONE != 0
    }

    /// RAM that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.of.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_for_an_extent_decides() {
        let mut classes = Classes::new(3);
        assert_eq!(classes.bytes(), 3);
        let is = |classes: &Classes, extent| {
            (classes.comes(Extent(extent)), classes.keeps_alone(Extent(extent)))
        };
        assert_eq!(is(&classes, 1), (Comes::Never, false));
        for comes in [Comes::Never, Comes::WhenRead, Comes::AtIntervals, Comes::FromLog] {
            for keeps_alone in [false, true] {
                let changes = classes.note(Extent(1), Some(Class { comes, keeps_alone }));
                assert_eq!(is(&classes, 1), (comes, keeps_alone));
                assert_eq!(changes, keeps_alone || comes != Comes::Never, "it was the other one");
                for other in [0, 2] {
                    assert_eq!(is(&classes, other), (Comes::Never, false));
                }
            }
        }
        assert!(classes.note(Extent(1), None), "it kept what was written");
        assert!(!classes.note(Extent(1), None));
        assert_eq!(is(&classes, 1), (Comes::Never, false));
    }
}
