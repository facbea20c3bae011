//! What waits for one drive, or for each side of a pair?
//!
//! Source: [IANUS §4.2, §5.4], requirements I11, I20: a pair reads from one drive and writes to the other
//! one, so its reads and its writes each have the whole time of a drive: two queues by deadline, two
//! sums of shares, and what is seen of costs by side. A single drive has one of each for everything.

use super::admit::{self, AdmitError, Side};
use super::observed::Observed;
use super::reserve::{QosConfig, WHOLE_PPB};
use super::streams::{Streams, Taken};
use super::{Apart, Divide, Qos};
use tandem_block::{DeviceId, Instant};

/// Deadlines run ahead of what was promised by so much of it at most: a hundredth, so that a window of a
/// hundred requests may end a whole one early (guess).
const AHEAD_PPB: u64 = WHOLE_PPB / 100;

/// One drive's time: who waits for it, and what requests cost there.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Which requests come here.
    side: Side,
    /// Waiting jobs.
    pub(crate) queues: Streams,
    /// What requests cost.
    pub(crate) observed: Observed,
    /// Of each stream: of what it asked for, how much was admitted, in billionths (less than a whole
    /// only where more was promised than there is).
    admitted_ppb: Vec<u64>,
}

impl Lane {
    fn new(
        config: &QosConfig,
        order: &dyn Qos,
        device: DeviceId,
        ssds: u64,
        side: Side,
    ) -> Result<Lane, AdmitError> {
        let mut asked = admit::asked(config, device, side)?;
        if !order.keeps_promises() {
            asked.fill(0);
        }
        let shares = admit::scaled(&asked, config.background_ppb);
        let observed = Observed::new(config.costs_of(device), config.depth);
        let pace_ppb = pace_ppb(&shares, config.background_ppb);
        let admitted = |(share, asked): (&u64, &u64)| {
            let part = u128::from(*share) * u128::from(pace_ppb) / u128::from((*asked).max(1));
            u64::try_from(part).unwrap_or(WHOLE_PPB)
        };
        let admitted_ppb = shares.iter().zip(&asked).map(admitted).collect();
        let queues = Streams::new(config, &shares, ssds, apart_on(order, side));
        let mut lane = Lane { side, queues, observed, admitted_ppb };
        lane.price(config);
        Ok(lane)
    }

    /// Shares at what requests cost now: a promised request always stands for one part of its rate,
    /// others for what they cost beside it.
    pub(crate) fn price(&mut self, config: &QosConfig) {
        for (index, stream) in config.streams.iter().enumerate() {
            let Some(promise) = stream.promise.as_ref().filter(|_| self.admitted_ppb[index] > 0)
            else {
                continue;
            };
            let observed = &self.observed;
            let cost_ns = self.side.cost_ns(promise, &|kind, bytes| observed.cost_ns(kind, bytes));
            let Some(asked_ppb) = cost_ns.and_then(|cost_ns| promise.share_ppb(cost_ns)) else {
                continue;
            };
            let share = u128::from(asked_ppb) * u128::from(self.admitted_ppb[index])
                / u128::from(WHOLE_PPB);
            let share_ppb = u64::try_from(share).unwrap_or(u64::MAX).max(1);
            self.queues.set_share(index, share_ppb);
        }
    }
}

/// How fast deadlines follow one another, for a whole as promised. At the very rate that was promised
/// every other window ends just before the request that would make it whole, and is missed: so a
/// little faster, where the drive is not promised to the last part.
fn pace_ppb(shares_ppb: &[u64], background_ppb: u64) -> u64 {
    let promised: u64 = shares_ppb.iter().sum();
    let left = WHOLE_PPB.saturating_sub(promised.saturating_add(background_ppb));
    let room = u128::from(left) * u128::from(WHOLE_PPB) / u128::from(promised.max(1));
    WHOLE_PPB + u64::try_from(room).unwrap_or(u64::MAX).min(AHEAD_PPB)
}

/// What an order serves apart on this side: reads and writes of a pair are apart already.
fn apart_on(order: &dyn Qos, side: Side) -> Option<Apart> {
    order.apart().filter(|apart| match (side, apart.divide) {
        (Side::All, _) => true,
        (Side::Writes, Divide::SequentialFromRandomWrites) => true,
        (Side::Reads | Side::Writes, _) => false,
    })
}

/// Everything that one device knows of streams.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// One; of a pair two: reads, and everything else.
    list: Vec<Lane>,
}

impl Lanes {
    /// Nothing waits. Limits are divided among `ssds`.
    ///
    /// # Errors
    /// The first promise that cannot be made.
    pub(crate) fn new(
        config: &QosConfig,
        order: &dyn Qos,
        device: DeviceId,
        ssds: u64,
        is_pair: bool,
    ) -> Result<Lanes, AdmitError> {
        let sides = Side::of(is_pair).iter();
        let lanes = sides.map(|&side| Lane::new(config, order, device, ssds, side));
        let list = lanes.collect::<Result<Vec<_>, _>>()?;
        assert!(list.len() == 1 + usize::from(is_pair), "a pair has a lane for each of its sides");
        Ok(Lanes { list })
    }

    /// All of them, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.list.iter()
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The lane of a read, or of anything else.
    #[inline]
    pub(crate) fn index_of(&self, read: bool) -> usize {
        usize::from(!read) & (self.list.len() - 1)
    }

    /// One of them.
    #[inline]
    pub(crate) fn lane(&mut self, index: usize) -> &mut Lane {
        &mut self.list[index]
    }

    /// Does anything wait?
    pub(crate) fn has_waiting(&self) -> bool {
        self.list.iter().any(|lane| lane.queues.waiting() > 0)
    }

    /// Users' reads that wait.
    pub(crate) fn waiting_reads(&self) -> u32 {
        self.list.iter().map(|lane| lane.queues.waiting_reads()).sum()
    }

    /// Any job at all, for a drive that is dead.
    pub(crate) fn take_any(&mut self, now: Instant) -> Option<Taken> {
        self.list.iter_mut().find_map(|lane| lane.queues.take_any(now))
    }

    /// A limit is one for both sides: what one has spent holds the other back too.
    pub(crate) fn share_limit(&mut self, from: usize, stream: usize, now: Instant) {
        if self.list.len() < 2 {
            return;
        }
        if let Some(until_ns) = self.list[from].queues.held_until(stream) {
            self.list[1 - from].queues.hold(stream, until_ns, now);
        }
    }

    /// Windows of the envelope: looked at, outside, and whether the last one was.
    pub fn envelope(&self) -> (u64, u64, bool) {
        self.list.iter().fold((0, 0, false), |(windows, outside, is_outside), lane| {
            let seen = &lane.observed;
            (windows + seen.windows, outside + seen.outside, is_outside || seen.is_outside)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_run_ahead_by_what_nobody_was_promised() {
        let percent = WHOLE_PPB / 100;
        for (promised, background, ahead_ppb) in [
            (40 * percent, 5 * percent, AHEAD_PPB),
            (95 * percent, 5 * percent, 0),
            (100 * percent, 5 * percent, 0),
            (0, 0, AHEAD_PPB),
        ] {
            let shares = [promised / 2, promised / 2];
            assert_eq!(pace_ppb(&shares, background), WHOLE_PPB + ahead_ppb, "{promised}");
        }
        let nearly = pace_ppb(&[94_500_000 * 10], 5 * percent) - WHOLE_PPB;
        assert!((5_000_000..5_400_000).contains(&nearly), "half a hundredth is left: {nearly}");
    }
}
