//! `tandem profile`: what can be believed of a drive?
//!
//! Source: models §5.2 and §6.4; [BCW §3] for measuring before scheduling. The procedures are the
//! engine's; here it is decided what may be written, and the result is told.

mod costs;
mod named;
mod target;

pub use named::named;
pub use target::serial;
mod told;

use crate::failure::Failure;
use crate::report::html;
use crate::report::{print_json, print_text};
use anyhow::{Context as _, anyhow};
use std::path::PathBuf;
use tandem_block::{Duration, Quantity};
use tandem_drives::spec::{self, Bytes};
use tandem_engine::qos::cost::CostTable;
use tandem_sim::measure::{self, Findings};
use tandem_sim::profiles::{self, DriveProfile, Identity, Measured};

/// Measure a drive and write down what can be believed of it: latencies, the staircase of a hard
/// drive's buffer, the cache and the garbage collection of an SSD.
///
/// A drive is only read unless --destroy is given. A path where there is no file yet may be given:
/// the file is made, written, measured and removed. `profile = "F.toml"` in a pool's configuration
/// then makes the server believe it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tandem profile --spec wd100efax --plot staircase.svg\n  \
    tandem profile /dev/sdX --gentle\n  \
    tandem profile /dev/sdX --destroy --budget 16GiB --out sdX.toml")]
pub struct Arguments {
    /// The block device or file; its data is read, and not written without --destroy
    #[arg(value_name = "DEVICE|FILE", required_unless_present = "spec", conflicts_with = "spec")]
    target: Option<PathBuf>,
    /// Measure a modelled drive in virtual time instead: a known name, or a spec in a .toml file
    #[arg(long, value_name = "NAME|F.toml")]
    spec: Option<String>,
    /// With --spec: say how far each figure is from the spec
    #[arg(long, requires = "spec")]
    compare: bool,
    /// Destroy no data: read, and write only to a file that is made for it. This is the default
    #[arg(long, conflicts_with = "destroy")]
    gentle: bool,
    /// Write to the drive: what it holds is lost
    #[arg(long, requires = "budget")]
    destroy: bool,
    /// Write so many bytes at most
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,
    /// How large to make a file that does not exist yet
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    size: u64,
    /// What it is, where the system does not tell
    #[arg(long, value_name = "hdd|ssd")]
    kind: Option<target::Kind>,
    /// Time it like this modelled drive, as in a pool's configuration
    #[arg(long, value_name = "NAME|F.toml", conflicts_with = "spec")]
    emulate: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Write the profile here; stdout if not given
    #[arg(long, value_name = "F.toml")]
    out: Option<PathBuf>,
    /// Draw the staircase of a hard drive; with --costs what of an SSD can be reserved over which window
    #[arg(long, value_name = "F.svg")]
    plot: Option<PathBuf>,
    /// Measure what requests to an SSD cost over windows of 0.1 to 10 s, so that throughput can be
    /// promised: each kind and size alone. Writes only where writing is allowed, up to --budget
    #[arg(long)]
    costs: bool,
    /// With --costs: write over so many bytes of the drive only. Costs hold for who writes no wider
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "costs")]
    cost_range: Option<u64>,
    /// With --costs: sizes of requests
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size, requires = "costs",
          default_value = "4KiB,64KiB,256KiB")]
    cost_sizes: Vec<u64>,
    /// With --costs: queue depths
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        requires = "costs",
        default_value = "31"
    )]
    cost_depths: Vec<u32>,
    /// With --costs: how long each kind, size and depth is measured
    #[arg(long, value_name = "TIME", value_parser = span, requires = "costs", default_value = "60s")]
    cost_time: u64,
    /// With --costs and --spec: the drive at this capacity, its state is made page by page
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "spec", default_value = "16GB")]
    cost_capacity: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    Ok(Quantity::Bytes.within(text, 1..=u64::MAX)?)
}

fn span(text: &str) -> Result<u64, String> {
    let (least, most) = (Duration::from_s(10), Duration::from_s(3600));
    let ns = Quantity::Time.within(text, least.ns..=most.ns);
    ns.map_err(|why| format!("{why} (10s to 3600s: the longest window is 10s)"))
}

/// A measurement with what it was of.
struct Outcome {
    name: String,
    about: String,
    identity: Identity,
    findings: Findings,
    written_bytes: u64,
    /// What the budget was not enough for.
    missing: Vec<&'static str>,
    /// What requests cost, if that was asked for.
    costs: Option<CostTable>,
}

/// Does it.
///
/// # Errors
/// A drive that cannot be used or may not be written, or trouble with a file.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    crate::pool::log_to_stderr();
    let spinner = crate::replay::pace::bar(None);
    let mut progress = |what: &'static str| spinner.set_message(what);
    if let Some(name) = &arguments.spec {
        let spec = spec::load(name).map_err(Failure::usage)?;
        let (findings, rows) = if arguments.compare {
            let (findings, rows) =
                measure::compared(&spec, &mut progress).map_err(Failure::usage)?;
            (findings, Some(rows))
        } else {
            (measure::measure(&spec, &mut progress).map_err(Failure::usage)?, None)
        };
        let identity = Identity {
            model: spec.name.clone(),
            serial: String::new(),
            size: Bytes(spec.capacity_bytes()),
            measured: today(),
        };
        let costs = if arguments.costs {
            progress("the costs of requests");
            Some(costs::of_spec(&spec, arguments)?)
        } else {
            None
        };
        let (name, about) = (spec.name, format!("{} (modelled)", spec.about));
        let missing = Vec::new();
        let result = Outcome { name, about, identity, findings, written_bytes: 0, missing, costs };
        spinner.finish_and_clear();
        let Some(rows) = rows else { return tell(&result, arguments) };
        if arguments.out.is_some() || arguments.plot.is_some() {
            write_files(&result, arguments)?;
        }
        return told::deviations(&result.name, &rows, arguments.json);
    }
    let result = target::measure(arguments, &mut progress)?;
    spinner.finish_and_clear();
    tell(&result, arguments)
}

/// The day, in UTC.
fn today() -> String {
    Identity::written_day(days_since_1970())
}

/// Days since 1970-01-01, in UTC.
pub fn days_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs() / 86_400)
}

fn tell(result: &Outcome, arguments: &Arguments) -> Result<(), Failure> {
    let (text, profile) = write_files(result, arguments)?;
    crate::stderr::ask(told::missing(result));
    if arguments.json {
        return print_json(&told::document(result, &profile));
    }
    if arguments.out.is_none() {
        return print_text(&text);
    }
    print_text(&told::summary(result))
}

/// The profile and the plot, where they are asked for; and the profile as text and as it is read.
fn write_files(result: &Outcome, arguments: &Arguments) -> Result<(String, DriveProfile), Failure> {
    let measured = Measured {
        name: &result.name,
        about: &result.about,
        identity: &result.identity,
        findings: &result.findings,
        missing: &result.missing,
    };
    let mut text = profiles::text_of(&measured);
    if let Some(costs) = &result.costs {
        text.push_str(&profiles::text_of_costs(costs));
    }
    // what is written must be readable
    let profile = profiles::parse(&text, "the measured profile")
        .map_err(|why| anyhow!("the drive behaves like none that a profile can describe: {why}"))?;
    if let Some(path) = &arguments.plot {
        plot(result, path)?;
    }
    if let Some(path) = &arguments.out {
        std::fs::write(path, &text).with_context(|| path.display().to_string())?;
    }
    Ok((text, profile))
}

fn plot(result: &Outcome, path: &std::path::Path) -> Result<(), Failure> {
    if let Some(table) = &result.costs {
        let svg = html::reservable_svg(table)?;
        std::fs::write(path, svg).with_context(|| path.display().to_string())?;
        return Ok(());
    }
    let Findings::Hdd(found) = &result.findings else {
        let text = "--plot draws the staircase of a hard drive, or with --costs what of an SSD can \
                    be reserved";
        return Err(Failure::usage(text));
    };
    let streams = found.staircase.as_ref().map_or(&[][..], |staircase| &staircase.streams);
    let Some(svg) = html::staircase_svg(streams)? else {
        return Err(Failure::Failed(anyhow!("no write was measured, so there is nothing to draw")));
    };
    std::fs::write(path, svg).with_context(|| path.display().to_string())?;
    Ok(())
}
