//! What do recalibration and further hard drives bring? Runs that an acceptance prints side by side.
//!
//! Source: requirements M11, M12 (both TOS), B6. The workload is the caller's: a function that makes
//! the arrivals anew for every run.

pub mod drift;
pub mod fleet;
pub mod legs;

use crate::replay::{
    DriveChoice, Plan, ReplayConfig, ReplayError, RunResult, Survey, plan, replay,
};
use tandem_block::Arrival;
use tandem_engine::bcw::unreliability::Unreliability;
use tandem_engine::{Role, SteerConfig};

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Requests redirected to hard drives.
    pub redirected: u64,
    /// Users' writes that met a slow write: the figure of merit.
    pub user_slow_writes: u64,
    /// Mean latency of users' writes, in ns.
    pub write_mean_ns: u64,
    /// 99th percentile of it.
    pub write_p99_ns: u64,
    /// 99.9th percentile of it.
    pub write_p999_ns: u64,
    /// Padding, in bytes.
    pub padding_bytes: u64,
    /// Written to SSDs in all, in bytes.
    pub ssd_bytes: u64,
    /// Times that steering to a drive stopped, by reason, in the order of `Unreliability::ALL`.
    pub unreliable_times: [u64; Unreliability::ALL.len()],
}

impl Figures {
    fn of(result: &RunResult) -> Figures {
        let write = &result.latencies.write.total;
        let ssds = result.devices.iter().filter(|device| device.role == Role::Ssd);
        let steering = &result.steering;
        Figures {
            redirected: result.stats.redirected.0,
            user_slow_writes: steering.user_slow_writes,
            write_mean_ns: write.mean_ns(),
            write_p99_ns: write.percentile_ns(9900),
            write_p999_ns: write.percentile_ns(9990),
            padding_bytes: steering.fast_padding_bytes + steering.slow_padding_bytes,
            ssd_bytes: ssds.map(|device| device.stats.written_bytes()).sum(),
            unreliable_times: steering.unreliable_times,
        }
    }

    /// Slow writes of users per million redirected.
    pub fn slow_per_million(&self) -> u64 {
        self.user_slow_writes * 1_000_000 / self.redirected.max(1)
    }
}

/// Makes the arrivals of a workload, the same ones each time.
pub type Workload<'a> = &'a dyn Fn() -> Box<dyn Iterator<Item = Arrival>>;

/// One run on a 960 EVO and so many WD100EFAX; `adapt` may change the plan before it.
fn run(
    policy: &str,
    hdds: usize,
    workload: Workload<'_>,
    adapt: impl FnOnce(&mut Plan),
) -> Result<RunResult, ReplayError> {
    let choice = |name| DriveChoice::shipped(name, None);
    let hdds = (0..hdds).map(|_| choice("wd100efax")).collect();
    let config = ReplayConfig::of(SteerConfig::named(policy), vec![choice("960evo")], hdds);
    let mut survey = Survey::default();
    workload().for_each(|arrival| survey.count(&arrival));
    let mut plan = plan(&config, &survey)?;
    adapt(&mut plan);
    replay(&config, &plan, workload())
}
