//! Do reads of a mirrored pair wait for writes? Prints a table; run it in release.
//!
//! `legs [DRIVE] [SECONDS]`: the defaults are both the 510 and the 960 EVO, 60 seconds. Lines that
//! begin with RESULT are for programs.

use tandem_block::Duration;
use tandem_drives::spec::load;
use tandem_engine::mirror::{Idle, PairConfig};
use tandem_sim::study::legs::{LegsConfig, LegsResult, pair_of, run};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds: u64 = words.get(1).map_or(60, |word| word.parse().expect("seconds"));
    let names = words.first().map_or(vec!["510", "960evo"], |name| vec![name.as_str()]);
    for name in names {
        table(name, seconds);
    }
}

fn table(name: &str, seconds: u64) {
    let base = LegsConfig {
        spec: load(name).expect("a shipped drive"),
        pair: None,
        read_interval: Duration::from_ns(0),
        read_depth: 32,
        write_depth: 0,
        write_bytes: 64 << 10,
        duration: Duration::from_s(seconds),
        warm_up: Duration::from_s(11),
        seed: 1,
    };
    let go = |what: &str, config: LegsConfig| {
        let result = run(config).expect("it runs");
        print(name, what, &result);
        result
    };
    let most = go("reads alone, 32 outstanding", base.clone());
    let interval = Duration::from_ns(2 * 1_000_000_000 / most.reads_per_s);
    let alone =
        go("reads alone, at half of that", LegsConfig { read_interval: interval, ..base.clone() });
    let writes = LegsConfig { read_depth: 0, write_depth: 32, ..base.clone() };
    let k = go("writes alone, 32 outstanding", writes).write_bytes_per_s;
    let mixed = LegsConfig { read_interval: interval, write_depth: 32, ..base.clone() };
    let one = go("both on one drive", mixed.clone());
    let second = Duration::from_ms(1_000);
    for (period_s, idle_ms, idle) in [
        (10, 0, Idle::Fixed(Duration::from_ns(0))),
        (10, 1_000, Idle::Fixed(second)),
        (10, 1, Idle::Adaptive(second)),
        (20, 1_000, Idle::Fixed(second)),
    ] {
        let pair: PairConfig = pair_of(k, Duration::from_s(period_s), idle);
        let what = format!("both on a pair, {idle:?} of {period_s} s");
        // both legs have written once before anything counts
        let warm_up = Duration::from_s(period_s + 1);
        let result = go(&what, LegsConfig { pair: Some(pair), warm_up, ..mixed.clone() });
        let ratio = result.reads.percentile_ns(9990) * 100 / alone.reads.percentile_ns(9990);
        let share = result.write_bytes_per_s * 100 / (k / 2);
        let pair = result.pair.expect("a pair");
        println!(
            "RESULT {name} period_s={period_s} idle_ms={idle_ms} adapted_ms={} reads_percent={ratio} one_drive_percent={} \
             writes_percent={share} measured_percent={} turns={} cache_bytes_max={} cache_bytes_bound={}",
            pair.idle.ns / 1_000_000,
            one.reads.percentile_ns(9990) * 100 / alone.reads.percentile_ns(9990),
            pair.write_bytes_per_s * 100 / k,
            pair.stats.turns,
            pair.cache_bytes_max,
            pair.cache_bytes_bound,
        );
    }
}

fn print(name: &str, what: &str, result: &LegsResult) {
    let us = |ns: u64| ns / 1_000;
    println!(
        "{name} {what}: {} reads/s, mean {} p99 {} p99.9 {} max {} us ({} from RAM); {} MB/s, mean {} p99.9 {} us",
        result.reads_per_s,
        us(result.reads.mean_ns()),
        us(result.reads.percentile_ns(9900)),
        us(result.reads.percentile_ns(9990)),
        us(result.reads.max_ns()),
        result.ram_reads,
        result.write_bytes_per_s / 1_000_000,
        us(result.writes.mean_ns()),
        us(result.writes.percentile_ns(9990)),
    );
}
