//! From which queue length on is the SSD slower than a hard drive's mid write?
//!
//! Source:  [BCW §4.3]: L is the smallest l at which the measured latency of SSD writes exceeds that
//!          of mid writes, "adjusted experimentally … at runtime" (M27).
//! Unclear: the paper does not say of which size, nor how it is adjusted. Here each completed SSD
//!          write is compared with a mid write of its own size, by the length of the queue that it
//!          found; what is not measured is believed.
//! Tests:   below.

use super::{DriveProfiles, Seen};
use crate::profile::{DEPTH_MAX, HddProfile, latency_ns};
use tandem_block::BLOCK_BYTES;

/// Queue lengths that are told apart; longer ones count as the last.
const LENGTHS: usize = 64;
/// Writes at one length before it is believed (guess: the weight of one is then small).
const ENOUGH: u32 = 16;
/// A write weighs so much, as a shift, against what was known of its length.
const WEIGHT_BITS: u32 = 4;

/// `L` by the model: the smallest l at which a write of 4 KiB that finds l others takes the SSD longer than
/// a mid write takes the hard drive. By the latencies that were measured at each queue depth, which
/// count the write itself; else by the SSD's sustained rate; 2 if nothing is believed.
pub(super) fn believed(profiles: &DriveProfiles) -> u64 {
    let (Some((_, ssd)), Some((_, hdd))) = (profiles.ssds.first(), profiles.hdds.first()) else {
        return 2;
    };
    let mid_ns = latency_ns(&hdd.mid_latency, BLOCK_BYTES);
    if ssd.sustained_ns.is_some() {
        return ssd.depth_slower_than(mid_ns).map_or(DEPTH_MAX, |depth| depth - 1);
    }
    let write_ns = BLOCK_BYTES * 1_000_000_000 / ssd.write_bytes_per_s.max(1);
    mid_ns / write_ns.max(1)
}

/// `L`, learned.
#[derive(Clone, Debug)]
pub(super) struct QueueLimit {
    hdd: Option<HddProfile>,
    believed: u64,
    /// By queue length: writes seen, and how much longer than a mid write they took, in ns.
    excess: Vec<(u32, i64)>,
    value: u64,
}

impl QueueLimit {
    /// Of nothing measured yet.
    pub(crate) fn new(profiles: &DriveProfiles) -> Self {
        let believed = believed(profiles);
        let hdd = profiles.hdds.first().map(|(_, profile)| profile.clone());
        QueueLimit { hdd, believed, excess: vec![(0, 0); LENGTHS], value: believed }
    }

    /// `L` now.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// A write of an SSD is done.
    pub(crate) fn observe(&mut self, seen: &Seen) {
        let &Seen::Completion { read: false, bytes, latency_ns: took_ns, queue_length, .. } = seen
        else {
            return;
        };
        let Some(hdd) = &self.hdd else { return };
        let mid_ns = latency_ns(&hdd.mid_latency, bytes);
        let excess = i64::try_from(took_ns).unwrap_or(i64::MAX / 4) - mid_ns as i64;
        let length = (queue_length as usize).min(LENGTHS - 1);
        let (count, known) = &mut self.excess[length];
        // the first ones weigh more: their mean, then the decaying one
        *count = count.saturating_add(1);
        let weight = i64::from((*count).min(1 << WEIGHT_BITS));
        *known += (excess - *known) / weight;
        if *count >= ENOUGH {
            self.value = self.look_up();
        }
    }

    fn look_up(&self) -> u64 {
        let measured = |(_, (count, _)): &(usize, &(u32, i64))| *count >= ENOUGH;
        let mut longest_sound = None;
        for (length, (_, excess)) in self.excess.iter().enumerate().filter(measured) {
            if *excess > 0 {
                return length as u64;
            }
            longest_sound = Some(length as u64);
        }
        // no length seen was too long: then it is one that was not seen
        longest_sound.map_or(self.believed, |length| self.believed.max(length + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SsdProfile;
    use tandem_block::{DeviceId, KIB};

    fn profiles() -> DriveProfiles {
        let hdd = HddProfile {
            fast_latency: vec![(4 * KIB, 35_000)],
            mid_latency: vec![(4 * KIB, 55_000)],
            slow_latency_ns: 12_000_000,
            fast_stage_bytes: 16 << 20,
            mid_stage_bytes: 8 << 20,
            drain_idle_ns: 50_000_000,
            drain_bytes_per_s: 200_000_000,
            flush_base_ns: 200_000_000,
            position_ns: 14_000_000,
            detail: Box::default(),
        };
        let ssd = SsdProfile { flush_ns: 1_000_000, ..SsdProfile::default() };
        DriveProfiles { ssds: vec![(DeviceId(0), ssd)], hdds: vec![(DeviceId(1), hdd)] }
    }

    fn write(queue_length: u32, latency_ns: u64) -> Seen {
        let (device, bytes) = (DeviceId(0), 4096);
        let in_flight_bytes = u64::from(queue_length + 1) * bytes;
        Seen::Completion {
            device,
            read: false,
            is_users: true,
            bytes,
            latency_ns,
            queue_length,
            in_flight_bytes,
            written_bytes: in_flight_bytes,
        }
    }

    /// [BCW §4.3]: "the smallest l(t) whose SSD latency exceeds the HDD's mid latency".
    #[test]
    fn bcw_l_is_the_shortest_queue_that_is_slower_than_a_mid_write() {
        assert_eq!(believed(&profiles()), 4, "4 writes of 13.6 us before it, and its own");
        assert_eq!(believed(&DriveProfiles::default()), 2);
        let mut limit = QueueLimit::new(&profiles());
        for _ in 0..20 {
            for (length, latency_ns) in [(0, 20_000), (1, 40_000), (2, 60_000), (7, 160_000)] {
                limit.observe(&write(length, latency_ns));
            }
        }
        assert_eq!(limit.value(), 2);
        for _ in 0..200 {
            limit.observe(&write(2, 50_000));
        }
        assert_eq!(limit.value(), 7, "the drive is faster now, as far as was seen");
    }

    /// M27: the profiler's table of latency by queue depth decides where there is one.
    #[test]
    fn m27_l_is_looked_up_in_what_was_measured() {
        for (sustained_us, want) in [
            ([20, 30, 40, 56, 90, 180, 360], 7), // of 8 under way one found 7
            ([20, 30, 50, 70, 90, 180, 360], 5), // 55 us are passed with 6 under way
            ([60, 70, 80, 90, 100, 110, 120], 0),
            ([10, 10, 10, 10, 10, 10, 10], 64),
        ] {
            let mut profiles = profiles();
            profiles.ssds[0].1.sustained_ns = Some(sustained_us.map(|us: u64| us * 1000));
            assert_eq!(believed(&profiles), want, "{sustained_us:?}");
        }
    }

    #[test]
    fn one_length_may_be_seen_for_ever() {
        let mut limit = QueueLimit::new(&profiles());
        limit.excess[2] = (u32::MAX - 1, -1);
        for _ in 0..3 {
            limit.observe(&write(2, 20_000));
            assert_eq!(limit.value(), 4, "as believed: no length seen was too long");
        }
    }

    #[test]
    fn a_fast_ssd_has_a_longer_limit_than_was_seen() {
        let mut limit = QueueLimit::new(&profiles());
        for length in (0..10).flat_map(|length| [length; 30]) {
            limit.observe(&write(length, 20_000));
        }
        assert_eq!(limit.value(), 10);
    }
}
