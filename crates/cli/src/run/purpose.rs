//! What is a relation for, and why does one not hold?
//!
//! Only a relation that scores says something of a policy. The others say what the inputs are worth.

use super::file;
use crate::toml_fault::Fault;
use serde::Serialize;
use tandem_traces::spell;
use toml::Spanned;

/// What a relation is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// It says whether a policy does what the paper says.
    Scores,
    /// It compares an input with a number of the paper that no policy touches.
    Calibrates(Known),
    /// It is true by construction: a constant of a model, or an input of the workload.
    BuiltIn,
}

/// What a paper says of something that no policy touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The paper's number, in the unit of the value. None: the paper has an order or a direction.
    pub published: Option<f64>,
    /// Where it stands: a table, a figure, a section.
    pub source: String,
}

/// Why a relation does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The paper contradicts itself.
    Contradiction,
    /// The paper does not give an input.
    UnknownInput,
    /// We are worse, or our system is another.
    Ours,
}

impl Cause {
    const NAMED: [(&str, Cause); 3] = [
        ("contradiction", Cause::Contradiction),
        ("unknown-input", Cause::UnknownInput),
        ("ours", Cause::Ours),
    ];

    /// Before a reason, in a sentence of its own.
    pub fn told(self) -> &'static str {
        match self {
            Cause::Contradiction => "the paper contradicts itself. ",
            Cause::UnknownInput => "an input is unknown. ",
            Cause::Ours => "ours. ",
        }
    }

    /// The cause that a relation names.
    ///
    /// # Errors
    /// A word that is none, a cause without a reason, or a reason without a cause.
    pub(super) fn check(file: &file::Relation) -> Result<Option<Cause>, Fault> {
        let id = file.id.get_ref();
        match (&file.cause, &file.why) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let text = format!(
                    "relation {id} has `why` without `cause`: \"contradiction\", \"unknown-input\" or \"ours\""
                );
                Err(Fault::at(&file.id, text))
            }
            (Some(cause), None) => {
                Err(Fault::at(cause, format!("relation {id} has `cause` without `why`")))
            }
            (Some(cause), Some(_)) => named("cause", cause, Cause::NAMED.iter().copied()).map(Some),
        }
    }
}

impl Purpose {
    /// The purpose that a relation names.
    ///
    /// # Errors
    /// A kind that there is not, a number without a source, or a source that nothing needs.
    pub(super) fn check(file: &file::Relation) -> Result<Purpose, Fault> {
        let id = file.id.get_ref();
        let kinds = [("calibrates", true), ("built-in", false)];
        let kind = file.kind.as_ref().map(|kind| named("kind", kind, kinds.into_iter()));
        if let Some(true) = kind.transpose()? {
            let Some(source) = &file.source else {
                let text = format!(
                    "relation {id} calibrates, so it needs `source`: the paper's table, figure or section"
                );
                return Err(Fault::at(&file.id, text));
            };
            let published = file.published.as_ref().map(published).transpose()?;
            return Ok(Purpose::Calibrates(Known { published, source: source.get_ref().clone() }));
        }
        if let Some(published) = &file.published {
            let text = format!("relation {id}: `published` goes with kind = \"calibrates\"");
            return Err(Fault::at(published, text));
        }
        if let Some(source) = &file.source {
            let text = format!("relation {id}: `source` goes with kind = \"calibrates\"");
            return Err(Fault::at(source, text));
        }
        Ok(if file.kind.is_some() { Purpose::BuiltIn } else { Purpose::Scores })
    }

    /// What the paper says, where it calibrates.
    pub fn known(&self) -> Option<&Known> {
        match self {
            Purpose::Calibrates(known) => Some(known),
            Purpose::Scores | Purpose::BuiltIn => None,
        }
    }

    /// As results call it.
    pub fn name(&self) -> &'static str {
        match self {
            Purpose::Scores => "scores",
            Purpose::Calibrates(_) => "calibrates",
            Purpose::BuiltIn => "built-in",
        }
    }
}

/// A number of a paper. An error is a factor, so nothing can be compared with 0.
fn published(value: &Spanned<f64>) -> Result<f64, Fault> {
    let number = *value.get_ref();
    if number.is_finite() && number > 0.0 {
        return Ok(number);
    }
    Err(Fault::at(value, format!("{number} is no number to compare with: it must be above 0")))
}

/// The value of this word.
fn named<T>(
    key: &str,
    word: &Spanned<String>,
    known: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<T, Fault> {
    let found = known.clone().find(|(name, _)| name == word.get_ref());
    found.map(|(_, value)| value).ok_or_else(|| {
        let nearest = spell::nearest(word.get_ref(), known.map(|(name, _)| name));
        Fault::at(word, format!("{key} is no {:?}; did you mean {nearest:?}?", word.get_ref()))
    })
}

/// How far a number is from the paper's: the greater divided by the smaller, at least 1.
pub fn error_factor(ours: f64, published: f64) -> f64 {
    if ours <= 0.0 { f64::INFINITY } else { (ours / published).max(published / ours) }
}
