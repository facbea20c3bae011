//! Where in its volume does a directory lie, and where the attributes of files? Before all files, each in units of its own.
//!
//! ```text
//!  units  | 0 … | 1 … |     | 0 | 1 | 2 |      | files
//!           directories       attributes
//! ```
//! Source: [LORIS §III]: a directory is a file like any other one, so a tier counts and moves it alone. The paper's
//! attributes lie with the files, in a layer below the tiers. **Choice of ours:** a page of attributes is as a file of
//! one page, because a volume has no place for them in a file.

use super::names::Names;

/// Attributes of files in a page.
const ATTRIBUTES_PER_PAGE: u32 = 16;

/// A page of a directory, or of attributes. They are counted from 0, directories first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetaPage(u32);

/// What has units of its own before the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    Directory(u32),
    Attributes(u32),
}

/// The units before those of files.
#[derive(Clone, Debug)]
pub(super) struct Front {
    unit_pages: u32,
    directories: u32,
    /// Pages of each directory.
    directory_pages: u32,
    /// Of each page: does it hold something?
    made: Vec<bool>,
}

impl Front {
    /// For these directories, and the attributes of at most so many files.
    pub(super) fn new(names: &Names, files_max: u32, unit_pages: u32) -> Front {
        let (directories, directory_pages) = (names.directories(), names.pages_each());
        let pages = directories * directory_pages + files_max.div_ceil(ATTRIBUTES_PER_PAGE);
        Front { unit_pages, directories, directory_pages, made: vec![false; pages as usize] }
    }

    /// Pages before the first of a file.
    pub(super) fn end(&self) -> u32 {
        let attributes = self.made.len() as u32 - self.directories * self.directory_pages;
        (self.directories * self.directory_units() + attributes) * self.unit_pages
    }

    /// Files whose attributes have room.
    pub(super) fn files_max(&self) -> u32 {
        let attributes = self.made.len() as u32 - self.directories * self.directory_pages;
        attributes * ATTRIBUTES_PER_PAGE
    }

    /// The page with the `page`-th of all directories' pages, as `Names` counts them.
    pub(super) fn directory_page(&self, page: u32) -> MetaPage {
        assert!(page < self.directories * self.directory_pages, "names lie in directories");
        MetaPage(page)
    }

    /// The page with a file's attributes.
    pub(super) fn attributes_page(&self, file: u32) -> MetaPage {
        MetaPage(self.directories * self.directory_pages + file / ATTRIBUTES_PER_PAGE)
    }

    /// Where in the volume a page lies.
    pub(super) fn number(&self, page: MetaPage) -> u32 {
        let attributes = self.directories * self.directory_pages;
        let unit = match page.0.checked_sub(attributes) {
            Some(index) => self.directories * self.directory_units() + index,
            None => page.0 / self.directory_pages * self.directory_units(),
        };
        let within = if page.0 < attributes { page.0 % self.directory_pages } else { 0 };
        unit * self.unit_pages + within
    }

    /// Something is written to a page. Did it hold something before?
    pub(super) fn make(&mut self, page: MetaPage) -> bool {
        std::mem::replace(&mut self.made[page.0 as usize], true)
    }

    /// Whose are the units in which a page of the volume lies? `None`: they are for files.
    pub(super) fn owner(&self, number: u32) -> Option<Meta> {
        if number >= self.end() {
            return None;
        }
        let unit = number / self.unit_pages;
        let attributes = self.directories * self.directory_units();
        Some(match unit.checked_sub(attributes) {
            Some(index) => Meta::Attributes(index),
            None => Meta::Directory(unit / self.directory_units()),
        })
    }

    fn directory_units(&self) -> u32 {
        self.directory_pages.div_ceil(self.unit_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Two directories of three pages in units of two, and attributes of 40 files.
    #[test]
    fn each_directory_and_each_page_of_attributes_has_units_of_its_own() {
        let mut front = Front::new(&Names::new(2, 130), 40, 2);
        assert_eq!((front.end(), front.files_max()), ((2 * 2 + 3) * 2, 48));
        let directory = |page| (front.directory_page(page), Meta::Directory(page / 3));
        let attributes =
            |file| (front.attributes_page(file), Meta::Attributes(file / ATTRIBUTES_PER_PAGE));
        let pages: Vec<(MetaPage, Meta)> =
            (0..6).map(directory).chain((0..48).step_by(16).map(attributes)).collect();
        let mut owners: BTreeMap<u32, Meta> = BTreeMap::new();
        for (page, meta) in &pages {
            let number = front.number(*page);
            assert_eq!(front.owner(number), Some(*meta));
            let unit = owners.entry(number / 2).or_insert(*meta);
            assert_eq!(unit, meta, "unit {} has one owner", number / 2);
        }
        assert_eq!(owners.len(), 7);
        let numbers: Vec<u32> = pages.iter().map(|(page, _)| front.number(*page)).collect();
        assert_eq!(numbers, [0, 1, 2, 4, 5, 6, 8, 10, 12]);
        assert_eq!((front.owner(3), front.owner(14)), (Some(Meta::Directory(0)), None));
        assert_eq!(front.attributes_page(15), front.attributes_page(0));
        let page = front.attributes_page(47);
        assert!(!front.make(page) && front.make(page) && !front.make(front.directory_page(5)));
    }
}
