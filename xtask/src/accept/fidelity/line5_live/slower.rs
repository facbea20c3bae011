//! What is a drive that takes so many times as long? Its spec or its profile, with every time and rate changed.

use anyhow::{Context as _, Result, bail};
use toml::{Table, Value};

/// A spec of a hard drive may not turn more slowly.
const RPM_MIN: i64 = 1_000;
/// No rate of a spec or a profile may be less.
const MB_PER_S_MIN: f64 = 1.0;

/// The spec or profile in this text with times `factor` times as long and rates divided by it. Sizes and counts stay.
/// The name gets `-slow`, so that nothing takes it for the drive that it was.
///
/// # Errors
/// If the text is no TOML, or nothing in it is a time or a rate.
pub(super) fn slower(text: &str, factor: u32) -> Result<String> {
    let mut table: Table = text.parse().context("a drive's text")?;
    let name = table.get("name").and_then(Value::as_str).context("a drive has no name")?;
    let name = format!("{name}-slow");
    let mut changed = 0;
    for (_, value) in &mut table {
        numbers(value, factor, &mut changed);
    }
    if changed == 0 {
        bail!("{name} has no time and no rate");
    }
    if let Some(rpm) = table.get_mut("hdd").and_then(|hdd| hdd.get_mut("rpm")) {
        let turns = rpm.get("value").and_then(Value::as_integer).context("rpm is no number")?;
        let slow = (turns / i64::from(factor)).max(RPM_MIN);
        rpm.as_table_mut().context("rpm has no source")?.insert("value".into(), slow.into());
    }
    table.insert("name".into(), name.into());
    Ok(toml::to_string(&table)?)
}

/// Changes what has a source; all else is text.
fn numbers(value: &mut Value, factor: u32, changed: &mut usize) {
    let Value::Table(table) = value else { return };
    let is_sourced = table.contains_key("source");
    for (key, value) in table {
        match (is_sourced, key.as_str()) {
            (true, "value") => scale(value, factor, changed),
            (true, _) => {}
            (false, _) => numbers(value, factor, changed),
        }
    }
}

fn scale(value: &mut Value, factor: u32, changed: &mut usize) {
    match value {
        Value::String(text) => {
            if let Some(slow) = scaled(text, factor) {
                *text = slow;
                *changed += 1;
            }
        }
        Value::Array(of) => of.iter_mut().for_each(|value| scale(value, factor, changed)),
        Value::Table(of) => of.iter_mut().for_each(|(_, value)| scale(value, factor, changed)),
        _ => {}
    }
}

/// `35us` for ten times as long is `350us`, `210MB/s` is `21MB/s`. None: it is neither a time nor a rate.
fn scaled(text: &str, factor: u32) -> Option<String> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().ok()?;
    let factor = f64::from(factor);
    match unit.trim() {
        "ns" | "us" | "ms" | "s" => Some(format!("{}{unit}", number * factor)),
        "MB/s" => Some(format!("{}{unit}", (number / factor).max(MB_PER_S_MIN))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_change_and_sizes_stay() {
        for (text, want) in [
            ("35us", Some("350us")),
            ("0.8ms", Some("8ms")),
            ("0ns", Some("0ns")),
            ("210MB/s", Some("21MB/s")),
            ("5MB/s", Some("1MB/s")),
            ("16MiB", None),
            ("10TB", None),
            ("1.3%", None),
            ("-0.4%", None),
            ("random", None),
            ("after-idle", None),
        ] {
            assert_eq!(scaled(text, 10).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn a_slow_drive_is_a_whole_drive() {
        let text = r#"
            name = "a"
            about = "5s"
            [hdd]
            rpm = { value = 5400, source = "page: 7 ms" }
            slow_stall = { value = "12ms", source = "paper: 12ms" }
            fast_latency = { value = [["4KiB", "35us"], ["16KiB", "66us"]], source = "paper: x" }
            mid_stage = { value = "8MiB", source = "paper: x" }"#;
        let slow: Table = slower(text, 10).unwrap().parse().unwrap();
        assert_eq!((slow["name"].as_str(), slow["about"].as_str()), (Some("a-slow"), Some("5s")));
        let hdd = &slow["hdd"];
        assert_eq!(hdd["rpm"]["value"].as_integer(), Some(RPM_MIN));
        assert_eq!(hdd["slow_stall"]["value"].as_str(), Some("120ms"));
        assert_eq!(hdd["slow_stall"]["source"].as_str(), Some("paper: 12ms"));
        assert_eq!(hdd["fast_latency"]["value"][1][1].as_str(), Some("660us"));
        assert_eq!(hdd["fast_latency"]["value"][1][0].as_str(), Some("16KiB"));
        assert_eq!(hdd["mid_stage"]["value"].as_str(), Some("8MiB"));
        for text in ["name = 3", "=", "name = \"a\"", "name = \"a\"\n[null]\nx = 1"] {
            assert!(slower(text, 10).is_err(), "{text}");
        }
    }
}
