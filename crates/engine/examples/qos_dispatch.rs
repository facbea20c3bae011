//! What does it cost to tell a thousand streams apart? Run it in release.
//!
//! Source: acceptance of reservations and the pair, "Speed and memory": dispatch with 1,000 streams under 300 ns per
//! request. `room`: the queues alone, a request in and one out, every stream with a promise, every
//! third with a weight or a limit too. `engine`: a whole engine under fixed placement, a request in
//! and its command's completion back, under each order.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, not the engine")]

use std::hint::black_box;
use std::sync::Arc;
use tandem_block::{Instant, KIB, ObjectId, Op, PayloadId, Request, RequestId, Rng, StreamId};
use tandem_engine::device::{Job, Waiting};
use tandem_engine::io::pins::Pin;
use tandem_engine::owner::{LogIo, Owner};
use tandem_engine::qos::cost::{CostRow, CostTable, Kind};
use tandem_engine::qos::reserve::{Promise, QosConfig, Rate, Selector, StreamConfig, WHOLE_PPB};
use tandem_engine::qos::streams::Streams;
use tandem_engine::qos::{Candidate, ORDERS};
use tandem_engine::{
    Command, DeviceConfig, Engine, EngineConfig, Event, IoOp, Placement, Role, SteerConfig,
    VolumeConfig, WriteCache,
};

const ROUNDS: usize = 5;
const REQUESTS: u64 = 2_000_000;
/// Requests that wait for each stream.
const BACKLOG: u64 = 4;

fn stream(index: u32, count: u32) -> StreamConfig {
    // all together take nine tenths at 10 us a request
    let rate = Rate::Requests((90_000 / u64::from(count)).max(1));
    StreamConfig {
        name: index.to_string(),
        of: Selector::Stream(StreamId(index)),
        promise: Some(Promise::of(rate, 4 * KIB)),
        weight: index.is_multiple_of(3).then_some(100),
        limit: (index % 3 == 1).then_some(Rate::Requests(1_000_000)),
    }
}

fn config(order: &str, count: u32) -> QosConfig {
    let row = |kind| CostRow {
        kind,
        size_bytes: 4 * KIB,
        depth: 31,
        mean_ns: 5_000,
        cost_ns: vec![10_000],
    };
    let table = CostTable {
        windows_ns: vec![1_000_000_000],
        confidences_ppm: vec![950_000],
        range_bytes: 0,
        rows: Kind::ALL.map(row).to_vec(),
    };
    QosConfig {
        order: order.into(),
        streams: (0..count).map(|index| stream(index, count)).collect(),
        costs: vec![Some(Arc::new(table))],
        ..QosConfig::default()
    }
}

/// ns for a request into the room and one out of it.
fn room(count: u32) -> u64 {
    let config = config("edf", count);
    let shares = vec![WHOLE_PPB * 9 / 10 / u64::from(count); count as usize];
    let order = ORDERS.iter().find(|entry| entry.name == "edf").expect("registered");
    let order = (order.build)();
    let mut streams = Streams::new(&config, &shares, 1, order.apart());
    let mut rng = Rng::new(1);
    let mut sequence = 0;
    let mut push = |streams: &mut Streams, now: Instant, rng: &mut Rng| {
        sequence += 1;
        let job = Job::Io(IoOp::Flush, Owner::Log(LogIo::Flush));
        let waiting = Waiting::new(sequence, 4096, job, Pin::NONE);
        let kind = Kind { read: sequence.is_multiple_of(2), sequential: false };
        let index = rng.below(u64::from(count)) as u16;
        streams.push(now, index, kind, 5_000 + rng.below(10_000), waiting);
    };
    for _ in 0..u64::from(count) * BACKLOG {
        push(&mut streams, Instant::ZERO, &mut rng);
    }
    let began = std::time::Instant::now();
    for number in 0..REQUESTS {
        let now = Instant::from_ns(number * 9_000);
        push(&mut streams, now, &mut rng);
        let view = streams.view(now, 0);
        let Some(candidate) = order.next_stream(&view) else { continue };
        let taken = streams.take(now, candidate);
        let owed = candidate == Candidate::Due;
        streams.done(now, taken.pick, owed, taken.tags, taken.waiting.bytes);
        black_box(&taken.waiting);
    }
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX) / REQUESTS
}

fn engine(order: &str, count: u32) -> Engine {
    let device = DeviceConfig {
        role: Role::Ssd,
        capacity_bytes: 4 << 30,
        write_cache: WriteCache::Volatile,
        depth: 31,
        uuid: 1,
        hdd_profile: None,
        ssd_profile: Default::default(),
    };
    let volume = VolumeConfig {
        object: ObjectId(1),
        name: "v".into(),
        size_bytes: 4 << 30,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: Default::default(),
    };
    let mut config = EngineConfig::with_drives(vec![device], vec![volume]);
    config.placement = Placement::Fixed;
    config.contents = false;
    config.qos = self::config(order, count);
    Engine::new(config).expect("sound")
}

/// ns for a request and its completion through a whole engine whose queue is always long.
fn whole(order: &str, count: u32) -> u64 {
    let mut engine = engine(order, count);
    let (mut commands, mut rng) = (Vec::new(), Rng::new(2));
    let mut under_way = std::collections::VecDeque::new();
    let mut now = Instant::from_ns(1);
    engine.on(now, Event::Start, &mut commands);
    let sort = |commands: &mut Vec<Command>, under_way: &mut std::collections::VecDeque<_>| {
        for command in commands.drain(..) {
            if let Command::Submit(io) = command {
                under_way.push_back(io.id);
            }
        }
    };
    sort(&mut commands, &mut under_way);
    let requests = REQUESTS / 2;
    let backlog = u64::from(count) * BACKLOG;
    let mut began = std::time::Instant::now();
    for number in 0..requests + backlog {
        if number == backlog {
            began = std::time::Instant::now();
        }
        now = Instant::from_ns(now.ns + 9_000);
        let range = (rng.below(1 << 20) * 4096, 4096);
        let op = if number % 2 == 0 { Op::Read } else { Op::Write };
        let mut request = Request::new(RequestId(number), ObjectId(1), op, range, now);
        request.stream = StreamId(rng.below(u64::from(count)) as u32);
        request.payload = if op == Op::Write { PayloadId(number + 1) } else { PayloadId::NONE };
        engine.on(now, Event::Request(&request), &mut commands);
        sort(&mut commands, &mut under_way);
        if number >= backlog
            && let Some(io) = under_way.pop_front()
        {
            let done =
                Event::Completion { io, status: Ok(()), took: None, checksums: &[], bytes: &[] };
            engine.on(now, done, &mut commands);
            sort(&mut commands, &mut under_way);
        }
    }
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX) / requests
}

fn median(mut run: impl FnMut() -> u64) -> u64 {
    let mut found: Vec<u64> = (0..ROUNDS).map(|_| run()).collect();
    found.sort_unstable();
    found[ROUNDS / 2]
}

fn main() {
    for count in [1, 10, 100, 1_000] {
        println!("room_{count}: {}", median(|| room(count)));
    }
    for entry in ORDERS {
        let ns = median(|| whole(entry.name, 1_000));
        println!("engine_{}_1000: {ns}", entry.name);
    }
}
