//! What steps tell streams apart?
//!
//! Source: [IANUS §4.2]. A request is named at its arrival; its jobs wait by stream for an SSD, and
//! the order of service chooses among the candidates; what is done teaches what requests cost. Hard
//! drives keep one queue by class: nothing is promised on them, since one user's seek is everybody's.

use crate::config::Role;
use crate::device::{Class, Device, Job, Purpose, Waiting};
use crate::engine::{Engine, IoState};
use crate::ordering::TaskId;
use crate::qos::admit::{self, AdmitError};
use crate::qos::cost::Kind;
use crate::qos::delivery::{Clients, StreamIndex};
use crate::qos::observed::Observed;
use crate::qos::reserve::{QosConfig, WHOLE_PPB};
use crate::qos::streams::{Pick, Streams, Taken};
use crate::qos::{Candidate, Qos, StreamsView};
use crate::task::Task;
use tandem_block::{DeviceId, Instant, IoError, Op};

/// No stream: flushes, batches and work of our own.
pub(crate) const NO_STREAM: StreamIndex = StreamIndex::MAX;
/// Streams at most.
pub const STREAMS_MAX: usize = 10_000;

/// What one drive knows of streams.
#[derive(Clone, Debug)]
pub struct DeviceStreams {
    /// Waiting jobs.
    pub queues: Streams,
    /// What requests cost.
    pub observed: Observed,
    /// Of each stream: of what it asked for, how much was admitted, in billionths (less than a whole
    /// only where more was promised than there is).
    admitted_ppb: Vec<u64>,
}

impl DeviceStreams {
    fn new(
        config: &QosConfig,
        order: &dyn Qos,
        device: DeviceId,
        ssds: u64,
    ) -> Result<Self, AdmitError> {
        let mut asked = admit::asked(config, device)?;
        if !order.keeps_promises() {
            asked.fill(0);
        }
        let shares = admit::scaled(&asked, config.background_ppb);
        let observed = Observed::new(config.costs_of(device), config.depth);
        let admitted = |(share, asked): (&u64, &u64)| {
            let part = u128::from(*share) * u128::from(WHOLE_PPB) / u128::from((*asked).max(1));
            u64::try_from(part).unwrap_or(WHOLE_PPB)
        };
        let admitted_ppb = shares.iter().zip(&asked).map(admitted).collect();
        let queues = Streams::new(config, &shares, ssds, order.apart());
        Ok(DeviceStreams { queues, observed, admitted_ppb })
    }

    /// Shares at what requests cost now: a promised request always stands for one part of its rate,
    /// others for what they cost beside it.
    fn price(&mut self, config: &QosConfig) {
        for (index, stream) in config.streams.iter().enumerate() {
            let Some(promise) = stream.promise.as_ref().filter(|_| self.admitted_ppb[index] > 0)
            else {
                continue;
            };
            let cost_ns = promise.cost_by(&|kind, bytes| self.observed.cost_ns(kind, bytes));
            let Some(asked_ppb) = promise.share_ppb(cost_ns) else { continue };
            let share = u128::from(asked_ppb) * u128::from(self.admitted_ppb[index])
                / u128::from(WHOLE_PPB);
            let share_ppb = u64::try_from(share).unwrap_or(u64::MAX).max(1);
            self.queues.set_share(index, share_ppb);
        }
    }
}

impl Device {
    /// Takes any job that waits by stream.
    pub(crate) fn pop_by_stream(&mut self, now: Instant) -> Option<Waiting> {
        let taken = self.streams.as_mut()?.queues.take_any(now)?;
        self.load.waiting_bytes -= taken.waiting.bytes;
        Some(taken.waiting)
    }
}

impl Engine {
    /// Prepares everything that tells streams apart, if the order or the configuration does.
    pub(crate) fn lay_streams(&mut self) -> Result<(), AdmitError> {
        let config = &self.config.qos;
        let tells = self.qos.tells_streams();
        self.clients =
            (tells || !config.streams.is_empty()).then(|| Box::new(Clients::new(config)));
        let ssds = self.ssds.len() as u64;
        for device in &mut self.devices {
            device.streams = None;
            if tells && device.config.role == Role::Ssd {
                let mut streams = DeviceStreams::new(config, self.qos.as_ref(), device.id, ssds)?;
                streams.price(config);
                device.streams = Some(Box::new(streams));
            }
        }
        Ok(())
    }

    /// Whose request is it?
    #[inline]
    pub(crate) fn name_stream(&mut self, task: &mut Task) {
        if let Some(clients) = &mut self.clients
            && task.request.op != Op::Flush
        {
            (task.stream, task.sequential) = clients.arrived(self.now, &task.request);
        }
    }

    /// A request of a stream has been answered.
    #[inline]
    pub(crate) fn count_delivered(&mut self, task: &Task) {
        if let Some(clients) = &mut self.clients
            && task.stream != NO_STREAM
        {
            let moves = matches!(task.request.op, Op::Read | Op::Write) && task.status.is_ok();
            let bytes = if moves { task.request.length_bytes } else { 0 };
            clients.answered(self.now, task.stream, bytes);
        }
    }

    pub(crate) fn enqueue_by_stream(
        &mut self,
        device: DeviceId,
        class: Class,
        job: Job,
        bytes: u64,
    ) {
        let whose = owner(class, &job).map(|id| &self.tasks[id as usize]);
        let whose = whose.filter(|task| task.stream != NO_STREAM);
        let whose = whose.map(|task| (task.stream, task.sequential));
        let read = match &job {
            Job::Io(op, _) => op.is_read(),
            Job::Write(_) | Job::Edge { .. } => false,
        };
        let now = self.now;
        let d = &mut self.devices[usize::from(device.0)];
        let waiting = d.arrives(job, bytes);
        let streams = d.streams.as_mut().expect("streams are told apart here");
        let sequential = whose.is_none_or(|(_, sequential)| sequential);
        let kind = Kind { read, sequential };
        let cost_ns = streams.observed.cost_ns(kind, bytes);
        match whose {
            Some((index, _)) => streams.queues.push(now, index, kind, cost_ns, waiting),
            None => streams.queues.push_background(now, cost_ns, waiting),
        }
    }

    /// Issues the job that the order chooses. False: nothing can go now.
    pub(crate) fn dispatch_stream(&mut self, device: DeviceId) -> bool {
        let now = self.now;
        let d = &mut self.devices[usize::from(device.0)];
        let in_flight_background = d.background_in_flight;
        let (reads, others) = d.takes();
        let is_full = !(reads || others) || !d.is_pair && d.in_flight >= self.config.qos.depth;
        let streams = d.streams.as_mut().expect("asked by the caller");
        let waits = streams.queues.waiting() > 0;
        if is_full || !waits {
            if streams.observed.stand(now, waits) {
                streams.price(&self.config.qos);
            }
            return false;
        }
        if reads != others {
            // one side of a pair is full: the other goes on
            let taken = streams.queues.take_only(now, reads);
            return taken.is_some_and(|taken| self.issue_taken(device, taken, Candidate::Due));
        }
        let view: StreamsView = streams.queues.view(now, in_flight_background);
        let Some(candidate) = self.qos.next_stream(&view) else {
            streams.observed.stand(now, false);
            return false;
        };
        let taken = streams.queues.take(now, candidate);
        if self.issue_taken(device, taken, candidate) {
            return true;
        }
        // writes wait for space; reads and background work must not wait with them
        let d = &mut self.devices[usize::from(device.0)];
        let queues = &mut d.streams.as_mut().expect("as before").queues;
        if let Some(read) = queues.take_only(now, true) {
            return self.issue_taken(device, read, Candidate::Due);
        }
        let has_room = self.qos.next_stream(&StreamsView {
            background: view.background,
            background_in_flight: view.background_in_flight,
            ..StreamsView::default()
        });
        let d = &mut self.devices[usize::from(device.0)];
        let queues = &mut d.streams.as_mut().expect("as before").queues;
        match (has_room, queues.take_any_background()) {
            (Some(_), Some(work)) => self.issue_taken(device, work, Candidate::BackgroundDue),
            (None, Some(work)) => {
                queues.put_back(now, work.pick, work.tags, work.waiting);
                false
            }
            (_, None) => false,
        }
    }

    fn issue_taken(&mut self, device: DeviceId, taken: Taken, candidate: Candidate) -> bool {
        let (now, index) = (self.now, usize::from(device.0));
        let (pick, tags, bytes) = (taken.pick, taken.tags, taken.waiting.bytes);
        self.devices[index].load.waiting_bytes -= bytes;
        let issued = self.issue(device, taken.waiting);
        let d = &mut self.devices[index];
        let queues = &mut d.streams.as_mut().expect("as before").queues;
        match issued {
            Ok(()) => {
                let was_owed = matches!(candidate, Candidate::Due | Candidate::BackgroundDue);
                queues.done(now, pick, was_owed, tags, bytes);
                true
            }
            Err(waiting) => {
                queues.put_back(now, pick, tags, waiting);
                d.load.waiting_bytes += bytes;
                // what is owed to others may follow background work that waits for space
                debug_assert!(matches!(pick, Pick::Stream { read: false, .. }));
                false
            }
        }
    }

    /// A command is done: what do its kind cost?
    pub(crate) fn observe_cost(&mut self, io: &IoState, status: Result<(), IoError>) {
        let task = task_of(&io.purpose).and_then(|id| self.tasks.get(id as usize));
        let sequential = task.is_none_or(|task| task.sequential);
        let stream = task.map_or(NO_STREAM, |task| task.stream);
        let kind = Kind { read: io.place.read, sequential };
        let d = &mut self.devices[usize::from(io.device.0)];
        let streams = d.streams.as_mut().expect("asked by the caller");
        if stream != NO_STREAM {
            streams.queues.completed(stream);
        }
        if status.is_ok() && io.place.listed {
            streams.observed.completed(kind, io.bytes);
        }
    }

    /// When a stream may go on that its limit, or somebody else's turn, holds back. On a drive that is
    /// full a command has to end first.
    #[inline]
    pub(crate) fn limits_due(&self) -> Instant {
        if self.clients.is_none() {
            return Instant::NEVER;
        }
        let depth = self.config.qos.depth;
        let held = |d: &Device| {
            let has_room = d.takes() == (true, true) && (d.is_pair || d.in_flight < depth);
            let streams = d.streams.as_ref().filter(|_| has_room && !d.faulted)?;
            Some(streams.queues.next_allowed())
        };
        self.devices.iter().filter_map(held).min().unwrap_or(Instant::NEVER)
    }
}

/// Whose job is it? `None`: nobody's who waits.
fn owner(class: Class, job: &Job) -> Option<TaskId> {
    match (class, job) {
        (Class::Background, _) => None,
        (_, Job::Write(task) | Job::Edge { task, .. }) => Some(*task),
        (_, Job::Io(_, purpose)) => task_of(purpose),
    }
}

fn task_of(purpose: &Purpose) -> Option<TaskId> {
    match purpose {
        Purpose::Read(part) | Purpose::VerifyCopy(part) => Some(part.task),
        Purpose::Write { task, .. }
        | Purpose::WriteEdge { task, .. }
        | Purpose::WriteFixed { task }
        | Purpose::MergeBase { task, .. } => Some(*task),
        _ => None,
    }
}
