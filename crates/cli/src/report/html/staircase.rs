//! What does a hard drive's staircase look like?
//!
//! Source: [BCW §3]: sequential 64 KiB writes, one after the other, into an empty buffer.

use tandem_block::{Drive, DriveOp, DriveOpKind, Instant, KIB};
use tandem_drives::spec::DriveSpec;
use tandem_drives::{BuildOptions, build};

const WRITE_BYTES: u64 = 64 * KIB;
/// Enough for two slow writes of the largest buffer known.
const WRITES: u64 = 640;

/// (MiB written before, latency in ns) of each write; empty if the drive cannot be built.
pub(super) fn steps(spec: &DriveSpec) -> Vec<(f64, f64)> {
    let Ok(mut drive) = build(spec, BuildOptions::default()) else { return Vec::new() };
    let mut now = Instant::ZERO;
    (0..WRITES)
        .map(|number| {
            let offset_bytes = number * WRITE_BYTES;
            let latency_ns = write(&mut *drive, now, offset_bytes);
            now = Instant::from_ns(now.ns + latency_ns);
            (offset_bytes as f64 / (1 << 20) as f64, latency_ns as f64)
        })
        .collect()
}

fn write(drive: &mut dyn Drive, now: Instant, offset_bytes: u64) -> u64 {
    let kind = DriveOpKind::Write { fua: false };
    let op = DriveOp { kind, offset_bytes, length_bytes: WRITE_BYTES };
    drive.submit(now, op).ack_at.since(now).ns
}
