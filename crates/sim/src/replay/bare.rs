//! What does one drive do with a trace, without a pool?
//!
//! Each block lies in its own place on the drive, and the drive has a queue of its own depth. There is no map, no log
//! and no promise: the engine passes requests on. It is the row that every pool is compared with.

use super::config::{ReplayConfig, ReplayError, Resident};
use super::plan::{Plan, plan};
use super::survey::Survey;
use tandem_block::{DurabilityClass, Duration};
use tandem_engine::{Placement, Role, SteerConfig, TierConfig};

/// Longer than any replay.
const YEAR_S: u64 = 365 * 86_400;

/// The first drive of this role alone, with the rest of the configuration and its plan.
///
/// # Errors
/// `NoDrives` if there is none of this role, or as `plan`.
pub fn bare(
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
