//! The store: where each block lies, and everything that makes it durable.
//!
//! ```text
//! map, checksums ─▶ commit ─▶ journal ─▶ checkpoint ─▶ pages and roots on the metadata's homes
//!                                                  └─▶ the lagging replica on a hard drive
//! ```

pub(crate) mod background;
pub(crate) mod commit;
pub(crate) mod memory;
pub(crate) mod pace;
pub(crate) mod resident;
pub(crate) mod reuse;
pub(crate) mod room;
pub(crate) mod service;
pub(crate) mod stop;

use crate::checkpoint::{Checkpoint, PageReads};
use crate::map::Map;
use crate::map::checksums::BlockChecksums;
use crate::map::journal::Journal;
use crate::metadata::MetadataHomes;
use crate::metadata_replica::MetadataReplica;
use crate::store::commit::Commit;
use crate::store::memory::MemoryBound;
use crate::store::reuse::DeferredFree;
use crate::store::room::RoomPace;

/// What is known of blocks, in memory and on the drives.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) map: Map,
    pub(crate) checksums: BlockChecksums,
    /// Pages of checksums that are being read.
    pub(crate) pages: PageReads,
    pub(crate) journal: Journal,
    pub(crate) commit: Commit,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) metadata_replica: MetadataReplica,
    /// Which drives hold the metadata, and which of those missed writes.
    pub(crate) metadata: MetadataHomes,
    pub(crate) deferred_free: DeferredFree,
    /// How fast writes take the room that is left.
    room: RoomPace,
    /// What memory the map and the pages of checksums may take.
    memory: MemoryBound,
}

impl Store {
    /// How fast writes take the room that is left.
    pub(crate) fn room(&mut self) -> &mut RoomPace {
        &mut self.room
    }

    /// Of no blocks, with a journal of this size.
    pub(crate) fn new(journal_bytes: u64, memory: MemoryBound, contents: bool) -> Store {
        Store {
            map: Map::new(Vec::new(), 0, 0),
            checksums: BlockChecksums::new(memory.pages_max(), contents),
            pages: PageReads::default(),
            journal: Journal::new(journal_bytes, 0, 1),
            commit: Commit::default(),
            checkpoint: Checkpoint::default(),
            metadata_replica: MetadataReplica::default(),
            metadata: MetadataHomes::default(),
            deferred_free: DeferredFree::default(),
            room: RoomPace::default(),
            memory,
        }
    }
}
