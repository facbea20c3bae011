//! What would this engine do with this trace over these drives?
//!
//! ```text
//! arrivals ─▶ survey: how many, how far do they reach? ─▶ plan: how large is each drive?
//!    │                                                       │
//!    └──────────▶ run: open or closed loop ◀── engine, models, residence (setup)
//!                   │ gauges, recorder
//!                   ▼
//!                 result
//! ```

mod bare;
mod config;
mod costs;
mod gauge;
mod plan;
mod result;
mod run;
mod setup;
mod survey;
#[cfg(test)]
mod tests;
pub mod timeline;

pub use bare::bare;
pub use config::{Budgets, DriveChoice, ReadBack, ReplayConfig, ReplayError, Resident};
pub use costs::costs;
pub use gauge::GaugeSummary;
pub use plan::{Plan, PlannedDrive, plan};
pub use result::{DeviceResult, RunResult};
pub use run::replay;
pub(crate) use setup::models;
pub use survey::Survey;
pub use timeline::Timeline;
