//! When will this HDD write fast?
//!
//! Source: [BCW §4.1, §4.2]. The predictor is a pure function; the controller keeps its inputs
//! true and decides what the drive does next: user write, padding, flush, or rest.

pub mod controller;
pub(crate) mod padding;
pub(crate) mod pool;
pub mod predictor;
pub(crate) mod recalibrate;
pub(crate) mod stage_bytes;
pub mod unreliability;
