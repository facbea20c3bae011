//! Which workload shows what redirection does? Bursts that a full SSD cannot take at once.
//!
//! Guess throughout: a second of writes at about twice what the SSD sustains, then a second of
//! rest, as in [BCW §2] where bursts of seconds alternate with near silence.

use tandem_block::{
    Arrival, Duration, Instant, KIB, MIB, ObjectId, Op, RequestType, Rng, StreamId,
};

/// Bytes of the volume that is written to.
pub const VOLUME_BYTES: u64 = 512 * MIB;
/// Bytes of one write.
pub const WRITE_BYTES: u64 = 16 * KIB;
const BURSTS: u64 = 5;
const BURST: Duration = Duration::from_s(1);
const REST: Duration = Duration::from_s(1);
const WRITES_PER_BURST: u64 = 5_000;

/// The writes, in order. Each place is written at most once in as many writes as there are places,
/// so no two that overlap are ever under way together, and the last writer of a block is known.
pub fn arrivals() -> Vec<Arrival> {
    let places = VOLUME_BYTES / WRITE_BYTES;
    let mut rng = Rng::new(1);
    let mut order: Vec<u64> = (0..places).collect();
    for i in (1..order.len()).rev() {
        let j = rng.below(i as u64 + 1);
        order.swap(i, j as usize);
    }
    let gap_ns = BURST.ns / WRITES_PER_BURST;
    (0..BURSTS * WRITES_PER_BURST)
        .map(|i| {
            let burst = i / WRITES_PER_BURST;
            let within = i % WRITES_PER_BURST * gap_ns;
            Arrival {
                at: Instant::from_ns(burst * (BURST.ns + REST.ns) + within),
                object: ObjectId(0),
                op: Op::Write,
                offset_bytes: order[(i % places) as usize] * WRITE_BYTES,
                length_bytes: WRITE_BYTES,
                fua: false,
                stream: StreamId(0),
                data_type: RequestType::Data,
            }
        })
        .collect()
}

/// What the `index`-th write puts into its bytes: every eight of them say which write and where.
pub fn fill(index: u64, bytes: &mut [u8]) {
    for (word, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        let value = (index + 1) << 20 | word as u64;
        chunk.copy_from_slice(&value.to_le_bytes());
    }
}
