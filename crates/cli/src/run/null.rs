//! What would come out without the policies that are tested?
//!
//! A null is something that does not do what the paper claims. It stands in the place of every policy
//! of an experiment. A relation that holds under it says nothing of the policy.

use super::experiment::{Case, Choice, Experiment, Kind, Replay, Which};
use super::relation::{Path, field_of};
use super::work::{Results, key};
use crate::policy;
use tandem_engine::{SteerConfig, TierConfig};

/// What stands in the place of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// Every write goes to the SSD.
    SsdFirst,
    /// Clients are served in the order of their requests, on one SSD that takes every write.
    Unprotected,
    /// Data lies at random. Time is that of the SSD alone for the share of the data that lies there,
    /// and that of the hard drive alone for the rest.
    Random,
    /// A predictor that always says "fast".
    AlwaysFast,
    /// One write-through cache, which gives up what was used least recently, in the place of each tier.
    Lru,
}

/// What a predictor answers that always says "fast": the share of each write state that it finds.
const ALWAYS_FAST: [(&str, f64); 3] =
    [("recall.fast", 1.0), ("recall.mid", 0.0), ("recall.slow", 0.0)];
/// Runs of a drive alone, as experiments label them: no null touches them.
const LINES: [&str; 2] = ["hdd-only", "ssd-only"];
/// The tier of `lru`, and which settings it has from the tier in whose place it stands.
const CACHE: &str = "cache-write-through:acknowledge=both";
const KEPT: [&str; 3] = ["extent", "size", "detours"];

impl Null {
    /// All that there are, as files call them.
    pub const NAMED: [(&'static str, Null); 5] = [
        ("ssd-first", Null::SsdFirst),
        ("unprotected", Null::Unprotected),
        ("always-fast", Null::AlwaysFast),
        ("random", Null::Random),
        ("lru", Null::Lru),
    ];

    /// As files call it.
    pub fn name(self) -> &'static str {
        let found = Null::NAMED.iter().find(|(_, null)| *null == self);
        found.expect("each stands in the list").0
    }

    /// The nulls of an experiment whose file names none.
    pub fn usual(cases: &[Case]) -> Vec<Null> {
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

    /// The same experiment with this null in the place of the policies. Names and labels stay.
    pub fn in_place_of(self, experiment: &Experiment) -> Experiment {
        let case = |case: &Case| Case { name: case.name.clone(), kind: self.kind(&case.kind) };
        Experiment {
            cases: experiment.cases.iter().map(case).collect(),
            relations: experiment.relations.clone(),
            ..experiment.without_cases()
        }
    }

    fn kind(self, kind: &Kind) -> Kind {
        match kind {
            Kind::Replay(replay) => Kind::Replay(Box::new(self.replay(replay))),
            Kind::Sharing(sharing) => match self {
                Null::SsdFirst | Null::Unprotected => {
                    Kind::Sharing(Box::new(sharing.unprotected()))
                }
                // nothing of theirs is in such a case
                Null::AlwaysFast | Null::Random | Null::Lru => {
                    Kind::Sharing(Box::new(sharing.again()))
                }
            },
            Kind::Predictor(predictor) => Kind::Predictor(predictor.clone()),
            Kind::Staircase(staircase) => Kind::Staircase(staircase.clone()),
        }
    }

    fn replay(self, replay: &Replay) -> Replay {
        let policies = replay.policies.iter().map(|choice| match self {
            Null::SsdFirst | Null::Unprotected => ssd_first(choice),
            // `random` is arithmetic over the runs of the drives alone, so nothing else runs
            Null::AlwaysFast | Null::Random => choice.clone(),
            Null::Lru => cache(choice),
        });
        Replay { policies: policies.collect(), ..replay.clone() }
    }
}

fn is_line(choice: &Choice) -> bool {
    LINES.contains(&choice.steer.name())
}

fn ssd_first(choice: &Choice) -> Choice {
    if is_line(choice) {
        return choice.clone();
    }
    Choice { steer: SteerConfig::named(Null::SsdFirst.name()), ..choice.clone() }
}

fn cache(choice: &Choice) -> Choice {
    let tiered = |tier: &TierConfig| {
        let cache: TierConfig = policy::parse("tier", CACHE).expect("there is such a tier");
        let kept = tier.changed().filter(|(setting, _)| KEPT.contains(&setting.name));
        kept.fold(cache, |cache, (setting, value)| cache.with(setting.name, value))
    };
    let has_one = choice.tier != TierConfig::default();
    Choice {
        tier: if has_one { tiered(&choice.tier) } else { choice.tier.clone() },
        volume_tiers: choice.volume_tiers.iter().map(|(id, tier)| (*id, tiered(tier))).collect(),
        ..choice.clone()
    }
}

/// The value at a path of an experiment, under a null where one is given.
///
/// # Errors
/// Says why there is none.
pub fn look_up(
    experiment: &Experiment,
    null: Option<Null>,
    results: &Results,
    path: &Path,
) -> Result<f64, String> {
    let case = experiment.cases.iter().find(|case| case.name == path.case);
    let case = case.expect("paths were checked when the file was read");
    if null == Some(Null::AlwaysFast) && matches!(case.kind, Kind::Predictor(_)) {
        let known = ALWAYS_FAST.iter().find(|(field, _)| *field == path.field);
        return known.map(|(_, share)| *share).ok_or_else(|| format!("no {}", path.field));
    }
    if let (Some(Null::Random), Kind::Replay(replay)) = (null, &case.kind)
        && !replay.policies.iter().any(|choice| choice.label == path.policy && is_line(choice))
    {
        return at_random(case, replay, results, path);
    }
    let mut runs = case.kind.runs().into_iter();
    let run = runs.find(|(label, _)| *label == path.policy);
    let (_, which) = run.expect("as the case");
    value_of(case, which, results, path)
}

fn value_of(case: &Case, which: Which<'_>, results: &Results, path: &Path) -> Result<f64, String> {
    match &results[&key(&case.kind, which)] {
        Ok(run) => field_of(run, &path.field),
        Err(why) => Err(format!("{}/{} failed: {why}", path.case, path.policy)),
    }
}

/// What a random placement takes: the time of each drive alone, by the share of the data on it.
fn at_random(case: &Case, replay: &Replay, results: &Results, path: &Path) -> Result<f64, String> {
    if path.field != "elapsed_ns" {
        return Err(format!("a random placement has no {}", path.field));
    }
    let share = replay.ssd_share_ppm.ok_or_else(|| format!("{} has no ssd_share", case.name))?;
    let alone = |name: &str| {
        let line = replay.policies.iter().find(|choice| choice.steer.name() == name);
        let line = line.ok_or_else(|| format!("{} has no policy {name}", case.name))?;
        value_of(case, Which::Choice(line), results, path)
    };
    let share = f64::from(share) / 1e6;
    Ok((1.0 - share) * alone("hdd-only")? + share * alone("ssd-only")?)
}
