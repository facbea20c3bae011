//! How many writes went where, and why?
//!
//! Counted for every write, so it is a table by the reason's number and no search.

use crate::steer::Reason;

/// Room for as many reasons; there are far fewer.
const REASONS_MAX: usize = 64;

/// Steering decisions by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steered {
    counts: [Option<(Reason, Decided)>; REASONS_MAX],
}

/// What one reason decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// Decisions.
    pub requests: u64,
    /// Bytes that users asked to be written by them.
    pub bytes: u64,
}

impl Default for Steered {
    fn default() -> Self {
        Steered { counts: [None; REASONS_MAX] }
    }
}

impl Steered {
    /// Counts one decision.
    #[inline]
    pub(crate) fn count(&mut self, reason: Reason, bytes: u64) {
        let entry = &mut self.counts[reason as usize];
        let (_, decided) = entry.get_or_insert((reason, Decided::default()));
        decided.requests += 1;
        decided.bytes += bytes;
    }

    /// A decision of this reason, counted before, does not stand.
    pub(crate) fn take_back(&mut self, reason: Reason, bytes: u64) {
        let (_, decided) = self.counts[reason as usize].as_mut().expect("it was counted");
        assert!(decided.requests > 0 && decided.bytes >= bytes, "more taken back than was counted");
        decided.requests -= 1;
        decided.bytes -= bytes;
    }

    /// What this reason decided.
    pub fn get(&self, reason: Reason) -> Decided {
        self.counts[reason as usize].map(|(_, decided)| decided).unwrap_or_default()
    }

    /// The reasons that decided anything, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Decided)> + '_ {
        self.counts.iter().flatten().copied().filter(|(_, decided)| decided.requests > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_apart_and_listed_in_order() {
        let mut steered = Steered::default();
        assert_eq!(steered.iter().count(), 0);
        steered.count(Reason::Returned, 0);
        steered.count(Reason::Congested, 4096);
        steered.count(Reason::Congested, 512);
        let both = Decided { requests: 2, bytes: 4608 };
        let listed: Vec<_> = steered.iter().collect();
        assert_eq!(listed[0], (Reason::Congested, both));
        assert_eq!(listed[1], (Reason::Returned, Decided { requests: 1, bytes: 0 }));
        assert_eq!(steered.get(Reason::Congested), both);
        steered.take_back(Reason::Returned, 0);
        assert_eq!(steered.iter().count(), 1, "what was taken back is not listed");
        assert_eq!(steered.get(Reason::Policy), Decided::default());
    }
}
