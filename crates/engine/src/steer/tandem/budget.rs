//! How much later than on the SSD may users be, and how much of that is left?
//!
//! Source: frontier D0: latency is the objective, and wear has a price that follows from a limit. The limit here is
//!         the operator's `slowdown`. An account holds the mean: each request brings the allowed part of its time, and
//!         one that was sent elsewhere brings or takes the difference to the SSD's. A count holds the tail.

use crate::steer::quantile::{BUCKETS, bucket};

/// What so many requests bring is kept at most: a calm hour must not pay for a bad minute.
const KEPT: i64 = 4_096;
/// Where they bring next to nothing, gains are kept as if they brought this part of their time.
const KEPT_PPM_MIN: i64 = 10_000;
/// A new account has this part of what can be kept.
const FIRST_PART: i64 = 2;
/// Debts are kept up to so many mean latencies.
const DEBT_MEANS: i64 = 262_144;
/// Mean latency that a new account supposes, in ns (guess).
const MEAN_NS: i64 = 50_000;
const PPM: i64 = 1_000_000;

/// Time that users may lose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// What a request may be later on average, in millionths.
    slack_ppm: i64,
    /// Mean latency of requests, in ns: what can be kept goes by it.
    mean_ns: i64,
    left_ns: i64,
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// So many millionths of a time, without a division of 128 bits, which would be a third of a decision.
fn part(ppm: i64, ns: i64) -> i64 {
    let whole = (ns / PPM).saturating_mul(ppm);
    whole.saturating_add((ns % PPM).saturating_mul(ppm) / PPM)
}

impl Account {
    /// `slack_ppm`: so many millionths later on average.
    pub(super) fn new(slack_ppm: u64) -> Self {
        let mut account = Account { slack_ppm: signed(slack_ppm), mean_ns: MEAN_NS, left_ns: 0 };
        account.left_ns = if slack_ppm > 0 { account.most_ns() / FIRST_PART } else { 0 };
        account
    }

    /// Time that is kept at most, in ns.
    fn most_ns(&self) -> i64 {
        let ppm = self.slack_ppm.clamp(KEPT_PPM_MIN, PPM);
        part(ppm, self.mean_ns).saturating_mul(KEPT)
    }

    /// A request that its own place served in so many ns.
    pub(super) fn earn(&mut self, took_ns: u64) {
        let took = signed(took_ns);
        // one stall says little of the mean
        let seen = took.min(self.mean_ns.saturating_mul(16));
        self.mean_ns = (self.mean_ns + (seen - self.mean_ns) / 64).max(1);
        self.allow(took_ns);
    }

    /// A request that nobody could have sent elsewhere took so long.
    pub(super) fn allow(&mut self, took_ns: u64) {
        self.add(self.allowed(signed(took_ns)));
    }

    /// A request that was sent elsewhere took so long, where the SSD was expected to take `ssd_ns`.
    pub(super) fn settle(&mut self, took_ns: u64, ssd_ns: u64) {
        let (took, ssd) = (signed(took_ns), signed(ssd_ns));
        self.add(self.allowed(ssd).saturating_add(ssd).saturating_sub(took));
    }

    /// So much is expected to be lost, and is lost for others until it is known.
    pub(super) fn reserve(&mut self, loss_ns: u64) {
        self.add(signed(loss_ns).saturating_neg());
    }

    /// What was reserved is known now.
    pub(super) fn give_back(&mut self, loss_ns: u64) {
        self.add(signed(loss_ns));
    }

    fn allowed(&self, ns: i64) -> i64 {
        part(self.slack_ppm, ns)
    }

    fn add(&mut self, ns: i64) {
        let debt = self.mean_ns.saturating_mul(DEBT_MEANS);
        self.left_ns = self.left_ns.saturating_add(ns).clamp(-debt, self.most_ns());
    }

    /// Time that may be lost now, in ns.
    pub(super) fn left_ns(&self) -> u64 {
        u64::try_from(self.left_ns).unwrap_or(0)
    }

    /// How full it is, in percent.
    pub(super) fn full_percent(&self) -> u64 {
        let percent = i128::from(self.left_ns.max(0)) * 100 / i128::from(self.most_ns().max(1));
        u64::try_from(percent).unwrap_or(0).min(100)
    }

    /// Has more been lost than was allowed?
    pub(super) fn is_spent(&self) -> bool {
        self.left_ns < 0
    }

    /// Mean latency of what its own place served, in ns.
    pub(super) fn mean_ns(&self) -> u64 {
        self.mean_ns.unsigned_abs()
    }
}

/// Rights that are kept at most: a long calm does not pay for a bad minute.
const RIGHTS_MAX: i64 = 4;
/// … and so many late requests are remembered of each bucket of latencies.
const LATE_MAX: u32 = 64;

/// How many requests may still be later than the tail that the SSD has by itself.
///
/// Late requests are kept by their latency. What an SSD takes for its tail is often known only later: then those that
/// were within it count no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    /// What one request earns, in millionths of a right.
    earned_ppm: i64,
    /// Rights that were earned.
    rights_ppm: i64,
    late: [u32; BUCKETS],
    /// Those of them that count, by what was last known of the SSD.
    owed: u32,
    late_ns: u64,
}

impl Lateness {
    /// One of so many requests may be late.
    pub(super) const fn new(one_of: i64) -> Lateness {
        let late = [0; BUCKETS];
        Lateness { earned_ppm: PPM / one_of, rights_ppm: PPM, late, owed: 0, late_ns: 0 }
    }

    /// A request that earns.
    pub(super) fn earn(&mut self) {
        self.add(self.earned_ppm);
    }

    /// A request that earns a tenth: so what is owed is forgotten in the end.
    pub(super) fn forget(&mut self) {
        self.add(self.earned_ppm / 10);
    }

    /// One took so long because it was sent elsewhere.
    pub(super) fn note(&mut self, took_ns: u64) {
        let late = &mut self.late[bucket(took_ns)];
        *late += 1;
        let is_full = *late > LATE_MAX;
        self.count();
        if is_full {
            self.forget_paid();
        }
    }

    /// Late requests that rights were earned for are forgotten with these rights, so what is owed stays as it was. Of what
    /// is owed so many are remembered of each bucket, and no more.
    fn forget_paid(&mut self) {
        let paid = (self.rights_ppm / PPM).clamp(0, i64::from(self.owed)) as u64;
        let (from, owed) = (bucket(self.late_ns) + 1, self.owed);
        for late in self.late.iter_mut().skip(from) {
            *late -= (u64::from(*late) * paid / u64::from(owed.max(1))) as u32;
        }
        self.count();
        self.rights_ppm -= i64::from(owed - self.owed) * PPM;
        self.late.iter_mut().for_each(|late| *late = (*late).min(LATE_MAX));
        self.count();
    }

    /// From now on those count that took longer than so much.
    pub(super) fn count_from(&mut self, late_ns: u64) {
        if late_ns != self.late_ns {
            self.late_ns = late_ns;
            self.count();
        }
    }

    fn count(&mut self) {
        let from = bucket(self.late_ns) + 1;
        self.owed = self.late.iter().skip(from).sum();
    }

    fn add(&mut self, ppm: i64) {
        let most = (i64::from(self.owed) + RIGHTS_MAX) * PPM;
        self.rights_ppm = (self.rights_ppm + ppm).min(most);
    }

    /// Were more late than may be?
    pub(super) fn is_spent(&self) -> bool {
        self.rights_ppm < i64::from(self.owed) * PPM
    }
}

/// How often something may be done beside what is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    earned_ppm: i64,
    left_ppm: i64,
    most_ppm: i64,
}

impl Rights {
    /// With so many millionths of all requests, and so often at once.
    pub(super) fn new(share_ppm: u64, most: i64) -> Rights {
        let earned_ppm = signed(share_ppm);
        Rights { earned_ppm, left_ppm: PPM * earned_ppm.min(1), most_ppm: most * PPM }
    }

    /// A request.
    pub(super) fn earn(&mut self) {
        self.left_ppm = (self.left_ppm + self.earned_ppm).min(self.most_ppm);
    }

    /// It is done once.
    pub(super) fn spend(&mut self) {
        self.left_ppm -= PPM;
    }

    /// May it be done?
    pub(super) fn has_one(&self) -> bool {
        self.left_ppm >= PPM
    }
}

/// A peak is forgotten at so many of its parts with each request, as a power of two.
const PEAK_BITS: u32 = 6;

/// The longest of some latencies, of which older ones count less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    ns: u64,
}

impl Peak {
    /// One more.
    pub(super) fn add(&mut self, took_ns: u64) {
        self.ns = took_ns.max(self.ns - (self.ns >> PEAK_BITS));
    }

    /// The longest, in ns.
    pub(super) fn ns(self) -> u64 {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_stays_within_the_slack() {
        // whoever spends whenever something is left is 5 % late in the long run, and no more
        let mut account = Account::new(50_000);
        let mut total_ns = 0u64;
        for _ in 0..200_000 {
            if account.left_ns() >= 30_000 {
                account.settle(130_000, 100_000);
                total_ns += 130_000;
            } else {
                account.earn(100_000);
                total_ns += 100_000;
            }
        }
        let mean_ns = total_ns / 200_000;
        assert!((104_000..=105_300).contains(&mean_ns), "{mean_ns}");
    }

    /// Latencies that vary by themselves lose nothing.
    #[test]
    fn gains_and_losses_cancel() {
        let mut account = Account::new(0);
        let before = account.left_ns();
        for round in 0..10_000 {
            account.settle(if round % 2 == 0 { 50_000 } else { 150_000 }, 100_000);
        }
        assert_eq!(account.left_ns(), before);
    }

    #[test]
    fn a_loss_is_paid_back_before_the_next_one() {
        let mut account = Account::new(50_000);
        (0..2_000).for_each(|_| account.earn(20_000));
        (0..10).for_each(|_| account.settle(100_000_000, 20_000));
        assert!(account.is_spent() && account.left_ns() == 0);
        let mut requests = 0u64;
        while account.is_spent() {
            account.earn(20_000);
            requests += 1;
        }
        let owed = 10 * 99_980_000 - 2 * account.most_ns().unsigned_abs();
        assert!(requests >= owed / 1_000, "{requests}: a second is 1 us of each of a million");
    }

    #[test]
    fn what_is_reserved_is_not_spent_twice() {
        let mut account = Account::new(50_000);
        let before = account.left_ns();
        account.reserve(before);
        assert_eq!(account.left_ns(), 0);
        account.give_back(before);
        account.settle(30_000, 20_000);
        assert_eq!(account.left_ns(), before - 9_000, "10 us were lost, and 1 us is allowed");
    }

    #[test]
    fn what_never_ends_ends_no_arithmetic() {
        let mut account = Account::new(u64::MAX);
        account.settle(u64::MAX, 0);
        account.earn(u64::MAX);
        account.settle(u64::MAX, u64::MAX);
        account.reserve(u64::MAX);
        assert!(account.full_percent() <= 100 && account.mean_ns() > 0);
    }

    #[test]
    fn so_many_may_be_late_and_no_more() {
        let mut tail = Lateness::new(1_000);
        let mut late = 0;
        for _ in 0..100_000 {
            let is_late = !tail.is_spent();
            tail.earn();
            if is_late {
                tail.note(1_000_000);
                late += 1;
            }
        }
        assert!((95..=105).contains(&late), "{late} of 100,000");
        (0..10).for_each(|_| tail.note(1_000_000));
        (0..90_000).for_each(|_| tail.forget());
        assert!(tail.is_spent());
        (0..20_000).for_each(|_| tail.forget());
        assert!(!tail.is_spent(), "it is forgotten in the end");
    }

    /// Many at once close the way for long, and not for ever.
    #[test]
    fn what_is_owed_is_bounded() {
        let mut tail = Lateness::new(1_000);
        (0..10_000).for_each(|_| tail.note(1_000_000));
        (0..60_000).for_each(|_| tail.earn());
        assert!(tail.is_spent());
        (0..10_000).for_each(|_| tail.earn());
        assert!(!tail.is_spent());
        (0..1_000).for_each(|_| tail.note(1_000_000));
        tail.count_from(2_000_000);
        assert!(!tail.is_spent(), "they are known by their latency however many there were");
    }

    /// What an SSD takes itself, as is known later, was not late.
    #[test]
    fn late_is_what_the_ssd_does_not_take_itself() {
        let mut tail = Lateness::new(1_000);
        tail.count_from(600_000);
        (0..20).for_each(|_| tail.note(50_000_000));
        (0..3).for_each(|_| tail.note(400_000));
        assert!(tail.is_spent());
        tail.count_from(40_000_000);
        assert!(tail.is_spent(), "longer than that");
        tail.count_from(90_000_000);
        assert!(!tail.is_spent(), "its own tail is as long");
        tail.count_from(100_000);
        assert!(tail.is_spent(), "it has none of its own any more");
    }

    #[test]
    fn rights_come_with_requests_and_are_bounded() {
        let mut rights = Rights::new(10_000, 3);
        assert!(rights.has_one());
        rights.spend();
        (0..99).for_each(|_| rights.earn());
        assert!(!rights.has_one());
        rights.earn();
        assert!(rights.has_one());
        (0..10_000).for_each(|_| rights.earn());
        (0..3).for_each(|_| rights.spend());
        assert!(!rights.has_one(), "three at once");
    }

    #[test]
    fn a_peak_is_forgotten_with_what_follows() {
        let mut peak = Peak::default();
        peak.add(80_000_000);
        (0..40).for_each(|_| peak.add(20_000));
        assert!((20_000_000..60_000_000).contains(&peak.ns()), "{peak:?}");
        (0..1_000).for_each(|_| peak.add(20_000));
        assert!((20_000..21_000).contains(&peak.ns()), "{peak:?}");
    }
}
