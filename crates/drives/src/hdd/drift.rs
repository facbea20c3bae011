//! What if a drive does not stay as it was profiled? A hard drive that becomes another at given times.
//!
//! Source: [TOS abstract] (parameters are recalibrated while the system runs), requirements B6: zones,
//! temperature, a write cache that somebody switches off, a firmware with another buffer.

use super::model::HddModel;
use crate::spec::{Bytes, BytesPerSecond, HddSpec, LatencyTable, Nanos, Sourced};
use std::collections::VecDeque;
use tandem_block::{Drive, DriveEvent, DriveOp, Instant, IoError, Outcome};

const SOURCE: &str = "derived: a drive that drifts";

/// A hard drive whose parameters change at given times.
#[derive(Clone, Debug)]
pub struct Drifting {
    model: HddModel,
    /// Oldest first.
    changes: VecDeque<(Instant, HddSpec)>,
}

impl Drifting {
    /// A drive that is `spec` until the first of the changes, which are in the order of their times.
    ///
    /// # Panics
    /// If the changes are out of order.
    pub fn new(model: HddModel, changes: Vec<(Instant, HddSpec)>) -> Drifting {
        assert!(changes.is_sorted_by_key(|change| change.0), "changes come in the order of time");
        Drifting { model, changes: changes.into() }
    }

    fn catch_up(&mut self, now: Instant) {
        while self.changes.front().is_some_and(|change| change.0 <= now) {
            let (_, spec) = self.changes.pop_front().expect("just seen");
            self.model.adopt(now, &spec);
        }
    }
}

impl Drive for Drifting {
    fn capacity_bytes(&self) -> u64 {
        self.model.capacity_bytes()
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        self.catch_up(now);
        self.model.submit(now, op)
    }

    fn ticket_ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        self.model.ticket_ack(outcome)
    }

    fn volatile_bytes(&mut self, now: Instant) -> u64 {
        self.model.volatile_bytes(now)
    }

    fn power_cycle(&mut self, now: Instant) {
        self.model.power_cycle(now);
    }

    fn take_events(&mut self) -> Vec<DriveEvent> {
        self.model.take_events()
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}

/// The same drive with its times at `times_percent`, its rates at `rates_percent` and the bytes of its
/// stages at `stages_percent` of what they were.
pub fn changed(
    spec: &HddSpec,
    times_percent: u64,
    rates_percent: u64,
    stages_percent: u64,
) -> HddSpec {
    let time = |ns: &Sourced<Nanos>| Sourced::of(Nanos(ns.get().0 * times_percent / 100), SOURCE);
    let rate = |rate: &Sourced<BytesPerSecond>| {
        Sourced::of(BytesPerSecond(rate.get().0 * rates_percent / 100), SOURCE)
    };
    let stage =
        |bytes: &Sourced<Bytes>| Sourced::of(Bytes(bytes.get().0 * stages_percent / 100), SOURCE);
    let table = |table: &Sourced<LatencyTable>| {
        let points = &table.value.0;
        let points = points.iter().map(|point| (point.0, point.1 * times_percent / 100));
        Sourced { value: LatencyTable(points.collect()), source: SOURCE.to_owned() }
    };
    HddSpec {
        fast_latency: table(&spec.fast_latency),
        mid_latency: table(&spec.mid_latency),
        slow_stall: time(&spec.slow_stall),
        idle: time(&spec.idle),
        flush_base: time(&spec.flush_base),
        rate_outer: rate(&spec.rate_outer),
        rate_inner: rate(&spec.rate_inner),
        fast_stage: stage(&spec.fast_stage),
        mid_stage: stage(&spec.mid_stage),
        ..spec.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ModelSpec, load};
    use tandem_block::{DriveOpKind, Duration, MIB};

    fn wd100efax() -> HddSpec {
        match load("wd100efax").expect("known").model {
            ModelSpec::Hdd(hdd) => hdd,
            _ => panic!("a hard drive"),
        }
    }

    /// Writes 64 KiB in a row from `now` on; latencies in us.
    fn stream(drive: &mut Drifting, now: &mut Instant, at: &mut u64, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let kind = DriveOpKind::Write { fua: false };
                let op = DriveOp { kind, offset_bytes: *at, length_bytes: 64 << 10 };
                *at += 64 << 10;
                let ack = drive.submit(*now, op).ack_at;
                let us = ack.since(*now).ns / 1000;
                *now = ack;
                us
            })
            .collect()
    }

    #[test]
    fn a_drifting_drive_keeps_what_it_holds_and_changes_at_its_time() {
        let spec = wd100efax();
        let half = changed(&spec, 130, 70, 50);
        assert_eq!(half.fast_stage.get().0, 8 * MIB);
        assert_eq!(half.slow_stall.get().0, 15_600_000);
        let mut off = half.clone();
        off.write_cache = Sourced::of(false, SOURCE);
        let second = Instant::ZERO + Duration::from_s(1);
        let third = Instant::ZERO + Duration::from_s(2);
        let model = HddModel::new(&spec, 1, false);
        let mut drive = Drifting::new(model, vec![(second, half), (third, off)]);
        let (mut now, mut at) = (Instant::ZERO, 0);
        // 4 MiB of the first fast stage
        assert_eq!(stream(&mut drive, &mut now, &mut at, 64), vec![180; 64]);
        now = second;
        let slower = stream(&mut drive, &mut now, &mut at, 400);
        assert_eq!(slower[0], 234, "rested for most of a second: fast, and 30 % slower");
        let slow: Vec<usize> = (0..400).filter(|index| slower[*index] > 5000).collect();
        assert!((120..136).contains(&slow[0]), "a stage of 8 MiB: {slow:?}");
        assert!((54..74).contains(&(slow[1] - slow[0])), "mid stages of 4 MiB: {slow:?}");
        assert_eq!(slower[slow[0] + 1], 364);
        now = third;
        let through = stream(&mut drive, &mut now, &mut at, 20);
        assert!(through.iter().all(|us| *us > 10_000), "every write pays a turn: {through:?}");
    }
}
