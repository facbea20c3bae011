//! Will this write be fast, mid or slow, and how many bytes until that changes?
//!
//! Source: [BCW §3, Fig. 4, Table 2] for the stages; models §5.2 for the byte budgets and their
//! jitter.
//! Names: `W_f` → `fast_stage`, `W_m` → `mid_stage`, `T_s` → `slow_stall`.

use crate::spec::{HddSpec, LatencyTable, Ppm};
use tandem_block::{KIB, Rng};

/// The state that a write meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Into an empty buffer. Paper: F.
    Fast,
    /// Into a buffer that was full before. Paper: M.
    Mid,
    /// The buffer is full: the write waits for room. Paper: S.
    Slow,
}

/// Least budget of a stage, whatever the jitter draws: one large write.
const BUDGET_BYTES_MIN: u64 = 64 * KIB;
/// Least latency that the line through the table may give below its first point. Source: guess,
/// about one SATA command.
const LATENCY_NS_MIN: u64 = 10_000;
/// Most that the line may give for huge requests: an hour, so that sums stay far from overflow.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Mean, spread and shift of a stage's budget.
#[derive(Clone, Copy, Debug)]
struct Budget {
    bytes: u64,
    jitter: Ppm,
    bias: Ppm,
}

impl Budget {
    /// Draws the budget of one stage.
    fn draw(self, rng: &mut Rng) -> u64 {
        const MILLION: i128 = 1_000_000;
        let bytes = i128::from(self.bytes);
        let deviation = i128::from(self.jitter.0) * i128::from(rng.gauss_ppm()) / MILLION;
        let shift = bytes * (deviation + i128::from(self.bias.0)) / MILLION;
        u64::try_from(bytes + shift).unwrap_or(0).max(BUDGET_BYTES_MIN)
    }
}

/// The stage, its budget and what it has taken.
#[derive(Clone, Debug)]
pub(super) struct Staircase {
    /// The stage that the next write meets if it fits.
    pub(super) stage: Stage,
    /// Bytes taken in this stage.
    pub(super) stage_bytes: u64,
    /// Bytes that this stage takes in all.
    pub(super) budget_bytes: u64,
    /// When this stage began, in nanoseconds.
    pub(super) began_ns: u64,
    fast: Budget,
    mid: Budget,
    pub(super) slow_stall_ns: u64,
    fast_latency: LatencyTable,
    mid_latency: LatencyTable,
    rng: Rng,
}

impl Staircase {
    pub(super) fn new(spec: &HddSpec, rng: Rng) -> Self {
        let budget = |bytes: u64, jitter, bias| Budget { bytes, jitter, bias };
        let mut staircase = Staircase {
            stage: Stage::Fast,
            stage_bytes: 0,
            budget_bytes: 0,
            began_ns: 0,
            fast: budget(spec.fast_stage.get().0, spec.fast_jitter.get(), spec.fast_bias.get()),
            mid: budget(spec.mid_stage.get().0, spec.mid_jitter.get(), spec.mid_bias.get()),
            slow_stall_ns: spec.slow_stall.get().0,
            fast_latency: spec.fast_latency.value.clone(),
            mid_latency: spec.mid_latency.value.clone(),
            rng,
        };
        staircase.enter_fast(0);
        staircase
    }

    /// The drive is another one from now on: what it holds stays, the room of this stage is drawn anew.
    pub(super) fn adopt(&mut self, spec: &HddSpec) {
        let rng = self.rng.split(1);
        let (stage, stage_bytes, began_ns) = (self.stage, self.stage_bytes, self.began_ns);
        *self = Staircase::new(spec, rng);
        if stage != Stage::Fast {
            self.enter_mid(began_ns);
        }
        (self.stage_bytes, self.began_ns) = (stage_bytes, began_ns);
    }

    /// Nominal bytes of a mid stage: what one slow write frees.
    pub(super) fn mid_bytes(&self) -> u64 {
        self.mid.bytes
    }

    /// The buffer is empty.
    pub(super) fn enter_fast(&mut self, at_ns: u64) {
        (self.stage, self.stage_bytes, self.began_ns) = (Stage::Fast, 0, at_ns);
        self.budget_bytes = self.fast.draw(&mut self.rng);
    }

    /// A slow write has made room.
    pub(super) fn enter_mid(&mut self, at_ns: u64) {
        (self.stage, self.stage_bytes, self.began_ns) = (Stage::Mid, 0, at_ns);
        self.budget_bytes = self.mid.draw(&mut self.rng);
    }

    /// The stage that a write of `bytes` meets now: its own size is included.
    pub(super) fn meets(&self, bytes: u64) -> Stage {
        if self.stage_bytes + bytes > self.budget_bytes { Stage::Slow } else { self.stage }
    }

    /// Paper: `L_f`, the latency of a fast write of `bytes`.
    pub(super) fn fast_latency_ns(&self, bytes: u64) -> u64 {
        latency_ns(&self.fast_latency, bytes)
    }

    /// Paper: `L_m`, the latency of a mid write of `bytes`.
    pub(super) fn mid_latency_ns(&self, bytes: u64) -> u64 {
        latency_ns(&self.mid_latency, bytes)
    }

    /// Room gained while the drive was left alone.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.stage_bytes = self.stage_bytes.saturating_sub(bytes);
    }
}

/// Linear between the points of the table, and along its first and last segment beyond them.
fn latency_ns(table: &LatencyTable, bytes: u64) -> u64 {
    let points = &table.0;
    let last_segment = points.len() - 2;
    let segment = points[1..].iter().position(|point| bytes <= point.0).unwrap_or(last_segment);
    let (low, high) = (points[segment], points[segment + 1]);
    let slope = |distance: u64| {
        u128::from(high.1 - low.1) * u128::from(distance) / u128::from(high.0 - low.0)
    };
    let time = if bytes >= low.0 {
        u128::from(low.1) + slope(bytes - low.0)
    } else {
        u128::from(low.1).saturating_sub(slope(low.0 - bytes))
    };
    u64::try_from(time).unwrap_or(u64::MAX).clamp(LATENCY_NS_MIN, LATENCY_NS_MAX)
}
