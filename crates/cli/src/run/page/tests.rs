//! Does the page show what it should, whatever the papers and the runs say?

use super::super::experiment::{Experiment, Which};
use super::super::report;
use super::super::work::{Results, key};
use super::*;
use serde_json::json;

const CASE: &str = r#"
name = "bcw-one"
title = "<b>bold</b> & \"quoted\""
source = "BCW Fig. 1"
about = "made <i>for</i> a test"
items = ["M1.fig1.a", "M2", "M3"]
[[case]]
name = "b"
workload = "synth:zipf:requests=100"
ssd = ["960evo"]
hdd = ["wd100efax"]
policies = ["ssd-first", { policy = "mios-d:queue_length=3", label = "d" }]
"#;

/// A relation of the p99 under `d` over that under `ssd-first`.
fn relation(id: &str, rest: &str) -> String {
    format!(
        "[[relation]]\nid = \"{id}\"\nvalue = \"b/d/write.p99_ns\"\n\
         over = \"b/ssd-first/write.p99_ns\"\n{rest}\n"
    )
}

/// The page, where `d` took so long and `ssd-first` so long; of no writes there is no number.
fn page(relations: &[String], took_ns: [f64; 2], writes: u64) -> String {
    let experiment = Experiment::parse(&(CASE.to_owned() + &relations.concat())).expect("sound");
    let case = &experiment.cases[0].kind;
    let latency = |ns: f64| json!({ "write": { "count": writes, "p99_ns": ns } });
    let results: Results = case
        .runs()
        .into_iter()
        .map(|(label, which): (&str, Which<'_>)| {
            let ns = if label == "d" { took_ns[0] } else { took_ns[1] };
            (key(case, which), Ok(latency(ns)))
        })
        .collect();
    let experiments = [experiment];
    let document = report::document(&experiments, &results, false);
    render(&document, &experiments, &results, false).expect("it is drawn")
}

fn has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
}

#[test]
fn every_text_is_text() {
    let rest = "what = \"<script>x</script>\"\npaper = \"a < b\"\nrule = \"effect\"\nat_most = 0.5\n\
                why = \"1 & 2\"\ncause = \"ours\"";
    let page = page(&[relation("M1.fig1.a.x", rest)], [90.0, 100.0], 5);
    has(
        &page,
        &[
            "<title>&lt;b&gt;bold&lt;/b&gt; &amp; &quot;quoted&quot;</title>",
            "made &lt;i&gt;for&lt;/i&gt; a test",
            "&lt;script&gt;x&lt;/script&gt;",
            "a &lt; b",
            "Why: ours. 1 &amp; 2",
        ],
    );
    assert!(!page.contains("<script"));
}

/// The paper's number is read from its words; without one there are only the bound and our mark.
#[test]
fn the_papers_point_stands_beside_ours() {
    let effect = |id: &str, paper: &str| {
        let rest = format!("what = \"w\"\npaper = \"{paper}\"\nrule = \"effect\"\nat_most = 0.624");
        relation(id, &rest)
    };
    let hollow = |page: &str| page.matches("<path class=\"paper\"").count();
    let with = page(&[effect("M1.fig1.a.x", "-61 %")], [50.0, 100.0], 5);
    has(&with, &["Fig. 1 (a)", "-50.0 %</text>", "-61 %</text>", "at most -37.6 %", "1 of 1 hold"]);
    assert_eq!(hollow(&with), 2, "in the legend and in the plot");
    let without = page(&[effect("M1.fig1.a.x", "less")], [50.0, 100.0], 5);
    has(&without, &["<i>paper</i> less", "class=\"band\"", "-50.0 %</text>"]);
    assert_eq!(hollow(&without), 1, "in the legend alone");
}

/// What did not happen has no mark of ours, but its row says so.
#[test]
fn what_did_not_happen_has_no_mark() {
    let rest = "what = \"w\"\npaper = \"-61 %\"\nrule = \"effect\"\nat_most = 0.624";
    let page = page(&[relation("M1.fig1.a.x", rest)], [50.0, 100.0], 0);
    has(&page, &["<i>ours</i> no requests in write", "DOES NOT HOLD", "-61 %</text>"]);
    let failing = page.matches("<path class=\"fails\"").count();
    assert_eq!(failing, 2 + 2, "legend, verdict, and two items without a relation");
}

#[test]
fn infinite_and_zero_stand_at_an_end_of_the_axis() {
    let rest = "what = \"w\"\npaper = \"-61 %\"\nrule = \"effect\"\nat_most = 0.624";
    let with = |took_ns| page(&[relation("M1.fig1.a.x", rest)], took_ns, 5);
    has(&with([1e300, 1e-300]), &["infinite</text>", "<svg x=\"97.00%\"", "class=\"beyond\""]);
    has(&with([0.0, 100.0]), &["-100.0 %</text>", "<svg x=\"3.00%\"", "class=\"beyond\""]);
    let calibrates = "what = \"w\"\npaper = \"2x\"\nrule = \"effect\"\nkind = \"calibrates\"\n\
                      published = 2\nsource = \"Fig. 1\"";
    let none = page(&[relation("M1.fig1.a.x", calibrates)], [50.0, 100.0], 0);
    has(&none, &["there is nothing to compare", ">no factor</td>"]);
    for text in [none, with([1e300, 1e-300])] {
        assert!(!text.contains("NaN") && !text.contains("inf%"), "no place has such a number");
    }
}

/// Values that must rise are numbered in their order; those that are counted are not.
#[test]
fn only_an_order_is_numbered() {
    let several = |rest: &str| {
        let text = "[[relation]]\nid = \"M1.fig1.a.x\"\nwhat = \"w\"\npaper = \"rises\"\nrule = \"amount\"\n";
        page(&[format!("{text}{rest}\n")], [90.0, 30.0], 5)
    };
    let paths = "[\"b/ssd-first/write.p99_ns\", \"b/d/write.p99_ns\"]";
    let order = several(&format!("order = {paths}\ndirection = \"rising\""));
    has(&order, &["1</text>", "2</text>", "each above the one before", "30 ns, 90 ns"]);
    let count = several(&format!("count = {paths}\nat_least = 50\ncases = 1"));
    has(&count, &["at least 50 ns, in 1 of 2", "1 of 2 (30 ns, 90 ns)"]);
    assert!(!count.contains("1</text>"), "their order says nothing");
}

/// An item without a relation is told, and what is skipped counts neither way.
#[test]
fn an_item_without_a_relation_is_a_row() {
    let rest = "what = \"w\"\npaper = \"-61 %\"\nrule = \"effect\"\nat_most = 0.624";
    let page = page(&[relation("M1.fig1.a.x", rest)], [50.0, 100.0], 5);
    has(
        &page,
        &["an item of the paper without a relation", "<h3>M2 <small>0 of 1 hold", "1 of 3 (33 %)"],
    );
}
