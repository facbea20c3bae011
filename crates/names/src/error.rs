//! Why was an operation on names refused, and what does the operating system call it?

use tandem_block::ObjectId;

/// Why not. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists already")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// A directory cannot be used like this.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Longer than 255 bytes (a symbolic link's target: 4095).
    #[error("the name is too long")]
    TooLong,
    /// Not a name, not a number that makes sense here, or a directory moved into itself.
    #[error("invalid argument")]
    Invalid,
    /// A symbolic link cannot be opened.
    #[error("is a symbolic link")]
    SymbolicLink,
    /// As many links as can be counted.
    #[error("too many links")]
    TooManyLinks,
    /// The two belong to different volumes.
    #[error("the two belong to different volumes")]
    OtherVolume,
    /// No room for another object or entry.
    #[error("no space left on the volume")]
    NoSpace,
    /// Larger than a file can be.
    #[error("file too large")]
    FileTooLarge,
    /// No such extended attribute.
    #[error("no such extended attribute")]
    NoAttribute,
    /// An extended attribute's value, or the list of their names, is too large.
    #[error("the extended attribute is too large")]
    AttributeTooLarge,
    /// Not allowed on this kind of file.
    #[error("operation not permitted")]
    NotPermitted,
    /// A snapshot, and where snapshots are: nothing in them changes.
    #[error("snapshots are read-only")]
    ReadOnly,
    /// Somebody has it, or something in it, open.
    #[error("it is in use")]
    Busy,
    /// Not done by this file system.
    #[error("operation not supported")]
    Unsupported,
    /// What the attributes of this object say makes no sense: `tandem check` says more.
    #[error("the metadata of object {} is damaged; run `tandem check`", .0.0)]
    Damaged(ObjectId),
}

impl NameError {
    /// The Linux errno that front ends answer with.
    pub const fn errno(self) -> i32 {
        match self {
            NameError::NotPermitted => 1,
            NameError::NotFound => 2,
            NameError::Damaged(_) => 5,
            NameError::AttributeTooLarge => 7,
            NameError::Busy => 16,
            NameError::Exists => 17,
            NameError::OtherVolume => 18,
            NameError::NotDirectory => 20,
            NameError::IsDirectory => 21,
            NameError::Invalid => 22,
            NameError::FileTooLarge => 27,
            NameError::NoSpace => 28,
            NameError::ReadOnly => 30,
            NameError::TooManyLinks => 31,
            NameError::TooLong => 36,
            NameError::NotEmpty => 39,
            NameError::SymbolicLink => 40,
            NameError::NoAttribute => 61,
            NameError::Unsupported => 95,
        }
    }
}
