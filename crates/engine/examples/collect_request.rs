//! What does a collector cost per request, and what does it hit? A row per collector; run it in release.
//!
//! Source: acceptance of tiers and caches, "Speed and memory": at most 100 ns per request at one million
//! objects, at most 64 bytes per tracked extent; and libCacheSim's miss ratios at the same workload.
//!
//! The requests are zipf of exponent 1 over one million objects of 4 KiB, five million of them, at a
//! cache of 400 MiB; they are drawn before the clock runs. `uniform` is the same without popular
//! objects, at a cache of half of them: nearly every request misses the processor's caches. An object's
//! number has nothing to do with how popular it is.
//!
//! Time is the thread's own on a processor, so that others who use the machine take little part in it.
//!
//! With `ratios` as its word it prints the miss ratios alone, in millionths; with `replay`, how many requests a
//! second of the processor `lru` alone replays from an empty cache on, which is what libCacheSim was timed
//! at; with names, those alone.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, not the engine")]

use std::hint::black_box;
use tandem_block::{Instant, Rng, Zipf};
use tandem_engine::tier::collect::{
    COLLECTORS, CollectConfig, Collector, Extent, OnDemand, Seen, Touch, build,
};

const OBJECTS: u64 = 1_000_000;
const REQUESTS: usize = 5_000_000;
const OBJECT_BYTES: u64 = 4096;
/// 400 MiB of them.
const HELD: u32 = 102_400;
const ROUNDS: usize = 5;

/// What is measured, with its requests.
struct Load {
    name: &'static str,
    held_max: u32,
    requests: Vec<u32>,
}

impl Load {
    /// Exponent in millionths.
    fn draw(name: &'static str, held_max: u32, theta_ppm: u64) -> Self {
        let (zipf, mut rng) = (Zipf::new(OBJECTS, theta_ppm), Rng::new(1));
        // popular objects are anywhere: an odd factor that is no divisor's multiple of a million
        let scatter = |rank: u64| (rank * 611_953 % OBJECTS) as u32;
        let requests = (0..REQUESTS).map(|_| scatter(zipf.draw(&mut rng))).collect();
        Load { name, held_max, requests }
    }

    fn cache(&self, name: &str) -> OnDemand {
        // those that count track all objects
        let config = CollectConfig::new(self.held_max, OBJECTS as u32);
        OnDemand::new(build(name, &config).expect("registered"), self.held_max)
    }

    /// Every object once, so that nothing is touched for the first time while the clock runs.
    fn filled(&self, name: &str) -> OnDemand {
        let mut cache = self.cache(name);
        for object in 0..OBJECTS {
            cache.request(&touch(object as u32, 0));
        }
        cache
    }

    /// ns per request, and misses in a million.
    fn measure(&self, cache: &mut OnDemand) -> (u64, u64) {
        let (took_ns, misses) = self.replay(cache);
        let requests = REQUESTS as u64;
        (took_ns / requests, misses * 1_000_000 / requests)
    }

    /// ns of all requests, and misses.
    fn replay(&self, cache: &mut OnDemand) -> (u64, u64) {
        let mut hits = 0;
        let began_ns = cpu_ns();
        for (number, object) in self.requests.iter().enumerate() {
            hits += u64::from(cache.request(black_box(&touch(*object, number))) == Seen::Hit);
        }
        (cpu_ns() - began_ns, REQUESTS as u64 - hits)
    }

    /// ns per request of being told alone: nothing comes or goes.
    fn told(&self, collector: &mut dyn Collector) -> u64 {
        let began_ns = cpu_ns();
        for (number, object) in self.requests.iter().enumerate() {
            black_box(collector.touched(black_box(&touch(*object, number))));
        }
        (cpu_ns() - began_ns) / REQUESTS as u64
    }
}

fn touch(object: u32, number: usize) -> Touch {
    let now = Instant::from_ns(number as u64 * 20_000);
    Touch { extent: Extent(u64::from(object)), bytes: OBJECT_BYTES, now }
}

/// How long this thread has run. On systems that do not say: the time of day.
fn cpu_ns() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = said.split(' ').next().and_then(|word| word.parse().ok());
    ran.unwrap_or_else(|| {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        since.expect("after 1970").as_nanos() as u64
    })
}

fn median(mut found: Vec<u64>) -> u64 {
    found.sort_unstable();
    found[found.len() / 2]
}

fn main() {
    let zipf = Load::draw("zipf", HELD, 1_000_000);
    if std::env::args().nth(1).is_some_and(|word| word == "replay") {
        let rounds = (0..ROUNDS).map(|_| zipf.replay(&mut zipf.cache("lru")).0).collect();
        println!("lru: {}", REQUESTS as u64 * 1_000_000_000 / median(rounds).max(1));
        return;
    }
    if std::env::args().nth(1).is_some_and(|word| word == "ratios") {
        for entry in COLLECTORS {
            let (_, misses) = zipf.measure(&mut zipf.cache(entry.name));
            println!("{}: {misses}", entry.name);
        }
        return;
    }
    let uniform = Load::draw("uniform", OBJECTS as u32 / 2, 0);
    println!(
        "{:<15} {:<8} {:>9} {:>8} {:>9} {:>6} {:>10}",
        "collector", "load", "cache ns", "told ns", "misses %", "bytes", "all bytes"
    );
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    for entry in COLLECTORS.iter().filter(|entry| chosen(entry.name)) {
        for load in [&zipf, &uniform] {
            let mut cache = load.filled(entry.name);
            let rounds: Vec<(u64, u64)> = (0..ROUNDS).map(|_| load.measure(&mut cache)).collect();
            let cost = median(rounds.iter().map(|round| round.0).collect());
            let misses = median(rounds.iter().map(|round| round.1).collect());
            let mut alone = cache.collector().boxed_clone();
            let told = median((0..ROUNDS).map(|_| load.told(&mut *alone)).collect());
            let memory = cache.collector().memory();
            println!(
                "{:<15} {:<8} {cost:>9} {told:>8} {:>6}.{:02} {:>6} {:>10}",
                entry.name,
                load.name,
                misses / 10_000,
                misses / 100 % 100,
                memory.bytes_per_extent(),
                memory.bytes,
            );
        }
    }
}
