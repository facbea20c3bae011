//! How does a job go from step to step, and who waits for whom?

use super::super::inbox;
use super::super::plan::{self, Patch, Place, Step};
use super::super::wire::{self, Header};
use super::FuseServer;
use tandem_block::{DurabilityClass, IoError, Op, PayloadId};
use tandem_live::Done;
use tandem_live::front::{FrontContext, FrontRequest};

/// What a job is doing.
#[derive(Debug)]
pub(super) enum Doing {
    /// One read; so many bytes after `skip` are the answer.
    Read { skip: u64, length: u64 },
    /// One write of whole sectors.
    Write { payload: PayloadId },
    /// One flush.
    Flush,
    /// One piece of zeroing.
    Zero,
    /// Reading the sectors around a patch.
    Around { at: u64, skip: usize, patch: Patch },
    /// Writing them back.
    Back,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Job {
    pub unique: u64,
    pub place: Place,
    pub fua: bool,
    pub doing: Doing,
    /// What comes after, last first.
    pub steps: Vec<Step>,
    /// Bytes that a write reports.
    pub written: Option<u32>,
    /// Bytes that it brought with it.
    pub brought_bytes: u64,
}

impl Job {
    pub fn new(header: Header, place: Place, doing: Doing) -> Job {
        Job {
            unique: header.unique,
            place,
            fua: false,
            doing,
            steps: Vec::new(),
            written: None,
            brought_bytes: 0,
        }
    }

    fn writes(&self) -> bool {
        !matches!(self.doing, Doing::Read { .. } | Doing::Flush)
    }
}

impl FuseServer {
    /// One request of a job is done.
    pub(super) fn job_done(&mut self, key: usize, done: &Done, context: &mut FrontContext<'_>) {
        if let Err(error) = done.status {
            context.release(done.payload);
            self.jobs[key].steps.clear();
            self.finish(key, Err(error), context);
            return;
        }
        match self.jobs[key].doing {
            Doing::Read { skip, length } => self.send(key, skip, length, done, context),
            Doing::Around { .. } => self.merge(key, done, context),
            _ => self.go_on(key, context),
        }
    }

    /// Begins a job, unless a part of its place is claimed; then it waits.
    pub(super) fn begin(&mut self, job: Job, context: &mut FrontContext<'_>) {
        let waits = job.writes() && !self.claims.is_free(&job.place);
        let key = self.jobs.insert(job);
        if waits {
            self.held.push_back(key);
        } else {
            self.start(key, context);
        }
    }

    fn start(&mut self, key: usize, context: &mut FrontContext<'_>) {
        let job = &self.jobs[key];
        if job.steps.iter().any(|step| matches!(step, Step::Merge { .. })) {
            self.claims.take(key, job.place);
        }
        let Place { first, end, .. } = job.place;
        match job.doing {
            Doing::Read { .. } => self.ask(key, Op::Read, (first, end - first), context),
            Doing::Write { .. } => self.ask(key, Op::Write, (first, end - first), context),
            Doing::Flush => self.ask(key, Op::Flush, (0, 0), context),
            _ => self.go_on(key, context),
        }
    }

    /// The next step, or the reply.
    fn go_on(&mut self, key: usize, context: &mut FrontContext<'_>) {
        match self.jobs[key].steps.pop() {
            None => self.finish(key, Ok(()), context),
            Some(Step::Zero { op, offset, length }) => {
                self.jobs[key].doing = Doing::Zero;
                self.ask(key, op, (offset, length), context);
            }
            Some(Step::Merge { offset, patch }) => {
                let (at, whole) = plan::cover(offset, patch.len() as u64);
                let skip = (offset - at) as usize;
                self.jobs[key].doing = Doing::Around { at, skip, patch };
                self.ask(key, Op::Read, (at, whole), context);
            }
        }
    }

    fn ask(
        &mut self,
        key: usize,
        op: Op,
        (offset, length): (u64, u64),
        context: &mut FrontContext<'_>,
    ) {
        let job = &self.jobs[key];
        let payload = match job.doing {
            Doing::Write { payload } => payload,
            _ => PayloadId::NONE,
        };
        let front_request = FrontRequest {
            object: job.place.object,
            op,
            offset_bytes: offset,
            length_bytes: length,
            fua: job.fua && op.is_write(),
            stream: self.stream,
            class: DurabilityClass::VolatileOk,
            payload,
        };
        context.submit(front_request, key as u64);
    }

    /// The sectors around a patch are here: writes them back with it.
    fn merge(&mut self, key: usize, done: &Done, context: &mut FrontContext<'_>) {
        let Doing::Around { at, skip, patch } =
            std::mem::replace(&mut self.jobs[key].doing, Doing::Back)
        else {
            unreachable!("only called for a merge");
        };
        let (_, whole) = plan::cover(at + skip as u64, patch.len() as u64);
        let mut sectors = Vec::new();
        context.payloads.append_to(done.payload, done.skip_bytes, whole, &mut sectors);
        context.release(done.payload);
        patch.apply(&mut sectors, skip);
        let payload = context.payloads.begin_anyway(sectors.len(), at);
        context.payloads.fill(payload, 0, &sectors);
        context.payloads.seal(payload);
        let job = &mut self.jobs[key];
        job.doing = Doing::Write { payload };
        self.ask(key, Op::Write, (at, whole), context);
    }

    /// Replies to a job that moved no bytes to the user, and lets go on who waited for its place.
    fn finish(&mut self, key: usize, result: Result<(), IoError>, context: &mut FrontContext<'_>) {
        let job = self.jobs.remove(key);
        self.brought_bytes -= job.brought_bytes;
        self.out.clear();
        if let Some(written) = job.written {
            self.out.extend_from_slice(&written.to_ne_bytes());
            self.out.extend_from_slice(&[0; 4]);
        }
        self.answer(job.unique, result.map_err(IoError::errno));
        if self.claims.give_back(key) {
            for _ in 0..self.held.len() {
                let Some(next) = self.held.pop_front() else { break };
                if self.claims.is_free(&self.jobs[next].place) {
                    self.start(next, context);
                } else {
                    self.held.push_back(next);
                }
            }
        }
    }

    /// Replies to a read, from the engine's memory.
    fn send(
        &mut self,
        key: usize,
        skip: u64,
        length: u64,
        done: &Done,
        context: &mut FrontContext<'_>,
    ) {
        let unique = self.jobs.remove(key).unique;
        let head = wire::reply_head(unique, 0, length as usize);
        let fd = self.inbox.fd();
        let bytes = (done.payload, done.skip_bytes + skip, length);
        inbox::report(context.payloads.write_out(fd, &head, bytes));
        context.release(done.payload);
    }
}
