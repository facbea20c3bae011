//! `tandem serve`: how do the volumes of a pool reach their users?
//!
//! Drives are locked first, then the sockets are bound, so that a second server of the same pool
//! fails before it touches anything. Requests are welcome once recovery is over; until then, who
//! connects waits in the socket. The first SIGTERM or SIGINT stops cleanly, the second at once.

mod announce;
mod demo;
mod drives;
mod legs;
mod listeners;
mod mounts;
mod record;

use crate::config::{PoolConfig, PoolDevice, PoolVolume};
use crate::failure::Failure;
use crate::format;
use crate::pool::devices::{self, Manner, Opened};
use crate::pool::{self, explain};
use crate::report::names::durability_name;
use crate::stderr;
use announce::Announce;
use anyhow::{Context as _, anyhow, bail};
use drives::Registry;
use listeners::Entrance;
pub(crate) use record::Notes;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tandem_block::StreamId;
use tandem_engine::stats::recorder::Recorder;
use tandem_engine::{Engine, EngineConfig};
use tandem_fronts::fuse::{FuseServer, VolumeFile};
use tandem_fronts::nbd::{Export, NbdServer};
use tandem_live::control::Control;
use tandem_live::device::DriveFailures;
use tandem_live::listen::{Address, Listener};
use tandem_live::status::{self, Status};
use tandem_live::uring::Signals;
use tandem_live::{Backing, EventLoop};

/// All users of the mount are one stream; those of NBD are numbered from 0 by connection.
const FUSE_STREAM: StreamId = StreamId(u32::MAX);

/// Serve the volumes of a pool until SIGTERM or SIGINT
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's configuration
    #[arg(value_name = "CONFIG", required_unless_present = "demo", conflicts_with = "demo")]
    config: Option<PathBuf>,
    /// Serve emulated drives in a temporary folder, and remove it at the end
    #[arg(long)]
    demo: bool,
    /// Some drives are gone for good: serve, read-only, what the others hold
    #[arg(long, conflicts_with = "demo")]
    accept_loss: bool,
    /// Note what is asked, as a trace that `tandem replay` reads; written when the server ends
    #[arg(long, value_name = "F.csv", conflicts_with = "demo")]
    record: Option<PathBuf>,
    /// This drive is new, in the place of the leg of a pair: everything is copied to it
    #[arg(long, value_name = "PATH", conflicts_with_all = ["demo", "accept_loss"])]
    new_leg: Option<PathBuf>,
    #[arg(long = "new-twin", hide = true, value_parser = now_called_new_leg)]
    new_twin: Option<PathBuf>,
    /// A pair has lost a leg and the other one is behind: serve it, without what was written last
    #[arg(long, conflicts_with_all = ["demo", "accept_loss"])]
    accept_older: bool,
    /// Emulated drives acknowledge flushes and do not do them: shows that tests see the loss
    #[arg(long, hide = true)]
    ignore_flushes: bool,
}

/// Refuses a word of before, with the one of now.
fn now_called_new_leg(_path: &str) -> Result<PathBuf, String> {
    Err("--new-twin is now called --new-leg".to_owned())
}

/// Does it.
///
/// # Errors
/// A pool that cannot be served, and an end that was not clean.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    pool::log_to_stderr();
    // before any thread is made, since threads inherit the mask
    let signals = Signals::listen().context("catching SIGTERM and SIGINT")?;
    let manner = match arguments {
        Arguments { accept_loss: true, .. } => Manner::Untouched,
        Arguments { ignore_flushes: true, .. } => Manner::Lying,
        _ => Manner::Configured,
    };
    match &arguments.config {
        Some(path) => {
            let notes = arguments.record.as_deref().map(Notes::new).transpose()?;
            let mut pool = pool::read(path)?;
            legs::apply(&mut pool, arguments.new_leg.as_deref(), arguments.accept_older)?;
            serve(path, &pool, manner, (signals, notes), None)
        }
        None => demo::run(manner, signals),
    }
}

/// Serves one pool until it is told to stop, or until the volume `until_unmounted` is unmounted.
pub(crate) fn serve(
    path: &Path,
    pool: &PoolConfig,
    manner: Manner,
    (signals, notes): (Signals, Option<Notes>),
    until_unmounted: Option<&str>,
) -> Result<(), Failure> {
    if manner == Manner::Lying {
        devices::require_emulated(pool)?;
    }
    let certificates = listeners::certificates(path, pool)?;
    let inherited = tandem_live::listen::inherited().context("taking over systemd's sockets")?;
    require_way_in(path, pool, inherited.is_empty())?;
    let (opened, absent) = match manner {
        Manner::Untouched => devices::open_rest(pool)?,
        _ => (devices::open(pool, manner)?, Vec::new()),
    };
    let mut config = engine_config(pool, &opened.capacities)?;
    opened.tell(&mut config);
    let Opened { devices, capacities, .. } = opened;
    for id in &absent {
        let label = pool.devices[usize::from(id.0)].label();
        tracing::warn!("{label} is gone: what only it held is an error; nothing can be written");
    }
    config.absent = absent;
    let mut event_loop = devices::event_loop(pool, devices, config, pool.event_loop_config())?;
    event_loop.stop_on(signals);
    let entrances = listeners::nbd(pool, inherited, certificates.as_ref())?;
    let ways_in = ways_in(pool, &entrances);
    let (listeners, access): (Vec<Listener>, Vec<_>) =
        entrances.into_iter().map(|entrance| (entrance.listener, entrance.access)).unzip();
    let limits = pool.serve.limits.nbd(listeners.len());
    let nbd = NbdServer::new(limits, listeners, exports(pool));
    let nbd = nbd.with_access(access, pool.clients.clone());
    let users = nbd.users();
    event_loop.add_front(Box::new(nbd));
    if let Some(point) = &pool.serve.fuse {
        let files = FuseServer::mount(point, files(pool), FUSE_STREAM).context("[serve] fuse")?;
        event_loop.add_front(Box::new(files));
    }
    let troubles = mounts::add(&mut event_loop, pool, until_unmounted)?;
    let latencies = Rc::new(RefCell::new(Recorder::default()));
    let heard = Rc::clone(&latencies);
    let notes = Rc::new(RefCell::new(notes));
    let noted = Rc::clone(&notes);
    event_loop.observe(Box::new(move |request, done, now| {
        heard.borrow_mut().record(request, done, now);
        if let Some(notes) = noted.borrow_mut().as_mut() {
            notes.note(request);
        }
    }));
    let about = about(path, pool, &capacities, &ways_in);
    let registry = Rc::new(RefCell::new(Registry::new(path, pool, manner, about)));
    let (told, heard_of) = (Rc::clone(&registry), Rc::clone(&registry));
    event_loop.on_succession(Box::new(move |device, change| {
        heard_of.borrow_mut().changed(device, change);
    }));
    let control = control(path, pool)?
        .with(Box::new(move |status| status.pool = told.borrow().about()))
        .users(users)
        .registrar(registry);
    let fill_in = move |status: &mut Status| status.latencies = (&*latencies.borrow()).into();
    event_loop.add_front(Box::new(control.with(Box::new(fill_in))));
    event_loop.add_front(Box::new(Announce::new(announcement(pool, &ways_in))));
    let ended = event_loop.run().map_err(|error| explain::ended(pool, error));
    if let Some(notes) = notes.borrow_mut().as_mut() {
        notes.write()?;
    }
    ended?;
    mounts::report(&troubles)?;
    report_end(pool, &event_loop)
}

/// A pool in memory is made anew; any other is recovered.
fn engine_config(pool: &PoolConfig, capacities: &[u64]) -> anyhow::Result<EngineConfig> {
    let in_memory = |device: &PoolDevice| matches!(device.backing, Backing::Ram { .. });
    let count = pool.devices.iter().filter(|device| in_memory(device)).count();
    if count == 0 {
        return Ok(pool.engine_config(capacities));
    }
    if count < pool.devices.len() {
        bail!("a pool is in memory or on drives: memory beside drives would lose the pool");
    }
    tracing::warn!("the pool is in memory: it is empty now, and lost at the end");
    Ok(format::fresh_config(pool, capacities))
}

fn exports(pool: &PoolConfig) -> Vec<Export> {
    let export = |name: &str, volume: &PoolVolume, stream| Export {
        name: name.to_owned(),
        object: volume.object(),
        size_bytes: volume.size_bytes,
        read_only: false,
        stream,
    };
    let volumes = pool.block_volumes().map(|volume| export(&volume.name, volume, None));
    let named = pool.promises.exports.iter();
    let named = named.map(|it| export(&it.name, &pool.volumes[it.volume], Some(it.stream)));
    volumes.chain(named).collect()
}

fn files(pool: &PoolConfig) -> Vec<VolumeFile> {
    let file = |volume: &PoolVolume| VolumeFile {
        name: volume.name.clone(),
        object: volume.object(),
        size_bytes: volume.size_bytes,
    };
    pool.block_volumes().map(file).collect()
}

/// One line for each way to each volume.
fn ways_in(pool: &PoolConfig, entrances: &[Entrance]) -> Vec<String> {
    let mut ways = Vec::new();
    for volume in &pool.volumes {
        if volume.is_files {
            ways.extend(volume.mount.iter().map(|point| point.display().to_string()));
            continue;
        }
        ways.extend(entrances.iter().filter_map(|entrance| listeners::uri(entrance, &volume.name)));
        ways.extend(pool.serve.fuse.iter().map(|it| it.join(&volume.name).display().to_string()));
    }
    for export in &pool.promises.exports {
        ways.extend(entrances.iter().filter_map(|entrance| listeners::uri(entrance, &export.name)));
    }
    ways
}

fn announcement(pool: &PoolConfig, ways_in: &[String]) -> String {
    let mut text = format!("pool {}\n", pool.name);
    for way in ways_in {
        text.push_str(&format!("  {way}\n"));
    }
    text.push_str("serving; Ctrl-C or SIGTERM closes it cleanly\n");
    text
}

/// The socket for `tandem status`.
fn control(path: &Path, pool: &PoolConfig) -> anyhow::Result<Control> {
    let socket = pool.control_socket(path);
    let listener = Listener::bind_as(&Address::Unix(socket), false, pool.serve.control_mode)
        .context("the control socket (its place can be chosen: control = \"PATH\" in [serve])")?;
    Ok(Control::new(listener))
}

/// What `status` tells of the pool.
fn about(
    path: &Path,
    pool: &PoolConfig,
    capacities: &[u64],
    ways_in: &[String],
) -> status::ServedPool {
    let drive = |(device, bytes): (&PoolDevice, &u64)| status::Drive {
        path: device.label(),
        role: format::role(device.role).to_owned(),
        gone: device.gone,
        empty: device.bay_bytes.is_some(),
        bytes: device.bay_bytes.unwrap_or(*bytes),
        emulates: device.emulate.as_ref().map(|spec| spec.name.clone()),
        profile: device.profile.as_ref().map(|profile| profile.name.clone()),
        rating: device.budget.rating(device.profile.as_ref()).map(|rating| rating.basis),
    };
    let volume = |volume: &PoolVolume| status::Volume {
        name: volume.name.clone(),
        bytes: volume.told_bytes(),
        files: volume.is_files,
        mount: volume.mount.as_ref().and_then(|point| std::path::absolute(point).ok()),
        steer: crate::policy::label(&volume.steer),
        tier: crate::policy::label(&volume.tier),
        durability: durability_name(volume.durability).to_owned(),
        why_not_steered: pool.why_not_steered(volume),
    };
    status::ServedPool {
        name: pool.name.clone(),
        process: std::process::id(),
        configuration: path.to_owned(),
        devices: pool.drives().zip(capacities).map(drive).collect(),
        volumes: pool.volumes.iter().map(volume).collect(),
        ways_in: ways_in.to_vec(),
    }
}

/// A server that nobody can reach is a mistake.
fn require_way_in(path: &Path, pool: &PoolConfig, nothing_inherited: bool) -> Result<(), Failure> {
    let mounts = pool.volumes.iter().any(|volume| volume.mount.is_some());
    if !pool.serve.nbd.is_empty() || !nothing_inherited || pool.serve.fuse.is_some() || mounts {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: [serve] names no way in: add nbd = [\"unix:tandem.sock\"] or fuse = \"DIR\" to it \
         (or mount = \"DIR\" to a volume of files)",
        path.display()
    )))
}

/// What is to be said when it is over.
fn report_end(pool: &PoolConfig, event_loop: &EventLoop<Engine>) -> Result<(), Failure> {
    let faulted: Vec<String> = event_loop
        .engine()
        .devices()
        .iter()
        .zip(&pool.devices)
        // those that were gone from the beginning are no news
        .filter(|(device, _)| {
            device.is_faulted() && !device.is_gone() && !event_loop.engine().is_absent(device.id)
        })
        .map(|(device, _)| pool.label(usize::from(device.id.0)))
        .collect();
    let failures = event_loop.failures();
    if let (true, Some(first)) = (faulted.is_empty(), failures.first()) {
        return Err(Failure::Failed(failed(&pool.name, first, &failures[1..])));
    }
    if faulted.is_empty() {
        stderr::note(format_args!("pool {} is closed cleanly", pool.name));
        for (pair, leg) in event_loop.engine().pairs().iter().zip(&pool.legs) {
            let names = [pool.devices[leg.device].label(), leg.drive.label()];
            if let Some(dead) = pair.alive.iter().position(|alive| !alive) {
                let (gone, other) = (&names[dead], &names[1 - dead]);
                stderr::note(format_args!(
                    "warning: {gone} is out of service; {other} alone has everything. Put a new \
                     drive in its place and start with --new-leg {gone}"
                ));
            }
        }
        return Ok(());
    }
    Err(Failure::Failed(anyhow!(
        "{} failed and was taken out of service: what only it held is lost; see `tandem check`",
        faulted.join(", ")
    )))
}

/// Drives failed commands, and are in service all the same.
fn failed(pool: &str, first: &DriveFailures, others: &[DriveFailures]) -> anyhow::Error {
    let mut text = format!("pool {pool} is closed, but drives failed while it was served: ");
    for (number, it) in std::iter::once(first).chain(others).enumerate() {
        let comma = if number == 0 { "" } else { "; " };
        let DriveFailures { drive, count, first } = it;
        text.push_str(&format!("{comma}{drive} failed {count} commands, first a {first}"));
    }
    anyhow!("{text}. `tandem check` says what cannot be read any more")
}
