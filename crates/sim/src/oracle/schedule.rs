//! One workload over an SSD and a hard drive that are modelled, and a plan of which writes go where.

use super::future::{Future, Key, NEVER_NS, blocks};
use crate::replay::{ReplayConfig, ReplayError, Resident, Survey, models, plan};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use tandem_block::{Arrival, BLOCK_BYTES, Drive, DriveOp, DriveOpKind, GIB, Instant, KIB, Op};
use tandem_engine::Role;

/// The part of the hard drive that takes redirected writes, one behind the other.
const LOG_BYTES: u64 = 8 * GIB;

/// What decides where a write goes.
#[derive(Debug)]
pub(super) struct Rule<'a> {
    /// A write goes that takes at most this part of the SSD's time …
    pub gain_part: u64,
    /// … or as much longer as its bytes are worth. 1 KiB that the SSD is spared is worth so much, in ns.
    pub worth_ns: u64,
    /// No write takes longer than this for the bytes' sake, in ns.
    pub cap_ns: u64,
    /// What each write takes if all go to the SSD, in ns, in their order.
    pub alone_ns: &'a [u64],
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    /// Of each write and of each read, in their order, in ns.
    pub write_ns: Vec<u64>,
    pub read_ns: Vec<u64>,
    pub ssd_bytes: u64,
}

impl Ran {
    /// Mean and p99.9 of writes, mean and p99.9 of reads, in ns.
    pub fn latencies_ns(&self) -> [u64; 4] {
        let [write, read] = [&self.write_ns, &self.read_ns].map(|all| mean_and_p999(all));
        [write.0, write.1, read.0, read.1]
    }
}

fn mean_and_p999(all: &[u64]) -> (u64, u64) {
    if all.is_empty() {
        return (0, 0);
    }
    let sum: u128 = all.iter().map(|ns| u128::from(*ns)).sum();
    let mean = sum / all.len() as u128;
    let mut sorted = all.to_vec();
    let at = (all.len() * 999).div_ceil(1000).max(1) - 1;
    let (_, p999, _) = sorted.select_nth_unstable(at);
    (u64::try_from(mean).unwrap_or(u64::MAX), *p999)
}

/// A drive with its queue.
struct OneDrive {
    drive: Box<dyn Drive>,
    depth: usize,
    /// When what is in flight ends.
    ends_ns: BinaryHeap<Reverse<u64>>,
}

impl OneDrive {
    /// When a command could begin that comes at this time.
    fn begins_ns(&mut self, at_ns: u64) -> u64 {
        while self.ends_ns.peek().is_some_and(|end| end.0 <= at_ns) {
            self.ends_ns.pop();
        }
        match self.ends_ns.peek() {
            Some(end) if self.ends_ns.len() >= self.depth => end.0.max(at_ns),
            _ => at_ns,
        }
    }

    /// Carries a command out. When it ends, in ns.
    fn submit(&mut self, at_ns: u64, op: DriveOp) -> u64 {
        let begins_ns = self.begins_ns(at_ns);
        if self.ends_ns.len() >= self.depth {
            self.ends_ns.pop();
        }
        let end_ns = self.drive.submit(Instant::from_ns(begins_ns), op).ack_at.ns;
        self.ends_ns.push(Reverse(end_ns));
        end_ns
    }

    /// When it would end.
    fn ask(&mut self, at_ns: u64, op: DriveOp) -> u64 {
        let begins_ns = self.begins_ns(at_ns);
        self.drive.fork().submit(Instant::from_ns(begins_ns), op).ack_at.ns
    }
}

/// Where a block is that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    OnSsd,
    /// Block of the log.
    InLog(u64),
}

/// A workload, its future and its drives as they are at the start.
pub(super) struct Schedule {
    resident: Resident,
    /// An SSD and a hard drive.
    drives: [(Box<dyn Drive>, usize); 2],
    arrivals: Vec<Arrival>,
    future: Future,
}

/// The drives while a plan is carried out.
struct TwoDrives {
    ssd: OneDrive,
    hdd: OneDrive,
    ssd_blocks: u64,
    hdd_blocks: u64,
    /// The first blocks of the hard drive are its log.
    log_blocks: u64,
    lies: HashMap<Key, Lies>,
    /// Blocks of the log that were written.
    log_end: u64,
}

fn op(kind: DriveOpKind, block: u64, count: u64) -> DriveOp {
    DriveOp { kind, offset_bytes: block * BLOCK_BYTES, length_bytes: count * BLOCK_BYTES }
}

const WRITE: DriveOpKind = DriveOpKind::Write { fua: false };

impl Schedule {
    pub fn new(
        config: &ReplayConfig,
        arrivals: Vec<Arrival>,
        future: Future,
    ) -> Result<Schedule, ReplayError> {
        let mut survey = Survey::default();
        arrivals.iter().for_each(|arrival| survey.count(arrival));
        let plan = plan(config, &survey)?;
        let roles = plan.drives.iter().map(|drive| drive.role);
        let depths = plan.engine().devices.iter().map(|device| device.depth.max(1) as usize);
        let all = models(config, &plan)?.into_iter().zip(depths).zip(roles);
        let (mut ssd, mut hdd) = (None, None);
        for (drive, role) in all {
            let of_role = if role == Role::Ssd { &mut ssd } else { &mut hdd };
            of_role.get_or_insert(drive);
        }
        let (Some(ssd), Some(hdd)) = (ssd, hdd) else { return Err(ReplayError::NoDrives) };
        Ok(Schedule { resident: config.resident, drives: [ssd, hdd], arrivals, future })
    }

    /// Bytes that users write: whole blocks.
    pub fn written_bytes(&self) -> u64 {
        let writes = self.arrivals.iter().filter(|arrival| arrival.op == Op::Write);
        writes.map(|write| (blocks(write).end - blocks(write).start) * BLOCK_BYTES).sum()
    }

    /// Carries a plan out. Without one all writes go to the SSD.
    pub fn run(&self, plan: Option<&Rule<'_>>) -> Ran {
        let mut drives = self.drives();
        let mut ran = Ran::default();
        for (at, arrival) in self.arrivals.iter().enumerate() {
            match arrival.op {
                Op::Write => {
                    let number = ran.write_ns.len();
                    let goes = plan.is_some_and(|plan| {
                        let alone_ns = plan.alone_ns[number];
                        self.goes_to_hdd(at, alone_ns, plan, &mut drives)
                    });
                    let end_ns = drives.write(arrival, goes);
                    let bytes = (blocks(arrival).end - blocks(arrival).start) * BLOCK_BYTES;
                    ran.ssd_bytes += if goes { 0 } else { bytes };
                    ran.write_ns.push(end_ns - arrival.at.ns);
                }
                Op::Read => {
                    let end_ns = drives.read(arrival, self.resident);
                    ran.read_ns.push(end_ns - arrival.at.ns);
                }
                Op::Flush | Op::Discard | Op::WriteZeroes => {}
            }
        }
        ran
    }

    fn goes_to_hdd(
        &self,
        at: usize,
        alone_ns: u64,
        plan: &Rule<'_>,
        drives: &mut TwoDrives,
    ) -> bool {
        let arrival = &self.arrivals[at];
        if arrival.fua || self.future.is_read_next[at] {
            return false;
        }
        let touched = blocks(arrival);
        let count = touched.end - touched.start;
        let log = drives.log_place(count);
        let end_ns = drives.hdd.ask(arrival.at.ns, op(WRITE, log, count));
        let next_read_ns = self.future.next_home_read_ns[at];
        let kept_waiting_ns = match next_read_ns {
            NEVER_NS => 0,
            next => end_ns.saturating_sub(next),
        };
        let takes_ns = (end_ns - arrival.at.ns).saturating_add(kept_waiting_ns);
        let worth_ns = plan.worth_ns.saturating_mul(count * BLOCK_BYTES / KIB);
        takes_ns <= alone_ns / plan.gain_part
            || plan.worth_ns > 0
                && takes_ns <= plan.cap_ns
                && takes_ns <= alone_ns.saturating_add(worth_ns)
    }

    fn drives(&self) -> TwoDrives {
        let [ssd, hdd] = self.drives.each_ref().map(|(drive, depth)| OneDrive {
            drive: drive.fork(),
            depth: *depth,
            ends_ns: BinaryHeap::new(),
        });
        let [ssd_blocks, hdd_blocks] =
            [&ssd, &hdd].map(|station| station.drive.capacity_bytes() / BLOCK_BYTES);
        let log_blocks = (LOG_BYTES / BLOCK_BYTES).min(hdd_blocks / 2);
        let lies = HashMap::new();
        TwoDrives { ssd, hdd, ssd_blocks, hdd_blocks, log_blocks, lies, log_end: 0 }
    }
}

impl TwoDrives {
    /// Where the next write of so many blocks goes in the log: it begins anew at its end.
    fn log_place(&self, count: u64) -> u64 {
        let at = self.log_end % self.log_blocks;
        if at + count > self.log_blocks { 0 } else { at }
    }

    /// Where on a drive of so many blocks this one has its place, and how many of those behind it lie there in a row.
    fn place(block: Key, count: u64, drive_blocks: u64) -> (u64, u64) {
        let at = block % drive_blocks;
        (at, count.min(drive_blocks - at))
    }

    fn write(&mut self, arrival: &Arrival, goes: bool) -> u64 {
        let touched = blocks(arrival);
        let count = touched.end - touched.start;
        if goes {
            let log = self.log_place(count);
            self.log_end = log + count;
            for (at, block) in touched.enumerate() {
                self.lies.insert(block, Lies::InLog(log + at as u64));
            }
            return self.hdd.submit(arrival.at.ns, op(WRITE, log, count));
        }
        let mut end_ns = arrival.at.ns;
        let mut block = touched.start;
        while block < touched.end {
            let (at, run) = Self::place(block, touched.end - block, self.ssd_blocks);
            end_ns = end_ns.max(self.ssd.submit(arrival.at.ns, op(WRITE, at, run)));
            block += run;
        }
        for block in touched {
            self.lies.insert(block, Lies::OnSsd);
        }
        end_ns
    }

    fn read(&mut self, arrival: &Arrival, resident: Resident) -> u64 {
        let touched = blocks(arrival);
        let mut end_ns = arrival.at.ns;
        let mut block = touched.start;
        while block < touched.end {
            let lies = self.lies.get(&block).copied();
            let mut run = 1;
            while block + run < touched.end {
                let next = self.lies.get(&(block + run)).copied();
                let goes_on = match (lies, next) {
                    (Some(Lies::InLog(at)), Some(Lies::InLog(next))) => next == at + run,
                    (one, other) => one == other,
                };
                if !goes_on {
                    break;
                }
                run += 1;
            }
            end_ns = end_ns.max(self.read_run(arrival.at.ns, block, run, lies, resident));
            block += run;
        }
        end_ns
    }

    fn read_run(
        &mut self,
        at_ns: u64,
        block: Key,
        count: u64,
        lies: Option<Lies>,
        resident: Resident,
    ) -> u64 {
        let read = DriveOpKind::Read;
        let mut end_ns = at_ns;
        let mut done = 0;
        while done < count {
            let left = count - done;
            let run = match (lies, resident) {
                (None, Resident::None) => return at_ns,
                (Some(Lies::InLog(log)), _) => {
                    end_ns = end_ns.max(self.hdd.submit(at_ns, op(read, log, count)));
                    count
                }
                (Some(Lies::OnSsd), _) | (None, Resident::Ssd) => {
                    let (at, run) = Self::place(block + done, left, self.ssd_blocks);
                    end_ns = end_ns.max(self.ssd.submit(at_ns, op(read, at, run)));
                    run
                }
                (None, Resident::Hdd) => {
                    let homes = self.hdd_blocks - self.log_blocks;
                    let (at, run) = Self::place(block + done, left, homes);
                    let home = self.log_blocks + at;
                    end_ns = end_ns.max(self.hdd.submit(at_ns, op(read, home, run)));
                    run
                }
            };
            done += run;
        }
        end_ns
    }
}
