//! What does one modelled command cost?

use crate::cargo;
use anyhow::{Context as _, Result};

/// Prints the table of the example `model_speed`.
///
/// # Errors
/// If cargo cannot be started.
pub fn run() -> Result<bool> {
    let words = ["run", "-q", "--release", "-p", "tandem-drives", "--example", "model_speed"];
    Ok(cargo::cargo().args(words).status().context("starting cargo")?.success())
}
