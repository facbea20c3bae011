//! How are the pairs of a server doing, and what should somebody know of them?
//!
//! Source: requirements I13 to I18. What a person asks first: do both drives live, do both have
//! everything, and if not, how much is missing and what is to be done.

use super::path;
use crate::report::table::{self, Table};
use tandem_block::Duration;
use tandem_live::status::{Pair, Status};

/// The paths of both legs, as one device.
pub(super) fn label(status: &Status, device: usize) -> Option<String> {
    let pair = status.pairs.iter().find(|pair| pair.drives[0] == device)?;
    Some(pair.drives.map(|drive| path(status, drive)).join(" + "))
}

/// A row for each leg.
pub(super) fn describe(status: &Status) -> String {
    let mut table = Table::new(&[
        "<pair",
        "<state",
        "<does",
        "reads",
        "lacks",
        "<changes",
        "writes held",
        "in RAM",
        "of",
    ]);
    let pairs = &status.pairs;
    for pair in pairs {
        for half in 0..2 {
            let mut row = vec![
                path(status, pair.drives[half]).to_owned(),
                state(pair, half).to_owned(),
                does(pair, half).to_owned(),
                table::count(pair.reads_by_drive[half]),
                table::bytes(pair.behind_bytes[half]),
            ];
            row.extend(match half {
                0 => [
                    table::count(pair.turns),
                    table::count(pair.held),
                    table::bytes(pair.cache_bytes),
                    table::bytes(pair.cache_bytes_bound),
                ],
                _ => std::array::from_fn(|_| String::new()),
            });
            table.row(row);
        }
    }
    if pairs.is_empty() {
        return String::new();
    }
    let journals: String = pairs.iter().filter_map(|pair| journal(status, pair)).collect();
    format!("\n{}{journals}", table.render())
}

/// The third drive of a pair, and how full it is.
fn journal(status: &Status, pair: &Pair) -> Option<String> {
    let journal = pair.journal.as_ref()?;
    let path = path(status, journal.drive);
    if !journal.alive {
        return Some(format!("The journal {path} is DEAD.\n"));
    }
    Some(format!(
        "The journal {path} holds {} of {}; {} flushes.\n",
        table::bytes(journal.used_bytes),
        table::bytes(journal.ring_bytes),
        table::count(journal.flushes),
    ))
}

fn state(pair: &Pair, half: usize) -> &'static str {
    match (pair.alive[half], pair.behind_bytes[half]) {
        (false, _) => "DEAD",
        (true, 0) => "whole",
        (true, _) => "being copied to",
    }
}

fn does(pair: &Pair, half: usize) -> &'static str {
    match (pair.alive[half], pair.writes == half, pair.reads == half) {
        (false, ..) => "-",
        (true, true, true) => "reads and writes",
        (true, true, false) => "writes",
        (true, false, true) => "reads",
        (true, false, false) => "waits",
    }
}

/// What is not as it should be.
pub(super) fn worries(status: &Status) -> Vec<String> {
    let mut worries = Vec::new();
    for pair in &status.pairs {
        let legs = pair.drives.map(|drive| path(status, drive));
        for half in 0..2 {
            let (this, other) = (legs[half], legs[1 - half]);
            if !pair.alive[half] {
                worries.push(format!(
                    "{this} is out of service: {other} serves alone, and if it dies too, what only \
                     the pair holds is lost; put a new drive in its place and start with --new-leg \
                     {this}"
                ));
            } else if pair.behind_bytes[half] > 0 {
                worries.push(format!(
                    "{this} lacks {} that only {other} holds: it is being copied, {} so far",
                    table::bytes(pair.behind_bytes[half]),
                    table::bytes(pair.resynced_bytes),
                ));
            }
        }
        if let Some(journal) = pair.journal.as_ref().filter(|journal| !journal.alive) {
            let path = path(status, journal.drive);
            worries.push(format!(
                "the journal {path} is out of service: a power cut together with the death of a \
                 leg would lose flushed data; put a new drive in its place and start with \
                 --new-leg {path}"
            ));
        }
        if pair.exposed {
            worries.push(
                "a drive of a pair died, and what it had is being written to the other one: until \
                 that is over a power cut loses flushed data"
                    .to_owned(),
            );
        }
        if pair.unreadable_blocks > 0 {
            worries.push(format!(
                "{} blocks of a pair could not be read while they were copied to the other drive: \
                 reads of them fail until they are written again",
                table::count(pair.unreadable_blocks)
            ));
        }
        if pair.repaired_reads > 0 {
            worries.push(format!(
                "{} reads of a pair failed or were wrong on one drive, and were answered by the \
                 other one",
                table::count(pair.repaired_reads)
            ));
        }
    }
    worries
}

/// How long nothing is written before the next change of roles, where that is not zero.
pub(super) fn rest(status: &Status) -> String {
    let of = |pair: &Pair| {
        format!(
            "Before reads and writes of {} change places nothing is written for {}; a leg writes {} in \
             a second.\n",
            pair.drives.map(|drive| path(status, drive)).join(" + "),
            Duration::from_ns(pair.idle_ns),
            table::bytes(pair.write_bytes_per_s),
        )
    };
    status.pairs.iter().filter(|pair| pair.idle_ns > 0).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn status(pair: Value) -> Status {
        let device = |path: &str| json!({ "path": path, "role": "ssd" });
        let document = json!({
            "pool": { "devices": [device("a.img"), device("disk.img"), device("b.img")] },
            "pairs": [pair],
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_whole_pair_is_a_row_for_each_leg_and_no_worry() {
        let status = status(json!({
            "drives": [0, 2], "alive": [true, true], "writes": 1, "reads": 0, "behind_bytes": [0, 0],
            "reads_by_drive": [1234, 5], "turns": 7, "held": 3, "cache_bytes": 1 << 20,
            "cache_bytes_bound": 1 << 30, "idle_ns": 1_000_000_000, "write_bytes_per_s": 1 << 27,
        }));
        let told = describe(&status);
        for want in ["a.img", "b.img", "whole", "1,234", "1.0 MiB", "1.0 GiB"] {
            assert!(told.contains(want), "{want}: {told}");
        }
        assert_eq!(label(&status, 0).as_deref(), Some("a.img + b.img"));
        assert_eq!(label(&status, 1), None, "a hard drive");
        assert!(worries(&status).is_empty());
        let said = rest(&status);
        assert!(said.contains("nothing is written for 1.0 s"), "{said}");
        assert!(said.contains("writes 128 MiB in a second"), "{said}");
    }

    #[test]
    fn a_dead_leg_and_one_that_is_copied_to_are_worries() {
        let dead = status(json!({
            "drives": [0, 2], "alive": [false, true], "writes": 1, "reads": 1, "exposed": true,
            "repaired_reads": 4,
        }));
        assert!(describe(&dead).contains("reads and writes"));
        let told = worries(&dead).join("\n");
        for want in [
            "a.img is out of service: b.img serves alone",
            "--new-leg a.img",
            "power cut",
            "4 reads of a pair",
        ] {
            assert!(told.contains(want), "{want}: {told}");
        }
        let copied = status(json!({
            "drives": [0, 2], "alive": [true, true], "writes": 0, "reads": 0,
            "behind_bytes": [0, 3 << 20], "resynced_bytes": 1 << 20, "unreadable_blocks": 2,
        }));
        assert!(describe(&copied).contains("being copied to"));
        let told = worries(&copied).join("\n");
        assert!(
            told.contains("b.img lacks 3.0 MiB that only a.img holds: it is being copied, 1.0 MiB")
        );
        assert!(told.contains("2 blocks of a pair could not be read"), "{told}");
    }
}
