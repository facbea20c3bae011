//! Which units of the journal hold, and what do they say?
//!
//! Source: design decision 7. Every unit behind the checkpoint is applied, absolutely; the first one
//! that cannot be read is a torn tail, unless something proves that it once was durable.

use crate::StartError;
use crate::format::record::{self, FLAG_CHECKSUMS, FLAG_HOME, FLAG_LOG_VOLATILE, Record};
use crate::format::unit::{self, Unit};
use crate::io::DeviceIo;
use crate::map::checksums::BlockChecksums;
use crate::map::journal::Journal;
use crate::map::objects::BlockRange;
use crate::map::objects::Objects;
use crate::map::recovered::Recovered;
use crate::map::{Map, NONE, Slot};
use crate::metadata::MetadataHomes;
use crate::metadata_replica::MetadataReplica;
use crate::mutant::Mutant;
use crate::start::{READS_MAX, RingWrite, Stage, Start, go_on};
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, MIB, SECTORS_PER_BLOCK};

/// What the records of the journal change.
struct Tables<'a> {
    map: &'a Map,
    objects: &'a mut Objects,
    checksums: &'a mut BlockChecksums,
    recovered: &'a mut Recovered,
}

impl Tables<'_> {
    fn apply_units(
        &mut self,
        ring: &[u8],
        units: &[UnitPiece],
        first: u64,
        io: &DeviceIo,
    ) -> Result<(), StartError> {
        for (number, piece) in (first..).zip(units) {
            self.apply_unit(ring, piece, number, io)?;
        }
        self.recovered.end_records();
        Ok(())
    }

    fn apply_unit(
        &mut self,
        ring: &[u8],
        piece: &UnitPiece,
        sequence: u64,
        io: &DeviceIo,
    ) -> Result<(), StartError> {
        let corrupt = |text| Err(StartError::Corrupt(text));
        let unit = match Unit::decode(&ring[piece.start..], io.config().pool) {
            Ok(unit) => unit,
            Err(error) => return corrupt(format!("journal unit {sequence}: {error}")),
        };
        let records = match record::decode(&unit.body) {
            Ok(records) => records,
            Err(error) => return corrupt(format!("journal unit {sequence}: {error}")),
        };
        if records.iter().all(|found| self.apply(found)) {
            return Ok(());
        }
        corrupt(format!("journal unit {sequence} names places that do not exist"))
    }

    fn apply(&mut self, found: &Record) -> bool {
        let blocks = self.map.leaves().block_count() as u64;
        let slots = self.map.slots();
        let fits = |first: u64, count: usize| first == NONE || slots.have(first, count as u64);
        // a pool without hard drives has no homes
        let has_home = |flags: u8| flags & FLAG_HOME == 0 || self.checksums.homes() > 0;
        match found {
            Record::Run(run) => {
                let count = run.checksums.len();
                if !has_home(run.flags)
                    || run.logical + count as u64 > blocks
                    || !fits(run.ssd, count)
                    || !fits(run.log, count)
                {
                    return false;
                }
                let home = run.flags & FLAG_HOME != 0;
                // without it the version is one that was recorded before
                if run.flags & FLAG_CHECKSUMS != 0 {
                    for (block, &checksum) in (run.logical..).zip(&run.checksums) {
                        self.checksums.set(block, checksum);
                    }
                }
                let range = BlockRange { first: run.logical, count: count as u64 };
                let slot = believed(run.flags, run.ssd, run.log);
                self.recovered.replace(range, home, slot);
            }
            Record::Fragmented(f) => {
                let sound = has_home(f.flags)
                    && f.logical < blocks
                    && fits(f.ssd, 1)
                    && fits(f.log, 1)
                    && f.fragments.iter().all(|g| slots.have(g.slot, 1));
                if !sound {
                    return false;
                }
                let fragments = (0..).zip(&f.fragments);
                let fragments = fragments.map(|(order, g)| (order, g.slot, g.mask, g.checksum));
                if f.flags & FLAG_CHECKSUMS != 0 {
                    self.checksums.set(f.logical, f.checksum);
                }
                let base = believed(f.flags, f.ssd, f.log);
                let home = f.flags & FLAG_HOME != 0;
                self.recovered.replace_fragmented(f.logical, home, base, fragments.collect());
            }
            Record::Object(_)
            | Record::ObjectGone(_)
            | Record::Thin(_)
            | Record::Piece(..)
            | Record::SharedPiece(..)
            | Record::Homes(..)
            | Record::Attribute(_) => return self.objects.replay_record(found),
        }
        true
    }
}

impl Start {
    /// The drive that follows has only units that were durable before. It cannot say what the newest unit
    /// is, but if it has one that no home of the metadata has, those were rolled back.
    fn witness(
        &self,
        ring_bytes: u64,
        metadata: &MetadataHomes,
        metadata_replica: &MetadataReplica,
        io: &DeviceIo,
    ) -> Option<DeviceId> {
        let home = metadata_replica.home().filter(|&home| !metadata.contains(home))?;
        let d = &io[home];
        let is_asked = !metadata.is_degraded() && !d.is_faulted();
        (is_asked && d.layout.journal_bytes == ring_bytes).then_some(home)
    }

    fn journal_layout_bytes(&self, metadata: &MetadataHomes, io: &DeviceIo) -> u64 {
        io[metadata.first_metadata_home(io)].layout.journal_bytes
    }

    /// Applies every unit behind the checkpoint, then makes sure that the first unreadable one is a
    /// torn tail and not damage.
    fn replay_journal(&mut self, store: &mut Store, volumes: &mut Volumes, io: &mut DeviceIo) {
        let pool = io.config().pool;
        let starting = self.starting();
        let mut rings = std::mem::take(&mut starting.rings);
        let mut recovered = std::mem::take(&mut starting.recovered);
        let witness = starting.witness.and_then(|_| rings.pop());
        let followed = starting.metadata_replica_root.as_ref().map_or(0, |root| root.replay_upto);
        let root = &starting.root.as_ref().expect("found before").1;
        let (first, start, upto) = (root.replay_sequence, root.replay_offset, root.replay_upto);
        let ring_bytes = rings[0].1.len();
        if start as usize >= ring_bytes {
            let text = "the checkpoint root points beyond the journal";
            return self.refuse(StartError::Corrupt(text.into()), io);
        }
        let chains: Vec<Vec<UnitPiece>> =
            rings.iter().map(|(_, ring)| chain(ring, pool, first, start as usize)).collect();
        let best = (0..chains.len()).max_by_key(|&i| (chains[i].len(), chains.len() - i));
        let best = best.expect("there is a metadata home");
        let (ring, pieces) = (&rings[best].1, &chains[best]);
        let next = first + pieces.len() as u64;
        if let Some((witness, ring)) = witness
            && let later = later_unit(&ring, pool, next - 1).max(Some(followed)).unwrap_or(0)
            && later >= next
            && !io.breaks(Mutant::BelievesRolledBack)
        {
            let (device, witness) = (store.metadata.first_metadata_home(io), witness);
            let (device, witness) = (usize::from(device.0), usize::from(witness.0));
            self.refuse(StartError::RolledBack { device, newest: next - 1, witness, later }, io);
            return;
        }
        let later = match store.metadata.degraded() {
            // the metadata replica may have been cut off while it caught up: behind a gap lie units that
            // its next root would have named
            Some(home) if io.config().metadata_replica_device() == Some(home) => None,
            _ => rings.iter().find_map(|(_, ring)| later_unit(ring, pool, next)),
        };
        if let Some(later) = later.or((next <= upto).then_some(upto)) {
            self.refuse(StartError::JournalGap { missing: next, later }, io);
            return;
        }
        // acknowledged means written on every metadata home: one that never had it settles the matter
        let mut ends = rings.iter().zip(&chains).filter(|(_, chain)| chain.len() == pieces.len());
        let is_damaged = ends.all(|((_, ring), chain)| {
            let at = chain.last().map_or(start as usize, |piece| piece.end % ring_bytes);
            unit::is_damaged(&ring[at..], pool, next) || unit::is_damaged(ring, pool, next)
        });
        if !store.metadata.is_degraded() && is_damaged {
            self.refuse(StartError::JournalDamaged { unit: next }, io);
            return;
        }
        let mut units = pieces.as_slice();
        if io.breaks(Mutant::ReplayWithoutLast) {
            units = &units[..units.len().saturating_sub(1)];
        }
        let mut tables = Tables {
            map: &store.map,
            objects: &mut volumes.objects,
            checksums: &mut store.checksums,
            recovered: &mut recovered,
        };
        if let Err(error) = tables.apply_units(ring, units, first, io) {
            return self.refuse(error, io);
        }
        let end = pieces.last().map_or(start as usize, |piece| piece.end % ring_bytes);
        let journal =
            Journal::recovered(ring_bytes as u64, start, end as u64, next, !pieces.is_empty());
        let starting = self.starting();
        (starting.journal, starting.recovered) = (Some(journal), recovered);
        if !store.metadata.is_degraded() {
            starting.journals_mended = units_missed(&rings, best, pieces, io);
            starting.journals_mended.extend(torn_blocks(&rings, end, next, io));
        }
        go_on(starting, Stage::Journal, Stage::Leaves);
        self.read_leaves(store, io);
    }

    pub(crate) fn read_journal(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        loop {
            let starting = self.starting();
            let ring_bytes = starting.rings[0].1.len() as u64;
            if starting.next >= ring_bytes * starting.rings.len() as u64 {
                if starting.outstanding > 0 {
                    return;
                }
                if !self.refuses_doubtful_root(&store.metadata, io) {
                    self.replay_journal(store, volumes, io);
                }
                return;
            }
            if u64::from(starting.outstanding) >= READS_MAX {
                return;
            }
            let at = starting.next % ring_bytes;
            let device = starting.rings[(starting.next / ring_bytes) as usize].0;
            let length = (ring_bytes - at).min(MIB);
            starting.next += length;
            let offset = io[device].layout.journal_offset + at;
            self.recovery_request(device, offset, length, at, io);
        }
    }
}

/// A cut may have left the last units on some metadata homes and not on others. What was
/// replayed is built upon, so every home gets it, whichever is asked after the next cut.
fn units_missed(
    rings: &[(DeviceId, Vec<u8>)],
    best: usize,
    pieces: &[UnitPiece],
    io: &DeviceIo,
) -> Vec<RingWrite> {
    let good = &rings[best].1;
    let mut writes = Vec::new();
    for (device, ring) in rings {
        assert_eq!(ring.len(), good.len(), "the rings of all homes are equally long");
        let offset = io[*device].layout.journal_offset;
        for piece in pieces {
            let bytes = &good[piece.start..piece.end];
            if ring[piece.start..piece.end] != *bytes {
                writes.push((*device, offset + piece.start as u64, bytes.to_vec()));
            }
        }
    }
    writes
}

/// What a cut left of the unit that comes next goes: another one will have its number, and if that
/// one is cut, too, sectors of both would look like one that was written to its end.
fn torn_blocks(
    rings: &[(DeviceId, Vec<u8>)],
    end: usize,
    next: u64,
    io: &DeviceIo,
) -> Vec<RingWrite> {
    let mut writes = Vec::new();
    for (device, ring) in rings {
        let begins = if end == 0 { &[0][..] } else { &[0, end][..] };
        let torn = begins.iter().flat_map(|&begin| {
            let blocks = unit::blocks_of(&ring[begin..], io.config().pool, next);
            blocks.into_iter().map(move |at| begin + at)
        });
        let offset = io[*device].layout.journal_offset;
        for at in torn.collect::<std::collections::BTreeSet<usize>>() {
            writes.push((*device, offset + at as u64, vec![0; BLOCK_BYTES as usize]));
        }
    }
    writes
}

/// The slot that holds. The log place of a tail was never known to be durable: the copy on the SSD is the truth. Of two
/// durable places the log's is the primary one, and the other one a cache's.
fn believed(flags: u8, ssd: Slot, log: Slot) -> Slot {
    if log != NONE && flags & FLAG_LOG_VOLATILE == 0 { log } else { ssd }
}

/// Where one unit lies in a ring: its first byte, and the one behind its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitPiece {
    start: usize,
    end: usize,
}

/// The units of a ring from number `sequence` on, as far as they can be read.
fn chain(ring: &[u8], pool: u128, mut sequence: u64, mut at: usize) -> Vec<UnitPiece> {
    let mut pieces = Vec::new();
    loop {
        let read = |from: usize| {
            let unit = Unit::decode(ring.get(from..)?, pool).ok()?;
            let end = from + unit::disk_bytes(unit.body.len());
            (unit.sequence == sequence && end <= ring.len())
                .then_some(UnitPiece { start: from, end })
        };
        let Some(piece) = read(at).or_else(|| read(0)) else { return pieces };
        at = if piece.end == ring.len() { 0 } else { piece.end };
        pieces.push(piece);
        sequence += 1;
    }
}

/// A readable unit with a number above `missing`, anywhere in the ring.
fn later_unit(ring: &[u8], pool: u128, missing: u64) -> Option<u64> {
    let step = (SECTORS_PER_BLOCK * 512) as usize;
    (0..ring.len()).step_by(step).find_map(|at| {
        let unit = Unit::decode(&ring[at..], pool).ok()?;
        (unit.sequence > missing).then_some(unit.sequence)
    })
}

impl Start {
    pub(crate) fn begin_journal(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        let bytes = self.journal_layout_bytes(&store.metadata, io);
        let homes = store.metadata.sound_homes(io);
        if homes.iter().any(|d| io[*d].layout.journal_bytes != bytes) {
            self.refuse(
                StartError::Corrupt("the superblocks disagree on the length of the journal".into()),
                io,
            );
            return;
        }
        let starting = self.starting();
        go_on(starting, Stage::Tables, Stage::Journal);
        starting.next = 0;
        starting.rings = homes.into_iter().map(|d| (d, vec![0; bytes as usize])).collect();
        if let Some(witness) = self.witness(bytes, &store.metadata, &store.metadata_replica, io) {
            let starting = self.starting();
            starting.witness = Some(witness);
            starting.rings.push((witness, vec![0; bytes as usize]));
        }
        self.read_journal(store, volumes, io);
    }
}
