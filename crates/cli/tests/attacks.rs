//! Does the real server keep serving, and within its memory, whatever clients do?
//!
//! `examples/attacks.rs` prints the figures of the same attacks. Here a good client must keep a quarter of
//! its rate and not a half: this machine may do something else at the same time. Without the bounds it keeps
//! nothing in most of them.

use crate::support::attacks::{HEAD, named, row, tested};
use std::sync::Mutex;

/// What the good client must keep of its rate.
const RATIO: f64 = 0.25;

/// One at a time: each measures what the others would disturb.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn holds(names: &[&str]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!("{HEAD}");
    for name in names {
        match named(name).unwrap().run(&tested()) {
            Ok(outcome) => {
                println!("{}", row(&outcome));
                assert!(outcome.faults(RATIO).is_empty(), "{name}: {:?}", outcome.faults(RATIO));
            }
            Err(why) if why.starts_with("skipped") => println!("{name}: {why}"),
            Err(why) => panic!("{name}: {why}"),
        }
    }
}

#[test]
fn nobody_is_locked_out_by_those_who_say_nothing() {
    holds(&["silent", "byte-by-byte", "half-headers"]);
}

#[test]
fn options_without_end_cost_others_nothing() {
    holds(&["options", "options-unread"]);
}

#[test]
fn bodies_that_do_not_come_hold_nothing_back() {
    holds(&["bodies", "bodies-trickle"]);
}

#[test]
fn reads_that_nobody_takes_hold_little_memory() {
    holds(&["unread-small", "unread-large"]);
}

#[test]
fn answers_without_data_that_nobody_takes_hold_little_memory() {
    holds(&["unread-flush", "unread-status"]);
}

#[test]
fn those_who_come_and_go_do_not_keep_others_from_being_served() {
    holds(&["comes-and-goes", "negotiates-and-goes"]);
}

#[test]
fn the_control_socket_is_for_everybody() {
    holds(&["control-half-lines", "control-unread"]);
}

#[test]
fn users_of_a_mount_keep_their_service_beside_nbd_clients() {
    holds(&["files-bodies", "files-unread"]);
}

#[test]
fn a_request_for_which_there_is_no_memory_is_refused_and_not_the_server() {
    holds(&["memory-limit", "memory-limit-to-the-end"]);
}
