//! Are wrong experiments told as such?

use super::experiment::Experiment;

const SOUND: &str = r#"
name = "one"
title = "t"
source = "s"
about = "a"
items = ["M1"]
[[case]]
name = "b"
workload = "synth:zipf:requests=100"
ssd = ["960evo"]
hdd = ["wd100efax"]
policies = ["ssd-first", { policy = "mios-d:queue_length=3", label = "d" }]
[[relation]]
id = "M1.b"
what = "w"
paper = "-65 %"
rule = "effect"
value = "b/d/write.p99_ns"
over = "b/ssd-first/write.p99_ns"
at_most = 0.59
"#;

#[test]
fn a_sound_file_is_read() {
    let experiment = Experiment::parse(SOUND).expect("sound");
    assert_eq!((experiment.cases.len(), experiment.relations.len()), (1, 1));
    assert_eq!(experiment.missing().count(), 0);
    let other = SOUND.replace("items = [\"M1\"]", "items = [\"M1\", \"M2\", \"M\"]");
    let experiment = Experiment::parse(&other).expect("sound");
    assert_eq!(experiment.missing().collect::<Vec<_>>(), ["M2", "M"], "M1.b is not of M");
}

#[test]
fn mistakes_are_named() {
    for (from, to, want) in [
        ("title =", "titel =", "unknown key \"titel\"; did you mean \"title\"?"),
        ("at_most =", "atmost =", "unknown key \"atmost\"; did you mean \"at_most\"?"),
        ("about = \"a\"\n", "", "missing key `about`"),
        ("\"960evo\"", "\"970evo\"", "did you mean `960evo`"),
        ("mios-d:", "moisd:", "no steering policy is called \"moisd\"; did you mean \"mios-d\"?"),
        ("queue_length", "queue", "did you mean \"queue_length\"?"),
        ("value = \"b/", "value = \"c/", "there is no case \"c\"; did you mean \"b\"?"),
        ("value = \"b/d/", "value = \"b/e/", "case \"b\" has no policy \"e\"; did you mean \"d\"?"),
        ("write.p99_ns\"\nover", "write.p999ns\"\nover", "did you mean \"p999_ns\"?"),
        ("\"b/d/write.p99_ns\"", "\"b/d\"", "is no path: case/policy/field"),
        ("rule = \"effect\"", "rule = \"efect\"", "did you mean \"effect\"?"),
        ("at_most = 0.59\n", "", "needs at_least or at_most"),
        ("at_most = 0.59", "at_most = 0.59\nat_least = 0.7", "at_least is above at_most"),
        ("at_most = 0.59", "at_most = 0.59\ndirection = \"rising\"", "go with order"),
        (
            "value = \"b/d/",
            "count = [\"b/d/x\"]\nvalue = \"b/d/",
            "give one of value, order, count",
        ),
        ("name = \"b\"\n", "name = \"b\"\nkind = \"replya\"\n", "did you mean \"replay\"?"),
        ("name = \"b\"\n", "name = \"b\"\nlog = \"8\"\n", "8"),
        ("name = \"b\"\n", "name = \"b\"\nmeasure = \"both\"\n", "measure is"),
        ("name = \"b\"\n", "name = \"b\"\nssd_state = \"new\"\n", "steady, or used-1 to used-99"),
        ("label = \"d\"", "label = \"ssd-first\"", "two policies labelled"),
    ] {
        assert!(SOUND.contains(from), "{from}");
        let text = SOUND.replacen(from, to, 1);
        let fault = Experiment::parse(&text).expect_err(to);
        assert!(fault.text.contains(want), "{to}: {}", fault.text);
    }
}
