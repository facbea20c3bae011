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

/// A tier for all volumes is not one by volume, and makes another run.
#[test]
fn tiers_stand_beside_policies() {
    let told = |tier: &str| {
        let with_tier = format!("queue_length=3\", {tier}label");
        let text = SOUND.replace("queue_length=3\", label", &with_tier);
        let experiment = Experiment::parse(&text).expect("sound");
        let kind = &experiment.cases[0].kind;
        let runs = kind.runs();
        super::work::key(kind, runs[1].1)
    };
    let keys = [
        told(""),
        told("tier = \"hot-dst\", "),
        told("tier = \"hot-dst:size=1GiB\", "),
        told("tier = { \"0\" = \"hot-dst\" }, "),
        told("tier = { \"1\" = \"hot-dst\" }, "),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{key}");
    }
    let loops = SOUND.replace("name = \"b\"\n", "name = \"b\"\nclosed_loop = 4\n");
    let (plain, loops) = (Experiment::parse(SOUND), Experiment::parse(&loops));
    let key = |experiment: &Experiment| {
        let kind = &experiment.cases[0].kind;
        super::work::key(kind, kind.runs()[0].1)
    };
    assert_ne!(key(&plain.expect("sound")), key(&loops.expect("sound")));
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
        ("queue_length=3\"", "queue_length=3\", tier = \"hott-dst\"", "did you mean \"hot-dst\"?"),
        (
            "queue_length=3\"",
            "queue_length=3\", tier = { \"b\" = \"hot-dst\" }",
            "\"b\" is no volume",
        ),
        ("name = \"b\"\n", "name = \"b\"\nssd_size = \"8\"\n", "8"),
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
