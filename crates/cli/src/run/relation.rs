//! Does what came out stand to itself as the paper says?
//!
//! A relation is structured, without an expression language: values at paths, perhaps divided by
//! others, held against bounds. What did not happen (no such request, a division by nothing) has no
//! value, and a relation over it does not hold.

use super::file;
use super::purpose::{Cause, Known, Purpose, error_factor};
use crate::toml_fault::Fault;
use serde_json::Value;
use tandem_block::Duration;
use tandem_traces::spell;
use toml::Spanned;

/// The rules for bounds, as experiments/README.md tells them.
const RULES: [&str; 6] =
    ["effect", "about equal", "amount", "share", "predictor share", "direction"];

/// A direction is a difference of 1 % at least: what is equal has none.
const DIRECTION_FACTOR: f64 = 1.01;

/// A place in a result: `case/policy/field.field`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The case.
    pub case: String,
    /// The policy's label.
    pub policy: String,
    /// The field of its run.
    pub field: String,
}

impl Path {
    pub(super) fn parse(text: &Spanned<String>) -> Result<Path, Fault> {
        let parts: Vec<&str> = text.get_ref().split('/').collect();
        let [case, policy, field] = parts[..] else {
            let text_of = format!("{:?} is no path: case/policy/field", text.get_ref());
            return Err(Fault::at(text, text_of));
        };
        Ok(Path { case: case.into(), policy: policy.into(), field: field.into() })
    }
}

/// A value, perhaps divided by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The value.
    pub value: Path,
    /// What it is divided by.
    pub over: Option<Path>,
}

/// What is asked of the terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// The one term is within the bounds.
    Within(Bounds),
    /// So many of the terms are.
    Count(Bounds, usize),
    /// Each term is above the one before it, and at least so many times as large.
    Rising(f64),
    /// Each term is below the one before it, which is at least so many times as large.
    Falling(f64),
}

/// Least and most, both allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Least.
    pub least: Option<f64>,
    /// Most.
    pub most: Option<f64>,
}

/// In what a value is counted, and so how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio that is told as a change: 0.39 is -61 %.
    Change,
    /// A ratio that is told as such.
    Factor,
    /// A part of a whole, told in percent.
    Share,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Anything else.
    Plain,
}

impl Bounds {
    /// Is the value within them?
    pub fn hold(self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

/// One relation of an experiment.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The item's number and the panel.
    pub id: String,
    /// What is compared.
    pub what: String,
    /// The paper's number.
    pub paper: String,
    /// One of `RULES`.
    pub rule: String,
    /// Values.
    pub terms: Vec<Term>,
    /// What is asked of them.
    pub test: Test,
    /// Why it does not hold, if it does not.
    pub why: Option<String>,
    /// Which of three reasons that is.
    pub cause: Option<Cause>,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a relation came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Our number, in the paper's terms.
    pub ours: String,
    /// Does it hold?
    pub holds: bool,
    /// How far our number is from the paper's, where it calibrates: a factor of at least 1.
    pub error: Option<f64>,
    /// There is a number to judge.
    pub has_value: bool,
}

impl Relation {
    /// From the file; paths are not looked up yet.
    pub(super) fn check(entry: &Spanned<file::Relation>) -> Result<Relation, Fault> {
        let file = entry.get_ref();
        let id = file.id.get_ref().clone();
        let wrong = |text: &str| Fault::at(&file.id, format!("relation {id}: {text}"));
        if !RULES.contains(&file.rule.get_ref().as_str()) {
            let nearest = spell::nearest(file.rule.get_ref(), RULES);
            let text = format!("{:?} is no rule; did you mean {nearest:?}?", file.rule.get_ref());
            return Err(Fault::at(&file.rule, text));
        }
        let values: Vec<Spanned<String>> = match (&file.value, &file.order, &file.count) {
            (Some(value), None, None) => vec![value.clone()],
            (None, Some(list), None) | (None, None, Some(list)) => list.get_ref().clone(),
            _ => return Err(wrong("give one of value, order, count")),
        };
        let terms = terms(&values, file.over.as_ref()).map_err(|fault| match fault.at {
            Some(_) => fault,
            None => wrong(&fault.text),
        })?;
        let purpose = Purpose::check(file)?;
        let test = match &purpose {
            Purpose::Calibrates(known) if has_no_test(file) => near(file, known).map_err(wrong)?,
            _ => test(file, terms.len()).map_err(wrong)?,
        };
        if let (Purpose::Calibrates(Known { published: Some(_), .. }), [_, _, ..]) =
            (&purpose, &terms[..])
        {
            return Err(wrong("a published number is compared with one value"));
        }
        Ok(Relation {
            id: id.clone(),
            what: file.what.clone(),
            paper: file.paper.clone(),
            rule: file.rule.get_ref().clone(),
            terms,
            test,
            why: file.why.clone(),
            cause: Cause::check(file)?,
            purpose,
        })
    }

    /// All paths in it.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.terms.iter().flat_map(|term| std::iter::once(&term.value).chain(&term.over))
    }

    /// The value of each term, or why it has none.
    pub fn values(
        &self,
        look_up: &dyn Fn(&Path) -> Result<f64, String>,
    ) -> impl Iterator<Item = Result<f64, String>> {
        self.terms.iter().map(move |term| term.value(look_up))
    }

    /// Looks the values up and compares them.
    pub fn verdict(&self, look_up: &dyn Fn(&Path) -> Result<f64, String>) -> Verdict {
        let published = self.purpose.known().and_then(|known| known.published);
        let values: Result<Vec<f64>, String> = self.values(look_up).collect();
        let values = match (values, self.test) {
            (Ok(values), _) => values,
            // of a count, what has no value does not count
            (Err(_), Test::Count(..)) => {
                self.values(look_up).map(|value| value.unwrap_or(f64::NAN)).collect()
            }
            (Err(why), _) => {
                // a number that did not come out is as far off as can be
                let error = published.map(|_| f64::INFINITY);
                return Verdict { ours: why, holds: false, error, has_value: false };
            }
        };
        let holds = match self.test {
            Test::Within(bounds) => bounds.hold(values[0]),
            Test::Count(bounds, least) => {
                values.iter().filter(|value| bounds_hold(bounds, **value)).count() >= least
            }
            Test::Rising(factor) => {
                values.windows(2).all(|pair| pair[1] > pair[0] && pair[1] >= pair[0] * factor)
            }
            Test::Falling(factor) => {
                values.windows(2).all(|pair| pair[1] < pair[0] && pair[1] * factor <= pair[0])
            }
        };
        let error = published.map(|published| error_factor(values[0], published));
        let ours = match self.test {
            Test::Count(bounds, _) => {
                let kept = values.iter().filter(|value| bounds_hold(bounds, **value)).count();
                format!("{kept} of {} ({})", values.len(), self.list(&values))
            }
            _ => self.list(&values),
        };
        let has_value = values.iter().any(|value| !value.is_nan());
        Verdict { ours, holds, error, has_value }
    }

    fn list(&self, values: &[f64]) -> String {
        let told: Vec<String> = values.iter().map(|value| self.tell(*value)).collect();
        told.join(", ")
    }

    /// In what its values are counted.
    pub fn unit(&self) -> Unit {
        let term = &self.terms[0];
        let field = &term.value.field;
        let is_change = matches!(self.rule.as_str(), "effect" | "about equal" | "direction");
        let is_share = self.paper.contains('%') || self.paper.contains(" of ");
        match term.over {
            Some(_) if is_change => Unit::Change,
            Some(_) if is_share => Unit::Share,
            Some(_) => Unit::Factor,
            None if field.ends_with("_ns") => Unit::Time,
            None if field.contains("bytes") => Unit::Bytes,
            None if field.contains("utilization") || field.contains("recall") => Unit::Share,
            None => Unit::Plain,
        }
    }

    /// A value as the paper would write it.
    pub fn tell(&self, value: f64) -> String {
        if !value.is_finite() {
            return if value.is_nan() { "none" } else { "infinite" }.into();
        }
        let is_whole = self.terms[0].over.is_none();
        match self.unit() {
            Unit::Change if value < 3.0 => format!("{:+.1} %", (value - 1.0) * 100.0),
            // of a part of another run's number, small parts of a percent may be what counts
            Unit::Share if is_whole => format!("{:.2} %", value * 100.0),
            Unit::Share => format!("{:.3} %", value * 100.0),
            Unit::Change | Unit::Factor if value < 0.01 => format!("{value:.2e}x"),
            Unit::Change | Unit::Factor => format!("{value:.3}x"),
            Unit::Time => Duration::from_ns(value as u64).to_string(),
            Unit::Bytes => {
                let in_gb = value == 0.0 || value >= 1e9;
                let (part, unit) = if in_gb { (value / 1e9, "GB") } else { (value / 1e6, "MB") };
                let rate = if self.terms[0].value.field.ends_with("_per_s") { "/s" } else { "" };
                format!("{part:.2} {unit}{rate}")
            }
            Unit::Plain if value >= 1e6 => format!("{:.2} M", value / 1e6),
            Unit::Plain => significant(value),
        }
    }
}

/// Whole numbers as they are, others in four digits: `0.03431`.
fn significant(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value}");
    }
    let places = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", places.clamp(1, 12) as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn bounds_hold(bounds: Bounds, value: f64) -> bool {
    !value.is_nan() && bounds.hold(value)
}

impl Term {
    fn value(&self, look_up: &dyn Fn(&Path) -> Result<f64, String>) -> Result<f64, String> {
        let value = look_up(&self.value)?;
        let Some(over) = &self.over else { return Ok(value) };
        let divisor = look_up(over)?;
        if divisor == 0.0 {
            return Err(format!("{}/{} is 0", over.case, over.policy));
        }
        Ok(value / divisor)
    }
}

fn terms(
    values: &[Spanned<String>],
    over: Option<&Spanned<file::Over>>,
) -> Result<Vec<Term>, Fault> {
    let paths: Vec<Path> = values.iter().map(Path::parse).collect::<Result<_, _>>()?;
    let spanned = |text: &String, at: &Spanned<file::Over>| Spanned::new(at.span(), text.clone());
    let divisors: Vec<Option<Path>> = match over {
        None => vec![None; paths.len()],
        Some(at) => match at.get_ref() {
            file::Over::One(one) if paths.len() == 1 => vec![Some(Path::parse(&spanned(one, at))?)],
            file::Over::Each(each) if each.len() == paths.len() => each
                .iter()
                .map(|text| Path::parse(&spanned(text, at)).map(Some))
                .collect::<Result<_, _>>()?,
            _ => return Err(Fault::whole("over needs one path for each value")),
        },
    };
    let pairs = paths.into_iter().zip(divisors);
    Ok(pairs.map(|(value, over)| Term { value, over }).collect())
}

fn has_no_test(file: &file::Relation) -> bool {
    file.value.is_some()
        && file.at_least.is_none()
        && file.at_most.is_none()
        && file.direction.is_none()
        && file.least_factor.is_none()
        && file.cases.is_none()
}

/// The bounds of a number that is only compared with the paper's: those of its rule.
fn near(file: &file::Relation, known: &Known) -> Result<Test, &'static str> {
    let Some(published) = known.published else {
        return Err("it needs `published`, or a bound: without either it could not fail");
    };
    let (least, most) = match file.rule.get_ref().as_str() {
        "about equal" => (published / 1.15, published * 1.15),
        "share" => (published - 0.05, published + 0.05),
        "predictor share" => (published - 0.01, published + 0.01),
        _ => (published / 2.0, published * 2.0),
    };
    Ok(Test::Within(Bounds { least: Some(least), most: Some(most) }))
}

fn test(file: &file::Relation, terms: usize) -> Result<Test, &'static str> {
    let bounds = Bounds { least: file.at_least, most: file.at_most };
    let is_direction = file.rule.get_ref() == "direction";
    let is_equal = |bound: Option<f64>| {
        bound.is_some_and(|bound| bound < DIRECTION_FACTOR && bound * DIRECTION_FACTOR > 1.0)
    };
    // a bound of 0.99 is the inverse of 1.01, but for a ten-thousandth
    if is_direction && file.over.is_some() && (is_equal(bounds.least) || is_equal(bounds.most)) {
        return Err("a direction needs a difference of 1 %: at_least = 1.01, or at_most = 0.99");
    }
    if file.order.is_some() {
        let least = if is_direction { DIRECTION_FACTOR } else { 1.0 };
        let given = file.least_factor.unwrap_or(1.0);
        let factor = given.max(least);
        if bounds != Bounds::default() || file.cases.is_some() {
            return Err("at_least, at_most and cases go with value and count");
        }
        if terms < 2 || given < 1.0 || given.is_nan() {
            return Err("an order needs two values or more, and a least_factor of at least 1");
        }
        return match file.direction.as_ref().map(|direction| direction.get_ref().as_str()) {
            Some("rising") => Ok(Test::Rising(factor)),
            Some("falling") => Ok(Test::Falling(factor)),
            _ => Err("an order needs a direction: \"rising\" or \"falling\""),
        };
    }
    if file.direction.is_some() || file.least_factor.is_some() {
        return Err("direction and least_factor go with order");
    }
    if bounds == Bounds::default() {
        return Err("it needs at_least or at_most: without a bound it could not fail");
    }
    if bounds.least.zip(bounds.most).is_some_and(|(least, most)| least > most) {
        return Err("at_least is above at_most");
    }
    match (file.count.is_some(), file.cases) {
        (false, None) => Ok(Test::Within(bounds)),
        (false, Some(_)) => Err("cases goes with count"),
        (true, Some(cases)) if (1..=terms).contains(&cases) => Ok(Test::Count(bounds, cases)),
        (true, _) => Err("count needs cases: how many of its values must keep the bounds"),
    }
}

/// The number at `field` of a run.
///
/// # Errors
/// Says what is not there: a percentile of no requests is no number.
pub fn field_of(run: &Value, field: &str) -> Result<f64, String> {
    let mut at = run;
    for name in field.split('.') {
        if let Some(index) = name.parse::<usize>().ok().filter(|_| at.is_array()) {
            at = &at[index];
        } else {
            at = &at[name];
        }
        // a distribution of nothing has no mean
        if at.get("count").and_then(Value::as_u64) == Some(0) && field.ends_with("_ns") {
            return Err(format!("no requests in {name}"));
        }
    }
    at.as_f64().ok_or_else(|| format!("no {field}"))
}

#[cfg(test)]
#[path = "relation_tests.rs"]
mod tests;
