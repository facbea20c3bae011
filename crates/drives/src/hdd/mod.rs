//! How does a hard drive behave? A buffer with a staircase in front of a slow platter.
//!
//! Source: models §5; [BCW §3].

mod buffer;
mod drain;
mod drift;
mod mechanics;
mod model;
mod shingled;
mod staircase;

#[cfg(test)]
mod tests;

pub use drift::{Drifting, changed};
pub use model::HddModel;
pub use staircase::Stage;
