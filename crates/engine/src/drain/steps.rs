//! What an administrator may ask of a drain.

use super::{Drain, DrainError, Stage, can_change_members};
use crate::config::Role;
use crate::format::layout::blocks_without_homes;
use crate::format::superblock::Standing;
use crate::io::DeviceIo;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::replicas::Replicas;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Migration {
    fn can_drain_ssd(
        &self,
        device: DeviceId,
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        io: &DeviceIo,
    ) -> Result<u64, DrainError> {
        if io.config().qos.streams.iter().any(|stream| stream.promise.is_some()) {
            return Err(DrainError::Promised);
        }
        let others: u64 = (0..io.ssds().len())
            .filter(|&ssd| io.ssds()[ssd] != device)
            .filter(|&ssd| io[io.ssds()[ssd]].takes_new())
            .map(|ssd| store.map.allocators()[ssd].slot_count())
            .sum();
        policy.tiers.try_space(others, &store.map).map_err(DrainError::Tier)?;
        if io.hdds().is_empty() {
            // what does not fit the other SSDs has no home to go to
            let (room, owned) = (blocks_without_homes(others), volumes.space_blocks(&store.map).2);
            if owned > room {
                let (room, wanted) = (room * BLOCK_BYTES, owned * BLOCK_BYTES);
                return Err(DrainError::NoRoom { room, wanted });
            }
        }
        Ok(self.evacuation.lies_on(device, &store.map, &volumes.objects, io))
    }

    /// Could this drive be drained? Says how many bytes would have to move.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn can_drain(
        &self,
        device: DeviceId,
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        replicas: &Replicas,
        io: &DeviceIo,
    ) -> Result<u64, DrainError> {
        can_change_members(&store.commit, io, &store.metadata)?;
        if let Some(drain) = &self.evacuation.current {
            return Err(DrainError::UnderWay(drain.device));
        }
        if replicas.replacement.is_under_way() {
            return Err(DrainError::NotNow("replaces a drive: wait for its end, or cancel that"));
        }
        let Some(d) = io.drives().get(device) else {
            return Err(DrainError::NoDevice(device));
        };
        if d.is_gone() {
            return Err(DrainError::Gone(device));
        }
        if d.is_pair {
            return Err(DrainError::IsPair(device));
        }
        if d.is_faulted() {
            return Err(DrainError::Faulted(device));
        }
        if io.others_like(device) == 0 {
            let role = if d.is_ssd() { "SSD" } else { "hard drive" };
            return Err(DrainError::Last { device, role });
        }
        match d.config.role {
            Role::Ssd => self.can_drain_ssd(device, store, volumes, policy, io),
            Role::Hdd => self.evacuation.can_vacate(
                device,
                &store.metadata,
                &store.map,
                &volumes.objects,
                io,
            ),
        }
    }

    /// Nothing new goes to this drive from now on, and what lies there is moved away. The caller wakes the
    /// engine.
    ///
    /// # Errors
    /// As `can_drain`.
    pub(crate) fn drain(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        replicas: &Replicas,
        io: &mut DeviceIo,
    ) -> Result<(), DrainError> {
        let bytes = self.can_drain(device, store, volumes, policy, replicas, io)?;
        let stage = Stage::Announcing { begun: false };
        self.evacuation.current = Some(Box::new(Drain::new(device, stage, bytes, io.now())));
        self.evacuation.ended = None;
        self.evacuation.set_standing(
            device,
            Standing::Drains,
            &mut store.map,
            &mut volumes.objects,
            &mut policy.tiers,
            io,
        );
        Ok(())
    }

    /// Could this drive be removed now?
    ///
    /// # Errors
    /// Why not; if something lies on it, how much.
    pub(crate) fn can_remove(
        &self,
        device: DeviceId,
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        replicas: &Replicas,
        io: &DeviceIo,
    ) -> Result<(), DrainError> {
        can_change_members(&store.commit, io, &store.metadata)?;
        let Some(drain) = self.evacuation.current.as_deref().filter(|drain| drain.device == device)
        else {
            // for what is wrong with it in the first place
            let bytes = self.can_drain(device, store, volumes, policy, replicas, io)?;
            return Err(DrainError::NotDrained { device, bytes });
        };
        match drain.stage {
            Stage::Voiding { .. } => Err(DrainError::NotNow("takes the drive back")),
            Stage::Removing(_) => Err(DrainError::TooLate),
            _ if drain.drained.is_some() => Ok(()),
            _ if !store.metadata.can_do_without(device, io) => Err(DrainError::NotNow(
                "has no other drive with all of the metadata yet: wait until another one is level",
            )),
            _ => Err(DrainError::NotDrained {
                device,
                bytes: self.evacuation.lies_on(device, &store.map, &volumes.objects, io),
            }),
        }
    }

    /// A drive that was drained is none of the pool any more. The caller wakes the engine.
    ///
    /// # Errors
    /// As `can_remove`.
    pub(crate) fn remove(
        &mut self,
        device: DeviceId,
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        replicas: &Replicas,
        io: &mut DeviceIo,
    ) -> Result<(), DrainError> {
        self.can_remove(device, store, volumes, policy, replicas, io)?;
        self.evacuation.begin_removal(io);
        Ok(())
    }
}
