//! When is each die free? A frontier for programs and one for reads.
//!
//! Source: design decision 4: "each die has a read frontier of its own, so that reads queue behind
//! reads; suspending a program or erase has a cost and a limit". Models §6.1 (`rq`).
//!
//! Divergence from a real drive: the end of a program that was promised before a read interrupted
//! it does not move; later programs pay. The planes of a die read at any place of their own, each for
//! itself, and program and erase together.

use crate::spec::SuspendSpec;

/// One die.
#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When the programs and erases given so far are done.
    program_free_ns: u64,
    /// When the reads given so far are done, of all planes.
    read_free_ns: u64,
    /// When it was last suspended for a read.
    suspended_ns: u64,
    /// How many more reads may interrupt what the die is doing.
    interruptions_left: u32,
}

/// What interrupting costs.
#[derive(Clone, Copy, Debug)]
struct Suspend {
    wait_ns: u64,
    cost_ns: u64,
    limit: u32,
}

/// Most interruptions that one backlog may collect, so that the count stays bounded.
const INTERRUPTIONS_MAX: u32 = 1 << 20;

/// All dies of a drive.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
    /// When the reads given to each plane so far are done, die by die.
    planes: Vec<u64>,
    /// Planes of a die.
    plane_count: u32,
    suspend: Option<Suspend>,
}

impl Dies {
    pub(super) fn new(count: u32, plane_count: u32, suspend: Option<&SuspendSpec>) -> Self {
        let suspend = suspend.map(|spec| Suspend {
            wait_ns: spec.wait.get().0,
            cost_ns: spec.cost.get().0,
            limit: spec.limit.get(),
        });
        Dies {
            dies: vec![Die::default(); count as usize],
            planes: vec![0; (count * plane_count) as usize],
            plane_count,
            suspend,
        }
    }

    /// Programs on `die` for `busy_ns`, not before `at_ns`. Returns the end.
    #[inline]
    pub(super) fn program(&mut self, die: u32, at_ns: u64, busy_ns: u64) -> u64 {
        let limit = self.suspend.map_or(0, |suspend| suspend.limit);
        let die = &mut self.dies[die as usize];
        let start = at_ns.max(die.program_free_ns).max(die.read_free_ns);
        let backlog = if die.program_free_ns > at_ns { die.interruptions_left } else { 0 };
        die.interruptions_left = (backlog + limit).min(INTERRUPTIONS_MAX);
        die.program_free_ns = start + busy_ns;
        die.program_free_ns
    }

    /// Occupies all dies for `busy_ns` with `operations` programs and erases each, not before
    /// `at_ns`. Returns when the first of them began.
    pub(super) fn occupy_all(&mut self, at_ns: u64, busy_ns: u64, operations: u32) -> u64 {
        let limit = self.suspend.map_or(0, |suspend| suspend.limit);
        let granted = limit.saturating_mul(operations).min(INTERRUPTIONS_MAX);
        let mut first = u64::MAX;
        for die in &mut self.dies {
            let start = at_ns.max(die.program_free_ns);
            let backlog = if die.program_free_ns > at_ns { die.interruptions_left } else { 0 };
            die.interruptions_left = (backlog + granted).min(INTERRUPTIONS_MAX);
            die.program_free_ns = start + busy_ns;
            first = first.min(start);
        }
        first
    }

    /// Reads from this plane of `die` for `busy_ns`, not before `at_ns`. Returns the end.
    #[inline]
    pub(super) fn read(&mut self, (die, plane): (u32, u32), at_ns: u64, busy_ns: u64) -> u64 {
        debug_assert!(plane < self.plane_count, "a die has so many planes");
        let plane = &mut self.planes[(die * self.plane_count + plane) as usize];
        let die = &mut self.dies[die as usize];
        let mut start = at_ns.max(*plane);
        if die.program_free_ns > start {
            match self.suspend {
                Some(suspend) if die.interruptions_left > 0 => {
                    die.interruptions_left -= 1;
                    if die.read_free_ns > at_ns {
                        // The die is suspended for an earlier read, and for this one as much longer.
                        start = start.max(die.suspended_ns);
                        die.program_free_ns += (start + busy_ns).saturating_sub(die.read_free_ns);
                    } else {
                        start = die.program_free_ns.min(at_ns + suspend.wait_ns);
                        if start < die.program_free_ns {
                            die.suspended_ns = start;
                            die.program_free_ns += busy_ns + suspend.cost_ns;
                        }
                    }
                }
                _ => start = die.program_free_ns,
            }
        }
        *plane = start + busy_ns;
        die.read_free_ns = die.read_free_ns.max(*plane);
        *plane
    }

    /// The power failed: nothing runs.
    pub(super) fn reset(&mut self, now_ns: u64) {
        self.dies.fill(Die {
            program_free_ns: now_ns,
            read_free_ns: now_ns,
            suspended_ns: now_ns,
            interruptions_left: 0,
        });
        self.planes.fill(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Nanos, Sourced};

    fn dies(planes: u32, limit: u32) -> Dies {
        let suspend = SuspendSpec {
            wait: Sourced::of(Nanos(500), "guess"),
            cost: Sourced::of(Nanos(20), "guess"),
            limit: Sourced::of(limit, "guess"),
        };
        Dies::new(1, planes, Some(&suspend))
    }

    /// The two sentences of design decision 4.
    #[test]
    fn reads_queue_behind_reads_and_suspending_has_a_cost_and_a_limit() {
        let mut dies = dies(1, 2);
        assert_eq!(dies.program(0, 0, 10_000), 10_000);
        // waits 500 for the suspension, and the second read for the first
        assert_eq!(dies.read((0, 0), 100, 50), 650);
        assert_eq!(dies.read((0, 0), 100, 50), 700);
        // two interruptions are used up: wait for the end, which moved by 2 x 50 + 20
        assert_eq!(dies.read((0, 0), 1_000, 50), 10_170);
        // and a program waits for reads
        assert_eq!(dies.program(0, 10_000, 10), 10_180);
    }

    #[test]
    fn planes_read_at_once_and_suspend_the_die_together() {
        let mut dies = dies(2, 9);
        assert_eq!(dies.read((0, 0), 0, 50), 50);
        assert_eq!(dies.read((0, 1), 10, 50), 60);
        assert_eq!(dies.read((0, 1), 10, 50), 110);
        // a program takes all of the die
        assert_eq!(dies.program(0, 20, 10_000), 10_110);
        assert_eq!(dies.read((0, 0), 1_000, 50), 1_550);
        // nothing can be read before the die has stopped, and while it has the other plane reads at no cost
        assert_eq!(dies.read((0, 1), 1_200, 50), 1_550);
        assert_eq!(dies.read((0, 1), 1_500, 50), 1_600);
        assert_eq!(dies.program(0, 1_600, 10), 10_110 + 20 + 50 + 50 + 10);
    }

    #[test]
    fn without_suspension_a_read_waits_for_the_end() {
        let mut dies = Dies::new(1, 1, None);
        dies.occupy_all(0, 1_000, 4);
        assert_eq!(dies.read((0, 0), 10, 50), 1_050);
    }
}
