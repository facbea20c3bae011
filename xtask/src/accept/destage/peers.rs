//! `cargo xtask peers`: the page that puts Tandem beside the kernel's caches.
//!
//! What the kernel's caches do was measured once: Linux 6.12 in user mode, whose clock goes by the drives' models. Those
//! rows are written down here. Tandem's rows are replayed on the same models.

use super::line4_rest;
use super::measured::{
    BARE, Job, MIX73, MIXHOT, Measured, SAT, SATLONG, ms, program, replay, seconds,
};
use crate::cargo;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;

const PAGE: &str = "docs/PEERS.md";
const SEED: u64 = 1;

/// A cache of the kernel: tenths of a second, the mean and p99.9 in ms, MiB to the SSD where that is known.
type Peer = (&'static str, u64, u64, u64, Option<u64>);

/// Writes: of one workload.
const SAT_PEERS: [Peer; 3] = [
    ("bcache, writeback", 594, 74, 187, Some(2273)),
    ("dm-cache, smq", 518, 83, 368, Some(1336)),
    ("dm-writecache", 384, 61, 659, Some(1450)),
];
const SATLONG_PEERS: [Peer; 3] = [
    ("bcache, writeback", 1_843, 81, 190, Some(7345)),
    ("dm-cache, smq", 1_569, 83, 431, Some(3048)),
    ("dm-writecache", 1_506, 80, 320, Some(2284)),
];
/// Reads.
const MIX73_PEERS: [Peer; 3] = [
    ("bcache, writeback", 305, 77, 190, Some(28)),
    ("dm-cache, smq", 647, 67, 287, Some(165)),
    ("dm-writecache", 355, 90, 190, Some(13)),
];
const MIXHOT_PEERS: [Peer; 3] = [
    ("bcache, writeback", 823, 52, 174, None),
    ("dm-cache, smq", 1_502, 38, 266, None),
    ("dm-writecache", 1_019, 65, 174, None),
];
/// Reads. The time is how long the hard drive was busy.
const WEB0_PEERS: [Peer; 3] = [
    ("bcache, writeback", 15, 98, 492, None),
    ("dm-cache, smq", 240, 120, 468, None),
    ("dm-writecache", 17, 116, 492, None),
];

/// What is told of one workload.
struct Section {
    title: &'static str,
    what: &'static str,
    workload: &'static str,
    tiers: &'static [&'static str],
    is_of_reads: bool,
    peers: [Peer; 3],
}

const SECTIONS: [Section; 4] = [
    Section {
        title: "A full SSD",
        what: "10,000 writes of 256 KiB at random over 6 GiB.",
        workload: SAT,
        tiers: &["none"],
        is_of_reads: false,
        peers: SAT_PEERS,
    },
    Section {
        title: "A full SSD for longer",
        what: "30,000 of them.",
        workload: SATLONG,
        tiers: &["none"],
        is_of_reads: false,
        peers: SATLONG_PEERS,
    },
    Section {
        title: "Reads of what is cold",
        what: "9,000 requests of 4 KiB, 70 % reads, Zipf over 2 GiB. The columns are of reads.",
        workload: MIX73,
        tiers: &["none", "cache-write-back:extent=4KiB"],
        is_of_reads: true,
        peers: MIX73_PEERS,
    },
    Section {
        title: "Reads of what becomes hot",
        what: "36,000 such requests over 1 GiB.",
        workload: MIXHOT,
        tiers: &["none", "cache-write-back"],
        is_of_reads: true,
        peers: MIXHOT_PEERS,
    },
];

const HEAD: &str = "\
# Beside the kernel's caches

`cargo xtask peers` makes this page. It replays Tandem's rows, in virtual time, on every machine alike.

All have the same drives: a model of a Samsung 960 EVO, cut to 1 GiB, and of a WD Red WD100EFAX, cut to 16 GiB. 16 requests
are outstanding. Seed 1. The rows of bcache, dm-cache and dm-writecache were measured once, with Linux 6.12 in user mode,
whose clock goes by the same models. Each had its defaults. No row counts time of the processor.

A row of Tandem names its policy and its tier. Where it names a tier alone, the policy is `ssd-first`.

Tandem answers a write as these caches do: once it is in a buffer of the drive (`volatile-ok`).
";

/// Writes the page. False never.
///
/// # Errors
/// If a replay fails, the traces are not there, or the page cannot be written.
pub fn run(_: &[String]) -> Result<bool> {
    let program = program()?;
    let mut page = String::from(HEAD);
    for section in &SECTIONS {
        let mut runs: Vec<Measured> = Vec::new();
        for tier in section.tiers {
            let policies = if runs.is_empty() { "bare,ssd-first,ect" } else { "ssd-first,ect" };
            let (workload, tiers) = (section.workload, Some(*tier));
            runs.extend(replay(
                &program,
                Job { workload, policies, tiers, seed: SEED, ..Job::default() },
            )?);
        }
        page += &table(section, &runs)?;
    }
    page += &web0(&line4_rest::web0_runs(&program, "ssd-first", "1")?)?;
    let path = cargo::root().join(PAGE);
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(true)
}

/// The drive alone, the kernel's caches, and Tandem.
fn table(section: &Section, runs: &[Measured]) -> Result<String> {
    let mut text = format!("\n## {}\n\n{}\n\n", section.title, section.what);
    text += "| | all | mean, ms | p99.9, ms | MiB to the SSD |\n|---|---|---|---|---|\n";
    let row = |text: &mut String, name: &str, run: &Measured| {
        let latency = if section.is_of_reads { run.read } else { run.write };
        let (took, ssd) = (seconds(run.took_ms), run.ssd_mib);
        writeln!(text, "| {name} | {took} | {} | {} | {ssd} |", ms(latency.mean), ms(latency.p999))
    };
    let bare = runs.iter().find(|run| run.policy == BARE).context("the drive alone is a row")?;
    row(&mut text, "*the hard drive alone*", bare)?;
    for (name, tenths, mean, p999, ssd) in section.peers {
        let ssd = ssd.map_or("not noted".to_owned(), |mib| mib.to_string());
        writeln!(text, "| {name} | {} | {mean} | {p999} | {ssd} |", seconds(tenths * 100))?;
    }
    for run in runs.iter().filter(|run| run.policy != BARE) {
        row(&mut text, &format!("**Tandem, {}**", run.policy), run)?;
    }
    Ok(text)
}

/// A trace at its own times: for how long the hard drive was busy, and its reads.
fn web0(runs: &[Value]) -> Result<String> {
    let [bare, ours] = runs else { anyhow::bail!("two runs are wanted") };
    let mut text = String::from(
        "\n## Little to do\n\nThe first 12,000 requests of MSR web0, at their own times: 5,916 s. The hard drive has 64 GiB. The columns are of reads.\n\n",
    );
    text += "| | hard drive busy | mean, ms | p99.9, ms |\n|---|---|---|---|\n";
    let row = |text: &mut String, name: &str, run: &Value| -> Result<()> {
        let of = |what: &str| run["read"][what].as_u64().context("reads have a mean and a p99.9");
        let busy = seconds(line4_rest::busy_ms(run)?);
        writeln!(text, "| {name} | {busy} | {} | {} |", ms(of("mean_ns")?), ms(of("p999_ns")?))?;
        Ok(())
    };
    row(&mut text, "*the hard drive alone*", bare)?;
    for (name, tenths, mean, p999, _) in WEB0_PEERS {
        writeln!(text, "| {name} | {} | {mean} | {p999} |", seconds(tenths * 100))?;
    }
    row(&mut text, "**Tandem, ssd-first**", ours)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::destage::measured::Latency;

    #[test]
    fn a_table_has_the_drive_alone_first_and_tandem_last() {
        let latency = Latency { mean: 7_000_000, p999: 90_000_001, longest: 1 };
        let run = |policy: &str, took_ms| Measured {
            policy: policy.to_owned(),
            took_ms,
            write: latency,
            read: Latency { mean: 0, ..latency },
            ssd_mib: 0,
            home_mib: 0,
            flushes: 0,
            errors: 0,
        };
        let text = table(&SECTIONS[0], &[run("ect", 1_250), run(BARE, 67_100)]).expect("a table");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 6, "{text}");
        assert_eq!(rows[1], "| *the hard drive alone* | 67.1 s | 7 | 91 | 0 |");
        assert_eq!(rows[2], "| bcache, writeback | 59.4 s | 74 | 187 | 2273 |");
        assert_eq!(rows[5], "| **Tandem, ect** | 1.2 s | 7 | 91 | 0 |");
        assert!(table(&SECTIONS[0], &[run("ect", 1)]).is_err());
    }

    #[test]
    fn a_trace_says_how_long_the_hard_drive_was_busy() {
        let run = |share: f64| {
            serde_json::json!({
                "elapsed_ns": 100_000_000_000_u64,
                "hdd": { "utilization_gross": share },
                "read": { "mean_ns": 1_500_000, "p999_ns": 2_000_000 },
            })
        };
        let text = web0(&[run(0.5), run(0.01)]).expect("a table");
        assert!(text.contains("| *the hard drive alone* | 50.0 s | 2 | 2 |"), "{text}");
        assert!(text.contains("| dm-cache, smq | 24.0 s | 120 | 468 |"), "{text}");
        assert!(text.ends_with("| **Tandem, ssd-first** | 1.0 s | 2 | 2 |\n"), "{text}");
        assert!(web0(&[run(0.5)]).is_err());
    }
}
