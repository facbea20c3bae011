//! Are the thresholds of SeRW's experiments the medians of their traces, as the deck says?
//!
//! Source: SERW slide "Experimental Setups". A calibration changed the traces, and the thresholds stayed behind:
//! a tenth of the writes that should have been redirected were.

use std::collections::BTreeMap;
use tandem_block::Op;

/// Reads of each second, and sizes of writes in bytes, each in order.
fn sorted(workload: &str) -> (Vec<u64>, Vec<u64>) {
    let spec = workload.strip_prefix("synth:").expect("a synthetic workload");
    let (mut reads, mut sizes_bytes) = (Vec::new(), Vec::new());
    for arrival in tandem_traces::synth::build(spec, 1).expect("known") {
        let second = (arrival.at.ns / 1_000_000_000) as usize;
        reads.resize(reads.len().max(second + 1), 0);
        match arrival.op {
            Op::Read => reads[second] += 1,
            _ => sizes_bytes.push(arrival.length_bytes),
        }
    }
    reads.sort_unstable();
    sizes_bytes.sort_unstable();
    (reads, sizes_bytes)
}

/// The value below which so many percent are.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    sorted[sorted.len() * percent / 100]
}

/// What a policy of an experiment is set to, such as `450` of `intensity=450/s`.
fn setting<'a>(policy: &'a str, name: &str) -> &'a str {
    let (_, settings) = policy.split_once(':').expect("settings");
    settings.split(',').find_map(|part| part.strip_prefix(name)).expect("it is set")
}

#[test]
fn s12_thresholds_are_quantiles_of_the_trace() {
    let mut traces = BTreeMap::new();
    let mut checked = 0;
    for name in ["serw-reads", "serw-writes", "serw-thresholds"] {
        let path = format!("{}/../../experiments/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("it is there");
        let file: toml::Table = text.parse().expect("it is TOML");
        for case in file["case"].as_array().expect("cases") {
            let workload = case["workload"].as_str().expect("text").to_owned();
            let (reads, sizes_bytes) =
                traces.entry(workload.clone()).or_insert_with(|| sorted(&workload));
            for entry in case["policies"].as_array().expect("policies") {
                let Some(policy) = entry.get("policy").and_then(|policy| policy.as_str()) else {
                    continue;
                };
                if !policy.starts_with("serw:") {
                    continue;
                }
                let label = entry["label"].as_str().expect("text");
                let percent = label.strip_prefix('i').and_then(|part| part.parse().ok());
                let reads_per_s = quantile(reads, percent.unwrap_or(50));
                let told = format!("{name}, {label} of {workload}");
                assert_eq!(setting(policy, "intensity="), format!("{reads_per_s}/s"), "{told}");
                let size = match quantile(sizes_bytes, 50) {
                    512 => "512B".to_owned(),
                    bytes => format!("{}KiB", bytes / 1024),
                };
                assert_eq!(setting(policy, "size="), size, "{told}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 18, "{checked}");
}
