//! Do the oracles of the live arm see what they must, and does a short run of it hold?

#[path = "support/live/mod.rs"]
mod arm;

use arm::lives::{self, Outcome, Plan};
use arm::pools::{Behind, Kind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a run keeps is removed with this folder.
fn place() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn plan(place: &tempfile::TempDir) -> Plan {
    Plan {
        tandem: PathBuf::from(env!("CARGO_BIN_EXE_tandem")),
        place: place.path().to_owned(),
        run: Duration::from_secs(3),
        ignore_flushes: false,
        rolls_back: false,
        kind: None,
        behind: None,
        files: Some(false),
        long_life: None,
    }
}

/// Drives that ignore flushes lose what was promised, and that must be seen.
#[test]
fn drives_that_ignore_flushes_are_found_out() {
    let place = place();
    let plan = Plan {
        ignore_flushes: true,
        kind: Some(Kind::Plain),
        behind: Some(Behind::Emulated),
        ..plan(&place)
    };
    let (mut all, began) = (Outcome::default(), Instant::now());
    for seed in 0..3 {
        all.add(lives::run(&plan, seed).unwrap());
        if !all.reports.is_empty() {
            break;
        }
    }
    println!("{}", arm::table::table(&all, began.elapsed()));
    let report = all.reports.first().expect("something is lost");
    // most often the pool is not opened any more: it sees itself that its metadata lags
    let is_told = report.contains("cannot be served") || report.contains("possible are");
    assert!(is_told, "{report}");
    for want in ["LOST seed", "serve --ignore-flushes", "--arm live --seed"] {
        assert!(report.contains(want), "{want}: {report}");
    }
}

/// Drives that are all put back to an earlier moment fit each other, so that every start goes well. Only who
/// knows what was flushed sees it.
#[test]
fn flushed_writes_that_a_start_does_not_miss_are_found_out() {
    let (place, run) = (place(), Duration::from_secs(60));
    let plan = Plan { rolls_back: true, kind: Some(Kind::Plain), run, ..plan(&place) };
    for behind in [Behind::Files, Behind::Emulated] {
        let outcome = lives::run(&Plan { behind: Some(behind), ..plan.clone() }, 1).unwrap();
        let report = outcome.reports.first().expect("something is lost");
        assert!(report.contains("possible are"), "{report}");
        assert_eq!(outcome.lives, 3, "it is seen at once");
    }
}
