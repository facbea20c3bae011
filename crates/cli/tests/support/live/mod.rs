//! Does a real server lose, mix up or hang anything while it is used, administered and killed?
//!
//! The live arm of the campaign: a server over small drives, clients that know what each sector must
//! hold, verbs beside them, and ends of all kinds, for as long as one likes.

pub mod files;
pub mod full;
pub mod history;
pub mod lives;
pub mod pattern;
pub mod pools;
pub mod server;
pub mod snapshots;
pub mod table;
pub mod tree;
pub mod verbs;
pub mod volume;
