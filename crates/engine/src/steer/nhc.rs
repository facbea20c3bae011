//! Where does this write go now, and does the SSD serve this read? To the SSD, until a hard drive beside it serves more.
//!
//! Source:  Non-hierarchical caching, in Orthus (FAST 2021), P20 of the requirements; its numbers are those of the
//!          published code for Open CAS. A cache works as usual until its hit rate is stable. Then nothing is admitted
//!          any more, and a share of the hits goes to the slower device. That share is found by climbing: a little
//!          more and a little less are tried, and the best is kept. When the misses become many, or all goes to the
//!          cache again and again, it begins anew.
//! Names:   load_admit → load, data_admit → `admits`, tuning step → step, measured throughput → probe
//! Differs: * only what a hard drive has, too, can be read from it: give the volume a cache, as `cache-write-back`.
//!            Tiers that bring data at intervals go on to admit;
//!          * a share is kept exactly, where the source throws dice;
//!          * the hit rate is that of all reads since the cache began to work as usual, so that few reads in a tenth
//!            of a second do not look unstable;
//!          * a time is over at the first event after it. One in which nothing was answered is not judged;
//!          * `target=latency` finds the least mean latency instead of the highest throughput, which a load that does
//!            not wait for answers cannot raise.
//! Tests:   below, by what is answered.

use super::settings::{Kind, Setting, SteerConfig};
use super::{Answer, Decision, PolicyEntry, Reason, Seen, Steer, SteerView};
use crate::bcw::controller::Control;
use crate::port::ServedFrom;
use tandem_block::{Duration, Instant};

const WHOLE_PPM: u64 = 1_000_000;
const THROUGHPUT: u64 = 0;
const LATENCY: u64 = 1;
/// Times that the best is to send all to the cache, before the cache works as usual again (published code).
const CHANCES: u8 = 2;
/// Of fewer reads the share that missed says nothing (guess).
const READS_MIN: u64 = 64;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "nhc",
    summary: "to the SSD; a share of the reads that a hard drive could serve goes there while that is better",
    source: "Orthus (FAST 2021) and its code",
    needs: (1, 0),
    settings: &[
        Setting::new("target", Kind::Word, THROUGHPUT, 0..=1, "what is best")
            .words(&[("throughput", THROUGHPUT), ("latency", LATENCY)]),
        Setting::new(
            "step",
            Kind::Share,
            10_000,
            1_000..=500_000,
            "how much more, or less, of the hits is tried",
        ),
        Setting::new(
            "probe",
            Kind::Time,
            25_000_000,
            100_000..=60_000_000_000,
            "each share is tried for so long",
        ),
        Setting::new(
            "stable_time",
            Kind::Time,
            100_000_000,
            1_000_000..=60_000_000_000,
            "the hit rate is looked at every so often",
        ),
        Setting::new(
            "stable",
            Kind::Share,
            1_500,
            0..=1_000_000,
            "it is stable when it has changed by no more than this",
        ),
        Setting::new(
            "change",
            Kind::Share,
            200_000,
            0..=1_000_000,
            "the load is another one when so much more misses",
        ),
    ],
    build: |config, _| Box::new(Nhc::new(config)),
};

/// What was answered lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answered {
    requests: u64,
    bytes: u64,
    latency_ns: u64,
    reads: u64,
    misses: u64,
}

impl Answered {
    /// Millionths of the reads that missed; `None` without any.
    fn misses_ppm(&self) -> Option<u64> {
        (self.misses * WHOLE_PPM).checked_div(self.reads)
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A cache as usual, and which share of the reads missed when that was looked at last.
    Classic { misses_ppm: Option<u64> },
    /// It climbs.
    Tuning { base_ppm: u64, climb: Climb },
}

/// Shares of the hits for the cache, and how good each is: the one that is the best so far, and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Climb {
    share_ppm: u64,
    middle: Option<u64>,
    more: Option<u64>,
    less: Option<u64>,
    chances: u8,
}

/// What a climb does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Try this share.
    Try(u64),
    /// All goes to the cache again: nothing is gained.
    GiveUp,
}

impl Climb {
    /// From the top: all hits are served by the cache.
    fn begin() -> Climb {
        Climb { share_ppm: WHOLE_PPM, middle: None, more: None, less: None, chances: CHANCES }
    }

    /// The share that is tried now.
    fn tries_ppm(&self, step_ppm: u64) -> u64 {
        match (self.middle, self.more) {
            (None, _) => self.share_ppm,
            (Some(_), None) if self.share_ppm < WHOLE_PPM => self.share_ppm + step_ppm,
            (Some(_), _) => self.share_ppm.saturating_sub(step_ppm),
        }
        .min(WHOLE_PPM)
    }

    /// The share that was tried is as good as this: what is next?
    fn tried(&mut self, score: u64, step_ppm: u64) -> Next {
        if self.middle.is_none() {
            self.middle = Some(score);
        } else if self.more.is_none() && self.share_ppm < WHOLE_PPM {
            self.more = Some(score);
        } else {
            self.less = Some(score);
        }
        let has_more = self.more.is_some() || self.share_ppm == WHOLE_PPM;
        let has_less = self.less.is_some() || self.share_ppm == 0;
        if has_more && has_less {
            let rises = self.more > self.middle && self.more >= self.less;
            let falls = !rises && self.less > self.middle;
            if rises {
                (self.less, self.middle, self.more) = (self.middle, self.more, None);
                self.share_ppm = (self.share_ppm + step_ppm).min(WHOLE_PPM);
            } else if falls {
                (self.more, self.middle, self.less) = (self.middle, self.less, None);
                self.share_ppm = self.share_ppm.saturating_sub(step_ppm);
            }
            let has_settled = !rises && !falls;
            if has_settled || self.share_ppm == 0 || self.share_ppm == WHOLE_PPM {
                (self.middle, self.more, self.less) = (None, None, None);
                self.chances -= u8::from(self.share_ppm == WHOLE_PPM);
            }
        }
        if self.chances == 0 {
            return Next::GiveUp;
        }
        Next::Try(self.tries_ppm(step_ppm))
    }
}

#[derive(Clone, Debug)]
struct Nhc {
    by_latency: bool,
    step_ppm: u64,
    probe: Duration,
    stable_time: Duration,
    stable_ppm: u64,
    change_ppm: u64,
    phase: Phase,
    /// Share of the hits that the cache serves now.
    load_ppm: u64,
    /// What is owed to the cache of the next hit.
    owed_ppm: u64,
    /// When what was answered is looked at.
    due: Instant,
    answered: Answered,
    /// Reads since it was last asked whether the load is another one, and how many of them missed.
    watched: (u64, u64),
}

impl Nhc {
    fn new(config: &SteerConfig) -> Self {
        Nhc {
            by_latency: config.get("target") == LATENCY,
            step_ppm: config.get("step"),
            probe: Duration::from_ns(config.get("probe")),
            stable_time: Duration::from_ns(config.get("stable_time")),
            stable_ppm: config.get("stable"),
            change_ppm: config.get("change"),
            phase: Phase::Classic { misses_ppm: None },
            load_ppm: WHOLE_PPM,
            owed_ppm: 0,
            due: Instant::ZERO,
            answered: Answered::default(),
            watched: (0, 0),
        }
    }

    /// How good what was answered is; the more the better.
    fn score(&self) -> u64 {
        match self.by_latency {
            true => u64::MAX - self.answered.latency_ns / self.answered.requests.max(1),
            false => self.answered.bytes,
        }
    }

    fn begin(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.load_ppm = WHOLE_PPM;
        (self.answered, self.watched) = (Answered::default(), (0, 0));
        let lasts = match phase {
            Phase::Classic { .. } => self.stable_time,
            Phase::Tuning { .. } => self.probe,
        };
        self.due = now + lasts;
    }

    /// Do far more reads miss than when it began to climb?
    fn is_another(&mut self, base_ppm: u64) -> bool {
        self.watched.0 += self.answered.reads;
        self.watched.1 += self.answered.misses;
        if self.watched.0 < READS_MIN {
            return false;
        }
        let (reads, misses) = std::mem::take(&mut self.watched);
        misses * WHOLE_PPM / reads > base_ppm.saturating_add(self.change_ppm)
    }

    /// A time is over.
    fn look(&mut self, now: Instant) {
        match self.phase {
            Phase::Classic { misses_ppm: before } => {
                // of all reads so far: they are not forgotten
                let misses_ppm = self.answered.misses_ppm();
                match (before, misses_ppm) {
                    (Some(before), Some(ppm)) if before.abs_diff(ppm) <= self.stable_ppm => {
                        let tuning = Phase::Tuning { base_ppm: ppm, climb: Climb::begin() };
                        self.begin(tuning, now);
                    }
                    _ => {
                        self.phase = Phase::Classic { misses_ppm };
                        self.due = now + self.stable_time;
                    }
                }
            }
            Phase::Tuning { base_ppm, mut climb } => {
                let is_another = self.is_another(base_ppm);
                match climb.tried(self.score(), self.step_ppm) {
                    Next::Try(load_ppm) if !is_another => {
                        self.phase = Phase::Tuning { base_ppm, climb };
                        self.load_ppm = load_ppm;
                        self.answered = Answered::default();
                        self.due = now + self.probe;
                    }
                    _ => self.begin(Phase::Classic { misses_ppm: None }, now),
                }
            }
        }
    }
}

impl Steer for Nhc {
    fn decide(&mut self, _: &SteerView<'_>) -> Decision {
        Decision::stay(Reason::Policy)
    }

    fn control(&self) -> Option<Control> {
        None
    }

    fn learns(&self) -> bool {
        true
    }

    fn balances(&self) -> bool {
        true
    }

    fn reads_from_hdd(&mut self) -> bool {
        self.owed_ppm += self.load_ppm;
        let serves = self.owed_ppm >= WHOLE_PPM;
        self.owed_ppm -= if serves { WHOLE_PPM } else { 0 };
        !serves
    }

    fn admits(&self) -> bool {
        matches!(self.phase, Phase::Classic { .. })
    }

    fn observe(&mut self, now: Instant, seen: &Seen) {
        let &Seen::Answer(answer) = seen else { return };
        // no drive had a part in it
        if answer.from == ServedFrom::Ram {
            return;
        }
        let Answer { read, offloaded, bytes, latency_ns, .. } = answer;
        if self.due == Instant::ZERO {
            self.due = now + self.stable_time;
        } else if now >= self.due && self.answered.requests > 0 {
            self.look(now);
        }
        let answered = &mut self.answered;
        answered.requests += 1;
        answered.bytes += bytes;
        answered.latency_ns = answered.latency_ns.saturating_add(latency_ns);
        answered.reads += u64::from(read);
        answered.misses += u64::from(read && answer.is_of_hdd() && !offloaded);
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::test_views::{hdd, ssd, view};
    use crate::steer::{DriveProfiles, build};

    const STEP: u64 = 10_000;

    /// Of every hundred reads that both could serve, how many does the hard drive?
    fn offloads(nhc: &mut Nhc) -> usize {
        (0..100).filter(|_| nhc.reads_from_hdd()).count()
    }

    /// For so many ms, reads of 4 KiB by the ms: so many, of which so many miss, each `latency_ns`.
    fn reads(nhc: &mut Nhc, ms: std::ops::Range<u64>, (count, misses): (u64, u64), latency: u64) {
        for at in ms {
            for n in 0..count {
                let from = if n < misses { ServedFrom::HddHome } else { ServedFrom::Ssd };
                let (bytes, latency_ns) = (4096, latency);
                let answer = Answer { read: true, from, bytes, latency_ns, ..Answer::default() };
                let at = Instant::from_ns(at * 1_000_000 + n + 1);
                nhc.observe(at, &Seen::Answer(answer));
            }
        }
    }

    fn nhc() -> Nhc {
        Nhc::new(&SteerConfig::named("nhc"))
    }

    #[test]
    fn p20_writes_go_to_the_ssd_and_only_reads_are_shared() {
        let mut policy = build(&SteerConfig::named("nhc"), &DriveProfiles::default()).expect("it");
        let (ssds, hdds) = ([ssd(0, 1000)], [hdd(1)]);
        assert_eq!(policy.decide(&view(&ssds, &hdds)).reason, Reason::Policy);
        assert!(policy.balances() && policy.admits() && !policy.reads_from_hdd());
    }

    #[test]
    fn p20_a_cache_works_as_usual_until_its_hit_rate_is_stable() {
        let mut nhc = nhc();
        // 50 % miss, then 40 %, 30 % …
        for (at, misses) in (0..5).zip([50, 40, 30, 20, 10]) {
            reads(&mut nhc, at * 100..at * 100 + 100, (100, misses), 1);
            assert!(nhc.admits(), "{at}");
            assert_eq!(offloads(&mut nhc), 0);
        }
        // as many as before in the mean: the rate stands still
        reads(&mut nhc, 500..650, (100, 30), 1);
        assert!(!nhc.admits(), "nothing is admitted while it climbs");
    }

    /// Tables of what is tried, and how good it was: what is tried next.
    #[test]
    fn p20_the_share_climbs_to_the_best() {
        for (scores, want) in [
            // the middle, then less of it, since there is no more
            (&[5][..], Next::Try(990_000)),
            (&[5, 4], Next::Try(1_000_000)),
            (&[5, 4, 5, 4], Next::GiveUp),
            (&[5, 6], Next::Try(980_000)),
            (&[5, 6, 7, 8], Next::Try(960_000)),
            // 980,000 is the best: it is tried again, then more, then less
            (&[5, 6, 7, 6], Next::Try(980_000)),
            (&[5, 6, 7, 6, 7], Next::Try(990_000)),
            (&[5, 6, 7, 6, 7, 6], Next::Try(970_000)),
            // and from there back to more
            (&[5, 6, 7, 6, 7, 8, 6], Next::Try(1_000_000)),
            // equal is not better
            (&[5, 5, 5, 5], Next::GiveUp),
        ] {
            let mut climb = Climb::begin();
            assert_eq!(climb.tries_ppm(STEP), WHOLE_PPM);
            let (last, before) = scores.split_last().expect("some");
            for score in before {
                assert_ne!(climb.tried(*score, STEP), Next::GiveUp, "{scores:?}");
            }
            assert_eq!(climb.tried(*last, STEP), want, "{scores:?}");
        }
    }

    #[test]
    fn p20_the_climb_ends_at_nothing_for_the_cache() {
        let mut climb = Climb::begin();
        for score in 1..=101 {
            assert_ne!(climb.tried(score, STEP), Next::GiveUp, "less is always better");
        }
        assert_eq!((climb.share_ppm, climb.middle), (0, None));
        assert_eq!(climb.tries_ppm(STEP), 0);
    }

    /// A cache with a stable hit rate, and a load whose throughput rises with what the hard drive serves.
    fn tuned(config: &SteerConfig, better_with_less: bool) -> Nhc {
        let mut nhc = Nhc::new(config);
        reads(&mut nhc, 0..210, (100, 10), 1_000);
        assert!(!nhc.admits());
        for at in 210..5_000 {
            let from_hdd = (WHOLE_PPM - nhc.load_ppm) / STEP;
            let more = if better_with_less { from_hdd } else { 100 - from_hdd };
            reads(&mut nhc, at..at + 1, (100 + more, 10), 1_000_000 - more);
        }
        nhc
    }

    #[test]
    fn p20_the_hard_drive_serves_what_makes_all_together_faster() {
        for target in [THROUGHPUT, LATENCY] {
            let config = SteerConfig::named("nhc").with("target", target);
            let mut sharing = tuned(&config, true);
            assert!(offloads(&mut sharing) > 60, "{target}");
            let mut alone = tuned(&config, false);
            assert!(offloads(&mut alone) <= 1, "{target}: at most what is tried");
        }
    }

    #[test]
    fn p20_another_load_begins_as_a_cache_again() {
        let mut nhc = tuned(&SteerConfig::named("nhc"), true);
        assert!(!nhc.admits());
        let at = nhc.due.ns / 1_000_000 + 1;
        // a fifth more misses than before, and a little
        reads(&mut nhc, at..at + 60, (100, 31), 1_000);
        assert!(nhc.admits() && offloads(&mut nhc) == 0);
    }
}
