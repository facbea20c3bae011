//! How does an SSD behave? A page map over lines of flash, dies that are busy until some time, a
//! write buffer that pushes back, and garbage collection.
//!
//! Source: models §6; [IANUS §2.1] and [BCW Fig. 15] for what must emerge.

mod command;
mod dies;
mod flash_map;
mod initial;
mod model;
mod scattered;
mod slc;
mod write_buffer;

#[cfg(test)]
mod tests;

pub use initial::SsdState;
pub use model::SsdModel;
