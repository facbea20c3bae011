//! What is the number of relations that hold worth?
//!
//! All that score are counted first. Then only those that a null fails and none passes: they tell a policy
//! from none. What no null has a number for is told apart from neither, and is counted by itself.
//! What calibrates and what is built in never counts. Errors of what calibrates are summed up by their median.

use super::row::Row;
use serde::Serialize;
use std::fmt::Write as _;

/// So many, and how many of them hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Relations.
    pub all: usize,
    /// Those that hold.
    pub hold: usize,
}

/// The score of some relations.
#[derive(Debug, PartialEq, Serialize)]
pub struct Score {
    /// Relations that score, skipped ones left out.
    pub scored: Share,
    /// Those that a null fails and none passes. None: no null was run.
    pub discriminating: Option<Share>,
    /// Those for which no null has a number.
    pub without_null: Option<Share>,
    /// Relations that compare an input with a paper.
    pub calibrates: Share,
    /// The median of how far the inputs are from the paper's numbers, a factor. None: there is no number.
    pub error_median: Option<f64>,
    /// The greatest such factor.
    pub error_max: Option<f64>,
    /// Relations that are true by construction.
    pub built_in: Share,
}

impl Share {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Share {
        rows.fold(Share::default(), |share, row| Share {
            all: share.all + 1,
            hold: share.hold + usize::from(row.holds),
        })
    }

    /// In whole percent, rounded down.
    pub fn percent(self) -> usize {
        self.hold * 100 / self.all.max(1)
    }
}

impl Score {
    /// Of these rows. `with_nulls`: nulls were run.
    pub fn of<'a>(rows: impl Iterator<Item = &'a Row>, with_nulls: bool) -> Score {
        let rows: Vec<&Row> = rows.filter(|row| !row.skipped).collect();
        let of_kind = |kind: &'static str| rows.iter().copied().filter(move |r| r.kind == kind);
        let told_apart = || of_kind("scores").filter(|row| row.tells_apart);
        let untold = |row: &&Row| row.holds_under.is_empty() && row.fails_under.is_empty();
        let mut errors: Vec<f64> = rows.iter().filter_map(|row| row.error).collect();
        errors.sort_by(f64::total_cmp);
        Score {
            scored: Share::of(of_kind("scores")),
            discriminating: with_nulls.then(|| Share::of(told_apart())),
            without_null: with_nulls.then(|| Share::of(of_kind("scores").filter(untold))),
            calibrates: Share::of(of_kind("calibrates")),
            error_median: median(&errors),
            error_max: errors.last().copied(),
            built_in: Share::of(of_kind("built-in")),
        }
    }

    /// In a few lines.
    pub fn text(&self) -> String {
        let Share { all, hold } = self.scored;
        let mut text = String::new();
        if all > 0 {
            let percent = self.scored.percent();
            let _ = writeln!(text, "{hold} of {all} relations hold ({percent} %)");
        }
        if let Some(apart) = self.discriminating.filter(|share| share.all > 0) {
            let _ = writeln!(
                text,
                "{} of {} that no null passes hold ({} %): these tell a policy from none",
                apart.hold,
                apart.all,
                apart.percent()
            );
        }
        if let Some(Share { all, hold }) = self.without_null.filter(|share| share.all > 0) {
            let _ = writeln!(text, "{hold} of {all} for which no null has a number hold");
        }
        if self.calibrates.all > 0 {
            let Share { all, hold } = self.calibrates;
            let _ = write!(text, "{hold} of {all} that calibrate hold");
            if let (Some(median), Some(max)) = (self.error_median, self.error_max) {
                let _ = write!(
                    text,
                    "; the inputs are {median:.2}x off in the median, {max:.2}x at most"
                );
            }
            text.push('\n');
        }
        if self.built_in.all > 0 {
            let Share { all, hold } = self.built_in;
            let _ = writeln!(text, "{hold} of {all} that are built in hold");
        }
        text
    }
}

/// The middle of sorted numbers: of an even count the mean of the two.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &'static str, holds: bool, under: &[&'static str], error: Option<f64>) -> Row {
        let tells_apart = kind == "scores" && under.is_empty();
        let fails_under = if tells_apart { vec!["lru"] } else { Vec::new() };
        let holds_under = under.to_vec();
        Row { kind, holds, holds_under, fails_under, tells_apart, error, ..Row::default() }
    }

    #[test]
    fn only_what_no_null_passes_tells_a_policy_from_none() {
        let rows = [
            row("scores", true, &[], None),
            row("scores", true, &["random"], None),
            row("scores", false, &[], None),
            row("scores", false, &["random", "lru"], None),
            Row { kind: "scores", holds: true, ..Row::default() },
            row("calibrates", true, &[], Some(1.5)),
            row("calibrates", false, &[], Some(4.0)),
            row("calibrates", true, &[], None),
            row("built-in", true, &[], None),
            Row { skipped: true, ..row("scores", true, &[], Some(99.0)) },
        ];
        let score = Score::of(rows.iter(), true);
        assert_eq!(score.scored, Share { all: 5, hold: 3 });
        assert_eq!(score.without_null, Some(Share { all: 1, hold: 1 }));
        assert_eq!(score.discriminating, Some(Share { all: 2, hold: 1 }));
        assert_eq!(score.calibrates, Share { all: 3, hold: 2 });
        assert_eq!((score.error_median, score.error_max), (Some(2.75), Some(4.0)));
        assert_eq!(score.built_in, Share { all: 1, hold: 1 });
        let text = score.text();
        for part in [
            "3 of 5 relations hold (60 %)",
            "1 of 1 for which no null has a number hold",
            "1 of 2 that no null passes hold (50 %)",
            "2 of 3 that calibrate hold; the inputs are 2.75x off in the median, 4.00x at most",
            "1 of 1 that are built in hold",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let without = Score::of(rows.iter(), false);
        assert_eq!(without.discriminating, None, "nothing is claimed that was not run");
        assert!(!without.text().contains("no null"), "{}", without.text());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }
}
