//! What does a fresh pool consist of, and what do its superblocks say?
//!
//! Source: design decision 7. An empty checkpoint on every metadata home, whose root names the volumes,
//! then the superblocks. Volumes that an older pool does not have yet are made when it is served.

use crate::StartError;
use crate::format::root::Root;
use crate::io::{DeviceIo, News, Phase};
use crate::map::objects::{Objects, Undo};
use crate::migration::Migration;
use crate::mirror::Pairs;
use crate::owner::{Owner, StartIo};
use crate::policy::Policy;
use crate::port::{Command, IoOp};
use crate::replicas::Replicas;
use crate::start::{Stage, Start};
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, IoError};

impl Start {
    /// Are the volumes of the configuration those of the pool? New ones are made.
    pub(crate) fn admit_volumes(
        &self,
        objects: &mut Objects,
        io: &DeviceIo,
    ) -> Result<(), StartError> {
        let volumes = io.config().volumes.clone();
        for volume in volumes {
            if let Some(known) = objects.get(volume.object) {
                if known.size_bytes != volume.size_bytes || known.name != volume.name {
                    return Err(StartError::VolumeDiffers {
                        name: volume.name,
                        found: format!("{} of {} bytes", known.name, known.size_bytes),
                    });
                }
                continue;
            }
            let made = objects.create(volume.object, &volume.name, volume.size_bytes);
            let made = if objects.fits() { made } else { made.and(Err(IoError::NoSpace)) };
            made.map_err(|error| StartError::Volume { name: volume.name, error })?;
            let _left_behind = objects.note(&Undo::Made(volume.object));
        }
        Ok(())
    }

    /// From now on what is read is read for users, and not to build on.
    pub(crate) fn runs(&mut self, pairs: &mut Pairs, io: &mut DeviceIo) {
        self.end();
        io.enter(Phase::Running);
        pairs.engine_runs(io);
    }

    /// An empty checkpoint on every metadata home; superblocks come last, so that a format that is
    /// cut short leaves no pool.
    pub(crate) fn format_metadata(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        if let Err(error) = self.admit_volumes(&mut volumes.objects, io) {
            self.refuse(error, io);
            return;
        }
        volumes.objects.forget_changes(); // the root has them
        let root = Root {
            checkpoint: 1,
            replay_sequence: 1,
            replay_offset: 0,
            replay_upto: 0,
            objects: volumes.objects.records(),
            image: None,
            map: store.checksums.root(),
        };
        let bytes = root.encode(io.config().pool);
        for device in
            store.metadata.metadata_homes(io).into_iter().chain(store.metadata_replica.home())
        {
            let layout = io[device].layout;
            assert!(
                bytes.len() as u64 <= layout.root_bytes,
                "volumes are bounded by this at birth"
            );
            let blank = vec![0; BLOCK_BYTES as usize];
            for (offset_bytes, bytes) in [
                (layout.root_offset, blank.clone()),
                (layout.root_offset + layout.root_bytes, bytes.clone()),
                (layout.journal_offset, blank),
            ] {
                self.starting().outstanding += 1;
                let op = IoOp::WriteMeta { offset_bytes, bytes, fua: true };
                io.submit(device, op, Owner::Start(StartIo::Write));
            }
        }
        store.checkpoint.recovered(&root);
    }

    /// Everything is ready: requests are welcome.
    pub(crate) fn serve(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        assert!(!io.is_serving(), "a pool begins to serve once in a life");
        assert!(!store.metadata.is_degraded(), "a pool that is degraded is read only");
        assert!(store.commit.is_idle(), "nobody waits for a commit before the pool is served");
        if let Err(error) = self.admit_volumes(&mut volumes.objects, io) {
            self.refuse(error, io);
            return;
        }
        if let Err(why) = policy.tiers.make_space(&store.map, &volumes.objects, &store.metadata, io)
        {
            self.refuse(StartError::Tier(why), io);
            return;
        }
        if !volumes.objects.changes().is_empty() {
            store.commit.note_pending(io.now());
        }
        self.runs(&mut replicas.pairs, io);
        io.send(Command::Started(Ok(())));
    }

    /// A write that a start waits for has ended.
    pub(crate) fn write_done(&mut self, status: Result<(), IoError>, io: &mut DeviceIo) {
        if let Err(error) = status {
            self.fail_start(StartError::Device(error));
        }
        let starting = self.starting();
        assert!(starting.outstanding > 0, "a write of a start ends once");
        starting.outstanding -= 1;
        if starting.outstanding == 0 {
            io.tell(News::StartWritesOver);
        }
    }

    /// All of them have.
    pub(crate) fn writes_over(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        let starting = self.starting();
        assert!(
            matches!(starting.stage, Stage::Format | Stage::Flush | Stage::Erase)
                && starting.outstanding == 0,
            "a start writes when it formats, or when all was read"
        );
        if let Some(error) = starting.failed.take() {
            self.refuse(error, io);
        } else if starting.stage == Stage::Flush {
            self.install(store, volumes, migration, policy, replicas, io);
        } else {
            store.metadata.ask_for_superblocks(false, io);
        }
    }
}
