//! What happened in a replay, on one page to look at?
//!
//! Self-contained: tables and SVG, no script, nothing loaded from elsewhere. A page is one trace under
//! some policies; charts are drawn by `plotters` and say in a line below what they show.

mod charts;
mod plot;
mod staircase;

pub use charts::{Chart, Column, REASONS, Trade, columns, tail, trade};
pub use plot::Series;

use crate::report::{json, table, unreliable};
use std::fmt::Write as _;
use tandem_block::Duration;
use tandem_engine::Role;
use tandem_engine::profile::staircase::Stream;
use tandem_engine::qos::cost::{CostTable, UNBOUNDED_NS};
use tandem_sim::replay::{DriveChoice, RunResult};

/// MiB of each stream that are drawn: a fast stage and some mid ones of the largest buffers.
const PLOT_MIB: f64 = 48.0;

/// What a page is made of.
pub struct Page<'a> {
    /// What was replayed.
    pub title: &'a str,
    /// Lines about trace, drives and start.
    pub facts: &'a [String],
    /// The hard drives, for their staircases.
    pub hdds: &'a [DriveChoice],
    /// (policy, what came out)
    pub runs: Vec<(&'a str, &'a RunResult)>,
}

/// The staircase of measured streams as SVG; `None` if nothing was measured.
///
/// # Errors
/// If it cannot be drawn.
pub fn staircase_svg(streams: &[Stream]) -> anyhow::Result<Option<String>> {
    let series = streams.iter().map(|stream| {
        let size = stream.write_bytes as f64 / (1 << 20) as f64;
        let points = stream.latencies_ns.iter().enumerate();
        let points = points.map(|(number, ns)| (number as f64 * size, *ns as f64));
        (table::bytes(stream.write_bytes), points.take_while(|p| p.0 < PLOT_MIB).collect())
    });
    charts::steps(&series.collect())
}

/// What can be reserved over which window, [IANUS Figs 6, 7, 13]: of each kind, size and
/// depth at the highest confidence up to 95 %, at most nine lines.
///
/// # Errors
/// If it cannot be drawn.
pub fn reservable_svg(table: &CostTable) -> anyhow::Result<String> {
    const LINES_MAX: usize = 9;
    let confidences = &table.confidences_ppm;
    let at = confidences.iter().rposition(|ppm| *ppm <= 950_000).unwrap_or(0);
    let series = table.rows.iter().take(LINES_MAX).map(|row| {
        let points = table.windows_ns.iter().enumerate().map(|(window, ns)| {
            let cost = row.cost_ns[window * confidences.len() + at];
            let rate = if cost == UNBOUNDED_NS { 0.0 } else { 1e9 / cost as f64 };
            (*ns as f64 / 1e9, rate)
        });
        (format!("{} {}", row.kind, table::bytes(row.size_bytes)), points.collect())
    });
    charts::reservable(&series.collect())
}

const STYLE: &str = include_str!("style.css");

/// The page.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn render(page: &Page<'_>) -> anyhow::Result<String> {
    let mut body = String::new();
    for fact in page.facts {
        body.push_str(&note(fact));
    }
    body.push_str("<h2>Results</h2>\n");
    results(page, &mut body);
    for chart in charts::all(page)? {
        body.push_str(&figure(2, &chart));
    }
    Ok(document(page.title, "", &body))
}

/// A page with this title, a style of its own, and this body, which is HTML.
pub fn document(title: &str, style: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>{STYLE}{style}</style></head><body>\n\
         <h1>{title}</h1>\n{body}</body></html>\n"
    )
}

/// A line of small text.
pub fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(text))
}

/// A chart under a heading of this level.
pub fn figure(level: u32, chart: &Chart) -> String {
    format!(
        "<h{level}>{}</h{level}>\n<figure>{}<figcaption>{}</figcaption></figure>\n",
        escape(&chart.title),
        chart.svg,
        note(&chart.note)
    )
}

/// A table; cells are texts.
pub fn grid(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div style=\"overflow-x:auto\"><table><tr>");
    for heading in headings {
        let _ = write!(html, "<th>{}</th>", escape(heading));
    }
    html.push_str("</tr>\n");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
    html
}

fn results(page: &Page<'_>, html: &mut String) {
    let headings = [
        "policy",
        "write mean",
        "p99",
        "p99.9",
        "read mean",
        "p99.9",
        "SSD bytes",
        "HDD bytes",
        "padding",
        "redirected",
        "users' slow writes",
        "per million writes",
        "steering stopped",
    ];
    let mut rows = Vec::new();
    for (label, result) in &page.runs {
        let (write, read) = (&result.latencies.write.total, &result.latencies.read.total);
        let time = |count: u64, ns: u64| {
            if count == 0 { "-".to_owned() } else { Duration::from_ns(ns).to_string() }
        };
        let cells = [
            (*label).to_owned(),
            time(write.count(), write.mean_ns()),
            time(write.count(), write.percentile_ns(9_900)),
            time(write.count(), write.percentile_ns(9_990)),
            time(read.count(), read.mean_ns()),
            time(read.count(), read.percentile_ns(9_990)),
            table::bytes(written(result, Role::Ssd)),
            table::bytes(written(result, Role::Hdd)),
            table::bytes(result.devices.iter().map(|d| d.stats.padding_bytes).sum()),
            table::count(result.stats.redirected.0),
            table::count(result.steering.user_slow_writes),
            format!("{:.0}", json::slow_per_million(&result.steering, &result.latencies)),
            match unreliable::reasons_of(&result.steering) {
                none if none.is_empty() => "never".to_owned(),
                reasons => reasons,
            },
        ];
        rows.push(cells.to_vec());
    }
    html.push_str(&grid(&headings, &rows));
}

/// Bytes written to all drives of a role.
fn written(result: &RunResult, role: Role) -> u64 {
    let devices = result.devices.iter().filter(|device| device.role == role);
    devices.map(|device| device.stats.written_bytes()).sum()
}

/// The text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_of_traces_are_text() {
        assert_eq!(escape("<b>&\"x\""), "&lt;b&gt;&amp;&quot;x&quot;");
    }
}
