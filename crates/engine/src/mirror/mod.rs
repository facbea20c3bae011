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
//! Who has what, each in a file of its name. An owner gets what it needs of others as an argument, and
//! gives back what it leads to: `Mirror` alone knows all of them, here, in `ended.rs` and in `steps.rs`.
//!
//! | owner | what it has |
//! |---|---|
//! | `commands`, `flight` | commands with the drives, buffers, answers |
//! | `roles` | which legs live, lead and are read; what the pair is doing, and when they change places |
//! | `cache` | writes that not both legs have |
//! | `write`, `queue`, `pace` | which of them are accepted, and sent to which leg |
//! | `meta`, `read` | the engine's own data, and reads |
//! | `flush` | flushes of legs, and the FLUSHes that wait for them |
//! | `record`, `survivor` | what the legs know of each other; what one lacks that serves alone |
//! | `resync` | what the legs lack of each other, and the copy of that |
//! | `journal`, `unit`, `ring`, `windows` | the journal, and on a hard drive the time to write it |
//! | `start`, `replay`, `stop` | begin and end |
//!
//! A room of the engine, between the device queues and the event loop: commands to the pair go in at
//! `submit`, commands to the legs come out, and answers that look like those of a single drive.

mod attach;
mod cache;
mod commands;
pub(crate) mod config;
mod ended;
mod error;
mod flight;
mod flush;
mod journal;
mod meta;
mod pace;
mod queue;
mod read;
mod record;
mod replay;
mod residue;
mod resync;
mod ring;
mod roles;
mod stale;
mod start;
mod steps;
mod stop;
mod survivor;
mod unit;
mod view;
mod windows;
mod write;

pub(crate) use attach::mirrors;
pub use attach::{Pair, pair_bytes};
pub use commands::{IO_BIT, owner};
pub use config::{Answer, Idle, JournalConfig, PairConfig, RoleRule};
pub use error::PairError;
pub use view::{JournalStats, JournalView, PairStats, PairView};

pub(crate) use self::attach::Pairs;
pub(crate) use self::commands::Ended;
use crate::port::{Command, Io, IoId, IoOp};
use cache::Cache;
use commands::{Commands, PairDrives};
use flight::{Flight, MetaRead, Read, Sent};
use flush::Flushes;
use journal::Journal;
use meta::Metas;
use read::Reads;
use record::Records;
use replay::Replay;
use resync::Resync;
use roles::{Phase, Roles};
use start::Opening;
use stop::Stop;
use survivor::Survivor;
use tandem_block::{DeviceId, Instant, IoError};
use write::{Landed, Writes};

/// A mirrored pair.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    config: PairConfig,
    capacity_bytes: u64,
    commands: Commands,
    roles: Roles,
    cache: Cache,
    writes: Writes,
    metas: Metas,
    reads: Reads,
    flushes: Flushes,
    records: Records,
    survivor: Survivor,
    resync: Resync,
    journal: Journal,
    replay: Replay,
    start: Opening,
    stop: Stop,
}

/// What a mirror is told at birth.
#[derive(Clone, Debug)]
pub(crate) struct MirrorSetup {
    pub(crate) config: PairConfig,
    pub(crate) index: usize,
    pub(crate) legs: [DeviceId; 2],
    /// Bytes of the pair, without the legs' records.
    pub(crate) capacity_bytes: u64,
    /// The drive of its journal, if it has one.
    pub(crate) journal: DeviceId,
    /// Keeps the promise of a power cut; not under fixed placement.
    pub(crate) durable: bool,
    pub(crate) contents: bool,
    pub(crate) format: bool,
}

impl Mirror {
    pub(crate) fn new(setup: MirrorSetup) -> Mirror {
        let MirrorSetup { config, index, legs, capacity_bytes, journal, durable, contents, format } =
            setup;
        let drives = PairDrives { index, legs, journal, has_records: durable, contents };
        let roles = Roles::new(&config, durable);
        Mirror {
            capacity_bytes,
            commands: Commands::new(drives),
            cache: Cache::default(),
            writes: Writes::new(&config, capacity_bytes, roles.idle()),
            metas: Metas::default(),
            reads: Reads::default(),
            flushes: Flushes::default(),
            records: Records::new(capacity_bytes, config.uuids, durable),
            survivor: Survivor::default(),
            resync: Resync::new(),
            journal: Journal::new(&config, journal),
            replay: Replay::new(capacity_bytes, config.depth, journal),
            start: Opening::new(config.clone(), &drives, capacity_bytes, format),
            stop: Stop::default(),
            roles,
            config,
        }
    }

    /// Looks at the legs, or makes them a pair.
    pub(crate) fn start(&mut self, now: Instant, out: &mut Vec<Command>) {
        self.commands.begins(now);
        self.start.begin(&self.records, &mut self.journal, &mut self.roles, &mut self.commands);
        self.commands.take_out(out);
    }

    /// A command to the pair.
    pub(crate) fn submit(&mut self, now: Instant, io: Io, out: &mut Vec<Command>) {
        self.commands.begins(now);
        let id = io.id;
        match io.op {
            IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes } => {
                self.assert_within(offset_bytes, length_bytes);
                self.begin_read(Read {
                    io: id,
                    offset: offset_bytes,
                    length: length_bytes,
                    into,
                    into_offset: into_offset_bytes,
                    pieces: Vec::new(),
                    tried: false,
                });
            }
            IoOp::ReadMeta { offset_bytes: offset, length_bytes: length } => {
                self.assert_within(offset, length);
                self.begin_meta_read(MetaRead { io: id, offset, length, tried: false });
            }
            op @ (IoOp::Write { .. } | IoOp::Trim { .. }) => self.writes.hold(id, op, now),
            IoOp::WriteMeta { offset_bytes, bytes, fua } => {
                self.assert_within(offset_bytes, bytes.len() as u64);
                self.metas.begin_write(id, offset_bytes, bytes, fua);
            }
            IoOp::Flush => self.flushes.begin(id, self.cache.sequence()),
        }
        self.commands.take_out(out);
    }

    /// Behind the pair's last byte a leg has nothing, and before its first one lie the records.
    fn assert_within(&self, offset: u64, length: u64) {
        assert!(length > 0, "a command has bytes");
        assert!(offset + length <= self.capacity_bytes, "a command lies within the pair");
    }

    /// A command to a leg is done.
    pub(crate) fn completed(
        &mut self,
        now: Instant,
        io: IoId,
        status: Result<(), IoError>,
        answer: (&[u32], &[u8]),
        out: &mut Vec<Command>,
    ) {
        self.commands.begins(now);
        let sent = self.commands.take_sent(io);
        assert!(sent.issued <= now, "a command ends after it went out");
        self.ended(sent, status, answer);
        self.commands.take_out(out);
    }

    /// What has ended is handed to its owner.
    fn ended(
        &mut self,
        Sent { leg, flight, issued }: Sent,
        status: Result<(), IoError>,
        (checksums, bytes): (&[u32], &[u8]),
    ) {
        match flight {
            Flight::Open { slot } => self.start.opened(leg, slot, status, bytes),
            Flight::Read(read) => self.read_done(leg, *read, issued, status, checksums),
            Flight::ReadSum(io) => self.commands.end(io, status, checksums.to_vec()),
            Flight::WriteSum(io, entry) => {
                write::summed(io, entry, checksums, &mut self.cache, &mut self.commands);
            }
            Flight::Entry(id, new) => {
                self.entry_written(Landed { leg, id, new }, status, checksums);
            }
            Flight::MetaRead(read) => self.meta_read_done(leg, *read, status, bytes),
            Flight::MetaWrite(key) => self.meta_written(leg, key, status),
            Flight::Flush => self.flushed(leg, status),
            Flight::Record => self.record_written(leg, status),
            Flight::ResyncRead => self.resync_read(leg, status),
            Flight::ResyncWrite => self.resync_written(leg, status),
            Flight::JournalSum => self.journal.unit_summed(checksums, &mut self.commands),
            Flight::Unit => self.unit_written(issued, status),
            Flight::Head => self.head_written(status),
            Flight::JournalFlush => self.journal_flushed(status),
            Flight::RingRead(at, step) => {
                let end = self.replay.ring_read((at, step), status, bytes, &mut self.commands);
                self.replay_ended(end);
            }
            Flight::RingData(end) => self.ring_data(end, status, checksums),
            Flight::Brought => self.brought(status),
        }
    }

    /// Does everything that is possible now.
    pub(crate) fn advance(&mut self, now: Instant, out: &mut Vec<Command>) {
        self.commands.begins(now);
        self.run_start();
        self.run_replay();
        self.run_acceptance();
        self.run_metas();
        self.run_roles();
        self.run_writes();
        self.run_journal();
        self.run_exposed();
        self.run_survivor();
        self.run_resync();
        self.run_stop();
        self.run_flushes();
        self.run_resync_record();
        self.run_records();
        self.commands.take_out(out);
    }

    /// Answers since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        self.commands.take_ended()
    }

    /// What was found at the start, once.
    pub(crate) fn take_started(&mut self) -> Option<Result<(), PairError>> {
        self.roles.take_started()
    }

    /// When something is due without anybody asking.
    pub(crate) fn due(&self) -> Instant {
        let now = self.commands.now();
        let roles = self.roles.due(now, self.writes.reader_lacks(&self.roles));
        let held = self.writes.due(&self.roles, &self.cache, &self.journal, &self.records);
        roles.min(held).min(self.resync.due(&self.roles, now)).min(self.journal.due())
    }

    /// The engine serves; it has data here, each block with a checksum.
    pub(crate) fn engine_runs(&mut self, data: (u64, u64)) {
        assert!(data.0 <= data.1 && data.1 <= self.capacity_bytes, "data lies within the pair");
        self.resync.engine_runs(data);
    }

    /// The engine has stopped and sends nothing more.
    pub(crate) fn stop(&mut self) {
        self.stop.is_wanted();
    }

    /// Is it over?
    pub(crate) fn has_stopped(&self) -> bool {
        self.roles.phase() == Phase::Stopped
    }

    /// Breaks a rule from now on; `None` mends it.
    #[cfg(feature = "mutants")]
    pub(crate) fn set_mutant(&mut self, mutant: Option<crate::mutant::Mutant>) {
        self.commands.set_mutant(mutant);
    }

    /// What is under way, in words.
    pub(crate) fn debug_state(&self) -> String {
        let sent: Vec<String> = self
            .commands
            .sent()
            .take(8)
            .map(|sent| format!("{} {:?} since {:?}", sent.leg, sent.flight, sent.issued))
            .collect();
        format!(
            "pair {:?} stop {:?}\nwrites {:?}\nmetas {:?}\nflushes {:?}\njournal {:?}\nreplay {:?}\nrecords {:?}\nresync {:?} survivor {:?}\nsent {} {sent:?}\ncache {} of {} {:?}",
            self.roles,
            self.stop,
            self.writes,
            self.metas,
            self.flushes,
            self.journal,
            self.replay,
            self.records,
            self.resync,
            self.survivor,
            self.commands.sent().count(),
            self.cache.bytes(),
            self.config.cache_bytes,
            self.cache.iter().take(4).collect::<Vec<_>>(),
        )
    }

    /// Bytes that were acknowledged and that no leg has: what the loss of RAM takes.
    pub(crate) fn risked_bytes(&self) -> u64 {
        self.cache.risked_bytes(self.roles.alive())
    }

    /// What there is to see of it.
    pub(crate) fn view(&self) -> PairView {
        let roles = &self.roles;
        let journal = self.config.journal.as_ref();
        PairView {
            legs: self.commands.legs(),
            alive: roles.alive(),
            lead: roles.lead(),
            reader: roles.reader(),
            exposed: (roles.exposed().is_some() && !self.journal.is_on())
                || self.survivor.is_exposed(),
            cache_bytes: self.cache.bytes(),
            cache_bytes_max: self.cache.bytes_max(),
            cache_bytes_bound: self.config.cache_bytes,
            coalesced_bytes: self.cache.coalesced_bytes(),
            stale_bytes: [0, 1].map(|leg| self.resync.stale()[leg].bytes()),
            write_bytes_per_s: self.writes.write_bytes_per_s(),
            idle: roles.idle(),
            journal: journal.map(|_| self.journal.view(self.replay.bytes())),
            stats: self.stats(),
        }
    }

    fn stats(&self) -> PairStats {
        let (writes, reads) = (self.writes.stats(), &self.reads);
        PairStats {
            turns: self.roles.turns(),
            early_turns: self.roles.early_turns(),
            accepted_bytes: writes.accepted_bytes,
            written_bytes: writes.written_bytes,
            reads: reads.sent,
            cache_reads: reads.cached,
            mixed_reads: reads.mixed,
            held: writes.held,
            held_ns: writes.held_ns,
            records: self.records.count(),
            resynced_bytes: self.resync.copied_bytes(),
            unreadable_blocks: self.resync.unreadable_blocks(),
            repaired_reads: reads.repaired + self.metas.repaired(),
            failures: self.roles.failures(),
            journal_failures: self.journal.failures(),
        }
    }
}
