//! `tandem synth`: how does a synthetic workload become a trace?

use crate::failure::Failure;
use anyhow::Context as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use tandem_traces::{synth, transform, write};

/// Write a synthetic workload as a trace (MSR CSV).
///
/// `tandem formats` lists the workloads and their settings, such as zipf:reads=10%,size=4KiB.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Which one, with settings after a colon
    #[arg(value_name = "NAME[:SETTING=VALUE,...]")]
    name: String,
    /// Where to write it; stdout if not given
    #[arg(long, value_name = "F")]
    out: Option<PathBuf>,
    /// Seeds it: the same seed makes the same workload on every machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Requests at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Does it.
///
/// # Errors
/// An unknown workload or setting, or trouble with the file.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.name.strip_prefix("synth:").unwrap_or(&arguments.name);
    let arrivals = synth::build(name, arguments.seed).map_err(Failure::usage)?;
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let arrivals = transform::limit(arrivals.map(Ok::<_, std::convert::Infallible>), limit)
        .map(|arrival| arrival.unwrap_or_else(|never| match never {}));
    match &arguments.out {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            write::write_msr(arrivals, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let name = || path.display().to_string();
            let file = File::create(path).with_context(name)?;
            let mut out = BufWriter::new(file);
            let count = write::write_msr(arrivals, &mut out).with_context(name)?;
            out.flush().with_context(name)?;
            crate::stderr::note(format_args!("{}: {count} requests", name()));
        }
    }
    Ok(())
}
