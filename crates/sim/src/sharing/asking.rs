//! Who asks when, and what came back?

use super::paired::Watch;
use super::{ClientResult, ClientSpec, DEPTH, SharingConfig, SharingResult, Written};
use crate::Simulation;
use crate::bare_ssd::VOLUME;
use std::collections::VecDeque;
use tandem_block::{
    DeviceId, DriveEventKind, Duration, Instant, Op, PayloadId, Request, RequestId, Rng,
    SECTOR_BYTES, StreamId,
};
use tandem_engine::Role;
use tandem_engine::profile::throughput::{BIN_NS, Throughput};
use tandem_engine::qos::cost::CostTable;
use tandem_engine::qos::reserve::Promise;
use tandem_engine::stats::recorder::Latencies;

/// Requests of a client that asks by the clock are with the engine at most; later ones wait before it.
const OUTSTANDING_MAX: u32 = 8_192;

struct Client {
    next: u64,
    slots: u64,
    /// Bytes that it uses.
    range_bytes: u64,
    rng: Rng,
    throughput: Throughput,
    latencies: Latencies,
    outstanding: u32,
    /// When the next ones arrive, of one that asks by the clock.
    arrives_at: Instant,
    /// Arrived, but not with the engine yet.
    late: VecDeque<Instant>,
    /// When the next ones follow what was answered; all think alike, so that these rise.
    thinks: VecDeque<Instant>,
}

pub(super) struct Running<'a> {
    config: &'a SharingConfig,
    sim: Simulation,
    clients: Vec<Client>,
    /// Whose request it is, and when it was sent.
    in_flight: slab::Slab<(usize, Instant)>,
    payloads: u64,
    counts_from: Instant,
    latencies: [Latencies; 2],
    /// Written before it counted.
    before: Written,
    watch: Watch,
}

impl<'a> Running<'a> {
    pub(super) fn new(config: &'a SharingConfig, sim: Simulation) -> Running<'a> {
        let capacity_bytes = sim.engine.devices()[0].config.capacity_bytes;
        let mut seeds = Rng::new(config.seed);
        let client = |(index, spec): (usize, &ClientSpec)| {
            let left = capacity_bytes.saturating_sub(spec.from_bytes);
            let range = if spec.range_bytes == 0 { left } else { spec.range_bytes };
            let range_bytes = range.min(left);
            let slots = (range_bytes / spec.size_bytes).max(1);
            Client {
                // not where another one begins: requests to one place wait for each other
                next: slots * index as u64 / config.clients.len() as u64,
                slots,
                range_bytes,
                rng: seeds.split(index as u64),
                throughput: Throughput::default(),
                latencies: Latencies::default(),
                outstanding: 0,
                arrives_at: spec.arrives.map_or(Instant::NEVER, |_| sim.now),
                late: VecDeque::new(),
                thinks: VecDeque::new(),
            }
        };
        let clients = config.clients.iter().enumerate().map(client).collect();
        Running {
            config,
            sim,
            clients,
            in_flight: slab::Slab::new(),
            payloads: 0,
            counts_from: Instant::NEVER,
            latencies: Default::default(),
            before: Written::default(),
            watch: Watch::default(),
        }
    }

    fn ask(&mut self, whose: usize, range: (u64, u64), arrived: Instant) {
        let spec = &self.config.clients[whose];
        let op = if spec.kind.read { Op::Read } else { Op::Write };
        let key = self.in_flight.insert((whose, arrived));
        let id = RequestId(key as u64);
        let mut request = Request::new(id, VOLUME, op, range, arrived);
        request.fua = spec.fua;
        request.stream = StreamId(u32::try_from(whose + 1).unwrap_or(0));
        if op == Op::Write {
            self.payloads += 1;
            request.payload = PayloadId(self.payloads);
        }
        self.clients[whose].outstanding += 1;
        self.sim.request(&request);
    }

    fn send(&mut self, whose: usize, arrived: Instant) {
        let spec = &self.config.clients[whose];
        let client = &mut self.clients[whose];
        let range = if let Some(recorded) = &spec.recorded {
            let (offset, length) = recorded.list[client.next as usize % recorded.list.len()];
            client.next += 1;
            let room = client.range_bytes.saturating_sub(length) / SECTOR_BYTES;
            (spec.from_bytes + offset / SECTOR_BYTES % (room + 1) * SECTOR_BYTES, length)
        } else {
            let slot = if spec.kind.sequential {
                client.next += 1;
                (client.next - 1) % client.slots
            } else {
                client.rng.below(client.slots)
            };
            let first = spec.from_bytes / spec.size_bytes * spec.size_bytes;
            (first + slot * spec.size_bytes, spec.size_bytes)
        };
        self.ask(whose, range, arrived);
    }

    pub(super) fn measure(&mut self) {
        self.counts_from = self.sim.now + self.config.warm_up;
        for whose in 0..self.clients.len() {
            let spec = &self.config.clients[whose];
            let outstanding = if spec.arrives.is_some() { 0 } else { spec.outstanding };
            let now = self.sim.now;
            (0..outstanding).for_each(|_| self.send(whose, now));
        }
        self.go(self.counts_from);
        self.before = self.written();
        if let Some(view) = self.sim.engine.pairs().first() {
            self.watch.begin(*view);
            let bins = self.config.duration.ns / BIN_NS;
            for bin in 1..=bins {
                self.go(self.counts_from + Duration::from_ns(bin * BIN_NS));
                let view = self.sim.engine.pairs()[0];
                let risk_bytes = self.sim.engine.pairs_risk_bytes()[0];
                self.watch.look(&view, risk_bytes, bin * BIN_NS);
            }
        }
        self.go(self.counts_from + self.config.duration);
    }

    /// Everything that happens before `until`.
    fn go(&mut self, until: Instant) {
        let mut ended = Vec::new();
        loop {
            let (due, arrival) = (self.sim.next_at(), self.arrival());
            if arrival.is_some_and(|(at, _)| at < until && at < due) {
                let (at, whose) = arrival.expect("just seen");
                self.sim.now = self.sim.now.max(at);
                self.arrive(whose, at);
            } else if due >= until || !self.sim.step() {
                break;
            }
            let (now, in_flight) = (self.sim.now, &mut self.in_flight);
            self.sim.drain_done(|done| ended.push(in_flight.remove(done.request.0 as usize)));
            for (whose, sent) in std::mem::take(&mut ended) {
                self.ended(whose, sent, now);
            }
        }
        self.sim.now = self.sim.now.max(until);
    }

    /// Who asks next by the clock, or has thought, and when.
    fn arrival(&self) -> Option<(Instant, usize)> {
        let next = |client: &Client| {
            let thought = client.thinks.front().copied().unwrap_or(Instant::NEVER);
            client.arrives_at.min(thought)
        };
        let clients = self.clients.iter().enumerate().map(|(whose, client)| (next(client), whose));
        clients.filter(|(at, _)| *at != Instant::NEVER).min()
    }

    fn arrive(&mut self, whose: usize, at: Instant) {
        let Some(arrives) = self.config.clients[whose].arrives else {
            self.clients[whose].thinks.pop_front();
            self.send(whose, at);
            return;
        };
        self.clients[whose].arrives_at = at + arrives.every;
        for _ in 0..arrives.burst {
            let client = &mut self.clients[whose];
            if client.outstanding < OUTSTANDING_MAX && client.late.is_empty() {
                self.send(whose, at);
            } else {
                client.late.push_back(at);
            }
        }
    }

    fn ended(&mut self, whose: usize, sent: Instant, now: Instant) {
        let spec = &self.config.clients[whose];
        let client = &mut self.clients[whose];
        client.outstanding -= 1;
        if now >= self.counts_from {
            let age = now.since(sent).ns;
            client.throughput.count(now.since(self.counts_from).ns);
            client.latencies.record(age);
            self.latencies[usize::from(!spec.kind.read)].record(age);
        }
        if spec.arrives.is_none() && spec.think.ns > 0 {
            client.thinks.push_back(now + spec.think);
        } else if spec.arrives.is_none() {
            self.send(whose, now);
        } else if let Some(arrived) = client.late.pop_front() {
            self.send(whose, arrived);
        }
    }

    /// Bytes written so far.
    fn written(&self) -> Written {
        let engine = &self.sim.engine;
        let mut written = Written::default();
        for (device, stats) in engine.devices().iter().zip(&engine.stats().devices) {
            if device.config.role == Role::Hdd {
                written.hdd_bytes += stats.written_bytes();
                written.redirected_bytes += stats.user_bytes;
                written.padding_bytes += stats.padding_bytes;
            } else if !device.is_pair {
                written.ssd_bytes += stats.written_bytes();
            }
        }
        for pair in engine.pairs() {
            written.ssd_bytes += pair.stats.written_bytes.iter().sum::<u64>();
        }
        written
    }

    fn collections(&mut self) -> Vec<(u64, u64)> {
        let from = self.counts_from;
        let second = DeviceId(1 + self.config.hdds.len() as u8);
        let ids = std::iter::once(DeviceId(0)).chain(self.config.pair.map(|_| second));
        let mut collections = Vec::new();
        for id in ids {
            let events = self.sim.drive_mut(id).take_events().into_iter();
            let collected = events.filter(|event| {
                event.kind == DriveEventKind::GarbageCollection && event.start >= from
            });
            collections.extend(
                collected.map(|event| (event.start.since(from).ns, event.end.since(from).ns)),
            );
        }
        collections.sort_unstable();
        collections
    }

    pub(super) fn result(
        mut self,
        promises: &[Option<Promise>],
        costs: &CostTable,
        k: u64,
    ) -> SharingResult {
        let digest = self.sim.engine.digest();
        let bins = (self.config.duration.ns / BIN_NS) as usize;
        let collections = self.collections();
        let streams = self.sim.engine.devices()[0].streams.as_ref();
        let envelope = streams.map_or((0, 0), |lanes| (lanes.envelope().0, lanes.envelope().1));
        let (now, before) = (self.written(), self.before);
        let written = Written {
            ssd_bytes: now.ssd_bytes - before.ssd_bytes,
            hdd_bytes: now.hdd_bytes - before.hdd_bytes,
            redirected_bytes: now.redirected_bytes - before.redirected_bytes,
            padding_bytes: now.padding_bytes - before.padding_bytes,
        };
        let pair = self.config.pair.zip(self.sim.engine.pairs().first().copied());
        let pair = pair.and_then(|(config, view)| self.watch.result(&config, view, k));
        let counted: Vec<(u64, u64)> = self
            .sim
            .engine
            .clients(self.sim.now)
            .into_iter()
            .flatten()
            .map(|client| (client.delivery.windows, client.delivery.met))
            .collect();
        let clients = self.clients.into_iter().enumerate().map(|(index, mut client)| {
            client.throughput.bins.resize(bins, 0);
            let spec = &self.config.clients[index];
            ClientResult {
                name: spec.name.clone(),
                kind: spec.kind,
                target: promises[index].map(|promise| promise.rate),
                asked_ppb: promises[index].and_then(|promise| {
                    let curve = costs.curve(promise.window, promise.confidence_ppm, DEPTH).ok()?;
                    promise.share_ppb(promise.cost_ns(&curve))
                }),
                throughput: client.throughput,
                latencies: client.latencies,
                windows: counted.get(index).copied().unwrap_or_default(),
            }
        });
        SharingResult {
            digest,
            clients: clients.collect(),
            latencies: self.latencies,
            pair,
            written,
            collections,
            envelope,
        }
    }
}
