//! How does a pool's configuration become opened drives, an engine and an event loop?
//!
//! What `format`, `serve` and `check` share: the same drives are opened and locked in the same
//! order, and what goes wrong is told with the path that it is about and what would help.

pub mod devices;
pub mod explain;
mod lying;
pub mod modes;
pub mod place;
pub mod signature;

use crate::config::PoolConfig;
use crate::failure::Failure;
use anyhow::Context as _;
use std::path::Path;

/// Reads a pool's configuration: one that cannot be read is a failure, one that makes no sense a
/// usage error.
///
/// # Errors
/// As said.
pub fn read(path: &Path) -> Result<PoolConfig, Failure> {
    let meta = std::fs::metadata(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    if meta.is_dir() {
        let text = format!("{} is a folder; name the configuration in it", path.display());
        return Err(Failure::Usage(text));
    }
    Ok(PoolConfig::read(path)?)
}

/// Shows what the drives and sockets have to say, on stderr. `TANDEM_LOG=debug` shows more, and
/// `TANDEM_LOG=warn,tandem_fronts=debug` more of one crate only.
pub fn log_to_stderr() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;
    let wanted = std::env::var("TANDEM_LOG").unwrap_or_else(|_| "info".into());
    let parsed = wanted.parse::<Targets>();
    let targets = match &parsed {
        Ok(targets) => targets.clone(),
        Err(_) => Targets::new().with_default(LevelFilter::INFO),
    };
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(|| crate::stderr::Log);
    let lines = lines.without_time().with_target(false).with_ansi(ansi).with_filter(targets);
    // a second call, as in a test, keeps the first one's log
    let first = tracing_subscriber::registry().with(lines).try_init().is_ok();
    if let (true, Err(error)) = (first, parsed) {
        tracing::warn!("TANDEM_LOG={wanted:?} is not understood ({error}); showing info and above");
    }
}
