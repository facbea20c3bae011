//! What is true of one hard drive? Every parameter of the HDD model.
//!
//! Source: models §4 and §5.2; [BCW §3] for the staircase.

use super::value::{Bytes, BytesPerSecond, LatencyTable, Nanos, Ppm, Sourced};
use serde::Deserialize;

/// When do dirty bytes leave the buffer? See models §5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainLaw {
    /// At the media rate at all times; the stage budget counts dirty bytes.
    Continuous,
    /// Only after `idle` without a command.
    AfterIdle,
    /// Only in the slow state and at a flush.
    WhenFull,
}

/// Where is the platter when the head has arrived?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// Anywhere: the wait is drawn from the drive's own generator.
    Random,
    /// Where time says: the wait follows from the offset and the clock.
    Positional,
}

/// The media cache of a shingled drive (models §5.2, SMR option).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmrSpec {
    /// Room for random writes, in bytes.
    pub media_cache: Sourced<Bytes>,
    /// One band, rewritten as a whole, in bytes.
    pub band: Sourced<Bytes>,
    /// How fast an idle drive empties its media cache, in cached bytes per second.
    pub idle_clean_rate: Sourced<BytesPerSecond>,
}

/// A hard drive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddSpec {
    /// Usable bytes.
    pub capacity: Sourced<Bytes>,
    /// Turns per minute.
    pub rpm: Sourced<u64>,
    /// Seek to a neighbouring track.
    pub seek_adjacent: Sourced<Nanos>,
    /// Seek over a third of the stroke.
    pub seek_average: Sourced<Nanos>,
    /// Seek over the whole stroke.
    pub seek_full: Sourced<Nanos>,
    /// Media rate at offset 0.
    pub rate_outer: Sourced<BytesPerSecond>,
    /// Media rate at the end.
    pub rate_inner: Sourced<BytesPerSecond>,
    /// How the rotational wait is found.
    pub rotation: Sourced<Rotation>,
    /// Drive DRAM, in bytes; only told, the visible buffer is what counts.
    pub dram: Sourced<Bytes>,
    /// Paper: `W_f`. Bytes that the fast stage takes.
    pub fast_stage: Sourced<Bytes>,
    /// Paper: `W_m`. Bytes that a mid stage takes.
    pub mid_stage: Sourced<Bytes>,
    /// Paper: `T_s`. What a slow write waits beyond its fast latency.
    pub slow_stall: Sourced<Nanos>,
    /// Standard deviation of the fast budget, as a share of it.
    pub fast_jitter: Sourced<Ppm>,
    /// Shift of the mean of the fast budget, as a share of it.
    pub fast_bias: Sourced<Ppm>,
    /// Standard deviation of the mid budget, as a share of it.
    pub mid_jitter: Sourced<Ppm>,
    /// Shift of the mean of the mid budget, as a share of it.
    pub mid_bias: Sourced<Ppm>,
    /// Paper: `L_f` by size.
    pub fast_latency: Sourced<LatencyTable>,
    /// Paper: `L_m` by size.
    pub mid_latency: Sourced<LatencyTable>,
    /// When dirty bytes leave.
    pub drain: Sourced<DrainLaw>,
    /// Quiet time before the drive drains by itself.
    pub idle: Sourced<Nanos>,
    /// What a flush costs beyond draining.
    pub flush_base: Sourced<Nanos>,
    /// Command handling of a read that needs the platter.
    pub read_overhead: Sourced<Nanos>,
    /// Command handling of a read from the buffer, or of the next in a sequence.
    pub buffer_hit: Sourced<Nanos>,
    /// Rate of the interface, for buffer hits.
    pub interface_rate: Sourced<BytesPerSecond>,
    /// Bytes that the drive reads on by itself after a read.
    pub read_ahead: Sourced<Bytes>,
    /// What a buffered write that continues no stream costs, as a share of seek and turn. `None`: half of them (guess,
    /// models §5.2: the drive sorts what it has buffered).
    pub placing: Option<Sourced<Ppm>>,
    /// Is the write cache on? Off means every write pays the mechanics.
    pub write_cache: Sourced<bool>,
    /// A shingled drive's media cache.
    pub smr: Option<SmrSpec>,
}

impl HddSpec {
    /// What a buffered write that continues no stream costs, in millionths of seek and turn.
    pub fn placing_ppm(&self) -> i64 {
        self.placing.as_ref().map_or(500_000, |share| share.get().0)
    }

    /// The first key whose value makes no sense, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let rules: [(&'static str, bool, &'static str); 15] = [
            ("capacity", self.capacity.get().0 <= 1 << 50, "must be at most 1024TiB"),
            ("capacity", self.capacity.get().0 >= 1 << 20, "must be at least 1MiB"),
            ("rpm", (1_000..=30_000).contains(&self.rpm.get()), "must be 1000 to 30000"),
            (
                "seek_average",
                self.seek_average.get() >= self.seek_adjacent.get(),
                "is below seek_adjacent",
            ),
            ("seek_full", self.seek_full.get() >= self.seek_average.get(), "is below seek_average"),
            ("seek_full", self.seek_full.get().0 <= 1_000_000_000, "must be at most 1s"),
            ("rate_inner", self.rate_inner.get().0 >= 1_000_000, "must be at least 1MB/s"),
            ("rate_outer", self.rate_outer.get() >= self.rate_inner.get(), "is below rate_inner"),
            ("rate_outer", self.rate_outer.get().0 <= 10_000_000_000, "must be at most 10GB/s"),
            ("interface_rate", self.interface_rate.get().0 >= 1_000_000, "must be at least 1MB/s"),
            ("fast_stage", in_stage_range(self.fast_stage.get()), "must be 64KiB to 1GiB"),
            ("mid_stage", in_stage_range(self.mid_stage.get()), "must be 64KiB to 1GiB"),
            (
                "fast_jitter",
                in_share_range(self.fast_jitter.get(), self.fast_bias.get()),
                "and fast_bias: 0% to 10%, -50% to 50%",
            ),
            (
                "mid_jitter",
                in_share_range(self.mid_jitter.get(), self.mid_bias.get()),
                "and mid_bias: 0% to 10%, -50% to 50%",
            ),
            ("placing", (0..=10_000_000).contains(&self.placing_ppm()), "must be 0% to 1000%"),
        ];
        let times = [
            ("slow_stall", self.slow_stall.get()),
            ("idle", self.idle.get()),
            ("flush_base", self.flush_base.get()),
            ("read_overhead", self.read_overhead.get()),
            ("buffer_hit", self.buffer_hit.get()),
        ];
        let endless = times.into_iter().find(|time| time.1 > Nanos::MAX);
        let endless = endless.map(|time| (time.0, "must be at most 100s"));
        let smr_fault = self.smr.as_ref().and_then(|smr| {
            let sound = smr.band.get().0 >= 1 << 16
                && smr.band.get() <= smr.media_cache.get()
                && smr.idle_clean_rate.get().0 > 0;
            (!sound).then_some(("smr", "band: 64KiB up to media_cache; idle_clean_rate: above 0"))
        });
        rules
            .into_iter()
            .find(|rule| !rule.1)
            .map(|rule| (rule.0, rule.2))
            .or(endless)
            .or(smr_fault)
    }

    /// The first key whose source is not one of the known words.
    pub(super) fn unsourced(&self) -> Option<&'static str> {
        let smr_known = self.smr.as_ref().is_none_or(|smr| {
            smr.media_cache.has_known_source()
                && smr.band.has_known_source()
                && smr.idle_clean_rate.has_known_source()
        });
        [
            ("capacity", self.capacity.has_known_source()),
            ("rpm", self.rpm.has_known_source()),
            ("seek_adjacent", self.seek_adjacent.has_known_source()),
            ("seek_average", self.seek_average.has_known_source()),
            ("seek_full", self.seek_full.has_known_source()),
            ("rate_outer", self.rate_outer.has_known_source()),
            ("rate_inner", self.rate_inner.has_known_source()),
            ("rotation", self.rotation.has_known_source()),
            ("dram", self.dram.has_known_source()),
            ("fast_stage", self.fast_stage.has_known_source()),
            ("mid_stage", self.mid_stage.has_known_source()),
            ("slow_stall", self.slow_stall.has_known_source()),
            ("fast_jitter", self.fast_jitter.has_known_source()),
            ("fast_bias", self.fast_bias.has_known_source()),
            ("mid_jitter", self.mid_jitter.has_known_source()),
            ("mid_bias", self.mid_bias.has_known_source()),
            ("fast_latency", self.fast_latency.has_known_source()),
            ("mid_latency", self.mid_latency.has_known_source()),
            ("drain", self.drain.has_known_source()),
            ("idle", self.idle.has_known_source()),
            ("flush_base", self.flush_base.has_known_source()),
            ("read_overhead", self.read_overhead.has_known_source()),
            ("buffer_hit", self.buffer_hit.has_known_source()),
            ("interface_rate", self.interface_rate.has_known_source()),
            ("read_ahead", self.read_ahead.has_known_source()),
            ("placing", self.placing.as_ref().is_none_or(Sourced::has_known_source)),
            ("write_cache", self.write_cache.has_known_source()),
            ("smr", smr_known),
        ]
        .into_iter()
        .find(|key| !key.1)
        .map(|key| key.0)
    }
}

fn in_stage_range(stage: Bytes) -> bool {
    (64 << 10..=1 << 30).contains(&stage.0)
}

fn in_share_range(jitter: Ppm, bias: Ppm) -> bool {
    (0..=100_000).contains(&jitter.0) && (-500_000..=500_000).contains(&bias.0)
}
