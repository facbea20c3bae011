//! What do names stand on? Objects with attributes, and changes of them that happen together.

use tandem_block::{ObjectId, ObjectKind, ObjectOp};

/// Room of a volume, for `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can be stored in all.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Objects that there are.
    pub objects: u64,
    /// Objects that can still be made.
    pub free_objects: u64,
}

/// The objects as they are at present: everything that was applied, durable or not.
pub trait Objects {
    /// Size of an object in bytes, a multiple of 4096 or zero; `None` if there is no such object.
    fn size_bytes(&self, object: ObjectId) -> Option<u64>;

    /// The value of an attribute.
    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]>;

    /// The first attribute whose key is greater than `after`, in the order of bytes.
    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])>;

    /// The first object whose id is greater than `after`, for checks.
    fn next_object(&self, after: ObjectId) -> Option<ObjectId>;

    /// The first of so many ids, one behind the other, that no object has or has ever had.
    fn fresh_ids(&self, count: u64) -> ObjectId;

    /// An id that no object has or has ever had.
    fn fresh_id(&self) -> ObjectId {
        self.fresh_ids(1)
    }

    /// How much room there is.
    fn space(&self) -> Space;
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new object without bytes and attributes.
    Create {
        /// Its id, from [`Objects::fresh_id`].
        object: ObjectId,
        /// A directory, or anything else.
        is_directory: bool,
        /// The root of its volume, whose policies apply to it.
        volume: ObjectId,
    },
    /// The object goes, with its bytes and attributes.
    Remove {
        /// Which.
        object: ObjectId,
    },
    /// Another size: what is cut off is gone, what is added reads as zeroes.
    Resize {
        /// Which.
        object: ObjectId,
        /// Its size, a multiple of 4096 or zero.
        size_bytes: u64,
    },
    /// An attribute has this value from now on.
    Set {
        /// Whose.
        object: ObjectId,
        /// At most 264 bytes.
        key: Vec<u8>,
        /// At most 4096 bytes.
        value: Vec<u8>,
    },
    /// Some blocks of an object are those of another one, by reference; what was there is gone.
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
    /// An attribute that there is goes.
    Unset {
        /// Whose.
        object: ObjectId,
        /// Which.
        key: Vec<u8>,
    },
}

impl Change {
    /// As the pool is told.
    pub fn into_op(self) -> ObjectOp {
        match self {
            Change::Create { object, is_directory, volume } => {
                let kind = if is_directory { ObjectKind::Directory } else { ObjectKind::Data };
                ObjectOp::CreateThin { object, kind, volume, owner: 0 }
            }
            Change::Remove { object } => ObjectOp::Remove { object },
            Change::Resize { object, size_bytes } => ObjectOp::Resize { object, size_bytes },
            Change::Set { object, key, value } => {
                ObjectOp::SetAttribute { object, key: key.into(), value: value.into() }
            }
            Change::Share { from, from_block, to, to_block, blocks } => {
                ObjectOp::Share { from, from_block, to, to_block, blocks }
            }
            Change::Unset { object, key } => ObjectOp::RemoveAttribute { object, key: key.into() },
        }
    }
}
