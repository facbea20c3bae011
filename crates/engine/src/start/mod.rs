//! What steps begin the life of an engine over drives that hold a pool?
//!
//! Source: design decision 7. Recovery reads and writes nothing until it knows everything, so it can
//! be cut at any moment and begin again:
//!
//! ```text
//! superblocks ─▶ roots ─▶ table of objects ─▶ pages of pointers ─▶ journal ─▶ leaves, which go into the map with what
//! records say over them ─▶ journals mended and every drive flushed (what was read is durable before anything is built
//! on it) ─▶ logs rebuilt ─▶ roots that nobody can read erased, if they may be newer ─▶ superblocks "in use" ─▶ serve
//! ```
//! What roots there are is in `roots`, what the journal says in `journal`, a fresh pool in `birth`.

mod bays;
mod birth;
pub(crate) mod degraded;
mod journal;
mod leaves;
mod reads;
mod roots;
mod superblocks;
mod table;
mod tables;

use self::leaves::LeafReads;
use self::roots::{Roots, Settled};
use self::tables::TableReads;
use crate::StartError;
use crate::format::FormatError;
use crate::format::root::Root;
use crate::format::superblock::Superblock;
use crate::io::{DeviceIo, News, Phase};
use crate::map::journal::Journal;
use crate::map::recovered::{self, Recovered};
use crate::metadata::MetadataHomes;
use crate::migration::Migration;
use crate::mutant::Mutant;
use crate::owner::{Owner, StartIo};
use crate::policy::Policy;
use crate::port::{Command, IoOp};
use crate::replicas::Replicas;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Format,
    Superblocks,
    Roots,
    Table,
    /// Pages of pointers of the tables that lie in pages.
    Tables,
    Journal,
    /// Where the blocks of the map lie.
    Leaves,
    Flush,
    /// Roots that could not be read are erased.
    Erase,
}

/// A write to a journal: where, in bytes, and what.
type RingWrite = (DeviceId, u64, Vec<u8>);

/// Reads in flight during recovery.
pub(crate) const READS_MAX: u64 = 16;

/// An engine's start under way.
#[derive(Clone, Debug)]
pub(crate) struct Starting {
    pub(crate) stage: Stage,
    pub(crate) outstanding: u32,
    pub(crate) failed: Option<StartError>,
    /// Per device, the sounder copy of the superblock; and whether a damaged one was seen.
    pub(crate) superblocks: Vec<(Option<Superblock>, bool)>,
    /// Superblocks of another version.
    other_formats: Vec<(DeviceId, FormatError)>,
    roots: Roots,
    pub(crate) root: Option<(DeviceId, Root)>,
    /// The newest root of the drive that follows.
    pub(crate) metadata_replica_root: Option<Root>,
    /// The newest root of each metadata home.
    pub(crate) root_numbers: Vec<(DeviceId, u64)>,
    pub(crate) recovered: Recovered,
    pub(crate) next: u64,
    /// Checksums of the pages of the object table; and whether one was sound on another metadata home
    /// alone.
    pub(crate) page_checksums: Vec<u32>,
    pub(crate) table_is_mended: bool,
    /// The tables that lie in pages, and the leaves of the one that leads.
    tables: TableReads,
    leaves: LeafReads,
    /// The journal of each metadata home.
    pub(crate) rings: Vec<(DeviceId, Vec<u8>)>,
    /// The last of them is that of the drive that follows.
    pub(crate) witness: Option<DeviceId>,
    pub(crate) journal: Option<Journal>,
    /// What is written to journals that a cut has left behind.
    journals_mended: Vec<RingWrite>,
}

impl Starting {
    fn new(stage: Stage, devices: usize) -> Self {
        Starting {
            stage,
            outstanding: 0,
            failed: None,
            superblocks: vec![(None, false); devices],
            other_formats: Vec::new(),
            roots: Roots::default(),
            root: None,
            metadata_replica_root: None,
            root_numbers: Vec::new(),
            recovered: Recovered::default(),
            next: 0,
            page_checksums: Vec::new(),
            table_is_mended: false,
            tables: TableReads::default(),
            leaves: LeafReads::default(),
            rings: Vec::new(),
            witness: None,
            journal: None,
            journals_mended: Vec::new(),
        }
    }
}

impl Starting {
    /// Number of the newest root that was found.
    fn chosen(&self) -> Option<u64> {
        self.root.as_ref().map(|(_, root)| root.checkpoint)
    }
}

/// The roots were read as far as they can be. `follows`: the drive that follows.
fn choose_root(starting: &mut Starting, follows: Option<DeviceId>, io: &DeviceIo) {
    for (device, root) in starting.roots.end(follows, io) {
        let number = root.checkpoint;
        if follows == Some(device) {
            let own = starting.metadata_replica_root.get_or_insert_with(|| root.clone());
            if number > own.checkpoint {
                *own = root;
            }
            continue;
        }
        starting.root_numbers.push((device, number));
        if starting.chosen().is_none_or(|known| number > known) {
            starting.root = Some((device, root));
        }
    }
}

/// All that this stage has read is known: the next one begins.
fn go_on(starting: &mut Starting, from: Stage, to: Stage) {
    assert!(starting.stage == from, "{to:?} comes behind {from:?}, not {:?}", starting.stage);
    assert!(starting.outstanding == 0 && starting.failed.is_none(), "{from:?} has been read");
    starting.stage = to;
}

/// The start of an engine: what it has found so far, while it is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    found: Option<Box<Starting>>,
    /// A stop came before the pool was served.
    is_cut: bool,
}

impl Start {
    /// It begins with this.
    fn begin(&mut self, starting: Starting) {
        assert!(self.found.is_none(), "an engine starts once");
        self.found = Some(Box::new(starting));
    }

    /// It is over, well or not.
    pub(crate) fn end(&mut self) {
        self.found = None;
    }

    /// Has a stop ended it? Then nobody waits for commands that end later.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn starting(&mut self) -> &mut Starting {
        self.found.as_deref_mut().expect("the engine starts")
    }

    pub(crate) fn recovery_request(
        &mut self,
        device: DeviceId,
        offset_bytes: u64,
        length_bytes: u64,
        tag: u64,
        io: &mut DeviceIo,
    ) {
        self.expect_recovery_read();
        let op = IoOp::ReadMeta { offset_bytes, length_bytes };
        io.submit(device, op, Owner::Start(StartIo::Read(tag)));
    }

    /// A read is under way that the present stage waits for.
    pub(crate) fn expect_recovery_read(&mut self) {
        self.starting().outstanding += 1;
    }

    /// A stop is asked for. One that comes while the pool starts ends the start.
    pub(crate) fn shut_down(&mut self, io: &mut DeviceIo) {
        match io.phase() {
            Phase::Running => io.enter(Phase::Stopping),
            Phase::Stopping => {}
            phase => {
                self.end();
                self.is_cut |= phase != Phase::Stopped;
                io.enter(Phase::Stopped);
                io.send(Command::Stopped);
            }
        }
    }

    /// Fails to start, with a reason.
    pub(crate) fn refuse(&mut self, error: StartError, io: &mut DeviceIo) {
        let error = self.with_unread_root(error);
        self.end();
        io.enter(Phase::Stopped);
        io.send(Command::Started(Err(error)));
    }

    /// Where a root cannot be read, that may be why nothing fits: the older root names what was written over
    /// since.
    fn with_unread_root(&self, error: StartError) -> StartError {
        let starting = self.found.as_deref();
        match (&error, starting.and_then(|found| found.roots.newer_unread(found.chosen()))) {
            (
                StartError::RolledBack { .. }
                | StartError::JournalGap { .. }
                | StartError::JournalDamaged { .. }
                | StartError::Corrupt(_),
                Some((DeviceId(device), why)),
            ) => {
                let (device, why) = (usize::from(device), why.to_owned());
                StartError::RootUnreadable { device, why, found: error.to_string() }
            }
            _ => error,
        }
    }

    /// What becomes of roots that cannot be read, before this life writes over what they name.
    fn settle_roots(&mut self, metadata: &MetadataHomes, io: &DeviceIo) -> Settled {
        if metadata.is_degraded() || io.breaks(Mutant::UnreadRootComesBack) {
            return Settled::default(); // a pool that is degraded is not written to
        }
        let starting = self.starting();
        let chosen = starting.chosen().expect("found before");
        let mut level = metadata.sound_homes(io);
        level.retain(|&home| starting.root_numbers.contains(&(home, chosen)));
        starting.roots.settle(chosen, &level)
    }

    /// Which roots of the replica nobody knows: those of a drive that lags were not read. It lags with any: once
    /// they are erased no start would doubt what is left.
    fn unknown_replica_roots(&mut self, store: &mut Store, io: &DeviceIo) -> [bool; 2] {
        let Some(home) = store.metadata_replica.home() else { return [false; 2] };
        if store.metadata.contains(home) {
            return [true; 2];
        }
        let starting = self.starting();
        let own = starting.metadata_replica_root.as_ref().map(|root| root.checkpoint);
        // what a root names that cannot be followed may be written over
        let is_unread = starting.tables.replica_is_unread();
        let unknown = if is_unread { [true; 2] } else { starting.roots.unknown_of_replica(own) };
        if unknown != [false; 2] {
            store.metadata.note_lagging(home, io);
        }
        unknown
    }

    /// Roots are erased, each so that it stays so.
    fn erase_roots(&mut self, roots: &[(DeviceId, u64)], io: &mut DeviceIo) {
        assert!(self.starting().outstanding == 0, "all was read");
        self.starting().stage = Stage::Erase;
        for &(device, copy) in roots {
            let layout = &io[device].layout;
            let offset_bytes = layout.root_offset + copy * layout.root_bytes;
            let bytes = vec![0; BLOCK_BYTES as usize];
            let op = IoOp::WriteMeta { offset_bytes, bytes, fua: true };
            self.starting().outstanding += 1;
            io.submit(device, op, Owner::Start(StartIo::Write));
        }
    }

    /// A pool that is served read-only from the metadata replica, of which the newest root may not be known, is
    /// refused. Its journal may have gaps, so it cannot tell whether the older root goes with it. That of an
    /// SSD can.
    fn refuses_doubtful_root(&mut self, metadata: &MetadataHomes, io: &mut DeviceIo) -> bool {
        let replica = io.config().metadata_replica_device();
        let is_served = metadata.degraded().is_some() && metadata.degraded() == replica;
        let starting = self.starting();
        let is_doubtful = is_served && starting.roots.is_doubtful(starting.chosen());
        if is_doubtful {
            let text = "the root that can be read may be an older one";
            self.refuse(StartError::Corrupt(text.into()), io);
        }
        is_doubtful
    }

    pub(crate) fn fail_start(&mut self, error: StartError) {
        self.starting().failed.get_or_insert(error);
    }

    /// What cannot be read may stand a second time: in the other copy, or on the other metadata
    /// home. What is then missing altogether is found out where it is wanted.
    fn recovery_read_failed(
        &mut self,
        device: DeviceId,
        stage: Stage,
        tag: u64,
        error: IoError,
        metadata: &MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let homes = metadata.sound_homes(io).len();
        match stage {
            Stage::Superblocks => self.starting().superblocks[usize::from(device.0)].1 = true,
            Stage::Roots => {
                let starting = self.starting();
                starting.outstanding += starting.roots.part_failed(tag, error, io);
            }
            Stage::Table => {
                self.table_page_unreadable(device, tag, &error.to_string(), metadata, io)
            }
            // a ring with a hole: units in it are taken from the other home
            Stage::Journal if homes > 1 || self.starting().witness == Some(device) => {}
            Stage::Tables | Stage::Leaves => unreachable!("they take what was not read, too"),
            Stage::Journal | Stage::Format | Stage::Flush | Stage::Erase => {
                self.fail_start(StartError::Device(error));
            }
        }
    }

    /// The metadata home that is asked after this one.
    pub(crate) fn next_home(
        &self,
        device: DeviceId,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> DeviceId {
        let homes = metadata.sound_homes(io);
        let at = homes.iter().position(|&d| d == device).expect("asked of a metadata home");
        homes[(at + 1) % homes.len()]
    }

    pub(crate) fn on_start(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        assert!(io.phase() == Phase::Created, "an engine starts once");
        let devices = io.drives().len();
        if io.is_fixed() {
            self.serve(store, volumes, policy, replicas, io);
        } else if io.config().format {
            io.enter(Phase::Starting);
            self.begin(Starting::new(Stage::Format, devices));
            self.format_metadata(store, volumes, io);
        } else {
            io.enter(Phase::Starting);
            self.begin(Starting::new(Stage::Superblocks, devices));
            if !io.config().absent.is_empty()
                && let Err(error) = self.begin_degraded(&mut store.metadata, io)
            {
                self.refuse(error, io);
                return;
            }
            replicas.replacement.open_successor(self, io);
            for id in io.drives().ids() {
                if io[id].is_faulted() {
                    continue;
                }
                let capacity = io[id].config.capacity_bytes / BLOCK_BYTES * BLOCK_BYTES;
                for (copy, offset) in [(0, 0), (1, capacity - BLOCK_BYTES)] {
                    self.recovery_request(id, offset, BLOCK_BYTES, copy, io);
                }
            }
        }
    }

    pub(crate) fn install(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        let unknown = self.unknown_replica_roots(store, io);
        let Settled { erased, lags } = self.settle_roots(&store.metadata, io);
        let starting = self.starting();
        starting.recovered = Recovered::default();
        let mended = starting.leaves.mended();
        let table_is_mended = starting.table_is_mended;
        let is_read = !starting.tables.replica_is_unread();
        let own = starting.metadata_replica_root.take().filter(|_| is_read);
        let (_, root) = starting.root.take().expect("found before");
        let numbers = std::mem::take(&mut starting.root_numbers);
        store.journal = starting.journal.take().expect("replayed before");
        store.checkpoint.recovered(&root);
        let own = own.as_ref();
        let table = store.checksums.table();
        store.metadata_replica.recovered(own, unknown, &root, table, &store.journal, io.now());
        if let Err(text) = volumes.objects.end_replay() {
            self.refuse(StartError::Corrupt(text), io);
            return;
        }
        let strays = recovered::strays(&store.map, &volumes.objects.ranges());
        migration.evacuation.go_on_draining(&store.metadata, &mut store.map, &volumes.objects, io);
        if let Err(text) = migration.evacuation.look_at_gone(&store.map, &mut volumes.objects, io) {
            self.refuse(StartError::Corrupt(text), io);
            return;
        }
        if !store.metadata.is_degraded() {
            volumes.object_changes.retire_strays(
                &strays,
                &mut store.map,
                &mut volumes.objects,
                &mut store.commit,
                &mut policy.tiers,
                io,
            );
            migration.evacuation.go_on_evacuating(&mut volumes.objects, io);
        }
        mended.into_iter().for_each(|group| store.map.mark_group_dirty(group));
        let is_current =
            |d: &DeviceId| numbers.contains(&(*d, root.checkpoint)) && !lags.contains(d);
        if table_is_mended || store.journal.next_sequence() > root.replay_sequence {
            volumes.objects.note_unsaved();
        }
        for home in store.metadata.sound_homes(io) {
            if !is_current(&home) {
                // a home without the newest root may lack pages, too
                store.metadata.note_lagging(home, io);
            }
        }
        migration.moves.recover_logs(&store.map, io);
        let (map, checksums) = (&mut store.map, &mut store.checksums);
        let (objects, metadata) = (&mut volumes.objects, &mut store.metadata);
        store.checkpoint.begin_levelling(map, checksums, objects, metadata, io);
        self.begin_to_serve(&erased, store, volumes, replicas, io);
    }

    /// All is known. A pool that is refused here stays as it was.
    fn begin_to_serve(
        &mut self,
        erased: &[(DeviceId, u64)],
        store: &mut Store,
        volumes: &mut Volumes,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        if store.metadata.is_degraded() {
            self.serve_degraded(store, volumes, replicas, io);
        } else if let Err(error) = self.admit_volumes(&mut volumes.objects, io) {
            self.refuse(error, io);
        } else if erased.is_empty() {
            store.metadata.ask_for_superblocks(false, io);
        } else {
            self.erase_roots(erased, io);
        }
    }

    /// What was read may still be in a drive's buffer. Before anything is built on it, it is
    /// durable: otherwise a second power cut could take back a record whose freed places have been
    /// written over.
    pub(crate) fn flush_all(&mut self, io: &mut DeviceIo) {
        assert!(self.starting().journal.is_some(), "it was replayed");
        go_on(self.starting(), Stage::Leaves, Stage::Flush);
        // what a cut has left on the metadata homes is settled, when all is known
        for (device, offset_bytes, bytes) in std::mem::take(&mut self.starting().journals_mended) {
            let op = IoOp::WriteMeta { offset_bytes, bytes, fua: true };
            self.starting().outstanding += 1;
            io.submit(device, op, Owner::Start(StartIo::Write));
        }
        let skips = io.breaks(Mutant::RecoveryWithoutFlush);
        for id in io.drives().ids() {
            if !skips && !io[id].is_faulted() {
                self.starting().outstanding += 1;
                io.submit(id, IoOp::Flush, Owner::Start(StartIo::Write));
            }
        }
        if self.starting().outstanding == 0 {
            io.tell(News::StartWritesOver);
        }
    }
}
