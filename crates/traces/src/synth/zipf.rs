//! What does a block device with a few hot blocks see? Zipf-distributed reads and writes.

use super::scatter::Scatter;
use super::settings::{Kind, Setting, Settings};
use super::{Generator, SynthError, TICK_NS, Workload};
use tandem_block::{Arrival, Instant, MIB, ObjectId, Op, RequestType, Rng, StreamId, TIB};

pub(super) const GENERATOR: Generator = Generator {
    name: "zipf",
    summary: "random requests of one size, few blocks popular",
    settings: &[
        SIZE,
        READ_SHARE,
        Setting {
            name: "theta",
            default: "0.99",
            kind: Kind::Exponent,
            summary: "exponent of the popularity; 0 is uniform",
        },
        FOOTPRINT,
        RATE,
        REQUESTS,
        GAPS,
    ],
    build: |settings, rng| build(settings, settings.get("theta"), rng),
};

pub(super) const SIZE: Setting = Setting {
    name: "size",
    default: "4KiB",
    kind: Kind::Bytes { least: 512, most: 64 * MIB },
    summary: "bytes of each request",
};
pub(super) const READ_SHARE: Setting = Setting {
    name: "read_share",
    default: "30%",
    kind: Kind::Share,
    summary: "how many of the requests are reads",
};
pub(super) const FOOTPRINT: Setting = Setting {
    name: "footprint",
    default: "16GiB",
    kind: Kind::Bytes { least: 512, most: 64 * TIB },
    summary: "how much of the device is used",
};
pub(super) const RATE: Setting = Setting {
    name: "rate",
    default: "10000",
    kind: Kind::Count { least: 1, most: 10_000_000 },
    summary: "requests per second",
};
pub(super) const REQUESTS: Setting = Setting {
    name: "requests",
    default: "100000",
    kind: Kind::Count { least: 1, most: 1 << 48 },
    summary: "how many requests",
};
pub(super) const GAPS: Setting = Setting {
    name: "gaps",
    default: "exponential",
    kind: Kind::Choice(&["fixed", "exponential"]),
    summary: "time between requests: fixed or exponential",
};

/// Random requests of one size; `theta_ppm` zero is uniform.
pub(super) fn build(
    settings: &Settings,
    theta_ppm: u64,
    mut rng: Rng,
) -> Result<Workload, SynthError> {
    let size_bytes = settings.get("size");
    let slots = settings.get("footprint") / size_bytes;
    if slots == 0 {
        return settings.contradiction("the footprint is smaller than one request");
    }
    let read_share_ppm = settings.get("read_share");
    let rate = settings.get("rate");
    let is_exponential = settings.get("gaps") == 1;
    let mean_gap_ps = 1_000_000_000_000 / rate;
    let scatter = Scatter::new(slots, theta_ppm, &mut rng);
    let mut clock_ps = 0u64;
    let requests = (0..settings.get("requests")).map(move |number| {
        if number > 0 {
            let gap_ps = if is_exponential { rng.exponential(mean_gap_ps) } else { mean_gap_ps };
            clock_ps = clock_ps.saturating_add(gap_ps);
        }
        let op = if rng.chance_ppm(read_share_ppm) { Op::Read } else { Op::Write };
        Arrival {
            at: Instant::from_ns(clock_ps / 1000 / TICK_NS * TICK_NS),
            object: ObjectId(0),
            op,
            offset_bytes: scatter.draw(&mut rng) * size_bytes,
            length_bytes: size_bytes,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        }
    });
    Ok(Workload::new(requests))
}
