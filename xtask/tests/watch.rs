//! Is a command that hangs ended, and is what one leaves behind found?
//!
//! A process of its own, since all that runs below it is told of and ended.

use std::process::Command;
use std::time::{Duration, Instant};
use xtask::watch::Watch;

/// Long enough for anything that does not hang.
const AMPLE: Duration = Duration::from_secs(60);

fn shell(words: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", words]);
    command
}

#[test]
fn what_hangs_is_ended_and_what_is_left_is_found() {
    let watch = Watch::new().expect("the kernel adopts");
    let run = |words: &str, limit| watch.run(&mut shell(words), limit).expect("runs");

    let ended = run("exit 0", AMPLE);
    assert!(ended.is_clean(), "{ended:?}");
    let ended = run("exit 3", AMPLE);
    assert!(!ended.succeeded && ended.left.is_empty(), "{ended:?}");

    let began = Instant::now();
    let ended = run("sleep 600 & sleep 600; true", Duration::from_millis(300));
    assert!(!ended.succeeded, "{ended:?}");
    assert!(began.elapsed() < AMPLE, "the sleepers were waited for");
    assert!(run("exit 0", AMPLE).is_clean(), "a sleeper lives on");

    // It ends well, but leaves somebody who left its session, too.
    let ended = run("setsid sleep 601 & exit 0", AMPLE);
    assert!(ended.succeeded && ended.left.len() == 1, "{ended:?}");
    assert!(ended.left[0].contains("sleep 601"), "{ended:?}");
    assert!(run("exit 0", AMPLE).is_clean(), "the one left behind lives on");
}
