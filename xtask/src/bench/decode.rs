//! How fast are traces decoded? The crate's own bench, medians of five.

use crate::cargo;
use anyhow::{Context as _, Result};

/// Prints its table.
///
/// # Errors
/// If cargo cannot be started.
pub fn run() -> Result<bool> {
    let words = ["bench", "-q", "-p", "tandem-traces", "--bench", "decode"];
    Ok(cargo::cargo().args(words).status().context("starting cargo")?.success())
}
