//! What is a checkpoint made of, and where does it go?

use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::batches::Batches;
use crate::map::checksums::BlockChecksums;
use crate::map::journal::Journal;
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::metadata_replica::MetadataReplica;
use tandem_block::DeviceId;

/// What a checkpoint is made of, and where it goes.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) io: &'a mut DeviceIo,
    pub(crate) metadata: &'a MetadataHomes,
    pub(crate) metadata_replica: &'a mut MetadataReplica,
    pub(crate) journal: &'a mut Journal,
    pub(crate) map: &'a mut Map,
    pub(crate) checksums: &'a mut BlockChecksums,
    pub(crate) objects: &'a mut Objects,
    pub(crate) batches: Batches,
    /// Of the journal, for changes of objects.
    pub(crate) kept_bytes: u64,
}

impl Parts<'_> {
    /// The drives that it is written to.
    pub(super) fn homes(&self) -> Vec<DeviceId> {
        self.metadata.metadata_homes(self.io)
    }
}
