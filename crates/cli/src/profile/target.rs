//! What may be done to the drive that is to be measured? Nothing that was not asked for.
//!
//! The lock is taken on the descriptor that is measured through, and a device that is mounted or in
//! use is refused by the same door as for a server.

use super::{Arguments, Outcome, costs, today};
use crate::failure::Failure;
use crate::pool::{explain, modes, signature};
use crate::stderr;
use anyhow::{Context as _, Result, anyhow, bail};
use std::fs::File;
use std::io::{BufRead as _, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use tandem_drives::spec::{self, Bytes, DriveKind, DriveSpec};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::profile::ssd::{self, SsdCosts};
use tandem_engine::profile::{Session, hdd};
use tandem_live::probe::LiveProbe;
use tandem_live::{Backing, DeviceConfig};
use tandem_sim::measure::Findings;
use tandem_sim::profiles::Identity;

/// What sort of drive it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A hard drive.
    Hdd,
    /// An SSD.
    Ssd,
}

/// Seeks and a stream of writes need so much room.
const BYTES_MIN: u64 = 256 << 20;

/// Removes the file that was made for the measurement.
struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(why) = std::fs::remove_file(path)
        {
            stderr::note(format_args!("warning: cannot remove {}: {why}", path.display()));
        }
    }
}

/// Measures a real device or file.
///
/// # Errors
/// If it cannot be used or may not be written.
pub fn measure(
    arguments: &Arguments,
    progress: &mut dyn FnMut(&'static str),
) -> std::result::Result<Outcome, Failure> {
    let path = arguments.target.as_deref().expect("clap wants a target or a spec");
    let emulate = arguments.emulate.as_deref().map(spec::load).transpose();
    let emulate = emulate.map_err(Failure::usage)?;
    let made = make(path, arguments)?;
    let may_write = made.0.is_some() || arguments.destroy;
    if arguments.destroy && made.0.is_none() {
        agree(path, arguments)?;
    }
    let kind = kind(path, arguments, emulate.as_ref())?;
    let bytes = size(path)?;
    if bytes < BYTES_MIN {
        let text =
            format!("{} has {bytes} bytes: too few to measure; 256MiB would do", path.display());
        return Err(Failure::usage(text));
    }
    let (mut probe, bytes) = open(path, emulate.as_ref())?;
    let sector_bytes = probe.sector_bytes();
    if arguments.costs {
        // before hours of measuring, not behind them
        costs::check_sizes(&arguments.cost_sizes, sector_bytes)?;
    }
    let budget = match (may_write, arguments.budget) {
        (false, _) => 0,
        (true, budget) => budget.unwrap_or(u64::MAX),
    };
    let mut session = Session::new(&mut probe, budget, progress);
    let findings = match kind {
        Kind::Hdd => Findings::Hdd(Box::new(hdd::measure(&mut session, may_write)?)),
        Kind::Ssd => Findings::Ssd(Box::new(measure_ssd(&mut session, may_write)?)),
    };
    let costs = match (arguments.costs, kind) {
        (false, _) => None,
        (true, Kind::Ssd) => {
            Some(costs::of_device(&mut session, arguments, may_write, sector_bytes)?)
        }
        (true, Kind::Hdd) => {
            let text = "--costs is for SSDs: nothing is promised on hard drives";
            return Err(Failure::usage(text));
        }
    };
    let (written_bytes, missing) = (session.written_bytes(), session.missing().to_vec());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (model, serial) = match &emulate {
        Some(spec) => (spec.name.clone(), String::new()),
        None => identity(path),
    };
    let about = format!("{model}, measured as {}", path.display());
    let identity = Identity { model, serial, size: Bytes(bytes), measured: today() };
    Ok(Outcome { name, about, identity, findings, written_bytes, missing, costs })
}

/// Reads, and then whatever the budget is enough for.
fn measure_ssd(session: &mut Session<'_>, may_write: bool) -> Result<SsdCosts> {
    let mut costs = SsdCosts::default();
    if may_write {
        let written = ssd::writes(session, &mut costs);
        session.within_budget(written)?;
        // what is read must have been written, and collections need a full drive
        if session.left_bytes() / 3 >= session.capacity_bytes() {
            ssd::fill(session)?;
            let collected = ssd::collections(session, &mut costs);
            session.within_budget(collected)?;
        } else {
            session.miss("garbage collection, for which the drive is filled twice");
        }
    }
    ssd::reads(session, &mut costs)?;
    Ok(costs)
}

/// A file that does not exist yet is made; what is there is left alone.
fn make(path: &Path, arguments: &Arguments) -> Result<Made> {
    if path.exists() || path.starts_with("/dev") {
        return Ok(Made(None));
    }
    let file = modes::to_make().create_new(true).open(path);
    let file = file.with_context(|| format!("making {}", path.display()))?;
    let made = Made(Some(path.to_owned()));
    // without holes: a file that grows while it is written tells of its file system
    let zeroes = vec![0; 1 << 20];
    let mut left = arguments.size / 4096 * 4096;
    let mut file = file;
    while left > 0 {
        let chunk = left.min(zeroes.len() as u64);
        file.write_all(&zeroes[..chunk as usize]).context("filling the file")?;
        left -= chunk;
    }
    file.sync_all().context("filling the file")?;
    Ok(made)
}

/// Is it a hard drive? The system knows of block devices, the spec of emulated ones.
fn kind(
    path: &Path,
    arguments: &Arguments,
    emulate: Option<&DriveSpec>,
) -> std::result::Result<Kind, Failure> {
    if let Some(kind) = arguments.kind {
        return Ok(kind);
    }
    match emulate.map(DriveSpec::kind) {
        Some(DriveKind::Hdd) => return Ok(Kind::Hdd),
        Some(DriveKind::Ssd) => return Ok(Kind::Ssd),
        _ => {}
    }
    match told(path, "queue/rotational").as_deref() {
        Some("1") => Ok(Kind::Hdd),
        Some("0") => Ok(Kind::Ssd),
        _ => Err(Failure::usage(format!(
            "the system does not say what {} is: give --kind hdd or --kind ssd",
            path.display()
        ))),
    }
}

/// What the system tells of a block device; `None` for files.
fn told(path: &Path, what: &str) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    if !std::fs::metadata(&path).ok()?.file_type().is_block_device() {
        return None;
    }
    let place = Path::new("/sys/class/block").join(path.file_name()?).join(what);
    let text = std::fs::read_to_string(place).ok()?;
    Some(text.trim().to_owned())
}

/// Model and serial number, as far as the system tells.
fn identity(path: &Path) -> (String, String) {
    let first = |places: &[&str]| places.iter().find_map(|place| told(path, place));
    let model = first(&["device/model"]).unwrap_or_else(|| {
        let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
        if is_file { "a file" } else { "unknown" }.to_owned()
    });
    (model, serial(path).unwrap_or_default())
}

/// The serial number of a block device, where the system tells one.
pub fn serial(path: &Path) -> Option<String> {
    ["device/serial", "serial", "device/wwid"].iter().find_map(|place| told(path, place))
}

fn open(path: &Path, emulate: Option<&DriveSpec>) -> Result<(LiveProbe, u64)> {
    let backing = Backing::Path(path.to_owned());
    let bytes = size(path)?;
    let model = match emulate {
        None => None,
        Some(spec) => {
            let options = BuildOptions {
                ssd_state: SsdState::Fresh,
                capacity_bytes: Some(bytes),
                ..BuildOptions::default()
            };
            Some(build(spec, options)?)
        }
    };
    Ok((LiveProbe::open(DeviceConfig { backing, emulate: model })?, bytes))
}

fn size(path: &Path) -> Result<u64> {
    let mut file = File::open(path).map_err(|why| explain::not_opened(path, &why))?;
    if file.metadata()?.is_dir() {
        bail!("{} is a folder, not a drive", path.display());
    }
    Ok(file.seek(SeekFrom::End(0)).context("it has no size")? / 4096 * 4096)
}

/// Nothing known may be on it, and whoever asks must agree that the rest is lost.
fn agree(path: &Path, arguments: &Arguments) -> std::result::Result<(), Failure> {
    let name = path.display();
    let bytes = size(path)?;
    let file = File::open(path).map_err(|why| explain::not_opened(path, &why))?;
    let holds = signature::find(&file, bytes).with_context(|| format!("reading {name}"))?;
    if !holds.is_empty() {
        let holds = holds.join(", ");
        let text = format!("{name} holds {holds}: wipe it first (wipefs -a) if that may be lost");
        return Err(Failure::Failed(anyhow!(text)));
    }
    if arguments.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("what {name} holds would be lost: say --yes")));
    }
    stderr::ask(format_args!("What {name} holds will be lost. Write to it? [y/N] "));
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Failed(anyhow!("not measured"))),
    }
}
