//! How fast are traces decoded? The crate's own bench, medians of five.

use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

/// Prints its table.
///
/// # Errors
/// If it does not run. Nothing is wanted, so there are no rows.
pub fn rows() -> Result<Vec<Row>> {
    let words = ["bench", "-q", "-p", "tandem-traces", "--bench", "decode"];
    let status = cargo::cargo().args(words).status().context("starting cargo")?;
    if !status.success() {
        bail!("cargo {} gave {status}", words.join(" "));
    }
    Ok(Vec::new())
}
