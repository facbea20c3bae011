//! What does a collector cost per request, and per extent?
//!
//! Source: acceptance of tiers and caches, "Speed and memory": at most 100 ns per request at one million
//! objects, at most 64 bytes per tracked extent. The engine's example `collect_request`, medians of
//! five: requests of zipf 1.0, at a cache of 400 MiB of 4 KiB objects that is filled on demand, so that
//! evictions and arrivals are in it. Uniform requests, which miss the processor's caches, are shown.
//! And LRU alone, from an empty cache on, at least 0.75x of the requests a second of the processor that
//! libCacheSim replayed with its LRU on such a machine.

use super::{example, output, value};
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

const ALLOWED_NS: u64 = 100;
const ALLOWED_BYTES: u64 = 64;
/// libCacheSim's LRU, requests a second of the processor.
const REFERENCE_PER_S: u64 = 5_800_000;

/// One row of the example's table.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    collector: String,
    load: String,
    cache_ns: u64,
    told_ns: u64,
    bytes: u64,
}

fn costs(text: &str) -> Result<Vec<Cost>> {
    let rows = text.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[collector, load, cache_ns, told_ns, _, bytes, _] = &words[..] else {
            bail!("the row {line:?} has not seven columns");
        };
        let number = |word: &str| {
            word.parse().with_context(|| format!("{collector}: {word:?} is no number"))
        };
        Ok(Cost {
            collector: collector.to_owned(),
            load: load.to_owned(),
            cache_ns: number(cache_ns)?,
            told_ns: number(told_ns)?,
            bytes: number(bytes)?,
        })
    });
    rows.collect()
}

/// Measures all collectors.
///
/// # Errors
/// If the example cannot run, or prints no table.
pub fn rows() -> Result<Vec<Row>> {
    let example = example("tandem-engine", "collect_request")?;
    let text = output(&example, &[])?;
    eprintln!("{text}");
    let costs = costs(&text)?;
    if costs.is_empty() {
        bail!("collect_request printed no collectors");
    }
    let mut rows: Vec<Row> = costs.iter().map(row).collect();
    rows.push(replayed(value(&output(&example, &["replay"])?, "lru")?));
    Ok(rows)
}

fn replayed(per_s: u64) -> Row {
    let of_reference = per_s * 100 / REFERENCE_PER_S;
    Row::new(
        "LRU, cache alone: at least 0.75x of 5.8 million requests/s of CPU (libCacheSim's LRU)",
        format!("{per_s} requests/s, {}.{:02}x", of_reference / 100, of_reference % 100),
        per_s * 4 >= REFERENCE_PER_S * 3,
    )
}

fn row(cost: &Cost) -> Row {
    let Cost { collector, load, cache_ns, told_ns, bytes } = cost;
    let measured =
        format!("{cache_ns} ns ({told_ns} ns where nothing comes or goes), {bytes} bytes");
    if load != "zipf" {
        return Row::info(format!("{collector}, a request of {load}"), measured);
    }
    Row::new(
        format!(
            "{collector}, a request at one million objects: at most {ALLOWED_NS} ns, and {ALLOWED_BYTES} \
             bytes per tracked extent"
        ),
        measured,
        *cache_ns <= ALLOWED_NS && *bytes <= ALLOWED_BYTES,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_judged() {
        let table = "collector load cache\nlru zipf 90 51 22.37 28 2867200\n";
        let found = costs(table).unwrap();
        assert!(!row(&found[0]).fails());
        let slow = Cost { cache_ns: 101, ..costs(table).unwrap().remove(0) };
        assert!(row(&slow).fails());
        let large = Cost { bytes: 65, ..costs(table).unwrap().remove(0) };
        assert!(row(&large).fails());
        assert_eq!(row(&Cost { load: "uniform".into(), ..slow }).holds, None);
        assert!(!replayed(4_350_000).fails() && replayed(4_349_999).fails());
        assert_eq!(replayed(12_000_000).measured, "12000000 requests/s, 2.06x");
        assert!(costs("head\nlru zipf 90\n").is_err());
        assert!(costs("head\nlru zipf fast 1 2 3 4\n").is_err());
    }
}
