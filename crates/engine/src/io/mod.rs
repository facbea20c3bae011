//! The drives' commands: what waits, what is in flight, what does it name, and until when must it end?
//!
//! Nothing here knows why a command was sent: its owner is a type of the caller's, and comes back with the end.

pub mod deadlines;
pub mod flights;
pub mod pins;
pub mod queue;
