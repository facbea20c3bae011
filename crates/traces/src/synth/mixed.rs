//! How do reads fare beside writes? Random reads at a rate, random writes at a fixed interval.
//!
//! Source: [SERW slide "Motivation"]: an FIO study of reads of high, middle and low intensity beside
//! writes of several intervals and sizes. **Guess:** all defaults; the deck gives no numbers.

use super::settings::{Kind, Setting};
use super::{Generator, TICK_NS, Workload, zipf};
use tandem_block::{Arrival, Instant, ObjectId, Op, RequestType, StreamId};

pub(super) const GENERATOR: Generator = Generator {
    name: "mixed",
    summary: "random reads at a rate beside random writes at a fixed interval",
    settings: &[
        Setting {
            name: "read_rate",
            default: "30000",
            kind: Kind::Count { least: 1, most: 10_000_000 },
            summary: "reads per second, at exponential gaps",
        },
        Setting { name: "read_size", default: "4KiB", summary: "bytes of each read", ..zipf::SIZE },
        Setting {
            name: "writes",
            default: "yes",
            kind: Kind::Choice(&["no", "yes"]),
            summary: "yes, or no for reads alone",
        },
        Setting {
            name: "write_interval",
            default: "1ms",
            kind: Kind::Time { least_ns: TICK_NS, most_ns: 3_600_000_000_000 },
            summary: "time from one write to the next, rounded down to 100 ns",
        },
        Setting {
            name: "write_size",
            default: "64KiB",
            summary: "bytes of each write",
            ..zipf::SIZE
        },
        Setting {
            name: "duration",
            default: "10s",
            kind: Kind::Time { least_ns: 1_000_000, most_ns: 86_400_000_000_000 },
            summary: "for how long",
        },
        Setting { default: "64GiB", ..zipf::FOOTPRINT },
    ],
    build: |settings, mut rng| {
        let (read_bytes, write_bytes) = (settings.get("read_size"), settings.get("write_size"));
        let footprint_bytes = settings.get("footprint");
        let (read_slots, write_slots) =
            (footprint_bytes / read_bytes, footprint_bytes / write_bytes);
        if read_slots == 0 || write_slots == 0 {
            return settings.contradiction("the footprint is smaller than one request");
        }
        let mean_gap_ps = 1_000_000_000_000 / settings.get("read_rate");
        let interval_ps = settings.get("write_interval") / TICK_NS * TICK_NS * 1000;
        let end_ps = settings.get("duration").saturating_mul(1000);
        let (mut read_ps, mut write_ps) = (0u64, interval_ps);
        if settings.get("writes") == 0 {
            write_ps = u64::MAX;
        }
        let requests = std::iter::from_fn(move || {
            let is_write = write_ps < read_ps;
            let at_ps = read_ps.min(write_ps);
            if at_ps >= end_ps {
                return None;
            }
            let (op, length_bytes, slots) = if is_write {
                write_ps = write_ps.saturating_add(interval_ps);
                (Op::Write, write_bytes, write_slots)
            } else {
                read_ps = read_ps.saturating_add(rng.exponential(mean_gap_ps));
                (Op::Read, read_bytes, read_slots)
            };
            Some(Arrival {
                at: Instant::from_ns(at_ps / 1000 / TICK_NS * TICK_NS),
                object: ObjectId(0),
                op,
                offset_bytes: rng.below(slots) * length_bytes,
                length_bytes,
                fua: false,
                stream: StreamId(0),
                data_type: RequestType::Data,
            })
        });
        Ok(Workload::new(requests))
    },
};
