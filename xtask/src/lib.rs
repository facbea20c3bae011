//! Which repository tasks are there? One file or folder each; `main.rs` picks one.

pub mod accept;
pub mod bench;
pub mod cargo;
pub mod fio;
pub mod fuzz;
pub mod packages;
pub mod process;
pub mod row;
pub mod served;
pub mod swarm;
pub mod test;
pub mod tidy;
pub mod watch;
