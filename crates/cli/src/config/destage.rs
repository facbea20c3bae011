//! `[destage]`: when is what lies on SSDs written home, how much at once, and what may flushes for it take?
//!
//! Source: design decision 10; docs/OPERATING.md explains the keys.

use super::file;
use crate::toml_fault::Fault;
use tandem_block::{MIB, Quantity};
use tandem_engine::{EngineConfig, Role};
use toml::Spanned;

const PERCENT_PPM: u64 = 10_000;
/// Above this mark an SSD is full before the first of it is at home.
const HIGH_PERCENT_MAX: u64 = 95;
/// One command has 1 MiB, so a shorter run gains nothing. A longer one keeps its drive for a second.
const RUN_BYTES_MIN: u64 = MIB;
const RUN_BYTES_MAX: u64 = 64 * MIB;
/// An SSD has room for so many runs at least, or one of them would be a large part of it.
const RUNS_MIN: u64 = 8;

/// The keys of `[destage]`. What is not said is the engine's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destage {
    high_percent: Option<u64>,
    low_percent: Option<u64>,
    run_bytes: Option<u64>,
    flush_budget_percent: Option<u64>,
}

/// Reads the keys. `ssd_bytes`: the smallest SSD of which the configuration names the size.
pub(super) fn check(parsed: &file::Destage, ssd_bytes: Option<u64>) -> Result<Destage, Fault> {
    let read = |value: &Option<Spanned<String>>, least, most| {
        value.as_ref().map(|value| percent(value, least, most)).transpose()
    };
    let destage = Destage {
        high_percent: read(&parsed.high, 1, HIGH_PERCENT_MAX)?,
        low_percent: read(&parsed.low, 0, HIGH_PERCENT_MAX)?,
        run_bytes: parsed.run.as_ref().map(|value| run(value, ssd_bytes)).transpose()?,
        flush_budget_percent: read(&parsed.flush_budget, 1, 100)?,
    };
    let usual = EngineConfig::with_drives(Vec::new(), Vec::new());
    let high = destage.high_percent.unwrap_or(usual.writeback_high_percent);
    let low = destage.low_percent.unwrap_or(usual.writeback_low_percent);
    if let Some(value) = parsed.low.as_ref().or(parsed.high.as_ref())
        && low >= high
    {
        let text = format!(
            "write-back begins at high = \"{high}%\" and ends at low = \"{low}%\": low has to be below high"
        );
        return Err(Fault::at(value, text));
    }
    Ok(destage)
}

fn percent(value: &Spanned<String>, least: u64, most: u64) -> Result<u64, Fault> {
    let ppm = Quantity::Share.parse(value.get_ref()).map_err(|why| Fault::at(value, why))?;
    let percent = ppm / PERCENT_PPM;
    if !ppm.is_multiple_of(PERCENT_PPM) || !(least..=most).contains(&percent) {
        let text = format!("write whole percent from {least}% to {most}%");
        return Err(Fault::at(value, text));
    }
    Ok(percent)
}

fn run(value: &Spanned<String>, ssd_bytes: Option<u64>) -> Result<u64, Fault> {
    let print = |bytes| Quantity::Bytes.print(bytes);
    let bytes = Quantity::Bytes.parse(value.get_ref()).map_err(|why| Fault::at(value, why))?;
    if !(RUN_BYTES_MIN..=RUN_BYTES_MAX).contains(&bytes) {
        let (least, most) = (print(RUN_BYTES_MIN), print(RUN_BYTES_MAX));
        return Err(Fault::at(value, format!("one run has {least} at least and {most} at most")));
    }
    if let Some(ssd) = ssd_bytes.filter(|ssd| bytes > ssd / RUNS_MIN) {
        let text = format!(
            "one run is an eighth of the smallest SSD at most: {} of {}",
            print(ssd / RUNS_MIN),
            print(ssd)
        );
        return Err(Fault::at(value, text));
    }
    Ok(bytes)
}

impl Destage {
    /// Tells the engine. A run is no larger than an eighth of an SSD, also where only the drive itself says its size.
    pub(super) fn apply(self, config: &mut EngineConfig) {
        let ssds = config.devices.iter().filter(|device| device.role == Role::Ssd);
        let run_max = ssds.map(|ssd| ssd.capacity_bytes / RUNS_MIN).min().unwrap_or(RUN_BYTES_MAX);
        let set = |to: &mut u64, said: Option<u64>| *to = said.unwrap_or(*to);
        set(&mut config.writeback_high_percent, self.high_percent);
        set(&mut config.writeback_low_percent, self.low_percent);
        let run_bytes = self.run_bytes.map(|bytes| bytes.min(run_max.max(RUN_BYTES_MIN)));
        set(&mut config.writeback_run_bytes, run_bytes);
        set(&mut config.flush_budget_percent, self.flush_budget_percent);
    }
}
