//! Which pair of an SSD and its hard drives decides where a write goes?
//!
//! Source:  [BCW §4.3]: drives are divided into independent pairs of an SSD and one or more hard
//!          drives, and each pair has a scheduler of its own (M29).
//! Differs: in the paper each pair is a storage of its own. Here the pairs share a pool: addresses of
//!          a volume go to the pairs in turn, and a write goes to no drive of another pair. What a
//!          tier moves and what is cleaned may go to any drive.
//! Tests:   below.

use super::{Decision, DriveProfiles, HddView, Seen, SsdView, Steer, SteerView, Target};
use crate::bcw::controller::Control;
use tandem_block::{BLOCK_BYTES, DeviceId, Instant};

/// Bytes of a volume on one pair before the next one's turn (guess: large beside a write, and small
/// beside a volume).
const UNIT_BYTES: u64 = 64 << 20;

/// As many pairs as both kinds of drives allow, and the drives dealt to them in turn.
#[derive(Clone, Debug)]
struct Pairs {
    /// The scheduler of each.
    policies: Vec<Box<dyn Steer>>,
    /// The pair of each drive that the set began with.
    of_drive: Vec<(DeviceId, usize)>,
    /// Kept for their memory.
    ssds: Vec<SsdView>,
    hdds: Vec<HddView>,
}

/// A policy for each pair, made of what is believed of the pair's drives. Where there is one pair alone,
/// that pair's policy.
pub(super) fn over(
    profiles: &DriveProfiles,
    build: impl Fn(&DriveProfiles) -> Box<dyn Steer>,
) -> Box<dyn Steer> {
    let count = profiles.ssds.len().min(profiles.hdds.len());
    if count < 2 {
        return build(profiles);
    }
    let mut of_drive = Vec::new();
    let mut dealt = vec![DriveProfiles::default(); count];
    for (at, ssd) in profiles.ssds.iter().enumerate() {
        of_drive.push((ssd.0, at % count));
        dealt[at % count].ssds.push(*ssd);
    }
    for (at, hdd) in profiles.hdds.iter().enumerate() {
        of_drive.push((hdd.0, at % count));
        dealt[at % count].hdds.push(hdd.clone());
    }
    let policies = dealt.iter().map(build).collect();
    Box::new(Pairs { policies, of_drive, ssds: Vec::new(), hdds: Vec::new() })
}

impl Pairs {
    /// The pair of a drive. One that came later belongs to the pair of its number.
    fn of(&self, drive: DeviceId) -> usize {
        let known = self.of_drive.iter().find(|(known, _)| *known == drive);
        known.map_or(usize::from(drive.0) % self.policies.len(), |(_, pair)| *pair)
    }

    /// The pair that decides about a write.
    fn asked(&self, view: &SteerView<'_>) -> usize {
        if let Some(ssd) = view.fixed_ssd {
            return self.of(ssd);
        }
        let unit = view.logical / (UNIT_BYTES / BLOCK_BYTES);
        (view.object.0.wrapping_add(unit) % self.policies.len() as u64) as usize
    }
}

impl Steer for Pairs {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        let asked = self.asked(view);
        let (mut ssds, mut hdds) = (std::mem::take(&mut self.ssds), std::mem::take(&mut self.hdds));
        ssds.extend(view.ssds.iter().filter(|ssd| self.of(ssd.device) == asked));
        hdds.extend(view.hdds.iter().filter(|hdd| self.of(hdd.device) == asked));
        // a place that is fixed leaves no choice among the pair's SSDs
        let open = ssds.iter().filter(|ssd| view.fixed_ssd.is_none_or(|it| it == ssd.device));
        let shortest = open.min_by_key(|ssd| (ssd.queue_length, ssd.device)).copied();
        let mut decision = self.policies[asked].decide(&SteerView {
            // without an SSD in service it is as if that of the pair were full
            ssd_queue_length: shortest.map_or(u32::MAX, |ssd| ssd.queue_length),
            ssds: &ssds,
            hdds: &hdds,
            ..*view
        });
        if let (Target::Ssd, Some(ssd)) = (decision.target, shortest) {
            decision.target = Target::ThisSsd(ssd.device);
        }
        ssds.clear();
        hdds.clear();
        (self.ssds, self.hdds) = (ssds, hdds);
        decision
    }

    fn control(&self) -> Option<Control> {
        self.policies[0].control()
    }

    fn weighs_time(&self) -> bool {
        self.policies[0].weighs_time()
    }

    fn learns(&self) -> bool {
        self.policies[0].learns()
    }

    fn observe(&mut self, now: Instant, seen: &Seen) {
        match seen {
            Seen::Completion { device, .. } => {
                let pair = self.of(*device);
                self.policies[pair].observe(now, seen);
            }
            Seen::Arrival { .. } | Seen::Flush { .. } | Seen::Answer(_) => {
                self.policies.iter_mut().for_each(|policy| policy.observe(now, seen));
            }
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
    use crate::settings::SteerConfig;
    use crate::steer::Reason;
    use crate::steer::test_views::{hdd, hdd_profile, ssd, view};

    fn profiles(ssds: &[u8], hdds: &[u8]) -> DriveProfiles {
        DriveProfiles {
            ssds: ssds.iter().map(|id| (DeviceId(*id), SsdProfile::default())).collect(),
            hdds: hdds.iter().map(|id| (DeviceId(*id), hdd_profile())).collect(),
        }
    }

    fn mios_d(ssds: &[u8], hdds: &[u8]) -> Box<dyn Steer> {
        let config = SteerConfig::named("mios-d").with("pairs", 1);
        let entry = config.entry().expect("registered");
        (entry.build)(&config, &profiles(ssds, hdds))
    }

    /// Two SSDs, one of them with a long queue, and two hard drives: who takes a write of each unit?
    #[test]
    fn m29_a_pair_looks_at_its_own_drives_alone() {
        let (units, hdds) = ([0, 1], [hdd(2), hdd(3)]);
        let (to_ssd, to_log) = (|id| Target::ThisSsd(DeviceId(id)), |id| Target::Log(DeviceId(id)));
        for (queues, want) in [
            ([0, 0], [to_ssd(0), to_ssd(1)]),
            ([9, 0], [to_log(2), to_ssd(1)]),
            ([0, 9], [to_ssd(0), to_log(3)]),
            ([9, 9], [to_log(2), to_log(3)]),
        ] {
            let ssds = [ssd(0, queues[0]), ssd(1, queues[1])];
            let mut policy = mios_d(&[0, 1], &[2, 3]);
            let went = units.map(|unit| {
                let mut view = view(&ssds, &hdds);
                view.logical = unit * (UNIT_BYTES / BLOCK_BYTES);
                policy.decide(&view).target
            });
            assert_eq!(went, want, "{queues:?}");
        }
    }

    #[test]
    fn a_pair_without_room_does_not_use_another_ones_hard_drive() {
        let (ssds, hdds) = ([ssd(0, 9), ssd(1, 0)], [hdd(3)]);
        let decision = mios_d(&[0, 1], &[2, 3]).decide(&view(&ssds, &hdds));
        assert_eq!(decision.target, Target::ThisSsd(DeviceId(0)));
        assert_eq!(decision.reason, Reason::NotAccepting);
        // its SSD is gone: its hard drive is asked, and what that does not take goes to any SSD
        let ssds = [ssd(1, 0)];
        let mut policy = mios_d(&[0, 1], &[2, 3]);
        assert_eq!(policy.decide(&view(&ssds, &[hdd(2)])).target, Target::Log(DeviceId(2)));
        assert_eq!(policy.decide(&view(&ssds, &[hdd(3)])).target, Target::Ssd);
    }

    /// Three SSDs and two hard drives: SSDs 0 and 2 share a pair, and the shorter queue takes a write.
    #[test]
    fn drives_are_dealt_in_turn() {
        let mut policy = mios_d(&[0, 1, 2], &[3, 4]);
        let (ssds, hdds) = ([ssd(0, 2), ssd(1, 0), ssd(2, 1)], [hdd(3), hdd(4)]);
        let decision = policy.decide(&view(&ssds, &hdds));
        assert_eq!(decision.target, Target::ThisSsd(DeviceId(2)));
        // one pair alone is the policy itself
        let decision = mios_d(&[0, 1], &[3]).decide(&view(&ssds[..2], &hdds[..1]));
        assert_eq!(decision.target, Target::Ssd);
    }

    /// Under fixed placement the SSD that has the place decides, whatever the address.
    #[test]
    fn a_place_of_an_ssd_belongs_to_its_pair() {
        let (ssds, hdds) = ([ssd(0, 9), ssd(1, 9)], [hdd(2), hdd(3)]);
        let mut view = view(&ssds, &hdds);
        view.fixed_ssd = Some(DeviceId(1));
        let decision = mios_d(&[0, 1], &[2, 3]).decide(&view);
        assert_eq!(decision.target, Target::Log(DeviceId(3)));
    }

    /// Of two SSDs of a pair the one that has the place is looked at, though the other one is idle.
    #[test]
    fn the_queue_is_that_of_the_place() {
        let (ssds, hdds) = ([ssd(0, 0), ssd(1, 0), ssd(2, 50)], [hdd(3), hdd(4)]);
        let mut view = view(&ssds, &hdds);
        for (place, want) in [(2, Target::Log(DeviceId(3))), (0, Target::ThisSsd(DeviceId(0)))] {
            view.fixed_ssd = Some(DeviceId(place));
            assert_eq!(mios_d(&[0, 1, 2], &[3, 4]).decide(&view).target, want, "{place}");
        }
    }

    /// Each pair's own SSD sets its `L`.
    #[test]
    fn each_pair_learns_of_its_own_ssd() {
        let config =
            SteerConfig::named("mios-d").with("pairs", 1).with("queue_length", u64::MAX - 1);
        let entry = config.entry().expect("registered");
        let mut policy = (entry.build)(&config, &profiles(&[0, 1], &[2, 3]));
        assert!(policy.learns());
        for _ in 0..100 {
            let seen = Seen::Completion {
                device: DeviceId(1),
                read: false,
                is_users: true,
                bytes: 4096,
                latency_ns: 1_000_000_000,
                queue_length: 0,
                in_flight_bytes: 4096,
                written_bytes: 4096,
            };
            policy.observe(Instant::from_ns(0), &seen);
        }
        let (ssds, hdds) = ([ssd(0, 1), ssd(1, 1)], [hdd(2), hdd(3)]);
        for (unit, want) in [(0, Target::ThisSsd(DeviceId(0))), (1, Target::Log(DeviceId(3)))] {
            let mut view = view(&ssds, &hdds);
            view.logical = unit * (UNIT_BYTES / BLOCK_BYTES);
            assert_eq!(policy.decide(&view).target, want);
        }
    }
}
