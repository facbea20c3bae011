//! Does the staircase have the paper's steps, and does the paper's predictor see them as well?
//!
//! Source: [BCW §3, §4.1 Alg. 1]; models §5.3.

use crate::hdd::{HddModel, Stage};
use crate::spec::{HddSpec, Ppm, Sourced};
use tandem_block::{Drive, DriveOp, DriveOpKind, Instant};

/// One row of models §5.3: a sequential stream of one write size at depth 1, jitter off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaircaseRow {
    /// Latency of a fast write.
    pub fast_ns: u64,
    /// Latency of a mid write.
    pub mid_ns: u64,
    /// Latency of a slow write.
    pub slow_ns: u64,
    /// Writes of the fast stage.
    pub fast_writes: u64,
    /// Writes of the first mid stage.
    pub mid_writes: u64,
    /// Over 200 MiB.
    pub bytes_per_s: u64,
}

fn write_at(offset: u64, bytes: u64) -> DriveOp {
    DriveOp { kind: DriveOpKind::Write { fua: false }, offset_bytes: offset, length_bytes: bytes }
}

const FLUSH: DriveOp = DriveOp { kind: DriveOpKind::Flush, offset_bytes: 0, length_bytes: 0 };

/// A sequential stream at depth 1 that calls back with each write's latency and state.
struct Stream {
    drive: HddModel,
    now: Instant,
    offset: u64,
}

impl Stream {
    fn new(spec: &HddSpec, seed: u64) -> Self {
        Stream { drive: HddModel::new(spec, seed, false), now: Instant::ZERO, offset: 0 }
    }

    fn write(&mut self, bytes: u64) -> (Stage, u64) {
        let outcome = self.drive.submit(self.now, write_at(self.offset, bytes));
        let latency = outcome.ack_at.since(self.now).ns;
        self.now = outcome.ack_at;
        self.offset += bytes;
        (self.drive.last_write_met().expect("it has just written"), latency)
    }

    fn flush(&mut self) {
        self.now = self.drive.submit(self.now, FLUSH).ack_at;
    }
}

/// The steps of one write size, without jitter.
pub fn staircase(spec: &HddSpec, bytes: u64) -> StaircaseRow {
    let source = "derived: jitter off for the table";
    let mut plain = spec.clone();
    for share in
        [&mut plain.fast_jitter, &mut plain.fast_bias, &mut plain.mid_jitter, &mut plain.mid_bias]
    {
        *share = Sourced::of(Ppm(0), source);
    }
    let mut stream = Stream::new(&plain, 1);
    let mut row = StaircaseRow {
        fast_ns: 0,
        mid_ns: 0,
        slow_ns: 0,
        fast_writes: 0,
        mid_writes: 0,
        bytes_per_s: 0,
    };
    let mut slow_writes = 0;
    while stream.offset < 200 << 20 {
        let (stage, latency) = stream.write(bytes);
        match stage {
            Stage::Fast => (row.fast_ns, row.fast_writes) = (latency, row.fast_writes + 1),
            Stage::Mid => {
                row.mid_ns = latency;
                row.mid_writes += u64::from(slow_writes == 1);
            }
            Stage::Slow => {
                row.slow_ns = latency;
                slow_writes += 1;
            }
        }
    }
    row.bytes_per_s =
        crate::rate::bytes_in(1_000_000_000, stream.offset * 1_000_000_000 / stream.now.ns);
    row
}

/// Thousandths of the mean number of writes in a (fast, mid) stage, jitter on, over `sequences` of
/// BCW's sequences: one fast stage and ten pairs of slow and mid [BCW §4.2].
pub fn stage_counts(spec: &HddSpec, bytes: u64, sequences: u64) -> (u64, u64) {
    const PAIRS: u64 = 10;
    let mut stream = Stream::new(spec, 1);
    let (mut fast, mut mid) = (0, 0);
    for _ in 0..sequences {
        stream.flush();
        let mut slow = 0;
        while slow <= PAIRS {
            match stream.write(bytes).0 {
                Stage::Fast => fast += 1,
                Stage::Mid => mid += 1,
                Stage::Slow => slow += 1,
            }
        }
    }
    (fast * 1000 / sequences, mid * 1000 / (sequences * PAIRS))
}

/// Writes by actual and predicted state, both in the order fast, mid, slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion(pub [[u64; 3]; 3]);

impl Confusion {
    /// Of the writes that were fast, mid, slow: the share predicted so, in hundredths of a percent.
    pub fn recall(&self) -> [u64; 3] {
        [0, 1, 2].map(|stage| {
            let all: u64 = self.0[stage].iter().sum();
            self.0[stage][stage] * 10_000 / all.max(1)
        })
    }
}

/// Paper: Algorithm 1 with nominal budgets and the strict comparison; `written` is ADW.
fn algorithm_1(spec: &HddSpec, state: Stage, written: u64, bytes: u64) -> Stage {
    let fits = |budget: u64| written + bytes < budget;
    match state {
        Stage::Fast if fits(spec.fast_stage.get().0) => Stage::Fast,
        Stage::Mid if fits(spec.mid_stage.get().0) => Stage::Mid,
        Stage::Slow => Stage::Mid,
        _ => Stage::Slow,
    }
}

/// The paper's experiment [BCW §4.1]: `syncs` rounds of a sync and 10^9 bytes of `bytes` writes,
/// predicted by the bare Algorithm 1.
pub fn predict(spec: &HddSpec, bytes: u64, syncs: u64, seed: u64) -> Confusion {
    let mut stream = Stream::new(spec, seed);
    let mut confusion = Confusion::default();
    for _ in 0..syncs {
        stream.flush();
        let (mut state, mut written) = (Stage::Fast, 0);
        for _ in 0..1_000_000_000 / bytes {
            let predicted = algorithm_1(spec, state, written, bytes);
            let (actual, _) = stream.write(bytes);
            confusion.0[actual as usize][predicted as usize] += 1;
            written = if actual == Stage::Slow { 0 } else { written + bytes };
            state = actual;
        }
    }
    confusion
}
