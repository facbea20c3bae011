//! What came out of a case of clients, as the fields that paths name?

use serde_json::{Map, Value, json};
use tandem_block::{DeviceId, Duration};
use tandem_engine::mirror::PairView;
use tandem_engine::profile::throughput::{BIN_NS, Throughput};
use tandem_engine::qos::cost::Kind;
use tandem_engine::qos::reserve::{Rate, WHOLE_PPB};
use tandem_engine::stats::recorder::Latencies;
use tandem_sim::sharing::{self, PairResult, SharingConfig, SharingResult, Written};

/// Windows that are told, in bins of 100 ms.
const WINDOWS: [(&str, usize); 10] = [
    ("100ms", 1),
    ("200ms", 2),
    ("500ms", 5),
    ("1s", 10),
    ("2s", 20),
    ("3s", 30),
    ("4s", 40),
    ("5s", 50),
    ("10s", 100),
    ("20s", 200),
];
/// Everything that a run gave.
pub(super) fn told(
    result: &SharingResult,
    config: &SharingConfig,
    refused: Option<String>,
) -> Value {
    let duration = config.duration;
    let mut streams = Map::new();
    for client in &result.clients {
        let mut one = figures(&client.throughput, client.target);
        let share = client.asked_ppb.map(|ppb| ppb as f64 / WHOLE_PPB as f64);
        add(&mut one, &took(&client.latencies));
        let counted = json!({
            "needed": share,
            "engine_windows": client.windows.0,
            "engine_met": client.windows.1,
        });
        add(&mut one, &counted);
        streams.insert(client.name.clone(), one);
    }
    let sum = |wanted: &dyn Fn(Kind) -> bool| {
        let mut bins = vec![0; (duration.ns / BIN_NS) as usize];
        for client in result.clients.iter().filter(|client| wanted(client.kind)) {
            for (sum, count) in bins.iter_mut().zip(&client.throughput.bins) {
                *sum += count;
            }
        }
        figures(&Throughput { bins }, None)
    };
    let side = |reads: bool| {
        let mut one = sum(&|kind| kind.read == reads);
        add(&mut one, &took(&result.latencies[usize::from(!reads)]));
        let clients = result.clients.iter().filter(|client| client.kind.read == reads);
        let asked: Option<u64> =
            clients.filter(|client| client.target.is_some()).map(|client| client.asked_ppb).sum();
        add(&mut one, &json!({ "needed": asked.map(|ppb| ppb as f64 / WHOLE_PPB as f64) }));
        one
    };
    let mut reads = side(true);
    let Written { ssd_bytes, hdd_bytes, redirected_bytes, padding_bytes } = result.written;
    let (windows, outside) = result.envelope;
    let pair = result.pair.as_ref().map(|pair| {
        let after = after_turns(result, pair, duration);
        add(&mut reads, &json!({ "after_turn_per_s": after }));
        paired(pair, duration)
    });
    json!({
        "streams": streams,
        "reads": reads,
        "writes": side(false),
        "pair": pair,
        "ssd_written_bytes": ssd_bytes,
        "hdd_written_bytes": hdd_bytes,
        "redirected_bytes": redirected_bytes,
        "padding_bytes": padding_bytes,
        "all": sum(&|_| true),
        "collections": collections(&result.collections, duration),
        "needed": sharing::asked_ppb(result).map(|ppb| ppb as f64 / WHOLE_PPB as f64),
        "refused": u64::from(refused.is_some()),
        "refusal": refused,
        "outside": ratio(outside as f64, windows as f64),
        "digest": format!("{:016x}", result.digest),
    })
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// What one stream, or several together, got.
fn figures(throughput: &Throughput, target: Option<Rate>) -> Value {
    let bins = &throughput.bins;
    let sum = |bins: &[u32]| bins.iter().map(|count| u64::from(*count)).sum::<u64>();
    let seconds = |bins: usize| (bins as u64 * BIN_NS) as f64 / 1e9;
    let target = target.map(|rate| match rate {
        Rate::Requests(count) | Rate::Bytes(count) => count as f64,
    });
    let mut windows = Map::new();
    for (name, length) in WINDOWS {
        let sorted = throughput.windows(length);
        let per_s = |count: &u64| *count as f64 / seconds(length);
        let at = |part: f64| sorted.get((sorted.len() as f64 * part) as usize).map(per_s);
        // windows that follow one another
        let whole: Vec<f64> =
            bins.chunks_exact(length).map(|chunk| sum(chunk) as f64 / seconds(length)).collect();
        let mean = ratio(whole.iter().sum(), whole.len() as f64);
        let deviation = mean.filter(|mean| *mean > 0.0).map(|mean| {
            let square = whole.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
            (square / whole.len() as f64).sqrt() / mean
        });
        let met = target.and_then(|target| {
            let met = whole.iter().filter(|rate| **rate >= target).count();
            ratio(met as f64, whole.len() as f64)
        });
        let missed = met.map(|met| 1.0 - met);
        // "close to the target": at least 19 of 20
        let near = target.and_then(|target| {
            let near = whole.iter().filter(|rate| **rate >= target * 0.95).count();
            ratio(near as f64, whole.len() as f64)
        });
        let least = sorted.first().map(per_s);
        windows.insert(
            name.to_owned(),
            json!({
                "min": least,
                "p5": at(0.05),
                "mean": mean,
                "max": sorted.last().map(per_s),
                "deviation": deviation,
                "met": met,
                "missed": missed,
                "near": near,
                "cost_ns": at(0.05).filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate),
            }),
        );
    }
    let half = bins.len() / 2;
    json!({
        "requests": sum(bins),
        "per_s": ratio(sum(bins) as f64, seconds(bins.len())),
        "target_per_s": target,
        "first_per_s": bins.get(..10).map(|first| sum(first) as f64),
        "late_per_s": ratio(sum(&bins[half..]) as f64, seconds(bins.len() - half)),
        "windows": windows,
    })
}

/// Garbage collections: how many, how long, how evenly.
fn collections(events: &[(u64, u64)], duration: Duration) -> Value {
    let lengths: Vec<u64> = events.iter().map(|(from, to)| to - from).collect();
    let busy: u64 = lengths.iter().sum();
    let by = |length_ns: u64| {
        let mut counts = vec![0u64; (duration.ns / length_ns) as usize];
        for (from, _) in events {
            if let Some(count) = counts.get_mut((from / length_ns) as usize) {
                *count += 1;
            }
        }
        let mean = ratio(counts.iter().sum::<u64>() as f64, counts.len() as f64);
        json!({ "min": counts.iter().min(), "mean": mean, "max": counts.iter().max() })
    };
    json!({
        "count": lengths.len(),
        "mean_ns": ratio(busy as f64, lengths.len() as f64),
        "max_ns": lengths.iter().max(),
        "share": busy as f64 / duration.ns as f64,
        "per_1s": by(1_000_000_000),
        "per_10s": by(10_000_000_000),
    })
}

fn add(to: &mut Value, fields: &Value) {
    if let (Some(to), Some(fields)) = (to.as_object_mut(), fields.as_object()) {
        to.extend(fields.clone());
    }
}

fn took(latencies: &Latencies) -> Value {
    json!({
        "mean_ns": latencies.mean_ns(),
        "p99_ns": latencies.percentile_ns(9_900),
        "p999_ns": latencies.percentile_ns(9_990),
        "max_ns": latencies.max_ns(),
    })
}

/// Reads a second in the second that follows a change of roles.
fn after_turns(result: &SharingResult, pair: &PairResult, duration: Duration) -> Option<f64> {
    let second = 1_000_000_000 / BIN_NS;
    let whole = pair.turns.iter().filter(|turn| *turn + 2 * BIN_NS * second <= duration.ns);
    let (mut reads, mut seconds) = (0u64, 0u64);
    for turn in whole {
        seconds += 1;
        let first = (turn / BIN_NS) as usize;
        for client in result.clients.iter().filter(|client| client.kind.read) {
            let bins = client.throughput.bins.get(first..first + second as usize);
            reads += bins.into_iter().flatten().map(|count| u64::from(*count)).sum::<u64>();
        }
    }
    ratio(reads as f64, seconds as f64)
}

fn paired(pair: &PairResult, duration: Duration) -> Value {
    let stats = &pair.view.stats;
    let per_s = |bytes: u64| ratio(bytes as f64, duration.ns as f64 / 1e9);
    let written: u64 = stats.written_bytes.iter().sum();
    let reads: u64 = stats.reads.iter().sum();
    json!({
        "turns": stats.turns,
        "turns_per_s": per_s(stats.turns),
        "early_turns": stats.early_turns,
        "accepted_bytes": stats.accepted_bytes,
        "accepted_bytes_per_s": per_s(stats.accepted_bytes),
        "written_bytes": stats.written_bytes,
        "twice_written_bytes": written,
        "reads": stats.reads,
        "cache_reads": stats.cache_reads,
        "cache_reads_share": ratio(stats.cache_reads as f64, (stats.cache_reads + reads) as f64),
        "coalesced_bytes": pair.view.coalesced_bytes,
        "k_bytes_per_s": pair.write_bytes_per_s,
        "k_measured_bytes_per_s": pair.view.write_bytes_per_s,
        "kt_bytes": pair.moved_bytes,
        "cache_bytes_mean": pair.cache_bytes.0,
        "cache_bytes_max": pair.cache_bytes.1,
        "cache_bytes_bound": pair.view.cache_bytes_bound,
        "risk_bytes_max": pair.risk_bytes_max,
        "idle_ns": pair.view.idle.ns,
    })
}

/// A result of nothing, with every field that one has.
pub(super) fn nothing(config: &SharingConfig) -> SharingResult {
    let clients = config.clients.iter().map(|client| sharing::ClientResult {
        name: client.name.clone(),
        kind: client.kind,
        target: None,
        asked_ppb: None,
        throughput: Throughput { bins: vec![0; 200] },
        latencies: Latencies::default(),
        windows: (0, 0),
    });
    let view = PairView {
        legs: [DeviceId(0), DeviceId(1)],
        alive: [true; 2],
        lead: 0,
        reader: 1,
        exposed: false,
        cache_bytes: 0,
        cache_bytes_max: 0,
        cache_bytes_bound: 0,
        coalesced_bytes: 0,
        stale_bytes: [0; 2],
        write_bytes_per_s: 0,
        idle: Duration::from_ns(0),
        journal: None,
        stats: Default::default(),
    };
    let pair = config.pair.map(|_| PairResult {
        view,
        write_bytes_per_s: 0,
        moved_bytes: 0,
        cache_bytes: (0, 0),
        risk_bytes_max: 0,
        turns: Vec::new(),
    });
    SharingResult {
        digest: 0,
        clients: clients.collect(),
        latencies: Default::default(),
        pair,
        written: Written::default(),
        collections: Vec::new(),
        envelope: (0, 0),
    }
}
