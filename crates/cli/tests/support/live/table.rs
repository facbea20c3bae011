//! What did the live arm do? A table for people.

use super::lives::Outcome;
use std::fmt::Write as _;
use std::time::Duration;

/// All of it, without what was wrong.
pub fn table(outcome: &Outcome, took: Duration) -> String {
    let mut out = String::new();
    let Outcome { runs, lives, killed, stopped, lost, hung, .. } = outcome;
    let it = &outcome.requests;
    let requests = it.reads + it.writes + it.zeroes + it.trims + it.flushes + it.errors;
    let per_s = requests / took.as_secs().max(1);
    row(&mut out, "runs", &format!("{runs} in {} s", took.as_secs()));
    row(
        &mut out,
        "lives",
        &format!("{lives}, of which {killed} were killed and {stopped} stopped"),
    );
    row(&mut out, "requests", &format!("{requests}, {per_s} a second"));
    for (name, count) in [
        ("  reads", it.reads),
        ("  writes", it.writes),
        ("  zeroes", it.zeroes),
        ("  trims", it.trims),
        ("  flushes", it.flushes),
        ("  errors", it.errors),
        ("sectors compared", it.compared),
    ] {
        row(&mut out, name, &count.to_string());
    }
    for (op, count) in &outcome.files {
        row(&mut out, &format!("files: {op}"), &count.to_string());
    }
    for (verb, [done, refused, cut]) in &outcome.verbs {
        let text = format!("{done} done, {refused} refused, {cut} cut off by an end");
        row(&mut out, &format!("verb {verb}"), &text);
    }
    row(&mut out, "server's memory", &format!("{} MiB at most", outcome.most_kib / 1024));
    let mut growth: Vec<u64> = outcome.growth.iter().map(|it| it.percent()).collect();
    growth.sort_unstable();
    if let Some(most) = growth.last() {
        let (median, lives) = (growth[growth.len() / 2], growth.len());
        let text = format!(
            "{median} % at the end of what it was in the second quarter, median of {lives} long lives; \
             {most} % at most"
        );
        row(&mut out, "  its growth", &text);
    }
    row(&mut out, "lost", &lost.to_string());
    row(&mut out, "hung", &hung.to_string());
    out
}

fn row(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "{name:<18} {text}");
}
