//! How are volumes served as files, for those who have no block device of ours?
//!
//! Source: issue of the spine; deps 4.3 (a FUSE file beats NBD at every point measured). `fuser`
//! mounts, negotiates and unmounts; the requests themselves are read, understood and answered by
//! the event loop's own thread. So no request crosses threads at all, a large write goes from the kernel
//! into its payload without a copy, and a read is answered from the engine's memory.
//!
//! ```text
//!   /dev/fuse ─▶ inbox ─▶ wire (what is asked) ─▶ server ─▶ plan (whole sectors) ─▶ the engine
//!        ▲                                          │
//!        └───────────────── reply ──────────────────┘
//! ```
//!
//! What a user may rely on: `fsync`, `fdatasync` and `O_DSYNC` writes are durable when they return;
//! any byte range may be read and written, unless the file was opened with `O_DIRECT`, which asks
//! for whole 512-byte sectors as a disk does (`EINVAL` otherwise); punching holes discards and
//! zeroing a range zeroes; the size is the volume's and never changes (`EPERM`).

mod files;
mod files_server;
mod inbox;
mod mount;
mod plan;
mod pool;
mod server;
pub mod tree;
pub mod wire;

pub use files::VolumeFile;
pub use files_server::{AtUnmount, FilesServer, Trouble};
pub use mount::{FuseError, Mount, Reach, TRANSFER_BYTES_MAX, check_point};
pub use pool::FileIds;
pub use server::FuseServer;

/// Fuzz entry: whatever the kernel says, it is understood within its own bytes (1), refused (0), or
/// no message at all.
pub fn fuzz_message(bytes: &[u8]) -> Option<u64> {
    let (_, ask) = wire::parse(bytes, bytes.len())?;
    if let wire::Ask::Lookup { name_bytes } = ask {
        assert!(wire::HEADER_BYTES + name_bytes < bytes.len(), "the name ends in the message");
    }
    Some(u64::from(!matches!(ask, wire::Ask::Refused(_))))
}

/// A message of each kind that is understood, to begin fuzzing with.
pub fn sound_messages() -> Vec<Vec<u8>> {
    // opcodes of uapi/linux/fuse.h with the size of their bodies
    [(1, 5), (3, 16), (4, 88), (14, 8), (15, 40), (16, 40), (17, 0), (20, 16), (28, 40), (43, 32)]
        .iter()
        .chain(&[(18, 24), (27, 8), (42, 8), (46, 24)])
        .map(|(opcode, body): &(u32, u32)| {
            let total = wire::HEADER_BYTES as u32 + body;
            let mut bytes = [total.to_ne_bytes(), opcode.to_ne_bytes()].concat();
            bytes.resize(total as usize, 0);
            bytes
        })
        .collect()
}
