//! Which leaves of the map's table say where the blocks of a group lie?

use super::tree::wrong;
use super::{Counts, PageWrite, Pages};
use crate::format::FormatError;
use crate::format::leaf::LeafImage;
use crate::format::pointer::{FURTHER_PAGES_MAX, Kind, MapLeaf, Pointer, groups_of};

impl Pages {
    /// Where the blocks of a group lie goes to other pages. `blocks`: so many the group has. `None`: there is no room,
    /// and nothing has changed.
    pub(crate) fn write_places(
        &mut self,
        group: u64,
        (image, counts): &(LeafImage, Counts),
        blocks: usize,
    ) -> Option<Vec<PageWrite>> {
        assert!(image.is_within(blocks), "places of blocks that exist");
        let kind = image.kind(blocks);
        let pages = if kind == Kind::Leaf { image.encode() } else { Vec::new() };
        if !self.has_room(pages.len()) {
            return None;
        }
        let mut writes = Vec::with_capacity(pages.len());
        for (page, bytes) in (0..).zip(pages) {
            let counts = if page == 0 { *counts } else { Counts::default() };
            writes.push(self.write(MapLeaf::Places(page).leaf(group), bytes, counts)?);
        }
        if writes.is_empty() {
            self.write_none(MapLeaf::Places(0).leaf(group), kind == Kind::AtHome);
        }
        // further pages that it had before
        for page in (writes.len() as u64).max(1)..=FURTHER_PAGES_MAX {
            let leaf = MapLeaf::Places(page).leaf(group);
            if self.leaf(leaf).kind == Kind::Nothing {
                break;
            }
            self.write_none(leaf, false);
        }
        Some(writes)
    }

    /// Groups with a page of places.
    pub(crate) fn groups_with_pages(&self) -> impl Iterator<Item = u64> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let leaf = self.next_leaf(from)?;
                from = leaf + 1;
                if let (group, MapLeaf::Places(0)) = MapLeaf::of_leaf(leaf)
                    && self.leaf(leaf).kind == Kind::Leaf
                {
                    return Some(group);
                }
            }
        })
    }

    /// Are these the leaves of a map of so many blocks, of which so many have homes? A start asks that of a table that
    /// it has read.
    ///
    /// # Errors
    /// They are not.
    pub(crate) fn check_map(&self, (blocks, homes): (u64, u64)) -> Result<(), FormatError> {
        let mut from = 0;
        while let Some(number) = self.next_leaf(from) {
            from = number + 1;
            let (group, leaf) = MapLeaf::of_leaf(number);
            let is_page = self.leaf(number).kind == Kind::Leaf;
            let is_sound = match leaf {
                MapLeaf::Places(0) => group < groups_of(blocks) && (is_page || homes > 0),
                MapLeaf::Places(page) => {
                    let before = MapLeaf::Places(page - 1).leaf(group);
                    is_page && self.leaf(before).kind == Kind::Leaf
                }
                MapLeaf::Checksums => is_page && group < groups_of(blocks),
            };
            if !is_sound {
                return Err(wrong("leaf of a map that has none of this number:", number));
            }
        }
        Ok(())
    }

    /// The leaves with the places of a group, in order, and what points to them. None, if it has no page.
    pub(crate) fn places(&self, group: u64) -> Vec<(u64, Pointer)> {
        let leaves = (0..=FURTHER_PAGES_MAX).map(|page| MapLeaf::Places(page).leaf(group));
        let pointers = leaves.map(|leaf| (leaf, self.leaf(leaf)));
        pointers.take_while(|(_, pointer)| pointer.kind == Kind::Leaf).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::{MAP_TABLE, leaves_of};

    fn image(homes: u64, slots: usize) -> (LeafImage, Counts) {
        let bits = |count: usize, word: usize| match count.saturating_sub(64 * word) {
            0 => 0,
            left @ 1..64 => (1 << left) - 1,
            _ => u64::MAX,
        };
        let image = LeafImage {
            homes: [homes; 16],
            placed: std::array::from_fn(|word| bits(slots, word)),
            slots: vec![5; slots],
            ..LeafImage::default()
        };
        (image, Counts { on_ssd: slots as u16, dirty: 0 })
    }

    /// Pages come and go with what has to be said.
    #[test]
    fn a_group_has_as_many_pages_as_it_needs() {
        let mut table = Pages::new(7, MAP_TABLE, leaves_of(3), 50);
        let free = 50;
        // (what holds, its pages)
        for (image, want) in [
            (image(0, 3), 1),
            (image(0, 1024), 2),
            (image(u64::MAX, 743), 2),
            (image(u64::MAX, 0), 0),
            (image(1, 0), 1),
            (image(0, 0), 0),
            (image(0, 800), 2),
        ] {
            table.begin();
            let writes = table.write_places(1, &image, 1024).expect("there is room");
            table.leaves_written();
            let found = table.places(1);
            assert_eq!((writes.len(), found.len()), (want, want), "{:?}", image.1);
            let mut bytes = Vec::new();
            for ((leaf, pointer), write) in found.iter().zip(&writes) {
                assert_eq!(pointer.page, write.page);
                assert!(table.check_leaf(*leaf, &write.bytes).is_ok());
                bytes.extend_from_slice(&write.bytes);
            }
            let first = table.leaf(MapLeaf::Places(0).leaf(1));
            if want > 0 {
                assert_eq!(LeafImage::decode(&bytes).as_ref(), Ok(&image.0));
                assert_eq!((first.on_ssd, first.dirty), (image.1.on_ssd, 0));
            } else {
                assert_eq!(first.kind, image.0.kind(1024));
            }
            let mut pointers = 0;
            while table.write_pointers().expect("there is room").is_some() {
                pointers += 1;
            }
            assert!(pointers <= 2, "its first page, and further ones");
            table.durable();
        }
        table.begin();
        table.leaves_written();
        table.durable();
        let used = (0..free).filter(|&page| table.next_used(page) == Some(page)).count();
        assert_eq!(used, 2 + 2, "its pages, and those of pointers to them");
    }

    /// A stranger's table names leaves that no map of this size has.
    #[test]
    fn leaves_of_groups_that_do_not_exist_are_refused() {
        use MapLeaf::{Checksums, Places};
        // a map of ten groups, of which five have homes
        let sizes = (10 * 1024, 5 * 1024);
        for (leaves, is_sound) in [
            (vec![Places(0).leaf(9), Checksums.leaf(9)], true),
            (vec![Places(0).leaf(9), Places(1).leaf(9), Places(2).leaf(9)], true),
            (vec![Places(0).leaf(10)], false),
            (vec![Checksums.leaf(10)], false),
            (vec![Checksums.leaf(100)], false),
            (vec![Places(1).leaf(9)], false),
            (vec![Places(0).leaf(9), Places(2).leaf(9)], false),
            (vec![Places(0).leaf(50), Places(1).leaf(50)], false),
        ] {
            let mut table = Pages::new(7, MAP_TABLE, leaves_of(10), 50);
            table.begin();
            for &leaf in &leaves {
                table.write(leaf, vec![1; 4096], Counts::default()).expect("there is room");
            }
            table.leaves_written();
            assert_eq!(table.check_map(sizes).is_ok(), is_sound, "{leaves:?}");
            let groups: Vec<u64> = table.groups_with_pages().collect();
            assert!(groups.len() <= 1 && groups.iter().all(|group| [9, 10, 50].contains(group)));
        }
        for (leaf, homes, is_sound) in [
            (Places(0).leaf(9), 5 * 1024, true),
            (Places(0).leaf(9), 0, false),
            (Places(1).leaf(9), 5 * 1024, false),
            (Checksums.leaf(1), 5 * 1024, false),
        ] {
            let mut table = Pages::new(7, MAP_TABLE, leaves_of(10), 50);
            table.begin();
            table.write_none(leaf, true);
            table.leaves_written();
            assert_eq!(table.check_map((10 * 1024, homes)).is_ok(), is_sound, "at home: {leaf}");
        }
    }
}
