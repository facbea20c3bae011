//! What steps does one job take?
//!
//! Each file continues `impl Engine` with the steps of one kind of job; the rooms are asked on the
//! way. A job is advanced by the completion that it waited for.

mod audit;
pub mod batch;
pub mod commit;
pub mod copies;
mod dispatch;
mod dropping;
mod gather;
pub mod hdd;
mod homes;
mod locations;
mod log_gc;
mod merge;
mod metadata;
pub mod moves;
mod part_block;
mod pieces;
mod read;
pub mod read_back;
pub(crate) mod request;
mod resident;
pub mod reuse;
mod service;
pub(crate) mod sharing;
pub mod steering;
mod stop;
pub mod streams;
pub mod tail;
pub(crate) mod unmovable;
pub mod verify;
mod write;
