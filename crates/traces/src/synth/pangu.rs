//! What do the four storage nodes of Alibaba's Pangu see?
//!
//! Source: [BCW §2.3, Table 1]; models 3.3. The table contradicts itself: rate x time x mean size is
//! not its bytes (1.6 to 1.8 times off for A, C and D). **Reading taken:** bytes, duration and the
//! two rates hold; requests = mean rate x duration; mean size = bytes / requests (A 32.0, B 17.0,
//! C 2.6, D 2.5 kB where the table says 56.0, 17.7, 4.2, 4.1). GB are 10^9 bytes. The share of
//! writes among the requests is that among the bytes, held within the 77 to 95 % of the text
//! (only B's 97.4 % is outside).
//!
//! With `sizes=by-intensity` the table's mean size holds, too: as the mean over seconds. Bursts then
//! have smaller writes, in kB: A 8.3 and 57.7 in quiet seconds, B 16.7 and 18.4, C 1.07 and 4.8,
//! D 0.95 and 4.7. These means are solved for each run from its own plan of bursts (`intensity`).
//! Those of quiet seconds are greater with `bursts=tailed`, which has more seconds of bursts.
//! Reads and writes have the proportion of the table's two means, which are of both.
//!
//! Sizes: `sizes`. Arrivals: `timeline`. Offsets: 70 % of the writes append to 64 files of 1 GiB,
//! which begin anew when full; 30 % are zipf 0.9 over 64 GiB before the files. Reads: the same
//! shares, from what has been appended and from the 64 GiB; with `reads=cold` uniform over as many
//! GiB that the run never writes: hot data is cached by those who ask [BCW §2.3]. **Guess:** all of this but the table's
//! numbers, the 10 KiB quantile and the 1 MiB maximum.

use super::intensity::{ByIntensity, Means};
use super::scatter::Scatter;
use super::settings::{Kind, Setting, Settings};
use super::sizes::{Deck, Sizes};
use super::timeline::{Bursts, Timeline, Within};
use super::{Generator, SynthError, Workload};
use tandem_block::{
    Arrival, BLOCK_BYTES, GIB, Instant, MIB, ObjectId, Op, RequestType, Rng, StreamId, TIB,
};

/// One row of Table 1.
struct Node {
    seconds: u64,
    write_bytes: u64,
    read_bytes: u64,
    mean_per_s: u64,
    peak_per_s: u64,
    /// "Avg. Req. Size", read as the mean over seconds of each second's mean size.
    over_seconds_bytes: u64,
}

const MEGABYTE: u64 = 1_000_000;

/// Cloud computing.
pub(super) const A: Generator = Generator {
    name: "pangu-a",
    summary: "a Pangu node for cloud computing: 45 min, 0.23 thousand requests/s, bursts of 3.4",
    settings: &settings("2700s"),
    build: |settings, rng| Node::build(&NODE_A, settings, rng),
};
const NODE_A: Node = Node {
    seconds: 45 * 60,
    write_bytes: 18_500 * MEGABYTE,
    read_bytes: 1_400 * MEGABYTE,
    mean_per_s: 230,
    peak_per_s: 3_400,
    over_seconds_bytes: 56_000,
};

/// Cloud storage.
pub(super) const B: Generator = Generator {
    name: "pangu-b",
    summary: "a Pangu node for cloud storage: 30 min, 2.5 thousand requests/s, bursts of 9.3",
    settings: &settings("1800s"),
    build: |settings, rng| Node::build(&NODE_B, settings, rng),
};
const NODE_B: Node = Node {
    seconds: 30 * 60,
    write_bytes: 74_400 * MEGABYTE,
    read_bytes: 2_000 * MEGABYTE,
    mean_per_s: 2_500,
    peak_per_s: 9_300,
    over_seconds_bytes: 17_700,
};

/// Structured storage.
pub(super) const C: Generator = Generator {
    name: "pangu-c",
    summary: "a Pangu node for structured storage: 30 min, 2.7 thousand requests/s, bursts of 9.6",
    settings: &settings("1800s"),
    build: |settings, rng| Node::build(&NODE_C, settings, rng),
};
const NODE_C: Node = Node {
    seconds: 30 * 60,
    write_bytes: 10_700 * MEGABYTE,
    read_bytes: 2_100 * MEGABYTE,
    mean_per_s: 2_700,
    peak_per_s: 9_600,
    over_seconds_bytes: 4_200,
};

/// Structured storage.
pub(super) const D: Generator = Generator {
    name: "pangu-d",
    summary: "a Pangu node for structured storage: 26 min, 3 thousand requests/s, bursts of 11.1",
    settings: &settings("1560s"),
    build: |settings, rng| Node::build(&NODE_D, settings, rng),
};
const NODE_D: Node = Node {
    seconds: 26 * 60,
    write_bytes: 10_100 * MEGABYTE,
    read_bytes: 1_700 * MEGABYTE,
    mean_per_s: 3_000,
    peak_per_s: 11_100,
    over_seconds_bytes: 4_100,
};

/// One file's room; the appends begin anew when it is full (guess).
const FILE_BYTES: u64 = GIB;
/// The text's bounds for the share of writes among the requests [BCW §2.3].
const WRITE_SHARE_PPM: std::ops::RangeInclusive<u64> = 770_000..=950_000;

const fn settings(duration: &'static str) -> [Setting; 12] {
    [
        Setting {
            name: "duration",
            default: duration,
            kind: Kind::Time { least_ns: 1_000_000_000, most_ns: 86_400_000_000_000 },
            summary: "whole seconds; the default is the paper's, rates and mean size stay",
        },
        Setting {
            name: "share",
            default: "100%",
            kind: Kind::Share,
            summary: "how much of the duration is made",
        },
        Setting {
            name: "theta",
            default: "0.9",
            kind: Kind::Exponent,
            summary: "popularity of the blocks that are not appended to",
        },
        Setting {
            name: "footprint",
            default: "64GiB",
            kind: Kind::Bytes { least: MIB, most: 64 * TIB },
            summary: "where those blocks lie; the files follow after it",
        },
        Setting {
            name: "files",
            default: "64",
            kind: Kind::Count { least: 1, most: 65_536 },
            summary: "files that are appended to, 1 GiB each",
        },
        Setting {
            name: "append_share",
            default: "70%",
            kind: Kind::Share,
            summary: "how many of the writes append",
        },
        Setting {
            name: "group",
            default: "1",
            kind: Kind::Count { least: 1, most: 10_000 },
            summary: "how many requests of a burst come at the same instant",
        },
        Within::SETTING,
        Bursts::SETTING,
        Setting {
            name: "reads",
            default: "written",
            kind: Kind::Choice(&["written", "cold"]),
            summary: "what is read: what the run writes, or blocks that it never writes, because what is \
                      hot is cached by those who ask",
        },
        Setting {
            name: "largest",
            default: "1MiB",
            kind: Kind::Choice(&["1MiB", "2MiB"]),
            summary: "largest request: 1MiB, as in the text, or 2MiB, as the groups of Figs 9 and 13",
        },
        Setting {
            name: "sizes",
            default: "mixed",
            kind: Kind::Choice(&["mixed", "by-intensity"]),
            summary: "request sizes: the same in bursts and in quiet seconds, or each with a mean of its own",
        },
    ]
}

impl Node {
    /// Requests among which `Table 1` counts the bytes.
    const fn requests(&self) -> u64 {
        self.seconds * self.mean_per_s
    }

    fn write_share_ppm(&self) -> u64 {
        let bytes = u128::from(self.write_bytes) + u128::from(self.read_bytes);
        let share = u128::from(self.write_bytes) * 1_000_000 / bytes;
        let share = u64::try_from(share).expect("at most a million");
        share.clamp(*WRITE_SHARE_PPM.start(), *WRITE_SHARE_PPM.end())
    }

    fn writes(&self) -> u64 {
        self.requests() * self.write_share_ppm() / 1_000_000
    }

    /// Sizes of reads or of writes, whose mean over requests this is.
    fn sizes(
        &self,
        mean_bytes: u64,
        timeline: &Timeline,
        settings: &Settings,
        [rng, burst_rng]: [Rng; 2],
    ) -> ByIntensity {
        let is_larger = settings.get("largest") == 1;
        if settings.get("sizes") == 0 {
            return ByIntensity::Mixed(Sizes::with_mean(mean_bytes, is_larger, rng));
        }
        // as far above this mean as the table's mean over seconds is above its bytes / requests
        let over_seconds_bytes = mean_bytes * self.over_seconds_bytes * self.requests()
            / (self.write_bytes + self.read_bytes);
        let bounds = Sizes::means_bytes(is_larger);
        let means = Means::solve(timeline.amounts(), mean_bytes, over_seconds_bytes, &bounds);
        ByIntensity::divided(means, is_larger, [burst_rng, rng])
    }

    fn build(&self, settings: &Settings, mut rng: Rng) -> Result<Workload, SynthError> {
        let duration_ns = u128::from(settings.get("duration")) * u128::from(settings.get("share"));
        let seconds =
            u64::try_from(duration_ns / 1_000_000 / 1_000_000_000).expect("at most a day");
        if seconds == 0 {
            return settings.contradiction("share x duration is less than one second");
        }
        let within = Within::of(settings);
        if within == Within::Groups && settings.get("group") > 1 {
            return settings
                .contradiction("arrivals=groups has groups of its own, group is for others");
        }
        let mut part = 0;
        let mut next_rng = || {
            part += 1;
            rng.split(part)
        };
        let timeline = Timeline::new(
            seconds,
            (self.mean_per_s, self.peak_per_s),
            Bursts::of(settings),
            settings.get("group"),
            within,
            next_rng(),
        );
        let kinds = Deck::new(next_rng());
        let (write_rng, read_rng) = (next_rng(), next_rng());
        let footprint_bytes = settings.get("footprint") / BLOCK_BYTES * BLOCK_BYTES;
        let scatter =
            Scatter::new(footprint_bytes / BLOCK_BYTES, settings.get("theta"), &mut next_rng());
        let places_rng = next_rng();
        let writes = self.writes();
        let reads = self.requests() - writes;
        let write_bytes = self.write_bytes / writes;
        let read_bytes = self.read_bytes / reads;
        let requests = Pangu {
            write_sizes: self.sizes(write_bytes, &timeline, settings, [write_rng, next_rng()]),
            read_sizes: self.sizes(read_bytes, &timeline, settings, [read_rng, next_rng()]),
            timeline,
            kinds,
            write_share_ppm: self.write_share_ppm(),
            scatter,
            footprint_bytes,
            append_share_ppm: settings.get("append_share"),
            reads_cold: settings.get("reads") == 1,
            appended_bytes: vec![0; settings.get("files") as usize],
            rng: places_rng,
        };
        Ok(Workload::new(requests))
    }
}

struct Pangu {
    timeline: Timeline,
    kinds: Deck,
    write_share_ppm: u64,
    write_sizes: ByIntensity,
    read_sizes: ByIntensity,
    scatter: Scatter,
    footprint_bytes: u64,
    append_share_ppm: u64,
    /// Reads are of blocks behind the files, as many as before them.
    reads_cold: bool,
    /// For each file: all that was ever appended; its end is this modulo the room.
    appended_bytes: Vec<u64>,
    rng: Rng,
}

impl Pangu {
    /// Where `size_bytes` go in the blocks before the files.
    fn scattered(&mut self, size_bytes: u64) -> u64 {
        let offset_bytes = self.scatter.draw(&mut self.rng) * BLOCK_BYTES;
        offset_bytes.min(self.footprint_bytes.saturating_sub(size_bytes))
    }

    fn append(&mut self, size_bytes: u64) -> u64 {
        let file = self.rng.below(self.appended_bytes.len() as u64);
        let appended_bytes = &mut self.appended_bytes[file as usize];
        let left_bytes = FILE_BYTES - *appended_bytes % FILE_BYTES;
        if left_bytes < size_bytes {
            *appended_bytes += left_bytes;
        }
        let offset_bytes = *appended_bytes % FILE_BYTES;
        *appended_bytes += size_bytes;
        self.footprint_bytes + file * FILE_BYTES + offset_bytes
    }

    /// Anywhere in what the run never writes.
    fn cold(&mut self, size_bytes: u64) -> u64 {
        let begin = self.footprint_bytes + self.appended_bytes.len() as u64 * FILE_BYTES;
        let places = self.footprint_bytes.saturating_sub(size_bytes) / BLOCK_BYTES + 1;
        begin + self.rng.below(places) * BLOCK_BYTES
    }

    /// Somewhere in what a file holds; `None` if that is less than the request.
    fn appended(&mut self, size_bytes: u64) -> Option<u64> {
        let file = self.rng.below(self.appended_bytes.len() as u64);
        let held_bytes = self.appended_bytes[file as usize].min(FILE_BYTES);
        let places = held_bytes.checked_sub(size_bytes)? / 512 + 1;
        Some(self.footprint_bytes + file * FILE_BYTES + self.rng.below(places) * 512)
    }
}

impl Iterator for Pangu {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = Instant::from_ns(self.timeline.next()?);
        let is_burst = self.timeline.is_burst();
        let kind_ppm = u64::try_from((u128::from(self.kinds.draw()) * 1_000_000) >> 64)
            .expect("below a million");
        let is_write = kind_ppm < self.write_share_ppm;
        let in_files = self.rng.chance_ppm(self.append_share_ppm);
        let (op, length_bytes, offset_bytes) = if is_write {
            let size_bytes = self.write_sizes.draw(is_burst);
            let place = if in_files { self.append(size_bytes) } else { self.scattered(size_bytes) };
            (Op::Write, size_bytes, place)
        } else {
            let size_bytes = self.read_sizes.draw(is_burst);
            if self.reads_cold {
                return Some(read_at(at, self.cold(size_bytes), size_bytes));
            }
            let held = if in_files { self.appended(size_bytes) } else { None };
            (Op::Read, size_bytes, held.unwrap_or_else(|| self.scattered(size_bytes)))
        };
        Some(Arrival { op, ..read_at(at, offset_bytes, length_bytes) })
    }
}

fn read_at(at: Instant, offset_bytes: u64, length_bytes: u64) -> Arrival {
    Arrival {
        at,
        object: ObjectId(0),
        op: Op::Read,
        offset_bytes,
        length_bytes,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    }
}
