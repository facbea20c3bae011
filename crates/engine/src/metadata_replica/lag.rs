//! When do users make room for the metadata replica?
//!
//! Source: design decision 7: `status` says how far behind the metadata replica is; here is what bounds it.
//!
//! ```text
//! a unit that is missing there   due after metadata_replica_lag
//! a change of objects            due at once, or a quarter of the lag after the last one
//! a snapshot, where units cannot do   due after metadata_replica_lag, but not before the last one that
//!                                     was forced has been followed by eight times its length of rest
//! ```
//! What is due goes before everybody else on the drive; between the steps of a snapshot one reader is
//! let through.

use super::{MetadataReplica, Stage, WAITING_BYTES_DUE, WAITING_BYTES_WRITE, WRITE_BYTES_MAX};
use crate::device::Class;
use crate::io::DeviceIo;
use tandem_block::{DeviceId, Duration, Instant};

/// A snapshot that users had to wait for is not followed by another before so many times as long: it
/// takes a ninth of the drive at most.
const SNAPSHOT_REST: u64 = 8;

/// What is due on the drive before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing.
    Nothing,
    /// A write of units, and a flush where there are none.
    Units,
    /// A flush.
    Flush,
    /// The next step of a snapshot, which waits in the drive's queue.
    Step,
}

impl MetadataReplica {
    /// When the oldest unit that is missing here was durable on the SSD.
    pub(super) fn missing_since(&self) -> Option<Instant> {
        let oldest = self.missing.front().map(|&(_, since)| since);
        if self.gap { Some(self.gap_since) } else { oldest }
    }

    /// When a change of objects is due here.
    fn prompt_due(&self, lag: Duration) -> Instant {
        let rested = self.prompted.map_or(Instant::ZERO, |at| at + Duration::from_ns(lag.ns / 4));
        self.prompt.map_or(Instant::NEVER, |(_, since)| since.max(rested))
    }

    /// When units have to be here, whoever wants the drive.
    fn units_due(&self, lag: Duration) -> Instant {
        if self.home.is_none() || self.gap || self.held {
            return Instant::NEVER; // they do not count, or cannot come, before the snapshot
        }
        if self.waiting_bytes >= WAITING_BYTES_DUE {
            return Instant::ZERO;
        }
        let lag_over = self.missing.front().map_or(Instant::NEVER, |&(_, since)| since + lag);
        lag_over.min(self.prompt_due(lag))
    }

    /// When a snapshot has to move on, whoever wants the drive.
    fn snapshot_due(&self, lag: Duration) -> Instant {
        let lag_over = match (self.home, self.gap, self.stage) {
            (None, _, _) | (_, false, Stage::Idle) => return Instant::NEVER,
            // the root before it may have lost its units to it: it must not wait now
            (_, _, Stage::Root) => return Instant::ZERO,
            (_, true, _) => self.gap_since + lag,
            (_, false, _) => self.began + lag,
        };
        let prompt = if self.gap || self.held { self.prompt_due(lag) } else { Instant::NEVER };
        lag_over.min(prompt).max(self.rests_until)
    }

    /// A snapshot ended, well or not.
    pub(super) fn rest(&mut self, now: Instant) {
        if let Some(since) = self.forced.take() {
            self.rests_until = now + Duration::from_ns(now.since(since).ns * SNAPSHOT_REST);
        }
    }

    /// Has something been missing here for so long that users make room?
    #[inline]
    pub(crate) fn is_late(&self, device: DeviceId, io: &DeviceIo) -> bool {
        let lag = io.config().metadata_replica_lag;
        self.home == Some(device) && (self.units_due(lag) <= io.now() || self.snapshot_is_late(io))
    }

    /// Has a snapshot taken so long, or been missed so long, that users make room?
    pub(super) fn snapshot_is_late(&self, io: &DeviceIo) -> bool {
        self.snapshot_due(io.config().metadata_replica_lag) <= io.now()
    }

    /// When one of both will be, if it is not already.
    #[inline]
    pub(crate) fn due(&self, io: &DeviceIo) -> Instant {
        if self.home.is_none() {
            return Instant::NEVER;
        }
        if self.stage == Stage::Pages && self.goes_on {
            return io.now();
        }
        let lag = io.config().metadata_replica_lag;
        let promoting = |due| if due > io.now() { due } else { Instant::NEVER };
        promoting(self.units_due(lag)).min(promoting(self.snapshot_due(lag)))
    }

    /// Units wait for the drive, and nobody wants it: are there so many that they are written, or is the lag of the
    /// oldest one nearly over in the quiet?
    pub(crate) fn wants_units(&self, device: DeviceId, io: &DeviceIo) -> bool {
        let f = self;
        let waiting_bytes = if f.held { 0 } else { f.waiting_bytes };
        let nearly = Duration::from_ns(io.config().metadata_replica_lag.ns / 8 * 7);
        let is_old = f.waiting.front().is_some_and(|unit| unit.since + nearly <= io.now());
        let due =
            waiting_bytes >= WAITING_BYTES_WRITE || waiting_bytes > 0 && is_old && io.is_quiet();
        f.home == Some(device) && due && !f.writing
    }

    /// Do more units wait than one write takes?
    pub(crate) fn has_many_units(&self) -> bool {
        self.waiting_bytes > WRITE_BYTES_MAX
    }

    /// Does it have something for the drive as soon as nobody wants it?
    pub(crate) fn wants_drive(&self, device: DeviceId, io: &DeviceIo) -> bool {
        self.wants_units(device, io) || self.wants_flush(device, io)
    }

    /// Does it count units as handed over that no write made durable, in the quiet?
    pub(crate) fn wants_flush(&self, device: DeviceId, io: &DeviceIo) -> bool {
        self.home == Some(device) && self.written > self.durable && io.is_quiet()
    }

    /// What is due on the drive, which is free.
    pub(crate) fn turn(&mut self, device: DeviceId, io: &mut DeviceIo) -> Turn {
        let d = &io[device];
        if d.flushing.is_some() || self.writing {
            return Turn::Nothing;
        }
        if self.units_due(io.config().metadata_replica_lag) <= io.now() {
            io.stats_mut().metadata_replica_forced += 1;
            return Turn::Units;
        }
        if self.stage == Stage::Idle || !self.snapshot_is_late(io) {
            return Turn::Nothing;
        }
        let reads = d.queue.waits(Class::Read);
        if reads && !self.yielded {
            self.yielded = true; // readers wait for one command at most
            return Turn::Nothing;
        }
        self.yielded = false;
        let turn = if d.flush_wanted {
            Turn::Flush
        } else if self.outstanding > 0 && d.queue.waits(Class::Background) {
            Turn::Step
        } else {
            return Turn::Nothing;
        };
        self.forced.get_or_insert(io.now());
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Duration = Duration::from_s(10);

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_s(s)
    }

    fn metadata_replica() -> MetadataReplica {
        let mut f = MetadataReplica::default();
        f.begin_life(Some(DeviceId(1)), 1);
        f
    }

    #[test]
    fn units_are_due_when_the_oldest_has_been_missing_for_the_lag() {
        let mut f = metadata_replica();
        assert_eq!((f.units_due(LAG), f.missing_since()), (Instant::NEVER, None));
        f.missing.extend([(4, at(3)), (5, at(8))]);
        assert_eq!((f.units_due(LAG), f.missing_since()), (at(13), Some(at(3))));
        assert_eq!(f.snapshot_due(LAG), Instant::NEVER, "units will do");
        (f.gap, f.gap_since) = (true, at(2));
        assert_eq!((f.units_due(LAG), f.missing_since()), (Instant::NEVER, Some(at(2))));
        assert_eq!(f.snapshot_due(LAG), at(12), "only a snapshot will do");
    }

    #[test]
    fn a_change_of_objects_is_due_at_once_and_then_seldom() {
        let mut f = metadata_replica();
        f.missing.push_back((4, at(3)));
        f.prompt = Some((4, at(3)));
        assert_eq!(f.units_due(LAG), at(3));
        f.reach(3, at(4));
        assert_eq!(f.units_due(LAG), at(3), "it has not come so far");
        f.reach(4, at(4));
        f.prompt = Some((5, at(5)));
        assert_eq!(f.units_due(LAG), at(4) + Duration::from_ms(2_500));
        f.prompt = Some((5, at(9)));
        assert_eq!(f.units_due(LAG), at(9));
        (f.gap, f.gap_since) = (true, at(9));
        assert_eq!(f.snapshot_due(LAG), at(9), "by a snapshot, if units will not do");
    }

    #[test]
    fn a_forced_snapshot_is_followed_by_rest() {
        let mut f = metadata_replica();
        (f.stage, f.began) = (Stage::Pages, at(1));
        assert_eq!(f.snapshot_due(LAG), at(11), "one under way may not last for ever either");
        f.forced = Some(at(11));
        f.rest(at(14));
        assert_eq!(f.snapshot_due(LAG), at(14 + 3 * 8));
        f.rest(at(50));
        assert_eq!(f.snapshot_due(LAG), at(14 + 3 * 8), "one that nobody waited for needs none");
    }
}
