//! Is one drive alone measured as its case says, and are wrong cases told as such?

use super::experiment::{Experiment, Kind};
use super::instead;
use super::relation::{Path, Relation, Verdict};
use super::work;
use crate::toml_fault::{Fault, line_of};
use std::path::Path as FilePath;

const ALONE: &str = r#"
name = "one"
title = "t"
source = "s"
about = "a"
items = ["D1"]
[[case]]
name = "b"
kind = "drive"
hdd = ["wd100efax"]
duration = "20s"
[[case.stream]]
name = "rr"
does = "random-read"
size = "4KiB"
requests = 2000
[[case.stream]]
name = "mix"
does = "mix"
reads = "66%"
sequential = "20%"
local = "30%"
near = "50KiB"
size = "2KiB"
step = "2KiB"
think = "40ms"
[[relation]]
id = "D1.read"
what = "w"
paper = "14.6 ms"
rule = "about equal"
value = "b/drive/rr.mean_ns"
kind = "calibrates"
published = 14600000
source = "data sheet"
"#;

/// The faults of the text, and the line of it.
fn refused(text: &str) -> (usize, String) {
    let fault: Fault = Experiment::parse(text).expect_err("it is wrong");
    (fault.at.map_or(0, |at| line_of(text, at)), fault.text)
}

fn verdicts(experiment: &Experiment) -> Vec<Verdict> {
    let results = work::run_all(std::iter::once(experiment)).expect("it runs");
    let look_up = |path: &Path| instead::look_up(experiment, None, &results, path);
    experiment.relations.iter().map(|relation: &Relation| relation.verdict(&look_up)).collect()
}

#[test]
fn streams_of_a_drive_are_measured_each_for_itself() {
    let experiment = Experiment::parse(ALONE).expect("sound");
    let Kind::Drive(case) = &experiment.cases[0].kind else { panic!("a drive") };
    let result = case.run().expect("it runs");
    let number =
        |path: &str| super::relation::field_of(&result, path).unwrap_or_else(|why| panic!("{why}"));
    assert!((60.0..80.0).contains(&number("rr.per_s")), "{result}");
    let seconds = number("rr.count") / number("rr.per_s");
    assert!((19.5..20.5).contains(&seconds), "it ends with its time: {seconds}");
    assert_eq!(number("mix.reads.count") + number("mix.writes.count"), number("mix.count"));
    assert!(super::relation::field_of(&result, "rr.writes.mean_ns").is_err(), "it wrote nothing");
    // what follows the one before is in the buffer, which the far ones are not
    assert!(number("mix.reads.p50_ns") < number("rr.p50_ns"), "{result}");
    let alone = ALONE.replace("name = \"rr\"", "name = \"before\"\ndoes = \"random-write\"\nsize = \"64KiB\"\n[[case.stream]]\nname = \"rr\"");
    let Kind::Drive(case) = &Experiment::parse(&alone).expect("sound").cases[0].kind else {
        panic!("a drive")
    };
    assert_eq!(case.run().expect("it runs")["rr"], result["rr"], "writes before it change nothing");
}

#[test]
fn mistakes_of_a_drive_alone_are_named() {
    for (from, to, line, want) in [
        ("hdd = [\"wd100efax\"]", "", 8, "needs one ssd or one hdd"),
        ("hdd = [", "ssd = [\"960evo\"]\nhdd = [", 8, "needs one ssd or one hdd"),
        ("hdd = [", "hdd = [\"wd100efax\", ", 8, "needs one ssd or one hdd"),
        ("\"wd100efax\"", "\"wd100efx\"", 8, "did you mean `wd100efax`"),
        ("\"wd100efax\"", "\"none.toml\"", 8, "cannot read the spec none.toml"),
        (
            "hdd = [\"wd100efax\"]",
            "hdd = [\"960evo\"]",
            8,
            "960evo is no hdd: it is of the kind ssd",
        ),
        ("hdd = [\"wd100efax\"]", "ssd = [\"null\"]", 8, "null is no ssd: it is of the kind null"),
        ("duration = \"20s\"", "policies = [\"ect\"]", 8, "has no `policies`"),
        ("duration = \"20s\"", "size = \"8GB\"", 8, "has no `size`"),
        ("duration = \"20s\"", "ssd_size = \"8GB\"", 8, "`ssd_size` goes with an ssd"),
        ("duration = \"20s\"", "fill = \"8GB\"", 8, "`fill` goes with an ssd"),
        ("duration = \"20s\"", "duration = \"0s\"", 11, "some time passes"),
        ("requests = 2000", "target = \"50%\"", 13, "has no `target`"),
        ("requests = 2000", "weight = 3", 13, "has no `weight`"),
        ("requests = 2000", "requests = 0", 16, "1 to 10000000 requests"),
        ("requests = 2000", "outstanding = 0", 13, "1 to 4096"),
        ("requests = 2000", "range = \"11TB\"", 16, "the drive ends at 10000000000000 bytes"),
        ("requests = 2000", "range = \"0KiB\"", 16, "a range is above 0"),
        ("requests = 2000", "range = \"512\"", 16, "512"),
        ("requests = 2000", "from = \"10TB\"", 16, "the drive ends at"),
        ("requests = 2000", "from = \"1000B\"", 16, "sectors of 512 bytes"),
        ("requests = 2000", "range = \"5000B\"", 16, "sectors of 512 bytes"),
        ("requests = 2000", "think = \"10000000000s\"", 16, "takes longer than 1000000s"),
        ("duration = \"20s\"", "duration = \"10000000000s\"", 11, "takes longer than 1000000s"),
        ("requests = 2000", "range = \"2KiB\"", 13, "no room for a request"),
        ("requests = 2000", "near = \"2KiB\"", 13, "`near` goes with does = \"mix\""),
        ("size = \"4KiB\"", "size = \"0KiB\"", 15, "512 bytes to 32MiB"),
        ("size = \"4KiB\"\n", "", 13, "has a size"),
        ("does = \"random-read\"", "does = \"random-raed\"", 14, "did you mean \"random-read\"?"),
        ("does = \"mix\"", "does = \"mixx\"", 19, "did you mean \"mix\"?"),
        ("name = \"mix\"", "name = \"rr\"", 17, "two streams \"rr\""),
        ("name = \"mix\"", "name = \"m.x\"", 18, "no dot and no slash"),
        ("reads = \"66%\"\n", "", 18, "a mix needs `reads`"),
        ("local = \"30%\"", "local = \"81%\"", 18, "more than the whole"),
        ("near = \"50KiB\"\n", "", 18, "`local` and `near` go together"),
        ("drive/rr.mean_ns", "drive/rr.meen_ns", 28, "did you mean \"mean_ns\"?"),
        ("drive/rr.mean_ns", "drive/r.mean_ns", 28, "did you mean \"rr\"?"),
        ("kind = \"drive\"", "kind = \"drives\"", 8, "did you mean \"drive\"?"),
    ] {
        assert!(ALONE.contains(from), "{from}");
        let (at, text) = refused(&ALONE.replacen(from, to, 1));
        assert!(text.contains(want), "{to}: {text}");
        assert_eq!(at, line, "{to}: {text}");
    }
    let streams = ALONE.find("[[case.stream]]").expect("streams");
    let relations = ALONE.find("[[relation]]").expect("relations");
    let (at, text) = refused(&format!("{}{}", &ALONE[..streams], &ALONE[relations..]));
    assert_eq!((at, text.contains("needs [[case.stream]]")), (8, true), "{text}");
}

/// A fresh SSD answers reads without its flash, so what is read must be there.
#[test]
fn an_ssd_reads_only_what_was_written() {
    let of = |lines: &str| {
        let text = ALONE.replace(
            "hdd = [\"wd100efax\"]",
            &format!("ssd = [\"960evo\"]\nssd_size = \"8GB\"\n{lines}"),
        );
        Experiment::parse(
            &text
                .replace("near =", "range = \"1GiB\"\nnear =")
                .replace("requests =", "range = \"1GiB\"\nrequests ="),
        )
    };
    for sound in
        ["", "ssd_state = \"used-50\"\nfill = \"1GiB\"", "ssd_state = \"fresh\"\nfill = \"1GiB\""]
    {
        of(sound).unwrap_or_else(|fault| panic!("{sound}: {}", fault.text));
    }
    for wrong in [
        "ssd_state = \"fresh\"",
        "ssd_state = \"used-50\"",
        "ssd_state = \"slc-full\"\nfill = \"1GB\"",
    ] {
        let fault = of(wrong).expect_err(wrong);
        assert!(fault.text.contains("it reads what was never written"), "{}", fault.text);
    }
    let fault = of("fill = \"9GB\"").expect_err("beyond the drive");
    assert!(fault.text.contains("more than the drive has"), "{}", fault.text);
}

/// A wrong number in a spec beside the experiment is seen: the verdict and the error change.
#[test]
fn a_wrong_number_of_a_spec_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let known = tandem_drives::spec::SPECS.iter().find(|known| known.name == "wd100efax");
    let spec = known.expect("known").text();
    let told = |spec: &str| {
        std::fs::write(folder.path().join("own.toml"), spec).expect("written");
        let text = ALONE.replace("\"wd100efax\"", "\"own.toml\"");
        let experiment = Experiment::parse_in(folder.path(), &text);
        verdicts(&experiment.unwrap_or_else(|fault| panic!("{}", fault.text))).remove(0)
    };
    let sound = told(spec);
    assert!(sound.holds && sound.error.is_some_and(|error| error < 1.1), "{sound:?}");
    let slow = "seek_average   = { value = \"9ms\"";
    assert!(spec.contains(slow) && spec.contains("value = 5400"), "the spec is another");
    for wrong in [
        spec.replace(slow, "seek_average   = { value = \"2ms\""),
        spec.replace("value = 5400", "value = 15000"),
    ] {
        let verdict = told(&wrong);
        assert!(!verdict.holds && verdict.error.is_some_and(|error| error > 1.2), "{verdict:?}");
    }
    let folderless = FilePath::new("");
    let text = ALONE.replace("\"wd100efax\"", "\"own.toml\"");
    assert!(Experiment::parse_in(folderless, &text).is_err(), "it lies beside the experiment");
}
