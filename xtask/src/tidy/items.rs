//! Does docs/PAPERS.md say of each item of the papers where it is built, and what shows it?
//!
//! The items were numbered when the papers were read: a letter for each source, and a number. The tables
//! of the page have a row for each: item, what it is, code, what shows it, the paper's figure. What shows
//! an item is a test (`file::test`) or relations of an experiment (`file.toml::id` or the beginning of
//! it). Whoever has no code, or nothing that shows it, says `reason: …` in the place.

use super::keys::{has_test, in_backticks};
use super::{Finding, SourceFile};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const PAGE: &str = "docs/PAPERS.md";
const RULE: &str = "items";
const SECTION: &str = "## Items";
const REASON: &str = "reason: ";
const COLUMNS: usize = 5;

type Items = [(&'static str, RangeInclusive<u32>)];

/// All items: of BCW, SeRW, Loris, Ianus, the peers that they compare with, and what they leave open.
const ITEMS: &Items =
    &[("M", 1..=45), ("S", 1..=17), ("L", 1..=28), ("I", 1..=23), ("P", 1..=20), ("B", 1..=10)];

/// Paths are written without these.
const FOLDERS: [&str; 3] = ["crates/", "experiments/", ""];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    check_items(files, ITEMS)
}

fn check_items(files: &[SourceFile], items: &Items) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![finding(0, "is missing".to_owned())];
    };
    let mut findings = Vec::new();
    let mut left: BTreeMap<String, Option<usize>> = items
        .iter()
        .flat_map(|(letter, numbers)| numbers.clone().map(move |n| (format!("{letter}{n}"), None)))
        .collect();
    let mut section = 0;
    for (line, cells) in rows(&page.text, &mut section) {
        let item = cells.first().copied().unwrap_or_default();
        match left.get_mut(item) {
            None => findings.push(finding(line, format!("there is no item {item:?}"))),
            Some(Some(first)) => {
                findings.push(finding(line, format!("{item} has a row in line {first}")));
            }
            Some(place) => *place = Some(line),
        }
        check_row(line, &cells, files, &mut findings);
    }
    let missing = left.iter().filter(|(_, line)| line.is_none());
    findings.extend(missing.map(|(item, _)| finding(section, format!("{item} has no row"))));
    findings
}

fn finding(line: usize, what: String) -> Finding {
    Finding { path: PAGE.to_owned(), line, rule: RULE, what }
}

/// The rows of the section's tables, without heads, and the section's line.
fn rows<'a>(page: &'a str, section: &mut usize) -> Vec<(usize, Vec<&'a str>)> {
    let lines: Vec<&str> = page.lines().collect();
    let Some(begin) = lines.iter().position(|line| line.trim_end() == SECTION) else {
        return Vec::new();
    };
    *section = begin + 1;
    let within = lines.iter().enumerate().skip(begin + 1);
    let mut rows: Vec<(usize, Vec<&str>)> = Vec::new();
    for (at, line) in within.take_while(|(_, line)| !line.starts_with("## ")) {
        if line.starts_with("|---") {
            rows.pop(); // the line above is the table's head
        } else if let Some(row) = line.trim().strip_prefix('|') {
            let row = row.strip_suffix('|').unwrap_or(row);
            rows.push((at + 1, row.split('|').map(str::trim).collect()));
        }
    }
    rows
}

fn check_row(line: usize, cells: &[&str], files: &[SourceFile], findings: &mut Vec<Finding>) {
    let [item, _, code, shown, _] = cells else {
        let what = format!("{} columns, and a row has {COLUMNS}", cells.len());
        findings.push(finding(line, what));
        return;
    };
    for (cell, what) in [(code, "code"), (shown, "test or experiment")] {
        let reason = cell.split_once(REASON).map(|(_, reason)| reason.trim());
        if in_backticks(cell).is_empty() && reason.is_none_or(str::is_empty) {
            let what = format!("{item} has no {what}: name it, or say `{REASON}…`");
            findings.push(finding(line, what));
        }
    }
    for path in in_backticks(code) {
        if find(&path, files).is_none() {
            findings.push(finding(line, format!("{item}: {path} does not exist")));
        }
    }
    for name in in_backticks(shown) {
        if let Some(what) = wrong(&name, files) {
            findings.push(finding(line, format!("{item}: {what}")));
        }
    }
}

fn find<'a>(path: &str, files: &'a [SourceFile]) -> Option<&'a SourceFile> {
    FOLDERS.iter().find_map(|folder| {
        let path = format!("{folder}{path}");
        files.iter().find(|file| file.path == path)
    })
}

/// What is wrong with a name of a test, or of relations.
fn wrong(name: &str, files: &[SourceFile]) -> Option<String> {
    let Some((path, inner)) = name.split_once("::").filter(|(_, inner)| !inner.is_empty()) else {
        return Some(format!("{name} is neither file::test nor file.toml::relation"));
    };
    let Some(file) = find(path, files) else {
        return Some(format!("{path} does not exist"));
    };
    if path.ends_with(".toml") {
        let has = has_relation(&file.text, inner);
        return (!has).then(|| format!("no relation of {path} begins with {inner}"));
    }
    (!has_test(&file.text, inner)).then(|| format!("{path} has no test {inner}"))
}

/// Has the experiment a relation of this id, or of one that goes on behind a dot?
fn has_relation(text: &str, prefix: &str) -> bool {
    let relations = text.split("[[relation]]").skip(1);
    let ids = relations.filter_map(|relation| {
        let id = relation.lines().find_map(|line| line.strip_prefix("id = \""))?;
        id.strip_suffix('"')
    });
    ids.filter_map(|id| id.strip_prefix(prefix))
        .any(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &Items = &[("M", 1..=2)];
    const HEAD: &str =
        "## Items\n\n| item | what | code | shown by | figure |\n|---|---|---|---|---|\n";

    fn found(table: &str) -> Vec<(usize, String)> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file(PAGE, &format!("| M9 | of another table |\n{HEAD}{table}\n## Behind\n\n| M8 |\n")),
            file("crates/a/src/b.rs", "#[test]\nfn holds() {}\nfn helps() {}\n"),
            file(
                "experiments/e.toml",
                "[[case]]\nid = \"M3\"\n[[relation]]\nid = \"M11.fig1.a\"\n",
            ),
        ];
        check_items(&files, TWO).into_iter().map(|found| (found.line, found.what)).collect()
    }

    #[test]
    fn every_item_has_one_row_that_is_true() {
        let good = "| M1 | x | `a/src/b.rs` | `a/src/b.rs::holds`, `e.toml::M11.fig1` | Fig. 1 |\n\
                    | M2 | y | reason: not built | reason: not built | |\n";
        assert_eq!(found(good), []);
        for (from, to, want) in [
            ("| M2 ", "| M1 ", vec![(7, "M1 has a row in line 6"), (2, "M2 has no row")]),
            ("| M2 ", "| M3 ", vec![(7, "there is no item \"M3\""), (2, "M2 has no row")]),
            (
                "| M1 | x | `a/src/b.rs`",
                "| M1 | x | `a/src/c.rs`",
                vec![(6, "M1: a/src/c.rs does not")],
            ),
            ("holds", "fails", vec![(6, "M1: a/src/b.rs has no test fails")]),
            ("holds", "helps", vec![(6, "M1: a/src/b.rs has no test helps")]),
            ("::holds", "", vec![(6, "M1: a/src/b.rs is neither")]),
            ("M11.fig1", "M1", vec![(6, "M1: no relation of e.toml begins with M1")]),
            ("M11.fig1", "M3", vec![(6, "M1: no relation of e.toml begins with M3")]),
            ("e.toml", "f.toml", vec![(6, "M1: f.toml does not exist")]),
            ("| reason: not built | |", "| | |", vec![(7, "M2 has no test or experiment")]),
            ("y | reason: not built |", "y | reason: |", vec![(7, "M2 has no code")]),
            ("Fig. 1 |", "Fig. 1 | |", vec![(6, "6 columns")]),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let found = found(&bad);
            assert_eq!(found.len(), want.len(), "{bad}{found:?}");
            for ((line, what), (want_line, want)) in found.iter().zip(want) {
                assert!(*line == want_line && what.starts_with(want), "{line} {what}");
            }
        }
    }

    #[test]
    fn a_page_without_the_tables_lacks_every_item() {
        let page = SourceFile { path: PAGE.into(), text: "# Papers\n".into() };
        assert_eq!(check_items(&[page], TWO).len(), 2);
        assert_eq!(check_items(&[], TWO).len(), 1);
        let all: u32 = ITEMS.iter().map(|(_, numbers)| numbers.end() + 1 - numbers.start()).sum();
        assert_eq!(all, 143, "133 of the papers, and ten groups of what they leave open");
    }
}
