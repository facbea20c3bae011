//! How much RAM does the map take, for each TiB of SSD and of hard drive? Prints a table.
//!
//! Source: acceptance of the spine, "Speed and memory": at most 3 GiB per TiB of SSD in the worst case
//! (4 KiB random) and 0.5 GiB per TiB of hard drive. The map of a pool of a 64th of the size is filled: each
//! slot is in use, and neighbours belong to blocks that lie far apart. On top come what is bounded by
//! settings: checksum pages, one commit, tails.

use tandem_block::{DurabilityClass, GIB, ObjectId, TIB};
use tandem_engine::map::Map;
use tandem_engine::profile::SsdProfile;
use tandem_engine::{
    DeviceConfig, Engine, EngineConfig, Role, SteerConfig, VolumeConfig, WriteCache,
};

/// The map that is filled is so much smaller.
const SHARE: u64 = 64;

fn main() {
    println!("{:<24} {:>10} {:>14} {:>12}", "pool", "map GiB", "bytes/4 KiB", "wanted GiB");
    let ssd_alone = row("1 TiB SSD alone", 1, 0, Some(3.0));
    row("4 TiB hard drive alone", 0, 4, Some(2.0));
    let both = row("1 TiB SSD, 1 TiB HDD", 1, 1, Some(3.5));
    row("1 TiB SSD, 4 TiB HDD", 1, 4, Some(5.0));
    let nine = row("1 TiB SSD, 9 TiB HDD", 1, 9, Some(7.5));
    println!("each TiB of hard drive beside an SSD adds {:.3} GiB", (nine - both) / 8.0);
    println!("1 TiB of SSD beside hard drives: {:.3} GiB", both - (nine - both) / 8.0);
    assert!(ssd_alone > 0.0);
}

fn row(what: &str, ssd_tib: u64, hdd_tib: u64, wanted: Option<f64>) -> f64 {
    let device = |role, capacity_bytes, uuid| DeviceConfig {
        role,
        capacity_bytes,
        write_cache: WriteCache::Volatile,
        depth: 32,
        uuid,
        hdd_profile: None,
        ssd_profile: SsdProfile::default(),
    };
    let mut drives = Vec::new();
    if ssd_tib > 0 {
        drives.push(device(Role::Ssd, ssd_tib * TIB, 1));
    }
    if hdd_tib > 0 {
        drives.push(device(Role::Hdd, hdd_tib * TIB, 2));
    }
    let volume = VolumeConfig {
        object: ObjectId(1),
        name: "vol".into(),
        size_bytes: GIB,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let config = EngineConfig::with_drives(drives, vec![volume]);
    let engine = Engine::new(config).expect("a sound configuration");
    let (map, mut slots) = (engine.map(), [0, 0]);
    for region in map.slots().regions() {
        slots
            [usize::from(engine.devices()[usize::from(region.device.0)].layout.home_blocks > 0)] +=
            region.count;
    }
    let blocks = map.leaves().block_count() as u64;
    let filled = Map::filled(slots[0] / SHARE, slots[1] / SHARE, blocks / SHARE);
    let bytes = (filled.memory_bytes() as u64 * SHARE) as f64;
    let gib = bytes / GIB as f64;
    let blocks = (ssd_tib + hdd_tib) as f64 * (TIB / 4096) as f64;
    let wanted = wanted.map_or(String::new(), |wanted| format!("{wanted:.1}"));
    println!("{what:<24} {gib:>10.3} {:>14.2} {wanted:>12}", bytes / blocks);
    gib
}
