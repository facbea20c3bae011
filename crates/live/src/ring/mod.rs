//! What does the kernel do on our behalf, and into which memory?
//!
//! Source: deps 4.1. The only room of this crate with `unsafe` code: the memory is lent to the kernel
//! while an operation is under way, so whoever gives it out and whoever submits have to agree.

pub mod buffer;
pub mod uring;
