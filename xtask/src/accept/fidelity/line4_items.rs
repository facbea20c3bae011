//! Does every item of the papers stand in docs/PAPERS.md, and how long do the experiments take?
//!
//! Source: acceptance of fidelity, line 4. `cargo xtask tidy` checks the list of items.

use super::runs;
use crate::accept::{Options, call};
use crate::row::Row;
use anyhow::Result;

/// All experiments with their nulls, in minutes, on two processors.
const MINUTES_MAX: u64 = 15;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let tidy = call("cargo", &["xtask", "tidy"]);
    let took = runs::all()?.took.as_secs();
    Ok(vec![
        match &tidy {
            Ok(said) => Row::new(
                "docs/PAPERS.md has every item with its code and its test or experiment",
                said.lines().last().unwrap_or_default(),
                true,
            ),
            Err(error) => Row::broken("docs/PAPERS.md has every item", error),
        },
        Row::new(
            format!("the experiments and their nulls take less than {MINUTES_MAX} minutes"),
            format!("{} min {} s", took / 60, took % 60),
            took < MINUTES_MAX * 60,
        ),
    ])
}
