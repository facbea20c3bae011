//! What may one stream have, and what has it had?
//!
//! Source: [IANUS §4.2]: deadlines are `D_s = T_s + e/u`; requirements B9: a pause gains no credit.

use super::reserve::WHOLE_PPB;
use super::tree::ABSENT;

/// Fixed point of what a stream has had of the slack.
const SLACK_UNITS: u64 = 64;
/// What is owed outlives a pause, up to this part of the window (guess): a drive that stood still owes
/// that; a client that asks for one thing after the other is not late by the drive alone.
const OWED_PART: u64 = 8;

/// What a stream may have, and has had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tags {
    /// Its share of the drive, in billionths; 0 without a promise.
    pub(crate) share_ppb: u64,
    /// Its part of the slack.
    pub(crate) weight: u64,
    /// `T_s`: the deadline of its last request that was owed to it.
    pub(crate) total_ns: u64,
    /// What is owed to it is owed for so long.
    pub(crate) window_ns: u64,
    /// When one of its requests last left the drive.
    pub(crate) asked_ns: u64,
    /// What it has had of the slack, over its weight.
    pub(crate) slack: u64,
}

impl Tags {
    /// It asks again after a pause: that gained it nothing, but what the drive owed it before is owed
    /// still. A client whose requests all ended at once, after the drive stood still, is only on its
    /// way with the next ones.
    #[inline]
    pub(crate) fn resume(&mut self, now_ns: u64) {
        let (most_ns, paused_ns) =
            (self.window_ns / OWED_PART, now_ns.saturating_sub(self.asked_ns));
        let owed_ns = match paused_ns < most_ns {
            true => self.asked_ns.saturating_sub(self.total_ns).min(most_ns),
            false => 0,
        };
        self.total_ns = self.total_ns.max(now_ns.saturating_sub(owed_ns));
    }

    /// When the share for the next request is owed, and by when.
    #[inline]
    pub(crate) fn deadline(&self, now_ns: u64, cost_ns: u64) -> (u64, u64) {
        assert!(self.share_ppb > 0, "only what is promised has a deadline");
        let start_ns = self.total_ns.max(now_ns.saturating_sub(self.window_ns));
        // a cost is below 18 s, so the product fits
        let relative_ns = cost_ns.min(18_000_000_000) * WHOLE_PPB / self.share_ppb;
        (start_ns, start_ns.saturating_add(relative_ns).min(ABSENT - 1))
    }

    #[inline]
    pub(crate) fn charge_slack(&mut self, cost_ns: u64) {
        let part = cost_ns.min(1 << 40) * SLACK_UNITS / self.weight.max(1);
        self.slack = self.slack.saturating_add(part.max(1)).min(ABSENT - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_gains_nothing_and_loses_nothing_that_was_owed() {
        let tags = Tags { window_ns: 8_000, total_ns: 400, asked_ns: 500, ..Tags::default() };
        let resumed = |tags: Tags, now_ns| {
            let mut tags = tags;
            tags.resume(now_ns);
            tags.total_ns
        };
        // 100 were owed when it paused
        assert_eq!(resumed(tags, 500), 400);
        assert_eq!(resumed(tags, 503), 403);
        assert_eq!(resumed(tags, 1_499), 1_399);
        assert_eq!(resumed(tags, 1_500), 1_500, "a long pause later nothing is");
        // nothing was owed; it was even ahead
        assert_eq!(resumed(Tags { total_ns: 500, ..tags }, 900), 900);
        assert_eq!(resumed(Tags { total_ns: 950, ..tags }, 900), 950);
        // never more than a part of the window
        assert_eq!(resumed(Tags { asked_ns: 5_000, ..tags }, 5_010), 4_010);
        assert_eq!(
            resumed(Tags { window_ns: 0, ..tags }, 501),
            501,
            "without a promise nothing is owed"
        );
    }
}
