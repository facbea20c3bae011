//! What of the engine's commands goes to both drives?
//!
//! Every write and TRIM that touches what was copied; it is done when both have it. A flush goes to the
//! successor too if anything was written there since its last one. Reads go to the old drive.

use super::{DriveCopy, Flight, Stage};
use crate::io::DeviceIo;
use crate::mutant::Mutant;
use crate::port::{Command, Io, IoId, IoOp};
use crate::replacement::Replacement;
use tandem_block::{Duration, IoError};

/// A command to the old drive under way.
#[derive(Clone, Debug)]
pub(super) struct Under {
    /// Bytes that it changes.
    pub(crate) range: Option<(u64, u64)>,
    /// It went to both drives, …
    pub(crate) doubled: bool,
    /// … and the successor has not answered yet.
    pub(crate) awaits_successor: bool,
    /// What the old drive answered.
    pub(crate) ended: Option<Ended>,
}

/// What the old drive has answered to a command that went to both.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) status: Result<(), IoError>,
    pub(crate) took: Option<Duration>,
    pub(crate) checksums: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

/// Bytes that a command changes.
pub(super) fn changed(op: &IoOp) -> Option<(u64, u64)> {
    match op {
        IoOp::Write { offset_bytes, length_bytes, .. }
        | IoOp::Trim { offset_bytes, length_bytes } => {
            Some((*offset_bytes, offset_bytes + length_bytes))
        }
        IoOp::WriteMeta { offset_bytes, bytes, .. } => {
            Some((*offset_bytes, offset_bytes + bytes.len() as u64))
        }
        IoOp::Read { .. } | IoOp::ReadMeta { .. } | IoOp::Flush => None,
    }
}

impl DriveCopy {
    /// Does a command have to wait?
    fn holds(&self, range: Option<(u64, u64)>) -> bool {
        match self.stage {
            Stage::Settling | Stage::Switching(_) => !self.joins,
            Stage::Voiding { .. } => true,
            Stage::Copying => range.is_some_and(|range| self.pieces.covers(range)),
            // what is copied still comes to nothing
            Stage::Opening | Stage::Marking | Stage::Announcing { .. } => false,
            Stage::Landing | Stage::Leaving => false,
        }
    }

    /// Is no answer of the old drive kept back any more? Nobody would give it when the replacement is over.
    pub(super) fn assert_nothing_kept(&self) {
        let is_kept = |under: &Under| under.ended.is_some();
        debug_assert!(!self.under_way.values().any(is_kept), "every answer is given");
    }

    /// Do commands go to both? One that joins gets the metadata in this way until it gets its own.
    fn doubles(&self) -> bool {
        match self.stage {
            Stage::Copying => true,
            Stage::Settling | Stage::Switching(_) => self.joins,
            _ => false,
        }
    }
}

impl Replacement {
    /// What was sent to the drives of the replacement since the last time.
    #[inline]
    pub(crate) fn divert_all(&mut self, io: &mut DeviceIo) {
        while let Some(command) = io.next_set_aside() {
            match &self.current {
                Some(h) if h.takes(command.device) => self.divert(command, io),
                // it has ended meanwhile
                _ => io.send(Command::Submit(command)),
            }
        }
    }

    /// A command to the drive that is replaced, on its way to the event loop.
    fn divert(&mut self, command: Io, io: &mut DeviceIo) {
        let single = io.breaks(Mutant::ReplacementSingle);
        let h = self.current.as_deref_mut().expect("asked while there is one");
        assert!(h.takes(command.device), "a replacement takes the commands to its own drives");
        if h.stage == Stage::Landing {
            match command.device == h.bay {
                true => h.held.push_back(command),
                false => io.send(Command::Submit(command)),
            }
            return;
        }
        let range = changed(&command.op);
        let is_superblock = range.is_some_and(|range| h.plan.is_superblock(range));
        if !is_superblock && h.holds(range) {
            h.held.push_back(command);
            return;
        }
        let doubled = h.doubles()
            && match range {
                Some(range) => !is_superblock && !single && h.plan.is_copied(range, h.copied_bytes),
                None => command.op == IoOp::Flush && (h.dirty || h.flushes > 0),
            };
        let under = Under { range, doubled, awaits_successor: doubled, ended: None };
        let before = h.under_way.insert(command.id.0, under);
        assert!(before.is_none(), "an id in flight is not used again");
        let mut leg = None;
        if doubled {
            if range.is_none() {
                h.dirty = false;
                h.flushes += 1;
            } else {
                h.stats.doubled_bytes += command.op.bytes();
            }
            let id = super::name(h.flights.insert(Flight::Double(command.id)));
            let mut op = command.op.clone();
            if let (true, IoOp::WriteMeta { fua, .. }) = (h.joins, &mut op) {
                // the other drive may need no flush, and then none comes
                *fua |= !io[h.device].is_volatile();
            }
            leg = Some(Io { id, device: h.place, op });
        }
        io.send(Command::Submit(command));
        io.send_all(leg.map(Command::Submit));
    }

    /// The old drive has answered a command of the engine's. True: the answer is kept back.
    pub(crate) fn replacement_keeps(
        &mut self,
        (id, took): (IoId, Option<Duration>),
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
        io: &DeviceIo,
    ) -> bool {
        let Some(h) = self.current.as_deref_mut() else { return false };
        h.early.remove(&id);
        let Some(under) = h.under_way.get_mut(&id.0) else { return false };
        let voiding = matches!(h.stage, Stage::Voiding { .. });
        assert!(under.ended.is_none(), "the old drive answers once");
        if under.awaits_successor || (under.doubled && voiding) {
            // the old drive is not to blame for what the new one takes
            let took = took.unwrap_or_else(|| io.now().since(io.flights().issued(id)));
            let (checksums, bytes) = (checksums.to_vec(), bytes.to_vec());
            under.ended = Some(Ended { status, took: Some(took), checksums, bytes });
            return true;
        }
        h.under_way.remove(&id.0);
        false
    }

    /// What waited for a region, or for the switch, goes on.
    pub(super) fn give_free(&mut self, io: &mut DeviceIo) {
        let h = self.current.as_deref_mut().expect("asked while there is one");
        for command in std::mem::take(&mut h.held) {
            self.divert(command, io);
        }
    }

    /// The successor has answered its half: what it had to say comes next, then `answer_if_done`.
    pub(super) fn double_done(&mut self, io: IoId, status: Result<(), IoError>) {
        let h = self.current.as_deref_mut().expect("its command ended");
        let under = h.under_way.get_mut(&io.0).expect("both halves are awaited");
        assert!(under.awaits_successor, "it answers once");
        under.awaits_successor = false;
        if under.range.is_none() {
            assert!(h.flushes > 0, "each flush that went to both is counted");
            h.flushes -= 1;
        } else {
            h.dirty = true;
        }
        h.is_lost |= status.is_err();
    }

    /// Is the command answered by both, and is nothing durable to be said before?
    pub(super) fn answer_if_done(&mut self, io: IoId) {
        let h = self.current.as_deref().expect("it ends later");
        if !matches!(h.stage, Stage::Voiding { .. }) && h.under_way[&io.0].ended.is_some() {
            self.answer_doubled(io);
        }
    }

    fn answer_doubled(&mut self, io: IoId) {
        let h = self.current.as_deref_mut().expect("asked while there is one");
        let under = h.under_way.remove(&io.0).expect("the caller looked");
        assert!(
            under.doubled && !under.awaits_successor,
            "a command is answered when both drives have answered"
        );
        let ended = under.ended.expect("the caller looked");
        self.answered.push_back((io, ended));
    }

    /// It is durable that the successor does not count: what waited for that is answered.
    pub(super) fn answer_all_doubled(&mut self) {
        let h = self.current.as_deref().expect("asked while there is one");
        let is_done = |under: &Under| under.ended.is_some() && !under.awaits_successor;
        let done: Vec<u32> =
            h.under_way.iter().filter(|(_, under)| is_done(under)).map(|(&io, _)| io).collect();
        for io in done {
            self.answer_doubled(IoId(io));
        }
    }

    /// Is there an answer of the old drive that is not kept back any more?
    #[inline]
    pub(crate) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// The next such answer.
    #[inline]
    pub(crate) fn next_answered(&mut self) -> Option<(IoId, Ended)> {
        self.answered.pop_front()
    }
}
