//! What did a controller meet and do, and for how long was its drive not trusted?
//!
//! Source: requirements M14 and M24 (predictions), B6; [BCW §4.2] for slow writes of users, which
//! scheduling is there to avoid.

use crate::bcw::predictor::Confusion;
use crate::bcw::unreliability::Unreliability;
use std::ops::AddAssign;

/// Counts for results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStats {
    /// Actual against predicted states of all buffered writes, padding included.
    pub confusion: Confusion,
    /// Users' writes that met the slow state: the figure of merit.
    pub user_slow_writes: u64,
    /// Bytes of padding in the mid state.
    pub fast_padding_bytes: u64,
    /// Bytes of padding to bring on slow writes.
    pub slow_padding_bytes: u64,
    /// Times the byte limit on padding was reached and a flush took over.
    pub padding_limits: u64,
    /// Times the padding budget was spent.
    pub budget_stops: u64,
    /// Slow writes, padding included, where none was predicted.
    pub surprises: u64,
    /// Times that steering to the drive stopped, by reason, in the order of `Unreliability::ALL`.
    pub unreliable_times: [u64; Unreliability::ALL.len()],
    /// Time that the drive was not trusted, measurements included, in ns.
    pub unreliable_ns: u64,
    /// Times that a read broke the stream.
    pub suspensions: u64,
    /// Times that the drive was measured anew.
    pub measurements: u64,
    /// Used-up stages that were padded to their end for the learner alone.
    pub explorations: u64,
}

impl AddAssign<&ControllerStats> for ControllerStats {
    fn add_assign(&mut self, other: &ControllerStats) {
        let rows = self.confusion.counts.iter_mut().zip(&other.confusion.counts);
        for (count, more) in rows.flat_map(|(row, other)| row.iter_mut().zip(other)) {
            *count += more;
        }
        self.user_slow_writes += other.user_slow_writes;
        self.fast_padding_bytes += other.fast_padding_bytes;
        self.slow_padding_bytes += other.slow_padding_bytes;
        self.padding_limits += other.padding_limits;
        self.budget_stops += other.budget_stops;
        self.surprises += other.surprises;
        for (count, more) in self.unreliable_times.iter_mut().zip(&other.unreliable_times) {
            *count += more;
        }
        self.unreliable_ns += other.unreliable_ns;
        self.suspensions += other.suspensions;
        self.measurements += other.measurements;
        self.explorations += other.explorations;
    }
}
