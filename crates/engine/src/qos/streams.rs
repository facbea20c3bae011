//! What waits for one drive, by stream, and who of them could go next?
//!
//! Source: [IANUS §4.2]: `D_s = T_s + e/u`, where `e` is the cost of a request, `u` the stream's
//! share and `T_s` the sum of its deadlines so far; requirements B9: `T_s = max(T_s, now)` when a
//! request finds nothing of its stream outstanding, so that a stream that paused gains no credit; what
//! the drive owed it when it paused (`tags`) it keeps, for a window of its promise: else those with the
//! longest queues would win whenever the drive is late. What is served in the slack leaves `T_s`
//! alone. Slack is shared by start-time fair queueing: cost over weight. Deadlines belong to the first request of
//! each stream; trees keep the candidates, so that a thousand streams cost no more than ten levels.

mod audit;

use super::StreamsView;
use super::cost::Kind;
use super::reserve::{BACKGROUND_WEIGHT, QosConfig, Rate, WEIGHT, WHOLE_PPB};
use super::tags::Tags;
use super::tree::{ABSENT, Tree};
use super::{Apart, Candidate, delivery::StreamIndex};
use crate::job::Waiting;
use std::collections::VecDeque;
use tandem_block::Instant;

/// A limit forgives being late by so much: timers are not exact.
const LATE_NS: u64 = 10_000_000;

/// Whose turn it is keeps it for so long while none of its requests waits: the next may be under way
/// (guess; FIOS anticipates likewise).
const GRACE_NS: u64 = 5_000_000;

/// One waiting request.
#[derive(Clone, Debug)]
struct Entry {
    waiting: Waiting,
    cost_ns: u64,
    /// Which slice it belongs to, where requests are served apart.
    side: Option<bool>,
}

/// What is served apart from what, and whose turn it is.
#[derive(Clone, Copy, Debug)]
struct Turn {
    apart: Apart,
    side: bool,
    until_ns: u64,
    /// Nobody of this side has waited since then.
    empty_since_ns: u64,
    waiting: [u32; 2],
}

impl Turn {
    /// When it ends, if nothing happens before; `NEVER` while nobody waits for it.
    fn ends_ns(&self) -> u64 {
        if self.waiting[usize::from(!self.side)] == 0 {
            return ABSENT;
        }
        if self.waiting[usize::from(self.side)] > 0 {
            return self.until_ns;
        }
        self.until_ns.min(self.empty_since_ns.saturating_add(GRACE_NS))
    }
}

/// One stream.
#[derive(Clone, Debug)]
struct Stream {
    reads: VecDeque<Entry>,
    writes: VecDeque<Entry>,
    tags: Tags,
    /// Jobs in the drive.
    in_flight: u32,
    /// Has it a weight of its own? Otherwise it is served after those that have.
    is_weighted: bool,
    limit: Option<Rate>,
    /// Its limit holds it back until then.
    allowed_ns: u64,
}

/// Who was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A stream, and whether its first read or its first write.
    Stream {
        /// Which.
        index: StreamIndex,
        /// A read?
        read: bool,
    },
    /// Background work.
    Background,
}

/// A job on its way to the drive; it is given back if it has to wait after all.
#[derive(Debug)]
pub struct Taken {
    /// Whose.
    pub pick: Pick,
    /// The job.
    pub waiting: Waiting,
    /// For `done` and `put_back`.
    pub tags: JobTags,
}

/// What counts of a job beside the job itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTags {
    cost_ns: u64,
    side: Option<bool>,
}

/// Everything that waits for one drive.
#[derive(Clone, Debug)]
pub struct Streams {
    list: Vec<Stream>,
    background: VecDeque<Entry>,
    background_tags: Tags,
    /// Streams whose share is not owed to them yet, by when it will be.
    future: Tree,
    /// Streams whose share is owed, by deadline.
    due: Tree,
    /// Streams with a weight, by what they have had of the slack.
    weighted: Tree,
    /// Reserved streams without one, by what they have had beyond their share.
    ahead: Tree,
    /// Streams that a limit holds back, by until when.
    held: Tree,
    /// What the last one had that was served in the slack: weighted, ahead.
    slack_now: [u64; 2],
    turn: Option<Turn>,
    waiting: u32,
    waiting_reads: u32,
}

impl Streams {
    /// Nothing waits. `shares_ppb` has one for each stream of the configuration. Limits are divided
    /// among `drives`, which each keep their own account. Perhaps some requests are served apart.
    pub fn new(
        config: &QosConfig,
        shares_ppb: &[u64],
        drives: u64,
        apart: Option<Apart>,
    ) -> Streams {
        assert!(
            shares_ppb.len() == config.streams.len(),
            "each stream has its entry among the shares"
        );
        assert!(drives > 0, "the drive that streams wait for is one of those that share a limit");
        let mut list: Vec<Stream> = config
            .streams
            .iter()
            .zip(shares_ppb)
            .map(|(stream, share_ppb)| {
                // without a weight: in proportion to the share
                let weight = match stream.weight {
                    Some(weight) => u64::from(weight),
                    None if *share_ppb == 0 => u64::from(WEIGHT),
                    None => (share_ppb * 1000 / WHOLE_PPB).max(1),
                };
                let divided = |limit| match limit {
                    Rate::Requests(count) => Rate::Requests((count / drives).max(1)),
                    Rate::Bytes(bytes) => Rate::Bytes((bytes / drives).max(1)),
                };
                Stream {
                    tags: Tags {
                        share_ppb: *share_ppb,
                        weight,
                        window_ns: stream.promise.map_or(0, |promise| promise.window.ns),
                        ..Tags::default()
                    },
                    is_weighted: stream.weight.is_some() || *share_ppb == 0,
                    limit: stream.limit.map(divided),
                    ..Stream::others()
                }
            })
            .collect();
        list.push(Stream::others());
        let count = list.len();
        Streams {
            list,
            background: VecDeque::new(),
            background_tags: Tags {
                share_ppb: config.background_ppb,
                weight: u64::from(BACKGROUND_WEIGHT),
                ..Tags::default()
            },
            future: Tree::new(count),
            due: Tree::new(count),
            weighted: Tree::new(count),
            ahead: Tree::new(count),
            held: Tree::new(count),
            slack_now: [0; 2],
            turn: apart.map(|apart| Turn {
                apart,
                side: true,
                until_ns: 0,
                empty_since_ns: 0,
                waiting: [0; 2],
            }),
            waiting: 0,
            waiting_reads: 0,
        }
    }

    /// Gives a stream another share: what its requests cost has changed.
    pub(crate) fn set_share(&mut self, index: usize, share_ppb: u64) {
        assert!(share_ppb > 0, "a promise has some share of the drive");
        self.list[index].tags.share_ppb = share_ppb;
    }

    /// Until when its limit holds a stream back, in ns; `None` without a limit.
    pub(crate) fn held_until(&self, index: usize) -> Option<u64> {
        let stream = &self.list[index];
        stream.limit.map(|_| stream.allowed_ns)
    }

    /// Its limit holds a stream back until then at least, for what it was given elsewhere.
    pub(crate) fn hold(&mut self, index: usize, until_ns: u64, now: Instant) {
        assert!(self.list[index].limit.is_some(), "only a limit holds a stream back");
        let allowed_ns = &mut self.list[index].allowed_ns;
        *allowed_ns = until_ns.max(*allowed_ns);
        self.refresh(index, now);
    }

    /// Jobs that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Users' reads among them.
    pub(crate) fn waiting_reads(&self) -> u32 {
        self.waiting_reads
    }

    /// Adds a user's job of this cost.
    #[inline]
    pub fn push(
        &mut self,
        now: Instant,
        index: StreamIndex,
        kind: Kind,
        cost_ns: u64,
        waiting: Waiting,
    ) {
        let read = kind.read;
        let side = self.turn.and_then(|turn| turn.apart.side(read, kind.sequential));
        self.enters(read, side);
        let slack_now = self.slack_now;
        let stream = &mut self.list[usize::from(index)];
        let was_empty = stream.is_empty();
        let entry = Entry { waiting, cost_ns, side };
        let queue = if read { &mut stream.reads } else { &mut stream.writes };
        assert!(
            queue.back().is_none_or(|last| last.waiting.sequence < entry.waiting.sequence),
            "jobs of a stream wait in the order in which they came"
        );
        queue.push_back(entry);
        if was_empty {
            let tags = &mut stream.tags;
            tags.slack = tags.slack.max(slack_now[usize::from(!stream.is_weighted)]);
            if stream.in_flight == 0 {
                tags.resume(now.ns);
            }
        }
        // where requests are served apart, another than the first may be the one whose turn it is
        if was_empty || self.turn.is_some() {
            self.refresh(usize::from(index), now);
        }
    }

    #[inline]
    fn enters(&mut self, read: bool, side: Option<bool>) {
        self.waiting += 1;
        self.waiting_reads += u32::from(read);
        if let (Some(turn), Some(side)) = (&mut self.turn, side) {
            turn.waiting[usize::from(side)] += 1;
        }
    }

    #[inline]
    fn leaves(&mut self, now_ns: u64, read: bool, side: Option<bool>) {
        assert!(
            self.waiting > 0 && self.waiting_reads >= u32::from(read),
            "a job that leaves was counted as waiting"
        );
        self.waiting -= 1;
        self.waiting_reads -= u32::from(read);
        if let (Some(turn), Some(side)) = (&mut self.turn, side) {
            assert!(turn.waiting[usize::from(side)] > 0, "it was counted for its side");
            turn.waiting[usize::from(side)] -= 1;
            assert!(
                turn.waiting[0] + turn.waiting[1] <= self.waiting,
                "both sides are counted among all that waits"
            );
            if side == turn.side {
                turn.empty_since_ns = now_ns;
            }
        }
    }

    /// Adds background work of this cost.
    pub(crate) fn push_background(&mut self, now: Instant, cost_ns: u64, waiting: Waiting) {
        self.waiting += 1;
        if self.background.is_empty() {
            let tags = &mut self.background_tags;
            tags.slack = tags.slack.max(self.slack_now[0]);
            tags.total_ns = tags.total_ns.max(now.ns);
        }
        self.background.push_back(Entry { waiting, cost_ns, side: None });
    }

    /// Who could go next, at `now`.
    #[inline]
    pub fn view(&mut self, now: Instant, background_in_flight: u32) -> StreamsView {
        self.advance(now);
        let (mut background_due, mut background) = (None, None);
        if let Some(first) = self.background.front() {
            background = Some(self.background_tags.slack);
            if self.background_tags.share_ppb > 0 {
                let (start, deadline) = self.background_tags.deadline(now.ns, first.cost_ns);
                background_due = (start <= now.ns).then(|| Instant::from_ns(deadline));
            }
        }
        StreamsView {
            due: self.due.least().map(Instant::from_ns),
            weighted: self.weighted.least(),
            ahead: self.ahead.least(),
            background_due,
            background,
            background_in_flight,
        }
    }

    /// When a stream may go on that its limit, or somebody else's turn, holds back.
    pub(crate) fn next_allowed(&self) -> Instant {
        let turn = self.turn.map_or(ABSENT, |turn| turn.ends_ns());
        Instant::from_ns(self.held.least().unwrap_or(ABSENT).min(turn))
    }

    /// Takes the job that an order chose; nobody else is taken before it is `done` or `put_back`.
    ///
    /// # Panics
    /// If there is no such candidate.
    #[inline]
    pub fn take(&mut self, now: Instant, candidate: Candidate) -> Taken {
        let tree = match candidate {
            Candidate::Due => &self.due,
            Candidate::Weighted => &self.weighted,
            Candidate::Ahead => &self.ahead,
            Candidate::BackgroundDue | Candidate::Background => return self.take_background(),
        };
        let index = tree.winner().expect("an order chooses among those it was shown");
        let stream = &self.list[index];
        assert!(stream.first(self.side()).is_some(), "who is chosen waits, and may go now");
        let read = stream.reads_first(self.side());
        self.take_from(now, index, read)
    }

    /// Whose turn it is.
    #[inline]
    fn side(&self) -> Option<bool> {
        self.turn.map(|turn| turn.side)
    }

    /// The first read of all streams, or the first write, where the others have to wait: for space, or
    /// for a leg of a pair. In the order of arrival.
    pub(crate) fn take_only(&mut self, now: Instant, read: bool) -> Option<Taken> {
        let open = |stream: &Stream| stream.limit.is_none() || stream.allowed_ns <= now.ns;
        let first = |(index, stream): (usize, &Stream)| {
            let queue = if read { &stream.reads } else { &stream.writes };
            let entry = queue.front().filter(|_| open(stream))?;
            Some((entry.waiting.sequence, index))
        };
        let (_, index) = self.list.iter().enumerate().filter_map(first).min()?;
        Some(self.take_from(now, index, read))
    }

    /// The first background job.
    pub(crate) fn take_any_background(&mut self) -> Option<Taken> {
        (!self.background.is_empty()).then(|| self.take_background())
    }

    /// Any job at all, for a drive that is dead.
    pub(crate) fn take_any(&mut self, now: Instant) -> Option<Taken> {
        let index = self.list.iter().position(|stream| !stream.is_empty());
        match index {
            Some(index) => {
                let read = self.list[index].reads_first(None);
                Some(self.take_from(now, index, read))
            }
            None => self.take_any_background(),
        }
    }

    fn take_background(&mut self) -> Taken {
        assert!(
            self.waiting as usize >= self.background.len(),
            "background work is counted among all that waits"
        );
        let entry = self.background.pop_front().expect("background work waits");
        self.waiting -= 1;
        let Entry { waiting, cost_ns, side } = entry;
        Taken { pick: Pick::Background, waiting, tags: JobTags { cost_ns, side } }
    }

    #[inline]
    fn take_from(&mut self, now: Instant, index: usize, read: bool) -> Taken {
        let stream = &mut self.list[index];
        let queue = if read { &mut stream.reads } else { &mut stream.writes };
        let Entry { waiting, cost_ns, side } = queue.pop_front().expect("it waits");
        self.leaves(now.ns, read, side);
        let pick = Pick::Stream { index: index as StreamIndex, read };
        Taken { pick, waiting, tags: JobTags { cost_ns, side } }
    }

    /// The job has to wait after all: it is the first again.
    pub(crate) fn put_back(&mut self, now: Instant, pick: Pick, tags: JobTags, waiting: Waiting) {
        let JobTags { cost_ns, side } = tags;
        let entry = Entry { waiting, cost_ns, side };
        match pick {
            Pick::Background => {
                self.waiting += 1;
                self.background.push_front(entry);
            }
            Pick::Stream { index, read } => {
                self.enters(read, side);
                let stream = &mut self.list[usize::from(index)];
                let queue = if read { &mut stream.reads } else { &mut stream.writes };
                assert!(
                    queue.front().is_none_or(|next| entry.waiting.sequence < next.waiting.sequence),
                    "what goes back to its place came before all others"
                );
                queue.push_front(entry);
                self.refresh(usize::from(index), now);
            }
        }
    }

    /// The job has been sent. It counts against the stream's share where that was owed, else as slack.
    #[inline]
    pub fn done(&mut self, now: Instant, pick: Pick, was_owed: bool, tags: JobTags, bytes: u64) {
        let JobTags { cost_ns, .. } = tags;
        match pick {
            Pick::Background => {
                let own = &mut self.background_tags;
                // while writes wait for space it goes as what is owed, also where it has no share
                if was_owed && own.share_ppb > 0 {
                    own.total_ns = own.deadline(now.ns, cost_ns).1;
                } else {
                    self.slack_now[0] = self.slack_now[0].max(own.slack);
                    own.charge_slack(cost_ns);
                }
            }
            Pick::Stream { index, .. } => {
                let stream = &mut self.list[usize::from(index)];
                stream.in_flight += 1;
                if was_owed && stream.tags.share_ppb > 0 {
                    stream.tags.total_ns = stream.tags.deadline(now.ns, cost_ns).1;
                } else {
                    let slack_now = &mut self.slack_now[usize::from(!stream.is_weighted)];
                    *slack_now = (*slack_now).max(stream.tags.slack);
                    if stream.is_weighted {
                        stream.tags.charge_slack(cost_ns);
                    } else {
                        // as its deadlines would go on: e/u
                        let (start, end) = stream.tags.deadline(now.ns, cost_ns);
                        let slack = &mut stream.tags.slack;
                        *slack = slack.saturating_add(end - start).min(ABSENT - 1);
                    }
                }
                if let Some(limit) = stream.limit {
                    let from_ns = stream.allowed_ns.max(now.ns.saturating_sub(LATE_NS));
                    stream.allowed_ns = from_ns.saturating_add(limit.interval_ns(bytes));
                }
                self.refresh(usize::from(index), now);
            }
        }
    }

    /// The job left the queue without a command: nothing is charged.
    pub(crate) fn left(&mut self, now: Instant, pick: Pick) {
        if let Pick::Stream { index, .. } = pick {
            self.refresh(usize::from(index), now);
        }
    }

    /// A job of a stream has left the drive.
    #[inline]
    pub(crate) fn completed(&mut self, now: Instant, index: StreamIndex) {
        let stream = &mut self.list[usize::from(index)];
        // a job may be several commands
        stream.in_flight = stream.in_flight.saturating_sub(1);
        stream.tags.asked_ns = now.ns;
    }

    /// What time alone has changed.
    #[inline]
    fn advance(&mut self, now: Instant) {
        if self.turn.is_some_and(|turn| turn.ends_ns() <= now.ns) {
            self.next_turn(now);
        }
        while self.future.least().is_some_and(|at| at <= now.ns) {
            let index = self.future.winner().expect("just seen");
            self.refresh(index, now);
        }
        while self.held.least().is_some_and(|at| at <= now.ns) {
            let index = self.held.winner().expect("just seen");
            self.refresh(index, now);
        }
    }

    #[cold]
    fn next_turn(&mut self, now: Instant) {
        let turn = self.turn.as_mut().expect("asked by the caller");
        turn.side = !turn.side;
        turn.until_ns = now.ns + turn.apart.slice_ns[usize::from(turn.side)];
        turn.empty_since_ns = ABSENT;
        for index in 0..self.list.len() {
            self.refresh(index, now);
        }
    }

    /// The keys of a stream follow from its first request.
    #[inline]
    fn refresh(&mut self, index: usize, now: Instant) {
        let stream = &self.list[index];
        let (mut future, mut due, mut weighted, mut ahead, mut held) =
            (ABSENT, ABSENT, ABSENT, ABSENT, ABSENT);
        if let Some(first) = stream.first(self.side()) {
            if stream.limit.is_some() && stream.allowed_ns > now.ns {
                held = stream.allowed_ns;
            } else {
                if stream.tags.share_ppb > 0 {
                    let (start, deadline) = stream.tags.deadline(now.ns, first.cost_ns);
                    if start <= now.ns { due = deadline } else { future = start }
                }
                if stream.is_weighted {
                    weighted = stream.tags.slack;
                } else {
                    ahead = stream.tags.slack;
                }
            }
        }
        self.future.set(index, future);
        self.due.set(index, due);
        self.weighted.set(index, weighted);
        self.ahead.set(index, ahead);
        self.held.set(index, held);
    }
}

impl Stream {
    /// A stream without promise, weight of its own or limit.
    fn others() -> Stream {
        Stream {
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            tags: Tags { weight: u64::from(WEIGHT), ..Tags::default() },
            in_flight: 0,
            is_weighted: true,
            limit: None,
            allowed_ns: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// Is its first job a read? Of those whose turn it is, if any.
    #[inline]
    fn reads_first(&self, side: Option<bool>) -> bool {
        let read = self.reads.front().filter(|entry| entry.may_go(side));
        match (read, self.writes.front().filter(|entry| entry.may_go(side))) {
            (Some(read), Some(write)) => read.waiting.sequence < write.waiting.sequence,
            (read, None) if read.is_none() => self.writes.is_empty(),
            (read, _) => read.is_some(),
        }
    }

    #[inline]
    fn first(&self, side: Option<bool>) -> Option<&Entry> {
        let queue = if self.reads_first(side) { &self.reads } else { &self.writes };
        queue.front().filter(|entry| entry.may_go(side))
    }
}

impl Entry {
    #[inline]
    fn may_go(&self, side: Option<bool>) -> bool {
        side.is_none() || self.side.is_none() || self.side == side
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
