//! Does ARCHITECTURE.md lead from ten questions to the files that answer them?
//!
//! Source: acceptance of the house, line 4. How long a newcomer needs is for a newcomer to measure.

use super::Options;
use super::page::{self, exists, paths};
use crate::row::Row;
use anyhow::Result;

const QUESTIONS: usize = 10;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let text = page::read()?;
    let asked: Vec<&str> = text.lines().filter(|line| line.starts_with("| … ")).collect();
    let lost: Vec<&str> = asked
        .iter()
        .filter(|line| {
            let mut named = paths(line).peekable();
            named.peek().is_none() || named.any(|path| !exists(&path))
        })
        .copied()
        .collect();
    Ok(vec![Row::new(
        format!("{QUESTIONS} questions, and each leads to files that exist"),
        match lost.is_empty() {
            true => format!("{} questions", asked.len()),
            false => format!("lead nowhere: {lost:?}"),
        },
        asked.len() >= QUESTIONS && lost.is_empty(),
    )])
}
