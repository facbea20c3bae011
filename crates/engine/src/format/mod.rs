//! What are the bytes on disk? The only room that knows offsets.
//!
//! Everything is little-endian, versioned, and covered by a CRC-32C. Drawn in docs/FORMAT.md.

pub(crate) mod cursor;
pub mod fuzz;
pub mod image;
pub mod layout;
pub mod leaf;
pub mod page;
pub mod pair;
pub mod pair_journal;
pub mod pointer;
pub mod record;
pub mod record_writer;
pub mod replacement;
pub mod root;
pub mod superblock;
pub mod unit;

/// CRC-32C (Castagnoli) of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Why bytes could not be decoded. Says what and where; the caller adds which drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes end too early.
    #[error("{what} is cut short at byte {at}")]
    Short {
        /// Which structure.
        what: &'static str,
        /// Where in it.
        at: usize,
    },
    /// The magic number is another.
    #[error("this is not a {what}: the magic number is wrong")]
    Magic {
        /// Which structure.
        what: &'static str,
    },
    /// The checksum does not match.
    #[error("{what} is damaged: its checksum does not match")]
    Checksum {
        /// Which structure.
        what: &'static str,
    },
    /// A program of before version 3 wrote this.
    #[error(
        "{what} has version {found}, made by an earlier Tandem: serve the pool with that program, and copy its \
         volumes to a new pool, as with 'nbdcopy'"
    )]
    Earlier {
        /// Which structure.
        what: &'static str,
        /// The version found.
        found: u32,
    },
    /// A newer program wrote this.
    #[error("{what} has version {found}, this program knows {known}: use a newer program")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The version known.
        known: u32,
    },
    /// A newer program uses what this one does not know.
    #[error(
        "{what} has {kind} features {bits:#x}, which this program does not know, and it must not write to such a \
         pool: use a newer program"
    )]
    Features {
        /// Which structure.
        what: &'static str,
        /// Incompatible or read-only compatible.
        kind: &'static str,
        /// Those that are not known.
        bits: u64,
    },
    /// A field holds an impossible value.
    #[error("{what} is damaged: {field} cannot be {value}")]
    Field {
        /// Which structure.
        what: &'static str,
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
}
