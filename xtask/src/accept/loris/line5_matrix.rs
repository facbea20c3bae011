//! Does any steering live with any tier and any order of service?
//!
//! Source: acceptance of tiers and caches, line 5: at least 60 combinations run the swarm without a
//! violated oracle.

use super::Options;
use crate::accept::numbers;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};

/// At least so many combinations.
const COMBINATIONS_MIN: u64 = 60;
/// Seeds that each runs with.
const SEEDS: &str = "4";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["-p", "tandem-sim", "--example", "matrix", "--release"];
    let matrix = cargo::build(&words, "matrix")?;
    let output = std::process::Command::new(&matrix)
        .args(["0", SEEDS])
        .output()
        .with_context(|| format!("starting {}", matrix.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let one = |name: &str| -> Result<u64> {
        numbers(&text, name)?.first().copied().with_context(|| format!("{name} has no number"))
    };
    let (combinations, violated) = (one("combinations")?, one("violated")?);
    let (crashes, came, left) = (one("crashes")?, one("came")?, one("left")?);
    let redirected = one("redirected")?;
    let failures: Vec<&str> = text.lines().filter(|line| line.starts_with("FAILED")).collect();
    Ok(vec![
        Row::new(
            format!(
                "at least {COMBINATIONS_MIN} combinations of steering, tier and order of service"
            ),
            format!("{combinations}, with {SEEDS} seeds each"),
            combinations >= COMBINATIONS_MIN,
        ),
        Row::new(
            "no oracle is violated",
            format!("{violated} violated of {crashes} crashes {}", failures.join("; ")),
            violated == 0 && output.status.success() && crashes > 0,
        ),
        Row::new(
            "blocks came to tiers and left them, and writes were redirected",
            format!("{came} came, {left} left, {redirected} writes redirected"),
            came > 0 && left > 0 && redirected > 0,
        ),
    ])
}
