//! What do requests cost on this SSD?
//!
//! Source: [IANUS §4.2]; requirements B9: writing is opt-in, and bounded by a budget.

use super::Arguments;
use crate::failure::Failure;
use tandem_block::{MIB, SECTOR_BYTES};
use tandem_drives::spec::{DriveKind, DriveSpec};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::profile::throughput::{CostPlan, measure};
use tandem_engine::profile::{MeasureError, Session};
use tandem_engine::qos::cost::CostTable;
use tandem_sim::measure::ModelProbe;

/// The plan that the command line asks for; without writing reads alone.
///
/// # Errors
/// Sizes that no request to this drive has.
fn plan(arguments: &Arguments, may_write: bool, sector_bytes: u64) -> Result<CostPlan, Failure> {
    check_sizes(&arguments.cost_sizes, sector_bytes)?;
    if arguments.cost_depths.iter().any(|depth| !(1..=1024).contains(depth)) {
        return Err(Failure::usage("--cost-depths: a depth is 1 to 1024"));
    }
    let usual = CostPlan::usual();
    let kinds = usual.kinds.iter().copied().filter(|kind| kind.read || may_write);
    Ok(CostPlan {
        kinds: kinds.collect(),
        sizes_bytes: arguments.cost_sizes.clone(),
        depths: arguments.cost_depths.clone(),
        range_bytes: arguments.cost_range.unwrap_or(0),
        row_ns: arguments.cost_time,
        ..usual
    })
}

/// Are these sizes of requests to a drive with such sectors?
///
/// # Errors
/// One is not.
pub(super) fn check_sizes(sizes_bytes: &[u64], sector_bytes: u64) -> Result<(), Failure> {
    let sound =
        |size: &u64| size.is_multiple_of(sector_bytes) && (sector_bytes..=32 * MIB).contains(size);
    match sizes_bytes.iter().find(|size| !sound(size)) {
        None => Ok(()),
        Some(wrong) => Err(Failure::usage(format!(
            "--cost-sizes: a request has {sector_bytes} bytes to 32MiB, in sectors of {sector_bytes} bytes, not {wrong}"
        ))),
    }
}

/// Of a modelled SSD, in its worst state: full, in random order.
///
/// # Errors
/// If it is none, or cannot be built.
pub(super) fn of_spec(spec: &DriveSpec, arguments: &Arguments) -> Result<CostTable, Failure> {
    if spec.kind() != DriveKind::Ssd {
        return Err(Failure::usage("--costs is for SSDs: nothing is promised on hard drives"));
    }
    let plan = plan(arguments, true, SECTOR_BYTES)?;
    let capacity_bytes = Some(arguments.cost_capacity.min(spec.capacity_bytes()));
    let mut table: Option<CostTable> = None;
    for kind in &plan.kinds {
        // each on a drive of its own: what one leaves behind would be the next one's state
        let options =
            BuildOptions { ssd_state: SsdState::Steady, capacity_bytes, ..BuildOptions::default() };
        let drive = build(spec, options).map_err(Failure::usage)?;
        let mut probe = ModelProbe::new(drive);
        let mut quiet = |_: &'static str| {};
        let mut session = Session::new(&mut probe, u64::MAX, &mut quiet);
        let one = CostPlan { kinds: vec![*kind], ..plan.clone() };
        let one = measure(&mut session, &one).map_err(Failure::usage)?;
        match &mut table {
            Some(table) => table.rows.extend(one.rows),
            None => table = Some(one),
        }
    }
    table.ok_or_else(|| Failure::usage("nothing was asked for"))
}

/// Of a real device or file. Writes age the drive, which is what is wanted: the worst state.
///
/// # Errors
/// The drive's, or the budget's.
pub(super) fn of_device(
    session: &mut Session<'_>,
    arguments: &Arguments,
    may_write: bool,
    sector_bytes: u64,
) -> Result<CostTable, Failure> {
    let plan = plan(arguments, may_write, sector_bytes)?;
    measure(session, &plan).map_err(|why| match why {
        MeasureError::Budget { .. } => Failure::usage(why),
        MeasureError::Drive(_) => Failure::from(anyhow::Error::from(why)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_with_the_sectors_of_the_drive() {
        // (size, fits sectors of 512 bytes, fits sectors of 4096)
        for (size, small, large) in [
            (0, false, false),
            (512, true, false),
            (513, false, false),
            (4096, true, true),
            (4608, true, false),
            (32 * MIB, true, true),
            (32 * MIB + 4096, false, false),
        ] {
            for (sector_bytes, fits) in [(512, small), (4096, large)] {
                let checked = check_sizes(&[65_536, size], sector_bytes);
                assert_eq!(checked.is_ok(), fits, "{size} bytes in sectors of {sector_bytes}");
            }
        }
    }
}
