//! Where does this write go now? To whoever is expected to be done first, the SSD's wear counted.
//!
//! Source:  frontier D0 and D1, a policy of our own: redirect if T_hdd <= T_ssd, or if it is later by
//!          no more than price x KiB and T_hdd <= cap. T_ssd is learned from completions by the bytes in flight, and when the SSD's
//!          oldest command is overdue, the rest of the stall comes on top; T_hdd is the wait and the
//!          latency of the predicted state. MIOS_D and MIOS_E are thresholds of the same comparison.
//! Differs: * D0 has more terms (deadlines, reads to come, who waits behind); none of them is here;
//!          * D1 caps all redirects; here the cap is on those alone that are later for the wear's sake:
//!            to refuse the side that is done first would make a write later;
//!          * nothing is padded: the drive drains by itself, and a write that it is believed to take
//!            slowly goes there only if the SSD would take even longer, which no MIOS does. With
//!            `padding=demand` slow writes are brought on by padding instead, while the SSD would take
//!            longer than such a write, and the drive is left to rest otherwise (frontier D2).
//! Tests:   below.

use super::settings::{Kind, Setting, SteerConfig};
use super::ssd_curve::SsdCurve;
use super::{
    Decision, DriveProfiles, HddView, PolicyEntry, Reason, Seen, SsdView, Steer, SteerView,
};
use crate::bcw::controller::Control;
use crate::bcw::predictor::WriteState;
use tandem_block::{DeviceId, Instant, KIB};

const OFF: u64 = 0;
const DEMAND: u64 = 1;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "ect",
    summary: "to the side that is expected to be done first, with a price on the SSD's wear",
    source: "ours: earliest completion plus wear price",
    needs: (0, 1),
    settings: &[
        Setting::new(
            "price",
            Kind::Time,
            2_000,
            0..=1_000_000_000,
            "how much longer a write may take for each KiB that the SSD is spared",
        ),
        Setting::new(
            "cap",
            Kind::Time,
            2_000_000,
            1_000..=100_000_000_000,
            "no write is made later than this to spare the SSD",
        ),
        Setting::new(
            "stall",
            Kind::Time,
            500_000,
            1_000..=100_000_000_000,
            "an SSD stalls when its oldest command is so much later than twice what is expected",
        ),
        Setting::new(
            "stall_length",
            Kind::Time,
            10_000_000,
            1_000..=100_000_000_000,
            "how long a stall lasts, until some were measured",
        ),
        Setting::new("padding", Kind::Word, OFF, 0..=1, "may padding bring on slow writes")
            .words(&[("off", OFF), ("demand", DEMAND)]),
    ],
    build: |config, profiles| Box::new(Ect::new(config, profiles)),
};

#[derive(Clone, Debug)]
struct Ect {
    price_ns: u64,
    cap_ns: u64,
    slack_ns: u64,
    pads: bool,
    /// What it takes, by the model, to make a hard drive ready that is not, in ns.
    ready_ns: u64,
    /// By device id.
    curves: Vec<Option<SsdCurve>>,
}

/// What is expected of an SSD.
#[derive(Clone, Copy, Debug)]
struct Expected {
    device: DeviceId,
    total_ns: u64,
    stalled: bool,
}

impl Ect {
    fn new(config: &SteerConfig, profiles: &DriveProfiles) -> Self {
        let mut curves = Vec::new();
        for (device, profile) in &profiles.ssds {
            assert!(curves.len() <= usize::from(device.0), "drives are listed by their ids");
            curves.resize(usize::from(device.0), None);
            curves.push(Some(SsdCurve::new(profile, config.get("stall_length"))));
        }
        let slow = profiles.hdds.iter().map(|(_, profile)| profile.slow_latency_ns).min();
        Ect {
            pads: config.get("padding") == DEMAND,
            ready_ns: slow.unwrap_or(u64::MAX),
            price_ns: config.get("price"),
            cap_ns: config.get("cap"),
            slack_ns: config.get("stall"),
            curves,
        }
    }

    fn expect(&self, ssd: &SsdView, bytes: u64) -> Option<Expected> {
        let curve = self.curves.get(usize::from(ssd.device.0))?.as_ref()?;
        let backlog = ssd.in_flight_bytes + ssd.waiting_bytes;
        let stalled = curve.is_overdue(ssd.oldest_ns, ssd.in_flight_bytes, self.slack_ns);
        let stall_ns = if stalled { curve.rest_of_stall_ns(ssd.oldest_ns) } else { 0 };
        let total_ns = curve.latency_ns(backlog + bytes) + stall_ns;
        Some(Expected { device: ssd.device, total_ns, stalled })
    }
}

impl Steer for Ect {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        let expected = view.ssds.iter().filter_map(|ssd| self.expect(ssd, view.bytes));
        let Some(ssd) = expected.min_by_key(|e| (e.total_ns, e.device)) else {
            return Decision::stay(Reason::SsdSooner);
        };
        let stay = |reason| Decision::on(ssd.device, reason);
        let slow = |hdd: &HddView| hdd.predicted == WriteState::Slow;
        let ready = view.hdds.iter().filter(|hdd| hdd.accepting && !(self.pads && slow(hdd)));
        let Some(hdd) = ready.min_by_key(|h| (h.expected_ns, h.device)) else {
            // only an SSD that takes longer is reason enough to take the drive out of its rest
            let urgent = ssd.total_ns > self.ready_ns;
            return stay(if urgent { Reason::NotAccepting } else { Reason::Resting });
        };
        if hdd.expected_ns <= ssd.total_ns {
            let reason = if ssd.stalled { Reason::Stalled } else { Reason::HddSooner };
            return Decision::go(hdd, reason);
        }
        let price_ns = self.price_ns.saturating_mul(view.bytes) / KIB;
        if hdd.expected_ns - ssd.total_ns <= price_ns {
            if hdd.expected_ns > self.cap_ns {
                return stay(Reason::OverCap);
            }
            return Decision::go(hdd, Reason::Wear);
        }
        stay(if slow(hdd) { Reason::Resting } else { Reason::SsdSooner })
    }

    fn control(&self) -> Option<Control> {
        Some(if self.pads { Control::OnDemand } else { Control::Bare })
    }

    fn learns(&self) -> bool {
        true
    }

    fn observe(&mut self, _: Instant, seen: &Seen) {
        if let &Seen::Completion { device, read: false, latency_ns, in_flight_bytes, .. } = seen
            && let Some(Some(curve)) = self.curves.get_mut(usize::from(device.0))
        {
            curve.learn(in_flight_bytes, latency_ns, self.slack_ns);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SsdProfile;
    use crate::steer::test_views::{hdd, ssd, view};

    /// 20 us for 4 KiB, then 300 MB/s; 2 us a KiB; cap 2 ms.
    fn ect() -> Ect {
        let ssd = SsdProfile { flush_ns: 1_000_000, ..SsdProfile::default() };
        let profiles = DriveProfiles { ssds: vec![(DeviceId(0), ssd)], hdds: Vec::new() };
        Ect::new(&SteerConfig::named("ect"), &profiles)
    }

    /// The rule of frontier D1, a row per branch.
    #[test]
    fn d1_earliest_completion_plus_wear() {
        let rows = [
            // bytes before it on the SSD, age of its oldest command, T_hdd, why
            (0, 0, 20_000, Reason::HddSooner),
            (0, 0, 28_000, Reason::Wear),
            (0, 0, 28_001, Reason::SsdSooner),
            (1 << 20, 3_000_000, 3_000_000, Reason::HddSooner),
            (1 << 19, 1_000_000, 1_765_000, Reason::Wear),
            (4096, 600_000, 2_000_000, Reason::Stalled),
            (4096, 500_000, 2_000_000, Reason::SsdSooner),
        ];
        for (in_flight_bytes, oldest_ns, expected_ns, want) in rows {
            let (mut drive, mut other) = (hdd(1), ssd(0, 1));
            drive.expected_ns = expected_ns;
            (other.in_flight_bytes, other.oldest_ns) = (in_flight_bytes, oldest_ns);
            let (ssds, hdds) = ([other], [drive]);
            let decision = ect().decide(&view(&ssds, &hdds));
            assert_eq!(decision.reason, want, "{in_flight_bytes} {oldest_ns} {expected_ns}");
            assert_eq!(decision.target.is_log(), want.redirects());
        }
    }

    #[test]
    fn the_cap_is_on_what_is_later_for_the_wears_sake() {
        for (expected_ns, want) in [
            (3_000_000, Reason::HddSooner),
            (4_000_000, Reason::OverCap),
            (9_000_000, Reason::SsdSooner),
        ] {
            let mut drive = hdd(1);
            drive.expected_ns = expected_ns;
            let (ssds, hdds) = ([ssd(0, 0)], [drive]);
            let mut view = view(&ssds, &hdds);
            view.bytes = 1 << 20; // 3.5 ms on the SSD, and 2 ms for its wear
            assert_eq!(ect().decide(&view).reason, want, "{expected_ns}");
        }
    }

    #[test]
    fn a_resting_drive_is_disturbed_only_by_a_long_wait() {
        for (accepting, predicted) in [(false, WriteState::Fast), (true, WriteState::Slow)] {
            // a stall of 10 ms by the model, of which so much has passed; the slow write takes 6 ms
            for (oldest_ns, want) in [
                (0, Reason::Resting),
                (3_000_000, Reason::NotAccepting),
                (5_000_000, Reason::Resting),
                (7_000_000, Reason::Resting),
                (11_000_000, Reason::NotAccepting),
            ] {
                let (mut drive, mut other) = (hdd(1), ssd(0, 1));
                (drive.accepting, drive.predicted) = (accepting, predicted);
                other.oldest_ns = oldest_ns;
                let (ssds, hdds) = ([other], [drive]);
                let mut ect = ect();
                (ect.ready_ns, ect.pads) = (6_000_000, true);
                assert_eq!(ect.decide(&view(&ssds, &hdds)).reason, want);
            }
        }
    }

    #[test]
    fn a_slow_write_is_taken_only_if_the_ssd_is_slower_still() {
        for (in_flight_bytes, want) in [(1 << 20, Reason::Resting), (8 << 20, Reason::HddSooner)] {
            let (mut drive, mut other) = (hdd(1), ssd(0, 1));
            (drive.predicted, drive.expected_ns) = (WriteState::Slow, 12_055_000);
            other.in_flight_bytes = in_flight_bytes;
            let (ssds, hdds) = ([other], [drive]);
            assert_eq!(ect().decide(&view(&ssds, &hdds)).reason, want);
        }
    }

    #[test]
    fn a_slower_ssd_than_believed_loses_writes() {
        let mut ect = ect();
        let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
        hdds[0].expected_ns = 100_000;
        assert_eq!(ect.decide(&view(&ssds, &hdds)).reason, Reason::SsdSooner);
        for _ in 0..200 {
            let (device, bytes) = (DeviceId(0), 4096);
            let seen = Seen::Completion {
                device,
                read: false,
                is_users: true,
                bytes,
                latency_ns: 200_000,
                queue_length: 0,
                in_flight_bytes: bytes,
                written_bytes: bytes,
            };
            ect.observe(Instant::ZERO, &seen);
        }
        assert_eq!(ect.decide(&view(&ssds, &hdds)).reason, Reason::HddSooner);
    }
}
