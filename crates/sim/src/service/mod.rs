//! Does a pool with several volumes, snapshots, files, limits and faults keep its promise in service?
//!
//! A run sends requests to all objects at once, while an administrator makes and removes snapshots and
//! files and gives volumes other tiers. Drives fail as the plan says. Lives end in power cuts, deaths of
//! the process and clean stops. Then every block of every object is read.
//!
//! ```text
//! every read       is one of the states that the promise allows; what it holds names request and volume
//! every error      is excused by a fault of what it is about (`budget`), or the run fails
//! every request    is answered within a time after it was made and after the last fault
//! every few events the engine agrees with itself and with the drives (`audit`)
//! ```

mod asking;
pub mod budget;
mod ends;
pub mod every;
mod known;
pub mod plan;

pub use plan::{Area, End, FaultPlan, Plan};

use crate::check::Violation;
use crate::coverage::{Coverage, Met};
use crate::failure::Failure;
use crate::objects::is_full;
use crate::simulation::{Hit, Image, Simulation};
use asking::What;
use known::{Known, Step};
use std::collections::BTreeMap;
use tandem_block::{
    DeviceId, DurabilityClass, Instant, IoError, ObjectId, Op, Request, RequestId, Rng,
};
use tandem_engine::mutant::Mutant;
use tandem_engine::{Done, Engine};

/// Events at one instant that are still believed to lead somewhere.
const STILL_EVENTS_MAX: u64 = 20_000;
/// How often it is looked for requests that are not answered, in events.
const LOOK_EVERY: u64 = 64;
/// Faults that are told of: the first one, and the last ones.
const HITS_TOLD_MAX: usize = 8;

/// A request, or a batch, that is not answered.
#[derive(Clone, Debug)]
struct Asked {
    request: Request,
    made: Instant,
    /// When the first of the writes was made that it may wait for, or itself.
    behind: Instant,
    what: What,
    /// Where its blocks lay when it was made, if drives may fail.
    places: Vec<budget::Places>,
}

/// A pool in service.
#[derive(Clone)]
pub struct Service {
    plan: Plan,
    /// Engine and drives.
    pub sim: Simulation,
    /// What was met.
    pub met: Coverage,
    rng: Rng,
    objects: BTreeMap<ObjectId, Known>,
    open: BTreeMap<RequestId, Asked>,
    sent: u64,
    /// Requests of this life and those before it, until the next end.
    send_until: u64,
    next_at: Instant,
    admin_at: Instant,
    next_object: u64,
    /// Which object a number in a block belongs to, and the first block of its request.
    written: BTreeMap<u64, (ObjectId, u64)>,
    images: Vec<(u64, DeviceId, Image)>,
    /// The latest answer.
    last: Option<(RequestId, Result<(), IoError>)>,
    /// Events so far.
    pub events: u64,
    still: (Instant, u64),
}

impl Service {
    /// A freshly formatted pool.
    ///
    /// # Errors
    /// If it cannot be formatted.
    pub fn new(plan: Plan) -> Result<Service, Failure> {
        let engine = Engine::new(plan.pool.engine(true)).expect("plans are valid");
        let mut sim = Simulation::new(engine, plan.drives(), true);
        let seed = plan.pool.seed;
        sim.start().map_err(|error| Failure::Refused { seed, point: 0, error })?;
        let mut objects = BTreeMap::new();
        for volume in plan.pool.volumes() {
            let mut known = Known::volume(volume.object, volume.size_bytes, volume.durability);
            if plan.has_faults() {
                known.oracle.expect_failures();
            }
            objects.insert(volume.object, known);
        }
        Ok(Service {
            rng: Rng::new(seed ^ 0x5E_2C1C),
            send_until: plan.pool.shape.requests,
            next_at: sim.now,
            admin_at: sim.now,
            plan,
            sim,
            met: Coverage::default(),
            objects,
            open: BTreeMap::new(),
            sent: 0,
            next_object: 100,
            written: BTreeMap::new(),
            images: Vec::new(),
            last: None,
            events: 0,
            still: (Instant::ZERO, 0),
        })
    }

    /// The engine breaks this rule, in builds that can.
    pub fn break_rule(&mut self, mutant: Option<Mutant>) {
        #[cfg(feature = "mutants")]
        self.sim.engine.set_mutant(mutant);
        let _ = mutant;
    }

    /// The whole run.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(mut self) -> Result<Coverage, Failure> {
        let ends = std::mem::take(&mut self.plan.ends);
        let images: Vec<(u64, DeviceId)> = ends.iter().filter_map(|(_, end)| end.image()).collect();
        for (at, end) in ends {
            if !self.serve_until(at, &images)? {
                break;
            }
            if !self.end_life(end)? {
                return Ok(self.met);
            }
        }
        self.serve_until(u64::MAX, &images)?;
        self.prove_flow()?;
        self.read_all()?;
        if self.end_life(End::Stop)? {
            self.prove_flow()?;
        }
        self.met.worked(&self.sim.engine);
        self.met.add(Met::Faults, self.sim.hits().len() as u64);
        Ok(self.met)
    }

    /// Serves until so many events have passed. False: all requests were sent and answered before.
    fn serve_until(&mut self, at: u64, images: &[(u64, DeviceId)]) -> Result<bool, Failure> {
        while self.events < at {
            let more = self.step()?;
            for &(_, device) in images.iter().filter(|(event, _)| *event == self.events) {
                self.images.push((self.events, device, self.sim.image(device)));
            }
            if self.plan.stride > 0 && self.events.is_multiple_of(self.plan.stride) {
                self.crash_in_a_fork()?;
            }
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One event: a request sent, or a thing that was due. False when all is done.
    ///
    /// # Errors
    /// If an answer breaks the promise, or nothing moves any more.
    pub fn step(&mut self) -> Result<bool, Failure> {
        let wants = self.sent < self.send_until && self.open.len() < self.plan.pool.shape.depth;
        let due = self.sim.next_at();
        if wants && self.next_at <= due {
            self.sim.run_until(self.next_at.max(self.sim.now));
            self.send();
        } else if !self.sim.step() {
            if self.open.is_empty() {
                return Ok(false);
            }
            return Err(self.hang());
        }
        self.events += 1;
        self.collect()?;
        self.administer();
        self.collect()?;
        self.looks_alive(due)?;
        let goes_on = self.sent < self.send_until || !self.open.is_empty();
        let every = self.plan.pool.audits.every;
        if every > 0 && (self.events.is_multiple_of(every) || !goes_on) {
            self.audit()?;
        }
        Ok(goes_on)
    }

    fn audit(&self) -> Result<(), Failure> {
        let told = self.sim.audit(&self.plan.pool.audits);
        if told.is_empty() {
            return Ok(());
        }
        Err(Failure::Audit { seed: self.plan.pool.seed, event: self.events, told })
    }

    /// Is each request answered in time, and does time pass?
    fn looks_alive(&mut self, due: Instant) -> Result<(), Failure> {
        self.still = if due == self.still.0 { (due, self.still.1 + 1) } else { (due, 0) };
        if self.still.1 >= STILL_EVENTS_MAX {
            return Err(self.hang());
        }
        if !self.events.is_multiple_of(LOOK_EVERY) {
            return Ok(());
        }
        let healed = self.sim.hits().last().map_or(Instant::ZERO, |hit| hit.at);
        let (now, patience) = (self.sim.now, self.plan.patience);
        let is_late = |asked: &Asked| now > asked.made.max(healed) + patience;
        if self.open.values().any(is_late) {
            return Err(self.hang());
        }
        Ok(())
    }

    fn hang(&self) -> Failure {
        let (waiting, now) = (self.open.len(), self.sim.now);
        let state = format!("{}\n{}", self.summary(), self.sim.waiting_state());
        Failure::Hang { seed: self.plan.pool.seed, waiting, now, state }
    }

    /// Which pool it is, and what has gone wrong with it, in words.
    fn summary(&self) -> String {
        let pool = &self.plan.pool;
        let ((ssds, hdds), class) = (pool.drives, pool.durability);
        let out = self.sim.engine.devices().iter().filter(|d| !d.takes_new());
        let out: Vec<u8> = out.map(|d| d.id.0).collect();
        let hits = self.sim.hits();
        let is_told =
            |&(index, _): &(usize, &Hit)| index == 0 || index + HITS_TOLD_MAX > hits.len();
        let hits: Vec<String> = hits
            .iter()
            .enumerate()
            .filter(is_told)
            .map(|(_, hit)| hit)
            .map(|hit| {
                let ((first, end), at) = (hit.range, hit.at.ns / 1_000);
                format!("{:?} of device {} at {first}..{end}, {at} us", hit.what, hit.device.0)
            })
            .collect();
        format!(
            "{ssds} SSDs, {hdds} hard drives, {class:?}; out of service {out:?}; faults {hits:?}; now {} us",
            self.sim.now.ns / 1_000
        )
    }

    fn broken(&self, object: ObjectId, violation: Violation) -> Failure {
        let told = [self.tell(&violation), self.summary()].join("; ");
        let violation = Violation::OfObject { object, violation: Box::new(violation), told };
        Failure::Broken { seed: self.plan.pool.seed, point: self.events, violation }
    }

    /// Whose the contents are that were found, in words.
    fn tell(&self, violation: &Violation) -> String {
        let found: &[u64] = match violation {
            Violation::StaleRead { found, .. } => found,
            Violation::Lost { found, .. } => found,
            _ => return String::new(),
        };
        let mut told: Vec<String> = Vec::new();
        for token in found.iter().filter(|token| **token != 0) {
            let number = (token >> 16).wrapping_sub(1);
            let text = match self.written.get(&number) {
                Some((object, block)) => {
                    format!("request {number} wrote to object {} from block {block} on", object.0)
                }
                None => format!("{token:x} was never written"),
            };
            if told.last() != Some(&text) {
                told.push(text);
            }
        }
        told.join(", ")
    }

    /// Takes the answers.
    fn collect(&mut self) -> Result<(), Failure> {
        for (done, tokens) in self.sim.take_said().done {
            let asked = self.open.remove(&done.request).expect("answers are to requests");
            self.answered(&asked, &done, &tokens)?;
            self.last = Some((done.request, done.status));
        }
        Ok(())
    }

    fn answered(&mut self, asked: &Asked, done: &Done, tokens: &[u64]) -> Result<(), Failure> {
        let object = asked.request.object;
        if let Err(error) = done.status {
            self.check_error(asked, error)?;
        }
        match &asked.what {
            What::Io | What::Flush(_) => {
                let Some(known) = self.objects.get_mut(&object) else { return Ok(()) };
                known
                    .oracle
                    .done(&asked.request, done.status, tokens, true)
                    .map_err(|violation| self.broken(object, violation))?;
            }
            What::Change { .. } => self.changed(asked, done.status),
        }
        if let (What::Flush(objects), Ok(())) = (&asked.what, done.status) {
            self.flushed(objects);
        }
        Ok(())
    }

    /// An error must be excused by what went wrong.
    fn check_error(&mut self, asked: &Asked, error: IoError) -> Result<(), Failure> {
        let request = &asked.request;
        if is_full(request, Err(error), &self.sim.engine) {
            self.met.add(Met::WithoutSpace, 1);
            return Ok(());
        }
        if let (What::Change { .. }, IoError::Busy | IoError::TooLarge) = (&asked.what, error) {
            return Ok(());
        }
        let range = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        let mut places = asked.places.clone();
        if request.op != Op::Flush {
            places.extend(budget::places(&self.sim, request.object, range));
        }
        let durability = self.objects.get(&request.object).map(|known| known.durability);
        let is_durable =
            request.fua || durability.is_some_and(|d| d != DurabilityClass::VolatileOk);
        let failed = budget::Failed {
            request,
            made: asked.made,
            behind: asked.behind,
            is_durable,
            places: &places,
            reads_all: self.plan.pool.audits.reads,
            may_share: self.plan.snapshots_max > 0,
        };
        if budget::excuses(&self.sim, &failed, error) {
            self.met.add(Met::Excused, 1);
            return Ok(());
        }
        let violation = Violation::Unexplained { request: request.id, error };
        let (op, made) = (request.op, asked.made.ns / 1_000);
        let told = format!("{op:?} made at {made} us; {}", self.summary());
        let (object, violation) = (request.object, Box::new(violation));
        let violation = Violation::OfObject { object, violation, told };
        Err(Failure::Broken { seed: self.plan.pool.seed, point: self.events, violation })
    }

    /// A FLUSH was answered: the last batches of these objects are durable.
    fn flushed(&mut self, steps: &[(ObjectId, bool)]) {
        for &(object, removes) in steps {
            if removes {
                self.objects.remove(&object);
            } else if let Some(known) = self.objects.get_mut(&object) {
                known.made = Step::Durable;
            }
        }
    }
}
