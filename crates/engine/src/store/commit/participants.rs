//! What those who have a part in a commit are asked, and told.
//!
//! The commit knows none of them. `engine/commits.rs` names them, in one order, once.

use crate::format::record_writer::RecordWriter;
use crate::io::DeviceIo;
use crate::map::journal::Journal;
use crate::requests::ordering::TaskId;
use crate::store::Store;
use tandem_block::IoError;

/// Everybody who has a part in a commit. The functions stand in the order in which a commit calls them.
pub(crate) trait Participants {
    /// Bytes of the journal that are kept for what they have to record.
    fn journal_bytes_kept(&self, journal: &Journal) -> u64;

    /// Must all that was written be recorded, though no FLUSH asks for it?
    fn press(&self, store: &Store) -> bool;

    /// Does one of them wait for the next commit?
    fn want_commit(&self, store: &Store, io: &DeviceIo) -> bool;

    /// Does a checkpoint wait for what they have to record?
    fn are_awaited(&self, store: &Store) -> bool;

    /// Brings what was written outside the SSDs nearer to being durable. True: all of it is.
    fn settle(&mut self, store: &mut Store, io: &mut DeviceIo) -> bool;

    /// Is a command for that under way?
    fn are_settling(&self) -> bool;

    /// Records what stands in front of the changes of blocks.
    fn prepare(&mut self, records: &mut RecordWriter, store: &mut Store, io: &DeviceIo);

    /// The changes of blocks are in the batch: records what stands behind them.
    fn follow(&mut self, store: &mut Store, io: &DeviceIo);

    /// Asserts that a batch which answers a FLUSH lacks nothing.
    fn check(&self, store: &Store, io: &DeviceIo);

    /// All batches up to this one are durable; the limit on blocks has cut the last one short, or not.
    fn durable(&mut self, batch: u64, is_partial: bool);

    /// What the batch displaced may be used again.
    fn freed(&mut self, store: &mut Store, io: &DeviceIo);

    /// These requests waited for the commit, which ended so.
    fn answer(&mut self, waiting: Vec<TaskId>, status: Result<(), IoError>);
}
