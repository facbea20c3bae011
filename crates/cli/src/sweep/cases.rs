//! What a sweep replays: every point of its grids, checked before anything runs.

use super::file::{self, File, position};
use super::goal::Goal;
use crate::failure::{ConfigFault, Failure, said};
use crate::input::{self, Source};
use crate::policy;
use crate::replay::arguments::{choices, named};
use crate::report::names::placement_name;
use crate::toml_fault::{self, Fault};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tandem_block::{Quantity, Rng};
use tandem_drives::SsdState;
use tandem_engine::{Placement, SteerConfig, TierConfig};
use tandem_sim::replay::{DriveChoice, ReplayConfig, Resident};
use tandem_traces::transform::Speedup;
use toml::Spanned;

/// More cases are a slip: they would run for days.
const CASES_MAX: usize = 100_000;
/// More beginnings tell nothing more.
const STARTS_MAX: u32 = 32;

/// A file, checked.
#[derive(Debug)]
pub(super) struct Sweep {
    pub name: String,
    pub title: String,
    pub about: String,
    /// Where the policy that all are compared with stands in `policies`.
    pub null: usize,
    pub starts: u32,
    pub policies: Vec<Policy>,
    pub oracles: Vec<Oracle>,
    pub cases: Vec<Case>,
    pub goals: Vec<Goal>,
    /// Why some cases cannot be run here.
    pub skipped: Vec<String>,
}

/// A row for what could be had at best.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    pub label: String,
    pub limit: Limit,
}

/// What latencies an oracle may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// So many times the null's.
    Times(f64),
    /// Those of a policy, by its place in `policies`.
    Like(usize),
}

/// A policy under its label.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub label: String,
    pub steer: SteerConfig,
    pub tier: TierConfig,
}

/// One point of a grid.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub name: String,
    pub source: Source,
    pub speedup: Speedup,
    /// Everything but policy and seed.
    pub config: ReplayConfig,
}

impl Sweep {
    /// Reads and checks a file. Traces are in this folder.
    ///
    /// # Errors
    /// With file and line.
    pub fn read(path: &Path, traces: Option<&OsStr>) -> Result<Sweep, ConfigFault> {
        let text = toml_fault::read_file(path, "sweep")?;
        Sweep::parse(&text, traces).map_err(|fault| fault.in_file(path, &text))
    }

    pub fn parse(text: &str, traces: Option<&OsStr>) -> Result<Sweep, Fault> {
        if text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("relation")) {
            return Err(Fault::whole("it is an experiment: tandem run runs it"));
        }
        let file: File = toml_fault::parse(text)?;
        let policies = policies(&file)?;
        let labels: Vec<&str> = policies.iter().map(|policy| policy.label.as_str()).collect();
        let null = position(&file.null, &labels, "policy")?;
        if !(1..=STARTS_MAX).contains(file.starts.get_ref()) {
            return Err(Fault::at(
                &file.starts,
                format!("starts is a number from 1 to {STARTS_MAX}"),
            ));
        }
        let oracles = oracles(&file, &labels)?;
        let mut rows = labels.clone();
        rows.extend(oracles.iter().map(|oracle| oracle.label.as_str()));
        let goals = Goal::all(&file.goal, &rows, null)?;
        let drives = drives(&file, &policies)?;
        let mut grids = Grids { drives, traces, cases: Vec::new(), skipped: Vec::new() };
        for grid in &file.grid {
            grids.add(grid)?;
        }
        let Grids { cases, skipped, .. } = grids;
        if cases.is_empty() && skipped.is_empty() {
            return Err(Fault::at(&file.null, "no grid has a trace or a workload"));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = cases.iter().find(|case| !names.insert(&case.name)) {
            return Err(Fault::at(&file.null, format!("two grids have the case {:?}", twice.name)));
        }
        let starts = *file.starts.get_ref();
        let File { name, title, about, .. } = file;
        Ok(Sweep { name, title, about, null, starts, policies, oracles, cases, goals, skipped })
    }
}

/// So many of the cases, drawn by a seed, in their order.
pub(super) fn sampled(mut cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    let mut random = Rng::new(seed);
    while cases.len() > count {
        let gone = random.below(cases.len() as u64) as usize;
        cases.remove(gone);
    }
    cases
}

fn told<T>(place: &Spanned<T>) -> impl Fn(Failure) -> Fault {
    move |failure| Fault::at(place, said(failure))
}

fn policies(file: &File) -> Result<Vec<Policy>, Fault> {
    let mut policies: Vec<Policy> = Vec::new();
    for entry in &file.policy {
        let file::Policy { label, steer, tier } = entry.get_ref();
        if policies.iter().any(|known| known.label == *label.get_ref()) {
            let text = format!("there are two policies labelled {:?}", label.get_ref());
            return Err(Fault::at(label, text));
        }
        let tier = match tier {
            None => TierConfig::default(),
            Some(tier) => policy::parse("tier", tier.get_ref()).map_err(told(tier))?,
        };
        let steer = policy::parse("steer", steer.get_ref()).map_err(told(steer))?;
        policies.push(Policy { label: label.get_ref().clone(), steer, tier });
    }
    Ok(policies)
}

fn oracles(file: &File, labels: &[&str]) -> Result<Vec<Oracle>, Fault> {
    let mut oracles: Vec<Oracle> = Vec::new();
    for entry in &file.oracle {
        let file::Oracle { label, at_most, like } = entry.get_ref();
        let name = label.get_ref();
        if labels.contains(&name.as_str()) || oracles.iter().any(|known| known.label == *name) {
            return Err(Fault::at(label, format!("there are two rows labelled {name:?}")));
        }
        let limit = match (at_most, like) {
            (Some(times), None) if times.is_finite() && *times >= 1.0 => Limit::Times(*times),
            (None, Some(like)) => Limit::Like(position(like, labels, "policy")?),
            _ => {
                let text =
                    "an oracle has either at_most, a number from 1 on, or like, a policy's label";
                return Err(Fault::at(label, text));
            }
        };
        oracles.push(Oracle { label: name.clone(), limit });
    }
    Ok(oracles)
}

/// The drives of a pool under their name.
#[derive(Debug)]
struct Drives {
    name: String,
    ssds: Vec<DriveChoice>,
    hdds: Vec<DriveChoice>,
}

fn drives(file: &File, policies: &[Policy]) -> Result<Vec<Drives>, Fault> {
    let mut all: Vec<Drives> = Vec::new();
    for entry in &file.drives {
        let file::Drives { name, ssd, hdd, ssd_size, hdd_size } = entry.get_ref();
        if all.iter().any(|known| known.name == *name.get_ref()) {
            return Err(Fault::at(name, format!("there are two drives {:?}", name.get_ref())));
        }
        let bytes = |size: &Option<Spanned<String>>| match size {
            None => Ok(None),
            Some(size) => match Quantity::Bytes.parse(size.get_ref()) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(why) => Err(Fault::at(size, why)),
            },
        };
        let ssds = choices(ssd, bytes(ssd_size)?, "--ssd").map_err(told(name))?;
        let hdds = choices(hdd, bytes(hdd_size)?, "--hdd").map_err(told(name))?;
        for Policy { label, steer, .. } in policies {
            if let Some(why) = steer.entry().and_then(|it| it.lacks(ssds.len(), hdds.len())) {
                return Err(Fault::at(name, format!("policy {label:?}: {why}")));
            }
        }
        all.push(Drives { name: name.get_ref().clone(), ssds, hdds });
    }
    Ok(all)
}

/// What all points of a grid have.
#[derive(Clone, Copy)]
struct Shared {
    ssd_state: SsdState,
    closed_loop: Option<u32>,
}

impl Shared {
    /// Of workload, speed, drives, where data lies, and placement.
    fn name(self, [source, speed, drives, resident, placement]: [&String; 5]) -> String {
        let loops = self.closed_loop.map_or(String::new(), |count| format!(" closed {count}"));
        format!("{source} x{speed} {drives} {resident} {placement}{loops}")
    }

    fn config(self, drives: &Drives, resident: Resident, placement: Placement) -> ReplayConfig {
        let (ssds, hdds) = (drives.ssds.clone(), drives.hdds.clone());
        ReplayConfig {
            resident,
            placement,
            ssd_state: self.ssd_state,
            closed_loop: self.closed_loop,
            ..ReplayConfig::of(SteerConfig::default(), ssds, hdds)
        }
    }
}

/// The points of the grids that were read so far.
struct Grids<'a> {
    drives: Vec<Drives>,
    /// The folder of the traces.
    traces: Option<&'a OsStr>,
    cases: Vec<Case>,
    skipped: Vec<String>,
}

impl Grids<'_> {
    fn add(&mut self, entry: &Spanned<file::Grid>) -> Result<(), Fault> {
        let grid = entry.get_ref();
        let sources = self.sources(grid)?;
        let over = self.over(grid)?;
        let speedups =
            each(&grid.speedups, "1", |text| Speedup::parse(text).map_err(|e| e.to_string()))?;
        let residents = each(&grid.resident, "hdd", |text| {
            named("resident", text, Resident::NAMED).map_err(said)
        })?;
        let placements = each(&grid.placement, "mapped", |text| {
            let known = [Placement::Mapped, Placement::Fixed].map(|it| (placement_name(it), it));
            named("placement", text, known).map_err(said)
        })?;
        let ssd_state = match &grid.ssd_state {
            None => SsdState::Steady,
            Some(text) => text
                .get_ref()
                .parse()
                .map_err(|why| Fault::at(text, format!("ssd_state: {why}")))?,
        };
        let closed_loop = match &grid.closed_loop {
            Some(count) if !(1..=65_536).contains(count.get_ref()) => {
                return Err(Fault::at(count, "closed_loop is a number from 1 to 65536"));
            }
            other => other.as_ref().map(|count| *count.get_ref()),
        };
        let shared = Shared { ssd_state, closed_loop };
        for (source_name, source) in &sources {
            for (speed_name, speedup) in &speedups {
                for drives in over.iter().map(|at| &self.drives[*at]) {
                    for (resident_name, resident) in &residents {
                        for (placement_name, placement) in &placements {
                            let words = [
                                source_name,
                                speed_name,
                                &drives.name,
                                resident_name,
                                placement_name,
                            ];
                            let name = shared.name(words);
                            let config = shared.config(drives, *resident, *placement);
                            let (source, speedup) = (source.clone(), *speedup);
                            self.cases.push(Case { name, source, speedup, config });
                        }
                    }
                }
            }
        }
        if self.cases.len() > CASES_MAX {
            return Err(Fault::at(entry, format!("more than {CASES_MAX} cases")));
        }
        Ok(())
    }

    /// The workloads of a grid, with their names.
    fn sources(&mut self, grid: &file::Grid) -> Result<Vec<(String, Source)>, Fault> {
        let mut sources = Vec::new();
        for trace in &grid.traces {
            let found = input::trace_in(self.traces, trace.get_ref());
            let found = found.map_err(|why| Fault::at(trace, why))?;
            match found {
                Some(path) => sources.push((short(trace.get_ref()), Source::File(path))),
                None => {
                    let text = format!("TANDEM_TRACES names no folder with {}", trace.get_ref());
                    self.skipped.push(text);
                }
            }
        }
        for workload in &grid.workloads {
            let source = Source::parse(workload.get_ref());
            if let Source::File(path) = &source {
                let text = format!(
                    "a workload is synth:NAME; {:?} stands under `traces` if it is a trace",
                    path.display()
                );
                return Err(Fault::at(workload, text));
            }
            sources.push((workload.get_ref().clone(), source));
        }
        Ok(sources)
    }

    /// Which drives a grid is over: all, unless it names some.
    fn over(&self, grid: &file::Grid) -> Result<Vec<usize>, Fault> {
        let names: Vec<&str> = self.drives.iter().map(|drives| drives.name.as_str()).collect();
        match &grid.over {
            None => Ok((0..names.len()).collect()),
            Some(words) => words.iter().map(|word| position(word, &names, "drives")).collect(),
        }
    }
}

/// Every word of a list, or the usual one, and what it means.
fn each<T>(
    words: &Option<Vec<Spanned<String>>>,
    usual: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(String, T)>, Fault> {
    let Some(words) = words else {
        let value = parse(usual).map_err(Fault::whole)?;
        return Ok(vec![(usual.to_owned(), value)]);
    };
    let one = |word: &Spanned<String>| {
        let value = parse(word.get_ref()).map_err(|why| Fault::at(word, why))?;
        Ok((word.get_ref().clone(), value))
    };
    words.iter().map(one).collect()
}

/// A trace's name without what tells its format.
fn short(file: &str) -> String {
    let path = PathBuf::from(file);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SOUND: &str = r#"
name = "s"
title = "t"
about = "a"
null = "none"
starts = 2
[[policy]]
label = "none"
steer = "ssd-first"
[[policy]]
label = "own"
steer = "ect:price=1us"
[[drives]]
name = "evo"
ssd = ["960evo"]
hdd = ["wd100efax"]
ssd_size = "8GiB"
[[drives]]
name = "x25"
ssd = ["x25e"]
hdd = ["wd40ezrz"]
[[grid]]
workloads = ["synth:zipf:requests=100", "synth:uniform:requests=100"]
speedups = ["1", "10"]
resident = ["none", "hdd"]
[[grid]]
traces = ["a.csv"]
over = ["x25"]
[[goal]]
id = "never"
what = "w"
policy = "own"
fields = ["write.mean_ns"]
at_most = 1.05
percent_of_cases = 95.0
"#;

    #[test]
    fn a_grid_is_every_point_of_it() {
        let sweep = Sweep::parse(SOUND, None).expect("sound");
        assert_eq!(sweep.cases.len(), 2 * 2 * 2 * 2);
        assert_eq!(sweep.cases[0].name, "synth:zipf:requests=100 x1 evo none mapped");
        assert_eq!(sweep.skipped, ["TANDEM_TRACES names no folder with a.csv"]);
        let mut names: Vec<&str> = sweep.cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), sweep.cases.len(), "each case has a name of its own");
    }

    #[test]
    fn a_sample_is_drawn_by_its_seed() {
        let drawn = |seed| {
            let sweep = Sweep::parse(SOUND, None).expect("sound");
            sampled(sweep.cases, 5, seed).into_iter().map(|case| case.name).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1).len(), 5);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn an_experiment_is_no_sweep() {
        let fault = Sweep::parse("name = \"e\"\n[[relation]]\nid = \"M1\"\n", None).err();
        assert!(fault.is_some_and(|fault| fault.text.contains("tandem run")));
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, want) in [
            ("null = \"none\"", "null = \"nnoe\"", "no policy \"nnoe\"; did you mean \"none\""),
            ("starts = 2", "starts = 0", "from 1 to 32"),
            ("\"ect:price=1us\"", "\"etc\"", "did you mean \"ect\""),
            ("label = \"own\"", "label = \"none\"", "two policies labelled"),
            ("ssd = [\"x25e\"]", "ssd = [\"x25\"]", "did you mean `x25e`"),
            ("hdd = [\"wd40ezrz\"]", "hdd = []", "there is none"),
            ("\"8GiB\"", "\"8\"", "8"),
            ("over = [\"x25\"]", "over = [\"x25e\"]", "no drives \"x25e\"; did you mean \"x25\""),
            ("\"10\"", "\"fast\"", "is not a speed-up"),
            ("[\"none\", \"hdd\"]", "[\"non\"]", "did you mean \"none\""),
            ("\"synth:uniform:requests=100\"", "\"a.csv\"", "stands under `traces`"),
            ("\"a.csv\"", "\"../a.csv\"", "by its file in the folder of traces"),
            ("policy = \"own\"", "policy = \"won\"", "no policy \"won\"; did you mean \"own\""),
            ("\"write.mean_ns\"", "\"write.men_ns\"", "did you mean \"mean_ns\""),
            ("at_most = 1.05", "at_mots = 1.05", "did you mean \"at_most\""),
            ("at_most = 1.05", "", "at_most"),
        ] {
            assert!(SOUND.contains(from), "{from}");
            let Err(fault) = Sweep::parse(&SOUND.replace(from, to), None) else {
                panic!("{to} was taken")
            };
            assert!(fault.text.contains(want), "{to}: {}", fault.text);
        }
    }
}
