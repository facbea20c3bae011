//! What changes of objects happen together or not at all?
//!
//! Source: design, "A request": `Batch[object ops]` commits in one record (rename; append = data and
//! size). Names are the front end's; the engine keeps them unique.

use crate::{ObjectId, RequestId};

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectOp {
    /// A new object of zeroes.
    Create {
        /// Its id, not in use.
        object: ObjectId,
        /// Its name, not in use, at most [`NAME_BYTES_MAX`] bytes.
        name: String,
        /// Its size: a multiple of 4096, not zero.
        size_bytes: u64,
    },
    /// The object and its contents go.
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
    /// The object has another size: what is cut off is gone, what is added reads as zeroes.
    Resize {
        /// Which.
        object: ObjectId,
        /// Its new size: a multiple of 4096, not zero.
        size_bytes: u64,
    },
}

/// Longest name of an object in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Changes that commit in one record, in their order: after a crash all of them are there, or none.
/// The answer comes when they are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Echoed in the completion.
    pub id: RequestId,
    /// What to do.
    pub ops: Vec<ObjectOp>,
}
