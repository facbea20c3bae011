//! Does a good client keep half of its rate beside every attack, and does the server's memory stay bounded?
//!
//! Source: acceptance of trust, line 5. The attacks are those of `crates/cli/examples/attacks.rs`, which
//! prints a row for each: what a good client does alone and beside it, what became resident, and what may.

use super::Options;
use crate::row::Row;
use crate::{cargo, packages};
use anyhow::{Context as _, Result, bail};
use std::process::{Command, Stdio};

/// What the good client must keep of its rate.
const RATIO: f64 = 0.5;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    let attacks = cargo::build(&["-p", "tandem", "--example", "attacks", "--release"], "attacks")?;
    let output = Command::new(attacks)
        .arg("--tandem")
        .arg(tandem)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting the attacks")?;
    let said = String::from_utf8_lossy(&output.stdout);
    // a head of two lines
    let rows: Vec<Row> = said.lines().skip(2).map(row).collect::<Result<_>>()?;
    if rows.is_empty() {
        bail!("no attack was tried: {}", output.status);
    }
    Ok(rows)
}

/// A line of the table of attacks.
fn row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let &[name, alone, beside, ratio, peak, bound, wrong] = &cells[..] else {
        bail!("{line:?} is no row of an attack");
    };
    let wanted =
        format!("beside the attack {name}: {RATIO}x of the rate, at most {bound} MiB more");
    let number = |text: &str| text.parse::<f64>().ok();
    let measured = format!("{beside}/s of {alone}/s: {ratio}x; {peak} MiB; wrong: {wrong}");
    let holds = match (number(ratio), number(peak), number(bound)) {
        (Some(ratio), Some(peak), Some(bound)) => ratio >= RATIO && peak <= bound && wrong == "-",
        _ => false,
    };
    Ok(Row::new(wanted, measured, holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_if_rate_and_memory_do_and_nothing_else_is_wrong() {
        for (line, want) in [
            ("| silent | 100 | 50 | 0.50 | 14 | 320 | - |", true),
            ("| silent | 100 | 49 | 0.49 | 14 | 320 | - |", false),
            ("| silent | 100 | 90 | 0.90 | 321 | 320 | - |", false),
            ("| silent | 100 | 90 | 0.90 | 14 | 320 | not served |", false),
            ("| files | - | - | - | - | - | skipped: no FUSE |", false),
        ] {
            assert_eq!(row(line).unwrap().holds, Some(want), "{line}");
        }
        assert!(row("| x | 1 |").is_err());
    }
}
