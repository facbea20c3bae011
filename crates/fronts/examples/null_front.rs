//! What do the layers below the front ends cost, over a real file, and how true is an emulated
//! drive's clock?
//!
//! ```text
//! null_front device FILE SPAN_BYTES read|write DEPTH COUNT   requests/s of 4 KiB, random
//! null_front journal FILE SPAN_BYTES write|zeroes DEPTH COUNT   commits of such requests with FUA
//! null_front emulated COUNT                  nanoseconds of 4 KiB writes, one by one, in its buffer
//! ```
//! FILE becomes a pool of one SSD: what it held is lost. `cargo xtask context` runs this beside fio and
//! dd.

#[path = "../../live/tests/support/mod.rs"]
mod support;

use anyhow::{Context as _, Result, bail};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use support::PassThrough;
use tandem_block::{BLOCK_BYTES, DurabilityClass, MIB, ObjectId, Op};
use tandem_drives::{BuildOptions, build, spec, study};
use tandem_engine::stats::EngineStats;
use tandem_engine::{
    DeviceConfig, Engine, EngineConfig, Role, SteerConfig, VolumeConfig, WriteCache,
};
use tandem_fronts::null::{NullConfig, NullFront, NullStats};
use tandem_live::device::{self, Backing};
use tandem_live::{Devices, EventLoop, EventLoopConfig};

const VOLUME: ObjectId = ObjectId(0);
/// The drive whose fast writes of 4 KiB take 35 us [BCW §3].
const EMULATED: &str = "wd100efax";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["device", file, span, op, depth, count] => {
            let load = load(op, span, depth, count, false)?;
            let (stats, _) = over_file(Path::new(file), load)?;
            println!("rate: {}", per_second(stats.done_count, &stats));
        }
        ["journal", file, span, op, depth, count] => {
            let load = load(op, span, depth, count, true)?;
            let (stats, engine) = over_file(Path::new(file), load)?;
            println!("requests: {}", per_second(stats.done_count, &stats));
            println!("commits: {}", per_second(engine.commits, &stats));
            println!("commit-bytes: {}", engine.devices[0].map_bytes / engine.commits.max(1));
            println!("updates-a-hundred-commits: {}", engine.updates * 100 / engine.commits.max(1));
            println!("checkpoints: {}", engine.checkpoints);
        }
        ["emulated", count] => {
            let latencies = emulated(count.parse().context("COUNT")?)?;
            let at = |share: usize| latencies[(latencies.len() - 1) * share / 1000];
            println!("model: {}", model_ns()?);
            println!("p50: {}\np99: {}\np999: {}", at(500), at(990), at(999));
        }
        _ => bail!("usage: see the first lines of the example null_front"),
    }
    Ok(())
}

fn load(op: &str, span: &str, depth: &str, count: &str, fua: bool) -> Result<NullConfig> {
    let op = match op {
        "read" => Op::Read,
        "write" => Op::Write,
        "zeroes" => Op::WriteZeroes,
        _ => bail!("{op:?} is not read, write or zeroes"),
    };
    Ok(NullConfig {
        object: VOLUME,
        op,
        fua,
        span_bytes: span.parse().context("SPAN_BYTES")?,
        request_bytes: BLOCK_BYTES,
        depth: depth.parse().context("DEPTH")?,
        count: count.parse().context("COUNT")?,
        random_seed: Some(1),
    })
}

fn per_second(count: u64, stats: &NullStats) -> u64 {
    let took_ns = stats.end.since(stats.begin).ns.max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(took_ns)).unwrap_or(u64::MAX)
}

/// Formats the file and fills the span, then starts again and sends the load.
fn over_file(file: &Path, load: NullConfig) -> Result<(NullStats, EngineStats)> {
    let fill = NullConfig {
        op: Op::Write,
        fua: false,
        request_bytes: MIB,
        depth: 8,
        count: load.span_bytes / MIB,
        random_seed: None,
        ..load
    };
    // a number of its own, or the journal of a pool that was here before would look like this one's
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let pool = since.as_nanos();
    life(file, fill, (pool, true))?;
    life(file, load, (pool, false))
}

fn life(
    file: &Path,
    load: NullConfig,
    (pool, format): (u128, bool),
) -> Result<(NullStats, EngineStats)> {
    let backing = Backing::Path(file.to_owned());
    let devices = Devices::open(vec![device::DeviceConfig { backing, emulate: None }])?;
    let ssd = DeviceConfig {
        role: Role::Ssd,
        capacity_bytes: devices.capacities()[0],
        write_cache: WriteCache::Volatile,
        depth: 256,
        uuid: 1,
        hdd_profile: None,
        ssd_profile: Default::default(),
    };
    let volume = VolumeConfig {
        object: VOLUME,
        name: "null".into(),
        size_bytes: load.span_bytes,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let config = EngineConfig::with_drives(vec![ssd], vec![volume]);
    let config = EngineConfig { pool, format, ..config };
    let mut event_loop = EventLoop::new(EventLoopConfig::default(), devices, Engine::new(config)?)?;
    let (front, stats) = NullFront::new(load);
    event_loop.add_front(Box::new(front));
    event_loop.run()?;
    let stats = *stats.borrow();
    if stats.failed_count > 0 || stats.done_count < load.count {
        bail!("{} of {} requests failed", stats.failed_count, load.count);
    }
    Ok((stats, event_loop.engine().stats().clone()))
}

fn model_ns() -> Result<u64> {
    let spec::ModelSpec::Hdd(hdd) = spec::load(EMULATED)?.model else { bail!("a hard drive") };
    Ok(study::staircase(&hdd, BLOCK_BYTES).fast_ns)
}

/// Latencies in ascending order of sequential writes to an emulated drive, with nothing above it.
fn emulated(count: u64) -> Result<Vec<u64>> {
    let bytes = 256 * MIB;
    let options = BuildOptions { capacity_bytes: Some(bytes), ..BuildOptions::default() };
    let drive = build(&spec::load(EMULATED)?, options)?;
    let backing = Backing::Ram { bytes };
    let devices = Devices::open(vec![device::DeviceConfig { backing, emulate: Some(drive) }])?;
    let mut event_loop =
        EventLoop::new(EventLoopConfig::default(), devices, PassThrough::new(bytes))?;
    let (front, _) = NullFront::new(NullConfig {
        object: VOLUME,
        op: Op::Write,
        fua: false,
        span_bytes: bytes,
        request_bytes: BLOCK_BYTES,
        depth: 1,
        count,
        random_seed: None,
    });
    let latencies = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&latencies);
    event_loop
        .observe(Box::new(move |request, _, now| heard.borrow_mut().push(request.age(now).ns)));
    event_loop.add_front(Box::new(front));
    event_loop.run()?;
    drop(event_loop);
    let mut latencies = latencies.take();
    latencies.sort_unstable();
    Ok(latencies)
}
