//! Which requests does a test send? Small, nasty, and from a seed.

use tandem_block::{Duration, Op, Rng};

/// Shape of a random workload over one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Requests in all.
    pub requests: u64,
    /// Requests in flight at most.
    pub depth: usize,
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// The part of it that is used,
    pub footprint_bytes: u64,
    /// … and where that begins.
    pub footprint_offset_bytes: u64,
    /// Its pieces of 64 KiB begin so many bytes apart; 0: it is in one.
    pub apart_bytes: u64,
    /// Longest request in bytes.
    pub length_bytes_max: u64,
    /// Requests that begin and end anywhere, not at 4 KiB, in ppm.
    pub unaligned_ppm: u64,
    /// Longest pause between two requests.
    pub pause: Duration,
    /// Reads, flushes, FUA among the writes, zeroings: in ppm.
    pub mix: Mix,
    /// Requests, in ppm, that go to the first sixteenth of what is used.
    pub hot_ppm: u64,
}

/// A hot spot is such a part of what is used.
const HOT_PART: u64 = 16;
/// Bytes of a piece of the footprint, where pieces lie apart.
const PIECE_BYTES: u64 = 64 << 10;

/// Shares of the kinds of request, in ppm; the rest are writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub read: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards and write-zeroes.
    pub zero: u64,
    /// Writes that carry FUA, of the writes.
    pub fua: u64,
}

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What.
    pub op: Op,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// Durable at once?
    pub fua: bool,
    /// Pause before it.
    pub pause: Duration,
}

impl Shape {
    /// Draws the next request.
    pub fn draw(&self, rng: &mut Rng) -> Step {
        let mix = self.mix;
        let roll = rng.below(1_000_000);
        let op = if roll < mix.flush {
            Op::Flush
        } else if roll < mix.flush + mix.read {
            Op::Read
        } else if roll < mix.flush + mix.read + mix.zero {
            if rng.chance_ppm(500_000) { Op::Discard } else { Op::WriteZeroes }
        } else {
            Op::Write
        };
        let pause = Duration::from_ns(rng.below(self.pause.ns + 1));
        if op == Op::Flush {
            return Step { op, offset_bytes: 0, length_bytes: 0, fua: false, pause };
        }
        let grain = if rng.chance_ppm(self.unaligned_ppm) { 512 } else { 4096 };
        let length = rng.between(1, self.length_bytes_max / grain) * grain;
        let is_hot = self.hot_ppm > 0 && rng.chance_ppm(self.hot_ppm);
        let used_bytes =
            if is_hot { self.footprint_bytes / HOT_PART } else { self.footprint_bytes };
        let places = used_bytes.saturating_sub(length) / grain + 1;
        let at = rng.below(places) * grain;
        let at = match self.apart_bytes {
            0 => at,
            apart => at / PIECE_BYTES * apart + at % PIECE_BYTES,
        };
        Step {
            op,
            offset_bytes: self.footprint_offset_bytes + at,
            length_bytes: length,
            fua: op == Op::Write && rng.chance_ppm(mix.fua),
            pause,
        }
    }
}
