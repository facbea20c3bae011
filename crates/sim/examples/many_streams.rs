//! How many requests a second does a drive with a hundred promised streams take in virtual time? Run it
//! in release.
//!
//! Source: reservations and the pair, "Speed and memory": 100 streams with reservations on one drive model
//! in virtual time, at least 500,000 requests/s. Half of the streams read, half write, 4 KiB at random, two
//! requests each at a time; each has an equal part of nine tenths of the drive.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, not the engine")]

use std::sync::Arc;
use tandem_block::Duration;
use tandem_drives::SsdState;
use tandem_drives::spec::load;
use tandem_engine::SteerConfig;
use tandem_engine::qos::cost::Kind;
use tandem_sim::sharing::{ClientSpec, SharingConfig, Target, costs, plan, prepare, run};

const STREAMS: u32 = 100;
const RUNS: usize = 5;
/// Nine tenths of the drive, in millionths.
const PROMISED_PPM: u64 = 900_000;

fn client(number: u32) -> ClientSpec {
    ClientSpec {
        name: number.to_string(),
        kind: Kind { read: number.is_multiple_of(2), sequential: false },
        size_bytes: 4096,
        from_bytes: 0,
        range_bytes: 0,
        outstanding: 2,
        arrives: None,
        think: Duration::from_ns(0),
        recorded: None,
        fua: false,
        target: Some(Target::SharePpm(PROMISED_PPM / u64::from(STREAMS))),
        weight: None,
        limit: None,
    }
}

fn main() {
    let config = SharingConfig {
        spec: load("960evo")
            .expect("shipped")
            .with_capacity_bytes(4_000_000_000)
            .expect("possible"),
        pair: None,
        hdds: Vec::new(),
        steer: SteerConfig::default(),
        state: SsdState::Steady,
        fill_bytes: 0,
        age_bytes: (0, 0),
        warm_up: Duration::from_ms(100),
        duration: Duration::from_s(10),
        clients: (0..STREAMS).map(client).collect(),
        order: "edf".into(),
        window: Duration::from_s(1),
        confidence_ppm: 950_000,
        seed: 1,
    };
    let prepared = prepare(&config).expect("a drive");
    let table = costs(&config, &prepared, &plan(&config, Duration::from_s(2))).expect("measured");
    let table = Arc::new(table);
    let mut rates: Vec<u64> = (0..RUNS).map(|_| once(&config, &prepared, &table)).collect();
    rates.sort_unstable();
    println!("requests_per_s: {}", rates[RUNS / 2]);
}

/// Requests that were answered, a second of the clock on the wall.
fn once(
    config: &SharingConfig,
    prepared: &tandem_sim::sharing::Prepared,
    table: &Arc<tandem_engine::qos::cost::CostTable>,
) -> u64 {
    let began = std::time::Instant::now();
    let result = run(config, prepared, table).expect("runs");
    let took_ns = began.elapsed().as_nanos();
    let count = |client: &tandem_sim::sharing::ClientResult| {
        client.throughput.bins.iter().map(|count| u64::from(*count)).sum::<u64>()
    };
    let requests: u64 = result.clients.iter().map(count).sum();
    assert!(result.clients.iter().all(|client| client.target.is_some()), "all are promised some");
    u64::try_from(u128::from(requests) * 1_000_000_000 / took_ns).expect("a rate")
}
