//! What is known of each object, and which objects must be there?
//!
//! A volume is there from the first start on. A snapshot or a file is there when its batch was answered;
//! after a crash it must be there if the batch was durable, or a FLUSH was answered since, and must not be
//! there if its removal was.

use crate::check::{BlockState, Oracle};
use tandem_block::{DurabilityClass, ObjectId};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Volume,
    Snapshot,
    File,
}

/// How sure a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Nobody asked for it.
    No,
    /// It was asked for.
    Asked,
    /// It was answered.
    Answered,
    /// It was answered, and is durable.
    Durable,
}

/// One object.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub sort: Sort,
    /// The volume whose FLUSH makes it durable.
    pub of: ObjectId,
    pub size_bytes: u64,
    pub durability: DurabilityClass,
    pub oracle: Oracle,
    pub made: Step,
    pub removed: Step,
}

impl Known {
    pub fn volume(id: ObjectId, size_bytes: u64, durability: DurabilityClass) -> Known {
        Known {
            sort: Sort::Volume,
            of: id,
            size_bytes,
            durability,
            oracle: Oracle::default(),
            made: Step::Durable,
            removed: Step::No,
        }
    }

    /// A snapshot of a volume, or a file of its policies, that was asked for.
    pub fn asked(sort: Sort, of: (ObjectId, &Known), size_bytes: u64) -> Known {
        Known {
            sort,
            of: of.0,
            size_bytes,
            durability: of.1.durability,
            oracle: Oracle::default(),
            made: Step::Asked,
            removed: Step::No,
        }
    }

    /// May requests be sent to it?
    pub fn is_there(&self) -> bool {
        self.made >= Step::Answered && self.removed == Step::No
    }

    /// May it be there after a crash, and must it?
    pub fn after_crash(&self) -> (bool, bool) {
        let may = self.removed < Step::Durable;
        let must = self.made == Step::Durable && self.removed == Step::No;
        (may, must)
    }

    /// What was found after a crash is how it is from now on.
    pub fn found(&mut self) {
        (self.made, self.removed) = (Step::Durable, Step::No);
    }

    /// It shows these states of a block, of which each was true at some moment that it may show.
    pub fn shows(&mut self, block: u64, states: Vec<BlockState>) {
        self.oracle.begins_as(block, states);
    }
}
