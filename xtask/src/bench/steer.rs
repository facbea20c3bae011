//! What does one steering decision cost?
//!
//! Source: acceptance of write steering, "Speed and memory": each policy's under 50 ns. The engine's example
//! `steer_decide`, whose medians are of five rounds.

use super::{example, output};
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

const ALLOWED_NS: u64 = 50;

/// Policy and ns of each row of the example's table.
fn costs(text: &str) -> Result<Vec<(String, u64)>> {
    let rows = text.lines().skip(1).map(|line| {
        let mut columns = line.split_whitespace();
        let (Some(policy), Some(ns)) = (columns.next(), columns.next()) else {
            bail!("the row {line:?} is cut");
        };
        let ns = ns.parse().with_context(|| format!("{policy}: {ns:?} is no number"))?;
        Ok((policy.to_owned(), ns))
    });
    rows.collect()
}

/// Measures all policies.
///
/// # Errors
/// If the example cannot run, or prints no table.
pub fn rows() -> Result<Vec<Row>> {
    let text = output(&example("tandem-engine", "steer_decide")?, &[])?;
    eprintln!("{text}");
    let costs = costs(&text)?;
    if costs.is_empty() {
        bail!("steer_decide printed no policies");
    }
    let row = |(policy, ns): (String, u64)| {
        let what = format!("steering, a decision of {policy}: under {ALLOWED_NS} ns");
        Row::new(what, format!("{ns} ns"), ns < ALLOWED_NS)
    };
    Ok(costs.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = "policy  decide ns told ns redirected %\nect 31 59 38\n";
        assert_eq!(costs(table).unwrap(), [("ect".to_owned(), 31)]);
        assert!(costs("policy\nect\n").is_err());
        assert!(costs("policy\nect fast\n").is_err());
    }
}
