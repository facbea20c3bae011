//! What does one stream of requests get from a drive that serves nobody else?
//!
//! Source: models §4, whose data sheets are measured so, and §2 (the requests of DiskSim's validation).

use super::load::{ClosedLoop, LARGE, SECOND, percentile};
use tandem_block::{Drive, DriveOpKind, Rng};

/// Bytes of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The same for all.
    Fixed(u64),
    /// Exponentially distributed with this mean, and rounded up to whole steps.
    Exponential {
        /// The mean before it is rounded.
        mean_bytes: u64,
        /// One step.
        step_bytes: u64,
    },
}

impl Size {
    /// What places are multiples of.
    fn step_bytes(self) -> u64 {
        match self {
            Size::Fixed(bytes) => bytes,
            Size::Exponential { step_bytes, .. } => step_bytes,
        }
    }

    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Size::Fixed(bytes) => bytes,
            Size::Exponential { mean_bytes, step_bytes } => {
                rng.exponential(mean_bytes).div_ceil(step_bytes).max(1) * step_bytes
            }
        }
    }
}

/// Which requests, and how many at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStream {
    /// The share that read.
    pub reads_ppm: u64,
    /// The share that begin where the one before ended. They do what that one did.
    pub sequential_ppm: u64,
    /// The share that lie near the one before.
    pub local_ppm: u64,
    /// How near: the standard deviation of the distance.
    pub local_bytes: u64,
    /// Bytes of each.
    pub size: Size,
    /// Where its range begins.
    pub from_bytes: u64,
    /// How long that is.
    pub range_bytes: u64,
    /// So many at once.
    pub outstanding: usize,
    /// What passes between an answer and the request that follows it.
    pub think_ns: u64,
    /// It ends after so many …
    pub requests: u64,
    /// … or when this has passed.
    pub duration_ns: u64,
}

/// How long requests took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Requests.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// Nine in ten took no longer.
    pub p90_ns: u64,
    /// 99 in a hundred took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What a stream got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Requests a second, from the first request to the last answer.
    pub per_s: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Of all of them.
    pub all: Times,
    /// Of those that read.
    pub reads: Times,
    /// Of those that write.
    pub writes: Times,
}

impl Times {
    fn of(mut took_ns: Vec<u64>) -> Times {
        if took_ns.is_empty() {
            return Times::default();
        }
        let count = took_ns.len() as u64;
        Times {
            count,
            mean_ns: took_ns.iter().sum::<u64>() / count,
            p50_ns: percentile(&mut took_ns, 50),
            p90_ns: percentile(&mut took_ns, 90),
            p99_ns: percentile(&mut took_ns, 99),
            max_ns: percentile(&mut took_ns, 100),
        }
    }
}

/// Where the next request is, and what it does.
struct Requests<'a> {
    stream: &'a RequestStream,
    rng: Rng,
    /// The one before: whether it read, and where it ended.
    before: Option<(bool, u64)>,
}

impl Requests<'_> {
    /// Whether it reads, where it begins and how long it is.
    fn draw(&mut self) -> (bool, u64, u64) {
        let stream = self.stream;
        let bytes = stream.size.draw(&mut self.rng).min(stream.range_bytes);
        let end = stream.from_bytes + stream.range_bytes;
        let last = end - bytes;
        let step_bytes = stream.size.step_bytes();
        let kind = self.rng.below(1_000_000);
        let reads = self.rng.chance_ppm(stream.reads_ppm);
        let (reads, offset) = match self.before {
            Some((reads, at)) if kind < stream.sequential_ppm => {
                (reads, if at <= last { at } else { stream.from_bytes })
            }
            Some((_, at)) if kind < stream.sequential_ppm + stream.local_ppm => {
                let far = i128::from(self.rng.gauss_ppm()) * i128::from(stream.local_bytes);
                let at = i128::from(at) + far / 1_000_000;
                let at = at.clamp(i128::from(stream.from_bytes), i128::from(last));
                (reads, u64::try_from(at).expect("within the range"))
            }
            // a stream that is all in sequence begins at its beginning
            None if stream.sequential_ppm == 1_000_000 => (reads, stream.from_bytes),
            _ => (reads, stream.from_bytes + self.rng.below(last - stream.from_bytes + 1)),
        };
        let offset = stream.from_bytes + (offset - stream.from_bytes) / step_bytes * step_bytes;
        self.before = Some((reads, offset + bytes));
        (reads, offset, bytes)
    }
}

/// The drive after `bytes` were written in sequence from its beginning, and when that was done.
pub fn filled(drive: Box<dyn Drive>, bytes: u64) -> (Box<dyn Drive>, u64) {
    let mut rig = ClosedLoop::new(drive, 32);
    rig.fill_to(bytes.next_multiple_of(LARGE).min(rig.drive.capacity_bytes()));
    rig.rest(0);
    (rig.drive, rig.now_ns)
}

/// Sends the stream to the drive, which is at rest at `begin_ns`.
///
/// # Panics
/// If the stream's range is not on the drive, or its requests have no size.
pub fn measure(
    drive: Box<dyn Drive>,
    begin_ns: u64,
    stream: &RequestStream,
    seed: u64,
) -> Measured {
    let mut rig = ClosedLoop::new(drive, stream.outstanding).thinking(stream.think_ns);
    rig.now_ns = begin_ns;
    let mut requests = Requests { stream, rng: Rng::new(seed), before: None };
    let (mut of_reads, mut of_writes) = (Vec::new(), Vec::new());
    let (mut bytes, mut end_ns) = (0, begin_ns);
    for _ in 0..stream.requests {
        let (reads, offset_bytes, length_bytes) = requests.draw();
        let kind = if reads { DriveOpKind::Read } else { DriveOpKind::Write { fua: false } };
        let ack_ns = rig.submit(kind, offset_bytes, length_bytes);
        let took_ns = ack_ns - rig.now_ns;
        if reads {
            of_reads.push(took_ns)
        } else {
            of_writes.push(took_ns)
        }
        bytes += length_bytes;
        end_ns = end_ns.max(ack_ns);
        if end_ns - begin_ns >= stream.duration_ns {
            break;
        }
    }
    let elapsed_ns = u128::from((end_ns - begin_ns).max(1));
    let in_a_second = |amount: u64| {
        u64::try_from(u128::from(amount) * u128::from(SECOND) / elapsed_ns).unwrap_or(u64::MAX)
    };
    let all = Times::of(of_reads.iter().chain(&of_writes).copied().collect());
    Measured {
        per_s: in_a_second(all.count),
        bytes_per_s: in_a_second(bytes),
        all,
        reads: Times::of(of_reads),
        writes: Times::of(of_writes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load;
    use crate::{BuildOptions, SsdState, build};

    fn stream() -> RequestStream {
        RequestStream {
            reads_ppm: 1_000_000,
            sequential_ppm: 0,
            local_ppm: 0,
            local_bytes: 0,
            size: Size::Fixed(4096),
            from_bytes: 0,
            range_bytes: 1 << 30,
            outstanding: 1,
            think_ns: 0,
            requests: 10_000,
            duration_ns: u64::MAX,
        }
    }

    fn on(name: &str, ssd_state: SsdState, stream: &RequestStream) -> Measured {
        let options = BuildOptions {
            ssd_state,
            capacity_bytes: (name != "wd100efax").then_some(8_000_000_000),
            ..BuildOptions::default()
        };
        let drive = build(&load(name).expect("known"), options).expect("a drive");
        measure(drive, 0, stream, 1)
    }

    #[test]
    fn shares_are_as_asked_for() {
        let mixed = RequestStream {
            reads_ppm: 660_000,
            sequential_ppm: 200_000,
            local_ppm: 300_000,
            local_bytes: 50 << 10,
            size: Size::Exponential { mean_bytes: 2048, step_bytes: 2048 },
            ..stream()
        };
        let mut requests = Requests { stream: &mixed, rng: Rng::new(7), before: None };
        let (mut sequential, mut near, mut reads, mut bytes) = (0, 0, 0, 0);
        let mut end = 0;
        for _ in 0..10_000 {
            let (is_read, offset, length) = requests.draw();
            assert!(offset % 2048 == 0 && length % 2048 == 0 && offset + length <= 1 << 30);
            sequential += u64::from(offset == end);
            near += u64::from(offset != end && offset.abs_diff(end) < 300 << 10);
            reads += u64::from(is_read);
            bytes += length;
            end = offset + length;
        }
        // a near one may happen to be the next one, too
        assert!((1_900..2_250).contains(&sequential), "{sequential}");
        assert!((2_800..3_150).contains(&near), "{near}");
        assert!((6_450..6_750).contains(&reads), "{reads}");
        // the mean of a geometric number of steps: 2048 / (1 - 1/e)
        assert!((3_150..3_330).contains(&(bytes / 10_000)), "{bytes}");
    }

    #[test]
    fn a_hard_drive_reads_in_a_seek_and_half_a_turn() {
        let row = on("wd100efax", SsdState::Steady, &whole());
        assert_eq!((row.all, row.writes.count), (row.reads, 0));
        assert!((13_000_000..16_000_000).contains(&row.all.mean_ns), "{row:?}");
        assert!(row.all.p50_ns <= row.all.p90_ns && row.all.p99_ns <= row.all.max_ns);
        let per_s = SECOND / row.all.mean_ns;
        assert!(row.per_s.abs_diff(per_s) <= 1 && row.bytes_per_s / 4096 == row.per_s, "{row:?}");
    }

    /// The whole of a 10 TB drive.
    fn whole() -> RequestStream {
        RequestStream { range_bytes: 9_000_000_000_000, requests: 2_000, ..stream() }
    }

    #[test]
    fn thinking_leaves_latency_and_costs_rate() {
        let busy = on("960evo", SsdState::Steady, &stream());
        let quiet =
            on("960evo", SsdState::Steady, &RequestStream { think_ns: 1_000_000, ..stream() });
        assert_eq!(busy.all.p50_ns, quiet.all.p50_ns);
        assert!(quiet.per_s < 1_000 && busy.per_s > 10_000, "{busy:?} {quiet:?}");
    }

    #[test]
    fn a_stream_ends_with_its_time() {
        let short = RequestStream { duration_ns: SECOND / 10, requests: u64::MAX, ..stream() };
        let row = on("960evo", SsdState::Steady, &short);
        assert!((1_000..2_000).contains(&row.all.count), "{row:?}");
    }

    #[test]
    fn what_was_filled_is_read_from_the_flash() {
        let options = BuildOptions {
            ssd_state: SsdState::Fresh,
            capacity_bytes: Some(8_000_000_000),
            ..BuildOptions::default()
        };
        let drive = build(&load("960evo").expect("known"), options).expect("a drive");
        let nothing = measure(drive.fork(), 0, &stream(), 1);
        let (drive, at_ns) = filled(drive, 1 << 30);
        let held = measure(drive, at_ns, &stream(), 1);
        assert!(held.all.mean_ns > nothing.all.mean_ns + 50_000, "{nothing:?} {held:?}");
    }
}
