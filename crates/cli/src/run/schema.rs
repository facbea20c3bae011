//! Which fields has a result? So that a misspelt path is found before anything runs.

use crate::report::json;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tandem_engine::Role;
use tandem_engine::stats::EngineStats;
use tandem_sim::replay::{DeviceResult, RunResult};
use tandem_traces::spell;

/// A run in which nothing happened: it has every field that a run has.
pub fn of_a_run() -> Value {
    static EMPTY: LazyLock<Value> = LazyLock::new(|| {
        let device = |role| DeviceResult {
            role,
            name: String::new(),
            stats: Default::default(),
            gauge: Default::default(),
            queue_found: Default::default(),
            steering: Default::default(),
            flash_pages: (0, 0),
            model_bytes: 0,
            endurance_bytes: None,
            rating: None,
        };
        let result = RunResult {
            tier_room: None,
            digest: 0,
            wall_ns: 0,
            elapsed_ns: 0,
            latencies: Default::default(),
            stats: EngineStats::default(),
            held_ns: 0,
            steering: Default::default(),
            devices: vec![device(Role::Ssd), device(Role::Hdd)],
            streams: Vec::new(),
            timeline: None,
        };
        let run = json::run(String::new(), &result, Vec::new());
        serde_json::to_value(run).expect("results are written as JSON")
    });
    EMPTY.clone()
}

/// A prediction's fields.
pub fn of_a_prediction() -> Value {
    json!({ "recall": { "fast": 0.0, "mid": 0.0, "slow": 0.0 } })
}

/// A staircase's fields.
pub fn of_a_staircase() -> Value {
    let fields = ["fast_ns", "mid_ns", "slow_ns", "fast_writes", "mid_writes"];
    let bytes = ["fast_bytes", "mid_bytes", "bytes_per_s"];
    Value::Object(fields.into_iter().chain(bytes).map(|name| (name.into(), json!(0))).collect())
}

/// Is there such a field? What is counted by reason may have any reason.
///
/// # Errors
/// Names the field that was probably meant.
pub fn check(schema: &Value, field: &str) -> Result<(), String> {
    let mut at = schema;
    for name in field.split('.') {
        at = match at {
            Value::Object(map) if map.contains_key(name) => &at[name],
            Value::Object(map) if map.is_empty() => return Ok(()),
            Value::Object(map) => {
                let nearest = spell::nearest(name, map.keys().map(String::as_str));
                return Err(format!("no field {name:?} in {field:?}; did you mean {nearest:?}?"));
            }
            Value::Array(list) => match name.parse::<usize>().ok().and_then(|i| list.get(i)) {
                Some(element) => element,
                None => {
                    let last = list.len().saturating_sub(1);
                    return Err(format!("{name:?} in {field:?} is a number from 0 to {last}"));
                }
            },
            _ => return Err(format!("{field:?} goes on after a value")),
        };
    }
    match at {
        Value::Number(_) | Value::Null => Ok(()),
        _ => Err(format!("{field:?} is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_slips_are_named() {
        for field in [
            "write.p99_ns",
            "write.stages.device.mean_ns",
            "write_by_size.5.mean_ns",
            "write_to.hdd_log.p9999_ns",
            "devices.1.padding_bytes",
            "redirected.by_reason.congested.bytes",
            "ssd.write_amplification",
        ] {
            assert_eq!(check(&of_a_run(), field), Ok(()), "{field}");
        }
        for (field, want) in [
            ("write.p999ns", "did you mean \"p999_ns\""),
            ("writes.p99_ns", "did you mean \"write\""),
            ("write_by_size.6.mean_ns", "0 to 5"),
            ("write.p99_ns.x", "goes on after a value"),
            ("write", "is no number"),
            ("policy", "is no number"),
        ] {
            let error = check(&of_a_run(), field).expect_err(field);
            assert!(error.contains(want), "{field}: {error}");
        }
        assert!(check(&of_a_prediction(), "recall.slow").is_ok());
    }
}
