//! How are the pairs of a server doing, and what should somebody know of them?
//!
//! Source: requirements I13 to I18. What a person asks first: do both drives live, do both have
//! everything, and if not, how much is missing and what is to be done.

use super::{bytes, list, number, text};
use crate::report::table::{self, Table};
use serde_json::Value;
use tandem_block::Duration;

/// The paths of both legs, as one device.
pub(super) fn label(status: &Value, device: usize) -> Option<String> {
    let known = |pair: &&Value| pair["drives"][0] == device;
    let pair = list(status, "pairs").iter().find(known)?;
    Some(format!("{} + {}", leg(status, pair, 0), leg(status, pair, 1)))
}

fn leg<'a>(status: &'a Value, pair: &Value, half: usize) -> &'a str {
    let drive = pair["drives"][half].as_u64().and_then(|drive| usize::try_from(drive).ok());
    let known = drive.and_then(|drive| list(&status["pool"], "devices").get(drive));
    text(known.unwrap_or(&Value::Null), "path")
}

fn lives(pair: &Value, half: usize) -> bool {
    pair["alive"][half] != false
}

fn behind_bytes(pair: &Value, half: usize) -> u64 {
    pair["behind_bytes"][half].as_u64().unwrap_or(0)
}

/// A row for each leg.
pub(super) fn describe(status: &Value) -> String {
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
    let pairs = list(status, "pairs");
    for pair in pairs {
        for half in 0..2 {
            let reads = pair["reads_by_drive"][half].as_u64().unwrap_or(0);
            let mut row = vec![
                leg(status, pair, half).to_owned(),
                state(pair, half).to_owned(),
                does(pair, half).to_owned(),
                table::count(reads),
                table::bytes(behind_bytes(pair, half)),
            ];
            row.extend(match half {
                0 => [
                    table::count(number(pair, "turns")),
                    table::count(number(pair, "held")),
                    bytes(pair, "cache_bytes"),
                    bytes(pair, "cache_bytes_bound"),
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
fn journal(status: &Value, pair: &Value) -> Option<String> {
    let journal = pair.get("journal").filter(|journal| !journal.is_null())?;
    let path = journal_path(status, journal);
    if journal["alive"] == false {
        return Some(format!("The journal {path} is DEAD.\n"));
    }
    Some(format!(
        "The journal {path} holds {} of {}; {} flushes.\n",
        bytes(journal, "used_bytes"),
        bytes(journal, "ring_bytes"),
        table::count(number(journal, "flushes")),
    ))
}

fn journal_path<'a>(status: &'a Value, journal: &Value) -> &'a str {
    let drive = journal["drive"].as_u64().and_then(|drive| usize::try_from(drive).ok());
    let known = drive.and_then(|drive| list(&status["pool"], "devices").get(drive));
    text(known.unwrap_or(&Value::Null), "path")
}

fn state(pair: &Value, half: usize) -> &'static str {
    match (lives(pair, half), behind_bytes(pair, half)) {
        (false, _) => "DEAD",
        (true, 0) => "whole",
        (true, _) => "being copied to",
    }
}

fn does(pair: &Value, half: usize) -> &'static str {
    let is = |role: &str| pair[role] == half;
    match (lives(pair, half), is("writes"), is("reads")) {
        (false, ..) => "-",
        (true, true, true) => "reads and writes",
        (true, true, false) => "writes",
        (true, false, true) => "reads",
        (true, false, false) => "waits",
    }
}

/// What is not as it should be.
pub(super) fn worries(status: &Value) -> Vec<String> {
    let mut worries = Vec::new();
    for pair in list(status, "pairs") {
        for half in 0..2 {
            let (this, other) = (leg(status, pair, half), leg(status, pair, 1 - half));
            if !lives(pair, half) {
                worries.push(format!(
                    "{this} is out of service: {other} serves alone, and if it dies too, what only \
                     the pair holds is lost; put a new drive in its place and start with --new-leg \
                     {this}"
                ));
            } else if behind_bytes(pair, half) > 0 {
                worries.push(format!(
                    "{this} lacks {} that only {other} holds: it is being copied, {} so far",
                    table::bytes(behind_bytes(pair, half)),
                    bytes(pair, "resynced_bytes"),
                ));
            }
        }
        let journal = &pair["journal"];
        if journal["alive"] == false {
            let path = journal_path(status, journal);
            worries.push(format!(
                "the journal {path} is out of service: a power cut together with the death of a \
                 leg would lose flushed data; put a new drive in its place and start with \
                 --new-leg {path}"
            ));
        }
        if pair["exposed"] == true {
            worries.push(
                "a drive of a pair died, and what it had is being written to the other one: until \
                 that is over a power cut loses flushed data"
                    .to_owned(),
            );
        }
        let repaired = number(pair, "repaired_reads");
        if repaired > 0 {
            worries.push(format!(
                "{} reads of a pair failed or were wrong on one drive, and were answered by the \
                 other one",
                table::count(repaired)
            ));
        }
    }
    worries
}

/// How long nothing is written before the next change of roles, where that is not zero.
pub(super) fn rest(status: &Value) -> String {
    let idle = |pair: &Value| Duration::from_ns(number(pair, "idle_ns"));
    let of = |pair: &Value| {
        format!(
            "Before reads and writes of {} + {} change places nothing is written for {}; a leg \
             writes {} in a second.\n",
            leg(status, pair, 0),
            leg(status, pair, 1),
            idle(pair),
            bytes(pair, "write_bytes_per_s"),
        )
    };
    list(status, "pairs").iter().filter(|pair| idle(pair).ns > 0).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(pair: Value) -> Value {
        let device = |path: &str| json!({ "path": path, "role": "ssd" });
        json!({
            "pool": { "devices": [device("a.img"), device("disk.img"), device("b.img")] },
            "pairs": [pair],
        })
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
            "behind_bytes": [0, 3 << 20], "resynced_bytes": 1 << 20,
        }));
        assert!(describe(&copied).contains("being copied to"));
        let told = worries(&copied).join("\n");
        assert!(
            told.contains("b.img lacks 3.0 MiB that only a.img holds: it is being copied, 1.0 MiB")
        );
    }
}
