//! How long was the queue of a drive when a job came to it?
//!
//! Time does not weigh here: each job counts once. A burst that is short counts for all of its jobs.

/// Jobs of one drive, by how many were accepted there and had not ended when each came.
///
/// Jobs of users and of the background count. Commands that were never jobs, such as those of the
/// journal, are found by others and do not count themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFound {
    /// By length; as long as the longest queue that was found.
    jobs: Vec<u64>,
}

impl QueueFound {
    /// A job found a queue of this length.
    #[inline]
    pub(crate) fn note(&mut self, length: u32) {
        let length = length as usize;
        if length >= self.jobs.len() {
            self.jobs.resize(length + 1, 0);
        }
        self.jobs[length] += 1;
    }

    /// Jobs that came.
    pub fn count(&self) -> u64 {
        self.jobs.iter().sum()
    }

    /// The length that this share of the jobs did not find exceeded; 0 if none came.
    pub fn percentile(&self, percent: u64) -> u32 {
        let wanted = (u128::from(self.count()) * u128::from(percent)).div_ceil(100);
        let mut seen = 0u128;
        for (length, jobs) in self.jobs.iter().enumerate() {
            seen += u128::from(*jobs);
            if seen >= wanted {
                return length as u32;
            }
        }
        0
    }

    /// The longest queue that a job found; 0 if none came.
    pub fn max(&self) -> u32 {
        self.jobs.iter().rposition(|jobs| *jobs > 0).unwrap_or(0) as u32
    }

    /// Jobs that came since `before`.
    pub fn since(&self, before: &QueueFound) -> QueueFound {
        let earlier = before.jobs.iter().copied().chain(std::iter::repeat(0));
        QueueFound { jobs: self.jobs.iter().zip(earlier).map(|(now, then)| now - then).collect() }
    }

    /// Adds the jobs of another drive.
    pub fn add(&mut self, other: &QueueFound) {
        let longest = self.jobs.len().max(other.jobs.len());
        self.jobs.resize(longest, 0);
        for (sum, jobs) in self.jobs.iter_mut().zip(&other.jobs) {
            *sum += jobs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[u32]) -> QueueFound {
        let mut found = QueueFound::default();
        lengths.iter().for_each(|length| found.note(*length));
        found
    }

    /// Lengths that were found; then p50, p99 and the longest.
    #[test]
    fn each_job_counts_once() {
        let crowd: Vec<u32> = (0..200).collect();
        let rare: Vec<u32> = std::iter::repeat_n(0, 99).chain([7]).collect();
        let table: [(&[u32], [u32; 3]); 7] = [
            (&[], [0, 0, 0]),
            (&[0], [0, 0, 0]),
            (&[5], [5, 5, 5]),
            (&[3, 0, 1, 2], [1, 3, 3]),
            (&[0, 0, 0, 9], [0, 9, 9]),
            (&crowd, [99, 197, 199]),
            (&rare, [0, 0, 7]),
        ];
        for (lengths, want) in table {
            let found = of(lengths);
            assert_eq!(found.count(), lengths.len() as u64);
            assert_eq!([found.percentile(50), found.percentile(99), found.max()], want);
        }
    }

    #[test]
    fn jobs_are_added_up_and_told_from_earlier_ones() {
        let before = of(&[8, 0, 1]);
        let mut all = before.clone();
        assert_eq!(all.since(&before).max(), 0, "none came");
        [2, 2, 12].into_iter().for_each(|length| all.note(length));
        let later = all.since(&before);
        assert_eq!((later.count(), later.percentile(50), later.max()), (3, 2, 12));
        let mut sum = before.clone();
        sum.add(&later);
        assert_eq!(sum, all);
        assert_eq!(of(&[8, 1]).since(&of(&[8])).max(), 1, "the longest is of the later ones alone");
    }
}
