//! How does a pair begin its life?
//!
//! Source: B9. The newest record of both twins says who is ahead. What that one was behind in is
//! brought back before anybody is served; what the other one lacks is copied while they are. A twin
//! that is behind and alone serves only if its loss is accepted.

use super::record::Why;
use super::{Flight, Mirror, Phase};
use crate::format::FormatError;
use crate::format::pair::{self, PairRecord, RECORD_BYTES, Standing};
use crate::port::{Command, IoOp};
use tandem_block::{DeviceId, Instant, IoError};

/// Why a pair cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// A twin failed while it was read or written.
    #[error(transparent)]
    Device(#[from] IoError),
    /// No record on a twin.
    #[error("device {}: this drive is not half of a pair: format the pool, or name it as the replacement of a twin", .0.0)]
    NotFormatted(DeviceId),
    /// Neither record of a twin can be read.
    #[error("device {}: both records of the pair are damaged ({error}): name the drive as the replacement of a twin, and it is written anew", .device.0)]
    Damaged {
        /// Which drive.
        device: DeviceId,
        /// What is wrong with the first one.
        error: FormatError,
    },
    /// The twins belong to different pairs.
    #[error("devices {} and {} are halves of different pairs", .0.0, .1.0)]
    Strangers(DeviceId, DeviceId),
    /// The twins are listed in the other order.
    #[error("device {} is the other half of the pair: list the twins as they were", .0.0)]
    Swapped(DeviceId),
    /// The pair had another size.
    #[error("the pair of device {} had {was} bytes when it was formatted and would have {is} now: a twin was replaced by a smaller one", .device.0)]
    Resized {
        /// The pair.
        device: DeviceId,
        /// Then.
        was: u64,
        /// Now.
        is: u64,
    },
    /// The twin that is left lacks what the other one had.
    #[error("device {} is behind its twin, which is missing: what was written last is only there. Bring the twin back, or accept the loss", .0.0)]
    Behind(DeviceId),
    /// Both twins have served alone.
    #[error("devices {} and {} have both served alone since they were a pair: name one of them as replaced, and its data is dropped", .0.0, .1.0)]
    SplitBrain(DeviceId, DeviceId),
}

/// Records found on the twins.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    outstanding: u32,
    /// The newest sound record of each twin and its place; or what is wrong.
    found: [Found; 2],
    failed: Option<IoError>,
    read: bool,
}

#[derive(Clone, Debug, Default)]
struct Found {
    record: Option<(PairRecord, u8)>,
    error: Option<FormatError>,
}

/// Where a pair goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Resume {
    lead: usize,
    alive: [bool; 2],
    sequence: u64,
    marks: Vec<u32>,
    /// What the lead lacks.
    behind: Vec<(u64, u64)>,
    /// The other twin lacks everything.
    all: bool,
}

impl Mirror {
    /// Looks at the twins, or makes them a pair.
    pub fn start(&mut self, now: Instant, out: &mut Vec<Command>) {
        assert!(self.phase == Phase::Created, "a pair starts once");
        self.now = now;
        if !self.durable {
            if let Some(absent) = self.config.absent.map(usize::from) {
                (self.alive[absent], self.lead, self.reader) = (false, 1 - absent, 1 - absent);
            }
            self.since = now;
            self.phase = Phase::Serving;
            self.started = Some(Ok(()));
            return;
        }
        self.phase = Phase::Opening;
        for twin in 0..2 {
            if self.config.absent == Some(twin as u8) {
                self.alive[twin] = false;
                continue;
            }
            if !self.format && self.config.replaced == Some(twin as u8) {
                continue; // nothing on it counts
            }
            for slot in 0..2u8 {
                let offset_bytes = u64::from(slot) * RECORD_BYTES;
                let op = if self.format {
                    let bytes = self.first_record(twin, slot).encode();
                    IoOp::WriteMeta { offset_bytes, bytes, fua: true }
                } else {
                    IoOp::ReadMeta { offset_bytes, length_bytes: RECORD_BYTES }
                };
                self.open.outstanding += 1;
                self.send(twin, op, Flight::Open { slot }, out);
            }
        }
    }

    fn first_record(&self, twin: usize, slot: u8) -> PairRecord {
        PairRecord {
            sequence: u64::from(slot),
            pair: self.config.uuids[0],
            own: self.config.uuids[twin],
            twin: twin as u8,
            ahead: 0,
            standing: Standing::Clean,
            capacity_bytes: self.capacity_bytes,
            region_bytes: pair::region_bytes(self.capacity_bytes),
            marks: Vec::new(),
            behind: Vec::new(),
        }
    }

    pub(super) fn opened(
        &mut self,
        twin: usize,
        slot: u8,
        status: Result<(), IoError>,
        bytes: &[u8],
    ) {
        self.open.outstanding -= 1;
        let found = &mut self.open.found[twin];
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
        self.open.read = self.open.outstanding == 0;
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
            self.serve();
            return;
        }
        match self.decide() {
            Ok(resume) => self.resume(resume, out),
            Err(error) => self.fail_start(error),
        }
    }

    fn fail_start(&mut self, error: PairError) {
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
            |twin: usize| [self.config.absent, self.config.replaced].contains(&Some(twin as u8));
        let mut records: [Option<&PairRecord>; 2] = [None, None];
        for twin in (0..2).filter(|&twin| !missing(twin)) {
            let Found { record, error } = &self.open.found[twin];
            let device = self.twins[twin];
            let Some((record, _)) = record else {
                return Err(match error.clone() {
                    Some(error) => PairError::Damaged { device, error },
                    None => PairError::NotFormatted(device),
                });
            };
            if usize::from(record.twin) != twin {
                return Err(PairError::Swapped(device));
            }
            if record.capacity_bytes != self.capacity_bytes {
                let (was, is) = (record.capacity_bytes, self.capacity_bytes);
                return Err(PairError::Resized { device: self.twins[0], was, is });
            }
            records[twin] = Some(record);
        }
        match records {
            [Some(a), Some(b)] if a.pair != b.pair => {
                Err(PairError::Strangers(self.twins[0], self.twins[1]))
            }
            [Some(a), Some(b)] => self.decide_both([a, b]),
            [Some(one), None] => self.decide_one(0, one),
            [None, Some(one)] => self.decide_one(1, one),
            [None, None] => Err(PairError::NotFormatted(self.twins[0])),
        }
    }

    fn decide_both(&self, records: [&PairRecord; 2]) -> Result<Resume, PairError> {
        let alone = |twin: usize| {
            records[twin].standing == Standing::Alone && usize::from(records[twin].ahead) == twin
        };
        if alone(0) && alone(1) {
            return Err(PairError::SplitBrain(self.twins[0], self.twins[1]));
        }
        let newest = usize::from(records[1].sequence > records[0].sequence);
        let one_alone = if alone(0) { Some(0) } else { alone(1).then_some(1) };
        // who served alone is right, whatever number the other one came to
        let record = records[one_alone.unwrap_or(newest)];
        Ok(Resume {
            lead: usize::from(record.ahead),
            alive: [true; 2],
            sequence: records[newest].sequence,
            marks: record.marks.clone(),
            behind: record.behind.clone(),
            all: record.standing == Standing::Alone,
        })
    }

    /// One twin is missing, or new: does the other one hold everything?
    fn decide_one(&self, twin: usize, record: &PairRecord) -> Result<Resume, PairError> {
        let whole = record.standing == Standing::Clean
            || (usize::from(record.ahead) == twin && record.behind.is_empty());
        if !whole && !self.config.accept_loss {
            return Err(PairError::Behind(self.twins[twin]));
        }
        let mut alive = [true; 2];
        if let Some(absent) = self.config.absent {
            alive[usize::from(absent)] = false;
        }
        Ok(Resume {
            lead: twin,
            alive,
            sequence: record.sequence,
            marks: Vec::new(),
            behind: Vec::new(),
            all: true,
        })
    }

    fn resume(&mut self, resume: Resume, out: &mut Vec<Command>) {
        let Resume { lead, alive, sequence, marks, behind, all } = resume;
        for twin in 0..2 {
            if let Some((record, slot)) = &self.open.found[twin].record {
                self.records.slots[twin] = 1 - slot;
                if self.config.replaced != Some(twin as u8) && record.pair != 0 {
                    self.config.uuids[0] = record.pair;
                }
            }
        }
        (self.lead, self.alive) = (lead, alive);
        self.records.sequence = sequence;
        self.reader = lead;
        let other = 1 - lead;
        if alive != [true; 2] {
            // what is answered from now on hangs on it alone, and it has to say so
            self.records.alone_wanted = true;
            self.serve();
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
        self.resync.active = self.stale.iter().any(|stale| !stale.is_empty());
        if !self.stale[lead].is_empty() {
            self.phase = Phase::Restoring;
        } else if all {
            self.phase = Phase::Restoring;
            self.write_record(Why::Resynced, out);
        } else {
            self.finish_start();
        }
    }

    fn finish_start(&mut self) {
        if self.alternates() {
            self.reader = 1 - self.lead;
        }
        self.serve();
    }

    /// What the lead was behind in is settled there; its record may say so.
    pub(super) fn restored(&mut self, out: &mut Vec<Command>) {
        self.write_record(Why::CaughtUp, out);
    }

    /// A record that the start waited for is durable.
    pub(super) fn start_is_on_record(&mut self) {
        if self.phase == Phase::Restoring {
            self.finish_start();
        }
    }
}
