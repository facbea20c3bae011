//! In which order is a hard drive measured, and what profile comes of it?
//!
//! Source: models §5.2. Reads first: they need no leave to write. The drive's media rate is known
//! before the staircase is judged by it.

use super::drain::{self, Drain};
use super::flush::{self, FlushCost};
use super::mechanics::{self, Mechanics};
use super::probe::{MeasureError, Session};
use super::staircase::{self, Staircase, Steps};
use super::{DrainLaw, HddDetail, HddProfile, StageBySize};

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HddFindings {
    /// Usable bytes of the drive.
    pub capacity_bytes: u64,
    /// By reads.
    pub mechanics: Mechanics,
    /// By writes; `None` if they were not allowed.
    pub staircase: Option<Staircase>,
    /// How it empties, where there is a staircase.
    pub drain: Option<Drain>,
    /// What a flush costs, where there is a staircase.
    pub flush: Option<FlushCost>,
}

/// What is believed of a drive whose emptying the budget was not enough for: that it never empties by
/// itself. The worst that may be, so that writes stay off it while nothing is known.
const DRAIN_UNKNOWN: Drain =
    Drain { law: DrainLaw::WhenFull, idle_ns: 4_096_000_000, bytes_per_s: None };
/// … and of a flush, until the model follows what is seen (guess: that of the paper's drives).
const FLUSH_UNKNOWN: FlushCost = FlushCost { base_ns: 300_000_000, bytes_per_s: None };

/// Measures a hard drive; writes only if `may_write`, and as far as the budget goes: what it was not
/// enough for the session knows.
///
/// # Errors
/// The drive's.
pub fn measure(session: &mut Session<'_>, may_write: bool) -> Result<HddFindings, MeasureError> {
    let capacity_bytes = session.capacity_bytes();
    let mechanics = mechanics::measure(session)?;
    let mut found =
        HddFindings { capacity_bytes, mechanics, staircase: None, drain: None, flush: None };
    if !may_write {
        return Ok(found);
    }
    let staircase = staircase::measure(session)?;
    // The smallest size with steps has the finest grain.
    if let (None, Some(finest)) = (&staircase.none, staircase.steps.first()) {
        let drain = drain::measure(session, finest);
        found.drain = session.within_budget(drain)?;
        let flush = flush::measure(session, finest);
        found.flush = session.within_budget(flush)?;
    } else if !session.missing().is_empty() {
        session.miss(drain::WHAT);
        session.miss(flush::WHAT);
    }
    found.staircase = Some(staircase);
    Ok(found)
}

impl HddFindings {
    /// Why there is nothing to steer writes by; `None` if there is a profile.
    pub fn none(&self) -> Option<&str> {
        match &self.staircase {
            None => Some("its writes were not measured, because writing was not allowed"),
            Some(staircase) => staircase.none.as_deref(),
        }
    }

    /// What to believe of the drive.
    ///
    /// # Errors
    /// Why there is nothing to believe.
    pub fn profile(&self) -> Result<HddProfile, String> {
        if let Some(why) = self.none() {
            return Err(why.to_owned());
        }
        let staircase = self.staircase.as_ref().ok_or("its measurement did not end")?;
        let drain = self.drain.as_ref().unwrap_or(&DRAIN_UNKNOWN);
        let flush = self.flush.as_ref().unwrap_or(&FLUSH_UNKNOWN);
        let finest = &staircase.steps[0];
        Ok(HddProfile {
            fast_latency: self.of_several_sizes(rising(staircase, |step| step.fast_ns)),
            mid_latency: self.of_several_sizes(rising(staircase, |step| step.mid_ns)),
            slow_latency_ns: finest.slow_ns,
            fast_stage_bytes: finest.fast_bytes,
            mid_stage_bytes: finest.mid_bytes,
            drain_idle_ns: drain.idle_ns,
            // Without a rate of its own the flush tells how fast the buffer is written out.
            drain_bytes_per_s: drain.bytes_per_s.or(flush.bytes_per_s).unwrap_or(1_000_000),
            flush_base_ns: flush.base_ns,
            position_ns: self.mechanics.position_ns(self.capacity_bytes),
            detail: Box::new(self.detail(staircase, flush)),
        })
    }

    /// Where the budget was enough for writes of one size alone, larger ones take what the platter does.
    fn of_several_sizes(&self, mut latencies: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        if let [(bytes, ns)] = latencies[..] {
            let rate = self.mechanics.regions.first().map_or(1_000_000, |region| region.1);
            let larger = bytes * 16;
            latencies.push((larger, ns + (larger - bytes) * 1_000_000_000 / rate.max(1)));
        }
        latencies
    }

    fn detail(&self, staircase: &Staircase, flush: &FlushCost) -> HddDetail {
        let stage = |step: &Steps| StageBySize {
            write_bytes: step.write_bytes,
            fast_bytes: step.fast_bytes,
            mid_bytes: step.mid_bytes,
            fast_writes: step.fast_writes,
            mid_writes: step.mid_writes,
            slow_latency_ns: step.slow_ns,
        };
        let finest = &staircase.steps[0];
        HddDetail {
            stages: staircase.steps.iter().map(stage).collect(),
            fast_jitter_ppm: Some(finest.fast_jitter_ppm),
            mid_jitter_ppm: Some(finest.mid_jitter_ppm),
            drain_law: self.drain.map(|drain| drain.law),
            flush_bytes_per_s: flush.bytes_per_s,
            regions: self.mechanics.regions.clone(),
            seeks: self.mechanics.seeks.clone(),
            turn_ns: Some(self.mechanics.turn_ns),
            workload_bytes_per_year: None,
        }
    }

    /// Does the buffer empty by itself at all?
    pub fn empties_when_idle(&self) -> bool {
        self.drain.is_some_and(|drain| drain.law != DrainLaw::WhenFull)
    }
}

/// A latency by size that never falls: noise of a real drive is evened out upwards.
fn rising(staircase: &Staircase, of: impl Fn(&Steps) -> u64) -> Vec<(u64, u64)> {
    let mut least = 0;
    let steps = staircase.steps.iter();
    steps
        .map(|step| {
            least = least.max(of(step));
            (step.write_bytes, least)
        })
        .collect()
}
