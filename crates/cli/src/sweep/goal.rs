//! What a sweep must come to, and whether it does.

use super::compare::Compared;
use super::file::{self, position};
use crate::run::schema;
use crate::toml_fault::Fault;
use serde::Serialize;
use toml::Spanned;

/// One goal, checked.
#[derive(Debug)]
pub(super) struct Goal {
    pub id: String,
    pub what: String,
    policy: usize,
    over: usize,
    pub fields: Vec<String>,
    bound: Bound,
}

#[derive(Debug, PartialEq)]
enum Bound {
    /// No field is more than so many times the other's, in so many percent of the cases, and in none more than `worst`.
    Cases { at_most: f64, percent: f64, worst: Option<f64> },
    /// The geometric mean of each field is at most so many times the other's.
    Mean { at_most: f64 },
    /// Over all cases, so great a part of what the other one spares is spared.
    Saves { at_least: f64, of: usize },
    /// None of these policies is better in one field and worse in none.
    Front { others: Vec<usize> },
}

/// What came out.
#[derive(Debug, Serialize, PartialEq)]
pub(super) struct Verdict {
    pub id: String,
    pub what: String,
    pub wanted: String,
    pub measured: String,
    pub holds: bool,
}

impl Goal {
    /// All goals of a file whose policies have these labels.
    pub fn all(
        entries: &[Spanned<file::Goal>],
        labels: &[&str],
        null: usize,
    ) -> Result<Vec<Goal>, Fault> {
        let mut goals: Vec<Goal> = Vec::new();
        for entry in entries {
            let goal = Goal::check(entry.get_ref(), labels, null)?;
            if goals.iter().any(|known| known.id == goal.id) {
                let id = &entry.get_ref().id;
                return Err(Fault::at(id, format!("there are two goals {:?}", goal.id)));
            }
            goals.push(goal);
        }
        Ok(goals)
    }

    fn check(entry: &file::Goal, labels: &[&str], null: usize) -> Result<Goal, Fault> {
        let policy = position(&entry.policy, labels, "policy")?;
        let over = match &entry.over {
            None => null,
            Some(label) => position(label, labels, "policy")?,
        };
        let mut fields = Vec::new();
        for field in &entry.fields {
            schema::check(&schema::of_a_run(), field.get_ref())
                .map_err(|why| Fault::at(field, why))?;
            fields.push(field.get_ref().clone());
        }
        if fields.is_empty() {
            return Err(Fault::at(&entry.id, "a goal names at least one field"));
        }
        let bound = bound(entry, labels)?;
        let id = entry.id.get_ref().clone();
        Ok(Goal { id, what: entry.what.clone(), policy, over, fields, bound })
    }

    /// Does it hold of these results?
    pub fn verdict(&self, compared: &Compared) -> Verdict {
        let (wanted, measured, holds) = match &self.bound {
            Bound::Cases { at_most, percent, worst } => {
                self.cases(compared, *at_most, *percent, *worst)
            }
            Bound::Mean { at_most } => self.mean(compared, *at_most),
            Bound::Saves { at_least, of } => self.saves(compared, *at_least, *of),
            Bound::Front { others } => self.front(compared, others),
        };
        Verdict { id: self.id.clone(), what: self.what.clone(), wanted, measured, holds }
    }

    fn cases(
        &self,
        compared: &Compared,
        at_most: f64,
        percent: f64,
        worst: Option<f64>,
    ) -> (String, String, bool) {
        let found = compared.within(self.policy, self.over, &self.fields, at_most);
        let share = found.held as f64 * 100.0 / found.cases.max(1) as f64;
        let mut wanted = format!("{at_most}x in {percent} % of cases");
        let mut measured = format!("{} of {} ({share:.1} %)", found.held, found.cases);
        let mut holds = found.cases > 0 && share >= percent;
        if let Some(worst) = worst {
            wanted = format!("{wanted}, worst {worst}x");
            holds &= found.worst.as_ref().is_none_or(|(factor, ..)| *factor <= worst);
        }
        if let Some((factor, field, case)) = &found.worst {
            measured = format!("{measured}, worst {factor:.2}x\n         ({field} of {case})");
        }
        (wanted, measured, holds)
    }

    fn mean(&self, compared: &Compared, at_most: f64) -> (String, String, bool) {
        let means = self.fields.iter().map(|field| compared.mean(self.policy, self.over, field));
        let means: Vec<Option<f64>> = means.collect();
        let holds = means.iter().all(|mean| mean.is_some_and(|mean| mean <= at_most));
        let words =
            means.iter().map(|mean| mean.map_or("none".into(), |mean| format!("{mean:.3}x")));
        (format!("at most {at_most}x"), words.collect::<Vec<_>>().join(", "), holds)
    }

    fn saves(&self, compared: &Compared, at_least: f64, of: usize) -> (String, String, bool) {
        let parts = self.fields.iter().map(|field| {
            let [ours, all] = compared.saved([self.policy, of], self.over, field);
            (all > 0.0).then(|| ours / all)
        });
        let parts: Vec<Option<f64>> = parts.collect();
        let holds = parts.iter().all(|part| part.is_some_and(|part| part >= at_least));
        let words = parts.iter().map(|part| match part {
            None => "there is nothing to spare".to_owned(),
            Some(part) => format!("{:.1} %", part * 100.0),
        });
        let wanted = format!("at least {} % of {}", at_least * 100.0, compared.labels[of]);
        (wanted, words.collect::<Vec<_>>().join(", "), holds)
    }

    fn front(&self, compared: &Compared, others: &[usize]) -> (String, String, bool) {
        let dominating = others.iter().filter(|other| {
            let means = self.fields.iter().map(|field| compared.mean(**other, self.policy, field));
            let means: Vec<f64> = means.flatten().collect();
            let is_better = means.iter().any(|mean| *mean < 1.0);
            is_better && means.iter().all(|mean| *mean <= 1.0)
        });
        let names: Vec<&str> = dominating.map(|other| compared.labels[*other].as_str()).collect();
        let measured = if names.is_empty() { "by none".into() } else { names.join(", ") };
        ("dominated by none".into(), measured, names.is_empty())
    }
}

fn bound(entry: &file::Goal, labels: &[&str]) -> Result<Bound, Fault> {
    let wrong = |text: &str| Err(Fault::at(&entry.id, text));
    for number in [entry.at_most, entry.worst, entry.mean_at_most].into_iter().flatten() {
        if !(number.is_finite() && number > 0.0) {
            return wrong("a factor is a number above 0");
        }
    }
    let of_cases = (entry.at_most, entry.percent_of_cases);
    if let (Some(at_least), Some(of), (None, None), None, None, None) = (
        entry.saves_at_least,
        &entry.of,
        of_cases,
        entry.worst,
        entry.mean_at_most,
        &entry.not_dominated_by,
    ) {
        if !(0.0..=1.0).contains(&at_least) {
            return wrong("saves_at_least is a number from 0 to 1");
        }
        return Ok(Bound::Saves { at_least, of: position(of, labels, "policy")? });
    }
    if entry.saves_at_least.is_some() || entry.of.is_some() {
        return wrong("saves_at_least and of stand together, and no other bound beside them");
    }
    match (of_cases, entry.mean_at_most, &entry.not_dominated_by) {
        ((Some(at_most), Some(percent)), None, None) => {
            if !(0.0..=100.0).contains(&percent) {
                return wrong("percent_of_cases is a number from 0 to 100");
            }
            Ok(Bound::Cases { at_most, percent, worst: entry.worst })
        }
        ((None, None), Some(at_most), None) if entry.worst.is_none() => Ok(Bound::Mean { at_most }),
        ((None, None), None, Some(others)) if entry.worst.is_none() => {
            let others = others.get_ref().iter().map(|word| position(word, labels, "policy"));
            Ok(Bound::Front { others: others.collect::<Result<_, _>>()? })
        }
        _ => wrong(
            "a goal has one bound: at_most with percent_of_cases (and perhaps worst), mean_at_most, \
             saves_at_least with of, or not_dominated_by",
        ),
    }
}
