//! How hard are the documents to read? Long sentences and semicolons, counted for each document.
//!
//! `xtask/documents.toml` holds today's counts. A count only falls, as in `owners`: `cargo xtask tidy --lower`
//! writes what has become better. Code, tables and what stands in backticks do not count.

use super::{Finding, SourceFile};
use crate::cargo;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const RULE: &str = "documents";
const PATH: &str = "xtask/documents.toml";
const HEAD: &str = "\
# Sentences of more than 25 words, and semicolons, of each document. A count only falls.
# `cargo xtask tidy --lower` writes what has become better. How they are counted: xtask/src/tidy/documents.rs.

";

/// A sentence has about 20 words. One of more than these is counted.
const WORDS_MAX: usize = 25;

/// What is counted of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    long_sentences: usize,
    semicolons: usize,
}

type Documents = BTreeMap<String, Counts>;

pub(super) fn check(files: &[SourceFile]) -> Result<Vec<Finding>> {
    let (written, measured) = (written(files)?, measure(files));
    let none = Counts::default();
    let mut findings = Vec::new();
    for path in written.keys().chain(measured.keys().filter(|path| !written.contains_key(*path))) {
        let before = written.get(path).unwrap_or(&none);
        let now = measured.get(path).unwrap_or(&none);
        for (what, before, now) in [
            ("sentences of more than 25 words", before.long_sentences, now.long_sentences),
            ("semicolons", before.semicolons, now.semicolons),
        ] {
            let what = match now.cmp(&before) {
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Less => format!(
                    "{now} {what}, and {before} are written: write it with `cargo xtask tidy --lower`"
                ),
                std::cmp::Ordering::Greater => {
                    format!("{now} {what} where {before} were: make two sentences of one")
                }
            };
            findings.push(Finding { path: path.clone(), line: 0, rule: RULE, what });
        }
    }
    Ok(findings)
}

/// Writes every count that has become better; one that has become worse stays as it was.
pub(super) fn lower(files: &[SourceFile]) -> Result<()> {
    let (written, mut measured) = (written(files)?, measure(files));
    for (path, now) in &mut measured {
        if let Some(before) = written.get(path) {
            now.long_sentences = now.long_sentences.min(before.long_sentences);
            now.semicolons = now.semicolons.min(before.semicolons);
        }
    }
    let text = format!("{HEAD}{}", toml::to_string(&measured)?);
    std::fs::write(cargo::root().join(PATH), text).with_context(|| format!("writing {PATH}"))
}

fn written(files: &[SourceFile]) -> Result<Documents> {
    let text = files.iter().find(|file| file.path == PATH).map_or("", |file| &file.text);
    toml::from_str(text).with_context(|| format!("reading {PATH}"))
}

fn measure(files: &[SourceFile]) -> Documents {
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    documents.map(|file| (file.path.clone(), count(&file.text))).collect()
}

fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for paragraph in paragraphs(text) {
        counts.semicolons += paragraph.matches(';').count();
        let words = |sentence: &str| sentence.split_whitespace().count();
        let long = sentences(&paragraph).filter(|sentence| words(sentence) > WORDS_MAX);
        counts.long_sentences += long.count();
    }
    counts
}

/// Prose, a string for each paragraph or item of a list, with one word for what stands in backticks.
fn paragraphs(text: &str) -> Vec<String> {
    let (mut paragraphs, mut is_code) = (vec![String::new()], false);
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let item = line.split_once(' ').filter(|(mark, _)| is_mark(mark));
        let ends = line.is_empty() || line.starts_with('#') || item.is_some();
        if ends && paragraphs.last().is_some_and(|last| !last.is_empty()) {
            paragraphs.push(String::new());
        }
        if !is_code && !["```", "|", "#"].iter().any(|mark| line.starts_with(mark)) {
            let last = paragraphs.last_mut().expect("never empty");
            last.push_str(&without_code(item.map_or(line, |(_, text)| text)));
            last.push(' ');
        }
    }
    paragraphs
}

/// What an item of a list begins with.
fn is_mark(word: &str) -> bool {
    let number = word.strip_suffix('.').map(str::parse::<u32>);
    word == "-" || word == "*" || number.is_some_and(|number| number.is_ok())
}

/// The line with one word in place of what stands in backticks.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect()
}

/// What ends with a full stop, a question mark, an exclamation mark or a colon, and a space.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    [". ", "? ", "! ", ": "]
        .iter()
        .fold(vec![paragraph], |parts, end| {
            parts.into_iter().flat_map(|part| part.split(end)).collect()
        })
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_and_semicolons_of_prose_count() {
        let long = "word ".repeat(WORDS_MAX + 1);
        let fine = "word ".repeat(WORDS_MAX);
        let of = |long_sentences, semicolons| Counts { long_sentences, semicolons };
        for (text, want) in [
            (format!("{fine}. {fine}."), of(0, 0)),
            (format!("{long}. {fine}; and so on."), of(2, 1)),
            (format!("# {long}\n\n| {long}; |\n\n```\n{long};\n```\n"), of(0, 0)),
            (format!("{fine}\n{fine}"), of(1, 0)),
            (format!("- {fine}\n- {fine}\n1. {fine}"), of(0, 0)),
            (format!("{fine} `a; b c d e`"), of(1, 0)),
            (format!("{fine}\n\n{fine}"), of(0, 0)),
        ] {
            assert_eq!(count(&text), want, "{text}");
        }
    }

    #[test]
    fn a_count_may_only_fall_and_is_then_written() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let counts = "[\"a.md\"]\nlong_sentences = 0\nsemicolons = 1\n";
        let found = |text: &str| check(&[file(PATH, counts), file("a.md", text)]).expect("read");
        assert_eq!(found("one; two"), []);
        assert!(found("one; two; three")[0].what.contains("make two sentences"));
        assert!(found("one")[0].what.contains("--lower"));
        assert_eq!(
            check(&[file("b.md", "a; b")]).expect("read").len(),
            1,
            "a new document has none"
        );
    }
}
