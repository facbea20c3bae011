//! Which leg reads, which writes? Two SSDs as one device, whose reads do not wait for writes.
//!
//! Source: [IANUS §5], requirements I13 to I18, B9. One leg reads while the other one writes; after a
//! period they change places, and the new writer first makes up for what the other one wrote. What
//! one of them lacks stays in RAM, so that the cache and either leg are the latest data.
//!
//! ```text
//!            engine: commands to one device                          one period after the other
//!                 │ reads          │ writes, TRIM    │ metadata      leg 0  ██ writes ██│·· reads ··
//!                 ▼                ▼ (pace: k/2)     ▼               leg 1  ·· reads ··│██ writes ██
//!              read.rs ◀─ cache.rs ◀─ write.rs     meta.rs                              │
//!                 │                    │             │  │             what leg 0 wrote is written to
//!                 ▼                    ▼             ▼  ▼             leg 1 first, then what is new
//!            the reader            the writer      both legs
//! ```
//! What is durable, and when (`record.rs`, the bytes in `format/pair.rs`):
//! - A region is marked on the writer before it is written to: after a crash the legs may differ there
//!   and nowhere else, and the writer is right.
//! - When roles change, the old writer is flushed, then the new one; then both are told who is ahead,
//!   and in which extents the one ahead is still behind. Only then is anything new written.
//! - A FLUSH flushes the writer: what it lacks was durable on the other one when roles changed.
//! - A leg that dies is written off on the other one before anything else is answered.
//! - With a journal on a third drive (`journal.rs`) what was flushed is there too.
//!
//! A room of the engine, between the device queues and the event loop: commands to the pair go in at
//! `submit`, commands to the legs come out, and answers that look like those of a single drive.

mod attach;
mod cache;
pub mod config;
mod error;
mod fail;
mod flush;
mod journal;
mod meta;
mod pace;
mod read;
mod record;
mod replay;
mod residue;
mod resync;
mod ring;
mod roles;
mod stale;
mod start;
mod stop;
mod survivor;
mod windows;
mod write;

pub(crate) use attach::mirrors;
pub use attach::{Pair, pair_bytes};
pub use config::{Answer, Idle, JournalConfig, PairConfig};
pub use error::PairError;
pub use ring::{JournalStats, JournalView};

pub(crate) use self::attach::Pairs;
use crate::format::pair::HEADER_BYTES;
use crate::port::{Command, Io, IoId, IoOp};
use cache::{Cache, EntryId};
use pace::Pace;
use record::Records;
use slab::Slab;
use stale::Stale;
use std::collections::VecDeque;
use tandem_block::{DeviceId, Duration, Instant, IoError, PayloadId};

/// Set in the ids of a mirror's own commands; the engine's ids are small numbers.
pub const IO_BIT: u32 = 1 << 31;
/// The number of the mirror in those ids.
const INDEX_SHIFT: u32 = 24;
/// Set in the names of a mirror's own buffers.
const BUFFER_BIT: u64 = 1 << 62;

/// Which mirror does this command belong to, if any?
pub fn owner(io: IoId) -> Option<usize> {
    (io.0 & IO_BIT != 0).then_some(((io.0 & !IO_BIT) >> INDEX_SHIFT) as usize)
}

/// The end of a command to the pair, for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub io: IoId,
    pub status: Result<(), IoError>,
    pub checksums: Vec<u32>,
    pub bytes: Vec<u8>,
}

/// What a mirror is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not started.
    Created,
    /// Reads the legs' records.
    Opening,
    /// Brings back what the leg ahead lacks; nobody is served yet.
    Restoring,
    /// Serves.
    Serving,
    /// Roles are about to change: no more writes, those under way end.
    Draining,
    /// … the writer is flushed
    Settling,
    /// … the writer rests
    Idling(Instant),
    /// … reads have moved; the new writer is flushed and told.
    Turning,
    /// Takes nothing more; both legs get everything.
    Stopping,
    /// Over.
    Stopped,
}

/// Why a command is with a leg.
#[derive(Clone, Debug)]
enum Flight {
    Open {
        slot: u8,
    },
    Read(Box<read::Read>),
    /// Checksums of a read that the cache had a part in.
    ReadSum(IoId),
    /// Checksums of a write that the cache has.
    WriteSum(IoId, EntryId),
    /// A write; from what is new, or from the backlog.
    Entry(EntryId, bool),
    MetaRead(Box<meta::MetaRead>),
    MetaWrite(usize),
    Flush,
    Record,
    ResyncRead,
    ResyncWrite,
    /// Checksums of the journal's next unit.
    JournalSum,
    /// Half of a unit.
    Unit,
    /// The journal's head.
    Head,
    JournalFlush,
    /// Headers in the ring, at this place of it.
    RingRead(u64, replay::Step),
    /// The data of a unit that ends here.
    RingData(u64),
    /// Data of the ring, to a leg.
    Brought,
}

#[derive(Clone, Debug)]
struct Sent {
    leg: usize,
    flight: Flight,
    issued: Instant,
}

/// What a leg has to write.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// What the other leg has already, with its order of acceptance.
    backlog: VecDeque<(EntryId, u64)>,
    /// What no leg has.
    fresh: VecDeque<(EntryId, u64)>,
    /// Entries with the leg.
    in_flight: u32,
    /// … from the backlog
    catching_up: u32,
    /// Bytes sent from the backlog minus those from the fresh ones: whose turn it is.
    balance: i64,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.fresh.is_empty() && self.in_flight == 0
    }
}

/// What a mirror has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairStats {
    /// Changes of roles.
    pub turns: u64,
    /// … of these before the period was over, because the cache or the record was full.
    pub early_turns: u64,
    /// Writes accepted, in bytes.
    pub accepted_bytes: u64,
    /// Bytes of writes sent to each leg.
    pub written_bytes: [u64; 2],
    /// Reads sent to each leg.
    pub reads: [u64; 2],
    /// Reads that the cache answered alone.
    pub cache_reads: u64,
    /// Reads that a leg and the cache answered together.
    pub mixed_reads: u64,
    /// Writes that waited for the pace or the cache, and how long in all.
    pub held: u64,
    /// … in nanoseconds
    pub held_ns: u64,
    /// Records written.
    pub records: u64,
    /// Bytes copied to a leg that was behind.
    pub resynced_bytes: u64,
    /// Reads that one leg could not answer and the other one did.
    pub repaired_reads: u64,
    /// Legs written off.
    pub failures: u64,
    /// Journals written off.
    pub journal_failures: u64,
}

/// A mirrored pair.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    config: PairConfig,
    index: usize,
    legs: [DeviceId; 2],
    /// Bytes of the pair, without the legs' records.
    capacity_bytes: u64,
    /// Keeps the promise of a power cut; not under fixed placement.
    durable: bool,
    contents: bool,
    format: bool,
    now: Instant,
    phase: Phase,
    alive: [bool; 2],
    /// The leg that is right wherever they differ and the cache knows nothing.
    lead: usize,
    /// The leg that is read.
    reader: usize,
    /// A leg died, and what it had made durable up to this write is not all durable on the other one yet.
    exposed: Option<u64>,
    survivor: survivor::Survivor,
    /// Since when roles are as they are.
    since: Instant,
    idle: Duration,
    /// The end of the time without writes that has begun.
    rests_until: Instant,
    residue: residue::Residue,
    cache: Cache,
    queues: [Queue; 2],
    /// Writes that wait for the pace or for room.
    held: VecDeque<write::Held>,
    pace: Pace,
    metas: Slab<meta::MetaWrite>,
    /// Metadata writes that were not sent yet.
    metas_waiting: VecDeque<usize>,
    flushes: flush::Flushes,
    records: Records,
    journal: ring::Journal,
    replay: replay::Replay,
    /// The engine does not serve yet: what it reads it takes for the truth.
    is_recovering: bool,
    stale: [Stale; 2],
    resync: resync::Resync,
    open: start::Open,
    sent: Slab<Sent>,
    buffers: u64,
    ended: Vec<Ended>,
    started: Option<Result<(), PairError>>,
    stop: stop::Stop,
    stats: PairStats,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutant::Mutant>,
}

/// What a mirror is told at birth.
#[derive(Clone, Debug)]
pub(crate) struct MirrorSetup {
    pub config: PairConfig,
    pub index: usize,
    pub legs: [DeviceId; 2],
    pub capacity_bytes: u64,
    /// The drive of its journal, if it has one.
    pub journal: DeviceId,
    pub durable: bool,
    pub contents: bool,
    pub format: bool,
}

impl Mirror {
    pub fn new(setup: MirrorSetup) -> Mirror {
        let MirrorSetup { config, index, legs, capacity_bytes, journal, durable, contents, format } =
            setup;
        let journal = ring::Journal::new(config.journal.as_ref(), journal);
        let idle = match config.idle {
            Idle::Fixed(length) => length,
            Idle::Adaptive(_) => Duration::from_ns(0),
        };
        Mirror {
            pace: Pace::of(&config, idle),
            records: Records::new(capacity_bytes),
            journal,
            replay: replay::Replay::default(),
            is_recovering: true,
            config,
            index,
            legs,
            capacity_bytes,
            durable,
            contents,
            format,
            now: Instant::ZERO,
            phase: Phase::Created,
            alive: [true; 2],
            lead: 0,
            reader: 1,
            exposed: None,
            survivor: survivor::Survivor::default(),
            since: Instant::ZERO,
            idle,
            rests_until: Instant::ZERO,
            residue: residue::Residue::default(),
            cache: Cache::default(),
            queues: Default::default(),
            held: VecDeque::new(),
            metas: Slab::new(),
            metas_waiting: VecDeque::new(),
            flushes: flush::Flushes::default(),
            stale: Default::default(),
            resync: resync::Resync::default(),
            open: start::Open::default(),
            sent: Slab::new(),
            buffers: 0,
            ended: Vec::new(),
            started: None,
            stop: stop::Stop::default(),
            stats: PairStats::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// A command to the pair.
    pub fn submit(&mut self, now: Instant, io: Io, out: &mut Vec<Command>) {
        self.now = now;
        match io.op {
            IoOp::Read { .. } => self.begin_read(io.id, io.op, out),
            IoOp::ReadMeta { offset_bytes, length_bytes } => {
                self.begin_meta_read(io.id, offset_bytes, length_bytes, out);
            }
            IoOp::Write { .. } | IoOp::Trim { .. } => self.hold(io.id, io.op),
            IoOp::WriteMeta { offset_bytes, bytes, fua } => {
                self.begin_meta_write(io.id, offset_bytes, bytes, fua);
            }
            IoOp::Flush => self.begin_flush(io.id),
        }
    }

    /// A command to a leg is done.
    pub fn completed(
        &mut self,
        now: Instant,
        io: IoId,
        status: Result<(), IoError>,
        answer: (&[u32], &[u8]),
        out: &mut Vec<Command>,
    ) {
        self.now = now;
        let (checksums, bytes) = answer;
        let key = (io.0 & ((1 << INDEX_SHIFT) - 1)) as usize;
        let Sent { leg, flight, issued } = self.sent.remove(key);
        match flight {
            Flight::Open { slot } => self.opened(leg, slot, status, bytes),
            Flight::Read(read) => self.read_done(leg, *read, issued, status, checksums, out),
            Flight::ReadSum(io) => self.end(io, status, checksums.to_vec()),
            Flight::WriteSum(io, entry) => self.write_summed(io, entry, checksums, out),
            Flight::Entry(id, new) => self.entry_written(leg, (id, new), status, checksums, out),
            Flight::MetaRead(read) => self.meta_read_done(leg, *read, status, bytes, out),
            Flight::MetaWrite(key) => self.meta_written(leg, key, status, out),
            Flight::Flush => self.flushed(leg, status, out),
            Flight::Record => self.record_written(leg, status, out),
            Flight::ResyncRead => self.resync_read(leg, status, out),
            Flight::ResyncWrite => self.resync_written(leg, status, out),
            Flight::JournalSum => self.unit_summed(checksums, out),
            Flight::Unit => self.unit_written(issued, status, out),
            Flight::Head => self.head_written(status, out),
            Flight::JournalFlush => self.journal_flushed(status, out),
            Flight::RingRead(at, step) => self.ring_read((at, step), status, bytes, out),
            Flight::RingData(end) => self.ring_data(end, status, checksums, out),
            Flight::Brought => self.brought(status, out),
        }
    }

    /// Does everything that is possible now.
    pub fn advance(&mut self, now: Instant, out: &mut Vec<Command>) {
        self.now = now;
        self.run_start(out);
        self.run_replay(out);
        self.admit(out);
        self.send_metas(out);
        self.run_roles(out);
        self.send_writes(out);
        self.run_journal(out);
        self.run_exposed();
        self.run_survivor(out);
        self.run_resync(out);
        self.run_stop(out);
        self.run_flushes(out);
        self.run_resync_record(out);
        self.run_records(out);
    }

    /// Answers since the last call.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// What was found at the start, once.
    pub fn take_started(&mut self) -> Option<Result<(), PairError>> {
        self.started.take()
    }

    /// When something is due without anybody asking.
    pub fn due(&self) -> Instant {
        let held = self.held.front().map_or(Instant::NEVER, |_| self.admission_at());
        self.roles_due().min(held).min(self.resync_due()).min(self.journal.ask_at)
    }

    /// Sends a command to a leg.
    fn send(&mut self, leg: usize, op: IoOp, flight: Flight, out: &mut Vec<Command>) {
        assert!(self.alive[leg], "a dead leg is asked for nothing");
        let key = self.sent.insert(Sent { leg, flight, issued: self.now });
        out.push(Command::Submit(Io { id: self.name(key), device: self.legs[leg], op }));
    }

    /// Asks the event loop for the checksums of a buffer.
    fn sum(&mut self, range: (PayloadId, u64, u64), flight: Flight, out: &mut Vec<Command>) {
        let key = self.sent.insert(Sent { leg: self.lead, flight, issued: self.now });
        let (payload, offset_bytes, length_bytes) = range;
        let id = self.name(key);
        out.push(Command::Checksum { id, payload, offset_bytes, length_bytes });
    }

    fn name(&self, key: usize) -> IoId {
        assert!(key < 1 << INDEX_SHIFT, "commands in flight are bounded");
        IoId(IO_BIT | (self.index as u32) << INDEX_SHIFT | key as u32)
    }

    fn name_buffer(&mut self) -> PayloadId {
        self.buffers += 1;
        let number = (self.index as u64) << 56 | self.buffers;
        PayloadId(PayloadId::ENGINE_BIT | BUFFER_BIT | number)
    }

    fn end(&mut self, io: IoId, status: Result<(), IoError>, checksums: Vec<u32>) {
        self.ended.push(Ended { io, status, checksums, bytes: Vec::new() });
    }

    /// Answers what promises something: not before a death is on record.
    fn answer(&mut self, io: IoId, status: Result<(), IoError>, checksums: Vec<u32>) {
        let ended = Ended { io, status, checksums, bytes: Vec::new() };
        if self.records.blocks_all() {
            self.records.after.push(ended);
        } else {
            self.ended.push(ended);
        }
    }

    /// The leg's own offset of a byte of the pair.
    fn place(&self, offset: u64) -> u64 {
        if self.durable { HEADER_BYTES + offset } else { offset }
    }

    /// Do the legs take turns: do both live, and is it on record that neither is behind?
    fn alternates(&self) -> bool {
        self.alive == [true; 2] && !self.resync.active
    }

    /// Remembers how long a read took, for the time without writes.
    fn note_read(&mut self, issued: Instant) {
        self.residue.read(issued, self.now, self.since, self.config.period);
    }

    /// The other leg's death is known to the survivor, or nobody died.
    fn is_alone(&self) -> bool {
        self.alive != [true; 2]
    }

    /// The engine serves.
    pub fn engine_runs(&mut self) {
        self.is_recovering = false;
    }

    /// What is under way, in words.
    pub fn debug_state(&self) -> String {
        let sent: Vec<String> = self
            .sent
            .iter()
            .take(8)
            .map(|(_, sent)| format!("{} {:?} since {:?}", sent.leg, sent.flight, sent.issued))
            .collect();
        format!(
            "pair {:?} alive {:?} lead {} reader {} stop {:?}\nqueues {:?}\nheld {} metas {:?} waiting {:?}\nflushes {:?}\njournal {:?}\nreplay {:?}\nrecords {:?}\nstale {:?} resync {:?} survivor {:?}\nsent {} {sent:?}\ncache {} of {} {:?} pace {:?}",
            self.phase,
            self.alive,
            self.lead,
            self.reader,
            self.stop,
            self.queues,
            self.held.len(),
            self.metas.len(),
            self.metas_waiting,
            self.flushes,
            self.journal,
            self.replay,
            self.records,
            self.stale,
            self.resync,
            self.survivor,
            self.sent.len(),
            self.cache.bytes(),
            self.config.cache_bytes,
            self.cache.iter().take(4).collect::<Vec<_>>(),
            self.pace,
        )
    }

    /// Bytes that were acknowledged and that no leg has: what the loss of RAM takes.
    pub fn risked_bytes(&self) -> u64 {
        self.cache.risked_bytes(self.alive)
    }

    /// What there is to see of it.
    pub fn view(&self) -> PairView {
        PairView {
            legs: self.legs,
            alive: self.alive,
            lead: self.lead,
            reader: self.reader,
            exposed: (self.exposed.is_some() && !self.journal.is_on())
                || self.survivor.is_exposed(),
            cache_bytes: self.cache.bytes(),
            cache_bytes_max: self.cache.bytes_max,
            cache_bytes_bound: self.config.cache_bytes,
            coalesced_bytes: self.cache.coalesced_bytes,
            stale_bytes: [self.stale[0].bytes(), self.stale[1].bytes()],
            write_bytes_per_s: self.pace.write_bytes_per_s(),
            idle: self.idle,
            journal: self.config.journal.as_ref().map(|_| self.journal.view()),
            stats: self.stats,
        }
    }

    #[cfg(feature = "mutants")]
    pub(super) fn breaks(&self, mutant: crate::mutant::Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub(super) const fn breaks(&self, _: crate::mutant::Mutant) -> bool {
        false
    }
}

/// A pair as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairView {
    /// Ids of the legs in the event loop.
    pub legs: [DeviceId; 2],
    /// Which of them serve.
    pub alive: [bool; 2],
    /// The leg that writes, and is right where they differ.
    pub lead: usize,
    /// The leg that is read.
    pub reader: usize,
    /// A leg died, and a power cut now would lose what only it had made durable: over as soon as the cache
    /// is written to the other one, and that one's record says so.
    pub exposed: bool,
    /// Bytes in the cache now.
    pub cache_bytes: u64,
    /// … and at most so far
    pub cache_bytes_max: u64,
    /// … and the bound
    pub cache_bytes_bound: u64,
    /// Bytes that were overwritten before any leg was sent them.
    pub coalesced_bytes: u64,
    /// Bytes of each leg that are behind and not read from it.
    pub stale_bytes: [u64; 2],
    /// What a leg writes in a second, as measured. Paper: `k`.
    pub write_bytes_per_s: u64,
    /// Time without writes before the next change of roles.
    pub idle: Duration,
    /// Its journal, if it has one.
    pub journal: Option<JournalView>,
    /// Counters.
    pub stats: PairStats,
}
