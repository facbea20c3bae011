//! Which volumes does a pool of the swarm have, beside the first one?
//!
//! Several volumes share drives, slots and one journal. What leaks from one to another shows at the next
//! read, since what is written names its request, and a request has one volume.

use crate::pool::{SwarmConfig, VOLUME};
use std::sync::Arc;
use tandem_block::{DurabilityClass, KIB, ObjectId};
use tandem_engine::qos::cost::{CostRow, CostTable, Kind};
use tandem_engine::qos::reserve::{QosConfig, Rate, Selector, StreamConfig};
use tandem_engine::tier::settings::OF_THE_SPACE;
use tandem_engine::{SteerConfig, TierConfig, VolumeConfig};

/// The order of service where volumes have limits.
const LIMITING_ORDER: &str = "edf";

/// What tiers have alike where the first volume has none.
const USUAL_TIER: &str = "hot-dst";

/// A volume beside the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlan {
    /// Its id.
    pub object: ObjectId,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its steering policy.
    pub policy: String,
    /// Where its data belongs.
    pub tier: TierConfig,
    /// What it promises.
    pub durability: DurabilityClass,
    /// Requests in a second at most.
    pub limit: Option<u64>,
}

/// A policy whose thresholds small pools pass.
fn steer(policy: &str, seed: u64) -> SteerConfig {
    SteerConfig::named(policy)
        .with("hedge", 1_000_000)
        // under every other seed whatever is redirected follows to an SSD
        .with("detour", 1 + seed % 2)
        .with("queue_length", 1)
        .with("asynchronous", 16 * KIB)
        .with("in_a_row", 0)
        .with("extent", 64 * KIB)
        .with("step", 500_000)
        .with("probe", 1_000_000)
        .with("stable_time", 1_000_000)
        .with("optimise", 1_000_000)
}

impl SwarmConfig {
    /// Every volume, as the engine is told of it.
    pub(crate) fn volumes(&self) -> Vec<VolumeConfig> {
        let first = VolumeConfig {
            object: VOLUME,
            name: "vol0".into(),
            size_bytes: self.shape.volume_bytes,
            steer: steer(&self.policy, self.seed),
            tier: self.tier.clone(),
            file_tiers: self.file_tiers.clone(),
            durability: self.durability,
        };
        let other = |plan: &VolumePlan| VolumeConfig {
            object: plan.object,
            name: format!("vol{}", plan.object.0 - VOLUME.0),
            size_bytes: plan.size_bytes,
            steer: steer(&plan.policy, self.seed),
            tier: plan.tier.clone(),
            file_tiers: Vec::new(),
            durability: plan.durability,
        };
        std::iter::once(first).chain(self.others.iter().map(other)).collect()
    }

    /// Limits of volumes, if any has one.
    pub(crate) fn limits(&self, ssds: usize) -> Option<QosConfig> {
        let limited = self.others.iter().filter_map(|plan| {
            Some(StreamConfig {
                name: plan.object.0.to_string(),
                of: Selector::Volume(plan.object),
                promise: None,
                weight: None,
                limit: Some(Rate::Requests(plan.limit?)),
            })
        });
        let streams: Vec<StreamConfig> = limited.collect();
        (!streams.is_empty()).then(|| QosConfig {
            order: LIMITING_ORDER.to_owned(),
            streams,
            depth: 6,
            costs: vec![Some(Arc::new(tiny_costs())); ssds],
            ..QosConfig::default()
        })
    }

    /// A tier of this name that shares the SSDs with that of the first volume.
    pub(crate) fn tier_beside(&self, name: &str) -> TierConfig {
        let mut tier = TierConfig::named(name);
        if tier.settings().is_empty() {
            return tier;
        }
        let usual = TierConfig::named(USUAL_TIER);
        let alike = if self.tier.settings().is_empty() { &usual } else { &self.tier };
        for setting in OF_THE_SPACE {
            tier = tier.with(setting, alike.get(setting));
        }
        tier.with("interval", alike.get("interval"))
    }
}

/// An SSD of so little latency costs 20 us a request.
pub(crate) fn tiny_costs() -> CostTable {
    let row = |kind| CostRow {
        kind,
        size_bytes: 4 * KIB,
        depth: 8,
        mean_ns: 10_000,
        cost_ns: vec![20_000],
    };
    CostTable {
        windows_ns: vec![100_000_000],
        confidences_ppm: vec![950_000],
        range_bytes: 0,
        rows: Kind::ALL.map(row).to_vec(),
    }
}
