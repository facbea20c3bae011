//! What does a replay look like to people?

use super::Replayed;
use crate::report::json::{self, amplification};
use crate::report::names::{durability_name, placement_name};
use crate::report::table::{Table, bytes, capacity, count, percent, wrap};
use crate::report::unreliable;
use crate::report::workload;
use crate::status;
use std::fmt::Write as _;
use tandem_block::Duration;
use tandem_engine::Role;
use tandem_engine::stats::DeviceStats;
use tandem_engine::stats::recorder::Latencies;
use tandem_live::status::Stream;
use tandem_sim::replay::{DeviceResult, GaugeSummary, RunResult};

const COLUMNS: usize = 100;
/// As in `Recorder::read_from`.
const PLACES: [&str; 5] = ["RAM", "SSD", "SSD copy", "HDD log", "HDD home"];

/// Everything about one trace.
pub fn render(replayed: &Replayed) -> String {
    let mut text = String::new();
    header(replayed, &mut text);
    text.push('\n');
    text.push_str(&latencies(replayed).render());
    text.push('\n');
    text.push_str(&drives(replayed).render());
    let reads = replayed.runs.iter().any(|(_, result, _)| result.latencies.read.total.count() > 0);
    if reads {
        text.push('\n');
        text.push_str(&reads_by_place(replayed).render());
    }
    if replayed.runs.iter().any(|(_, result, _)| result.tier_room.is_some()) {
        text.push('\n');
        text.push_str(&tiers(replayed).render());
    }
    for (label, result, _) in &replayed.runs {
        if !result.streams.is_empty() {
            let told = Stream::all(&result.streams);
            let _ = write!(text, "\n{label}\n{}", status::streams(&told));
        }
    }
    unreliability(replayed, &mut text);
    doubts(replayed, &mut text);
    text.push('\n');
    text
}

/// Where steering to a hard drive stopped, where padding did, and which drives work too much.
fn unreliability(replayed: &Replayed, text: &mut String) {
    for (label, result, _) in &replayed.runs {
        for device in &result.devices {
            let beyond = workload::beyond(device, result.elapsed_ns);
            for line in unreliable::lines(&device.steering).into_iter().chain(beyond) {
                let line = wrap(&format!("{label}, {}: {line}", device.name), COLUMNS, 4);
                let _ = writeln!(text, "\n  {line}");
            }
        }
    }
}

/// What was replayed on what, in lines.
pub fn facts(replayed: &Replayed) -> Vec<String> {
    let mut text = String::new();
    header(replayed, &mut text);
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn header(replayed: &Replayed, text: &mut String) {
    let (survey, found) = (&replayed.loaded.survey, &replayed.loaded.found);
    let _ = writeln!(
        text,
        "{} ({}): {} requests, {} reads of {}, {} writes of {}, over {} in {}",
        replayed.loaded.name,
        found.formats.join(", "),
        count(survey.requests),
        count(survey.reads),
        bytes(survey.read_bytes),
        count(survey.writes),
        bytes(survey.write_bytes),
        bytes(survey.footprint_bytes()),
        Duration::from_ns(survey.duration_ns),
    );
    let oddities = [
        (survey.flushes, "flushes"),
        (survey.discards, "discards"),
        (survey.warm_up_requests, "of all are the warm-up, which is not measured"),
        (found.bad_lines, "bad lines skipped"),
        (found.clamped, "times went back and were clamped"),
        (found.rounded, "requests grown to whole sectors"),
    ];
    let oddities: Vec<String> = oddities
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(number)))
        .collect();
    if !oddities.is_empty() {
        let _ = writeln!(text, "  {}", oddities.join(", "));
    }
    let drive = |drive: &tandem_sim::replay::PlannedDrive| {
        let scaled = if drive.is_scaled { ", scaled to fit the trace" } else { "" };
        format!("{} ({}{scaled})", drive.name, capacity(drive.model_bytes))
    };
    let drives: Vec<String> = replayed.plan.drives.iter().map(drive).collect();
    let config = &replayed.config;
    let pace = match config.closed_loop {
        Some(outstanding) => format!("closed loop of {outstanding}"),
        None => format!("speedup {}", replayed.speedup),
    };
    let _ = writeln!(
        text,
        "  {}; {} placement, SSD {}, data on {}, {}, {pace}, seed {}",
        drives.join(" + "),
        placement_name(config.placement),
        config.ssd_state,
        config.resident.name(),
        durability_name(config.durability),
        config.seed
    );
}

fn latencies(replayed: &Replayed) -> Table {
    let five = ["mean", "p50", "p99", "p99.9", "max"];
    let headings: Vec<&str> = std::iter::once("<policy").chain(five).chain(five).collect();
    let mut table =
        Table::new(&headings).groups(&[("", 1), ("write latency", 5), ("read latency", 5)]);
    for (label, result, _) in &replayed.runs {
        let mut row = vec![label.clone()];
        row.extend(five_figures(&result.latencies.write.total));
        row.extend(five_figures(&result.latencies.read.total));
        table.row(row);
    }
    table
}

fn five_figures(of: &Latencies) -> [String; 5] {
    if of.count() == 0 {
        return ["-"; 5].map(str::to_owned);
    }
    let percentile = |part| of.percentile_ns(part);
    [of.mean_ns(), percentile(5_000), percentile(9_900), percentile(9_990), of.max_ns()]
        .map(|ns| Duration::from_ns(ns).to_string())
}

fn drives(replayed: &Replayed) -> Table {
    let headings = [
        "<policy",
        "written",
        "busy",
        "queue p99",
        "max",
        "WA",
        "redirected",
        "user",
        "padding",
        "home+GC",
        "busy",
        "slow",
        "per M",
    ];
    let mut table = Table::new(&headings).groups(&[("", 1), ("SSD", 5), ("HDD", 7)]);
    for (label, result, _) in &replayed.runs {
        table.row(drive_row(label, result, replayed));
    }
    table
}

fn drive_row(label: &str, result: &RunResult, replayed: &Replayed) -> Vec<String> {
    let of_role = |role: Role| -> Vec<&DeviceResult> {
        result.devices.iter().filter(|device| device.role == role).collect()
    };
    let (ssds, hdds) = (of_role(Role::Ssd), of_role(Role::Hdd));
    let gauge = |devices: &[&DeviceResult]| {
        let mut sum = GaugeSummary::default();
        devices.iter().for_each(|device| sum.add(&device.gauge));
        sum
    };
    let sum = |devices: &[&DeviceResult], part: fn(&DeviceStats) -> u64| {
        bytes(devices.iter().map(|device| part(&device.stats)).sum())
    };
    let (ssd, hdd) = (gauge(&ssds), gauge(&hdds));
    let written = replayed.loaded.survey.write_bytes;
    let share = u128::from(result.stats.redirected.1) * 1_000_000 / u128::from(written.max(1));
    vec![
        label.to_owned(),
        sum(&ssds, DeviceStats::written_bytes),
        percent(ssd.gross_ppm()),
        ssd.depth_percentile(99).to_string(),
        ssd.depth_max().to_string(),
        amplification(&ssds).map_or("-".into(), |wa| format!("{wa:.2}")),
        percent(u64::try_from(share).unwrap_or(u64::MAX)),
        sum(&hdds, |s| s.user_bytes),
        sum(&hdds, |s| s.padding_bytes),
        sum(&hdds, |s| s.home_bytes + s.gc_bytes),
        percent(hdd.gross_ppm()),
        count(result.steering.user_slow_writes),
        slow_per_million(result),
    ]
}

/// Users' writes that met a slow write, of a million of all writes of users.
fn slow_per_million(result: &RunResult) -> String {
    format!("{:.0}", json::slow_per_million(&result.steering, &result.latencies))
}

fn reads_by_place(replayed: &Replayed) -> Table {
    let headings: Vec<&str> =
        std::iter::once("<policy").chain(["reads", "mean", "p99"].repeat(PLACES.len())).collect();
    let used: Vec<usize> = (0..PLACES.len())
        .filter(|&place| {
            replayed.runs.iter().any(|(_, result, _)| result.latencies.read_from[place].count() > 0)
        })
        .collect();
    let mut groups = vec![("", 1)];
    groups.extend(used.iter().map(|&place| (PLACES[place], 3)));
    let mut table = Table::new(&headings[..1 + 3 * used.len()]).groups(&groups);
    for (label, result, _) in &replayed.runs {
        let mut row = vec![label.clone()];
        for &place in &used {
            let of = &result.latencies.read_from[place];
            row.push(count(of.count()));
            let time =
                |ns| if of.count() == 0 { "-".into() } else { Duration::from_ns(ns).to_string() };
            row.push(time(of.mean_ns()));
            row.push(time(of.percentile_ns(9_900)));
        }
        table.row(row);
    }
    table
}

/// What each tier held, and what moved.
fn tiers(replayed: &Replayed) -> Table {
    let headings = [
        "<policy",
        "hits",
        "mean",
        "p99",
        "SSD written",
        "room",
        "held",
        "came",
        "went home",
        "dropped",
        "bypassed",
        "sieved",
    ];
    let mut table = Table::new(&headings).groups(&[
        ("", 1),
        ("reads", 3),
        ("", 1),
        ("share of the SSDs", 2),
        ("moved", 3),
        ("requests", 2),
    ]);
    let of = |blocks: u64| bytes(blocks * tandem_block::BLOCK_BYTES);
    for (label, result, _) in &replayed.runs {
        let tier = &result.stats.tiers;
        let read = &result.latencies.read.total;
        let time = |ns: u64| match read.count() {
            0 => "-".into(),
            _ => Duration::from_ns(ns).to_string(),
        };
        let ssds = result.devices.iter().filter(|device| device.role == Role::Ssd);
        let written: u64 = ssds.map(|device| device.stats.written_bytes()).sum();
        let extents = |part: fn((u32, u32, u64)) -> u64| {
            result.tier_room.map_or("-".into(), |room| bytes(part(room)))
        };
        table.row(vec![
            label.clone(),
            json::hit_share(result).map_or("-".into(), percent),
            time(read.mean_ns()),
            time(read.percentile_ns(9_900)),
            bytes(written),
            extents(|(_, room, size)| u64::from(room) * size),
            extents(|(held, _, size)| u64::from(held) * size),
            of(tier.came_blocks),
            of(tier.demoted_blocks),
            of(tier.dropped_blocks),
            count(tier.bypassed),
            count(tier.sieved),
        ]);
    }
    table
}

/// A doubt is told once, with the policies that it is about unless these are all.
fn doubts(replayed: &Replayed, text: &mut String) {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for (label, _, doubts) in &replayed.runs {
        for doubt in doubts {
            match told.iter_mut().find(|(known, _)| known == doubt) {
                Some((_, labels)) => labels.push(label),
                None => told.push((doubt, vec![label])),
            }
        }
    }
    if told.is_empty() {
        return;
    }
    text.push('\n');
    for (doubt, labels) in told {
        let whom = if labels.len() == replayed.runs.len() {
            String::new()
        } else {
            format!("{}: ", labels.join(", "))
        };
        let _ = writeln!(text, "  doubt: {}", wrap(&format!("{whom}{doubt}"), COLUMNS, 9));
    }
}
