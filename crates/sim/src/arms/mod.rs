//! What does the swarm try? The registry of its arms: the one place where they are listed.
//!
//! An arm is one kind of pool, load and trouble, and knows how to run one seed of it. The swarm, the
//! long campaign, their tables and their replays take all arms from [`all`], so that a new arm is one
//! entry of a list: write it in a file beside `crash.rs` and name its list in `GROUPS`.

mod case;
mod crash;
pub mod job;
mod service;
pub mod shrink;
mod simpler;
pub mod table;

pub use case::{Case, CaseError, read_mutant};
pub use simpler::{SIMPLER, Simpler};

use crate::coverage::{Coverage, Met};
use crate::swarm::Failure;

/// One kind of pool, and what happens to it.
pub struct Arm {
    /// Its name: short, lower case, one word.
    pub name: &'static str,
    /// What it is for, in a line.
    pub what: &'static str,
    /// Its policies, under which every seed runs.
    pub policies: &'static [&'static str],
    /// Policies of which every seed has one; there may be none.
    pub in_turn: &'static [&'static str],
    /// Runs one seed under one policy, with all that the case leaves out left out.
    pub run: fn(&Case) -> Result<Coverage, Failure>,
    /// What every seed must meet under `policies` alone, on average over a share.
    pub least: &'static [(Met, u64)],
    /// What every seed must meet under its one policy in turn.
    pub least_in_turn: &'static [(Met, u64)],
}

/// Every list of arms.
const GROUPS: &[&[Arm]] = &[crash::ARMS, service::ARMS];

/// Every arm.
pub fn all() -> impl Iterator<Item = &'static Arm> {
    GROUPS.iter().copied().flatten()
}

/// The arm of this name.
pub fn find(name: &str) -> Option<&'static Arm> {
    all().find(|arm| arm.name == name)
}

/// What a share of an arm met. Floors are set on what the policies of every seed meet: what one more
/// policy meets must not make up for what they no longer do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    fixed: Coverage,
    in_turn: Coverage,
}

impl Tally {
    /// What all policies met together.
    pub fn total(&self) -> Coverage {
        let mut total = self.fixed;
        total += self.in_turn;
        total
    }
}

impl Arm {
    /// The policies under which a seed runs.
    pub fn policies(&self, seed: u64) -> impl Iterator<Item = &'static str> {
        // arms begin elsewhere, so that few seeds of all arms meet all policies
        let turn = seed.wrapping_add(self.name.len() as u64).checked_rem(self.in_turn.len() as u64);
        let in_turn = turn.map(|turn| self.in_turn[turn as usize]);
        self.policies.iter().copied().chain(in_turn)
    }

    /// Counts what one seed met under one policy.
    pub fn count(&self, tally: &mut Tally, policy: &str, met: Coverage) {
        let side =
            if self.policies.contains(&policy) { &mut tally.fixed } else { &mut tally.in_turn };
        *side += met;
    }

    /// What so many seeds should have met: what, how often it was met, how often it must be.
    pub fn wanted(&self, tally: &Tally, seeds: u64) -> Vec<(Met, u64, u64)> {
        let of = |met: Coverage, least: &'static [(Met, u64)]| {
            least.iter().map(move |&(what, count)| (what, met.get(what), count * seeds))
        };
        of(tally.fixed, self.least).chain(of(tally.in_turn, self.least_in_turn)).collect()
    }

    /// What so many seeds should have met and did not, in words.
    pub fn missing(&self, tally: &Tally, seeds: u64) -> Vec<String> {
        let below = |met: &Coverage, least: &[(Met, u64)]| {
            let least: Vec<(Met, u64)> = least.iter().map(|(m, n)| (*m, n * seeds)).collect();
            met.missing(&least)
        };
        let mut missing = below(&tally.fixed, self.least);
        let in_turn = below(&tally.in_turn, self.least_in_turn);
        missing.extend(in_turn.into_iter().map(|text| format!("policies in turn: {text}")));
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn enough(least: &[(Met, u64)]) -> Coverage {
        let mut met = Coverage::default();
        for (what, count) in least {
            met.add(*what, *count);
        }
        met
    }

    #[test]
    fn names_are_unique_words_and_every_arm_must_meet_something() {
        let mut names = BTreeSet::new();
        for arm in all() {
            assert!(names.insert(arm.name), "{} is there twice", arm.name);
            assert!(arm.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", arm.name);
            assert!(!arm.missing(&Tally::default(), 1).is_empty(), "{} meets nothing", arm.name);
            assert!(arm.policies(0).count() > 0, "{} runs nothing", arm.name);
        }
    }

    /// What a policy in turn meets makes up for nothing that the policies of every seed do not meet,
    /// nor the other way about.
    #[test]
    fn each_side_has_its_own_floors() {
        for arm in all().filter(|arm| !arm.in_turn.is_empty()) {
            let turn = arm.policies(0).last().expect("it has policies");
            let fixed = arm.policies[0];
            let mut tally = Tally::default();
            arm.count(&mut tally, turn, enough(arm.least));
            arm.count(&mut tally, turn, enough(arm.least_in_turn));
            assert_eq!(arm.missing(&tally, 1).len(), arm.least.len(), "{}", arm.name);
            let mut tally = Tally::default();
            arm.count(&mut tally, fixed, enough(arm.least));
            arm.count(&mut tally, fixed, enough(arm.least_in_turn));
            assert_eq!(arm.missing(&tally, 1).len(), arm.least_in_turn.len(), "{}", arm.name);
            arm.count(&mut tally, turn, enough(arm.least_in_turn));
            assert!(arm.missing(&tally, 1).is_empty(), "{}", arm.name);
        }
    }
}
