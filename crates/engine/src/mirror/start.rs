//! How does a pair begin its life?
//!
//! Source: B9. The newest record of both legs says who is ahead. What that one was behind in is
//! brought back before anybody is served; what the other one lacks is copied while they are. A leg
//! that is behind and alone serves only if its loss is accepted.

use super::error::PairError;
use super::journal::JOURNAL;
use super::record::Why;
use super::ring::State;
use super::{Flight, Mirror, Phase};
use crate::format::FormatError;
use crate::format::pair::{self, PairRecord, RECORD_BYTES, Standing};
use crate::format::pair_journal::{HEAD_BYTES, JournalHead, RING_AT};
use crate::port::{Command, IoOp};
use tandem_block::{Instant, IoError, MIB};

/// A smaller ring is no ring: it would hold a write or two.
const RING_BYTES_MIN: u64 = MIB;

/// Records found on the legs.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    outstanding: u32,
    /// The newest sound record of each leg and its place; or what is wrong.
    found: [Found; 2],
    journal: FoundJournal,
    failed: Option<IoError>,
    read: bool,
    /// The leg that leads has served alone: the other one lacks everything and is to be told so.
    was_alone: bool,
}

/// What was found of the journal.
#[derive(Clone, Debug, Default)]
struct FoundJournal {
    head: Option<(JournalHead, u8)>,
    error: Option<FormatError>,
    is_unreadable: bool,
}

/// What does the journal hold that a leg may lack?
#[derive(Clone, Debug)]
enum Holds {
    /// Nothing: the records say that none counts.
    Nothing,
    /// All of it, for the legs that its head names.
    All(Box<JournalHead>),
    /// These legs were brought all of it, and then it began anew.
    Brought(u8),
    /// It did, and it is not there.
    Missing,
}

impl Holds {
    /// Has this leg everything, now or with what the journal holds?
    fn is_for(&self, leg: usize) -> bool {
        match self {
            Holds::All(head) => head.members & 1 << leg != 0,
            Holds::Brought(members) => members & 1 << leg != 0,
            Holds::Nothing | Holds::Missing => false,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Found {
    record: Option<(PairRecord, u8)>,
    error: Option<FormatError>,
}

/// Where a pair goes on.
#[derive(Clone, Debug)]
struct Resume {
    lead: usize,
    alive: [bool; 2],
    sequence: u64,
    marks: Vec<u32>,
    /// What the lead lacks.
    behind: Vec<(u64, u64)>,
    /// The other leg lacks everything.
    all: bool,
    holds: Holds,
}

impl Mirror {
    /// Looks at the legs, or makes them a pair.
    pub fn start(&mut self, now: Instant, out: &mut Vec<Command>) {
        assert!(self.phase == Phase::Created, "a pair starts once");
        self.now = now;
        if self.journal.is_on() && self.journal.ring_bytes() < RING_BYTES_MIN {
            let journal = self.config.journal.as_ref().expect("there is one");
            let (is, least) = (journal.capacity_bytes, RING_AT + RING_BYTES_MIN);
            let device = self.journal.view().device;
            self.fail_start(PairError::JournalTooSmall { device, is, least });
            return;
        }
        if !self.durable {
            if let Some(absent) = self.config.absent.map(usize::from) {
                (self.alive[absent], self.lead, self.reader) = (false, 1 - absent, 1 - absent);
            }
            self.since = now;
            self.journal.begin_now();
            self.phase = Phase::Serving;
            self.started = Some(Ok(()));
            return;
        }
        self.phase = Phase::Opening;
        for leg in 0..2 {
            if self.config.absent == Some(leg as u8) {
                self.alive[leg] = false;
                continue;
            }
            if !self.format && self.config.replaced == Some(leg as u8) {
                continue; // nothing on it counts
            }
            for slot in 0..2u8 {
                let offset_bytes = u64::from(slot) * RECORD_BYTES;
                let op = if self.format {
                    let bytes = self.first_record(leg, slot).encode();
                    IoOp::WriteMeta { offset_bytes, bytes, fua: true }
                } else {
                    IoOp::ReadMeta { offset_bytes, length_bytes: RECORD_BYTES }
                };
                self.open.outstanding += 1;
                self.send(leg, op, Flight::Open { slot }, out);
            }
        }
        let replaced = self.config.journal.as_ref().is_some_and(|journal| journal.replaced);
        if self.journal.is_on() && (self.format || !replaced) {
            for slot in 0..2u8 {
                let offset_bytes = u64::from(slot) * HEAD_BYTES;
                let op = if self.format {
                    let bytes = self.first_head(slot).encode();
                    IoOp::WriteMeta { offset_bytes, bytes, fua: true }
                } else {
                    IoOp::ReadMeta { offset_bytes, length_bytes: HEAD_BYTES }
                };
                self.open.outstanding += 1;
                self.send_to_journal(op, Flight::Open { slot }, out);
            }
        }
    }

    fn first_head(&self, slot: u8) -> JournalHead {
        JournalHead {
            sequence: u64::from(slot),
            pair: self.config.uuids[0],
            own: self.journal.own,
            generation: 1,
            members: 3,
            ring_bytes: self.journal.ring_bytes(),
            tail_at: 0,
            tail_unit: 1,
        }
    }

    fn first_record(&self, leg: usize, slot: u8) -> PairRecord {
        PairRecord {
            sequence: u64::from(slot),
            pair: self.config.uuids[0],
            own: self.config.uuids[leg],
            leg: leg as u8,
            ahead: 0,
            standing: Standing::Clean,
            capacity_bytes: self.capacity_bytes,
            region_bytes: pair::region_bytes(self.capacity_bytes),
            marks: Vec::new(),
            behind: Vec::new(),
            journal: u32::from(self.journal.is_on()),
        }
    }

    pub(super) fn opened(
        &mut self,
        leg: usize,
        slot: u8,
        status: Result<(), IoError>,
        bytes: &[u8],
    ) {
        self.open.outstanding -= 1;
        self.open.read = self.open.outstanding == 0;
        if leg == JOURNAL {
            self.journal_opened(slot, status, bytes);
            return;
        }
        let found = &mut self.open.found[leg];
        match status {
            Err(error) if self.format => self.open.failed = Some(error),
            // the other record may be sound
            Err(_) => {}
            Ok(()) if self.format => {}
            Ok(()) => match PairRecord::decode(bytes) {
                Ok(record) => {
                    let newer =
                        found.record.as_ref().is_none_or(|r| record.sequence > r.0.sequence);
                    if newer {
                        found.record = Some((record, slot));
                    }
                }
                Err(error) => {
                    if !matches!(error, FormatError::Magic { .. }) {
                        found.error = Some(error);
                    }
                }
            },
        }
    }

    fn journal_opened(&mut self, slot: u8, status: Result<(), IoError>, bytes: &[u8]) {
        let found = &mut self.open.journal;
        match status {
            Err(error) if self.format => self.open.failed = Some(error),
            Err(_) => found.is_unreadable = true,
            Ok(()) if self.format => {}
            Ok(()) => match JournalHead::decode(bytes) {
                Ok(head) => {
                    let newer = found.head.as_ref().is_none_or(|h| head.sequence > h.0.sequence);
                    if newer {
                        found.head = Some((head, slot));
                    }
                }
                Err(FormatError::Magic { .. }) => {}
                Err(error) => found.error = Some(error),
            },
        }
    }

    /// Goes on when everything was read.
    pub(super) fn run_start(&mut self, out: &mut Vec<Command>) {
        if self.phase != Phase::Opening || !std::mem::take(&mut self.open.read) {
            return;
        }
        if let Some(error) = self.open.failed.take() {
            self.fail_start(error.into());
            return;
        }
        if self.format {
            self.records.sequence = 1;
            self.records.journal = u32::from(self.journal.is_on());
            self.journal.head_sequence = 1;
            self.journal.begin_now();
            self.serve();
            return;
        }
        match self.decide() {
            Ok(resume) => self.resume(resume, out),
            Err(error) => self.fail_start(error),
        }
    }

    pub(super) fn fail_start(&mut self, error: PairError) {
        self.phase = Phase::Stopped;
        self.started = Some(Err(error));
    }

    pub(super) fn serve(&mut self) {
        self.phase = Phase::Serving;
        self.since = self.now;
        self.started = Some(Ok(()));
    }

    /// Is what was found a pair, and whose word counts?
    fn decide(&self) -> Result<Resume, PairError> {
        let missing =
            |leg: usize| [self.config.absent, self.config.replaced].contains(&Some(leg as u8));
        let mut records: [Option<&PairRecord>; 2] = [None, None];
        for leg in (0..2).filter(|&leg| !missing(leg)) {
            let Found { record, error } = &self.open.found[leg];
            let device = self.legs[leg];
            let Some((record, _)) = record else {
                return Err(match error.clone() {
                    Some(error) => PairError::Damaged { device, error },
                    None => PairError::NotFormatted(device),
                });
            };
            if usize::from(record.leg) != leg {
                return Err(PairError::Swapped(device));
            }
            if record.capacity_bytes != self.capacity_bytes {
                let (was, is) = (record.capacity_bytes, self.capacity_bytes);
                return Err(PairError::Resized { device: self.legs[0], was, is });
            }
            records[leg] = Some(record);
        }
        match records {
            [Some(a), Some(b)] if a.pair != b.pair => {
                Err(PairError::Strangers(self.legs[0], self.legs[1]))
            }
            [Some(a), Some(b)] => self.decide_both([a, b]),
            [Some(one), None] => self.decide_one(0, one),
            [None, Some(one)] => self.decide_one(1, one),
            [None, None] => Err(PairError::NotFormatted(self.legs[0])),
        }
    }

    fn decide_both(&self, records: [&PairRecord; 2]) -> Result<Resume, PairError> {
        let alone = |leg: usize| {
            records[leg].standing == Standing::Alone && usize::from(records[leg].ahead) == leg
        };
        if alone(0) && alone(1) {
            return Err(PairError::SplitBrain(self.legs[0], self.legs[1]));
        }
        let newest = usize::from(records[1].sequence > records[0].sequence);
        let one_alone = if alone(0) { Some(0) } else { alone(1).then_some(1) };
        // who served alone is right, whatever number the other one came to, but for what it lacked
        let record = records[one_alone.unwrap_or(newest)];
        if let Some(alone) = one_alone.filter(|_| !record.marks.is_empty()) {
            return Err(PairError::Entangled(self.legs[alone], self.legs[1 - alone]));
        }
        let holds = self.journal_holds(record)?;
        Ok(Resume {
            lead: usize::from(record.ahead),
            alive: [true; 2],
            sequence: records[newest].sequence,
            marks: record.marks.clone(),
            behind: record.behind.clone(),
            all: record.standing == Standing::Alone,
            holds,
        })
    }

    /// One leg is missing, or new: does the other one hold everything?
    fn decide_one(&self, leg: usize, record: &PairRecord) -> Result<Resume, PairError> {
        let holds = self.journal_holds(record)?;
        // who served alone marks what it lacks and could not list
        let lacks = !record.behind.is_empty()
            || (record.standing == Standing::Alone && !record.marks.is_empty());
        let ahead = usize::from(record.ahead) == leg && !lacks;
        let whole = record.standing == Standing::Clean
            || match &holds {
                Holds::Nothing | Holds::Missing => ahead,
                // the journal knows whom the pair has done without
                Holds::All(_) | Holds::Brought(_) => holds.is_for(leg),
            };
        if !whole && !self.config.accept_loss {
            let device = self.legs[leg];
            return Err(match holds {
                Holds::Missing => PairError::Unjournaled(device),
                _ => PairError::Behind(device),
            });
        }
        let mut alive = [true; 2];
        if let Some(absent) = self.config.absent {
            alive[usize::from(absent)] = false;
        }
        Ok(Resume {
            lead: leg,
            alive,
            sequence: record.sequence,
            marks: Vec::new(),
            behind: Vec::new(),
            all: true,
            holds,
        })
    }

    /// What is the journal good for, by this record?
    fn journal_holds(&self, record: &PairRecord) -> Result<Holds, PairError> {
        let absent = if record.journal == 0 { Holds::Nothing } else { Holds::Missing };
        let read = self.config.journal.as_ref().is_some_and(|j| !j.absent && !j.replaced);
        if !read {
            return Ok(absent);
        }
        let (found, device) = (&self.open.journal, self.journal.view().device);
        let Some((head, _)) = &found.head else {
            return match (&found.error, found.is_unreadable) {
                (_, true) => Ok(absent),
                (Some(error), _) => Err(PairError::JournalDamaged { device, error: error.clone() }),
                (None, _) => Err(PairError::NotJournal(device)),
            };
        };
        if head.pair != record.pair {
            return Err(PairError::JournalStranger(device));
        }
        Ok(match record.journal {
            0 => Holds::Nothing,
            same if same == head.generation => Holds::All(Box::new(head.clone())),
            before if before + 1 == head.generation => Holds::Brought(head.members),
            _ => Holds::Missing,
        })
    }

    fn resume(&mut self, resume: Resume, out: &mut Vec<Command>) {
        let Resume { lead, alive, sequence, marks, behind, all, holds } = resume;
        for leg in 0..2 {
            if let Some((record, slot)) = &self.open.found[leg].record {
                self.records.slots[leg] = 1 - slot;
                if self.config.replaced != Some(leg as u8) && record.pair != 0 {
                    self.config.uuids[0] = record.pair;
                }
            }
        }
        (self.lead, self.alive) = (lead, alive);
        self.records.sequence = sequence;
        self.reader = lead;
        let other = 1 - lead;
        self.resume_journal(&holds, all);
        if alive != [true; 2] {
            self.phase = Phase::Restoring;
            self.finish_start();
            return;
        }
        self.records.marks = marks.iter().copied().collect();
        if all {
            self.stale[other].add(0, self.capacity_bytes);
        } else {
            for &mark in &marks {
                let (start, end) = self.records.region(mark);
                self.stale[other].add(start, end.min(self.capacity_bytes));
            }
        }
        for &(offset, bytes) in &behind {
            // what the lead lacks is what the other one is right about
            self.stale[lead].add(offset, offset + bytes);
            self.stale[other].remove(offset, offset + bytes);
            self.records.behind.add(offset, offset + bytes);
        }
        if all {
            self.open.was_alone = true;
            self.records.marks = self.records.regions(0, self.capacity_bytes).collect();
        }
        self.resync.active = self.stale.iter().any(|stale| !stale.is_empty());
        self.resync.all = !self.stale[other].is_empty() && (all || !holds.is_for(other));
        if !self.stale[lead].is_empty() {
            self.phase = Phase::Restoring;
        } else if all {
            self.phase = Phase::Restoring;
            self.write_record(Why::Resynced, out);
        } else {
            self.finish_start();
        }
    }

    /// What did the journal bring, or will it bring?
    fn resume_journal(&mut self, holds: &Holds, all: bool) {
        let on_record = self.open.found.iter().filter_map(|found| found.record.as_ref());
        let generation = on_record.map(|(record, _)| record.journal).max().unwrap_or(0);
        let head = self.open.journal.head.take();
        self.journal.generation = generation.max(head.as_ref().map_or(0, |h| h.0.generation));
        self.records.journal = if matches!(holds, Holds::Nothing) { 0 } else { generation };
        match &head {
            Some((head, slot)) => {
                self.journal.own = head.own;
                self.journal.head_sequence = head.sequence;
                self.journal.slot = 1 - slot;
            }
            // its drive cannot be read
            None if self.config.journal.as_ref().is_some_and(|j| !j.replaced) => {
                self.journal.state = State::Off;
            }
            None => {}
        }
        if let Holds::All(head) = holds
            && holds.is_for(self.lead)
        {
            let legs = (0..2)
                .filter(|&leg| self.alive[leg] && (leg == self.lead || !all) && holds.is_for(leg));
            self.replay.begin(head, legs.collect(), all);
        }
    }

    /// The legs are as right as they can make each other: now the journal, and then users.
    fn finish_start(&mut self) {
        self.phase = Phase::Restoring;
        self.replay.is_due = true;
    }

    /// Everything is as it has to be.
    pub(super) fn enter(&mut self) {
        if self.alternates() {
            self.reader = 1 - self.lead;
        }
        // what is answered from now on hangs on it alone, and it has to say so
        self.records.alone_wanted = self.is_alone();
        if !self.journal.is_on() && self.records.journal > 0 {
            self.records.journal = 0;
            self.records.unjournaled_wanted = true;
        }
        self.serve();
    }

    /// What the lead was behind in is durable there; its record may say so.
    pub(super) fn restored(&mut self, out: &mut Vec<Command>) {
        if !self.open.was_alone {
            self.write_record(Why::CaughtUp, out);
            return;
        }
        // what was copied from it the other one may not have made durable itself
        let behind = self.records.behind.clone();
        self.stale[1 - self.lead].add_all(&behind);
        self.write_record(Why::Resynced, out);
    }

    /// A record that the start waited for is durable.
    pub(super) fn start_is_on_record(&mut self) {
        if self.phase == Phase::Restoring {
            self.finish_start();
        }
    }
}
