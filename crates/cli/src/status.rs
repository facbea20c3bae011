//! `tandem status`: how is a running server doing?

mod draining;
mod pairs;
mod replacing;
mod rest;

use crate::failure::Failure;
use crate::pool;
use crate::report::table::{self, Table};
use crate::report::{json, unreliable};
use crate::report::{print_json, print_text};
use anyhow::anyhow;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use tandem_block::Duration;
use tandem_live::control;
use tandem_live::status::{
    Drive, Hits, Latency, Promised, ReadBack, Spent, StagedLatency, Status, Stream, Tiers,
};

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
    let mut status = control::ask_for_status(&socket).map_err(|why| silent(&socket, &why))?;
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
fn count_slow_writes(status: &mut Status) {
    let slow = status.controllers.iter().flatten().map(|one| one.user_slow_writes).sum();
    let to = &status.latencies.write_to;
    status.user_slow_writes = Some(slow);
    status.user_slow_writes_per_million =
        Some(json::per_million(slow, to.ssd.count + to.hdd_log.count));
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

/// What the configuration calls a drive.
pub fn path(status: &Status, device: usize) -> &str {
    status.pool.devices.get(device).map_or("-", |known| &known.path)
}

fn describe(status: &Status) -> String {
    let pool = &status.pool;
    let mut out = format!("pool {}, process {}\n", pool.name, pool.process);
    for way in &pool.ways_in {
        out.push_str(&format!("  {way}\n"));
    }
    out.push_str(&format!("\n{}\n{}", drives(status), volumes(status)));
    out.push_str(&crate::snapshot::describe(&status.snapshots));
    out.push_str(&pairs::describe(status));
    out.push_str(&replacing::describe(status));
    out.push_str(&draining::describe(status));
    out.push_str(&streams(&status.streams));
    out.push_str(&buffered_writes(status));
    out.push_str(&rest::describe(status));
    out.push_str(&today(status));
    out.push_str(&format!("\n{}", latencies(status)));
    out.push_str(&format!(
        "\nSSD space: {} free of {}; {} only there, {} also on a hard drive. HDD log: {}.\n",
        table::bytes(status.ssd_free_bytes),
        table::bytes(status.ssd_bytes),
        table::bytes(status.ssd_dirty_bytes),
        table::bytes(status.ssd_clean_bytes),
        table::bytes(status.hdd_log_bytes),
    ));
    out.push_str(&memory(status));
    out.push_str(&format!(
        "Redirected: {} writes, {}. Fragments {}, merge reads {}, commits {}, checkpoints {}. \
         Writes that waited for these: {}.\n",
        table::count(status.redirected.requests),
        table::bytes(status.redirected.bytes),
        table::count(status.fragments),
        table::count(status.merge_reads),
        table::count(status.commits),
        table::count(status.checkpoints),
        table::count(status.writes_paced),
    ));
    out.push_str(&read_back(&status.read_back));
    out.push_str(&status.tiers.as_ref().map(tiers).unwrap_or_default());
    out.push_str(&format!(
        "Acknowledged, and lost in a power cut now: {} in buffers of hard drives (at most {} so far), \
         {} that the journal does not name yet. A flush makes all of it durable.\n",
        table::bytes(status.bytes_at_risk),
        table::bytes(status.bytes_at_risk_max),
        table::bytes(status.uncommitted_bytes),
    ));
    out.push_str(&metadata_replica(status));
    out.push_str(&pairs::rest(status));
    for line in worries(status) {
        out.push_str(&format!("! {line}\n"));
    }
    out
}

/// Reads of redirected data, if there were any: from RAM, or from a hard drive.
fn read_back(of: &ReadBack) -> String {
    let (ram, hdd_log) = (&of.reads.ram, &of.reads.hdd_log);
    if ram.tail.reads + ram.cache.reads + hdd_log.reads == 0 {
        return String::new();
    }
    let told = |hits: &Hits| format!("{} ({})", table::count(hits.reads), table::bytes(hits.bytes));
    format!(
        "Reads of redirected data: {} from tails in RAM, {} from the read-back cache (it keeps {} of \
         {}), {} from hard drives' logs. Promoted {} blocks, forgone {}.\n",
        told(&ram.tail),
        told(&ram.cache),
        table::bytes(of.cache_bytes),
        table::bytes(of.cache_bytes_max),
        told(hdd_log),
        table::count(of.reads.promoted_blocks),
        table::count(of.reads.promotions_forgone),
    )
}

/// What tiers and caches hold, and what moved for them.
fn tiers(of: &Tiers) -> String {
    let (ssd, hdd) = (of.reads.ssd_bytes, of.reads.hdd_bytes);
    let share = (u128::from(ssd) * 1_000_000).checked_div(u128::from(ssd) + u128::from(hdd));
    let hits = share.map_or_else(
        || "nothing was read yet".to_owned(),
        |ppm| format!("{} of what was read was there", table::percent(ppm as u64)),
    );
    format!(
        "Tiers hold {} of {} on SSDs; {hits}. {} came, {} went home, {} left as copies; {} writes found \
         no room, {} requests were sieved{}.\n",
        table::bytes(of.held_bytes),
        table::bytes(of.room_bytes),
        table::bytes(of.came_bytes),
        table::bytes(of.demoted_bytes),
        table::bytes(of.dropped_bytes),
        table::count(of.refused.bypassed_writes),
        table::count(of.refused.sieved_requests),
        match of.refused.not_worth_moving {
            0 => String::new(),
            extents => format!(", {} extents not worth their moves", table::count(extents)),
        },
    )
}

/// Where the metadata is a second time, in a pool with one SSD.
fn metadata_replica(status: &Status) -> String {
    let Some(home) = &status.metadata_replica else { return String::new() };
    let path = path(status, home.device);
    let behind = match home.behind_ns {
        0 => "level".to_owned(),
        ns => format!(
            "{} behind, {} journal units{}",
            Duration::from_ns(ns),
            table::count(home.journal_units_behind),
            if home.awaits_snapshot { ", to be caught up by a snapshot" } else { "" },
        ),
    };
    let bound = Duration::from_ns(home.lag_max_ns);
    format!("Metadata replica: {path}, {behind} (bound {bound}).\n")
}

fn drives(status: &Status) -> String {
    let mut table = Table::new(&[
        "<device", "<role", "size", "written", "users", "tail", "home", "padding", "read",
        "flushes", "errors", "volatile",
    ]);
    for (index, counters) in status.devices.iter().enumerate() {
        let known = status.pool.devices.get(index);
        let held = status.live.emulated.iter().find(|one| one.device == index);
        table.row(vec![
            pairs::label(status, index).unwrap_or_else(|| path(status, index).to_owned()),
            known.map_or_else(|| "-".to_owned(), role),
            table::bytes(known.map_or(0, |known| known.bytes)),
            table::bytes(counters.written_bytes),
            table::bytes(counters.user_bytes),
            table::bytes(counters.tail_bytes),
            table::bytes(counters.home_bytes),
            table::bytes(counters.padding_bytes),
            table::bytes(counters.read_bytes),
            table::count(counters.flushes),
            table::count(counters.errors),
            held.map_or_else(|| "-".to_owned(), |one| table::bytes(one.volatile_bytes)),
        ]);
    }
    table.render()
}

/// What a drive is for, or that it is none.
fn role(known: &Drive) -> String {
    match (known.empty, known.gone) {
        (true, _) => format!("{} (empty)", known.role),
        (_, true) => "gone".to_owned(),
        _ => known.role.clone(),
    }
}

/// How steering to hard drives fares: the figure of merit, and why it stopped where it did.
fn buffered_writes(status: &Status) -> String {
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
    for (index, one) in status.controllers.iter().enumerate() {
        let Some(one) = one else { continue };
        let unreliable = &one.unreliable;
        let reasons = match unreliable::reasons(unreliable.by_reason.clone().into_iter()) {
            none if none.is_empty() => "never".to_owned(),
            reasons => reasons,
        };
        table.row(vec![
            path(status, index).to_owned(),
            one.state.clone(),
            table::count(one.user_slow_writes),
            table::count(one.surprises),
            table::count(one.suspensions),
            reasons,
            Duration::from_ns(unreliable.ns).to_string(),
            table::count(one.measurements),
            table::count(one.budget_stops),
        ]);
    }
    if status.controllers.iter().all(Option::is_none) {
        return String::new();
    }
    format!(
        "\n{}Users' writes that met a slow write: {}, {:.0} of a million.\n",
        table.render(),
        table::count(status.user_slow_writes.unwrap_or(0)),
        status.user_slow_writes_per_million.unwrap_or(0.0),
    )
}

/// What each drive did today beside what it may; drives of which nothing is known are left out.
fn today(status: &Status) -> String {
    let mut table =
        Table::new(&["<device", "today", "rated", "share", "padding", "of", "redirected", "of"]);
    let mut any = false;
    for (index, one) in status.today.iter().enumerate() {
        let bound = |value: Option<u64>| value.map_or("-".to_owned(), table::bytes);
        let used = |of: Option<Spent>| bound(of.map(|of| of.used_bytes));
        let budget = |of: Option<Spent>| bound(of.and_then(|of| of.budget_bytes));
        let rated = [one.rated_bytes, one.ssd_write_budget_bytes].into_iter().flatten().min();
        any |= rated.is_some() || one.padding.is_some();
        let share = rated
            .map(|rated| u128::from(one.used_bytes) * 1_000_000 / u128::from(rated.max(1)))
            .map(|ppm| table::percent(u64::try_from(ppm).unwrap_or(u64::MAX)));
        table.row(vec![
            path(status, index).to_owned(),
            table::bytes(one.used_bytes),
            bound(rated),
            share.unwrap_or_else(|| "-".to_owned()),
            used(one.padding),
            budget(one.padding),
            used(one.log),
            budget(one.log),
        ]);
    }
    if any { format!("\n{}", table.render()) } else { String::new() }
}

/// Budgets that are used up, and what that means.
fn spent(status: &Status) -> Vec<String> {
    let left = Duration::from_ns(status.day_left_ns);
    let mut spent = Vec::new();
    for (index, one) in status.today.iter().enumerate() {
        let path = path(status, index);
        let known = status.pool.devices.get(index);
        let used_up = |part: Option<Spent>| {
            part.is_some_and(|part| part.budget_bytes.is_some_and(|may| part.used_bytes >= may))
        };
        if one.rating_is_spent && known.is_some_and(|known| known.role == "hdd") {
            spent.push(format!(
                "{path} has done what it is rated for today: nothing is padded for {left}"
            ));
        } else if one.rating_is_spent {
            let rating = known.and_then(|known| known.rating.as_deref()).unwrap_or("-");
            spent
                .push(format!("{path} was written to today as much as it is rated for ({rating})"));
        }
        if one.ssd_writes_are_spent {
            spent.push(format!(
                "{path} has spent its write_budget: for {left} all that hard drives take without a \
                 slow write is redirected, where a policy redirects at all"
            ));
        }
        match one.padding.and_then(|padding| padding.budget_bytes) {
            Some(0) => spent.push(format!(
                "{path} is never padded (padding_budget of 0): it drains by itself, and is not \
                 measured anew once it is unreliable"
            )),
            Some(_) if used_up(one.padding) => spent.push(format!(
                "{path} has spent its padding_budget: it drains by itself for {left}"
            )),
            _ => {}
        }
        if used_up(one.log) {
            spent.push(format!(
                "{path} has spent its log_budget: nothing is redirected to it for {left}"
            ));
        }
    }
    spent
}

/// What requests took since the server started, and of that the wait before the first drive command.
fn latencies(status: &Status) -> String {
    let mut table =
        Table::new(&["<requests", "count", "mean", "p50", "p99", "p99.9", "max", "waiting"]);
    let of = &status.latencies;
    for (name, of) in [("reads", &of.read), ("writes", &of.write), ("flushes", &of.flush)] {
        let StagedLatency { total, stages } = of;
        let time = |of: &Latency, ns: fn(&Latency) -> u64| match total.count {
            0 => "-".to_owned(),
            _ => Duration::from_ns(ns(of)).to_string(),
        };
        table.row(vec![
            name.to_owned(),
            table::count(total.count),
            time(total, |of| of.mean_ns),
            time(total, |of| of.p50_ns),
            time(total, |of| of.p99_ns),
            time(total, |of| of.p999_ns),
            time(total, |of| of.max_ns),
            time(&stages.wait, |of| of.mean_ns),
        ]);
    }
    table.render()
}

/// What each stream was promised, what it was given in its last window, and how often that was enough.
pub fn streams(streams: &[Stream]) -> String {
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
    let requests = |count| format!("{}/s", table::count(count));
    let bytes = |bytes| format!("{}/s", table::bytes(bytes));
    for one in streams {
        let last = one.delivered;
        let (promised, delivered) = match one.promised {
            Some(Promised::Requests { requests_per_s }) => {
                (Some(requests(requests_per_s)), last.map(|last| requests(last.requests_per_s)))
            }
            Some(Promised::Bytes { bytes_per_s }) => {
                (Some(bytes(bytes_per_s)), last.map(|last| bytes(last.bytes_per_s)))
            }
            None => (None, last.map(|last| requests(last.requests_per_s))),
        };
        let verdict = match last.filter(|_| promised.is_some()) {
            Some(last) if !last.met => "MISSED",
            Some(last) if last.was_idle => "met (asked for less)",
            Some(_) => "met",
            None => "-",
        };
        let met = match one.windows {
            1.. if promised.is_some() => {
                format!("{} of {}", table::count(one.windows_met), table::count(one.windows))
            }
            _ => "-".to_owned(),
        };
        table.row(vec![
            one.name.clone(),
            promised.unwrap_or_else(|| "-".to_owned()),
            Duration::from_ns(one.window_ns).to_string(),
            delivered.unwrap_or_else(|| "-".to_owned()),
            verdict.to_owned(),
            met,
            table::count(one.requests),
            table::bytes(one.bytes),
        ]);
    }
    if streams.is_empty() { String::new() } else { format!("\n{}", table.render()) }
}

fn volumes(status: &Status) -> String {
    let mut table = Table::new(&["<volume", "size", "<durability", "<steering"]);
    for volume in &status.pool.volumes {
        let steering = match &volume.why_not_steered {
            Some(why) => format!("{}, idle: {why}", volume.steer),
            None => volume.steer.clone(),
        };
        let size =
            if volume.files { "files".into() } else { table::bytes(volume.bytes.unwrap_or(0)) };
        table.row(vec![volume.name.clone(), size, volume.durability.clone(), steering]);
    }
    table.render()
}

/// Drives that do not serve as they should, and what to do about each.
fn out_of_service(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, one) in status.service.iter().enumerate() {
        let path = path(status, index);
        let why = one.why.as_deref().unwrap_or("of an older version of the server");
        match one.state.as_str() {
            "slow" => lines.push(format!(
                "{path} is slow: a command has waited for more than half of its deadline; look at \
                 the kernel's log and at the drive's health (smartctl -a)"
            )),
            "read_only" => lines.push(format!(
                "{path} failed ({why}): nothing is written to it, what lies there is read, and it \
                 is tried again from time to time. If that goes on, replace it: tandem replace"
            )),
            "out" => lines.push(format!(
                "{path} is out of service ({why}): what only it holds cannot be read. Look at the \
                 drive and its cables, then start the server again, or bring another drive"
            )),
            _ => {}
        }
    }
    lines
}

/// What somebody should know, or do something about.
fn worries(status: &Status) -> Vec<String> {
    let mut worries = Vec::new();
    let ssds = status.pool.devices.iter().filter(|device| device.role == "ssd").count();
    if ssds == 1 {
        worries.push(format!(
            "one SSD: if it dies, the {} that only it holds are lost",
            table::bytes(status.ssd_dirty_bytes)
        ));
    }
    worries.extend(out_of_service(status));
    for (index, one) in status.controllers.iter().enumerate() {
        if let Some(why) = one.as_ref().and_then(|one| one.unreliable.now.as_ref()) {
            worries.push(format!(
                "{} is not what it is believed to be ({}): nothing is steered to it until it has \
                 been measured anew",
                path(status, index),
                why.replace('_', " "),
            ));
        }
    }
    for (index, one) in status.envelopes.iter().enumerate() {
        if let Some(one) = one.filter(|one| one.is_outside) {
            worries.push(format!(
                "{} does less than its cost profile's worst: what is promised on it is not \
                 guaranteed any more (in {} of {} windows of 10 s); profile it anew",
                path(status, index),
                one.outside,
                one.windows,
            ));
        }
    }
    worries.extend(pairs::worries(status));
    worries.extend(spent(status));
    if status.map_memory_bytes > status.metadata_memory_max_bytes {
        worries.push(
            "where blocks lie takes more memory than metadata in [memory] allows: it is served on, \
             with a small cache of checksums"
                .to_owned(),
        );
    }
    let (wrong, repaired) = (status.checksum_errors, status.repaired_reads);
    if wrong > 0 {
        worries.push(format!(
            "{wrong} reads met a wrong checksum, {repaired} were answered by another copy: a drive \
             or a cable corrupts data"
        ));
    }
    worries
}

/// What the metadata takes in memory.
fn memory(status: &Status) -> String {
    format!(
        "Memory of the metadata: {} for where blocks lie, {} for checksums, of {}; {} pages of checksums \
         read.\n",
        table::bytes(status.map_memory_bytes),
        table::bytes(status.metadata_cache_bytes),
        table::bytes(status.metadata_memory_max_bytes),
        table::count(status.metadata_page_reads),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(document: Value) -> Status {
        serde_json::from_value(document).unwrap()
    }

    fn busy_and_worried() -> Value {
        json!({
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
            "map_memory_bytes": 3 << 20, "metadata_memory_max_bytes": 2 << 20,
            "metadata_cache_bytes": 1 << 20, "metadata_page_reads": 4_321,
            "ssd_dirty_bytes": 8192, "checksum_errors": 3, "repaired_reads": 2,
            "service": [{ "state": "out", "why": "device 0 did not answer" }],
        })
    }

    #[test]
    fn a_status_is_told_in_words() {
        let mut status = read(busy_and_worried());
        count_slow_writes(&mut status);
        assert_eq!(status.user_slow_writes_per_million, Some(1_500.0));
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
            "3.0 MiB for where blocks lie, 1.0 MiB for checksums, of 2.0 MiB; 4,321 pages",
            "more memory than metadata in [memory] allows",
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
        assert!(describe(&read(json!({ "a": "word" }))).contains("pool "));
    }

    #[test]
    fn promises_are_told_and_so_is_what_became_of_them() {
        let status = read(json!({
            "pool": { "devices": [{ "path": "ssd.img", "role": "ssd" }] },
            "streams": [
                { "name": "gold", "promised": { "requests_per_s": 250 }, "window_ns": 10_000_000_000u64,
                  "delivered": { "requests_per_s": 231, "bytes_per_s": 9, "was_idle": false, "met": false },
                  "windows": 20, "windows_met": 19, "requests": 5000, "bytes": 1 << 20 },
                { "name": "tin", "promised": { "bytes_per_s": 2048 }, "window_ns": 1_000_000_000,
                  "delivered": { "requests_per_s": 1, "bytes_per_s": 1024, "was_idle": true, "met": true },
                  "windows": 1, "windows_met": 1, "requests": 1, "bytes": 512 }],
            "envelopes": [{ "windows": 9, "outside": 4, "is_outside": true }],
        }));
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
