//! How does a leg that is behind get what it lacks?
//!
//! Source: requirements I14, B9. Piece by piece from the other leg, while the pair serves; nothing that
//! touches a piece under way is written. Both legs are written to meanwhile, and the one that lacks
//! nothing is read.

use super::flush::Then;
use super::record::Why;
use super::stale::Stale;
use super::{Flight, Mirror, Phase, config};
use crate::port::{Command, IoOp};
use tandem_block::{Duration, Instant, IoError, PayloadId};

/// Bytes in a second while users are served: half of what an old SATA SSD writes (guess).
const BYTES_PER_S: u64 = 100_000_000;
/// After so many bytes what was reached is put on record, so that a crash does not begin again.
const RECORDED_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug)]
struct Piece {
    leg: usize,
    start: u64,
    end: u64,
    buffer: PayloadId,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Resync {
    piece: Option<Piece>,
    next_at: Option<Instant>,
    unrecorded_bytes: u64,
    /// Legs that were flushed since the last piece.
    flushed: [bool; 2],
    recording: bool,
    /// A leg is behind, or it is not on record yet that none is.
    pub active: bool,
    /// The other leg lacks everything, not only what a crash left in doubt.
    pub all: bool,
    /// What the engine has taken for the truth since the start, and the leg that is behind lacks: it is
    /// copied first, and no FLUSH is answered before. Only with a journal.
    pub wanted: Stale,
}

impl Resync {
    /// Is a piece that touches this under way?
    pub fn covers(&self, start: u64, end: u64) -> bool {
        self.piece.as_ref().is_some_and(|piece| start < piece.end && piece.start < end)
    }

    pub fn is_idle(&self) -> bool {
        self.piece.is_none() && !self.recording
    }
}

impl Mirror {
    pub(super) fn resync_due(&self) -> Instant {
        if self.resync.is_idle() && self.wants_piece().is_some() {
            self.resync.next_at.filter(|&at| at > self.now).unwrap_or(Instant::NEVER)
        } else {
            Instant::NEVER
        }
    }

    /// The leg that is behind, if both live: first the lead, which nothing else can be built on.
    fn wants_piece(&self) -> Option<usize> {
        let phase = matches!(self.phase, Phase::Restoring | Phase::Serving);
        if self.alive != [true; 2] || !phase || self.records.blocks_all() {
            return None;
        }
        let other = (self.phase == Phase::Serving).then_some(1 - self.lead);
        let legs = std::iter::once(self.lead).chain(other);
        legs.into_iter().find(|&leg| !self.stale[leg].is_empty())
    }

    pub(super) fn run_resync(&mut self, out: &mut Vec<Command>) {
        let whole = self.stale.iter().all(Stale::is_empty);
        if self.resync.active && whole && self.resync.is_idle() && self.phase == Phase::Serving {
            self.record_resync();
        }
        let rests = self.resync.next_at.is_some_and(|at| at > self.now);
        if !self.resync.is_idle() || (rests && self.resync.wanted.is_empty()) {
            return;
        }
        let Some(leg) = self.wants_piece() else { return };
        let wanted = self.resync.wanted.first(config::RESYNC_BYTES).filter(|_| leg != self.lead);
        let first = wanted.or(self.stale[leg].first(config::RESYNC_BYTES));
        let (start, end) = first.expect("it lacks something");
        let source = 1 - leg;
        let metas = self.metas.iter().any(|(_, meta)| start < meta.end() && meta.offset < end);
        let busy = (0..2).any(|leg| self.cache.busy(start, end, leg));
        if metas || busy || self.stale[source].touches(start, end) {
            return; // asked again with the next completion
        }
        let buffer = self.name_buffer();
        let length_bytes = end - start;
        if self.contents {
            out.push(Command::Reserve { payload: buffer, length_bytes });
        }
        let takes = Duration::from_ns(length_bytes * 1_000_000_000 / BYTES_PER_S);
        if self.phase == Phase::Serving {
            self.resync.next_at = Some(self.now + takes);
        }
        self.resync.piece = Some(Piece { leg, start, end, buffer });
        let op = IoOp::Read {
            offset_bytes: self.place(start),
            length_bytes,
            into: buffer,
            into_offset_bytes: 0,
        };
        self.send(source, op, Flight::ResyncRead, out);
    }

    pub(super) fn resync_read(
        &mut self,
        source: usize,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        let Some(Piece { leg, start, end, buffer }) = self.resync.piece.clone() else { return };
        if let Err(error) = status {
            self.drop_piece(out);
            if self.phase == Phase::Restoring {
                self.started = Some(Err(super::PairError::Device(error)));
                self.phase = Phase::Stopped;
            } else if matches!(error, IoError::Dead(_)) {
                self.fail_leg(source, out);
            } else {
                // what cannot be read cannot be copied: it is as lost as it was on one drive
                self.resync.wanted.remove(start, end);
                self.resync.next_at = Some(self.now + Duration::from_s(1));
            }
            return;
        }
        if !self.alive[leg] {
            self.drop_piece(out);
            return;
        }
        let op = IoOp::Write {
            offset_bytes: self.place(start),
            length_bytes: end - start,
            from: buffer,
            from_offset_bytes: 0,
            fua: false,
        };
        self.stats.resynced_bytes += end - start;
        self.send(leg, op, Flight::ResyncWrite, out);
    }

    pub(super) fn resync_written(
        &mut self,
        leg: usize,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        let Some(piece) = self.resync.piece.clone() else { return };
        self.drop_piece(out);
        if status.is_err() {
            self.fail_leg(leg, out);
            return;
        }
        self.is_new_there(leg, piece.start, piece.end);
        self.flushes.volatile[leg] = true;
        self.resync.unrecorded_bytes += piece.end - piece.start;
        if self.phase == Phase::Restoring {
            if self.stale[self.lead].is_empty() {
                self.flush_leg(self.lead, Then::Equal);
            }
            return;
        }
        if self.resync.unrecorded_bytes >= RECORDED_BYTES {
            self.record_resync();
        }
    }

    fn drop_piece(&mut self, out: &mut Vec<Command>) {
        if let Some(piece) = self.resync.piece.take()
            && self.contents
        {
            out.push(Command::Release(piece.buffer));
        }
    }

    /// Both legs are flushed, and then what is equal by now is on record.
    fn record_resync(&mut self) {
        self.resync.unrecorded_bytes = 0;
        self.resync.recording = true;
        self.resync.flushed = [false; 2];
        self.records.recent.clear();
        self.flush_leg(0, Then::Equal);
        self.flush_leg(1, Then::Equal);
    }

    /// A leg was flushed after a piece.
    pub(super) fn is_equal(&mut self, leg: usize, out: &mut Vec<Command>) {
        match self.phase {
            Phase::Restoring => self.restored(out),
            _ if self.resync.recording => self.resync.flushed[leg] = true,
            Phase::Stopping => self.stop_flushed(leg),
            _ => {}
        }
    }

    /// What was reached goes on record when both legs are flushed.
    pub(super) fn run_resync_record(&mut self, out: &mut Vec<Command>) {
        let ready = self.resync.recording && self.resync.flushed == [true; 2];
        if ready && !self.records.is_writing() && !self.records.alone_wanted {
            self.resync.flushed = [false; 2];
            self.write_record(Why::Resynced, out);
        }
    }

    pub(super) fn resync_is_on_record(&mut self) {
        self.resync.recording = false;
        if self.resync.active && self.stale.iter().all(Stale::is_empty) {
            self.resync.active = false;
            // the ring brings the leg that lacked everything what it lacks from now on
            self.journal.head_wanted |= self.resync.all && self.journal.is_on();
            self.resync.all = false;
            self.begin_turns();
        }
    }

    /// Both legs are equal but for what the cache holds: from now on they take turns.
    fn begin_turns(&mut self) {
        self.since = self.now;
        self.reader = 1 - self.lead;
        let other = 1 - self.lead;
        self.requeue(other);
        let queue = &mut self.queues[other];
        queue.backlog = std::mem::take(&mut queue.fresh);
        self.records.lacking = Stale::default();
        for (_, entry) in self.cache.iter().filter(|(_, entry)| !entry.is_trim) {
            self.records.lacking.add(entry.offset, entry.end());
        }
    }

    /// The engine reads this, and may take for the truth what only the lead has there: what a crash cut
    /// short, or what it said before it was flushed.
    pub(super) fn adopt(&mut self, (start, end): (u64, u64), meta: bool) {
        let other = 1 - self.lead;
        let behind = self.journal.is_on() && self.alive[other] && !self.resync.all;
        if !behind || !(meta || self.is_recovering) || !self.stale[other].touches(start, end) {
            return;
        }
        for (from, to) in self.stale[other].within(start, end) {
            self.resync.wanted.add(from, to);
        }
    }

    /// Does a leg lack everything?
    pub(super) fn lacks_all(&self, leg: usize) -> bool {
        self.resync.all && leg != self.lead
    }

    /// A leg died: there is nothing to copy any more.
    pub(super) fn stop_resync(&mut self, _out: &mut Vec<Command>) {
        // the piece's buffer goes with the command that is under way for it
        self.resync.active = false;
        self.resync.recording = false;
        self.resync.flushed = [false; 2];
    }
}
