//! Which charts are on a page?
//!
//! Source: acceptance of write steering: latency distributions, queue length over time, write states
//! and padding over time, bytes by device, staircase, and what each policy pays in SSD bytes for its
//! latency.

use super::plot::{Axis, Key, Mark, Series, chart};
use super::{Page, staircase, written};
use crate::report::table;
use anyhow::Result;
use tandem_block::Duration;
use tandem_engine::Role;
use tandem_engine::stats::recorder::Latencies;
use tandem_sim::replay::timeline::{STATES, Timeline};
use tandem_sim::replay::{DeviceResult, RunResult};

/// One chart with its words.
pub struct Chart {
    /// What is drawn.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// The drawing.
    pub svg: String,
}

/// A distribution is drawn with a point for every so much of a step to the right.
const STEP: f64 = 1.01;

/// The horizontal axis is longer than the lines by so much, where their names stand beside them.
const KEY_ROOM: f64 = 1.2;

/// Every chart that there is something to draw for.
pub(super) fn all(page: &Page<'_>) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    charts.extend(pareto(page)?);
    charts.extend(distribution(page, "Write latency", |r| &r.latencies.write.total)?);
    charts.extend(distribution(page, "Read latency", |r| &r.latencies.read.total)?);
    charts.extend(bytes_by_device(page)?);
    charts.extend(queues(page)?);
    charts.extend(write_states(page)?);
    charts.extend(padding(page)?);
    charts.extend(staircases(page)?);
    Ok(charts)
}

fn time_word(ns: f64) -> String {
    Duration::from_ns(ns.round().max(0.0) as u64).to_string()
}

fn second_word(s: f64) -> String {
    if s >= 10.0 { format!("{s:.0} s") } else { format!("{s:.1} s") }
}

fn bytes_word(bytes: f64) -> String {
    table::bytes(bytes.max(0.0) as u64)
}

fn share_word(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 1.0 {
        return format!("{percent:.0} %");
    }
    let digits = format!("{percent:.4}");
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

fn plain_word(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// What a policy got, and what it paid: (its name, bytes written to SSDs, latency in ns).
pub type Trade = (String, u64, u64);

/// What each policy pays for its latency: the mean and the tail against bytes written to SSDs.
fn pareto(page: &Page<'_>) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for (what, figure) in [
        ("Mean write latency", (|of: &Latencies| of.mean_ns()) as fn(&Latencies) -> u64),
        ("Write latency at 99.9 %", |of: &Latencies| of.percentile_ns(9_990)),
    ] {
        let writes =
            page.runs.iter().map(|(label, result)| (label, result, &result.latencies.write.total));
        let trades: Vec<Trade> = writes
            .filter(|(_, _, latencies)| latencies.count() > 0)
            .map(|(label, result, latencies)| {
                ((*label).to_owned(), written(result, Role::Ssd), figure(latencies))
            })
            .collect();
        charts.extend(trade(what, &trades)?);
    }
    Ok(charts)
}

/// Points of latency against bytes written to SSDs; none of nothing.
pub fn trade(what: &str, trades: &[Trade]) -> Result<Option<Chart>> {
    let series: Series = trades
        .iter()
        .map(|(label, bytes, ns)| (label.clone(), vec![(*bytes as f64, *ns as f64)]))
        .collect();
    let points = || series.iter().flat_map(|(_, points)| points);
    let Some((low, high)) = bounds(points().map(|p| p.1)) else { return Ok(None) };
    let most = points().map(|p| p.0).fold(1.0, f64::max);
    let x = axis("written to SSDs", (0.0, most * 1.15), false, bytes_word);
    let y = axis(what, (low.max(1.0) * 0.7, high.max(1.0) * 1.4), true, time_word);
    Ok(Some(Chart {
        title: format!("{what} against bytes written to SSDs"),
        note: "Left and low is better: nobody dominates a policy that has no other to the left of \
               it and below."
            .into(),
        svg: chart((x, y), &series, (Mark::Point, Key::TopRight), &[])?,
    }))
}

/// The share of requests that took longer.
fn distribution(
    page: &Page<'_>,
    what: &str,
    of: fn(&RunResult) -> &Latencies,
) -> Result<Option<Chart>> {
    let mut series: Series = Vec::new();
    let mut most = 0;
    for (label, result) in &page.runs {
        let latencies = of(result);
        let count = latencies.count();
        if count == 0 {
            continue;
        }
        most = most.max(count);
        let (mut slower, mut points) = (count, Vec::new());
        let mut last = 0.0;
        for (ns, number) in latencies.buckets() {
            let share = slower as f64 / count as f64;
            slower -= number;
            if ns as f64 >= last * STEP || slower == 0 {
                last = (ns as f64).max(1.0);
                points.push((last, share));
            }
        }
        series.push(((*label).to_owned(), points));
    }
    tail(what, series, most)
}

/// Lines of (latency in ns, share that took longer), of `most` requests at most; none of nothing.
pub fn tail(what: &str, series: Series, most: u64) -> Result<Option<Chart>> {
    let Some((low, high)) = bounds(series.iter().flat_map(|s| &s.1).map(|p| p.0)) else {
        return Ok(None);
    };
    let least = (1.0 / most.max(1) as f64).max(1e-6);
    // the axis is logarithmic, and what took no time has a place at its end
    let x = axis("latency", (low.max(1.0), high.max(2.0)), true, time_word);
    let y = axis("share that took longer", (least, 1.0), true, share_word);
    Ok(Some(Chart {
        title: format!("{what}: how many took longer?"),
        note:
            "Both axes are logarithmic: a line further to the left is better, at the top for the \
               usual request, at the bottom for the tail."
                .into(),
        svg: chart((x, y), &series, (Mark::Line, Key::BottomLeft), &[])?,
    }))
}

/// Why bytes are written, in the order in which columns are stacked.
pub const REASONS: [&str; 7] =
    ["users", "padding", "write-back home", "log GC", "tail copies", "merges and promotion", "map"];

/// What was written under one policy to the drives of one role, by `REASONS`.
pub struct Column {
    /// `SSD` or `HDD`, and the policy.
    pub name: String,
    /// Bytes.
    pub parts: [u64; REASONS.len()],
}

fn bytes_by_device(page: &Page<'_>) -> Result<Option<Chart>> {
    let parts = |device: &DeviceResult| {
        let d = &device.stats;
        let merged = d.writeback_bytes + d.promotion_bytes;
        [d.user_bytes, d.padding_bytes, d.home_bytes, d.gc_bytes, d.tail_bytes, merged, d.map_bytes]
    };
    let mut stacked = Vec::new();
    for (role, word) in [(Role::Ssd, "SSD"), (Role::Hdd, "HDD")] {
        for (label, result) in &page.runs {
            let of_role = result.devices.iter().filter(|device| device.role == role);
            let all: Vec<_> = of_role.map(parts).collect();
            if !all.is_empty() {
                let sum = |at: usize| all.iter().map(|parts| parts[at]).sum();
                let parts = std::array::from_fn(sum);
                stacked.push(Column { name: format!("{word}: {label}"), parts });
            }
        }
    }
    columns(&stacked)
}

/// Stacked columns; none of nothing.
pub fn columns(columns: &[Column]) -> Result<Option<Chart>> {
    let sum = |column: &Column| column.parts.iter().sum::<u64>();
    let most = columns.iter().map(sum).max();
    let Some(most) = most.filter(|most| *most > 0) else { return Ok(None) };
    // areas are drawn one over the other, so the largest sum comes first
    let mut series: Series = Vec::new();
    for upto in (0..REASONS.len()).rev() {
        let mut points = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let (left, height) = (at as f64, column.parts[..=upto].iter().sum::<u64>() as f64);
            points.extend([(left + 0.1, 0.0), (left + 0.1, height)]);
            points.extend([(left + 0.9, height), (left + 0.9, 0.0)]);
        }
        if columns.iter().any(|column| column.parts[upto] > 0) {
            series.push((REASONS[upto].to_owned(), points));
        }
    }
    let words: Vec<((f64, f64), String)> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| ((at as f64 + 0.5, sum(column) as f64), column.name.clone()))
        .collect();
    let x = axis("", (0.0, columns.len() as f64 * 1.25), false, |_| String::new());
    let y = axis("written", (0.0, most as f64 * 1.12), false, bytes_word);
    Ok(Some(Chart {
        title: "Bytes written, by drive and reason".into(),
        note: "A column for each policy, on the SSDs and on the hard drives.".into(),
        svg: chart((x, y), &series, (Mark::Area, Key::TopRight), &words)?,
    }))
}

/// The longest SSD queue of each span.
fn queues(page: &Page<'_>) -> Result<Option<Chart>> {
    let series: Series = timelines(page)
        .map(|(label, result, timeline)| {
            let ssds: Vec<usize> = positions(result, Role::Ssd).collect();
            let points = moments(timeline)
                .zip(timeline.spans())
                .map(|(at, span)| {
                    let longest = ssds.iter().map(|&i| span.devices[i].depth_max).max();
                    (at, f64::from(longest.unwrap_or(0).max(1)))
                })
                .collect();
            (label.to_owned(), points)
        })
        .collect();
    let Some((_, most)) = bounds(series.iter().flat_map(|s| &s.1).map(|p| p.1)) else {
        return Ok(None);
    };
    let end = series.iter().flat_map(|s| s.1.last()).map(|p| p.0).fold(0.0, f64::max);
    let x = axis("time", (0.0, end * KEY_ROOM), false, second_word);
    let y = axis("longest SSD queue", (1.0, most.max(2.0) * 1.2), true, plain_word);
    Ok(Some(Chart {
        title: "Queue of the SSDs over time".into(),
        note:
            "The longest queue within each span of time; commands accepted and not yet completed."
                .into(),
        svg: chart((x, y), &series, (Mark::Line, Key::TopRight), &[])?,
    }))
}

/// One chart per policy that redirects: the share of time in each state, over time.
fn write_states(page: &Page<'_>) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for (label, result, timeline) in timelines(page) {
        for device in positions(result, Role::Hdd) {
            let idle = 0; // never asked for by any policy
            let used = timeline.spans().iter().any(|span| {
                let state_ns = span.devices[device].state_ns;
                (0..STATES.len()).any(|state| state != idle && state_ns[state] > 0)
            });
            if !used {
                continue;
            }
            let mut series: Series = Vec::new();
            for upto in (0..STATES.len()).rev() {
                let points: Vec<(f64, f64)> = moments(timeline)
                    .zip(timeline.spans())
                    .map(|(at, span)| {
                        let state_ns = span.devices[device].state_ns;
                        let all: u64 = state_ns.iter().sum();
                        let part: u64 = state_ns[..=upto].iter().sum();
                        (at, part as f64 / all.max(1) as f64)
                    })
                    .collect();
                let met =
                    timeline.spans().iter().any(|span| span.devices[device].state_ns[upto] > 0);
                if met {
                    series.push((STATES[upto].1.to_owned(), points));
                }
            }
            let end = moments(timeline).last().unwrap_or(1.0);
            let x = axis("time", (0.0, end * KEY_ROOM), false, second_word);
            let y = axis("share of time", (0.0, 1.0), false, share_word);
            charts.push(Chart {
                title: format!("States of {} under {label}", result.devices[device].name),
                note: "The share of each span of time in each state of its controller; users may write \
                       to it while it is fast or mid."
                    .into(),
                svg: chart((x, y), &series, (Mark::Area, Key::TopRight), &[])?,
            });
        }
    }
    Ok(charts)
}

/// Padding so far, by policy.
fn padding(page: &Page<'_>) -> Result<Option<Chart>> {
    let mut series: Series = Vec::new();
    for (label, _, timeline) in timelines(page) {
        let mut sum = 0;
        let points: Vec<(f64, f64)> = moments(timeline)
            .zip(timeline.spans())
            .map(|(at, span)| {
                sum += span.devices.iter().map(|device| device.padding_bytes).sum::<u64>();
                (at, sum as f64)
            })
            .collect();
        if sum > 0 {
            series.push((label.to_owned(), points));
        }
    }
    let Some((_, most)) = bounds(series.iter().flat_map(|s| &s.1).map(|p| p.1)) else {
        return Ok(None);
    };
    let end = series.iter().flat_map(|s| s.1.last()).map(|p| p.0).fold(0.0, f64::max);
    let x = axis("time", (0.0, end * KEY_ROOM), false, second_word);
    let y = axis("padding so far", (0.0, most * 1.05), false, bytes_word);
    Ok(Some(Chart {
        title: "Padding over time".into(),
        note: "Bytes written to hard drives that nobody asked for, to keep their buffers in step."
            .into(),
        svg: chart((x, y), &series, (Mark::Line, Key::TopRight), &[])?,
    }))
}

fn staircases(page: &Page<'_>) -> Result<Option<Chart>> {
    let mut series: Series = Vec::new();
    for choice in page.hdds {
        let name = &choice.spec.name;
        if !series.iter().any(|(known, _)| known == name) {
            series.push((name.clone(), staircase::steps(&choice.spec)));
        }
    }
    let Some(svg) = steps(&series)? else { return Ok(None) };
    Ok(Some(Chart {
        title: "The staircase of the hard drives".into(),
        note: "Sequential writes of 64 KiB, one after the other, into an empty buffer.".into(),
        svg,
    }))
}

/// Latencies of writes (MiB written before, ns) by name; `None` without any.
pub(super) fn steps(series: &Series) -> Result<Option<String>> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let Some((low, high)) = bounds(points().map(|p| p.1)) else { return Ok(None) };
    let end = points().map(|p| p.0).fold(1.0, f64::max);
    let x = axis("written so far, MiB", (0.0, end * KEY_ROOM), false, plain_word);
    let y = axis("latency of one write", (low * 0.7, high * 1.5), true, time_word);
    Ok(Some(chart((x, y), series, (Mark::Line, Key::TopRight), &[])?))
}

/// Requests a second (window in s, rate) by name. Rates of nothing are drawn at the bottom.
pub(super) fn reservable(series: &Series) -> Result<String> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let above = points().map(|p| p.1).filter(|rate| *rate > 0.0);
    let (low, high) = bounds(above).unwrap_or((1.0, 10.0));
    let (least, longest) = bounds(points().map(|p| p.0)).unwrap_or((0.1, 10.0));
    let shown: Series = series
        .iter()
        .map(|(name, points)| {
            let lifted = points.iter().map(|(x, y)| (*x, y.max(low * 0.8)));
            (name.clone(), lifted.collect())
        })
        .collect();
    let x = axis("averaged over, s", (least, longest * 4.0), true, plain_word);
    let y =
        axis("requests a second that can be reserved", (low * 0.7, high * 1.5), true, plain_word);
    chart((x, y), &shown, (Mark::Line, Key::TopRight), &[])
}

fn axis<'a>(name: &'a str, range: (f64, f64), log: bool, label: fn(f64) -> String) -> Axis<'a> {
    Axis { name, range, log, label }
}

/// The least and the most; none of nothing.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, value| match found {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

fn timelines<'a>(
    page: &'a Page<'_>,
) -> impl Iterator<Item = (&'a str, &'a RunResult, &'a Timeline)> {
    page.runs.iter().filter_map(|(label, result)| {
        result.timeline.as_ref().map(|timeline| (*label, *result, timeline))
    })
}

/// The end of each span, in seconds.
fn moments(timeline: &Timeline) -> impl Iterator<Item = f64> {
    let span_s = timeline.span_ns() as f64 / 1e9;
    (1..=timeline.spans().len()).map(move |number| number as f64 * span_s)
}

fn positions(result: &RunResult, role: Role) -> impl Iterator<Item = usize> + '_ {
    result.devices.iter().enumerate().filter(move |(_, d)| d.role == role).map(|(index, _)| index)
}
