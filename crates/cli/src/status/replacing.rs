//! How far is a drive that is being replaced?

use super::{bytes, list, number, text};
use crate::config::bay;
use crate::report::table;
use serde_json::Value;

/// One line, if a drive is being replaced or was in this life of the server.
pub fn describe(status: &Value) -> String {
    let how = &status["replacing"];
    if !how.is_object() {
        return String::new();
    }
    let device = number(how, "device") as usize;
    let drives = list(&status["pool"], "devices");
    let name = drives.get(device).map_or("-", |drive| text(drive, "path"));
    let joins = how["joins"] == true;
    if let (true, Some(ended)) = (joins, how["ended"].as_str()) {
        return format!("\nAdding a drive as device {device}, {name}: {ended}.\n");
    }
    if let Some(ended) = how["ended"].as_str() {
        return format!("\nReplacing device {device}, now {name}: {ended}.\n");
    }
    let seconds = number(how, "ns") / 1_000_000_000;
    let copied = number(how, "copied_bytes").saturating_sub(number(how, "resumed_bytes"));
    let left = number(how, "total_bytes").saturating_sub(number(how, "copied_bytes"));
    let rate = copied / seconds.max(1);
    let rest = if rate == 0 { "-".to_owned() } else { format!("{} s", left.div_ceil(rate)) };
    if joins {
        let (stage, copied) = (text(how, "stage"), bytes(how, "copied_bytes"));
        let total = bytes(how, "total_bytes");
        return format!(
            "\nAdding a drive in {}: {stage}, {copied} of {total} of metadata copied.\n",
            bay::told(name)
        );
    }
    format!(
        "\nReplacing {name}: {}, {} of {} copied, {} a second, {rest} left.\n",
        text(how, "stage"),
        bytes(how, "copied_bytes"),
        bytes(how, "total_bytes"),
        table::bytes(rate),
    )
}
