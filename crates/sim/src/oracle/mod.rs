//! How little could be written to the SSD within limits, by somebody who knows the future and the drives?
//!
//! Two drive models alone: no map, no journal, no flush, no cleaning, and redirected data never goes home. For each
//! write it is known what the SSD would take for it if all writes went there, what the hard drive takes for it now (its
//! model is asked), whether it is read before it is written again, and when a hard drive must serve a read next. A write
//! goes to the hard drive if its time there is at most so much longer as its bytes are worth. What they are worth is
//! searched: the most at which latencies stay within the limits. So it is no proof that nobody can do better. But
//! nobody knows as much.
//!
//! Source: the bound that policies of our own are compared with (frontier D1 calls it the oracle).

mod future;
mod schedule;

use crate::replay::{ReplayConfig, ReplayError, Resident, Survey};
use future::Future;
use schedule::{Ran, Rule, Schedule};
use std::collections::HashMap;
use tandem_block::{Arrival, ObjectId};

const PPM: u64 = 1_000_000;
/// Values of 1 KiB that are tried, in ns: powers of two up to 1 ms.
const WORTH_BITS: std::ops::RangeInclusive<u32> = 4..=20;

/// Where nothing is worth anything: a write goes if it takes at most so small a part of the SSD's time.
const GAIN_PARTS: [u64; 4] = [16, 4, 2, 1];

/// Four latencies, in ns or in parts of another one's: mean and p99.9 of writes, mean and p99.9 of reads.
pub type Four = [u64; 4];

/// The least that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Bytes that the SSD takes, of those that users write, in millionths.
    pub ssd_bytes_ppm: u64,
    /// Latencies, in millionths of those on the SSD alone. 0: nothing was measured there.
    pub latencies_ppm: Four,
}

/// What can be had of one workload over one pair of drives.
pub struct Oracle {
    schedule: Schedule,
    /// Everything on the SSD.
    alone: Ran,
}

impl Oracle {
    /// Over the first SSD and the first hard drive. Times of the arrivals count, whatever `closed_loop` says.
    ///
    /// # Errors
    /// If a drive is missing, or as `plan`.
    pub fn new(config: &ReplayConfig, arrivals: Vec<Arrival>) -> Result<Oracle, ReplayError> {
        let arrivals = in_a_row(arrivals);
        let future = Future::of(&arrivals, config.resident == Resident::Hdd);
        let schedule = Schedule::new(config, arrivals, future)?;
        let alone = schedule.run(None);
        Ok(Oracle { schedule, alone })
    }

    /// The least bytes at latencies of at most so many millionths of those on the SSD alone.
    pub fn least(&self, limits_ppm: Four) -> Least {
        let mut best = self.told(&self.alone);
        let limit_ns = self.alone.latencies_ns();
        let cap_ns = scaled(limit_ns[1], limits_ppm[1]);
        let gains = GAIN_PARTS.map(|part| (part, 0));
        let losses = WORTH_BITS.map(|bits| (1, 1 << bits));
        for (gain_part, worth_ns) in gains.into_iter().chain(losses) {
            let alone_ns = &self.alone.write_ns;
            let plan = Rule { gain_part, worth_ns, cap_ns, alone_ns };
            let found = self.told(&self.schedule.run(Some(&plan)));
            let within = |(found, limit): (&u64, &u64)| found <= limit;
            let is_within = found.latencies_ppm.iter().zip(&limits_ppm).all(within);
            if is_within && found.ssd_bytes_ppm < best.ssd_bytes_ppm {
                best = found;
            }
        }
        best
    }

    fn told(&self, ran: &Ran) -> Least {
        let (ours, alone) = (ran.latencies_ns(), self.alone.latencies_ns());
        let written = self.schedule.written_bytes().max(1);
        let ratio = |at: usize| match alone[at] {
            0 => 0,
            ns => u128::from(ours[at]) * u128::from(PPM) / u128::from(ns),
        };
        let ppm = |at: usize| u64::try_from(ratio(at)).unwrap_or(u64::MAX);
        let ssd = u128::from(ran.ssd_bytes) * u128::from(PPM) / u128::from(written);
        Least {
            ssd_bytes_ppm: u64::try_from(ssd).unwrap_or(u64::MAX),
            latencies_ppm: [0, 1, 2, 3].map(ppm),
        }
    }
}

/// The same with all volumes in one, behind one another.
fn in_a_row(mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let mut begins = HashMap::new();
    let mut end_bytes = 0;
    for (object, bytes) in survey.volumes() {
        begins.insert(object, end_bytes);
        end_bytes += bytes;
    }
    for arrival in &mut arrivals {
        if let Some(begin) = begins.get(&arrival.object) {
            arrival.offset_bytes += begin;
        }
        arrival.object = ObjectId(0);
    }
    arrivals
}

/// So many millionths of a time.
fn scaled(ns: u64, ppm: u64) -> u64 {
    let scaled = u128::from(ns) * u128::from(ppm) / u128::from(PPM);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::future::tests::arrival;
    use super::*;
    use crate::replay::DriveChoice;
    use tandem_block::{GIB, Op};
    use tandem_engine::SteerConfig;

    fn config() -> ReplayConfig {
        let ssds = vec![DriveChoice::shipped("960evo", Some(8 * GIB))];
        let hdds = vec![DriveChoice::shipped("wd100efax", None)];
        ReplayConfig::of(SteerConfig::default(), ssds, hdds)
    }

    /// Writes of 4 KiB, one in each ms.
    fn calm(count: u64) -> Vec<Arrival> {
        (0..count).map(|at| arrival(at * 1_000_000, Op::Write, at * 7 % 1000, 1)).collect()
    }

    #[test]
    fn more_time_saves_more_bytes_and_none_saves_none() {
        let oracle = Oracle::new(&config(), calm(2_000)).expect("two drives");
        let least = |times: u64| oracle.least([times * PPM; 4]).ssd_bytes_ppm;
        assert_eq!(oracle.least([PPM - 1; 4]).ssd_bytes_ppm, PPM, "nothing is faster than the SSD");
        assert!(least(20) < PPM / 20, "all of it for twenty times as long: {}", least(20));
        assert!(least(20) <= least(3) && least(3) <= least(1));
    }

    #[test]
    fn what_is_read_again_stays_on_the_ssd() {
        let mut arrivals = calm(500);
        let reads = calm(500).into_iter().map(|write| Arrival {
            op: Op::Read,
            at: tandem_block::Instant::from_ns(write.at.ns + 500_000),
            ..write
        });
        arrivals.extend(reads);
        arrivals.sort_by_key(|arrival| arrival.at);
        let oracle = Oracle::new(&config(), arrivals).expect("two drives");
        assert_eq!(oracle.least([100 * PPM; 4]).ssd_bytes_ppm, PPM);
    }
}
