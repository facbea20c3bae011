//! What came out of a replay? Integers only; reports make words and shares of them.

use super::gauge::GaugeSummary;
use super::timeline::Timeline;
use crate::profiles::Rating;
use tandem_engine::Role;
use tandem_engine::bcw::controller::ControllerStats;
use tandem_engine::qos::delivery::Client;
use tandem_engine::stats::queue_found::QueueFound;
use tandem_engine::stats::recorder::Recorder;
use tandem_engine::stats::{DeviceStats, EngineStats, TierStats};

/// One run of one policy.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Everything that happened, in 64 bits.
    pub digest: u64,
    /// Real time that it took, in ns.
    pub wall_ns: u64,
    /// Virtual time from the beginning of the trace, or the end of its warm-up, to the last
    /// acknowledgement, in ns.
    pub elapsed_ns: u64,
    /// All latencies.
    pub latencies: Recorder,
    /// The engine's counters, of devices without what formatting took. Behind a warm-up they begin
    /// anew, but for maxima and what steering counted.
    pub stats: EngineStats,
    /// What tiers hold at the end, if any has a share of the SSDs: extents, room for how many, bytes each.
    pub tier_room: Option<(u32, u32, u64)>,
    /// Time that arrivals waited because the engine had as many requests as it takes, in ns.
    pub held_ns: u64,
    /// Sums over the hard drives' controllers.
    pub steering: ControllerStats,
    /// By id.
    pub devices: Vec<DeviceResult>,
    /// What each stream was given; the last is everything else. Empty where nobody is told apart.
    pub streams: Vec<Client>,
    /// What happened when, if that was asked for.
    pub timeline: Option<Timeline>,
}

/// One drive of one run.
#[derive(Clone, Debug)]
pub struct DeviceResult {
    /// SSD or hard drive.
    pub role: Role,
    /// The spec's name.
    pub name: String,
    /// Bytes and commands since the trace began, or its warm-up was over.
    pub stats: DeviceStats,
    /// Queue and utilisation.
    pub gauge: GaugeSummary,
    /// Queues that its jobs found when they came, since the trace began, or its warm-up was over.
    pub queue_found: QueueFound,
    /// What its controller counted; zeroes of an SSD.
    pub steering: ControllerStats,
    /// Flash pages programmed and host pages written since the trace began; (0, 0) of a hard drive.
    pub flash_pages: (u64, u64),
    /// Capacity of the model, in bytes.
    pub model_bytes: u64,
    /// Bytes that may be written in its life, if its vendor says so.
    pub endurance_bytes: Option<u64>,
    /// What its vendor rates it for in a day.
    pub rating: Option<Rating>,
}

/// What the engine counted since `before`. Maxima and what steering counted are of the whole run.
pub(super) fn counted_since(now: &EngineStats, before: &EngineStats) -> EngineStats {
    let devices = now.devices.iter().zip(&before.devices).map(|(now, before)| since(now, before));
    EngineStats {
        devices: devices.collect(),
        redirected: (
            now.redirected.0 - before.redirected.0,
            now.redirected.1 - before.redirected.1,
        ),
        fragments: now.fragments - before.fragments,
        merge_reads: now.merge_reads - before.merge_reads,
        merged: now.merged - before.merged,
        backpressure_ns: now.backpressure_ns - before.backpressure_ns,
        commits: now.commits - before.commits,
        updates: now.updates - before.updates,
        commits_gathered: now.commits_gathered - before.commits_gathered,
        checkpoints: now.checkpoints - before.checkpoints,
        repaired_reads: now.repaired_reads - before.repaired_reads,
        moves_dropped: now.moves_dropped - before.moves_dropped,
        moves: now.moves - before.moves,
        copies_dropped: now.copies_dropped - before.copies_dropped,
        copies_made: now.copies_made - before.copies_made,
        copies_forgone: now.copies_forgone - before.copies_forgone,
        copies_beside_logs: now.copies_beside_logs - before.copies_beside_logs,
        tiers: tiers_since(&now.tiers, &before.tiers),
        ordered: now.ordered - before.ordered,
        ..now.clone()
    }
}

fn tiers_since(now: &TierStats, before: &TierStats) -> TierStats {
    TierStats {
        hit_blocks: now.hit_blocks - before.hit_blocks,
        missed_blocks: now.missed_blocks - before.missed_blocks,
        came_blocks: now.came_blocks - before.came_blocks,
        rode: now.rode - before.rode,
        changed_blocks: now.changed_blocks - before.changed_blocks,
        no_space: now.no_space - before.no_space,
        demoted_blocks: now.demoted_blocks - before.demoted_blocks,
        dropped_blocks: now.dropped_blocks - before.dropped_blocks,
        sieved: now.sieved - before.sieved,
        bypassed: now.bypassed - before.bypassed,
        strays: now.strays - before.strays,
    }
}

/// What was counted since `before`.
fn since(now: &DeviceStats, before: &DeviceStats) -> DeviceStats {
    DeviceStats {
        user_bytes: now.user_bytes - before.user_bytes,
        writeback_bytes: now.writeback_bytes - before.writeback_bytes,
        promotion_bytes: now.promotion_bytes - before.promotion_bytes,
        tail_bytes: now.tail_bytes - before.tail_bytes,
        map_bytes: now.map_bytes - before.map_bytes,
        padding_bytes: now.padding_bytes - before.padding_bytes,
        gc_bytes: now.gc_bytes - before.gc_bytes,
        home_bytes: now.home_bytes - before.home_bytes,
        read_bytes: now.read_bytes - before.read_bytes,
        write_requests: now.write_requests - before.write_requests,
        read_requests: now.read_requests - before.read_requests,
        flushes: now.flushes - before.flushes,
        trimmed_bytes: now.trimmed_bytes - before.trimmed_bytes,
        errors: now.errors - before.errors,
        busy_ns: (now.busy_ns.0 - before.busy_ns.0, now.busy_ns.1 - before.busy_ns.1),
    }
}
