//! What runs with a null in the place of the policies, and what comes out?
//!
//! A null is something that does not do what the paper claims. It stands in the place of every policy
//! of an experiment. A relation that holds under it says nothing of the policy.

use super::experiment::{Case, Choice, Experiment, Kind, Replay, Which};
use super::null::Null;
use super::relation::{Path, field_of};
use super::work::{Results, key};
use crate::policy;
use tandem_engine::{SteerConfig, TierConfig};

/// What a predictor answers that always says "fast": the share of each write state that it finds.
const ALWAYS_FAST: [(&str, f64); 3] =
    [("recall.fast", 1.0), ("recall.mid", 0.0), ("recall.slow", 0.0)];
/// Runs of a drive alone, as experiments label them: no null touches them.
const LINES: [&str; 2] = ["hdd-only", "ssd-only"];
/// The tier of `lru`, and which settings it has from the tier in whose place it stands.
const CACHE: &str = "cache-write-through:acknowledge=both";
const KEPT: [&str; 3] = ["extent", "size", "detours"];

/// The same experiment with this null in the place of the policies. Names and labels stay.
pub fn in_place_of_policies(null: Null, experiment: &Experiment) -> Experiment {
    let case = |case: &Case| Case { name: case.name.clone(), kind: kind_under(null, &case.kind) };
    Experiment {
        cases: experiment.cases.iter().map(case).collect(),
        relations: experiment.relations.clone(),
        ..experiment.without_cases()
    }
}

fn kind_under(null: Null, kind: &Kind) -> Kind {
    match kind {
        Kind::Replay(replay) => Kind::Replay(Box::new(replay_under(null, replay))),
        Kind::Sharing(sharing) => match null {
            Null::SsdFirst | Null::Unprotected => Kind::Sharing(Box::new(sharing.unprotected())),
            Null::BothLegs => Kind::Sharing(Box::new(sharing.both_legs())),
            // nothing of theirs is in such a case
            Null::AlwaysFast | Null::Random | Null::Lru => Kind::Sharing(Box::new(sharing.again())),
        },
        Kind::Predictor(predictor) => Kind::Predictor(predictor.clone()),
        Kind::Staircase(staircase) => Kind::Staircase(staircase.clone()),
        Kind::Drive(drive) => Kind::Drive(drive.clone()),
    }
}

fn replay_under(null: Null, replay: &Replay) -> Replay {
    let policies = replay.policies.iter().map(|choice| match null {
        Null::SsdFirst | Null::Unprotected | Null::BothLegs => ssd_first(choice),
        // `random` is arithmetic over the runs of the drives alone, so nothing else runs
        Null::AlwaysFast | Null::Random => choice.clone(),
        Null::Lru => cache(choice),
    });
    Replay { policies: policies.collect(), ..replay.clone() }
}

/// Is it the run of a drive alone?
pub(super) fn is_line(choice: &Choice) -> bool {
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
