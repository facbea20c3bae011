//! How is one run after another carried out in a process of its own? A line of input is a case, a line
//! of output says how it went.
//!
//! A run that panics, or that never ends, takes this process with it and nothing else.

use std::io::{BufRead as _, Write as _};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tandem_sim::arms::Case;
use tandem_sim::arms::shrink::Failed;
use tandem_sim::coverage::Coverage;

/// The case under way, for whoever panics.
static UNDER_WAY: Mutex<Option<Arc<Case>>> = Mutex::new(None);

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was violated.
    Met(Box<Coverage>),
    /// Something was.
    Failed(Failed),
}

impl Outcome {
    /// In a line.
    fn write(&self) -> String {
        match self {
            Outcome::Met(met) => {
                let counts: Vec<String> = met.counts().iter().map(u64::to_string).collect();
                format!("met\t{}", counts.join(" "))
            }
            Outcome::Failed(Failed { kind, at, told }) => {
                format!("failed\t{at}\t{kind}\t{}", told.replace(['\n', '\t'], " "))
            }
        }
    }

    /// From a line. None if it is not one of a worker.
    pub fn read(line: &str) -> Option<Outcome> {
        let mut fields = line.split('\t');
        match fields.next()? {
            "met" => {
                let counts: Result<Vec<u64>, _> =
                    fields.next()?.split(' ').map(str::parse).collect();
                Some(Outcome::Met(Box::new(Coverage::from_counts(&counts.ok()?)?)))
            }
            "failed" => {
                let at = fields.next()?.parse().ok()?;
                let (kind, told) = (fields.next()?.to_owned(), fields.next()?.to_owned());
                Some(Outcome::Failed(Failed { kind, at, told }))
            }
            _ => None,
        }
    }
}

/// Runs cases until there are no more.
pub fn work() {
    // a run that never ends must not outlive who watches it
    let kill = Some(rustix::process::Signal::KILL);
    if let Err(error) = rustix::process::set_parent_process_death_signal(kill) {
        eprintln!("a worker outlives its campaign: {error}");
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(String::new, |place| format!("{}:{}", place.file(), place.line()));
        let case = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let at = case.map_or(0, |case| case.at.load(Ordering::Relaxed));
        let told = panic.to_string();
        say(&Outcome::Failed(Failed { kind: format!("Panic {place}"), at, told }));
        // nothing is left in order: the next run begins in another process
        std::process::exit(1);
    }));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let case: Case = match line.parse() {
            Ok(case) => case,
            Err(error) => panic!("{line}: {error}"),
        };
        let case = Arc::new(case);
        *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&case));
        say(&match case.run() {
            Ok(met) => Outcome::Met(Box::new(met)),
            Err(failure) => {
                let at = case.at.load(Ordering::Relaxed);
                Outcome::Failed(Failed { kind: failure.kind(), at, told: failure.to_string() })
            }
        });
    }
}

fn say(outcome: &Outcome) {
    let mut out = std::io::stdout();
    // whoever does not hear it any more has ended, and so does this process with its input
    let _ = writeln!(out, "{}", outcome.write());
    let _ = out.flush();
}
