//! How do arrivals meet the engine in virtual time?
//!
//! Open loop: each request arrives at its time of the trace; while the engine takes no more, the
//! simulation holds it, and its latency still counts from the trace's time. Closed loop: so many are kept
//! outstanding. At equal times a device's acknowledgement comes first, then the engine's timer, then
//! the arrival. The run ends with the last acknowledgement; what the engine would still have written
//! in the background afterwards is not part of it.
//!
//! A workload may begin with a warm-up, such as files that are made before they are used. When all of
//! it is answered, everything that is measured begins anew: time, latencies, queues, bytes and
//! counters. Maxima and what steering counted stay those of the whole run.

use super::config::{ReplayConfig, ReplayError};
use super::gauge::Gauge;
use super::plan::Plan;
use super::result::{DeviceResult, RunResult, counted_since};
use super::setup::set_up;
use super::timeline::Timeline;
use crate::Simulation;
use slab::Slab;
use tandem_block::{
    Arrival, DeviceId, DurabilityClass, Duration, Instant, ObjectId, Op, PayloadId, Request,
    RequestId, RequestKind, RequestType, StreamId,
};
use tandem_engine::bcw::controller::ControllerStats;
use tandem_engine::stats::EngineStats;
use tandem_engine::stats::queue_found::QueueFound;
use tandem_engine::stats::recorder::Recorder;

/// The engine takes at most 32 MiB at once (`ops::request`); longer requests of a trace come in
/// pieces, as a kernel would send them.
const PIECE_BYTES: u64 = 32 << 20;
/// Events without any answer, while requests wait, after which the engine is said to stand still:
/// hours of background work at its smallest steps.
const SILENT_EVENTS_MAX: u64 = 50_000_000;
/// Without requests for so long, an engine settles the tails of its hard drives.
const QUIET: Duration = Duration::from_s(1);

/// Replays arrivals, in order of time, under one policy.
///
/// # Errors
/// If the simulation cannot be set up, or the engine stops answering (an error of the engine).
pub fn replay(
    config: &ReplayConfig,
    plan: &Plan,
    arrivals: impl Iterator<Item = Arrival>,
) -> Result<RunResult, ReplayError> {
    let lacks = config.steer.entry().and_then(|e| e.lacks(config.ssds.len(), config.hdds.len()));
    if let Some(lacks) = lacks {
        return Err(ReplayError::Drives { lacks });
    }
    let sim = set_up(config, plan)?;
    // the clock of the wall is for `wall_ns` alone: nothing that is simulated depends on it
    let clock = std::time::Instant::now();
    let mut run = Run::new(sim, config);
    run.warm_up_requests = plan.warm_up_requests;
    match config.closed_loop {
        None => run.open(arrivals)?,
        Some(outstanding) => run.closed(arrivals, outstanding.max(1) as usize)?,
    }
    run.finish_all()?;
    let wall_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(run.result(plan, wall_ns))
}

/// Counters when what is measured began.
struct Baseline {
    at: Instant,
    stats: EngineStats,
    flash_pages: Vec<(u64, u64)>,
    queues_found: Vec<QueueFound>,
}

impl Baseline {
    fn of(sim: &mut Simulation) -> Baseline {
        let flash_pages = (0..sim.engine.devices().len())
            .map(|index| sim.drive_mut(DeviceId(index as u8)).flash_pages())
            .collect();
        let devices = sim.engine.devices().iter();
        let queues_found = devices.map(|device| device.queue.found().clone()).collect();
        Baseline { at: sim.now, stats: sim.engine.stats().clone(), flash_pages, queues_found }
    }
}

struct Run {
    sim: Simulation,
    class: DurabilityClass,
    /// When the trace began.
    start: Instant,
    /// Statistics begin behind so many arrivals; 0 with the first.
    warm_up_requests: u64,
    /// What lies in logs then is taken to have gone home.
    at_home: bool,
    begun: Baseline,
    in_flight: Slab<Request>,
    payloads: u64,
    latencies: Recorder,
    gauges: Vec<Gauge>,
    held_ns: u64,
    silent_events: u64,
    timeline: Option<Timeline>,
}

impl Run {
    fn new(mut sim: Simulation, config: &ReplayConfig) -> Run {
        let start = sim.now;
        // what formatting took of the drives is not the trace's; the rest counts from the start
        let begun = Baseline::of(&mut sim);
        let devices = begun.stats.devices.clone();
        let begun = Baseline { stats: EngineStats { devices, ..Default::default() }, ..begun };
        let gauges = sim.engine.devices().iter().map(|_| Gauge::new(start)).collect();
        let engine = &sim.engine;
        let timeline = || Timeline::new(start, engine.devices(), &engine.stats().devices);
        Run {
            timeline: config.timeline.then(timeline),
            class: config.durability,
            start,
            warm_up_requests: 0,
            at_home: config.at_home,
            begun,
            in_flight: Slab::new(),
            payloads: 0,
            latencies: Recorder::default(),
            gauges,
            held_ns: 0,
            silent_events: 0,
            sim,
        }
    }

    fn open(&mut self, arrivals: impl Iterator<Item = Arrival>) -> Result<(), ReplayError> {
        for (number, arrival) in (0..).zip(arrivals) {
            self.begin_anew_behind_warm_up(number, arrival.object)?;
            let at = Instant::from_ns(self.start.ns.saturating_add(arrival.at.ns));
            while self.sim.next_at() <= at {
                self.step()?;
            }
            self.sim.now = self.sim.now.max(at);
            for piece in pieces(arrival) {
                while !self.sim.engine.can_accept() {
                    self.step()?;
                }
                self.held_ns += self.sim.now.since(at).ns;
                self.hand_in(&piece, at);
            }
        }
        Ok(())
    }

    fn closed(
        &mut self,
        arrivals: impl Iterator<Item = Arrival>,
        outstanding: usize,
    ) -> Result<(), ReplayError> {
        for (number, arrival) in (0..).zip(arrivals) {
            self.begin_anew_behind_warm_up(number, arrival.object)?;
            for piece in pieces(arrival) {
                while self.in_flight.len() >= outstanding || !self.sim.engine.can_accept() {
                    self.step()?;
                }
                self.hand_in(&piece, self.sim.now);
            }
        }
        Ok(())
    }

    /// If the arrival of this number is the first that counts: waits for those before it, and begins
    /// all statistics anew.
    fn begin_anew_behind_warm_up(
        &mut self,
        number: u64,
        object: ObjectId,
    ) -> Result<(), ReplayError> {
        if number == 0 || number != self.warm_up_requests {
            return Ok(());
        }
        self.finish_all()?;
        if self.at_home {
            self.bring_logs_home(object)?;
        }
        let now = self.sim.now;
        self.begun = Baseline::of(&mut self.sim);
        self.latencies = Recorder::default();
        self.held_ns = 0;
        self.gauges.fill(Gauge::new(now));
        let engine = &self.sim.engine;
        if let Some(timeline) = &mut self.timeline {
            *timeline = Timeline::new(now, engine.devices(), &engine.stats().devices);
        }
        // what runs in the background now is in the gauges from the beginning
        self.observe();
        Ok(())
    }

    /// Empties the logs as quiet hours would, without their time passing: what they hold is flushed, taken
    /// to be home, and recorded.
    fn bring_logs_home(&mut self, object: ObjectId) -> Result<(), ReplayError> {
        // a tail that is not small is flushed by itself once nobody writes; a FLUSH might copy it
        let quiet = self.sim.now + QUIET;
        while self.sim.next_at() <= quiet {
            self.step()?;
        }
        self.sim.now = quiet;
        self.flush(object)?;
        self.sim.engine.assume_logs_home();
        // one commit names the homes, the next one frees the logs
        self.flush(object)?;
        self.flush(object)
    }

    fn flush(&mut self, object: ObjectId) -> Result<(), ReplayError> {
        let flush = Arrival {
            at: self.sim.now,
            object,
            op: Op::Flush,
            offset_bytes: 0,
            length_bytes: 0,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        };
        self.hand_in(&flush, self.sim.now);
        self.finish_all()
    }

    fn finish_all(&mut self) -> Result<(), ReplayError> {
        while !self.in_flight.is_empty() {
            self.step()?;
        }
        Ok(())
    }

    #[inline]
    fn hand_in(&mut self, arrival: &Arrival, arrived: Instant) {
        // a name for the bytes that are not there: the engine keeps tails by it
        let mut payload = PayloadId::NONE;
        if arrival.op == Op::Write {
            self.payloads += 1;
            payload = PayloadId(self.payloads);
        }
        let entry = self.in_flight.vacant_entry();
        let request = Request {
            id: RequestId(entry.key() as u64),
            object: arrival.object,
            op: arrival.op,
            offset_bytes: arrival.offset_bytes,
            length_bytes: arrival.length_bytes,
            fua: arrival.fua,
            stream: arrival.stream,
            class: self.class,
            kind: RequestKind::User,
            data_type: arrival.data_type,
            payload,
            arrived,
        };
        entry.insert(request);
        self.sim.request(&request);
        self.observe();
    }

    /// Lets the next thing happen.
    #[inline]
    fn step(&mut self) -> Result<(), ReplayError> {
        self.silent_events += 1;
        if !self.sim.step() || self.silent_events > SILENT_EVENTS_MAX {
            let (now_ns, outstanding) = (self.sim.now.ns, self.in_flight.len());
            return Err(ReplayError::Stuck { now_ns, outstanding });
        }
        self.observe();
        Ok(())
    }

    /// Takes the answers, and notes how every device stands.
    #[inline]
    fn observe(&mut self) {
        let now = self.sim.now;
        if self.sim.has_done() {
            self.silent_events = 0;
            let (in_flight, latencies) = (&mut self.in_flight, &mut self.latencies);
            let timeline = &mut self.timeline;
            self.sim.drain_done(|done| {
                let request = in_flight.remove(done.request.0 as usize);
                latencies.record(&request, &done, now);
                if let Some(timeline) = timeline {
                    timeline.answered(now, request.op == Op::Read, request.age(now).ns);
                }
            });
        }
        for (gauge, device) in self.gauges.iter_mut().zip(self.sim.engine.devices()) {
            let background = device.queue.background_in_flight();
            gauge.sample(now, device.queue.length(), device.queue.in_flight(), background);
        }
        if let Some(timeline) = &mut self.timeline {
            let engine = &self.sim.engine;
            timeline.sample(now, engine.devices(), &engine.stats().devices);
        }
    }

    fn result(self, plan: &Plan, wall_ns: u64) -> RunResult {
        let (mut sim, begun) = (self.sim, self.begun);
        let end = sim.now;
        let mut steering = ControllerStats::default();
        let controllers: Vec<ControllerStats> = sim
            .engine
            .devices()
            .iter()
            .map(|device| {
                device.bcw.as_ref().map_or_else(Default::default, |bcw| bcw.stats_at(end))
            })
            .collect();
        controllers.iter().for_each(|one| steering += one);
        let stats = counted_since(sim.engine.stats(), &begun.stats);
        let mut devices = Vec::new();
        for (index, (gauge, planned)) in self.gauges.into_iter().zip(&plan.drives).enumerate() {
            let flash_pages = sim.drive_mut(DeviceId(index as u8)).flash_pages();
            let before = begun.flash_pages[index];
            let found = sim.engine.devices()[index].queue.found();
            devices.push(DeviceResult {
                role: planned.role,
                name: planned.name.clone(),
                stats: stats.devices[index],
                gauge: gauge.finish(end),
                queue_found: found.since(&begun.queues_found[index]),
                steering: controllers[index],
                flash_pages: (flash_pages.0 - before.0, flash_pages.1 - before.1),
                model_bytes: planned.model_bytes,
                endurance_bytes: planned.endurance_bytes,
                rating: planned.rating.clone(),
            });
        }
        RunResult {
            digest: sim.engine.digest(),
            wall_ns,
            elapsed_ns: end.since(begun.at).ns,
            latencies: self.latencies,
            stats,
            tier_room: sim.engine.tier_room(),
            held_ns: self.held_ns,
            steering,
            devices,
            streams: sim.engine.clients(end).unwrap_or_default(),
            timeline: self.timeline,
        }
    }
}

/// The request, in pieces that the engine takes.
#[inline]
fn pieces(arrival: Arrival) -> impl Iterator<Item = Arrival> {
    let mut rest = Some(arrival);
    std::iter::from_fn(move || {
        let mut piece = rest.take()?;
        let moves_data = matches!(piece.op, Op::Read | Op::Write);
        let limit = if moves_data { PIECE_BYTES } else { PIECE_BYTES * 64 };
        if piece.length_bytes > limit {
            let mut behind = piece;
            behind.offset_bytes += limit;
            behind.length_bytes -= limit;
            rest = Some(behind);
            piece.length_bytes = limit;
        }
        Some(piece)
    })
}
