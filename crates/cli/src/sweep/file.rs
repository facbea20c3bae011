//! A sweep as it is written down, every value with its place in the text.
//!
//! What the values mean is `cases`' and `goal`'s. experiments/README.md tells it to people.

use crate::toml_fault::Fault;
use serde::Deserialize;
use tandem_traces::spell;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    pub title: String,
    pub about: String,
    /// The policy that all are compared with, by its label.
    pub null: Spanned<String>,
    /// From how many beginnings each case is replayed.
    pub starts: Spanned<u32>,
    pub policy: Vec<Spanned<Policy>>,
    #[serde(default)]
    pub oracle: Vec<Spanned<Oracle>>,
    pub drives: Vec<Spanned<Drives>>,
    pub grid: Vec<Spanned<Grid>>,
    #[serde(default)]
    pub goal: Vec<Spanned<Goal>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub label: Spanned<String>,
    pub steer: Spanned<String>,
    pub tier: Option<Spanned<String>>,
}

/// A row for what could be had at best, within latencies of …
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Oracle {
    pub label: Spanned<String>,
    /// … so many times those of the null …
    pub at_most: Option<f64>,
    /// … or those of this policy.
    pub like: Option<Spanned<String>>,
}

/// Drives of a pool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drives {
    pub name: Spanned<String>,
    pub ssd: Vec<String>,
    pub hdd: Vec<String>,
    pub ssd_size: Option<Spanned<String>>,
    pub hdd_size: Option<Spanned<String>>,
}

/// Each of these workloads at each of these speeds, over each of these drives, and so on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    /// Files in the folder of traces.
    #[serde(default)]
    pub traces: Vec<Spanned<String>>,
    #[serde(default)]
    pub workloads: Vec<Spanned<String>>,
    /// Of `drives`, by name.
    pub over: Option<Vec<Spanned<String>>>,
    pub speedups: Option<Vec<Spanned<String>>>,
    pub resident: Option<Vec<Spanned<String>>>,
    pub placement: Option<Vec<Spanned<String>>>,
    pub ssd_state: Option<Spanned<String>>,
    pub closed_loop: Option<Spanned<u32>>,
}

/// What must come out. It has one of the bounds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Goal {
    pub id: Spanned<String>,
    pub what: String,
    pub policy: Spanned<String>,
    /// Another label than the null's.
    pub over: Option<Spanned<String>>,
    pub fields: Vec<Spanned<String>>,
    /// In each case that counts no field is more than so many times that of `over` …
    pub at_most: Option<f64>,
    /// … and so many percent of the cases must count …
    pub percent_of_cases: Option<f64>,
    /// … and in none is a field more than so many times.
    pub worst: Option<f64>,
    /// The geometric mean over all cases, of each field.
    pub mean_at_most: Option<f64>,
    /// What is spared of a field is at least this part of what this oracle spares, over all cases.
    pub saves_at_least: Option<f64>,
    pub of: Option<Spanned<String>>,
    /// None of these has a lower mean of one field and a higher one of none.
    pub not_dominated_by: Option<Spanned<Vec<Spanned<String>>>>,
}

/// Where a label or name stands among those that there are.
pub(super) fn position(word: &Spanned<String>, known: &[&str], what: &str) -> Result<usize, Fault> {
    known.iter().position(|name| name == word.get_ref()).ok_or_else(|| {
        let word_text = word.get_ref();
        let near = match known {
            [] => String::new(),
            known => {
                format!("; did you mean {:?}?", spell::nearest(word_text, known.iter().copied()))
            }
        };
        Fault::at(word, format!("there is no {what} {word_text:?}{near}"))
    })
}
