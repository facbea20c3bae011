//! What do the legs know of each other, and when is it durable?
//!
//! Source: B9 "which drive is ahead must be durable before acks depend on it". The bytes are in
//! `format/pair.rs`.

use super::cache::{Cache, Entry, Progress};
use super::commands::Commands;
use super::flight::Flight;
use super::roles::Roles;
use super::stale::Stale;
use crate::format::pair::{self, EXTENTS_MAX, PairRecord, RECORD_BYTES, Standing};
use crate::port::IoOp;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Extents of a record that are not used up before roles change: those of one command are few.
const EXTENTS_SPARE: usize = 64;

/// Why a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Regions are about to be written to.
    Mark,
    /// Roles change.
    Turn,
    /// The leg ahead has made up for what it was behind in.
    CaughtUp,
    /// The other leg is dead.
    Alone,
    /// The journal begins to count, or does not count any more.
    Journal,
    /// A leg that was behind lacks less.
    Resynced,
    /// The pair stops.
    Stop,
}

/// Where the legs may differ, as others know it: what a record is made of.
#[derive(Clone, Debug)]
pub(super) struct Unequal<'a> {
    pub(crate) cache: &'a Cache,
    /// Metadata that is being written, or will be.
    pub(crate) metas: Vec<(u64, u64)>,
    /// What each leg lacks.
    pub(crate) stale: &'a [Stale; 2],
    /// … and a leg that serves alone
    pub(crate) missing: Stale,
}

/// A record is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnRecord {
    pub(crate) why: Why,
    /// The journal that counts.
    pub(crate) journal: u32,
}

#[derive(Clone, Debug)]
struct Writing {
    why: Why,
    record: PairRecord,
    /// Legs that are still to be told, the last one first.
    legs: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Records {
    capacity_bytes: u64,
    durable: bool,
    uuids: [u128; 2],
    sequence: u64,
    region_bytes: u64,
    /// Durable on the lead.
    marks: BTreeSet<u32>,
    wanted: BTreeSet<u32>,
    /// Written to since the flushes began that the next record relies on: perhaps not durable by them.
    recent: BTreeSet<u32>,
    /// What the durable record says that the lead is behind in.
    behind: Stale,
    /// What was accepted since roles changed: the next record's `behind` at most.
    lacking: Stale,
    writing: Option<Writing>,
    /// Both legs have it on record that the pair is in use, and who is ahead: the one that is only read
    /// must not believe that it was stopped cleanly.
    both_know: bool,
    /// The generation of the journal that counts; 0: none does.
    journal: u32,
    /// Where each leg's next record goes.
    slots: [u8; 2],
    /// Records written.
    count: u64,
}

impl Records {
    pub(crate) fn new(capacity_bytes: u64, uuids: [u128; 2], durable: bool) -> Records {
        Records {
            capacity_bytes,
            durable,
            uuids,
            sequence: 0,
            region_bytes: pair::region_bytes(capacity_bytes),
            marks: BTreeSet::new(),
            wanted: BTreeSet::new(),
            recent: BTreeSet::new(),
            behind: Stale::default(),
            lacking: Stale::default(),
            writing: None,
            both_know: false,
            journal: 0,
            slots: [0; 2],
            count: 0,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// The generation of the journal that counts; 0: none does.
    pub(crate) fn journal(&self) -> u32 {
        self.journal
    }

    /// The next record says that this one counts.
    pub(crate) fn set_journal(&mut self, generation: u32) {
        assert!(generation == 0 || generation > self.journal, "generations rise");
        self.journal = generation;
    }

    fn regions(&self, offset: u64, end: u64) -> RangeInclusive<u32> {
        assert!(offset < end && end <= self.capacity_bytes, "regions are of bytes of the pair");
        (offset / self.region_bytes) as u32..=((end - 1) / self.region_bytes) as u32
    }

    /// The bytes of a region.
    fn region(&self, region: u32) -> (u64, u64) {
        let start = u64::from(region) * self.region_bytes;
        (start, (start + self.region_bytes).min(self.capacity_bytes))
    }

    /// Something was written there.
    pub(crate) fn touched(&mut self, offset: u64, end: u64) {
        let regions = self.regions(offset, end);
        self.recent.extend(regions);
    }

    /// The flushes begin that the next record relies on.
    pub(crate) fn relies_on_flushes(&mut self) {
        self.recent.clear();
    }

    /// May something new be written to `offset..end`? Only where it is marked; what is not will be.
    pub(crate) fn mark(&mut self, roles: &Roles, offset: u64, end: u64) -> bool {
        if !self.durable || roles.is_alone() {
            return true;
        }
        let mut all = true;
        for region in self.regions(offset, end) {
            if !self.marks.contains(&region) {
                self.wanted.insert(region);
                all = false;
            }
        }
        all
    }

    /// What the durable record says that the lead is behind in.
    pub(crate) fn behind(&self) -> &Stale {
        &self.behind
    }

    /// Something was accepted that one leg will lack.
    pub(crate) fn accepted(&mut self, offset: u64, end: u64) {
        self.lacking.add(offset, end);
    }

    /// Roles have changed, or changes begin: one leg lacks these entries.
    pub(crate) fn begins_period<'a>(&mut self, entries: impl Iterator<Item = &'a Entry>) {
        self.lacking = Stale::default();
        for entry in entries.filter(|entry| !entry.is_trim) {
            self.lacking.add(entry.offset, entry.end());
        }
    }

    /// Would the extents of one more write not fit the next record?
    pub(crate) fn is_full(&self, roles: &Roles) -> bool {
        let full = self.lacking.len() + EXTENTS_SPARE > EXTENTS_MAX;
        self.durable && roles.takes_turns() && full
    }

    /// Where may the leg that leads have made durable what the other one has not? By region, since it is
    /// known only for so long as the cache takes to be written.
    pub(crate) fn lead_alone(&self, other: usize, cache: &Cache) -> Stale {
        let mut regions = self.marks.clone();
        for entry in cache.writes().filter(|entry| entry.progress[other] != Progress::Done) {
            regions.extend(self.regions(entry.offset, entry.end()));
        }
        let mut alone = Stale::default();
        for region in regions {
            let (start, end) = self.region(region);
            alone.add(start, end);
        }
        // there the other one is right, and the lead was about to be told
        alone.remove_all(&self.behind);
        alone
    }
}

/// Start.
impl Records {
    /// The pair was formatted just now.
    pub(crate) fn is_formatted(&mut self, journal: u32) {
        (self.sequence, self.journal) = (1, journal);
    }

    /// This record was found on a leg; it counts unless the leg is new.
    pub(crate) fn found(&mut self, leg: usize, slot: u8, pair: Option<u128>) {
        self.slots[leg] = 1 - slot;
        if let Some(pair) = pair {
            self.uuids[0] = pair;
        }
    }

    pub(crate) fn pair(&self) -> u128 {
        self.uuids[0]
    }

    /// The first records of a leg.
    pub(crate) fn first(&self, leg: usize, slot: u8, journal: bool) -> PairRecord {
        PairRecord {
            sequence: u64::from(slot),
            pair: self.uuids[0],
            own: self.uuids[leg],
            leg: leg as u8,
            ahead: 0,
            standing: Standing::Clean,
            capacity_bytes: self.capacity_bytes,
            region_bytes: pair::region_bytes(self.capacity_bytes),
            marks: Vec::new(),
            behind: Vec::new(),
            journal: u32::from(journal),
        }
    }

    pub(crate) fn resumes(&mut self, sequence: u64, journal: u32) {
        (self.sequence, self.journal) = (sequence, journal);
    }

    /// The legs may differ in these regions, and there the lead lacks these extents. Returns what the
    /// lead lacks and what the other one does.
    pub(crate) fn resumes_unequal(
        &mut self,
        marks: &[u32],
        behind: &[(u64, u64)],
        all: bool,
    ) -> [Stale; 2] {
        assert!(self.marks.is_empty() && self.behind.is_empty(), "a pair goes on once");
        let [mut lead, mut other] = [Stale::default(), Stale::default()];
        self.marks = marks.iter().copied().collect();
        if all {
            other.add(0, self.capacity_bytes);
            self.marks = self.regions(0, self.capacity_bytes).collect();
        } else {
            for &mark in marks {
                let (start, end) = self.region(mark);
                other.add(start, end);
            }
        }
        for &(offset, bytes) in behind {
            // what the lead lacks is what the other one is right about
            lead.add(offset, offset + bytes);
            other.remove(offset, offset + bytes);
            self.behind.add(offset, offset + bytes);
        }
        [lead, other]
    }
}

/// Writing.
impl Records {
    /// The record that is wanted most by itself, if none is being written.
    pub(crate) fn wants(&self, roles: &Roles) -> Option<Why> {
        if self.is_writing() || !self.durable {
            return None;
        }
        if roles.alone_is_unrecorded() {
            roles.is_alive(roles.lead()).then_some(Why::Alone)
        } else if roles.unjournaled_is_unrecorded() {
            (!roles.are_dead()).then_some(Why::Journal)
        } else {
            (!self.wanted.is_empty() && !roles.is_alone()).then_some(Why::Mark)
        }
    }

    /// Writes a record. Returns what is durable at once, since nobody is there to be told.
    pub(crate) fn write(
        &mut self,
        why: Why,
        unequal: &Unequal,
        roles: &mut Roles,
        commands: &mut Commands,
    ) -> Option<OnRecord> {
        assert!(!self.is_writing(), "one record after the other");
        assert!(self.durable, "under fixed placement there is no room for records");
        assert!(why != Why::Alone || roles.is_alone(), "who says that it is alone is");
        let is_of_one = matches!(why, Why::Alone | Why::Journal | Why::Stop);
        assert!(is_of_one || !roles.is_alone(), "it takes two legs to agree on that");
        let (lead, other) = (roles.lead(), roles.other());
        let (ahead, legs) = match why {
            Why::Mark if !self.both_know => (lead, vec![lead, other]),
            Why::Mark | Why::CaughtUp | Why::Alone => (lead, vec![lead]),
            Why::Turn => (other, vec![lead, other]),
            Why::Resynced | Why::Stop | Why::Journal => (lead, vec![other, lead]),
        };
        let (marks, behind) = self.contents(why, unequal, roles);
        let standing = match why {
            _ if roles.is_alone() => Standing::Alone,
            Why::Stop if marks.is_empty() => Standing::Clean,
            _ => Standing::Open,
        };
        assert!(standing != Standing::Clean || behind.is_empty(), "a clean pair lacks nothing");
        if why == Why::Stop && standing != Standing::Open {
            // everybody who is there has everything
            self.journal = 0;
        }
        // a region that will not be marked any more must not be written to on the strength of its old mark
        self.marks.retain(|region| marks.contains(region));
        self.sequence += 1;
        self.count += 1;
        let record = PairRecord {
            sequence: self.sequence,
            pair: self.uuids[0],
            own: 0,
            leg: 0,
            ahead: ahead as u8,
            standing,
            capacity_bytes: self.capacity_bytes,
            region_bytes: self.region_bytes,
            marks: marks.into_iter().collect(),
            behind,
            journal: self.journal,
        };
        self.writing = Some(Writing { why, record, legs });
        self.next(roles, commands)
    }

    /// Regions in which the legs may differ, and extents that the leg ahead lacks.
    fn contents(
        &self,
        why: Why,
        unequal: &Unequal,
        roles: &Roles,
    ) -> (BTreeSet<u32>, Vec<(u64, u64)>) {
        if roles.is_alone() {
            // who serves alone says what it lacks, whatever the record is for
            return listed(&unequal.missing, |from, to| self.regions(from, to));
        }
        let marks = match why {
            Why::Mark | Why::CaughtUp | Why::Journal => &self.marks | &self.wanted,
            Why::Turn => &self.open_regions(unequal) | &self.recent,
            Why::Resynced => &(&self.unequal_regions(unequal) | &self.recent) | &self.wanted,
            Why::Stop => self.stale_regions(unequal),
            Why::Alone => BTreeSet::new(),
        };
        let behind = match why {
            Why::Mark | Why::Journal => extents(&self.behind),
            Why::Turn => extents(&lead_has_alone(unequal.cache, roles)),
            _ => Vec::new(),
        };
        (marks, behind)
    }

    /// Regions in which something is under way that not both legs may have.
    fn open_regions(&self, unequal: &Unequal) -> BTreeSet<u32> {
        unequal.metas.iter().flat_map(|&(start, end)| self.regions(start, end)).collect()
    }

    /// … and what the cache holds besides.
    fn unequal_regions(&self, unequal: &Unequal) -> BTreeSet<u32> {
        let mut regions = self.open_regions(unequal);
        for entry in unequal.cache.writes() {
            regions.extend(self.regions(entry.offset, entry.end()));
        }
        regions.append(&mut self.stale_regions(unequal));
        regions
    }

    fn stale_regions(&self, unequal: &Unequal) -> BTreeSet<u32> {
        let parts = unequal.stale.iter().flat_map(Stale::parts);
        parts.flat_map(|(start, end)| self.regions(start, end.min(self.capacity_bytes))).collect()
    }

    /// Tells the next leg; if there is none, the record is durable.
    fn next(&mut self, roles: &mut Roles, commands: &mut Commands) -> Option<OnRecord> {
        let writing = self.writing.as_mut()?;
        writing.legs.retain(|&leg| roles.is_alive(leg));
        let Some(leg) = writing.legs.pop() else { return self.is_durable(roles) };
        let mut record = writing.record.clone();
        (record.leg, record.own) = (leg as u8, self.uuids[leg]);
        let slot = u64::from(self.slots[leg]);
        self.slots[leg] ^= 1;
        let op = IoOp::WriteMeta {
            offset_bytes: slot * RECORD_BYTES,
            bytes: record.encode(),
            fua: true,
        };
        commands.send(roles, leg, op, Flight::Record);
        None
    }

    /// The leg that was being told is dead: what is true now is another record.
    pub(crate) fn gives_up(&mut self) {
        assert!(self.is_writing(), "a leg was being told");
        self.writing = None;
    }

    /// A leg has been told.
    pub(crate) fn written(
        &mut self,
        leg: usize,
        roles: &mut Roles,
        commands: &mut Commands,
    ) -> Option<OnRecord> {
        assert!(self.is_writing(), "a leg was being told");
        if !roles.is_alive(leg) {
            self.gives_up();
            return None;
        }
        self.next(roles, commands)
    }

    fn is_durable(&mut self, roles: &mut Roles) -> Option<OnRecord> {
        let Writing { why, record, .. } = self.writing.take()?;
        assert_eq!(record.sequence, self.sequence, "no newer record was written");
        if why == Why::Alone {
            roles.alone_is_on_record();
        } else if roles.alone_is_unrecorded() {
            return None; // a leg died meanwhile
        }
        self.marks = record.marks.iter().copied().collect();
        let marks = &self.marks;
        self.wanted.retain(|region| !marks.contains(region));
        self.both_know |= matches!(why, Why::Mark | Why::Turn | Why::Resynced | Why::Journal);
        match why {
            Why::Mark | Why::Journal | Why::Stop => {}
            Why::CaughtUp | Why::Resynced => self.behind = Stale::default(),
            Why::Turn | Why::Alone => {
                self.wanted.clear();
                self.behind = Stale::default();
            }
        }
        if why == Why::Turn {
            for &(offset, bytes) in &record.behind {
                self.behind.add(offset, offset + bytes);
            }
        }
        Some(OnRecord { why, journal: record.journal })
    }
}

fn extents(stale: &Stale) -> Vec<(u64, u64)> {
    stale.parts().map(|(from, to)| (from, to - from)).collect()
}

/// What the lead has and the other one lacks.
fn lead_has_alone(cache: &Cache, roles: &Roles) -> Stale {
    let (lead, other) = (roles.lead(), roles.other());
    let mut alone = Stale::default();
    for entry in cache.writes() {
        if entry.progress[lead] == Progress::Done && entry.progress[other] != Progress::Done {
            alone.add(entry.offset, entry.end());
        }
    }
    alone
}

/// Extents for a record, and the regions of those that do not fit: what is only known by region is
/// never copied, so a start that would need it is refused.
fn listed(
    missing: &Stale,
    regions: impl Fn(u64, u64) -> RangeInclusive<u32>,
) -> (BTreeSet<u32>, Vec<(u64, u64)>) {
    let extents = missing.parts().take(EXTENTS_MAX).map(|(from, to)| (from, to - from)).collect();
    let rest = missing.parts().skip(EXTENTS_MAX).flat_map(|(from, to)| regions(from, to));
    (rest.collect(), extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_a_record_is_told_by_region() {
        let regions = |from: u64, to: u64| (from / 1_000) as u32..=((to - 1) / 1_000) as u32;
        let mut missing = Stale::default();
        (0..EXTENTS_MAX as u64).for_each(|i| missing.add(i * 2, i * 2 + 1));
        assert_eq!(listed(&missing, regions).0, BTreeSet::new());
        let end = EXTENTS_MAX as u64 * 2;
        missing.add(end + 5_000, end + 5_001);
        let (marks, extents) = listed(&missing, regions);
        assert_eq!(extents.len(), EXTENTS_MAX);
        assert_eq!(marks, BTreeSet::from([((end + 5_000) / 1_000) as u32]));
    }
}
