//! What is a case of several clients on one SSD, and what came out of it?
//!
//! Fields of a result are told in experiments/README.md.

use super::file;
use crate::rate;
use crate::toml_fault::Fault;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, OnceLock};
use tandem_block::Duration;
use tandem_drives::SsdState;
use tandem_drives::spec::{self, ModelSpec, Sourced, parse_bytes, parse_nanos};
use tandem_engine::profile::throughput::{BIN_NS, Throughput};
use tandem_engine::qos;
use tandem_engine::qos::cost::{CostTable, Kind};
use tandem_engine::qos::reserve::{CONFIDENCE_PPM, Rate, WHOLE_PPB};
use tandem_sim::sharing::{self, ClientSpec, Prepared, SharingConfig, SharingResult, Target};
use tandem_traces::spell;
use toml::Spanned;

/// Windows that are told, in bins of 100 ms.
const WINDOWS: [(&str, usize); 9] = [
    ("100ms", 1),
    ("200ms", 2),
    ("500ms", 5),
    ("1s", 10),
    ("2s", 20),
    ("3s", 30),
    ("4s", 40),
    ("5s", 50),
    ("10s", 100),
];
/// How long each row of the drive's costs is measured.
const ROW: Duration = Duration::from_s(120);

/// The drive, and what its requests cost.
type Ready = (Mutex<Prepared>, Arc<CostTable>);

/// Clients on one SSD, under each order of service.
pub struct Sharing {
    /// Everything but the order.
    pub config: SharingConfig,
    /// The orders.
    pub orders: Vec<String>,
    ready: OnceLock<Result<Ready, String>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Reads a case.
pub(super) fn case(file: &file::Case) -> Result<Sharing, Fault> {
    let wrong = |text: &str| Fault::at(&file.name, text);
    let [ssd] = file.ssd.as_slice() else { return Err(wrong("clients share one ssd")) };
    let mut spec = spec::load(ssd).map_err(|error| wrong(&error.to_string()))?;
    if let Some(size) = &file.size {
        let fault = |why: String| Fault::at(size, why);
        let bytes = bytes(size)?;
        spec = spec.with_capacity_bytes(bytes).map_err(|why| fault(why.to_string()))?;
    }
    let ModelSpec::Ssd(model) = &mut spec.model else { return Err(wrong("clients share one ssd")) };
    if let Some((high_lines, gap_pages)) = file.gc_cluster {
        model.gc.high_lines = Sourced::of(high_lines, "fitted: the experiment");
        model.gc.gap_pages = Sourced::of(gap_pages, "fitted: the experiment");
    }
    let state = match file.ssd_state.as_deref() {
        None => SsdState::Steady,
        Some(name) => SsdState::NAMED
            .iter()
            .find(|known| known.0 == name)
            .map(|known| known.1)
            .ok_or_else(|| wrong("ssd_state is fresh, slc-full or steady"))?,
    };
    let time = |given: &Option<Spanned<String>>, usual: Duration| match given {
        None => Ok(usual),
        Some(text) => {
            parse_nanos(text.get_ref()).map(Duration::from_ns).map_err(|why| Fault::at(text, why))
        }
    };
    if file.stream.is_empty() {
        return Err(wrong("clients share the drive: a case needs [[case.stream]]"));
    }
    let mut clients: Vec<ClientSpec> = Vec::new();
    for entry in &file.stream {
        let client = client(entry.get_ref())?;
        if clients.iter().any(|known| known.name == client.name) {
            return Err(Fault::at(entry, format!("there are two streams {:?}", client.name)));
        }
        clients.push(client);
    }
    let orders = file.orders.clone().unwrap_or_else(|| vec!["edf".into()]);
    for order in &orders {
        if qos::named(order).is_none() {
            let nearest = spell::nearest(order, qos::ORDERS.iter().map(|known| known.name));
            let text = format!("there is no order {order:?}; did you mean {nearest:?}?");
            return Err(wrong(&text));
        }
    }
    let config = SharingConfig {
        spec,
        state,
        age_bytes: match &file.age {
            None => (0, 0),
            Some((all, range)) => (bytes(all)?, bytes(range)?),
        },
        fill_bytes: file.fill.as_ref().map(bytes).transpose()?.unwrap_or(0),
        warm_up: time(&file.warm_up, Duration::from_s(5))?,
        duration: time(&file.duration, Duration::from_s(60))?,
        clients,
        order: String::new(),
        window: time(&file.window, Duration::from_s(10))?,
        confidence_ppm: file.confidence_percent.map_or(Ok(CONFIDENCE_PPM), |percent| {
            let ppm = (percent * 10_000.0).round();
            let sound = (1.0..=1e6).contains(&ppm);
            if sound { Ok(ppm as u32) } else { Err(wrong("a confidence is above 0 and up to 100")) }
        })?,
        seed: file.seed.unwrap_or(1),
    };
    if config.duration.ns < 10 * BIN_NS {
        return Err(wrong("a case lasts a second at least"));
    }
    Ok(Sharing { config, orders, ready: OnceLock::new() })
}

fn client(file: &file::Stream) -> Result<ClientSpec, Fault> {
    let does = file.does.get_ref();
    let kind = match does.as_str() {
        "random-read" => Kind { read: true, sequential: false },
        "sequential-read" => Kind { read: true, sequential: true },
        "random-write" => Kind { read: false, sequential: false },
        "sequential-write" => Kind { read: false, sequential: true },
        _ => {
            let known = ["random-read", "sequential-read", "random-write", "sequential-write"];
            let nearest = spell::nearest(does, known);
            return Err(Fault::at(&file.does, format!("{does:?}; did you mean {nearest:?}?")));
        }
    };
    let size_bytes = bytes(&file.size)?;
    if !size_bytes.is_multiple_of(512) || !(512..=32 << 20).contains(&size_bytes) {
        return Err(Fault::at(&file.size, "a request has 512 bytes to 32MiB, in sectors"));
    }
    let target = match &file.target {
        None => None,
        Some(text) => Some(match text.get_ref().strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.parse().unwrap_or(0.0);
                if !(0.0001..=100.0).contains(&percent) {
                    return Err(Fault::at(text, "a share is above 0% and up to 100%"));
                }
                Target::SharePpm((percent * 10_000.0) as u64)
            }
            None => Target::Rate(rate::parse(text.get_ref()).map_err(|why| Fault::at(text, why))?),
        }),
    };
    let limit = file
        .limit
        .as_ref()
        .map(|text| rate::parse(text.get_ref()).map_err(|why| Fault::at(text, why)));
    Ok(ClientSpec {
        name: file.name.get_ref().clone(),
        kind,
        size_bytes,
        from_bytes: file.from.as_ref().map(bytes).transpose()?.unwrap_or(0),
        range_bytes: file.range.as_ref().map(bytes).transpose()?.unwrap_or(0),
        outstanding: file.outstanding.unwrap_or(31).clamp(1, 4096),
        fua: file.fua,
        target,
        weight: file.weight,
        limit: limit.transpose()?,
    })
}

fn bytes(text: &Spanned<String>) -> Result<u64, Fault> {
    parse_bytes(text.get_ref()).map_err(|why| Fault::at(text, why))
}

impl Sharing {
    /// The drive and what its requests cost, made once for all orders.
    fn ready(&self) -> Result<(&Mutex<Prepared>, Arc<CostTable>), String> {
        let ready = self.ready.get_or_init(|| {
            let prepared = sharing::prepare(&self.config).map_err(|why| why.to_string())?;
            let plan = sharing::plan(&self.config, ROW);
            let costs = sharing::costs(&prepared, &plan).map_err(|why| why.to_string())?;
            Ok((Mutex::new(prepared), Arc::new(costs)))
        });
        let (prepared, costs) = ready.as_ref().map_err(Clone::clone)?;
        Ok((prepared, Arc::clone(costs)))
    }

    /// Runs it under one order.
    ///
    /// # Errors
    /// If the drive cannot be built.
    pub fn run(&self, order: &str) -> Result<Value, String> {
        let (prepared, costs) = self.ready()?;
        let config = SharingConfig { order: order.to_owned(), ..self.config.clone() };
        let prepared = prepared.lock().map_err(|why| why.to_string())?.fork();
        let result = sharing::run(&config, &prepared, &costs).map_err(|why| why.to_string())?;
        Ok(told(&result, config.duration, sharing::refused(&config, &costs)))
    }

    /// A result of nothing, with every field that one has.
    pub fn schema(&self) -> Value {
        let clients = self.config.clients.iter().map(|client| sharing::ClientResult {
            name: client.name.clone(),
            kind: client.kind,
            target: None,
            asked_ppb: None,
            throughput: Throughput { bins: vec![0; 100] },
            latencies: Default::default(),
            windows: (0, 0),
        });
        let result = SharingResult {
            digest: 0,
            clients: clients.collect(),
            collections: Vec::new(),
            envelope: (0, 0),
        };
        told(&result, self.config.duration, None)
    }
}

fn told(result: &SharingResult, duration: Duration, refused: Option<String>) -> Value {
    let mut streams = Map::new();
    for client in &result.clients {
        let mut one = figures(&client.throughput, client.target);
        let latencies = &client.latencies;
        let share = client.asked_ppb.map(|ppb| ppb as f64 / WHOLE_PPB as f64);
        let add = json!({
            "needed": share,
            "mean_ns": latencies.mean_ns(),
            "p99_ns": latencies.percentile_ns(9_900),
            "p999_ns": latencies.percentile_ns(9_990),
            "max_ns": latencies.max_ns(),
            "engine_windows": client.windows.0,
            "engine_met": client.windows.1,
        });
        if let (Some(one), Some(add)) = (one.as_object_mut(), add.as_object()) {
            one.extend(add.clone());
        }
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
    let (windows, outside) = result.envelope;
    json!({
        "streams": streams,
        "reads": sum(&|kind| kind.read),
        "writes": sum(&|kind| !kind.read),
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
