//! The end of a drain, step by step.

use crate::drain::{Ending, Stage, Step};
use crate::io::{DeviceIo, News};
use crate::migration::Migration;
use crate::port::Command;
use crate::store::Store;
use crate::volumes::Volumes;

impl Migration {
    /// Both copies of the round are written.
    pub(crate) fn drain_round_done(
        &mut self,
        store: &Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        let stage = self.evacuation.current.as_deref().expect("asked above").stage;
        match stage {
            Stage::Announcing { .. } => self.evacuation.set_drain_stage(Stage::Moving),
            // one that was under way when it ended: another one follows
            Stage::Voiding { begun: false } => {}
            Stage::Voiding { begun: true } => {
                self.evacuation.end_drain(Ending::Cancelled, &store.map, &volumes.objects, io)
            }
            Stage::Removing(Step::Announced) => {
                self.evacuation.set_drain_stage(Stage::Removing(Step::Quiet));
                self.evacuation.make_gone(io);
            }
            Stage::Removing(Step::Others) => {
                self.evacuation.set_drain_stage(Stage::Removing(Step::Own));
                io.tell(News::Superblocks { clean: false, copy: 0 });
            }
            Stage::Removing(Step::Own) => {
                volumes.objects.vacated();
                let device = self.evacuation.current.as_deref().expect("asked above").device;
                io[device].dirty = false;
                self.evacuation.end_drain(Ending::Removed, &store.map, &volumes.objects, io);
                io.note_gone(device, true);
                io.send(Command::Close { device });
            }
            other => unreachable!("no round in {other:?}"),
        }
    }
}
