//! What does each SSD take now, and what was it spared?

use super::spared::Spared;
use crate::steer::ssd_curve::SsdCurve;
use crate::steer::{DriveProfiles, SsdView};
use tandem_block::{DeviceId, Instant};

/// An SSD stalls when its oldest command is so much later than twice what is expected, in ns (as `ect`).
pub(super) const STALL_SLACK_NS: u64 = 500_000;
/// A write is overdue, so that a log takes it as well, when it is so much later than twice what is expected, in ns
/// (guess).
const OVERDUE_SLACK_NS: u64 = 200_000;
/// How long a stall lasts until some were measured, in ns (as `ect`).
const STALL_NS: u64 = 10_000_000;

/// What is known of one SSD.
#[derive(Clone, Debug)]
struct KnownSsd {
    curve: SsdCurve,
    spared: Spared,
}

/// What is known of all, by device id.
#[derive(Clone, Debug)]
pub(super) struct Ssds {
    known: Vec<Option<KnownSsd>>,
    sees_stalls: bool,
}

/// What is expected of an SSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct SsdTime {
    pub(super) device: DeviceId,
    pub(super) total_ns: u64,
    pub(super) stalled: bool,
    /// As much was in flight before.
    pub(super) known: bool,
}

impl Ssds {
    /// By profile. `sees_stalls`: commands that are overdue say something of what follows.
    pub(super) fn new(profiles: &DriveProfiles, sees_stalls: bool) -> Ssds {
        let mut known = Vec::new();
        for (device, profile) in &profiles.ssds {
            assert!(known.len() <= usize::from(device.0), "drives are listed by their ids");
            known.resize(usize::from(device.0), None);
            known.push(Some(KnownSsd {
                curve: SsdCurve::new(profile, STALL_NS).quick(),
                spared: Spared::new(profile.write_bytes_per_s),
            }));
        }
        Ssds { known, sees_stalls }
    }

    fn get(&self, ssd: DeviceId) -> Option<&KnownSsd> {
        self.known.get(usize::from(ssd.0))?.as_ref()
    }

    fn get_mut(&mut self, ssd: DeviceId) -> Option<&mut KnownSsd> {
        self.known.get_mut(usize::from(ssd.0))?.as_mut()
    }

    /// What a write of so many bytes would take there.
    pub(super) fn expect(&self, ssd: &SsdView, bytes: u64) -> Option<SsdTime> {
        let curve = &self.get(ssd.device)?.curve;
        // what is read hardly keeps a write waiting, as the buffer takes it, and a unit of the journal waits for itself
        let backlog = ssd.written_bytes + ssd.waiting_bytes;
        let overdue = curve.is_overdue(ssd.oldest_ns, ssd.in_flight_bytes, STALL_SLACK_NS);
        // an SSD of which nobody has seen a stall reads for longer now and then
        let stalled = overdue && curve.has_stalled() && self.sees_stalls;
        let stall_ns = if stalled { curve.rest_of_stall_ns(ssd.oldest_ns) } else { 0 };
        let total_ns = curve.likely_ns(backlog + bytes) + stall_ns;
        let known = curve.knows(backlog + bytes);
        Some(SsdTime { device: ssd.device, total_ns, stalled, known })
    }

    /// From which age on a write is overdue there, in ns.
    pub(super) fn overdue_ns(&self, ssd: &SsdView) -> Option<u64> {
        let curve = &self.get(ssd.device)?.curve;
        Some(curve.latency_ns(ssd.in_flight_bytes).saturating_mul(2) + OVERDUE_SLACK_NS)
    }

    /// How much longer a write would wait there if it had got all of them, in ns: on that SSD which was spared least.
    pub(super) fn spared_ns(&self) -> u64 {
        self.known.iter().flatten().map(|ssd| ssd.spared.wait_ns()).min().unwrap_or(0)
    }

    /// So it looks now.
    pub(super) fn look(&mut self, now: Instant, ssd: &SsdView) {
        if let Some(known) = self.get_mut(ssd.device) {
            known.spared.idle_until(now, ssd.oldest_ns);
        }
    }

    /// A write that was for this SSD goes elsewhere.
    pub(super) fn spare(&mut self, ssd: DeviceId, bytes: u64) {
        if let Some(known) = self.get_mut(ssd) {
            known.spared.add(bytes);
        }
    }

    /// One that went elsewhere has come back, to an SSD that nobody tells: it is taken for that which was spared most.
    pub(super) fn take_back(&mut self, bytes: u64) {
        let all = self.known.iter_mut().flatten().map(|ssd| &mut ssd.spared);
        if let Some(spared) = all.max_by_key(|spared| spared.wait_ns()) {
            spared.take_back(bytes);
        }
    }

    /// A command ended that took so long; `written_bytes`: what it wrote.
    pub(super) fn ended(&mut self, now: Instant, ssd: DeviceId, took_ns: u64, written_bytes: u64) {
        if let Some(known) = self.get_mut(ssd) {
            known.spared.ended(now, took_ns, written_bytes);
        }
    }

    /// A user's write took so long, with so many bytes that were being written.
    pub(super) fn learn(&mut self, ssd: DeviceId, in_flight_bytes: u64, took_ns: u64) {
        if let Some(known) = self.get_mut(ssd) {
            known.curve.learn(in_flight_bytes, took_ns, STALL_SLACK_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SsdProfile;
    use crate::steer::test_views::ssd;

    /// Two SSDs with a hard drive's id between them, at 300 MB/s.
    fn ssds() -> Ssds {
        let of = |id| (DeviceId(id), SsdProfile::default());
        Ssds::new(&DriveProfiles { ssds: vec![of(0), of(2)], hdds: Vec::new() }, true)
    }

    #[test]
    fn each_ssd_is_known_for_itself() {
        let mut ssds = ssds();
        (0..100).for_each(|_| ssds.learn(DeviceId(2), 4096, 200_000));
        let expected = |id| ssds.expect(&ssd(id, 0), 4096).map(|time| time.total_ns);
        assert_eq!(expected(0), Some(20_000));
        assert!(expected(2).is_some_and(|ns| ns > 150_000));
        assert_eq!(expected(1), None, "it is no SSD");
        let overdue = |id| ssds.overdue_ns(&ssd(id, 0));
        assert!(overdue(2) > overdue(0) && overdue(1).is_none());
    }

    #[test]
    fn the_one_that_was_spared_least_says_what_a_write_would_wait() {
        let mut ssds = ssds();
        ssds.spare(DeviceId(0), 30_000_000);
        assert_eq!(ssds.spared_ns(), 0, "a write would have gone to the other one");
        ssds.spare(DeviceId(2), 60_000_000);
        assert_eq!(ssds.spared_ns(), 100_000_000);
        ssds.take_back(45_000_000);
        assert_eq!(ssds.spared_ns(), 50_000_000);
    }
}
