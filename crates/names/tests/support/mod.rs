//! What should a file system do? Said once more, as plainly as possible: nodes in a map, contents as
//! vectors, and errnos in the order in which Linux finds them.

#![allow(dead_code, reason = "every test uses its part, also those of other crates")]

use std::collections::{BTreeMap, BTreeSet};
use tandem_block::ObjectId;
use tandem_names::memory::Mounted;
use tandem_names::{EXCHANGE, FIRST_COOKIE, Kind, NOREPLACE, Objects, Tree, mode};

pub const TIERS: &[&str] = &["hot-dst", "cache-write-back", "none"];
pub const TIER: &[u8] = b"user.tandem.tier";

pub mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ENOSPC: i32 = 28;
    pub const ENOTEMPTY: i32 = 39;
    pub const ENODATA: i32 = 61;
}
use errno::*;

/// All that a user can see of a file, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub mode: u32,
    pub links: u32,
    pub size: u64,
    pub modified_ns: i64,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub entries: BTreeMap<Vec<u8>, ObjectId>,
}

/// All that a user can see.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct View {
    pub nodes: BTreeMap<ObjectId, Seen>,
    pub contents: BTreeMap<ObjectId, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub mode: u32,
    pub modified_ns: i64,
    pub bytes: Vec<u8>,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub entries: BTreeMap<Vec<u8>, ObjectId>,
}

impl Node {
    pub fn is_directory(&self) -> bool {
        self.mode & mode::KIND == mode::DIRECTORY
    }

    pub fn is_file(&self) -> bool {
        self.mode & mode::KIND == mode::FILE
    }
}

/// The plain file system.
#[derive(Clone, Debug)]
pub struct Plain {
    pub root: ObjectId,
    pub nodes: BTreeMap<ObjectId, Node>,
    pub held: Vec<ObjectId>,
    pub objects_max: usize,
}

type Answer<T = ()> = Result<T, i32>;

impl Plain {
    pub fn new(root: ObjectId, root_mode: u32, now_ns: i64, objects_max: usize) -> Plain {
        let nodes = [(root, node(root_mode, now_ns))].into();
        Plain { root, nodes, held: Vec::new(), objects_max }
    }

    /// What a user sees of a store after a crash.
    pub fn of_view(root: ObjectId, view: &View, objects_max: usize) -> Plain {
        let nodes = view.nodes.iter().map(|(object, seen)| {
            let node = Node {
                mode: seen.mode,
                modified_ns: seen.modified_ns,
                bytes: view.contents.get(object).cloned().unwrap_or_default(),
                target: seen.target.clone(),
                xattrs: seen.xattrs.clone(),
                entries: seen.entries.clone(),
            };
            (*object, node)
        });
        Plain { root, nodes: nodes.collect(), held: Vec::new(), objects_max }
    }

    pub fn links(&self, object: ObjectId) -> u32 {
        let names = self.nodes.values().flat_map(|node| node.entries.values());
        let names = names.filter(|named| **named == object).count() as u32;
        let node = &self.nodes[&object];
        if !node.is_directory() {
            return names;
        }
        let is_there = object == self.root || names > 0;
        let below = node.entries.values().filter(|below| self.nodes[below].is_directory());
        if is_there { 2 + below.count() as u32 } else { 0 }
    }

    pub fn view(&self) -> View {
        let mut view = View::default();
        let mut waiting = vec![self.root];
        while let Some(object) = waiting.pop() {
            let node = &self.nodes[&object];
            waiting.extend(node.entries.values());
            let size = node.bytes.len().max(node.target.len()) as u64;
            let seen = Seen {
                mode: node.mode,
                links: self.links(object),
                size,
                modified_ns: node.modified_ns,
                target: node.target.clone(),
                xattrs: node.xattrs.clone(),
                entries: node.entries.clone(),
            };
            view.nodes.insert(object, seen);
            if node.is_file() {
                view.contents.insert(object, node.bytes.clone());
            }
        }
        view
    }

    fn directory(&mut self, object: ObjectId) -> Answer<&mut Node> {
        let is_there = self.nodes.get(&object).is_some_and(|node| !node.is_directory())
            || self.nodes.contains_key(&object) && self.links(object) > 0;
        match self.nodes.get_mut(&object) {
            Some(node) if !node.is_directory() => Err(ENOTDIR),
            Some(node) if is_there => Ok(node),
            _ => Err(ENOENT),
        }
    }

    fn entry(&mut self, directory: ObjectId, name: &[u8]) -> Answer<ObjectId> {
        self.directory(directory)?.entries.get(name).copied().ok_or(ENOENT)
    }

    pub fn make(
        &mut self,
        parent: ObjectId,
        name: &[u8],
        (mode, target): (u32, &[u8]),
        (object, now_ns): (ObjectId, i64),
    ) -> Answer {
        let is_full = self.nodes.len() >= self.objects_max;
        let directory = self.directory(parent)?;
        if directory.entries.contains_key(name) {
            return Err(EEXIST);
        }
        if is_full {
            return Err(ENOSPC);
        }
        directory.entries.insert(name.to_vec(), object);
        directory.modified_ns = now_ns;
        let of_group = directory.mode & mode::SET_GROUP;
        let tier = directory.xattrs.get(TIER).cloned();
        let mut made = node(mode, now_ns);
        made.target = target.to_vec();
        made.mode |= if made.is_directory() { of_group } else { 0 };
        if made.is_file() || made.is_directory() {
            made.xattrs.extend(tier.map(|tier| (TIER.to_vec(), tier)));
        }
        self.nodes.insert(object, made);
        Ok(())
    }

    /// Objects without a name go unless they are held.
    pub fn sweep(&mut self) {
        let named: BTreeSet<ObjectId> =
            self.nodes.values().flat_map(|node| node.entries.values().copied()).collect();
        let (root, held) = (self.root, &self.held);
        self.nodes
            .retain(|object, _| *object == root || named.contains(object) || held.contains(object));
    }

    pub fn unlink(&mut self, parent: ObjectId, name: &[u8], now_ns: i64) -> Answer {
        let object = self.entry(parent, name)?;
        if self.nodes[&object].is_directory() {
            return Err(EISDIR);
        }
        self.drop_name(parent, name, now_ns);
        Ok(())
    }

    pub fn rmdir(&mut self, parent: ObjectId, name: &[u8], now_ns: i64) -> Answer {
        let object = self.entry(parent, name)?;
        let node = &self.nodes[&object];
        if !node.is_directory() {
            return Err(ENOTDIR);
        }
        if !node.entries.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.drop_name(parent, name, now_ns);
        Ok(())
    }

    fn drop_name(&mut self, parent: ObjectId, name: &[u8], now_ns: i64) {
        let directory = self.nodes.get_mut(&parent).unwrap();
        directory.entries.remove(name).unwrap();
        directory.modified_ns = now_ns;
        self.sweep();
    }

    pub fn link(
        &mut self,
        object: ObjectId,
        (parent, name): (ObjectId, &[u8]),
        now_ns: i64,
    ) -> Answer {
        self.directory(parent)?;
        let node = self.nodes.get(&object).ok_or(ENOENT)?;
        if node.is_directory() {
            return Err(EPERM);
        }
        if self.links(object) == 0 {
            return Err(ENOENT);
        }
        let directory = self.directory(parent)?;
        if directory.entries.contains_key(name) {
            return Err(EEXIST);
        }
        directory.entries.insert(name.to_vec(), object);
        directory.modified_ns = now_ns;
        Ok(())
    }

    /// Is `inner` the directory `outer`, or below it?
    fn is_within(&self, inner: ObjectId, outer: ObjectId) -> bool {
        let below: Vec<ObjectId> = self.nodes[&outer].entries.values().copied().collect();
        inner == outer || below.into_iter().any(|object| self.is_within(inner, object))
    }

    pub fn rename(
        &mut self,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        flags: u32,
        now_ns: i64,
    ) -> Answer {
        self.directory(from.0)?;
        self.directory(to.0)?;
        let source = self.entry(from.0, from.1)?;
        let target = self.entry(to.0, to.1).ok();
        match target {
            Some(_) if flags == NOREPLACE => return Err(EEXIST),
            None if flags == EXCHANGE => return Err(ENOENT),
            _ => {}
        }
        if self.is_within(to.0, source) {
            return Err(EINVAL);
        }
        if target == Some(source) {
            return Ok(());
        }
        let of_target = target.map(|target| self.nodes[&target].clone());
        if flags == EXCHANGE {
            let target = target.unwrap();
            if self.is_within(from.0, target) {
                return Err(EINVAL);
            }
            let mut entry = |(directory, name): (ObjectId, &[u8]), object| {
                self.nodes.get_mut(&directory).unwrap().entries.insert(name.to_vec(), object)
            };
            entry(from, target);
            entry(to, source);
        } else {
            if let Some(replaced) = of_target {
                match (self.nodes[&source].is_directory(), replaced.is_directory()) {
                    (true, false) => return Err(ENOTDIR),
                    (false, true) => return Err(EISDIR),
                    _ if !replaced.entries.is_empty() => return Err(ENOTEMPTY),
                    _ => {}
                }
            }
            let mut entry = |(directory, name): (ObjectId, &[u8]), object: Option<ObjectId>| {
                let entries = &mut self.nodes.get_mut(&directory).unwrap().entries;
                match object {
                    Some(object) => entries.insert(name.to_vec(), object),
                    None => entries.remove(name),
                };
            };
            entry(from, None);
            entry(to, Some(source));
        }
        for directory in [from.0, to.0] {
            self.nodes.get_mut(&directory).unwrap().modified_ns = now_ns;
        }
        self.sweep();
        Ok(())
    }

    pub fn file(&mut self, object: ObjectId) -> Answer<&mut Node> {
        match self.nodes.get_mut(&object) {
            Some(node) if node.is_file() => Ok(node),
            Some(node) if node.is_directory() => Err(EISDIR),
            Some(_) => Err(EINVAL),
            None => Err(ENOENT),
        }
    }

    pub fn write(&mut self, file: ObjectId, at: usize, bytes: &[u8], now_ns: i64) -> Answer {
        let node = self.file(file)?;
        let end = at + bytes.len();
        if node.bytes.len() < end {
            node.bytes.resize(end, 0);
        }
        node.bytes[at..end].copy_from_slice(bytes);
        node.modified_ns = now_ns;
        Ok(())
    }

    pub fn truncate(&mut self, file: ObjectId, size: usize, now_ns: i64) -> Answer {
        let node = self.file(file)?;
        node.bytes.resize(size, 0);
        node.modified_ns = now_ns;
        Ok(())
    }

    pub fn chmod(&mut self, object: ObjectId, permissions: u32) -> Answer {
        let node = self.nodes.get_mut(&object).ok_or(ENOENT)?;
        node.mode = node.mode & mode::KIND | permissions;
        Ok(())
    }

    pub fn set_xattr(&mut self, object: ObjectId, name: &[u8], value: &[u8]) -> Answer {
        let node = self.nodes.get_mut(&object).ok_or(ENOENT)?;
        if name.starts_with(b"user.") && !node.is_file() && !node.is_directory() {
            return Err(EPERM);
        }
        if name == TIER && !TIERS.iter().any(|tier| tier.as_bytes() == value) {
            return Err(EINVAL);
        }
        node.xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub fn remove_xattr(&mut self, object: ObjectId, name: &[u8]) -> Answer {
        let node = self.nodes.get_mut(&object).ok_or(ENOENT)?;
        if name.starts_with(b"user.") && !node.is_file() && !node.is_directory() {
            return Err(EPERM);
        }
        node.xattrs.remove(name).map(|_| ()).ok_or(ENODATA)
    }
}

fn node(mode: u32, now_ns: i64) -> Node {
    Node {
        mode,
        modified_ns: now_ns,
        bytes: Vec::new(),
        target: Vec::new(),
        xattrs: BTreeMap::new(),
        entries: BTreeMap::new(),
    }
}

/// All that a user sees of a mounted volume, found out as a user would.
pub fn look(fs: &Mounted) -> View {
    let mut view = look_at_names(&fs.tree, &fs.store);
    for (file, bytes) in &mut view.contents {
        *bytes = fs.read(*file, 0, u64::MAX / 2).unwrap();
        assert_eq!(bytes.len() as u64, view.nodes[file].size);
    }
    view
}

/// The same without the bytes of the files, all of which are named.
pub fn look_at_names(tree: &Tree, on: &impl Objects) -> View {
    let mut view = View::default();
    let mut waiting = vec![tree.root()];
    while let Some(object) = waiting.pop() {
        let inode = tree.inode(on, object).expect("what has a name is there");
        let mut seen = Seen {
            mode: inode.mode,
            links: inode.links,
            size: inode.size_bytes,
            modified_ns: inode.modified_ns,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        let list = tree.xattr_list(on, object).unwrap();
        for name in list.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let value = tree.xattr(on, object, name).unwrap();
            seen.xattrs.insert(name.to_vec(), value.to_vec());
        }
        match inode.kind() {
            Kind::Directory => {
                for line in tree.list(on, object, FIRST_COOKIE).unwrap() {
                    let line = line.expect("directories can be read");
                    if !matches!(line.name, b"." | b"..") {
                        let found = tree.lookup(on, object, line.name).unwrap();
                        assert_eq!((found.object, found.inode.kind()), (line.object, line.kind));
                        let before = seen.entries.insert(line.name.to_vec(), line.object);
                        assert_eq!(before, None, "names are listed once");
                        if !view.nodes.contains_key(&line.object) {
                            waiting.push(line.object);
                        }
                    }
                }
            }
            Kind::File => {
                view.contents.insert(object, Vec::new());
            }
            Kind::Symlink => {
                seen.target = tree.read_link(on, object).unwrap().to_vec();
            }
            _ => assert_eq!(on.size_bytes(object), Some(0)),
        }
        view.nodes.insert(object, seen);
    }
    view
}

/// What a user sees of a file, by its path and not by its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub mode: u32,
    pub owner: (u32, u32),
    pub links: u32,
    pub modified_ns: i64,
    pub target: Vec<u8>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub bytes: Vec<u8>,
    /// The first path that leads to it.
    pub same_as: Vec<u8>,
}

/// All below a directory.
pub type Below = BTreeMap<Vec<u8>, Kept>;

/// All below a directory, its files' bytes left out, and the file at each path.
pub fn look_below(
    tree: &Tree,
    on: &impl Objects,
    top: ObjectId,
) -> (Below, Vec<(Vec<u8>, ObjectId)>) {
    let (mut found, mut files, mut first) = (Below::new(), Vec::new(), BTreeMap::new());
    let mut waiting = vec![(top, Vec::new())];
    while let Some((object, path)) = waiting.pop() {
        let inode = tree.inode(on, object).expect("what has a name is there");
        let names = tree.xattr_list(on, object).unwrap();
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && *name != TIER);
        let value = |name| tree.xattr(on, object, name).unwrap().to_vec();
        let mut kept = Kept {
            mode: inode.mode,
            owner: (inode.uid, inode.gid),
            links: inode.links,
            modified_ns: inode.modified_ns,
            target: Vec::new(),
            xattrs: names.map(|name| (name.to_vec(), value(name))).collect(),
            bytes: Vec::new(),
            same_as: first.entry(object).or_insert_with(|| path.clone()).clone(),
        };
        match inode.kind() {
            Kind::File => files.push((path.clone(), object)),
            Kind::Symlink => kept.target = tree.read_link(on, object).unwrap().to_vec(),
            Kind::Directory => {
                for line in tree.list(on, object, FIRST_COOKIE).unwrap() {
                    let line = line.expect("directories can be read");
                    if !matches!(line.name, b"." | b"..") {
                        let found = tree.lookup(on, object, line.name).unwrap();
                        assert_eq!(found.object, line.object);
                        waiting.push((line.object, [&path[..], b"/", line.name].concat()));
                    }
                }
            }
            _ => {}
        }
        found.insert(path, kept);
    }
    (found, files)
}

/// May this byte be there after a crash that left the names of the view `state`? Of the views since the last
/// flush, oldest first: blocks written since then may be there or not, those that were written after a
/// cut which was lost among them; but what was cut off does not come back.
pub fn may_be(past: &[View], file: ObjectId, at: usize, byte: u8, state: usize) -> bool {
    let value = |view: &View| Some(*view.contents.get(&file)?.get(at)?);
    let first = (0..=state).rev().find(|state| value(&past[*state]).is_none());
    let later = past[state + 1..].iter().any(|view| value(view).unwrap_or(0) == byte);
    let until = &past[first.unwrap_or(0)..=state];
    later || until.iter().any(|view| value(view).unwrap_or(0) == byte)
}

/// Nothing is wrong with a volume.
pub fn assert_sound(fs: &Mounted) {
    let mut faults = Vec::new();
    tandem_names::check::check(&fs.store, fs.tree.root(), &mut |fault| faults.push(fault));
    assert!(faults.is_empty(), "{faults:?}");
}
