//! When will this HDD write fast?
//!
//! Source: [BCW §4.1, §4.2]. The predictor is a pure function; the controller keeps its inputs
//! true and decides what the drive does next: user write, padding, flush, or rest.

pub mod controller;
pub mod padding;
pub mod pool;
pub mod predictor;
pub mod recalibrate;
pub mod stage_bytes;
pub mod unreliability;
