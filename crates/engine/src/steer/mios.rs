//! Where does this write go now? To a hard drive in its fast or mid state when the SSD is
//! congested (MIOS_D), and in its fast state even when it is not (MIOS_E).
//!
//! Source:  [BCW §4.3, Alg. 3].
//! Names:   l(t) → ssd_queue_length, L → queue_length, flagHDD → accepting
//! Differs: with several hard drives the one with the best predicted state and the shortest queue
//!          is asked; the paper has pairs of one SSD and one hard drive.
//! Tests:   below, a row per branch of Algorithm 3.

use super::settings::{Kind, Setting};
use super::{Decision, HddView, PolicyEntry, Reason, Steer, SteerView, Target};
use crate::bcw::predictor::WriteState;

const SETTINGS: &[Setting] = &[Setting::new(
    "queue_length",
    Kind::Count,
    2,
    0..=1_000_000,
    "redirect when the SSD's queue is longer than this (L)",
)];

/// Registry line of MIOS_D.
pub const ENTRY_D: PolicyEntry = PolicyEntry {
    name: "mios-d",
    summary: "redirects to fast and mid writes of a hard drive while the SSD's queue is long",
    source: "BCW 4.3, Algorithm 3 (MIOS_D)",
    settings: SETTINGS,
    build: |config| Box::new(Mios { queue_length: config.get("queue_length"), eager: false }),
};

/// Registry line of MIOS_E.
pub const ENTRY_E: PolicyEntry = PolicyEntry {
    name: "mios-e",
    summary: "as mios-d, and redirects to fast writes even while the SSD's queue is short",
    source: "BCW 4.3, Algorithm 3 (MIOS_E)",
    settings: SETTINGS,
    build: |config| Box::new(Mios { queue_length: config.get("queue_length"), eager: true }),
};

#[derive(Clone, Copy, Debug)]
struct Mios {
    queue_length: u64,
    eager: bool,
}

/// The drive that would take the write best: fast before mid, then the shortest queue.
fn best(hdds: &[HddView]) -> Option<&HddView> {
    hdds.iter()
        .filter(|hdd| hdd.accepting)
        .min_by_key(|hdd| (hdd.predicted as u8, hdd.queue_length, hdd.device))
}

impl Steer for Mios {
    fn decide(&self, view: &SteerView<'_>) -> Decision {
        let stay = |reason| Decision { target: Target::Ssd, reason };
        let Some(hdd) = best(view.hdds) else { return stay(Reason::NotAccepting) };
        let go = |reason| Decision { target: Target::Log(hdd.device), reason };
        let congested = u64::from(view.ssd_queue_length) > self.queue_length;
        match hdd.predicted {
            WriteState::Slow => stay(Reason::PredictedSlow),
            WriteState::Fast | WriteState::Mid if congested => go(Reason::Congested),
            WriteState::Fast if self.eager => go(Reason::FastWrite),
            WriteState::Fast | WriteState::Mid => stay(Reason::ShortQueue),
        }
    }

    fn redirects(&self) -> bool {
        true
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::DeviceId;

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
            let hdds = [HddView { device: DeviceId(1), accepting, predicted, queue_length: 0 }];
            let view = SteerView { bytes: 4096, ssd_queue_length: queue, hdds: &hdds };
            for (eager, want) in [(false, d), (true, e)] {
                let mios = Mios { queue_length: 2, eager };
                let target = if want { Target::Log(DeviceId(1)) } else { Target::Ssd };
                assert_eq!(mios.decide(&view).target, target, "{accepting} {predicted:?} {queue}");
            }
        }
    }

    #[test]
    fn the_better_of_two_drives_is_asked() {
        let hdd = |id, predicted, queue_length| HddView {
            device: DeviceId(id),
            accepting: true,
            predicted,
            queue_length,
        };
        let hdds = [hdd(1, WriteState::Mid, 0), hdd(2, WriteState::Fast, 3)];
        let view = SteerView { bytes: 4096, ssd_queue_length: 9, hdds: &hdds };
        let mios = Mios { queue_length: 2, eager: false };
        assert_eq!(mios.decide(&view).target, Target::Log(DeviceId(2)));
    }
}
