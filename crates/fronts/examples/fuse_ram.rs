//! How fast is the FUSE front end over the real engine? Mounts one volume, `vol0`, of a fresh pool
//! of one drive until SIGTERM; beside `fuse_bare` for the benchmark.
//!
//! `fuse_ram DIR [MIB] [FILE|ram] [SPIN_US]`: a volume of so many MiB on a drive in RAM, or on a file of at least
//! twice the size. The pool is formatted: a file's contents are lost.

use std::path::Path;
use tandem_block::{DurabilityClass, Duration, MIB, ObjectId, StreamId};
use tandem_engine::{
    DeviceConfig, Engine, EngineConfig, Role, SteerConfig, VolumeConfig, WriteCache,
};
use tandem_fronts::fuse::{FuseServer, VolumeFile};
use tandem_live::uring::Signals;
use tandem_live::{Backing, Devices, EventLoop, EventLoopConfig, device};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let point = arguments.next().ok_or("usage: fuse_ram DIR [MIB] [FILE|ram] [SPIN_US]")?;
    let mib: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let size_bytes = mib * MIB;
    let backing = match arguments.next() {
        Some(path) if path != "ram" => Backing::Path(path.into()),
        _ => Backing::Ram { bytes: 2 * size_bytes + 256 * MIB },
    };
    let signals = Signals::listen()?;
    let devices = Devices::open(vec![device::DeviceConfig { backing, emulate: None }])?;
    let drive = DeviceConfig {
        role: Role::Ssd,
        capacity_bytes: devices.capacities()[0],
        write_cache: WriteCache::Volatile,
        depth: 256,
        uuid: 1,
        hdd_profile: None,
        ssd_profile: Default::default(),
    };
    let volume = VolumeConfig {
        object: ObjectId(0),
        name: "vol0".into(),
        size_bytes,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let engine = Engine::new(EngineConfig::with_drives(vec![drive], vec![volume]))?;
    let spin = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let config = EventLoopConfig { spin: Duration::from_us(spin), ..EventLoopConfig::default() };
    let mut event_loop = EventLoop::new(config, devices, engine)?;
    event_loop.stop_on(signals);
    let file = VolumeFile { name: "vol0".into(), object: ObjectId(0), size_bytes };
    event_loop.add_front(Box::new(FuseServer::mount(Path::new(&point), vec![file], StreamId(0))?));
    event_loop.run()?;
    Ok(())
}
