//! Which rules does a single file break?
//!
//! Words that are banned are put together from halves here, so that this file keeps its own rules.

use super::{Finding, SourceFile};
use std::collections::BTreeMap;

/// Lines of a file, its tests not counted, before it must be divided.
const LINES_MAX: usize = 600;
/// Lines at which one should think about it.
const LINES_WARN: usize = 400;

/// Not in any file of ours.
const BANNED_WORDS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
    concat!("d", "bg!"),
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("K", "B"),
];

/// Not the name of any file or folder of ours, nor the beginning of a name.
const BANNED_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "misc", "v0"];

/// Nobody else has these folders.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/tm", "p/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];

/// What engine and names must not touch: the time, threads, I/O, and maps in random order.
const WALLS: &[&str] = &[
    "std::time",
    "std::thread",
    "std::fs",
    "std::net",
    "std::os",
    "std::io",
    "std::process",
    "std::env",
    "SystemTime",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "RandomState",
];

/// Crates that are told everything and touch nothing.
const PURE: &[&str] = &["engine", "names"];

/// Crates without floating point: results must be the same on every machine.
const NO_FLOATS: &[&str] = &["engine", "drives", "traces", "block", "names"];

/// The ring: the only room with unsafe code, besides one file per front end.
const UNSAFE_ROOM: &str = "crates/live/src/ring/";

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |line, rule, what: String| {
        findings.push(Finding { path: file.path.clone(), line, rule, what });
    };
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if BANNED_NAMES.contains(&stem) || stem.starts_with(concat!("new", "_")) {
            add(0, "names", format!("{part:?} says nothing: name it after what it is"));
        }
    }
    for (index, line) in file.text.lines().enumerate() {
        for word in BANNED_WORDS.iter().filter(|word| has_word(line, word)) {
            add(
                index + 1,
                "words",
                format!("{word:?} is banned: finish it, or say it in plain words"),
            );
        }
        for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
            add(index + 1, "paths", format!("{path:?} exists on one machine only"));
        }
    }
    if file.path.ends_with(".rs") {
        if !says(&file.text) {
            let what = "the first line of //! must say what the file is, in a sentence";
            add(1, "first line", what.to_owned());
        }
        let lines = lines_without_tests(file);
        if lines > LINES_MAX {
            add(0, "size", format!("{lines} lines without tests; divide it below {LINES_MAX}"));
        }
        check_code(file, &mut add);
    }
    findings
}

pub(super) fn warn(file: &SourceFile) -> Option<String> {
    let lines = lines_without_tests(file);
    let long = file.path.ends_with(".rs") && (LINES_WARN..=LINES_MAX).contains(&lines);
    long.then(|| format!("{}: {lines} lines without tests, {LINES_MAX} are the limit", file.path))
}

/// Rules about what is compiled into the product: comments and tests are not looked at.
fn check_code(file: &SourceFile, add: &mut impl FnMut(usize, &'static str, String)) {
    let in_crate = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
    let is_front = file.path.starts_with("crates/fronts/src/");
    let name = in_crate.map(|(name, _)| name).unwrap_or_default();
    for (number, line) in code_lines(file) {
        let may = file.path.starts_with(UNSAFE_ROOM) || is_front;
        if in_crate.is_some() && !may && is_unsafe(line) {
            add(number, "unsafe", "unsafe code belongs into live/src/ring/".into());
        }
        if PURE.contains(&name) {
            for wall in WALLS.iter().filter(|wall| line.contains(**wall)) {
                add(number, "walls", format!("{name} must not touch {wall}"));
            }
        }
        if NO_FLOATS.contains(&name) && (has_word(line, "f64") || has_word(line, "f32")) {
            add(number, "floats", "no floating point here: use block::fixed".to_owned());
        }
    }
}

/// One file with unsafe code per front end, at most.
pub(super) fn check_fronts(files: &[SourceFile]) -> Vec<Finding> {
    let mut of_front: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        let Some(rest) = file.path.strip_prefix("crates/fronts/src/") else { continue };
        if file.path.ends_with(".rs") && code_lines(file).any(|(_, line)| is_unsafe(line)) {
            let front = rest.split(['/', '.']).next().unwrap_or(rest);
            of_front.entry(front).or_default().push(file);
        }
    }
    let too_many = of_front.into_iter().filter(|(_, files)| files.len() > 1);
    too_many
        .map(|(front, files)| Finding {
            path: files[1].path.clone(),
            line: 0,
            rule: "unsafe",
            what: format!("{front} has {} files with unsafe code; one may have", files.len()),
        })
        .collect()
}

fn is_unsafe(line: &str) -> bool {
    has_word(line, "unsafe") && !line.contains("allow(unsafe_code")
}

/// Do the first lines of the file's own documentation say what it is: a sentence of some words, or a question?
fn says(text: &str) -> bool {
    let first: Vec<&str> = text.lines().take(3).take_while(|l| l.starts_with("//! ")).collect();
    let words = first.iter().map(|line| line.split_whitespace().count() - 1).sum::<usize>();
    first.iter().any(|line| line.contains('?'))
        || words >= 4 && first.iter().any(|line| line.contains(['.', ':']))
}

/// Is `word` in `line`, not as a part of a longer one?
fn has_word(line: &str, word: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(inner);
        let ends_open = word.ends_with(inner);
        let after = ends_open && line[at + word.len()..].chars().next().is_some_and(inner);
        !before && !after
    })
}

/// Files that only tests use.
pub(super) fn is_test(path: &str) -> bool {
    ["/tests/", "/tests.rs", "/benches/"].iter().any(|part| path.contains(part))
}

/// Where the tests inside a file begin; they stand at its end.
fn tests_begin(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1] == "mod tests {";
    lines.windows(2).position(begins).unwrap_or(lines.len())
}

fn lines_without_tests(file: &SourceFile) -> usize {
    if is_test(&file.path) { 0 } else { tests_begin(&file.text) }
}

/// Number and text of lines that are neither comments nor tests.
pub(super) fn code_lines(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let count = lines_without_tests(file);
    let lines = file.text.lines().take(count).enumerate();
    lines
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
        .filter(|(_, line)| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<&'static str> {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        let mut rules: Vec<&str> = check(&file).iter().map(|finding| finding.rule).collect();
        rules.dedup();
        rules
    }

    #[test]
    fn every_rule_bites() {
        let long = format!("//! Why?\n{}", "\n".repeat(LINES_MAX));
        let kilo = concat!("//! Why 4 K", "B?");
        let unfinished = concat!("//! Why?\n// TO", "DO");
        let place = concat!("//! Why?\nconst X: &str = \"/ho", "me/me\";");
        for (path, text, rule) in [
            ("crates/cli/src/utils.rs", "//! Why?", "names"),
            ("crates/cli/src/a.rs", "//! Words.", "first line"),
            ("crates/cli/src/a.rs", "use a;\n//! Why is this here?", "first line"),
            ("crates/cli/src/a.rs", &long, "size"),
            ("crates/cli/src/a.rs", kilo, "words"),
            ("crates/cli/src/a.rs", unfinished, "words"),
            ("crates/cli/src/a.rs", place, "paths"),
            ("crates/cli/src/a.rs", "//! Why?\nunsafe { f() }", "unsafe"),
            ("crates/engine/src/a.rs", "//! Why?\nuse std::time::Instant;", "walls"),
            ("crates/engine/src/a.rs", "//! Why?\nuse std::collections::HashMap;", "walls"),
            ("crates/names/src/a.rs", "//! Why?\nuse std::fs;", "walls"),
            ("crates/drives/src/a.rs", "//! Why?\nlet a: f64 = b;", "floats"),
        ] {
            assert_eq!(broken(path, text), [rule], "{text:.60}");
        }
    }

    #[test]
    fn what_is_allowed_passes() {
        for (path, text) in [
            ("crates/live/src/ring/uring.rs", "//! Why?\nunsafe { f() }"),
            ("crates/live/src/a.rs", "//! Why?\nuse std::time::Instant; let a: f64;"),
            ("crates/engine/src/a.rs", "//! Why?\nuse hashbrown::HashMap; // not std::time"),
            ("crates/engine/src/a.rs", "//! Why?\n#[cfg(test)]\nmod tests {\nlet a: f64;\n}"),
            (
                "crates/cli/src/a.rs",
                concat!("//! Why?\nlet a = 4 * K", "IB; let b = \"XX", "XL\";"),
            ),
        ] {
            assert_eq!(broken(path, text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_second_file_of_a_front_end_with_unsafe_code_is_one_too_many() {
        let file = |path: &str| SourceFile { path: path.into(), text: "unsafe { f() }".into() };
        let one = [file("crates/fronts/src/fuse/mount.rs"), file("crates/fronts/src/ublk.rs")];
        assert!(check_fronts(&one).is_empty());
        let two = [file("crates/fronts/src/fuse/mount.rs"), file("crates/fronts/src/fuse/b.rs")];
        assert_eq!(check_fronts(&two).len(), 1);
    }
}
