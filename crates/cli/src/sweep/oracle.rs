//! The rows of a sweep for what could be had at best: found offline, from what nobody knows in time.

use super::cases::{Case, Limit, Sweep};
use super::compare::{Compared, Figures};
use super::told::{LATENCIES, SSD_BYTES, SSD_USER_BYTES};
use crate::failure::{Failure, said};
use crate::input::{Reading, Source};
use crate::replay::pace;
use rayon::prelude::*;
use tandem_block::Arrival;
use tandem_sim::oracle::{Four, Oracle};
use tandem_sim::replay::ReplayConfig;
use tandem_traces::OpenOptions;

/// Of the first start, which leaves nothing out.
const SEED: u64 = 1;

/// Adds a row for each oracle of the sweep. Where requests follow answers, there is none: what an oracle does would
/// change when they come.
///
/// # Errors
/// If a workload cannot be read again, or has no place on its drives.
pub(super) fn add_all(sweep: &Sweep, mut compared: Compared) -> Result<Compared, Failure> {
    if sweep.oracles.is_empty() {
        return Ok(compared);
    }
    let progress = pace::bar(Some(sweep.cases.len() as u64));
    let limits = |case: usize| -> Vec<Option<Four>> {
        let limit = |limit| limits_ppm(case, limit, sweep, &compared);
        sweep.oracles.iter().map(|oracle| limit(oracle.limit)).collect()
    };
    let of_case = |(case, of): (usize, &Case)| {
        let found = rows(of, &limits(case)).map_err(|why| format!("{}: {why}", of.name));
        progress.inc(1);
        found
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(pace::threads_max()).build()?;
    let found: Result<Vec<Vec<Ratios>>, String> =
        pool.install(|| sweep.cases.par_iter().enumerate().map(of_case).collect());
    progress.finish_and_clear();
    let found = found.map_err(|why| Failure::Failed(anyhow::anyhow!("the oracle of {why}")))?;
    for (at, oracle) in sweep.oracles.iter().enumerate() {
        let of_case = |case: usize| ratios(&found[case][at], case, sweep.null, &compared);
        let all: Vec<Figures> = (0..sweep.cases.len()).map(of_case).collect();
        compared = compared.with(oracle.label.clone(), sweep.null, &all);
    }
    Ok(compared)
}

/// A field, and how many millionths of the null's it has.
type Ratios = Vec<(&'static str, u64)>;

/// What latencies an oracle may have in a case, in millionths of the null's. None: nothing is known of the policy that
/// it is to be like.
fn limits_ppm(case: usize, limit: Limit, sweep: &Sweep, compared: &Compared) -> Option<Four> {
    let ppm = |times: f64| (times * 1e6) as u64;
    match limit {
        Limit::Times(times) => Some([ppm(times); 4]),
        Limit::Like(policy) => {
            // reads are to be no later than the null's, or the policy's if that is worse
            let ratio = |at: usize| compared.ratio(case, policy, sweep.null, LATENCIES[at]);
            let reads = |at: usize| ratio(at).map_or(1.0, |ratio| ratio.max(1.0));
            Some([ppm(ratio(0)?), ppm(ratio(1)?), ppm(reads(2)), ppm(reads(3))])
        }
    }
}

fn rows(case: &Case, limits: &[Option<Four>]) -> Result<Vec<Ratios>, String> {
    if case.config.closed_loop.is_some() {
        return Ok(limits.iter().map(|_| Vec::new()).collect());
    }
    let arrivals = arrivals(case).map_err(said)?;
    let config = ReplayConfig { seed: SEED, ..case.config.clone() };
    let oracle = Oracle::new(&config, arrivals).map_err(|why| why.to_string())?;
    let row = |limits: &Option<Four>| -> Ratios {
        let Some(limits) = limits else { return Vec::new() };
        let least = oracle.least(*limits);
        let latencies = LATENCIES.into_iter().zip(least.latencies_ppm);
        latencies.chain([(SSD_BYTES, least.ssd_bytes_ppm)]).collect()
    };
    Ok(limits.iter().map(row).collect())
}

/// The whole workload, at its speed.
fn arrivals(case: &Case) -> Result<Vec<Arrival>, Failure> {
    let reading = Reading {
        sources: vec![case.source.clone()],
        options: OpenOptions { skip_bad: true, ..OpenOptions::default() },
        limit: None,
        seed: match case.source {
            Source::File(_) => 0,
            Source::Synth(_) => SEED,
        },
        kept_max: 0,
    };
    let loaded = reading.load(|_| {})?;
    loaded.replay(case.speedup, |arrivals| Ok::<_, std::convert::Infallible>(arrivals.collect()))
}

/// The ratios of a row to the null's. What the null writes to the SSD beside users' bytes, an oracle writes, too: it is
/// no better at keeping a map.
fn ratios(found: &Ratios, case: usize, null: usize, compared: &Compared) -> Figures {
    let users = || {
        let written = compared.value(case, null, SSD_BYTES)?;
        Some(compared.value(case, null, SSD_USER_BYTES)? / written.max(1.0))
    };
    let of_field = |(field, ppm): &(&'static str, u64)| {
        let ratio = *ppm as f64 / 1e6;
        let ratio = if *field == SSD_BYTES { 1.0 - users()? * (1.0 - ratio) } else { ratio };
        Some(((*field).to_owned(), ratio))
    };
    found.iter().filter_map(of_field).collect()
}
