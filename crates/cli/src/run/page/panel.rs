//! The relations of one panel of a figure as plots: one for each unit, a row a relation.

use super::scale::Scale;
use super::strip::{self, Look, Strip};
use crate::report::html::escape;
use crate::run::relation::{Relation, Test, Unit};
use crate::run::row::Row;
use crate::run::stated;
use std::fmt::Write as _;
use tandem_block::Duration;

/// Longest text of a cell, in characters: what failed may say more than anybody reads.
const CELL_CHARS_MAX: usize = 400;
/// Longest words of the paper beside its mark, in characters.
const PAPER_CHARS_MAX: usize = 18;

/// A relation with what came out.
pub struct Entry<'a> {
    /// What is told of it.
    pub row: &'a Row,
    /// What was asked; none: an item without a relation.
    pub relation: Option<&'a Relation>,
    /// Our values, and not a number where there is none.
    pub values: Vec<f64>,
}

/// What stands on one axis: a unit, and of plain numbers their field.
type Axis<'a> = (Unit, &'a str);

impl<'a> Entry<'a> {
    fn axis(&self) -> Option<Axis<'a>> {
        let relation = self.relation.filter(|_| !self.row.skipped)?;
        let unit = relation.unit();
        let field = match unit {
            Unit::Plain => counted_in(&relation.terms[0].value.field),
            _ => "",
        };
        Some((unit, field))
    }

    /// Everything of it that has a place on its axis.
    fn numbers(&self) -> impl Iterator<Item = f64> {
        let relation = self.relation;
        let bounds = relation.and_then(bounds).map(|(least, most)| [least, most]);
        let paper = relation.and_then(stated::number);
        self.values.iter().copied().chain(paper).chain(bounds.into_iter().flatten().flatten())
    }

    fn look(&self) -> Look {
        match (self.row.holds, self.row.kind) {
            (false, _) => Look::Fails,
            (true, "calibrates") => Look::Calibrates,
            (true, "built-in") => Look::BuiltIn,
            (true, _) if !self.row.holds_under.is_empty() => Look::Shared,
            (true, _) => Look::Holds,
        }
    }
}

/// The end of a field's name: of a statistic with what it is of, as in `10s.p5`.
fn counted_in(field: &str) -> &str {
    let mut starts = field.rmatch_indices('.').map(|(at, _)| at + 1);
    let last = starts.next().unwrap_or(0);
    match &field[last..] {
        "mean" | "max" | "min" | "p5" | "deviation" => &field[starts.next().unwrap_or(0)..],
        name => name,
    }
}

/// The bound of each value.
fn bounds(relation: &Relation) -> Option<(Option<f64>, Option<f64>)> {
    match relation.test {
        Test::Within(bounds) | Test::Count(bounds, _) => Some((bounds.least, bounds.most)),
        Test::Rising(_) | Test::Falling(_) => None,
    }
}

/// All of a panel. `with_nulls`: nulls were run.
pub fn render(item: &str, entries: &[Entry<'_>], with_nulls: bool, html: &mut String) {
    let counted = entries.iter().filter(|entry| !entry.row.skipped).count();
    let hold = entries.iter().filter(|entry| entry.row.holds && !entry.row.skipped).count();
    let name = heading(item);
    let item = if name == item { String::new() } else { format!("{item}, ") };
    let (name, item) = (escape(&name), escape(&item));
    let _ = writeln!(html, "<h3>{name} <small>{item}{hold} of {counted} hold</small></h3>");
    let mut axes: Vec<Option<Axis<'_>>> = Vec::new();
    for entry in entries {
        if !axes.contains(&entry.axis()) {
            axes.push(entry.axis());
        }
    }
    for axis in axes {
        let shown: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.axis() == axis).collect();
        group(axis, &shown, with_nulls, html);
    }
}

fn group(axis: Option<Axis<'_>>, entries: &[&Entry<'_>], with_nulls: bool, html: &mut String) {
    html.push_str("<div class=\"plot\">\n");
    let is_ratio = axis.is_some_and(|(unit, _)| matches!(unit, Unit::Change | Unit::Factor));
    let scale = Scale::of(entries.iter().flat_map(|entry| entry.numbers()), is_ratio);
    entries.iter().for_each(|entry| row(entry, &scale, with_nulls, html));
    if let Some((unit, field)) = axis.filter(|_| entries.iter().any(|entry| has_place(entry))) {
        let kind = if scale.is_log() { ", logarithmic" } else { "" };
        let _ = writeln!(
            html,
            "<div class=\"what scale\">{}{kind}</div>{}",
            escape(&axis_name(unit, field)),
            strip::axis(&scale, |value| tick(unit, value))
        );
    }
    html.push_str("</div>\n");
}

/// Is there anything to draw?
fn has_place(entry: &Entry<'_>) -> bool {
    entry.numbers().any(|number| !number.is_nan())
}

fn row(entry: &Entry<'_>, scale: &Scale, with_nulls: bool, html: &mut String) {
    let row = entry.row;
    let _ = write!(
        html,
        "<div class=\"what\">{} <small>{}</small></div>",
        escape(&row.what),
        escape(&row.id)
    );
    match entry.relation {
        Some(relation) if has_place(entry) && !row.skipped => {
            html.push_str(&drawn(entry, relation, scale));
        }
        _ => html.push_str("<div class=\"at none\"></div>"),
    }
    html.push_str("<div class=\"said\">");
    let look = entry.look();
    let mark = if row.skipped { String::new() } else { strip::sample(Some(look)) };
    let _ = write!(html, "<b>{mark}{}</b>", escape(&row.verdict()));
    if let Some(relation) = entry.relation {
        said(row, relation, with_nulls, html);
    }
    html.push_str("</div>\n");
    if let Some(why) = &row.why {
        let cause = row.cause.map_or("", |cause| cause.told());
        let _ = writeln!(html, "<p class=\"why\">Why: {}{}</p>", cause, escape(why));
    }
}

/// The paper's words, ours, what was asked, and what that is worth.
fn said(row: &Row, relation: &Relation, with_nulls: bool, html: &mut String) {
    let mut line = |name: &str, text: &str| {
        let _ = write!(html, "<span><i>{name}</i> {}</span> ", escape(&brief(text)));
    };
    line("paper", &row.paper);
    line("ours", &row.ours);
    line("asked", &asked(relation));
    match row.error {
        Some(error) if error.is_finite() => line("off by", &format!("{error:.2}x")),
        Some(_) => line("off by", "no factor: there is nothing to compare"),
        None => {}
    }
    if let Some(source) = &row.source {
        line("source", source);
    }
    if with_nulls && row.kind == "scores" && row.holds_under.is_empty() && !row.skipped {
        match row.fails_under.as_slice() {
            [] => line("null", "none has a number"),
            nulls => line("null", &format!("{} fails it", nulls.join(", "))),
        }
    }
}

fn drawn(entry: &Entry<'_>, relation: &Relation, scale: &Scale) -> String {
    let words = relation.paper.split(" (").next().unwrap_or_default();
    let word = |number| match words.chars().count() {
        0..=PAPER_CHARS_MAX => words.to_owned(),
        _ => relation.tell(number),
    };
    let ours = match entry.values[..] {
        [value] if !value.is_nan() => Some(relation.tell(value)),
        _ => None,
    };
    let strip = Strip {
        scale,
        band: bounds(relation),
        paper: stated::number(relation).map(|number| (number, word(number))),
        ours: &entry.values,
        word: ours,
        is_numbered: matches!(relation.test, Test::Rising(_) | Test::Falling(_)),
        look: entry.look(),
        label: format!("paper: {}; ours: {}", brief(&relation.paper), brief(&entry.row.ours)),
    };
    strip.cell()
}

/// What the test wants, in words.
fn asked(relation: &Relation) -> String {
    let tell = |value: f64| relation.tell(value);
    let within = |least: Option<f64>, most: Option<f64>| match (least, most) {
        (Some(least), Some(most)) => format!("{} to {}", tell(least), tell(most)),
        (Some(least), None) => format!("at least {}", tell(least)),
        (None, Some(most)) => format!("at most {}", tell(most)),
        (None, None) => String::new(),
    };
    let by = |factor: f64| match factor {
        factor if factor > 1.0 => format!(" {factor}x at least"),
        _ => String::new(),
    };
    match relation.test {
        Test::Within(bounds) => within(bounds.least, bounds.most),
        Test::Count(bounds, count) => {
            let all = relation.terms.len();
            format!("{}, in {count} of {all}", within(bounds.least, bounds.most))
        }
        Test::Rising(factor) => format!("each above the one before,{}", by(factor)),
        Test::Falling(factor) => format!("each below the one before,{}", by(factor)),
    }
    .trim_end_matches(',')
    .to_owned()
}

/// The text, or the beginning of a long one.
fn brief(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn axis_name(unit: Unit, field: &str) -> String {
    match unit {
        Unit::Change => "change",
        Unit::Factor => "ratio",
        Unit::Share => "share",
        Unit::Time => "time",
        Unit::Bytes => "bytes",
        Unit::Plain => return field.replace("per_s", "per second").replace(['_', '.'], " "),
    }
    .to_owned()
}

/// A round value beside an axis.
fn tick(unit: Unit, value: f64) -> String {
    let scaled = |units: &[(f64, &str)]| {
        let found = units.iter().find(|(factor, _)| value >= *factor);
        let (factor, name) = found.or(units.last()).expect("there are units");
        format!("{} {name}", short(value / factor))
    };
    match unit {
        Unit::Change if value == 1.0 => "0 %".into(),
        Unit::Change if value < 3.0 => {
            let sign = if value > 1.0 { "+" } else { "" };
            format!("{sign}{} %", short((value - 1.0) * 100.0))
        }
        Unit::Change | Unit::Factor => format!("{}x", short(value)),
        Unit::Share => format!("{} %", short(value * 100.0)),
        Unit::Time if value == 0.0 => "0".into(),
        Unit::Time => Duration::from_ns(value as u64).to_string().replace(".0 ", " "),
        Unit::Bytes if value == 0.0 => "0".into(),
        Unit::Bytes => scaled(&[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]),
        Unit::Plain if value >= 1e6 => scaled(&[(1e9, "G"), (1e6, "M")]),
        Unit::Plain => short(value),
    }
}

/// Three digits, without zeroes at the end.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if digits > 8 {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.*}", digits.max(0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// "M35.fig9.a" is "Fig. 9 (a)", and "M36.table3.b" is "Table 3 (b)"; any other item is called as it is.
fn heading(item: &str) -> String {
    let mut parts = item.split('.').skip(1);
    let Some(first) = parts.next() else { return item.to_owned() };
    for (word, name) in [("fig", "Fig."), ("table", "Table")] {
        let Some(number) = first.strip_prefix(word).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let panels: Vec<&str> = parts.collect();
        return match panels.as_slice() {
            [] => format!("{name} {number}"),
            panels => format!("{name} {number} ({})", panels.join(", ")),
        };
    }
    item.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_called_as_the_papers_call_them() {
        for (item, want) in [
            ("M35.fig9.a", "Fig. 9 (a)"),
            ("M36.table3.b", "Table 3 (b)"),
            ("I19.fig15a", "Fig. 15a"),
            ("I6", "I6"),
            ("M44.fig15.blocked", "Fig. 15 (blocked)"),
            ("M4.count", "M4.count"),
        ] {
            assert_eq!(heading(item), want);
        }
    }

    #[test]
    fn an_axis_is_called_by_its_field() {
        for (field, want) in [
            ("all.per_s", "per second"),
            ("streams.rr.windows.10s.p5", "10s p5"),
            ("needed", "needed"),
            ("ssd.queue_depth_max", "queue depth max"),
        ] {
            assert_eq!(axis_name(Unit::Plain, counted_in(field)), want);
        }
    }

    #[test]
    fn round_values_are_short() {
        for (unit, value, want) in [
            (Unit::Change, 0.5, "-50 %"),
            (Unit::Change, 1.0, "0 %"),
            (Unit::Change, 2.0, "+100 %"),
            (Unit::Change, 5.0, "5x"),
            (Unit::Share, 0.2, "20 %"),
            (Unit::Time, 20_000.0, "20 us"),
            (Unit::Time, 1_500_000.0, "1.5 ms"),
            (Unit::Bytes, 5e9, "5 GB"),
            (Unit::Plain, 1500.0, "1500"),
            (Unit::Plain, 0.15, "0.15"),
            (Unit::Factor, 1e-9, "1e-9x"),
        ] {
            assert_eq!(tick(unit, value), want, "{unit:?} {value}");
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = "ä".repeat(CELL_CHARS_MAX + 1);
        assert_eq!(brief(&text).chars().count(), CELL_CHARS_MAX + 1, "and says so: …");
        assert_eq!(brief("short"), "short");
    }
}
