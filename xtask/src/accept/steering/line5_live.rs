//! Does a server on emulated drives do what the same engine does in virtual time?
//!
//! Source: acceptance of write steering, line 5. fio sends bursts of writes beside reads over NBD; the
//! server notes what it was asked, and says what its requests took, by stage; the notes are replayed in
//! virtual time over the same drives. The stage `device` is compared, since waiting depends on when exactly fio,
//! which shares the processors with the server, came. The SSD is one that bursts congest: a faster one
//! answers sooner than a server that shares its processors with fio can look.

use super::{Options, numbers_of, row};
use crate::fio::Fio;
use crate::row::Row;
use crate::served::Pool;
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const POLICIES: [&str; 3] = ["ssd-first", "mios-d", "serw"];
/// Live and virtual means may differ by this much.
const PERCENT_MAX: u64 = 15;
/// What the server was asked, and when: with fio's own notes a burst would come at once, where the server
/// is told of its requests one after the other.
const NOTES: &str = "asked.csv";
const SPAN: &str = "1g";
/// A burst is sent at once, whatever was answered of it: when requests come must not hang on how fast
/// the server is, or its replay, which sends them when they were sent, is another load.
const BURST_BLOCKS: u32 = 600;

fn config(policy: &str) -> String {
    format!(
        r#"
[pool]
name = "accept"
[[device]]
role = "ssd"
path = "ssd.img"
size = "8GiB"
emulate = "x25e"
profile = "x25e"
[[device]]
role = "hdd"
path = "hdd.img"
size = "16GiB"
emulate = "wd100efax"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "2GiB"
steer = "{policy}"
[serve]
nbd = ["unix:tandem.sock"]
"#
    )
}

/// Mean nanoseconds of the stage `device`, and how many writes: live, then virtual.
type Means = [(u64, u64); 2];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    let mut rows = Vec::new();
    let mut baseline = None;
    for policy in POLICIES {
        let measured = one(&tandem, policy);
        if let Ok(means) = &measured {
            let live = means[0].0;
            let first = *baseline.get_or_insert(live);
            rows.push(Row::info(
                format!("{policy}: mean of stage device of live writes, beside ssd-first"),
                format!("{} us of {} us", live / 1000, first / 1000),
            ));
        }
        rows.push(row(
            format!("{policy}: live and virtual means of stage device within {PERCENT_MAX} %"),
            measured.and_then(compare),
        ));
    }
    Ok(rows)
}

fn compare([live, model]: Means) -> Result<String> {
    let text = format!(
        "live {} us of {} writes, virtual {} us of {}",
        live.0 / 1000,
        live.1,
        model.0 / 1000,
        model.1
    );
    if live.1 == 0 || live.0.abs_diff(model.0) * 100 > model.0 * PERCENT_MAX {
        bail!("{text}");
    }
    Ok(text)
}

fn one(tandem: &Path, policy: &str) -> Result<Means> {
    // filled without redirection: what is read lies on the SSD then, as in the replay
    let pool = Pool::new(tandem, &bench::folder(), &config(POLICIES[0]))?;
    pool.call(&["format", "--yes"])?;
    let notes = pool.folder().join(NOTES);
    let nbd = || Fio::default().set("ioengine", "nbd").set("uri", pool.uri("vol0"));
    let server = pool.serve()?;
    let fill = nbd().set("rw", "write").set("bs", "1m").set("iodepth", 4).set("size", SPAN);
    fill.job("fill").set("end_fsync", 1).run()?;
    server.stop()?;
    pool.configure(&config(policy))?;
    let server = pool.serve_with(&["--record", NOTES])?;
    let burst = nbd()
        .set("rw", "randrw")
        .set("rwmixread", 50)
        .set("bssplit", "4k/70:16k/20:64k/10")
        .set("iodepth", BURST_BLOCKS)
        .set("size", SPAN)
        .set("io_size", "600m")
        .set("thinktime", "150ms")
        .set("thinktime_blocks", BURST_BLOCKS)
        .set("thinktime_blocks_type", "issue")
        .set("randseed", 7);
    burst.job("burst").run()?;
    let status: Value = serde_json::from_str(&pool.call(&["status", "--json"])?)?;
    server.stop()?;
    let live = numbers_of(&status["latencies"]["write"])?;
    let output = Command::new(tandem)
        .args(["replay", "--json", "--policy", policy, "--resident", "ssd", "--ssd", "x25e"])
        .args(["--ssd-size", "8GiB", "--hdd-size", "16GiB"])
        .arg(&notes)
        .stdin(Stdio::null())
        .output()
        .context("starting tandem replay")?;
    if !output.status.success() {
        bail!("tandem replay: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let told: Value = serde_json::from_slice(&output.stdout)?;
    Ok([live, numbers_of(&told["runs"][0]["write"])?])
}
