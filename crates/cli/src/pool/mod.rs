//! How does a pool's configuration become opened drives, an engine and a world?
//!
//! What `format`, `serve` and `check` share: the same drives are opened and locked in the same
//! order, and what goes wrong is told with the path that it is about and what would help.

pub mod devices;
pub mod explain;
mod lying;
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

/// Shows what the drives and sockets have to say, on stderr. `TANDEM_LOG=debug` shows more.
pub fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("TANDEM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // a second call, as in a test, keeps the first one's log
    let _ = log.without_time().with_target(false).with_ansi(ansi).try_init();
}
