//! What does it change when a file is called otherwise, or two files change names?

use crate::draft::Draft;
use crate::entry::{self, Entry};
use crate::error::NameError;
use crate::inode::Kind;
use crate::make::add_link;
use crate::objects::{Change, Objects};
use crate::tree::Tree;
use tandem_block::ObjectId;

/// `RENAME_NOREPLACE`: the new name must be free.
pub const NOREPLACE: u32 = 1;
/// `RENAME_EXCHANGE`: the two change places.
pub const EXCHANGE: u32 = 2;

/// Steps to the root after which a path must be a circle: no drive holds so many directories.
const DEPTH_MAX: u32 = 1 << 24;

/// One side of a renaming.
struct Side<'a> {
    directory: ObjectId,
    position: u64,
    entry: Entry<'a>,
}

impl Side<'_> {
    fn is_directory(&self) -> bool {
        self.entry.kind == Kind::Directory
    }
}

impl Tree {
    /// Calls `from` by the name `to`, in place of what has that name; `flags` are those of
    /// `renameat2`.
    ///
    /// # Errors
    /// `NotFound`, `Exists` (with [`NOREPLACE`]), `Invalid` (a directory into itself, flags that do
    /// not go together), `IsDirectory`, `NotDirectory`, `NotEmpty`, `TooManyLinks`, `TooLong`,
    /// `NoSpace`, `OtherVolume`, `Damaged`.
    pub fn rename(
        &self,
        on: &impl Objects,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        flags: u32,
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        entry::check_name(from.1)?;
        entry::check_name(to.1)?;
        if !matches!(flags, 0 | NOREPLACE | EXCHANGE) {
            return Err(NameError::Invalid);
        }
        let mut draft = self.draft(on);
        draft.directory(from.0)?;
        draft.directory(to.0)?;
        let side = |(directory, name): (ObjectId, &[u8])| {
            let found = entry::find(on, directory, name)?;
            Ok(found.map(|(position, entry)| Side { directory, position, entry }))
        };
        let source = side(from)?;
        if source.is_none() && self.is_for_snapshots(from.0, from.1) {
            return Err(NameError::NotPermitted);
        }
        let source = source.ok_or(NameError::NotFound)?;
        let target = side(to)?;
        match &target {
            Some(_) if flags == NOREPLACE => return Err(NameError::Exists),
            None if flags == EXCHANGE => return Err(NameError::NotFound),
            _ => {}
        }
        self.stays_outside(on, &source, to.0)?;
        match target {
            // two names of one file: POSIX asks that nothing happens
            Some(target) if target.entry.object == source.entry.object => return Ok(Vec::new()),
            Some(target) if flags == EXCHANGE => {
                self.stays_outside(on, &target, from.0)?;
                exchange(&mut draft, &source, &target)?;
                draft.inode(target.entry.object)?.changed_ns = now_ns;
            }
            Some(target) => self.replace(&mut draft, &source, &target, now_ns)?,
            None => {
                draft.remove_entry(from.0, source.position);
                move_directory(&mut draft, &source, to.0)?;
                draft.add_entry(to.0, to.1, (source.entry.object, source.entry.kind))?;
            }
        }
        draft.inode(source.entry.object)?.changed_ns = now_ns;
        draft.touch_directory(from.0, now_ns)?;
        draft.touch_directory(to.0, now_ns)?;
        Ok(draft.finish())
    }

    fn replace<O: Objects>(
        &self,
        draft: &mut Draft<'_, O>,
        source: &Side<'_>,
        target: &Side<'_>,
        now_ns: i64,
    ) -> Result<(), NameError> {
        match (source.is_directory(), target.is_directory()) {
            (true, false) => return Err(NameError::NotDirectory),
            (false, true) => return Err(NameError::IsDirectory),
            _ => {}
        }
        self.lose_name(draft, target.directory, target.entry.object, now_ns)?;
        draft.remove_entry(source.directory, source.position);
        move_directory(draft, source, target.directory)?;
        let entry = Entry { name: target.entry.name, ..source.entry };
        draft.point(target.directory, target.position, &entry);
        Ok(())
    }

    /// A directory cannot go into itself, nor below.
    fn stays_outside(
        &self,
        on: &impl Objects,
        moved: &Side<'_>,
        into: ObjectId,
    ) -> Result<(), NameError> {
        if !moved.is_directory() || moved.directory == into {
            return Ok(());
        }
        let mut at = into;
        for _ in 0..DEPTH_MAX {
            if at == moved.entry.object {
                return Err(NameError::Invalid);
            }
            if at == self.root {
                return Ok(());
            }
            at = self.directory(on, at)?.parent;
        }
        Err(NameError::Damaged(into))
    }
}

/// A directory takes its `..` along.
fn move_directory<O: Objects>(
    draft: &mut Draft<'_, O>,
    moved: &Side<'_>,
    into: ObjectId,
) -> Result<(), NameError> {
    if moved.is_directory() && moved.directory != into {
        draft.inode(moved.entry.object)?.parent = into;
        let left = draft.inode(moved.directory)?;
        left.links = left.links.checked_sub(1).ok_or(NameError::Damaged(moved.directory))?;
        add_link(draft.inode(into)?)?;
    }
    Ok(())
}

fn exchange<O: Objects>(
    draft: &mut Draft<'_, O>,
    one: &Side<'_>,
    other: &Side<'_>,
) -> Result<(), NameError> {
    for (here, there) in [(one, other), (other, one)] {
        let entry = Entry { name: here.entry.name, ..there.entry };
        draft.point(here.directory, here.position, &entry);
        move_directory(draft, there, here.directory)?;
    }
    Ok(())
}
