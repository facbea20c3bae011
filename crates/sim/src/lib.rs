//! The virtual simulation: what would the engine do over these drives, and can it lose data?
//!
//! One engine, the same as in the live simulation, over modelled drives and a heap of events ordered by
//! `(at_ns, sequence)`. One seed explains a run.

pub mod arms;
pub mod audit;
mod bare_ssd;
pub mod campaign;
mod carried;
pub mod check;
mod command;
mod conditions;
pub mod contents;
pub mod coverage;
pub mod erratic;
pub mod evacuation;
pub mod explain;
pub mod failure;
mod gone;
pub mod grown;
pub mod leg_deaths;
pub mod matrix;
pub mod measure;
mod objects;
pub mod oracle;
pub mod pool;
pub mod prediction;
pub mod profiles;
pub mod replay;
pub mod service;
pub mod sharing;
pub mod simulation;
pub mod study;
pub mod succession;
pub mod swarm;
pub mod volumes;
pub mod workload;

pub use simulation::Simulation;
