//! Does a real server lose nothing in an hour of use, administration and kills, and stay as small as it was?
//!
//! Source: acceptance of trust, line 4.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::process::{Command, Stdio};

const MINUTES: &str = "60";
/// Resident memory at the end of a life of four minutes against its second quarter: flat, but for what allocators
/// keep. Of all such lives the median, since what a pool holds in memory goes with what it happens to do.
const GROWTH_PERCENT_MAX: u64 = 110;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    crate::packages::install();
    let tandem = cargo::build_tandem(false)?;
    let build = ["-p", "tandem", "--profile", "test", "--example", "live"];
    let program = cargo::build(&build, "live")?;
    let output = Command::new(program)
        .arg("--tandem")
        .arg(tandem)
        .args(["--minutes", MINUTES])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting the live arm")?;
    let said = String::from_utf8_lossy(&output.stdout);
    // what was lost is told of before the table
    eprint!("{said}");
    rows(&said)
}

fn rows(said: &str) -> Result<Vec<Row>> {
    let line = |name: &str| {
        let found = said.lines().rev().find_map(|line| line.trim().strip_prefix(name));
        found.map(str::trim).with_context(|| format!("the live arm told of no {name}"))
    };
    let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok());
    let count = |name: &str| -> Result<u64> {
        number(line(name)?).with_context(|| format!("{name} is no number"))
    };
    Ok(vec![
        Row::new("an hour of the live arm: 0 lost", line("lost")?, count("lost")? == 0),
        Row::new("… 0 hung", line("hung")?, count("hung")? == 0),
        Row::new(
            format!(
                "… memory flat: a life of four minutes ends at or below {GROWTH_PERCENT_MAX} %"
            ),
            line("its growth")?,
            count("its growth")? <= GROWTH_PERCENT_MAX,
        ),
        Row::info("… the server's memory", line("server's memory")?),
        Row::info("… runs", line("runs")?),
        Row::info("… requests", line("requests")?),
        Row::info("… sectors compared", line("sectors compared")?),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_and_what_grows_fails() {
        let said = "runs               20 in 76 s\nrequests           252815, 3326 a second\n\
                    sectors compared   5484428\n\
                    server's memory    697 MiB at most\n  its growth       101 % at the end, 140 % at most\n\
                    lost               0\nhung               1\n";
        let held = |said: &str| {
            let rows = rows(said).expect("a table");
            rows.iter().map(|row| row.holds).take(3).collect::<Vec<_>>()
        };
        assert_eq!(held(said), [Some(true), Some(false), Some(true)]);
        assert_eq!(held(&said.replace("101", "111"))[2], Some(false));
        assert!(super::rows("nothing").is_err());
    }
}
