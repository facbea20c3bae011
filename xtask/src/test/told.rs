//! What does a run of all tests tell? Each program as its last test ends, failures as they come, and a
//! table at the end.

use super::side_by_side::{Done, Task};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

/// Tests that are named as the slowest.
const SLOWEST: usize = 8;
/// Lines of what a failed test printed that are shown again at the end.
const AGAIN_MAX: usize = 12;

/// A part in the table.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    /// How long its build took, or all of it if nothing is run.
    pub(super) built: Duration,
    /// How many commands are run.
    pub(super) tasks: usize,
    pub(super) sound: bool,
    /// Processor time of what was run.
    cpu: Duration,
    /// When its first command had begun and its last one ended, since the first of all began.
    ran: Option<(Duration, Duration)>,
}

impl Row {
    pub(super) fn new(name: &'static str) -> Row {
        let (built, cpu) = (Duration::ZERO, Duration::ZERO);
        Row { name, built, tasks: 0, sound: true, cpu, ran: None }
    }

    pub(super) fn verdict(&self) -> &'static str {
        if self.sound { "ok" } else { "FAILED" }
    }
}

/// Tests of one program that have not ended, and what those took that have.
#[derive(Debug, Default)]
struct Group {
    open: usize,
    tests: usize,
    failed: usize,
    took: Duration,
}

/// Everything that is told.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// Processes that were left behind and that no test could be found for.
    pub(super) left: Vec<String>,
    groups: BTreeMap<String, Group>,
    failed: Vec<(String, Vec<String>)>,
    skipped: BTreeMap<String, usize>,
    slowest: Vec<(Duration, String)>,
    began: Instant,
}

impl Default for Report {
    fn default() -> Report {
        Report {
            rows: Vec::new(),
            left: Vec::new(),
            groups: BTreeMap::new(),
            failed: Vec::new(),
            skipped: BTreeMap::new(),
            slowest: Vec::new(),
            began: Instant::now(),
        }
    }
}

impl Report {
    /// These will be run, from now on.
    pub(super) fn expect(&mut self, tasks: &[Task]) {
        for task in tasks {
            let group = self.groups.entry(task.group.clone()).or_default();
            group.open += 1;
            group.tests += 1;
        }
        self.began = Instant::now();
    }

    /// One has ended.
    pub(super) fn done(&mut self, done: Done) {
        let Done { part, group: title, name, ended } = done;
        let now = self.began.elapsed();
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == part) {
            row.sound &= ended.is_clean();
            row.cpu += ended.cpu;
            let began = now.saturating_sub(ended.took);
            let first = row.ran.map_or(began, |(first, _)| first.min(began));
            row.ran = Some((first, now));
        }
        let full = format!("{title} {name}");
        for line in ended.said.lines().filter(|line| line.starts_with("skipped:")) {
            *self.skipped.entry(line.to_owned()).or_default() += 1;
        }
        self.slowest.push((ended.took, full.clone()));
        self.slowest.sort_by(|a, b| b.cmp(a));
        self.slowest.truncate(SLOWEST);
        let group = self.groups.entry(title.clone()).or_default();
        group.open = group.open.saturating_sub(1);
        group.took += ended.took;
        if group.tests == 1 && ended.is_clean() {
            // a search tells what it did
            print!("{}", ended.said);
        }
        if !ended.is_clean() {
            group.failed += 1;
            let mut lines = ended.troubles();
            if lines.is_empty() {
                lines.push("it failed".to_owned());
            }
            println!("FAILED {full}: {}\n{}", lines.join("\n"), ended.said);
            let said = ended.said.lines().filter(|line| line.contains("panicked at")).take(3);
            lines.extend(said.map(str::to_owned));
            self.failed.push((full, lines));
        }
        if group.open == 0 {
            let Group { tests, failed, took, .. } = group;
            let failed = if *failed == 0 { String::new() } else { format!(", {failed} FAILED") };
            println!("{title:<44} {tests:>4} run in {:>7.1} s{failed}", took.as_secs_f64());
        }
    }

    /// Did all hold?
    pub(super) fn is_sound(&self) -> bool {
        !self.rows.is_empty() && self.left.is_empty() && self.rows.iter().all(|row| row.sound)
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.skipped {
            let times = if *count == 1 { String::new() } else { format!(" ({count} tests)") };
            writeln!(out, "{what}{times}")?;
        }
        if self.slowest.len() > 1 {
            writeln!(out, "\nThe slowest:")?;
        }
        for (took, name) in self.slowest.iter().filter(|_| self.slowest.len() > 1) {
            writeln!(out, "{:>7.1} s  {name}", took.as_secs_f64())?;
        }
        for (name, lines) in &self.failed {
            writeln!(out, "\nFAILED {name}")?;
            for line in lines.iter().take(AGAIN_MAX) {
                writeln!(out, "   {line}")?;
            }
        }
        for process in &self.left {
            writeln!(out, "left behind, nobody knows by which test: {process}")?;
        }
        let s = |time: Duration| format!("{} s", time.as_secs());
        writeln!(
            out,
            "\n{:<10} {:>8} {:>6} {:>15} {:>10}  verdict",
            "part", "build", "runs", "from to", "processor"
        )?;
        for row in &self.rows {
            let (built, runs) = (s(row.built), row.tasks);
            let ran = row.ran.map(|(a, b)| format!("{} to {} s", a.as_secs(), b.as_secs()));
            let (ran, cpu) = (ran.unwrap_or_default(), s(row.cpu));
            let (runs, cpu) = if runs == 0 { <_>::default() } else { (runs.to_string(), cpu) };
            let (name, verdict) = (row.name, row.verdict());
            writeln!(out, "{name:<10} {built:>8} {runs:>6} {ran:>15} {cpu:>10}  {verdict}")?;
        }
        let built: Duration = self.rows.iter().map(|row| row.built).sum();
        let cpu: Duration = self.rows.iter().map(|row| row.cpu).sum();
        let runs: usize = self.rows.iter().map(|row| row.tasks).sum();
        let last = self.rows.iter().filter_map(|row| Some(row.ran?.1)).max().unwrap_or_default();
        let (built, cpu, ran) = (s(built), s(cpu), format!("0 to {} s", last.as_secs()));
        writeln!(out, "{:<10} {built:>8} {runs:>6} {ran:>15} {cpu:>10}", "all")
    }
}
