//! Do clients get what they are promised, on a drive small enough for a test?

use super::*;
use tandem_drives::spec::load;

fn client(name: &str, kind: Kind, size_bytes: u64, target: Option<Target>) -> ClientSpec {
    ClientSpec {
        name: name.into(),
        kind,
        size_bytes,
        from_bytes: 0,
        range_bytes: 0,
        outstanding: 31,
        fua: false,
        target,
        weight: None,
        limit: None,
    }
}

fn config(drive: &str, order: &str, clients: Vec<ClientSpec>) -> SharingConfig {
    SharingConfig {
        spec: load(drive).expect("shipped").with_capacity_bytes(1_000_000_000).expect("possible"),
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
    let costs = Arc::new(costs(&prepared, &plan(config, Duration::from_s(20))).expect("measured"));
    let result = run(config, &prepared, &costs).expect("runs");
    let per_s = |client: &ClientResult| {
        let sum: u64 = client.throughput.bins.iter().map(|count| u64::from(*count)).sum();
        (sum * 1_000_000_000 / config.duration.ns, client.target)
    };
    result.clients.iter().map(per_s).collect()
}

const RANDOM_READ: Kind = Kind { read: true, sequential: false };
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
        let costs = Arc::new(costs(&prepared, &plan).expect("measured"));
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
    let costs = Arc::new(costs(&prepared, &plan(&config, Duration::from_s(12))).expect("measured"));
    let digest = || run(&config, &prepared, &costs).expect("runs").digest;
    assert_eq!(digest(), digest());
}
