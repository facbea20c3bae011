//! Which crates have fewer inner walls than they had?
//!
//! `xtask/owners.toml` holds today's counts of each crate. A count only falls (asserts only rise): a higher one
//! breaks the rule, and so does a lower one until `cargo xtask tidy --lower` has written it down.

mod counts;
mod facts;

use super::{Finding, SourceFile, rules};
use crate::cargo;
use anyhow::{Context as _, Result};
use counts::Counts;
use facts::Facts;
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "owners";
const PATH: &str = "xtask/owners.toml";
const HEAD: &str = "\
# What each crate has of what makes it hard to change. A count only falls; asserts, for 1,000 lines, only rise.
# `cargo xtask tidy --lower` writes what has become better. What each count is: xtask/src/tidy/owners/counts.rs.

";

type Crates = BTreeMap<String, Counts>;

pub(super) fn check(files: &[SourceFile]) -> Result<Vec<Finding>> {
    let text = files.iter().find(|file| file.path == PATH).map_or("", |file| &file.text);
    let written: Crates = toml::from_str(text).with_context(|| format!("reading {PATH}"))?;
    let measured = measure(files)?;
    Ok(compare(&written, &measured).into_iter().map(finding).collect())
}

/// Writes every count that has become better. False if one has become worse.
pub(super) fn lower(files: &[SourceFile]) -> Result<bool> {
    let text = files.iter().find(|file| file.path == PATH).map_or("", |file| &file.text);
    let written: Crates = toml::from_str(text).with_context(|| format!("reading {PATH}"))?;
    let measured = measure(files)?;
    let worse: Vec<_> =
        compare(&written, &measured).into_iter().filter(|change| change.is_worse).collect();
    for Change { what, .. } in &worse {
        println!("{PATH}: {what}");
    }
    if worse.is_empty() {
        let text = format!("{HEAD}{}", toml::to_string(&best(&written, measured))?);
        std::fs::write(cargo::root().join(PATH), text)
            .with_context(|| format!("writing {PATH}"))?;
    }
    Ok(worse.is_empty())
}

/// What is written next: rates do not drift by what is no change to them.
fn best(written: &Crates, mut measured: Crates) -> Crates {
    for (name, now) in &mut measured {
        if let Some(before) = written.get(name) {
            now.public_items = now.public_items.min(before.public_items);
            now.asserts = now.asserts.max(before.asserts);
        }
    }
    measured
}

fn measure(files: &[SourceFile]) -> Result<Crates> {
    let mut crates = Crates::new();
    for manifest in files {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        let name = folder.strip_prefix("crates/").unwrap_or(folder);
        let (facts, lines) = facts_of(files, folder)?;
        crates.insert(name.to_owned(), counts::count(&facts, lines));
    }
    Ok(crates)
}

/// What the sources of a crate declare, and their lines of code.
fn facts_of(files: &[SourceFile], folder: &str) -> Result<(Vec<Facts>, usize)> {
    let root = format!("{folder}/src/");
    let sources = files.iter().filter(|file| {
        file.path.starts_with(&root) && file.path.ends_with(".rs") && !rules::is_test(&file.path)
    });
    let mut facts = Vec::new();
    for file in sources {
        facts.push((facts::read(file, &root)?, rules::code_lines(file).count()));
    }
    let tests: BTreeSet<Vec<String>> =
        facts.iter().flat_map(|(facts, _)| facts.test_modules.clone()).collect();
    facts.retain(|(facts, _)| !tests.contains(&facts.module));
    let lines = facts.iter().map(|(_, lines)| lines).sum::<usize>();
    Ok((facts.into_iter().map(|(facts, _)| facts).collect(), lines))
}

/// Counts of the engine and of the documents.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Fields of `Engine`.
    pub engine_fields: usize,
    /// Of these, seen by other files.
    pub engine_open_fields: usize,
    /// Files with `impl Engine`.
    pub engine_files: usize,
    /// Calls of its methods from file to file.
    pub engine_calls: usize,
    /// Largest circle of files by calls of one type.
    pub call_circle: usize,
    /// Largest circle of files by `use`.
    pub import_circle: usize,
    /// Pairs of files that import each other.
    pub import_pairs: usize,
    /// Files of the type that is spread most, `Engine` not counted.
    pub widest_other: usize,
    /// Items of the engine that are `pub`.
    pub public_items: usize,
    /// Assertions of the engine for 1,000 lines of code.
    pub asserts: usize,
    /// Lines of the engine's unit tests for 100 lines of its code.
    pub tests_percent: usize,
    /// Lines outside tests, in all crates.
    pub lines: usize,
    /// Characters of the longest line of a document.
    pub longest_line: usize,
}

/// Counts them.
pub(super) fn figures(files: &[SourceFile]) -> Result<Figures> {
    const ENGINE: &str = "crates/engine";
    let (facts, engine_lines) = facts_of(files, ENGINE)?;
    let counts = counts::count(&facts, engine_lines);
    let engine = facts.iter().flat_map(|file| &file.structs).find(|item| item.name == "Engine");
    let spread = counts.spread.get("Engine").copied().unwrap_or_default();
    let others = counts.spread.iter().filter(|(name, _)| *name != "Engine");
    let of_engine = files.iter().filter(|file| file.path.starts_with(ENGINE));
    let all =
        of_engine.filter(|file| file.path.ends_with(".rs")).map(|file| file.text.lines().count());
    let mut lines = 0;
    for manifest in files {
        if let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") {
            lines += facts_of(files, folder)?.1;
        }
    }
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let lengths = documents.flat_map(|file| file.text.lines().map(|line| line.chars().count()));
    Ok(Figures {
        engine_fields: engine.map_or(0, |item| item.fields),
        engine_open_fields: engine.map_or(0, |item| item.open_fields),
        engine_files: spread.files,
        engine_calls: spread.calls,
        call_circle: counts.spread.values().map(|spread| spread.circle).max().unwrap_or(0),
        import_circle: counts.import_circle,
        import_pairs: counts.import_pairs,
        widest_other: others.map(|(_, spread)| spread.files).max().unwrap_or(0),
        public_items: facts.iter().map(|file| file.public_items).sum(),
        asserts: counts.asserts,
        tests_percent: (all.sum::<usize>() - engine_lines) * 100 / engine_lines.max(1),
        lines,
        longest_line: lengths.max().unwrap_or(0),
    })
}

/// A count that is not what is written.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    is_worse: bool,
    what: String,
}

fn compare(written: &Crates, measured: &Crates) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, now) in measured {
        let Some(before) = written.get(name) else {
            changes.push(better(format!("{name} has no counts yet")));
            continue;
        };
        for (what, before, now) in [
            ("import_circle", before.import_circle, now.import_circle),
            ("import_pairs", before.import_pairs, now.import_pairs),
            ("open_fields", before.open_fields, now.open_fields),
        ] {
            changes.extend(change(&format!("{name}.{what}"), before, now));
        }
        // a rate: what one more line does to it is no change
        if now.asserts + 1 < before.asserts {
            let (before, now) = (before.asserts, now.asserts);
            let what =
                format!("{name}.asserts was {before} for 1,000 lines and is {now}: assert more");
            changes.push(Change { is_worse: true, what });
        } else if now.asserts > before.asserts + 1 {
            changes.push(better(format!("{name}.asserts has risen to {}", now.asserts)));
        }
        let types: BTreeSet<&String> = before.spread.keys().chain(now.spread.keys()).collect();
        for of in types {
            let (before, now) = (before.spread.get(of), now.spread.get(of));
            let (before, now) =
                (before.copied().unwrap_or_default(), now.copied().unwrap_or_default());
            for (what, before, now) in [
                ("files", before.files, now.files),
                ("calls", before.calls, now.calls),
                ("circle", before.circle, now.circle),
            ] {
                changes.extend(change(&format!("{name}.spread.{of}.{what}"), before, now));
            }
        }
    }
    let gone = written.keys().filter(|name| !measured.contains_key(*name));
    changes.extend(gone.map(|name| better(format!("{name} is gone"))));
    changes
}

fn change(what: &str, before: usize, now: usize) -> Option<Change> {
    match now.cmp(&before) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => {
            Some(better(format!("{what} has fallen from {before} to {now}")))
        }
        std::cmp::Ordering::Greater => Some(Change {
            is_worse: true,
            what: format!("{what} was {before} and is {now}: it may only fall"),
        }),
    }
}

fn better(what: String) -> Change {
    Change { is_worse: false, what: format!("{what}: write it with `cargo xtask tidy --lower`") }
}

fn finding(change: Change) -> Finding {
    Finding { path: PATH.to_owned(), line: 0, rule: RULE, what: change.what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counts::Spread;

    fn crates(circle: usize, asserts: usize, files: usize) -> Crates {
        let spread = BTreeMap::from([("A".to_owned(), Spread { files, calls: 1, circle: 1 })]);
        let spread = if files > 0 { spread } else { BTreeMap::new() };
        let counts = Counts { import_circle: circle, asserts, spread, ..Counts::default() };
        Crates::from([("a".to_owned(), counts)])
    }

    #[test]
    fn what_is_worse_and_what_is_better() {
        let table = [
            ((5, 9, 4), (5, 9, 4), &[][..]),
            ((5, 9, 4), (6, 9, 4), &[true]),
            ((5, 9, 4), (4, 9, 4), &[false]),
            ((5, 9, 4), (5, 7, 4), &[true]),
            ((5, 9, 4), (5, 10, 4), &[]),
            ((5, 9, 4), (5, 11, 4), &[false]),
            ((5, 9, 4), (5, 9, 5), &[true]),
            ((5, 9, 0), (5, 9, 4), &[true, true, true]),
            ((5, 9, 4), (5, 9, 0), &[false, false, false]),
        ];
        for (before, now, worse) in table {
            let [before, now] =
                [before, now].map(|(circle, asserts, files)| crates(circle, asserts, files));
            let changes = compare(&before, &now);
            let found: Vec<bool> = changes.iter().map(|change| change.is_worse).collect();
            assert_eq!(found, worse, "{changes:?}");
        }
    }

    #[test]
    fn a_rate_does_not_drift() {
        let (before, now) = (crates(5, 9, 4), crates(4, 8, 4));
        let written = best(&before, now);
        assert_eq!((written["a"].asserts, written["a"].import_circle), (9, 4));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let crates = crates(5, 9, 4);
        let text = toml::to_string(&crates).expect("it can be written");
        assert_eq!(toml::from_str::<Crates>(&text).expect("and read"), crates);
        assert!(toml::from_str::<Crates>(&text.replace("asserts", "assert")).is_err());
    }
}
