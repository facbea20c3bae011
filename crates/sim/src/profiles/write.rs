//! How is a measured profile written, so that a person can read it and `parse` can, too?
//!
//! Source: design decision 3. The same format as the shipped profiles.

use super::Identity;
use crate::measure::Findings;
use std::fmt::Write as _;
use tandem_block::{KIB, MIB};
use tandem_engine::profile::hdd::HddFindings;
use tandem_engine::profile::ssd::SsdCosts;
use tandem_engine::profile::{HddDetail, HddProfile, SsdProfile};

/// A measurement and what it was of.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The profile's name.
    pub name: &'a str,
    /// One line about the drive.
    pub about: &'a str,
    /// Which drive.
    pub identity: &'a Identity,
    /// What was found.
    pub findings: &'a Findings,
    /// What was not, because the budget of writes was used up.
    pub missing: &'a [&'static str],
}

/// The profile as a file.
pub fn text_of(measured: &Measured<'_>) -> String {
    let mut text = String::from(
        "# What was measured of this drive by `tandem profile`. Sizes and times are rounded as \
         written;\n# `tandem serve` refuses this profile for a drive of another serial number or \
         size.\n\n",
    );
    if !measured.missing.is_empty() {
        let missing = measured.missing.join(", ");
        let _ = writeln!(
            text,
            "# The budget of writes was used up, so this was not measured: {missing}.\n"
        );
    }
    let quoted = |words: &str| toml::Value::String(words.to_owned()).to_string();
    let identity = measured.identity;
    let _ = writeln!(text, "name  = {}", quoted(measured.name));
    let _ = writeln!(text, "about = {}\n", quoted(measured.about));
    let _ = writeln!(text, "[identity]");
    let _ = writeln!(text, "model    = {}", quoted(&identity.model));
    let _ = writeln!(text, "serial   = {}", quoted(&identity.serial));
    let _ = writeln!(text, "size     = \"{}B\"", identity.size.0);
    let _ = writeln!(text, "measured = {}\n", quoted(&identity.measured));
    match measured.findings {
        Findings::Hdd(found) => hdd(&mut text, found),
        Findings::Ssd(costs) => ssd(&mut text, costs),
    }
    text
}

/// `key = { value = …, source = "measured: …" }`.
fn line(text: &mut String, key: &str, value: &str, how: &str) {
    let _ = writeln!(text, "{key:17} = {{ value = {value}, source = \"measured: {how}\" }}");
}

/// `key = { value = …, source = "guess: …" }`: what could not be measured, and is needed.
fn guess(text: &mut String, key: &str, value: &str, why: &str) {
    let _ = writeln!(text, "{key:17} = {{ value = {value}, source = \"guess: {why}\" }}");
}

fn hdd(text: &mut String, found: &HddFindings) {
    text.push_str("[hdd]\n");
    let detail = match found.profile() {
        Ok(profile) => {
            staircase(text, &profile, found);
            *profile.detail
        }
        Err(why) => {
            let _ = writeln!(text, "staircase         = \"none\"");
            let _ = writeln!(text, "reason            = {}", toml::Value::String(why));
            HddDetail {
                regions: found.mechanics.regions.clone(),
                seeks: found.mechanics.seeks.clone(),
                turn_ns: Some(found.mechanics.turn_ns),
                ..HddDetail::default()
            }
        }
    };
    let position = found.mechanics.position_ns(found.capacity_bytes);
    line(text, "position", &time(position), "a third of the stroke and half a turn");
    if let Some(turn) = detail.turn_ns {
        line(text, "turn", &time(turn), "the range of single reads at one distance");
    }
    let seeks = rows(&detail.seeks, |seek| format!("[{}, {}]", bytes(seek.0), time(seek.1)));
    line(text, "seeks", &seeks, "the fastest of many reads at each distance, less the wait");
    let regions = rows(&detail.regions, |at| format!("[{}, {}]", bytes(at.0), rate(at.1)));
    line(text, "regions", &regions, "reads of 1 MiB in sequence, from there on");
}

fn staircase(text: &mut String, profile: &HddProfile, found: &HddFindings) {
    let detail = &profile.detail;
    let latencies = |points: &[(u64, u64)]| {
        rows(points, |point| format!("[{}, {}]", bytes(point.0), time(point.1)))
    };
    let finest = detail.stages.first().map_or(0, |stage| stage.write_bytes) / KIB;
    let (first, between) =
        (format!("bytes to the first spike at {finest} KiB"), "bytes between spikes");
    let how = |what: &str| match detail.stages.len() {
        1 => format!("{what}; of the larger size derived from the rate of the platter"),
        _ => what.to_owned(),
    };
    let (fast, mid) = (how("median before the first spike"), how("median between spikes"));
    line(text, "fast_latency", &latencies(&profile.fast_latency), &fast);
    line(text, "mid_latency", &latencies(&profile.mid_latency), &mid);
    line(text, "slow_latency", &time(profile.slow_latency_ns), "median spike less fast latency");
    line(text, "fast_stage", &bytes(profile.fast_stage_bytes), &first);
    line(text, "mid_stage", &bytes(profile.mid_stage_bytes), between);
    let stages = rows(&detail.stages, |stage| {
        format!(
            "{{ write = {}, fast = {}, mid = {}, fast_writes = {}, mid_writes = {}, slow = {} }}",
            bytes(stage.write_bytes),
            bytes(stage.fast_bytes),
            bytes(stage.mid_bytes),
            stage.fast_writes,
            stage.mid_writes,
            time(stage.slow_latency_ns)
        )
    });
    line(text, "stages", &stages, "the same at each size of write");
    for (key, jitter) in
        [("fast_jitter", detail.fast_jitter_ppm), ("mid_jitter", detail.mid_jitter_ppm)]
    {
        if let Some(jitter) = jitter {
            line(text, key, &percent(jitter), "standard deviation of those bytes");
        }
    }
    // what the budget was not enough for is needed all the same
    let told = |is_known| if is_known { line } else { guess };
    let how = |is_known, how| if is_known { how } else { "the budget of writes was used up" };
    let is_known = found.drain.is_some();
    let how_drained = how(is_known, "room after waits, the buffer three quarters full");
    if let Some(law) = detail.drain_law {
        line(text, "drain_law", &format!("\"{}\"", law.name()), how_drained);
    }
    told(is_known)(text, "drain_idle", &time(profile.drain_idle_ns), how_drained);
    told(is_known)(text, "drain_rate", &rate(profile.drain_bytes_per_s), how_drained);
    let is_known = found.flush.is_some();
    let how = how(is_known, "flushes of an empty and of a filled buffer");
    told(is_known)(text, "flush_base", &time(profile.flush_base_ns), how);
    if let Some(flush) = detail.flush_bytes_per_s {
        line(text, "flush_rate", &rate(flush), how);
    }
}

fn ssd(text: &mut String, costs: &SsdCosts) {
    text.push_str("[ssd]\n");
    let long = costs.steady_bytes_per_s.or(costs.sustained_bytes_per_s);
    let usual = SsdProfile::default();
    let why = "not measured, for no write, or too few, were allowed; a SATA drive of middling age";
    match long {
        Some(found) => {
            let how = "writes that have gone on for long";
            line(text, "write_rate", &rate(found.max(1_000_000)), how);
        }
        None => guess(text, "write_rate", &rate(usual.write_bytes_per_s), why),
    }
    match costs.flush_ns {
        Some(found) => line(text, "flush", &time(found), "flushes with nothing to write"),
        None => guess(text, "flush", &time(usual.flush_ns), why),
    }
    for (key, points, how) in [
        ("write_latency", &costs.write_latency, "4 KiB into an empty buffer, by queue depth"),
        ("sustained_latency", &costs.sustained_latency, "4 KiB, the cache used up, by queue depth"),
        ("read_latency", &costs.read_latency, "random reads of 4 KiB, by queue depth"),
    ] {
        if !points.is_empty() {
            let table = rows(points, |point| format!("[{}, {}]", point.0, time(point.1)));
            line(text, key, &table, how);
        }
    }
    for (key, value, how) in [
        ("burst_rate", costs.burst_bytes_per_s, "128 KiB in sequence, at first"),
        ("sustained_rate", costs.sustained_bytes_per_s, "128 KiB in sequence, the cache used up"),
        ("steady_rate", costs.steady_bytes_per_s, "128 KiB at random on a full drive"),
    ] {
        if let Some(value) = value {
            line(text, key, &rate(value.max(1_000_000)), how);
        }
    }
    if let Some(slc) = costs.slc_bytes {
        line(text, "slc", &bytes(slc), "bytes until the rate falls for good");
    }
    if let Some(event) = costs.gc_event_ns {
        line(text, "gc_event", &time(event), "median stall of random writes, less a usual write");
    }
    if let Some(share) = costs.gc_share_ppm {
        line(text, "gc_share", &percent(share), "share of the time in those stalls");
    }
}

fn rows<T>(rows: &[T], one: impl Fn(&T) -> String) -> String {
    let rows: Vec<String> = rows.iter().map(one).collect();
    format!("[{}]", rows.join(", "))
}

/// `number / scale` in decimals, exactly: `scale` is a power of ten.
fn decimal(number: u64, scale: u64) -> String {
    let places = scale.ilog10() as usize;
    let digits = format!("{}.{:0places$}", number / scale, number % scale);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn time(ns: u64) -> String {
    match ns {
        1_000_000.. => format!("\"{}ms\"", decimal(ns, 1_000_000)),
        _ => format!("\"{}us\"", decimal(ns, 1_000)),
    }
}

/// Whole KiB where it is far above one.
fn bytes(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(MIB) && bytes > 0 => format!("\"{}MiB\"", bytes / MIB),
        _ if bytes.is_multiple_of(KIB) || bytes > 64 * KIB => {
            format!("\"{}KiB\"", (bytes + KIB / 2) / KIB)
        }
        _ => format!("\"{bytes}B\""),
    }
}

fn rate(bytes_per_s: u64) -> String {
    format!("\"{}MB/s\"", decimal((bytes_per_s + 500) / 1_000, 1_000))
}

fn percent(ppm: u64) -> String {
    format!("\"{}%\"", decimal(ppm, 10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_the_unit_that_suits_them() {
        assert_eq!(time(35_000), "\"35us\"");
        assert_eq!(time(12_000_001), "\"12.000001ms\"");
        assert_eq!(time(0), "\"0us\"");
        assert_eq!(bytes(16 * MIB), "\"16MiB\"");
        assert_eq!(bytes(4096), "\"4KiB\"");
        assert_eq!(rate(209_999_700), "\"210MB/s\"");
        assert_eq!(percent(13_000), "\"1.3%\"");
    }

    #[test]
    fn what_was_not_measured_says_so() {
        let (mut reads_only, mut all) = (String::new(), String::new());
        ssd(&mut reads_only, &SsdCosts::default());
        assert_eq!(reads_only.matches("source = \"guess: not measured").count(), 2, "{reads_only}");
        assert!(reads_only.contains("\"300MB/s\"") && reads_only.contains("\"2ms\""));
        let costs = SsdCosts {
            sustained_bytes_per_s: Some(340_000_000),
            flush_ns: Some(900_000),
            ..SsdCosts::default()
        };
        ssd(&mut all, &costs);
        assert!(!all.contains("guess") && all.contains("\"340MB/s\""), "{all}");
    }
}
