//! How far is a drive that shall leave?

use super::path;
use crate::report::table;
use tandem_live::status::Status;

/// One line, if a drive is being drained or removed, or was in this life of the server.
pub fn describe(status: &Status) -> String {
    let Some(how) = &status.draining else { return String::new() };
    let (device, name) = (how.device, path(status, how.device));
    if how.removed == Some(true) && !status.gone.contains(&device) {
        // another drive has its place, and that is told
        return String::new();
    }
    if let Some(ended) = &how.ended {
        return format!("\nDraining device {device}, {name}: {ended}.\n");
    }
    if how.drained {
        return format!("\n{name} is drained: `tandem remove` takes it out of the pool.\n");
    }
    let stuck = match how.unreadable_blocks {
        0 => String::new(),
        count => format!("; {count} blocks cannot be read there, and stay: see `tandem check`"),
    };
    format!(
        "\nDraining {name}: {} moved, {} left of {}{stuck}.\n",
        table::bytes(how.moved_bytes),
        table::bytes(how.left_bytes),
        table::bytes(how.total_bytes),
    )
}
