//! Which number stands in the paper's words?
//!
//! Only words that are a number and nothing else: "-61 %", "12.8x", "35 us", "4.1 of 61.2 GB", "525/s". What
//! stands in brackets behind is a remark. "more than 90 %" or "less" have no number that could be drawn.

use super::relation::{Relation, Unit};
use tandem_block::Quantity;

/// The paper's number in the unit of the relation's value.
pub fn number(relation: &Relation) -> Option<f64> {
    if let Some(published) = relation.purpose.known().and_then(|known| known.published) {
        return Some(published);
    }
    if relation.terms.len() != 1 {
        return None;
    }
    let text = relation.paper.split(" (").next().unwrap_or_default().trim();
    let unit = relation.unit();
    if let Some((part, whole)) = text.split_once(" of ") {
        return is_ratio(unit).then(|| part_of(part, whole)).flatten();
    }
    match unit {
        Unit::Time => parsed(Quantity::Time, text),
        Unit::Bytes => parsed(Quantity::Bytes, text),
        Unit::Change => change(text),
        Unit::Share | Unit::Factor | Unit::Plain => plain(text),
    }
}

fn is_ratio(unit: Unit) -> bool {
    matches!(unit, Unit::Change | Unit::Share | Unit::Factor)
}

/// "-61 %" is 0.39, and "+40 %" is 1.4.
fn change(text: &str) -> Option<f64> {
    if text.starts_with(['+', '-']) && text.ends_with('%') {
        return Some(1.0 + percent(text)?);
    }
    plain(text)
}

/// A number alone, in percent, a factor, or a rate.
fn plain(text: &str) -> Option<f64> {
    if text.ends_with('%') {
        return percent(text).filter(|share| *share >= 0.0);
    }
    let number = text.strip_suffix('x').or(text.strip_suffix("/s")).unwrap_or(text);
    decimal(number)
}

fn percent(text: &str) -> Option<f64> {
    Some(decimal(text.strip_suffix('%')?.trim())? / 100.0)
}

/// "4.1 of 61.2 GB", "521 us of 90 ms": a unit that stands once is that of both.
fn part_of(part: &str, whole: &str) -> Option<f64> {
    let both = |part: &str, whole: &str| {
        let each = [Quantity::Bytes, Quantity::Time].into_iter();
        each.map(|quantity| Some(parsed(quantity, part)? / parsed(quantity, whole)?))
            .find_map(|ratio| ratio)
    };
    let (number, unit) = whole.split_once(' ').unwrap_or((whole, ""));
    let of_one_unit = || Some(decimal(part)? / decimal(number)?);
    let is_known = unit.chars().all(char::is_alphabetic);
    both(part, whole).or_else(|| is_known.then(of_one_unit).flatten())
}

fn parsed(quantity: Quantity, text: &str) -> Option<f64> {
    quantity.parse(text).ok().map(|value| value as f64)
}

/// As people write it: no "inf", no exponent.
fn decimal(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let comma = digits.replace(',', "");
    let is_number = comma.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if is_number { comma.parse::<f64>().ok().map(|number| sign * number) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::experiment::Experiment;
    use super::super::items::files;
    use super::super::relation::Test;
    use super::*;

    #[test]
    fn only_a_number_is_one() {
        for (text, want) in [
            ("-61 %", Some(0.39)),
            ("+40 %", Some(1.4)),
            ("12.8x", Some(12.8)),
            ("525 of 1,100", Some(525.0 / 1100.0)),
            ("521 us of 90 ms", Some(521.0 / 90_000.0)),
            ("4.1 of 61.2 GB", Some(4.1 / 61.2)),
            ("720 of 4453 thousand", Some(720.0 / 4453.0)),
            ("2.4x (derived)", Some(2.4)),
            ("less", None),
            ("more than 90 %", None),
            ("within 3 %", None),
            ("-65 % to -2 %", None),
            ("10 % of the average", None),
            ("2kT", None),
            ("inf", None),
            ("", None),
        ] {
            let found = match text.split(" (").next().and_then(|text| text.split_once(" of ")) {
                Some((part, whole)) => part_of(part, whole),
                None => change(text.split(" (").next().expect("text")),
            };
            let is_right = match (found, want) {
                (Some(found), Some(want)) => (found - want).abs() < 1e-9,
                (found, want) => found == want,
            };
            assert!(is_right, "{text:?}: {found:?}, not {want:?}");
        }
    }

    /// A number that was misread would not keep the bound that was made from it.
    #[test]
    fn the_papers_own_number_keeps_the_bound() {
        let mut drawn = 0;
        for path in files() {
            let experiment = Experiment::read(&path).expect("sound");
            for relation in &experiment.relations {
                let Some(number) = number(relation) else { continue };
                drawn += 1;
                let Test::Within(bounds) = relation.test else {
                    panic!("{}: a number of several values", relation.id);
                };
                assert!(
                    bounds.hold(number),
                    "{}: {:?} is read as {number}, beyond {bounds:?}",
                    relation.id,
                    relation.paper
                );
            }
        }
        assert!(drawn >= 150, "{drawn} relations have a number");
    }
}
