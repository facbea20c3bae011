//! Where does this write go now?
//!
//! A seam: one file per answer. A policy is a synchronous function from a read-only view to a
//! decision with a reason; every reason is a counter. Volumes with the same policy and settings share
//! one, so that what it learns of the drives it learns once.

pub(crate) mod ect;
pub(crate) mod even_split;
pub(crate) mod hdd_only;
pub(crate) mod mios;
pub(crate) mod most;
pub(crate) mod nhc;
mod pairs;
pub(crate) mod quantile;
mod queue_limit;
pub(crate) mod rate;
mod registry;
pub(crate) mod serw;
pub(crate) mod ssd_curve;
pub(crate) mod ssd_first;
pub(crate) mod ssd_only;
pub(crate) mod swr;
pub(crate) mod tandem;
#[cfg(test)]
mod test_views;
pub(crate) mod view;
pub(crate) mod ziggurat;

use crate::bcw::controller::Control;
use crate::config::{DeviceConfig, Role};
use crate::profile::{HddProfile, SsdProfile};
pub use crate::settings;
use crate::settings::{Setting, SteerConfig};
use tandem_block::{DeviceId, Instant};
pub use view::{Answer, Decision, Expected, HddView, Reason, Seen, SsdView, SteerView, Target};

/// A steering policy.
pub trait Steer: std::fmt::Debug + Send {
    /// Where does this write go?
    fn decide(&mut self, view: &SteerView<'_>) -> Decision;

    /// How much it supposes of the hard drives it redirects to; `None` if it never redirects, and
    /// hard drives are left alone.
    fn control(&self) -> Option<Control>;

    /// Has it to be asked at all? If not, every write goes to the SSD that has the fewest commands.
    fn is_asked(&self) -> bool {
        self.control().is_some()
    }

    /// Does it want to be told what happens?
    fn learns(&self) -> bool {
        false
    }

    /// Does it look at what a hard drive is expected to take even where there is only one? Those that
    /// do not are spared the estimate: 0 stands in its place.
    fn weighs_time(&self) -> bool {
        true
    }

    /// Something happened.
    fn observe(&mut self, _now: Instant, _seen: &Seen) {}

    /// Does it choose between an SSD and a hard drive that both have what is read? Then it is asked as below.
    fn balances(&self) -> bool {
        false
    }

    /// Does it want to know what users' requests took? Only one that learns is told.
    fn hears_answers(&self) -> bool {
        self.balances()
    }

    /// May a log take what an SSD is overdue with? Then it is asked as below.
    fn hedges(&self) -> bool {
        false
    }

    /// From which age on is a write overdue that this SSD has, in ns? `None`: never.
    fn overdue_ns(&self, _ssd: &SsdView) -> Option<u64> {
        None
    }

    /// A log takes a write as well.
    fn note_hedge(&mut self) {}

    /// Does the hard drive serve the next such read?
    fn reads_from_hdd(&mut self) -> bool {
        false
    }

    /// May what was read from a hard drive come to the SSD, if the tier wants that?
    fn admits(&self) -> bool {
        true
    }

    /// Are dirty blocks written home while nobody asks for anything?
    fn writes_home_when_quiet(&self) -> bool {
        true
    }

    /// Under fixed placement: are the SSDs striped instead of filled one after the other?
    fn stripes(&self) -> bool {
        false
    }

    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Steer>;
}

impl Clone for Box<dyn Steer> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// What is believed of the drives when a policy is made.
#[derive(Clone, Debug, Default)]
pub struct DriveProfiles {
    /// Of the SSDs.
    pub ssds: Vec<(DeviceId, SsdProfile)>,
    /// Of the hard drives that have a profile.
    pub hdds: Vec<(DeviceId, HddProfile)>,
}

impl DriveProfiles {
    /// From a set's drives, in the order of their ids.
    pub(crate) fn of(devices: &[DeviceConfig]) -> Self {
        let mut profiles = DriveProfiles::default();
        for (id, device) in devices.iter().enumerate() {
            let id = DeviceId(id as u8);
            match (device.role, &device.hdd_profile) {
                (Role::Ssd, _) => profiles.ssds.push((id, device.ssd_profile)),
                (Role::Hdd, Some(profile)) => profiles.hdds.push((id, profile.clone())),
                (Role::Hdd, None) => {}
            }
        }
        profiles
    }
}

/// A registered policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// SSDs and hard drives that it needs at least to do anything of its own.
    pub needs: (usize, usize),
    /// Its settings.
    pub(crate) settings: &'static [Setting],
    /// Makes one.
    pub(crate) build: fn(&SteerConfig, &DriveProfiles) -> Box<dyn Steer>,
}

impl PolicyEntry {
    /// Does it redirect to hard drives?
    pub const fn redirects(&self) -> bool {
        self.needs.1 > 0
    }

    /// What a set of so many drives lacks for it, in words.
    pub fn lacks(&self, ssds: usize, hdds: usize) -> Option<String> {
        let name = self.name;
        if hdds < self.needs.1 {
            return Some(format!("{name} redirects to a hard drive, and there is none"));
        }
        (ssds < self.needs.0).then(|| {
            let wanted = self.needs.0;
            format!("{name} needs {wanted} SSDs, and there are {ssds}")
        })
    }
}

/// Every policy there is.
pub const POLICIES: &[PolicyEntry] = &[
    ssd_first::ENTRY,
    mios::ENTRY_D,
    mios::ENTRY_E,
    mios::ENTRY_F,
    swr::ENTRY,
    serw::ENTRY,
    ect::ENTRY,
    even_split::ENTRY,
    ssd_only::ENTRY,
    hdd_only::ENTRY,
    ziggurat::ENTRY,
    nhc::ENTRY,
    most::ENTRY,
    tandem::ENTRY,
];

/// Makes the policy that a volume asks for; `None` if there is none of that name.
pub fn build(config: &SteerConfig, profiles: &DriveProfiles) -> Option<Box<dyn Steer>> {
    config.entry().map(|entry| (entry.build)(config, profiles))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_lacking_is_said() {
        let lacks = |name: &str, ssds, hdds| {
            let entry = SteerConfig::named(name).entry().expect(name);
            entry.lacks(ssds, hdds)
        };
        assert_eq!(lacks("ssd-first", 1, 0), None);
        assert_eq!(lacks("ssd-only", 1, 0), None);
        assert!(
            lacks("mios-d", 1, 0).expect("no hard drive").contains("redirects to a hard drive")
        );
        assert_eq!(lacks("mios-d", 0, 1), None, "without an SSD everything goes to the log");
        assert_eq!(
            lacks("even-split", 1, 1).expect("one SSD"),
            "even-split needs 2 SSDs, and there are 1"
        );
        assert_eq!(lacks("hdd-only", 0, 1), None);
    }

    #[test]
    fn names_are_given_once() {
        let names: BTreeSet<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), POLICIES.len());
        for entry in POLICIES {
            let policy = build(&SteerConfig::named(entry.name), &DriveProfiles::default());
            let policy = policy.expect("registered");
            assert_eq!(policy.control().is_some(), entry.redirects(), "{}", entry.name);
        }
    }
}
