//! Does ARCHITECTURE.md walk through a write, a read and a FLUSH in few lines, by files that exist?
//!
//! Source: acceptance of the house, line 2. Whether the walks are true is for a reader to say.

use super::Options;
use super::page::{self, exists, paths, section};
use crate::cargo;
use crate::row::Row;
use anyhow::Result;
use std::collections::BTreeSet;

const LINES_MAX: usize = 150;
/// Walks, and how many files of the engine each may name.
const WALKS: [(&str, usize); 3] = [("write", 18), ("read", 18), ("FLUSH", 8)];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let text = page::read()?;
    let lines = text.lines().count();
    let mut rows = vec![Row::new(
        format!("ARCHITECTURE.md has {LINES_MAX} lines at most"),
        lines.to_string(),
        lines <= LINES_MAX,
    )];
    for (walk, max) in WALKS {
        let steps = section(&text, &format!("## Walk of a {walk}"));
        let named: BTreeSet<String> = steps.lines().flat_map(paths).collect();
        let missing: Vec<&String> = named.iter().filter(|path| !exists(path)).collect();
        let holds = missing.is_empty() && !named.is_empty() && named.len() <= max;
        let found = match missing.is_empty() {
            true => format!("{} files", named.len()),
            false => format!("not there: {missing:?}"),
        };
        rows.push(Row::new(
            format!("the walk of a {walk} names {max} files at most"),
            found,
            holds,
        ));
    }
    let drawn = cargo::root().join("docs/architecture.svg").is_file();
    rows.push(Row::new("the picture is drawn: docs/architecture.svg", drawn.to_string(), drawn));
    Ok(rows)
}
