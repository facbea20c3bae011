//! Do reads of a pair wait for writes?
//!
//! Source: acceptance of reservations and the pair, line 2: reads of 4 KiB at half of what a drive can
//! do beside writers that never stop, those that RAM answers left out; p99.9 at most 1.3x that of reads
//! alone; at least 0.9x of k/2 is accepted; a single drive beside it. Each drive is tried without an idle
//! second, with one, and with one that adapts ([IANUS §5.3]), in periods of ten seconds, and with one in
//! twenty. Judged is the paper's: an idle second of ten; the others are shown. `k/2` is that of whole
//! periods: of a drive that writes evenly, an idle second of ten leaves 90 %.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

/// Latency of reads in percent of reads alone, at most.
const READS_PERCENT_MAX: u64 = 130;
/// Accepted writes in percent of k/2, at least.
const WRITES_PERCENT_MIN: u64 = 90;
/// The drives of the acceptance.
const DRIVES: [&str; 2] = ["510", "960evo"];
/// Runs of each.
const RUNS: usize = 4;
/// Period of the run that is judged, in s.
const PERIOD_S: u64 = 10;
/// What the example calls the idle time that adapts.
const ADAPTIVE_MS: u64 = 1;

/// One run, as the example told it.
struct Told {
    drive: String,
    idle: String,
    reads_percent: u64,
    writes_percent: u64,
    one_drive_percent: u64,
    is_within_cache: bool,
    is_judged: bool,
    measured: String,
}

impl Told {
    /// Reads and writes, in this very run.
    fn meets_all(&self) -> bool {
        self.reads_percent <= READS_PERCENT_MAX
            && self.writes_percent >= WRITES_PERCENT_MIN
            && self.one_drive_percent > self.reads_percent
            && self.is_within_cache
    }
}

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["run", "--release", "-p", "tandem-sim", "--example", "legs"];
    let printed = cargo::output(&words)?;
    let mut runs = Vec::new();
    for line in printed.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
        runs.push(told(line).with_context(|| format!("reading {line:?}"))?);
    }
    let mut rows = Vec::new();
    for drive in DRIVES {
        let of_drive: Vec<&Told> = runs.iter().filter(|run| run.drive == drive).collect();
        if of_drive.len() != RUNS {
            bail!("{} results of {drive} instead of {RUNS}: {printed}", of_drive.len());
        }
        rows.push(judged(drive, &of_drive));
        rows.extend(of_drive.iter().map(|run| {
            Row::info(
                format!("… pair of {drive}, idle before each change: {}", run.idle),
                &run.measured,
            )
        }));
    }
    Ok(rows)
}

/// What is wanted of a drive: that the paper's run meets all.
fn judged(drive: &str, runs: &[&Told]) -> Row {
    let run = runs.iter().find(|run| run.is_judged);
    Row::new(
        format!(
            "pair of {drive}, an idle second of {PERIOD_S}: p99.9 of reads at most \
             {READS_PERCENT_MAX} % of reads alone, writes at least {WRITES_PERCENT_MIN} % of k/2, one \
             drive worse, the cache within its bound"
        ),
        run.map_or("there is no such run".into(), |run| run.measured.clone()),
        run.is_some_and(|run| run.meets_all()),
    )
}

fn told(line: &str) -> Result<Told> {
    let drive = line.split(' ').next().unwrap_or_default();
    let number = |key: &str| -> Result<u64> {
        let found = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.with_context(|| format!("no {key}"))?.parse().with_context(|| key.to_owned())
    };
    let (reads_percent, writes_percent) = (number("reads_percent")?, number("writes_percent")?);
    let one_drive_percent = number("one_drive_percent")?;
    let (cache, bound) = (number("cache_bytes_max")?, number("cache_bytes_bound")?);
    let (idle, most) = match number("idle_ms")? {
        ADAPTIVE_MS => (format!("adaptive, {} ms at the end", number("adapted_ms")?), ""),
        0 => ("0 ms".to_owned(), ""),
        fixed => (format!("{fixed} ms"), " (of whole periods, the idle second among them)"),
    };
    let period_s = number("period_s")?;
    let is_fixed = ![0, ADAPTIVE_MS].contains(&number("idle_ms")?);
    let idle = format!("{idle} of {period_s} s");
    let measured = format!(
        "p99.9 {reads_percent} % of reads alone (one drive {one_drive_percent} %), writes \
         {writes_percent} % of k/2{most}, {} changes of roles, cache {} of {} MiB",
        number("turns")?,
        cache >> 20,
        bound >> 20
    );
    let is_within_cache = cache <= bound;
    Ok(Told {
        drive: drive.to_owned(),
        idle,
        reads_percent,
        writes_percent,
        one_drive_percent,
        is_within_cache,
        is_judged: is_fixed && period_s == PERIOD_S,
        measured,
    })
}
