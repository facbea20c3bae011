//! How are volumes served as files, for those who have no block device of ours?
//!
//! Source: issue of the spine; deps 4.3 (a FUSE file beats NBD at every point measured). `fuser`
//! mounts, negotiates and unmounts; the requests themselves are read, understood and answered by
//! the world's own thread. So no request crosses threads at all, a large write goes from the kernel
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
mod inbox;
mod mount;
mod plan;
mod server;
pub mod wire;

pub use files::VolumeFile;
pub use mount::{FuseError, Mount, TRANSFER_BYTES_MAX, check_point};
pub use server::FuseServer;

/// Fuzz entry: whatever the kernel says, it is understood or refused, within its own bytes.
pub fn fuzz_message(bytes: &[u8]) {
    if let Some((_, wire::Ask::Lookup { name_bytes })) = wire::parse(bytes, bytes.len()) {
        assert!(wire::HEADER_BYTES + name_bytes < bytes.len(), "the name ends in the message");
    }
}
