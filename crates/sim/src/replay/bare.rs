//! What does one drive do with a trace, without a pool?
//!
//! Each block lies in its own place on the drive, and the drive has a queue of its own depth. There is no map, no log
//! and no promise: the engine passes requests on. It is the row that every pool is compared with.

use super::config::{ReplayConfig, ReplayError, Resident};
use super::plan::{Plan, plan};
use super::result::RunResult;
use super::run::replay;
use super::survey::Survey;
use tandem_block::{Arrival, DurabilityClass, Duration};
use tandem_engine::stats::recorder::served_index;
use tandem_engine::{Placement, Role, ServedFrom, SteerConfig, TierConfig};

/// Longer than any replay.
const YEAR_S: u64 = 365 * 86_400;

/// Replays arrivals, in order of time, on the first drive of this role alone.
///
/// # Errors
/// `NoDrives` if there is none of this role, or as `plan` and `replay`.
pub fn bare(
    config: &ReplayConfig,
    survey: &Survey,
    role: Role,
    arrivals: impl Iterator<Item = Arrival>,
) -> Result<RunResult, ReplayError> {
    let (config, plan) = alone(config, survey, role)?;
    let mut result = replay(&config, &plan, arrivals)?;
    if role == Role::Hdd {
        // the engine took the drive for an SSD
        let latencies = &mut result.latencies;
        let [ssd, home] = [ServedFrom::Ssd, ServedFrom::HddHome].map(served_index);
        latencies.read_from.swap(ssd, home);
        latencies.write_to.swap(0, 1);
    }
    Ok(result)
}

/// The configuration of that drive, and its plan.
fn alone(
    config: &ReplayConfig,
    survey: &Survey,
    role: Role,
) -> Result<(ReplayConfig, Plan), ReplayError> {
    let (of_role, before) = match role {
        Role::Ssd => (&config.ssds, 0),
        Role::Hdd => (&config.hdds, config.ssds.len()),
    };
    let drive = of_role.first().ok_or(ReplayError::NoDrives)?.clone();
    // what lies on one drive in the order of its addresses is what fixed placement has on an SSD
    let alone = ReplayConfig {
        ssds: vec![drive],
        hdds: Vec::new(),
        steer: SteerConfig::default(),
        tier: TierConfig::default(),
        volume_tiers: Vec::new(),
        placement: Placement::Fixed,
        durability: DurabilityClass::VolatileOk,
        // … also what was never written
        resident: Resident::None,
        at_home: false,
        ..config.clone()
    };
    let mut plan = plan(&alone, survey)?;
    // a drive alone is flushed when somebody asks for it
    plan.engine.commit_interval = Duration::from_s(YEAR_S);
    let planned = &mut plan.drives[0];
    (planned.role, planned.number) = (role, before);
    Ok((alone, plan))
}
