//! What is there to know of a server that runs? One document, which the control socket sends and `tandem
//! status` reads.
//!
//! Fields have the names of the document. What a server of another version does not say is zero or nothing,
//! and what it says besides is passed over.

mod drives;
mod latencies;
mod moves;
mod pairs;
mod pool;
mod space;
mod streams;

pub use drives::{
    Controller, Counters, EmulatedDrive, Envelope, Live, Rest, Service, Spent, Today, Unreliable,
};
pub use latencies::{Latencies, Latency, ReadFrom, StagedLatency, Stages, WriteTo};
pub use moves::{Draining, MetadataReplica, Replacing, Snapshot};
pub use pairs::{Journal, Pair};
pub use pool::{Drive, ServedPool, Volume};
pub use space::{
    FromRam, Hits, ReadBack, ReadBackReads, Redirected, Refused, TierExtents, TierReads, Tiers,
};
pub use streams::{Delivered, Promised, Stream};

use serde::{Deserialize, Serialize};
use tandem_block::{BLOCK_BYTES, Instant};
use tandem_engine::Engine;

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    pub pool: ServedPool,
    pub live: Live,
    pub latencies: Latencies,
    /// Of users' writes, those that met a slow write of a hard drive. The client counts them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_slow_writes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_slow_writes_per_million: Option<f64>,
    pub metadata_replica: Option<MetadataReplica>,
    pub replacing: Option<Replacing>,
    pub draining: Option<Draining>,
    pub snapshots: Vec<Snapshot>,
    /// Positions of the drives that were removed.
    pub gone: Vec<usize>,
    pub pairs: Vec<Pair>,
    /// By drive.
    pub today: Vec<Today>,
    pub day_left_ns: u64,
    /// By drive; only hard drives with a profile have one.
    pub controllers: Vec<Option<Controller>>,
    /// By drive.
    pub devices: Vec<Counters>,
    pub ssd_free_bytes: u64,
    pub ssd_bytes: u64,
    pub ssd_dirty_bytes: u64,
    pub ssd_clean_bytes: u64,
    pub hdd_log_bytes: u64,
    pub map_memory_bytes: u64,
    /// The bound of that and of pages of checksums together, and what these take.
    pub metadata_memory_max_bytes: u64,
    pub metadata_cache_bytes: u64,
    pub metadata_page_reads: u64,
    pub redirected: Redirected,
    pub read_back: ReadBack,
    /// Nothing where no volume's tier has a share.
    pub tiers: Option<Tiers>,
    pub fragments: u64,
    pub merge_reads: u64,
    pub backpressure_ns: u64,
    /// Writes that waited, before they began, for commits or for a checkpoint.
    pub writes_paced: u64,
    /// Times that a commit waited for room that a checkpoint was to make.
    pub commits_without_room: u64,
    pub commits: u64,
    pub commits_gathered: u64,
    pub checkpoints: u64,
    pub checksum_errors: u64,
    pub repaired_reads: u64,
    pub bytes_at_risk: u64,
    pub bytes_at_risk_max: u64,
    pub uncommitted_bytes: u64,
    /// By drive.
    pub service: Vec<Service>,
    /// By drive; only hard drives that take commands have one.
    pub rest: Vec<Option<Rest>>,
    /// The last one is everything else; none where nobody is told apart.
    pub streams: Vec<Stream>,
    /// By drive; none where streams are not told apart.
    pub envelopes: Vec<Option<Envelope>>,
}

impl Status {
    /// What the engine knows at `now`.
    pub(crate) fn of(engine: &Engine, now: Instant) -> Status {
        let (stats, map) = (engine.stats(), engine.map());
        let population = map.population();
        let (devices, memory) = (engine.devices(), engine.metadata_memory());
        Status {
            metadata_replica: engine.metadata_replica().map(|it| MetadataReplica {
                device: usize::from(it.device.0),
                journal_units_behind: it.units_behind,
                awaits_snapshot: it.awaits_snapshot,
                behind_ns: it.missing_since.map_or(0, |since| now.since(since).ns),
                lag_max_ns: it.lag_max.ns,
            }),
            replacing: engine.replacement().map(|view| Replacing::of(&view, now)),
            draining: engine.drain_view().map(|view| Draining::of(&view, now)),
            snapshots: Snapshot::all(engine),
            gone: devices.iter().filter(|d| d.is_gone()).map(|d| usize::from(d.id.0)).collect(),
            pairs: engine.pairs().iter().map(Pair::of).collect(),
            today: devices.iter().map(|device| Today::of(engine, device, now)).collect(),
            day_left_ns: engine.day_left(now).ns,
            controllers: devices.iter().map(|device| Controller::of(device, now)).collect(),
            devices: stats.devices.iter().map(Counters::of).collect(),
            ssd_free_bytes: map.ssd_free() * BLOCK_BYTES,
            ssd_bytes: map.ssd_slots() * BLOCK_BYTES,
            ssd_dirty_bytes: population.dirty_ssd * BLOCK_BYTES,
            ssd_clean_bytes: population.clean_ssd * BLOCK_BYTES,
            hdd_log_bytes: population.in_log * BLOCK_BYTES,
            map_memory_bytes: memory.map_bytes,
            metadata_memory_max_bytes: memory.bound_bytes,
            metadata_cache_bytes: memory.cached_bytes,
            metadata_page_reads: stats.page_reads,
            redirected: Redirected { requests: stats.redirected.0, bytes: stats.redirected.1 },
            read_back: ReadBack::of(engine),
            tiers: Tiers::of(engine),
            fragments: stats.fragments,
            merge_reads: stats.merge_reads,
            backpressure_ns: stats.backpressure_ns,
            writes_paced: stats.writes_paced,
            commits_without_room: stats.commits_without_room,
            commits: stats.commits,
            commits_gathered: stats.commits_gathered,
            checkpoints: stats.checkpoints,
            checksum_errors: stats.checksum_errors,
            repaired_reads: stats.repaired_reads,
            bytes_at_risk: engine.bytes_at_risk(),
            bytes_at_risk_max: stats.bytes_at_risk_max,
            uncommitted_bytes: map.pending_blocks() * BLOCK_BYTES,
            service: devices.iter().map(|device| Service::of(engine, device)).collect(),
            rest: devices.iter().map(|device| Rest::of(engine, device, now)).collect(),
            streams: Stream::all(&engine.clients(now).unwrap_or_default()),
            envelopes: devices.iter().map(Envelope::of).collect(),
            ..Status::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// With everything that may be absent.
    fn full() -> Status {
        let mut status = Status {
            user_slow_writes: Some(1),
            user_slow_writes_per_million: Some(0.5),
            metadata_replica: Some(MetadataReplica::default()),
            replacing: Some(Replacing::default()),
            draining: Some(Draining::default()),
            snapshots: vec![Snapshot::default()],
            gone: vec![3],
            pairs: vec![Pair { journal: Some(Journal::default()), ..Pair::default() }],
            today: vec![Today { padding: Some(Spent::default()), ..Today::default() }],
            controllers: vec![None, Some(Controller::default())],
            devices: vec![Counters::default()],
            tiers: Some(Tiers::default()),
            service: vec![Service::default()],
            streams: vec![
                Stream {
                    promised: Some(Promised::Requests { requests_per_s: 250 }),
                    delivered: Some(Delivered::default()),
                    ..Stream::default()
                },
                Stream {
                    promised: Some(Promised::Bytes { bytes_per_s: 4096 }),
                    ..Stream::default()
                },
            ],
            envelopes: vec![Some(Envelope::default()), None],
            ..Status::default()
        };
        status.pool.devices = vec![Drive::default()];
        status.pool.volumes = vec![Volume::default()];
        status.live.emulated = vec![EmulatedDrive::default()];
        status.latencies.read.total.count = 7;
        status.read_back.reads.ram.tail.reads = 9;
        status
    }

    #[test]
    fn what_is_sent_is_read_again() {
        let sent = serde_json::to_string(&full()).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&sent).unwrap(), full());
        // a server that says less, and one that says more
        assert_eq!(serde_json::from_str::<Status>("{}").unwrap(), Status::default());
        let more = r#"{ "commits": 3, "pool": { "name": "p", "moon": "full" }, "pairs": [{}] }"#;
        let read: Status = serde_json::from_str(more).unwrap();
        assert_eq!((read.commits, read.pool.name.as_str(), read.pairs.len()), (3, "p", 1));
    }

    /// Nothing is renamed, and nothing lies deeper than it did.
    #[test]
    fn names_are_those_that_programs_know() {
        let told = serde_json::to_value(full()).unwrap();
        for pointer in [
            "/pool/devices/0/emulates",
            "/pool/volumes/0/why_not_steered",
            "/live/emulated/0/volatile_bytes",
            "/latencies/read/count",
            "/latencies/read/stages/wait/p999_ns",
            "/latencies/write_to/hdd_log/count",
            "/latencies/read_from/ssd_copy/p9999_ns",
            "/metadata_replica/journal_units_behind",
            "/replacing/finished",
            "/draining/removed",
            "/snapshots/0/own_bytes",
            "/pairs/0/reads_by_drive/1",
            "/pairs/0/journal/units_not_awaited",
            "/today/0/padding/budget_bytes",
            "/controllers/1/unreliable/by_reason",
            "/devices/0/trimmed_bytes",
            "/redirected/requests",
            "/read_back/ram/tail/reads",
            "/read_back/hdd_log/bytes",
            "/read_back/cache_bytes_max",
            "/tiers/refused/bypassed_writes",
            "/service/0/why",
            "/streams/0/promised/requests_per_s",
            "/streams/1/promised/bytes_per_s",
            "/streams/0/delivered/met",
            "/envelopes/0/is_outside",
            "/user_slow_writes_per_million",
        ] {
            assert!(told.pointer(pointer).is_some(), "{pointer} is missing in {told}");
        }
        assert_eq!(told["gone"], json!([3]));
        assert_eq!((&told["controllers"][0], &told["envelopes"][1]), (&Value::Null, &Value::Null));
        assert_eq!(told["streams"][1]["delivered"], Value::Null);
    }
}
