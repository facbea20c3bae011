//! In which steps does everything in a volume of files come into a snapshot?
//!
//! A walk over all names, some hundred at a time: each step is a batch of its own, so that none is too large, and
//! the last one shows the snapshot. Nothing else may change the volume meanwhile, so it shows one moment; a crash
//! leaves what the next mount clears. Blocks of files are shared by reference: time and records go by files and
//! pieces, not by bytes.

use crate::data::FILE_BYTES_MAX;
use crate::draft;
use crate::entry::{self, Entry};
use crate::error::NameError;
use crate::inode::{Inode, Kind};
use crate::key;
use crate::objects::{Change, Objects};
use crate::snapshots::is_snapshot;
use crate::tree::Tree;
use std::collections::BTreeMap;
use tandem_block::{BLOCK_BYTES, ObjectId, TIER_KEY};

/// Names in one step at most (guess: what a journal unit usually has room for).
const NAMES_MAX: u64 = 256;

/// A snapshot that is being made.
#[derive(Clone, Debug)]
pub struct Snapshotting {
    /// Its directory.
    top: ObjectId,
    name: Vec<u8>,
    now_ns: i64,
    done: Progress,
    /// What will be done when the step that was planned last was applied.
    planned: Option<Progress>,
    /// Files with several names that were met.
    copies: BTreeMap<ObjectId, Copied>,
    /// The same in the step that was planned last.
    met: BTreeMap<ObjectId, Copied>,
    names_max: u64,
    blocks_max: u64,
    /// Most blocks that the step that was planned last shares at once.
    blocks_planned: u64,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    /// Its directory is there.
    is_begun: bool,
    /// It can be seen.
    is_shown: bool,
    /// Directories that are walked through, each in the one before.
    levels: Vec<Level>,
    /// The file of which some blocks are still to be shared.
    part: Option<Part>,
}

/// The copy of a file, and how many names it has so far: what is given up half-way is cleared by their number.
#[derive(Clone, Copy, Debug)]
struct Copied {
    copy: ObjectId,
    links: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    source: ObjectId,
    copy: ObjectId,
    /// The position of the last entry that was taken.
    at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    source: ObjectId,
    copy: ObjectId,
    next: u64,
    end: u64,
}

impl Tree {
    /// Begins a snapshot of this name; [`Snapshotting`] says what to do. From now on until it is done or given
    /// up nothing else changes the volume.
    ///
    /// # Errors
    /// `Exists`, `NotFound` (there is no directory for it), `TooLong`, `Invalid`, `NoSpace`, `Damaged`.
    pub fn begin_snapshot(
        &self,
        on: &impl Objects,
        name: &[u8],
        now_ns: i64,
    ) -> Result<Snapshotting, NameError> {
        entry::check_name(name)?;
        let directory = self.snapshots(on)?.ok_or(NameError::NotFound)?;
        if entry::find(on, directory, name)?.is_some() {
            return Err(NameError::Exists);
        }
        entry::free_position(on, directory, name)?;
        Ok(Snapshotting {
            top: on.fresh_id(),
            name: name.to_vec(),
            now_ns,
            done: Progress::default(),
            planned: None,
            copies: BTreeMap::new(),
            met: BTreeMap::new(),
            names_max: NAMES_MAX,
            blocks_max: u64::MAX,
            blocks_planned: 0,
        })
    }
}

impl Snapshotting {
    /// The directory of the snapshot.
    pub fn top(&self) -> ObjectId {
        self.top
    }

    /// Can it be seen?
    pub fn is_done(&self) -> bool {
        self.done.is_shown
    }

    /// The changes of the next step, one batch. If it is given up, [`Tree::clear_deleted`] clears what is there.
    ///
    /// # Errors
    /// `NoSpace`, `Damaged`.
    ///
    /// # Panics
    /// If it is done.
    pub fn plan(&mut self, tree: &Tree, on: &impl Objects) -> Result<Vec<Change>, NameError> {
        assert!(!self.is_done(), "nothing is left to do");
        (self.blocks_planned, self.met) = (0, BTreeMap::new());
        let mut next = self.done.clone();
        let changes = if !self.done.is_begun {
            next.is_begun = true;
            next.levels.push(Level { source: tree.root(), copy: self.top, at: 0 });
            self.begin(tree, on)?
        } else if next.levels.is_empty() && next.part.is_none() {
            next.is_shown = true;
            self.show(tree, on)?
        } else {
            self.copy(tree, on, &mut next)?
        };
        self.planned = Some(next);
        Ok(changes)
    }

    /// The step that was planned last was applied.
    ///
    /// # Panics
    /// If none was planned.
    pub fn applied(&mut self) {
        self.done = self.planned.take().expect("it was planned");
        self.copies.append(&mut self.met);
        self.names_max = NAMES_MAX.min(2 * self.names_max);
    }

    /// The step that was planned last was too large for a batch; false if it cannot be smaller.
    pub fn was_too_large(&mut self) -> bool {
        self.planned = None;
        if self.names_max > 1 {
            self.names_max /= 2;
            return true;
        }
        self.blocks_max = self.blocks_planned / 2;
        self.blocks_max > 0
    }

    fn begin(&self, tree: &Tree, on: &impl Objects) -> Result<Vec<Change>, NameError> {
        let directory = tree.snapshots(on)?.ok_or(NameError::NotFound)?;
        let root = tree.inode(on, tree.root())?;
        let inode = Inode {
            volume: self.top,
            parent: directory,
            links: 0,
            changed_ns: self.now_ns,
            ..root
        };
        let mut changes =
            vec![Change::Create { object: self.top, is_directory: true, volume: tree.root() }];
        changes.push(set(self.top, key::INODE.to_vec(), inode.encode()));
        copy_attributes(on, tree.root(), self.top, &mut changes);
        changes.push(tree.note_unseen(self.top));
        Ok(changes)
    }

    fn show(&self, tree: &Tree, on: &impl Objects) -> Result<Vec<Change>, NameError> {
        let directory = tree.snapshots(on)?.ok_or(NameError::NotFound)?;
        let root = tree.inode(on, tree.root())?;
        let mut inode = draft::read(on, self.top, self.top)?;
        inode.links = root.links;
        let mut above = draft::look(on, tree.root(), directory)?;
        above.links = above.links.checked_add(1).ok_or(NameError::TooManyLinks)?;
        (above.modified_ns, above.changed_ns) = (self.now_ns, self.now_ns);
        let position = entry::free_position(on, directory, &self.name)?;
        let entry = Entry { object: self.top, kind: Kind::Directory, name: &self.name };
        Ok(vec![
            set(self.top, key::INODE.to_vec(), inode.encode()),
            set(self.top, key::KEPT.to_vec(), key::naming(tree.root())),
            set(directory, key::INODE.to_vec(), above.encode()),
            set(directory, key::entry(position), entry.encode()),
            Change::Unset { object: tree.root(), key: key::orphan(self.top) },
        ])
    }

    fn copy(
        &mut self,
        tree: &Tree,
        on: &impl Objects,
        next: &mut Progress,
    ) -> Result<Vec<Change>, NameError> {
        let mut changes = Vec::new();
        if let Some(part) = next.part.take() {
            next.part = self.share(part, &mut changes);
            return Ok(changes);
        }
        let mut ids = on.fresh_ids(self.names_max).0;
        let mut names = 0;
        while names < self.names_max && next.part.is_none() {
            let Some(level) = next.levels.last_mut() else { break };
            let (source, copy) = (level.source, level.copy);
            let Some((position, entry)) = entry::next(on, source, level.at)? else {
                next.levels.pop();
                continue;
            };
            level.at = position;
            names += 1;
            let inode = draft::read(on, tree.root(), entry.object)?;
            if inode.is_directory() && inode.parent != source {
                return Err(NameError::Damaged(entry.object)); // it would never end
            }
            let made = match self.copied(entry.object) {
                Some(copied) => self.name_again(entry.object, &inode, copied, &mut changes),
                None => {
                    let made = ObjectId(ids);
                    ids += 1;
                    self.add(tree, on, (entry.object, &inode), (made, copy), &mut changes);
                    if inode.kind() == Kind::Directory {
                        next.levels.push(Level { source: entry.object, copy: made, at: 0 });
                    }
                    let part = part_of(entry.object, made, &inode)?;
                    next.part = self.share(part, &mut changes);
                    made
                }
            };
            let entry = Entry { object: made, ..entry };
            changes.push(set(copy, key::entry(position), entry.encode()));
        }
        Ok(changes)
    }

    /// The copy of a file with several names, if it was met before.
    fn copied(&self, object: ObjectId) -> Option<Copied> {
        self.met.get(&object).or_else(|| self.copies.get(&object)).copied()
    }

    /// A copy has one name more.
    fn name_again(
        &mut self,
        source: ObjectId,
        inode: &Inode,
        Copied { copy, links }: Copied,
        changes: &mut Vec<Change>,
    ) -> ObjectId {
        let links = links + 1;
        let inode = Inode { volume: self.top, tail_epoch: 0, links, ..*inode };
        changes.push(set(copy, key::INODE.to_vec(), inode.encode()));
        self.met.insert(source, Copied { copy, links });
        copy
    }

    /// A new object like this one, but for its blocks and entries.
    fn add(
        &mut self,
        tree: &Tree,
        on: &impl Objects,
        (source, inode): (ObjectId, &Inode),
        (copy, directory): (ObjectId, ObjectId),
        changes: &mut Vec<Change>,
    ) {
        let is_directory = inode.is_directory();
        changes.push(Change::Create { object: copy, is_directory, volume: tree.root() });
        let parent = if is_directory { directory } else { ObjectId(0) };
        // who writes to the other one may leave anything behind the end of this one
        let links = if is_directory { inode.links } else { 1 };
        let is_met_again = links < inode.links;
        let inode = Inode { volume: self.top, parent, tail_epoch: 0, links, ..*inode };
        changes.push(set(copy, key::INODE.to_vec(), inode.encode()));
        copy_attributes(on, source, copy, changes);
        if inode.kind() == Kind::File && (1..=FILE_BYTES_MAX).contains(&inode.size_bytes) {
            let size_bytes = inode.size_bytes.next_multiple_of(BLOCK_BYTES);
            changes.push(Change::Resize { object: copy, size_bytes });
        }
        if is_met_again {
            self.met.insert(source, Copied { copy, links });
        }
    }

    /// Shares as much of a file as one step may; the rest.
    fn share(&mut self, part: Part, changes: &mut Vec<Change>) -> Option<Part> {
        let blocks = (part.end - part.next).min(self.blocks_max);
        if blocks == 0 {
            return None;
        }
        self.blocks_planned = self.blocks_planned.max(blocks);
        changes.push(Change::Share {
            from: part.source,
            from_block: part.next,
            to: part.copy,
            to_block: part.next,
            blocks,
        });
        let next = part.next + blocks;
        (next < part.end).then_some(Part { next, ..part })
    }
}

/// All blocks of a file.
fn part_of(source: ObjectId, copy: ObjectId, inode: &Inode) -> Result<Part, NameError> {
    let bytes = if inode.kind() == Kind::File { inode.size_bytes } else { 0 };
    if bytes > FILE_BYTES_MAX {
        return Err(NameError::Damaged(source));
    }
    let end = bytes.div_ceil(BLOCK_BYTES);
    Ok(Part { source, copy, next: 0, end })
}

fn set(object: ObjectId, key: Vec<u8>, value: Vec<u8>) -> Change {
    Change::Set { object, key, value }
}

/// Targets of links and extended attributes; but not the tier, which is that of whoever writes to the blocks.
fn copy_attributes(on: &impl Objects, source: ObjectId, copy: ObjectId, changes: &mut Vec<Change>) {
    let mut after = key::TARGET.to_vec();
    if let Some(target) = on.attribute(source, key::TARGET) {
        changes.push(set(copy, after.clone(), target.to_vec()));
    }
    after[0] = key::XATTR;
    while let Some((key, value)) = on.next_attribute(source, &after) {
        if key.first() != Some(&key::XATTR) {
            break;
        }
        if key != TIER_KEY {
            changes.push(set(copy, key.to_vec(), value.to_vec()));
        }
        after = key.to_vec();
    }
}

impl Tree {
    /// The names of the snapshots, and the directory of each.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn snapshot_list(&self, on: &impl Objects) -> Result<Vec<(Vec<u8>, ObjectId)>, NameError> {
        let Some(directory) = self.snapshots(on)? else { return Ok(Vec::new()) };
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some((position, entry)) = entry::next(on, directory, at)? {
            if !is_snapshot(on, entry.object) {
                return Err(NameError::Damaged(entry.object));
            }
            found.push((entry.name.to_vec(), entry.object));
            at = position;
        }
        Ok(found)
    }
}
