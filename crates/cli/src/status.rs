//! `tandem status`: how is a running server doing?

mod draining;
mod pairs;
mod replacing;

use crate::failure::Failure;
use crate::pool;
use crate::report::table::{self, Table};
use crate::report::{json, unreliable};
use crate::report::{print_json, print_text};
use anyhow::anyhow;
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use tandem_block::Duration;

/// Ask a running server how it is
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration of the pool that is served, or its control socket
    #[arg(value_name = "CONFIG|SOCKET")]
    place: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// If nobody answers.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let socket = socket(&arguments.place)?;
    let mut status =
        tandem_live::control::ask(&socket, "status").map_err(|why| silent(&socket, &why))?;
    if let Some(why) = status["error"].as_str() {
        return Err(anyhow!("the server at {}: {why}", socket.display()).into());
    }
    count_slow_writes(&mut status);
    if arguments.json {
        return print_json(&status);
    }
    print_text(&describe(&status))
}

/// Why nobody answers at a control socket.
pub fn silent(socket: &Path, why: &std::io::Error) -> anyhow::Error {
    match why.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "no server answers at {}: the pool is not being served (start it with `tandem serve`)",
            socket.display()
        ),
        ErrorKind::TimedOut | ErrorKind::ResourceBusy | ErrorKind::UnexpectedEof => {
            anyhow!("the server at {} does not answer: {why}", socket.display())
        }
        _ => anyhow!("the server at {} does not answer as one: {why}", socket.display()),
    }
}

/// Users' writes that met a slow write of a hard drive: how many, and of a million of all of them.
fn count_slow_writes(status: &mut Value) {
    let controllers = list(status, "controllers");
    let slow: u64 = controllers.iter().map(|one| number(one, "user_slow_writes")).sum();
    let to = &status["latencies"]["write_to"];
    let writes = number(&to["ssd"], "count") + number(&to["hdd_log"], "count");
    if let Some(status) = status.as_object_mut() {
        status.insert("user_slow_writes".into(), slow.into());
        let per_million = json::per_million(slow, writes);
        status.insert("user_slow_writes_per_million".into(), per_million.into());
    }
}

/// The control socket of a pool, or the one that is named.
///
/// # Errors
/// If the configuration cannot be read.
pub fn socket(place: &Path) -> Result<PathBuf, Failure> {
    if std::fs::metadata(place).is_ok_and(|meta| meta.file_type().is_socket()) {
        return Ok(place.to_owned());
    }
    Ok(pool::read(place)?.control_socket(place))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

fn bytes(value: &Value, name: &str) -> String {
    table::bytes(number(value, name))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn describe(status: &Value) -> String {
    let about = &status["pool"];
    let mut out = format!("pool {}, process {}\n", text(about, "name"), number(about, "process"));
    for way in list(about, "ways_in") {
        out.push_str(&format!("  {}\n", way.as_str().unwrap_or_default()));
    }
    out.push_str(&format!("\n{}\n{}", drives(status), volumes(about)));
    out.push_str(&crate::snapshot::describe(status));
    out.push_str(&pairs::describe(status));
    out.push_str(&replacing::describe(status));
    out.push_str(&draining::describe(status));
    out.push_str(&streams(list(status, "streams")));
    out.push_str(&buffered_writes(status));
    out.push_str(&today(status));
    out.push_str(&format!("\n{}", latencies(status)));
    out.push_str(&format!(
        "\nSSD space: {} free of {}; {} only there, {} also on a hard drive. HDD log: {}.\n",
        bytes(status, "ssd_free_bytes"),
        bytes(status, "ssd_bytes"),
        bytes(status, "ssd_dirty_bytes"),
        bytes(status, "ssd_clean_bytes"),
        bytes(status, "hdd_log_bytes"),
    ));
    out.push_str(&format!(
        "Redirected: {} writes, {}. Fragments {}, merge reads {}, commits {}, checkpoints {}.\n",
        table::count(number(&status["redirected"], "requests")),
        bytes(&status["redirected"], "bytes"),
        table::count(number(status, "fragments")),
        table::count(number(status, "merge_reads")),
        table::count(number(status, "commits")),
        table::count(number(status, "checkpoints")),
    ));
    out.push_str(&read_back(status));
    out.push_str(&tiers(status));
    out.push_str(&format!(
        "Acknowledged, and lost in a power cut now: {} in buffers of hard drives (at most {} so far), \
         {} that the journal does not name yet. A flush makes all of it durable.\n",
        bytes(status, "bytes_at_risk"),
        bytes(status, "bytes_at_risk_max"),
        bytes(status, "uncommitted_bytes"),
    ));
    out.push_str(&metadata_replica(status));
    out.push_str(&pairs::rest(status));
    for line in worries(status) {
        out.push_str(&format!("! {line}\n"));
    }
    out
}

/// Reads of redirected data, if there were any: from RAM, or from a hard drive.
fn read_back(status: &Value) -> String {
    let (of, cached) = (&status["read_back"], &status["read_back"]["ram"]);
    let reads = |value: &Value| number(value, "reads");
    let in_ram = reads(&cached["tail"]) + reads(&cached["cache"]);
    if in_ram + reads(&of["hdd_log"]) == 0 {
        return String::new();
    }
    let told = |value: &Value| {
        format!("{} ({})", table::count(reads(value)), table::bytes(number(value, "bytes")))
    };
    format!(
        "Reads of redirected data: {} from tails in RAM, {} from the read-back cache (it keeps {} of \
         {}), {} from hard drives' logs. Promoted {} blocks, forgone {}.\n",
        told(&cached["tail"]),
        told(&cached["cache"]),
        bytes(of, "cache_bytes"),
        bytes(of, "cache_bytes_max"),
        told(&of["hdd_log"]),
        table::count(number(of, "promoted_blocks")),
        table::count(number(of, "promotions_forgone")),
    )
}

/// What tiers and caches hold, and what moved for them.
fn tiers(status: &Value) -> String {
    let of = &status["tiers"];
    if !of.is_object() {
        return String::new();
    }
    let (ssd, hdd) = (number(&of["reads"], "ssd_bytes"), number(&of["reads"], "hdd_bytes"));
    let share = (u128::from(ssd) * 1_000_000).checked_div(u128::from(ssd) + u128::from(hdd));
    let hits = share.map_or_else(
        || "nothing was read yet".to_owned(),
        |ppm| format!("{} of what was read was there", table::percent(ppm as u64)),
    );
    let refused = &of["refused"];
    format!(
        "Tiers hold {} of {} on SSDs; {hits}. {} came, {} went home, {} left as copies; {} writes found \
         no room, {} requests were sieved{}.\n",
        bytes(of, "held_bytes"),
        bytes(of, "room_bytes"),
        bytes(of, "came_bytes"),
        bytes(of, "demoted_bytes"),
        bytes(of, "dropped_bytes"),
        table::count(number(refused, "bypassed_writes")),
        table::count(number(refused, "sieved_requests")),
        match number(refused, "not_worth_moving") {
            0 => String::new(),
            extents => format!(", {} extents not worth their moves", table::count(extents)),
        },
    )
}

/// Where the metadata is a second time, in a pool with one SSD.
fn metadata_replica(status: &Value) -> String {
    let home = &status["metadata_replica"];
    let Some(device) = home["device"].as_u64() else { return String::new() };
    let path = text(&status["pool"]["devices"][device as usize], "path");
    let behind = match number(home, "behind_ns") {
        0 => "level".to_owned(),
        ns => format!(
            "{} behind, {} journal units{}",
            Duration::from_ns(ns),
            table::count(number(home, "journal_units_behind")),
            if home["awaits_snapshot"] == true { ", to be caught up by a snapshot" } else { "" },
        ),
    };
    let bound = Duration::from_ns(number(home, "lag_max_ns"));
    format!("Metadata replica: {path}, {behind} (bound {bound}).\n")
}

fn drives(status: &Value) -> String {
    let about = list(&status["pool"], "devices");
    let mut table = Table::new(&[
        "<device", "<role", "size", "written", "users", "tail", "home", "padding", "read",
        "flushes", "errors", "volatile",
    ]);
    for (index, counters) in list(status, "devices").iter().enumerate() {
        let known = about.get(index).unwrap_or(&Value::Null);
        let emulated = list(&status["live"], "emulated");
        let held = emulated.iter().find(|one| one["device"] == index);
        let path = text(known, "path").to_owned();
        table.row(vec![
            pairs::label(status, index).unwrap_or(path),
            role(known),
            bytes(known, "bytes"),
            bytes(counters, "written_bytes"),
            bytes(counters, "user_bytes"),
            bytes(counters, "tail_bytes"),
            bytes(counters, "home_bytes"),
            bytes(counters, "padding_bytes"),
            bytes(counters, "read_bytes"),
            table::count(number(counters, "flushes")),
            table::count(number(counters, "errors")),
            held.map_or_else(|| "-".into(), |one| bytes(one, "volatile_bytes")),
        ]);
    }
    table.render()
}

/// What a drive is for, or that it is none.
fn role(known: &Value) -> String {
    match (known["empty"] == true, known["gone"] == true) {
        (true, _) => format!("{} (empty)", text(known, "role")),
        (_, true) => "gone".to_owned(),
        _ => text(known, "role").to_owned(),
    }
}

/// How steering to hard drives fares: the figure of merit, and why it stopped where it did.
fn buffered_writes(status: &Value) -> String {
    let about = list(&status["pool"], "devices");
    let controllers = list(status, "controllers").iter().enumerate();
    let mut table = Table::new(&[
        "<hard drive",
        "<state",
        "slow writes",
        "surprises",
        "suspended",
        "<steering stopped",
        "for",
        "measured",
        "padding budget spent",
    ]);
    let mut any = false;
    for (index, one) in controllers.filter(|(_, one)| one.is_object()) {
        any = true;
        let unreliable = &one["unreliable"];
        let reasons = match unreliable::reasons(times(&unreliable["by_reason"])) {
            none if none.is_empty() => "never".to_owned(),
            reasons => reasons,
        };
        table.row(vec![
            text(about.get(index).unwrap_or(&Value::Null), "path").to_owned(),
            text(one, "state").to_owned(),
            table::count(number(one, "user_slow_writes")),
            table::count(number(one, "surprises")),
            table::count(number(one, "suspensions")),
            reasons,
            Duration::from_ns(number(unreliable, "ns")).to_string(),
            table::count(number(one, "measurements")),
            table::count(number(one, "budget_stops")),
        ]);
    }
    if !any {
        return String::new();
    }
    format!(
        "\n{}Users' writes that met a slow write: {}, {:.0} of a million.\n",
        table.render(),
        table::count(number(status, "user_slow_writes")),
        status["user_slow_writes_per_million"].as_f64().unwrap_or(0.0),
    )
}

/// What each drive did today beside what it may; drives of which nothing is known are left out.
fn today(status: &Value) -> String {
    let about = list(&status["pool"], "devices");
    let mut table =
        Table::new(&["<device", "today", "rated", "share", "padding", "of", "redirected", "of"]);
    let mut any = false;
    for (index, one) in list(status, "today").iter().enumerate() {
        let known = about.get(index).unwrap_or(&Value::Null);
        let bound = |value: &Value| value.as_u64().map_or("-".to_owned(), table::bytes);
        let rated = ["rated_bytes", "ssd_write_budget_bytes"];
        let rated = rated.iter().filter_map(|name| one[*name].as_u64()).min();
        any |= rated.is_some() || one["padding"].is_object();
        let share = rated.map(|rated| {
            u128::from(number(one, "used_bytes")) * 1_000_000 / u128::from(rated.max(1))
        });
        table.row(vec![
            text(known, "path").to_owned(),
            bytes(one, "used_bytes"),
            rated.map_or("-".to_owned(), table::bytes),
            share.map_or("-".to_owned(), |ppm| {
                table::percent(u64::try_from(ppm).unwrap_or(u64::MAX))
            }),
            bound(&one["padding"]["used_bytes"]),
            bound(&one["padding"]["budget_bytes"]),
            bound(&one["log"]["used_bytes"]),
            bound(&one["log"]["budget_bytes"]),
        ]);
    }
    if any { format!("\n{}", table.render()) } else { String::new() }
}

/// Budgets that are used up, and what that means.
fn spent(status: &Value) -> Vec<String> {
    let about = list(&status["pool"], "devices");
    let left = Duration::from_ns(number(status, "day_left_ns"));
    let mut spent = Vec::new();
    for (index, one) in list(status, "today").iter().enumerate() {
        let known = about.get(index).unwrap_or(&Value::Null);
        let path = text(known, "path");
        let used_up = |part: &Value| {
            part["budget_bytes"].as_u64().is_some_and(|budget| number(part, "used_bytes") >= budget)
        };
        if one["rating_is_spent"] == true && known["role"] == "hdd" {
            spent.push(format!(
                "{path} has done what it is rated for today: nothing is padded for {left}"
            ));
        } else if one["rating_is_spent"] == true {
            spent.push(format!(
                "{path} was written to today as much as it is rated for ({})",
                text(known, "rating")
            ));
        }
        if one["ssd_writes_are_spent"] == true {
            spent.push(format!(
                "{path} has spent its write_budget: for {left} all that hard drives take without a \
                 slow write is redirected, where a policy redirects at all"
            ));
        }
        if number(&one["padding"], "budget_bytes") > 0 && used_up(&one["padding"]) {
            spent.push(format!(
                "{path} has spent its padding_budget: it drains by itself for {left}"
            ));
        }
        if one["padding"]["budget_bytes"].as_u64() == Some(0) {
            spent.push(format!(
                "{path} is never padded (padding_budget of 0): it drains by itself, and is not \
                 measured anew once it is unreliable"
            ));
        }
        if used_up(&one["log"]) {
            spent.push(format!(
                "{path} has spent its log_budget: nothing is redirected to it for {left}"
            ));
        }
    }
    spent
}

fn times(by_reason: &Value) -> impl Iterator<Item = (String, u64)> + '_ {
    let reasons = by_reason.as_object().into_iter().flatten();
    reasons.map(|(why, times)| (why.clone(), times.as_u64().unwrap_or(0)))
}

/// What requests took since the server started, and of that the wait before the first drive command.
fn latencies(status: &Value) -> String {
    let mut table =
        Table::new(&["<requests", "count", "mean", "p50", "p99", "p99.9", "max", "waiting"]);
    for (name, key) in [("reads", "read"), ("writes", "write"), ("flushes", "flush")] {
        let of = &status["latencies"][key];
        let time = |value: &Value, field: &str| match number(of, "count") {
            0 => "-".to_owned(),
            _ => Duration::from_ns(number(value, field)).to_string(),
        };
        table.row(vec![
            name.to_owned(),
            table::count(number(of, "count")),
            time(of, "mean_ns"),
            time(of, "p50_ns"),
            time(of, "p99_ns"),
            time(of, "p999_ns"),
            time(of, "max_ns"),
            time(&of["stages"]["wait"], "mean_ns"),
        ]);
    }
    table.render()
}

/// What each stream was promised, what it was given in its last window, and how often that was enough.
pub fn streams(streams: &[Value]) -> String {
    let mut table = Table::new(&[
        "<stream",
        "promised",
        "over",
        "delivered",
        "<last window",
        "windows met",
        "requests",
        "bytes",
    ]);
    let rate = |value: &Value, like: &Value| match value["requests_per_s"].as_u64() {
        Some(count) if like["bytes_per_s"].is_null() || like["requests_per_s"].is_u64() => {
            format!("{}/s", table::count(count))
        }
        _ if value["bytes_per_s"].is_u64() => format!("{}/s", bytes(value, "bytes_per_s")),
        _ => "-".to_owned(),
    };
    for one in streams {
        let (promised, last) = (&one["promised"], &one["delivered"]);
        let verdict = match (promised.is_object(), last["met"].as_bool()) {
            (true, Some(false)) => "MISSED",
            (true, Some(true)) if last["was_idle"] == true => "met (asked for less)",
            (true, Some(true)) => "met",
            _ => "-",
        };
        let windows = number(one, "windows");
        table.row(vec![
            text(one, "name").to_owned(),
            rate(promised, promised),
            Duration::from_ns(number(one, "window_ns")).to_string(),
            rate(last, promised),
            verdict.to_owned(),
            match (promised.is_object(), windows) {
                (true, 1..) => {
                    format!(
                        "{} of {}",
                        table::count(number(one, "windows_met")),
                        table::count(windows)
                    )
                }
                _ => "-".to_owned(),
            },
            table::count(number(one, "requests")),
            bytes(one, "bytes"),
        ]);
    }
    if streams.is_empty() { String::new() } else { format!("\n{}", table.render()) }
}

fn volumes(about: &Value) -> String {
    let mut table = Table::new(&["<volume", "size", "<durability", "<steering"]);
    for volume in list(about, "volumes") {
        let steering = match volume["why_not_steered"].as_str() {
            Some(why) => format!("{}, idle: {why}", text(volume, "steer")),
            None => text(volume, "steer").to_owned(),
        };
        let (name, durability) = (text(volume, "name").into(), text(volume, "durability").into());
        let size = if volume["files"] == true { "files".into() } else { bytes(volume, "bytes") };
        table.row(vec![name, size, durability, steering]);
    }
    table.render()
}

/// Drives that do not serve as they should, and what to do about each.
fn out_of_service(status: &Value) -> Vec<String> {
    let about = list(&status["pool"], "devices");
    let told = |(index, one): (usize, &Value)| {
        let path = text(about.get(index).unwrap_or(&Value::Null), "path");
        let why = one["why"].as_str().unwrap_or("of an older version of the server");
        match one["state"].as_str()? {
            "slow" => Some(format!(
                "{path} is slow: a command has waited for more than half of its deadline; look at \
                 the kernel's log and at the drive's health (smartctl -a)"
            )),
            "read_only" => Some(format!(
                "{path} failed ({why}): nothing is written to it, what lies there is read, and it \
                 is tried again from time to time. If that goes on, replace it: tandem replace"
            )),
            "out" => Some(format!(
                "{path} is out of service ({why}): what only it holds cannot be read. Look at the \
                 drive and its cables, then start the server again, or bring another drive"
            )),
            _ => None,
        }
    };
    list(status, "service").iter().enumerate().filter_map(told).collect()
}

/// What somebody should know, or do something about.
fn worries(status: &Value) -> Vec<String> {
    let mut worries = Vec::new();
    let is_ssd = |device: &&Value| device["role"] == "ssd";
    let ssds = list(&status["pool"], "devices").iter().filter(is_ssd).count();
    if ssds == 1 {
        worries.push(format!(
            "one SSD: if it dies, the {} that only it holds are lost",
            bytes(status, "ssd_dirty_bytes")
        ));
    }
    worries.extend(out_of_service(status));
    for (index, one) in list(status, "controllers").iter().enumerate() {
        if let Some(why) = one["unreliable"]["now"].as_str() {
            let path = text(&status["pool"]["devices"][index], "path");
            worries.push(format!(
                "{path} is not what it is believed to be ({}): nothing is steered to it until it has \
                 been measured anew",
                why.replace('_', " "),
            ));
        }
    }
    for (index, one) in list(status, "envelopes").iter().enumerate() {
        if one["is_outside"] == true {
            let path = text(&status["pool"]["devices"][index], "path");
            worries.push(format!(
                "{path} does less than its cost profile's worst: what is promised on it is not \
                 guaranteed any more (in {} of {} windows of 10 s); profile it anew",
                number(one, "outside"),
                number(one, "windows"),
            ));
        }
    }
    worries.extend(pairs::worries(status));
    worries.extend(spent(status));
    let wrong = number(status, "checksum_errors");
    if wrong > 0 {
        let repaired = number(status, "repaired_reads");
        worries.push(format!(
            "{wrong} reads met a wrong checksum, {repaired} were answered by another copy: a drive \
             or a cable corrupts data"
        ));
    }
    worries
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_is_told_in_words() {
        let mut status = json!({
            "pool": {
                "name": "laptop", "process": 7, "ways_in": ["nbd://127.0.0.1:10809/vol0"],
                "devices": [{ "path": "ssd.img", "role": "ssd", "bytes": 1 << 30 }],
                "volumes": [{ "name": "vol0", "bytes": 4096, "steer": "mios-d", "durability": "journaled",
                              "why_not_steered": "no profile" }],
            },
            "devices": [{ "written_bytes": 2048, "flushes": 1234, "errors": 0 }],
            "live": { "emulated": [{ "device": 0, "volatile_bytes": 512 }] },
            "metadata_replica": { "device": 0, "behind_ns": 1_200_000_000, "lag_max_ns": 10_000_000_000u64,
                             "journal_units_behind": 3, "awaits_snapshot": true },
            "day_left_ns": 7_200_000_000_000u64,
            "today": [{ "used_bytes": 3_000_000_000u64, "rated_bytes": 6_000_000_000u64,
                        "ssd_writes_are_spent": true, "rating_is_spent": true,
                        "padding": { "used_bytes": 2048, "budget_bytes": 2048 },
                        "log": { "used_bytes": 4096, "budget_bytes": 4096 } }],
            "controllers": [{ "state": "unreliable", "user_slow_writes": 30, "surprises": 4,
                              "unreliable": { "now": "write_cache_off", "ns": 2_500_000_000u64,
                                              "by_reason": { "stalled": 0, "write_cache_off": 2 } } }, null],
            "latencies": { "write_to": { "ssd": { "count": 15_000 }, "hdd_log": { "count": 5_000 } },
                           "write": { "count": 7, "mean_ns": 1_500_000, "p50_ns": 30_000,
                           "stages": { "wait": { "mean_ns": 250_000 } } } },
            "bytes_at_risk": 5 << 20, "bytes_at_risk_max": 6 << 20, "uncommitted_bytes": 7 << 20,
            "read_back": { "ram": { "tail": { "reads": 11, "bytes": 45_056 },
                                    "cache": { "reads": 12, "bytes": 49_152 } },
                           "hdd_log": { "reads": 2_345, "bytes": 1 << 30 },
                           "cache_bytes": 9 << 20, "cache_bytes_max": 64 << 20,
                           "promoted_blocks": 17, "promotions_forgone": 3 },
            "ssd_dirty_bytes": 8192, "checksum_errors": 3, "repaired_reads": 2,
            "service": [{ "state": "out", "why": "device 0 did not answer" }],
        });
        count_slow_writes(&mut status);
        assert_eq!(status["user_slow_writes_per_million"], 1_500.0);
        let told = describe(&status);
        for want in [
            "pool laptop, process 7",
            "nbd://127.0.0.1",
            "ssd.img",
            "1.0 GiB",
            "2.0 KiB",
            "1,234",
            "512 B",
            "mios-d, idle: no profile",
            "Metadata replica: ssd.img, 1.2 s behind, 3 journal units, to be caught up by a snapshot",
            "(bound 10.0 s)",
            "journaled",
            "1.5 ms",
            "250 us",
            "5.0 MiB in buffers of hard drives (at most 6.0 MiB so far), 7.0 MiB that",
            "2 write cache off",
            "11 (44.0 KiB) from tails in RAM, 12 (48.0 KiB) from the read-back cache (it keeps 9.0 MiB \
             of 64.0 MiB), 2,345 (1.0 GiB) from hard drives' logs. Promoted 17 blocks, forgone 3.",
            "2.5 s",
            "slow write: 30, 1500 of a million",
            "! ssd.img is not what it is believed to be (write cache off)",
            "50.0 %",
            "! ssd.img was written to today as much as it is rated for",
            "! ssd.img has spent its write_budget: for ",
            "! ssd.img has spent its padding_budget",
            "! ssd.img has spent its log_budget: nothing is redirected",
            "! one SSD",
            "8.0 KiB",
            "! ssd.img is out of service (device 0 did not answer)",
            "! 3 reads met",
            "2 were answered",
        ] {
            assert!(told.contains(want), "{want:?} is missing in\n{told}");
        }
        // a server of another version that says less is no reason to fail
        assert!(describe(&json!({})).contains("pool -"));
    }

    #[test]
    fn promises_are_told_and_so_is_what_became_of_them() {
        let status = json!({
            "pool": { "devices": [{ "path": "ssd.img", "role": "ssd" }] },
            "streams": [
                { "name": "gold", "promised": { "requests_per_s": 250 }, "window_ns": 10_000_000_000u64,
                  "delivered": { "requests_per_s": 231, "bytes_per_s": 9, "was_idle": false, "met": false },
                  "windows": 20, "windows_met": 19, "requests": 5000, "bytes": 1 << 20 },
                { "name": "tin", "promised": { "bytes_per_s": 2048 }, "window_ns": 1_000_000_000,
                  "delivered": { "requests_per_s": 1, "bytes_per_s": 1024, "was_idle": true, "met": true },
                  "windows": 1, "windows_met": 1, "requests": 1, "bytes": 512 }],
            "envelopes": [{ "windows": 9, "outside": 4, "is_outside": true }],
        });
        let told = describe(&status);
        for want in [
            "MISSED",
            "19 of 20",
            "250/s",
            "231/s",
            "2.0 KiB/s",
            "met (asked for less)",
            "ssd.img does less than its cost profile's worst",
        ] {
            assert!(told.contains(want), "{want}: {told}");
        }
    }
}
