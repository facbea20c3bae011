//! What if the n-th command of a job fails, for every n?
//!
//! The job runs once. Before each of its commands the run is forked, and the command fails in the fork:
//!
//! ```text
//! job     ──c1──c2──c3──c4── …
//!           └✗   └✗   └✗       some requests more ─▶ all are answered ─▶ writes flow ─▶ an end of any
//!                              kind ─▶ every block is read
//! ```

use super::{End, Service};
use crate::campaign::MODES;
use crate::failure::Failure;

/// Requests that a fork sends after the command that fails.
const MORE_REQUESTS: u64 = 24;

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Commands of the job, each of which failed in a fork.
    pub commands: u64,
    /// Errors that requests were answered with.
    pub errors: u64,
    /// Restarts that were refused, as a fault explains.
    pub refused: u64,
}

/// A command whose failure led to a violation.
#[derive(Debug)]
pub struct Bad {
    /// Its number, from 1 on.
    pub command: u64,
    /// What was wrong.
    pub failure: Failure,
}

impl Service {
    /// Runs the job until its drives were given `upto` commands. Each of them fails in a fork, or `only` one.
    ///
    /// # Errors
    /// The first command whose failure loses anything, mixes anything up, or hangs; number 0 stands for the
    /// job itself.
    pub fn every_command(mut self, upto: u64, only: Option<u64>) -> Result<Tried, Box<Bad>> {
        let first = self.sim.submitted();
        let mut tried = Tried::default();
        while self.sim.submitted() - first < upto {
            let before = self.clone();
            let of_job = |failure| Box::new(Bad { command: 0, failure });
            if !self.step().map_err(of_job)? {
                break;
            }
            for number in before.sim.submitted() + 1..=self.sim.submitted() {
                let command = number - first;
                if only.is_some_and(|only| only != command) || command > upto {
                    continue;
                }
                tried.commands += 1;
                let bad = |failure| Box::new(Bad { command, failure });
                before.with_failed(number, &mut tried).map_err(bad)?;
            }
        }
        Ok(tried)
    }

    /// Goes on, in a fork, with a command that fails.
    fn with_failed(&self, number: u64, tried: &mut Tried) -> Result<(), Failure> {
        let mut fork = self.clone();
        fork.met = crate::coverage::Coverage::default();
        fork.sim.fail_command(number);
        fork.send_until = fork.sent + MORE_REQUESTS;
        fork.serve_until(u64::MAX, &[])?;
        fork.prove_flow()?;
        let end = match number % 4 {
            0 => End::Stop,
            1 => End::Kill,
            _ => End::Cut(MODES[(number / 4 % 3) as usize]),
        };
        if fork.end_life(end)? {
            fork.prove_flow()?;
        } else {
            tried.refused += 1;
        }
        tried.errors += fork.met.get(crate::coverage::Met::Excused);
        Ok(())
    }
}
