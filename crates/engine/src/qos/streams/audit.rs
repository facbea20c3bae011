//! What waits here, for an audit?

use super::Streams;
use crate::device::Waiting;

impl Streams {
    /// Every job that waits, streams before background work.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = &Waiting> {
        let of_streams =
            self.list.iter().flat_map(|stream| stream.reads.iter().chain(&stream.writes));
        of_streams.chain(&self.background).map(|entry| &entry.waiting)
    }
}
