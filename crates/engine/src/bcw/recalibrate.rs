//! What do we believe of this drive now, after every write that it has completed?
//!
//! Source:  [TOS abstract] (profiling also recalibrates the parameters at runtime; how is not said),
//!          frontier D6, requirements M11.
//! Names:   L_f, L_m → the tables of `profile`, W_f, W_m → `fast_stage`, `mid_stage`
//! Differs: everything but the tables is a bounded step from the profile: at most eight times more or
//!          less. A stage that began with a flush or a slow write is known for what it is, whatever
//!          its latencies; others teach the tables only where they look as believed.
//!          The model is one per drive, not per region: the log is a tenth of a drive and is written
//!          from end to end, so what is learnt follows the head through the zones.
//! Tests:   below; against drives that drift, `tandem-sim`'s `study`.

use super::predictor::WriteState;
use super::stage_bytes::{FIRST_GUARD_PART, StageBytes};
use crate::profile::{HddProfile, latency_ns};
use tandem_block::Duration;

/// A single step of a latency is a part of this of its distance…
const STEP_PART: i64 = 8;
/// … and of this of the latency at most.
const STEP_MAX_PART: i64 = 16;
/// What is learnt of draining and of the slow write stays within this factor of the profile.
const FACTOR_MAX: u64 = 8;
/// A write so much longer than a mid one is slow, however short the slow ones are believed to be
/// (models 5.2: a spike is above 2 ms and five times the median).
const SPIKE_NS: u64 = 2_000_000;

/// How did the present stage begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// With a flush: it is fast.
    Flush,
    /// With a slow write: it is mid.
    Slow,
    /// With a rest in which the buffer is believed to have drained.
    Rest,
    /// Before a read, and it looked the same after it.
    Resumed,
    /// Nobody knows.
    Unknown,
}

/// One completed buffered write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Its size.
    pub(crate) bytes: u64,
    /// What it took.
    pub(crate) latency: Duration,
    /// How long the drive was left alone before it.
    pub(crate) gap: Duration,
    /// The stage that it was believed to meet.
    pub(crate) believed: WriteState,
    /// The state that its latency shows.
    pub(crate) actual: WriteState,
    /// What the stage held before it.
    pub(crate) stage_bytes: u64,
}

/// The model, and what it rests on.
#[derive(Clone, Debug)]
pub(crate) struct Recalibration {
    learns: bool,
    shipped: HddProfile,
    profile: HddProfile,
    fast_stage: StageBytes,
    mid_stage: StageBytes,
    origin: Origin,
    gap_max: Duration,
    /// Writes of this stage that looked fast, and that looked mid.
    looked: (u32, u32),
}

impl Recalibration {
    /// Begins with a profile; `learns`: and does not end with it.
    pub(crate) fn new(profile: HddProfile, learns: bool) -> Recalibration {
        let stage = |bytes, jitter_ppm| {
            StageBytes::new(bytes, if learns { first_guard(bytes, jitter_ppm) } else { 0 })
        };
        Recalibration {
            learns,
            fast_stage: stage(profile.fast_stage_bytes, profile.detail.fast_jitter_ppm),
            mid_stage: stage(profile.mid_stage_bytes, profile.detail.mid_jitter_ppm),
            shipped: profile.clone(),
            profile,
            origin: Origin::Unknown,
            gap_max: Duration::ZERO,
            looked: (0, 0),
        }
    }

    /// May the model change?
    #[inline]
    pub(crate) fn learns(&self) -> bool {
        self.learns
    }

    /// The profile of now.
    pub(crate) fn profile(&self) -> &HddProfile {
        &self.profile
    }

    #[cfg(test)]
    pub(super) fn profile_mut(&mut self) -> &mut HddProfile {
        &mut self.profile
    }

    /// Bytes of a fast stage that writes are sent into.
    #[inline]
    pub(crate) fn fast_bytes(&self) -> u64 {
        self.fast_stage.usable_bytes()
    }

    /// Bytes of a mid stage that writes are sent into.
    #[inline]
    pub(crate) fn mid_bytes(&self) -> u64 {
        self.mid_stage.usable_bytes()
    }

    /// Bytes of the (fast, mid) stage that writes are sent into on a drive that is one of several.
    #[inline]
    pub(crate) fn careful_bytes(&self) -> (u64, u64) {
        (self.fast_stage.careful_bytes(), self.mid_stage.careful_bytes())
    }

    /// Bytes of the (fast, mid) stage that writes are sent into while another drive has room.
    #[inline]
    pub(crate) fn certain_bytes(&self) -> (u64, u64) {
        (self.fast_stage.certain_bytes(), self.mid_stage.certain_bytes())
    }

    /// [BCW §4.1]: the actual state follows from size and latency.
    pub(crate) fn classify(&self, bytes: u64, latency: Duration) -> WriteState {
        let fast_ns = latency_ns(&self.profile.fast_latency, bytes);
        let mid_ns = latency_ns(&self.profile.mid_latency, bytes).max(fast_ns);
        let mut slow_ns = self.profile.slow_latency_ns / 2;
        if self.learns {
            slow_ns = slow_ns.min(SPIKE_NS.max(4 * mid_ns));
        }
        if latency.ns >= mid_ns + slow_ns {
            WriteState::Slow
        } else if latency.ns > fast_ns + (mid_ns - fast_ns) / 2 {
            WriteState::Mid
        } else {
            WriteState::Fast
        }
    }

    /// Does it fit none of the classes: far below a fast write, well between mid and slow, or far above
    /// a slow one?
    pub(crate) fn is_odd(&self, written: &Written) -> bool {
        let latency_ns_seen = written.latency.ns;
        let fast_ns = latency_ns(&self.profile.fast_latency, written.bytes);
        let mid_ns = latency_ns(&self.profile.mid_latency, written.bytes).max(fast_ns);
        let slow_ns = self.profile.slow_latency_ns;
        let between = latency_ns_seen > 3 * mid_ns && latency_ns_seen < mid_ns + slow_ns / 3;
        latency_ns_seen < fast_ns / 3 || between || latency_ns_seen > mid_ns + 4 * slow_ns
    }

    /// A stage begins.
    pub(crate) fn begin_stage(&mut self, origin: Origin) {
        self.origin = origin;
        self.gap_max = Duration::ZERO;
        self.looked = (0, 0);
    }

    /// Is the stage known for what it is, so that surprising latencies are news of the latencies and
    /// not of the stage?
    pub(crate) fn is_certain(&self) -> bool {
        let short = self.gap_max.ns < self.profile.drain_idle_ns / 8;
        self.learns && short && matches!(self.origin, Origin::Flush | Origin::Slow)
    }

    /// Learns from a write, which is not the first after a disturbance.
    pub(crate) fn learn(&mut self, written: &Written) {
        if !self.learns {
            return;
        }
        if written.stage_bytes > 0 {
            self.gap_max = self.gap_max.max(written.gap);
        }
        match written.actual {
            WriteState::Slow => self.learn_slow(written),
            seen => {
                self.looked.0 += u32::from(seen == WriteState::Fast);
                self.looked.1 += u32::from(seen == WriteState::Mid);
                if self.is_certain() || seen == written.believed {
                    self.learn_latency(written);
                }
            }
        }
    }

    fn learn_latency(&mut self, written: &Written) {
        let table = match written.believed {
            WriteState::Fast => &mut self.profile.fast_latency,
            WriteState::Mid | WriteState::Slow => &mut self.profile.mid_latency,
        };
        let believed_ns = latency_ns(table, written.bytes) as i64;
        let error_ns = written.latency.ns as i64 - believed_ns;
        let most_ns = believed_ns / STEP_MAX_PART;
        let step_ns = (error_ns / STEP_PART).clamp(-most_ns, most_ns);
        if step_ns != 0 {
            spread(table, written.bytes, (step_ns, believed_ns.max(1)));
        }
    }

    fn learn_slow(&mut self, written: &Written) {
        let stage = match written.believed {
            WriteState::Fast => &mut self.fast_stage,
            _ => &mut self.mid_stage,
        };
        // after a read nobody knows how much had drained before it: late says nothing
        let undrained =
            self.origin != Origin::Resumed && self.gap_max.ns < self.profile.drain_idle_ns / 2;
        let as_believed = match self.origin {
            Origin::Flush | Origin::Slow => true,
            // the rest may have been too short: what the writes looked like tells
            Origin::Rest | Origin::Resumed => {
                let (fast, mid) = self.looked;
                let (like, unlike) =
                    if written.believed == WriteState::Fast { (fast, mid) } else { (mid, fast) };
                like > 4 * unlike
            }
            Origin::Unknown => false,
        };
        if as_believed && undrained {
            stage.ended(written.stage_bytes, written.bytes);
        } else if as_believed {
            stage.ended_early(written.stage_bytes + written.bytes);
        }
        let fast_ns = latency_ns(&self.profile.fast_latency, written.bytes);
        let added_ns = written.latency.ns.saturating_sub(fast_ns) as i64;
        let believed_ns = self.profile.slow_latency_ns as i64;
        let most_ns = believed_ns / 4;
        let step_ns = ((added_ns - believed_ns) / 4).clamp(-most_ns, most_ns);
        let next_ns = believed_ns.saturating_add(step_ns).max(0) as u64;
        self.profile.slow_latency_ns = near(next_ns, self.shipped.slow_latency_ns);
        self.note_stages();
    }

    /// The stage took `bytes` and had not ended, although it was written without a pause. False: it is
    /// not known how the stage began.
    pub(crate) fn outlasted(&mut self, believed: WriteState, bytes: u64) -> bool {
        if !self.learns || self.origin == Origin::Unknown {
            return false;
        }
        match believed {
            WriteState::Fast => self.fast_stage.outlasted(bytes),
            _ => self.mid_stage.outlasted(bytes),
        }
        self.note_stages();
        true
    }

    fn note_stages(&mut self) {
        self.profile.fast_stage_bytes = self.fast_stage.bytes();
        self.profile.mid_stage_bytes = self.mid_stage.bytes();
    }

    /// The drive was believed to have drained, and looks as if it had not: it begins later, or takes
    /// longer.
    pub(crate) fn did_not_drain(&mut self) {
        if self.learns && self.origin == Origin::Rest {
            let idle_ns = self.profile.drain_idle_ns / 4 * 5;
            self.profile.drain_idle_ns = near(idle_ns, self.shipped.drain_idle_ns);
            let rate = self.profile.drain_bytes_per_s / 8 * 7;
            self.profile.drain_bytes_per_s = near(rate, self.shipped.drain_bytes_per_s);
        }
    }

    /// The drive looks drained after a pause that was believed too short for it.
    pub(crate) fn drained_early(&mut self) {
        if self.learns && self.gap_max.ns > self.profile.drain_idle_ns / 8 {
            let idle_ns = self.gap_max.ns.min(self.profile.drain_idle_ns) / 4 * 3;
            self.profile.drain_idle_ns = near(idle_ns, self.shipped.drain_idle_ns);
        }
    }

    /// A flush that found `dirty_bytes` took so long.
    pub(crate) fn flushed(&mut self, dirty_bytes: u64, took: Duration) {
        if !self.learns {
            return;
        }
        let drain_ns = u128::from(dirty_bytes) * 1_000_000_000
            / u128::from(self.profile.drain_bytes_per_s.max(1));
        let base_ns = took.ns.saturating_sub(u64::try_from(drain_ns).unwrap_or(u64::MAX));
        let mixed_ns = self.profile.flush_base_ns / 4 * 3 + base_ns / 4;
        self.profile.flush_base_ns = near(mixed_ns, self.shipped.flush_base_ns);
    }
}

/// What is kept free at the end of a stage of which none was seen yet: three standard deviations where
/// they were measured.
fn first_guard(stage_bytes: u64, jitter_ppm: Option<u64>) -> u64 {
    let measured = |ppm: u64| u128::from(stage_bytes) * u128::from(ppm) * 3 / 1_000_000;
    let guard = jitter_ppm.map_or(u128::from(stage_bytes / FIRST_GUARD_PART), measured);
    u64::try_from(guard).unwrap_or(u64::MAX).min(stage_bytes / 4)
}

/// Within the bounds that a shipped value allows.
fn near(value: u64, shipped: u64) -> u64 {
    value.clamp(shipped / FACTOR_MAX, shipped.saturating_mul(FACTOR_MAX))
}

/// Moves the anchors around `bytes` by `step.0 / step.1` of themselves, each by its share of the line
/// there. Latencies stay above zero and rise with the size.
fn spread(table: &mut [(u64, u64)], bytes: u64, step: (i64, i64)) {
    assert!(!table.is_empty() && step.1 > 0, "a profile has at least one latency");
    let above = table.iter().position(|anchor| anchor.0 >= bytes).unwrap_or(table.len() - 1);
    let below = if table[above].0 > bytes { above.saturating_sub(1) } else { above };
    let (from, to) = (table[below].0, table[above].0);
    assert!(from <= to, "the sizes of a table rise");
    let share = (bytes.clamp(from, to) - from) * 1024 / (to - from).max(1);
    for (index, weight) in [(below, 1024 - share), (above, share)] {
        let lower = index.checked_sub(1).map_or(1, |index| table[index].1);
        let upper = table.get(index + 1).map_or(u64::MAX, |anchor| anchor.1);
        let part_ns = table[index].1 as i64 * step.0 / step.1 * weight as i64 / 1024;
        let moved = table[index].1.saturating_add_signed(part_ns);
        table[index].1 = moved.clamp(lower, upper.max(lower));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::HddDetail;
    use tandem_block::{KIB, MIB};

    fn profile() -> HddProfile {
        HddProfile {
            fast_latency: vec![(4 * KIB, 35_000), (16 * KIB, 66_000), (64 * KIB, 180_000)],
            mid_latency: vec![(4 * KIB, 55_000), (16 * KIB, 135_000), (64 * KIB, 280_000)],
            slow_latency_ns: 12_000_000,
            fast_stage_bytes: 16 * MIB,
            mid_stage_bytes: 8 * MIB,
            drain_idle_ns: 50_000_000,
            drain_bytes_per_s: 200_000_000,
            flush_base_ns: 200_000_000,
            position_ns: 14_000_000,
            detail: Box::new(HddDetail {
                fast_jitter_ppm: Some(0),
                mid_jitter_ppm: Some(0),
                ..HddDetail::default()
            }),
        }
    }

    fn write(r: &mut Recalibration, believed: WriteState, us: u64, stage_mib: u64, gap_ms: u64) {
        let (bytes, latency) = (64 * KIB, Duration::from_us(us));
        let actual = r.classify(bytes, latency);
        let (stage_bytes, gap) = (stage_mib * MIB, Duration::from_ms(gap_ms));
        r.learn(&Written { bytes, latency, gap, believed, actual, stage_bytes });
    }

    /// 30 % off, a fast write looks like a mid one: where the stage began with a flush it is known not
    /// to be, and the table follows; elsewhere it is not taken for news of the table.
    #[test]
    fn m11_latencies_are_learnt_where_the_stage_is_known() {
        for (origin, learns, want_us) in [
            (Origin::Flush, true, 225..=235),
            (Origin::Rest, true, 180..=180),
            (Origin::Unknown, true, 180..=180),
            (Origin::Flush, false, 180..=180),
        ] {
            let mut r = Recalibration::new(profile(), learns);
            r.begin_stage(origin);
            for _ in 0..60 {
                write(&mut r, WriteState::Fast, 234, 1, 0);
            }
            let found = latency_ns(&r.profile().fast_latency, 64 * KIB) / 1000;
            assert!(want_us.contains(&found), "{origin:?} {learns}: {found}");
            assert_eq!(r.profile().fast_latency[0].1, 35_000, "other sizes are left alone");
        }
    }

    #[test]
    fn m11_one_odd_write_moves_little() {
        let mut r = Recalibration::new(profile(), true);
        r.begin_stage(Origin::Slow);
        write(&mut r, WriteState::Mid, 2100, 1, 0);
        let moved = latency_ns(&r.profile().mid_latency, 64 * KIB);
        assert!(moved <= 280_000 * 17 / 16, "{moved}");
    }

    #[test]
    fn m11_slow_writes_teach_the_stage_only_where_it_is_known() {
        use Origin::{Flush, Rest, Resumed, Unknown};
        // origin, looks before, gap in ms, seen at MiB, learnt MiB of the fast stage
        for (origin, look_us, gap_ms, at_mib, want_mib) in [
            (Flush, 180, 0, 14, 14),
            (Flush, 180, 0, 18, 18),
            (Rest, 180, 0, 14, 14),
            (Resumed, 180, 0, 14, 14), // what had drained before the read makes it no longer than …
            (Resumed, 180, 0, 18, 16), // … believed
            (Rest, 280, 0, 14, 16),    // it had not drained: no news of the stage
            (Unknown, 180, 0, 14, 16), // nobody knows
            (Flush, 180, 40, 18, 16),  // it may have drained meanwhile: late says nothing
            (Flush, 180, 40, 13, 13),  // … but early does
        ] {
            let mut r = Recalibration::new(profile(), true);
            for _ in 0..4 {
                r.begin_stage(origin);
                write(&mut r, WriteState::Fast, look_us, 1, gap_ms);
                write(&mut r, WriteState::Fast, 12_200, at_mib, 0);
            }
            let mib = (r.profile().fast_stage_bytes + MIB / 2) / MIB;
            assert_eq!(mib, want_mib, "{origin:?} {look_us} {gap_ms} {at_mib}");
        }
    }

    #[test]
    fn m11_a_shorter_slow_write_is_still_seen_as_slow() {
        let mut r = Recalibration::new(profile(), true);
        for _ in 0..20 {
            r.begin_stage(Origin::Slow);
            assert_eq!(r.classify(64 * KIB, Duration::from_ms(4)), WriteState::Slow);
            write(&mut r, WriteState::Mid, 4000, 8, 0);
        }
        assert!((3_700_000..4_500_000).contains(&r.profile().slow_latency_ns));
        let fixed = Recalibration::new(profile(), false);
        assert_eq!(fixed.classify(64 * KIB, Duration::from_ms(4)), WriteState::Mid);
    }

    #[test]
    fn d6_the_drain_is_learnt_in_both_directions_and_stays_within_bounds() {
        let mut r = Recalibration::new(profile(), true);
        for _ in 0..50 {
            r.begin_stage(Origin::Rest);
            r.did_not_drain();
        }
        assert_eq!(r.profile().drain_idle_ns, 400_000_000);
        assert_eq!(r.profile().drain_bytes_per_s, 25_000_000);
        for _ in 0..50 {
            r.begin_stage(Origin::Slow);
            write(&mut r, WriteState::Mid, 180, 1, 400);
            r.drained_early();
        }
        assert_eq!(r.profile().drain_idle_ns, 50_000_000 / 8);
    }

    #[test]
    fn a_flush_teaches_its_base() {
        let mut r = Recalibration::new(profile(), true);
        for _ in 0..30 {
            r.flushed(16 * MIB, Duration::from_ms(484));
        }
        let base_ms = r.profile().flush_base_ns / 1_000_000;
        assert!((395..=401).contains(&base_ms), "{base_ms}");
    }

    #[test]
    fn m11_a_stage_of_unknown_spread_keeps_an_eighth_free_and_a_measured_one_three_deviations() {
        let stage = 16 * MIB;
        assert_eq!(first_guard(stage, None), 2 * MIB);
        assert_eq!(first_guard(stage, Some(0)), 0);
        assert_eq!(first_guard(stage, Some(10_000)), stage * 3 / 100);
        assert_eq!(first_guard(stage, Some(900_000)), 4 * MIB, "never more than a quarter");
        let mut unknown = profile();
        unknown.detail = Box::default();
        assert_eq!(Recalibration::new(unknown.clone(), true).fast_bytes(), 14 * MIB);
        assert_eq!(Recalibration::new(unknown, false).fast_bytes(), stage, "the paper's own");
    }
}
