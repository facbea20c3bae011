//! What do requests cost on the SSDs of a replay, so that throughput can be promised there?
//!
//! Source: [IANUS §4.2], requirements I4. Every kind and size that somebody is promised is measured alone,
//! on a drive of its own, as large and in the state in which the replay begins.

use super::config::{ReplayConfig, ReplayError};
use super::plan::{Plan, choices};
use crate::measure::ModelProbe;
use std::sync::Arc;
use tandem_drives::spec::ModelSpec;
use tandem_drives::{BuildOptions, build};
use tandem_engine::Role;
use tandem_engine::profile::Session;
use tandem_engine::profile::throughput::{CostPlan, measure};
use tandem_engine::qos::cost::{CostTable, Kind};
use tandem_engine::qos::reserve::{Does, Promise, QosConfig};

/// The costs of each drive, by id: of SSDs what the promises of `qos` ask for, of others nothing. Drives
/// of one kind and size are measured once.
///
/// # Errors
/// If a drive cannot be built, or gives up.
pub fn costs(
    config: &ReplayConfig,
    plan: &Plan,
    qos: &QosConfig,
) -> Result<Vec<Option<Arc<CostTable>>>, ReplayError> {
    let promises: Vec<&Promise> = qos.streams.iter().filter_map(|s| s.promise.as_ref()).collect();
    let mut known: Vec<((String, u64), Arc<CostTable>)> = Vec::new();
    let mut all = Vec::new();
    for ((choice, role), planned) in choices(config).zip(&plan.drives) {
        let has_costs = role == Role::Ssd && !matches!(choice.spec.model, ModelSpec::Null(_));
        if promises.is_empty() || !has_costs {
            all.push(None);
            continue;
        }
        let key = (choice.spec.name.clone(), planned.model_bytes);
        if let Some((_, table)) = known.iter().find(|(known, _)| *known == key) {
            all.push(Some(Arc::clone(table)));
            continue;
        }
        let mut rows = Vec::new();
        let mut last = None;
        for (kind, size_bytes) in wanted(&promises) {
            let options = BuildOptions {
                seed: config.seed,
                ssd_state: config.ssd_state,
                capacity_bytes: Some(planned.model_bytes),
                keep_events: false,
            };
            let mut probe = ModelProbe::new(build(&choice.spec, options)?);
            let mut quiet = |_: &'static str| {};
            let mut session = Session::new(&mut probe, u64::MAX, &mut quiet);
            let plan = CostPlan {
                kinds: vec![kind],
                sizes_bytes: vec![size_bytes],
                depths: vec![qos.depth],
                ..CostPlan::usual()
            };
            let table = measure(&mut session, &plan)?;
            rows.extend(table.rows.clone());
            last = Some(table);
        }
        let table = last.expect("somebody is promised something");
        let table = Arc::new(CostTable { rows, ..table });
        known.push((key, Arc::clone(&table)));
        all.push(Some(table));
    }
    Ok(all)
}

/// Kinds and sizes of request that somebody is promised.
fn wanted(promises: &[&Promise]) -> Vec<(Kind, u64)> {
    let mut wanted = Vec::new();
    for promise in promises {
        let sides: &[bool] = match promise.does {
            Does::Read => &[true],
            Does::Write => &[false],
            Does::Either => &[true, false],
        };
        for &read in sides {
            wanted.push((Kind { read, sequential: promise.sequential }, promise.size_bytes));
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_engine::qos::reserve::Rate;

    #[test]
    fn what_is_promised_is_measured_once() {
        let either = Promise::of(Rate::Requests(1), 4096);
        let read = Promise { does: Does::Read, ..either };
        let large = Promise { does: Does::Write, sequential: true, size_bytes: 1 << 18, ..either };
        let kind = |read, sequential| Kind { read, sequential };
        let mut expected = vec![
            (kind(false, false), 4096),
            (kind(true, false), 4096),
            (kind(false, true), 1 << 18),
        ];
        expected.sort_unstable();
        assert_eq!(wanted(&[&either, &read, &large]), expected);
    }
}
