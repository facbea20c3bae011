//! Where does this write go now? To an idle hard drive while many reads suffer from writes.
//!
//! Source:  [SERW slide "Redirecting Strategy"] and [SERW slide "Experimental Setups"]: redirect if the SSD's IOPS
//!          exceed I, and its queue is longer than L or the write larger than S, and the hard drive is
//!          idle. In the thesis's words: under mid or high read intensity all writes if the queue is
//!          long, else only the large ones.
//! Names:   I → reads (or requests) per second, L → queue_length, S → size, l_HDD → hdd_queue
//! Differs: * I and S are the medians of the whole trace in the paper, which no server knows before
//!            the end: "adaptive" takes them from what was seen lately (B7);
//!          * IOPS of what is not said; the thesis says reads, `of=requests` counts all;
//!          * hysteresis about I, so that it does not flicker;
//!          * a drive that a write was promised to is not idle any more: the paper's burst in one
//!            tick sees the same idle drive again and again (B7).
//! Tests:   below, a row per condition.

use super::quantile::Quantile;
use super::rate::Rate;
use super::settings::{Kind, Setting, SteerConfig};
use super::{Decision, PolicyEntry, Reason, Seen, Steer, SteerView};
use crate::bcw::controller::Control;
use tandem_block::{Duration, Instant};

const ADAPTIVE: u64 = u64::MAX;
const READS: u64 = 0;
const REQUESTS: u64 = 1;
/// Values of each sort that must be seen before an adaptive threshold is believed (guess).
const ENOUGH: u64 = 16;
/// Steps without any request that count as values of the rate, at most at a time: a server that
/// slept over night must not take every request in the morning for many.
const EMPTY_STEPS_MAX: u64 = 64;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "serw",
    summary: "while there are many reads: large writes, or all if the SSD's queue is long, to idle hard drives",
    source: "SeRW, slides; thesis form of the rule",
    needs: (1, 1),
    settings: &[
        Setting::new(
            "intensity",
            Kind::Rate,
            ADAPTIVE,
            0..=1_000_000_000,
            "redirect only above this rate (I)",
        )
        .words(&[("adaptive", ADAPTIVE)]),
        Setting::new(
            "queue_length",
            Kind::Count,
            3,
            0..=1_000_000,
            "redirect all writes when the SSD's queue is longer than this (L)",
        ),
        Setting::new(
            "size",
            Kind::Bytes,
            ADAPTIVE,
            0..=1 << 30,
            "redirect writes larger than this at any queue (S)",
        )
        .words(&[("adaptive", ADAPTIVE)]),
        Setting::new(
            "hdd_queue",
            Kind::Count,
            0,
            0..=1_000_000,
            "a hard drive with so many commands is still idle (l_HDD)",
        ),
        Setting::new("of", Kind::Word, READS, 0..=1, "what the intensity counts")
            .words(&[("reads", READS), ("requests", REQUESTS)]),
        Setting::new(
            "reads_quantile",
            Kind::Share,
            500_000,
            10_000..=990_000,
            "which quantile of the rates an adaptive I is",
        ),
        Setting::new(
            "size_quantile",
            Kind::Share,
            500_000,
            10_000..=990_000,
            "which quantile of the sizes an adaptive S is",
        ),
        Setting::new(
            "window",
            Kind::Time,
            1_000_000_000,
            1_000_000..=60_000_000_000,
            "rates are taken over this long",
        ),
        Setting::new(
            "hysteresis",
            Kind::Share,
            100_000,
            0..=900_000,
            "the rate must pass I by this share, either way",
        ),
    ],
    build: |config, _| Box::new(SeRw::new(config)),
};

#[derive(Clone, Debug)]
struct SeRw {
    intensity: u64,
    queue_length: u64,
    size_bytes: u64,
    hdd_queue: u64,
    counts_writes: bool,
    hysteresis_ppm: u64,
    rate: Rate,
    rates: Quantile,
    sizes: Quantile,
    /// The rate is above I.
    intense: bool,
}

impl SeRw {
    fn new(config: &SteerConfig) -> Self {
        SeRw {
            intensity: config.get("intensity"),
            queue_length: config.get("queue_length"),
            size_bytes: config.get("size"),
            hdd_queue: config.get("hdd_queue"),
            counts_writes: config.get("of") == REQUESTS,
            hysteresis_ppm: config.get("hysteresis"),
            rate: Rate::new(Duration::from_ns(config.get("window"))),
            rates: Quantile::new(config.get("reads_quantile")),
            sizes: Quantile::new(config.get("size_quantile")),
            intense: false,
        }
    }

    /// Time passes: once a step the rate is compared with I.
    fn advance(&mut self, now: Instant) {
        let steps = self.rate.advance(now);
        if steps == 0 {
            return;
        }
        let rate = self.rate.per_s();
        for _ in 0..steps.min(EMPTY_STEPS_MAX) {
            self.rates.add(rate);
        }
        let limit = if self.intensity == ADAPTIVE { self.rates.value() } else { self.intensity };
        let margin = u128::from(limit) * u128::from(self.hysteresis_ppm) / 1_000_000;
        let margin = margin as u64;
        assert!(margin <= limit, "a margin is a part of its limit");
        if rate > limit + margin {
            self.intense = true;
        } else if rate <= limit - margin {
            self.intense = false;
        }
    }

    fn is_learning(&self) -> bool {
        (self.intensity == ADAPTIVE && self.rates.total() < ENOUGH)
            || (self.size_bytes == ADAPTIVE && self.sizes.total() < ENOUGH)
    }

    fn size_bytes(&self) -> u64 {
        if self.size_bytes == ADAPTIVE { self.sizes.value() } else { self.size_bytes }
    }
}

impl Steer for SeRw {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        if self.is_learning() {
            return Decision::stay(Reason::Learning);
        }
        if !self.intense {
            return Decision::stay(Reason::FewReads);
        }
        let congested = u64::from(view.ssd_queue_length) > self.queue_length;
        if !congested && view.request_bytes <= self.size_bytes() {
            return Decision::stay(Reason::SmallWrite);
        }
        let free = |queue: u32, idle: bool| {
            idle || u64::from(queue) <= self.hdd_queue && self.hdd_queue > 0
        };
        let idle = view.hdds.iter().filter(|hdd| hdd.accepting && free(hdd.queue_length, hdd.idle));
        match idle.min_by_key(|hdd| (hdd.queue_length, hdd.expected_ns, hdd.device)) {
            None => Decision::stay(Reason::HddBusy),
            Some(hdd) if congested => Decision::go(hdd, Reason::Congested),
            Some(hdd) => Decision::go(hdd, Reason::LargeWrite),
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

    fn observe(&mut self, now: Instant, seen: &Seen) {
        let &Seen::Arrival { read, bytes } = seen else { return };
        self.advance(now);
        if read || self.counts_writes {
            self.rate.add(now);
        }
        if !read {
            self.sizes.add(bytes);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::test_views::{hdd, ssd, view};
    use tandem_block::KIB;

    /// I = 1000 reads/s, L = 3, S = 64 KiB.
    fn fixed() -> SeRw {
        let config = SteerConfig::named("serw").with("intensity", 1_000).with("size", 64 * KIB);
        SeRw::new(&config)
    }

    fn read_at(serw: &mut SeRw, rate: u64, from_s: u64, to_s: u64) {
        let step_ns = 1_000_000_000 / rate;
        for at in (from_s * 1_000_000_000..to_s * 1_000_000_000).step_by(step_ns as usize) {
            let seen = Seen::Arrival { read: true, bytes: 4096 };
            serw.observe(Instant::from_ns(at), &seen);
        }
    }

    /// A row per condition of [SERW slide "Redirecting Strategy"].
    #[test]
    fn serw_redirecting_strategy() {
        let busy = |queue_length, idle| {
            let mut drive = hdd(1);
            (drive.queue_length, drive.idle) = (queue_length, idle);
            drive
        };
        let rows = [
            // reads/s, l_SSD, size, the hard drive, why
            (2_000, 4, 4 * KIB, hdd(1), Reason::Congested),
            (2_000, 4, 128 * KIB, hdd(1), Reason::Congested),
            (2_000, 3, 128 * KIB, hdd(1), Reason::LargeWrite),
            (2_000, 3, 64 * KIB, hdd(1), Reason::SmallWrite),
            (2_000, 4, 4 * KIB, busy(1, false), Reason::HddBusy),
            (2_000, 4, 4 * KIB, busy(0, false), Reason::HddBusy), // promised, not yet queued: B7
            (500, 4, 128 * KIB, hdd(1), Reason::FewReads),
        ];
        for (rate, queue, bytes, drive, want) in rows {
            let mut serw = fixed();
            read_at(&mut serw, rate, 0, 10);
            let (ssds, hdds) = ([ssd(0, queue)], [drive]);
            let mut view = view(&ssds, &hdds);
            view.request_bytes = bytes;
            let decision = serw.decide(&view);
            assert_eq!(decision.reason, want);
            assert_eq!(decision.target.is_log(), want.redirects());
        }
    }

    #[test]
    fn b7_hysteresis_keeps_the_state_near_i() {
        let mut serw = fixed();
        read_at(&mut serw, 1_050, 0, 10);
        assert!(!serw.intense, "above I, and not by a tenth");
        read_at(&mut serw, 2_000, 10, 20);
        assert!(serw.intense);
        read_at(&mut serw, 950, 20, 30);
        assert!(serw.intense, "below I, and not by a tenth");
        read_at(&mut serw, 500, 30, 40);
        assert!(!serw.intense);
    }

    /// [SERW slide "Experimental Setups"]: S and I are medians; here of what was seen lately.
    #[test]
    fn b7_thresholds_are_learned_online() {
        let mut serw = SeRw::new(&SteerConfig::named("serw"));
        let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
        let mut large = view(&ssds, &hdds);
        large.request_bytes = 256 * KIB;
        assert_eq!(serw.decide(&large).reason, Reason::Learning);
        for bytes in [4 * KIB, 16 * KIB].repeat(50) {
            serw.observe(Instant::from_ns(1), &Seen::Arrival { read: false, bytes });
        }
        read_at(&mut serw, 100, 0, 20);
        read_at(&mut serw, 1_000, 20, 25);
        assert!(serw.intense, "ten times the median");
        assert!((4 * KIB..16 * KIB).contains(&serw.size_bytes()));
        assert_eq!(serw.decide(&large).reason, Reason::LargeWrite);
        read_at(&mut serw, 50, 25, 30);
        assert_eq!(serw.decide(&large).reason, Reason::FewReads);
    }

    #[test]
    fn all_requests_count_if_told_so() {
        let mut of_all =
            SeRw::new(&SteerConfig::named("serw").with("intensity", 100).with("of", REQUESTS));
        let mut of_reads = fixed();
        for ms in 0..5_000 {
            let seen = Seen::Arrival { read: false, bytes: 4096 };
            of_all.observe(Instant::from_ns(ms * 1_000_000), &seen);
            of_reads.observe(Instant::from_ns(ms * 1_000_000), &seen);
        }
        assert!(of_all.intense && !of_reads.intense);
    }
}
