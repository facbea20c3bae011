//! Do the sources that the code names stand in docs/PAPERS.md, and does that page tell the truth?
//!
//! A source is a paper's key with parts of it: a section, figure, table, algorithm, equation, slide
//! or the abstract. Every part that a file of ours cites must have an entry in docs/PAPERS.md. Every
//! entry's parts must be cited, its files must exist and cite one of them, its tests must exist.

use super::{Finding, SourceFile};
use std::collections::BTreeSet;

const PAGE: &str = "docs/PAPERS.md";
const RULE: &str = "keys";
const KEYS: &[&str] = &["BCW", "TOS", "SERW", "LORIS", "IANUS"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![finding(PAGE, 0, "is missing".to_owned())];
    };
    let mut findings = Vec::new();
    let rows = rows(&page.text, &mut findings);
    let known: BTreeSet<&String> = rows.iter().flat_map(|row| &row.parts).collect();
    let mut cited: BTreeSet<String> = BTreeSet::new();
    for file in files.iter().filter(|file| is_source(&file.path)) {
        match citations(&file.text) {
            Ok(parts) => {
                for part in parts.iter().filter(|part| !known.contains(part)) {
                    findings.push(finding(
                        &file.path,
                        0,
                        format!("[{part}] has no entry in {PAGE}"),
                    ));
                }
                cited.extend(parts);
            }
            Err(what) => findings.push(finding(&file.path, 0, what)),
        }
    }
    for row in &rows {
        for part in row.parts.iter().filter(|part| !cited.contains(*part)) {
            findings.push(finding(PAGE, row.line, format!("no file cites [{part}]")));
        }
        findings.extend(check_names(row, files));
    }
    findings
}

fn is_source(path: &str) -> bool {
    let ours = path.starts_with("crates/") || path.starts_with("profiles/");
    ours && (path.ends_with(".rs") || path.ends_with(".toml"))
}

fn finding(path: &str, line: usize, what: String) -> Finding {
    Finding { path: path.to_owned(), line, rule: RULE, what }
}

/// An entry of the page's list: `- [KEY parts] what`, and below it `- in: files` and `- tests: tests`.
#[derive(Default)]
struct Row {
    line: usize,
    parts: BTreeSet<String>,
    files: Vec<String>,
    tests: Vec<String>,
}

fn rows(page: &str, findings: &mut Vec<Finding>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut is_within, mut is_of_tests) = (false, false);
    for (index, line) in page.lines().enumerate() {
        if let Some((key, _)) = line.strip_prefix("- [").and_then(|entry| entry.split_once(']')) {
            is_within = false;
            match citations(&format!("[{key}]")) {
                Ok(parts) if !parts.is_empty() => {
                    is_within = true;
                    rows.push(Row { line: index + 1, parts, ..Row::default() });
                }
                Ok(_) => {}
                Err(what) => findings.push(finding(PAGE, index + 1, what)),
            }
            is_of_tests = false;
            continue;
        }
        is_within &= line.starts_with("  ");
        let Some(row) = rows.last_mut().filter(|_| is_within) else { continue };
        if line.starts_with("  - ") {
            is_of_tests = line.starts_with("  - tests:");
        }
        let names = if is_of_tests { &mut row.tests } else { &mut row.files };
        names.extend(in_backticks(line));
    }
    rows
}

pub(super) fn in_backticks(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn check_names(row: &Row, files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let find = |path: &str| files.iter().find(|file| file.path == path);
    for path in &row.files {
        let cites = find(path)
            .map(|file| citations(&file.text).is_ok_and(|parts| !parts.is_disjoint(&row.parts)));
        match cites {
            None => findings.push(finding(PAGE, row.line, format!("{path} does not exist"))),
            Some(false) => {
                let what = format!("{path} cites nothing of this entry");
                findings.push(finding(PAGE, row.line, what));
            }
            Some(true) => {}
        }
    }
    for test in &row.tests {
        let (path, name) = test.split_once("::").unwrap_or((test, ""));
        let there = find(path).is_some_and(|file| name.is_empty() || has_test(&file.text, name));
        if !there {
            findings.push(finding(PAGE, row.line, format!("there is no test {test}")));
        }
    }
    findings
}

/// Is there a test of this name?
pub(super) fn has_test(text: &str, name: &str) -> bool {
    let begin = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut places = lines.iter().enumerate().filter(|(_, line)| line.starts_with(&begin));
    places.any(|(at, _)| {
        // attributes stand above it, perhaps with a comment between
        let above = lines[..at].iter().rev();
        above
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .any(|line| *line == "#[test]")
    })
}

/// Every part that the text cites, spelled `KEY part`.
fn citations(text: &str) -> Result<BTreeSet<String>, String> {
    // a citation may be broken over two lines of a comment
    let joined: Vec<&str> =
        text.lines().map(|line| line.trim().trim_start_matches(['/', '!', '#', ' '])).collect();
    let joined = joined.join(" ");
    let mut found = BTreeSet::new();
    for piece in joined.split('[').skip(1) {
        let Some((inner, _)) = piece.split_once(']') else { continue };
        let Some((key, parts)) = inner.split_once(' ') else { continue };
        if KEYS.contains(&key) {
            found.extend(parts_of(parts)?.into_iter().map(|part| format!("{key} {part}")));
        }
    }
    Ok(found)
}

/// `§4.1, Alg. 1, Figs 3-5` as its single parts.
fn parts_of(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    if let Some(slide) = text.strip_prefix("slide ") {
        return Ok(vec![format!("slide {slide}")]);
    }
    let mut kind = "";
    for word in text.split([' ', ',', ';']).filter(|word| !word.is_empty()) {
        match word {
            "Fig." | "Figs" | "Figs." | "Figure" => kind = "Fig.",
            "Alg." | "Algs" | "Algorithm" => kind = "Alg.",
            "Table" | "Tables" => kind = "Table",
            "Eq." | "Eqs" => kind = "Eq.",
            "abstract" => found.push("abstract".to_owned()),
            "and" => {}
            _ if word.starts_with('§') => found.push(word.to_owned()),
            _ if kind.is_empty() => return Err(format!("[… {text}] cannot be read as a source")),
            _ => {
                let (first, last) = word.split_once(['-', '–']).unwrap_or((word, word));
                let number = |digits: &str| {
                    let cannot = |_| format!("[… {text}]: {digits:?} is no number");
                    digits.parse::<u32>().map_err(cannot)
                };
                let (first, last) = (number(first)?, number(last)?);
                found.extend((first..=last).map(|number| format!("{kind} {number}")));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let text =
            "//! Source: [BCW §4.1, Alg.\n//! 1], [IANUS Figs 3, 5-7], [SERW slide \"A, b\"]; x[i]";
        let found: Vec<String> = citations(text).unwrap().into_iter().collect();
        let expected = [
            "BCW Alg. 1",
            "BCW §4.1",
            "IANUS Fig. 3",
            "IANUS Fig. 5",
            "IANUS Fig. 6",
            "IANUS Fig. 7",
            "SERW slide \"A, b\"",
        ];
        assert_eq!(found, expected);
        assert!(citations("[BCW somewhere]").is_err());
    }

    #[test]
    fn both_directions_are_checked() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let code = file("crates/a/src/b.rs", "//! [BCW §1]\n#[test]\nfn holds() {}\nfn helps() {}");
        let page = |row: &str| file(PAGE, row);
        let good =
            "- [BCW §1] x\n  - in: `crates/a/src/b.rs`\n  - tests:\n    `crates/a/src/b.rs::holds`";
        assert_eq!(check(&[code.clone(), page(good)]), []);
        for bad in [
            "",
            "- [BCW §1, §2] x\n  - in: `crates/a/src/b.rs`",
            "- [BCW §1] x\n  - in: `crates/a/src/c.rs`",
            "- [BCW §1] x\n  - in:\n    `crates/a/src/b.rs`,\n    `crates/a/src/c.rs`",
            "- [BCW §1] x\n  - in: `crates/a/src/b.rs`\n  - tests: `crates/a/src/b.rs::fails`",
            "- [BCW §1] x\n  - in: `crates/a/src/b.rs`\n  - tests: `crates/a/src/b.rs::helps`",
        ] {
            assert_eq!(check(&[code.clone(), page(bad)]).len(), 1, "{bad}");
        }
    }
}
