//! Does a job hold whichever of its commands fails? Every policy, tier and placement of drives.

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tandem_sim::arms::job::Job;
use tandem_sim::service::every::Tried;

/// A panic is told of in so many characters.
const TOLD_MAX: usize = 400;

/// What is to be run.
pub struct Plan {
    /// These jobs.
    pub jobs: Vec<Job>,
    /// Commands of each.
    pub commands: u64,
    /// Only this command fails.
    pub only: Option<u64>,
}

/// Runs it. False if something was violated.
pub fn run(plan: &Plan) -> bool {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let all = Mutex::new((Tried::default(), 0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(job) = plan.jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let told = one(plan, job);
                    let mut all = all.lock().expect("nobody panics with it");
                    match told {
                        Ok(tried) => {
                            all.0.commands += tried.commands;
                            all.0.errors += tried.errors;
                            all.0.refused += tried.refused;
                        }
                        Err(told) => {
                            all.1 += 1;
                            println!("FAILED {told:.TOLD_MAX$}");
                        }
                    }
                }
            });
        }
    });
    let (tried, failed) = all.into_inner().expect("nobody panics with it");
    let seconds = began.elapsed().as_secs_f64();
    println!("jobs       {:>10}", plan.jobs.len());
    println!("commands   {:>10}   each failed once", tried.commands);
    println!("errors     {:>10}   answered, all explained by the fault", tried.errors);
    println!("refused    {:>10}   restarts, all explained by the fault", tried.refused);
    println!("violated   {failed:>10}");
    println!(
        "seconds    {seconds:>10.0}   {:.0} commands a second",
        tried.commands as f64 / seconds
    );
    failed == 0
}

fn one(plan: &Plan, job: &Job) -> Result<Tried, String> {
    let run = AssertUnwindSafe(|| job.run(plan.commands, plan.only));
    match std::panic::catch_unwind(run) {
        Ok(Ok(tried)) => Ok(tried),
        Ok(Err(bad)) => {
            let (command, failure) = (bad.command, bad.failure);
            Err(format!("{job} --command {command}: {}: {failure}", failure.kind()))
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            Err(format!("{job}: panic: {text}"))
        }
    }
}
