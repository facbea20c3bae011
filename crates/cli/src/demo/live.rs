//! How does the demo serve a pool and load it as a client would?

use super::load::{self, VOLUME_BYTES, WRITE_BYTES};
use super::{HDD_BYTES, SSD_BYTES};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use tandem_block::{Arrival, Drive, DurabilityClass, ObjectId};
use tandem_drives::{BuildOptions, SsdState, build, spec};
use tandem_engine::bcw::controller::ControllerStats;
use tandem_engine::stats::EngineStats;
use tandem_engine::stats::recorder::{Latencies, Recorder};
use tandem_engine::{
    DeviceConfig, Engine, EngineConfig, Role, SteerConfig, VolumeConfig, WriteCache,
};
use tandem_fronts::nbd::{Client, Export, NbdConfig, NbdServer};
use tandem_live::device::{self, Backing};
use tandem_live::listen::{Address, Listener};
use tandem_live::remote_queue::Stopper;
use tandem_live::{Devices, EventLoop, EventLoopConfig};
use tandem_sim::profiles::{self, ProfileKind};
use tandem_sim::replay::{DeviceResult, GaugeSummary, RunResult};

const VOLUME: ObjectId = ObjectId(0);
/// Connections, each with one write under way: so deep can the queue become.
const CLIENTS: usize = 64;

/// What the serving thread leaves behind.
struct Served {
    stats: EngineStats,
    steering: Vec<ControllerStats>,
}

/// Serves a fresh pool on a socket, sends it the arrivals, verifies what was written.
pub fn serve_and_load(policy: &str, arrivals: &[Arrival], keep: bool) -> Result<RunResult> {
    let folder = tempfile::Builder::new().prefix("tandem-demo-").tempdir()?;
    for (name, bytes) in [("ssd.img", SSD_BYTES), ("hdd.img", HDD_BYTES)] {
        let file = std::fs::File::create(folder.path().join(name))?;
        file.set_len(bytes).with_context(|| format!("making {name}"))?;
    }
    let began = Instant::now();
    let (served, latencies) = with_server(folder.path(), policy, Life::First, |address| {
        let latencies = load_all(address, arrivals)?;
        let mut client = Client::connect(address, "demo")?;
        client.flush()?;
        client.disconnect()?;
        Ok(latencies)
    })?;
    let took = began.elapsed();
    with_server(folder.path(), policy, Life::Second, |address| verify(address, arrivals))?;
    if keep {
        crate::stderr::note(format_args!("kept: {}", folder.keep().display()));
    }
    Ok(result(served, latencies, took))
}

/// The pool's two lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Formatted, over emulated drives, loaded.
    First,
    /// Started again over the same files at their own speed, to be read back: an emulated hard
    /// drive would take a minute for that.
    Second,
}

/// Serves the pool in `folder` while `act` talks to it, and stops it cleanly.
fn with_server<T>(
    folder: &Path,
    policy: &str,
    life: Life,
    act: impl FnOnce(&Address) -> Result<T>,
) -> Result<(Served, T)> {
    let (ready, hear) = mpsc::channel();
    let (path, policy) = (folder.to_owned(), policy.to_owned());
    let server = std::thread::spawn(move || serve(&path, &policy, life, &ready));
    let acted = match hear.recv() {
        Ok(stopper) => {
            let acted = act(&Address::Unix(folder.join("demo.sock")));
            stopper.stop();
            acted
        }
        Err(_) => Err(anyhow::anyhow!("the server did not come up")),
    };
    let served = server.join().map_err(|_| anyhow::anyhow!("the serving thread panicked"))?;
    Ok((served?, acted?))
}

fn result(served: Served, latencies: Recorder, took: Duration) -> RunResult {
    let roles = [(Role::Ssd, "960evo", SSD_BYTES), (Role::Hdd, "wd100efax", HDD_BYTES)];
    let devices = roles
        .iter()
        .enumerate()
        .map(|(id, (role, name, bytes))| DeviceResult {
            role: *role,
            name: (*name).to_owned(),
            stats: served.stats.devices[id],
            gauge: GaugeSummary::default(),
            queue_found: Default::default(),
            steering: served.steering[id],
            flash_pages: (0, 0),
            model_bytes: *bytes,
            endurance_bytes: None,
            rating: None,
        })
        .collect();
    let wall_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    RunResult {
        digest: 0,
        wall_ns,
        elapsed_ns: wall_ns,
        latencies,
        steering: served.steering[1],
        stats: served.stats,
        tier_room: None,
        held_ns: 0,
        devices,
        streams: Vec::new(),
        timeline: None,
    }
}

/// The serving thread: drives, engine, socket, until it is told to stop.
fn serve(folder: &Path, policy: &str, life: Life, ready: &mpsc::Sender<Stopper>) -> Result<Served> {
    let mut opened = Vec::new();
    let mut configured = Vec::new();
    for (index, (role, name, file, bytes)) in [
        (Role::Ssd, "960evo", "ssd.img", SSD_BYTES),
        (Role::Hdd, "wd100efax", "hdd.img", HDD_BYTES),
    ]
    .into_iter()
    .enumerate()
    {
        let backing = Backing::Path(folder.join(file));
        opened.push(device::DeviceConfig { backing, emulate: model(life, name, bytes)? });
        configured.push(profile(role, name, bytes, index));
    }
    let volume = VolumeConfig {
        object: VOLUME,
        name: "demo".into(),
        size_bytes: VOLUME_BYTES,
        steer: SteerConfig::named(policy),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let format = life == Life::First;
    let config = EngineConfig { format, ..EngineConfig::with_drives(configured, vec![volume]) };
    let devices = Devices::open(opened)?;
    let mut event_loop = EventLoop::new(EventLoopConfig::default(), devices, Engine::new(config)?)?;
    let listener = Listener::bind(&Address::Unix(folder.join("demo.sock")), false)?;
    let export = Export {
        name: "demo".into(),
        object: VOLUME,
        size_bytes: VOLUME_BYTES,
        read_only: false,
        stream: None,
    };
    let nbd = NbdConfig { connections_max: CLIENTS + 2, ..NbdConfig::default() };
    event_loop.add_front(Box::new(NbdServer::new(nbd, vec![listener], vec![export])));
    // whoever connects before the engine is ready waits in the socket
    let _ = ready.send(event_loop.stopper());
    event_loop.run()?;
    let engine = event_loop.engine();
    let steering = engine
        .devices()
        .iter()
        .map(|d| d.bcw.as_ref().map_or_else(ControllerStats::default, |bcw| bcw.stats))
        .collect();
    Ok(Served { stats: engine.stats().clone(), steering })
}

/// The drive that a file pretends to be, in the first life.
fn model(life: Life, name: &str, bytes: u64) -> Result<Option<Box<dyn Drive>>> {
    if life == Life::Second {
        return Ok(None);
    }
    let options = BuildOptions {
        ssd_state: SsdState::Steady,
        capacity_bytes: Some(bytes),
        ..BuildOptions::default()
    };
    Ok(Some(build(&spec::load(name)?, options)?))
}

fn profile(role: Role, name: &str, capacity_bytes: u64, index: usize) -> DeviceConfig {
    let known = profiles::shipped(name).map(|profile| profile.kind);
    let (hdd_profile, ssd_profile) = match known {
        Some(ProfileKind::Hdd(profile)) => (Some(profile), Default::default()),
        Some(ProfileKind::Ssd { profile, .. }) => (None, profile),
        Some(ProfileKind::NoStaircase(_)) | None => (None, Default::default()),
    };
    DeviceConfig {
        role,
        capacity_bytes,
        write_cache: WriteCache::Volatile,
        depth: if role == Role::Ssd { 256 } else { 1 },
        uuid: index as u128 + 1,
        hdd_profile,
        ssd_profile,
    }
}

/// Sends every arrival at its time, over as many connections as may be under way together.
fn load_all(address: &Address, arrivals: &[Arrival]) -> Result<Recorder> {
    let next = AtomicUsize::new(0);
    let writes = Mutex::new(Latencies::default());
    let began = Instant::now() + Duration::from_millis(200);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| send(address, arrivals, &next, began, &writes)))
            .collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a client panicked"),
        })
    })?;
    let mut recorder = Recorder::default();
    recorder.write.total = writes.into_inner().map_err(|_| anyhow::anyhow!("a client panicked"))?;
    Ok(recorder)
}

fn send(
    address: &Address,
    arrivals: &[Arrival],
    next: &AtomicUsize,
    began: Instant,
    writes: &Mutex<Latencies>,
) -> Result<()> {
    let mut client = Client::connect(address, "demo")?;
    let mut own = Vec::new();
    let mut bytes = vec![0; WRITE_BYTES as usize];
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(arrival) = arrivals.get(index) else { break };
        let due = began + Duration::from_nanos(arrival.at.ns);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        load::fill(index as u64, &mut bytes);
        client.write(arrival.offset_bytes, &bytes, false)?;
        own.push(u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    client.disconnect()?;
    let mut all = writes.lock().map_err(|_| anyhow::anyhow!("another client panicked"))?;
    own.into_iter().for_each(|ns| all.record(ns));
    Ok(())
}

/// Reads every place that was written and compares it with its last writer.
fn verify(address: &Address, arrivals: &[Arrival]) -> Result<()> {
    let mut client = Client::connect(address, "demo")?;
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (index, arrival) in arrivals.iter().enumerate() {
        last.insert(arrival.offset_bytes, index as u64);
    }
    let mut wanted = vec![0; WRITE_BYTES as usize];
    for (offset, index) in last {
        load::fill(index, &mut wanted);
        let found = client.read(offset, WRITE_BYTES as u32)?;
        if found != wanted {
            bail!("at byte {offset} the volume does not hold what write {index} put there");
        }
    }
    client.disconnect()?;
    Ok(())
}

const _: () = assert!(VOLUME_BYTES.is_multiple_of(WRITE_BYTES));
