//! Does everything hold that must? `cargo xtask test` builds each part and then runs it.
//!
//! A part that fails does not stop the ones after it: one run shows all that is wrong. No part has a
//! time in which it must end. A guard watches every test (`watch`): who makes no progress is ended and
//! told of, and so is what a test leaves running or mounted.

mod built;
mod side_by_side;
mod told;

use crate::watch::{Output, Patience, Watch};
use crate::{cargo, packages, tidy};
use anyhow::{Context as _, Result, bail};
use built::{Built, Program};
use side_by_side::Task;
use std::time::Instant;
use told::{Report, Row};

/// What is run of the programs that were built for a part of this name.
type Tasks = fn(&'static str, &[Program]) -> Result<Vec<Task>>;

/// One part: its name, what cargo does first, and what is run then.
struct Part {
    name: &'static str,
    /// Cargo with these words. None for the rules that this program checks itself.
    cargo: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// What of that is run; nothing if cargo has done it all.
    run: Option<Tasks>,
}

const NONE: Part = Part { name: "", cargo: &[], environment: &[], run: None };

/// Every test, example and program, built once for all parts but the swarm: with engines that can break
/// their rules, which all but the mutants are not asked to. The swarm's engine is the one that users have.
const ALL_TESTS: &[&str] = &["test", "--workspace", "--no-run", "--features", "tandem-sim/mutants"];
/// The program of the mutants' tests.
const MUTANTS: &str = "mutants";

const PARTS: &[Part] = &[
    Part { name: "format", cargo: &["fmt", "--all", "--check"], ..NONE },
    Part { name: "tidy", ..NONE },
    Part {
        name: "lints",
        cargo: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        ..NONE
    },
    Part {
        name: "docs",
        cargo: &["doc", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..NONE
    },
    Part {
        name: "tests",
        cargo: ALL_TESTS,
        run: Some(|part, built| built::tests(part, built, |program| program != MUTANTS)),
        ..NONE
    },
    Part {
        name: "fuzz",
        cargo: ALL_TESTS,
        run: Some(|part, built| built::one(part, built, "tandem-fuzz", &["--seconds", "45"])),
        ..NONE
    },
    Part {
        name: "mutants",
        cargo: ALL_TESTS,
        run: Some(|part, built| built::tests(part, built, |program| program == MUTANTS)),
        ..NONE
    },
    Part {
        name: "live",
        cargo: ALL_TESTS,
        run: Some(|part, built| built::live(part, built, &["--seconds", "60"])),
        ..NONE
    },
    Part {
        name: "swarm",
        cargo: &["build", "--release", "-p", "tandem-sim", "--example", "swarm"],
        run: Some(|part, built| built::one(part, built, "swarm", &["share", "--seeds", "3"])),
        ..NONE
    },
    Part {
        name: "jobs",
        cargo: &["build", "--release", "-p", "tandem-sim", "--example", "swarm"],
        run: Some(|part, built| built::one(part, built, "swarm", &["jobs", "--commands", "10"])),
        ..NONE
    },
];

/// Runs the parts named, or all, and prints what each took. False if one failed or there was none.
///
/// # Errors
/// If a part is unknown or cargo cannot be started.
pub fn run(only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("there is no part {unknown}; there are {}", known.join(", "));
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|word| word == name);
    let watch = Watch::new()?;
    if wanted("tests") {
        packages::install();
    }
    let mut report = Report::default();
    let (mut tasks, mut built) = (Vec::new(), Built::default());
    for part in PARTS.iter().filter(|part| wanted(part.name)) {
        let began = Instant::now();
        let mut row = Row::new(part.name);
        row.sound = match built.get(part.cargo) {
            Some(programs) => programs.is_some(),
            None => build(part, &watch)?,
        };
        if let (true, Some(run)) = (row.sound, part.run) {
            let found = run(part.name, built.programs(part.cargo)?)?;
            row.tasks = found.len();
            tasks.extend(found);
        }
        built.note(part.cargo, row.sound);
        row.built = began.elapsed();
        println!("== {}: {} in {} s", part.name, row.verdict(), row.built.as_secs());
        report.rows.push(row);
    }
    // what takes longest goes first, so that nothing is waited for alone at the end
    tasks.sort_by_key(|task| (task.part == "tests", task.part != "swarm"));
    println!("\n== running {} tests and searches side by side", tasks.len());
    report.expect(&tasks);
    side_by_side::run(&watch, tasks, |done| report.done(done))?;
    report.left = watch.end_the_rest()?;
    print!("{report}");
    Ok(report.is_sound())
}

fn build(part: &Part, watch: &Watch) -> Result<bool> {
    if part.cargo.is_empty() {
        println!("\n== {}", part.name);
        return tidy::run(&[]);
    }
    println!("\n== {}: cargo {}", part.name, part.cargo.join(" "));
    let mut command = cargo::cargo();
    command.args(part.cargo).envs(part.environment.iter().copied());
    let ended = watch
        .run(&mut command, Patience::BUILD, Output::Shown)
        .with_context(|| format!("cargo for {}", part.name))?;
    for trouble in ended.troubles() {
        println!("== {trouble}");
    }
    Ok(ended.is_clean())
}
