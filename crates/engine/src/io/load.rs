//! What one drive has in flight, in numbers.

use crate::port::{IoId, IoOp};
use crate::steer::rate::Rate;
use tandem_block::Duration;

/// Reads of a hard drive are counted over this long.
const READS_WINDOW: Duration = Duration::from_s(1);

/// What one drive has in flight.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) in_flight_bytes: u64,
    /// Of that, what is written of users' blocks.
    written_bytes: u64,
    pub(super) reads_in_flight: u32,
    pub(super) reads_lately: Rate,
    oldest: Option<IoId>,
    newest: Option<IoId>,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            in_flight_bytes: 0,
            written_bytes: 0,
            reads_in_flight: 0,
            reads_lately: Rate::new(READS_WINDOW),
            oldest: None,
            newest: None,
        }
    }
}

impl Load {
    #[inline]
    pub(super) fn add(&mut self, op: &IoOp, bytes: u64, queue_length: u32) -> Place {
        let read = op.is_read();
        self.in_flight_bytes += bytes;
        let writes = matches!(op, IoOp::Write { .. });
        self.written_bytes += if writes { bytes } else { 0 };
        self.reads_in_flight += u32::from(read);
        let listed = !matches!(op, IoOp::Flush | IoOp::Trim { .. });
        Place {
            read,
            listed,
            queue_length,
            in_flight_bytes: self.in_flight_bytes,
            writes,
            written_bytes: self.written_bytes,
            neighbours: Neighbours::default(),
        }
    }

    /// Bytes in flight that are written of users' blocks.
    #[inline]
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    #[inline]
    pub(super) fn remove(&mut self, place: &Place, bytes: u64) {
        assert!(
            self.in_flight_bytes >= bytes && self.reads_in_flight >= u32::from(place.read),
            "what ends was counted when it went out"
        );
        self.in_flight_bytes -= bytes;
        self.written_bytes -= if place.writes { bytes } else { 0 };
        self.reads_in_flight -= u32::from(place.read);
    }

    /// The list of reads and writes ends with this one from now on. Returns the one before it.
    #[inline]
    pub(super) fn join(&mut self, id: IoId) -> Option<IoId> {
        let older = self.newest.replace(id);
        assert!(older.is_some() == self.oldest.is_some(), "a list has two ends, or none");
        self.oldest.get_or_insert(id);
        older
    }

    /// The one between these two leaves the list.
    #[inline]
    pub(super) fn leave(&mut self, id: IoId, older: Option<IoId>, newer: Option<IoId>) {
        assert!(
            (self.oldest == Some(id)) == older.is_none()
                && (self.newest == Some(id)) == newer.is_none(),
            "a command is in the list of its own drive"
        );
        if older.is_none() {
            self.oldest = newer;
        }
        if newer.is_none() {
            self.newest = older;
        }
    }

    /// The read or write that has been in flight for the longest time.
    #[inline]
    pub(super) fn oldest(&self) -> Option<IoId> {
        self.oldest
    }
}

/// A command's place among those of its drive.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// It fetches bytes.
    pub(crate) read: bool,
    /// A read or write; flushes and trims have no usual latency, so they are not in the list.
    pub(crate) listed: bool,
    /// Commands before it when it was issued.
    pub(crate) queue_length: u32,
    /// Bytes in flight then, with its own.
    pub(crate) in_flight_bytes: u64,
    /// It writes users' blocks.
    writes: bool,
    /// Of the bytes in flight those that are written of users' blocks.
    written_bytes: u64,
    /// Its neighbours in that list.
    pub(super) neighbours: Neighbours,
}

impl Place {
    /// Bytes in flight when it was issued that are written of users' blocks.
    #[inline]
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }
}

/// The read or write that went out before another one, and the one after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Neighbours {
    older: Option<IoId>,
    newer: Option<IoId>,
}

impl Neighbours {
    #[inline]
    pub(super) fn both(&self) -> (Option<IoId>, Option<IoId>) {
        (self.older, self.newer)
    }

    /// The one before it is not `was` any more, but `older`.
    #[inline]
    pub(super) fn follow(&mut self, was: Option<IoId>, older: Option<IoId>) {
        assert!(self.older == was, "the list has no gaps");
        self.older = older;
    }

    /// The one after it is not `was` any more, but `newer`.
    #[inline]
    pub(super) fn precede(&mut self, was: Option<IoId>, newer: Option<IoId>) {
        assert!(self.newer == was, "the list has no gaps");
        self.newer = newer;
    }
}
