//! What do the legs know of each other, and when is it durable?
//!
//! Source: B9 "which drive is ahead must be durable before acks depend on it". The bytes are in
//! `format/pair.rs`.

use super::stale::Stale;
use super::{Ended, Flight, Mirror};
use crate::format::pair::{self, PairRecord, RECORD_BYTES, Standing};
use crate::port::{Command, IoOp};
use std::collections::BTreeSet;
use tandem_block::IoError;

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

#[derive(Clone, Debug)]
struct Writing {
    why: Why,
    record: PairRecord,
    /// Legs that are still to be told, the last one first.
    legs: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Records {
    pub sequence: u64,
    region_bytes: u64,
    /// Durable on the lead.
    pub marks: BTreeSet<u32>,
    wanted: BTreeSet<u32>,
    /// Written to since the flushes began that the next record relies on: perhaps not durable by them.
    pub recent: BTreeSet<u32>,
    /// What the durable record says that the lead is behind in.
    pub behind: Stale,
    /// What was accepted since roles changed: the next record's `behind` at most.
    pub lacking: Stale,
    writing: Option<Writing>,
    /// Both legs have it on record that the pair is in use, and who is ahead: the one that is only read
    /// must not believe that it was stopped cleanly.
    both_know: bool,
    /// A leg died and the survivor does not know it durably.
    pub alone_wanted: bool,
    /// The generation of the journal that counts; 0: none does.
    pub journal: u32,
    /// The journal died, or is not there, and the legs do not know it durably.
    pub unjournaled_wanted: bool,
    /// Answers that wait for either.
    pub after: Vec<Ended>,
    /// The next writer is flushed; its record may be written.
    pub turn_wanted: bool,
    /// The lead is flushed since it has caught up.
    pub caught_up: bool,
    /// Where each leg's next record goes.
    pub slots: [u8; 2],
}

impl Records {
    pub fn new(capacity_bytes: u64) -> Records {
        Records {
            sequence: 0,
            region_bytes: pair::region_bytes(capacity_bytes),
            marks: BTreeSet::new(),
            wanted: BTreeSet::new(),
            recent: BTreeSet::new(),
            behind: Stale::default(),
            lacking: Stale::default(),
            writing: None,
            both_know: false,
            alone_wanted: false,
            journal: 0,
            unjournaled_wanted: false,
            after: Vec::new(),
            turn_wanted: false,
            caught_up: false,
            slots: [0; 2],
        }
    }

    /// Must everything wait until a death is on record?
    pub fn blocks_all(&self) -> bool {
        self.alone_wanted || self.unjournaled_wanted
    }

    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    pub fn regions(&self, offset: u64, end: u64) -> std::ops::RangeInclusive<u32> {
        (offset / self.region_bytes) as u32..=((end - 1) / self.region_bytes) as u32
    }

    /// The bytes of a region.
    pub fn region(&self, region: u32) -> (u64, u64) {
        let start = u64::from(region) * self.region_bytes;
        (start, start + self.region_bytes)
    }

    /// Something was written there.
    pub fn touched(&mut self, offset: u64, end: u64) {
        let regions = self.regions(offset, end);
        self.recent.extend(regions);
    }

    /// Are all regions of `offset..end` marked? Those that are not will be.
    pub fn mark(&mut self, offset: u64, end: u64) -> bool {
        let mut all = true;
        for region in self.regions(offset, end) {
            if !self.marks.contains(&region) {
                self.wanted.insert(region);
                all = false;
            }
        }
        all
    }

    pub fn behind_touches(&self, offset: u64, end: u64) -> bool {
        self.behind.touches(offset, end)
    }
}

impl Mirror {
    /// Writes the record that is wanted most, if none is being written.
    pub(super) fn run_records(&mut self, out: &mut Vec<Command>) {
        if self.records.is_writing() || !self.durable {
            return;
        }
        if self.records.alone_wanted {
            if self.alive[self.lead] {
                self.write_record(Why::Alone, out);
            }
        } else if self.records.unjournaled_wanted {
            if self.alive != [false; 2] {
                self.write_record(Why::Journal, out);
            }
        } else if !self.records.wanted.is_empty() && !self.is_alone() {
            self.write_record(Why::Mark, out);
        }
    }

    /// Regions in which something is under way that not both legs may have.
    fn open_regions(&self) -> BTreeSet<u32> {
        let mut regions = BTreeSet::new();
        for (_, meta) in &self.metas {
            regions.extend(self.records.regions(meta.offset, meta.end()));
        }
        regions
    }

    /// … and what the cache holds besides.
    fn regions_not_equal(&self) -> BTreeSet<u32> {
        let mut regions = self.open_regions();
        for (_, entry) in self.cache.iter().filter(|(_, entry)| !entry.is_trim) {
            regions.extend(self.records.regions(entry.offset, entry.end()));
        }
        for (start, end) in self.stale.iter().flat_map(Stale::parts) {
            regions.extend(self.records.regions(start, end.min(self.capacity_bytes)));
        }
        regions
    }

    pub(super) fn write_record(&mut self, why: Why, out: &mut Vec<Command>) {
        assert!(!self.records.is_writing(), "one record after the other");
        let other = 1 - self.lead;
        let (ahead, legs) = match why {
            Why::Mark if !self.records.both_know => (self.lead, vec![self.lead, other]),
            Why::Mark | Why::CaughtUp | Why::Alone => (self.lead, vec![self.lead]),
            Why::Turn => (other, vec![self.lead, other]),
            Why::Resynced | Why::Stop | Why::Journal => (self.lead, vec![other, self.lead]),
        };
        let legs: Vec<usize> = legs.into_iter().filter(|&leg| self.alive[leg]).collect();
        let marks = match why {
            Why::Mark | Why::CaughtUp | Why::Journal => &self.records.marks | &self.records.wanted,
            Why::Turn => &self.open_regions() | &self.records.recent,
            Why::Resynced => {
                &(&self.regions_not_equal() | &self.records.recent) | &self.records.wanted
            }
            Why::Stop => self.stale_regions(),
            Why::Alone => BTreeSet::new(),
        };
        let behind = match why {
            Why::Mark | Why::Journal => {
                self.records.behind.parts().map(|(from, to)| (from, to - from)).collect()
            }
            Why::Turn => self.lead_has_alone(),
            _ => Vec::new(),
        };
        // who serves alone says what it lacks, whatever the record is for
        let (marks, behind) = if self.is_alone() { self.alone_lacks(why) } else { (marks, behind) };
        let standing = match why {
            _ if self.is_alone() => Standing::Alone,
            Why::Stop if marks.is_empty() => Standing::Clean,
            _ => Standing::Open,
        };
        if why == Why::Stop && standing != Standing::Open {
            // everybody who is there has everything
            self.records.journal = 0;
        }
        // a region that will not be marked any more must not be written to on the strength of its old mark
        self.records.marks.retain(|region| marks.contains(region));
        self.records.sequence += 1;
        self.stats.records += 1;
        let record = PairRecord {
            sequence: self.records.sequence,
            pair: self.config.uuids[0],
            own: 0,
            leg: 0,
            ahead: ahead as u8,
            standing,
            capacity_bytes: self.capacity_bytes,
            region_bytes: self.records.region_bytes,
            marks: marks.into_iter().collect(),
            behind,
            journal: self.records.journal,
        };
        self.records.writing = Some(Writing { why, record, legs });
        self.next_record(out);
    }

    fn stale_regions(&self) -> BTreeSet<u32> {
        let mut regions = BTreeSet::new();
        for (start, end) in self.stale.iter().flat_map(Stale::parts) {
            regions.extend(self.records.regions(start, end));
        }
        regions
    }

    /// Extents that the lead has and the other one lacks.
    fn lead_has_alone(&self) -> Vec<(u64, u64)> {
        use super::cache::Progress;
        let other = 1 - self.lead;
        let mut extents = Stale::default();
        for (_, entry) in self.cache.iter() {
            let alone = entry.progress[self.lead] == Progress::Done
                && entry.progress[other] != Progress::Done;
            if alone && !entry.is_trim {
                extents.add(entry.offset, entry.end());
            }
        }
        extents.parts().map(|(from, to)| (from, to - from)).collect()
    }

    fn next_record(&mut self, out: &mut Vec<Command>) {
        let Some(writing) = &mut self.records.writing else { return };
        let alive = self.alive;
        writing.legs.retain(|&leg| alive[leg]);
        let Some(leg) = writing.legs.pop() else {
            self.record_is_durable(out);
            return;
        };
        let mut record = writing.record.clone();
        (record.leg, record.own) = (leg as u8, self.config.uuids[leg]);
        let slot = u64::from(self.records.slots[leg]);
        self.records.slots[leg] ^= 1;
        let op = IoOp::WriteMeta {
            offset_bytes: slot * RECORD_BYTES,
            bytes: record.encode(),
            fua: true,
        };
        self.send(leg, op, Flight::Record, out);
    }

    pub(super) fn record_written(
        &mut self,
        leg: usize,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        if status.is_err() {
            self.records.writing = None;
            self.fail_leg(leg, out);
        } else if !self.alive[leg] {
            self.records.writing = None; // it died meanwhile; what is true now is another record
        } else {
            self.next_record(out);
        }
    }

    fn record_is_durable(&mut self, out: &mut Vec<Command>) {
        let Writing { why, record, .. } = self.records.writing.take().expect("it was written");
        if why != Why::Alone && self.records.alone_wanted {
            return; // a leg died meanwhile
        }
        self.records.marks = record.marks.iter().copied().collect();
        let marks = &self.records.marks;
        self.records.wanted.retain(|region| !marks.contains(region));
        self.records.both_know |=
            matches!(why, Why::Mark | Why::Turn | Why::Resynced | Why::Journal);
        match why {
            Why::Mark => {}
            Why::Journal => self.journal_is_on_record(record.journal),
            Why::Turn => {
                self.records.wanted.clear();
                self.records.behind = Stale::default();
                for (offset, bytes) in record.behind {
                    self.records.behind.add(offset, offset + bytes);
                }
                self.turn();
            }
            Why::CaughtUp => {
                self.records.behind = Stale::default();
                self.start_is_on_record();
            }
            Why::Alone => {
                self.records.alone_wanted = false;
                self.records.wanted.clear();
                self.records.behind = Stale::default();
                self.survivor_is_on_record();
                self.journal_is_on_record(record.journal);
            }
            Why::Resynced => {
                self.records.behind = Stale::default();
                self.resync_is_on_record();
                self.start_is_on_record();
            }
            Why::Stop => self.stop_is_on_record(out),
        }
    }

    /// All legs know which journal counts.
    fn journal_is_on_record(&mut self, generation: u32) {
        if generation == self.records.journal {
            self.records.unjournaled_wanted = false;
            self.journal_is_open(generation);
        }
        if !self.records.blocks_all() {
            self.ended.append(&mut self.records.after);
        }
    }
}
