//! Does `tandem profile` tell what a drive is, and does it leave alone what it must?
//!
//! Source: models §5.2 and §6.4; design, "The command line".

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn profile(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.arg("profile").args(words).current_dir(folder).stdin(Stdio::null());
    command.output().expect("tandem runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_modelled_drive_is_measured_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--spec", "wd40ezrz", "--json", "--out", "p.toml", "--plot", "p.svg"];
    let output = profile(folder.path(), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let found = &told["found"];
    assert_eq!((&found["kind"], &found["drain"]["law"]), (&"hdd".into(), &"after-idle".into()));
    let steps = found["staircase"]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 4);
    assert_eq!(steps[0]["fast_ns"], 35_000);
    let written = std::fs::read_to_string(folder.path().join("p.toml")).expect("a profile");
    assert!(written.contains("source = \"measured: "), "{written}");
    let plot = std::fs::read_to_string(folder.path().join("p.svg")).expect("a plot");
    assert!(plot.contains("<polyline"), "{plot}");
}

/// What is compared is also written and drawn, if that is asked for.
#[test]
fn a_comparison_writes_its_profile_and_plot() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--spec", "wd40ezrz", "--compare", "--out", "p.toml", "--plot", "p.svg"];
    let output = profile(folder.path(), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("off by"), "{}", text(&output.stdout));
    let alone = profile(folder.path(), &["--spec", "wd40ezrz"]);
    let written = std::fs::read_to_string(folder.path().join("p.toml")).expect("a profile");
    let but_the_day = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("measured")).map(str::to_owned).collect()
    };
    // the same profile as without --compare
    assert_eq!(but_the_day(&written), but_the_day(&text(&alone.stdout)));
    let plot = std::fs::read_to_string(folder.path().join("p.svg")).expect("a plot");
    assert!(plot.contains("<polyline"), "{plot}");
}

/// A profile of another drive, or of long ago, is refused; one that tells of no staircase is not.
#[test]
fn a_profile_is_believed_of_its_own_drive_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = profile(folder.path(), &["--spec", "wd40ezrz", "--out", "p.toml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let good = std::fs::read_to_string(folder.path().join("p.toml")).expect("a profile");
    let day = good.lines().find(|line| line.starts_with("measured")).expect("a day").to_owned();
    let format = |emulate: &str, profile: &str| {
        std::fs::write(folder.path().join("p.toml"), profile).expect("written");
        let pool = format!(
            "[pool]\nname = 'p'\n\
             [[device]]\nrole = 'ssd'\npath = 's.img'\nsize = '1GiB'\n\
             [[device]]\nrole = 'hdd'\npath = 'h.img'\nsize = '1GiB'\n{emulate}\n\
             profile = 'p.toml'\n\
             [[volume]]\nname = 'v'\nsize = '256MiB'\nsteer = 'mios-d'\n"
        );
        std::fs::write(folder.path().join("pool.toml"), pool).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.args(["format", "pool.toml", "--force"]).current_dir(folder.path());
        let output = command.stdin(Stdio::null()).output().expect("tandem runs");
        (output.status.code(), text(&output.stderr))
    };
    let same = "emulate = 'wd40ezrz'";
    let none = "name='x'\nabout='y'\n[hdd]\nstaircase='none'\nreason='its cache is off'\n";
    for (emulate, profile, code, want) in [
        (same, good.clone(), 0, ""),
        ("emulate = 'wd100efax'", good.clone(), 1, "emulates wd100efax"),
        ("", good.clone(), 1, "has 1073741824"),
        (same, good.replace(&day, "measured = '2020-01-01'"), 1, "measured on 2020-01-01"),
        (same, good.replace("after-idle", "sometimes"), 2, "`drain_law` must be"),
        (same, none.to_owned(), 0, "no exploitable staircase: its cache is off"),
    ] {
        let (status, said) = format(emulate, &profile);
        assert!(status == Some(code) && said.contains(want), "{want}: {status:?} {said}");
    }
}

#[test]
fn nothing_is_written_that_was_not_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = vec![7; 256 << 20];
    std::fs::write(folder.path().join("data.img"), &data).expect("room");
    for (words, code, want) in [
        (&["data.img"][..], 2, "--kind"),
        (&["data.img", "--kind", "ssd", "--destroy"], 2, "--budget"),
        (&["data.img", "--kind", "ssd", "--destroy", "--budget", "1GiB"], 2, "say --yes"),
        (&["data.img", "--kind", "ssd", "--destroy", "--budget", "0B"], 2, "above 0"),
        (&["data.img", "--kind", "ssd", "--destroy", "--gentle", "--budget", "1GiB"], 2, "cannot"),
        (&["/no/such/drive", "--kind", "ssd"], 1, "/no/such/drive"),
        (&["data.img", "--kind", "hdd"], 0, ""),
    ] {
        let output = profile(folder.path(), words);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(want), "{words:?}: {said}");
        if code == 0 {
            assert!(text(&output.stdout).contains("writing was not allowed"));
        }
    }
    let after = std::fs::read(folder.path().join("data.img")).expect("it is there");
    assert!(after == data, "not one byte may change");
    std::fs::write(folder.path().join("xfs.img"), [b"XFSB".as_slice(), &data].concat())
        .expect("room");
    let words = ["xfs.img", "--kind", "ssd", "--destroy", "--yes", "--budget", "1GiB"];
    let output = profile(folder.path(), &words);
    assert!(text(&output.stderr).contains("holds XFS"), "{}", text(&output.stderr));
}
