//! `tandem demo`: what does all this do, in under a minute, without root or hardware?
//!
//! Source: design "The command line". Emulated drives are served on a socket and driven through it
//! with a bursty workload, under ssd-first and MIOS, and every block is verified; then the same
//! workload runs in virtual time over the same drives. A table each.

mod live;
mod load;

use crate::failure::Failure;
use crate::report::json::{self, Run};
use crate::report::table::{self, Table};
use crate::report::{print_json, print_text};
use anyhow::Context as _;
use serde::Serialize;
use tandem_block::{DurabilityClass, Duration, GIB};
use tandem_drives::SsdState;
use tandem_drives::spec;
use tandem_engine::stats::recorder::Latencies;
use tandem_engine::{Placement, SteerConfig, TierConfig};
use tandem_sim::profiles;
use tandem_sim::replay::{DriveChoice, ReplayConfig, Resident, RunResult, Survey, plan, replay};

/// What runs under each policy.
pub const POLICIES: [&str; 2] = ["ssd-first", "mios-d"];
/// Capacity of the emulated SSD.
pub const SSD_BYTES: u64 = 8 * GIB;
/// Capacity of the emulated hard drive.
pub const HDD_BYTES: u64 = 16 * GIB;

/// Serves emulated drives and shows what redirection does; then the same in virtual time
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// Keep the folder with the emulated drives, and say where it is
    #[arg(long)]
    keep: bool,
}

#[derive(Serialize)]
struct Document {
    live: Part<serde_json::Value>,
    #[serde(rename = "virtual")]
    simulated: Part<Run>,
}

#[derive(Serialize)]
struct Part<R> {
    runs: Vec<R>,
}

/// Does it.
///
/// # Errors
/// If the folder cannot be made, the socket fails, or a block is not what was written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let arrivals = load::arrivals();
    if !arguments.json {
        print_text(&headline(&arrivals))?;
    }
    let mut live = Vec::new();
    for policy in POLICIES {
        crate::stderr::note(format_args!("live: serving emulated drives under {policy} ..."));
        let result = live::serve_and_load(policy, &arrivals, arguments.keep)
            .with_context(|| format!("the live run under {policy}"))?;
        live.push(result);
    }
    let mut simulated = Vec::new();
    for policy in POLICIES {
        simulated.push(in_virtual_time(policy, &arrivals)?);
    }
    if arguments.json {
        let live_runs =
            POLICIES.iter().zip(&live).map(|(policy, result)| live_json(policy, result));
        let virtual_runs = POLICIES
            .iter()
            .zip(&simulated)
            .map(|(policy, result)| json::run((*policy).to_owned(), result, Vec::new()));
        print_json(&Document {
            live: Part { runs: live_runs.collect::<Result<_, _>>()? },
            simulated: Part { runs: virtual_runs.collect() },
        })?;
        return Ok(());
    }
    print_text(&section("Live, over a socket, every block verified", &live))?;
    print_text(&section("The same workload in virtual time", &simulated))?;
    Ok(())
}

/// A live run has no digest, and no view into the drives' insides or queues.
fn live_json(policy: &str, result: &RunResult) -> Result<serde_json::Value, serde_json::Error> {
    let mut value = serde_json::to_value(json::run(policy.to_owned(), result, Vec::new()))?;
    value["digest"] = serde_json::Value::Null;
    let unseen = [
        "utilization",
        "utilization_net",
        "utilization_gross",
        "queue_depth_p50",
        "queue_depth_p99",
        "queue_depth_max",
        "queue_found_p50",
        "queue_found_p99",
        "queue_found_max",
        "write_amplification",
        "life_years",
    ];
    let blank = |part: &mut serde_json::Value| {
        for name in unseen {
            if let Some(field) = part.get_mut(name) {
                *field = serde_json::Value::Null;
            }
        }
    };
    blank(&mut value["ssd"]);
    blank(&mut value["hdd"]);
    if let Some(devices) = value["devices"].as_array_mut() {
        devices.iter_mut().for_each(blank);
    }
    Ok(value)
}

fn in_virtual_time(policy: &str, arrivals: &[tandem_block::Arrival]) -> Result<RunResult, Failure> {
    let drive = |name: &str, bytes| -> Result<DriveChoice, Failure> {
        Ok(DriveChoice {
            spec: spec::load(name)?,
            profile: profiles::shipped(name),
            size_bytes: Some(bytes),
        })
    };
    let config = ReplayConfig {
        tier: TierConfig::default(),
        volume_tiers: Vec::new(),
        ssds: vec![drive("960evo", SSD_BYTES)?],
        hdds: vec![drive("wd100efax", HDD_BYTES)?],
        steer: SteerConfig::named(policy),
        placement: Placement::Mapped,
        ssd_state: SsdState::Steady,
        resident: Resident::None,
        durability: DurabilityClass::VolatileOk,
        seed: 1,
        closed_loop: None,
        budgets: Default::default(),
        read_back: Default::default(),
        at_home: false,
        timeline: false,
    };
    let mut survey = Survey::default();
    for arrival in arrivals {
        survey.count(arrival);
    }
    let plan = plan(&config, &survey)?;
    Ok(replay(&config, &plan, arrivals.iter().copied())?)
}

fn headline(arrivals: &[tandem_block::Arrival]) -> String {
    let written: u64 = arrivals.iter().map(|a| a.length_bytes).sum();
    let seconds = arrivals.last().map_or(0, |a| a.at.ns / 1_000_000_000 + 1);
    format!(
        "A bursty workload of {} writes, {} in {seconds} s, over a 960 EVO of {} in steady state and a WD100EFAX of {}.\n\n",
        table::count(arrivals.len() as u64),
        table::bytes(written),
        table::bytes(SSD_BYTES),
        table::bytes(HDD_BYTES),
    )
}

fn section(title: &str, results: &[RunResult]) -> String {
    let mut out = Table::new(&[
        "policy",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
        "SSD written",
        "to the log",
        "padding",
        "errors",
    ]);
    for (policy, result) in POLICIES.iter().zip(results) {
        let writes: &Latencies = &result.latencies.write.total;
        let at = |part| Duration::from_ns(writes.percentile_ns(part)).to_string();
        let sum = |of: fn(&tandem_engine::stats::DeviceStats) -> u64, role| {
            let bytes =
                result.devices.iter().filter(|d| d.role == role).map(|d| of(&d.stats)).sum();
            table::bytes(bytes)
        };
        out.row(vec![
            (*policy).to_owned(),
            Duration::from_ns(writes.mean_ns()).to_string(),
            at(5_000),
            at(9_900),
            at(9_990),
            Duration::from_ns(writes.max_ns()).to_string(),
            sum(tandem_engine::stats::DeviceStats::written_bytes, tandem_engine::Role::Ssd),
            sum(|stats| stats.user_bytes, tandem_engine::Role::Hdd),
            sum(|stats| stats.padding_bytes, tandem_engine::Role::Hdd),
            result.latencies.errors.to_string(),
        ]);
    }
    format!("{title} (write latency)\n{}\n", out.render())
}
