//! What does `status` say of a server that does not answer? What is wrong, and what to do, soon.

use crate::support::PoolFixture;
use crate::support::fixture::is_refusal;
use crate::support::program::TWO;
use rustix::process::Signal;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Clients that a control socket takes at once.
const CLIENTS: usize = 64;
/// Until the answer: a second on a machine that has nothing else to do, and ten times that nowhere.
const SOON: Duration = Duration::from_secs(8);

/// Fails soon, with exit code 1 and these words; returns what it took.
fn refused(pool: &PoolFixture, words: &[&str]) -> Duration {
    let began = Instant::now();
    let output = pool.run("status", &[]);
    let took = began.elapsed();
    is_refusal(&output, 1, words);
    assert!(took < SOON, "it took {took:?}");
    took
}

#[test]
fn a_stopped_server_is_named_with_what_lets_it_go_on() {
    let pool = PoolFixture::formatted(TWO);
    let server = pool.start();
    server.signal(Signal::STOP);
    let process = format!("process {} is stopped", server.id());
    let took = refused(&pool, &[&process, &format!("kill -CONT {}", server.id())]);
    // a queue that is full: connecting itself would wait
    let mut waiting = Vec::new();
    let full = loop {
        let flags = rustix::net::SocketFlags::NONBLOCK;
        let family = rustix::net::AddressFamily::UNIX;
        let kind = rustix::net::SocketType::STREAM;
        let made = rustix::net::socket_with(family, kind, flags, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(pool.at("pool.control")).unwrap();
        match rustix::net::connect(&made, &address) {
            Ok(()) => waiting.push(made),
            Err(why) => break why,
        }
        assert!(waiting.len() < 10_000, "the queue has no end");
    };
    assert_eq!(full, rustix::io::Errno::AGAIN);
    let queued = refused(&pool, &["takes no more connections", "kill -CONT"]);
    println!(
        "measured: status of a stopped server after {took:?}, behind {} that wait {queued:?}",
        waiting.len()
    );
    drop(waiting);
    server.signal(Signal::CONT);
    assert_eq!(pool.status()["pool"]["name"], "two", "it goes on");
    server.stops();
}

/// Clients that say nothing make way for others; those that are being answered do not, and these ask for
/// more than their sockets hold and take none of it.
#[test]
fn a_server_without_room_for_another_client_says_so() {
    let pool = PoolFixture::formatted(TWO);
    let server = pool.start();
    let asked = b"{\"verb\":\"status\"}\n".repeat(200);
    let held: Vec<UnixStream> = (0..CLIENTS)
        .map(|_| {
            let mut stream = UnixStream::connect(pool.at("pool.control")).unwrap();
            stream.write_all(&asked).unwrap();
            stream
        })
        .collect();
    let took = refused(&pool, &["all 64 control connections are taken", "ss -xp"]);
    println!("measured: status of a full server after {took:?}");
    drop(held);
    crate::support::synced::until("there is room again", || {
        pool.run("status", &[]).status.success()
    });
    server.stops();
}
