//! Do more hard drives help?
//!
//! Source: acceptance of write steering, line 4.

use super::Options;
use super::line3_drift::{Figures, study};
use crate::row::Row;
use anyhow::{Context as _, Result};

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let table = study("fleet")?;
    let mut rows = Vec::new();
    for speed in ["1x", "2x"] {
        let fleets: Vec<&Figures> = ["1", "2", "4"]
            .iter()
            .map(|hdds| table.get(&format!("{hdds}, {speed}")).context("a row is missing"))
            .collect::<Result<_>>()?;
        for (what, of) in [
            ("user slow-hits per million", slow as fn(&Figures) -> u64),
            ("p99.9 in us", |figures: &Figures| figures.write_p999_us),
        ] {
            let found: Vec<u64> = fleets.iter().map(|figures| of(figures)).collect();
            rows.push(Row::new(
                format!("pangu-b at {speed}: {what} falls from 1 to 2 to 4 hard drives"),
                format!("{found:?}"),
                found.is_sorted_by(|one, next| next < one),
            ));
        }
    }
    Ok(rows)
}

fn slow(figures: &Figures) -> u64 {
    figures.slow_per_million
}
