//! What came out for one relation?

use super::purpose::Cause;
use serde::Serialize;

/// One relation.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    pub id: String,
    pub what: String,
    pub paper: String,
    pub ours: String,
    /// Does it hold?
    pub holds: bool,
    pub why: Option<String>,
    /// Which of three reasons `why` is.
    pub cause: Option<Cause>,
    /// `scores`, `calibrates` or `built-in`.
    pub kind: &'static str,
    /// The paper's number, in the unit of the value, where it calibrates.
    pub published: Option<f64>,
    /// Where that number stands.
    pub source: Option<String>,
    /// How far our number is from the paper's, a factor of at least 1, where it calibrates.
    pub error: Option<f64>,
    /// The nulls under which it holds, too.
    pub holds_under: Vec<&'static str>,
    /// The nulls under which it does not hold.
    pub fails_under: Vec<&'static str>,
    /// It tells a policy from none: it scores, some null fails it, and none passes it.
    pub tells_apart: bool,
    /// Its file says why it does not hold, and it does.
    pub is_stale: bool,
    /// It is about a case that could not be run here: it counts neither way.
    pub skipped: bool,
}

impl Row {
    /// As texts: id, what, paper, ours, verdict.
    pub fn cells(&self) -> Vec<String> {
        let ours = match self.error {
            Some(error) => format!("{} ({error:.2}x)", self.ours),
            None => self.ours.clone(),
        };
        vec![self.id.clone(), self.what.clone(), self.paper.clone(), ours, self.verdict()]
    }

    /// In a few words, with what it is for where it does not score.
    pub fn verdict(&self) -> String {
        let word = match (self.skipped, self.holds) {
            (true, _) => return "skipped".into(),
            (false, true) => "holds",
            (false, false) => "DOES NOT HOLD",
        };
        match (self.kind, self.holds_under.as_slice()) {
            ("scores", []) => word.into(),
            ("scores", nulls) => format!("{word}, shared with {}", nulls.join(", ")),
            (kind, _) => format!("{word}, {kind}"),
        }
    }
}
