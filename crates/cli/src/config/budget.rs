//! What may be written to a drive in a day, as a configuration says it?
//!
//! Source: requirements B4 (padding against the workload that a hard drive is rated for); drive writes
//! per day (DWPD), in which vendors rate SSDs.

use super::file;
use crate::toml_fault::Fault;
use tandem_block::Quantity;
use tandem_engine::{DriveBudget, Role};
use tandem_sim::profiles::{DriveProfile, Rating};
use toml::Spanned;

const DAYS_A_YEAR: u64 = 365;
/// Drive writes a day that anybody may write down, in millionths.
const DWPD_MAX: u64 = 1_000_000_000;

/// The keys of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBudget {
    /// `workload_rating`: bytes a year that a hard drive is rated for.
    rated_a_year: Option<u64>,
    /// `padding_budget`: bytes a day.
    padding: Option<u64>,
    /// `log_budget`: bytes a day.
    log: Option<u64>,
    /// `write_budget` of an SSD.
    writes: Option<WriteBudget>,
}

/// What may be written to an SSD in a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteBudget {
    Bytes(u64),
    /// Millionths of its capacity.
    DrivePpm(u64),
}

/// Reads the keys of a device of this role.
pub(super) fn check(entry: &file::Device, role: Role) -> Result<DeviceBudget, Fault> {
    let of_hdd = [
        ("workload_rating", &entry.workload_rating),
        ("padding_budget", &entry.padding_budget),
        ("log_budget", &entry.log_budget),
    ];
    for (key, value) in of_hdd {
        if let (Some(value), Role::Ssd) = (value, role) {
            let text = format!("{key} is for hard drives; an SSD has write_budget = \"0.3DWPD\"");
            return Err(Fault::at(value, text));
        }
    }
    if let (Some(value), Role::Hdd) = (&entry.write_budget, role) {
        let text = "write_budget is for SSDs; a hard drive has workload_rating, padding_budget and \
                    log_budget";
        return Err(Fault::at(value, text));
    }
    let nothing_rated = "a drive rated for no work cannot be used: leave the key out if its rating \
                         is not known";
    let nothing_logged = "with a budget of nothing no write could ever be redirected to this drive: \
                          leave its profile out instead, or steer = \"ssd-first\"";
    let above_zero = |value: &Option<Spanned<String>>, why: &str| {
        value.as_ref().map(|value| positive(value, why)).transpose()
    };
    Ok(DeviceBudget {
        rated_a_year: above_zero(&entry.workload_rating, nothing_rated)?,
        // nothing at all has a meaning here: the drive drains by itself or is flushed
        padding: entry.padding_budget.as_ref().map(bytes).transpose()?,
        log: above_zero(&entry.log_budget, nothing_logged)?,
        writes: entry.write_budget.as_ref().map(write_budget).transpose()?,
    })
}

fn bytes(value: &Spanned<String>) -> Result<u64, Fault> {
    Quantity::Bytes.parse(value.get_ref()).map_err(|why| Fault::at(value, why))
}

fn positive(value: &Spanned<String>, why: &str) -> Result<u64, Fault> {
    match bytes(value)? {
        0 => Err(Fault::at(value, why.to_owned())),
        bytes => Ok(bytes),
    }
}

fn write_budget(value: &Spanned<String>) -> Result<WriteBudget, Fault> {
    let nothing = "an SSD to which nothing may be written cannot be used: leave the key out if there \
                   is no budget";
    let text = value.get_ref();
    let is_drive_writes = text.trim_end().to_ascii_uppercase().ends_with("DWPD");
    let budget = match is_drive_writes {
        true => Quantity::DriveWrites.within(text, 0..=DWPD_MAX).map(WriteBudget::DrivePpm),
        false => Quantity::Bytes.parse(text).map(WriteBudget::Bytes),
    };
    match budget {
        Ok(WriteBudget::Bytes(0) | WriteBudget::DrivePpm(0)) => Err(Fault::at(value, nothing)),
        Ok(budget) => Ok(budget),
        Err(why) if is_drive_writes => Err(Fault::at(value, why)),
        Err(why) => {
            let text = format!("{why}, or in drive writes per day like \"0.3DWPD\"");
            Err(Fault::at(value, text))
        }
    }
}

impl DeviceBudget {
    /// What the engine is told of a device of this size.
    pub fn of_drive(&self, profile: Option<&DriveProfile>, capacity_bytes: u64) -> DriveBudget {
        let part = |ppm: u64| u128::from(capacity_bytes) * u128::from(ppm) / 1_000_000;
        DriveBudget {
            rated_bytes: self.rating(profile).map(|rating| rating.bytes_per_day),
            padding_bytes: self.padding,
            log_bytes: self.log,
            ssd_write_bytes: self.writes.map(|writes| match writes {
                WriteBudget::Bytes(bytes) => bytes,
                WriteBudget::DrivePpm(ppm) => u64::try_from(part(ppm)).unwrap_or(u64::MAX).max(1),
            }),
        }
    }

    /// What the drive is rated for, by the configuration or else by its profile.
    pub fn rating(&self, profile: Option<&DriveProfile>) -> Option<Rating> {
        let configured = self.rated_a_year.map(|bytes| Rating {
            bytes_per_day: (bytes / DAYS_A_YEAR).max(1),
            basis: "the configuration's workload_rating".to_owned(),
        });
        configured.or_else(|| profile.and_then(DriveProfile::rating))
    }
}
