//! What happened when? A run cut into a few hundred spans of equal length, for plots.
//!
//! The length of a run is not known before its end, so spans begin at a millisecond and pairs of them
//! are merged whenever there are too many: memory is bounded, and every moment is in exactly one span.

use tandem_block::Instant;
use tandem_engine::bcw::controller::State;
use tandem_engine::device::Device;
use tandem_engine::stats::DeviceStats;

/// Spans at most; after a merge there are half as many.
const SPANS_MAX: usize = 512;
const FIRST_SPAN_NS: u64 = 1_000_000;

/// The states of a controller, in the order of `DeviceSpan::state_ns`.
pub const STATES: [(State, &str); 10] = [
    (State::Off, "off"),
    (State::Syncing, "syncing"),
    (State::Fast, "fast"),
    (State::Mid, "mid"),
    (State::Slow, "slow"),
    (State::Suspended, "suspended"),
    (State::Gc, "write-back, GC"),
    (State::Draining, "draining"),
    (State::Unreliable, "unreliable"),
    (State::Faulted, "faulted"),
];

/// One device in one span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpan {
    /// Queue length times time, in ns.
    pub depth_ns: u64,
    /// Longest queue.
    pub depth_max: u32,
    /// Time with a command in flight.
    pub busy_ns: u64,
    /// Time in each state of its controller, in the order of `STATES`; zeroes without one.
    pub state_ns: [u64; STATES.len()],
    /// Bytes that users wrote.
    pub user_bytes: u64,
    /// Bytes of padding.
    pub padding_bytes: u64,
    /// All bytes written.
    pub written_bytes: u64,
}

/// One span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// By device.
    pub devices: Vec<DeviceSpan>,
    /// Writes answered, their latencies together, and the longest, in ns.
    pub writes: (u64, u64, u64),
    /// The same of reads.
    pub reads: (u64, u64, u64),
}

/// How the devices stand.
#[derive(Clone, Debug, Default)]
struct Standing {
    depth: u32,
    in_flight: u32,
    state: Option<usize>,
    bytes: [u64; 3],
}

/// A run, span by span.
#[derive(Clone, Debug)]
pub struct Timeline {
    begin: Instant,
    span_ns: u64,
    spans: Vec<Span>,
    until: Instant,
    standing: Vec<Standing>,
    device_count: usize,
}

impl Timeline {
    /// Begins now, over so many devices.
    pub(super) fn new(now: Instant, devices: &[Device], stats: &[DeviceStats]) -> Timeline {
        let mut timeline = Timeline {
            begin: now,
            span_ns: FIRST_SPAN_NS,
            spans: Vec::with_capacity(SPANS_MAX),
            until: now,
            standing: vec![Standing::default(); devices.len()],
            device_count: devices.len(),
        };
        timeline.stand(devices, stats);
        timeline
    }

    /// Length of a span, in ns.
    pub fn span_ns(&self) -> u64 {
        self.span_ns
    }

    /// From the first to the last.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// So the devices stand at `now`; since the last call they stood as they were then.
    pub(super) fn sample(&mut self, now: Instant, devices: &[Device], stats: &[DeviceStats]) {
        self.pass(now);
        let at = self.index(now);
        let before: Vec<[u64; 3]> = self.standing.iter().map(|standing| standing.bytes).collect();
        self.stand(devices, stats);
        for (device, before) in before.into_iter().enumerate() {
            let bytes = self.standing[device].bytes;
            if bytes != before {
                let span = &mut self.span(at).devices[device];
                span.user_bytes += bytes[0] - before[0];
                span.padding_bytes += bytes[1] - before[1];
                span.written_bytes += bytes[2] - before[2];
            }
        }
    }

    /// A request was answered at `now`.
    pub(super) fn answered(&mut self, now: Instant, is_read: bool, latency_ns: u64) {
        self.pass(now);
        let at = self.index(now);
        let span = self.span(at);
        let (count, sum_ns, max_ns) = if is_read { &mut span.reads } else { &mut span.writes };
        *count += 1;
        *sum_ns += latency_ns;
        *max_ns = latency_ns.max(*max_ns);
    }

    fn stand(&mut self, devices: &[Device], stats: &[DeviceStats]) {
        for ((standing, device), stats) in self.standing.iter_mut().zip(devices).zip(stats) {
            let state = device.bcw.as_ref().map(|bcw| bcw.state());
            *standing = Standing {
                depth: device.queue.length(),
                in_flight: device.queue.in_flight(),
                state: state.and_then(|state| STATES.iter().position(|known| known.0 == state)),
                bytes: [stats.user_bytes, stats.padding_bytes, stats.written_bytes()],
            };
        }
    }

    /// Time goes on to `now`; it is shared among the spans that it crosses.
    fn pass(&mut self, now: Instant) {
        while self.until < now {
            let at = self.index(self.until);
            let span_end = self.begin.ns + (at as u64 + 1) * self.span_ns;
            let end = Instant::from_ns(span_end.min(now.ns));
            let ns = end.since(self.until).ns;
            self.until = end;
            let standing = std::mem::take(&mut self.standing);
            for (span, standing) in self.span(at).devices.iter_mut().zip(&standing) {
                span.depth_ns += u64::from(standing.depth) * ns;
                span.depth_max = span.depth_max.max(standing.depth);
                span.busy_ns += if standing.in_flight > 0 { ns } else { 0 };
                if let Some(state) = standing.state {
                    span.state_ns[state] += ns;
                }
            }
            self.standing = standing;
        }
    }

    /// The span of a moment; merges spans until there is room for it.
    fn index(&mut self, at: Instant) -> usize {
        loop {
            let index = at.since(self.begin).ns / self.span_ns;
            if index < SPANS_MAX as u64 {
                return index as usize;
            }
            self.merge();
        }
    }

    fn span(&mut self, index: usize) -> &mut Span {
        while self.spans.len() <= index {
            let devices = vec![DeviceSpan::default(); self.device_count];
            self.spans.push(Span { devices, ..Span::default() });
        }
        &mut self.spans[index]
    }

    fn merge(&mut self) {
        let halves = std::mem::take(&mut self.spans);
        self.spans = halves
            .chunks(2)
            .map(|pair| match pair {
                [one, other] => one.with(other),
                _ => pair[0].clone(),
            })
            .collect();
        self.span_ns *= 2;
    }
}

impl Span {
    fn with(&self, other: &Span) -> Span {
        let add = |a: (u64, u64, u64), b: (u64, u64, u64)| (a.0 + b.0, a.1 + b.1, a.2.max(b.2));
        let devices = self.devices.iter().zip(&other.devices).map(|(one, other)| one.with(other));
        Span {
            devices: devices.collect(),
            writes: add(self.writes, other.writes),
            reads: add(self.reads, other.reads),
        }
    }
}

impl DeviceSpan {
    fn with(&self, other: &DeviceSpan) -> DeviceSpan {
        DeviceSpan {
            depth_ns: self.depth_ns + other.depth_ns,
            depth_max: self.depth_max.max(other.depth_max),
            busy_ns: self.busy_ns + other.busy_ns,
            state_ns: std::array::from_fn(|i| self.state_ns[i] + other.state_ns[i]),
            user_bytes: self.user_bytes + other.user_bytes,
            padding_bytes: self.padding_bytes + other.padding_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One device whose queue is `depth` long from `at_ns` on.
    fn stand(timeline: &mut Timeline, at_ns: u64, depth: u32, written_bytes: u64) {
        let now = Instant::from_ns(at_ns);
        timeline.pass(now);
        let at = timeline.index(now);
        timeline.span(at).devices[0].written_bytes += written_bytes;
        timeline.standing[0] =
            Standing { depth, in_flight: depth, state: Some(2), ..Standing::default() };
    }

    #[test]
    fn every_moment_is_in_one_span_however_often_they_are_merged() {
        let mut timeline = Timeline {
            begin: Instant::ZERO,
            span_ns: FIRST_SPAN_NS,
            spans: Vec::new(),
            until: Instant::ZERO,
            standing: vec![Standing::default()],
            device_count: 1,
        };
        stand(&mut timeline, 500_000, 3, 10);
        stand(&mut timeline, 2_500_000, 1, 20);
        timeline.answered(Instant::from_ns(2_600_000), false, 7);
        assert_eq!(timeline.spans().len(), 3);
        let depths: Vec<u64> = timeline.spans().iter().map(|s| s.devices[0].depth_ns).collect();
        assert_eq!(depths, [1_500_000, 3_000_000, 1_500_000 + 100_000]);
        // an hour later there are no more spans than fit, and nothing is lost
        let hour_ns = 3_600_000_000_000;
        stand(&mut timeline, hour_ns, 0, 30);
        timeline.answered(Instant::from_ns(hour_ns), false, 9);
        assert!(timeline.spans().len() <= SPANS_MAX, "{}", timeline.spans().len());
        assert!(timeline.span_ns() > hour_ns / SPANS_MAX as u64);
        let sum = |part: fn(&DeviceSpan) -> u64| -> u64 {
            timeline.spans().iter().map(|span| part(&span.devices[0])).sum()
        };
        assert_eq!(sum(|d| d.written_bytes), 60);
        assert_eq!(sum(|d| d.depth_ns), 3 * 2_000_000 + (hour_ns - 2_500_000));
        assert_eq!(sum(|d| d.busy_ns), hour_ns - 500_000);
        assert_eq!(sum(|d| d.state_ns[2]), hour_ns - 500_000);
        let writes = timeline
            .spans()
            .iter()
            .fold((0, 0, 0), |a, s| (a.0 + s.writes.0, a.1 + s.writes.1, s.writes.2.max(a.2)));
        assert_eq!(writes, (2, 16, 9));
    }
}
