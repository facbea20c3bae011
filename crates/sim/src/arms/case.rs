//! What is one run of an arm, and how is it written in a line? `ARM/POLICY/SEED`, then what is left out
//! of it: such a line replays the run exactly.
//!
//! ```text
//! small/mios-e/31 requests=40 without=3,5-9 points=163 simpler=one-ssd,short
//! ```

use super::{Arm, SIMPLER, Simpler, find};
use crate::audit::Audits;
use crate::campaign::Campaign;
use crate::coverage::Coverage;
use crate::pool::SwarmConfig;
use crate::swarm::{Failure, Run};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use tandem_engine::mutant::Mutant;
use tandem_engine::steer::POLICIES;

/// One run of an arm.
pub struct Case {
    /// The arm.
    pub arm: &'static Arm,
    /// The policy.
    pub policy: &'static str,
    /// The seed.
    pub seed: u64,
    /// So many requests are sent in the first life at most.
    pub requests_max: Option<u64>,
    /// Requests that are not sent, by number: first and last of each range.
    pub without: Vec<(u64, u64)>,
    /// Of the events at which something is tried (a power cut, a fault) only these: first and last.
    pub points: Option<(u64, u64)>,
    /// What is made smaller, in the order in which it is applied.
    pub simpler: Vec<Simpler>,
    /// The rule that the engine breaks, in builds that can: shows whether an arm finds it.
    pub mutant: Option<Mutant>,
    /// What is looked at beside the answers.
    pub audits: Audits,
    /// The event at which the latest crash was tried; a process that dies has nothing else to tell.
    pub at: AtomicU64,
}

/// Why a line is no case.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The first word is not `ARM/POLICY/SEED`.
    #[error("{0:?} is not ARM/POLICY/SEED, as small/mios-e/31")]
    Name(String),
    /// There is no such arm.
    #[error("there is no arm {name}; there are {known}")]
    Arm {
        /// What was asked for.
        name: String,
        /// All that there are.
        known: String,
    },
    /// There is no such policy.
    #[error("there is no policy {name}; there are {known}")]
    Policy {
        /// What was asked for.
        name: String,
        /// All that there are.
        known: String,
    },
    /// A word is not known, or its value is wrong.
    #[error(
        "{0:?} is none of requests=NUMBER, without=NUMBER,FIRST-LAST,..., points=FIRST-LAST, \
         simpler=NAME,..., mutant=NAME and unaudited=RULE,..."
    )]
    Word(String),
    /// The engine is built without mutants.
    #[error("this build has no mutants: it needs --features mutants")]
    NoMutants,
    /// There is no such mutant.
    #[error("there is no mutant {name}; there are {known}")]
    Mutant {
        /// What was asked for.
        name: String,
        /// All that there are.
        known: String,
    },
    /// Nothing has this name.
    #[error("nothing is made simpler by {name}; there are {known}")]
    Simpler {
        /// What was asked for.
        name: String,
        /// All that there are.
        known: String,
    },
}

impl Case {
    /// A whole run: nothing is left out.
    pub fn new(arm: &'static Arm, policy: &'static str, seed: u64) -> Case {
        Case {
            arm,
            policy,
            seed,
            requests_max: None,
            without: Vec::new(),
            points: None,
            simpler: Vec::new(),
            mutant: None,
            audits: Audits::default(),
            at: AtomicU64::new(0),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&self) -> Result<Coverage, Failure> {
        (self.arm.run)(self)
    }

    /// The pool and load, without what the case leaves out.
    pub fn reduced(&self, mut config: SwarmConfig) -> SwarmConfig {
        for simpler in &self.simpler {
            (simpler.apply)(&mut config);
        }
        if let Some(most) = self.requests_max {
            config.shape.requests = config.shape.requests.min(most);
        }
        config.without.clone_from(&self.without);
        config.audits.clone_from(&self.audits);
        config
    }

    /// The events of `window` at which something is to be tried.
    pub fn window(&self, window: (u64, u64)) -> (u64, u64) {
        let Some((first, last)) = self.points else { return window };
        (window.0.max(first), window.1.min(last.saturating_add(1)))
    }

    /// A freshly formatted pool under the load that is left, whose engine breaks the rule that the case
    /// names.
    ///
    /// # Errors
    /// If it cannot be formatted or started.
    pub fn start(&self, config: SwarmConfig) -> Result<Run, Failure> {
        #[cfg_attr(not(feature = "mutants"), expect(unused_mut, reason = "a mutant is set in it"))]
        let mut run = Run::new(self.reduced(config))?;
        #[cfg(feature = "mutants")]
        run.sim.engine.set_mutant(self.mutant);
        Ok(run)
    }

    /// Runs a pool, and crashes it as often as the campaign says.
    ///
    /// # Errors
    /// The first violation.
    pub fn crashes(&self, config: SwarmConfig, campaign: Campaign) -> Result<Coverage, Failure> {
        let campaign = Campaign { window: self.window(campaign.window), ..campaign };
        campaign.run_noting(self.start(config.under_conditions())?, &self.at)
    }
}

impl Clone for Case {
    fn clone(&self) -> Case {
        let mut case = Case::new(self.arm, self.policy, self.seed);
        (case.requests_max, case.points) = (self.requests_max, self.points);
        (case.without, case.simpler) = (self.without.clone(), self.simpler.clone());
        case.mutant = self.mutant;
        case.audits.clone_from(&self.audits);
        case
    }
}

impl Display for Case {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.arm.name, self.policy, self.seed)?;
        if let Some(most) = self.requests_max {
            write!(out, " requests={most}")?;
        }
        if !self.without.is_empty() {
            let ranges: Vec<String> = self.without.iter().copied().map(range).collect();
            write!(out, " without={}", ranges.join(","))?;
        }
        if let Some(points) = self.points {
            write!(out, " points={}", range(points))?;
        }
        if !self.simpler.is_empty() {
            let names: Vec<&str> = self.simpler.iter().map(|simpler| simpler.name).collect();
            write!(out, " simpler={}", names.join(","))?;
        }
        if let Some(mutant) = self.mutant {
            write!(out, " mutant={mutant:?}")?;
        }
        let left_out = self.audits.left_out();
        if !left_out.is_empty() {
            write!(out, " unaudited={left_out}")?;
        }
        Ok(())
    }
}

fn range((first, last): (u64, u64)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn read_range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// The rule of this name.
///
/// # Errors
/// If there is none, or this build's engine keeps all of them.
pub fn read_mutant(name: &str) -> Result<Mutant, CaseError> {
    if !cfg!(feature = "mutants") {
        return Err(CaseError::NoMutants);
    }
    let known = || Mutant::ALL.map(|mutant| format!("{mutant:?}")).join(", ");
    let found = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
    found.ok_or_else(|| CaseError::Mutant { name: name.to_owned(), known: known() })
}

fn read_simpler(names: &str) -> Result<Vec<Simpler>, CaseError> {
    let one = |name: &str| {
        let known = || SIMPLER.iter().map(|simpler| simpler.name).collect::<Vec<_>>().join(", ");
        let found = SIMPLER.iter().find(|simpler| simpler.name == name).copied();
        found.ok_or_else(|| CaseError::Simpler { name: name.to_owned(), known: known() })
    };
    names.split(',').map(one).collect()
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(line: &str) -> Result<Case, CaseError> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let wrong = || CaseError::Name(name.to_owned());
        let mut parts = name.split('/');
        let (Some(arm), Some(policy), Some(seed), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let known = || super::all().map(|arm| arm.name).collect::<Vec<_>>().join(", ");
        let arm =
            find(arm).ok_or_else(|| CaseError::Arm { name: arm.to_owned(), known: known() })?;
        let policies = || POLICIES.iter().map(|entry| entry.name);
        let known = || policies().collect::<Vec<_>>().join(", ");
        let policy = policies()
            .find(|name| *name == policy)
            .ok_or_else(|| CaseError::Policy { name: policy.to_owned(), known: known() })?;
        let mut case = Case::new(arm, policy, seed.parse().map_err(|_| wrong())?);
        for word in words {
            let wrong = || CaseError::Word(word.to_owned());
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            match key {
                "requests" => case.requests_max = Some(value.parse().map_err(|_| wrong())?),
                "points" => case.points = Some(read_range(value).ok_or_else(wrong)?),
                "mutant" => case.mutant = Some(read_mutant(value)?),
                "unaudited" => case.audits = Audits::without(value).map_err(|_| wrong())?,
                "simpler" => case.simpler = read_simpler(value)?,
                "without" => {
                    let ranges: Option<Vec<_>> = value.split(',').map(read_range).collect();
                    case.without = ranges.ok_or_else(wrong)?;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        for line in [
            "small/mios-e/31",
            "objects/ssd-first/0 requests=40",
            "small/mios-e/31 requests=40 without=3,5-9 points=163 simpler=one-ssd,short",
            "long/ect/18446744073709551615 points=7-9",
            "small/mios-e/31 unaudited=Homes,MoveSlots,contents",
        ] {
            assert_eq!(line.parse::<Case>().map(|case| case.to_string()), Ok(line.to_owned()));
        }
    }

    #[test]
    fn a_wrong_line_is_told_of() {
        for (line, told) in [
            ("", "ARM/POLICY/SEED"),
            ("small/mios-e", "ARM/POLICY/SEED"),
            ("small/mios-e/x", "small/mios-e/x"),
            ("smal/mios-e/1", "there is no arm smal; there are small"),
            ("small/mios/1", "there is no policy mios; there are"),
            ("small/mios-e/1 request=3", "request=3"),
            ("small/mios-e/1 points=9-7", "points=9-7"),
            ("small/mios-e/1 without=", "without="),
            ("small/mios-e/1 simpler=small", "one-ssd"),
        ] {
            let error = line.parse::<Case>().map(|case| case.to_string()).unwrap_err();
            assert!(error.to_string().contains(told), "{line}: {error}");
        }
    }
}
