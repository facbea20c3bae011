//! What may a directory of files hold, which one program uses?
//!
//! Every sector of every file is known by a token: which file, place and version it was written as, also
//! where it was copied to. In service a file is exactly what its user made it. After a crash, by what the
//! mount promises: the names are those of one moment, not before the last `fsync` of anything here; and
//! each sector of each file is one of those that it was since that file was synced.

use super::pattern::{self, Found, Place, SECTOR};
use std::collections::{BTreeMap, BTreeSet};

/// Sectors of a file at most: 1 MiB.
pub const SECTORS_MAX: u64 = 2048;
/// Bits of a token for the place within a file, and for the version.
const PLACE_BITS: u32 = 12;
const VERSION_BITS: u32 = 32;
/// Sectors of a page of the kernel's memory.
const PAGE_SECTORS: u64 = 8;

/// Zeroes.
pub const ZERO: u64 = 0;

/// A sector: what it was since its file was synced, the newest last; and of how many of these nobody
/// knows which is there.
#[derive(Clone, Debug)]
struct Sector {
    was: Vec<u64>,
    doubtful: usize,
}

impl Sector {
    fn new() -> Sector {
        Sector { was: vec![ZERO], doubtful: 0 }
    }

    /// What it may show now.
    fn now(&self) -> &[u64] {
        &self.was[self.was.len() - 1 - self.doubtful..]
    }
}

/// A file.
#[derive(Clone, Debug)]
pub struct FileModel {
    /// Its inode, once that is known.
    pub inode: Option<u64>,
    /// Bytes that it had since it was synced, the newest last; whole sectors.
    sizes: Vec<u64>,
    sectors: Vec<Sector>,
}

/// Which file has which name.
pub type Names = BTreeMap<String, u64>;

/// A directory.
#[derive(Clone, Debug)]
pub struct Tree {
    run: u64,
    number: u64,
    /// Files by number, also those without a name that a crash may bring back.
    files: BTreeMap<u64, FileModel>,
    /// Names since anything was synced, the newest last.
    names: Vec<Names>,
    next_file: u64,
    next_version: u64,
    /// What is done now was refused: it may be there, or not, or in part.
    is_doubtful: bool,
}

/// What a file was at some moment, for a snapshot: bytes and sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub size: u64,
    sectors: Vec<u64>,
}

impl FileModel {
    fn new() -> FileModel {
        let sectors = vec![Sector::new(); SECTORS_MAX as usize];
        FileModel { inode: None, sizes: vec![0], sectors }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        *self.sizes.last().expect("it has a size")
    }

    fn resize(&mut self, size: u64) {
        if size != self.size() {
            self.sizes.push(size);
        }
    }

    fn put(&mut self, sector: u64, token: u64, is_certain: bool) {
        let sector = &mut self.sectors[sector as usize];
        sector.was.push(token);
        sector.doubtful = if is_certain { 0 } else { sector.doubtful + 1 };
    }

    fn forget(&mut self) {
        self.sizes.drain(..self.sizes.len() - 1);
        for sector in &mut self.sectors {
            let gone = sector.was.len() - 1 - sector.doubtful;
            sector.was.drain(..gone);
        }
    }
}

impl Tree {
    /// An empty directory, of this run and number.
    pub fn new(run: u64, number: u64) -> Tree {
        let names = vec![Names::new()];
        Tree {
            run,
            number,
            files: BTreeMap::new(),
            names,
            next_file: 1,
            next_version: 1,
            is_doubtful: false,
        }
    }

    /// Names and the numbers of their files.
    pub fn names(&self) -> &Names {
        self.names.last().expect("there are names")
    }

    /// A file.
    pub fn file(&self, file: u64) -> &FileModel {
        &self.files[&file]
    }

    /// The place that sectors of this file are written for.
    fn place(&self, file: u64, sector: u64) -> Place {
        Place { run: self.run, volume: 1000 + self.number, sector: file << PLACE_BITS | sector }
    }

    fn token(&self, place: Place, version: u64) -> Option<u64> {
        let is_own = place.run == self.run && place.volume == 1000 + self.number;
        is_own.then_some(place.sector << VERSION_BITS | version)
    }

    /// What a sector of a file holds, as a token. None if it is nothing of this directory.
    fn read(&self, bytes: &[u8], file: u64, sector: u64) -> (Option<u64>, Found) {
        let place = self.place(file, sector);
        let found = pattern::read(bytes, place);
        let token = match &found {
            Found::Zero => Some(ZERO),
            Found::Version(version) => self.token(place, *version),
            Found::Elsewhere(place, version) => self.token(*place, *version),
            Found::Garbage(_) => None,
        };
        (token, found)
    }

    /// A new file has this name: its number.
    pub fn create(&mut self, name: &str) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, FileModel::new());
        self.change_names(|names| {
            names.insert(name.to_owned(), file);
        });
        file
    }

    /// The inode of a file that was just made is known.
    pub fn made(&mut self, file: u64, inode: u64) {
        self.change(file).inode = Some(inode);
    }

    /// A file has another name from now on, whoever had it before.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.change_names(|names| {
            if let Some(file) = names.remove(from) {
                names.insert(to.to_owned(), file);
            }
        });
    }

    /// A name is gone.
    pub fn unlink(&mut self, name: &str) {
        self.change_names(|names| {
            names.remove(name);
        });
    }

    fn change_names(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names().clone();
        change(&mut names);
        self.names.push(names);
    }

    fn change(&mut self, file: u64) -> &mut FileModel {
        self.files.get_mut(&file).expect("it was made")
    }

    /// Bytes to write into a range of sectors, and the version that they are.
    pub fn fill(&mut self, file: u64, first: u64, count: u64) -> (u64, Vec<u8>) {
        let version = self.next_version;
        self.next_version += 1;
        let mut bytes = vec![0; count as usize * SECTOR];
        for (bytes, sector) in bytes.chunks_exact_mut(SECTOR).zip(first..) {
            pattern::fill(bytes, self.place(file, sector), version);
        }
        (version, bytes)
    }

    /// What is done from now on was refused, and may have been done in part.
    pub fn begin_doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// That was all; a file has this size now.
    ///
    /// # Errors
    /// If it can't have this size.
    pub fn end_doubt(&mut self, file: u64, size: u64) -> Result<(), String> {
        self.is_doubtful = false;
        let model = self.change(file);
        let sizes = &model.sizes;
        if !sizes.contains(&size) {
            return Err(format!("a file has {size} bytes after ENOSPC; possible are {sizes:?}"));
        }
        model.resize(size);
        Ok(())
    }

    /// They are about to be written, or were.
    pub fn write(&mut self, file: u64, first: u64, count: u64, version: u64) {
        let tokens: Vec<u64> = (first..first + count)
            .map(|sector| self.token(self.place(file, sector), version).expect("its own"))
            .collect();
        let is_certain = !self.is_doubtful;
        let model = self.change(file);
        for (token, sector) in tokens.into_iter().zip(first..) {
            model.put(sector, token, is_certain);
        }
        let end = (first + count) * SECTOR as u64;
        model.resize(model.size().max(end));
    }

    /// A write that goes through the kernel's memory is about to make a file longer. The kernel sends it in
    /// several requests, each up to the end of a page (5,632 bytes at 35,840 came as 1,024 and 4,608), and
    /// the server can end between any two of them.
    pub fn may_be_split(&mut self, file: u64, first: u64, count: u64) {
        let model = self.change(file);
        let (was, page) = (model.size(), PAGE_SECTORS * SECTOR as u64);
        let (start, end) = (first * SECTOR as u64, (first + count) * SECTOR as u64);
        let pages = (start / page + 1)..end.div_ceil(page);
        pages
            .map(|number| number * page)
            .filter(|size| *size > was)
            .for_each(|size| model.resize(size));
    }

    /// A range of a file is zeroes; its size stays.
    pub fn punch(&mut self, file: u64, first: u64, count: u64) {
        let is_certain = !self.is_doubtful;
        let model = self.change(file);
        (first..first + count).for_each(|sector| model.put(sector, ZERO, is_certain));
    }

    /// A file has this size, in bytes.
    pub fn truncate(&mut self, file: u64, size: u64) {
        let is_certain = !self.is_doubtful;
        let model = self.change(file);
        let (new, old) = (size / SECTOR as u64, model.size() / SECTOR as u64);
        (new..old.max(new)).for_each(|sector| model.put(sector, ZERO, is_certain));
        model.resize(size);
    }

    /// A range of one file was copied over a range of another one.
    pub fn copy(&mut self, (from, first): (u64, u64), (to, over): (u64, u64), count: u64) {
        let source = &self.files[&from];
        let tokens: Vec<Vec<u64>> = (first..first + count)
            .map(|sector| source.sectors[sector as usize].now().to_vec())
            .collect();
        let is_certain = !self.is_doubtful;
        let model = self.change(to);
        for (tokens, sector) in tokens.into_iter().zip(over..) {
            // of what nobody knows the copy may be any
            for (index, token) in tokens.into_iter().enumerate() {
                model.put(sector, token, is_certain && index == 0);
            }
        }
        let end = (over + count) * SECTOR as u64;
        model.resize(model.size().max(end));
    }

    /// A file was synced, and with it all names.
    pub fn synced(&mut self, file: u64) {
        self.change(file).forget();
        self.names_synced();
    }

    /// All names are durable.
    pub fn names_synced(&mut self) {
        self.names.drain(..self.names.len() - 1);
        let named: BTreeSet<u64> = self.names().values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
    }

    /// The server has ended cleanly: all that it had answered is durable.
    pub fn stopped(&mut self) {
        self.names_synced();
        self.files.values_mut().for_each(FileModel::forget);
    }

    /// Compares sectors that were read in service.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn compare(&self, file: u64, first: u64, bytes: &[u8]) -> Result<(), String> {
        for (bytes, sector) in bytes.chunks_exact(SECTOR).zip(first..) {
            let (token, found) = self.read(bytes, file, sector);
            let now = self.files[&file].sectors[sector as usize].now();
            if !token.is_some_and(|token| now.contains(&token)) {
                return Err(self.describe(file, sector, &found, now));
            }
        }
        Ok(())
    }

    fn describe(&self, file: u64, sector: u64, found: &Found, possible: &[u64]) -> String {
        let told: Vec<String> = possible.iter().map(|token| describe(*token)).collect();
        format!(
            "directory {} file {file} sector {sector}: found {found}, possible are {}",
            self.number,
            told.join(", ")
        )
    }

    /// What a file is now, if that is known in all its sectors.
    pub fn content(&self, file: u64) -> Option<Content> {
        let model = &self.files[&file];
        let count = (model.size() / SECTOR as u64) as usize;
        let tokens = model.sectors[..count].iter().map(|sector| match sector.now() {
            [token] => Some(*token),
            _ => None,
        });
        Some(Content { size: model.size(), sectors: tokens.collect::<Option<_>>()? })
    }

    /// Compares all of a file with what it was at some moment.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn is_as(&self, content: &Content, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 != content.size {
            return Err(format!("it has {} bytes instead of {}", bytes.len(), content.size));
        }
        for (sector, bytes) in (0..).zip(bytes.chunks_exact(SECTOR)) {
            let (token, found) = self.read(bytes, 0, sector);
            let want = content.sectors[sector as usize];
            if token != Some(want) {
                return Err(format!("sector {sector}: found {found}, wanted {}", describe(want)));
            }
        }
        Ok(())
    }

    /// Compares what was found after the end of a server: each name with its inode and bytes. What is
    /// found is what must be there from now on.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn found(&mut self, found: &BTreeMap<String, (u64, Vec<u8>)>) -> Result<(), String> {
        // one that was being made has an inode that no other one had
        let known: BTreeSet<u64> = self.files.values().filter_map(|file| file.inode).collect();
        let is_it = |names: &&Names| {
            names.len() == found.len()
                && names.iter().all(|(name, file)| {
                    let inode = self.files[file].inode;
                    found.get(name).is_some_and(|(is, _)| match inode {
                        Some(inode) => inode == *is,
                        None => !known.contains(is),
                    })
                })
        };
        let Some(names) = self.names.iter().rev().find(is_it).cloned() else {
            let names: Vec<(&String, u64)> = found.iter().map(|(n, (i, _))| (n, *i)).collect();
            let possible: Vec<Vec<(&String, Option<u64>)>> = self
                .names
                .iter()
                .rev()
                .take(5)
                .map(|names| names.iter().map(|(n, file)| (n, self.files[file].inode)).collect())
                .collect();
            return Err(format!(
                "directory {}: the names and inodes {names:?} were never there together; the last \
                 five times it was {possible:?}, the newest first",
                self.number
            ));
        };
        for (name, file) in &names {
            let (inode, bytes) = &found[name];
            self.found_file(name, *file, bytes)?;
            self.change(*file).inode = Some(*inode);
        }
        self.names = vec![names];
        self.names_synced();
        Ok(())
    }

    fn found_file(&mut self, name: &str, file: u64, bytes: &[u8]) -> Result<(), String> {
        let size = bytes.len() as u64;
        let model = &self.files[&file];
        if !model.sizes.contains(&size) {
            let sizes = &model.sizes;
            return Err(format!("file {name} has {size} bytes; possible are {sizes:?}"));
        }
        let mut tokens = vec![ZERO; SECTORS_MAX as usize];
        for (sector, bytes) in (0..).zip(bytes.chunks_exact(SECTOR)) {
            let (token, found) = self.read(bytes, file, sector);
            let was = &model.sectors[sector as usize].was;
            match token.filter(|token| was.contains(token)) {
                Some(token) => tokens[sector as usize] = token,
                None => {
                    let what = self.describe(file, sector, &found, was);
                    return Err(format!("{name}, after the end of a server: {what}"));
                }
            }
        }
        let model = self.change(file);
        model.sizes = vec![size];
        for (sector, token) in model.sectors.iter_mut().zip(tokens) {
            *sector = Sector { was: vec![token], doubtful: 0 };
        }
        Ok(())
    }
}

fn describe(token: u64) -> String {
    if token == ZERO {
        return "zeroes".to_owned();
    }
    let (place, version) = (token >> VERSION_BITS, token & ((1 << VERSION_BITS) - 1));
    let (file, sector) = (place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1));
    format!("version {version} of file {file} sector {sector}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tree: &mut Tree, file: u64, first: u64, count: u64) -> Vec<u8> {
        let (version, bytes) = tree.fill(file, first, count);
        tree.write(file, first, count, version);
        bytes
    }

    fn found(all: &[(&str, u64, &[u8])]) -> BTreeMap<String, (u64, Vec<u8>)> {
        all.iter().map(|(name, inode, b)| ((*name).to_owned(), (*inode, b.to_vec()))).collect()
    }

    /// A directory with `a`, of inode 7, which is synced.
    fn one() -> (Tree, u64, Vec<u8>) {
        let mut tree = Tree::new(1, 0);
        let file = tree.create("a");
        tree.made(file, 7);
        let bytes = written(&mut tree, file, 0, 8);
        tree.synced(file);
        (tree, file, bytes)
    }

    #[test]
    fn in_service_a_file_is_what_was_made_of_it() {
        let (mut tree, file, old) = one();
        assert!(tree.compare(file, 0, &old).is_ok());
        let new = written(&mut tree, file, 0, 8);
        assert!(tree.compare(file, 0, &new).is_ok());
        assert!(tree.compare(file, 0, &old).is_err());
        tree.punch(file, 2, 2);
        assert!(tree.compare(file, 0, &new).is_err());
        assert!(tree.compare(file, 2, &[0; 2 * SECTOR]).is_ok());
        tree.truncate(file, 512);
        tree.truncate(file, 4096);
        assert!(tree.compare(file, 1, &[0; 7 * SECTOR]).is_ok());
        let other = tree.create("b");
        tree.copy((file, 0), (other, 5), 1);
        assert!(tree.compare(other, 5, &new[..SECTOR]).is_ok());
        assert_eq!(tree.file(other).size(), 6 * 512);
    }

    #[test]
    fn a_crash_leaves_nothing_older_than_what_was_synced() {
        let (mut tree, file, old) = one();
        let new = written(&mut tree, file, 4, 8);
        let mixed = [&old[..6 * SECTOR], &new[2 * SECTOR..4 * SECTOR]].concat();
        for (bytes, fine) in [
            (old.clone(), true),
            (mixed, true),
            ([&old[..4 * SECTOR], &new].concat(), true),
            (vec![0; 4096], false),
            (old[..SECTOR].to_vec(), false),
        ] {
            let mut tree = tree.clone();
            assert_eq!(tree.found(&found(&[("a", 7, &bytes)])).is_ok(), fine);
        }
        assert!(tree.clone().found(&found(&[])).is_err(), "the name was synced");
        assert!(tree.clone().found(&found(&[("a", 8, &old)])).is_err(), "another file");
        tree.synced(file);
        assert!(tree.found(&found(&[("a", 7, &old)])).is_err());
    }

    #[test]
    fn a_write_through_the_kernel_ends_at_its_end_or_at_a_pages() {
        let sizes = |is_split: bool| -> Vec<u64> {
            let (mut tree, file, old) = one();
            if is_split {
                tree.may_be_split(file, 6, 20);
            }
            let new = written(&mut tree, file, 6, 20);
            let all = [&old[..6 * SECTOR], &new].concat();
            let is_fine = |count: &u64| {
                let bytes = &all[..*count as usize * SECTOR];
                tree.clone().found(&found(&[("a", 7, bytes)])).is_ok()
            };
            // the newest bytes may lie under the old size, too
            (1..=26).filter(is_fine).collect()
        };
        assert_eq!(sizes(false), [8, 26]);
        assert_eq!(sizes(true), [8, 16, 24, 26]);
    }

    #[test]
    fn what_was_refused_may_be_there_in_part() {
        let (mut tree, file, old) = one();
        let (version, new) = tree.fill(file, 4, 16);
        tree.begin_doubt();
        tree.may_be_split(file, 4, 16);
        tree.write(file, 4, 16, version);
        let of = |size: u64| {
            let mut tree = tree.clone();
            tree.end_doubt(file, size).map(|()| tree)
        };
        assert!(of(9 * 512).is_err());
        let tree = of(16 * 512).unwrap();
        assert_eq!(tree.file(file).size(), 16 * 512);
        let is_fine = |first, bytes: &[u8]| tree.compare(file, first, bytes).is_ok();
        assert!(is_fine(0, &old) && is_fine(4, &new[..12 * SECTOR]));
        assert!(is_fine(8, &[0; 8 * SECTOR]) && !is_fine(0, &[0; SECTOR]));
        assert!(tree.content(file).is_none(), "nobody knows what it is");
    }

    #[test]
    fn names_are_those_of_one_moment() {
        let (mut tree, _, bytes) = one();
        let file = tree.create("b");
        tree.made(file, 8);
        tree.rename("b", "a");
        tree.unlink("a");
        for (all, fine) in [
            (&[("a", 7, &bytes[..])][..], true),
            (&[("a", 7, &bytes[..]), ("b", 8, &[][..])], true),
            (&[("a", 8, &[][..])], true),
            (&[], true),
            (&[("b", 8, &[][..])], false),
            (&[("a", 7, &bytes[..]), ("b", 7, &bytes[..])], false),
        ] {
            assert_eq!(tree.clone().found(&found(all)).is_ok(), fine, "{all:?}");
        }
        tree.names_synced();
        assert!(tree.clone().found(&found(&[])).is_ok());
        assert!(tree.found(&found(&[("a", 8, &[])])).is_err());
    }

    /// The end of the server may take a removal back, and the making of a file with the same name was cut off.
    #[test]
    fn a_name_that_is_made_again_is_not_taken_for_the_file_before() {
        let (mut tree, _, old) = one();
        tree.unlink("a");
        tree.create("a"); // nobody heard of its inode
        for (all, fine) in [
            (&[("a", 7, &old[..])][..], true),
            (&[("a", 8, &[][..])], true),
            (&[], true),
            (&[("a", 7, &[][..])], false),
            (&[("a", 8, &old)], false),
        ] {
            assert_eq!(tree.clone().found(&found(all)).is_ok(), fine, "{all:?}");
        }
    }

    #[test]
    fn a_clean_end_leaves_the_newest() {
        let (mut tree, file, old) = one();
        let new = written(&mut tree, file, 0, 8);
        tree.stopped();
        // this was in flight
        tree.unlink("a");
        assert!(tree.clone().found(&found(&[])).is_ok());
        assert!(tree.clone().found(&found(&[("a", 7, &new)])).is_ok());
        assert!(tree.found(&found(&[("a", 7, &old)])).is_err());
    }

    #[test]
    fn a_snapshot_is_what_a_file_was() {
        let (mut tree, file, old) = one();
        let content = tree.content(file).unwrap();
        written(&mut tree, file, 0, 8);
        assert!(tree.is_as(&content, &old).is_ok());
        assert!(tree.is_as(&content, &old[SECTOR..]).is_err());
        assert!(tree.is_as(&content, &[0; 8 * SECTOR]).is_err());
        let (version, _) = tree.fill(file, 0, 1);
        tree.begin_doubt();
        tree.write(file, 0, 1, version);
        tree.end_doubt(file, 4096).unwrap();
        assert!(tree.content(file).is_none(), "nobody knows what it is");
    }
}
