//! Which of two drives is the member, when a pool starts with both?
//!
//! ```text
//! successor's own superblock   the other superblocks                       the member is
//! sound                        each says "member" or "shall be" of it      the successor
//! no                           each says "shall be" of it, mark is sound   the old one; the copy goes on
//! anything else                                                            the old one; it is over
//! ```
//! A superblock that does not name it is of a life without it, whose writes it lacks.

use super::{DriveCopy, Ending, Flight, ReplacementView, Stage};
use crate::device::Service;
use crate::format::replacement::Mark;
use crate::format::superblock::{Standing, SuccessorState, Superblock};
use crate::io::{DeviceIo, News};
use crate::metadata::MetadataHomes;
use crate::port::{Command, IoOp};
use crate::replacement::Replacement;
use crate::replicas::Replicas;
use crate::start::Start;
use tandem_block::{BLOCK_BYTES, IoError};

/// What stands on the successor.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    superblock: Option<Superblock>,
    mark: Option<Mark>,
}

impl Replacement {
    /// Decides, when all superblocks are read; the successor's takes the old one's place among them if
    /// it is the member.
    pub(crate) fn resolve_successor(
        &mut self,
        all: &mut [(Option<Superblock>, bool)],
        io: &mut DeviceIo,
    ) {
        let Some(h) = self.current.as_deref_mut() else { return };
        assert!(h.flights.is_empty(), "who is the member is decided when all is read");
        assert!(h.stage == Stage::Opening, "nothing ends before it is decided who is the member");
        let (device, index) = (h.device, usize::from(h.device.0));
        let found = std::mem::take(&mut h.found);
        let known = || all.iter().enumerate().filter_map(|(i, (s, _))| Some((i, s.as_ref()?)));
        let shall_be = |s: &Superblock, uuid: u128| {
            s.successor.is_some_and(|x| x.index == device.0 && x.uuid == uuid)
        };
        let is = |s: &Superblock, uuid: u128| {
            s.members.get(index).is_some_and(|member| member.uuid == uuid)
        };
        if let Some(own) = found.superblock {
            let uuid = own.members[usize::from(own.index)].uuid;
            let mut named = known().map(|(i, s)| {
                s.pool == own.pool && (shall_be(s, uuid) || (i != index && is(s, uuid)))
            });
            if own.index == device.0 && known().count() > 0 && named.all(|named| named) {
                h.joins = io[device].is_gone() || io.config().gone.contains(&device);
                io[device].drive_bytes = h.drive_bytes;
                io[device].config.capacity_bytes = h.drive_bytes;
                if h.joins {
                    // others, or the configuration, may not know yet that the place is not empty any more
                    io[device].standing = Standing::Serves;
                    io[device].service = Service::Full;
                    io.note_gone(device, false);
                }
                let ended = Some((io.now(), Ending::Finished));
                let view = ReplacementView { ended, stage: "ended", ..h.view() };
                self.ended = Some(view);
                self.current = None;
                self.withhold(io);
                io.note_successor(None);
                io.send(Command::Succeed { device });
                all[index] = (Some(own), false);
                return;
            }
        }
        let is_known = found.mark.filter(|mark| {
            let copying = |s: &Superblock| {
                let state = s.successor.map(|x| x.state);
                s.pool == mark.pool
                    && shall_be(s, mark.successor)
                    && state == Some(SuccessorState::Copying)
            };
            mark.index == device.0 && known().count() > 0 && known().all(|(_, s)| copying(s))
        });
        match is_known {
            Some(mark) => {
                h.uuid = mark.successor;
                h.old_uuid = mark.replaces;
                h.mark_number = mark.number;
                (h.copied_bytes, h.marked_bytes) = (mark.copied_bytes, mark.copied_bytes);
                h.stats.resumed_bytes = mark.copied_bytes;
                h.stage = Stage::Copying;
                h.joins = io[device].is_gone();
            }
            None => self.leave_unknown(io),
        }
    }

    fn leave_unknown(&mut self, io: &mut DeviceIo) {
        let mut h = self.current.take().expect("asked while there is one");
        self.withhold(io);
        h.joins = io[h.bay].is_gone();
        let ended = Some((io.now(), Ending::NotKnown));
        self.ended = Some(ReplacementView { ended, stage: "ended", ..h.view() });
        io.note_successor(None);
        io.send(Command::LetGo { device: h.bay });
    }

    /// The members' layouts are known: what is copied, and in which order.
    pub(crate) fn plan_replacement(&mut self, metadata: &MetadataHomes, io: &mut DeviceIo) {
        let Some(h) = self.current.as_deref_mut() else { return };
        if h.joins {
            let mut h = self.current.take().expect("asked above");
            let planned = self.plan_join(&mut h, metadata, io);
            self.current = Some(h);
            self.withhold(io);
            if planned.is_err() {
                self.leave_unknown(io);
            }
            return;
        }
        let old = &io[h.device];
        h.plan = super::Plan::of(&old.layout, old.config.capacity_bytes);
        h.copied_bytes = h.copied_bytes.min(h.plan.data_bytes());
        h.marked_bytes = h.copied_bytes;
    }

    /// Reads the successor's marks, or superblocks, beside those of the members.
    pub(crate) fn open_successor(&mut self, start: &mut Start, io: &mut DeviceIo) {
        let Some(successor) = io.config().successor else { return };
        assert!(self.current.is_none(), "one drive at a time takes another one's place");
        let mut h = DriveCopy::new(
            successor.device,
            self.successor_place(io),
            successor.capacity_bytes,
            io.now(),
        );
        h.old_uuid = io[successor.device].config.uuid;
        let (place, places) = (h.place, h.own_places());
        self.current = Some(Box::new(h));
        self.withhold(io);
        for offset_bytes in places {
            start.expect_recovery_read();
            let op = IoOp::ReadMeta { offset_bytes, length_bytes: BLOCK_BYTES };
            self.send_replacement(place, op, Flight::Open, io);
        }
    }
}

impl Replicas {
    pub(super) fn successor_read(
        &mut self,
        status: Result<(), IoError>,
        bytes: &[u8],
        io: &mut DeviceIo,
    ) {
        let found = &mut self.replacement.current.as_deref_mut().expect("its command ended").found;
        if status.is_ok() {
            if let Ok(superblock) = Superblock::decode(bytes)
                && found.superblock.as_ref().is_none_or(|s| s.generation < superblock.generation)
            {
                found.superblock = Some(superblock);
            }
            if let Ok(mark) = Mark::decode(bytes)
                && found.mark.as_ref().is_none_or(|known| known.number < mark.number)
            {
                found.mark = Some(mark);
            }
        }
        io.tell(News::StartReadOver);
    }
}
