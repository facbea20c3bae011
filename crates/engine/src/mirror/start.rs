//! How does a pair begin its life?
//!
//! Source: B9. The newest record of both legs says who is ahead. What that one was behind in is
//! brought back before anybody is served; what the other one lacks is copied while they are. A leg
//! that is behind and alone serves only if its loss is accepted.

use super::commands::{Commands, JOURNAL, PairDrives};
use super::config::PairConfig;
use super::error::PairError;
use super::flight::Flight;
use super::journal::Journal;
use super::record::Records;
use super::roles::{Phase, Roles};
use crate::format::FormatError;
use crate::format::pair::{PairRecord, RECORD_BYTES, Standing};
use crate::format::pair_journal::{HEAD_BYTES, JournalHead, RING_AT};
use crate::port::IoOp;
use tandem_block::{DeviceId, IoError, MIB};

/// A smaller ring is no ring: it would hold a write or two.
const RING_BYTES_MIN: u64 = MIB;

/// What a start knows, and what it has found on the drives.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    config: PairConfig,
    legs: [DeviceId; 2],
    journal_device: DeviceId,
    capacity_bytes: u64,
    format: bool,
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
pub(super) enum Holds {
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
    pub(crate) fn is_for(&self, leg: usize) -> bool {
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
pub(super) struct Resume {
    pub(crate) lead: usize,
    pub(crate) alive: [bool; 2],
    pub(crate) sequence: u64,
    pub(crate) marks: Vec<u32>,
    /// What the lead lacks.
    pub(crate) behind: Vec<(u64, u64)>,
    /// The other leg lacks everything.
    pub(crate) all: bool,
    pub(crate) holds: Holds,
}

/// How a pair goes on when its drives were read.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// It was formatted.
    Formatted,
    Resume(Resume),
}

/// The newest record of a leg.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundRecord {
    pub(crate) leg: usize,
    pub(crate) slot: u8,
    /// The pair that it belongs to, if that counts.
    pub(crate) pair: Option<u128>,
}

impl Opening {
    pub(crate) fn new(
        config: PairConfig,
        drives: &PairDrives,
        capacity_bytes: u64,
        format: bool,
    ) -> Opening {
        Opening {
            config,
            legs: drives.legs,
            journal_device: drives.journal,
            capacity_bytes,
            format,
            outstanding: 0,
            found: Default::default(),
            journal: FoundJournal::default(),
            failed: None,
            read: false,
            was_alone: false,
        }
    }

    /// Looks at the legs, or makes them a pair.
    pub(crate) fn begin(
        &mut self,
        records: &Records,
        journal: &mut Journal,
        roles: &mut Roles,
        commands: &mut Commands,
    ) {
        assert!(roles.phase() == Phase::Created, "a pair starts once");
        if journal.is_on() && journal.ring_bytes() < RING_BYTES_MIN {
            let config = self.config.journal.as_ref().expect("there is one");
            let (is, least) = (config.capacity_bytes, RING_AT + RING_BYTES_MIN);
            let device = self.journal_device;
            roles.fail_start(PairError::JournalTooSmall { device, is, least });
            return;
        }
        if !roles.is_durable() {
            if let Some(absent) = self.config.absent {
                roles.does_without(usize::from(absent));
            }
            journal.begin_now();
            roles.serves(commands.now());
            return;
        }
        roles.opens();
        for leg in 0..2 {
            if self.config.absent == Some(leg as u8) {
                roles.is_absent(leg);
                continue;
            }
            if !self.format && self.config.replaced == Some(leg as u8) {
                continue; // nothing on it counts
            }
            for slot in 0..2u8 {
                let first = || records.first(leg, slot, journal.is_on()).encode();
                let op = self.open_op(slot, RECORD_BYTES, first);
                commands.send(roles, leg, op, Flight::Open { slot });
            }
        }
        let replaced = self.config.journal.as_ref().is_some_and(|journal| journal.replaced);
        if journal.is_on() && (self.format || !replaced) {
            for slot in 0..2u8 {
                let first = || journal.first_head(records.pair(), slot).encode();
                let op = self.open_op(slot, HEAD_BYTES, first);
                commands.send_to_journal(op, Flight::Open { slot });
            }
        }
    }

    /// Reads a record or a head, or writes the first one.
    fn open_op(&mut self, slot: u8, length_bytes: u64, first: impl Fn() -> Vec<u8>) -> IoOp {
        self.outstanding += 1;
        let offset_bytes = u64::from(slot) * length_bytes;
        if self.format {
            IoOp::WriteMeta { offset_bytes, bytes: first(), fua: true }
        } else {
            IoOp::ReadMeta { offset_bytes, length_bytes }
        }
    }

    pub(crate) fn opened(
        &mut self,
        leg: usize,
        slot: u8,
        status: Result<(), IoError>,
        bytes: &[u8],
    ) {
        assert!(self.outstanding > 0, "what was read was asked for");
        self.outstanding -= 1;
        self.read = self.outstanding == 0;
        if leg == JOURNAL {
            self.journal_opened(slot, status, bytes);
            return;
        }
        let found = &mut self.found[leg];
        match status {
            Err(error) if self.format => self.failed = Some(error),
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
        let found = &mut self.journal;
        match status {
            Err(error) if self.format => self.failed = Some(error),
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
    pub(crate) fn run(&mut self) -> Option<Result<Begin, PairError>> {
        if !std::mem::take(&mut self.read) {
            return None;
        }
        if let Some(error) = self.failed.take() {
            return Some(Err(error.into()));
        }
        if self.format {
            return Some(Ok(Begin::Formatted));
        }
        let resume = self.decide();
        self.was_alone =
            resume.as_ref().is_ok_and(|resume| resume.all && resume.alive == [true; 2]);
        Some(resume.map(Begin::Resume))
    }

    /// The newest record of each leg.
    pub(crate) fn records(&self) -> impl Iterator<Item = FoundRecord> + '_ {
        (0..2).filter_map(|leg| {
            let (record, slot) = self.found[leg].record.as_ref()?;
            let counts = self.config.replaced != Some(leg as u8) && record.pair != 0;
            Some(FoundRecord { leg, slot: *slot, pair: counts.then_some(record.pair) })
        })
    }

    /// The newest generation of the journal that a record names, and the journal's head.
    pub(crate) fn take_journal(&mut self) -> (u32, Option<(JournalHead, u8)>) {
        let on_record = self.found.iter().filter_map(|found| found.record.as_ref());
        let generation = on_record.map(|(record, _)| record.journal).max().unwrap_or(0);
        (generation, self.journal.head.take())
    }

    /// Is there a journal, and should something be on it?
    pub(crate) fn expects_journal(&self) -> bool {
        self.config.journal.as_ref().is_some_and(|journal| !journal.replaced)
    }

    /// Has the leg that leads served alone, so that the other one lacks everything and is to be told?
    pub(crate) fn was_alone(&self) -> bool {
        self.was_alone
    }

    /// Is what was found a pair, and whose word counts?
    fn decide(&self) -> Result<Resume, PairError> {
        let missing =
            |leg: usize| [self.config.absent, self.config.replaced].contains(&Some(leg as u8));
        let mut records: [Option<&PairRecord>; 2] = [None, None];
        for leg in (0..2).filter(|&leg| !missing(leg)) {
            let Found { record, error } = &self.found[leg];
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
        let (found, device) = (&self.journal, self.journal_device);
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
}
