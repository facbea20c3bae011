//! Does the engine contradict itself? Named violations of rules that hold after every event.
//!
//! Nothing here changes anything, and nothing panics: a simulator asks after events that it chooses,
//! and reports what it is told. Each rule is checked against a second count, made from other tables
//! than the one that the engine works with.

mod blocks;
mod counts;
mod named;
mod slots;
mod waiters;

pub use waiters::{Wait, Waiter};

use crate::device::{Class, Job};
use crate::engine::Engine;
use crate::format::pointer::{Kind, PAGE_BYTES};
use crate::map::checksums::page_of;
use crate::map::{Logical, Slot};
use crate::owner::Owner;
use std::fmt;
use std::ops::Deref;
use tandem_block::{BLOCK_BYTES, DeviceId};

/// A rule of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A slot is in exactly one state: free, named by the map, kept for a record, or on its way.
    SlotStates,
    /// A log segment's count of living slots equals the slots of it that are in use.
    LogLife,
    /// A slot that a read in flight, or a waiting one, names holds what the read wants.
    ReadSlots,
    /// The same for the sources of a background move.
    MoveSlots,
    /// A home that is being written is no place that a record names.
    HomeInUse,
    /// The free space that is counted can be allocated on drives in service.
    FreeSpace,
    /// Counts of blocks by place equal the blocks.
    Population,
    /// A block that nobody has holds nothing, and each block is free, owned, or on its way to be free.
    Blocks,
    /// Counts of holders equal the pieces that lie over a block.
    Shares,
    /// Queues, commands and reads under way equal what is counted of them.
    Queues,
    /// Tails equal what is counted of them.
    Tails,
    /// Homes that wait for a flush equal what is counted of them.
    Homes,
    /// Accounts of commits, the journal and checkpoints equal what they count.
    Journal,
    /// Whoever waits, waits for something that can happen.
    Waiters,
}

impl Rule {
    /// All of them.
    pub(crate) const ALL: [Rule; 14] = [
        Rule::SlotStates,
        Rule::LogLife,
        Rule::ReadSlots,
        Rule::MoveSlots,
        Rule::HomeInUse,
        Rule::FreeSpace,
        Rule::Population,
        Rule::Blocks,
        Rule::Shares,
        Rule::Queues,
        Rule::Tails,
        Rule::Homes,
        Rule::Journal,
        Rule::Waiters,
    ];

    /// The rule of this name, as it is printed.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| format!("{rule:?}") == name)
    }
}

/// A rule that does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// Where, and what was found.
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.rule, self.what)
    }
}

/// Findings of one audit.
#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
}

/// Findings of one rule at most: the first ones say enough.
const OF_A_RULE_MAX: usize = 4;

impl Findings {
    fn add(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        if self.all.iter().filter(|finding| finding.rule == rule).count() < OF_A_RULE_MAX {
            self.all.push(Finding { rule, what: what() });
        }
    }

    /// Two counts of one thing.
    fn equal(&mut self, rule: Rule, what: &str, counted: u64, found: u64) {
        if counted != found {
            self.add(rule, || format!("{what}: {counted} are counted, {found} were found"));
        }
    }
}

/// A device command in flight, or one that waits for its device.
#[derive(Clone, Copy, Debug)]
struct Under<'a> {
    device: DeviceId,
    owner: &'a Owner,
    bytes: u64,
    waits: bool,
}

impl Under<'_> {
    fn blocks(&self) -> u64 {
        self.bytes / BLOCK_BYTES
    }
}

/// An engine that is looked at between two events. It changes nothing.
pub(crate) struct Audit<'a>(&'a Engine);

impl Deref for Audit<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.0
    }
}

impl Engine {
    /// Rules that do not hold just now: between two events all of them should. Empty while the engine
    /// does not serve, and under fixed placement, which makes no promise.
    pub fn audit(&self) -> Vec<Finding> {
        Audit(self).findings()
    }

    /// Does it serve, so that an audit finds something to look at?
    pub fn is_serving_now(&self) -> bool {
        self.io.is_serving() && !self.io.is_fixed() && !self.store.metadata.is_degraded()
    }

    /// Every task that waits, in the order of their ids, and what for.
    pub fn waiters(&self) -> Vec<Waiter> {
        Audit(self).waiters()
    }

    /// Where the page with the checksum of a block lies on the drives, in bytes: nowhere, if it was never
    /// written.
    pub fn checksum_places(&self, block: Logical) -> Vec<(DeviceId, u64)> {
        let (store, page) = (&self.store, page_of(block));
        if block >= store.map.leaves().block_count() as u64 {
            return Vec::new();
        }
        let place = store.checksums.place(page);
        if place.kind == Kind::Nothing {
            return Vec::new();
        }
        let homes = store.metadata.metadata_homes(&self.io).into_iter();
        let places = homes.map(|home| (home, place.page));
        let places = places.chain(store.metadata_replica.place_of(page, place));
        let offset = |(device, page): (DeviceId, u64)| {
            (device, self.io[device].layout.area_offset + page * PAGE_BYTES)
        };
        places.map(offset).collect()
    }

    /// What this slot of a block must hold, or its home (`NONE`), as far as it is in RAM. Both are places that it has.
    pub fn checksum_known(&self, block: Logical, slot: Slot) -> Option<u32> {
        self.store.checksums.of_place(block, slot, &self.store.map)
    }

    /// How often a move left a block since it could not read it, or found it damaged, in this life.
    pub fn moves_left(&self) -> u64 {
        self.migration.moves.unmovable.times()
    }
}

impl Audit<'_> {
    fn findings(&self) -> Vec<Finding> {
        if !self.is_serving_now() {
            return Vec::new();
        }
        let mut findings = Findings::default();
        let states = self.audit_slots(&mut findings);
        self.audit_named(&states, &mut findings);
        self.audit_blocks(&mut findings);
        self.audit_counts(&mut findings);
        self.audit_waiters(&mut findings);
        findings.all
    }

    /// Every command that the engine remembers.
    fn commands(&self) -> impl Iterator<Item = Under<'_>> {
        let in_flight = self.io.flights().iter().map(|(_, io)| Under {
            device: io.device,
            owner: &io.owner,
            bytes: io.bytes,
            waits: false,
        });
        let waiting = self.waiting_jobs().filter_map(|(device, _, job)| match job {
            Job::Io(op, owner) => Some(Under { device, owner, bytes: op.bytes(), waits: true }),
            Job::Write { .. } | Job::Edge { .. } => None,
        });
        in_flight.chain(waiting)
    }

    /// Every job that waits for a device; the class is not known where streams are told apart.
    fn waiting_jobs(&self) -> impl Iterator<Item = (DeviceId, Option<Class>, &Job)> {
        self.io.drives().iter().flat_map(|d| {
            let by_class = Class::ALL.into_iter().flat_map(move |class| {
                d.queue.jobs(class).map(move |job| (d.id, Some(class), job))
            });
            let by_stream = d.streams.iter().flat_map(move |lanes| {
                let waiting = lanes.iter().flat_map(|lane| lane.queues.all_waiting());
                waiting.map(move |waiting| (d.id, None, &waiting.job))
            });
            by_class.chain(by_stream)
        })
    }
}
