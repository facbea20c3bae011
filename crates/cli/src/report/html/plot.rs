//! How is one chart drawn?
//!
//! Lines, bars and points over linear or logarithmic axes, as an SVG text. Colours are those of Okabe
//! and Ito, which people who see colours differently can tell apart.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (1000, 360);
const FONT: (&str, u32) = ("sans-serif", 14);

/// The colour of the `index`-th line, point or part.
pub(super) fn colour(index: usize) -> RGBColor {
    const COLOURS: [(u8, u8, u8); 9] = [
        (0, 114, 178),
        (213, 94, 0),
        (0, 158, 115),
        (204, 121, 167),
        (230, 159, 0),
        (86, 180, 233),
        (96, 96, 96),
        (180, 170, 30),
        (20, 20, 20),
    ];
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    RGBColor(red, green, blue)
}

/// One axis.
#[derive(Clone, Copy)]
pub(super) struct Axis<'a> {
    /// What is on it.
    pub name: &'a str,
    /// First and last value; above zero if logarithmic.
    pub range: (f64, f64),
    /// Logarithmic?
    pub log: bool,
    /// How a value is written.
    pub label: fn(f64) -> String,
}

/// Points by name.
pub type Series = Vec<(String, Vec<(f64, f64)>)>;

/// What is drawn between the axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Lines between the points.
    Line,
    /// Points with their names beside them.
    Point,
    /// Areas, each from the one before it upwards: values are sums already, largest first.
    Area,
}

/// Where the names of lines and areas stand.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// Where a falling line leaves room.
    BottomLeft,
    /// Beside the last value.
    TopRight,
}

/// Words within a chart, by the place of their middle.
pub(super) type Words<'a> = &'a [((f64, f64), String)];

/// A chart as SVG.
pub(super) fn chart(
    (x, y): (Axis<'_>, Axis<'_>),
    series: &Series,
    (mark, key): (Mark, Key),
    words: Words<'_>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|why| anyhow!("{why}"))?;
        // logarithms are taken here: one kind of chart is enough then
        let place = |axis: Axis<'_>, value: f64| {
            if axis.log { value.max(axis.range.0).log10() } else { value }
        };
        let range = |axis: Axis<'_>| {
            let (low, high) = (place(axis, axis.range.0), place(axis, axis.range.1));
            low..if high > low { high } else { low + 1.0 }
        };
        let placed: Series = series
            .iter()
            .map(|(name, points)| {
                (name.clone(), points.iter().map(|p| (place(x, p.0), place(y, p.1))).collect())
            })
            .collect();
        let (axes, how) = (((x, range(x)), (y, range(y))), (mark, key));
        draw(&area, axes, &placed, how, words).map_err(|why| anyhow!("{why}"))?;
        area.present().map_err(|why| anyhow!("{why}"))?;
    }
    Ok(svg)
}

type Backend<'a> = SVGBackend<'a>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

type Scale<'a> = (Axis<'a>, std::ops::Range<f64>);

fn draw(
    area: &DrawingArea<Backend<'_>, Shift>,
    ((x, x_range), (y, y_range)): (Scale<'_>, Scale<'_>),
    series: &Series,
    (mark, key): (Mark, Key),
    words: Words<'_>,
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(x_range, y_range)?;
    let word =
        |axis: Axis<'_>, value: f64| (axis.label)(if axis.log { 10f64.powf(value) } else { value });
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(RGBColor(228, 231, 235))
        .label_style(FONT)
        .axis_desc_style(FONT)
        .x_desc(x.name)
        .y_desc(y.name)
        .x_labels(if x.log { labels(x) } else { 10 })
        .y_labels(if y.log { labels(y) } else { 8 })
        .x_label_formatter(&|value| word(x, *value))
        .y_label_formatter(&|value| word(y, *value))
        .draw()?;
    for (index, (name, points)) in series.iter().enumerate() {
        let style = colour(index);
        let box_of =
            move |(x, y): (i32, i32)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], style.filled());
        match mark {
            Mark::Line => {
                let line = LineSeries::new(points.iter().copied(), style.stroke_width(2));
                chart.draw_series(line)?.label(name.as_str()).legend(box_of);
            }
            Mark::Area => {
                let area = AreaSeries::new(points.iter().copied(), 0.0, style.filled());
                chart.draw_series(area)?.label(name.as_str()).legend(box_of);
            }
            Mark::Point => {
                // names of points that lie on one another stand below one another
                let below = 12 * (index as i32 % 4) - 16;
                let text = |at: (f64, f64)| {
                    EmptyElement::at(at)
                        + Circle::new((0, 0), 5, style.filled())
                        + Text::new(name.clone(), (8, below), FONT)
                };
                chart.draw_series(points.iter().map(|&at| text(at)))?;
            }
        }
    }
    let middle = FONT.into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Bottom));
    for (at, word) in words {
        chart.draw_series([Text::new(word.clone(), *at, middle.clone())])?;
    }
    if mark != Mark::Point {
        chart
            .configure_series_labels()
            .position(match key {
                Key::BottomLeft => SeriesLabelPosition::LowerLeft,
                Key::TopRight => SeriesLabelPosition::UpperRight,
            })
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(203, 210, 217))
            .label_font(FONT)
            .draw()?;
    }
    Ok(())
}

/// One label for each power of ten.
fn labels(axis: Axis<'_>) -> usize {
    let decades = (axis.range.1 / axis.range.0).log10().ceil();
    (decades.max(1.0) as usize + 1).min(12)
}
