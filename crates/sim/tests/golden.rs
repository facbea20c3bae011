//! Did behaviour move? Small traces under every policy and placement, exact integers.
//!
//! Source: design, "Tests". `UPDATE_GOLDEN=1 cargo test -p tandem-sim --test golden` rewrites the
//! files; the difference is then read like any other change.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tandem_block::{Arrival, GIB, Op};
use tandem_engine::steer::POLICIES;
use tandem_engine::tier::TIERS;
use tandem_engine::{Placement, Role, SteerConfig, TierConfig};
use tandem_sim::replay::{DriveChoice, ReplayConfig, RunResult, Survey, plan, replay};
use tandem_traces::{OpenOptions, open, synth};

/// Workloads that load the drives, beside the fixtures, which are small.
const SYNTHETIC: &[(&str, &str)] = &[
    ("interval-writes", "interval:size=32KiB,interval=60us,total=96MiB"),
    ("zipf-mixed", "zipf:requests=6000,rate=6000,footprint=256MiB,read_share=40%"),
    ("pangu-d", "pangu-d:duration=2s"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn config(policy: &str, placement: Placement) -> ReplayConfig {
    let steer = SteerConfig::named(policy);
    let (ssds, _) = steer.entry().expect("registered").needs;
    let ssds = vec![DriveChoice::shipped("960evo", Some(2 * GIB)); ssds.max(1)];
    let hdds = vec![DriveChoice::shipped("wd100efax", Some(16 * GIB))];
    ReplayConfig { placement, ..ReplayConfig::of(steer, ssds, hdds) }
}

fn line(policy: &str, placement: Placement, result: &RunResult) -> String {
    let (write, read) = (&result.latencies.write.total, &result.latencies.read.total);
    let sum = |role: Role| -> u64 {
        let of_role = result.devices.iter().filter(|device| device.role == role);
        of_role.map(|device| device.stats.written_bytes()).sum()
    };
    format!(
        "{placement:?} {policy} digest={:016x} elapsed={} errors={} write={}/{}/{} read={}/{}/{} \
         redirected={}/{} ssd={} hdd={} fragments={} slow={}\n",
        result.digest,
        result.elapsed_ns,
        result.latencies.errors,
        write.count(),
        write.mean_ns(),
        write.max_ns(),
        read.count(),
        read.mean_ns(),
        read.max_ns(),
        result.stats.redirected.0,
        result.stats.redirected.1,
        sum(Role::Ssd),
        sum(Role::Hdd),
        result.stats.fragments,
        result.steering.user_slow_writes,
    )
}

/// Every policy and placement over these arrivals; each request is answered once, without error.
fn run_all(name: &str, arrivals: &[Arrival]) -> String {
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let mut text = String::new();
    for placement in [Placement::Mapped, Placement::Fixed] {
        for policy in POLICIES.iter().map(|entry| entry.name) {
            let config = config(policy, placement);
            let plan = plan(&config, &survey).expect(name);
            let result = replay(&config, &plan, arrivals.iter().copied()).expect(name);
            let latencies = &result.latencies;
            let answered = latencies.write.total.count()
                + latencies.read.total.count()
                + latencies.flush.total.count();
            assert_eq!(answered, arrivals.len() as u64, "{name} {policy} {placement:?}");
            text.push_str(&line(policy, placement, &result));
        }
    }
    text
}

fn fixtures() -> Vec<(String, Vec<Arrival>)> {
    let mut found = Vec::new();
    let folder = root().join("tests/fixtures");
    for entry in std::fs::read_dir(&folder).expect("the fixtures are there") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if name.ends_with(".expected") {
            continue;
        }
        // formats with the same columns are told apart by the fixture's name
        let format = name.split(['.', '-']).next().map(str::to_owned);
        let known = format.as_deref().and_then(tandem_traces::format_named).is_some();
        let format = format.filter(|_| known);
        let options = OpenOptions { format, skip_bad: true, ..OpenOptions::default() };
        let reader = open(&path, &options).expect("a fixture opens");
        found.push((name, reader.map(|arrival| arrival.expect("a sound fixture")).collect()));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn check(name: &str, got: &str) {
    let path = root().join("crates/sim/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, got).expect("the golden folder is writable");
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    let mut moved = String::new();
    for (want, got) in want.lines().zip(got.lines()).filter(|(want, got)| want != got) {
        let _ = writeln!(moved, "- {want}\n+ {got}");
    }
    assert!(
        moved.is_empty() && want.lines().count() == got.lines().count(),
        "{name} moved (UPDATE_GOLDEN=1 accepts):\n{moved}"
    );
}

#[test]
fn fixtures_are_as_they_were() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 12, "a fixture for every format");
    for (name, arrivals) in fixtures {
        check(&name, &run_all(&name, &arrivals));
    }
}

#[test]
fn loaded_drives_are_as_they_were() {
    for (name, spec) in SYNTHETIC {
        let arrivals: Vec<Arrival> = synth::build(spec, 1).expect(spec).collect();
        assert!(arrivals.iter().any(|arrival| arrival.op == Op::Write), "{name}");
        check(name, &run_all(name, &arrivals));
    }
}

/// Every tier over data that a quarter of the SSDs' room holds, with what moved.
#[test]
fn tiers_are_as_they_were() {
    let (name, spec) = SYNTHETIC[1];
    let arrivals: Vec<Arrival> = synth::build(spec, 1).expect(spec).collect();
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let mut text = String::new();
    for entry in TIERS {
        let mut tier = TierConfig::named(entry.name).with("size", 64 << 20);
        // intervals that end within the workload
        if entry.presets.iter().any(|(name, _)| *name == "interval") {
            tier = tier.with("interval", 100_000_000);
        }
        if entry.name == "griffin" {
            tier = tier.with("log_age", 100_000_000);
        }
        // in a closed loop: hard drives would never be done with so many reads
        let config =
            ReplayConfig { tier, closed_loop: Some(8), ..config("ssd-first", Placement::Mapped) };
        let plan = plan(&config, &survey).expect(name);
        let result = replay(&config, &plan, arrivals.iter().copied()).expect(name);
        assert_eq!(result.latencies.errors, 0, "{}", entry.name);
        let line = line(entry.name, Placement::Mapped, &result);
        let _ = writeln!(text, "{} {:?}", line.trim_end(), result.stats.tiers);
    }
    check("tiers", &text);
}
