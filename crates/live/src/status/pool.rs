//! What does a configuration say of the pool that is served?

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The pool; who serves it fills this in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedPool {
    pub name: String,
    pub process: u32,
    pub configuration: PathBuf,
    pub devices: Vec<Drive>,
    pub volumes: Vec<Volume>,
    /// A line for each way to each volume.
    pub ways_in: Vec<String>,
}

/// A drive of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drive {
    pub path: String,
    /// `ssd` or `hdd`.
    pub role: String,
    pub gone: bool,
    /// Its bay has no drive yet.
    pub empty: bool,
    pub bytes: u64,
    pub emulates: Option<String>,
    pub profile: Option<String>,
    /// Whose rating its workload is compared with.
    pub rating: Option<String>,
}

/// A volume of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    pub name: String,
    /// None for files, which have no bound.
    pub bytes: Option<u64>,
    pub files: bool,
    pub mount: Option<PathBuf>,
    pub steer: String,
    pub tier: String,
    pub durability: String,
    pub why_not_steered: Option<String>,
}
