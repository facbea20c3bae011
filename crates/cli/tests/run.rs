//! Does `tandem run` say what the paper says, what came out and whether it holds?
//!
//! Source: design, "The command line".

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A burst of writes that one SSD cannot take, and three relations: one that holds, one that does
/// not and is explained, and an item without any.
const EXPERIMENT: &str = r#"
name = "small"
title = "a burst"
source = "nowhere"
about = "made for a test"
items = ["T1", "T2", "T3"]

[[case]]
name = "burst"
workload = "synth:interval:interval=20us,total=16MiB"
ssd = ["x25e"]
hdd = ["wd40ezrz"]
placement = "fixed"
resident = "ssd"
ssd_state = "slc-full"
policies = ["ssd-first", { policy = "mios-e:queue_length=1", label = "e" }]

[[case]]
name = "again"
workload = "synth:interval:interval=20us,total=16MiB"
ssd = ["x25e"]
hdd = ["wd40ezrz"]
placement = "fixed"
resident = "ssd"
ssd_state = "slc-full"
policies = ["ssd-first"]

[[relation]]
id = "T1.same"
what = "a run of two cases is one run"
paper = "the same"
rule = "about equal"
value = "burst/ssd-first/write.p99_ns"
over = "again/ssd-first/write.p99_ns"
at_least = 1.0
at_most = 1.0

[[relation]]
id = "T2.less"
what = "p99 write latency"
paper = "1000000x"
rule = "effect"
value = "burst/e/write.p99_ns"
over = "burst/ssd-first/write.p99_ns"
at_least = 1000.0
why = "it was asked for too much"
cause = "ours"
"#;

fn run(experiment: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.toml");
    std::fs::write(&path, experiment).expect("written");
    let path: &Path = path.as_ref();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.arg("run").arg(path).args(arguments).output().expect("it runs")
}

#[test]
fn verdicts_are_told_as_json_and_as_a_table() {
    let output = run(EXPERIMENT, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "a relation does not hold");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let experiment = &document["experiments"][0];
    assert_eq!((&experiment["name"], &experiment["source"]), (&"small".into(), &"nowhere".into()));
    let relations = experiment["relations"].as_array().expect("a list");
    let of = |id: &str| {
        let found = relations.iter().find(|relation| relation["id"] == id);
        found.unwrap_or_else(|| panic!("{id} is missing"))
    };
    assert_eq!(relations.len(), 3);
    assert_eq!(of("T1.same")["holds"], true);
    assert_eq!(of("T1.same")["ours"], "+0.0 %");
    assert_eq!(of("T2.less")["holds"], false);
    assert_eq!(of("T2.less")["why"], "it was asked for too much");
    assert_eq!(of("T3")["holds"], false, "an item without a relation counts as failed");
    for relation in relations {
        for name in ["id", "what", "paper", "ours", "holds", "why", "cause", "kind", "error"] {
            assert!(relation.get(name).is_some(), "{name} is missing");
        }
    }

    let table = run(EXPERIMENT, &[]);
    let text = String::from_utf8(table.stdout).expect("text");
    for part in [
        "DOES NOT HOLD",
        "T2.less: ours. it was asked",
        "1 of 3 relations hold (33 %)",
        "2 do not hold: the paper contradicts itself in 0, an input is unknown in 0, 1 are ours, 1 have no reason",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// With `--null`, what ssd-first passes in the place of the policy is shared, and a number that no policy
/// touches is compared with the paper's.
#[test]
fn a_null_takes_away_what_is_no_merit() {
    let end = EXPERIMENT.find("[[relation]]\nid = \"T2").expect("it is there");
    let text = format!(
        "{}{}",
        EXPERIMENT[..end]
            .replace("\"T2\", \"T3\"", "\"T4\", \"T5\"")
            // long enough that the hard drive is known, and takes some of it
            .replace("total=16MiB", "total=256MiB")
            .replace("wd40ezrz", "wd100efax"),
        r#"
[[relation]]
id = "T4.moved"
what = "bytes that e keeps off the SSD"
paper = "many"
rule = "direction"
value = "burst/e/ssd.written_bytes"
over = "burst/ssd-first/ssd.written_bytes"
at_most = 0.99

[[relation]]
id = "T5.count"
what = "writes of the workload"
paper = "4096, half of them"
rule = "amount"
value = "burst/ssd-first/write.count"
kind = "calibrates"
published = 4096.0
source = "nowhere"
"#
    );
    let output = run(&text, &["--null", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let told = &document["experiments"][0];
    assert_eq!(told["nulls"], serde_json::json!(["ssd-first"]));
    let fields = |at: usize| {
        let row = &told["relations"][at];
        (
            row["holds"].clone(),
            row["kind"].clone(),
            row["holds_under"].clone(),
            row["error"].clone(),
        )
    };
    let shared = serde_json::json!(["ssd-first"]);
    assert_eq!(fields(0), (true.into(), "scores".into(), shared, Value::Null));
    assert_eq!(fields(1), (true.into(), "scores".into(), Value::Array(vec![]), Value::Null));
    let (holds, kind, _, error) = fields(2);
    assert_eq!((holds, kind, error), (true.into(), "calibrates".into(), 2.0.into()));
    assert_eq!(document["score"]["discriminating"], serde_json::json!({ "all": 1, "hold": 1 }));

    let plain = run(&text, &["--json"]);
    let document: Value = serde_json::from_slice(&plain.stdout).expect("one JSON document");
    assert_eq!(document["score"]["discriminating"], Value::Null, "no null was run");
}

/// A reason why a relation does not hold is wrong once it holds.
#[test]
fn a_reason_that_is_out_of_date_is_an_error() {
    let end = EXPERIMENT.find("[[relation]]\nid = \"T2").expect("it is there");
    let text = EXPERIMENT[..end].replace("\"T1\", \"T2\", \"T3\"", "\"T1\"");
    let text = text.trim_end().to_owned() + "\nwhy = \"it did not\"\ncause = \"ours\"\n";
    let output = run(&text, &[]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("remove `why` and `cause` of T1.same"), "{error}");
}

/// One page, of itself alone: the verdicts, and for each case what every policy got and paid.
#[test]
fn a_page_shows_the_verdicts_and_every_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    let output = run(EXPERIMENT, &["--report", path.to_str().expect("a name")]);
    assert_eq!(output.status.code(), Some(1), "a relation does not hold");
    let page = std::fs::read_to_string(&path).expect("a page");
    for part in [
        "<title>a burst</title>",
        "Case burst:",
        "Case again:",
        "DOES NOT HOLD",
        "<i>asked</i> at least 1000.000x",
        "<h3>T3 <small>0 of 1 hold",
        "it was asked for too much",
        "Mean write latency against bytes written to SSDs",
        "p99.9 write latency against bytes written to SSDs",
        "Latency of writes: how many took longer?",
        "Bytes written, by drive and reason",
        "SSD: ssd-first",
        "HDD: e",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert_eq!(page.matches("<svg width=").count(), 2 * 4, "charts of each case");
    assert_eq!(
        page.matches("<svg class=\"strip\"").count(),
        2,
        "a row for each relation with a value"
    );
    for elsewhere in ["src=", "<script", "@import", "url("] {
        assert!(!page.contains(elsewhere), "{elsewhere} loads something");
    }
    let links = page.matches("href=").count();
    assert_eq!(page.matches("href=\"#").count(), links, "links lead to the page itself");
}

/// A page that cannot be written is told before anything runs, and nothing is left where nothing came.
#[test]
fn a_page_that_cannot_be_written_is_told_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("none/page.html");
    // this workload is found to be wrong only when the runs begin
    let wrong = EXPERIMENT.replace("synth:interval", "synth:intervla");
    let output = run(&wrong, &["--report", nowhere.to_str().expect("a name")]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in ["--report", "none/page.html", "name a file that you may write"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("intervla"), "{error}");
    let page = folder.path().join("page.html");
    let name = page.to_str().expect("a name");
    let output = run(&wrong, &["--report", name]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("intervla"));
    assert!(!page.exists(), "there was nothing to write");
    let output = run(EXPERIMENT, &["--report", name, "--details", name]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("both name"));
}

#[test]
fn what_holds_is_a_success() {
    let end = EXPERIMENT.find("[[relation]]\nid = \"T2").expect("it is there");
    let text = EXPERIMENT[..end].replace("\"T1\", \"T2\", \"T3\"", "\"T1\"");
    assert_eq!(run(&text, &[]).status.code(), Some(0));
    let wrong = run(&text.replace("synth:interval", "synth:intervla"), &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean \"interval\""));
    let unknown = run(&text.replace("rule =", "rulle ="), &[]);
    assert_eq!(unknown.status.code(), Some(2));
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        error.contains("small.toml, line ") && error.contains("did you mean \"rule\""),
        "{error}"
    );
}

/// A case may replay a real trace: one of the folder that `TANDEM_TRACES` names. Without it the case is
/// skipped, which counts neither way.
#[test]
fn a_trace_is_replayed_where_it_is_and_skipped_where_it_is_not() {
    let experiment = r#"
name = "real"
title = "a trace"
source = "nowhere"
about = "made for a test"
items = ["T1"]

[[case]]
name = "trace"
trace = "msr.csv"
ssd = ["960evo"]
ssd_size = "2GiB"
hdd = ["wd100efax"]
policies = ["ssd-first", { policy = "mios-d", label = "d" }]

[[relation]]
id = "T1.all"
what = "requests answered"
paper = "all"
rule = "about equal"
value = "trace/ssd-first/write.count"
over = "trace/d/write.count"
at_least = 1.0
at_most = 1.0
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("real.toml");
    std::fs::write(&path, experiment).expect("written");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let told = |traces: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.arg("run").arg(&path).arg("--json").env_remove("TANDEM_TRACES");
        if let Some(traces) = traces {
            command.env("TANDEM_TRACES", traces);
        }
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        document["experiments"][0]["relations"][0].clone()
    };
    let found = told(Some(&fixtures));
    assert_eq!((&found["holds"], &found["skipped"]), (&true.into(), &false.into()), "{found}");
    let skipped = told(None);
    assert_eq!(skipped["skipped"], true, "{skipped}");
    let ours = skipped["ours"].as_str().expect("text");
    assert!(ours.contains("TANDEM_TRACES names no folder with msr.csv"), "{ours}");
}
