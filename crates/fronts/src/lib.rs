//! Who is asking? One folder per protocol; each is a front end of the real event loop.
//!
//! Adding one: a folder here, and one line in the verb that serves.

pub mod fuse;
pub mod nbd;
pub mod null;
