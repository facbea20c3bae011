//! Will the next write to this HDD be fast, mid or slow?
//!
//! Source:  [BCW §4.1, Alg. 1, Fig. 5]
//! Names:   ADW → stage_bytes, W_f → fast_stage_bytes, W_m → mid_stage_bytes, s → bytes
//! Differs: nothing; what counts as bytes in the stage (committed, in flight, decayed by idle
//!          time) is the controller's affair (B2).
//! Unclear: the paper tests "<", so a write that exactly fills a stage is predicted slow; and a
//!          write larger than `W_m` is slow for ever, which is why such writes are not sent here.
//! Tests:   below, and the 100 GB run of [BCW §4.1] in the acceptance.

/// State that a buffered write meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteState {
    /// Paper: F.
    Fast,
    /// Paper: M.
    Mid,
    /// Paper: S.
    Slow,
}

impl WriteState {
    /// All of them.
    pub const ALL: [WriteState; 3] = [WriteState::Fast, WriteState::Mid, WriteState::Slow];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            WriteState::Fast => "fast",
            WriteState::Mid => "mid",
            WriteState::Slow => "slow",
        }
    }
}

/// [BCW Alg. 1]: the state of the next write, from the state of the last one, the bytes in the
/// present stage and the size of the next.
pub const fn predict(
    last: WriteState,
    stage_bytes: u64,
    bytes: u64,
    fast_stage_bytes: u64,
    mid_stage_bytes: u64,
) -> WriteState {
    match last {
        WriteState::Fast if stage_bytes + bytes < fast_stage_bytes => WriteState::Fast,
        WriteState::Mid if stage_bytes + bytes < mid_stage_bytes => WriteState::Mid,
        WriteState::Fast | WriteState::Mid => WriteState::Slow,
        WriteState::Slow => WriteState::Mid,
    }
}

/// Counts of actual against predicted states; rows are actual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// `[actual][predicted]`.
    pub counts: [[u64; 3]; 3],
}

impl Confusion {
    /// Counts one write.
    pub fn count(&mut self, actual: WriteState, predicted: WriteState) {
        self.counts[actual as usize][predicted as usize] += 1;
    }

    /// Share of the writes that were `actual` and predicted so, in ppm; `None` without any.
    pub fn recall_ppm(&self, actual: WriteState) -> Option<u64> {
        let row = self.counts[actual as usize];
        let total: u64 = row.iter().sum();
        (total > 0).then(|| row[actual as usize] * 1_000_000 / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line of [BCW Alg. 1] and every arrow of [BCW Fig. 5], with W_f = 16, W_m = 8.
    #[test]
    fn bcw_algorithm_1() {
        use WriteState::{Fast, Mid, Slow};
        for (last, stage_bytes, bytes, want) in [
            (Fast, 0, 15, Fast),
            (Fast, 10, 5, Fast),
            (Fast, 10, 6, Slow), // exactly full: "<" is strict
            (Fast, 16, 1, Slow),
            (Mid, 0, 7, Mid),
            (Mid, 4, 4, Slow),
            (Mid, 7, 2, Slow),
            (Slow, 0, 1, Mid),
            (Slow, 99, 99, Mid),
        ] {
            assert_eq!(predict(last, stage_bytes, bytes, 16, 8), want, "{last:?} {stage_bytes}");
        }
    }
}
