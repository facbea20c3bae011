//! How is a modelled drive made from its spec?

use crate::hdd::HddModel;
use crate::null::NullDrive;
use crate::spec::{DriveSpec, ModelSpec, SpecError};
use crate::ssd::{SsdModel, SsdState};
use tandem_block::Drive;

/// What is chosen beside the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// Seeds the drive's own generator. Drives of one set should differ.
    pub seed: u64,
    /// What an SSD holds at the start; hard drives start with an empty buffer.
    pub ssd_state: SsdState,
    /// Another capacity than the spec's, in bytes (see [`DriveSpec::with_capacity_bytes`]).
    pub capacity_bytes: Option<u64>,
    /// Keep inner events for [`Drive::take_events`]; they grow until taken.
    pub keep_events: bool,
}

impl Default for BuildOptions {
    /// Seed 1, steady (design, "Where a replay starts"), the spec's capacity, no events.
    fn default() -> Self {
        BuildOptions {
            seed: 1,
            ssd_state: SsdState::Steady,
            capacity_bytes: None,
            keep_events: false,
        }
    }
}

/// A drive that behaves as `spec` says.
///
/// # Errors
/// If the capacity asked for is none that the model can have.
pub fn build(spec: &DriveSpec, options: BuildOptions) -> Result<Box<dyn Drive>, SpecError> {
    let scaled;
    let spec = match options.capacity_bytes {
        Some(bytes) => {
            scaled = spec.clone().with_capacity_bytes(bytes)?;
            &scaled
        }
        None => spec,
    };
    Ok(match &spec.model {
        ModelSpec::Hdd(hdd) => Box::new(HddModel::new(hdd, options.seed, options.keep_events)),
        ModelSpec::Ssd(ssd) => {
            Box::new(SsdModel::new(ssd, options.ssd_state, options.seed, options.keep_events))
        }
        ModelSpec::Null(_) => Box::new(NullDrive::new(spec.capacity_bytes())),
    })
}
