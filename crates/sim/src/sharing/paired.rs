//! Two SSDs as one: what is it told, what does it cost as a whole, and what came of it?
//!
//! Source: [IANUS §5]; requirements I11 (profiled as a whole), I15 (a cache of `2kT`), I16 (what a power
//! cut takes).

use super::{ClientSpec, Prepared, SharingConfig, SharingError};
use std::sync::Arc;
use tandem_block::Duration;
use tandem_engine::mirror::{Answer, Idle, PairConfig, PairView, RoleRule};
use tandem_engine::profile::Session;
use tandem_engine::profile::throughput::{BIN_NS, CONFIDENCES_PPM, CostPlan, WINDOWS, row};
use tandem_engine::qos::cost::{CostRow, CostTable, UNBOUNDED_NS};

/// How long the writes of one drive are measured for `k`.
const K_ROW_NS: u64 = 60_000_000_000;

/// Paper: `2kT` of cache.
pub const CACHE_PERIODS: u32 = 2;

/// How a pair behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairOf {
    /// How the legs share the work.
    pub role_rule: RoleRule,
    /// Roles change after this long at the earliest. Paper: `T_min`.
    pub period: Duration,
    /// Time without writes before that.
    pub idle: Idle,
    /// The writer is flushed before it is read.
    pub settles: bool,
    /// When a write is acknowledged.
    pub answer: Answer,
    /// The cache holds so many times what a leg writes in a period.
    pub cache_periods: u32,
    /// This leg is gone.
    pub absent: Option<u8>,
}

impl PairOf {
    /// What the engine is told, where one drive writes so much in a second.
    pub(super) fn config(&self, write_bytes_per_s: u64) -> PairConfig {
        let usual = PairConfig::default();
        let k = if write_bytes_per_s == 0 { usual.write_bytes_per_s } else { write_bytes_per_s };
        PairConfig {
            uuids: [1, 2],
            role_rule: self.role_rule,
            period: self.period,
            idle: self.idle,
            settles: self.settles,
            cache_bytes: self.moved_bytes(k).saturating_mul(u64::from(self.cache_periods)),
            write_bytes_per_s: k,
            answer: self.answer,
            absent: self.absent,
            ..usual
        }
    }

    /// What a drive that writes so much does in a period. Paper: `kT`.
    fn moved_bytes(&self, write_bytes_per_s: u64) -> u64 {
        let bytes = u128::from(write_bytes_per_s) * u128::from(self.period.ns) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// What came of it while it counted.
#[derive(Clone, Debug)]
pub struct PairResult {
    /// At the end; counters since it counts.
    pub view: PairView,
    /// What one drive alone writes in a second, by the clients' mix. Paper: `k`.
    pub write_bytes_per_s: u64,
    /// … in a period. Paper: `kT`.
    pub moved_bytes: u64,
    /// Bytes in the cache: on average and at most, as far as looks at it saw.
    pub cache_bytes: (u64, u64),
    /// Acknowledged bytes that are in RAM alone, at most.
    pub risk_bytes_max: u64,
    /// Changes of roles, in ns since it counts.
    pub turns: Vec<u64>,
}

/// Looks at a pair every bin.
#[derive(Debug, Default)]
pub(super) struct Watch {
    begun: Option<PairView>,
    looks: u64,
    cache_sum: u128,
    cache_max: u64,
    risk_max: u64,
    turns: Vec<u64>,
}

impl Watch {
    /// It counts from now on.
    pub fn begin(&mut self, view: PairView) {
        self.begun = Some(view);
    }

    pub fn look(&mut self, view: &PairView, risk_bytes: u64, at_ns: u64) {
        let Some(begun) = &self.begun else { return };
        self.looks += 1;
        self.cache_sum += u128::from(view.cache_bytes);
        self.cache_max = self.cache_max.max(view.cache_bytes);
        self.risk_max = self.risk_max.max(risk_bytes);
        // a period is longer than a bin
        if view.stats.turns - begun.stats.turns > self.turns.len() as u64 {
            self.turns.push(at_ns);
        }
    }

    pub fn result(self, config: &PairOf, mut view: PairView, k: u64) -> Option<PairResult> {
        let begun = self.begun?.stats;
        let stats = &mut view.stats;
        stats.turns -= begun.turns;
        stats.early_turns -= begun.early_turns;
        stats.accepted_bytes -= begun.accepted_bytes;
        stats.cache_reads -= begun.cache_reads;
        stats.mixed_reads -= begun.mixed_reads;
        for leg in 0..2 {
            stats.written_bytes[leg] -= begun.written_bytes[leg];
            stats.reads[leg] -= begun.reads[leg];
        }
        let mean = self.cache_sum / u128::from(self.looks.max(1));
        Some(PairResult {
            view,
            write_bytes_per_s: k,
            moved_bytes: config.moved_bytes(k),
            cache_bytes: (u64::try_from(mean).unwrap_or(u64::MAX), self.cache_max),
            risk_bytes_max: self.risk_max,
            turns: self.turns,
        })
    }
}

/// What one of the drives writes in a second, by the clients' mix: each kind alone, in equal numbers.
pub(super) fn write_bytes_per_s(
    config: &SharingConfig,
    prepared: &Prepared,
) -> Result<u64, SharingError> {
    let (mut bytes, mut took_ns) = (0u128, 0u128);
    let writers = config.clients.iter().filter(|client| !client.kind.read);
    for client in writers {
        let mut probe = prepared.probe();
        let mut quiet = |_: &'static str| {};
        let mut session = Session::new(&mut probe, u64::MAX, &mut quiet);
        let plan = CostPlan {
            range_bytes: client.range_bytes,
            row_ns: K_ROW_NS.min(config.duration.ns),
            ..CostPlan::usual()
        };
        let depth = client.outstanding;
        let seen = row(&mut session, &plan, client.kind, client.size_bytes, depth)?;
        if let Some(mean_ns) = seen.mean_ns() {
            bytes += u128::from(client.size_bytes);
            took_ns += u128::from(mean_ns);
        }
    }
    let rate = bytes * 1_000_000_000 / took_ns.max(1);
    Ok(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// The costs of a pair as a whole: through the pair, one kind and size alone.
pub(super) fn costs(
    config: &SharingConfig,
    prepared: &Prepared,
    plan: &CostPlan,
) -> Result<CostTable, SharingError> {
    let mut rows = Vec::new();
    for &depth in &plan.depths {
        for &size_bytes in &plan.sizes_bytes {
            for &kind in &plan.kinds {
                let client = ClientSpec {
                    name: kind.to_string(),
                    kind,
                    size_bytes,
                    from_bytes: 0,
                    range_bytes: if kind.read { 0 } else { plan.range_bytes },
                    outstanding: depth,
                    arrives: None,
                    think: Duration::from_ns(0),
                    recorded: None,
                    fua: false,
                    target: None,
                    weight: None,
                    limit: None,
                };
                let alone = SharingConfig {
                    clients: vec![client],
                    order: "fifo".into(),
                    duration: Duration::from_ns(plan.row_ns),
                    hdds: Vec::new(),
                    ..config.clone()
                };
                let none = Arc::new(CostTable::default());
                let result = super::run(&alone, prepared, &none)?;
                let seen = &result.clients[0].throughput;
                rows.push(CostRow {
                    kind,
                    size_bytes,
                    depth,
                    mean_ns: seen.mean_ns().unwrap_or(UNBOUNDED_NS),
                    cost_ns: seen.costs(&WINDOWS, &CONFIDENCES_PPM),
                });
            }
        }
    }
    Ok(CostTable {
        windows_ns: WINDOWS.map(|bins| bins as u64 * BIN_NS).to_vec(),
        confidences_ppm: CONFIDENCES_PPM.to_vec(),
        range_bytes: match plan.range_bytes {
            0 => prepared.drives[0].capacity_bytes(),
            bytes => bytes,
        },
        rows,
    })
}
