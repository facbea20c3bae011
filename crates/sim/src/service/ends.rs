//! How does a life of the pool end, and is everything there in the next one?

use super::budget;
use super::known::{Sort, Step};
use super::{Asked, End, Service, What};
use crate::campaign::MODES;
use crate::check::{BlockState, Violation};
use crate::coverage::Met;
use crate::explain;
use crate::failure::Failure;
use crate::objects::in_blocks;
use crate::simulation::HitKind;
use tandem_block::{
    BLOCK_BYTES, DeviceId, DurabilityClass, Duration, Instant, IoError, ObjectId, Op, Request,
    RequestId, Rng,
};
use tandem_drives::media::CutMode;
use tandem_engine::StartError;

/// Blocks that are read at once.
const CHECK_BLOCKS_MAX: u64 = 64;
/// Starts that are tried when one is refused for a fault.
const STARTS_MAX: u32 = 3;
/// Whether service is back is tried again after this time.
const TRY_AGAIN_AFTER: Duration = Duration::from_s(1);
/// Events that a stop may take.
const STOP_EVENTS_MAX: u64 = 1_000_000;

impl End {
    /// The event after which the drive is copied that is rolled back, and which.
    pub(super) fn image(&self) -> Option<(u64, DeviceId)> {
        match self {
            End::RolledBack { device, image_at, .. } => Some((*image_at, *device)),
            _ => None,
        }
    }
}

impl Service {
    /// Ends this life and begins the next. False: it was refused, for a fault that is told.
    pub(super) fn end_life(&mut self, end: End) -> Result<bool, Failure> {
        self.met.crashed(self.sim.engine.activity(), 0);
        self.met.add(Met::Restarts, 1);
        let mut rng = Rng::new(self.plan.pool.seed ^ self.events.wrapping_mul(0x9E37));
        match end {
            End::Cut(mode) => self.cut(mode, &mut rng),
            End::Kill => self.kill(&mut rng),
            End::Stop => {
                self.stop()?;
                self.kill(&mut rng);
            }
            End::RolledBack { device, image_at, killed } => {
                if !killed {
                    self.stop()?;
                }
                let is_witnessed = self.is_witnessed(device);
                // what a witness has counts only if a cut leaves it there
                if killed && rng.chance_ppm(500_000) {
                    self.cut(MODES[rng.below(3) as usize], &mut rng);
                } else {
                    self.kill(&mut rng);
                }
                let image = self.images.iter().find(|(at, of, _)| (*at, *of) == (image_at, device));
                let Some((_, _, image)) = image.filter(|_| is_witnessed) else {
                    return self.recover();
                };
                self.sim.roll_back(device, image.clone());
                self.met.add(Met::RolledBack, 1);
            }
        }
        self.recover()
    }

    /// Does another drive know what this one should hold: is the other metadata level with its own?
    fn is_witnessed(&self, device: DeviceId) -> bool {
        let devices = self.sim.engine.devices();
        let ssds = devices.iter().filter(|d| d.is_ssd() && d.takes_new()).count();
        let is_ssd = devices[usize::from(device.0)].is_ssd();
        let follows =
            self.sim.engine.metadata_replica().is_some_and(|status| status.units_behind == 0);
        let has_ssd = devices.iter().any(|d| d.is_ssd());
        // without an SSD the first hard drive alone knows what lies where
        if is_ssd { ssds > 1 || follows } else { has_ssd || device.0 > 0 }
    }

    fn cut(&mut self, mode: CutMode, rng: &mut Rng) {
        self.forget();
        let engine = self.plan.pool.engine(false);
        let is_protected = self.plan.pool.durability == DurabilityClass::Protected;
        let mode = if is_protected { CutMode::KeepAll } else { mode };
        self.sim.power_cut(engine, mode, rng);
    }

    fn kill(&mut self, rng: &mut Rng) {
        self.forget();
        let engine = self.plan.pool.engine(false);
        self.sim.kill(engine, rng);
    }

    /// Whoever waited for an answer does not get it.
    fn forget(&mut self) {
        let open = std::mem::take(&mut self.open);
        for asked in open.into_values() {
            let What::Change { object, removes: false, before, .. } = &asked.what else { continue };
            let Some(known) = self.objects.get(object) else { continue };
            if known.sort == Sort::Snapshot {
                self.show_snapshot(*object, known.of, before);
            }
        }
        self.objects.values_mut().for_each(|known| known.oracle.crashed());
    }

    /// A power cut at this event, in a fork: it is recovered, and everything is read.
    pub(super) fn crash_in_a_fork(&mut self) -> Result<(), Failure> {
        let mut fork = self.clone();
        fork.plan.stride = 0;
        let mut rng = Rng::new(self.plan.pool.seed ^ self.events << 20);
        self.met.crashed(self.sim.engine.activity(), 1);
        if rng.chance_ppm(250_000) {
            fork.kill(&mut rng);
        } else {
            fork.cut(MODES[rng.below(3) as usize], &mut rng);
        }
        fork.recover()?;
        Ok(())
    }

    /// Stops the pool and waits until it has.
    fn stop(&mut self) -> Result<(), Failure> {
        let began = self.sim.now;
        self.sim.shut_down();
        for _ in 0..STOP_EVENTS_MAX {
            let said = self.sim.take_said();
            for (done, tokens) in said.done {
                let asked = self.open.remove(&done.request).expect("answers are to requests");
                self.answered(&asked, &done, &tokens)?;
            }
            if said.stopped {
                return Ok(());
            }
            let healed = self.sim.hits().last().map_or(Instant::ZERO, |hit| hit.at);
            let late = self.sim.now > began.max(healed) + self.plan.patience;
            if late || !self.sim.step() {
                return Err(self.hang());
            }
            self.events += 1;
        }
        Err(self.hang())
    }

    /// Starts over what the drives hold, and checks everything.
    fn recover(&mut self) -> Result<bool, Failure> {
        for _ in 0..STARTS_MAX {
            let began = self.sim.now;
            match self.sim.start_counting() {
                Ok(_) => {
                    self.next_at = self.sim.now;
                    self.check_objects()?;
                    self.check_all()?;
                    self.audit()?;
                    return Ok(true);
                }
                Err(error) => {
                    self.check_refusal(error, began)?;
                    let engine = self.plan.pool.engine(false);
                    let mut rng = Rng::new(self.sim.now.ns);
                    self.sim.kill(engine, &mut rng);
                }
            }
        }
        self.met.add(Met::StartsRefused, 1);
        Ok(false)
    }

    fn check_refusal(&self, error: StartError, began: Instant) -> Result<(), Failure> {
        let rolled = self.sim.hits().iter().any(|hit| hit.what == HitKind::RolledBack);
        if rolled || explain::has_cause_to_refuse(&self.sim, &error, began) {
            return Ok(());
        }
        let (seed, point) = (self.plan.pool.seed, self.events);
        if self.plan.has_faults() {
            let violation = Violation::RefusedUnexplained { error };
            return Err(Failure::Broken { seed, point, violation });
        }
        Err(Failure::Refused { seed, point, error })
    }

    /// Are the objects there that must be, and no others?
    fn check_objects(&mut self) -> Result<(), Failure> {
        let engine = &self.sim.engine;
        let mut gone = Vec::new();
        let mut wrong = None;
        for (&id, known) in &self.objects {
            let ((may, must), is_there) = (known.after_crash(), engine.object(id).is_some());
            if is_there && !may || !is_there && must {
                wrong = Some((id, known.made, known.removed, is_there));
            }
            if !is_there {
                gone.push(id);
            }
        }
        let known = |id: &ObjectId| self.objects.contains_key(id);
        if let Some((id, _)) = engine.objects().iter().find(|(id, _)| !known(id)) {
            wrong = wrong.or(Some((id, Step::No, Step::No, true)));
        }
        if let Some((id, made, removed, is_there)) = wrong {
            let text = format!(
                "object {} is there: {is_there}; making it was {made:?}, removing it was {removed:?}",
                id.0
            );
            return Err(self.broken(id, Violation::Objects(text)));
        }
        gone.iter().for_each(|id| drop(self.objects.remove(id)));
        self.objects.values_mut().for_each(|known| known.found());
        Ok(())
    }

    /// Reads every block of every object.
    pub(super) fn check_all(&mut self) -> Result<(), Failure> {
        let objects: Vec<(ObjectId, u64)> = self
            .objects
            .iter()
            .filter(|(_, k)| k.is_there())
            .map(|(&id, k)| (id, k.size_bytes))
            .collect();
        let used = self.plan.pool.shape.footprint_bytes;
        for (object, size_bytes) in objects {
            let blocks = size_bytes.min(used) / BLOCK_BYTES;
            let mut first = 0;
            while first < blocks {
                let count = CHECK_BLOCKS_MAX.min(blocks - first);
                self.check_run(object, first, count)?;
                first += count;
            }
        }
        Ok(())
    }

    fn check_run(&mut self, object: ObjectId, first: u64, count: u64) -> Result<(), Failure> {
        let Some(tokens) = self.read_blocks(object, first, count)? else {
            if count == 1 {
                let known = self.objects.get_mut(&object).expect("it is there");
                known.oracle.unreadable_after_crash(first);
                return Ok(());
            }
            return (first..first + count).try_for_each(|block| self.check_run(object, block, 1));
        };
        for (block, found) in (first..first + count).zip(in_blocks(&tokens, count)) {
            let found: BlockState = found.try_into().expect("a block has eight sectors");
            let known = self.objects.get_mut(&object).expect("it is there");
            let is_fine = known.oracle.found_after_crash(block, found);
            is_fine.map_err(|violation| self.broken(object, violation))?;
        }
        Ok(())
    }

    /// Sectors of these blocks; `None` if they cannot be read, for a fault of what they lie on.
    fn read_blocks(
        &mut self,
        object: ObjectId,
        first: u64,
        count: u64,
    ) -> Result<Option<Vec<u64>>, Failure> {
        let id = RequestId(1 << 41 | first << 8 | object.0 & 0xff);
        let range = (first * BLOCK_BYTES, count * BLOCK_BYTES);
        let made = self.sim.now;
        let request = Request::new(id, object, Op::Read, range, made);
        let bytes = (range.0, range.0 + range.1);
        let places = budget::places(&self.sim, object, bytes);
        self.sim.request(&request);
        loop {
            for (done, tokens) in self.sim.take_said().done {
                if done.request != id {
                    continue;
                }
                let Err(error) = done.status else { return Ok(Some(tokens)) };
                if count > 1 {
                    return Ok(None);
                }
                let what = What::Io;
                let asked = Asked { request, made, behind: made, what, places };
                self.check_error(&asked, error)?;
                return Ok(None);
            }
            let healed = self.sim.hits().last().map_or(Instant::ZERO, |hit| hit.at);
            let late = self.sim.now > made.max(healed) + self.plan.patience;
            if late || !self.sim.step() {
                return Err(self.hang());
            }
        }
    }

    /// Reads every block of every object that is there, as clients do.
    pub(super) fn read_all(&mut self) -> Result<(), Failure> {
        let there = self.objects.iter().filter(|(_, known)| known.is_there());
        let objects: Vec<(ObjectId, u64)> = there.map(|(&id, k)| (id, k.size_bytes)).collect();
        let used = self.plan.pool.shape.footprint_bytes;
        let step = CHECK_BLOCKS_MAX * BLOCK_BYTES;
        for (object, size_bytes) in objects {
            let end = size_bytes.min(used);
            for (nth, first) in (0..end).step_by(step as usize).enumerate() {
                let id = RequestId(1 << 43 | self.events << 8 | nth as u64);
                let range = (first, step.min(end - first));
                let request = Request::new(id, object, Op::Read, range, self.sim.now);
                // an error that nothing excuses would have ended the run
                let _ = self.ask_and_wait(request)?;
            }
        }
        Ok(())
    }

    /// Sends a request and waits for its answer.
    fn ask_and_wait(&mut self, request: Request) -> Result<Result<(), IoError>, Failure> {
        let id = request.id;
        let durability = self.objects[&request.object].durability;
        self.ask(request, durability);
        self.last = None;
        self.collect()?;
        while self.open.contains_key(&id) {
            if !self.sim.step() {
                return Err(self.hang());
            }
            self.events += 1;
            self.collect()?;
            self.looks_alive(self.sim.next_at())?;
        }
        let (_, status) = self.last.expect("it was answered");
        Ok(status)
    }

    /// All faults are over: before long each volume takes a write again, and a FLUSH is answered well.
    /// Where something stays broken for good, an answer will do.
    pub(super) fn prove_flow(&mut self) -> Result<(), Failure> {
        let volumes = self.objects.iter().filter(|(_, known)| known.sort == Sort::Volume);
        let volumes: Vec<ObjectId> = volumes.map(|(&id, _)| id).collect();
        let end = self.sim.now + self.plan.patience;
        for object in volumes {
            let mut tries = 0;
            while let Err((op, error)) = self.write_and_flush(object, tries)? {
                // a volume that shares blocks with snapshots may find no room for more, in a sound pool, too
                let is_full = error == IoError::NoSpace && self.has_no_room();
                let audits = &self.plan.pool.audits;
                let must_flow = self.plan.heals() && audits.flow && !self.is_in_doubt();
                if !must_flow || is_full {
                    break;
                }
                if self.sim.now >= end {
                    let violation = Violation::NoFlow { op, error };
                    return Err(self.broken(object, violation));
                }
                tries += 1;
                self.sim.run_until(self.sim.now + TRY_AGAIN_AFTER);
                self.collect()?;
            }
        }
        Ok(())
    }

    /// A flush failed of a drive that others cannot stand in for: nothing is promised before a restart.
    fn is_in_doubt(&self) -> bool {
        let devices = self.sim.engine.devices();
        let has_ssd = devices.iter().any(|d| d.is_ssd());
        let holds = |device: DeviceId| devices.get(usize::from(device.0)).map(|d| d.is_ssd());
        let mut hits = self.sim.hits().iter();
        hits.any(|hit| hit.what == HitKind::FlushError && holds(hit.device) == Some(has_ssd))
    }

    fn has_no_room(&self) -> bool {
        self.sim.engine.space_bytes().1 < 3 * BLOCK_BYTES
    }

    /// A write of a block, a FLUSH and a read; the first of them that fails.
    fn write_and_flush(
        &mut self,
        object: ObjectId,
        tries: u64,
    ) -> Result<Result<(), (Op, IoError)>, Failure> {
        for (op, kind) in [(Op::Write, 0), (Op::Flush, 1), (Op::Read, 2)] {
            let number = 1 << 42 | self.events << 12 | tries << 8 | object.0 << 4 | kind;
            let range = if op == Op::Flush { (0, 0) } else { (0, BLOCK_BYTES) };
            let request = Request::new(RequestId(number), object, op, range, self.sim.now);
            if let Err(error) = self.ask_and_wait(request)? {
                return Ok(Err((op, error)));
            }
        }
        Ok(Ok(()))
    }
}
