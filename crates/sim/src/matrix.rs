//! Do all policies live together? Any steering with any tier and any order of service.
//!
//! Source: design decision 5 ("no paper has that"); acceptance of tiers and caches, line 5. Every
//! steering policy meets every tier; the orders of service and the collectors come in turn, so that
//! each meets each tier.

use crate::campaign::{ALWAYS, Campaign};
use crate::coverage::Coverage;
use crate::pool::SwarmConfig;
use crate::swarm::{Failure, Run};
use tandem_engine::TierConfig;
use tandem_engine::qos::ORDERS;
use tandem_engine::settings::{Registry as _, Steers};
use tandem_engine::tier::Tiers;
use tandem_engine::tier::settings::NEVER;

/// Three policies in one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Where writes go now.
    pub steer: &'static str,
    /// Where data belongs.
    pub tier: TierConfig,
    /// Who goes next.
    pub order: &'static str,
}

impl std::fmt::Display for Combination {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let interval =
            if self.tier.changed().any(|(s, _)| s.name == "interval") { "/i" } else { "" };
        write!(out, "{} + {}{interval} + {}", self.steer, self.tier.name(), self.order)
    }
}

/// Of one request in so many events the power is cut.
const CAMPAIGN: Campaign =
    Campaign { window: ALWAYS, stride: 7, recovery_stride: 40, lives: 2, more_requests: 40 };

/// Every steering policy with every tier; those that can be interval-driven alternate.
pub fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for (row, steer) in Steers::names().into_iter().enumerate() {
        for (column, name) in Tiers::names().into_iter().enumerate() {
            let mut tier = TierConfig::named(name);
            if name != Tiers::USUAL {
                // collectors that rank are the first three
                let at_intervals = (row + column).is_multiple_of(3);
                let collector = if at_intervals { row % 3 } else { (row + column) % 9 };
                tier = tier
                    .with("collector", collector as u64)
                    .with("interval", if at_intervals { 3_000_000 } else { NEVER })
                    .with("exclusive", (row % 2) as u64)
                    .with("reread", (column / 2 % 2) as u64)
                    .with("detours", (row / 2 % 2) as u64)
                    .with("acknowledge", u64::from((row + column) % 3 == 1))
                    .with("cleaner", (column % 3) as u64);
            }
            let order = ORDERS[(row + column) % ORDERS.len()].name;
            all.push(Combination { steer, tier, order });
        }
    }
    all
}

/// Runs one of them with power cuts.
///
/// # Errors
/// The first violation.
pub fn run(combination: &Combination, seed: u64) -> Result<Coverage, Failure> {
    let mut config = SwarmConfig::tiered(seed, combination.steer, 200);
    let (extent, size) = (config.tier.get("extent"), config.tier.get("size"));
    config.tier = combination.tier.clone().with("extent", extent).with("size", size);
    config.tier = config.tier.with("log_age", 3_000_000);
    config.tuning.order = combination.order;
    let needs = combination.tier.entry().map_or(0, |_| 1);
    let wants = tandem_engine::SteerConfig::named(combination.steer);
    let (ssds, hdds) = wants.entry().map_or((1, 1), |entry| entry.needs);
    config.drives = (ssds.max(needs), hdds.max(needs));
    CAMPAIGN.run(Run::new(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_policy_meets_every_tier_and_every_order_every_tier() {
        let all = combinations();
        assert!(all.len() >= 60, "{}", all.len());
        let pairs: BTreeSet<(&str, String)> =
            all.iter().map(|c| (c.order, c.tier.name().to_owned())).collect();
        assert_eq!(pairs.len(), ORDERS.len() * Tiers::names().len());
        let different: BTreeSet<String> = all.iter().map(Combination::to_string).collect();
        assert_eq!(different.len(), all.len());
    }
}
