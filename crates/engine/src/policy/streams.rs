//! What steps tell streams apart?
//!
//! Source: [IANUS §4.2]. A request is named at its arrival; its jobs wait by stream for an SSD, and
//! the order of service chooses among the candidates; what is done teaches what requests cost. Hard
//! drives keep one queue by class: nothing is promised on them, since one user's seek is everybody's.

use crate::config::Role;
use crate::device::{Device, Issued, Waiting};
use crate::io::DeviceIo;
use crate::io::flights::Flight;
use crate::map::Map;
use crate::migration::Migration;
use crate::mutant::Mutant;
use crate::owner::Owner;
use crate::policy::Policy;
use crate::policy::balance::is_on_both;
use crate::port::ServedFrom;
use crate::qos::admit::AdmitError;
use crate::qos::cost::Kind;
use crate::qos::delivery::{Clients, NO_STREAM};
use crate::qos::lanes::Lanes;
use crate::qos::streams::{Pick, Streams, Taken};
use crate::qos::{Candidate, StreamsView};
use crate::requests::Requests;
use crate::requests::task::Task;
use crate::steer::{Answer, Reason, Seen};
use crate::store::Store;
use std::sync::Arc;
use tandem_block::{DeviceId, Instant, IoError, Op, Request, RequestKind};

/// Streams at most.
pub(crate) const STREAMS_MAX: usize = 10_000;

impl Device {
    /// Takes any job that waits by stream.
    pub(crate) fn pop_by_stream(&mut self, now: Instant) -> Option<Waiting> {
        let taken = self.streams.as_mut()?.take_any(now)?;
        self.queue.taken(taken.waiting.bytes);
        Some(taken.waiting)
    }
}

impl Requests {
    /// A command is done: what do its kind cost?
    pub(crate) fn observe_cost(
        &self,
        flight: &Flight<Owner>,
        status: Result<(), IoError>,
        io: &mut DeviceIo,
    ) {
        let task = flight.owner.task().and_then(|id| self.get(id));
        let sequential = task.is_none_or(|task| task.sequential);
        let stream = task.map_or(NO_STREAM, |task| task.stream);
        let request_bytes = task.map_or(0, |task| task.request.length_bytes);
        let kind = Kind { read: flight.place.read, sequential };
        let now = io.now();
        let d = &mut io[flight.device];
        let lanes = d.streams.as_mut().expect("asked by the caller");
        let lane = lanes.lane(lanes.index_of(kind.read));
        if stream != NO_STREAM {
            lane.queues.completed(now, stream);
        }
        if status.is_ok() && flight.place.listed {
            lane.observed.completed(kind, flight.bytes, request_bytes);
        }
    }
}

impl Policy {
    /// Does a hard drive serve this read, although an SSD could?
    #[inline]
    pub(crate) fn prefers_hdd(&mut self, task: &Task, map: &Map, io: &DeviceIo) -> bool {
        let is_users = task.request.kind == RequestKind::User && !task.rides;
        // who compares all copies reads the fastest one first
        if !self.steering.balances() || !is_users || io.is_fixed() || io.config().verify_copies {
            return false;
        }
        let Some(volume) = self.tiers.policies.get(&task.volume) else { return false };
        let policy = &mut self.steering.shared[volume.steer].policy;
        policy.balances() && is_on_both((task.first, task.end), map) && policy.reads_from_hdd()
    }

    /// A user's request was answered: policies that want to know are told what that took.
    #[inline]
    pub(crate) fn note_answer(&mut self, task: &Task, io: &DeviceIo) {
        if !self.steering.hears_answers() || task.status.is_err() {
            return;
        }
        let (read, from) = match task.request.op {
            Op::Read => (true, task.served_from),
            Op::Write if task.target.is_log() => (false, ServedFrom::HddLog),
            Op::Write => (false, ServedFrom::Ssd),
            Op::Flush | Op::Discard | Op::WriteZeroes => return,
        };
        let answer = Answer {
            read,
            from,
            from_read_back: task.from_read_back,
            offloaded: task.offloaded,
            logical: task.told_block,
            is_returned: task.reason == Reason::Returned,
            is_hedged: task.reason == Reason::Hedged,
            bytes: task.request.length_bytes,
            latency_ns: task.request.age(io.now()).ns,
            expected: task.expected,
        };
        self.steering.tell(&Seen::Answer(answer), io);
    }

    /// Prepares everything that tells streams apart, if the order or the configuration does.
    pub(crate) fn lay_streams(&mut self, io: &mut DeviceIo) -> Result<(), AdmitError> {
        let config = Arc::clone(io.config());
        let config = &config.qos;
        let tells = self.qos.tells_streams();
        self.clients =
            (tells || !config.streams.is_empty()).then(|| Box::new(Clients::new(config)));
        let there = |id: &&DeviceId| !io.config().gone.contains(id);
        // a drive may come to the place of one that is gone
        let ssds = io.ssds().iter().filter(there).count().max(1) as u64;
        for device in io.drives_mut() {
            assert!(!device.has_waiting(), "streams are told apart before anything waits");
            device.streams = None;
            if tells && device.config.role == Role::Ssd {
                let (order, is_pair) = (self.qos.as_ref(), device.is_pair);
                let lanes = Lanes::new(config, order, device.id, ssds, is_pair)?;
                device.streams = Some(Box::new(lanes));
            }
        }
        Ok(())
    }

    /// Whose request is it?
    #[inline]
    pub(crate) fn name_stream(&mut self, task: &mut Task, io: &DeviceIo) {
        if let Some(clients) = &mut self.clients
            && task.request.op != Op::Flush
        {
            let request = Request { object: task.volume, ..task.request };
            (task.stream, task.sequential) = clients.arrived(io.now(), &request);
        }
    }

    /// Whose share does a write of the engine's own spend, which a request needs? Nobody asked for it, so it
    /// does not count as delivered.
    pub(crate) fn name_own_write(&self, task: &mut Task) {
        if let Some(clients) = &self.clients {
            task.stream = clients.of(&Request { object: task.volume, ..task.request });
        }
    }

    /// A request of a stream has been answered.
    #[inline]
    pub(crate) fn count_delivered(&mut self, task: &Task, io: &DeviceIo) {
        if let Some(clients) = &mut self.clients
            && task.stream != NO_STREAM
        {
            let moves = matches!(task.request.op, Op::Read | Op::Write) && task.status.is_ok();
            let bytes = if moves { task.request.length_bytes } else { 0 };
            clients.answered(io.now(), task.stream, bytes);
        }
    }

    /// When a stream may go on that its limit, or somebody else's turn, holds back. On a drive that is
    /// full a command has to end first.
    #[inline]
    pub(crate) fn limits_due(&self, io: &DeviceIo) -> Instant {
        if self.clients.is_none() {
            return Instant::NEVER;
        }
        let depth = io.config().qos.depth;
        let is_left = |d: &Device| d.is_out() || d.is_faulted() && io.breaks(Mutant::ForgetsLimits);
        let held = |d: &Device| {
            let lanes = d.streams.as_ref().filter(|_| !is_left(d))?;
            let open = lanes.iter().enumerate().filter(|(lane, _)| d.lane_takes(*lane, depth));
            open.map(|(_, lane)| lane.queues.next_allowed()).min()
        };
        io.drives().iter().filter_map(held).min().unwrap_or(Instant::NEVER)
    }

    fn issue_taken(
        &self,
        (device, lane): (DeviceId, usize),
        (taken, candidate): (Taken, Candidate),
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let now = io.now();
        let (pick, tags, bytes) = (taken.pick, taken.tags, taken.waiting.bytes);
        io[device].queue.taken(bytes);
        let issued = requests.issue(device, taken.waiting, store, migration, self, io);
        let d = &mut io[device];
        let lanes = d.streams.as_mut().expect("as before");
        let queues = &mut lanes.lane(lane).queues;
        match issued {
            Issued::Sent => {
                let was_owed = matches!(candidate, Candidate::Due | Candidate::BackgroundDue);
                queues.done(now, pick, was_owed, tags, bytes);
                if let Pick::Stream { index, .. } = pick {
                    lanes.share_limit(lane, usize::from(index), now);
                }
                true
            }
            Issued::Left => {
                // nobody is charged for it here: no command of it will ever end
                queues.left(now, pick);
                true
            }
            Issued::NoRoom(waiting) => {
                queues.put_back(now, pick, tags, waiting);
                d.queue.put_back(bytes);
                // what is owed to others may follow background work that waits for space
                assert!(
                    matches!(pick, Pick::Stream { read: false, .. }),
                    "only writes of users wait for space"
                );
                false
            }
        }
    }

    fn dispatch_lane(
        &mut self,
        device: DeviceId,
        lane: usize,
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let now = io.now();
        let depth = io.config().qos.depth;
        let d = &mut io[device];
        let in_flight_background = d.queue.background_in_flight();
        let is_full = !d.lane_takes(lane, depth);
        let of_lane = d.streams.as_mut().expect("asked by the caller").lane(lane);
        let waits = of_lane.queues.waiting() > 0;
        if is_full || !waits {
            if of_lane.observed.stand(now, waits) {
                let config = Arc::clone(io.config());
                let lanes = io[device].streams.as_mut().expect("asked above");
                lanes.lane(lane).price(&config.qos);
            }
            return false;
        }
        let view: StreamsView = of_lane.queues.view(now, in_flight_background);
        let Some(candidate) = self.qos.next_stream(&view) else {
            of_lane.observed.stand(now, false);
            return false;
        };
        let taken = of_lane.queues.take(now, candidate);
        if self.issue_taken((device, lane), (taken, candidate), store, requests, migration, io) {
            return true;
        }
        let may_go = Beside {
            background_is_due: io[device].queue.background_is_overdue(),
            background_has_turn: self.qos.next_stream(&background_of(&view)).is_some(),
        };
        let Some(next) = beside_waiting_write(queues(device, lane, io), now, may_go) else {
            return false;
        };
        self.issue_taken((device, lane), next, store, requests, migration, io)
    }

    /// Issues the job that the order chooses. False: nothing can go now.
    pub(crate) fn dispatch_stream(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) -> bool {
        let d = &io[device];
        let lanes = d.streams.as_ref().map_or(0, |lanes| lanes.count());
        (0..lanes).any(|lane| self.dispatch_lane(device, lane, store, requests, migration, io))
    }
}

/// What may go where the first write has no room.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// Background work has waited for long enough.
    background_is_due: bool,
    /// The order would take it if nobody else waited.
    background_has_turn: bool,
}

/// The same, with background work alone.
fn background_of(view: &StreamsView) -> StreamsView {
    StreamsView {
        background: view.background,
        background_in_flight: view.background_in_flight,
        ..StreamsView::default()
    }
}

/// The job that goes while writes wait for room: a read, or background work. Reads that never end must not hold up the
/// work that makes room.
fn beside_waiting_write(
    queues: &mut Streams,
    now: Instant,
    may_go: Beside,
) -> Option<(Taken, Candidate)> {
    let background = |queues: &mut Streams| {
        queues.take_any_background().map(|work| (work, Candidate::BackgroundDue))
    };
    let due = if may_go.background_is_due { background(queues) } else { None };
    let first = due.or_else(|| queues.take_only(now, true).map(|read| (read, Candidate::Due)));
    first.or_else(|| if may_go.background_has_turn { background(queues) } else { None })
}

pub(crate) fn queues(device: DeviceId, lane: usize, io: &mut DeviceIo) -> &mut Streams {
    let d = &mut io[device];
    &mut d.streams.as_mut().expect("streams are told apart here").lane(lane).queues
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Job;
    use crate::io::pins::Pin;
    use crate::owner::LogIo;
    use crate::port::IoOp;
    use crate::qos::reserve::{QosConfig, Selector, StreamConfig};
    use tandem_block::StreamId;

    fn queues_with(read: bool, background: bool) -> Streams {
        let of = Selector::Stream(StreamId(0));
        let stream =
            StreamConfig { name: "s".into(), of, promise: None, weight: Some(1), limit: None };
        let config = QosConfig { streams: vec![stream], ..QosConfig::default() };
        let mut streams = Streams::new(&config, &[0], 1, None);
        let waiting = |sequence| {
            Waiting::new(sequence, 4096, Job::Io(IoOp::Flush, Owner::Log(LogIo::Flush)), Pin::NONE)
        };
        if read {
            let kind = Kind { read: true, sequential: false };
            streams.push(Instant::ZERO, 0, kind, 1_000, waiting(1));
        }
        if background {
            streams.push_background(Instant::ZERO, 1_000, waiting(2));
        }
        streams
    }

    #[test]
    fn reads_that_never_end_leave_a_turn_to_what_makes_room() {
        const READ: Option<Candidate> = Some(Candidate::Due);
        const BACKGROUND: Option<Candidate> = Some(Candidate::BackgroundDue);
        // ((a read waits, background work waits), (it is due, it has its turn), who goes)
        for ((read, background), (background_is_due, background_has_turn), wanted) in [
            ((true, true), (false, true), READ),
            ((true, true), (true, true), BACKGROUND),
            ((true, true), (true, false), BACKGROUND),
            ((true, false), (true, true), READ),
            ((false, true), (false, true), BACKGROUND),
            ((false, true), (false, false), None),
            ((false, false), (true, true), None),
        ] {
            let mut queues = queues_with(read, background);
            let may_go = Beside { background_is_due, background_has_turn };
            let next = beside_waiting_write(&mut queues, Instant::ZERO, may_go);
            let told = next.as_ref().map(|(_, candidate)| *candidate);
            assert_eq!(told, wanted, "{read} {background} {may_go:?}");
            let is_background = next.map(|(taken, _)| taken.pick == Pick::Background);
            assert_eq!(is_background, wanted.map(|who| who == Candidate::BackgroundDue));
        }
    }
}
