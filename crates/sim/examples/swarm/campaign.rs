//! Does anything fail if all arms run for as long as one likes? The arm on which least time was spent
//! comes next. What fails is made smaller until only what matters is left, and the rest goes on.

use crate::crew::{self, Worker};
use crate::worker::Outcome;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tandem_engine::mutant::Mutant;
use tandem_sim::arms::shrink::{Failed, Shrunk, shrink};
use tandem_sim::arms::table::{Line, details, table};
use tandem_sim::arms::{Arm, Case};

/// Runs by which one failure is made smaller, at most.
const TRIES_MAX: u64 = 400;
/// Failures of one kind and arm that are made smaller; the others are only told of.
const SHRUNK_MAX: u64 = 3;
/// What is still being made smaller when the time is over has so much longer.
const AFTER_MAX: Duration = Duration::from_secs(600);
/// How often it says how far it is.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// What is to be run.
pub struct Plan {
    /// For how long.
    pub minutes: u64,
    /// The first seed of each arm.
    pub seed: u64,
    /// Of these arms.
    pub arms: Vec<&'static Arm>,
    /// The rule that every engine breaks, to see whether that is found.
    pub mutant: Option<Mutant>,
}

/// A seed that was not used before.
pub fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // two campaigns begin a million seeds apart, if a second lies between them
    now.as_secs() * 1_000_000
}

/// What is known of an arm.
struct Progress {
    line: Line,
    seed: u64,
    /// Policies of the seed under which it has not run.
    left: Vec<&'static str>,
    /// Runs under way of each seed that has any, and how many are still to come.
    open: BTreeMap<u64, usize>,
    /// Runs under way, for which so much time is taken as the others took on average.
    under_way: u64,
}

struct State {
    arms: Vec<Progress>,
    failures: Vec<String>,
    /// Failures of a kind and arm so far.
    kinds: BTreeMap<(&'static str, String), u64>,
    said: Instant,
}

impl State {
    /// The next run, of the arm on which least time was spent.
    fn next(&mut self) -> Case {
        let spent = |progress: &Progress| {
            let average = progress.line.spent_ns / progress.line.runs.max(1);
            (progress.line.spent_ns + progress.under_way * average, progress.under_way)
        };
        let progress = self.arms.iter_mut().min_by_key(|progress| spent(progress));
        let progress = progress.expect("there is an arm");
        let arm = progress.line.arm;
        if progress.left.is_empty() {
            progress.left = arm.policies(progress.seed).collect();
            progress.open.insert(progress.seed, progress.left.len());
            progress.seed += 1;
        }
        let policy = progress.left.remove(0);
        progress.under_way += 1;
        Case::new(arm, policy, progress.seed - 1)
    }

    fn ended(&mut self, case: &Case, outcome: &Outcome, took: Duration) {
        let progress = self.arms.iter_mut().find(|it| it.line.arm.name == case.arm.name);
        let progress = progress.expect("cases are of the arms asked for");
        progress.under_way -= 1;
        let line = &mut progress.line;
        line.runs += 1;
        line.spent_ns += took.as_nanos() as u64;
        match outcome {
            Outcome::Met(met) => case.arm.count(&mut line.tally, case.policy, **met),
            Outcome::Failed(_) => line.failed += 1,
        }
        if let Some(open) = progress.open.get_mut(&case.seed) {
            *open -= 1;
            if *open == 0 {
                progress.open.remove(&case.seed);
                progress.line.seeds += 1;
            }
        }
    }

    /// Shall a failure be made smaller?
    fn is_news(&mut self, case: &Case, failed: &Failed) -> bool {
        let count = self.kinds.entry((case.arm.name, failed.kind.clone())).or_default();
        *count += 1;
        *count <= SHRUNK_MAX
    }
}

/// Runs it. False if something was violated.
///
/// # Errors
/// If no process can be started.
pub fn run(plan: &Plan) -> io::Result<bool> {
    let (began, size) = (Instant::now(), crew::size());
    let end = began + Duration::from_secs(plan.minutes * 60);
    println!(
        "{} arms from seed {} for {} minutes, {size} runs at once",
        plan.arms.len(),
        plan.seed,
        plan.minutes
    );
    let progress = |arm: &&'static Arm| Progress {
        line: Line::new(arm),
        seed: plan.seed,
        left: Vec::new(),
        open: BTreeMap::new(),
        under_way: 0,
    };
    let arms = plan.arms.iter().map(progress).collect();
    let (failures, kinds) = (Vec::new(), BTreeMap::new());
    let state = Mutex::new(State { arms, failures, kinds, said: began });
    std::thread::scope(|scope| {
        let work = || one_after_another(&state, plan.mutant, (began, end));
        let threads: Vec<_> = (0..size).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let state = state.into_inner().expect("no one panics with it");
    let lines: Vec<Line> = state.arms.into_iter().map(|progress| progress.line).collect();
    println!("\n{}", details(&lines));
    print!("{}", table(&lines, size as u64, began.elapsed().as_nanos() as u64));
    if !state.failures.is_empty() {
        println!("\n{}", state.failures.join("\n"));
    }
    for ((arm, kind), count) in state.kinds {
        println!("{arm}: {count} x {kind}");
    }
    Ok(lines.iter().all(|line| line.failed == 0))
}

fn one_after_another(
    state: &Mutex<State>,
    mutant: Option<Mutant>,
    (began, end): (Instant, Instant),
) -> io::Result<()> {
    let mut worker = Worker::new();
    while Instant::now() < end {
        let mut case = state.lock().expect("no one panics with it").next();
        case.mutant = mutant;
        let run_began = Instant::now();
        let outcome = worker.run(&case)?;
        let mut now = state.lock().expect("no one panics with it");
        now.ended(&case, &outcome, run_began.elapsed());
        if now.said.elapsed() >= SAID_EVERY {
            now.said = Instant::now();
            let runs: u64 = now.arms.iter().map(|it| it.line.runs).sum();
            let failed: u64 = now.arms.iter().map(|it| it.line.failed).sum();
            let minutes = began.elapsed().as_secs() / 60;
            println!("{minutes} min: {runs} runs, {failed} violated, last {case}");
        }
        let Outcome::Failed(failed) = outcome else { continue };
        let is_news = now.is_news(&case, &failed);
        drop(now);
        let text = if is_news {
            println!("{case}: {}: it is being made smaller", failed.kind);
            describe(&case, &smaller(&mut worker, &case, &failed, end)?)
        } else {
            let told = failed.told.chars().take(500).collect::<String>();
            format!("FAILED {case}: {}: {told}", failed.kind)
        };
        println!("{text}");
        state.lock().expect("no one panics with it").failures.push(text);
    }
    Ok(())
}

/// The same failure, in a smaller run.
fn smaller(worker: &mut Worker, case: &Case, failed: &Failed, end: Instant) -> io::Result<Shrunk> {
    let mut error = None;
    let shrunk = shrink(case, failed, TRIES_MAX, &mut |case| {
        if error.is_some() || Instant::now() >= end + AFTER_MAX {
            return None;
        }
        match worker.run(case) {
            Ok(Outcome::Failed(failed)) => Some(failed),
            Ok(Outcome::Met(_)) => None,
            Err(trouble) => {
                error = Some(trouble);
                None
            }
        }
    });
    error.map_or(Ok(shrunk), Err)
}

fn describe(case: &Case, shrunk: &Shrunk) -> String {
    let Shrunk { case: smaller, failed, tries } = shrunk;
    format!(
        "FAILED {case}: {}: {}\n   made smaller by {tries} runs: cargo xtask campaign --replay {smaller}",
        failed.kind, failed.told
    )
}
