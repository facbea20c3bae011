//! Do the oracles of the live arm see what they must, and does a short run of it hold?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "support/live/mod.rs"]
mod live;

use live::lives::{self, Outcome, Plan};
use live::pools::{Behind, Kind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn plan() -> Plan {
    Plan {
        tandem: PathBuf::from(env!("CARGO_BIN_EXE_tandem")),
        place: std::env::temp_dir(),
        run: Duration::from_secs(3),
        ignore_flushes: false,
        kind: None,
        behind: None,
        files: Some(false),
    }
}

/// Drives that ignore flushes lose what was promised, and that must be seen.
#[test]
fn drives_that_ignore_flushes_are_found_out() {
    let plan = Plan {
        ignore_flushes: true,
        kind: Some(Kind::Plain),
        behind: Some(Behind::Emulated),
        ..plan()
    };
    let (mut all, began) = (Outcome::default(), Instant::now());
    for seed in 0..3 {
        all.add(lives::run(&plan, seed).unwrap());
        if !all.reports.is_empty() {
            break;
        }
    }
    println!("{}", live::table::table(&all, began.elapsed()));
    let report = all.reports.first().expect("something is lost");
    // most often the pool is not opened any more: it sees itself that its metadata lags
    let is_told = report.contains("cannot be served") || report.contains("possible are");
    assert!(is_told, "{report}");
    for want in ["LOST seed", "serve --ignore-flushes", "--arm live --seed"] {
        assert!(report.contains(want), "{want}: {report}");
    }
}
