//! Is a served pool with a full SSD faster than its hard drive alone?
//!
//! Source: acceptance of destaging, line 7. fio writes at random over NBD for a minute, to emulated drives. The hard
//! drive alone is the same model in virtual time, where no processor is in its way: so the comparison favours it.

use super::Options;
use super::measured::{BARE, Job, program, replay};
use crate::fio::Fio;
use crate::row::Row;
use crate::served::Pool;
use crate::{bench, packages};
use anyhow::{Context as _, Result};

const WANTED_PERCENT: u64 = 130;
/// Bytes that the replay writes.
const BARE_BYTES: u64 = 10_000 * (256 << 10);
const CONFIG: &str = r#"
[pool]
name = "accept"
[[device]]
role = "ssd"
path = "ssd.img"
size = "1GiB"
emulate = "960evo"
profile = "960evo"
[[device]]
role = "hdd"
path = "hdd.img"
size = "16GiB"
emulate = "wd100efax"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "6GiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = program()?;
    let runs = replay(&tandem, Job::default())?;
    let bare = runs.iter().find(|run| run.policy == BARE).context("the drive alone is a row")?;
    let bare_bytes_per_s = BARE_BYTES * 1000 / bare.took_ms.max(1);
    let pool = Pool::new(&tandem, &bench::folder(), CONFIG)?;
    pool.call(&["format", "--yes"])?;
    let server = pool.serve()?;
    let job = Fio::default().job("sat").set("ioengine", "nbd").set("uri", pool.uri("vol0"));
    let job = job.set("rw", "randwrite").set("bs", "256k").set("iodepth", 16).set("size", "6g");
    let job = job.set("norandommap", 1).set("time_based", 1).set("runtime", "60s");
    let answer = job.set("randseed", 7).run()?;
    server.stop()?;
    let percent = answer.bytes_per_s * 100 / bare_bytes_per_s.max(1);
    let mib = |bytes: u64| bytes >> 20;
    Ok(vec![Row::new(
        "sat over NBD for 60 s: at least 1.3x of the emulated hard drive alone",
        format!(
            "{} MiB/s, the drive alone {} MiB/s: {percent} %",
            mib(answer.bytes_per_s),
            mib(bare_bytes_per_s)
        ),
        percent >= WANTED_PERCENT,
    )])
}
