//! What if the engine broke one of its own rules?
//!
//! Proof that the crash tests can fail (design, "Tests": the mutants must be caught). Without the
//! feature `mutants` no engine has one, and every question below is answered at compile time.

/// A rule to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A commit does not flush the SSDs before its units are written.
    CommitWithoutFlush,
    /// Places that a batch displaced are reused before it is durable.
    EarlyReuse,
    /// FLUSH does not make the tails of hard drives safe.
    FlushWithoutTails,
    /// Journal units are written without FUA.
    UnitsWithoutFua,
    /// Recovery serves before it has made durable what it read.
    RecoveryWithoutFlush,
    /// A home is written before the record of its source is durable.
    EarlyHome,
    /// A home is recorded before its drive was flushed.
    VolatileHome,
    /// A checkpoint's root is written before its pages are flushed.
    RootWithoutFlush,
    /// Replay leaves out the last journal unit.
    ReplayWithoutLast,
    /// Freed places are reused under the reads that still use them.
    ReuseUnderRead,
    /// The read of a base for a part of a block pins nothing.
    BaseUnpinned,
    /// A start believes the only SSD although the drive that follows has later units.
    BelievesRolledBack,
    /// A root that could not be read once stays where it is, and may be the newest at a later start.
    UnreadRootComesBack,
    /// A home counts if the block is in the slot that was copied, whatever version that holds by now.
    HomeBySlot,
    /// The free space of an SSD that takes no writes counts as room for those that wait.
    CountsFailedRoom,
    /// A page of checksums that has changed is written over the one that the durable root names.
    LeafInPlace,
    /// A commit whose step failed waits for ever, and everybody with it.
    NeverTriesAgain,
    /// A read that looks for another copy lays the fragments of before over it.
    KeepsOldFragments,
    /// A read that waited for a write to shared blocks fails as the write did.
    ReadsFailWithLinks,
    /// A zeroing of a hole that is to be durable is answered at once, whoever made the hole.
    HolesAtOnce,
    /// A part of a block counts as covered by the next flush of a drive that is never flushed.
    AwaitsNeedlessFlush,
    /// A client's limit on a drive that is read only is never looked at again.
    ForgetsLimits,
    /// FUA is acknowledged before its record.
    EarlyFua,
    /// An overlapping write does not wait for the one before it.
    Unordered,
    /// Reads take what is in RAM of a block, whatever place the map names.
    StaleReadBack,
    /// A tier gives up the copy of what it wants in a log, too, before that drive was flushed.
    EvictsVolatile,
    /// A tail's copy is a block's if the map names its place, whoever wrote there last.
    TailByPlace,
    /// A write that came too late is its blocks' newest, whatever was written since.
    LateIsNewest,
    /// A merge, or a promotion, counts although the block has changed since it was read.
    MoveWithoutCompare,
    /// What comes to a tier counts although the block has changed since it was read.
    StalePromoting,
    /// A page of checksums that is read while a checkpoint writes it lacks what is written.
    ForgetsCarried,
    /// A block that is written while its move waits for a page counts as damaged.
    LeavesWritten,
    /// A checkpoint that took a part of what had changed cuts the journal.
    PartCuts,
    /// A pair's region is written to before it is marked.
    WriteBeforeMark,
    /// A FLUSH of a pair flushes no leg.
    PairFlushIgnored,
    /// A pair's journal gives up a unit when the writing leg has it.
    PairJournalTrimmedEarly,
    /// A FLUSH of a pair does not wait for its journal.
    PairAckBeforeJournal,
    /// A leg that serves alone says that it is whole.
    PairAloneIsWhole,
    /// What is durable where such a leg was behind is answered before its record says so.
    PairPromiseBeforeRecord,
    /// A FLUSH leaves batches of objects that were answered before it for the next commit.
    ForgetsQuietBatches,
    /// What is written where a drive was copied already goes to the old one alone.
    ReplacementSingle,
    /// A copy is marked before the successor was flushed.
    ReplacementWithoutFlush,
    /// A copy is marked beyond what was copied.
    ReplacementMarksEarly,
    /// A successor becomes the member before it was flushed.
    ReplacementSwitchesUnflushed,
    /// What is moved off a drive counts although the block has changed since it was read.
    DrainWithoutCompare,
    /// A home that was copied counts before the drive that it was copied to was flushed.
    RehomedVolatile,
    /// A drive counts as drained although records name places on it.
    DrainedTooEarly,
    /// A drive leaves although no other one has all of the metadata.
    LeavesLagging,
    /// Blocks of a removed object are reused before their clearing is durable.
    RetiredAtOnce,
    /// A discard gives up what was written there before it was answered.
    GivesUpWritten,
    /// Blocks that several objects have are written to.
    WritesShared,
    /// The piece that a write to shared blocks leads to is recorded before what lies there.
    LinksAhead,
    /// A clone does not wait until what was written is durable.
    ClonesVolatile,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 53] = [
        Mutant::CommitWithoutFlush,
        Mutant::EarlyReuse,
        Mutant::FlushWithoutTails,
        Mutant::UnitsWithoutFua,
        Mutant::RecoveryWithoutFlush,
        Mutant::EarlyHome,
        Mutant::VolatileHome,
        Mutant::RootWithoutFlush,
        Mutant::ReplayWithoutLast,
        Mutant::ReuseUnderRead,
        Mutant::BaseUnpinned,
        Mutant::HomeBySlot,
        Mutant::BelievesRolledBack,
        Mutant::UnreadRootComesBack,
        Mutant::CountsFailedRoom,
        Mutant::LeafInPlace,
        Mutant::NeverTriesAgain,
        Mutant::KeepsOldFragments,
        Mutant::ReadsFailWithLinks,
        Mutant::HolesAtOnce,
        Mutant::AwaitsNeedlessFlush,
        Mutant::ForgetsLimits,
        Mutant::EarlyFua,
        Mutant::Unordered,
        Mutant::StaleReadBack,
        Mutant::EvictsVolatile,
        Mutant::TailByPlace,
        Mutant::LateIsNewest,
        Mutant::MoveWithoutCompare,
        Mutant::StalePromoting,
        Mutant::ForgetsCarried,
        Mutant::LeavesWritten,
        Mutant::PartCuts,
        Mutant::WriteBeforeMark,
        Mutant::PairFlushIgnored,
        Mutant::PairJournalTrimmedEarly,
        Mutant::PairAckBeforeJournal,
        Mutant::PairAloneIsWhole,
        Mutant::PairPromiseBeforeRecord,
        Mutant::ForgetsQuietBatches,
        Mutant::ReplacementSingle,
        Mutant::ReplacementWithoutFlush,
        Mutant::ReplacementMarksEarly,
        Mutant::ReplacementSwitchesUnflushed,
        Mutant::DrainWithoutCompare,
        Mutant::RehomedVolatile,
        Mutant::DrainedTooEarly,
        Mutant::LeavesLagging,
        Mutant::RetiredAtOnce,
        Mutant::GivesUpWritten,
        Mutant::WritesShared,
        Mutant::LinksAhead,
        Mutant::ClonesVolatile,
    ];
}
