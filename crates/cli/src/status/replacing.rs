//! How far is a drive that is being replaced?

use super::path;
use crate::config::bay;
use crate::report::table;
use tandem_live::status::Status;

/// One line, if a drive is being replaced or was in this life of the server.
pub fn describe(status: &Status) -> String {
    let Some(how) = &status.replacing else { return String::new() };
    let (device, name) = (how.device, path(status, how.device));
    let copied = table::bytes(how.copied_bytes);
    let (stage, total) = (&how.stage, table::bytes(how.total_bytes));
    match (&how.ended, how.joins) {
        (Some(ended), true) => {
            format!("\nAdding a drive as device {device}, {name}: {ended}.\n")
        }
        (Some(ended), false) => format!("\nReplacing device {device}, now {name}: {ended}.\n"),
        (None, true) => format!(
            "\nAdding a drive in {}: {stage}, {copied} of {total} of metadata copied.\n",
            bay::told(name)
        ),
        (None, false) => {
            let seconds = how.ns / 1_000_000_000;
            let rate = how.copied_bytes.saturating_sub(how.resumed_bytes) / seconds.max(1);
            let left = how.total_bytes.saturating_sub(how.copied_bytes);
            let rest =
                if rate == 0 { "-".to_owned() } else { format!("{} s", left.div_ceil(rate)) };
            format!(
                "\nReplacing {name}: {stage}, {copied} of {total} copied, {} a second, {rest} left.\n",
                table::bytes(rate),
            )
        }
    }
}
