//! What if a drive misbehaves? A wrapper around any drive, scripted or by chance from a seed.
//!
//! Source: acceptance of the spine; design, "The promise" (a single drive that lies about its
//! flushes). Wrappers wrap wrappers, and fork.

mod drive;
mod script;

#[cfg(test)]
mod tests;

pub use drive::Faulty;
pub use script::{Fault, FaultRule, FaultScript, OpFilter};
