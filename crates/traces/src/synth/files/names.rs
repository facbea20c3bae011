//! In which directory, and where in it, does a name stand?
//!
//! A directory is a row of entries in pages of its own; a freed entry is used again before the row
//! gets longer.

/// Names in a page of a directory.
const NAMES_PER_PAGE: u32 = 64;

/// The directories of a volume, all with the same room.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Entries of each, in whole pages.
    room: u32,
    /// Of each: entries ever used, and those of them that are free.
    directories: Vec<(u32, Vec<u32>)>,
}

impl Names {
    /// So many directories with room for at least so many names each.
    pub(super) fn new(directories: u32, names: u32) -> Names {
        assert!(directories > 0, "names stand in directories");
        let room = names.max(1).next_multiple_of(NAMES_PER_PAGE);
        Names { room, directories: vec![(0, Vec::new()); directories as usize] }
    }

    /// How many they are.
    pub(super) fn directories(&self) -> u32 {
        self.directories.len() as u32
    }

    /// Pages of each.
    pub(super) fn pages_each(&self) -> u32 {
        self.room / NAMES_PER_PAGE
    }

    /// An entry in this directory, or in the next one that has room.
    pub(super) fn take(&mut self, directory: u32) -> Option<u32> {
        let count = self.directories.len() as u32;
        (0..count).map(|step| (directory + step) % count).find_map(|index| {
            let (used, free) = &mut self.directories[index as usize];
            let entry = free.pop().or_else(|| {
                (*used < self.room).then(|| {
                    *used += 1;
                    *used - 1
                })
            })?;
            Some(index * self.room + entry)
        })
    }

    /// The entry is free.
    pub(super) fn give(&mut self, name: u32) {
        let (index, entry) = (name / self.room, name % self.room);
        self.directories[index as usize].1.push(entry);
    }

    /// Which directory an entry is in.
    pub(super) fn directory(&self, name: u32) -> u32 {
        name / self.room
    }

    /// The page of all directories' pages that an entry is in.
    pub(super) fn page(&self, name: u32) -> u32 {
        name / NAMES_PER_PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_used_again_and_a_full_directory_is_passed_by() {
        let mut names = Names::new(2, 60);
        assert_eq!((names.directories(), names.pages_each()), (2, 1));
        let all: Vec<u32> = (0..64).map(|_| names.take(1).unwrap()).collect();
        assert!(all.iter().all(|&name| (names.directory(name), names.page(name)) == (1, 1)));
        assert_eq!(names.take(1), Some(0), "the second one is full");
        names.give(all[7]);
        assert_eq!(names.take(1), Some(all[7]));
        (1..64).for_each(|entry| assert_eq!(names.take(0), Some(entry)));
        assert_eq!(names.take(0), None);
    }
}
