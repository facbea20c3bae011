//! What does a configuration say of a device that is two drives?
//!
//! Source: requirements I13 to I18, B9. The keys of a device hold for both legs.

use super::budget::DeviceBudget;
use super::{PoolDevice, check, file};
use crate::toml_fault::Fault;
use std::path::Path;
use tandem_block::{BLOCK_BYTES, Duration, GIB, MIB, Quantity};
use tandem_drives::spec::{self, DriveKind};
use tandem_engine::mirror::{Answer, Idle, JournalConfig, PairConfig};
use tandem_engine::{REQUEST_BYTES_MAX, Role};
use tandem_live::Backing;
use toml::Spanned;

/// Roles that change more often cost more than they are worth: two flushes and a record each time.
const PERIOD_MIN: Duration = Duration::from_ms(100);
const PERIOD_MAX: Duration = Duration::from_s(3600);
/// Two of the largest requests: one passes into an empty cache whatever its size, and the bound must
/// hold all the same.
const CACHE_MIN: u64 = 2 * REQUEST_BYTES_MAX;
const CACHE_MAX: u64 = 256 * GIB;
const RATE_MIN: u64 = MIB;

/// The second drive of a pair.
#[derive(Clone, Debug)]
pub struct PoolLeg {
    /// Position of the pair among the devices.
    pub device: usize,
    /// Like the first drive, elsewhere.
    pub drive: PoolDevice,
    /// How the pair behaves.
    pub config: PairConfig,
    /// The third drive, if the pair has a journal.
    pub journal: Option<PoolDevice>,
}

/// A journal holds some of the largest writes at least, or writes would wait for it all the time.
pub const JOURNAL_BYTES_MIN: u64 = 4 * REQUEST_BYTES_MAX;

pub(super) fn check(
    entry: &file::Pair,
    device: usize,
    first: &PoolDevice,
    folder: &Path,
) -> Result<PoolLeg, Fault> {
    if first.role != Role::Ssd {
        let text = "only SSDs come in pairs: two hard drives are two devices";
        return Err(Fault::at(&entry.leg, text));
    }
    let path = entry.leg.get_ref();
    if path.is_empty() || path.starts_with("ram:") || matches!(first.backing, Backing::Ram { .. }) {
        let text = "a leg is a block device or a file: memory that is lost twice protects nothing";
        return Err(Fault::at(&entry.leg, text));
    }
    let usual = PairConfig::default();
    let period = within(&entry.period, (PERIOD_MIN, PERIOD_MAX), "period")?;
    let period = period.unwrap_or(usual.period);
    let idle = match &entry.idle {
        None => usual.idle,
        Some(value) if value.get_ref() == "adaptive" => {
            Idle::Adaptive(Duration::from_ns(period.ns / 4))
        }
        Some(value) => {
            let idle = check::time(value)
                .map_err(|fault| Fault::at(value, format!("{}, or \"adaptive\"", fault.text)))?;
            if idle.ns > period.ns / 2 {
                let text =
                    "more than half of a period without writes leaves too little to write in";
                return Err(Fault::at(value, text));
            }
            Idle::Fixed(idle)
        }
    };
    let journal = entry.journal.as_ref().map(|value| journal(value, first, folder)).transpose()?;
    let answers = [
        ("written", Answer::Written),
        ("cached", Answer::Cached),
        ("journaled", Answer::Journaled),
    ];
    let answer = entry.answer.as_ref().map(|value| check::word(value, "answer", &answers));
    let answer = answer.transpose()?.unwrap_or_default();
    if let (Answer::Journaled, None, Some(value)) = (answer, &journal, &entry.answer) {
        let text = "there is no journal to answer from: name a third drive, journal = \"PATH\"";
        return Err(Fault::at(value, text));
    }
    let cache = bytes(&entry.cache, (CACHE_MIN, CACHE_MAX))?;
    let rate = bytes(&entry.write_rate, (RATE_MIN, u64::MAX))?;
    let config = PairConfig {
        period,
        idle,
        answer,
        journal: journal.as_ref().map(|_| JournalConfig::default()),
        cache_bytes: cache.unwrap_or(GIB),
        write_bytes_per_s: rate.unwrap_or(usual.write_bytes_per_s),
        ..usual
    };
    let drive = PoolDevice { backing: Backing::Path(folder.join(path)), ..first.clone() };
    Ok(PoolLeg { device, drive, config, journal })
}

/// The third drive.
fn journal(
    entry: &Spanned<file::Journal>,
    first: &PoolDevice,
    folder: &Path,
) -> Result<PoolDevice, Fault> {
    let file::Journal { path, role, size, emulate, profile } = entry.get_ref();
    let fault = |text: String| Fault::at(entry, text);
    if path.is_empty() || path.starts_with("ram:") {
        return Err(fault(
            "a journal in memory is lost when it is needed: name a drive".to_owned(),
        ));
    }
    let size_bytes = size.as_ref().map(|size| journal_bytes(entry, size)).transpose()?;
    let at = |text: &String| Spanned::new(entry.span(), text.clone());
    let roles = [("ssd", Role::Ssd), ("hdd", Role::Hdd)];
    let role = role.as_ref().map(|role| check::word(&at(role), "role", &roles)).transpose()?;
    let role = role.unwrap_or(Role::Ssd);
    let emulate = match emulate {
        None => None,
        Some(name) => {
            let drive = spec::load(name).map_err(|why| fault(why.to_string()))?;
            if (drive.kind() == DriveKind::Hdd) != (role == Role::Hdd) {
                let text = format!("{} is an {}: say so with `role`", drive.name, drive.kind());
                return Err(fault(text));
            }
            Some(drive)
        }
    };
    let profile = profile.as_ref().map(|name| check::profile(&at(name), role, folder));
    let profile = profile.transpose()?;
    if role == Role::Hdd && profile.is_none() {
        let text = "a hard drive's journal is written when its buffer takes that fast, so its \
                    `profile` must be known";
        return Err(fault(text.to_owned()));
    }
    Ok(PoolDevice {
        backing: Backing::Path(folder.join(path)),
        role,
        size_bytes,
        emulate,
        profile,
        budget: DeviceBudget::default(),
        ..first.clone()
    })
}

fn journal_bytes(entry: &Spanned<file::Journal>, size: &str) -> Result<u64, Fault> {
    let fault = |text: String| Fault::at(entry, text);
    if entry.get_ref().path.starts_with("/dev/") {
        return Err(fault("a block device has the size it has: drop `size`".to_owned()));
    }
    let bytes = Quantity::Bytes.parse(size).map_err(|why| fault(why.to_string()))?;
    if bytes < JOURNAL_BYTES_MIN || !bytes.is_multiple_of(BLOCK_BYTES) {
        let least = JOURNAL_BYTES_MIN / MIB;
        return Err(fault(format!("a journal has at least {least}MiB, in whole blocks")));
    }
    Ok(bytes)
}

fn within(
    value: &Option<Spanned<String>>,
    (least, most): (Duration, Duration),
    what: &str,
) -> Result<Option<Duration>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let time = check::time(value)?;
    if (least..=most).contains(&time) {
        return Ok(Some(time));
    }
    Err(Fault::at(value, format!("a {what} is at least {least} and at most {most}")))
}

fn bytes(value: &Option<Spanned<String>>, (least, most): (u64, u64)) -> Result<Option<u64>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let bytes = Quantity::Bytes.within(value.get_ref(), least..=most);
    bytes.map(Some).map_err(|why| Fault::at(value, why))
}
