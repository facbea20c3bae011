//! What can go wrong with a request, and what does the operating system call it?

use crate::DeviceId;

/// Trouble with a request or a drive, as data. Every variant has an errno for front ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The drive answered with an error for this operation.
    #[error("device {} reported an I/O error", .0.0)]
    Device(DeviceId),
    /// The drive is gone or was taken out of service after an error.
    #[error("device {} is dead or faulted", .0.0)]
    Dead(DeviceId),
    /// The drive left the operation without an answer for longer than it may.
    #[error("device {} did not answer within its deadline", .0.0)]
    NoAnswer(DeviceId),
    /// The bytes read do not match their recorded checksum, and no other copy exists.
    #[error("checksum mismatch on device {} and no good copy is left", .0.0)]
    Checksum(DeviceId),
    /// The request names bytes beyond the end of its object.
    #[error("the request reaches beyond the end of the object")]
    OutOfRange,
    /// Offset or length is not a multiple of 512, or the length is zero or too large.
    #[error("offset and length must be multiples of 512 within the request limit")]
    Misaligned,
    /// No such object.
    #[error("no such object")]
    NoObject,
    /// An over-committed object found no space.
    #[error("no space left in the pool")]
    NoSpace,
    /// A name is longer than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    /// An attribute without a key, or with a key of more than 264 or a value of more than 4096 bytes.
    #[error("an attribute has a key of 1 to 264 bytes and a value of at most 4096")]
    AttributeSize,
    /// No attribute of this key.
    #[error("no such attribute")]
    NoAttribute,
    /// Requests for an object that shall go, or shrink, are under way.
    #[error("the object is in use")]
    Busy,
    /// A batch of more steps than one record can hold.
    #[error("too many steps for one batch")]
    TooLarge,
    /// The pool is stopping and takes no new requests.
    #[error("the pool is shutting down")]
    Stopping,
    /// The object exists already.
    #[error("the object exists already")]
    Exists,
    /// Drives are gone, and the pool is served from the others as it is.
    #[error("the pool is read-only: drives are missing")]
    ReadOnly,
    /// A snapshot shows what was, and never changes.
    #[error("a snapshot is never written to")]
    Snapshot,
    /// The server may not have the memory that the request needs.
    #[error("no memory for the request")]
    NoMemory,
    /// The operation is not possible on this drive or object.
    #[error("operation not supported")]
    Unsupported,
}

impl IoError {
    /// The Linux errno that front ends answer with.
    pub const fn errno(self) -> i32 {
        match self {
            IoError::Device(_) | IoError::Dead(_) | IoError::NoAnswer(_) | IoError::Checksum(_) => {
                5
            }
            IoError::OutOfRange | IoError::Misaligned => 22,
            IoError::NoObject => 2,
            IoError::NoSpace => 28,
            IoError::NameTooLong => 36,
            IoError::AttributeSize => 34,
            IoError::NoAttribute => 61,
            IoError::Busy => 16,
            IoError::TooLarge => 7,
            IoError::Stopping => 108,
            IoError::Exists => 17,
            IoError::ReadOnly | IoError::Snapshot => 30,
            IoError::NoMemory => 12,
            IoError::Unsupported => 95,
        }
    }
}
