//! How many requests a second does a whole replay take? Prints a table; run it in release.
//!
//! `virtual_time [words]`: only the rows that contain each of the words, `virtual_time ssd-first 32`.
//! The column `CPU ns` is what the thread took of the processor a request, where the kernel tells: on
//! a busy machine it is the steadier one. Setting up is in neither.
//!
//! Source: models §1 and §7: trace decoded, full statistics, 4 KiB random writes while the SSD
//! collects garbage, `mapped`.

use tandem_block::{Arrival, Instant, ObjectId, Op, RequestType, Rng, StreamId};
use tandem_engine::{Role, SteerConfig};
use tandem_sim::replay::{DriveChoice, ReplayConfig, Survey, plan, replay};

const REQUESTS: u64 = 2_000_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "{:<10} {:<34} {:>7} {:>9} {:>11} {:>6} {:>9}",
        "policy", "workload", "CPU ns", "ns/req", "requests/s", "WA", "Mpages/s"
    );
    for (what, drive_bytes, length_bytes, footprint) in [
        ("4 KiB over 8 GiB, 32 GB drive", 32_000_000_000, 4096, 8 << 30),
        ("4 KiB over 32 GiB, 250 GB drive", 250_000_000_000, 4096, 32 << 30),
        ("64 KiB over 8 GiB, 32 GB drive", 32_000_000_000, 65536, 8 << 30),
    ] {
        for policy in ["ssd-first", "mios-d", "mios-e"] {
            let row = format!("{policy} {what}");
            if !words.iter().all(|word| row.contains(word)) {
                continue;
            }
            one(policy, what, drive_bytes, length_bytes, footprint);
        }
    }
}

fn one(policy: &str, what: &str, drive_bytes: u64, length_bytes: u64, footprint: u64) {
    let mut rng = Rng::new(1);
    let count = REQUESTS * 4096 / length_bytes.max(4096);
    let arrivals: Vec<Arrival> = (0..count)
        .map(|index| Arrival {
            at: Instant::from_ns(index),
            object: ObjectId(0),
            op: Op::Write,
            offset_bytes: rng.below(footprint / length_bytes) * length_bytes,
            length_bytes,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        })
        .collect();
    let ssds = vec![DriveChoice::shipped("960evo", Some(drive_bytes))];
    let hdds = vec![DriveChoice::shipped("wd100efax", None)];
    let config = ReplayConfig {
        closed_loop: Some(32),
        ..ReplayConfig::of(SteerConfig::named(policy), ssds, hdds)
    };
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let plan = plan(&config, &survey).expect("it fits");
    let begun = cpu_ns();
    replay(&config, &plan, std::iter::empty()).expect("it runs");
    let set_up = cpu_ns();
    let result = replay(&config, &plan, arrivals.iter().copied()).expect("it runs");
    let spent_ns = (cpu_ns() - set_up).saturating_sub(set_up - begun);
    let ssd = result.devices.iter().find(|device| device.role == Role::Ssd).expect("one");
    let (flash, host) = ssd.flash_pages;
    println!(
        "{policy:<10} {what:<34} {:>7} {:>9} {:>11.0} {:>6.2} {:>9.2}",
        spent_ns / count,
        result.wall_ns / count,
        count as f64 * 1e9 / result.wall_ns as f64,
        flash as f64 / host.max(1) as f64,
        flash as f64 * 1e3 / result.wall_ns as f64,
    );
}

/// Time that this thread has had a processor; 0 where the kernel does not say.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
