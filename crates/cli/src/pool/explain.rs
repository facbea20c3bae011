//! What does the user do about it? Errors of drives and engine, told with the path they are about.

use crate::config::PoolConfig;
use anyhow::{Error, anyhow};
use std::io::ErrorKind;
use std::path::Path;
use tandem_block::{DeviceId, IoError};
use tandem_engine::format::layout::LayoutError;
use tandem_engine::mirror::PairError;
use tandem_engine::{ConfigError, StartError};
use tandem_live::EventLoopError;

/// A drive that cannot be opened.
pub fn not_opened(path: &Path, why: &std::io::Error) -> Error {
    let help = match why.kind() {
        ErrorKind::NotFound => {
            "it is missing: connect the drive or correct its path; the files of a new pool are made \
             by `tandem format`; if it is gone for good, `tandem serve --accept-loss` reads what is left"
        }
        ErrorKind::PermissionDenied => {
            "this user may not read and write it: run as another user or change its owner"
        }
        ErrorKind::IsADirectory => "it is a folder, not a drive",
        _ => "the system refuses",
    };
    anyhow!("cannot open {}: {help} ({why})", path.display())
}

fn name(pool: &PoolConfig, device: usize) -> String {
    match pool.drives().nth(device) {
        Some(known) => format!("{} (device {device}, line {})", known.label(), known.line),
        None => format!("device {device}"),
    }
}

/// A configuration that these drives cannot carry.
pub fn configuration(pool: &PoolConfig, error: ConfigError) -> Error {
    match error {
        ConfigError::Layout(LayoutError::TooSmall { device, capacity_bytes, wanted_bytes }) => {
            anyhow!(
                "{} is too small: it has {capacity_bytes} bytes, and beside the other devices it \
                 needs at least {wanted_bytes}; take a larger one",
                name(pool, device)
            )
        }
        ConfigError::Volume { volume, error: IoError::NoSpace } => anyhow!(
            "volume {volume} does not fit: all volumes together are larger than what the drives \
             hold; make it smaller or add a hard drive"
        ),
        ConfigError::EmptyPlace { device, why } => {
            anyhow!("{} is an empty place: {why}", name(pool, device))
        }
        error => error.into(),
    }
}

fn of_other_pool(found: &str, expected: &str) -> String {
    format!(
        "it belongs to pool {found:?}, while the first device belongs to pool {expected:?}, or to \
         another pool of that name: list the drives that belong together"
    )
}

/// A pool that cannot be served.
pub fn start(pool: &PoolConfig, error: &StartError) -> Error {
    let told = |device: usize, what: &str| anyhow!("{}: {what}", name(pool, device));
    match error {
        StartError::Replaced { device } => told(
            *device,
            "another drive has taken its place in the pool: list that one's path here; nothing was \
             changed",
        ),
        StartError::NotGone { device } => told(*device, not_gone(pool, *device)),
        StartError::NotFormatted { device } => told(
            *device,
            "it is not part of a pool: if this pool is new, make it with `tandem format`; \
             otherwise this is the wrong drive",
        ),
        StartError::OtherFormat { device, error } => {
            told(*device, &format!("its {error}; nothing was changed"))
        }
        StartError::DamagedSuperblock { device } => told(
            *device,
            "both copies of its superblock are damaged: look at the drive before anything is \
             written to it; nothing was changed",
        ),
        StartError::OtherPool { device, pool: found, expected } => {
            told(*device, &of_other_pool(found, expected))
        }
        StartError::WrongPlace { device, place } if device == place => {
            told(*device, "it was formatted with the other role: correct its role")
        }
        StartError::WrongPlace { device, place } => told(
            *device,
            &format!("it was formatted as device {place}: list the devices in that order"),
        ),
        StartError::Members { found, members } => anyhow!(
            "the pool was formatted with {members} devices, and this configuration lists {found}: \
             list all of them (a drive that is to come is listed behind them, as path = \"bay:SIZE\")"
        ),
        StartError::Bay { device, why } => told(*device, &no_bay(pool, *device, why)),
        StartError::Volume { name, error: IoError::NoSpace } => no_room(name),
        StartError::Shrunk { device, was, is } => told(
            *device,
            &format!(
                "it had {was} bytes when it was formatted and has {is} now: bring back its full \
                 size (a file may have been cut)"
            ),
        ),
        StartError::StaleDevice { device } => told(
            *device,
            "it missed a life of the pool (an old copy, or a clone): connect the drive that was \
             last in use",
        ),
        StartError::JournalGap { .. } | StartError::JournalDamaged { .. } => {
            anyhow!("{error}. Nothing was changed; copy the drives before you try anything else")
        }
        StartError::RootUnreadable { device, .. } => told(
            *device,
            &format!(
                "{error}. Start again: an error that does not come back did no harm. Nothing was changed; \
                 if it comes back, copy the drives before you try anything else"
            ),
        ),
        StartError::Corrupt(what) => anyhow!(
            "the metadata of this pool is damaged: {what}. Nothing was changed; copy the drives \
             before you try anything else"
        ),
        StartError::Pair(error) => pair(pool, error),
        StartError::Device(IoError::Device(id) | IoError::Dead(id)) => told(
            usize::from(id.0),
            "it answers reads or writes with errors: see the system's log, and its cable",
        ),
        other => anyhow!("{other}"),
    }
}

fn no_bay(pool: &PoolConfig, device: usize, why: &str) -> String {
    if pool.devices[device].bay_bytes.is_none() {
        return "it is listed as gone, and the pool never had it: take the entry away".to_owned();
    }
    format!(
        "it is a bay that the pool does not have yet, and it cannot have it: {why}. Nothing was \
         changed: make the bay smaller, or take the entry away"
    )
}

fn not_gone(pool: &PoolConfig, device: usize) -> &'static str {
    match pool.devices[device].bay_bytes {
        Some(_) => {
            "a drive of the pool is in this bay, which is listed as empty: write that drive's path here"
        }
        None => "it is listed as gone, but the pool has it: take `gone = true` away from its entry",
    }
}

fn no_room(volume: &str) -> Error {
    anyhow!(
        "volume {volume} does not fit: the drives that are there have no room of its size left; make it \
         smaller, or add a drive to an empty place first (`tandem add`); nothing was changed"
    )
}

/// A pair that cannot be served.
fn pair(pool: &PoolConfig, error: &PairError) -> Error {
    let of = |id: DeviceId| name(pool, usize::from(id.0));
    match error {
        PairError::NotFormatted(id) => anyhow!(
            "{}: this drive is not half of a pair: make the pool with `tandem format`, or name a new \
             drive with --new-leg",
            of(*id)
        ),
        PairError::Damaged { device, error } => anyhow!(
            "{}: both its records are damaged ({error}): clear the drive and name it with --new-leg",
            of(*device)
        ),
        PairError::Strangers(one, other) => {
            anyhow!("{} and {} are halves of different pairs", of(*one), of(*other))
        }
        PairError::Swapped(id) => {
            anyhow!("{} is the other half of the pair: list the legs as they were", of(*id))
        }
        PairError::Behind(id) => anyhow!(
            "{} is behind its other leg, which is missing: what was written last is only there. Bring the \
             leg back, or serve what is left with --accept-older",
            of(*id)
        ),
        PairError::Unjournaled(id) => anyhow!(
            "{} lacks what its other leg and the journal of the pair have, and both are missing: bring one of \
             them back, or serve what is left with --accept-older",
            of(*id)
        ),
        PairError::NotJournal(id) => anyhow!(
            "{}: this drive is not the journal of a pair: if it is new, name it with --new-leg",
            of(*id)
        ),
        PairError::JournalDamaged { device, error } => anyhow!(
            "{}: the journal of the pair is damaged ({error}): clear it and name it with --new-leg; \
             what only it has is lost",
            of(*device)
        ),
        PairError::JournalStranger(id) => {
            anyhow!("{} is the journal of another pair: name the one that belongs here", of(*id))
        }
        PairError::Entangled(one, other) => anyhow!(
            "{} has served alone, and lacks too much of what {} has to say what: clear one of them and \
             name it with --new-leg, and what only that one has is lost",
            of(*one),
            of(*other)
        ),
        PairError::SplitBrain(one, other) => anyhow!(
            "{} and {} have both served alone since they were a pair: clear one of them and name it \
             with --new-leg, and its data is dropped",
            of(*one),
            of(*other)
        ),
        other => anyhow!("{other}"),
    }
}

/// The end of an event loop.
pub fn ended(pool: &PoolConfig, error: EventLoopError) -> Error {
    match error {
        EventLoopError::Start(error) => start(pool, &error),
        error => error.into(),
    }
}
