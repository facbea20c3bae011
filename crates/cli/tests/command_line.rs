//! Does the program keep its contract: names, exit codes, nothing but JSON on stdout?
//!
//! Source: design, "The command line".

use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Small drives, so that a run takes milliseconds.
const SMALL: [&str; 4] = ["--ssd-size", "2GiB", "--hdd-size", "16GiB"];

fn tandem(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tandem")).args(arguments).output().expect("it runs")
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn replay(arguments: &[&str]) -> Output {
    tandem(&[&["replay"], arguments, &SMALL].concat())
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn has(value: &Value, names: &[&str]) {
    let keys = keys(value);
    for name in names {
        assert!(keys.contains(name), "{name} is missing among {keys:?}");
    }
}

const LATENCY: [&str; 8] =
    ["count", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"];

#[test]
fn replay_json_has_the_names_of_the_contract() {
    let document = json(&replay(&["synth:zipf:requests=300,read_share=50%", "--json"]));
    has(&document, &["trace", "seed", "initial", "placement", "drives", "runs"]);
    has(
        &document["trace"],
        &[
            "requests",
            "reads",
            "writes",
            "flushes",
            "read_bytes",
            "write_bytes",
            "duration_ns",
            "bad_lines",
        ],
    );
    has(&document["drives"], &["ssd", "hdd"]);
    assert_eq!(document["trace"]["requests"], 300);
    let runs = document["runs"].as_array().expect("runs");
    let policies: Vec<_> = runs.iter().map(|run| run["policy"].as_str().expect("a name")).collect();
    assert_eq!(policies, ["ssd-first", "mios-d", "mios-e"]);
    for run in runs {
        latencies_have_their_names(run);
        drives_have_their_names(run);
    }
}

fn latencies_have_their_names(run: &Value) {
    has(
        run,
        &[
            "wall_ns",
            "read",
            "write",
            "flush",
            "write_by_size",
            "read_from",
            "read_back",
            "devices",
        ],
    );
    has(run, &["redirected", "fragments", "merge_reads", "backpressure_ns", "bytes_at_risk_max"]);
    for side in ["read", "write", "flush"] {
        has(&run[side], &LATENCY);
        has(&run[side]["stages"]["wait"], &LATENCY);
        has(&run[side]["stages"]["device"], &LATENCY);
    }
    let bounds: Vec<_> = run["write_by_size"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group["upto_bytes"].as_u64())
        .collect();
    assert_eq!(bounds, [Some(4096), Some(16384), Some(65536), Some(262_144), Some(1 << 20), None]);
    has(&run["read_from"], &["ram", "ssd", "ssd_copy", "hdd_log", "hdd_home"]);
}

fn drives_have_their_names(run: &Value) {
    has(
        &run["ssd"],
        &[
            "written_bytes",
            "user_bytes",
            "writeback_bytes",
            "promotion_bytes",
            "tail_bytes",
            "map_bytes",
            "write_requests",
            "utilization",
            "queue_depth_p50",
            "queue_depth_p99",
            "queue_depth_max",
            "queue_found_p50",
            "queue_found_p99",
            "queue_found_max",
            "write_amplification",
            "life_years",
            "workload",
        ],
    );
    has(
        &run["hdd"],
        &[
            "written_bytes",
            "user_bytes",
            "padding_bytes",
            "gc_bytes",
            "home_bytes",
            "read_bytes",
            "flushes",
            "utilization_net",
            "utilization_gross",
            "user_slow_writes",
            "user_slow_writes_per_million",
            "surprises",
            "unreliable",
            "measurements",
            "explorations",
            "suspensions",
            "padding_limits",
            "budget_stops",
            "workload",
        ],
    );
    for role in ["ssd", "hdd"] {
        let workload = &run[role]["workload"];
        has(workload, &["bytes_per_day", "rated_bytes_per_day", "rated_share", "rating"]);
        assert!(workload["rated_bytes_per_day"].as_u64() > Some(0), "the default drives are rated");
    }
    has(
        &run["hdd"]["unreliable"]["by_reason"],
        &["surprises", "no_staircase", "write_cache_off", "cleaning", "stalled"],
    );
    has(&run["devices"][0], &["id", "role", "written_bytes", "utilization"]);
    has(&run["redirected"], &["requests", "bytes", "by_reason"]);
    for actual in ["fast", "mid", "slow"] {
        has(&run["predictor"][actual], &["fast", "mid", "slow"]);
    }
    let digest = run["digest"].as_str().expect("text");
    assert!(digest.len() == 16 && digest.bytes().all(|c| c.is_ascii_hexdigit()), "{digest}");
    let parts = ["user", "writeback", "promotion", "tail", "map"];
    let sum: u64 =
        parts.iter().map(|part| run["ssd"][format!("{part}_bytes")].as_u64().expect("bytes")).sum();
    assert_eq!(run["ssd"]["written_bytes"], sum, "the total of its parts");
}

#[test]
fn several_traces_are_an_array_and_merged_ones_a_document() {
    let msr = fixture("msr.csv");
    let traces = [msr.to_str().expect("text"), "synth:uniform:requests=50", "--json"];
    let policy = ["--policy", "ssd-first"];
    let several = json(&replay(&[&traces[..], &policy].concat()));
    let counts: Vec<_> = several
        .as_array()
        .expect("an array")
        .iter()
        .map(|one| one["trace"]["requests"].as_u64().expect("a count"))
        .collect();
    assert_eq!(counts.len(), 2);
    let merged = json(&replay(&[&traces[..], &policy, &["--merge"]].concat()));
    assert_eq!(merged["trace"]["requests"], counts.iter().sum::<u64>());
    let limited = json(&replay(&[&traces[..], &policy, &["--merge", "--limit", "7"]].concat()));
    assert_eq!(limited["trace"]["requests"], 7);
}

#[test]
fn equal_command_lines_have_equal_digests() {
    let digests = |seed: &str| -> Vec<String> {
        let arguments = ["synth:pangu-c:duration=1s", "--json", "--seed", seed, "--speedup", "2"];
        let document = json(&replay(&arguments));
        let runs = document["runs"].as_array().expect("runs");
        runs.iter().map(|run| run["digest"].to_string()).collect()
    };
    assert_eq!(digests("1"), digests("1"));
    assert_ne!(digests("1"), digests("2"));
}

/// The table of a run is text for people; a workload written to a file replays as the workload.
#[test]
fn tables_and_written_workloads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.csv");
    let path = path.to_str().expect("text");
    let spec = "interval:total=1MiB,size=4KiB";
    let written = tandem(&["synth", spec, "--out", path]);
    assert!(written.status.success() && written.stdout.is_empty());
    let digest = |trace: &str| json(&replay(&[trace, "--json"]))["runs"][2]["digest"].to_string();
    assert_eq!(digest(path), digest(&format!("synth:{spec}")));
    let table = replay(&[path]);
    let text = String::from_utf8(table.stdout).expect("text");
    for want in ["ssd-first", "mios-d", "mios-e", "write latency", "256 requests", "p99.9", "WA"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line), "no blanks at line ends");
}

/// An SSD that is smaller than the trace is not the SSD that was asked for, and that is said.
#[test]
fn a_drive_alone_says_that_it_was_scaled() {
    let workload = "synth:uniform:size=64KiB,footprint=3GiB,requests=200";
    let policies = ["--policy", "bare,bare-ssd"];
    let drives = ["--ssd-size", "1GiB", "--hdd-size", "16GiB"];
    let arguments = [&["replay", workload, "--json"][..], &policies, &drives].concat();
    let document = json(&tandem(&arguments));
    let doubts = |at: usize| document["runs"][at]["doubts"].to_string();
    assert!(!doubts(0).contains("scaled"), "{}", doubts(0));
    assert!(doubts(1).contains("scaled from 1.1 GB to"), "{}", doubts(1));
}

/// An order of service holds in a pool. A row beside it that does not know it says so.
#[test]
fn a_drive_alone_says_that_it_knows_no_order_of_service() {
    let workload = "synth:uniform:size=64KiB,footprint=1GiB,requests=200";
    let arguments = ["replay", workload, "--json", "--policy", "bare,ssd-first"];
    for (more, is_said) in [(&[][..], false), (&["--qos", "edf"][..], true)] {
        let document = json(&tandem(&[&arguments[..], more].concat()));
        let doubts = |at: usize| document["runs"][at]["doubts"].to_string();
        assert_eq!(doubts(0).contains("--qos and --stream"), is_said, "{}", doubts(0));
        assert!(!doubts(1).contains("--qos and --stream"), "{}", doubts(1));
    }
}

#[test]
fn lists_are_generated_from_the_registries() {
    for (verb, path, want) in [
        ("policies", "/0/name", "ssd-first"),
        ("drives", "/0/name", "960evo"),
        ("formats", "/formats/0/name", "msr"),
    ] {
        let document = json(&tandem(&[verb, "--json"]));
        assert_eq!(document.pointer(path).and_then(Value::as_str), Some(want), "{verb}");
        let text = String::from_utf8(tandem(&[verb]).stdout).expect("text");
        assert!(text.contains(want), "{verb}: {text}");
    }
    assert!(String::from_utf8_lossy(&tandem(&["drives", "660p"]).stdout).contains("endurance"));
}

#[test]
fn exit_codes_tell_usage_from_failure() {
    let msr = fixture("msr.csv");
    let msr = msr.to_str().expect("text");
    let fiu = fixture("fiu.trace.gz");
    let fiu = fiu.to_str().expect("text");
    for (arguments, code, want) in [
        (&["replay"][..], 2, "TRACE"),
        (&["replay", msr, "--polcy", "all"], 2, "--policy"),
        (&["replay", msr, "--policy", "mois-d"], 2, "did you mean \"mios-d\""),
        (&["replay", msr, "--ssd", "961evo"], 2, "did you mean `960evo`"),
        (&["replay", msr, "--format", "mrs"], 2, "did you mean \"msr\""),
        (&["replay", msr, "--ssd-size", "big"], 2, "--ssd-size"),
        (&["replay", "synth:zpif"], 2, "did you mean \"zipf\""),
        (&["replay", "synth:zipf:reqests=3"], 2, "did you mean \"requests\""),
        (&["replay", msr, "--qos", "efd"], 2, "did you mean \"edf\""),
        (&["replay", msr, "--stream", "0:wieght=1"], 2, "did you mean \"weight\""),
        (&["replay", msr, "--stream", "nobody:weight=1"], 2, "Its volumes are"),
        (&["replay", msr, "--overcommit"], 2, "name a --stream"),
        (&["replay", "no-such-file"], 1, "no-such-file"),
        (&["replay", msr, "--format", "vscsi"], 1, "is not vscsi"),
        (&["replay", fiu], 1, "line 1"),
        (&["replay", msr, "--ssd", "none", "--hdd", "none"], 1, "at least one drive"),
        (&["synth", "pangu-e"], 2, "did you mean"),
        (&["drives", "wd100"], 2, "did you mean"),
        (&["reply"], 2, "replay"),
    ] {
        let output = tandem(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(want), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(replay(&[fiu, "--skip-bad", "--policy", "ssd-first"]).status.success());
}

/// Readers beside a flood of writes: what they are promised they get by deadlines, and not in the order
/// of arrival. What does not fit is refused with the figure that would.
#[test]
fn streams_of_a_trace_get_what_they_are_promised() {
    let common = [
        "replay",
        "synth:zipf:requests=1500,read_share=100%,rate=500,footprint=1GiB",
        "synth:zipf:requests=60000,read_share=0%,rate=20000,footprint=1GiB",
        "--merge",
        "--json",
        "--ssd",
        "x25e",
        "--ssd-size",
        "4GiB",
        "--hdd",
        "none",
        "--placement",
        "fixed",
        "--policy",
        "ssd-first",
    ];
    let promised = |order: &str, stream: &str| {
        let more = ["--qos", order, "--stream", stream, "--stream", "1:weight=1"];
        tandem(&[&common[..], &more].concat())
    };
    let given = |order: &str| {
        let stream = "0:reservation=700/s,window=1s,does=random-read";
        let run = json(&promised(order, stream))["runs"][0].clone();
        let streams = run["streams"].as_array().expect("streams").clone();
        let names: Vec<_> = streams.iter().map(|one| one["name"].as_str().expect("text")).collect();
        assert_eq!(names, ["0", "1", "others"]);
        assert_eq!(streams[0]["promised"]["requests_per_s"], 700);
        assert_eq!(streams[0]["requests"], 1_500);
        let number = |name: &str| streams[0][name].as_u64().expect("a number");
        (number("windows"), number("windows_met"), run["read"]["mean_ns"].as_u64().expect("a time"))
    };
    let (windows, met, mean_ns) = given("edf");
    assert_eq!(windows, met, "every window of {windows}");
    let (windows, met, fifo_ns) = given("fifo");
    assert!(met < windows, "the flood is one: {met} of {windows}");
    assert!(mean_ns < fifo_ns, "{mean_ns} of {fifo_ns}");
    let refused = promised("edf", "0:reservation=999999/s,window=1s,does=random-read");
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("more than there is") && text.contains("would fit"), "{text}");
    let plain = json(&replay(&["synth:zipf:requests=30", "--policy", "ssd-first", "--json"]));
    assert!(plain["runs"][0].get("streams").is_none(), "nobody is told apart");
}

/// `tandem … | head` is a success.
#[test]
fn a_broken_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["synth", "uniform:requests=1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut out = child.stdout.take().expect("piped");
    let mut few = [0; 100];
    out.read_exact(&mut few).expect("it writes");
    drop(out);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_report_is_one_page_that_loads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let path = page.to_str().unwrap();
    let made = tandem(&["replay", "synth:pangu-c", "--limit", "3000", "--report", path]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = std::fs::read_to_string(&page).unwrap();
    for want in ["mios-e", "how many took longer?", "Queue of the SSDs", "staircase", "</html>"] {
        assert!(text.contains(want), "{want:?} is missing");
    }
    assert!(text.matches("<svg").count() >= 6);
    for foreign in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!text.contains(foreign), "{foreign:?} is there");
    }
    let nowhere = folder.path().join("none/page.html");
    let path = nowhere.to_str().unwrap();
    let failed = tandem(&["replay", "synth:pangu-c", "--limit", "100", "--report", path]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains(path));
}
