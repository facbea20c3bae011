//! Do clients get what they are promised, on a drive small enough for a test?

use super::*;
use tandem_drives::spec::load;
use tandem_engine::mirror::{Answer, Idle, RoleRule};

fn client(name: &str, kind: Kind, size_bytes: u64, target: Option<Target>) -> ClientSpec {
    ClientSpec {
        name: name.into(),
        kind,
        size_bytes,
        from_bytes: 0,
        range_bytes: 0,
        outstanding: 31,
        arrives: None,
        think: Duration::from_ns(0),
        recorded: None,
        fua: false,
        target,
        weight: None,
        limit: None,
    }
}

fn config(drive: &str, order: &str, clients: Vec<ClientSpec>) -> SharingConfig {
    SharingConfig {
        spec: load(drive).expect("shipped").with_capacity_bytes(1_000_000_000).expect("possible"),
        pair: None,
        hdds: Vec::new(),
        steer: SteerConfig::default(),
        state: SsdState::Steady,
        fill_bytes: 0,
        age_bytes: (0, 0),
        warm_up: Duration::from_s(2),
        duration: Duration::from_s(20),
        clients,
        order: order.into(),
        window: Duration::from_s(5),
        confidence_ppm: 950_000,
        seed: 1,
    }
}

fn rates(config: &SharingConfig) -> Vec<(u64, Option<Rate>)> {
    let prepared = prepare(config).expect("a drive");
    let costs =
        Arc::new(costs(config, &prepared, &plan(config, Duration::from_s(20))).expect("measured"));
    let result = run(config, &prepared, &costs).expect("runs");
    let per_s = |client: &ClientResult| {
        let sum: u64 = client.throughput.bins.iter().map(|count| u64::from(*count)).sum();
        (sum * 1_000_000_000 / config.duration.ns, client.target)
    };
    result.clients.iter().map(per_s).collect()
}

const RANDOM_READ: Kind = Kind { read: true, sequential: false };
const RANDOM_WRITE: Kind = Kind { read: false, sequential: false };
const SEQUENTIAL_WRITE: Kind = Kind { read: false, sequential: true };

/// I8: under `edf` each gets its share of the drive, whatever the others ask for; under `fifo` who asks
/// most gets most.
#[test]
fn promises_hold_beside_a_flood() {
    let half = Some(Target::SharePpm(450_000));
    let modest = client("modest", RANDOM_READ, 65_536, half);
    let flood = ClientSpec {
        outstanding: 124,
        ..client("flood", Kind { read: true, sequential: true }, 65_536, half)
    };
    let clients = vec![modest, flood];
    let kept = |order: &str| {
        let rates = rates(&config("510", order, clients.clone()));
        rates.into_iter().map(|(per_s, target)| match target {
            Some(Rate::Requests(wanted)) => per_s * 100 / wanted,
            other => panic!("{other:?}"),
        })
    };
    let percent: Vec<u64> = kept("edf").collect();
    assert!(percent.iter().all(|percent| *percent >= 98), "{percent:?}");
    let percent: Vec<u64> = kept("fifo").collect();
    assert!(percent[0] < 60 && percent[1] > 130, "{percent:?}");
}

/// I9: what does not fit is known before, and said with what would.
#[test]
fn what_is_asked_for_is_known() {
    let ask = |ppm| {
        let share = Some(Target::SharePpm(ppm));
        let write = client("write", SEQUENTIAL_WRITE, 262_144, share);
        let config = config("510", "edf", vec![client("read", RANDOM_READ, 262_144, share), write]);
        let prepared = prepare(&config).expect("a drive");
        let plan = plan(&config, Duration::from_s(20));
        let costs = Arc::new(costs(&config, &prepared, &plan).expect("measured"));
        refused(&config, &costs)
    };
    assert_eq!(ask(490_000), None);
    let why = ask(600_000).expect("120 %");
    assert!(why.starts_with("stream write needs 5") || why.contains("% are promised"), "{why}");
    assert!(why.contains("would fit"), "{why}");
}

/// One run has one outcome.
#[test]
fn runs_repeat() {
    let clients = vec![
        client("read", RANDOM_READ, 4096, Some(Target::SharePpm(400_000))),
        client("write", SEQUENTIAL_WRITE, 4096, None),
    ];
    let config = SharingConfig { duration: Duration::from_s(2), ..config("x25e", "edf", clients) };
    let prepared = prepare(&config).expect("a drive");
    let costs = Arc::new(
        costs(&config, &prepared, &plan(&config, Duration::from_s(12))).expect("measured"),
    );
    let digest = || run(&config, &prepared, &costs).expect("runs").digest;
    assert_eq!(digest(), digest());
}

fn paired(order: &str, clients: Vec<ClientSpec>) -> SharingConfig {
    let pair = PairOf {
        role_rule: RoleRule::default(),
        settles: true,
        period: Duration::from_s(1),
        idle: Idle::Fixed(Duration::from_ns(0)),
        answer: Answer::Cached,
        cache_periods: CACHE_PERIODS,
        absent: None,
    };
    SharingConfig { pair: Some(pair), ..config("510", order, clients) }
}

/// I20: on a pair reads and writes each have a drive: of either the promises hold beside a flood of the
/// same, and reads promised nearly a whole drive are kept beside writers that never stop.
#[test]
fn promises_hold_on_a_pair() {
    let half = Some(Target::SharePpm(450_000));
    let flooding = |spec: ClientSpec| ClientSpec { outstanding: 124, ..spec };
    let clients = vec![
        client("read", RANDOM_READ, 65_536, half),
        flooding(client("reads", RANDOM_READ, 65_536, half)),
        client("write", SEQUENTIAL_WRITE, 65_536, half),
        flooding(client("writes", SEQUENTIAL_WRITE, 65_536, half)),
    ];
    let kept = |order: &str| -> Vec<u64> {
        let rates = rates(&paired(order, clients.clone()));
        let percent = |(per_s, target)| match target {
            Some(Rate::Requests(wanted)) => per_s * 100 / wanted,
            other => panic!("{other:?}"),
        };
        rates.into_iter().map(percent).collect()
    };
    let percent = kept("edf");
    assert!(percent.iter().all(|percent| *percent >= 97), "{percent:?}");
    let percent = kept("fifo");
    // cached writes answer some of the reads, so that all have more than their share
    assert!(percent[1] > 3 * percent[0] && percent[3] > 3 * percent[2], "{percent:?}");
}

/// A limit is one for both sides of a pair, and holds for who reads and for who writes.
#[test]
fn limits_hold_on_a_pair() {
    let limited = |spec: ClientSpec| ClientSpec { limit: Some(Rate::Requests(50)), ..spec };
    let clients = vec![
        limited(client("read", RANDOM_READ, 65_536, None)),
        limited(client("write", SEQUENTIAL_WRITE, 65_536, None)),
        client("others", RANDOM_READ, 65_536, None),
    ];
    let rates = rates(&paired("edf", clients));
    assert!((48..=51).contains(&rates[0].0) && (48..=51).contains(&rates[1].0), "{rates:?}");
    assert!(rates[2].0 > 1_000, "{rates:?}");
}

/// I13, I15, I16: roles change every period, both legs get every write, the cache keeps to its bound,
/// and what RAM alone has is less than a period's writes; nothing, where writes are acknowledged when a
/// leg has them.
#[test]
fn a_pair_is_watched() {
    let clients = vec![
        client("read", RANDOM_READ, 65_536, None),
        client("write", RANDOM_WRITE, 65_536, None),
    ];
    let watched = |answer| {
        let mut config = paired("fifo", clients.clone());
        config.pair = config.pair.map(|pair| PairOf { answer, ..pair });
        let prepared = prepare(&config).expect("drives");
        let none = Arc::new(CostTable::default());
        let result = run(&config, &prepared, &none).expect("runs");
        (result.pair.expect("a pair"), result.written)
    };
    let (pair, written) = watched(Answer::Cached);
    // a period is as long as the new writer takes to make up for the other one, at least
    assert!((15..=21).contains(&pair.view.stats.turns), "{pair:?}");
    assert_eq!(pair.view.stats.turns, pair.turns.len() as u64);
    let [first, second] = pair.view.stats.written_bytes;
    assert!(first.abs_diff(second) < first / 4, "{pair:?}");
    assert_eq!(written.ssd_bytes, first + second);
    let stats = pair.view.stats;
    let twice = 2 * (stats.accepted_bytes - pair.view.coalesced_bytes);
    // what the cache holds at the end lacks one leg, or both
    let lacking = pair.view.cache_bytes..=2 * pair.view.cache_bytes;
    let unwritten = twice.checked_sub(written.ssd_bytes).expect("nothing is written three times");
    assert!(lacking.contains(&unwritten), "{unwritten} {written:?} {pair:?}");
    assert!(pair.cache_bytes.1 > 0 && pair.cache_bytes.1 <= 2 * pair.moved_bytes, "{pair:?}");
    assert!(pair.risk_bytes_max > 0 && pair.risk_bytes_max <= pair.cache_bytes.1, "{pair:?}");
    assert_eq!(watched(Answer::Written).0.risk_bytes_max, 0);
}

/// Legs without roles both write everything before it is answered, and share the reads.
#[test]
fn legs_without_roles_share_the_reads() {
    let clients = vec![
        client("read", RANDOM_READ, 65_536, None),
        client("write", RANDOM_WRITE, 65_536, None),
    ];
    let mut config = paired("fifo", clients);
    let alike = |pair| PairOf { role_rule: RoleRule::Alike, answer: Answer::Written, ..pair };
    config.pair = config.pair.map(alike);
    let prepared = prepare(&config).expect("drives");
    let result = run(&config, &prepared, &Arc::new(CostTable::default())).expect("runs");
    let pair = result.pair.expect("a pair");
    let stats = pair.view.stats;
    assert_eq!((stats.turns, pair.risk_bytes_max), (0, 0));
    let [first, second] = stats.reads;
    // a leg that collects has reads outstanding for longer, so the other one has more of them: 56 % here
    assert!(first > 1_000 && first.min(second) * 3 > first + second, "{stats:?}");
    // what is under way at the end is with one leg, or with none
    let twice = 2 * stats.accepted_bytes;
    let written: u64 = stats.written_bytes.iter().sum();
    assert!(written > 0 && twice.abs_diff(written) <= 4 * 31 * 65_536, "{stats:?}");
    assert!(pair.cache_bytes.1 <= 2 * 31 * 65_536, "{pair:?}");
}

/// I18: where the writer is not flushed before it is read, its unfinished work is in the way of reads after
/// each change of roles. A rest before the change lets it finish.
#[test]
fn a_rest_helps_a_pair_that_does_not_settle() {
    let behind = |kind| ClientSpec { from_bytes: 500 << 20, ..client("read", kind, 65_536, None) };
    let writes = client("write", RANDOM_WRITE, 262_144, None);
    let clients = vec![behind(RANDOM_READ), ClientSpec { range_bytes: 500 << 20, ..writes }];
    let slowest_ns = |settles, idle_ms| {
        let mut config = paired("fifo", clients.clone());
        let idle = Idle::Fixed(Duration::from_ms(idle_ms));
        config.pair = config.pair.map(|pair| PairOf { settles, idle, ..pair });
        let prepared = prepare(&config).expect("drives");
        let result = run(&config, &prepared, &Arc::new(CostTable::default())).expect("runs");
        assert!(result.pair.expect("a pair").view.stats.turns > 5);
        result.latencies[0].max_ns()
    };
    let (unflushed, rested) = (slowest_ns(false, 0), slowest_ns(false, 400));
    assert!(unflushed > 2 * rested, "{unflushed} without a rest, {rested} with one");
    assert!(unflushed > 2 * slowest_ns(true, 0), "a flush waits for what is unfinished, too");
}

/// Requests by the clock: as many as the clock says, in groups.
#[test]
fn requests_arrive_by_the_clock() {
    let arrives = Some(Arrives { every: Duration::from_ms(100), burst: 7 });
    let clocked = ClientSpec { arrives, ..client("clocked", RANDOM_READ, 4096, None) };
    let rates = rates(&config("510", "fifo", vec![clocked]));
    assert!((69..=71).contains(&rates[0].0), "{rates:?}");
}

/// Requests of a trace: one after the other, again and again, within the range.
#[test]
fn requests_of_a_trace() {
    let list = vec![(0, 4096), (1 << 40, 8192), (512, 512)].into();
    let recorded = Some(Recorded { name: "three".into(), list });
    let spec = ClientSpec { recorded, ..client("trace", RANDOM_READ, 4096, None) };
    let spec = ClientSpec { from_bytes: 1 << 20, range_bytes: 1 << 20, ..spec };
    let rates = rates(&config("510", "edf", vec![spec]));
    assert!(rates[0].0 > 1_000, "{rates:?}");
}

/// Hard drives behind the SSD take what a policy redirects, of a pair too.
#[test]
fn hard_drives_take_redirected_writes() {
    let clients = vec![
        client("read", RANDOM_READ, 4096, None),
        ClientSpec { outstanding: 8, ..client("write", SEQUENTIAL_WRITE, 65_536, None) },
    ];
    for pair in [false, true] {
        let mut config = paired("fifo", clients.clone());
        config.pair = config.pair.filter(|_| pair);
        config.hdds = vec![DriveChoice::shipped("wd100efax", None)];
        let written = |config: &SharingConfig| {
            let prepared = prepare(config).expect("drives");
            run(config, &prepared, &Arc::new(CostTable::default())).expect("runs").written
        };
        let first = written(&config);
        assert_eq!((first.hdd_bytes, first.redirected_bytes), (0, 0), "ssd-first");
        config.steer = SteerConfig::named("mios-d");
        let redirected = written(&config);
        assert!(redirected.redirected_bytes > 1 << 20, "{redirected:?}");
        assert!(redirected.hdd_bytes >= redirected.redirected_bytes + redirected.padding_bytes);
    }
}

/// A client over a network: after a drive has stood still for a collection, all its requests are
/// answered at once, and the next ones are a little on their way. It gets what it was promised all the
/// same, beside a flood of reads and writes.
#[test]
fn promises_hold_for_clients_that_are_some_way_off() {
    let away = ClientSpec {
        think: Duration::from_us(500),
        ..client("away", RANDOM_READ, 262_144, Some(Target::Rate(Rate::Requests(300))))
    };
    let flood = |name, kind| ClientSpec { outstanding: 64, ..client(name, kind, 262_144, None) };
    let clients = vec![away, flood("reads", RANDOM_READ), flood("writes", RANDOM_WRITE)];
    let rates = rates(&config("510", "edf", clients));
    assert!(rates[0].0 >= 299, "{rates:?}");
}

/// What lies in two places is read in two pieces, and is one request of those that were promised.
#[test]
fn a_request_in_pieces_is_one_of_those_that_were_promised() {
    const SIZE: u64 = 262_144;
    const SLOTS: u64 = 512;
    let promised = Some(Target::Rate(Rate::Requests(300)));
    let clients = vec![client("gold", RANDOM_READ, SIZE, promised)];
    let config = config("510", "edf", clients);
    let prepared = prepare(&config).expect("a drive");
    let table = costs(&config, &prepared, &plan(&config, Duration::from_s(20))).expect("measured");
    let costs = Arc::new(table);
    let drive = prepared.fork().drives.remove(0);
    let mut engine = bare_ssd(&config.spec, drive.as_ref());
    engine.placement = tandem_engine::Placement::Mapped;
    engine.volumes[0].size_bytes = SLOTS * SIZE;
    engine.qos = qos(&config, &costs, &promises(&config, &costs));
    let mut sim = Simulation::new(Engine::new(engine).expect("a pool"), vec![drive], false);
    sim.start().expect("formatted");
    let mut asked = 0;
    let mut ask = |sim: &mut Simulation, op, range, stream| {
        asked += 1;
        let id = tandem_block::RequestId(asked << 8 | u64::from(stream));
        let mut request =
            tandem_block::Request::new(id, crate::bare_ssd::VOLUME, op, range, sim.now);
        request.stream = StreamId(stream);
        request.payload = tandem_block::PayloadId(asked);
        sim.request(&request);
    };
    for half in 0..2 {
        for slot in 0..SLOTS {
            let range = (slot * SIZE + half * SIZE / 2, SIZE / 2);
            ask(&mut sim, tandem_block::Op::Write, range, 0);
            while !sim.has_done() {
                assert!(sim.step());
            }
            sim.drain_done(|done| assert!(done.status.is_ok()));
        }
    }
    // the promised stream is number 1; everybody else floods
    let (mut rng, mut served) = (Rng::new(1), [0u64; 2]);
    let end = sim.now + Duration::from_s(20);
    let mut next = |sim: &mut Simulation, stream| {
        let range = (rng.below(SLOTS) * SIZE, SIZE);
        ask(sim, tandem_block::Op::Read, range, stream);
    };
    (0..31).for_each(|_| next(&mut sim, 1));
    (0..64).for_each(|_| next(&mut sim, 0));
    while sim.now < end && sim.step() {
        let mut done = Vec::new();
        sim.drain_done(|one| done.push((one.request.0 & 0xFF) as u32));
        for stream in done {
            served[stream as usize] += 1;
            next(&mut sim, stream);
        }
    }
    assert!((300 * 20..330 * 20).contains(&served[1]), "{served:?}");
    assert!(served[0] > 300 * 20, "{served:?}");
}
