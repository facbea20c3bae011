//! When is an SSD overrun? Sequential requests at a fixed interval.
//!
//! Source: [BCW §5.4, Fig. 15]: 32 KiB writes every 20 to 320 us.

use super::settings::{Kind, Setting};
use super::{Generator, TICK_NS, Workload, zipf};
use tandem_block::{Arrival, Instant, ObjectId, Op, RequestType, StreamId, TIB};

pub(super) const GENERATOR: Generator = Generator {
    name: "interval",
    summary: "sequential requests of one size at a fixed interval",
    settings: &[
        Setting { default: "32KiB", ..zipf::SIZE },
        Setting {
            name: "interval",
            default: "100us",
            kind: Kind::Time { least_ns: TICK_NS, most_ns: 3_600_000_000_000 },
            summary: "time from one request to the next, rounded down to 100 ns",
        },
        Setting {
            name: "total",
            default: "1GiB",
            kind: Kind::Bytes { least: 512, most: 1024 * TIB },
            summary: "bytes in all; the last request is dropped where it does not fit",
        },
        Setting { default: "64TiB", summary: "where the addresses begin anew", ..zipf::FOOTPRINT },
        Setting {
            name: "op",
            default: "write",
            kind: Kind::Choice(&["write", "read"]),
            summary: "write or read",
        },
    ],
    build: |settings, _| {
        let size_bytes = settings.get("size");
        let slots = settings.get("footprint") / size_bytes;
        if slots == 0 {
            return settings.contradiction("the footprint is smaller than one request");
        }
        let interval_ns = settings.get("interval") / TICK_NS * TICK_NS;
        let op = if settings.get("op") == 0 { Op::Write } else { Op::Read };
        let requests = (0..settings.get("total") / size_bytes).map(move |number| Arrival {
            at: Instant::from_ns(number.saturating_mul(interval_ns)),
            object: ObjectId(0),
            op,
            offset_bytes: number % slots * size_bytes,
            length_bytes: size_bytes,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        });
        Ok(Workload::new(requests))
    },
};
