//! Do the names of a volume of files say the truth, and what is the name of a file that is damaged?

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tandem_block::ObjectId;
use tandem_engine::Engine;
use tandem_names::{Kind, Objects, SNAPSHOTS_NAME, Space, Tree, VolumeMark, check};

/// Faults that are listed.
const FAULTS_MAX: usize = 100;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Names {
    /// It was never mounted: there is nothing in it yet.
    blank: bool,
    /// Who had it mounted last said goodbye.
    clean: bool,
    directories: u64,
    files: u64,
    /// Files without a name, and what is left of deleted snapshots: the next mount removes them.
    orphans: u64,
    snapshots: u64,
    /// Directories and files in them.
    in_snapshots: u64,
    /// How much is wrong, and the first hundred.
    fault_count: u64,
    faults: Vec<String>,
    /// Names of those that were asked for.
    #[serde(skip)]
    paths: BTreeMap<u64, String>,
}

impl Names {
    /// Is nothing wrong?
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }

    /// The name of one of the files that `check` was asked for.
    pub fn name_of(&self, object: u64) -> Option<&str> {
        self.paths.get(&object).map(String::as_str)
    }

    /// Says it to a person.
    pub fn describe(&self, volume: &str, out: &mut String) {
        if self.blank {
            out.push_str(&format!("  {volume}: it was never mounted\n"));
            return;
        }
        let state = if self.clean { "unmounted cleanly" } else { "not unmounted cleanly" };
        let orphans = match self.orphans {
            0 => String::new(),
            count => format!(", {count} removed and not freed yet (the next mount does)"),
        };
        let snapshots = match self.snapshots {
            0 => String::new(),
            count => format!(", {count} snapshots of {} files in all", self.in_snapshots),
        };
        out.push_str(&format!(
            "  {volume}: {} directories and {} files{snapshots}{orphans}; {state}\n",
            self.directories, self.files
        ));
        for fault in &self.faults {
            out.push_str(&format!("  {volume}: {fault}\n"));
        }
        if self.fault_count > self.faults.len() as u64 {
            let more = self.fault_count - self.faults.len() as u64;
            out.push_str(&format!("  {volume}: and {more} more\n"));
        }
    }
}

/// Checks the names of the volume of this root, and finds those of the files `wanted`.
pub(super) fn check(engine: &Engine, root: ObjectId, wanted: &BTreeSet<u64>) -> Names {
    let on = View(engine);
    let mut names = Names::default();
    let Some(mark) = VolumeMark::of(&on, root) else {
        names.blank = true;
        return names;
    };
    names.clean = mark.is_ok_and(|mark| mark.is_clean);
    let checked = check::check(&on, root, &mut |fault| {
        names.fault_count += 1;
        if names.faults.len() < FAULTS_MAX {
            names.faults.push(fault.to_string());
        }
    });
    (names.directories, names.files) = (checked.directories, checked.files);
    names.orphans = checked.orphans;
    (names.snapshots, names.in_snapshots) = (checked.snapshots, checked.in_snapshots);
    if !wanted.is_empty() && names.is_sound() {
        names.paths = find_paths(&on, root, wanted);
    }
    names
}

/// One name of each, of a volume that is sound.
fn find_paths(on: &View<'_>, root: ObjectId, wanted: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let Ok((tree, _)) = Tree::mount(on, root, &[]) else { return found };
    let mut waiting = vec![(root, String::new())];
    let above = String::from_utf8_lossy(SNAPSHOTS_NAME);
    let snapshots = tree.snapshot_list(on).unwrap_or_default().into_iter();
    waiting.extend(
        snapshots.map(|(name, top)| (top, format!("/{above}/{}", String::from_utf8_lossy(&name)))),
    );
    while let Some((directory, path)) = waiting.pop() {
        let Ok(lines) = tree.list(on, directory, tandem_names::FIRST_COOKIE) else { continue };
        for line in lines.flatten().filter(|line| !matches!(line.name, b"." | b"..")) {
            let path = format!("{path}/{}", String::from_utf8_lossy(line.name));
            if line.kind == Kind::Directory {
                waiting.push((line.object, path));
            } else if wanted.contains(&line.object.0) {
                found.insert(line.object.0, path);
            }
        }
    }
    found
}

/// An engine's objects, to look at.
struct View<'a>(&'a Engine);

impl Objects for View<'_> {
    fn size_bytes(&self, object: ObjectId) -> Option<u64> {
        self.0.object(object).map(|known| known.size_bytes)
    }

    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.0.attribute(object, key)
    }

    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        self.0.attribute_after(object, after)
    }

    fn next_object(&self, after: ObjectId) -> Option<ObjectId> {
        self.0.object_after(after)
    }

    fn fresh_ids(&self, _count: u64) -> ObjectId {
        unreachable!("nothing is made while one looks")
    }

    fn space(&self) -> Space {
        Space::default()
    }
}
