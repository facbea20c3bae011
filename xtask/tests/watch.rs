//! Is a command that hangs ended and named, is one that works slowly not, and is what one leaves behind
//! found?
//!
//! A process of its own, since all that runs below it is told of and ended.

use std::process::Command;
use std::time::{Duration, Instant};
use xtask::watch::{Ended, Output, Patience, Watch};

/// Short, but many times what a loaded machine needs between two signs of life of the shells here.
const SHORT: Patience = Patience {
    asleep: Duration::from_secs(6),
    step: Duration::from_millis(50),
    spinning: Duration::from_secs(3600),
};
/// A sleep that nobody waits for.
const AMPLE: Duration = Duration::from_secs(300);

fn shell(words: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", words]);
    command
}

fn run(watch: &Watch, words: &str, patience: Patience) -> Ended {
    watch.run(&mut shell(words), patience, Output::Kept).expect("it runs")
}

/// One test, since each looks at all that runs below this process.
#[test]
fn a_guard_ends_what_makes_no_progress_and_nothing_else() {
    let watch = Watch::new().expect("the kernel adopts");
    how_a_command_ended(&watch);
    what_sleeps_for_ever(&watch);
    what_spins_for_ever(&watch);
    what_works_slowly(&watch);
    what_is_left_behind(&watch);
    beside_each_other(&watch);
    assert_eq!(watch.end_the_rest().expect("it looks"), [""; 0], "something lives on");
}

fn how_a_command_ended(watch: &Watch) {
    let ended = run(watch, "echo one; echo two >&2", SHORT);
    assert!(ended.is_clean(), "{ended:?}");
    assert_eq!(ended.said, "one\ntwo\n");
    let ended = run(watch, "exit 3", SHORT);
    assert!(!ended.succeeded && ended.left.is_empty() && ended.hung.is_none(), "{ended:?}");
}

/// It is ended, with its children, and named with what it waits for.
fn what_sleeps_for_ever(watch: &Watch) {
    let began = Instant::now();
    let ended = run(watch, "echo begun; sleep 600 & sleep 602; true", SHORT);
    assert!(!ended.succeeded, "{ended:?}");
    assert!(began.elapsed() >= SHORT.asleep && began.elapsed() < AMPLE, "{:?}", began.elapsed());
    let hung = ended.hung.as_ref().expect("it was ended");
    assert!(hung.why.contains("did nothing for 6 s"), "{hung:?}");
    for sleeper in ["sleep 600", "sleep 602"] {
        assert!(hung.processes.iter().any(|told| told.contains(sleeper)), "{hung:?}");
    }
    assert_eq!(ended.said, "begun\n");
    assert!(ended.troubles().iter().any(|line| line.contains("sleep 602")), "{ended:?}");
}

/// Its limit is processor time: others on the machine make it later, and no line of output earlier.
fn what_spins_for_ever(watch: &Watch) {
    let most = Duration::from_secs(2);
    let patience = Patience { spinning: most, ..SHORT };
    let began = Instant::now();
    let ended = run(watch, "echo begun; while :; do :; done", patience);
    let hung = ended.hung.as_ref().expect("it was ended");
    assert!(hung.why.contains("2 s of processor time without a line"), "{hung:?}");
    assert!(ended.cpu >= most && began.elapsed() >= most, "{ended:?}");
    // as much, but with lines in between, and by its children
    let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let words = format!("for n in 1 2 3 4 5 6 7 8 9 10; do sh -c '{spin}'; echo $n; done");
    let ended = run(watch, &words, Patience { spinning: most, ..SHORT });
    assert!(ended.is_clean(), "{ended:?}");
}

/// Each goes on for longer than what sleeps may: by lines, by processor time alone, by bytes alone.
fn what_works_slowly(watch: &Watch) {
    let spin = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
    for (words, least_ms) in [
        ("for n in 1 2 3 4 5 6 7 8; do sleep 1; echo $n; done".to_owned(), 8_000),
        (format!("for n in 1 2 3 4 5 6 7 8; do sleep 1; {spin}; done"), 8_000),
        (format!("for n in 1 2 3 4 5 6 7 8; do sleep 1; sh -c '{spin}'; done"), 8_000),
        (
            "for n in 1 2 3 4 5 6 7 8; do sleep 1; \
             head -c 2000000 /dev/zero | { cat; sleep 1; } > /dev/null; done"
                .to_owned(),
            16_000,
        ),
    ] {
        let ended = run(watch, &words, SHORT);
        assert!(ended.is_clean(), "{words}: {ended:?}");
        assert!(ended.took >= Duration::from_millis(least_ms), "{words}: {ended:?}");
    }
}

/// It ends well, but leaves somebody who left its session, too.
fn what_is_left_behind(watch: &Watch) {
    let ended = run(watch, "setsid sleep 601 & exit 0", SHORT);
    assert!(ended.succeeded && ended.left.len() == 1, "{ended:?}");
    assert!(ended.left[0].contains("sleep 601"), "{ended:?}");
    // nobody knows whose it was: it has no parent and no environment
    let words = "env -i setsid sh -c 'exec sleep 603' & exit 0";
    let ended = run(watch, words, SHORT);
    let rest = watch.end_the_rest().expect("it looks");
    let told = [ended.left, rest].concat();
    assert!(told.len() == 1 && told[0].contains("sleep 603"), "{told:?}");
}

/// Two at once: each is told of its own, and the one that ends ends nobody else.
fn beside_each_other(watch: &Watch) {
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| run(watch, "setsid sleep 4 & sleep 5; echo well", SHORT));
        let hangs = scope.spawn(|| run(watch, "setsid sleep 604 & sleep 605", SHORT));
        let leaves = run(watch, "setsid sleep 606 & exit 0", SHORT);
        assert!(leaves.left.len() == 1 && leaves.left[0].contains("sleep 606"), "{leaves:?}");
        let slow = slow.join().expect("it runs");
        assert!(slow.is_clean() && slow.said == "well\n", "{slow:?}");
        let hung = hangs.join().expect("it runs").hung.expect("it was ended");
        assert!(hung.processes.iter().any(|told| told.contains("sleep 604")), "{hung:?}");
        assert!(!hung.processes.iter().any(|told| told.contains("sleep 5")), "{hung:?}");
    });
}
