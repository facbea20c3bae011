//! How is a measured profile told, to people and to programs?

use super::Outcome;
use crate::failure::Failure;
use crate::report::table::Table;
use crate::report::{print_json, print_text};
use serde_json::{Value, json};
use tandem_block::Duration;
use tandem_sim::measure::{Deviation, Findings};
use tandem_sim::profiles::{DriveProfile, ProfileKind};

/// The document of `--json`.
pub fn document(result: &Outcome, profile: &DriveProfile) -> Value {
    let identity = &result.identity;
    let found = match &result.findings {
        Findings::Hdd(found) => {
            let steps = found.staircase.iter().flat_map(|staircase| &staircase.steps);
            let steps: Vec<Value> = steps
                .map(|step| {
                    json!({
                        "write_bytes": step.write_bytes,
                        "fast_ns": step.fast_ns,
                        "mid_ns": step.mid_ns,
                        "slow_ns": step.slow_ns,
                        "fast_bytes": step.fast_bytes,
                        "mid_bytes": step.mid_bytes,
                        "fast_writes": step.fast_writes,
                        "mid_writes": step.mid_writes,
                        "fast_jitter_ppm": step.fast_jitter_ppm,
                        "mid_jitter_ppm": step.mid_jitter_ppm,
                    })
                })
                .collect();
            json!({
                "kind": "hdd",
                "staircase": match &profile.kind {
                    ProfileKind::NoStaircase(why) => json!({ "none": why }),
                    _ => json!({ "steps": steps }),
                },
                "drain": found.drain.map(|drain| json!({
                    "law": drain.law.name(),
                    "idle_ns": drain.idle_ns,
                    "bytes_per_s": drain.bytes_per_s,
                })),
                "flush": found.flush.map(|flush| json!({
                    "base_ns": flush.base_ns,
                    "bytes_per_s": flush.bytes_per_s,
                })),
                "turn_ns": found.mechanics.turn_ns,
                "seeks": found.mechanics.seeks,
                "regions": found.mechanics.regions,
            })
        }
        Findings::Ssd(costs) => json!({
            "kind": "ssd",
            "write_latency": costs.write_latency,
            "sustained_latency": costs.sustained_latency,
            "read_latency": costs.read_latency,
            "burst_bytes_per_s": costs.burst_bytes_per_s,
            "sustained_bytes_per_s": costs.sustained_bytes_per_s,
            "steady_bytes_per_s": costs.steady_bytes_per_s,
            "slc_bytes": costs.slc_bytes,
            "gc_event_ns": costs.gc_event_ns,
            "gc_share_ppm": costs.gc_share_ppm,
            "flush_ns": costs.flush_ns,
        }),
    };
    json!({
        "name": result.name,
        "model": identity.model,
        "serial": identity.serial,
        "bytes": identity.size.0,
        "measured": identity.measured,
        "written_bytes": result.written_bytes,
        "missing": result.missing,
        "found": found,
    })
}

/// What the budget was not enough for, and what to do about it; nothing if it was enough.
pub fn missing(result: &Outcome) -> String {
    if result.missing.is_empty() {
        return String::new();
    }
    let written = crate::report::table::bytes(result.written_bytes);
    let missing = result.missing.join(", ");
    format!(
        "note: the budget is used up ({written} written), so this was not measured: {missing}; give \
         more with --budget\n"
    )
}

/// A line or two, when the profile itself went into a file.
pub fn summary(result: &Outcome) -> String {
    match &result.findings {
        Findings::Hdd(found) => match found.profile() {
            Err(why) => format!("{}: no exploitable staircase here, because {why}\n", result.name),
            Ok(profile) => {
                let mut table =
                    Table::new(&["writes of", "fast", "mid", "slow", "W fast", "W mid"]);
                for step in found.staircase.iter().flat_map(|staircase| &staircase.steps) {
                    let time = |ns| Duration::from_ns(ns).to_string();
                    let bytes = crate::report::table::bytes;
                    table.row(vec![
                        bytes(step.write_bytes),
                        time(step.fast_ns),
                        time(step.mid_ns),
                        time(step.slow_ns),
                        bytes(step.fast_bytes),
                        bytes(step.mid_bytes),
                    ]);
                }
                let law = profile.detail.drain_law.map_or("unknown", |law| law.name());
                format!("{}: empties {law}\n{}", result.name, table.render())
            }
        },
        Findings::Ssd(costs) => {
            let slc = match costs.slc_bytes {
                Some(bytes) => format!("an SLC cache of {}", crate::report::table::bytes(bytes)),
                None => "no SLC cache found".to_owned(),
            };
            format!("{}: {slc}\n", result.name)
        }
    }
}

/// How far each figure is from the truth.
///
/// # Errors
/// What stdout answers.
pub fn deviations(name: &str, rows: &[Deviation], json: bool) -> Result<(), Failure> {
    if json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "figure": row.figure,
                    "unit": row.unit,
                    "spec": row.spec,
                    "measured": row.measured,
                    "off_ppm": row.off_ppm(),
                })
            })
            .collect();
        return print_json(&json!({ "name": name, "figures": rows }));
    }
    let mut table = Table::new(&["<drive", "<figure", "spec", "measured", "<unit", "off by"]);
    for row in rows {
        let off = row.off_ppm();
        table.row(vec![
            name.to_owned(),
            row.figure.clone(),
            row.spec.to_string(),
            row.measured.map_or("not found".to_owned(), |measured| measured.to_string()),
            row.unit.to_owned(),
            format!("{}.{:02} %", off / 10_000, off / 100 % 100),
        ]);
    }
    print_text(&table.render())
}
