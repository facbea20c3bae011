//! Do the oracles of the live arm see what they must, and does a short run of it hold?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "support/live/mod.rs"]
mod live;

use live::lives::{self, Plan};
use live::pools::{Behind, Kind};
use std::path::PathBuf;
use std::time::Duration;

fn plan() -> Plan {
    Plan {
        tandem: PathBuf::from(env!("CARGO_BIN_EXE_tandem")),
        place: std::env::temp_dir(),
        run: Duration::from_secs(3),
        ignore_flushes: false,
        kind: None,
        behind: None,
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
    let outcomes = (0..20).map(|seed| lives::run(&plan, seed).unwrap());
    let lost = outcomes.into_iter().find(|outcome| outcome.lost > 0);
    let report = &lost.expect("something is lost").reports[0];
    for want in ["LOST seed", "possible are", "durable by", "--arm live --seed"] {
        assert!(report.contains(want), "{want}: {report}");
    }
}
