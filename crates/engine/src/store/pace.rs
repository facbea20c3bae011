//! When must writes wait, so that neither memory nor the journal runs full?
//!
//! A write that no commit names yet takes memory, and one that a commit names takes room in the journal, until a
//! checkpoint ends. So writes go as fast as both can follow. A FLUSH never waits for that here: it adds nothing.

use crate::checkpoint::Checkpoint;
use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::journal::Journal;
use crate::metadata::MetadataHomes;
use crate::store::commit::Commit;

/// Is there so much that no commit names yet that no more should join it?
pub(crate) fn has_too_much_uncommitted(map: &Map, io: &DeviceIo) -> bool {
    map.uncommitted() >= io.config().areas.uncommitted_blocks_max.get()
}

/// Shall writes that come now wait? Commits and the checkpoint under way go on without them.
#[inline]
pub(crate) fn paces_writes(
    map: &Map,
    commit: &Commit,
    (checkpoint, journal): (&Checkpoint, &Journal),
    metadata: &MetadataHomes,
    io: &DeviceIo,
) -> bool {
    if io.is_fixed() || commit.is_broken() || metadata.is_degraded() {
        return false; // nothing would end the waiting
    }
    has_too_much_uncommitted(map, io) || checkpoint.is_outrun(journal)
}
