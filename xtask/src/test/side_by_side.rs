//! How do many commands run side by side, each under a guard of its own?
//!
//! Most tests of servers sleep while drives and clients work, and most others compute. There are twice
//! as many places as processors: one half begins with those that wait, the other one with those that
//! compute, and whoever has nothing left takes of the others.

use crate::watch::{Ended, Output, Patience, Watch};
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};

/// What a command does most of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It waits for others.
    Waits,
    /// It computes.
    Computes,
}

/// A command, which is a test or like one.
#[derive(Debug)]
pub(super) struct Task {
    /// The part that it belongs to.
    pub(super) part: &'static str,
    /// What it is told of with.
    pub(super) group: String,
    /// Its name in that.
    pub(super) name: String,
    /// It.
    pub(super) command: Command,
    /// What it does most of its time.
    pub(super) kind: Kind,
    /// When it is ended.
    pub(super) patience: Patience,
}

/// A task that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) part: &'static str,
    pub(super) group: String,
    pub(super) name: String,
    pub(super) ended: Ended,
}

struct Queues([VecDeque<Task>; 2]);

impl Queues {
    fn take(&mut self, first: Kind) -> Option<Task> {
        let [waiting, computing] = &mut self.0;
        match first {
            Kind::Waits => waiting.pop_front().or_else(|| computing.pop_front()),
            Kind::Computes => computing.pop_front().or_else(|| waiting.pop_front()),
        }
    }
}

/// Runs them all, and tells of each as it ends.
///
/// # Errors
/// If one cannot be started or waited for. The others under way end before.
pub(super) fn run(watch: &Watch, tasks: Vec<Task>, mut tell: impl FnMut(Done)) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let (waiting, computing) = tasks.into_iter().partition(|task| task.kind == Kind::Waits);
    let queues = Mutex::new(Queues([waiting, computing]));
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for place in 0..2 * processors {
            let (queues, sender) = (&queues, sender.clone());
            let first = if place % 2 == 0 { Kind::Waits } else { Kind::Computes };
            scope.spawn(move || {
                loop {
                    let task = queues.lock().unwrap_or_else(PoisonError::into_inner).take(first);
                    let Some(Task { part, group, name, mut command, patience, .. }) = task else {
                        return;
                    };
                    let ended = watch
                        .run(&mut command, patience, Output::Kept)
                        .with_context(|| format!("{group} {name}"));
                    let done = ended.map(|ended| Done { part, group, name, ended });
                    // the other side stops to hear at the first error
                    if sender.send(done).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for done in ended {
            tell(done?);
        }
        Ok(())
    })
}
