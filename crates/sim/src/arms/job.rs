//! Which jobs fail at every one of their commands? One for each policy, tier and placement of drives.
//!
//! ```text
//! mios-d/cache-write-back/1+2/strict     a policy, a tier, SSDs + hard drives, a durability class
//! ```

use super::service::{CLASSES, busy_of};
use crate::pool::VOLUME;
use crate::service::every::{Bad, Tried};
use crate::service::{Plan, Service};
use crate::volumes::VolumePlan;
use std::fmt;
use std::str::FromStr;
use tandem_block::{DurabilityClass, Duration, KIB, MIB, ObjectId};
use tandem_engine::TierConfig;
use tandem_engine::steer::POLICIES;
use tandem_engine::tier::TIERS;

/// Commands of a job.
pub const COMMANDS: u64 = 2_000;

/// SSDs and hard drives.
const PLACEMENTS: [(usize, usize); 6] = [(1, 1), (2, 1), (1, 2), (2, 0), (0, 1), (0, 2)];

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// How its first volume is steered.
    pub policy: &'static str,
    /// The tier of that volume.
    pub tier: &'static str,
    /// SSDs and hard drives.
    pub drives: (usize, usize),
    /// The class of that volume.
    pub class: DurabilityClass,
}

/// The tiers that are not another one with other settings.
fn tiers() -> impl Iterator<Item = &'static str> {
    TIERS.iter().filter(|entry| entry.presets.len() <= 1).map(|entry| entry.name)
}

fn class_name(class: DurabilityClass) -> &'static str {
    match class {
        DurabilityClass::VolatileOk => "volatile-ok",
        DurabilityClass::Journaled => "journaled",
        DurabilityClass::Strict => "strict",
        DurabilityClass::Protected => "protected",
    }
}

impl Job {
    /// Every policy with every tier on every placement of drives; the classes take turns.
    pub fn all() -> Vec<Job> {
        let mut all = Vec::new();
        for drives in PLACEMENTS {
            for entry in POLICIES {
                let fits = entry.needs.0 <= drives.0 && entry.needs.1 <= drives.1;
                let has_both = drives.0 > 0 && drives.1 > 0;
                // a pool of one kind of drives has no choice
                if if has_both { !fits } else { entry.name != "ssd-first" } {
                    continue;
                }
                for tier in tiers().filter(|&tier| has_both || tier == "none") {
                    let classes = if has_both { 1 } else { CLASSES.len() };
                    for _ in 0..classes {
                        let class = CLASSES[all.len() % CLASSES.len()];
                        all.push(Job { policy: entry.name, tier, drives, class });
                    }
                }
            }
        }
        all
    }

    fn plan(&self) -> Plan {
        let name = self.to_string();
        let seed = name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
        let (mut config, _) = busy_of(seed, self.policy, u64::MAX);
        config.drives = self.drives;
        config.durability = self.class;
        let shape = &mut config.shape;
        // small, so that a fork is quick, and tight, so that all that moves blocks is at work
        shape.volume_bytes = 2 * MIB;
        shape.footprint_bytes = MIB;
        shape.length_bytes_max = 64 * KIB;
        shape.unaligned_ppm = 300_000;
        shape.pause = Duration::from_us(50);
        shape.mix.fua = 20_000;
        config.tuning.log_percent = if self.drives.0 == 0 || self.drives.1 == 0 { 40 } else { 5 };
        config.tuning.log_segment_bytes = 128 * KIB;
        config.tuning.writeback_percent = (3, 1);
        if self.tier != "none" {
            config.tier =
                TierConfig::named(self.tier).with("size", 256 * KIB).with("extent", 16 * KIB);
        }
        let others = CLASSES.iter().filter(|class| **class != self.class);
        for (number, class) in (1..=2).zip(others) {
            config.others.push(VolumePlan {
                object: ObjectId(VOLUME.0 + number),
                size_bytes: config.shape.volume_bytes,
                policy: self.policy.into(),
                tier: config.tier_beside("none"),
                durability: *class,
                limit: (number == 1).then_some(5_000),
            });
        }
        let mut plan = Plan::of(config);
        plan.pause = Some(Duration::from_ms(20));
        plan.snapshots_max = 2;
        plan.fails_one = true;
        plan
    }

    /// Runs it, and lets each of its commands fail in a fork, or `only` one.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&self, commands: u64, only: Option<u64>) -> Result<Tried, Box<Bad>> {
        let service = Service::new(self.plan()).map_err(|failure| Bad { command: 0, failure })?;
        service.every_command(commands, only)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { policy, tier, drives: (ssds, hdds), class } = self;
        write!(f, "{policy}/{tier}/{ssds}+{hdds}/{}", class_name(*class))
    }
}

/// What is no job.
#[derive(Debug, thiserror::Error)]
#[error("there is no job {0}; one is like mios-d/cache-write-back/1+2/strict")]
pub struct NoJob(String);

impl FromStr for Job {
    type Err = NoJob;

    fn from_str(text: &str) -> Result<Job, NoJob> {
        let found = || {
            let mut words = text.split('/');
            let policy = words.next()?;
            let policy = POLICIES.iter().find(|entry| entry.name == policy)?.name;
            let tier = words.next()?;
            let tier = tiers().find(|known| *known == tier)?;
            let (ssds, hdds) = words.next()?.split_once('+')?;
            let drives = (ssds.parse().ok()?, hdds.parse().ok()?);
            let class = words.next()?;
            let class = CLASSES.into_iter().find(|known| class_name(*known) == class)?;
            let is_all = words.next().is_none() && PLACEMENTS.contains(&drives);
            is_all.then_some(Job { policy, tier, drives, class })
        };
        found().ok_or_else(|| NoJob(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_tier_and_placement_has_a_job_that_is_read_as_it_is_written() {
        let all = Job::all();
        for job in &all {
            assert_eq!(job.to_string().parse::<Job>().expect("a job"), *job);
        }
        for entry in POLICIES {
            for tier in tiers() {
                let has = |job: &&Job| job.policy == entry.name && job.tier == tier;
                let placements = all.iter().filter(has).count();
                assert!(placements >= 1, "{} {tier}", entry.name);
            }
        }
        for drives in PLACEMENTS {
            for class in CLASSES {
                let has = |job: &Job| job.drives == drives && job.class == class;
                assert!(all.iter().any(has), "{drives:?} {class:?}");
            }
        }
        for wrong in
            ["", "mios-d", "mios-d/none/1+1", "mios-d/none/3+1/strict", "x/none/1+1/strict"]
        {
            assert!(wrong.parse::<Job>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_job_goes_on_whichever_of_its_first_commands_fails() {
        for line in ["mios-d/cache-write-back/2+1/journaled", "ssd-first/none/0+1/strict"] {
            let job: Job = line.parse().expect("a job");
            let tried = job.run(40, None).unwrap_or_else(|bad| panic!("{line}: {bad:?}"));
            assert_eq!(tried.commands, 40, "{line}");
        }
    }
}
