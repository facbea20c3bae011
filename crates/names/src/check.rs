//! Does a volume say the truth about itself?
//!
//! Every entry must point to an object of the kind it says, links be counted right, nothing be out of
//! reach, and sizes fit. One walk from the root and one look at every object; memory for each object of
//! the volume. It changes nothing.

use crate::draft;
use crate::entry::{self, Entry, FIRST_POSITION, WINDOW};
use crate::inode::{Inode, Kind};
use crate::key;
use crate::objects::Objects;
use crate::snapshots::is_snapshot;
use crate::volume::VolumeMark;
use std::collections::{BTreeMap, BTreeSet};
use tandem_block::{BLOCK_BYTES, ObjectId};

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The object that should be a volume's root is none.
    #[error("object {} is not the root of a volume", .0.0)]
    Root(ObjectId),
    /// The inode of an object cannot be read.
    #[error("the inode of object {} cannot be read", .0.0)]
    Inode(ObjectId),
    /// An attribute of an object is not one of ours, or cannot be read.
    #[error("an attribute of object {} makes no sense: key {key:?}", .object.0)]
    Attribute {
        /// Whose.
        object: ObjectId,
        /// Which.
        key: Vec<u8>,
    },
    /// A name of nothing.
    #[error("directory {} names object {}, which does not exist", .directory.0, .object.0)]
    Nothing {
        /// Where the name is.
        directory: ObjectId,
        /// What it points to.
        object: ObjectId,
    },
    /// An entry says another kind than the object.
    #[error("directory {} says another kind of object {} than its inode", .directory.0, .object.0)]
    Kind {
        /// Where the name is.
        directory: ObjectId,
        /// Whose name.
        object: ObjectId,
    },
    /// A name lies where nobody looks for it, or twice.
    #[error("a name in directory {} lies at the wrong position or twice: {name:?}", .directory.0)]
    Misplaced {
        /// Where it is.
        directory: ObjectId,
        /// The name.
        name: Vec<u8>,
    },
    /// A name leads out of a snapshot, or into one.
    #[error("directory {} and what it names, object {}, belong to different snapshots", .directory.0, .object.0)]
    Elsewhere {
        /// Where the name is.
        directory: ObjectId,
        /// Whose name.
        object: ObjectId,
    },
    /// A directory has two names, or thinks that it is elsewhere.
    #[error("directory {} is not only where it says", .0.0)]
    Parent(ObjectId),
    /// Links are counted wrong.
    #[error("object {} says {said} links and has {counted}", .object.0)]
    Links {
        /// Whose.
        object: ObjectId,
        /// What the inode says.
        said: u32,
        /// How many there are.
        counted: u32,
    },
    /// Neither a name nor an orphan's record leads to it.
    #[error("object {} cannot be reached by any name", .0.0)]
    Unreachable(ObjectId),
    /// A file is larger than its object, or something else has bytes.
    #[error("object {} has {room_bytes} bytes and says {said_bytes}", .object.0)]
    Size {
        /// Whose.
        object: ObjectId,
        /// What the inode says.
        said_bytes: u64,
        /// The object's size.
        room_bytes: u64,
    },
    /// An orphan's record names something that is not there or has a name.
    #[error("object {} is recorded as removed and is not", .0.0)]
    Orphan(ObjectId),
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Directories, the root among them.
    pub directories: u64,
    /// Files of all other kinds.
    pub files: u64,
    /// Objects without a name, still to be removed.
    pub orphans: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Directories and files in them.
    pub in_snapshots: u64,
    /// Bytes of the files, holes included.
    pub bytes: u64,
}

/// Checks the volume of this root; `found` is told of every fault.
pub fn check(on: &impl Objects, root: ObjectId, found: &mut impl FnMut(Fault)) -> Checked {
    let mut check = Check {
        on,
        root,
        found,
        names: BTreeMap::new(),
        orphans: BTreeSet::new(),
        unseen: BTreeSet::new(),
        snapshots: None,
    };
    match VolumeMark::of(on, root) {
        Some(Ok(_)) => {}
        Some(Err(_)) | None => {
            (check.found)(Fault::Root(root));
            return Checked::default();
        }
    }
    check.read_orphans();
    check.walk();
    check.look_at_all()
}

struct Check<'a, O, F> {
    on: &'a O,
    root: ObjectId,
    found: &'a mut F,
    /// How many names and directories below each object that was reached has.
    names: BTreeMap<ObjectId, Counted>,
    orphans: BTreeSet<ObjectId>,
    /// Those of them that are snapshots.
    unseen: BTreeSet<ObjectId>,
    /// The directory of the snapshots.
    snapshots: Option<ObjectId>,
}

#[derive(Default)]
struct Counted {
    names: u32,
    directories: u32,
}

impl<O: Objects, F: FnMut(Fault)> Check<'_, O, F> {
    fn read_orphans(&mut self) {
        let mut after = key::orphan(ObjectId(0));
        while let Some((key, _)) = self.on.next_attribute(self.root, &after) {
            let Some(number) = key::number(key::ORPHAN, key) else { break };
            self.orphans.insert(ObjectId(number));
            after = key.to_vec();
        }
        for orphan in self.orphans.clone() {
            let inode = self.inode(orphan);
            if is_snapshot(self.on, orphan) {
                self.unseen.insert(orphan);
                if inode.is_none_or(|inode| inode.links != 0) || self.is_kept(orphan) {
                    (self.found)(Fault::Orphan(orphan));
                }
            } else if inode.is_none_or(|inode| inode.links != 0 || inode.volume != self.root) {
                (self.found)(Fault::Orphan(orphan));
            }
        }
    }

    fn inode(&self, object: ObjectId) -> Option<Inode> {
        Inode::decode(self.on.attribute(object, key::INODE)?)
    }

    fn is_kept(&self, object: ObjectId) -> bool {
        draft::is_kept(self.on, object, self.root)
    }

    /// The directory of the snapshots, if there is one.
    fn snapshots(&mut self) -> Option<ObjectId> {
        let value = self.on.attribute(self.root, key::SNAPSHOTS)?;
        let object = key::object(value);
        let of_itself = |object: &ObjectId| {
            self.inode(*object).is_some_and(|inode| inode.volume == *object)
                && self.is_kept(*object)
        };
        if object.as_ref().is_some_and(of_itself) {
            return object;
        }
        let key = key::SNAPSHOTS.to_vec();
        (self.found)(Fault::Attribute { object: self.root, key });
        None
    }

    /// From the root on, and from where the snapshots are, without recursion: trees may be deep.
    fn walk(&mut self) {
        let mut waiting = vec![self.root];
        self.snapshots = self.snapshots();
        waiting.extend(self.snapshots);
        for first in waiting.clone() {
            self.names.insert(first, Counted { names: 1, directories: 0 });
        }
        while let Some(directory) = waiting.pop() {
            let mut at = 0;
            let mut seen = BTreeSet::new();
            while let Some((key, value)) =
                self.on.next_attribute(directory, &key::entry(at)).filter(|(key, _)| is_entry(key))
            {
                let Some((position, entry)) =
                    key::number(key::ENTRY, key).zip(Entry::decode(value))
                else {
                    (self.found)(Fault::Attribute { object: directory, key: key.to_vec() });
                    break;
                };
                at = position;
                let first = entry::position(entry.name);
                let is_here = (first..first + WINDOW).contains(&position);
                let name = entry.name.to_vec();
                if !is_here || position < FIRST_POSITION || !seen.insert(name.clone()) {
                    (self.found)(Fault::Misplaced { directory, name });
                }
                if self.follow(directory, &entry) {
                    waiting.push(entry.object);
                }
            }
        }
    }

    /// Counts a name; true if it leads to a directory that was not seen before.
    fn follow(&mut self, directory: ObjectId, entry: &Entry<'_>) -> bool {
        let object = entry.object;
        if self.on.size_bytes(object).is_none() {
            (self.found)(Fault::Nothing { directory, object });
            return false;
        }
        let counted = self.names.entry(object).or_default();
        counted.names = counted.names.saturating_add(1);
        let is_second = counted.names > 1;
        let Some(inode) = self.inode(object) else { return false }; // said of the object later
        if inode.kind() != entry.kind {
            (self.found)(Fault::Kind { directory, object });
        }
        let should = match Some(directory) == self.snapshots {
            true => object,
            false => self.inode(directory).map_or(self.root, |above| above.volume),
        };
        if inode.volume != should {
            (self.found)(Fault::Elsewhere { directory, object });
        }
        if !inode.is_directory() {
            return false;
        }
        if is_second || inode.parent != directory {
            (self.found)(Fault::Parent(object));
        }
        let above = self.names.entry(directory).or_default();
        above.directories = above.directories.saturating_add(1);
        !is_second
    }

    fn look_at_all(&mut self) -> Checked {
        let mut checked = Checked::default();
        let mut after = None;
        loop {
            let next = match after {
                None if self.on.size_bytes(ObjectId(0)).is_some() => Some(ObjectId(0)),
                None => self.on.next_object(ObjectId(0)),
                Some(last) => self.on.next_object(last),
            };
            let Some(object) = next else { return checked };
            after = Some(object);
            let is_named = self.names.contains_key(&object);
            let Some(bytes) = self.on.attribute(object, key::INODE) else {
                if is_named {
                    (self.found)(Fault::Inode(object));
                }
                continue; // not a file: a block volume
            };
            match Inode::decode(bytes) {
                None => (self.found)(Fault::Inode(object)),
                Some(inode) if self.unseen.contains(&inode.volume) => {
                    checked.orphans += 1;
                    if is_named {
                        (self.found)(Fault::Orphan(object));
                    }
                }
                Some(inode) if inode.volume == self.root || self.is_kept(inode.volume) => {
                    self.look_at(object, &inode, &mut checked);
                }
                // a volume that is gone took all of its objects with it
                Some(inode) if self.on.size_bytes(inode.volume).is_none() => {
                    (self.found)(Fault::Unreachable(object));
                }
                Some(_) if is_named => (self.found)(Fault::Inode(object)),
                Some(_) => {}
            }
        }
    }

    fn look_at(&mut self, object: ObjectId, inode: &Inode, checked: &mut Checked) {
        let counted = match self.names.get(&object) {
            Some(counted) if inode.is_directory() => 2 + counted.directories,
            Some(counted) => counted.names,
            None => 0,
        };
        let is_orphan = self.orphans.contains(&object);
        if counted == 0 && !is_orphan {
            (self.found)(Fault::Unreachable(object));
        } else if counted != inode.links {
            (self.found)(Fault::Links { object, said: inode.links, counted });
        }
        match inode.kind() {
            _ if is_orphan => checked.orphans += 1,
            _ if Some(object) == self.snapshots => {}
            _ if inode.volume == object && object != self.root => checked.snapshots += 1,
            _ if inode.volume != self.root => checked.in_snapshots += 1,
            Kind::Directory => checked.directories += 1,
            _ => checked.files += 1,
        }
        if inode.volume == self.root {
            checked.bytes = checked.bytes.saturating_add(inode.size_bytes);
        }
        self.look_at_size(object, inode);
        self.look_at_attributes(object, inode);
    }

    fn look_at_size(&mut self, object: ObjectId, inode: &Inode) {
        let room_bytes = self.on.size_bytes(object).unwrap_or_default();
        let said_bytes = inode.size_bytes;
        let target = self.on.attribute(object, key::TARGET).map(|target| target.len() as u64);
        let fits = match inode.kind() {
            Kind::File => said_bytes <= room_bytes && room_bytes.is_multiple_of(BLOCK_BYTES),
            // a volume's own object has what size it likes
            _ if object == self.root => said_bytes == 0,
            Kind::Symlink => room_bytes == 0 && target == Some(said_bytes),
            _ => room_bytes == 0 && said_bytes == 0,
        };
        if !fits {
            (self.found)(Fault::Size { object, said_bytes, room_bytes });
        }
    }

    fn look_at_attributes(&mut self, object: ObjectId, inode: &Inode) {
        let mut after = Vec::new();
        while let Some((key, _)) = self.on.next_attribute(object, &after) {
            let is_ours = match key.first() {
                Some(&key::ENTRY) => inode.is_directory() && key::number(key::ENTRY, key).is_some(),
                Some(&key::ORPHAN) => {
                    object == self.root && key::number(key::ORPHAN, key).is_some()
                }
                Some(&key::XATTR) => key.len() > 1,
                _ if key == key::INODE => true,
                _ if key == key::TARGET => inode.kind() == Kind::Symlink,
                _ if key == key::SNAPSHOTS => object == self.root,
                _ if key == key::KEPT => inode.volume == object && object != self.root,
                _ => key == key::VOLUME && object == self.root,
            };
            if !is_ours {
                (self.found)(Fault::Attribute { object, key: key.to_vec() });
            }
            after = key.to_vec();
        }
    }
}

fn is_entry(key: &[u8]) -> bool {
    key.first() == Some(&key::ENTRY)
}
