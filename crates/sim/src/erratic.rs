//! What is the worst drive that still keeps the rules? One that answers in any order and loses
//! everything that was not flushed.
//!
//! No model of anything: for finding lost data. Latencies are drawn per command, so commands overtake
//! each other; nothing settles by itself.

use tandem_block::{Drive, DriveOp, DriveOpKind, Duration, Instant, Outcome, Rng, Ticket};

/// An erratic drive.
#[derive(Clone, Debug)]
pub struct Erratic {
    capacity_bytes: u64,
    rng: Rng,
    latency_ns_max: u64,
    flush_ns_max: u64,
    serial: bool,
    free_at: Instant,
    tickets: u64,
    written_bytes: u64,
    tails: Tails,
}

/// Reads and writes, a few of them, that take far longer than all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tails {
    /// How many, in millionths.
    pub chance_ppm: u64,
    /// Their longest latency in ns; the shortest is a hundredth of it.
    pub latency_ns_max: u64,
}

impl Erratic {
    /// A drive of this size with the longest latencies of a command and of a flush; `serial` answers
    /// one command after the other, as hard drives do.
    pub fn new(capacity_bytes: u64, seed: u64, latency_ns: (u64, u64), serial: bool) -> Self {
        let (latency_ns_max, flush_ns_max) = latency_ns;
        Erratic {
            capacity_bytes,
            rng: Rng::new(seed),
            latency_ns_max,
            flush_ns_max,
            serial,
            free_at: Instant::ZERO,
            tickets: 0,
            written_bytes: 0,
            tails: Tails::default(),
        }
    }

    /// The same drive with some commands that take much longer.
    #[must_use]
    pub fn with_tails(mut self, tails: Tails) -> Self {
        self.tails = tails;
        self
    }

    /// How long a command takes, as if it were alone.
    fn latency(&mut self, kind: DriveOpKind) -> Duration {
        let longest =
            if kind == DriveOpKind::Flush { self.flush_ns_max } else { self.latency_ns_max };
        let usual = Duration::from_ns(self.rng.between(1_000, longest));
        let Tails { chance_ppm, latency_ns_max } = self.tails;
        if chance_ppm == 0 || kind == DriveOpKind::Flush || !self.rng.chance_ppm(chance_ppm) {
            return usual;
        }
        Duration::from_ns(self.rng.between(latency_ns_max / 100, latency_ns_max))
    }
}

impl Drive for Erratic {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        assert!(op.offset_bytes + op.length_bytes <= self.capacity_bytes, "beyond the drive");
        self.tickets += 1;
        let latency = self.latency(op.kind);
        let start = if self.serial { now.max(self.free_at) } else { now };
        let ack_at = start + latency;
        self.free_at = self.free_at.max(ack_at);
        let mut durable_at = None;
        match op.kind {
            DriveOpKind::Write { fua } => {
                self.written_bytes += op.length_bytes;
                durable_at = fua.then_some(ack_at);
            }
            DriveOpKind::Flush => self.written_bytes = 0,
            DriveOpKind::Read | DriveOpKind::Trim => {}
        }
        Outcome { ack_at, durable_at, status: Ok(()), ticket: Ticket(self.tickets) }
    }

    fn volatile_bytes(&mut self, _: Instant) -> u64 {
        u64::MAX
    }

    fn power_cycle(&mut self, now: Instant) {
        self.free_at = now;
        self.written_bytes = 0;
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}
