//! Do reads of a pair wait for writes?
//!
//! Source: acceptance of reservations and the pair, line 2: reads of 4 KiB at half of what a drive can
//! do beside writers that never stop; p99.9 at most 1.3x that of reads alone; at least 0.9x of k/2 is
//! accepted; a single drive beside it. Without an idle second what the writer left to do is met by the
//! first reads: that is shown, and judged with the idle second ([IANUS §5.3]).

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

/// Latency of reads in percent of reads alone, at most.
const READS_PERCENT_MAX: u64 = 130;
/// Accepted writes in percent of k/2, at least.
const WRITES_PERCENT_MIN: u64 = 90;
/// Both drives of the acceptance, each without the idle second, with it, and with one that adapts.
const RESULTS: usize = 6;
/// What the example calls the last one.
const ADAPTIVE_MS: u64 = 1;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["run", "--release", "-p", "tandem-sim", "--example", "twins"];
    let printed = cargo::output(&words)?;
    let mut rows = Vec::new();
    for line in printed.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
        rows.push(row(line).with_context(|| format!("reading {line:?}"))?);
    }
    if rows.len() != RESULTS {
        bail!("{} results instead of {RESULTS}: {printed}", rows.len());
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let drive = line.split(' ').next().unwrap_or_default();
    let number = |key: &str| -> Result<u64> {
        let found = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.with_context(|| format!("no {key}"))?.parse().with_context(|| key.to_owned())
    };
    let (idle_ms, reads) = (number("idle_ms")?, number("reads_percent")?);
    let (writes, one) = (number("writes_percent")?, number("one_drive_percent")?);
    let (cache, bound) = (number("cache_bytes_max")?, number("cache_bytes_bound")?);
    let measured = format!(
        "p99.9 {reads} % of reads alone (one drive {one} %), writes {writes} % of k/2, {} changes of \
         roles, cache {} of {} MiB",
        number("turns")?,
        cache >> 20,
        bound >> 20
    );
    let idle = match idle_ms {
        ADAPTIVE_MS => format!("adaptive ({} ms at the end)", number("adapted_ms")?),
        fixed => format!("{fixed} ms"),
    };
    let what = format!("pair of {drive}, {idle} idle before each change");
    if idle_ms == 0 || idle_ms == ADAPTIVE_MS {
        return Ok(Row::info(what, measured));
    }
    let holds =
        reads <= READS_PERCENT_MAX && writes >= WRITES_PERCENT_MIN && one > reads && cache <= bound;
    Ok(Row::new(
        format!(
            "{what}: p99.9 of reads at most {READS_PERCENT_MAX} % of reads alone, writes at least \
             {WRITES_PERCENT_MIN} % of k/2"
        ),
        measured,
        holds,
    ))
}
