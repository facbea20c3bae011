//! Are promises kept live, over NBD, beside a client that floods?
//!
//! Source: acceptance of reservations and the pair, line 3. An emulated drive, two exports with
//! reservations and a third that floods; what fio measures of the two counts. A fourth reservation that
//! does not fit is refused with the figure that would.

use super::{Options, row};
use crate::fio::{Answer, Fio};
use crate::row::Row;
use crate::served::Pool;
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Requests a second that two exports are promised.
const GOLD: u64 = 300;
const SILVER: u64 = 150;
/// How long fio measures, after its first seconds.
const SECONDS: u64 = 40;
const SIZE: &str = "256k";

fn config(more: &str) -> String {
    let volume = |name: &str, rest: &str| {
        format!("[[volume]]\nname = \"{name}\"\nsize = \"512MiB\"\nsteer = \"ssd-first\"\n{rest}\n")
    };
    let promised = |rate: u64| {
        format!(
            "reservation = {{ rate = \"{rate}/s\", size = \"256KiB\", does = \"random-read\", \
             window = \"10s\" }}"
        )
    };
    let gold = volume("gold", &promised(GOLD));
    let silver = volume("silver", &promised(SILVER));
    let flood = volume("flood", "");
    format!(
        "[pool]\nname = \"accept\"\n[[device]]\nrole = \"ssd\"\npath = \"ssd.img\"\nsize = \"8GiB\"\n\
         emulate = \"510\"\nprofile = \"costs.toml\"\n{gold}{silver}{flood}{more}\
         [serve]\nnbd = [\"unix:tandem.sock\"]\n"
    )
}

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    let pool = Pool::new(&tandem, &bench::folder(), &config(""))?;
    profile(&tandem, &pool)?;
    pool.call(&["format", "--yes"])?;
    let server = pool.serve()?;
    let measured = [false, true].map(|floods| together(&pool, floods));
    let status: Value = serde_json::from_str(&pool.call(&["status", "--json"])?)?;
    server.stop()?;
    let mut rows = Vec::new();
    for (measured, what) in measured.into_iter().zip(["alone", "beside a flood"]) {
        let answers = measured?;
        for (index, (name, wanted)) in [("gold", GOLD), ("silver", SILVER)].into_iter().enumerate()
        {
            let got = answers[index].iops;
            rows.push(Row::new(
                format!("{name}, {what}: {wanted} reads/s of 256 KiB, by fio"),
                format!("{got} reads/s"),
                got >= wanted,
            ));
        }
        if let Some(flood) = answers.get(2) {
            rows.push(Row::info("flood, meanwhile", format!("{} requests/s", flood.iops)));
        }
    }
    rows.push(row("status tells of both promises that they were met".into(), told(&status)));
    rows.push(row(
        "a fourth reservation that does not fit is refused with the figure that would".into(),
        refused(&tandem),
    ));
    Ok(rows)
}

/// What requests to this drive cost: what is promised follows from it.
fn profile(tandem: &Path, pool: &Pool) -> Result<()> {
    let out = pool.folder().join("costs.toml");
    let status = Command::new(tandem)
        .args(["profile", "--spec", "510", "--costs", "--cost-sizes", "256KiB"])
        .args(["--cost-capacity", "8GB", "--out"])
        .arg(&out)
        .output()
        .context("starting tandem profile")?;
    if !status.status.success() {
        bail!("tandem profile: {}", String::from_utf8_lossy(&status.stderr).trim());
    }
    // measured of a model of another size: the drive's identity is not what is believed of it
    let text = std::fs::read_to_string(&out)?;
    let without = |text: &str| -> Option<String> {
        let from = text.find("[identity]")?;
        let to = from + text[from..].find("[ssd]")?;
        Some(format!("{}{}", &text[..from], &text[to..]))
    };
    std::fs::write(&out, without(&text).context("a profile with an identity")?)?;
    Ok(())
}

/// The two readers, and perhaps the third, at the same time.
fn together(pool: &Pool, floods: bool) -> Result<Vec<Answer>> {
    let nbd = |volume: &str| Fio::default().set("ioengine", "nbd").set("uri", pool.uri(volume));
    let fill = |volume: &str| nbd(volume).set("rw", "write").set("bs", "1m").set("size", "512m");
    if !floods {
        for volume in ["gold", "silver", "flood"] {
            fill(volume).set("iodepth", 4).job("fill").set("end_fsync", 1).run()?;
        }
    }
    let timed = |fio: Fio| {
        fio.set("bs", SIZE)
            .set("size", "512m")
            .set("time_based", 1)
            .set("ramp_time", "10s")
            .set("runtime", format!("{SECONDS}s"))
    };
    let reader = |volume: &str| timed(nbd(volume).set("rw", "randread").set("iodepth", 31));
    let mut jobs = vec![reader("gold").job("gold"), reader("silver").job("silver")];
    if floods {
        let flood = nbd("flood").set("rw", "randrw").set("rwmixread", 50).set("iodepth", 128);
        jobs.push(timed(flood).job("flood"));
    }
    let running: Vec<_> =
        jobs.into_iter().map(|job| std::thread::spawn(move || job.run())).collect();
    running
        .into_iter()
        .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a measuring thread ended"))?)
        .collect()
}

fn told(status: &Value) -> Result<String> {
    let streams = status["streams"].as_array().context("status has no streams")?;
    let mut told = Vec::new();
    for name in ["gold", "silver"] {
        let one = streams.iter().find(|one| one["name"] == name).context("no such stream")?;
        let (met, windows) = (one["windows_met"].as_u64(), one["windows"].as_u64());
        let (met, windows) = (met.context("no windows")?, windows.context("no windows")?);
        if windows == 0 || met * 100 < windows * 95 {
            bail!("{name}: {met} of {windows} windows");
        }
        told.push(format!("{name}: {met} of {windows} windows"));
    }
    Ok(told.join(", "))
}

fn refused(tandem: &Path) -> Result<String> {
    let more = "[[stream]]\nvolume = \"flood\"\nreservation = { rate = \"5000/s\", size = \"256KiB\", \
                does = \"random-read\" }\n";
    let pool = Pool::new(tandem, &bench::folder(), &config(more))?;
    profile(tandem, &pool)?;
    match pool.call(&["format", "--yes"]) {
        Ok(_) => bail!("it was accepted"),
        Err(why) => {
            let why = format!("{why:#}");
            if !why.contains("would fit") {
                bail!("{why}");
            }
            Ok(why.lines().last().unwrap_or_default().to_owned())
        }
    }
}
