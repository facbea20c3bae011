//! One, two or four hard drives beside an SSD: what does each one bring?
//!
//! Source: requirements M12 and [TOS abstract] (several hard drives per SSD, scheduled together).

use super::{Figures, Workload, run};
use crate::replay::ReplayError;

/// So many WD100EFAX beside a 960 EVO under `policy`.
///
/// # Errors
/// If the replay cannot be run.
pub fn fleet(policy: &str, hdds: usize, workload: Workload<'_>) -> Result<Figures, ReplayError> {
    Ok(Figures::of(&run(policy, hdds, workload, |_| {})?))
}
