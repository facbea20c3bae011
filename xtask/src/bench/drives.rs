//! What does one modelled command cost?

use crate::cargo;
use anyhow::{Context as _, Result};

/// Prints the table of the example `speed` of the drives.
///
/// # Errors
/// If cargo cannot be started.
pub fn run() -> Result<bool> {
    let words = ["run", "-q", "--release", "-p", "tandem-drives", "--example", "speed"];
    Ok(cargo::cargo().args(words).status().context("starting cargo")?.success())
}
