//! Who is the member, and who has to know before anything is answered?
//!
//! Superblocks are written in rounds, each under the next generation. Three of them belong here: one
//! that names the successor before its marks count, one that makes it the member, and one that forgets
//! it. The second begins with the successor's own superblock: once that is durable, a start takes it for
//! the member as long as every other one names it, in either way (`start.rs`).

use super::{Ending, Flight, Stage, Step};
use crate::drain::Evacuation;
use crate::format::superblock::{Successor, SuccessorState};
use crate::io::{DeviceIo, News};
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::migration::Migration;
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::port::{Command, IoOp};
use crate::replacement::Replacement;
use crate::replicas::Replicas;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, PayloadId};

impl Replacement {
    /// One of the first two marks is written.
    pub(super) fn first_mark_written(
        &mut self,
        status: Result<(), IoError>,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        if let Err(error) = status {
            self.end_replacement(Ending::SuccessorFailed(error), metadata, io);
            return;
        }
        let h = self.current.as_deref_mut().expect("its command ended");
        if h.mark_number == 1 {
            self.write_mark(0, 1, io);
        } else {
            assert!(h.mark_number == 2, "there are two first marks");
            h.stage = Stage::Announcing { begun: false };
        }
    }

    /// Is a round of superblocks under way that is not the start's or the stop's?
    pub(crate) fn round_is_replacements(&self, io: &DeviceIo) -> bool {
        let running = io.is_serving();
        running
            && self.current.as_deref().is_some_and(|h| {
                matches!(
                    h.stage,
                    Stage::Announcing { begun: true } | Stage::Voiding { .. } | Stage::Switching(_)
                )
            })
    }

    /// Is this member's superblock left out of the round?
    pub(crate) fn round_skips(&self, device: DeviceId) -> bool {
        self.current
            .as_deref()
            .is_some_and(|h| h.stage == Stage::Switching(Step::Others) && h.bay == device)
    }

    /// The replacement is over without a change of drives. The superblocks are told first.
    pub(crate) fn end_replacement(
        &mut self,
        why: Ending,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("asked while there is one");
        match h.stage {
            Stage::Voiding { .. } | Stage::Leaving => return,
            // it cannot be undone: others know already
            Stage::Switching(Step::Others | Step::Retire(_)) | Stage::Landing => return,
            Stage::Switching(Step::Own(_)) => {
                let (bay, uuid) = (h.bay, h.old_uuid);
                io[bay].config.uuid = uuid;
                // the round begins anew under its own number
                metadata.repeat_generation();
            }
            _ => {}
        }
        let h = self.current.as_deref_mut().expect("asked above");
        h.ending = Some(why);
        h.stage = Stage::Voiding { begun: false };
        h.marking = None;
        if let Some(piece) = h.pieces.claimed().filter(|piece| !piece.is_sent) {
            assert!(piece.buffer == PayloadId::NONE, "made when it is sent");
            h.pieces.take();
        }
    }

    /// Nothing is under way with the successor: it is given back.
    fn leave_successor(&mut self, io: &mut DeviceIo) {
        let h = self.current.as_deref_mut().expect("asked while there is one");
        if !h.flights.is_empty() {
            return;
        }
        if h.ending == Some(Ending::Cancelled) && h.mark_number > 0 {
            // it shall not look like a successor to whoever finds it
            h.mark_number = 0;
            let (place, places) = (h.place, h.own_places());
            for offset_bytes in places {
                let bytes = vec![0; BLOCK_BYTES as usize];
                let op = IoOp::WriteMeta { offset_bytes, bytes, fua: true };
                self.send_replacement(place, op, Flight::Wipe, io);
            }
            return;
        }
        h.assert_nothing_kept();
        let h = self.current.take().expect("asked above");
        self.withhold(io);
        assert!(h.held.is_empty(), "they went on when the superblocks were told");
        assert!(h.pieces.claimed().is_none() && h.marking.is_none(), "nothing is copied any more");
        io.note_successor(None);
        let ended = h.ending.map(|why| (io.now(), why));
        self.ended = Some(super::ReplacementView { ended, stage: "ended", ..h.view() });
        io.send(Command::LetGo { device: h.device });
    }

    fn write_own_superblock(
        &mut self,
        copy: usize,
        objects: &Objects,
        metadata: &MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref().expect("asked while there is one");
        assert!(
            h.stage == Stage::Switching(Step::Own(copy)),
            "the successor's superblocks are written one after the other"
        );
        let (place, offset_bytes) = (h.place, h.own_places()[copy]);
        let bytes = metadata.superblock(h.bay, false, objects, self, evacuation, io).encode();
        let op = IoOp::WriteMeta { offset_bytes, bytes, fua: true };
        self.send_replacement(place, op, Flight::OwnSuperblock, io);
    }

    /// The old drive's superblock says that it was replaced, for whoever brings it alone.
    fn tell_old(
        &mut self,
        copy: usize,
        objects: &Objects,
        metadata: &MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref().expect("asked while there is one");
        assert!(
            !h.joins && h.stage == Stage::Switching(Step::Retire(copy)),
            "the old drive is told when all others were"
        );
        let (device, uuid, old_uuid) = (h.device, h.uuid, h.old_uuid);
        let mut told = metadata.superblock(device, false, objects, self, evacuation, io);
        told.members[usize::from(device.0)].uuid = old_uuid;
        told.successor = Some(Successor { state: SuccessorState::Replaced, index: device.0, uuid });
        let last = io[device].drive_bytes / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES;
        let offset_bytes = if copy == 0 { 0 } else { last };
        let op = IoOp::WriteMeta { offset_bytes, bytes: told.encode(), fua: true };
        self.send_replacement(device, op, Flight::Retire, io);
    }

    pub(super) fn switch_flushed(
        &mut self,
        status: Result<(), IoError>,
        objects: &Objects,
        metadata: &mut MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("its command ended");
        if !matches!(h.stage, Stage::Switching(_)) {
            return;
        }
        if let Err(error) = status {
            self.end_replacement(Ending::SuccessorFailed(error), metadata, io);
            return;
        }
        assert!(h.stage == Stage::Switching(Step::Flush), "the successor is flushed once");
        assert!(
            h.copied_bytes == h.plan.total_bytes() && h.pieces.claimed().is_none(),
            "the successor has everything before it is the member"
        );
        h.stage = Stage::Switching(Step::Own(0));
        let (bay, uuid) = (h.bay, h.uuid);
        io[bay].config.uuid = uuid;
        metadata.next_generation();
        self.write_own_superblock(0, objects, metadata, evacuation, io);
    }

    /// … or could not be told: the others were.
    pub(super) fn old_was_told(
        &mut self,
        objects: &Objects,
        metadata: &MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("its command ended");
        if h.stage == Stage::Switching(Step::Retire(0)) {
            h.stage = Stage::Switching(Step::Retire(1));
            self.tell_old(1, objects, metadata, evacuation, io);
            return;
        }
        let h = self.current.take().expect("its command ended");
        assert!(h.stage == Stage::Switching(Step::Retire(1)), "the old drive is told twice");
        self.withhold(io);
        assert!(h.flights.is_empty() && h.under_way.is_empty(), "nothing is under way");
        io[h.device].drive_bytes = h.drive_bytes;
        io.note_successor(None);
        io.send(Command::Succeed { device: h.device });
        let ended = Some((io.now(), Ending::Finished));
        self.ended = Some(super::ReplacementView { ended, stage: "ended", ..h.view() });
        io.send_all(h.held.into_iter().map(Command::Submit));
    }

    /// Nothing goes to the old drive any more: when all is quiet, the successor is flushed.
    fn settle_successor(
        &mut self,
        objects: &Objects,
        metadata: &mut MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let no_round = !metadata.writes_superblocks();
        let without_flush = io.breaks(Mutant::ReplacementSwitchesUnflushed);
        let h = self.current.as_deref_mut().expect("asked while there is one");
        let quiet = h.under_way.is_empty() && h.early.is_empty() && h.flights.is_empty();
        let is_settling = if h.joins { h.is_copied() } else { quiet };
        if !is_settling || !no_round {
            return;
        }
        h.stage = Stage::Switching(Step::Flush);
        let place = h.place;
        if without_flush {
            self.switch_flushed(Ok(()), objects, metadata, evacuation, io);
        } else {
            self.send_replacement(place, IoOp::Flush, Flight::SwitchFlush, io);
        }
    }

    /// What comes before and after the copying, as far as it is possible now.
    pub(super) fn run_switch(
        &mut self,
        objects: &Objects,
        metadata: &mut MetadataHomes,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let no_round = !metadata.writes_superblocks();
        let h = self.current.as_deref_mut().expect("asked while there is one");
        match h.stage {
            Stage::Announcing { begun: false } if no_round => {
                h.stage = Stage::Announcing { begun: true };
                metadata.ask_for_superblocks(false, io);
            }
            Stage::Voiding { begun: false } if no_round => {
                h.stage = Stage::Voiding { begun: true };
                metadata.ask_for_superblocks(false, io);
            }
            Stage::Settling => self.settle_successor(objects, metadata, evacuation, io),
            Stage::Landing => self.land(metadata, io),
            Stage::Leaving => self.leave_successor(io),
            _ => {}
        }
    }
}

impl Replicas {
    /// Both copies of the round are written.
    pub(crate) fn round_done(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let h = self.replacement.current.as_deref_mut().expect("asked above");
        match h.stage {
            Stage::Announcing { begun } => {
                assert!(begun, "a round that was asked for is one that has begun");
                h.stage = Stage::Copying;
            }
            Stage::Switching(_) if h.joins => self.take_bay(store, volumes, policy, io),
            Stage::Switching(step) => {
                assert!(step == Step::Others, "the members are told after the successor");
                h.stage = Stage::Switching(Step::Retire(0));
                self.replacement.tell_old(
                    0,
                    &volumes.objects,
                    &store.metadata,
                    &migration.evacuation,
                    io,
                );
            }
            // one that was under way when it ended: another one follows
            Stage::Voiding { begun: false } => {}
            Stage::Voiding { begun: true } => {
                h.stage = Stage::Leaving;
                self.replacement.answer_all_doubled();
                self.replacement.give_free(io);
            }
            other => unreachable!("no round in {other:?}"),
        }
    }

    pub(super) fn own_superblock_written(
        &mut self,
        status: Result<(), IoError>,
        store: &mut Store,
        volumes: &Volumes,
        migration: &Migration,
        io: &mut DeviceIo,
    ) {
        let h = self.replacement.current.as_deref_mut().expect("its command ended");
        let Stage::Switching(Step::Own(copy)) = h.stage else { return };
        if let Err(error) = status {
            // nobody else was told yet: it is as if it had never been
            self.replacement.end_replacement(
                Ending::SuccessorFailed(error),
                &mut store.metadata,
                io,
            );
        } else if copy == 0 {
            h.stage = Stage::Switching(Step::Own(1));
            self.replacement.write_own_superblock(
                1,
                &volumes.objects,
                &store.metadata,
                &migration.evacuation,
                io,
            );
        } else {
            h.stage = Stage::Switching(Step::Others);
            io.tell(News::Superblocks { clean: false, copy: 0 });
        }
    }
}
