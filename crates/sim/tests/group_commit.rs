//! Do durable requests that come together share a commit, and does one that comes alone wait for none?
//!
//! Source: design decision 7, group commit. Clients zero one block after the other with FUA and ask
//! again as soon as they are answered, or after a pause.

use tandem_block::{BLOCK_BYTES, Duration, Instant, Op, Request, RequestId};
use tandem_sim::Simulation;
use tandem_sim::swarm::{SwarmConfig, VOLUME};

const BLOCKS: u64 = 1024;

/// What zeroing every block took.
struct Outcome {
    commits: u64,
    gathered: u64,
    longest: Duration,
}

/// Runs the simulation until so many requests are answered.
fn wait_for(sim: &mut Simulation, count: u64) {
    let mut done = 0;
    while done < count {
        assert!(sim.step(), "a request never hangs");
        sim.drain_done(|answer| {
            answer.status.expect("no faults");
            done += 1;
        });
    }
}

/// A pool whose blocks are all written and durable.
fn filled() -> Simulation {
    let mut config = SwarmConfig::tiny(1, "ssd-first", 0);
    config.shape.volume_bytes = BLOCKS * BLOCK_BYTES;
    let engine = tandem_engine::Engine::new(config.engine(true)).expect("valid");
    let mut sim = Simulation::new(engine, config.drives(), true);
    sim.start().expect("a pool");
    for block in 0..BLOCKS {
        let range = (block * BLOCK_BYTES, BLOCK_BYTES);
        let mut write = Request::new(RequestId(block), VOLUME, Op::Write, range, sim.now);
        write.payload = sim.payload((0..8).map(|sector| block << 8 | sector | 1));
        sim.request(&write);
    }
    wait_for(&mut sim, BLOCKS);
    sim.request(&Request::new(RequestId(BLOCKS), VOLUME, Op::Flush, (0, 0), sim.now));
    wait_for(&mut sim, 1);
    sim
}

/// So many clients, each of which asks again `pause` after it was answered.
fn zero_all(clients: u64, pause: Duration) -> Outcome {
    let mut sim = filled();
    let before = sim.engine.stats().clone();
    let mut next: Vec<Instant> = vec![sim.now; clients as usize];
    let mut asked = vec![Instant::NEVER; BLOCKS as usize];
    let (mut sent, mut done, mut longest) = (0, 0, Duration::from_ns(0));
    while done < BLOCKS {
        next.sort_unstable();
        while sent < BLOCKS && next.first().is_some_and(|&at| at <= sim.now) {
            let range = (sent * BLOCK_BYTES, BLOCK_BYTES);
            let id = RequestId(sent);
            let mut zeroes = Request::new(id, VOLUME, Op::WriteZeroes, range, sim.now);
            zeroes.fua = true;
            asked[sent as usize] = sim.now;
            sim.request(&zeroes);
            next.remove(0);
            sent += 1;
        }
        let now = sim.now;
        sim.drain_done(|answer| {
            answer.status.expect("no faults");
            longest = longest.max(now.since(asked[answer.request.0 as usize]));
            next.push(now + pause);
            done += 1;
        });
        let wanted = next.iter().min().copied().filter(|_| sent < BLOCKS);
        match wanted {
            Some(at) if at <= sim.now => {}
            Some(at) if at < sim.next_at() => sim.run_until(at),
            _ => assert!(done == BLOCKS || sim.step(), "a request never hangs"),
        }
    }
    let stats = sim.engine.stats();
    Outcome {
        commits: stats.commits - before.commits,
        gathered: stats.commits_gathered - before.commits_gathered,
        longest,
    }
}

#[test]
fn who_asks_again_at_once_shares_every_commit() {
    for clients in [2, 16, 64] {
        let together = zero_all(clients, Duration::from_ns(0));
        let least = BLOCKS / clients;
        let most = least + least / 10 + 2;
        assert!((least..=most).contains(&together.commits), "{clients}: {}", together.commits);
    }
}

#[test]
fn who_is_alone_waits_for_nobody() {
    let alone = zero_all(1, Duration::from_ns(0));
    assert_eq!(alone.gathered, 0);
    assert_eq!(alone.commits, BLOCKS);
}

#[test]
fn those_who_do_not_come_back_are_not_waited_for_again_and_again() {
    let pause = Duration::from_ms(20);
    let alone = zero_all(1, pause);
    let several = zero_all(16, pause);
    let bound = BLOCKS / 16;
    assert!(several.gathered < bound, "{} of {} commits", several.gathered, several.commits);
    // the commit under way, at most half of it in vain, and one's own
    let most = Duration::from_ns(alone.longest.ns * 3);
    assert!(several.longest <= most, "{:?}, alone {:?}", several.longest, alone.longest);
}
