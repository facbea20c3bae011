//! Counts of the engine's walls, beside those of the commit before the house and those that are wanted.
//!
//! Source: acceptance of the house, line 1. The counts of before were taken on commit 7e05906 in the same way.

use super::Options;
use crate::row::Row;
use crate::tidy::{self, Figures};
use anyhow::Result;

/// What is counted, how much there was, how much is wanted, and the count.
type Wanted = (&'static str, usize, usize, fn(&Figures) -> usize);

/// Counts that must be this low.
const AT_MOST: [Wanted; 11] = [
    ("fields of Engine", 61, 8, |f| f.engine_fields),
    ("of them seen by other files", 61, 0, |f| f.engine_open_fields),
    ("files with `impl Engine`", 57, 3, |f| f.engine_files),
    ("calls from file to file on it", 709, 0, |f| f.engine_calls),
    ("largest circle of files by calls of one type", 50, 6, |f| f.call_circle),
    ("largest circle of files by `use`", 44, 0, |f| f.import_circle),
    ("pairs of files that import each other", 22, 0, |f| f.import_pairs),
    ("files of any other type", 15, 3, |f| f.widest_other),
    ("`pub` items of the engine", 1_559, 500, |f| f.public_items),
    ("lines outside tests, in all crates", 106_800, 90_000, |f| f.lines),
    ("characters of the longest line of a document", 1_039, 260, |f| f.longest_line),
];
/// Counts that must be this high: for 1,000 lines, and in per cent.
const AT_LEAST: [Wanted; 2] = [
    ("asserts for 1,000 lines of the engine", 4, 20, |f| f.asserts),
    ("lines of the engine's unit tests for 100 lines of code", 14, 40, |f| f.tests_percent),
];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let figures = tidy::figures()?;
    let row = |(what, before, wanted, of): Wanted, word: &str, holds: fn(usize, usize) -> bool| {
        let found = of(&figures);
        let text = format!("{what}: {word} {wanted} (before: {before})");
        Row::new(text, found.to_string(), holds(found, wanted))
    };
    let most = AT_MOST.into_iter().map(|wanted| row(wanted, "at most", |found, max| found <= max));
    let least =
        AT_LEAST.into_iter().map(|wanted| row(wanted, "at least", |found, min| found >= min));
    Ok(most.chain(least).collect())
}
