//! Is there a fault that explains this error?
//!
//! A pool with broken drives may say so, but only of what they broke: an error is right if it names a
//! drive that had a fault, on the bytes in question where it names bytes.

use crate::pool::VOLUME;
use crate::simulation::{Hit, HitKind, Simulation};
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, IoError};
use tandem_engine::StartError;
use tandem_engine::format::page::PAGE_BYTES;
use tandem_engine::map::{NONE, Place, Slot};

/// A range of bytes on a drive.
type Extent = (DeviceId, (u64, u64));

fn touches(hit: &Hit, extents: &[Extent]) -> bool {
    extents.iter().any(|(device, (first, end))| {
        hit.device == *device && hit.range.0 < *end && *first < hit.range.1
    })
}

/// Did the drive that the error names ever have a fault of that kind?
pub fn has_cause(sim: &Simulation, error: IoError) -> bool {
    any_hit(sim, error, |_| true)
}

/// The same, where nothing else was going on and the block alone was read: the fault must lie where
/// the block does.
pub fn has_cause_at(sim: &Simulation, error: IoError, block: u64) -> bool {
    let extents = extents_of(sim, block);
    any_hit(sim, error, |hit| match (error, hit.what) {
        // a drive that was taken out of service, or that lied, may have lost anything
        (IoError::Dead(_), _) | (_, HitKind::FlushIgnored) => true,
        _ => touches(hit, &extents),
    })
}

fn any_hit(sim: &Simulation, error: IoError, fits: impl Fn(&Hit) -> bool) -> bool {
    let (device, wanted): (DeviceId, &[HitKind]) = match error {
        IoError::Device(device) => {
            (device, &[HitKind::ReadError, HitKind::WriteError, HitKind::FlushError])
        }
        IoError::Dead(device) => {
            (device, &[HitKind::ReadError, HitKind::WriteError, HitKind::FlushError])
        }
        IoError::NoAnswer(device) => (device, &[HitKind::NeverEnds]),
        IoError::Checksum(device) => {
            const WRONG: &[HitKind] = &[
                HitKind::WrongContents,
                HitKind::WrongRead,
                HitKind::RolledBack,
                HitKind::WriteError,
                HitKind::FlushIgnored,
            ];
            (device, WRONG)
        }
        _ => return false,
    };
    sim.hits().iter().any(|hit| hit.device == device && wanted.contains(&hit.what) && fits(hit))
}

/// Is there a fault that explains why a start at `began` was refused?
pub fn has_cause_to_refuse(sim: &Simulation, error: &StartError, began: Instant) -> bool {
    match error {
        StartError::Device(error) => any_hit(sim, *error, |hit| hit.at >= began),
        // the drive missed a round of superblocks
        StartError::StaleDevice { device } => {
            let wanted = |hit: &Hit| usize::from(hit.device.0) == *device;
            sim.hits().iter().any(|hit| wanted(hit) && hit.what != HitKind::ReadError)
        }
        StartError::Corrupt(_)
        | StartError::JournalGap { .. }
        | StartError::JournalDamaged { .. }
        | StartError::RootUnreadable { .. }
        | StartError::NotFormatted { .. }
        | StartError::DamagedSuperblock { .. } => {
            let metadata = metadata_of(sim);
            sim.hits().iter().any(|hit| touches(hit, &metadata))
        }
        _ => false,
    }
}

/// Everything on the drives that is not blocks: superblocks, journals, roots, pages.
fn metadata_of(sim: &Simulation) -> Vec<Extent> {
    let devices = sim.engine.devices().iter();
    devices
        .flat_map(|device| {
            let (layout, end) = (&device.layout, device.config.capacity_bytes);
            let data = if device.is_ssd() { layout.slot_offset } else { layout.home_offset };
            [(device.id, (0, data)), (device.id, (end - 2 * BLOCK_BYTES, end))]
        })
        .collect()
}

/// Where a block of the volume lies, and the checksum page of its home.
fn extents_of(sim: &Simulation, block: u64) -> Vec<Extent> {
    let (engine, map) = (&sim.engine, sim.engine.map());
    let Some((_, volume)) = engine.objects().iter().find(|(id, _)| *id == VOLUME) else {
        return Vec::new();
    };
    let logical = volume.first + block;
    let of_slot = |slot: Slot| {
        let region = map.slots().region(slot);
        (region.device, (region.address(slot), region.address(slot) + BLOCK_BYTES))
    };
    let mut extents: Vec<Extent> = Vec::new();
    for (place, _) in map.entry(logical).places() {
        match place {
            Place::Ssd(slot) | Place::Log(slot) if slot != NONE => extents.push(of_slot(slot)),
            Place::Ssd(_) | Place::Log(_) => {}
            Place::Home => {
                let (home, first) = sim.engine.home_of(logical);
                extents.push((home, (first, first + BLOCK_BYTES)));
            }
        }
    }
    if !extents.is_empty() {
        let pages = sim.engine.checksum_places(logical).into_iter();
        extents.extend(pages.map(|(device, first)| (device, (first, first + PAGE_BYTES))));
    }
    extents.extend(map.fragments(logical).iter().map(|fragment| of_slot(fragment.slot)));
    extents
}
