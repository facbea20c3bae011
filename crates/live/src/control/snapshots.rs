//! Which snapshots may be taken and deleted, and which are there?
//!
//! A snapshot of volume `vol0` called `monday` is an object named `vol0@monday`.

use super::Asked;
use crate::users::Users;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tandem_block::{BLOCK_BYTES, IoError, ObjectId, ObjectOp};
use tandem_engine::Engine;

/// Longest name of a snapshot, in bytes: the volume's stands before it.
const NAME_BYTES_MAX: usize = 100;

/// What is done with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Of which volume.
    pub volume: String,
    /// What it is called, or shall be.
    pub name: String,
    /// It goes; otherwise it is made.
    pub delete: bool,
}

impl Snapshot {
    /// What clients call it.
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.volume, self.name)
    }

    pub(super) fn parse(request: &Value, delete: bool) -> Result<Asked, String> {
        let (volume, name) = (super::text(request, "volume")?, super::text(request, "name")?);
        Ok(Asked::Snapshot(Snapshot { volume, name, delete }))
    }

    /// What has to be done, or why it cannot be.
    pub(super) fn op(&self, engine: &Engine, users: &Users) -> Result<ObjectOp, String> {
        let objects = engine.objects();
        let Some((from, known)) = objects.find(&self.volume) else {
            let volumes = objects.named().filter(|(_, known)| !known.is_snapshot);
            let names: Vec<&str> = volumes.map(|(_, known)| known.name.as_str()).collect();
            let (volume, names) = (&self.volume, names.join(", "));
            return Err(format!("there is no volume {volume:?} in this pool, only: {names}"));
        };
        let full = self.full_name();
        if self.delete {
            return match objects.find(&full) {
                Some((_, known)) if !known.is_snapshot => Err(format!("{full} is a volume")),
                Some((object, _)) if users.of(object) > 0 => Err(format!(
                    "{full} is in use by {} NBD client(s): disconnect them first",
                    users.of(object)
                )),
                Some((object, _)) => Ok(ObjectOp::Remove { object }),
                None => Err(format!("there is no snapshot {full}")),
            };
        }
        if known.is_snapshot {
            let origin = engine.object(known.volume).map_or("its volume", |it| it.name.as_str());
            return Err(format!(
                "{} is a snapshot itself and never changes, so another one would be the same; take it of \
                 {origin}",
                self.volume
            ));
        }
        if !objects.has_table() {
            let why =
                "this pool was formatted without a table of objects, where snapshots are noted";
            return Err(why.into());
        }
        // one that was never mounted has no attributes yet, but is of one block
        let has_attributes = engine.attributes_from(from, &[]).next().is_some();
        if has_attributes || known.size_bytes == BLOCK_BYTES {
            return Err(format!(
                "{} is a volume of files, whose snapshots are directories of its mount: mkdir \
                 MOUNT/.snapshots MOUNT/.snapshots/{}",
                self.volume, self.name
            ));
        }
        check_name(&self.name)?;
        if objects.find(&full).is_some() {
            return Err(format!("there is a snapshot {full} already"));
        }
        Ok(ObjectOp::Snapshot { from, to: id_of(&full), name: full })
    }

    /// How it ended, in words for the client.
    pub(super) fn answer(&self, status: Result<(), IoError>) -> Value {
        let full = self.full_name();
        match status {
            Ok(()) if self.delete => json!({ "deleted": full }),
            Ok(()) => json!({ "snapshot": full }),
            Err(IoError::TooLarge) => json!({ "error": format!(
                "{} lies in too many pieces for a snapshot: delete older ones that are not needed, or \
                 copy it to another volume",
                self.volume
            ) }),
            Err(IoError::NoSpace) => json!({ "error": format!(
                "the table of objects has no room for the pieces of {full}: delete older snapshots, or files"
            ) }),
            Err(error) => json!({ "error": format!("{full}: {error}") }),
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_odd = |c: char| c == '@' || c == '/' || c.is_control() || c.is_whitespace();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(is_odd) {
        return Err(format!(
            "{name:?} cannot be the name of a snapshot: 1 to {NAME_BYTES_MAX} bytes without '@', '/' and \
             blanks"
        ));
    }
    Ok(())
}

/// As volumes have theirs: FNV-1a of the name.
fn id_of(name: &str) -> ObjectId {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    ObjectId(name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// Asks the server behind this socket to take a snapshot, or to delete one.
///
/// # Errors
/// If nobody listens or answers; what the server refuses is in its answer, under `error`.
pub fn ask_for_snapshot(socket: &Path, it: &Snapshot) -> io::Result<Value> {
    let verb = if it.delete { "delete-snapshot" } else { "snapshot" };
    super::send(socket, &json!({ "verb": verb, "volume": it.volume, "name": it.name }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_blanks_and_nothing_that_parts_them() {
        for name in ["", "a@b", "a/b", "a b", "a\n", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["monday", "2026-11-22", "\u{e4}", &"x".repeat(100)] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn ids_are_those_that_a_configuration_gives_volumes() {
        assert_eq!(id_of("a"), ObjectId(0xaf63_dc4c_8601_ec8c));
    }
}
