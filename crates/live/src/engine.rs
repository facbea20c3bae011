//! Who decides? The engine, seen through what the real event loop needs of it.

use serde_json::{Value, json};
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, ObjectId};
use tandem_engine::bcw::controller::Controller;
use tandem_engine::bcw::unreliability::Unreliability;
use tandem_engine::device::{Device, Service};
use tandem_engine::drain::{self, DrainView};
use tandem_engine::mirror::{JournalView, PairView};
use tandem_engine::qos::delivery::Client;
use tandem_engine::qos::reserve::Rate;
use tandem_engine::replacement::{Ending, ReplacementView, SuccessorConfig};
use tandem_engine::stats::{DeviceStats, Hits, ReadBackStats};
use tandem_engine::{Command, Engine, Event, TierConfig};

/// A part of an object that is alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long it is, in bytes.
    pub length_bytes: u64,
    /// Does it hold data, or is it absent and reads as zeroes?
    pub allocated: bool,
}

/// The engine, or in a test something that answers like one.
pub trait LiveEngine {
    /// Takes one event at `now` and appends what is to be done.
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Vec<Command>);

    /// Does it take another request now? If not, requests wait in the event loop.
    fn can_accept(&self) -> bool {
        true
    }

    /// What there is to know, as one JSON object.
    fn status(&self, now: Instant) -> Value;

    /// Gives a volume another tier.
    ///
    /// # Errors
    /// Why not, in words.
    fn set_tier(&mut self, volume: &str, _tier: TierConfig) -> Result<(), String> {
        Err(format!("nothing here has tiers, so {volume} gets none"))
    }

    /// The engine, if it is one: for front ends that look at objects.
    fn engine(&self) -> Option<&Engine> {
        None
    }

    /// Could this drive be replaced by one of so many bytes?
    ///
    /// # Errors
    /// Why not, in words.
    fn can_replace(&self, _device: DeviceId, _capacity_bytes: u64) -> Result<(), String> {
        Err("nothing here has drives that could be replaced".into())
    }

    /// A drive behind all others shall take this one's place; it is begun with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    fn replace(&mut self, device: DeviceId, bytes: u64, _uuid: u128) -> Result<(), String> {
        self.can_replace(device, bytes)
    }

    /// Ends the replacement under way with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    fn cancel_replace(&mut self) -> Result<(), String> {
        Err("nothing is being replaced".into())
    }

    /// How many bytes would be moved if this drive were drained?
    ///
    /// # Errors
    /// Why it cannot be, in words.
    fn can_drain(&self, _device: DeviceId) -> Result<u64, String> {
        Err("nothing here has drives that could leave".into())
    }

    /// A drive shall leave, stay after all, or be gone; it is begun with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    fn change_members(&mut self, _asked: Leave) -> Result<(), String> {
        Err("nothing here has drives that could leave".into())
    }

    /// Appends what lies in `offset_bytes..offset_bytes + length_bytes` of an object, from its
    /// beginning on and without gaps; it may stop early but says something. "All of it is data" is
    /// always true enough.
    fn extents(&self, object: ObjectId, range: (u64, u64), out: &mut Vec<Extent>) {
        let _ = object;
        out.push(Extent { length_bytes: range.1, allocated: true });
    }
}

/// How a drive leaves a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Everything is moved off it.
    Drain(DeviceId),
    /// The one that is drained stays.
    Cancel,
    /// It was drained, and is none of the pool any more.
    Remove(DeviceId),
}

/// Blocks looked at for one answer of [`LiveEngine::extents`]: about half a millisecond.
const EXTENT_BLOCKS_MAX: u64 = 1 << 17;

impl LiveEngine for Engine {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Vec<Command>) {
        Engine::on(self, now, event, out);
    }

    fn can_accept(&self) -> bool {
        Engine::can_accept(self)
    }

    fn engine(&self) -> Option<&Engine> {
        Some(self)
    }

    fn set_tier(&mut self, volume: &str, tier: TierConfig) -> Result<(), String> {
        let found = self.objects().iter().find(|(_, known)| known.name == volume);
        let (object, _) = found.ok_or_else(|| format!("there is no volume called {volume:?}"))?;
        Engine::set_tier(self, object, tier).map_err(|why| why.to_string())
    }

    fn can_replace(&self, device: DeviceId, capacity_bytes: u64) -> Result<(), String> {
        Engine::can_replace(self, device, capacity_bytes).map_err(|why| why.to_string())
    }

    fn replace(&mut self, device: DeviceId, bytes: u64, uuid: u128) -> Result<(), String> {
        let successor = SuccessorConfig { device, capacity_bytes: bytes };
        Engine::replace(self, successor, uuid).map_err(|why| why.to_string())
    }

    fn cancel_replace(&mut self) -> Result<(), String> {
        Engine::cancel_replace(self).map_err(|why| why.to_string())
    }

    fn can_drain(&self, device: DeviceId) -> Result<u64, String> {
        Engine::can_drain(self, device).map_err(|why| why.to_string())
    }

    fn change_members(&mut self, asked: Leave) -> Result<(), String> {
        let done = match asked {
            Leave::Drain(device) => Engine::drain(self, device),
            Leave::Cancel => Engine::cancel_drain(self),
            Leave::Remove(device) => Engine::remove(self, device),
        };
        done.map_err(|why| why.to_string())
    }

    fn status(&self, now: Instant) -> Value {
        let stats = self.stats();
        let (map, population) = (self.map(), self.map().population());
        let metadata_replica = self.metadata_replica().map(|f| {
            json!({
                "device": f.device.0,
                "journal_units_behind": f.units_behind,
                "awaits_snapshot": f.awaits_snapshot,
                "behind_ns": f.missing_since.map_or(0, |since| now.since(since).ns),
                "lag_max_ns": f.lag_max.ns,
            })
        });
        let controllers: Vec<Value> = self
            .devices()
            .iter()
            .map(|device| {
                let there = device.bcw.as_ref().filter(|_| !device.is_gone());
                there.map_or(Value::Null, |bcw| controller(bcw, now))
            })
            .collect();
        let ids = self.devices().iter().map(|device| device.id);
        let today: Vec<Value> = ids.map(|id| today(self, id, now)).collect();
        json!({
            "metadata_replica": metadata_replica,
            "replacing": self.replacement().map(|view| replacing(&view, now)),
            "draining": self.drain_view().map(|view| draining(&view, now)),
            "snapshots": crate::control::snapshots(self),
            "gone": self.devices().iter().filter(|d| d.is_gone()).map(|d| d.id.0).collect::<Vec<_>>(),
            "pairs": self.pairs().iter().map(pair).collect::<Vec<_>>(),
            "today": today,
            "day_left_ns": self.day_left(now).ns,
            "controllers": controllers,
            "devices": stats.devices.iter().map(device_status).collect::<Vec<_>>(),
            "ssd_free_bytes": map.ssd_free() * BLOCK_BYTES,
            "ssd_bytes": map.ssd_slots() * BLOCK_BYTES,
            "ssd_dirty_bytes": population.dirty_ssd * BLOCK_BYTES,
            "ssd_clean_bytes": population.clean_ssd * BLOCK_BYTES,
            "hdd_log_bytes": population.in_log * BLOCK_BYTES,
            "map_memory_bytes": map.memory_bytes(),
            "redirected": { "requests": stats.redirected.0, "bytes": stats.redirected.1 },
            "read_back": read_back_of(self),
            "tiers": tiers(self),
            "fragments": stats.fragments,
            "merge_reads": stats.merge_reads,
            "backpressure_ns": stats.backpressure_ns,
            "commits": stats.commits,
            "commits_gathered": stats.commits_gathered,
            "checkpoints": stats.checkpoints,
            "checksum_errors": stats.checksum_errors,
            "repaired_reads": stats.repaired_reads,
            "bytes_at_risk": self.bytes_at_risk(),
            "bytes_at_risk_max": stats.bytes_at_risk_max,
            "uncommitted_bytes": map.pending_blocks() * BLOCK_BYTES,
            "service": self.devices().iter().map(|d| service(self, d)).collect::<Vec<_>>(),
            "streams": streams(&self.clients(now).unwrap_or_default()),
            "envelopes": self.devices().iter().map(envelope).collect::<Vec<_>>(),
        })
    }

    fn extents(&self, object: ObjectId, range: (u64, u64), out: &mut Vec<Extent>) {
        let Some(found) = self.objects().get(object) else { return };
        let (start, end) = (range.0, range.0.saturating_add(range.1));
        let mut at = start;
        for block in
            (start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).take(EXTENT_BLOCKS_MAX as usize)
        {
            let next = ((block + 1) * BLOCK_BYTES).min(end);
            let logical = match (u32::try_from(block), found.lies_in_runs()) {
                (Ok(block), true) => self.objects().single(object, block, block + 1),
                (Ok(block), false) => Some(found.first + block),
                (Err(_), _) => None,
            };
            let allocated = logical.is_some_and(|logical| self.map().state(logical) != 0);
            match out.last_mut() {
                Some(last) if last.allocated == allocated => last.length_bytes += next - at,
                _ => out.push(Extent { length_bytes: next - at, allocated }),
            }
            at = next;
        }
    }
}

/// What each stream was promised and given; the last is everything else. Nothing where nobody is told
/// apart.
pub fn streams(clients: &[Client]) -> Vec<Value> {
    let amount = |rate: Option<Rate>| match rate {
        None => Value::Null,
        Some(Rate::Requests(count)) => json!({ "requests_per_s": count }),
        Some(Rate::Bytes(bytes)) => json!({ "bytes_per_s": bytes }),
    };
    let one = |client: &Client| {
        let delivery = &client.delivery;
        let last = delivery.last.map(|window| {
            let per_s = |count: u64| {
                u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(delivery.window().ns))
                    .unwrap_or(u64::MAX)
            };
            json!({
                "requests_per_s": per_s(window.requests),
                "bytes_per_s": per_s(window.bytes),
                "was_idle": window.was_idle,
                "met": window.met,
            })
        });
        json!({
            "name": client.name,
            "promised": amount(delivery.promised()),
            "window_ns": delivery.window().ns,
            "delivered": last,
            "requests": delivery.requests,
            "bytes": delivery.bytes,
            "windows": delivery.windows,
            "windows_met": delivery.met,
        })
    };
    clients.iter().map(one).collect()
}

/// What is asked of a drive: all, or no more writes, or nothing; and why.
fn service(engine: &Engine, device: &Device) -> Value {
    let (state, why) = match device.service {
        Service::Full if engine.is_slow(device.id) => ("slow", None),
        Service::Full => ("serves", None),
        Service::ReadOnly(error) => ("read_only", Some(error)),
        Service::Out(_) if device.is_gone() => ("gone", None),
        Service::Out(error) => ("out", Some(error)),
    };
    json!({ "state": state, "why": why.map(|error| error.to_string()) })
}

/// Is a drive still what its cost profile says? Null where streams are not told apart.
fn envelope(device: &Device) -> Value {
    device.streams.as_ref().map_or(Value::Null, |lanes| {
        let (windows, outside, is_outside) = lanes.envelope();
        json!({ "windows": windows, "outside": outside, "is_outside": is_outside })
    })
}

/// What the buffered writes of a hard drive met, and why it is not steered to if it is not.
fn controller(bcw: &Controller, now: Instant) -> Value {
    let stats = bcw.stats_at(now);
    let times =
        |why: &Unreliability| (why.name().to_owned(), json!(stats.unreliable_times[*why as usize]));
    json!({
        "state": bcw.state().name(),
        "user_slow_writes": stats.user_slow_writes,
        "surprises": stats.surprises,
        "unreliable": {
            "now": bcw.unreliable().map(|(why, _)| why.name()),
            "ns": stats.unreliable_ns,
            "by_reason": Unreliability::ALL.iter().map(times).collect::<serde_json::Map<_, _>>(),
        },
        "measurements": stats.measurements,
        "explorations": stats.explorations,
        "suspensions": stats.suspensions,
        "padding_limits": stats.padding_limits,
        "budget_stops": stats.budget_stops,
    })
}

/// What tiers hold of the SSDs, and what they did there; null where no volume's tier has a share.
fn tiers(engine: &Engine) -> Value {
    let (Some((held, room, extent_bytes)), Some((account, collector_bytes))) =
        (engine.tier_room(), engine.tier_account())
    else {
        return Value::Null;
    };
    let did = &engine.stats().tiers;
    let bytes = |blocks: u64| blocks * BLOCK_BYTES;
    json!({
        "extent_bytes": extent_bytes,
        "held_bytes": u64::from(held) * extent_bytes,
        "room_bytes": u64::from(room) * extent_bytes,
        "collector_bytes": collector_bytes,
        "reads": { "ssd_bytes": bytes(did.hit_blocks), "hdd_bytes": bytes(did.missed_blocks) },
        "came_bytes": bytes(did.came_blocks),
        "demoted_bytes": bytes(did.demoted_blocks),
        "dropped_bytes": bytes(did.dropped_blocks),
        "extents": { "came": account.came, "written": account.claimed, "left": account.left },
        "refused": {
            "unqualified": account.unqualified,
            "not_worth_moving": account.unpaid,
            "too_few_reads": account.sieved_reads,
            "full": account.full,
            "too_many_wait": account.forgone,
            "sieved_requests": did.sieved,
            "bypassed_writes": did.bypassed,
        },
        "strays": did.strays,
    })
}

/// What is in RAM of what was redirected, and what reads found there.
fn read_back_of(engine: &Engine) -> Value {
    let mut value = read_back(&engine.stats().read_back);
    let (used, may) = engine.read_back_bytes();
    value["cache_bytes"] = json!(used);
    value["cache_bytes_max"] = json!(may);
    value["tail_bytes"] = json!(engine.devices().iter().map(|d| d.tail.bytes).sum::<u64>());
    value
}

/// Users' reads of redirected data: from RAM, by why it was there, and from hard drives, in runs of
/// blocks; and what reads have brought to SSDs.
pub fn read_back(stats: &ReadBackStats) -> Value {
    let hits = |hits: Hits| json!({ "reads": hits.count, "bytes": hits.bytes });
    json!({
        "ram": { "tail": hits(stats.from_tail), "cache": hits(stats.from_cache) },
        "hdd_log": hits(stats.from_drive),
        "promoted_blocks": stats.promoted,
        "promotions_forgone": stats.forgone,
    })
}

/// A drive that is being replaced, or the last one that was.
fn replacing(view: &ReplacementView, now: Instant) -> Value {
    let end = view.ended.map_or(now, |(at, _)| at);
    json!({
        "device": view.device.0,
        "joins": view.joins,
        "stage": view.stage,
        "copied_bytes": view.copied_bytes,
        "total_bytes": view.total_bytes,
        "marked_bytes": view.marked_bytes,
        "resumed_bytes": view.stats.resumed_bytes,
        "doubled_bytes": view.stats.doubled_bytes,
        "unreadable_blocks": view.stats.unreadable_blocks,
        "marks": view.stats.marks,
        "ns": end.since(view.began).ns,
        "finished": view.ended.map(|(_, ending)| ending == Ending::Finished),
        "ended": view.ended.map(|(_, ending)| ending.to_string()),
    })
}

/// A drive that is being drained or removed, or the last one that was.
fn draining(view: &DrainView, now: Instant) -> Value {
    let end = view.ended.map(|(at, _)| at).or(view.drained).unwrap_or(now);
    json!({
        "device": view.device.0,
        "stage": view.stage,
        "left_bytes": view.left_bytes,
        "total_bytes": view.total_bytes,
        "moved_bytes": view.moved_bytes,
        "unreadable_blocks": view.unreadable_blocks,
        "drained": view.drained.is_some(),
        "ns": end.since(view.began).ns,
        "removed": view.ended.map(|(_, ending)| ending == drain::Ending::Removed),
        "ended": view.ended.map(|(_, ending)| ending.to_string()),
    })
}

/// How the legs of a pair stand.
fn pair(view: &PairView) -> Value {
    let stats = &view.stats;
    json!({
        "drives": view.legs.map(|leg| leg.0),
        "alive": view.alive,
        "writes": view.lead,
        "reads": view.reader,
        "exposed": view.exposed,
        "behind_bytes": view.stale_bytes,
        "cache_bytes": view.cache_bytes,
        "cache_bytes_max": view.cache_bytes_max,
        "cache_bytes_bound": view.cache_bytes_bound,
        "coalesced_bytes": view.coalesced_bytes,
        "write_bytes_per_s": view.write_bytes_per_s,
        "idle_ns": view.idle.ns,
        "turns": stats.turns,
        "early_turns": stats.early_turns,
        "accepted_bytes": stats.accepted_bytes,
        "written_bytes": stats.written_bytes,
        "reads_by_drive": stats.reads,
        "cache_reads": stats.cache_reads,
        "held": stats.held,
        "held_ns": stats.held_ns,
        "resynced_bytes": stats.resynced_bytes,
        "repaired_reads": stats.repaired_reads,
        "failures": stats.failures,
        "journal": view.journal.as_ref().map(journal),
    })
}

/// How the journal of a pair stands.
fn journal(view: &JournalView) -> Value {
    let stats = &view.stats;
    json!({
        "drive": view.device.0,
        "alive": view.alive,
        "ring_bytes": view.ring_bytes,
        "used_bytes": view.used_bytes,
        "window": view.window,
        "units_not_awaited": view.forced,
        "units": stats.units,
        "written_bytes": stats.written_bytes,
        "data_bytes": stats.data_bytes,
        "flushes": stats.flushes,
        "heads": stats.heads,
        "replayed_bytes": stats.replayed_bytes,
    })
}

/// What a drive took today, beside what it may: bytes, `null` where there is no bound.
fn today(engine: &Engine, id: DeviceId, now: Instant) -> Value {
    let device = &engine.devices()[usize::from(id.0)];
    let budget = engine.budget(id);
    let part = |(used, may): (u64, u64)| json!({ "used_bytes": used, "budget_bytes": (may < u64::MAX).then_some(may) });
    let bcw = device.bcw.as_ref().map(Controller::budgets);
    json!({
        "used_bytes": engine.used_today(id),
        "rated_bytes": budget.rated_bytes,
        "rating_is_spent": engine.rating_is_spent(id),
        "ssd_write_budget_bytes": budget.ssd_write_bytes,
        "ssd_writes_are_spent": engine.ssd_writes_are_spent(id),
        "padding": bcw.map(|budgets| part(budgets.padding(now))),
        "log": bcw.map(|budgets| part(budgets.log(now))),
    })
}

fn device_status(stats: &DeviceStats) -> Value {
    json!({
        "written_bytes": stats.written_bytes(),
        "user_bytes": stats.user_bytes,
        "writeback_bytes": stats.writeback_bytes,
        "promotion_bytes": stats.promotion_bytes,
        "tail_bytes": stats.tail_bytes,
        "map_bytes": stats.map_bytes,
        "padding_bytes": stats.padding_bytes,
        "gc_bytes": stats.gc_bytes,
        "home_bytes": stats.home_bytes,
        "read_bytes": stats.read_bytes,
        "write_requests": stats.write_requests,
        "read_requests": stats.read_requests,
        "flushes": stats.flushes,
        "trimmed_bytes": stats.trimmed_bytes,
        "errors": stats.errors,
    })
}
