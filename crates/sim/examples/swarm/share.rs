//! Did so many seeds of every arm hold, and did they meet what they must? What is printed hangs on the
//! seeds alone, but for the rates.

use crate::crew::{self, Worker};
use crate::worker::Outcome;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tandem_sim::arms::table::{Line, details, table};
use tandem_sim::arms::{Arm, Case};
use tandem_sim::coverage::Met;

/// What is to be run.
pub struct Plan {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// Of these arms.
    pub arms: Vec<&'static Arm>,
    /// For programs: a JSON object a line and arm.
    pub json: bool,
}

/// Runs it. False if something was violated, or an arm met less than it must.
///
/// # Errors
/// If no process can be started.
pub fn run(plan: &Plan) -> io::Result<bool> {
    let began = Instant::now();
    let cases = cases(plan);
    let outcomes = run_all(&cases)?;
    let mut lines: Vec<Line> = plan.arms.iter().map(|arm| Line::new(arm)).collect();
    for (case, (outcome, took)) in cases.iter().zip(outcomes) {
        let line = lines.iter_mut().find(|line| line.arm.name == case.arm.name);
        let line = line.expect("cases are of the arms asked for");
        line.runs += 1;
        line.seeds = plan.seeds;
        line.spent_ns += took.as_nanos() as u64;
        match outcome {
            Outcome::Met(met) => line.arm.count(&mut line.tally, case.policy, *met),
            Outcome::Failed(failed) => {
                line.failed += 1;
                println!("FAILED {case}: {}: {}", failed.kind, failed.told);
                println!("   again: cargo xtask campaign --replay {case}");
            }
        }
    }
    if plan.json {
        for line in &lines {
            let met = line.tally.total();
            let object = serde_json::json!({
                "arm": line.arm.name, "what": line.arm.what, "runs": line.runs,
                "crashes": met.get(Met::Crashes), "faults": met.get(Met::Faults),
                "failed": line.failed, "missing": line.missing(),
            });
            println!("{object}");
        }
    } else {
        println!("{}", details(&lines));
        print!("{}", table(&lines, crew::size() as u64, began.elapsed().as_nanos() as u64));
    }
    for line in &lines {
        for text in line.missing() {
            println!("TOO LITTLE {}: {text}", line.arm.name);
        }
    }
    Ok(lines.iter().all(|line| line.failed == 0 && line.missing().is_empty()))
}

fn cases(plan: &Plan) -> Vec<Case> {
    let mut cases = Vec::new();
    for arm in &plan.arms {
        for seed in plan.first..plan.first + plan.seeds {
            cases.extend(arm.policies(seed).map(|policy| Case::new(arm, policy, seed)));
        }
    }
    cases
}

/// How each case went and how long it took, in their order.
fn run_all(cases: &[Case]) -> io::Result<Vec<(Outcome, Duration)>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let work = || -> io::Result<()> {
            let mut worker = Worker::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { return Ok(()) };
                let began = Instant::now();
                let outcome = worker.run(case)?;
                let took = began.elapsed();
                let mut done = done.lock().expect("no one panics with it");
                done.push((index, (outcome, took)));
                // a sign of life, for whoever watches
                if done.len().is_multiple_of(20) {
                    eprintln!("{} of {} runs, last {case}", done.len(), cases.len());
                }
            }
        };
        let threads: Vec<_> = (0..crew::size()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let mut done = done.into_inner().expect("no one panics with it");
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}
