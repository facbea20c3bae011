//! What do the read-dominated and the mixed nodes of Pangu see, over which SeRW was tried?
//!
//! Source: [SERW slide "Pangu Workload"] (sizes, kinds of nodes), [SERW slide "SSD Written Data
//! Reduction"] (bytes written), [SERW slide "Motivation"] (chunk access counts), [SERW slide "Read
//! Performance"] (A1, B1 and B2 are the intense ones).
//!
//! Fitted: the written bytes of each node (34.9, 26.6, 44.9, 46.9 GB of 10^9); 93 % of the writes of
//! A nodes above 500 kB, 95 % of those of B nodes below 1 kB; of A's chunks more than 60 % are read
//! and more than 80 % written less than 10 times, of B's 80 % are read less than 10 times and 80 %
//! never written. Writes = bytes / mean size.
//! **Guess:** everything else, as the deck has no rates, durations or footprints: 600 s; reads/s (A1
//! 4,000, A2 1,000, B as many as writes); peaks of three times the mean; 64 MiB chunks over 192 GiB;
//! the shapes of the sizes; writes append to their chunk and begin anew when it is full. Whether the
//! nodes read what they have just written is not in the deck. [BCW §2.3] says of nodes of the same
//! service that who asks caches what is hot. With `places=apart` reads meet no write.

use super::settings::{Kind, Setting, Settings};
use super::sizes::Deck;
use super::timeline::{Bursts, Timeline, Within};
use super::{Generator, SynthError, Workload};
use tandem_block::{
    Arrival, BLOCK_BYTES, Instant, KIB, MIB, ObjectId, Op, RequestType, Rng, StreamId,
};

/// Guess.
pub(super) const CHUNK_BYTES: u64 = 64 * MIB;
/// Guess: 192 GiB, most of the 256 GB drive of the deck.
const CHUNKS: u64 = 3072;
const SECONDS: u64 = 600;
/// Mean accesses of a chunk that is rarely accessed: of a Poisson distribution with this mean, 99 %
/// are less than 10.
const RARE_ACCESSES: u64 = 4;
/// Sizes and their weights.
type Shape = &'static [(u64, u64)];

/// 93 % above 500 kB.
const LARGE_WRITES: Shape = &[
    (4 * KIB, 2),
    (64 * KIB, 3),
    (256 * KIB, 2),
    (512 * KIB, 30),
    (768 * KIB, 25),
    (1024 * KIB, 38),
];
/// 95 % below 1 kB, in whole sectors.
const SMALL_WRITES: Shape =
    &[(512, 950), (256 * KIB, 5), (512 * KIB, 10), (768 * KIB, 15), (1024 * KIB, 20)];
/// "A wide range".
const READS: Shape = &[
    (512, 6),
    (4 * KIB, 20),
    (8 * KIB, 12),
    (16 * KIB, 16),
    (32 * KIB, 12),
    (64 * KIB, 12),
    (128 * KIB, 10),
    (256 * KIB, 6),
    (512 * KIB, 4),
    (1024 * KIB, 2),
];

/// Mostly small ones: 14 % are of 64 KiB or more. **Guess**, near the read latencies of [SERW slide
/// "Motivation"]: a read of 64 KiB takes a modelled SM961 0.2 ms, and A nodes have a p90 of 0.3 ms.
const SMALL_READS: Shape = &[
    (512, 100),
    (4 * KIB, 340),
    (8 * KIB, 160),
    (16 * KIB, 160),
    (32 * KIB, 100),
    (64 * KIB, 80),
    (128 * KIB, 35),
    (256 * KIB, 17),
    (512 * KIB, 6),
    (1024 * KIB, 2),
];

struct Node {
    write_bytes: u64,
    write_sizes: Shape,
    /// `None`: as many as writes.
    reads_per_s: Option<u64>,
    /// Chunks that are read less than 10 times, in percent.
    rarely_read_percent: u64,
    /// Chunks that are written less than 10 times, in percent …
    rarely_written_percent: u64,
    /// … and how often on average.
    rare_writes: u64,
}

const A1: Node = Node {
    write_bytes: 34_900_000_000,
    write_sizes: LARGE_WRITES,
    reads_per_s: Some(4000),
    rarely_read_percent: 65,
    rarely_written_percent: 82,
    rare_writes: RARE_ACCESSES,
};
const A2: Node = Node { write_bytes: 26_600_000_000, reads_per_s: Some(1000), ..A1 };
const B1: Node = Node {
    write_bytes: 44_900_000_000,
    write_sizes: SMALL_WRITES,
    reads_per_s: None,
    rarely_read_percent: 80,
    rarely_written_percent: 80,
    rare_writes: 0,
};
const B2: Node = Node { write_bytes: 46_900_000_000, ..B1 };

pub(super) const NODE_A1: Generator = Generator {
    name: "serw-a1",
    summary: "a read-dominated Pangu node with large writes, intense: 10 min, 34.9 GB written",
    settings: SETTINGS,
    build: |settings, rng| A1.build(settings, rng),
};
pub(super) const NODE_A2: Generator = Generator {
    name: "serw-a2",
    summary: "a read-dominated Pangu node with large writes: 10 min, 26.6 GB written",
    settings: SETTINGS,
    build: |settings, rng| A2.build(settings, rng),
};
pub(super) const NODE_B1: Generator = Generator {
    name: "serw-b1",
    summary: "a mixed Pangu node with small writes, intense: 10 min, 44.9 GB written",
    settings: SETTINGS,
    build: |settings, rng| B1.build(settings, rng),
};
pub(super) const NODE_B2: Generator = Generator {
    name: "serw-b2",
    summary: "a mixed Pangu node with small writes, intense: 10 min, 46.9 GB written",
    settings: SETTINGS,
    build: |settings, rng| B2.build(settings, rng),
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "duration",
        default: "600s",
        kind: Kind::Time { least_ns: 1_000_000_000, most_ns: 86_400_000_000_000 },
        summary: "whole seconds; rates and mean size stay",
    },
    Setting {
        name: "rate",
        default: "100",
        kind: Kind::Count { least: 1, most: 1000 },
        summary: "requests per second, in percent of the node's; for the node's bytes, a duration of 600s / rate",
    },
    Setting {
        name: "peak",
        default: "3",
        kind: Kind::Count { least: 2, most: 100 },
        summary: "the rate in the busiest second, over the mean rate",
    },
    Setting {
        name: "reads",
        default: "wide",
        kind: Kind::Choice(&["wide", "small"]),
        summary: "sizes of reads, 512 B to 1 MiB: 34 % of 64 KiB or more, or 14 %",
    },
    Setting {
        name: "places",
        default: "any",
        kind: Kind::Choice(&["any", "apart"]),
        summary: "apart: what is read was not written in this run; of each chunk the first half is read, the second written",
    },
    Bursts::SETTING,
    Within::SETTING,
];

impl Node {
    fn build(&self, settings: &Settings, mut rng: Rng) -> Result<Workload, SynthError> {
        let seconds = settings.get("duration") / 1_000_000_000;
        let writes = self.write_bytes / mean(self.write_sizes);
        let reads = self.reads_per_s.map_or(writes, |per_s| per_s * SECONDS);
        let mean_per_s = ((writes + reads) / SECONDS * settings.get("rate") / 100).max(1);
        let read_sizes = if settings.get("reads") == 1 { SMALL_READS } else { READS };
        let rare = |percent: u64, accesses: u64, total: u64| Chunks {
            rare: (CHUNKS * percent).div_ceil(100),
            rare_ppm: (CHUNKS * percent).div_ceil(100) * accesses * 1_000_000 / total,
        };
        Ok(Workload::new(Requests {
            timeline: Timeline::new(
                seconds,
                (mean_per_s, mean_per_s * settings.get("peak")),
                Bursts::of(settings),
                1,
                Within::of(settings),
                rng.split(1),
            ),
            kinds: Deck::new(rng.split(2)),
            write_share_ppm: writes * 1_000_000 / (writes + reads),
            write_sizes: Drawn::new(self.write_sizes, rng.split(3)),
            read_sizes: Drawn::new(read_sizes, rng.split(4)),
            written: rare(self.rarely_written_percent, self.rare_writes, writes),
            read: rare(self.rarely_read_percent, RARE_ACCESSES, reads),
            ends: vec![0; CHUNKS as usize],
            read_bytes: CHUNK_BYTES >> settings.get("places"),
            rng: rng.split(5),
        }))
    }
}

fn mean(shape: Shape) -> u64 {
    let weights: u64 = shape.iter().map(|&(_, weight)| weight).sum();
    shape.iter().map(|&(size, weight)| size * weight).sum::<u64>() / weights
}

/// Sizes dealt so that even a short run has the shape's mean.
struct Drawn {
    shape: Shape,
    weights: u64,
    deck: Deck,
}

impl Drawn {
    fn new(shape: Shape, rng: Rng) -> Drawn {
        Drawn {
            shape,
            weights: shape.iter().map(|&(_, weight)| weight).sum(),
            deck: Deck::new(rng),
        }
    }

    fn draw(&mut self) -> u64 {
        let mut point = below(self.deck.draw(), self.weights);
        for &(size, weight) in self.shape {
            if point < weight {
                return size;
            }
            point -= weight;
        }
        unreachable!("the point is below the sum of the weights")
    }
}

/// A number below `bound` from uniform bits.
fn below(bits: u64, bound: u64) -> u64 {
    u64::try_from((u128::from(bits) * u128::from(bound)) >> 64).expect("below the bound")
}

/// Which chunks are accessed rarely, and how often one of these is next. Which ones is a permutation
/// of the chunks, so that reads and writes are not rare in the same places.
struct Chunks {
    rare: u64,
    rare_ppm: u64,
}

impl Chunks {
    /// `factor` has no divisor in common with `CHUNKS`.
    fn draw(&self, factor: u64, rng: &mut Rng) -> u64 {
        let rank = if rng.chance_ppm(self.rare_ppm) {
            rng.below(self.rare)
        } else {
            rng.between(self.rare, CHUNKS - 1)
        };
        rank * factor % CHUNKS
    }
}

/// Prime, and no divisor of `CHUNKS`, which is 2^10 times 3.
const READ_FACTOR: u64 = 1009;
const WRITE_FACTOR: u64 = 1783;

struct Requests {
    timeline: Timeline,
    kinds: Deck,
    write_share_ppm: u64,
    write_sizes: Drawn,
    read_sizes: Drawn,
    written: Chunks,
    read: Chunks,
    /// Where each chunk is appended to, from where its writes begin.
    ends: Vec<u64>,
    /// So much of each chunk is read, from its start. Where that is not all of it, the rest is written.
    read_bytes: u64,
    rng: Rng,
}

impl Iterator for Requests {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = Instant::from_ns(self.timeline.next()?);
        let is_write = below(self.kinds.draw(), 1_000_000) < self.write_share_ppm;
        let (op, length_bytes, chunk, within_bytes) = if is_write {
            let size_bytes = self.write_sizes.draw();
            let chunk = self.written.draw(WRITE_FACTOR, &mut self.rng);
            let begin = self.read_bytes % CHUNK_BYTES;
            let end = &mut self.ends[chunk as usize];
            let start = if begin + *end + size_bytes > CHUNK_BYTES { 0 } else { *end };
            *end = start + size_bytes;
            (Op::Write, size_bytes, chunk, begin + start)
        } else {
            let size_bytes = self.read_sizes.draw();
            let chunk = self.read.draw(READ_FACTOR, &mut self.rng);
            let places = (self.read_bytes - size_bytes) / BLOCK_BYTES + 1;
            (Op::Read, size_bytes, chunk, self.rng.below(places) * BLOCK_BYTES)
        };
        Some(Arrival {
            at,
            object: ObjectId(0),
            op,
            offset_bytes: chunk * CHUNK_BYTES + within_bytes,
            length_bytes,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        })
    }
}
