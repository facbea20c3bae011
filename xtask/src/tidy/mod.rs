//! Does the house keep the rules that no compiler checks?
//!
//! Rules live in `rules.rs` (one file at a time), `arrows.rs` (between crates), `keys.rs` and `items.rs`
//! (sources, and items of the papers, against docs/PAPERS.md), `words.rs` (words against docs/GLOSSARY.md), `documents.rs` (sentences) and `owners/` (walls
//! within a crate). What breaks a rule today and may, for a reason, stands in `ratchet.rs`, with a warning for
//! every entry that is no longer needed, so that the list gets shorter.

mod arrows;
mod documents;
mod items;
mod keys;
mod owners;
mod ratchet;
mod rules;
mod words;

pub use owners::Figures;

use crate::cargo;
use anyhow::{Context as _, Result, bail};
use ratchet::RATCHET;
use std::path::Path;

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path from the root, with slashes.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the root.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// The rule's name, as the ratchet spells it.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub what: String,
}

/// What the rules have to say.
#[derive(Debug, Default)]
pub struct Report {
    /// Broken rules that no ratchet entry excuses, and entries that excuse nothing.
    pub findings: Vec<Finding>,
    /// Broken rules with an excuse.
    pub excused: Vec<(Finding, &'static str)>,
    /// What will be wrong if it goes on.
    pub warnings: Vec<String>,
    /// How many files were read.
    pub files: usize,
}

/// Checks the repository and prints what is wrong. False if something is. With `--lower` the counts that have
/// become better are written down first.
///
/// # Errors
/// If the repository cannot be read, or another word is given.
pub fn run(words: &[String]) -> Result<bool> {
    match words {
        [] => {}
        [word] if word == "--lower" => {
            let files = read_all()?;
            documents::lower(&files)?;
            if !owners::lower(&files)? {
                return Ok(false);
            }
        }
        _ => bail!("tidy takes no words, or --lower"),
    }
    let report = check()?;
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    for (finding, reason) in &report.excused {
        println!("excused: {}: {} ({reason})", finding.path, finding.rule);
    }
    for Finding { path, line, rule, what } in &report.findings {
        println!("{path}:{line}: {rule}: {what}");
    }
    println!("tidy: {} files, {} rules broken", report.files, report.findings.len());
    Ok(report.findings.is_empty())
}

/// Checks the repository.
///
/// # Errors
/// If it cannot be read.
pub fn check() -> Result<Report> {
    let files = read_all()?;
    let mut report = Report { files: files.len(), ..Report::default() };
    let mut findings = arrows::check(&files);
    for file in &files {
        findings.extend(rules::check(file));
        report.warnings.extend(rules::warn(file));
    }
    findings.extend(rules::check_fronts(&files));
    findings.extend(keys::check(&files));
    findings.extend(items::check(&files));
    findings.extend(words::check(&files));
    findings.extend(owners::check(&files)?);
    findings.extend(documents::check(&files)?);
    let mut used = vec![false; RATCHET.len()];
    for finding in findings {
        let excuse = RATCHET.iter().position(|entry| entry.excuses(&finding));
        match excuse {
            Some(index) => {
                used[index] = true;
                report.excused.push((finding, RATCHET[index].reason));
            }
            None => report.findings.push(finding),
        }
    }
    for (entry, used) in RATCHET.iter().zip(used) {
        if !used {
            report.warnings.push(format!(
                "{} keeps {} now: remove the line from xtask/src/tidy/ratchet.rs",
                entry.path, entry.rule
            ));
        }
    }
    Ok(report)
}

/// Counts of the engine and of the documents as they are now.
///
/// # Errors
/// If the sources cannot be read.
pub fn figures() -> Result<Figures> {
    owners::figures(&read_all()?)
}

/// Every file that belongs to the project and is text that people write.
fn read_all() -> Result<Vec<SourceFile>> {
    let root = cargo::root();
    let mut files = Vec::new();
    for folder in
        ["crates", "xtask", "profiles", "docs", "examples", "experiments", "tests", "fuzz"]
    {
        walk(&root, Path::new(folder), &mut files)?;
    }
    for entry in root.read_dir().context("reading the root")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if [".md", ".toml"].iter().any(|end| name.ends_with(end)) {
            read(&root, Path::new(&name), &mut files)?;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    let Ok(entries) = root.join(folder).read_dir() else { return Ok(()) };
    for entry in entries {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                walk(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|end| {
            ["rs", "toml", "md", "fio", "svg"].iter().any(|known| end.eq_ignore_ascii_case(known))
        }) {
            read(root, &path, files)?;
        }
    }
    Ok(())
}

fn read(root: &Path, path: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    let text = std::fs::read_to_string(root.join(path))
        .with_context(|| format!("reading {}", path.display()))?;
    let path = path.to_string_lossy().replace('\\', "/");
    files.push(SourceFile { path, text });
    Ok(())
}
