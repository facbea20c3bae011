//! Where does this write go now, and does the SSD serve this read? What lies on both sides is shared by their latencies.
//!
//! Source:  Mirror-optimised storage tiering, MOST (FAST 2026), of which the abstract was read; P20 of the
//!          requirements. Hot data is mirrored on both tiers, so that load moves at once and nothing has to be
//!          migrated for it. A ratio says which share of what is mirrored the slower tier serves. It rises
//!          while the SSD's mean latency is the higher one, and falls while it is the lower one. Data comes to
//!          the SSD only while that is the faster side.
//! Names:   OffloadRatio → ratio, Optimizer → `optimise`, Migrator → `admits`
//! Differs: * which data is mirrored is the tier's affair: give the volume the tier `most`. How much is mirrored is its
//!            size, and not optimised;
//!          * a write to mirrored data goes to one side, and the other one gets a copy later, so that
//!            it is a mirror again. The paper marks the part that is valid on one side alone;
//!          * latencies are of users' reads: a write to a log ends in a buffer, which says little of the hard drive;
//!          * a side that nothing was read from for a while is taken for what its profile says, and an idle SSD for
//!            one without delay. So a ratio of 0 can rise again;
//!          * all numbers are guesses.
//! Tests:   below, tables of latencies and ratios.

use super::settings::{Kind, Setting, SteerConfig};
use super::{Decision, DriveProfiles, PolicyEntry, Reason, Seen, Steer, SteerView};
use crate::bcw::controller::Control;
use crate::port::ServedFrom;
use tandem_block::{Duration, Instant};

const WHOLE_PPM: u64 = 1_000_000;
/// The mean of the last intervals: a new one counts an eighth (guess).
const SHIFT: u32 = 3;
/// Intervals without a read from a side, until what it took then says nothing any more (guess).
const FORGOTTEN_AFTER: u32 = 25;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "most",
    summary: "what lies on an SSD and a hard drive is shared among them by their latencies; the rest goes to the SSD",
    source: "MOST (FAST 2026), abstract",
    needs: (1, 1),
    settings: &[
        Setting::new(
            "optimise",
            Kind::Time,
            200_000_000,
            1_000_000..=60_000_000_000,
            "latencies are compared every so often",
        ),
        Setting::new(
            "step",
            Kind::Share,
            20_000,
            1_000..=500_000,
            "by how much the hard drive's share rises or falls",
        ),
        Setting::new(
            "margin",
            Kind::Share,
            50_000,
            0..=1_000_000,
            "latencies that differ by no more are equal",
        ),
        Setting::new(
            "ratio_max",
            Kind::Share,
            800_000,
            0..=1_000_000,
            "the hard drive's share at most",
        ),
    ],
    build: |config, profiles| Box::new(Most::new(config, idle_ns(profiles))),
};

/// What the fastest hard drive takes to come to a place, in ns.
fn idle_ns(profiles: &DriveProfiles) -> u64 {
    let positions = profiles.hdds.iter().map(|(_, profile)| profile.position_ns);
    positions.min().unwrap_or(u64::MAX)
}

/// What one side takes for a read.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Reads of this interval, and their time together.
    reads: u64,
    sum_ns: u64,
    /// The mean of the last intervals.
    mean_ns: u64,
    /// What it takes when it is idle.
    idle_ns: u64,
    /// Intervals in a row in which nothing was read from it.
    silent: u32,
}

impl Side {
    fn new(idle_ns: u64) -> Side {
        Side { reads: 0, sum_ns: 0, mean_ns: idle_ns, idle_ns, silent: 0 }
    }

    fn add(&mut self, latency_ns: u64) {
        self.reads += 1;
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
    }

    /// An interval is over.
    fn end_interval(&mut self) {
        match self.sum_ns.checked_div(self.reads) {
            Some(mean_ns) if self.silent >= FORGOTTEN_AFTER => self.mean_ns = mean_ns,
            Some(mean_ns) => {
                self.mean_ns = self.mean_ns - (self.mean_ns >> SHIFT) + (mean_ns >> SHIFT);
            }
            None if self.silent >= FORGOTTEN_AFTER => self.mean_ns = self.idle_ns,
            None => {}
        }
        self.silent = if self.reads > 0 { 0 } else { self.silent.saturating_add(1) };
        (self.reads, self.sum_ns) = (0, 0);
    }
}

#[derive(Clone, Debug)]
struct Most {
    interval: Duration,
    step_ppm: u64,
    margin_ppm: u64,
    ratio_max_ppm: u64,
    ssd: Side,
    hdd: Side,
    /// Share of what is mirrored that the hard drive serves.
    ratio_ppm: u64,
    /// What is owed to the hard drive of the next request.
    owed_ppm: u64,
    /// The SSD was the slower side.
    is_ssd_slower: bool,
    due: Instant,
}

impl Most {
    fn new(config: &SteerConfig, hdd_idle_ns: u64) -> Self {
        Most {
            interval: Duration::from_ns(config.get("optimise")),
            step_ppm: config.get("step"),
            margin_ppm: config.get("margin"),
            ratio_max_ppm: config.get("ratio_max"),
            ssd: Side::new(0),
            hdd: Side::new(hdd_idle_ns),
            ratio_ppm: 0,
            owed_ppm: 0,
            is_ssd_slower: false,
            due: Instant::ZERO,
        }
    }

    /// An interval is over: who is slower?
    fn optimise(&mut self) {
        self.ssd.end_interval();
        self.hdd.end_interval();
        let beyond = |a: u64, b: u64| {
            let limit = u128::from(b) * u128::from(WHOLE_PPM + self.margin_ppm);
            u128::from(a) * u128::from(WHOLE_PPM) > limit
        };
        self.is_ssd_slower = beyond(self.ssd.mean_ns, self.hdd.mean_ns);
        let is_hdd_slower = beyond(self.hdd.mean_ns, self.ssd.mean_ns);
        if self.is_ssd_slower {
            self.ratio_ppm = (self.ratio_ppm + self.step_ppm).min(self.ratio_max_ppm);
        } else if is_hdd_slower {
            self.ratio_ppm = self.ratio_ppm.saturating_sub(self.step_ppm);
        }
        assert!(self.ratio_ppm <= WHOLE_PPM, "a share is a part of the whole");
    }

    /// Is the next request for what is mirrored the hard drive's?
    fn is_hdds(&mut self) -> bool {
        self.owed_ppm += self.ratio_ppm;
        let is_hdds = self.owed_ppm >= WHOLE_PPM;
        self.owed_ppm -= if is_hdds { WHOLE_PPM } else { 0 };
        is_hdds
    }
}

impl Steer for Most {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        if !view.mirrored || !self.is_hdds() {
            return Decision::stay(Reason::Policy);
        }
        match view.soonest_hdd() {
            None => Decision::stay(Reason::NotAccepting),
            Some(hdd) => Decision::go(hdd, Reason::Balanced),
        }
    }

    fn weighs_time(&self) -> bool {
        false
    }

    fn control(&self) -> Option<Control> {
        Some(Control::Bare)
    }

    fn learns(&self) -> bool {
        true
    }

    fn balances(&self) -> bool {
        true
    }

    fn reads_from_hdd(&mut self) -> bool {
        self.is_hdds()
    }

    fn admits(&self) -> bool {
        !self.is_ssd_slower
    }

    fn observe(&mut self, now: Instant, seen: &Seen) {
        let &Seen::Answer(answer) = seen else { return };
        // of a read from RAM no drive had a part
        if !answer.read || answer.from == ServedFrom::Ram {
            return;
        }
        if self.due == Instant::ZERO {
            self.due = now + self.interval;
        } else if now >= self.due {
            self.optimise();
            self.due = now + self.interval;
        }
        let side = if answer.is_of_hdd() { &mut self.hdd } else { &mut self.ssd };
        side.add(answer.latency_ns);
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::test_views::{hdd, ssd, view};
    use crate::steer::{Answer, Target};
    use tandem_block::DeviceId;

    /// Beside a hard drive that takes 8 ms when it is idle.
    fn most() -> Most {
        Most::new(&SteerConfig::named("most"), 8_000_000)
    }

    /// So many intervals in which a read of each side took so many us; `None`: nothing was read from it.
    fn intervals(most: &mut Most, count: u64, (ssd_us, hdd_us): (Option<u64>, Option<u64>)) {
        for _ in 0..count {
            let at = most.due.ns.max(1);
            for (from, us) in [(ServedFrom::Ssd, ssd_us), (ServedFrom::HddHome, hdd_us)] {
                let Some(us) = us else { continue };
                let latency_ns = us * 1_000;
                let answer =
                    Answer { read: true, from, bytes: 4096, latency_ns, ..Answer::default() };
                // the first one of an interval ends the one before
                most.observe(Instant::from_ns(at), &Seen::Answer(answer));
            }
            if ssd_us.is_none() && hdd_us.is_none() {
                most.optimise();
            }
        }
        most.optimise();
    }

    /// Millionths of what is mirrored that the hard drive serves.
    fn served_ppm(most: &mut Most) -> u64 {
        (0..1_000).map(|_| u64::from(most.reads_from_hdd())).sum::<u64>() * 1_000
    }

    const FAST: (Option<u64>, Option<u64>) = (Some(100), Some(8_000));
    const SLOW: (Option<u64>, Option<u64>) = (Some(100_000), Some(8_000));

    #[test]
    fn p20_the_ratio_follows_the_latencies() {
        for (what, steps, want_ppm, admits) in [
            ("nothing was read", &[][..], 0, true),
            ("the SSD is faster", &[(9, FAST)], 0, true),
            ("the SSD is slower: 20,000 more an interval", &[(10, SLOW)], 200_000, false),
            ("… up to the most", &[(100, SLOW)], 800_000, false),
            ("equal within the margin", &[(60, (Some(8_390), Some(8_000)))], 0, true),
            ("beyond the margin", &[(100, (Some(8_600), Some(8_000)))], 800_000, false),
            ("slow, then fast again", &[(100, SLOW), (100, FAST)], 0, true),
            (
                "slow, then equal: it stays",
                &[(10, SLOW), (100, (Some(8_000), Some(8_000)))],
                800_000,
                true,
            ),
        ] {
            let mut most = most();
            for &(count, latencies) in steps {
                intervals(&mut most, count, latencies);
            }
            assert_eq!((served_ppm(&mut most), most.admits()), (want_ppm, admits), "{what}");
        }
    }

    #[test]
    fn p20_a_hard_drive_that_nothing_is_read_from_is_taken_for_an_idle_one() {
        let mut most = most();
        intervals(&mut most, 100, (Some(20_000), Some(60_000)));
        assert_eq!(served_ppm(&mut most), 0, "it is the slower one");
        intervals(&mut most, 20, (Some(20_000), None));
        assert_eq!(served_ppm(&mut most), 0, "and was just now");
        intervals(&mut most, 10, (Some(20_000), None));
        assert!(served_ppm(&mut most) > 0, "it would take 8 ms now, for all that is known");
    }

    #[test]
    fn p20_only_what_is_mirrored_is_shared() {
        for (mirrored, accepting, slow, want) in [
            (true, true, true, Reason::Balanced),
            (false, true, true, Reason::Policy),
            (true, false, true, Reason::NotAccepting),
            (true, true, false, Reason::Policy),
        ] {
            let mut most = most();
            intervals(&mut most, 100, if slow { SLOW } else { FAST });
            let mut drive = hdd(1);
            drive.accepting = accepting;
            let (ssds, hdds) = ([ssd(0, 0)], [drive]);
            let mut view = view(&ssds, &hdds);
            view.mirrored = mirrored;
            let decisions: Vec<Decision> = (0..10).map(|_| most.decide(&view)).collect();
            let shared = decisions.iter().filter(|decision| decision.reason == want).count();
            // four of five: the share at most
            assert_eq!(shared, if want == Reason::Policy { 10 } else { 8 }, "{want:?}");
            let logs = decisions.iter().filter(|d| d.target == Target::Log(DeviceId(1))).count();
            assert_eq!(logs, if want == Reason::Balanced { 8 } else { 0 });
        }
    }
}
