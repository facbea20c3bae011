//! Can a decoder be fooled? Starts the fuzzer of the folder `fuzz`, built as the tests are: with
//! every assertion and overflow check on.

use crate::cargo;
use anyhow::{Context as _, Result};

/// Runs the targets named, or all. False if one is broken; the input is saved and named then.
///
/// # Errors
/// If cargo cannot be started.
pub fn run(words: &[String]) -> Result<bool> {
    let status = cargo::cargo()
        .args(["run", "--quiet", "--package", "tandem-fuzz", "--"])
        .args(words)
        .status()
        .context("starting cargo")?;
    Ok(status.success())
}
