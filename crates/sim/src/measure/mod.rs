//! What does measuring a modelled drive say, and how far is it from the truth?
//!
//! Source: models §5.2 and §6.4; design decision 3. The procedures are the engine's and know nothing
//! of models: they see latencies alone. Here the clock is virtual, and since the truth is known, what
//! they say can be held against it.

mod deviation;
mod model;

pub use deviation::{Deviation, compared, deviations, hdd_deviations};
pub use model::ModelProbe;

use tandem_drives::spec::{DriveSpec, ModelSpec, SpecError};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::profile::hdd::{self, HddFindings};
use tandem_engine::profile::ssd::{self, SsdCosts};
use tandem_engine::profile::{MeasureError, Session};

/// Garbage is collected on a cut of the drive, because its state is made page by page; a collection
/// costs the same in lines of the same size.
const COLLECTING_BYTES: u64 = 16_000_000_000;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Findings {
    /// Of a hard drive.
    Hdd(Box<HddFindings>),
    /// Of an SSD.
    Ssd(Box<SsdCosts>),
}

/// Why a modelled drive cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureSpecError {
    /// The measurement ended.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The model cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// It has no properties.
    #[error("the drive `{0}` answers at once: there is nothing to measure")]
    Nothing(String),
}

/// Measures the modelled drive of `spec` in virtual time; `progress` is told what is measured.
///
/// # Errors
/// If the drive has nothing to measure.
pub fn measure(
    spec: &DriveSpec,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Findings, MeasureSpecError> {
    match &spec.model {
        ModelSpec::Hdd(_) => {
            let mut probe = ModelProbe::new(build(spec, BuildOptions::default())?);
            let mut session = Session::new(&mut probe, u64::MAX, progress);
            Ok(Findings::Hdd(Box::new(hdd::measure(&mut session, true)?)))
        }
        ModelSpec::Ssd(_) => Ok(Findings::Ssd(Box::new(measure_ssd(spec, progress)?.0))),
        ModelSpec::Null(_) => Err(MeasureSpecError::Nothing(spec.name.clone())),
    }
}

/// … an SSD; and the drive that has collected garbage, with the events of that.
fn measure_ssd(
    spec: &DriveSpec,
    progress: &mut dyn FnMut(&'static str),
) -> Result<(SsdCosts, ModelProbe), MeasureSpecError> {
    let mut costs = SsdCosts::default();
    let fresh = BuildOptions { ssd_state: SsdState::Fresh, ..BuildOptions::default() };
    let mut probe = ModelProbe::new(build(spec, fresh)?);
    ssd::writes(&mut Session::new(&mut probe, u64::MAX, progress), &mut costs)?;
    let steady = BuildOptions {
        capacity_bytes: Some(COLLECTING_BYTES.min(spec.capacity_bytes())),
        keep_events: true,
        ..BuildOptions::default()
    };
    let mut probe = ModelProbe::new(build(spec, steady)?);
    let mut session = Session::new(&mut probe, u64::MAX, progress);
    ssd::reads(&mut session, &mut costs)?;
    ssd::collections(&mut session, &mut costs)?;
    Ok((costs, probe))
}
