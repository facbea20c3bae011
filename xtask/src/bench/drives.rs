//! What does one modelled command cost?

use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

/// Prints the table of the example `model_speed`.
///
/// # Errors
/// If it does not run. Nothing is wanted, so there are no rows.
pub fn rows() -> Result<Vec<Row>> {
    let words = ["run", "-q", "--release", "-p", "tandem-drives", "--example", "model_speed"];
    let status = cargo::cargo().args(words).status().context("starting cargo")?;
    if !status.success() {
        bail!("cargo {} gave {status}", words.join(" "));
    }
    Ok(Vec::new())
}
