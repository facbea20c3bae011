//! What do recalibration and further hard drives bring? Prints both tables; run it in release.
//!
//! `steering_study [drift|fleet] [WORKLOAD] [POLICY] [ROW]`: the defaults are both tables, two minutes of
//! `pangu-b`, and `mios-d`.

use tandem_block::{Arrival, Duration, Instant};
use tandem_engine::bcw::unreliability::Unreliability;
use tandem_sim::study::Figures;
use tandem_sim::study::drift::{Drift, drifting};
use tandem_sim::study::fleet::fleet;
use tandem_traces::synth;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let which = words.first().map_or("both", String::as_str);
    let name = words.get(1).map_or("pangu-b:duration=120s", String::as_str);
    let policy = words.get(2).map_or("mios-d", String::as_str);
    if which != "fleet" {
        drift_table(name, policy);
    }
    if which != "drift" {
        fleet_table(name, policy);
    }
}

fn workload(name: &str, speed: u64) -> Box<dyn Iterator<Item = Arrival>> {
    let arrivals = synth::build(name, 1).expect("a workload");
    Box::new(arrivals.map(move |a| Arrival { at: Instant::from_ns(a.at.ns / speed), ..a }))
}

fn header(what: &str) {
    println!(
        "{what:<28} {:>10} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}  stops",
        "redirected", "slow", "slow/M", "mean us", "p99 us", "p99.9 us", "pad MiB", "SSD MB"
    );
}

fn row(what: &str, figures: &Figures) {
    let stops: Vec<String> = Unreliability::ALL
        .iter()
        .filter(|why| figures.unreliable_times[**why as usize] > 0)
        .map(|why| format!("{} {}", figures.unreliable_times[*why as usize], why.name()))
        .collect();
    println!(
        "{what:<28} {:>10} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}  {}",
        figures.redirected,
        figures.user_slow_writes,
        figures.slow_per_million(),
        figures.write_mean_ns / 1000,
        figures.write_p99_ns / 1000,
        figures.write_p999_ns / 1000,
        figures.padding_bytes >> 20,
        figures.ssd_bytes / 1_000_000,
        stops.join(" "),
    );
}

fn drift_table(name: &str, policy: &str) {
    println!("{policy}, {name}, one WD100EFAX that changes after 20 s");
    header("the drive, recalibration");
    let only = std::env::args().nth(4);
    for (what, drift) in Drift::NAMED {
        if only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            continue;
        }
        for (recalibrate, how) in [(false, "off"), (true, "on")] {
            let after = Duration::from_s(20);
            let make = || workload(name, 1);
            let figures = drifting(policy, drift, after, recalibrate, &make).expect("it runs");
            row(&format!("{what}, {how}"), &figures);
        }
    }
}

fn fleet_table(name: &str, policy: &str) {
    println!("{policy}, {name}, WD100EFAX");
    header("hard drives, speed");
    for speed in [1, 2] {
        for hdds in [1, 2, 4] {
            let make = || workload(name, speed);
            let figures = fleet(policy, hdds, &make).expect("it runs");
            row(&format!("{hdds}, {speed}x"), &figures);
        }
    }
}
