//! How many bytes does a stage of this drive take, by what was seen of late?
//!
//! Source:  [TOS abstract] (parameters are recalibrated at runtime; how is not said), frontier D6.
//! Names:   W_f, W_m → `bytes`
//! Differs: the median of the last few stages, so that one odd stage moves nothing; beside it a guard
//!          of three standard deviations, because a slow write that a user meets costs more than padding
//!          ([BCW §4.1] favours the slow state, by no stated amount). Three deviations of sixteen stages
//!          are passed by one stage in some hundreds, more where the sixteen happened to be alike: with
//!          that a set of several drives, which writes thousands of stages, need not put up (`careful`).

/// Stages that are remembered.
const RECENT: usize = 16;
/// Stages that must agree before the model is left, unless they are far from it.
const STAGES_MIN: usize = 3;
/// Kept free at the end of a stage whose spread is not known: an eighth (guess; the papers tell sizes
/// without spread). Three stages seen are enough to know better.
pub(crate) const FIRST_GUARD_PART: u64 = 8;
/// One stage in so many moves the mean distance wholly: sixteen stages alone may be alike by chance.
const DISTANCE_STAGES: i64 = 32;
/// The smallest stage that is believed, in bytes.
const STAGE_BYTES_MIN: u64 = 128 << 10;

/// The size of one kind of stage.
#[derive(Clone, Debug)]
pub(crate) struct StageBytes {
    bytes: u64,
    guard_bytes: u64,
    /// Mean distance of stages from their median, of many more than `recent`.
    distance_bytes: u64,
    recent: [u64; RECENT],
    /// How many of `recent` are filled, and where the next goes.
    count: usize,
    next: usize,
    /// The last stage was far longer than believed.
    far_late: bool,
}

impl StageBytes {
    /// As believed, without experience; `guard_bytes` is kept free of users' writes until there is some.
    pub(crate) fn new(bytes: u64, guard_bytes: u64) -> StageBytes {
        assert!(guard_bytes <= bytes / 4, "a guard of {guard_bytes} in a stage of {bytes} bytes");
        StageBytes {
            bytes,
            guard_bytes,
            distance_bytes: guard_bytes * 4 / 15,
            recent: [0; RECENT],
            count: 0,
            next: 0,
            far_late: false,
        }
    }

    /// Where a stage ends most often.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it ends at the earliest, as a rule: users' writes go so far.
    #[inline]
    pub(crate) fn usable_bytes(&self) -> u64 {
        debug_assert!(self.guard_bytes <= self.bytes, "a guard is a part of its stage");
        self.bytes - self.guard_bytes
    }

    /// Where it ends at the earliest but for once in tens of thousands, four deviations: users' writes go
    /// so far on each of several drives.
    #[inline]
    pub(crate) fn careful_bytes(&self) -> u64 {
        self.bytes - self.careful_guard_bytes().min(self.bytes / 3)
    }

    fn careful_guard_bytes(&self) -> u64 {
        (self.guard_bytes / 3 * 4).max(self.distance_bytes * 5)
    }

    /// Where it certainly does not end yet: users' writes go so far while another drive would take them
    /// as well.
    #[inline]
    pub(crate) fn certain_bytes(&self) -> u64 {
        let guard_bytes = (2 * self.guard_bytes).max(self.careful_guard_bytes());
        self.bytes - guard_bytes.min(self.bytes / 3)
    }

    /// Stages that the size rests on; 0: only on the profile.
    #[cfg(test)]
    pub(crate) fn confidence(&self) -> usize {
        self.count
    }

    /// A stage that held `before` took no more than a part of `bytes` beside it.
    pub(crate) fn ended(&mut self, before: u64, bytes: u64) {
        if bytes <= self.bytes / 32 {
            self.learn(before + bytes / 2);
        } else if before + bytes <= self.bytes {
            self.learn(before + bytes);
        } else if before >= self.bytes {
            self.learn(before);
        }
    }

    /// It ended after `bytes` at the latest, but room had come back meanwhile.
    pub(crate) fn ended_early(&mut self, bytes: u64) {
        if bytes < self.usable_bytes() {
            self.learn(bytes);
        }
    }

    /// It took `bytes` and had not ended.
    pub(crate) fn outlasted(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.learn(bytes);
        }
    }

    fn learn(&mut self, seen: u64) {
        let seen = seen.clamp(self.bytes / 4, self.bytes * 4).max(STAGE_BYTES_MIN);
        let far_early = seen < self.bytes / 4 * 3;
        let far_late = seen > self.bytes / 3 * 4;
        if far_early || (far_late && self.far_late) {
            // another drive than before: what was remembered says nothing; early is dearer than late
            self.bytes = (self.bytes + seen) / 2;
            self.guard_bytes = self.bytes / FIRST_GUARD_PART;
            self.distance_bytes = self.guard_bytes * 4 / 15;
            (self.count, self.next) = (0, 0);
        }
        let (away, known) = (seen.abs_diff(self.bytes) as i64, self.distance_bytes as i64);
        self.distance_bytes = (known + (away - known) / DISTANCE_STAGES).max(0) as u64;
        self.far_late = far_late;
        self.recent[self.next] = seen;
        self.next = (self.next + 1) % RECENT;
        self.count = (self.count + 1).min(RECENT);
        if self.count >= STAGES_MIN {
            self.settle();
        }
        assert!(
            self.bytes > 0 && self.guard_bytes <= self.bytes / 4,
            "users' writes go into most of a stage"
        );
    }

    fn settle(&mut self) {
        let mut sorted = self.recent;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        let median = sorted[(self.count - 1) / 2];
        let away: u64 = sorted.iter().map(|seen| seen.abs_diff(median)).sum();
        self.bytes = median;
        // the mean distance is 0.8 of a standard deviation
        self.guard_bytes = (away / self.count as u64 * 15 / 4).min(median / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{KIB, MIB};

    #[test]
    fn m11_a_stage_is_the_median_of_the_last_ones() {
        let mut stage = StageBytes::new(16 * MIB, 0);
        for mib in [15, 15, 19] {
            stage.learn(mib * MIB);
        }
        assert_eq!((stage.bytes(), stage.confidence()), (15 * MIB, 3));
        for mib in [17, 17, 17, 17, 17] {
            stage.learn(mib * MIB);
        }
        assert_eq!(stage.bytes(), 17 * MIB);
    }

    #[test]
    fn m11_equal_stages_need_no_guard_and_spread_ones_get_three_deviations() {
        let mut stage = StageBytes::new(8 * MIB, 0);
        (0..RECENT).for_each(|_| stage.learn(8 * MIB));
        assert_eq!(stage.usable_bytes(), 8 * MIB);
        // 4.6 % of jitter, as the WD100EFAX has
        for tenths in [-7i64, -5, -3, -1, 1, 3, 5, 7].repeat(2) {
            stage.learn((80 * MIB as i64 + tenths * MIB as i64) as u64 / 10);
        }
        let guard = stage.bytes() - stage.usable_bytes();
        assert!((12 * MIB / 10..18 * MIB / 10).contains(&guard), "{guard}");
    }

    /// M12: sixteen stages that happen to be alike do not make a drive of a set careless.
    #[test]
    fn m12_several_drives_are_careful_by_more_than_the_last_stages() {
        let mut stage = StageBytes::new(8 * MIB, MIB);
        for tenths in [-7i64, -5, -3, -1, 1, 3, 5, 7].repeat(20) {
            stage.learn((80 * MIB as i64 + tenths * MIB as i64) as u64 / 10);
        }
        let spread = stage.bytes() - stage.careful_bytes();
        assert!((18 * MIB / 10..25 * MIB / 10).contains(&spread), "{spread}: five times 0.4 MiB");
        (0..RECENT).for_each(|_| stage.learn(8 * MIB));
        assert_eq!(stage.usable_bytes(), 8 * MIB, "the last ones were alike");
        let spread = stage.bytes() - stage.careful_bytes();
        assert!((10 * MIB / 10..18 * MIB / 10).contains(&spread), "{spread}");
        assert!(stage.certain_bytes() <= stage.careful_bytes());
        (0..500).for_each(|_| stage.learn(8 * MIB));
        assert!(stage.bytes() - stage.careful_bytes() < MIB / 1000, "so it is exact");
    }

    #[test]
    fn m11_a_halved_stage_is_learnt_after_two_surprises_and_a_doubled_one_after_some() {
        let mut halved = StageBytes::new(16 * MIB, 0);
        halved.ended(8 * MIB, 64 * KIB);
        assert!(halved.bytes() < 13 * MIB, "{}", halved.bytes());
        halved.ended(8 * MIB, 64 * KIB);
        halved.ended(8 * MIB, 64 * KIB);
        halved.ended(8 * MIB, 64 * KIB);
        assert_eq!(halved.bytes() / MIB, 8);
        let mut doubled = StageBytes::new(8 * MIB, 0);
        for _ in 0..5 {
            doubled.ended(16 * MIB, 64 * KIB);
        }
        assert_eq!(doubled.bytes() / MIB, 16);
        let mut unseen = StageBytes::new(16 * MIB, 0);
        (0..4).for_each(|_| unseen.outlasted(32 * MIB));
        assert_eq!(unseen.bytes(), 32 * MIB);
    }

    #[test]
    fn what_a_large_write_says_is_taken_as_the_bound_that_it_is() {
        for (before, bytes, want) in [
            (10 * MIB, 4 * MIB, Some(14 * MIB)), // ended at 14 at the latest: early
            (14 * MIB, 4 * MIB, None),           // between 14 and 18: as believed
            (18 * MIB, 4 * MIB, Some(18 * MIB)), // not before 18: late
        ] {
            let mut stage = StageBytes::new(16 * MIB, 0);
            stage.ended(before, bytes);
            assert_eq!((stage.count > 0).then_some(stage.recent[0]), want);
        }
    }
}
