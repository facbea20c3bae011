//! Which numbers do the models give for the acceptance run? `accept hdd` or `accept ssd` prints
//! lines `name: number...` for programs to read; run it in release.
//!
//! Source: models §5.3 and §6.3.

use tandem_drives::spec::{HddSpec, ModelSpec, Ppm, load};
use tandem_drives::{SsdState, study};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("hdd") => hdd(&wd100efax()),
        Some("ssd") => {
            evo();
            x25e();
            i510();
            amplification();
        }
        _ => {
            eprintln!("usage: accept hdd|ssd");
            std::process::exit(2);
        }
    }
}

fn wd100efax() -> HddSpec {
    match load("wd100efax").expect("known").model {
        ModelSpec::Hdd(hdd) => hdd,
        _ => unreachable!("it is a hard drive"),
    }
}

fn hdd(spec: &HddSpec) {
    for kib in [4, 16, 64] {
        let row = study::staircase(spec, kib << 10);
        println!("staircase {kib}: {} {} {}", row.fast_ns, row.mid_ns, row.slow_ns);
        let (fast, mid) = study::stage_counts(spec, kib << 10, 50);
        println!("counts {kib}: {fast} {mid}");
    }
    for kib in [16, 64, 128] {
        let [fast, mid, slow] = study::predict(spec, kib << 10, 100, 1).recall();
        println!("recall {kib}: {fast} {mid} {slow}");
    }
}

fn evo() {
    for us in [40, 60, 80, 100, 160, 320] {
        let row = study::evo_intervals(us * 1_000, 16_000_000_000);
        println!("evo {us}: {} {} {}", row.p99_ns, row.first_half_p99_ns, row.second_half_p99_ns);
    }
}

fn x25e() {
    let random = study::x25e_random();
    println!("x25e-first-second: {}", random.first_second);
    println!("x25e-late: {}", random.late_per_s);
    println!("x25e-events: {}", random.events_per_100_s);
    println!("x25e-event-ns: {}", random.event_ns);
    println!("x25e-share: {}", random.share_permille);
    println!("x25e-amplification: {}", random.amplification_permille);
    let sequential = study::x25e_sequential();
    println!("x25e-sequential-mean: {}", sequential.mean_per_s);
    println!("x25e-sequential-max: {}", sequential.rate_max_per_s);
    println!("x25e-sequential-min: {}", sequential.rate_min_per_s);
    for (seconds, worst) in (1..).zip(sequential.worst_per_s) {
        println!("x25e-worst-{seconds}: {worst}");
    }
}

fn i510() {
    println!("510-reads-alone: {}", study::i510_reads_alone());
    let streams = study::i510_four_streams();
    println!("510-random-writes: {}", streams.random_write_bytes_per_s);
    println!("510-amplification: {}", streams.amplification_permille);
    println!("510-reads: {}", streams.reads_per_s);
    println!("510-reads-deviation: {}", streams.reads_deviation);
    println!("510-writes: {}", streams.writes_per_s);
    println!("510-event-ns: {}", streams.event_ns);
    println!("510-ten-seconds-min: {}", streams.ten_seconds_min_max.0);
    println!("510-ten-seconds-max: {}", streams.ten_seconds_min_max.1);
}

fn amplification() {
    for percent in [7, 15, 28] {
        let share = Ppm(percent * 10_000);
        let long = study::write_amplification(share, SsdState::Fresh);
        println!("amplification-{percent}: {long}");
    }
}
