//! What does an experiment ask for? A file, read and checked before anything runs.

use super::drive::{self, DriveCase};
use super::file::{self, File};
use super::null::Null;
use super::purpose::Purpose;
use super::relation::{Path, Relation};
use super::schema;
use super::sharing::{self, Sharing};
use super::traces;
use super::values::bytes;
use crate::failure::{ConfigFault, Failure, said};
use crate::policy;
use crate::replay::arguments::{choices, named};
use crate::report::names::placement_name;
use crate::toml_fault::{self, Fault};
use std::collections::BTreeSet;
use tandem_block::{DurabilityClass, ObjectId, Quantity};
use tandem_drives::spec;
use tandem_engine::{Placement, SteerConfig, TierConfig};
use tandem_sim::profiles::{self, DriveProfile, ProfileKind};
use tandem_sim::replay::{Budgets, ReadBack, ReplayConfig, Resident};
use tandem_traces::spell;
use tandem_traces::transform::Speedup;
use toml::Spanned;

/// One file.
#[derive(Debug)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// Where in which paper.
    pub source: String,
    /// What was fitted to what, and which reading is taken.
    pub about: String,
    /// Items of the papers' lists; each must have a relation whose id begins with it.
    pub items: Vec<String>,
    /// What stands in the place of the policies with `--null`.
    pub nulls: Vec<Null>,
    /// What is run.
    pub cases: Vec<Case>,
    /// What must hold.
    pub relations: Vec<Relation>,
}

/// Something to run, and under which policies.
#[derive(Debug)]
pub struct Case {
    /// Its name, as paths spell it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a case runs.
#[derive(Debug)]
pub enum Kind {
    /// A workload under each policy.
    Replay(Box<Replay>),
    /// The predictor over a stream of writes.
    Predictor(Box<Predictor>),
    /// A stream of writes of one size, without jitter.
    Staircase(Box<Staircase>),
    /// Clients that share an SSD, under each order of service.
    Sharing(Box<Sharing>),
    /// One drive, and what streams of requests get from it.
    Drive(Box<DriveCase>),
}

/// Which run of a case?
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// The one that there is.
    Only,
    /// Under this policy and tier.
    Choice(&'a Choice),
    /// Under this order of service.
    Order(&'a str),
}

impl Kind {
    /// Why it cannot be run here, if so.
    pub fn skipped(&self) -> Option<&str> {
        match self {
            Kind::Sharing(sharing) => sharing.skipped.as_deref(),
            Kind::Replay(replay) => replay.skipped.as_deref(),
            Kind::Predictor(_) | Kind::Staircase(_) | Kind::Drive(_) => None,
        }
    }

    /// Every run, with its label in paths.
    pub fn runs(&self) -> Vec<(&str, Which<'_>)> {
        match self {
            Kind::Replay(replay) => {
                let policies = replay.policies.iter();
                policies.map(|choice| (choice.label.as_str(), Which::Choice(choice))).collect()
            }
            Kind::Predictor(_) => vec![("predictor", Which::Only)],
            Kind::Staircase(_) | Kind::Drive(_) => vec![("drive", Which::Only)],
            Kind::Sharing(sharing) => {
                let orders = sharing.orders.iter();
                orders.map(|order| (order.as_str(), Which::Order(order))).collect()
            }
        }
    }
}

/// A policy, and perhaps a tier.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What paths call it.
    pub label: String,
    /// Where writes go.
    pub steer: SteerConfig,
    /// Where data belongs in all volumes …
    pub tier: TierConfig,
    /// … but for these.
    pub volume_tiers: Vec<(ObjectId, TierConfig)>,
}

/// A workload under each policy.
#[derive(Clone, Debug)]
pub struct Replay {
    /// As on the command line of `tandem replay`.
    pub workload: String,
    /// Everything but the policy.
    pub config: ReplayConfig,
    /// Time is compressed so many times.
    pub speedup: Speedup,
    /// What it is replayed under.
    pub policies: Vec<Choice>,
    /// Reads are what the case is about, not writes.
    pub is_about_reads: bool,
    /// Parts per million of the data for which the SSD has room.
    pub ssd_share_ppm: Option<u32>,
    /// Why it cannot be run here, if so: its trace is not part of the project.
    pub skipped: Option<String>,
}

/// The predictor over a stream of writes.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// The drive.
    pub spec: spec::HddSpec,
    /// What is believed of it.
    pub profile: tandem_engine::profile::HddProfile,
    /// Bytes of each write.
    pub size_bytes: u64,
    /// Syncs.
    pub rounds: u64,
    /// Bytes between two syncs.
    pub round_bytes: u64,
}

/// A stream of writes of one size.
#[derive(Clone, Debug)]
pub struct Staircase {
    /// The drive.
    pub spec: spec::HddSpec,
    /// Bytes of each write.
    pub size_bytes: u64,
}

/// The same experiment with only those runs that a relation names, and with runs of a drive alone,
/// which the null `random` is computed from.
pub fn with_named_runs_only(mut experiment: Experiment) -> Experiment {
    let paths = experiment.relations.iter().flat_map(Relation::paths);
    let named: BTreeSet<(&str, &str)> =
        paths.map(|path| (path.case.as_str(), path.policy.as_str())).collect();
    experiment.cases.retain(|case| named.iter().any(|(name, _)| *name == case.name));
    for Case { name, kind } in &mut experiment.cases {
        let is_named = |label: &str| named.contains(&(name.as_str(), label));
        match kind {
            Kind::Replay(replay) => replay
                .policies
                .retain(|choice| is_named(&choice.label) || super::instead::is_line(choice)),
            Kind::Sharing(sharing) => sharing.orders.retain(|order| is_named(order)),
            Kind::Predictor(_) | Kind::Staircase(_) | Kind::Drive(_) => {}
        }
    }
    experiment
}

impl Experiment {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// With file and line.
    pub fn read(path: &std::path::Path) -> Result<Experiment, ConfigFault> {
        let text = toml_fault::read_file(path, "experiment")?;
        let folder = path.parent().unwrap_or(path);
        Experiment::parse_in(folder, &text).map_err(|fault| fault.in_file(path, &text))
    }

    /// A file that lies nowhere.
    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Result<Experiment, Fault> {
        Experiment::parse_in(std::path::Path::new(""), text)
    }

    /// A file of this folder.
    pub(super) fn parse_in(folder: &std::path::Path, text: &str) -> Result<Experiment, Fault> {
        let file: File = toml_fault::parse(text)?;
        let mut cases: Vec<Case> = Vec::new();
        for entry in &file.case {
            let case = case(entry.get_ref(), folder)?;
            if cases.iter().any(|known| known.name == case.name) {
                let text = format!("there are two cases {:?}", case.name);
                return Err(Fault::at(&entry.get_ref().name, text));
            }
            cases.push(case);
        }
        let mut relations: Vec<Relation> = Vec::new();
        for entry in &file.relation {
            let relation = Relation::check(entry)?;
            let id = &entry.get_ref().id;
            if relations.iter().any(|known| known.id == relation.id) {
                return Err(Fault::at(id, format!("there are two relations {}", relation.id)));
            }
            for path in relation.paths() {
                find(path, &cases)
                    .map_err(|why| Fault::at(id, format!("relation {}: {why}", relation.id)))?;
            }
            relations.push(relation);
        }
        let nulls = match &file.nulls {
            None => usual_nulls(&cases),
            Some(list) => nulls(list, &cases)?,
        };
        let scores = relations.iter().position(|relation| relation.purpose == Purpose::Scores);
        if let (true, Some(at)) = (nulls.is_empty(), scores) {
            let id = &file.relation[at].get_ref().id;
            let text = format!(
                "relation {} scores, but no case has a policy: give it kind = \"calibrates\" or \"built-in\"",
                id.get_ref()
            );
            return Err(Fault::at(id, text));
        }
        Ok(Experiment {
            name: file.name.into_inner(),
            title: file.title,
            source: file.source,
            about: file.about,
            items: file.items.into_iter().map(Spanned::into_inner).collect(),
            nulls,
            cases,
            relations,
        })
    }

    /// All but what is run and what must hold.
    pub fn without_cases(&self) -> Experiment {
        Experiment {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            about: self.about.clone(),
            items: self.items.clone(),
            nulls: self.nulls.clone(),
            cases: Vec::new(),
            relations: Vec::new(),
        }
    }

    /// Items of the file that no relation belongs to.
    pub fn missing(&self) -> impl Iterator<Item = &String> {
        let has_one = |item: &str| self.relations.iter().any(|one| belongs(&one.id, item));
        self.items.iter().filter(move |item| !has_one(item))
    }

    /// The item that a relation belongs to: of several the longest one.
    pub fn item_of(&self, id: &str) -> Option<&str> {
        let items = self.items.iter().map(String::as_str);
        items.filter(|item| belongs(id, item)).max_by_key(|item| item.len())
    }
}

/// Does the relation of this id belong to the item?
fn belongs(id: &str, item: &str) -> bool {
    id.strip_prefix(item).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The nulls of an experiment whose file names none.
fn usual_nulls(cases: &[Case]) -> Vec<Null> {
    let has = |test: fn(&Kind) -> bool| cases.iter().any(|case| test(&case.kind));
    let mut nulls = Vec::new();
    if has(|kind| matches!(kind, Kind::Replay(_))) {
        nulls.push(Null::SsdFirst);
    }
    if has(|kind| matches!(kind, Kind::Predictor(_))) {
        nulls.push(Null::AlwaysFast);
    }
    if has(|kind| matches!(kind, Kind::Sharing(_))) {
        nulls.push(Null::Unprotected);
    }
    nulls
}

/// What stands in the place of the policies, as the file says.
fn nulls(list: &Spanned<Vec<Spanned<String>>>, cases: &[Case]) -> Result<Vec<Null>, Fault> {
    let mut nulls = Vec::new();
    for word in list.get_ref() {
        let known = Null::NAMED.iter().find(|(name, _)| name == word.get_ref());
        let Some((_, null)) = known else {
            let nearest = spell::nearest(word.get_ref(), Null::NAMED.iter().map(|known| known.0));
            let text = format!("there is no null {:?}; did you mean {nearest:?}?", word.get_ref());
            return Err(Fault::at(word, text));
        };
        if nulls.contains(null) {
            return Err(Fault::at(word, format!("{:?} stands there twice", word.get_ref())));
        }
        nulls.push(*null);
    }
    match nulls.first() {
        Some(null) if usual_nulls(cases).is_empty() => {
            let text = format!("no case has a policy in whose place {} could stand", null.name());
            Err(Fault::at(list, text))
        }
        _ => Ok(nulls),
    }
}

/// Is there such a place?
fn find(path: &Path, cases: &[Case]) -> Result<(), String> {
    let nearest = |wanted: &str, known: &[&str]| match known {
        [] => String::new(),
        known => format!("; did you mean {:?}?", spell::nearest(wanted, known.iter().copied())),
    };
    let Some(case) = cases.iter().find(|case| case.name == path.case) else {
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(format!("there is no case {:?}{}", path.case, nearest(&path.case, &names)));
    };
    let labels: Vec<&str> = case.kind.runs().into_iter().map(|(label, _)| label).collect();
    if !labels.contains(&path.policy.as_str()) {
        let near = nearest(&path.policy, &labels);
        return Err(format!("case {:?} has no policy {:?}{near}", path.case, path.policy));
    }
    match &case.kind {
        Kind::Replay(_) => schema::check(&schema::of_a_run(), &path.field),
        Kind::Predictor(_) => schema::check(&schema::of_a_prediction(), &path.field),
        Kind::Staircase(_) => schema::check(&schema::of_a_staircase(), &path.field),
        Kind::Sharing(sharing) => schema::check(&sharing.schema(), &path.field),
        Kind::Drive(drive) => schema::check(&drive.schema(), &path.field),
    }
}

fn case(file: &file::Case, folder: &std::path::Path) -> Result<Case, Fault> {
    let name = file.name.get_ref().clone();
    let kind = match file.kind.as_ref().map(|kind| kind.get_ref().as_str()) {
        None | Some("replay") => Kind::Replay(Box::new(replay(file)?)),
        Some("predictor") => Kind::Predictor(Box::new(predictor(file)?)),
        Some("staircase") => Kind::Staircase(Box::new(staircase(file)?)),
        Some("sharing") => Kind::Sharing(Box::new(sharing::case(file)?)),
        Some("drive") => Kind::Drive(Box::new(drive::case(file, folder)?)),
        Some(other) => {
            let kinds = ["replay", "predictor", "staircase", "sharing", "drive"];
            let nearest = spell::nearest(other, kinds);
            let text = format!("a case is no {other:?}; did you mean {nearest:?}?");
            return Err(Fault::at(&file.name, text));
        }
    };
    Ok(Case { name, kind })
}

/// What a case replays, and why that cannot be done here, if so.
fn workload(file: &file::Case) -> Result<(String, Option<String>), Fault> {
    match (&file.workload, &file.trace) {
        (Some(workload), None) => Ok((workload.get_ref().clone(), None)),
        (None, Some(trace)) => {
            let mut found = traces::Found::default();
            found.look(Some(trace))?;
            let path = found.paths.pop().flatten();
            Ok((path.map_or_else(String::new, |path| path.display().to_string()), found.skipped))
        }
        _ => Err(Fault::at(&file.name, "a case needs either a workload or a trace")),
    }
}

fn replay(file: &file::Case) -> Result<Replay, Fault> {
    let told = |failure: Failure| Fault::at(&file.name, said(failure));
    let (workload, skipped) = workload(file)?;
    let word = |given: &Option<String>, default: &str| given.clone().unwrap_or(default.to_owned());
    let budgets = Budgets {
        log_bytes: match &file.log {
            Some(log) => bytes(log)?,
            None => Budgets::default().log_bytes,
        },
        padding_bytes_per_day: match &file.padding {
            None => None,
            Some(padding) if padding.get_ref() == "unlimited" => Some(u64::MAX),
            Some(padding) => Some(bytes(padding)?),
        },
    };
    let placement = named(
        "placement",
        &word(&file.placement, "mapped"),
        [Placement::Mapped, Placement::Fixed].map(|p| (placement_name(p), p)),
    );
    let ssd_bytes = file.ssd_size.as_ref().map(bytes).transpose()?;
    let config = ReplayConfig {
        ssds: choices(&file.ssd, ssd_bytes, "--ssd").map_err(told)?,
        hdds: choices(&file.hdd, None, "--hdd").map_err(told)?,
        steer: SteerConfig::default(),
        tier: TierConfig::default(),
        volume_tiers: Vec::new(),
        placement: placement.map_err(told)?,
        ssd_state: word(&file.ssd_state, "steady")
            .parse()
            .map_err(|why| told(Failure::usage(format!("ssd_state: {why}"))))?,
        resident: named("resident", &word(&file.resident, "hdd"), Resident::NAMED).map_err(told)?,
        durability: DurabilityClass::VolatileOk,
        seed: file.seed.unwrap_or(1),
        closed_loop: file.closed_loop,
        budgets,
        read_back: ReadBack {
            bytes: file.read_back.as_ref().map(bytes).transpose()?,
            promote_after_reads: None,
        },
        at_home: file.at_home,
        timeline: false,
    };
    if file.policies.is_empty() {
        return Err(Fault::at(&file.name, "a case needs policies"));
    }
    let policies = policies(file, (config.ssds.len(), config.hdds.len()))?;
    let speedup = match &file.speedup {
        None => Speedup::parse("1").expect("one is a speed-up"),
        Some(text) => Speedup::parse(text.get_ref())
            .map_err(|why| Fault::at(text, format!("speedup: {why}")))?,
    };
    let is_about_reads = match &file.measure {
        None => false,
        Some(measure) => match measure.get_ref().as_str() {
            "read" => true,
            "write" => false,
            _ => return Err(Fault::at(measure, "measure is \"read\" or \"write\"")),
        },
    };
    let share = |share: &Spanned<String>| {
        let ppm = Quantity::Share.within(share.get_ref(), 1..=999_999);
        ppm.map(|ppm| ppm as u32).map_err(|why| Fault::at(share, why))
    };
    let ssd_share_ppm = file.ssd_share.as_ref().map(share).transpose()?;
    Ok(Replay { workload, config, speedup, policies, is_about_reads, ssd_share_ppm, skipped })
}

/// What a case is replayed under, over so many SSDs and hard drives.
fn policies(file: &file::Case, drives: (usize, usize)) -> Result<Vec<Choice>, Fault> {
    let mut policies: Vec<Choice> = Vec::new();
    for entry in &file.policies {
        let file::Policy { policy, label, tier } = entry.get_ref();
        if policies.iter().any(|known| known.label == *label) {
            return Err(Fault::at(entry, format!("there are two policies labelled {label:?}")));
        }
        let steer: SteerConfig =
            policy::parse("--policy", policy).map_err(|failure| Fault::at(entry, said(failure)))?;
        if let Some(why) = steer.entry().and_then(|known| known.lacks(drives.0, drives.1)) {
            return Err(Fault::at(entry, why));
        }
        let (tier, volume_tiers) = tiers(tier.as_ref()).map_err(|why| Fault::at(entry, why))?;
        policies.push(Choice { label: label.clone(), steer, tier, volume_tiers });
    }
    Ok(policies)
}

/// The tier of all volumes, and those of some.
fn tiers(told: Option<&file::Tier>) -> Result<(TierConfig, Vec<(ObjectId, TierConfig)>), String> {
    let parse = |text: &String| policy::parse("tier", text).map_err(said);
    match told {
        None => Ok((TierConfig::default(), Vec::new())),
        Some(file::Tier::All(text)) => Ok((parse(text)?, Vec::new())),
        Some(file::Tier::Each(each)) => {
            let of_volume = |(volume, text): (&String, &String)| {
                let number =
                    volume.parse().map_err(|_| format!("{volume:?} is no volume: 0, 1"))?;
                Ok((ObjectId(number), parse(text)?))
            };
            let each: Result<Vec<_>, String> = each.iter().map(of_volume).collect();
            Ok((TierConfig::default(), each?))
        }
    }
}

fn predictor(file: &file::Case) -> Result<Predictor, Fault> {
    let wrong = |text: &str| Fault::at(&file.name, text);
    let [hdd] = file.hdd.as_slice() else { return Err(wrong("a predictor needs one hdd")) };
    let drive = spec::load(hdd).map_err(|error| wrong(&error.to_string()))?;
    let profile = profiles::shipped(hdd);
    let (spec::ModelSpec::Hdd(spec), Some(DriveProfile { kind: ProfileKind::Hdd(profile), .. })) =
        (drive.model, profile)
    else {
        return Err(wrong("a predictor needs a hard drive with a profile"));
    };
    let size_bytes = match &file.size {
        Some(size) => bytes(size)?,
        None => return Err(wrong("a predictor needs the size of its writes")),
    };
    let (Some(rounds), Some(round_bytes)) = (file.rounds, file.round_bytes) else {
        return Err(wrong("a predictor needs rounds and round_bytes"));
    };
    let total = rounds.checked_mul(round_bytes);
    if size_bytes == 0 || total.is_none_or(|total| total > spec.capacity.get().0) {
        return Err(wrong("its rounds must fit on the drive, and its writes have a size"));
    }
    Ok(Predictor { spec, profile, size_bytes, rounds, round_bytes })
}

fn staircase(file: &file::Case) -> Result<Staircase, Fault> {
    let wrong = |text: &str| Fault::at(&file.name, text);
    let ([hdd], Some(size)) = (file.hdd.as_slice(), &file.size) else {
        return Err(wrong("a staircase needs one hdd and the size of its writes"));
    };
    let drive = spec::load(hdd).map_err(|error| wrong(&error.to_string()))?;
    let spec::ModelSpec::Hdd(spec) = drive.model else {
        return Err(wrong("a staircase needs a hard drive"));
    };
    let size_bytes = bytes(size)?;
    if !(4096..=1 << 20).contains(&size_bytes) {
        return Err(Fault::at(size, "the writes of a staircase have 4KiB to 1MiB"));
    }
    Ok(Staircase { spec, size_bytes })
}
