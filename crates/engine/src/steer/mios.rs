//! Where does this write go now? To a hard drive in its fast or mid state when the SSD is
//! congested (MIOS_D), and in its fast state even when it is not (MIOS_E).
//!
//! Source:  [BCW §4.3, Alg. 3]; mios-f: the F-only variant of [BCW Fig. 12], MIOS_D over a drive that
//!          is flushed at the end of its fast stage instead of padded through the slow write.
//! Names:   l(t) → ssd_queue_length, L → queue_length, flagHDD → accepting
//! Differs: * with several hard drives the one with the best predicted state and the shortest queue
//!            is asked; the paper's pairs are `pairs=yes`;
//!          * `L` is a number here; the paper finds it by profiling ("profile") and adjusts it at
//!            runtime, it does not say how ("auto": `queue_limit`);
//!          * `size_max` keeps large writes on the SSD (B2), off by default as in the paper.
//! Tests:   below, a row per branch of Algorithm 3.

use super::pairs;
use super::queue_limit::{QueueLimit, believed};
use super::settings::{Kind, Setting, SteerConfig};
use super::{Decision, DriveProfiles, HddView, PolicyEntry, Reason, Seen, Steer, SteerView};
use crate::bcw::controller::Control;
use crate::bcw::predictor::WriteState;
use tandem_block::Instant;

const PROFILE: u64 = u64::MAX;
const AUTO: u64 = u64::MAX - 1;
const OFF: u64 = u64::MAX;

const SETTINGS: &[Setting] = &[
    Setting::new(
        "queue_length",
        Kind::Count,
        2,
        0..=1_000_000,
        "redirect when the SSD's queue is longer than this (L); profile: the shortest at which the SSD \
         was measured, or is believed, to be slower than a mid write; auto: measured while it runs",
    )
    .words(&[("profile", PROFILE), ("auto", AUTO)]),
    Setting::new(
        "size_max",
        Kind::Bytes,
        OFF,
        4096..=1 << 30,
        "keep larger writes on the SSD",
    )
    .words(&[("off", OFF)]),
    Setting::new(
        "pairs",
        Kind::Word,
        0,
        0..=0,
        "each SSD and its hard drives have a scheduler of their own, which uses no other drives",
    )
    .words(&[("no", 0), ("yes", 1)]),
];

/// Registry line of MIOS_D.
pub(crate) const ENTRY_D: PolicyEntry = PolicyEntry {
    name: "mios-d",
    summary: "redirects to fast and mid writes of a hard drive while the SSD's queue is long",
    source: "BCW 4.3, Algorithm 3 (MIOS_D)",
    needs: (0, 1),
    settings: SETTINGS,
    build: |config, profiles| Mios::built(config, profiles, false, Control::Full),
};

/// Registry line of MIOS_E.
pub(crate) const ENTRY_E: PolicyEntry = PolicyEntry {
    name: "mios-e",
    summary: "as mios-d, and redirects to fast writes even while the SSD's queue is short",
    source: "BCW 4.3, Algorithm 3 (MIOS_E)",
    needs: (0, 1),
    settings: SETTINGS,
    build: |config, profiles| Mios::built(config, profiles, true, Control::Full),
};

/// Registry line of MIOS_D without padding.
pub(crate) const ENTRY_F: PolicyEntry = PolicyEntry {
    name: "mios-f",
    summary: "as mios-d to fast writes alone: a flush begins the next fast stage, nothing is padded",
    source: "BCW 5.2, Figure 12 (F only)",
    needs: (0, 1),
    settings: SETTINGS,
    build: |config, profiles| Mios::built(config, profiles, false, Control::FastOnly),
};

#[derive(Clone, Debug)]
struct Mios {
    queue_length: u64,
    auto: Option<QueueLimit>,
    size_max: u64,
    eager: bool,
    control: Control,
}

impl Mios {
    /// One for all drives, or one for each pair.
    fn built(
        config: &SteerConfig,
        profiles: &DriveProfiles,
        eager: bool,
        control: Control,
    ) -> Box<dyn Steer> {
        let build = |own: &DriveProfiles| -> Box<dyn Steer> {
            Box::new(Mios::new(config, own, eager, control))
        };
        if config.get("pairs") == 1 { pairs::over(profiles, build) } else { build(profiles) }
    }

    fn new(config: &SteerConfig, profiles: &DriveProfiles, eager: bool, control: Control) -> Self {
        let (mut queue_length, mut auto) = (config.get("queue_length"), None);
        if queue_length == AUTO {
            auto = Some(QueueLimit::new(profiles));
        } else if queue_length == PROFILE {
            queue_length = believed(profiles);
        }
        Mios { queue_length, auto, size_max: config.get("size_max"), eager, control }
    }
}

/// Of the drives that would take the write in one of these states the one that is done with it first,
/// what waits there counted (D7, M12); of equal ones the one with the better state and shorter queue.
/// Of a single drive nothing is expected: it is the first.
fn soonest<'a>(hdds: &'a [HddView], states: &[WriteState]) -> Option<&'a HddView> {
    hdds.iter()
        .filter(|hdd| hdd.accepting && states.contains(&hdd.predicted))
        .min_by_key(|hdd| (hdd.expected_ns, hdd.predicted as u8, hdd.queue_length, hdd.device))
}

impl Steer for Mios {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        if view.request_bytes > self.size_max {
            return Decision::stay(Reason::TooLarge);
        }
        if !view.hdds.iter().any(|hdd| hdd.accepting) {
            return Decision::stay(Reason::NotAccepting);
        }
        let limit = self.auto.as_ref().map_or(self.queue_length, QueueLimit::value);
        let congested = u64::from(view.ssd_queue_length) > limit;
        let Some(hdd) = soonest(view.hdds, &[WriteState::Fast, WriteState::Mid]) else {
            return Decision::stay(Reason::PredictedSlow);
        };
        if congested {
            return Decision::go(hdd, Reason::Congested);
        }
        match soonest(view.hdds, &[WriteState::Fast]).filter(|_| self.eager) {
            Some(hdd) => Decision::go(hdd, Reason::FastWrite),
            None => Decision::stay(Reason::ShortQueue),
        }
    }

    fn weighs_time(&self) -> bool {
        false
    }

    fn control(&self) -> Option<Control> {
        Some(self.control)
    }

    fn learns(&self) -> bool {
        self.auto.is_some()
    }

    fn observe(&mut self, _: Instant, seen: &Seen) {
        if let Some(auto) = &mut self.auto {
            auto.observe(seen);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::Target;
    use crate::steer::test_views::{hdd, ssd, view};
    use tandem_block::DeviceId;

    fn mios(eager: bool) -> Mios {
        let config = SteerConfig::named("mios-d");
        Mios::new(&config, &DriveProfiles::default(), eager, Control::Full)
    }

    /// One row per branch of [BCW Alg. 3].
    #[test]
    fn bcw_algorithm_3() {
        use WriteState::{Fast, Mid, Slow};
        let rows = [
            // accepting, predicted, l(t), MIOS_D redirects, MIOS_E redirects
            (true, Fast, 3, true, true),
            (true, Mid, 3, true, true),
            (true, Slow, 3, false, false),
            (true, Fast, 2, false, true),
            (true, Mid, 2, false, false),
            (true, Slow, 2, false, false),
            (false, Fast, 3, false, false),
            (false, Fast, 0, false, false),
        ];
        for (accepting, predicted, queue, d, e) in rows {
            let mut drive = hdd(1);
            (drive.accepting, drive.predicted) = (accepting, predicted);
            let (ssds, hdds) = ([ssd(0, queue)], [drive]);
            for (eager, want) in [(false, d), (true, e)] {
                let target = if want { Target::Log(DeviceId(1)) } else { Target::Ssd };
                let decision = mios(eager).decide(&view(&ssds, &hdds));
                assert_eq!(decision.target, target, "{accepting} {predicted:?} {queue}");
                assert_eq!(decision.reason.redirects(), want);
            }
        }
    }

    /// The drive is taken that has the write first, not the one in the better state.
    #[test]
    fn m12_the_cheapest_of_several_drives_is_taken() {
        use WriteState::{Fast, Mid, Slow};
        // (state, what it takes with what waits there) of each, and who is asked when the SSD's queue is
        // long, and when it is short
        for (drives, congested, short) in [
            ([(Mid, 55_000), (Fast, 140_000)], Some(1), Some(2)),
            ([(Mid, 195_000), (Fast, 140_000)], Some(2), Some(2)),
            ([(Fast, 35_000), (Fast, 35_000)], Some(1), Some(1)),
            ([(Fast, 70_000), (Fast, 35_000)], Some(2), Some(2)),
            ([(Slow, 30_000), (Mid, 55_000)], Some(2), None),
            ([(Slow, 30_000), (Slow, 30_000)], None, None),
        ] {
            let mut hdds = [hdd(1), hdd(2)];
            for (hdd, (predicted, expected_ns)) in hdds.iter_mut().zip(drives) {
                (hdd.predicted, hdd.expected_ns) = (predicted, expected_ns);
            }
            for (queue, eager, want) in
                [(9, false, congested), (9, true, congested), (0, true, short), (0, false, None)]
            {
                let ssds = [ssd(0, queue)];
                let want = want.map_or(Target::Ssd, |id| Target::Log(DeviceId(id)));
                let decision = mios(eager).decide(&view(&ssds, &hdds));
                assert_eq!(decision.target, want, "{drives:?} {queue} {eager}");
            }
        }
    }

    #[test]
    fn b2_large_writes_stay_if_told_so() {
        let mut config = SteerConfig::named("mios-d");
        config.set("size_max", 262_144).expect("within the bounds");
        let mut mios = Mios::new(&config, &DriveProfiles::default(), false, Control::Full);
        let (ssds, hdds) = ([ssd(0, 9)], [hdd(1)]);
        for (bytes, want) in [(262_144, Reason::Congested), (262_145, Reason::TooLarge)] {
            let mut view = view(&ssds, &hdds);
            view.request_bytes = bytes;
            assert_eq!(mios.decide(&view).reason, want);
        }
    }
}
