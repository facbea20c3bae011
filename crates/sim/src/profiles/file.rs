//! How is a profile written down? Every number with its unit beside where it is from.
//!
//! Source: design decision 3. What the papers give is required; what only a measurement gives may be
//! missing. `staircase = "none"` with a `reason` stands for a drive whose buffer cannot be used.

use super::costs::CostsFile;
use super::{Identity, ProfileKind};
use serde::Deserialize;
use tandem_drives::spec::{Bytes, BytesPerSecond, LatencyTable, Nanos, Ppm, Sourced};
use tandem_engine::profile::ssd::SsdCosts;
use tandem_engine::profile::{DrainLaw, HddDetail, HddProfile, SsdProfile, StageBySize};

/// A key and what is wrong with it.
type Fault = (&'static str, &'static str);

/// Rows of any table at most.
const ROWS_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    pub about: String,
    pub identity: Option<Identity>,
    pub hdd: Option<HddFile>,
    pub ssd: Option<SsdFile>,
    pub costs: Option<CostsFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HddFile {
    staircase: Option<String>,
    reason: Option<String>,
    fast_latency: Option<Sourced<LatencyTable>>,
    mid_latency: Option<Sourced<LatencyTable>>,
    slow_latency: Option<Sourced<Nanos>>,
    fast_stage: Option<Sourced<Bytes>>,
    mid_stage: Option<Sourced<Bytes>>,
    stages: Option<Sourced<Vec<StageRow>>>,
    fast_jitter: Option<Sourced<Ppm>>,
    mid_jitter: Option<Sourced<Ppm>>,
    drain_law: Option<Sourced<String>>,
    drain_idle: Option<Sourced<Nanos>>,
    drain_rate: Option<Sourced<BytesPerSecond>>,
    flush_base: Option<Sourced<Nanos>>,
    flush_rate: Option<Sourced<BytesPerSecond>>,
    position: Option<Sourced<Nanos>>,
    turn: Option<Sourced<Nanos>>,
    seeks: Option<Sourced<Vec<(Bytes, Nanos)>>>,
    regions: Option<Sourced<Vec<(Bytes, BytesPerSecond)>>>,
    workload_per_year: Option<Sourced<Bytes>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct StageRow {
    write: Bytes,
    fast: Bytes,
    mid: Bytes,
    fast_writes: u64,
    mid_writes: u64,
    slow: Nanos,
}

/// The value of a key that must be there, with a source that begins with a known word.
fn value<T: Clone>(key: &'static str, of: &Option<Sourced<T>>) -> Result<T, Fault> {
    optional(key, of)?.ok_or((key, "is missing"))
}

fn optional<T: Clone>(key: &'static str, of: &Option<Sourced<T>>) -> Result<Option<T>, Fault> {
    let Some(sourced) = of else { return Ok(None) };
    if sourced.has_known_source() {
        return Ok(Some(sourced.value.clone()));
    }
    let why = "has a source that does not begin with a known word (paper, page, measured, derived, \
               fitted, memory, guess)";
    Err((key, why))
}

fn must(key: &'static str, holds: bool, why: &'static str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err((key, why)) }
}

fn brief(key: &'static str, time: Nanos) -> Result<u64, Fault> {
    must(key, time <= Nanos::MAX, "must be at most 100s")?;
    Ok(time.0)
}

fn stage(key: &'static str, bytes: Bytes) -> Result<u64, Fault> {
    must(key, (64 << 10..=1 << 30).contains(&bytes.0), "must be 64KiB to 1GiB")?;
    Ok(bytes.0)
}

fn quick(key: &'static str, rate: BytesPerSecond) -> Result<u64, Fault> {
    must(key, (1_000_000..=1 << 50).contains(&rate.0), "must be 1MB/s to 1PiB/s")?;
    Ok(rate.0)
}

fn share(key: &'static str, share: Option<Ppm>) -> Result<Option<u64>, Fault> {
    let Some(share) = share else { return Ok(None) };
    must(key, (0..=1_000_000).contains(&share.0), "must be 0% to 100%")?;
    Ok(Some(share.0.unsigned_abs()))
}

/// A table whose first column rises.
fn rising<T>(key: &'static str, rows: &[(u64, T)]) -> Result<(), Fault> {
    must(key, rows.len() <= ROWS_MAX, "has more than 64 rows")?;
    must(key, rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "must have a rising first column")
}

/// A table by bytes, empty if there is none; `check` looks at the second column.
fn rows<T: Copy>(
    key: &'static str,
    of: &Option<Sourced<Vec<(Bytes, T)>>>,
    check: fn(&'static str, T) -> Result<u64, Fault>,
) -> Result<Vec<(u64, u64)>, Fault> {
    let rows = optional(key, of)?.unwrap_or_default();
    let rows: Result<Vec<_>, Fault> =
        rows.into_iter().map(|row| Ok((row.0.0, check(key, row.1)?))).collect();
    let rows = rows?;
    rising(key, &rows)?;
    Ok(rows)
}

impl HddFile {
    /// What it says, or the first key that makes no sense.
    pub(super) fn profile(&self) -> Result<ProfileKind, Fault> {
        match (self.staircase.as_deref(), &self.reason) {
            (None, None) => Ok(ProfileKind::Hdd(self.staircase()?)),
            (Some("none"), Some(reason)) => {
                let given = self.fast_stage.is_some() || self.fast_latency.is_some();
                must("staircase", !given, "is \"none\", and yet there are stages")?;
                self.detail()?;
                Ok(ProfileKind::NoStaircase(reason.clone()))
            }
            (Some("none"), None) => Err(("reason", "is missing: why is there no staircase?")),
            (Some(_), _) => {
                Err(("staircase", "can only be \"none\"; leave it out if there is one"))
            }
            (None, Some(_)) => Err(("reason", "goes with staircase = \"none\"")),
        }
    }

    fn staircase(&self) -> Result<HddProfile, Fault> {
        let fast_latency = value("fast_latency", &self.fast_latency)?.0;
        let mid_latency = value("mid_latency", &self.mid_latency)?.0;
        Ok(HddProfile {
            fast_latency,
            mid_latency,
            slow_latency_ns: brief("slow_latency", value("slow_latency", &self.slow_latency)?)?,
            fast_stage_bytes: stage("fast_stage", value("fast_stage", &self.fast_stage)?)?,
            mid_stage_bytes: stage("mid_stage", value("mid_stage", &self.mid_stage)?)?,
            drain_idle_ns: brief("drain_idle", value("drain_idle", &self.drain_idle)?)?,
            drain_bytes_per_s: quick("drain_rate", value("drain_rate", &self.drain_rate)?)?,
            flush_base_ns: brief("flush_base", value("flush_base", &self.flush_base)?)?,
            position_ns: brief("position", value("position", &self.position)?)?,
            detail: Box::new(self.detail()?),
        })
    }

    fn detail(&self) -> Result<HddDetail, Fault> {
        let law = optional("drain_law", &self.drain_law)?;
        let named = |law: String| {
            let known = DrainLaw::NAMED.iter().find(|named| named.0 == law);
            known
                .map(|named| named.1)
                .ok_or(("drain_law", "must be \"continuous\", \"after-idle\" or \"when-full\""))
        };
        let rate = optional("flush_rate", &self.flush_rate)?;
        let turn = optional("turn", &self.turn)?;
        let workload = optional("workload_per_year", &self.workload_per_year)?;
        Ok(HddDetail {
            stages: self.stages()?,
            fast_jitter_ppm: share("fast_jitter", optional("fast_jitter", &self.fast_jitter)?)?,
            mid_jitter_ppm: share("mid_jitter", optional("mid_jitter", &self.mid_jitter)?)?,
            drain_law: law.map(named).transpose()?,
            flush_bytes_per_s: rate.map(|rate| quick("flush_rate", rate)).transpose()?,
            regions: rows("regions", &self.regions, quick)?,
            seeks: rows("seeks", &self.seeks, brief)?,
            turn_ns: turn.map(|turn| brief("turn", turn)).transpose()?,
            workload_bytes_per_year: workload.map(|bytes| bytes.0),
        })
    }

    fn stages(&self) -> Result<Vec<StageBySize>, Fault> {
        let rows = optional("stages", &self.stages)?.unwrap_or_default();
        let mut stages = Vec::new();
        for row in &rows {
            let size = (512..=1 << 30).contains(&row.write.0);
            must("stages", size, "have a `write` that is not 512B to 1GiB")?;
            must("stages", row.fast_writes > 0 && row.mid_writes > 0, "have a stage of no writes")?;
            stages.push(StageBySize {
                write_bytes: row.write.0,
                fast_bytes: stage("stages", row.fast)?,
                mid_bytes: stage("stages", row.mid)?,
                fast_writes: row.fast_writes,
                mid_writes: row.mid_writes,
                slow_latency_ns: brief("stages", row.slow)?,
            });
        }
        let sizes: Vec<(u64, ())> = stages.iter().map(|stage| (stage.write_bytes, ())).collect();
        rising("stages", &sizes)?;
        Ok(stages)
    }
}

/// Latencies by queue depth.
type ByDepth = Option<Sourced<Vec<(u64, Nanos)>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SsdFile {
    write_rate: Sourced<BytesPerSecond>,
    flush: Sourced<Nanos>,
    endurance: Option<Sourced<Bytes>>,
    write_latency: ByDepth,
    sustained_latency: ByDepth,
    read_latency: ByDepth,
    burst_rate: Option<Sourced<BytesPerSecond>>,
    sustained_rate: Option<Sourced<BytesPerSecond>>,
    steady_rate: Option<Sourced<BytesPerSecond>>,
    slc: Option<Sourced<Bytes>>,
    gc_event: Option<Sourced<Nanos>>,
    gc_share: Option<Sourced<Ppm>>,
}

impl SsdFile {
    /// What it says, or the first key that makes no sense.
    pub(super) fn profile(&self) -> Result<ProfileKind, Fault> {
        let write_rate = optional_of(&self.write_rate, "write_rate")?;
        let flush = optional_of(&self.flush, "flush")?;
        let endurance = optional("endurance", &self.endurance)?;
        must("endurance", endurance.is_none_or(|bytes| bytes.0 > 0), "must be above 0")?;
        let costs = self.costs()?;
        let profile = SsdProfile {
            write_bytes_per_s: quick("write_rate", write_rate)?,
            flush_ns: brief("flush", flush)?,
            sustained_ns: costs.sustained_by_depth(),
        };
        let measured = costs != SsdCosts::default();
        Ok(ProfileKind::Ssd {
            profile,
            endurance_bytes: endurance.map(|bytes| bytes.0),
            costs: measured
                .then(|| Box::new(SsdCosts { flush_ns: Some(profile.flush_ns), ..costs })),
        })
    }

    fn costs(&self) -> Result<SsdCosts, Fault> {
        let rate = |key, of| optional(key, of)?.map(|rate| quick(key, rate)).transpose();
        let event = optional("gc_event", &self.gc_event)?;
        Ok(SsdCosts {
            write_latency: by_depth("write_latency", &self.write_latency)?,
            sustained_latency: by_depth("sustained_latency", &self.sustained_latency)?,
            read_latency: by_depth("read_latency", &self.read_latency)?,
            burst_bytes_per_s: rate("burst_rate", &self.burst_rate)?,
            sustained_bytes_per_s: rate("sustained_rate", &self.sustained_rate)?,
            steady_bytes_per_s: rate("steady_rate", &self.steady_rate)?,
            slc_bytes: optional("slc", &self.slc)?.map(|bytes| bytes.0),
            gc_event_ns: event.map(|time| brief("gc_event", time)).transpose()?,
            gc_share_ppm: share("gc_share", optional("gc_share", &self.gc_share)?)?,
            flush_ns: None,
        })
    }
}

fn optional_of<T: Copy>(of: &Sourced<T>, key: &'static str) -> Result<T, Fault> {
    must(key, of.has_known_source(), "has a source that does not begin with a known word")?;
    Ok(of.get())
}

fn by_depth(key: &'static str, of: &ByDepth) -> Result<Vec<(u64, u64)>, Fault> {
    let rows = optional(key, of)?.unwrap_or_default();
    let rows: Result<Vec<_>, Fault> =
        rows.into_iter().map(|row| Ok((row.0, brief(key, row.1)?))).collect();
    let rows = rows?;
    rising(key, &rows)?;
    must(
        key,
        rows.iter().all(|row| (1..=1 << 16).contains(&row.0)),
        "has a depth not in 1 to 65536",
    )?;
    Ok(rows)
}
