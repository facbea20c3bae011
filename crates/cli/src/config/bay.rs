//! Which bays of a pool are empty from the beginning?
//!
//! `path = "bay:4TiB"` in a `[[device]]`: `tandem format` lays the bay out for a drive of that size, and
//! `tandem add` puts one there; then the entry has that drive's path.

use super::check::size;
use super::{PoolDevice, file};
use crate::toml_fault::Fault;
use tandem_engine::Role;
use tandem_engine::format::layout::DEVICE_BYTES_MIN;
use tandem_live::Backing;
use toml::Spanned;

/// What the path of an empty bay begins with.
pub const PREFIX: &str = "bay:";

/// Is this the name of an empty bay, not a drive's path?
pub fn is_bay(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// An empty bay, by what the configuration calls it.
pub fn told(label: &str) -> String {
    match is_bay(label) {
        true => format!("the bay {label}"),
        false => format!("the bay that {label} had"),
    }
}

/// Bytes of the drive that an empty bay is for; `None` if a drive is named.
pub(super) fn bytes(entry: &file::Device) -> Result<Option<u64>, Fault> {
    if let Some(bytes) = entry.path.get_ref().strip_prefix("spare:") {
        let text = format!("\"spare:\" is now called \"{PREFIX}\": write \"{PREFIX}{bytes}\"");
        return Err(Fault::at(&entry.path, text));
    }
    let Some(bytes) = entry.path.get_ref().strip_prefix(PREFIX) else { return Ok(None) };
    if let Some(value) = &entry.size {
        let text = "an empty bay has its size in its path (\"bay:4TiB\"): drop this one";
        return Err(Fault::at(value, text));
    }
    if let Some(gone) = &entry.gone {
        return Err(Fault::at(gone, "an empty bay is not gone, it was never there: drop this key"));
    }
    if let Some(pair) = &entry.pair {
        let text = "an empty bay is for one drive: a pair is there from the format on";
        return Err(Fault::at(&pair.leg, text));
    }
    size(&Spanned::new(entry.path.span(), bytes.to_owned()), DEVICE_BYTES_MIN).map(Some)
}

/// Could every empty bay be filled?
pub(super) fn bays(parsed: &file::File, devices: &[PoolDevice]) -> Result<(), Fault> {
    for (index, bay) in devices.iter().enumerate().filter(|(_, d)| d.bay_bytes.is_some()) {
        let fault = |text: &str| Err(Fault::at(&parsed.device[index].get_ref().path, text));
        if devices.iter().any(|device| matches!(device.backing, Backing::Ram { .. })) {
            return fault("a pool in memory is new at every start: list what it shall have now");
        }
        let is_before =
            |device: &&PoolDevice| device.role == bay.role && device.bay_bytes.is_none();
        if !devices[..index].iter().any(|device| is_before(&device)) {
            return fault(match bay.role {
                Role::Ssd => {
                    "an empty bay for an SSD is listed behind an SSD: a pool that begins without one \
                     keeps its metadata on a hard drive"
                }
                Role::Hdd => {
                    "an empty bay for a hard drive is listed behind a hard drive: a pool that begins \
                     without one has no homes on hard drives"
                }
            });
        }
    }
    Ok(())
}
