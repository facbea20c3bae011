//! What happens when a drive has taken what it may take in a day?
//!
//! Source: requirements B4 and the engine's `DriveBudget`.

use tandem_block::{Arrival, GIB, MIB};
use tandem_engine::steer::Reason;
use tandem_engine::{DriveBudget, Role, SteerConfig};
use tandem_sim::replay::{DriveChoice, ReplayConfig, RunResult, Survey, plan, replay};
use tandem_traces::synth;

/// Writes that come so fast that policies redirect some.
const FAST: &str = "interval:size=32KiB,interval=60us,total=96MiB";
/// … and so slowly that the SSD alone has no queue.
const LIGHT: &str = "interval:size=32KiB,interval=5ms,total=32MiB";

fn arrivals(spec: &str) -> Vec<Arrival> {
    synth::build(spec, 1).expect("a workload").collect()
}

/// A run with these budgets of the SSD and of the hard drive.
fn run(policy: &str, workload: &str, ssd: DriveBudget, hdd: DriveBudget) -> RunResult {
    let choice = |name, bytes| vec![DriveChoice::shipped(name, Some(bytes))];
    let (ssds, hdds) = (choice("960evo", 2 * GIB), choice("wd100efax", 16 * GIB));
    let config = ReplayConfig::of(SteerConfig::named(policy), ssds, hdds);
    let arrivals = arrivals(workload);
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let mut plan = plan(&config, &survey).expect("drives");
    plan.engine_mut().budgets = vec![ssd, hdd];
    replay(&config, &plan, arrivals.into_iter()).expect("a result")
}

fn user_bytes(result: &RunResult, role: Role) -> u64 {
    result.devices.iter().filter(|d| d.role == role).map(|d| d.stats.user_bytes).sum()
}

#[test]
fn a_spent_write_budget_sends_more_to_hard_drives_where_a_policy_redirects() {
    let free = DriveBudget::default();
    let tight = DriveBudget { ssd_write_bytes: Some(MIB), ..free };
    let (usual, bound) = (run("mios-d", LIGHT, free, free), run("mios-d", LIGHT, tight, free));
    let count = |result: &RunResult| result.stats.steered.get(Reason::SsdBudget).requests;
    assert_eq!(count(&usual), 0);
    assert!(count(&bound) > 100, "{}", count(&bound));
    let on_ssd = |result: &RunResult| user_bytes(result, Role::Ssd);
    assert!(on_ssd(&bound) < on_ssd(&usual), "{} {}", on_ssd(&bound), on_ssd(&usual));
    assert_eq!(bound.latencies.errors, 0, "writes go on: to the SSD if they must");
    let (first, same) = (run("ssd-first", LIGHT, free, free), run("ssd-first", LIGHT, tight, free));
    assert_eq!(first.digest, same.digest, "a policy that never redirects does not begin to");
}

#[test]
fn a_spent_log_budget_ends_redirection_for_the_day() {
    let free = DriveBudget::default();
    let tight = DriveBudget { log_bytes: Some(4 * MIB), ..free };
    let (usual, bound) = (run("mios-e", FAST, free, free), run("mios-e", FAST, free, tight));
    let logged = |result: &RunResult| user_bytes(result, Role::Hdd);
    assert!(logged(&usual) > 12 * MIB, "{}", logged(&usual));
    // the last one may go a little beyond
    assert!((4 * MIB..5 * MIB).contains(&logged(&bound)), "{}", logged(&bound));
}

#[test]
fn a_drive_that_did_what_it_is_rated_for_is_not_padded() {
    let free = DriveBudget::default();
    let tight = DriveBudget { rated_bytes: Some(8 * MIB), ..free };
    let none = DriveBudget { padding_bytes: Some(0), ..free };
    let padding = |hdd| {
        let result = run("mios-e", FAST, free, hdd);
        (result.devices[1].stats.padding_bytes, result.steering.budget_stops)
    };
    let (usual, bound) = (padding(free), padding(tight));
    assert!(usual.0 > 2 * bound.0 && usual.1 == 0, "{usual:?} {bound:?}");
    assert!(bound.1 > 0);
    assert_eq!(padding(none).0, 0, "a budget of nothing is no padding at all");
}
