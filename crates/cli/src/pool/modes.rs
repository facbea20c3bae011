//! Permissions of the files that drives are. Who else may read and write what users store there?

use crate::config::{PoolConfig, PoolDevice};
use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use tandem_live::Backing;

/// Mode of a file that is made for a drive: its owner reads and writes it, nobody else.
const MODE: u32 = 0o600;
/// Whoever is neither the owner nor of the file's group may read, write or execute it.
const OTHERS: u32 = 0o007;

/// To make the file of a drive, for writing.
pub fn to_make() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE);
    options
}

/// Names in the log each drive that is a file which others may open. Block devices have the modes that
/// the system gives them.
pub fn warn_of_open(pool: &PoolConfig) {
    for device in pool.drives().filter(|device| !device.gone) {
        if let Some(mode) = open_to_others(device) {
            let label = device.label();
            tracing::warn!(
                "{label} has mode {mode:04o}: other users of this machine may open it, past every access \
                 control of the server; `chmod o= {label}` closes it"
            );
        }
    }
}

fn open_to_others(device: &PoolDevice) -> Option<u32> {
    let (Backing::Path(path) | Backing::Snapshot(path)) = &device.backing else { return None };
    let meta = std::fs::metadata(path).ok()?;
    let mode = meta.permissions().mode() & 0o7777;
    (meta.is_file() && mode & OTHERS != 0).then_some(mode)
}
