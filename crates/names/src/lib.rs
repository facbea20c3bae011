//! What is a file called, and what does an operation on it change?
//!
//! Source: design, "A request" (a `Batch` of object operations commits in one record);
//! [LORIS §III] (naming is a layer over files with attributes, and knows nothing of devices).
//!
//! A POSIX file system over the engine's objects, as functions: they look at the attributes of
//! objects, which the engine holds in RAM, and say what to change. They do no I/O, read no clock and
//! keep nothing that a crash could lose, so that the server and the simulator drive them alike.
//!
//! ```text
//!  directory 7            file 9                     root of the volume
//!  ├ I  inode             ├ I  inode: mode, owner,   ├ I, E, X as any directory
//!  ├ E  "a" → 9, file     │    links, size, times    ├ V  epoch, cleanly unmounted?
//!  ├ E  "b" → 8, symlink  ├ X  user.tandem.tier      └ O  9: without a name, and still open
//!  └ X  extended attr.    └ (bytes of the object)
//! ```
//!
//! **How it is driven.** Every method that changes something returns a list of [`Change`]s. The caller
//! commits them as one batch, and calls no other changing method of the same volume until the engine
//! has *applied* the batch (it need not be durable: batches become durable in their order, and all
//! that were applied by the next FLUSH). If the engine refuses it, nothing has changed. `fsync` of
//! anything is a FLUSH.
//!
//! **Bytes of a file** move between calls, so only one of these is under way for a file at a time:
//!
//! ```text
//!  write:    clean*  →  make_room, commit  →  write the bytes  →  written, commit
//!  grow:     clean*  →  set_attributes, commit               shrink: set_attributes, commit
//!  clean* :  while stale_tail says so: write zeroes there, FLUSH, tail_is_zero, commit
//! ```
//!
//! Bytes go before the size that shows them. What a crash may leave behind the end of a file (bytes
//! of a write whose size was lost, or that were cut off within a block) must not show when the file
//! grows over them: [`Inode::tail_epoch`] says whether the bytes there are known to be zeroes, and the
//! first growth after a crash, or after a cut within a block, zeroes and flushes them before.
//!
//! **Clones.** [`Tree::share`] gives a file blocks of another one, by reference: one change of a batch like
//! any other. Whoever applies it makes durable first what had been written to either.
//!
//! **Snapshots** of the whole volume are directories in `.snapshots` that share all blocks with it
//! ([`Tree::begin_snapshot`]); what belongs to them can be read by every method here, and changed by none.

mod attributes;
pub mod check;
mod data;
mod draft;
mod entry;
mod error;
pub mod fuzz;
mod inode;
mod key;
mod list;
mod make;
pub mod memory;
mod objects;
mod privileges;
mod remove;
mod rename;
mod share;
mod snapshots;
mod snapshotting;
mod tree;
mod volume;
mod xattr;

pub use attributes::SetAttributes;
pub use data::{Cover, FILE_BYTES_MAX, ReadRange, StaleTail, cover};
pub use entry::NAME_BYTES_MAX;
pub use error::NameError;
pub use inode::{Inode, Kind, mode};
pub use list::{FIRST_COOKIE, Listed};
pub use make::{Made, New, SYMLINK_BYTES_MAX};
pub use objects::{Change, Objects, Space};
pub use privileges::Strip;
pub use rename::{EXCHANGE, NOREPLACE};
pub use share::Shared;
pub use snapshots::SNAPSHOTS_NAME;
pub use snapshotting::Snapshotting;
pub use tree::{Caller, LINKS_MAX, Stat, Tree};
pub use volume::{FsStat, VolumeMark};
pub use xattr::{SetMode, TIER_ATTRIBUTE, XATTR_LIST_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
