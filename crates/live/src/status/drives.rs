//! How are the drives of a server?

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tandem_block::Instant;
use tandem_engine::Engine;
use tandem_engine::bcw::unreliability::Unreliability;
use tandem_engine::device::{self, Device};
use tandem_engine::stats::DeviceStats;

/// What the event loop holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Live {
    pub requests_in_flight: usize,
    pub payload_bytes: u64,
    pub emulated: Vec<EmulatedDrive>,
}

/// An emulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmulatedDrive {
    pub device: usize,
    /// What a power cut would undo.
    pub volatile_bytes: u64,
    /// Answers that came later than the model said.
    pub late_count: u64,
}

/// What a drive did since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub written_bytes: u64,
    pub user_bytes: u64,
    pub writeback_bytes: u64,
    pub promotion_bytes: u64,
    pub tail_bytes: u64,
    pub map_bytes: u64,
    pub padding_bytes: u64,
    pub gc_bytes: u64,
    pub home_bytes: u64,
    pub read_bytes: u64,
    pub write_requests: u64,
    pub read_requests: u64,
    pub flushes: u64,
    pub trimmed_bytes: u64,
    pub errors: u64,
}

/// Whether a hard drive rests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest {
    /// Since its last command ended.
    pub idle_ns: u64,
    /// What it has to do, now or as soon as it is quiet; nothing while it rests.
    pub awake_for: Option<String>,
}

impl Rest {
    pub(super) fn of(engine: &Engine, device: &Device, now: Instant) -> Option<Rest> {
        engine.rest(device.id, now).map(|rest| Rest {
            idle_ns: now.since(rest.since).ns,
            awake_for: rest.awake_for.map(|what| what.as_str().to_owned()),
        })
    }
}

impl Counters {
    pub(super) fn of(stats: &DeviceStats) -> Counters {
        Counters {
            written_bytes: stats.written_bytes(),
            user_bytes: stats.user_bytes,
            writeback_bytes: stats.writeback_bytes,
            promotion_bytes: stats.promotion_bytes,
            tail_bytes: stats.tail_bytes,
            map_bytes: stats.map_bytes,
            padding_bytes: stats.padding_bytes,
            gc_bytes: stats.gc_bytes,
            home_bytes: stats.home_bytes,
            read_bytes: stats.read_bytes,
            write_requests: stats.write_requests,
            read_requests: stats.read_requests,
            flushes: stats.flushes,
            trimmed_bytes: stats.trimmed_bytes,
            errors: stats.errors,
        }
    }
}

/// What is asked of a drive: all, or no more writes, or nothing; and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// `serves`, `slow`, `read_only`, `out` or `gone`.
    pub state: String,
    pub why: Option<String>,
}

impl Service {
    pub(super) fn of(engine: &Engine, device: &Device) -> Service {
        let (state, why) = match device.service {
            device::Service::Full if engine.is_slow(device.id) => ("slow", None),
            device::Service::Full => ("serves", None),
            device::Service::ReadOnly(error) => ("read_only", Some(error)),
            device::Service::Out(_) if device.is_gone() => ("gone", None),
            device::Service::Out(error) => ("out", Some(error)),
        };
        Service { state: state.to_owned(), why: why.map(|error| error.to_string()) }
    }
}

/// Is a drive still what its cost profile says?
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Envelope {
    pub windows: u64,
    pub outside: u64,
    pub is_outside: bool,
}

impl Envelope {
    pub(super) fn of(device: &Device) -> Option<Envelope> {
        let (windows, outside, is_outside) = device.streams.as_ref()?.envelope();
        Some(Envelope { windows, outside, is_outside })
    }
}

/// What the buffered writes of a hard drive met, and why it is not steered to if it is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controller {
    pub state: String,
    pub user_slow_writes: u64,
    pub surprises: u64,
    pub unreliable: Unreliable,
    pub measurements: u64,
    pub explorations: u64,
    pub suspensions: u64,
    pub padding_limits: u64,
    pub budget_stops: u64,
}

/// Why, how often and for how long a hard drive was not steered to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unreliable {
    /// Why it is not steered to now.
    pub now: Option<String>,
    pub ns: u64,
    pub by_reason: BTreeMap<String, u64>,
}

impl Controller {
    pub(super) fn of(device: &Device, now: Instant) -> Option<Controller> {
        let bcw = device.bcw.as_ref().filter(|_| !device.is_gone())?;
        let stats = bcw.stats_at(now);
        let times =
            |why: &Unreliability| (why.name().to_owned(), stats.unreliable_times[*why as usize]);
        Some(Controller {
            state: bcw.state().name().to_owned(),
            user_slow_writes: stats.user_slow_writes,
            surprises: stats.surprises,
            unreliable: Unreliable {
                now: bcw.unreliable().map(|(why, _)| why.name().to_owned()),
                ns: stats.unreliable_ns,
                by_reason: Unreliability::ALL.iter().map(times).collect(),
            },
            measurements: stats.measurements,
            explorations: stats.explorations,
            suspensions: stats.suspensions,
            padding_limits: stats.padding_limits,
            budget_stops: stats.budget_stops,
        })
    }
}

/// What a drive took today, beside what it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Today {
    pub used_bytes: u64,
    pub rated_bytes: Option<u64>,
    pub rating_is_spent: bool,
    pub ssd_write_budget_bytes: Option<u64>,
    pub ssd_writes_are_spent: bool,
    pub padding: Option<Spent>,
    pub log: Option<Spent>,
}

/// What was used of what may be used, where there is a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    pub used_bytes: u64,
    pub budget_bytes: Option<u64>,
}

impl Today {
    pub(super) fn of(engine: &Engine, device: &Device, now: Instant) -> Today {
        let (id, budget) = (device.id, engine.budget(device.id));
        let part = |(used_bytes, may): (u64, u64)| Spent {
            used_bytes,
            budget_bytes: (may < u64::MAX).then_some(may),
        };
        let bcw = device.bcw.as_ref().map(|bcw| bcw.budgets());
        Today {
            used_bytes: engine.used_today(id),
            rated_bytes: budget.rated_bytes,
            rating_is_spent: engine.rating_is_spent(id),
            ssd_write_budget_bytes: budget.ssd_write_bytes,
            ssd_writes_are_spent: engine.ssd_writes_are_spent(id),
            padding: bcw.map(|budgets| part(budgets.padding(now))),
            log: bcw.map(|budgets| part(budgets.log(now))),
        }
    }
}
