//! Are wrong experiments told as such?

use super::experiment::Experiment;
use super::instead;
use super::null::Null;
use super::relation::Path;

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
        told(from, to, want);
    }
}

/// A relation says what it is for, and why it does not hold, in words that are known.
#[test]
fn mistakes_of_kinds_and_causes_are_named() {
    for (from, to, want) in [
        ("at_most = 0.59", "at_most = 0.59\nwhy = \"so\"", "M1.b has `why` without `cause`"),
        ("at_most = 0.59", "at_most = 0.59\ncause = \"ours\"", "M1.b has `cause` without `why`"),
        (
            "at_most = 0.59",
            "at_most = 0.59\nwhy = \"so\"\ncause = \"our\"",
            "cause is no \"our\"; did you mean \"ours\"?",
        ),
        (
            "at_most = 0.59",
            "at_most = 0.59\nkind = \"calibrate\"",
            "kind is no \"calibrate\"; did you mean \"calibrates\"?",
        ),
        (
            "at_most = 0.59",
            "kind = \"calibrates\"\npublished = 3.0",
            "M1.b calibrates, so it needs `source`",
        ),
        (
            "at_most = 0.59",
            "kind = \"calibrates\"\nsource = \"Table 1\"",
            "it needs `published`, or a bound",
        ),
        (
            "at_most = 0.59",
            "kind = \"calibrates\"\nsource = \"Table 1\"\npublished = 0.0",
            "0 is no number to compare with",
        ),
        ("at_most = 0.59", "at_most = 0.59\npublished = 3.0", "goes with kind = \"calibrates\""),
        ("at_most = 0.59", "at_most = 0.59\nsource = \"s\"", "goes with kind = \"calibrates\""),
        ("items =", "nulls = [\"ssd-frist\"]\nitems =", "did you mean \"ssd-first\"?"),
        ("items =", "nulls = [\"lru\", \"lru\"]\nitems =", "\"lru\" stands there twice"),
        ("name = \"b\"\n", "name = \"b\"\nssd_share = \"100%\"\n", "100%"),
        (
            "rule = \"effect\"",
            "rule = \"direction\"\nat_least = 1",
            "a direction needs a difference of 1 %",
        ),
        (
            "rule = \"effect\"",
            "rule = \"direction\"\nat_least = 0.995",
            "a direction needs a difference of 1 %",
        ),
    ] {
        told(from, to, want);
    }
}

/// The sound file with this part written otherwise is refused, in these words.
fn told(from: &str, to: &str, want: &str) {
    assert!(SOUND.contains(from), "{from}");
    let text = SOUND.replacen(from, to, 1);
    let fault = Experiment::parse(&text).expect_err(to);
    assert!(fault.text.contains(want), "{to}: {}", fault.text);
}

/// A drive alone has no policy, so nothing can stand in its place and nothing scores.
#[test]
fn a_drive_alone_has_no_null() {
    let alone = r#"
name = "one"
title = "t"
source = "s"
about = "a"
items = ["M1"]
[[case]]
name = "b"
kind = "staircase"
hdd = ["wd100efax"]
size = "4KiB"
[[relation]]
id = "M1.b"
what = "w"
paper = "35 us"
rule = "amount"
value = "b/drive/fast_ns"
at_most = 40000
"#;
    let fault = Experiment::parse(alone).expect_err("it scores");
    assert!(fault.text.contains("M1.b scores, but no case has a policy"), "{}", fault.text);
    assert_eq!(fault.at.map(|at| crate::toml_fault::line_of(alone, at)), Some(13));
    let with_null = alone.replace("items =", "nulls = [\"ssd-first\"]\nitems =");
    let fault = Experiment::parse(&with_null).expect_err("no policy");
    assert!(fault.text.contains("no case has a policy in whose place ssd-first"), "{}", fault.text);
    let known = format!("{alone}kind = \"calibrates\"\npublished = 35000.0\nsource = \"Fig. 4\"\n");
    assert!(Experiment::parse(&known).expect("sound").nulls.is_empty());
}

/// A null changes what runs, and neither the names nor what a drive alone does.
#[test]
fn nulls_stand_in_the_place_of_policies() {
    let told = |nulls: &str, policies: &str| {
        let text = SOUND.replace("items =", &format!("nulls = [{nulls}]\nitems ="));
        let text = text.replace("policies = [", &format!("policies = [{policies}"));
        let experiment = Experiment::parse(&text).unwrap_or_else(|fault| panic!("{}", fault.text));
        let instead = instead::in_place_of_policies(experiment.nulls[0], &experiment);
        let runs = |experiment: &Experiment| -> Vec<(String, String)> {
            let kind = &experiment.cases[0].kind;
            let of_one =
                |(label, which): (&str, _)| (label.to_owned(), super::work::key(kind, which));
            kind.runs().into_iter().map(of_one).collect()
        };
        (runs(&experiment), runs(&instead))
    };
    let line = "\"hdd-only\", ";
    let (before, after) = told("\"ssd-first\"", line);
    let labels =
        |runs: &[(String, String)]| runs.iter().map(|run| run.0.clone()).collect::<Vec<_>>();
    assert_eq!(labels(&before), labels(&after));
    assert_eq!(before[0], after[0], "the hard drive alone is no policy");
    assert_eq!(before[1], after[1], "ssd-first stands in its own place");
    assert_ne!(before[2], after[2]);
    assert_eq!(after[1].1, after[2].1, "the policy became ssd-first");

    let tiered =
        "{ policy = \"ssd-first\", label = \"t\", tier = \"hot-dst:size=1GiB,interval=5s\" }, ";
    let cache = "{ policy = \"ssd-first\", label = \"t\", tier = \"cache-write-through:size=1GiB,acknowledge=both\" }, ";
    let (_, of_tier) = told("\"lru\"", tiered);
    let (of_cache, same) = told("\"lru\"", cache);
    assert_eq!(of_tier[0].1, of_cache[0].1, "a cache of the same size");
    assert_eq!(of_cache, same, "a cache is its own null");
    let (before, after) = told("\"random\"", tiered);
    assert_eq!(before, after, "random placement is arithmetic");
}

/// Random placement takes the drives' own times by share, and an always-fast predictor finds the fast writes alone.
#[test]
fn nulls_that_do_not_run_have_their_values() {
    let text = SOUND
        .replace("name = \"b\"\n", "name = \"b\"\nssd_share = \"25%\"\n")
        .replace("policies = [", "policies = [\"hdd-only\", \"ssd-only\", ");
    let experiment = Experiment::parse(&text).expect("sound");
    let kind = &experiment.cases[0].kind;
    let took = [100.0, 10.0, 55.0, 66.0];
    let results: super::work::Results = std::iter::zip(kind.runs(), took)
        .map(|((_, which), took)| {
            (super::work::key(kind, which), Ok(serde_json::json!({ "elapsed_ns": took, "x": 1.0 })))
        })
        .collect();
    let value = |null: Option<Null>, policy: &str, field: &str| {
        let path = Path { case: "b".into(), policy: policy.into(), field: field.into() };
        instead::look_up(&experiment, null, &results, &path)
    };
    assert_eq!(value(None, "d", "elapsed_ns"), Ok(66.0));
    assert_eq!(value(Some(Null::Random), "d", "elapsed_ns"), Ok(77.5), "3/4 of 100 and 1/4 of 10");
    assert_eq!(value(Some(Null::Random), "hdd-only", "elapsed_ns"), Ok(100.0), "a drive alone");
    assert!(value(Some(Null::Random), "d", "x").is_err(), "random placement has times alone");

    let predictor = SOUND
        .replace(
            "workload = \"synth:zipf:requests=100\"\nssd = [\"960evo\"]\n",
            "kind = \"predictor\"\n",
        )
        .replace(
            "value = \"b/d/write.p99_ns\"\nover = \"b/ssd-first/write.p99_ns\"",
            "value = \"b/predictor/recall.slow\"",
        );
    let policies = predictor.find("policies = [").expect("a list");
    let end = predictor[policies..].find('\n').expect("a line") + policies;
    let predictor = predictor
        .replace(&predictor[policies..end], "size = \"64KiB\"\nrounds = 2\nround_bytes = 1048576");
    let experiment = Experiment::parse(&predictor).unwrap_or_else(|fault| panic!("{}", fault.text));
    assert_eq!(experiment.nulls, [Null::AlwaysFast]);
    let recall = ["recall.fast", "recall.mid", "recall.slow"].map(|field| {
        let path = Path { case: "b".into(), policy: "predictor".into(), field: field.into() };
        instead::look_up(&experiment, Some(Null::AlwaysFast), &results, &path)
    });
    assert_eq!(recall, [Ok(1.0), Ok(0.0), Ok(0.0)]);
}

/// A client that reads on a 510, with these further lines in the case and at the top of the file.
fn sharing(top: &str, case: &str, over: &str) -> Result<Experiment, String> {
    let text = format!(
        r#"
name = "one"
title = "t"
source = "s"
about = "a"
items = ["I1"]
{top}
[[case]]
name = "b"
kind = "sharing"
ssd = ["510"]
size = "16GB"
{case}
[[case.stream]]
name = "rr"
does = "random-read"
size = "4KiB"
[[relation]]
id = "I1.b"
what = "w"
paper = "more"
rule = "direction"
value = "b/edf/reads.per_s"
{over}
at_least = 1.01
"#
    );
    Experiment::parse(&text).map_err(|fault| fault.text)
}

/// What tells the runs of its case from others.
fn keys(experiment: &Experiment) -> Vec<String> {
    let kind = &experiment.cases[0].kind;
    kind.runs().into_iter().map(|(_, which)| super::work::key(kind, which)).collect()
}

/// Where nobody is protected, every order is served as the requests come, by one drive.
#[test]
fn unprotected_clients_have_one_drive_and_one_order() {
    let orders = "pair = { period = \"10s\" }\norders = [\"edf\", \"fifo\"]";
    let experiment = sharing("", orders, "over = \"b/fifo/reads.per_s\"").expect("sound");
    assert_eq!(experiment.nulls, [Null::Unprotected]);
    let instead = instead::in_place_of_policies(Null::Unprotected, &experiment);
    let (before, after) = (keys(&experiment), keys(&instead));
    assert_ne!(before[0], before[1]);
    assert_eq!(after[0], after[1], "both orders are one run");
    assert_ne!(after[1], before[1], "of one drive in the place of two");
    assert!(!after[0].contains("pair: Some"), "{}", after[0]);
    let together = keys(&instead::in_place_of_policies(Null::BothLegs, &experiment));
    assert_eq!(together[0], together[1], "both orders are one run");
    assert!(!before.contains(&together[0]) && !after.contains(&together[0]));
    assert!(together[0].contains("role_rule: Alike"), "{}", together[0]);
    assert!(together[0].contains("answer: Written"), "a write is answered by both legs");
}

/// Without a pair there is one drive under either null, and it runs once.
#[test]
fn one_drive_is_the_same_under_both_nulls() {
    let nulls = "nulls = [\"unprotected\", \"both-legs\"]";
    let experiment = sharing(nulls, "", "").expect("sound");
    let [one, both] = [Null::Unprotected, Null::BothLegs]
        .map(|null| keys(&instead::in_place_of_policies(null, &experiment)));
    assert_eq!(one, both);
}

/// How a pair shares its work is read from the file, and what it may not be called is told.
#[test]
fn a_pair_may_have_no_roles_and_need_not_settle() {
    let parse = |pair: &str| {
        let experiment = sharing("", &format!("pair = {{ {pair} }}"), "")?;
        Ok::<String, String>(keys(&experiment).remove(0))
    };
    for (pair, words) in [
        ("", ["role_rule: Alternate", "settles: true"]),
        ("settles = false", ["role_rule: Alternate", "settles: false"]),
        ("roles = \"none\"", ["role_rule: Alike", "settles: true"]),
    ] {
        let key = parse(pair).unwrap_or_else(|why| panic!("{why}"));
        assert!(words.iter().all(|word| key.contains(word)), "{pair}: {key}");
    }
    let why = parse("roles = \"both\"").expect_err("no such roles");
    assert!(why.contains("\"change\" or \"none\""), "{why}");
}

/// Runs that no relation names are left out, and drives alone stay: `random` is computed from them.
#[test]
fn only_named_runs_are_kept_and_drives_alone() {
    let labels = |experiment: &Experiment| {
        let runs = experiment.cases[0].kind.runs();
        runs.into_iter().map(|(label, _)| label.to_owned()).collect::<Vec<String>>()
    };
    let text = SOUND.replace("policies = [", "policies = [\"hdd-only\", \"ssd-only\", \"ect\", ");
    let whole = Experiment::parse(&text).expect("sound");
    assert_eq!(labels(&whole).len(), 5);
    let named = super::experiment::with_named_runs_only(whole);
    assert_eq!(labels(&named), ["hdd-only", "ssd-only", "ssd-first", "d"]);
    let orders = "orders = [\"edf\", \"fifo\", \"fios\"]";
    let clients = sharing("", orders, "over = \"b/fifo/reads.per_s\"").expect("sound");
    assert_eq!(labels(&super::experiment::with_named_runs_only(clients)), ["edf", "fifo"]);
}
