//! What if it crashes again?
//!
//! A workload is cut at chosen events, and every fork goes on after its recovery, to be cut again.
//! Source: design, "Tests" (cuts also during recovery and during checkpoints).

use crate::coverage::Coverage;
use crate::swarm::{Failure, Run};
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_block::Rng;
use tandem_drives::media::CutMode;

/// How often a run is cut, and how long its forks live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Crashes begin at this event and end before that one.
    pub window: (u64, u64),
    /// A crash after every so many events.
    pub stride: u64,
    /// Every so many crashes, one at each event of the recovery too (0: never).
    pub recovery_stride: u64,
    /// Lives of a fork: 1 ends with the first recovery.
    pub lives: u64,
    /// Requests of each further life at most.
    pub more_requests: u64,
}

/// Crashes from the first event to the last.
pub const ALWAYS: (u64, u64) = (0, u64::MAX);

/// The ways a power cut treats what was not durable.
pub const MODES: [CutMode; 3] = [CutMode::KeepAll, CutMode::DropAll, CutMode::RandomSubset];

impl Campaign {
    /// Runs to the end and through a clean stop, with crashes in forks all the way. Returns what was
    /// met.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&self, run: Run) -> Result<Coverage, Failure> {
        self.run_noting(run, &AtomicU64::new(0))
    }

    /// The same; the event of each crash is noted before it is tried.
    ///
    /// # Errors
    /// The first violation.
    pub fn run_noting(&self, mut run: Run, at: &AtomicU64) -> Result<Coverage, Failure> {
        let mut met = Coverage::default();
        loop {
            let more = run.step()?;
            if self.is_due(&run) {
                at.store(run.events, Ordering::Relaxed);
                self.crash_here(&run, &mut met)?;
            }
            if !more {
                break;
            }
        }
        let mut stopping = run.clone();
        stopping.sim.shut_down();
        while !stopping.sim.take_said().stopped && stopping.sim.step() {
            stopping.events += 1;
            if self.is_due(&stopping) {
                at.store(stopping.events, Ordering::Relaxed);
                self.crash_here(&stopping, &mut met)?;
            }
        }
        run.finish()?;
        met.worked(&run.sim.engine);
        Ok(met)
    }

    fn is_due(&self, run: &Run) -> bool {
        (self.window.0..self.window.1).contains(&run.events)
            && (run.events.is_multiple_of(self.stride) || run.changes_drives())
    }

    /// Forks that crash at this event, in every way.
    fn crash_here(&self, run: &Run, met: &mut Coverage) -> Result<(), Failure> {
        let number = run.events / self.stride;
        let mut rng = Rng::new(run.config.seed ^ run.events << 20);
        for mode in MODES {
            let mut fork = run.clone();
            met.crashed(run.sim.engine.activity(), 1);
            let steps = fork.crash(mode, None)?;
            if self.recovery_stride > 0 && number.is_multiple_of(self.recovery_stride) {
                for event in 0..steps {
                    self.crash_twice(run, mode, event, met)?;
                }
            }
            self.live_on(fork, &mut rng, met)?;
        }
        let mut fork = run.clone();
        met.crashed(run.sim.engine.activity(), 1);
        fork.kill(rng.chance_ppm(500_000).then_some(CutMode::DropAll))?;
        self.live_on(fork, &mut rng, met)
    }

    fn crash_twice(
        &self,
        run: &Run,
        mode: CutMode,
        event: u64,
        met: &mut Coverage,
    ) -> Result<(), Failure> {
        let mut fork = run.clone();
        fork.begin_recovery(mode, event);
        met.crashed(fork.sim.engine.activity(), 1);
        fork.crash(mode, None)?;
        Ok(())
    }

    fn live_on(&self, mut run: Run, rng: &mut Rng, met: &mut Coverage) -> Result<(), Failure> {
        for _ in 1..self.lives {
            run.extend(rng.between(1, self.more_requests), rng.bits());
            let mut left = rng.below(self.more_requests * 4);
            while left > 0 && run.step()? {
                left -= 1;
            }
            met.worked(&run.sim.engine);
            met.crashed(run.sim.engine.activity(), 1);
            let mode = MODES[rng.below(3) as usize];
            if rng.chance_ppm(250_000) {
                let cut = rng.chance_ppm(500_000).then_some(mode);
                run.kill(cut)?;
            } else {
                let during = rng.chance_ppm(250_000).then(|| rng.below(40));
                run.crash(mode, during)?;
            }
        }
        if self.lives > 1 && rng.chance_ppm(100_000) {
            run.extend(rng.between(1, self.more_requests), rng.bits());
            run.finish()?;
        }
        Ok(())
    }
}
