//! How fast is it? One file per bench; each prints what it measured, and the wanted value where the
//! issue names one.

pub mod decode;
pub mod drives;
pub mod virtual_time;

use anyhow::{Result, bail};

/// Name, question, and what runs it.
type Bench = (&'static str, &'static str, fn() -> Result<bool>);

const BENCHES: &[Bench] = &[
    ("virtual", "How many requests a second does a replay take?", virtual_time::run),
    ("drives", "What does one modelled command cost?", drives::run),
    ("decode", "How fast are traces decoded?", decode::run),
];

/// Runs the benches named, or all. False if one misses what is wanted.
///
/// # Errors
/// If there is no such bench or one cannot run.
pub fn run(only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| BENCHES.iter().all(|(n, _, _)| n != name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _, _)| *name).collect();
        bail!("there is no bench {unknown}; there are {}", known.join(", "));
    }
    let mut good = true;
    for (name, question, run) in BENCHES {
        if only.is_empty() || only.iter().any(|word| word == name) {
            println!("\n== {name}: {question}");
            good &= run()?;
        }
    }
    Ok(good)
}
