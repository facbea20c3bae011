//! Can it lose data?
//!
//! A random configuration and workload from one seed, the power cut at chosen events, recovery
//! under the same oracle. Small workloads are enumerated (a fork and a cut at every event, also
//! during recovery), large ones sampled.

use crate::check::{Oracle, Violation, token};
use crate::evacuation::Evacuation;
use crate::explain;
pub use crate::failure::Failure;
use crate::objects::{self, Ask, Files, in_blocks, is_full};
pub use crate::pool::{SwarmConfig, VOLUME};
use crate::simulation::Simulation;
use crate::succession::Succession;
use crate::workload::Mix;
use std::collections::BTreeMap;
use tandem_block::{
    BLOCK_BYTES, DurabilityClass, Duration, Instant, IoError, Op, Request, RequestId, Rng,
    SECTOR_BYTES, SECTORS_PER_BLOCK, StreamId,
};
use tandem_drives::media::CutMode;
use tandem_engine::Engine;

/// Blocks that are read at once after a crash.
const CHECK_BLOCKS_MAX: u64 = 64;

/// Requests that are for other objects than the volume, where there are some, in ppm.
const OBJECTS_PPM: u64 = 800_000;

/// Events at one instant that are still believed to lead somewhere.
const STILL_EVENTS_MAX: u64 = 20_000;
/// Events in a row after which nobody was answered, while somebody waits. No test has 2,000 (measured).
const VAIN_EVENTS_MAX: u64 = 100_000;

/// A workload under way over a simulation, with its oracle. Cloning it forks everything.
#[derive(Clone)]
pub struct Run {
    pub(crate) config: SwarmConfig,
    /// The simulation.
    pub sim: Simulation,
    oracle: Oracle,
    /// Objects beside the volume, if there are any.
    files: Option<Box<Files>>,
    rng: Rng,
    pub(crate) open: BTreeMap<RequestId, Request>,
    sent: u64,
    next_at: Instant,
    may_fail: bool,
    pub(crate) succession: Succession,
    pub(crate) evacuation: Evacuation,
    /// The last request that failed, where some may.
    failed: Option<(RequestId, IoError)>,
    /// Events so far.
    pub events: u64,
    /// The time of the last event, and how many came since without any time passing.
    still: (Instant, u64),
    /// Requests that were sent and that wait, and how many events ago that changed.
    vain: ((u64, usize), u64),
}

impl Run {
    /// A freshly formatted pool.
    ///
    /// # Errors
    /// If it cannot be formatted.
    pub fn new(config: SwarmConfig) -> Result<Run, Failure> {
        let engine = Engine::new(config.engine(true)).expect("swarm configurations are valid");
        let sim = Simulation::new(engine, config.drives(), true);
        Run::over(config, sim)
    }

    /// A run over a simulation that has not been started.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn over(config: SwarmConfig, mut sim: Simulation) -> Result<Run, Failure> {
        let seed = config.seed;
        sim.start().map_err(|error| Failure::Refused { seed, point: 0, error })?;
        Ok(Run {
            rng: Rng::new(seed),
            files: Files::of(&sim.engine, &config),
            config,
            next_at: sim.now,
            sim,
            oracle: Oracle::default(),
            open: BTreeMap::new(),
            sent: 0,
            may_fail: false,
            succession: Succession::default(),
            evacuation: Evacuation::default(),
            failed: None,
            events: 0,
            still: (Instant::ZERO, 0),
            vain: ((0, 0), 0),
        })
    }

    /// Requests may fail from now on: a drive has been damaged on purpose.
    pub fn allow_failures(&mut self) {
        self.may_fail = true;
    }

    /// Nothing may fail any more: what was wrong with the drives is over, and damaged nothing.
    pub fn forbid_failures(&mut self) {
        self.may_fail = false;
    }

    /// One event: a request sent or a thing that was due. False when all is done.
    ///
    /// # Errors
    /// If an answer breaks the promise, or nothing moves any more.
    pub fn step(&mut self) -> Result<bool, Failure> {
        let shape = self.config.shape;
        let wants = self.sent < shape.requests && self.open.len() < shape.depth;
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
        self.administer()?;
        self.stands_still(due)?;
        self.collect().map_err(|violation| self.broken(0, violation))?;
        self.works_in_vain()?;
        let goes_on = self.sent < shape.requests || !self.open.is_empty() || self.is_replacing();
        let every = self.config.audits.every;
        if every > 0 && (self.events.is_multiple_of(every) || !goes_on) {
            self.audit()?;
        }
        Ok(goes_on)
    }

    /// Many events without any time passing: the engine asks to be woken for nothing.
    fn stands_still(&mut self, due: Instant) -> Result<(), Failure> {
        self.still = if due == self.still.0 { (due, self.still.1 + 1) } else { (due, 0) };
        if self.still.1 < STILL_EVENTS_MAX {
            return Ok(());
        }
        Err(self.hang())
    }

    /// The engine is busy for ever, and answers nobody.
    fn works_in_vain(&mut self) -> Result<(), Failure> {
        let requests = (self.sent, self.open.len());
        let goes_on = requests != self.vain.0 || self.open.is_empty();
        self.vain = (requests, if goes_on { 0 } else { self.vain.1 + 1 });
        if self.vain.1 < VAIN_EVENTS_MAX { Ok(()) } else { Err(self.hang()) }
    }

    fn hang(&self) -> Failure {
        let (waiting, now) = (self.open.len(), self.sim.now);
        let state = self.sim.waiting_state();
        Failure::Hang { seed: self.config.seed, waiting, now, state }
    }

    /// Does the engine contradict itself, or the drives?
    pub(crate) fn audit(&self) -> Result<(), Failure> {
        let told = self.sim.audit(&self.config.audits);
        if told.is_empty() {
            return Ok(());
        }
        Err(Failure::Audit { seed: self.config.seed, event: self.events, told })
    }

    fn broken(&self, point: u64, violation: Violation) -> Failure {
        Failure::Broken { seed: self.config.seed, point, violation }
    }

    fn send(&mut self) {
        if self.config.objects && self.rng.chance_ppm(OBJECTS_PPM) {
            self.send_to_objects();
            return;
        }
        let step = self.config.shape.draw(&mut self.rng);
        self.next_at = self.sim.now + step.pause;
        let id = RequestId(self.sent);
        self.sent += 1;
        if self.config.is_without(id) {
            return;
        }
        let range = (step.offset_bytes, step.length_bytes);
        let mut request = Request::new(id, VOLUME, step.op, range, self.sim.now);
        request.fua = step.fua;
        request.stream = StreamId(id.0 as u32 % 4);
        if step.op == Op::Write {
            let tokens = (0..step.length_bytes / SECTOR_BYTES).map(|i| token(id.0, i));
            request.payload = self.sim.payload(tokens);
        }
        self.oracle.issued(&request);
        if let (Op::Flush, Some(files)) = (request.op, &mut self.files) {
            files.issued(&request);
        }
        self.sim.request(&request);
        // what the volume promises, the oracle takes at its word
        request.fua |= step.op.is_write() && self.config.durability == DurabilityClass::Strict;
        self.open.insert(id, request);
    }

    fn send_to_objects(&mut self) {
        let files = self.files.as_mut().expect("asked by the caller");
        let id = RequestId(self.sent);
        self.sent += 1;
        let pause = Duration::from_ns(self.rng.below(self.config.shape.pause.ns + 1));
        self.next_at = self.sim.now + pause;
        let ask = files.draw(id, &self.sim, &mut self.rng);
        if self.config.is_without(id) {
            return;
        }
        match ask {
            Ask::Batch(batch) => {
                files.batch_issued(&batch, &self.oracle);
                self.sim.batch(&batch);
                let stands_for = Request::new(id, VOLUME, Op::Flush, (0, 0), self.sim.now);
                self.open.insert(id, stands_for);
            }
            Ask::Request(mut request) => {
                if request.op == Op::Write {
                    request.payload = self.sim.payload(objects::tokens(&request));
                }
                files.issued(&request);
                if request.op == Op::Flush {
                    self.oracle.issued(&request);
                }
                self.sim.request(&request);
                request.fua |=
                    request.op.is_write() && self.config.durability == DurabilityClass::Strict;
                self.open.insert(id, request);
            }
        }
    }

    fn collect(&mut self) -> Result<(), Violation> {
        for (done, tokens) in self.sim.take_said().done {
            let request = self.open.remove(&done.request).expect("answers are to requests");
            if let Err(error) = done.status {
                self.failed = Some((request.id, error));
            }
            if let Some(files) = &mut self.files {
                let engine = &self.sim.engine;
                if files.is_batch(request.id) {
                    files.batch_done(done.status, engine, &mut self.oracle)?;
                    continue;
                }
                if request.object != VOLUME || request.op == Op::Flush {
                    files.done(&request, done.status, &tokens, engine)?;
                }
                if request.object != VOLUME {
                    continue;
                }
            }
            if let (true, Err(error)) = (self.may_fail, done.status)
                && !explain::has_cause(&self.sim, error)
            {
                return Err(Violation::Unexplained { request: request.id, error });
            }
            let full = self.config.clones && is_full(&request, done.status, &self.sim.engine);
            self.oracle.done(&request, done.status, &tokens, self.may_fail || full)?;
        }
        Ok(())
    }

    /// Cuts the power now, recovers and checks every block touched. With `during_recovery` the
    /// power is cut again after so many events of the recovery.
    ///
    /// # Errors
    /// If the promise is broken.
    pub fn crash(&mut self, mode: CutMode, during_recovery: Option<u64>) -> Result<u64, Failure> {
        if let Some(events) = during_recovery {
            self.begin_recovery(mode, events);
        }
        let mode = self.survivable(mode);
        let mut rng = self.crash_rng();
        let engine = self.next_engine();
        self.sim.power_cut(engine, mode, &mut rng);
        self.recover()
    }

    /// Drives whose caches are protected keep all that they acknowledged.
    fn survivable(&self, mode: CutMode) -> CutMode {
        let is_protected = self.config.durability == DurabilityClass::Protected;
        if is_protected { CutMode::KeepAll } else { mode }
    }

    /// Cuts the power now and stands still after so many events of the recovery.
    pub fn begin_recovery(&mut self, mode: CutMode, events: u64) {
        let mode = self.survivable(mode);
        let mut rng = self.crash_rng();
        let engine = self.next_engine();
        self.sim.power_cut(engine, mode, &mut rng);
        self.sim.begin_start();
        for _ in 0..events {
            if !self.sim.step() {
                break;
            }
        }
    }

    /// The process dies now and another begins: drives keep their buffers. With `then_cut` the
    /// power fails as soon as the new one serves.
    ///
    /// # Errors
    /// If the promise is broken.
    pub fn kill(&mut self, then_cut: Option<CutMode>) -> Result<u64, Failure> {
        let mut rng = self.crash_rng();
        let engine = self.next_engine();
        self.sim.kill(engine, &mut rng);
        let steps = self.recover()?;
        let Some(mode) = then_cut.map(|mode| self.survivable(mode)) else { return Ok(steps) };
        let engine = self.next_engine();
        self.sim.power_cut(engine, mode, &mut rng);
        self.recover()
    }

    fn crash_rng(&mut self) -> Rng {
        self.open.clear();
        self.oracle.crashed();
        if let Some(files) = &mut self.files {
            files.crashed();
        }
        Rng::new(self.config.seed ^ self.events.wrapping_mul(0x9E37) ^ self.sim.now.ns << 24)
    }

    /// Starts the engine over what the drives hold and checks every block touched.
    ///
    /// # Errors
    /// If the promise is broken.
    pub fn recover(&mut self) -> Result<u64, Failure> {
        let (seed, point) = (self.config.seed, self.events);
        let began = self.sim.now;
        let steps = match self.sim.start_counting() {
            Ok(steps) => steps,
            Err(error)
                if self.may_fail && !explain::has_cause_to_refuse(&self.sim, &error, began) =>
            {
                return Err(self.broken(point, Violation::RefusedUnexplained { error }));
            }
            Err(error) => return Err(Failure::Refused { seed, point, error }),
        };
        self.check_objects().map_err(|violation| self.broken(point, violation))?;
        for (first, count) in self.touched_runs() {
            self.check_run(first, count).map_err(|violation| self.broken(point, violation))?;
        }
        if self.config.audits.every > 0 {
            self.audit()?;
        }
        Ok(steps)
    }

    /// Objects beside the volume, and all that they hold.
    fn check_objects(&mut self) -> Result<(), Violation> {
        let Some(mut files) = self.files.take() else { return Ok(()) };
        let batches = files.found(&self.sim.engine, &mut self.oracle)?;
        files.check_contents(&mut self.sim, batches)?;
        self.files = Some(files);
        Ok(())
    }

    /// Everything ever touched, in runs of blocks that lie side by side.
    fn touched_runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for block in self.oracle.touched() {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == block && *count < CHECK_BLOCKS_MAX => {
                    *count += 1;
                }
                _ => runs.push((block, 1)),
            }
        }
        runs
    }

    /// Reads blocks after a crash and asks the oracle. Where a run cannot be read, each of its
    /// blocks is.
    fn check_run(&mut self, first: u64, count: u64) -> Result<(), Violation> {
        let Some(tokens) = self.read_blocks(first, count)? else {
            if count == 1 {
                self.oracle.unreadable_after_crash(first);
                return Ok(());
            }
            return (first..first + count).try_for_each(|block| self.check_run(block, 1));
        };
        for (block, found) in (first..first + count).zip(in_blocks(&tokens, count)) {
            let found = found.try_into().expect("a block has eight sectors");
            self.oracle.found_after_crash(block, found)?;
        }
        Ok(())
    }

    /// A leg of the pair dies now; later lives do without it.
    ///
    /// # Panics
    /// If there is no pair.
    pub fn lose_leg(&mut self, leg: u8) {
        let device = self.sim.engine.pairs()[0].legs[usize::from(leg)];
        self.sim.kill_drive(device);
        let pair = self.config.pair.as_mut().expect("asked of pairs");
        (pair.absent, pair.replaced) = (Some(leg), None);
    }

    /// The journal of the pair dies now; later lives do without it.
    ///
    /// # Panics
    /// If there is none.
    pub fn lose_journal(&mut self) {
        let view = self.sim.engine.pairs()[0].journal.expect("asked of journals");
        self.sim.kill_drive(view.device);
        let pair = self.config.pair.as_mut().expect("asked of pairs");
        let journal = pair.journal.as_mut().expect("asked of journals");
        (journal.absent, journal.replaced) = (true, false);
    }

    /// From its next life on the pair has an empty drive in the place of this leg.
    ///
    /// # Panics
    /// If there is no pair.
    pub fn replace_leg(&mut self, leg: u8) {
        let device = self.sim.engine.pairs()[0].legs[usize::from(leg)];
        let drive = self.config.drives().swap_remove(usize::from(device.0));
        self.sim.replace_drive(device, drive);
        let pair = self.config.pair.as_mut().expect("asked of pairs");
        (pair.absent, pair.replaced) = (None, Some(leg));
    }

    /// The power fails, and a leg that had died is back with what it held: recovers and checks every
    /// block touched.
    ///
    /// # Errors
    /// If the promise is broken.
    ///
    /// # Panics
    /// If there is no pair.
    pub fn crash_and_return(&mut self, leg: u8, mode: CutMode) -> Result<u64, Failure> {
        let device = self.sim.engine.pairs()[0].legs[usize::from(leg)];
        self.config.pair.as_mut().expect("asked of pairs").absent = None;
        let (mode, mut rng) = (self.survivable(mode), self.crash_rng());
        let engine = self.next_engine();
        self.sim.power_cut(engine, mode, &mut rng);
        let drive = self.config.drives().swap_remove(usize::from(device.0));
        self.sim.revive_drive(device, drive);
        self.recover()
    }

    /// The drive that was put in the place of a leg is its heir: lives after the one that took it in.
    ///
    /// # Panics
    /// If there is no pair.
    pub fn leg_is_known(&mut self) {
        self.config.pair.as_mut().expect("asked of pairs").replaced = None;
    }

    /// How it was made.
    pub fn config(&self) -> &SwarmConfig {
        &self.config
    }

    /// Flushes the volume, beside the workload.
    ///
    /// # Errors
    /// If that breaks the promise.
    pub fn flush_all(&mut self) -> Result<(), Failure> {
        let id = RequestId(1 << 41 | self.events);
        let request = Request::new(id, VOLUME, Op::Flush, (0, 0), self.sim.now);
        self.ask(request)
    }

    /// Writes a block, beside the workload, and reads it at once: neither may fail, whatever else may.
    ///
    /// # Errors
    /// If either does, or the promise is broken.
    pub fn write_and_read(&mut self, block: u64) -> Result<(), Failure> {
        for (op, number) in [(Op::Write, 1 << 42), (Op::Read, 1 << 43)] {
            let id = RequestId(number | self.events);
            let range = (block * BLOCK_BYTES, BLOCK_BYTES);
            let mut request = Request::new(id, VOLUME, op, range, self.sim.now);
            if op == Op::Write {
                let tokens = (0..SECTORS_PER_BLOCK).map(|i| token(id.0, i));
                request.payload = self.sim.payload(tokens);
            }
            self.ask(request)?;
            if let Some((request, error)) = self.failed.filter(|(failed, _)| *failed == id) {
                return Err(self.broken(0, Violation::Failed { request, error }));
            }
        }
        Ok(())
    }

    /// Sends a request beside the workload and waits for its answer.
    fn ask(&mut self, request: Request) -> Result<(), Failure> {
        self.oracle.issued(&request);
        if let (Op::Flush, Some(files)) = (request.op, &mut self.files) {
            files.issued(&request);
        }
        self.open.insert(request.id, request);
        self.sim.request(&request);
        // it may be answered at once
        self.collect().map_err(|violation| self.broken(0, violation))?;
        while self.open.contains_key(&request.id) {
            if !self.sim.step() {
                return Err(self.hang());
            }
            self.collect().map_err(|violation| self.broken(0, violation))?;
        }
        Ok(())
    }

    /// Goes on for so long. What is answered now is then expected to be durable, without a flush.
    ///
    /// # Errors
    /// If an answer breaks the promise.
    pub fn go_on_and_expect_durable(&mut self, time: Duration) -> Result<(), Failure> {
        let (answered, end) = (self.oracle.answered(), self.sim.now + time);
        while self.sim.now < end && self.step()? {}
        self.oracle.expect_durable(&answered);
        Ok(())
    }

    /// The pool was cut and then damaged: starts over it, and checks.
    ///
    /// # Errors
    /// If it is refused, or a block that is answered is not what it must be.
    pub fn after_damage(&mut self) -> Result<u64, Failure> {
        self.open.clear();
        self.oracle.crashed();
        self.recover()
    }

    /// After a crash (or before): so many more requests, drawn from another seed.
    pub fn extend(&mut self, requests: u64, seed: u64) {
        self.config.shape.requests = self.sent + requests;
        self.rng = Rng::new(self.config.seed ^ seed);
        self.next_at = self.sim.now;
    }

    /// From now on it only reads.
    pub fn read_only(&mut self) {
        self.config.shape.mix = Mix { read: 1_000_000, flush: 0, zero: 0, fua: 0 };
    }

    /// Sectors of these blocks; `None` if they cannot be read and that may be.
    fn read_blocks(&mut self, first: u64, count: u64) -> Result<Option<Vec<u64>>, Violation> {
        let id = RequestId(1 << 40 | first);
        let range = (first * BLOCK_BYTES, count * BLOCK_BYTES);
        let request = Request::new(id, VOLUME, Op::Read, range, self.sim.now);
        self.sim.request(&request);
        loop {
            for (done, tokens) in self.sim.take_said().done {
                if done.request != id {
                    continue;
                }
                return match done.status {
                    Ok(()) => Ok(Some(tokens)),
                    Err(error) if !self.may_fail => Err(Violation::Failed { request: id, error }),
                    Err(error) if count > 1 || explain::has_cause_at(&self.sim, error, first) => {
                        Ok(None)
                    }
                    Err(error) => Err(Violation::Unexplained { request: id, error }),
                };
            }
            assert!(self.sim.step(), "a read never hangs");
        }
    }

    /// Runs to the end, stops the engine cleanly and looks for leaks.
    ///
    /// # Errors
    /// If anything is wrong on the way.
    pub fn finish(&mut self) -> Result<(), Failure> {
        while self.step()? {}
        self.sim.shut_down();
        let mut patience = 1_000_000u64;
        loop {
            if self.sim.take_said().stopped {
                break;
            }
            patience -= 1;
            if !self.sim.step() || patience == 0 {
                let now = self.sim.now;
                let state = self.sim.waiting_state();
                return Err(Failure::Hang { seed: self.config.seed, waiting: 0, now, state });
            }
        }
        // the buffer of zeroes for padding lives as long as the engine
        let left = self.sim.payload_count();
        if left > 1 {
            return Err(Failure::Leak { seed: self.config.seed, left });
        }
        Ok(())
    }
}
