//! What did the arms do? A table for people: a line an arm, and below it what was met.

use super::{Arm, Tally};
use crate::coverage::Met;
use std::fmt::Write as _;

/// No line is longer.
const WIDTH: usize = 116;
/// Where what was met begins.
const INDENT: usize = 11;

/// What one arm did.
pub struct Line {
    /// The arm.
    pub arm: &'static Arm,
    /// Seeds of which all runs ended.
    pub seeds: u64,
    /// Runs that ended: a seed under a policy.
    pub runs: u64,
    /// What they met.
    pub tally: Tally,
    /// Runs that failed.
    pub failed: u64,
    /// Time that the runs took, added up over all that ran side by side, in ns.
    pub spent_ns: u64,
}

impl Line {
    /// Nothing yet.
    pub fn new(arm: &'static Arm) -> Line {
        Line { arm, seeds: 0, runs: 0, tally: Tally::default(), failed: 0, spent_ns: 0 }
    }

    /// What it should have met and did not. Asked of whole seeds, all of whose runs ended well.
    pub fn missing(&self) -> Vec<String> {
        if self.failed == 0 { self.arm.missing(&self.tally, self.seeds) } else { Vec::new() }
    }
}

/// The arms that ran, `at_once` runs at a time, in `took_ns` ns.
pub fn table(lines: &[Line], at_once: u64, took_ns: u64) -> String {
    let mut out = String::new();
    row(&mut out, ["arm", "seeds", "runs", "crashes", "faults", "violated", "tries/h", "covered"]);
    let mut all = [0; 5];
    for line in lines {
        let met = line.tally.total();
        let (crashes, faults) = (met.get(Met::Crashes), met.get(Met::Faults));
        let alone_ns = line.spent_ns / at_once.max(1);
        for (sum, more) in all.iter_mut().zip([line.seeds, line.runs, crashes, faults, line.failed])
        {
            *sum += more;
        }
        row(
            &mut out,
            [
                line.arm.name,
                &grouped(line.seeds),
                &grouped(line.runs),
                &grouped(crashes),
                &grouped(faults),
                &grouped(line.failed),
                &short(per_hour(crashes + faults, alone_ns)),
                &covered(line),
            ],
        );
    }
    let [_, runs, crashes, faults, failed] = all;
    let rate = short(per_hour(crashes + faults, took_ns));
    let [runs, crashes, faults, failed] = [runs, crashes, faults, failed].map(grouped);
    row(&mut out, ["all", "", &runs, &crashes, &faults, &failed, &rate, ""]);
    out
}

/// What each arm is for and what it met.
pub fn details(lines: &[Line]) -> String {
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{:<INDENT$}{}", line.arm.name, line.arm.what);
        let met = line.tally.total();
        let counts: Vec<String> =
            met.met().map(|(name, count)| format!("{} {name}", short(count))).collect();
        wrapped(&mut out, &counts);
    }
    out
}

fn row(out: &mut String, cells: [&str; 8]) {
    let [arm, seeds, runs, crashes, faults, violated, rate, covered] = cells;
    let line = format!(
        "{arm:<10} {seeds:>6} {runs:>6} {crashes:>11} {faults:>9} {violated:>8} {rate:>8}  {covered}"
    );
    let _ = writeln!(out, "{}", line.trim_end());
}

/// How many of the floors were reached, and which is the nearest.
fn covered(line: &Line) -> String {
    if line.seeds == 0 {
        return String::new();
    }
    let wanted = line.arm.wanted(&line.tally, line.seeds);
    let reached = wanted.iter().filter(|(_, met, least)| met >= least).count();
    let nearest = wanted.iter().min_by_key(|(_, met, least)| met * 100 / least.max(&1));
    let Some((what, met, least)) = nearest else { return String::new() };
    format!("{reached} of {}; {} {} of {}", wanted.len(), what.name(), short(*met), short(*least))
}

/// So many in so long, an hour.
fn per_hour(count: u64, ns: u64) -> u64 {
    let rate = u128::from(count) * 3_600_000_000_000 / u128::from(ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number in five characters or fewer: 950, 1.2k, 34k, 5.6M.
fn short(number: u64) -> String {
    let mut tenths = u128::from(number) * 10;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if tenths < 10_000 {
            let has_tenths = tenths < 100 && !unit.is_empty();
            let part = if has_tenths { format!(".{}", tenths % 10) } else { String::new() };
            return format!("{}{part}{unit}", tenths / 10);
        }
        tenths /= 1000;
    }
    number.to_string()
}

/// Words in lines that are indented and not too long.
fn wrapped(out: &mut String, words: &[String]) {
    let mut line = String::new();
    for (index, word) in words.iter().enumerate() {
        let end = if index + 1 < words.len() { "," } else { "" };
        if INDENT + line.chars().count() + word.chars().count() + 2 > WIDTH {
            let _ = writeln!(out, "{:INDENT$}{}", "", line.trim_end());
            line.clear();
        }
        let _ = write!(line, "{word}{end} ");
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{:INDENT$}{}", "", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms;
    use crate::coverage::Coverage;

    /// Every arm with the largest counts that there will be.
    fn large() -> Vec<Line> {
        let counts = vec![123_456_789; Coverage::default().counts().len()];
        let met = Coverage::from_counts(&counts).expect("as many as there are");
        let line = |arm: &'static Arm| {
            let mut line = Line { seeds: 12_345, runs: 98_765, ..Line::new(arm) };
            arm.count(&mut line.tally, arm.policies[0], met);
            line.spent_ns = 3_600_000_000_000;
            line
        };
        arms::all().map(line).collect()
    }

    #[test]
    fn no_line_is_longer_than_a_screen() {
        let lines = large();
        for text in [table(&lines, 2, 1 << 45), details(&lines)] {
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    #[test]
    fn a_row_says_what_an_arm_did_and_what_it_met_too_little_of() {
        let arm = arms::find("small").expect("there is such an arm");
        let mut line = Line { seeds: 2, runs: 8, spent_ns: 7_200_000_000_000, ..Line::new(arm) };
        let mut met = Coverage::default();
        met.add(Met::Crashes, 12_345);
        met.add(Met::InCommit, 2_999);
        arm.count(&mut line.tally, "mios-d", met);
        let text = table(&[line], 2, 3_600_000_000_000);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..7], ["small", "2", "8", "12,345", "0", "0", "12k"], "{text}");
        assert_eq!(row[7..9].join(" "), "1 of", "{text}");
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("all ") && last.contains(" 12,345 "), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1.0k"), (34_567, "34k"), (5_600_000, "5.6M")]
        {
            assert_eq!(short(number), text);
        }
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(123), "123");
    }
}
