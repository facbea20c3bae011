//! How does the copy know after a crash how far it had come?
//!
//! Every so many bytes the successor is flushed, and then told what was copied before that.

use super::{DriveCopy, Ending, Flight, Stage};
use crate::format::replacement::Mark;
use crate::io::DeviceIo;
use crate::metadata::MetadataHomes;
use crate::mutant::Mutant;
use crate::port::IoOp;
use crate::replacement::Replacement;
use tandem_block::{BLOCK_BYTES, IoError};

impl DriveCopy {
    /// What a mark could tell now.
    pub(super) fn markable_bytes(&self) -> u64 {
        self.copied_bytes.min(self.plan.data_bytes())
    }

    /// Where the two marks stand; later the superblocks.
    pub(super) fn own_places(&self) -> [u64; 2] {
        [0, self.drive_bytes / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES]
    }
}

impl Replacement {
    /// Begins a mark if one is due.
    pub(super) fn run_mark(&mut self, metadata: &mut MetadataHomes, io: &mut DeviceIo) {
        let stopping = io.is_stopping();
        let every_bytes = io.config().replacement_mark_bytes;
        let (early, without_flush) =
            (io.breaks(Mutant::ReplacementMarksEarly), io.breaks(Mutant::ReplacementWithoutFlush));
        let h = self.current.as_deref_mut().expect("asked while there is one");
        let mut upto = h.markable_bytes();
        let is_due = upto.saturating_sub(h.marked_bytes) >= every_bytes
            || (upto > h.marked_bytes && (stopping || upto == h.plan.data_bytes()));
        if h.stage != Stage::Copying || h.marking.is_some() || !is_due {
            return;
        }
        if early {
            upto = (upto + 2 * every_bytes).min(h.plan.data_bytes());
        }
        assert!(upto >= h.marked_bytes, "marks never go back");
        h.marking = Some(upto);
        let place = h.place;
        if without_flush {
            self.mark_flushed(Ok(()), metadata, io);
        } else {
            self.send_replacement(place, IoOp::Flush, Flight::MarkFlush, io);
        }
    }

    pub(super) fn mark_flushed(
        &mut self,
        status: Result<(), IoError>,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("its command ended");
        if h.stage != Stage::Copying {
            h.marking = None;
            return;
        }
        if let Err(error) = status {
            h.marking = None;
            self.end_replacement(Ending::SuccessorFailed(error), metadata, io);
            return;
        }
        let upto = h.marking.expect("a mark was begun");
        let copy = h.mark_number % 2;
        self.write_mark(upto, copy as usize, io);
    }

    /// Writes the next mark, to this of its two places.
    pub(super) fn write_mark(&mut self, copied_bytes: u64, copy: usize, io: &mut DeviceIo) {
        let pool = io.config().pool;
        let h = self.current.as_deref_mut().expect("asked while there is one");
        assert!(
            matches!(h.stage, Stage::Marking | Stage::Copying),
            "marks are written until all is copied"
        );
        assert!(copied_bytes >= h.marked_bytes, "marks never go back");
        h.mark_number += 1;
        let mark = Mark {
            number: h.mark_number,
            pool,
            successor: h.uuid,
            replaces: h.old_uuid,
            index: h.bay.0,
            copied_bytes,
            total_bytes: h.plan.data_bytes(),
        };
        let (place, offset_bytes) = (h.place, h.own_places()[copy]);
        let op = IoOp::WriteMeta { offset_bytes, bytes: mark.encode(), fua: true };
        self.send_replacement(place, op, Flight::Mark, io);
    }

    pub(super) fn mark_written(
        &mut self,
        status: Result<(), IoError>,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let h = self.current.as_deref_mut().expect("its command ended");
        if let Err(error) = status {
            h.marking = None;
            self.end_replacement(Ending::SuccessorFailed(error), metadata, io);
            return;
        }
        if let Some(upto) = h.marking.take() {
            h.marked_bytes = upto;
            h.stats.marks += 1;
        }
    }
}
