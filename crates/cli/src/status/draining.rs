//! How far is a drive that shall leave?

use super::{bytes, list, number, text};
use serde_json::Value;

/// One line, if a drive is being drained or removed, or was in this life of the server.
pub fn describe(status: &Value) -> String {
    let how = &status["draining"];
    if !how.is_object() {
        return String::new();
    }
    let device = number(how, "device") as usize;
    let drives = list(&status["pool"], "devices");
    let name = drives.get(device).map_or("-", |drive| text(drive, "path"));
    let is_gone = list(status, "gone").iter().any(|gone| gone.as_u64() == Some(device as u64));
    if how["removed"] == true && !is_gone {
        // another drive has its place, and that is told
        return String::new();
    }
    if let Some(ended) = how["ended"].as_str() {
        return format!("\nDraining device {device}, {name}: {ended}.\n");
    }
    if how["drained"] == true {
        return format!("\n{name} is drained: `tandem remove` takes it out of the pool.\n");
    }
    let stuck = number(how, "unreadable_blocks");
    let stuck = match stuck {
        0 => String::new(),
        count => format!("; {count} blocks cannot be read there, and stay: see `tandem check`"),
    };
    format!(
        "\nDraining {name}: {} moved, {} left of {}{stuck}.\n",
        bytes(how, "moved_bytes"),
        bytes(how, "left_bytes"),
        bytes(how, "total_bytes"),
    )
}
