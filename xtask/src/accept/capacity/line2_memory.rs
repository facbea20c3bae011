//! Does the memory stay within its bound while all of an SSD is written to at random, and what do small caches cost?
//!
//! Source: acceptance of capacity, line 2. `examples/paging.rs` of the simulator measures both.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let build = ["-p", "tandem-sim", "--release", "--example", "paging"];
    let program = cargo::build(&build, "paging")?;
    let mut rows = latencies(&call(&program, "latencies")?)?;
    rows.extend(memory(&call(&program, "memory")?)?);
    Ok(rows)
}

/// What the program says. Each line is shown as it comes, since `memory` takes two hours.
fn call(program: &Path, word: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.arg(word).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("starting the measurement")?;
    let mut said = String::new();
    let output = child.stdout.take().context("the measurement has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("reading what the measurement says")?;
        eprintln!("{line}");
        said += &line;
        said.push('\n');
    }
    let status = child.wait().context("waiting for the measurement")?;
    if !status.success() {
        bail!("paging {word} ended with {status}");
    }
    Ok(said)
}

/// Numbers of a line of a table, behind its name.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Each line is a moment: writes so far, MiB resident, and of the map, the cache and the bound.
fn memory(said: &str) -> Result<Vec<Row>> {
    let moments: Vec<Vec<f64>> = said.lines().map(numbers).filter(|line| line.len() == 7).collect();
    let taken = |line: &Vec<f64>| line[1];
    let most = moments.iter().map(taken).fold(0.0, f64::max);
    let bound = moments.first().context("no moment was told of")?[4];
    let within = moments.iter().filter(|line| taken(line) <= bound).count();
    let last = &moments[moments.len() - 1];
    Ok(vec![
        Row::new(
            format!(
                "random writes over 1 TiB of SSD before 8 TiB: at most {bound} MiB resident, cache included"
            ),
            format!("{most} MiB at most; {within} of {} moments within", moments.len()),
            within == moments.len(),
        ),
        Row::info("… writes, places and cache in MiB at the end, pages read", {
            format!("{} writes, {} and {} MiB, {} pages", last[0], last[2], last[3], last[5])
        }),
    ])
}

/// Each line is a cache: its pages, of reads and of writes p50 and p99.9 in us, and pages that were read.
fn latencies(said: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in ["without a bound", "100 %", "50 %", "10 %"] {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("no cache of {name} was told of"))?;
        let [_, read, read_tail, write, write_tail, pages] = numbers(line)[..] else {
            bail!("{name}: {line:?} is no line of a cache");
        };
        // a cache that misses nothing measures nothing
        let misses = name != "10 %" || pages > 0.0;
        let told = format!(
            "reads p50 {read:.0} us, p99.9 {read_tail:.0} us; writes {write:.0} us, {write_tail:.0} us; {pages} pages read"
        );
        let what = format!("a cache of the pages of checksums, {name}");
        rows.push(if misses { Row::info(what, told) } else { Row::new(what, told, false) });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_above_the_bound_fails() {
        let said = "writes MiB\n 10 20 15 3 100 7 4\n 20 101 60 30 100 9 8\nmost 101 MiB\n";
        for (said, holds) in [(said.to_owned(), false), (said.replace("101", "70"), true)] {
            let rows = memory(&said).expect("two moments");
            assert_eq!(rows[0].holds, Some(holds), "{}", rows[0].measured);
            assert!(rows[1].measured.starts_with("20 writes, 60 and 30 MiB"));
        }
        assert!(memory("nothing").is_err() && latencies("nothing").is_err());
    }
}
