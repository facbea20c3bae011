//! How long does a clean build take?
//!
//! Source: acceptance of the spine, "Speed and memory". Dependencies are downloaded before; the build goes
//! into a folder of its own. This is time on the wall, not a ratio: it wants a quiet machine.

use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use std::time::Instant;

/// Name, seconds allowed, flags.
const BUILDS: [(&str, u64, &[&str]); 2] = [("debug", 60, &[]), ("release", 120, &["--release"])];

/// Builds `tandem` twice from nothing.
///
/// # Errors
/// If it does not build.
pub fn rows() -> Result<Vec<Row>> {
    let fetched = cargo::cargo().args(["fetch", "--quiet"]).status().context("starting cargo")?;
    if !fetched.success() {
        bail!("cargo fetch gave {fetched}");
    }
    let mut rows = Vec::new();
    for (name, allowed_s, flags) in BUILDS {
        std::fs::create_dir_all(super::folder())?;
        let target = tempfile::Builder::new().prefix("build-").tempdir_in(super::folder())?;
        let began = Instant::now();
        let status = cargo::cargo()
            .args(["build", "--quiet", "-p", "tandem"])
            .args(flags)
            .env("CARGO_TARGET_DIR", target.path())
            .status()
            .context("starting cargo")?;
        let took_s = began.elapsed().as_secs();
        if !status.success() {
            bail!("the {name} build gave {status}");
        }
        rows.push(Row::new(
            format!("clean {name} build: under {allowed_s} s on 2 cores"),
            format!("{took_s} s"),
            took_s < allowed_s,
        ));
    }
    Ok(rows)
}
