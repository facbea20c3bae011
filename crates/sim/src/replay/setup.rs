//! How does a replay's simulation begin?

use super::config::{DriveChoice, ReplayConfig, ReplayError, Resident};
use super::plan::{Plan, PlannedDrive, choices};
use crate::Simulation;
use tandem_block::{Drive, ObjectId, Rng};
use tandem_drives::hdd::Drifting;
use tandem_drives::spec::ModelSpec;
use tandem_drives::{BuildOptions, HddModel, build};
use tandem_engine::{Engine, Role};

/// Share of the SSDs' slots that resident copies take, in percent (design, `--resident`).
const RESIDENT_PERCENT: u64 = 80;

/// The engine, started, over its drives, with the data where the configuration says.
pub(super) fn set_up(config: &ReplayConfig, plan: &Plan) -> Result<Simulation, ReplayError> {
    let mut engine_config = plan.engine.clone();
    for volume in &mut engine_config.volumes {
        volume.steer = config.steer.clone();
        let own = config.volume_tiers.iter().find(|(object, _)| *object == volume.object);
        volume.tier = own.map_or(&config.tier, |(_, tier)| tier).clone();
    }
    let objects: Vec<ObjectId> = engine_config.volumes.iter().map(|volume| volume.object).collect();
    let engine = Engine::new(engine_config)?;
    let mut sim = Simulation::new(engine, models(config, plan)?, false);
    sim.start()?;
    let has_homes = plan.drives.iter().any(|drive| drive.role == Role::Hdd);
    if config.resident != Resident::None && has_homes {
        let fills_ssds = config.resident == Resident::Ssd && !config.ssds.is_empty();
        let mut has_room = fills_ssds && config.placement == tandem_engine::Placement::Mapped;
        for &object in &objects {
            // under fixed placement a block without an entry is on the SSD
            if fills_ssds && !has_room && config.placement == tandem_engine::Placement::Fixed {
                break;
            }
            sim.engine.assume_home(object).expect("its volume was made at start");
            if has_room {
                has_room = sim
                    .engine
                    .assume_ssd_copies(object, RESIDENT_PERCENT)
                    .expect("its volume was made at start");
            }
        }
    }
    Ok(sim)
}

fn drifting(
    choice: &DriveChoice,
    planned: &PlannedDrive,
    options: BuildOptions,
) -> Result<Box<dyn Drive>, ReplayError> {
    let spec = choice.spec.clone().with_capacity_bytes(planned.model_bytes)?;
    let ModelSpec::Hdd(hdd) = &spec.model else { unreachable!("asked before") };
    let model = HddModel::new(hdd, options.seed, options.keep_events);
    Ok(Box::new(Drifting::new(model, planned.drift.clone())))
}

/// The seed of the drive of this number. It is the same whichever other drives are there.
fn seed_of(config: &ReplayConfig, number: usize) -> u64 {
    let mut seeds = Rng::new(config.seed);
    for _ in 0..number {
        seeds.bits();
    }
    seeds.split(number as u64).bits()
}

/// The drives as they are when a replay begins, in the order of their ids.
pub(crate) fn models(
    config: &ReplayConfig,
    plan: &Plan,
) -> Result<Vec<Box<dyn Drive>>, ReplayError> {
    let mut drives = Vec::new();
    for ((choice, _), planned) in choices(config).zip(&plan.drives) {
        let options = BuildOptions {
            seed: seed_of(config, planned.number),
            ssd_state: config.ssd_state,
            capacity_bytes: Some(planned.model_bytes),
            keep_events: false,
        };
        drives.push(match &choice.spec.model {
            ModelSpec::Hdd(_) if !planned.drift.is_empty() => drifting(choice, planned, options)?,
            _ => build(&choice.spec, options)?,
        });
    }
    Ok(drives)
}
