//! The deadline of a drive's commands: how long may it leave one without an answer?

use super::file;
use crate::toml_fault::Fault;
use tandem_block::Duration;
use tandem_engine::{DEADLINE, Role};

/// A hard drive may need this long for its own error recovery. Source: makers of server drives give 7 s
/// (SCT ERC); a second more is for the bus.
const HDD_MIN: Duration = Duration::from_s(8);
/// An SSD may collect garbage, or reset its link, for this long (guess).
const SSD_MIN: Duration = Duration::from_s(1);
/// A client's own patience is shorter than this: Linux gives up a SCSI command after 30 s, with a few
/// retries.
const MAX: Duration = Duration::from_s(600);

/// Reads the key of a device of this role.
pub(super) fn check(entry: &file::Device, role: Role) -> Result<Duration, Fault> {
    let Some(value) = &entry.deadline else { return Ok(DEADLINE) };
    let (least, why) = match role {
        Role::Hdd => (HDD_MIN, "a hard drive may need 7 s for its own error recovery"),
        Role::Ssd => (SSD_MIN, "an SSD may be busy with itself for most of a second"),
    };
    let given = value.get_ref();
    let deadline = super::check::time(value)?;
    if deadline < least {
        let text = format!("a deadline of {given} is too short: {why}; write at least \"{least}\"");
        return Err(Fault::at(value, text));
    }
    if deadline > MAX {
        let text = format!(
            "with a deadline of {given} clients would give up long before the drive: write at most \"{MAX}\""
        );
        return Err(Fault::at(value, text));
    }
    Ok(deadline)
}
