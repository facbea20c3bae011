//! Does the configuration make sense?

use super::pair::PoolLeg;
use super::{PoolConfig, PoolDevice, PoolVolume, Serve};
use super::{access, bay, budget, deadline, destage, file, limits, pair, promise};
use crate::policy;
use crate::toml_fault::Fault;
use std::path::{Component, Path, PathBuf};
use tandem_block::{BLOCK_BYTES, DurabilityClass, Duration, Quantity, TIB};
use tandem_drives::spec::{self, DriveKind};
use tandem_engine::format::layout::DEVICE_BYTES_MIN;
use tandem_engine::format::superblock::MEMBERS_MAX;
use tandem_engine::{Role, SteerConfig, TierConfig, WriteCache};
use tandem_fronts::fuse::Reach;
use tandem_live::Backing;
use tandem_live::uring::Submission;
use tandem_sim::profiles::DriveProfile;
use tandem_traces::spell;
use toml::Spanned;

/// Longest name of a pool or volume in bytes: well within what superblock and NBD hold.
const NAME_BYTES_MAX: usize = 64;
/// Largest device or volume that a set can number.
const SIZE_BYTES_MAX: u64 = 4096 * TIB;
/// The most RAM for reads of redirected data: as much as NBD clients may have by default.
const READ_BACK_BYTES_MAX: u64 = 256 << 20;
/// The bounds of `metadata_replica_lag`.
const LAG_MIN: Duration = Duration::from_s(1);
const LAG_MAX: Duration = Duration::from_s(3600);
/// The longest `spin`.
const SPIN_MAX: Duration = Duration::from_ms(10);

/// `line_of` tells the line of a byte of the text.
pub(super) fn check(
    parsed: file::File,
    folder: &Path,
    line_of: &dyn Fn(usize) -> usize,
) -> Result<PoolConfig, Fault> {
    let name = name(&parsed.pool.name, "pool")?;
    let metadata_replica_lag = parsed.pool.metadata_replica_lag.as_ref().map(lag).transpose()?;
    let read_back_bytes = parsed.pool.read_back.as_ref().map(read_back).transpose()?;
    let metadata = parsed.memory.metadata.as_ref();
    let metadata_memory_bytes = metadata.map(limits::any_memory).transpose()?;
    let mut devices: Vec<PoolDevice> = Vec::new();
    let mut legs: Vec<PoolLeg> = Vec::new();
    for entry in &parsed.device {
        let line = line_of(entry.get_ref().path.span().start);
        let device = device(entry.get_ref(), folder, line)?;
        // one that was removed may have come back in another place
        let same = |known: &PoolDevice| {
            !known.gone && !device.gone && same_place(&known.backing, &device.backing)
        };
        if devices.iter().chain(drives_of(&legs)).any(same) {
            let path = entry.get_ref().path.get_ref();
            let text = format!("{path:?} is listed twice: every device holds its own data");
            return Err(Fault::at(&entry.get_ref().path, text));
        }
        if let Some(pair) = &entry.get_ref().pair {
            let known: Vec<&PoolDevice> = devices.iter().chain(drives_of(&legs)).collect();
            let leg = leg(pair, known, (devices.len(), &device), folder)?;
            legs.push(leg);
        }
        devices.push(device);
    }
    bay::bays(&parsed, &devices)?;
    let successor = successor(&parsed, (&devices, &legs), folder)?;
    if devices.is_empty() {
        return Err(Fault::whole(
            "there is no [[device]]: a pool needs an SSD, a hard drive or both",
        ));
    }
    if devices.len() > MEMBERS_MAX {
        let text = format!("a pool has at most {MEMBERS_MAX} devices, not {}", devices.len());
        return Err(Fault::whole(text));
    }
    let mut volumes: Vec<PoolVolume> = Vec::new();
    for entry in &parsed.volume {
        let volume = volume(entry.get_ref(), &devices, folder)?;
        if let Some(known) = volumes.iter().find(|known| known.object() == volume.object()) {
            let text = format!("there are two volumes called {:?}", known.name);
            return Err(Fault::at(&entry.get_ref().name, text));
        }
        volumes.push(volume);
    }
    if volumes.is_empty() {
        return Err(Fault::whole("there is no [[volume]]: a pool without one holds nothing"));
    }
    let serve = serve(&parsed.serve, folder, line_of)?;
    mount_points(&parsed, &volumes, &serve)?;
    let promises = promise::check(&parsed, &volumes)?;
    let named: Vec<&str> = promises.exports.iter().map(|export| &export.name[..]).collect();
    let clients = access::clients(&parsed.client, &serve, (&volumes, &named))?;
    let pool = PoolConfig {
        name,
        metadata_replica_lag,
        read_back_bytes,
        metadata_memory_bytes,
        destage: destage::check(&parsed.destage, smallest_ssd_bytes(&devices))?,
        promote_after_reads: parsed.pool.promote_after,
        devices,
        legs,
        successor,
        volumes,
        promises,
        serve,
        clients,
    };
    promise::fits(&parsed, &pool)?;
    Ok(pool)
}

/// Of those of which the configuration names the size.
fn smallest_ssd_bytes(devices: &[PoolDevice]) -> Option<u64> {
    let ssds = devices.iter().filter(|device| device.role == Role::Ssd);
    ssds.filter_map(|ssd| ssd.size_bytes).min()
}

/// The other drives of a pair, none of which is `known`.
fn leg<'a>(
    pair: &file::Pair,
    mut known: Vec<&'a PoolDevice>,
    (index, device): (usize, &'a PoolDevice),
    folder: &Path,
) -> Result<PoolLeg, Fault> {
    let leg = pair::check(pair, index, device, folder)?;
    let listed = |known: &[&PoolDevice], drive: &PoolDevice| {
        known.iter().any(|known| same_place(&known.backing, &drive.backing))
    };
    known.push(device);
    if listed(&known, &leg.drive) {
        let text = "it is listed twice: a leg is a drive of its own";
        return Err(Fault::at(&pair.leg, text));
    }
    if let (Some(journal), Some(entry)) = (&leg.journal, &pair.journal)
        && (listed(&known, journal) || listed(&[&leg.drive], journal))
    {
        let text = "it is listed twice: a journal is a drive of its own, or it dies with a leg";
        return Err(Fault::at(entry, text));
    }
    Ok(leg)
}

/// The drive that is about to take another one's place, as the server has noted it.
fn successor(
    parsed: &file::File,
    (devices, legs): (&[PoolDevice], &[PoolLeg]),
    folder: &Path,
) -> Result<Option<(usize, PoolDevice)>, Fault> {
    let mut entries = parsed.device.iter().enumerate();
    let named = |(index, entry): (usize, &'_ Spanned<file::Device>)| {
        entry.get_ref().successor.clone().map(|successor| (index, successor))
    };
    let Some((index, path)) = entries.by_ref().find_map(named) else { return Ok(None) };
    if let Some((_, second)) = entries.find_map(named) {
        return Err(Fault::at(&second, "only one drive is replaced at a time"));
    }
    let old = &devices[index];
    if !matches!(old.backing, Backing::Path(_)) || parsed.device[index].get_ref().pair.is_some() {
        let text = "memory and mirrored pairs have no successor: a leg is replaced by --new-leg";
        return Err(Fault::at(&path, text));
    }
    let backing = Backing::Path(folder.join(path.get_ref()));
    let mut known = devices.iter().chain(drives_of(legs)).filter(|known| !known.gone);
    if known.any(|known| same_place(&known.backing, &backing)) {
        return Err(Fault::at(&path, "it is listed already: a successor is a drive of its own"));
    }
    // the profile was measured on the drive that goes
    let (gone, bay_bytes) = (false, None);
    Ok(Some((index, PoolDevice { backing, profile: None, gone, bay_bytes, ..old.clone() })))
}

/// The drives of pairs that are no devices of their own.
fn drives_of(legs: &[PoolLeg]) -> impl Iterator<Item = &PoolDevice> {
    legs.iter().flat_map(|leg| std::iter::once(&leg.drive).chain(&leg.journal))
}

pub(super) fn name(value: &Spanned<String>, what: &str) -> Result<String, Fault> {
    let name = value.get_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        let text = format!(
            "the name of this {what} has 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.', unlike {name:?}"
        );
        return Err(Fault::at(value, text));
    }
    Ok(name.clone())
}

pub(super) fn size(value: &Spanned<String>, least: u64) -> Result<u64, Fault> {
    let bytes = Quantity::Bytes.parse(value.get_ref()).map_err(|why| Fault::at(value, why))?;
    if !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(Fault::at(value, "a size must be a multiple of 4KiB"));
    }
    if !(least..=SIZE_BYTES_MAX).contains(&bytes) {
        let (least, most) = (in_units(least), in_units(SIZE_BYTES_MAX));
        let text = format!("a size must be at least {least} and at most {most}");
        return Err(Fault::at(value, text));
    }
    Ok(bytes)
}

/// At least as long as a hard drive's flush may take, or it would do nothing else.
fn lag(value: &Spanned<String>) -> Result<Duration, Fault> {
    let lag = time(value)?;
    if !(LAG_MIN..=LAG_MAX).contains(&lag) {
        let text = "the metadata replica may lag by 1s at least and by 3600s at most";
        return Err(Fault::at(value, text));
    }
    Ok(lag)
}

fn read_back(value: &Spanned<String>) -> Result<u64, Fault> {
    let bytes = Quantity::Bytes.parse(value.get_ref()).map_err(|why| Fault::at(value, why))?;
    if bytes > READ_BACK_BYTES_MAX {
        let most = in_units(READ_BACK_BYTES_MAX);
        let text = format!("read_back takes RAM from the writes under way: {most} at most");
        return Err(Fault::at(value, text));
    }
    Ok(bytes)
}

pub(super) fn time(value: &Spanned<String>) -> Result<Duration, Fault> {
    let ns = Quantity::Time.parse(value.get_ref());
    ns.map(Duration::from_ns).map_err(|why| Fault::at(value, why))
}

fn in_units(bytes: u64) -> String {
    Quantity::Bytes.print(bytes)
}

/// One of a few words, or an error with the nearest.
pub(super) fn word<T: Copy>(
    value: &Spanned<String>,
    key: &str,
    known: &[(&'static str, T)],
) -> Result<T, Fault> {
    let found = known.iter().find(|(name, _)| name == value.get_ref());
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let nearest = spell::nearest(value.get_ref(), names.iter().copied());
        let (given, names) = (value.get_ref(), names.join(", "));
        let text = format!("{key} is one of {names}, not {given:?}; did you mean {nearest:?}?");
        Fault::at(value, text)
    })
}

fn device(entry: &file::Device, folder: &Path, line: usize) -> Result<PoolDevice, Fault> {
    let role = word(&entry.role, "role", &[("ssd", Role::Ssd), ("hdd", Role::Hdd)])?;
    let backing = backing(entry, folder)?;
    let size_bytes = entry.size.as_ref().map(|value| size(value, DEVICE_BYTES_MIN)).transpose()?;
    let caches = [("volatile", WriteCache::Volatile), ("protected", WriteCache::Protected)];
    let write_cache = match &entry.write_cache {
        Some(value) => word(value, "write_cache", &caches)?,
        None => WriteCache::default(),
    };
    let mut emulate = None;
    if let Some(value) = &entry.emulate {
        let drive = spec::load(value.get_ref()).map_err(|why| Fault::at(value, why.to_string()))?;
        let of_role = match drive.kind() {
            DriveKind::Ssd => role == Role::Ssd,
            DriveKind::Hdd => role == Role::Hdd,
            DriveKind::Null => true,
        };
        if !of_role {
            let text =
                format!("{} is an {}, and this device's role is not", drive.name, drive.kind());
            return Err(Fault::at(value, text));
        }
        emulate = Some(drive);
    }
    let profile = entry.profile.as_ref().map(|value| profile(value, role, folder)).transpose()?;
    let profile_age_days = entry.profile_age_days.unwrap_or(PROFILE_AGE_DAYS);
    let bay_bytes = bay::bytes(entry)?;
    let gone = bay_bytes.is_some() || entry.gone.as_ref().is_some_and(|gone| *gone.get_ref());
    if let (true, Some(gone), true) = (gone, &entry.gone, entry.pair.is_some()) {
        return Err(Fault::at(gone, "a drive that is gone is no pair"));
    }
    Ok(PoolDevice {
        role,
        backing,
        gone,
        bay_bytes,
        size_bytes,
        emulate,
        profile,
        profile_age_days,
        write_cache,
        budget: budget::check(entry, role)?,
        deadline: deadline::check(entry, role)?,
        line,
    })
}

fn backing(entry: &file::Device, folder: &Path) -> Result<Backing, Fault> {
    let path = entry.path.get_ref();
    if let Some(bytes) = path.strip_prefix("ram:") {
        if let Some(value) = &entry.size {
            let text = "memory has its size in its path (\"ram:4GiB\"): drop this one";
            return Err(Fault::at(value, text));
        }
        let bytes = Spanned::new(entry.path.span(), bytes.to_owned());
        return Ok(Backing::Ram { bytes: size(&bytes, DEVICE_BYTES_MIN)? });
    }
    if path.is_empty() {
        return Err(Fault::at(&entry.path, "the path of a device is empty"));
    }
    if path.starts_with(bay::PREFIX) {
        return Ok(Backing::Path(path.into()));
    }
    if path.starts_with("/dev/")
        && let Some(value) = &entry.size
    {
        let text = "a block device has the size it has: drop this key (it is for files)";
        return Err(Fault::at(value, text));
    }
    Ok(Backing::Path(folder.join(path)))
}

/// A measured profile is believed for a year unless the configuration says otherwise: drives fill,
/// wear and grow defects.
const PROFILE_AGE_DAYS: u64 = 365;

/// A shipped profile by name, or a file.
pub(super) fn profile(
    value: &Spanned<String>,
    role: Role,
    folder: &Path,
) -> Result<DriveProfile, Fault> {
    crate::profile::named(value.get_ref(), folder, role == Role::Hdd)
        .map_err(|why| Fault::at(value, why))
}

/// One file system a directory.
fn mount_points(parsed: &file::File, volumes: &[PoolVolume], serve: &Serve) -> Result<(), Fault> {
    for (index, (entry, volume)) in parsed.volume.iter().zip(volumes).enumerate() {
        let (Some(value), Some(point)) = (&entry.get_ref().mount, &volume.mount) else { continue };
        let others = volumes[..index].iter().filter_map(|other| other.mount.as_ref());
        if others.chain(&serve.fuse).any(|other| plain(other) == plain(point)) {
            let text = format!("something else of this pool is mounted on {:?}", value.get_ref());
            return Err(Fault::at(value, text));
        }
    }
    Ok(())
}

/// The size of a volume of blocks; what the object of a volume of files reserves.
fn volume_size(entry: &file::Volume) -> Result<u64, Fault> {
    match (&entry.size, entry.files) {
        (Some(value), false) => size(value, BLOCK_BYTES),
        (None, true) => Ok(BLOCK_BYTES),
        (Some(value), true) => {
            let text = "a volume of files takes what room the pool has, as they are written: drop \
                        this key";
            Err(Fault::at(value, text))
        }
        (None, false) => {
            let text = "this volume has no size: add size = \"16GiB\", or files = true for a file \
                        system";
            Err(Fault::at(&entry.name, text))
        }
    }
}

fn mount_point(entry: &file::Volume, folder: &Path) -> Result<Option<PathBuf>, Fault> {
    let Some(value) = &entry.mount else { return Ok(None) };
    if !entry.files {
        let text = "a volume of blocks cannot be mounted: add files = true (and drop size) for a \
                    file system, or show it as a file with fuse = \"DIR\" in [serve]";
        return Err(Fault::at(value, text));
    }
    if value.get_ref().is_empty() {
        return Err(Fault::at(value, "the mount point is empty: name a directory"));
    }
    Ok(Some(folder.join(value.get_ref())))
}

fn reach(entry: &file::Volume) -> Result<Reach, Fault> {
    match &entry.allow_other {
        Some(value) if entry.mount.is_none() => {
            let text =
                "allow_other opens a mount to other users: add mount = \"DIR\", or drop this key";
            Err(Fault::at(value, text))
        }
        Some(value) if *value.get_ref() => Ok(Reach::Everybody),
        _ => Ok(Reach::Owner),
    }
}

fn volume(
    entry: &file::Volume,
    devices: &[PoolDevice],
    folder: &Path,
) -> Result<PoolVolume, Fault> {
    let name = name(&entry.name, "volume")?;
    let size_bytes = volume_size(entry)?;
    let (is_files, mount) = (entry.files, mount_point(entry, folder)?);
    let reach = reach(entry)?;
    let steer = match &entry.steer {
        Some(value) => steering(value, devices)?,
        None => SteerConfig::default(),
    };
    let tier = match &entry.tier {
        Some(value) => tier(value)?,
        None => TierConfig::default(),
    };
    let file_tiers = file_tiers(entry)?;
    let classes = [
        ("volatile-ok", DurabilityClass::VolatileOk),
        ("journaled", DurabilityClass::Journaled),
        ("protected", DurabilityClass::Protected),
        ("strict", DurabilityClass::Strict),
    ];
    let mut durability = DurabilityClass::default();
    if let Some(value) = &entry.durability {
        durability = word(value, "durability", &classes)?;
        let has = |role| devices.iter().any(|device| device.role == role);
        if durability == DurabilityClass::Journaled && !has(Role::Ssd) {
            let text = "durability \"journaled\" keeps a second copy on an SSD, and this pool has none; \
                        \"strict\" needs no SSD";
            return Err(Fault::at(value, text));
        }
        let is_volatile = |device: &PoolDevice| device.write_cache == WriteCache::Volatile;
        if durability == DurabilityClass::Protected && devices.iter().any(is_volatile) {
            let text = "durability \"protected\" says that the drives' caches survive, but not \
                        every device has write_cache = \"protected\"";
            return Err(Fault::at(value, text));
        }
    }
    Ok(PoolVolume { name, size_bytes, is_files, mount, reach, steer, tier, file_tiers, durability })
}

fn file_tiers(entry: &file::Volume) -> Result<Vec<TierConfig>, Fault> {
    let mut all: Vec<TierConfig> = Vec::new();
    for value in &entry.file_tiers {
        if !entry.files {
            let text = "a volume of blocks has no files, so none of them has a tier: drop file_tiers, \
                        or add files = true (and drop size)";
            return Err(Fault::at(value, text));
        }
        let tier = tier(value)?;
        if all.iter().any(|known| known.name() == tier.name()) {
            let text = format!(
                "tier {} is listed twice: files name a tier, not its settings",
                tier.name()
            );
            return Err(Fault::at(value, text));
        }
        all.push(tier);
    }
    Ok(all)
}

fn tier(value: &Spanned<file::Steer>) -> Result<TierConfig, Fault> {
    let given = value.get_ref();
    let mut config = policy::named(&given.policy).map_err(|text| Fault::at(value, text))?;
    for (name, text) in &given.settings {
        policy::set_value(&mut config, name, text)
            .map_err(|why| Fault::at(value, format!("tier {}: {why}", config.name())))?;
    }
    Ok(config)
}

fn steering(value: &Spanned<file::Steer>, devices: &[PoolDevice]) -> Result<SteerConfig, Fault> {
    let given = value.get_ref();
    let mut config = policy::named(&given.policy).map_err(|text| Fault::at(value, text))?;
    for (name, text) in &given.settings {
        policy::set_value(&mut config, name, text)
            .map_err(|why| Fault::at(value, format!("steer {}: {why}", config.policy())))?;
    }
    let count = |role| devices.iter().filter(|device| device.role == role).count();
    let entry = config.entry().expect("named by the registry");
    if let Some(text) = entry.lacks(count(Role::Ssd), count(Role::Hdd)) {
        return Err(Fault::at(value, format!("{text} in this pool")));
    }
    Ok(config)
}

fn serve(
    parsed: &file::Serve,
    folder: &Path,
    line_of: &dyn Fn(usize) -> usize,
) -> Result<Serve, Fault> {
    let mut serve = Serve { allow_remote: parsed.allow_remote, ..Serve::default() };
    access::ways(parsed, &mut serve, folder, line_of)?;
    serve.fuse = parsed.fuse.as_ref().map(|value| folder.join(value.get_ref()));
    if let Some(value) = &parsed.submission {
        let known = [("eager", Submission::Eager), ("batched", Submission::Batched)];
        serve.submission = word(value, "submission", &known)?;
    }
    serve.spin = parsed.spin.as_ref().map(spin).transpose()?;
    serve.limits = limits::check(parsed, serve.nbd.len())?;
    Ok(serve)
}

fn spin(value: &Spanned<String>) -> Result<Duration, Fault> {
    let spin = time(value)?;
    if spin > SPIN_MAX {
        let text = "spinning longer than 10ms saves nothing: a wake-up costs some 25us";
        return Err(Fault::at(value, text));
    }
    Ok(spin)
}

/// The place of the control socket.
pub(super) fn control<T>(value: &Spanned<T>, text: &str, folder: &Path) -> Result<PathBuf, Fault> {
    let path = text.strip_prefix("unix:").unwrap_or(text);
    if path.is_empty() {
        return Err(Fault::at(value, "the path of the control socket is empty"));
    }
    Ok(folder.join(path))
}

/// Two names of one device: equal after `.` and `..` are taken out, or after links are followed.
/// Are these the same file, as far as their names tell?
pub fn same_place(one: &Backing, other: &Backing) -> bool {
    let (Backing::Path(one), Backing::Path(other)) = (one, other) else { return false };
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| plain(path));
    plain(one) == plain(other) || real(one) == real(other)
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
