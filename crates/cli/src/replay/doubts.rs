//! When should a result be mistrusted, and what would mend it?

use super::promises::Wanted;
use crate::report::table::capacity;
use tandem_engine::{Role, SteerConfig};
use tandem_sim::replay::{ReplayConfig, RunResult};

/// Below this share of busy time no policy has anything to decide, in millionths. Guess.
const IDLE_PPM: u64 = 20_000;
/// A run shorter than this has hardly left the drives' buffers, in ns. Guess: one commit interval.
const WARM_UP_NS: u64 = 1_000_000_000;

/// Sentences about a drive alone, most important first; none if all is well.
pub fn of_bare(result: &RunResult, config: &ReplayConfig, promises: &Wanted) -> Vec<String> {
    let order = "it serves requests as they come: --qos and --stream hold in a pool".to_owned();
    let doubts = errors(result).into_iter().chain(growth(result, config)).chain(shortness(result));
    doubts.chain((!promises.is_usual()).then_some(order)).collect()
}

/// All of a trace lies on a drive alone, so it may have to be larger than in a pool.
fn growth(result: &RunResult, config: &ReplayConfig) -> Option<String> {
    let drive = result.devices.first()?;
    let choice = match drive.role {
        Role::Ssd => config.ssds.first(),
        Role::Hdd => config.hdds.first(),
    }?;
    let asked_bytes = choice.size_bytes.unwrap_or(choice.spec.capacity_bytes());
    let text = format!(
        "all of the trace lies on it, so it was scaled from {} to {}",
        capacity(asked_bytes),
        capacity(drive.model_bytes)
    );
    (drive.model_bytes > asked_bytes).then_some(text)
}

fn errors(result: &RunResult) -> Option<String> {
    let errors = result.latencies.errors;
    let text = format!("{errors} requests ended with an error: their latencies are not counted");
    (errors > 0).then_some(text)
}

fn shortness(result: &RunResult) -> Option<String> {
    let took = tandem_block::Duration::from_ns(result.elapsed_ns);
    let text = format!("the run lasted {took} of virtual time: it ended in the drives' buffers");
    (result.elapsed_ns < WARM_UP_NS).then_some(text)
}

/// Sentences, most important first; none if all is well.
pub fn of(steer: &SteerConfig, result: &RunResult, config: &ReplayConfig) -> Vec<String> {
    let mut doubts = Vec::new();
    doubts.extend(errors(result));
    let of_role = |role| result.devices.iter().filter(move |device| device.role == role);
    let busiest =
        result.devices.iter().map(|device| device.gauge.gross_ppm()).max().unwrap_or_default();
    if busiest < IDLE_PPM && config.closed_loop.is_none() {
        doubts.push(
            "the trace does not load the drives (busy less than 2 % of the time): policies can \
             hardly differ; try --speedup 10 or more"
                .into(),
        );
    } else if of_role(Role::Ssd).all(|device| device.gauge.depth_max() <= 1)
        && !config.ssds.is_empty()
    {
        doubts.push("no SSD queue was ever longer than one: nothing to steer by".into());
    }
    doubts.extend(shortness(result));
    let redirects = steer.entry().is_some_and(|entry| entry.redirects());
    if redirects {
        if config.hdds.is_empty() {
            doubts.push("there is no hard drive to redirect to".into());
        } else if config.hdds.iter().all(|hdd| hdd.profile.is_none()) {
            doubts.push("no hard drive has a profile, so nothing was redirected (`tandem replay --hdd-profile` names one)".into());
        } else if result.stats.redirected.0 == 0
            && result.stats.steered.get(tandem_engine::steer::Reason::NotAccepting).requests > 0
        {
            doubts.push("the hard drive never became ready for buffered writes".into());
        }
    }
    if result.held_ns > 0 {
        doubts.push(
            "the engine was full at times, and requests waited outside: the drives cannot keep up"
                .into(),
        );
    }
    let missed: Vec<&str> = result
        .streams
        .iter()
        .filter(|stream| stream.delivery.met < stream.delivery.windows)
        .map(|stream| stream.name.as_str())
        .collect();
    if !missed.is_empty() && of_role(Role::Hdd).any(|device| device.stats.read_requests > 0) {
        doubts.push(format!(
            "what stream {} was promised is promised on SSDs, and some was read from hard drives; \
             try --resident ssd",
            missed.join(", ")
        ));
    }
    doubts
}
