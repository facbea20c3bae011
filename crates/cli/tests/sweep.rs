//! Does `tandem sweep` compare policies over many cases, and say so for people and for programs?

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// One workload over one pair of drives at two speeds. One goal holds and one does not.
const SWEEP: &str = r#"
name = "small"
title = "A burst"
about = "made for a test"
null = "ssd-first"
starts = 3

[[policy]]
label = "ssd-first"
steer = "ssd-first"
[[policy]]
label = "e"
steer = "mios-e"

[[oracle]]
label = "oracle"
at_most = 1.05

[[drives]]
name = "small"
ssd = ["x25e"]
ssd_size = "1GiB"
hdd = ["wd40ezrz"]

[[grid]]
workloads = ["synth:uniform:size=4KiB,read_share=0%,footprint=64MiB,requests=1500"]
speedups = ["1", "4"]
resident = ["none"]

[[goal]]
id = "bytes"
what = "fewer bytes on the SSD"
policy = "e"
fields = ["ssd.written_bytes"]
mean_at_most = 0.99

[[goal]]
id = "much"
what = "writes a million times as fast"
policy = "e"
fields = ["write.mean_ns"]
mean_at_most = 0.000001
"#;

fn tandem(verb: &str, text: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.toml");
    std::fs::write(&path, text).expect("written");
    let path: &Path = path.as_ref();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.arg(verb).arg(path).args(arguments).output().expect("it runs")
}

fn words(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn policies_are_compared_over_every_case() {
    let told = tandem("sweep", SWEEP, &["--json"]);
    assert_eq!(told.status.code(), Some(1), "a goal is short: {}", words(&told.stderr));
    let document: Value = serde_json::from_slice(&told.stdout).expect("one document");
    let cases = document["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 2);
    let null = &cases[0]["null"];
    assert!(null["write.mean_ns"].as_f64().expect("a mean") > 0.0, "{null}");
    assert!(null["read.mean_ns"].is_null(), "nothing was read: {null}");
    for row in ["e", "oracle"] {
        let ratio = cases[0]["ratios"][row]["ssd.written_bytes"].as_f64().expect(row);
        assert!(ratio > 0.0 && ratio <= 1.0, "{row}: {ratio}");
    }
    let policies = document["policies"].as_array().expect("policies");
    let labels: Vec<&str> = policies.iter().filter_map(|policy| policy["label"].as_str()).collect();
    assert_eq!(labels, ["ssd-first", "e", "oracle"]);
    assert_eq!((&policies[0]["held"], &policies[0]["of"]), (&Value::from(2), &Value::from(2)));
    let verdicts: Vec<_> =
        document["goals"].as_array().expect("goals").iter().map(|goal| &goal["holds"]).collect();
    assert_eq!(verdicts, [true, false]);
    // the same on every machine
    let again = tandem("sweep", SWEEP, &["--json"]);
    assert_eq!(words(&again.stdout), words(&told.stdout));
}

#[test]
fn the_table_fits_a_screen() {
    let told = tandem("sweep", SWEEP, &["--only", "x1"]);
    let text = words(&told.stdout);
    for part in ["1 case, the medians of 3 starts", "holds  bytes: fewer bytes", "SHORT  much:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(132), "{text}");
}

#[test]
fn what_cannot_be_done_is_told_first() {
    for (verb, arguments, want) in [
        ("sweep", &["--only", "x5"][..], "--only: no case's name contains \"x5\""),
        ("sweep", &["--sample", "0"], "0 is not in 1.."),
        ("sweep", &["--details", "/nowhere/at/all"], "--details /nowhere/at/all"),
        ("run", &[], "tandem sweep"),
    ] {
        let told = tandem(verb, SWEEP, arguments);
        let text = words(&told.stderr);
        assert!(text.contains(want), "{verb} {arguments:?}: {text}");
        assert!(!told.status.success() && told.stdout.is_empty(), "{verb} {arguments:?}");
    }
    let told = tandem("sweep", &SWEEP.replace("mean_at_most", "mean_at_msot"), &[]);
    assert_eq!(told.status.code(), Some(2));
    let text = words(&told.stderr);
    assert!(text.contains("small.toml, line") && text.contains("mean_at_most"), "{text}");
    let listed = tandem("sweep", SWEEP, &["--list"]);
    assert_eq!(words(&listed.stdout).lines().count(), 2);
}
