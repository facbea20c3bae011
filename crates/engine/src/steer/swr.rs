//! Where does this write go now? To a hard drive if it is large and the SSD's queue is long.
//!
//! Source:  SWR, SoCC 2019, of which the abstract was read: it redirects some or all writes of the
//!          SSD, large synchronous ones at a high queue length, to hard drives whose writes take 3
//!          to 12 times as long; P2 of the requirements.
//! Differs: its thresholds were not found, so all defaults are guesses. Every write of a user is
//!          synchronous: somebody waits for it. No BCW: the log is written plainly.
//! Tests:   below, a row per condition.

use super::settings::{Kind, Setting, SteerConfig};
use super::{Decision, PolicyEntry, Reason, Steer, SteerView};
use crate::bcw::controller::Control;
use tandem_block::KIB;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "swr",
    summary: "redirects large writes while the SSD's queue is long; the log is written plainly",
    source: "SWR (SoCC 2019), abstract",
    needs: (1, 1),
    settings: &[
        Setting::new(
            "queue_length",
            Kind::Count,
            2,
            0..=1_000_000,
            "redirect when the SSD's queue is longer than this",
        ),
        Setting::new(
            "size",
            Kind::Bytes,
            64 * KIB,
            0..=1 << 30,
            "redirect writes larger than this; 0B: all",
        ),
        Setting::new(
            "hdd_queue",
            Kind::Count,
            0,
            0..=1_000_000,
            "redirect only to a hard drive whose queue is no longer than this",
        ),
    ],
    build: |config, _| Box::new(Swr::new(config)),
};

#[derive(Clone, Copy, Debug)]
struct Swr {
    queue_length: u64,
    size_bytes: u64,
    hdd_queue: u64,
}

impl Swr {
    fn new(config: &SteerConfig) -> Self {
        Swr {
            queue_length: config.get("queue_length"),
            size_bytes: config.get("size"),
            hdd_queue: config.get("hdd_queue"),
        }
    }
}

impl Steer for Swr {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        if u64::from(view.ssd_queue_length) <= self.queue_length {
            return Decision::stay(Reason::ShortQueue);
        }
        if view.request_bytes <= self.size_bytes {
            return Decision::stay(Reason::SmallWrite);
        }
        match view.soonest_hdd() {
            None => Decision::stay(Reason::NotAccepting),
            Some(hdd) if u64::from(hdd.queue_length) > self.hdd_queue => {
                Decision::stay(Reason::HddBusy)
            }
            Some(hdd) => Decision::go(hdd, Reason::LargeWrite),
        }
    }

    fn weighs_time(&self) -> bool {
        false
    }

    fn control(&self) -> Option<Control> {
        Some(Control::Bare)
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::test_views::{hdd, ssd, view};

    #[test]
    fn large_writes_at_a_long_queue() {
        for (queue, bytes, hdd_queue, accepting, want) in [
            (3, 128 * KIB, 0, true, Reason::LargeWrite),
            (2, 128 * KIB, 0, true, Reason::ShortQueue),
            (3, 64 * KIB, 0, true, Reason::SmallWrite),
            (3, 128 * KIB, 1, true, Reason::HddBusy),
            (3, 128 * KIB, 0, false, Reason::NotAccepting),
        ] {
            let mut drive = hdd(1);
            (drive.queue_length, drive.accepting) = (hdd_queue, accepting);
            let (ssds, hdds) = ([ssd(0, queue)], [drive]);
            let mut view = view(&ssds, &hdds);
            view.request_bytes = bytes;
            let decision = Swr::new(&SteerConfig::named("swr")).decide(&view);
            assert_eq!(decision.reason, want);
            assert_eq!(decision.target.is_log(), want.redirects());
        }
    }
}
