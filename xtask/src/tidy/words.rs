//! Words that the glossary has replaced: they appear in no name, comment, text or document.
//!
//! The words are those of the table "Words that left" in docs/GLOSSARY.md. A name is looked at in parts:
//! `new_twin`, `NewTwin` and `twin` all have the part `twin`, `intwined` has not.

use super::{Finding, SourceFile};

const PAGE: &str = "docs/GLOSSARY.md";
const TABLE: &str = "## Words that left";

/// Where old words must stay: what was released, the table itself, and where an old word is refused.
const EXEMPT: [&str; 4] =
    [PAGE, "CHANGELOG.md", "crates/cli/src/toml_fault.rs", "xtask/src/tidy/words.rs"];

/// Next to a line with one of these marks an old word may stand, to be refused.
const MARKS: [&str; 2] = ["now called", "now_called"];

/// So many lines before and behind it: a call of a formatted program.
const NEAR_LINES: usize = 2;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![finding(PAGE, 0, "is missing".to_owned())];
    };
    let words = left(&page.text);
    if words.is_empty() {
        return vec![finding(PAGE, 0, format!("has no table {TABLE:?}"))];
    }
    let is_ours = |file: &&SourceFile| {
        let ends = [".rs", ".md", ".toml"].iter().any(|end| file.path.ends_with(end));
        ends && !EXEMPT.contains(&file.path.as_str())
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(is_ours) {
        let lines: Vec<&str> = file.text.lines().collect();
        let has_mark = |line: &&str| MARKS.iter().any(|mark| line.contains(mark));
        let near =
            |at: usize| &lines[at.saturating_sub(NEAR_LINES)..lines.len().min(at + NEAR_LINES + 1)];
        for (at, line) in lines.iter().enumerate().filter(|&(at, _)| !near(at).iter().any(has_mark))
        {
            for (old, now) in words.iter().filter(|(old, _)| has(line, old)) {
                let what = format!("{old:?} is now called {now}");
                findings.push(finding(&file.path, at + 1, what));
            }
        }
    }
    findings
}

fn finding(path: &str, line: usize, what: String) -> Finding {
    Finding { path: path.to_owned(), line, rule: "words", what }
}

/// Old words and what is said now.
fn left(page: &str) -> Vec<(String, String)> {
    let Some((_, table)) = page.split_once(TABLE) else { return Vec::new() };
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_matches('|').split_once('|'));
    let words = cells.flat_map(|(old, now)| {
        old.split(',').map(move |old| (old.trim().to_owned(), now.trim().to_owned()))
    });
    words.collect()
}

/// Does the line have this word, or the same in the plural, as a word or a part of a name?
fn has(line: &str, old: &str) -> bool {
    let parts = parts(line);
    let old: Vec<&str> = old.split(' ').collect();
    parts.windows(old.len()).any(|window| {
        let last = window.len() - 1;
        window.iter().zip(&old).enumerate().all(|(at, (part, old))| {
            part == old || at == last && part.strip_suffix('s') == Some(*old)
        })
    })
}

/// The words of a line in small letters; names are taken apart at `_` and at capitals.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for letter in line.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if (begins || !letter.is_alphabetic()) && parts.last().is_some_and(|part| !part.is_empty())
        {
            parts.push(String::new());
        }
        if letter.is_alphabetic() {
            parts.last_mut().expect("never empty").extend(letter.to_lowercase());
        }
        before = letter;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    const GLOSSARY: &str = "## Words that left\n\n| old | now |\n|---|---|\n| twin | leg |\n\
                            | second home, limbo | metadata replica |\n\ntwin\n";

    #[test]
    fn an_old_word_is_found_in_every_form_and_no_other() {
        let found = |text: &str| {
            let files = [file(PAGE, GLOSSARY), file("crates/a.rs", text)];
            check(&files)
                .into_iter()
                .map(|finding| (finding.line, finding.what))
                .collect::<Vec<_>>()
        };
        let leg = |line| (line, "\"twin\" is now called leg".to_owned());
        for text in ["let twin = 1;", "new_twin", "NewTwin", "// its twins", "TWIN_MAX", "\"twin\""]
        {
            assert_eq!(found(text), [leg(1)], "{text}");
        }
        for text in ["entwine", "twinkle", "leg", "second place", "at home", "a second of homes"] {
            assert_eq!(found(text), [], "{text}");
        }
        let home = "\"second home\" is now called metadata replica".to_owned();
        assert_eq!(found("a\nsecond_home_lag\n"), [(2, home.clone())]);
        assert_eq!(found("// two second homes"), [(1, home)]);
        assert_eq!(found("(\"twin\", \"is now called leg\")"), [], "it is refused there");
    }

    #[test]
    fn a_glossary_without_the_table_is_found() {
        assert_eq!(check(&[file(PAGE, "# Glossary\n")]).len(), 1);
        assert_eq!(check(&[]).len(), 1);
    }
}
