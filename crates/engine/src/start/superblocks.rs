//! What do the superblocks of a pool say, and do they agree?

use super::Start;
use super::bays::take_bays;
use crate::StartError;
use crate::drain::Evacuation;
use crate::format::FormatError;
use crate::format::superblock::{self, SuccessorState, Superblock};
use crate::io::DeviceIo;
use crate::metadata::MetadataHomes;
use crate::replacement::Replacement;
use tandem_block::DeviceId;

impl Start {
    pub(super) fn take_superblock(&mut self, device: DeviceId, bytes: &[u8]) {
        let starting = self.starting();
        let entry = &mut starting.superblocks[usize::from(device.0)];
        match Superblock::decode(bytes) {
            Ok(found) => {
                if entry.0.as_ref().is_none_or(|known| found.generation > known.generation) {
                    entry.0 = Some(found);
                }
            }
            Err(
                error @ (FormatError::Earlier { .. }
                | FormatError::Version { .. }
                | FormatError::Features { .. }),
            ) => {
                starting.other_formats.push((device, error));
            }
            Err(error) => {
                entry.1 |=
                    superblock::is_ours(bytes) || matches!(error, FormatError::Checksum { .. });
            }
        }
    }

    /// No life of this format writes over a drive of another one, or beside it.
    fn refuse_other_formats(
        &mut self,
        found: &[(Option<Superblock>, bool)],
    ) -> Result<(), StartError> {
        // an earlier program opens no pool of this version, so beside a sound copy its own is a leftover; a newer
        // program may have been cut between the two
        let counts = |(device, error): &(DeviceId, FormatError)| {
            !matches!(error, FormatError::Earlier { .. })
                || found[usize::from(device.0)].0.is_none()
        };
        let others = std::mem::take(&mut self.starting().other_formats);
        others.into_iter().find(counts).map_or(Ok(()), |(device, error)| {
            Err(StartError::OtherFormat { device: usize::from(device.0), error })
        })
    }

    /// Are these the drives of one pool, all of them, in their places?
    pub(super) fn check_superblocks(
        &mut self,
        replacement: &mut Replacement,
        metadata: &mut MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) -> Result<Vec<(usize, Superblock)>, StartError> {
        let mut found = std::mem::take(&mut self.starting().superblocks);
        self.refuse_other_formats(&found)?;
        take_bays(&mut found, io)?;
        evacuation.take_standings(&mut found, metadata, io)?;
        replacement.resolve_successor(&mut found, io);
        take_bays(&mut found, io)?; // a successor that is the member now may not know of them
        evacuation.check_gone(&found, io)?;
        let mut all = Vec::new();
        let is_present = |index: usize| !io[DeviceId(index as u8)].is_faulted();
        let present = found.into_iter().enumerate().filter(|(index, _)| is_present(*index));
        for (index, (superblock, damaged)) in present {
            let Some(superblock) = superblock else {
                return Err(if damaged {
                    StartError::DamagedSuperblock { device: index }
                } else {
                    StartError::NotFormatted { device: index }
                });
            };
            all.push((index, superblock));
        }
        let (_, first) = all.first().cloned().ok_or(StartError::NoMetadata)?;
        let newest = all.iter().map(|(_, s)| s.generation).max().expect("at least one drive");
        for &(index, ref superblock) in &all {
            let own = superblock.members[usize::from(superblock.index)].uuid;
            let told = superblock.successor.is_some_and(|s| s.state == SuccessorState::Replaced);
            let others = all.iter().filter(|(_, s)| s.generation == newest && s.pool == first.pool);
            let is_other = |s: &Superblock| s.members.get(index).is_some_and(|m| m.uuid != own);
            if superblock.pool == first.pool && usize::from(superblock.index) == index {
                let mut others = others.map(|(_, s)| s);
                if told || others.any(is_other) {
                    return Err(StartError::Replaced { device: index });
                }
            }
            if superblock.pool != first.pool {
                return Err(StartError::OtherPool {
                    device: index,
                    pool: superblock.name.clone(),
                    expected: first.name.clone(),
                });
            }
            if usize::from(superblock.index) != index {
                let place = usize::from(superblock.index);
                return Err(StartError::WrongPlace { device: index, place });
            }
            if superblock.members.len() != io.drives().len() {
                let members = superblock.members.len();
                return Err(StartError::Members { found: io.drives().len(), members });
            }
            let own = superblock.members[index];
            let config = &io[DeviceId(index as u8)].config;
            if own.role != config.role {
                return Err(StartError::WrongPlace { device: index, place: index });
            }
            if config.capacity_bytes < own.capacity_bytes {
                return Err(StartError::Shrunk {
                    device: index,
                    was: own.capacity_bytes,
                    is: config.capacity_bytes,
                });
            }
            // every start and every stop rewrites all superblocks; one round may have been cut
            if superblock.generation + 1 < newest && !metadata.contains(DeviceId(index as u8)) {
                return Err(StartError::StaleDevice { device: index });
            }
        }
        // a round that was cut is repeated under its own number: cuts in a row must not make a drive
        // look as if it had missed a life
        let whole = all.iter().all(|(_, s)| s.generation == newest);
        metadata.found_generation(if whole { newest } else { newest - 1 });
        metadata.found_features(all.iter().fold(0, |bits, (_, s)| bits | s.compatible));
        Ok(all)
    }
}
