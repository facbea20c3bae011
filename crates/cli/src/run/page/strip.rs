//! One row of a plot, and the axis below several.
//!
//! Places are percentages of the width, so that a row fits a telephone and a wide screen, and its marks and
//! words keep their size. Colours are classes of the page's style.

use super::scale::Scale;
use crate::report::html::escape;
use std::fmt::Write as _;

/// Where the only line of marks stands in a row, and the two of a row that has the paper's, in pixels from
/// its top. A row is as high as its words want, and no lower than the class says.
const ONLY: u32 = 13;
const UPPER: u32 = 11;
const LOWER: u32 = 31;
/// Right of this, words stand left of their mark.
const TURN_PERCENT: f64 = 60.0;

/// How a value of ours looks: a shape and a class of the style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It scores, and holds.
    Holds,
    /// It does not hold, whatever it is for.
    Fails,
    /// It scores, but a null passes it.
    Shared,
    /// It calibrates.
    Calibrates,
    /// It is built in.
    BuiltIn,
}

/// The paper's value.
const HOLLOW: (&str, &str) = ("paper", "M-6,0a6,6 0 1,0 12,0a6,6 0 1,0 -12,0z");

impl Look {
    /// All, in the order of a legend.
    pub const ALL: [Look; 5] =
        [Look::Holds, Look::Fails, Look::Shared, Look::Calibrates, Look::BuiltIn];

    fn class_and_shape(self) -> (&'static str, &'static str) {
        match self {
            Look::Holds => ("holds", "M-6,0a6,6 0 1,0 12,0a6,6 0 1,0 -12,0z"),
            Look::Fails => {
                ("fails", "M-6,-4l2,-2 4,4 4,-4 2,2 -4,4 4,4 -2,2 -4,-4 -4,4 -2,-2 4,-4z")
            }
            Look::Shared => ("shared", "M-5,-5h10v10h-10z"),
            Look::Calibrates => ("calibrates", "M0,-7l7,7 -7,7 -7,-7z"),
            Look::BuiltIn => ("builtin", "M0,-6l7,12h-14z"),
        }
    }

    /// In words, for the legend.
    pub fn meaning(self) -> &'static str {
        match self {
            Look::Holds => "holds",
            Look::Fails => "does not hold",
            Look::Shared => "holds, but a null passes it too: it does not count",
            Look::Calibrates => "an input that is near the paper's",
            Look::BuiltIn => "true by construction",
        }
    }
}

/// What is shown in a row.
pub struct Strip<'a> {
    /// The axis.
    pub scale: &'a Scale,
    /// Least and most, where the bound has them; none: no band is drawn.
    pub band: Option<(Option<f64>, Option<f64>)>,
    /// The paper's value and its words.
    pub paper: Option<(f64, String)>,
    /// Our values, and the words of one.
    pub ours: &'a [f64],
    /// Words beside ours, where it is one.
    pub word: Option<String>,
    /// Each of ours has its number: they must rise, or fall.
    pub is_numbered: bool,
    /// How ours look.
    pub look: Look,
    /// For who cannot see it.
    pub label: String,
}

impl Strip<'_> {
    /// As a cell of the plot.
    pub fn cell(&self) -> String {
        let class = if self.paper.is_some() { "at two" } else { "at" };
        let mut svg = format!(
            "<div class=\"{class}\"><svg class=\"strip\" role=\"img\" aria-label=\"{}\">",
            escape(&self.label)
        );
        self.band(&mut svg);
        for tick in self.scale.ticks() {
            let class = if tick == 1.0 && self.scale.is_log() { "one" } else { "grid" };
            line(&mut svg, self.scale.place(tick).percent, class);
        }
        if let Some((least, most)) = self.band {
            for bound in [least, most].into_iter().flatten() {
                line(&mut svg, self.scale.place(bound).percent, "edge");
            }
        }
        if let Some((value, words)) = &self.paper {
            mark(&mut svg, (self.scale, *value, UPPER), HOLLOW);
            self.word(&mut svg, *value, UPPER, words);
        }
        let y = if self.paper.is_some() { LOWER } else { ONLY };
        for (number, value) in self.ours.iter().enumerate() {
            if value.is_nan() {
                continue;
            }
            mark(&mut svg, (self.scale, *value, y), self.look.class_and_shape());
            if self.is_numbered {
                self.word(&mut svg, *value, y, &(number + 1).to_string());
            }
        }
        if let (Some(word), [value]) = (&self.word, self.ours) {
            self.word(&mut svg, *value, y, word);
        }
        svg.push_str("</svg></div>");
        svg
    }

    fn band(&self, svg: &mut String) {
        let Some((least, most)) = self.band else { return };
        let left = least.map_or(0.0, |least| self.scale.place(least).percent);
        let right = most.map_or(100.0, |most| self.scale.place(most).percent);
        let width = (right - left).max(0.0);
        let _ = write!(
            svg,
            "<rect class=\"band\" x=\"{left:.2}%\" y=\"0\" width=\"{width:.2}%\" height=\"100%\"/>"
        );
    }

    /// Words beside a mark, on the side where there is room.
    fn word(&self, svg: &mut String, value: f64, y: u32, words: &str) {
        let percent = self.scale.place(value).percent;
        let (class, dx) = if percent > TURN_PERCENT { (" class=\"left\"", -11) } else { ("", 11) };
        let _ = write!(
            svg,
            "<text{class} x=\"{percent:.2}%\" dx=\"{dx}\" y=\"{}\">{}</text>",
            y + 4,
            escape(words)
        );
    }
}

/// The axis: round values below the rows.
pub fn axis(scale: &Scale, tell: impl Fn(f64) -> String) -> String {
    let mut svg = String::from("<div class=\"at\"><svg class=\"strip axis\" aria-hidden=\"true\">");
    for tick in scale.ticks() {
        let percent = scale.place(tick).percent;
        let _ = write!(
            svg,
            "<line class=\"edge\" x1=\"{percent:.2}%\" x2=\"{percent:.2}%\" y1=\"0\" y2=\"5\"/>\
             <text x=\"{percent:.2}%\" y=\"17\">{}</text>",
            escape(&tell(tick))
        );
    }
    svg.push_str("</svg></div>");
    svg
}

/// A mark among words.
pub fn sample(look: Option<Look>) -> String {
    let (class, shape) = look.map_or(HOLLOW, Look::class_and_shape);
    format!(
        "<svg class=\"sample\" width=\"16\" height=\"16\" viewBox=\"-8 -8 16 16\" aria-hidden=\"true\">\
         <path class=\"{class}\" d=\"{shape}\"/></svg>"
    )
}

fn line(svg: &mut String, percent: f64, class: &str) {
    let _ = write!(
        svg,
        "<line class=\"{class}\" x1=\"{percent:.2}%\" x2=\"{percent:.2}%\" y1=\"0\" y2=\"100%\"/>"
    );
}

/// A mark at its value. One beyond the end of the axis has an arrow there.
fn mark(svg: &mut String, (scale, value, y): (&Scale, f64, u32), (class, shape): (&str, &str)) {
    let place = scale.place(value);
    let _ = write!(
        svg,
        "<svg x=\"{:.2}%\" y=\"{y}\"><path class=\"{class}\" d=\"{shape}\"/>",
        place.percent
    );
    if place.is_beyond {
        let arrow = if place.percent > 50.0 { "M9,-5l6,5 -6,5" } else { "M-9,-5l-6,5 6,5" };
        let _ = write!(svg, "<path class=\"beyond\" d=\"{arrow}\"/>");
    }
    svg.push_str("</svg>");
}
