//! What has cargo built, and which tests are in it?

use super::side_by_side::{Kind, Task};
use crate::cargo;
use crate::watch::Patience;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Packages whose tests start servers and wait for drives and clients; those of all others compute.
const WAITING: [&str; 4] = ["tandem", "tandem-fronts", "tandem-live", "xtask"];

/// A program that cargo has built.
#[derive(Debug)]
pub(super) struct Program {
    /// The package.
    pub(super) package: String,
    /// Library, program, example or test.
    kind: String,
    /// Its name.
    pub(super) name: String,
    /// Whether it is a harness with tests.
    is_test: bool,
    /// The folder of the package, where its tests expect to be run.
    folder: PathBuf,
    /// Where it is.
    pub(super) path: PathBuf,
}

impl Program {
    /// How it is called in what is printed: package and name, which are one for libraries.
    fn title(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("{} {}", self.package, self.name),
            kind => format!("{} ({kind} {})", self.package, self.name),
        }
    }

    /// A task for each of its tests.
    fn tests(&self, part: &'static str) -> Result<Vec<Task>> {
        let listed = Command::new(&self.path)
            .args(["--list", "--format", "terse"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("asking {} for its tests", self.path.display()))?;
        if !listed.status.success() {
            bail!("{} cannot list its tests: {}", self.path.display(), listed.status);
        }
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(|name| self.test(part, name)).collect())
    }

    fn test(&self, part: &'static str, name: &str) -> Task {
        let mut command = Command::new(&self.path);
        command
            .args(["--exact", name, "--show-output"])
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package)
            .stdin(Stdio::null());
        let waits = WAITING.contains(&self.package.as_str());
        // the modules of a program of tests are told one by one
        let module = name.split_once("::").filter(|_| self.kind == "test");
        let group = match module {
            Some((module, _)) => format!("{} {module}", self.title()),
            None => self.title(),
        };
        Task {
            part,
            group,
            name: name.to_owned(),
            command,
            kind: if waits { Kind::Waits } else { Kind::Computes },
            patience: Patience::TEST,
        }
    }
}

/// What was built, by the words for cargo: parts may share a build.
#[derive(Default)]
pub(super) struct Built(BTreeMap<Vec<&'static str>, Option<Vec<Program>>>);

impl Built {
    /// What cargo built for these words before: nothing in it if it failed. None if it was not asked.
    pub(super) fn get(&self, words: &[&'static str]) -> Option<&Option<Vec<Program>>> {
        self.0.get(words).filter(|_| !words.is_empty())
    }

    /// These words were tried.
    pub(super) fn note(&mut self, words: &[&'static str], succeeded: bool) {
        let entry = self.0.entry(words.to_vec()).or_default();
        if succeeded {
            entry.get_or_insert_default();
        }
    }

    /// The programs that cargo has built for these words.
    pub(super) fn programs(&mut self, words: &[&'static str]) -> Result<&[Program]> {
        let entry = self.0.entry(words.to_vec()).or_default();
        if entry.is_none() {
            *entry = Some(programs(words)?);
        }
        Ok(entry.as_deref().unwrap_or_default())
    }
}

/// The programs that cargo builds for these words, which are fresh.
fn programs(words: &[&str]) -> Result<Vec<Program>> {
    let mut all = words.to_vec();
    all.extend(["--message-format=json-render-diagnostics", "--quiet"]);
    let messages = cargo::output(&all)?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        programs.extend(program(&message));
    }
    if programs.is_empty() {
        bail!("cargo {} built no program", words.join(" "));
    }
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let package_id = message["package_id"].as_str()?;
    // path+file:///FOLDER#NAME@VERSION, or #VERSION where the folder has the package's name
    let (place, version) = package_id.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    Some(Program {
        package: package.to_owned(),
        kind: message["target"]["kind"][0].as_str()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        is_test: message["profile"]["test"].as_bool()?,
        folder: manifest.parent()?.to_owned(),
        path,
    })
}

/// A task for each test of those of these programs whose names are wanted.
pub(super) fn tests(
    part: &'static str,
    programs: &[Program],
    is_wanted: fn(&str) -> bool,
) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for program in programs.iter().filter(|program| program.is_test && is_wanted(&program.name)) {
        tasks.extend(program.tests(part)?);
    }
    Ok(tasks)
}

/// One task that runs a program, which is not a harness, with these words.
pub(super) fn one(
    part: &'static str,
    programs: &[Program],
    name: &str,
    words: &[&str],
) -> Result<Vec<Task>> {
    let mut command = Command::new(&find(programs, name)?.path);
    command.args(words).current_dir(cargo::root()).stdin(Stdio::null());
    Ok(vec![Task {
        part,
        group: name.to_owned(),
        name: words.join(" "),
        command,
        kind: Kind::Computes,
        patience: Patience::TEST,
    }])
}

/// The live arm, over the server that was built beside it.
pub(super) fn live(part: &'static str, programs: &[Program], words: &[&str]) -> Result<Vec<Task>> {
    let mut tasks = one(part, programs, "live", words)?;
    for task in &mut tasks {
        task.command.arg("--tandem").arg(&find(programs, "tandem")?.path);
        task.kind = Kind::Waits;
    }
    Ok(tasks)
}

fn find<'a>(programs: &'a [Program], name: &str) -> Result<&'a Program> {
    let found = programs.iter().find(|program| program.name == name && !program.is_test);
    found.with_context(|| format!("cargo built no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo_are_read() {
        let message = |id: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id,
                "manifest_path": "/a/crates/sim/Cargo.toml",
                "target": { "kind": ["test"], "name": "crash" },
                "profile": { "test": test }, "executable": "/a/target/crash-1",
            })
        };
        let named = program(&message("path+file:///a/crates/sim#tandem-sim@0.1.0", true)).unwrap();
        assert_eq!((named.package.as_str(), named.is_test), ("tandem-sim", true));
        assert_eq!(named.title(), "tandem-sim crash");
        let groups = ["alone", "cut::twice"].map(|name| named.test("tests", name).group);
        assert_eq!(groups, ["tandem-sim crash", "tandem-sim crash cut"]);
        assert_eq!(named.folder, PathBuf::from("/a/crates/sim"));
        let unnamed = program(&message("path+file:///a/xtask#0.1.0", false)).unwrap();
        assert_eq!((unnamed.package.as_str(), unnamed.is_test), ("xtask", false));
        assert!(program(&serde_json::json!({ "reason": "build-finished" })).is_none());
    }
}
