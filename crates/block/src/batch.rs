//! What changes of objects happen together or not at all?
//!
//! Source: design, "A request": `Batch[object ops]` commits in one record (rename; append = data and
//! size); requirements L3 (create, delete, truncate, get and set attribute). Names of volumes are the
//! front end's; the engine keeps them unique. Other objects have no names: a file's name is an attribute
//! of its directory.

use crate::{ObjectId, RequestId, RequestType};

/// What an object is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A block volume: named, its space reserved when it is made.
    #[default]
    Volume,
    /// A file's contents: thin, its blocks are taken when they are first written.
    Data,
    /// A directory: its entries are attributes. Thin too, should a front end store more in it.
    Directory,
}

impl ObjectKind {
    /// What is stored in it.
    pub const fn data_type(self) -> RequestType {
        match self {
            ObjectKind::Volume | ObjectKind::Data => RequestType::Data,
            ObjectKind::Directory => RequestType::Metadata,
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectOp {
    /// A new volume of zeroes, whose space is reserved.
    Create {
        /// Its id, not in use.
        object: ObjectId,
        /// Its name, not in use, at most [`NAME_BYTES_MAX`] bytes.
        name: String,
        /// Its size: a multiple of 4096, not zero.
        size_bytes: u64,
    },
    /// A new object of no bytes and no name, which takes space as it is written to (one that is written
    /// to beyond the pool's space gets ENOSPC).
    CreateThin {
        /// Its id, not in use.
        object: ObjectId,
        /// What it is for; not `Volume`.
        kind: ObjectKind,
        /// The volume whose policies apply to it.
        volume: ObjectId,
        /// Whose it is: a number of the front end's.
        owner: u64,
    },
    /// The object, its contents and its attributes go.
    Remove {
        /// Which.
        object: ObjectId,
    },
    /// The object has another name from now on; one that has this name must have been removed or
    /// renamed before in the same batch.
    Rename {
        /// Which.
        object: ObjectId,
        /// Its new name.
        name: String,
    },
    /// The object has another size: what is cut off is gone, what is added reads as zeroes (of a thin
    /// object whole blocks alone: the rest of its last block is the front end's to zero).
    Resize {
        /// Which.
        object: ObjectId,
        /// Its new size: of a volume a multiple of 4096, not zero.
        size_bytes: u64,
    },
    /// The object has this attribute from now on, in place of one with the same key.
    SetAttribute {
        /// Which.
        object: ObjectId,
        /// 1 to [`KEY_BYTES_MAX`] bytes.
        key: Box<[u8]>,
        /// [`VALUE_BYTES_MAX`] bytes at most.
        value: Box<[u8]>,
    },
    /// The attribute goes; it must be there.
    RemoveAttribute {
        /// Which.
        object: ObjectId,
        /// Of which attribute.
        key: Box<[u8]>,
    },
    /// Some blocks of a thin object are those of another one, or others of its own, as they are now: by
    /// reference, until either is written to. What they held before is gone.
    Share {
        /// Whose they are.
        from: ObjectId,
        /// The first of them.
        from_block: u64,
        /// Who has them, too.
        to: ObjectId,
        /// Its first block that changes.
        to_block: u64,
        /// How many, in both within the size.
        blocks: u64,
    },
    /// A volume as it is now, under a name of its own: by reference, and it never changes.
    Snapshot {
        /// The volume.
        from: ObjectId,
        /// The snapshot's id, not in use.
        to: ObjectId,
        /// Its name, not in use, at most [`NAME_BYTES_MAX`] bytes.
        name: String,
    },
}

impl ObjectOp {
    /// The object that it changes.
    pub const fn object(&self) -> ObjectId {
        match self {
            ObjectOp::Create { object, .. }
            | ObjectOp::CreateThin { object, .. }
            | ObjectOp::Remove { object }
            | ObjectOp::Rename { object, .. }
            | ObjectOp::Resize { object, .. }
            | ObjectOp::SetAttribute { object, .. }
            | ObjectOp::RemoveAttribute { object, .. } => *object,
            ObjectOp::Share { to, .. } | ObjectOp::Snapshot { to, .. } => *to,
        }
    }

    /// The object whose blocks another one gets, too.
    pub const fn shared_from(&self) -> Option<ObjectId> {
        match self {
            ObjectOp::Share { from, .. } | ObjectOp::Snapshot { from, .. } => Some(*from),
            _ => None,
        }
    }
}

/// Longest key of an attribute in bytes: a name of 255 behind eight of the front end's own, and one more.
pub const KEY_BYTES_MAX: usize = 264;
/// The attribute of an object that names the tier that applies to it, instead of its volume's: what a file
/// system shows as `user.tandem.tier`. The value is one of the names that the volume lets its files have; what
/// is none of them says nothing.
pub const TIER_KEY: &[u8] = b"Xuser.tandem.tier";
/// Longest value of an attribute in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Longest name of an object in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Changes that commit in one record, in their order: after a crash all of them are there, or none; and
/// no batch without those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Echoed in the completion.
    pub id: RequestId,
    /// What to do.
    pub ops: Vec<ObjectOp>,
    /// Answered when it is durable; otherwise as soon as it can be seen, and durable with the next FLUSH
    /// that is handed in after the answer, if not before.
    pub durable: bool,
}
