//! What a start reads, in order: roots, objects, the map, journal.

use super::leaves::{Into, PageEnded};
use super::{READS_MAX, Stage, Start, choose_root, go_on};
use crate::StartError;
use crate::format::layout::{self, Layout};
use crate::format::superblock::{Standing, Superblock};
use crate::format::{pointer, record};
use crate::io::{DeviceIo, News};
use crate::metadata::MetadataHomes;
use crate::migration::Migration;
use crate::owner::Ended;
use crate::policy::Policy;
use crate::replicas::Replicas;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

/// A drive whose superblock, which a stranger may have written, names less room for the map than the one that all
/// of them make needs. `needed`: in pages.
fn has_short_area(layouts: &[Layout], needed: u64, io: &DeviceIo) -> Option<DeviceId> {
    let is_short = |&(index, layout): &(usize, &Layout)| {
        let is_gone = matches!(io[DeviceId(index as u8)].standing, Standing::Gone(_));
        !is_gone && io.config().keeps_map(index) && layout.area_pages < needed
    };
    let found = layouts.iter().enumerate().find(is_short);
    found.map(|(index, _)| DeviceId(index as u8))
}

/// Pages that the map of such a set needs at least.
fn area_needed(layouts: &[Layout], io: &DeviceIo) -> u64 {
    let slots = layouts.iter().map(|layout| layout.slot_count).sum();
    let blocks = layout::logical_blocks(layouts, io.config());
    pointer::area_pages_least(pointer::groups_of(blocks), slots)
}

/// The first hard drive whose slots are no log.
fn has_no_log(layouts: &[Layout], io: &DeviceIo) -> Option<DeviceId> {
    let segment = io.config().log_segment_bytes / BLOCK_BYTES;
    let is_none = |slots: u64| slots > 0 && (slots < 2 * segment || !slots.is_multiple_of(segment));
    let mut hdds = io.hdds().iter().copied();
    hdds.find(|id| is_none(layouts[usize::from(id.0)].slot_count))
}

impl Start {
    fn read_roots(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &Migration,
        policy: &Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        let superblocks = match self.check_superblocks(
            &mut replicas.replacement,
            &mut store.metadata,
            &migration.evacuation,
            io,
        ) {
            Ok(superblocks) => superblocks,
            Err(error) => {
                self.refuse(error, io);
                return;
            }
        };
        if let Err(error) = self.choose_sound_home(&mut store.metadata, io) {
            self.refuse(error, io);
            return;
        }
        let first = &superblocks[0].1;
        io.config_mut().pool = first.pool;
        io.config_mut().name.clone_from(&first.name);
        for (device, member) in io.drives_mut().iter_mut().zip(&first.members) {
            device.config.uuid = member.uuid;
            device.config.capacity_bytes = member.capacity_bytes;
        }
        for (index, superblock) in &superblocks {
            // who has just taken a place is not known to all others yet
            let own = superblock.members[*index];
            let config = &mut io[DeviceId(*index as u8)].config;
            (config.uuid, config.capacity_bytes) = (own.uuid, own.capacity_bytes);
        }
        let layouts = match self.layouts_found(&superblocks, &store.metadata, io) {
            Ok(layouts) => layouts,
            Err(error) => {
                self.refuse(error, io);
                return;
            }
        };
        // areas lie on drives that are there, so they bound what takes memory
        let needed = area_needed(&layouts, io);
        if let Some(short) = has_short_area(&layouts, needed, io) {
            let why = format!("device {}: its area for the map is too small for the set", short.0);
            self.refuse(StartError::Corrupt(why), io);
            return;
        }
        store.lay_out(&layouts, volumes, policy, io);
        replicas.replacement.plan_replacement(&store.metadata, io);
        go_on(self.starting(), Stage::Superblocks, Stage::Roots);
        let metadata_replica =
            store.metadata_replica.home().filter(|&home| !store.metadata.contains(home));
        for device in store.metadata.sound_homes(io).into_iter().chain(metadata_replica) {
            let starting = self.starting();
            starting.outstanding += starting.roots.ask(device, io);
        }
    }

    /// What the superblocks say lies where, and what is planned of drives that have none.
    fn layouts_found(
        &self,
        superblocks: &[(usize, Superblock)],
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<Vec<Layout>, StartError> {
        let table_bytes = superblocks.iter().map(|(_, s)| s.layout.table_bytes).max().unwrap_or(0);
        let area_pages = superblocks.iter().map(|(_, s)| s.layout.area_pages).max().unwrap_or(0);
        let like = Layout { table_bytes, area_pages, ..superblocks[0].1.layout };
        let mut layouts = self.layouts_of_absent(&like, metadata, io)?;
        for (index, superblock) in superblocks {
            layouts[*index] = superblock.layout;
        }
        for (layout, device) in layouts.iter_mut().zip(io.drives()) {
            if let Standing::Gone(numbered) = device.standing {
                *layout = numbered.layout();
            }
        }
        if !layout::can_be_numbered(&layouts) {
            let why = "the superblocks name more space than a set can hold";
            return Err(StartError::Corrupt(why.into()));
        }
        if let Some(DeviceId(device)) = has_no_log(&layouts, io) {
            let why = format!("device {device}: its log is not of whole segments, two at least");
            return Err(StartError::Corrupt(why));
        }
        Ok(layouts)
    }

    pub(crate) fn recovery_read(
        &mut self,
        tag: u64,
        ended: Ended<'_>,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, bytes, .. } = ended;
        let stage = self.starting().stage;
        if let Err(error) = status {
            match stage {
                Stage::Tables => {
                    self.pointers_read((device, tag), Err(error.to_string()), store, io)
                }
                Stage::Leaves => self.leaf_read((device, tag), Err(error), store, io),
                _ => self.recovery_read_failed(device, stage, tag, error, &store.metadata, io),
            }
        } else {
            match stage {
                Stage::Superblocks => self.take_superblock(device, bytes),
                Stage::Roots => self.starting().roots.take_part(tag, bytes),
                Stage::Table => self.take_table_page(
                    device,
                    tag,
                    bytes,
                    &store.metadata,
                    &mut volumes.objects,
                    io,
                ),
                Stage::Leaves => self.leaf_read((device, tag), Ok(bytes), store, io),
                Stage::Tables => self.pointers_read((device, tag), Ok(bytes), store, io),
                Stage::Journal => {
                    let at = tag as usize;
                    let rings = &mut self.starting().rings;
                    let (_, ring) = rings.iter_mut().find(|r| r.0 == device).expect("asked for");
                    ring[at..at + bytes.len()].copy_from_slice(bytes);
                }
                Stage::Format | Stage::Flush | Stage::Erase => unreachable!("nothing is read then"),
            }
        }
        io.tell(News::StartReadOver);
    }

    /// Objects were read: the tables in pages are next.
    pub(super) fn begin_tables(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        let starting = self.starting();
        go_on(starting, Stage::Table, Stage::Tables);
        let (_, root) = starting.root.as_ref().expect("found before");
        match starting.tables.begin(&root.map, store) {
            Ok(()) => self.read_tables(store, volumes, io),
            Err(error) => self.refuse(StartError::Corrupt(error), io),
        }
    }

    fn read_tables(&mut self, store: &mut Store, volumes: &mut Volumes, io: &mut DeviceIo) {
        let starting = self.starting();
        let leader = starting.root.as_ref().expect("found before").0;
        let replica = starting.metadata_replica_root.as_ref().map(|root| &root.map);
        let outstanding = (&mut starting.outstanding, READS_MAX as u32);
        match starting.tables.advance(leader, replica, outstanding, store, io) {
            Ok(false) => {}
            Ok(true) => {
                self.begin_journal(store, volumes, io);
            }
            Err(error) => self.refuse(StartError::Corrupt(error), io),
        }
    }

    /// Asks for leaves, which go into the map. What was read is flushed when all are there.
    pub(super) fn read_leaves(&mut self, store: &mut Store, io: &mut DeviceIo) {
        let leader = self.leader();
        let other = self.home_behind(leader, store, io);
        let starting = self.starting();
        let first = other.filter(|_| starting.leaves.is_silent(leader)).unwrap_or(leader);
        let outstanding = (&mut starting.outstanding, READS_MAX as u32);
        let mut into = Into::of(&starting.recovered, store);
        match starting.leaves.advance(first, outstanding, &mut into, io) {
            Ok(true) => self.flush_all(io),
            Ok(false) => {}
            Err(error) => self.refuse(StartError::Corrupt(error), io),
        }
    }

    /// The home whose root leads.
    fn leader(&self) -> DeviceId {
        let root = self.found.as_ref().and_then(|starting| starting.root.as_ref());
        root.expect("found before").0
    }

    /// The home that is asked behind this one, unless all were.
    fn home_behind(&self, device: DeviceId, store: &Store, io: &DeviceIo) -> Option<DeviceId> {
        let homes = store.metadata.sound_homes(io);
        let first = self.leader();
        let at = homes.iter().position(|&home| home == device)?;
        Some(homes[(at + 1) % homes.len()]).filter(|&next| next != first)
    }

    /// A leaf was read, or not. It may be sound on another home.
    fn leaf_read(
        &mut self,
        (device, tag): (DeviceId, u64),
        read: Result<&[u8], IoError>,
        store: &mut Store,
        io: &mut DeviceIo,
    ) {
        let homes = store.metadata.sound_homes(io);
        let starting = self.starting();
        let ended = PageEnded { device, tag, read, homes: &homes };
        let mut into = Into::of(&starting.recovered, store);
        match starting.leaves.read_done(ended, &mut into, io) {
            Ok(is_asked) => starting.outstanding += u32::from(is_asked),
            Err(error) => {
                starting.failed.get_or_insert(StartError::Corrupt(error));
            }
        }
    }

    /// A page of pointers was read, or not. It may be sound on another home.
    fn pointers_read(
        &mut self,
        (device, tag): (DeviceId, u64),
        read: Result<&[u8], String>,
        store: &mut Store,
        io: &mut DeviceIo,
    ) {
        let next = self.home_behind(device, store, io);
        let starting = self.starting();
        match starting.tables.read_done((device, tag), read, next, store, io) {
            Ok(is_asked) => starting.outstanding += u32::from(is_asked),
            Err(error) => {
                starting.failed.get_or_insert(StartError::Corrupt(error));
            }
        }
    }

    /// Objects are in the root, or in a table that it names.
    fn begin_objects(&mut self, store: &mut Store, volumes: &mut Volumes, io: &mut DeviceIo) {
        let Some((_, root)) = &self.starting().root else {
            self.refuse(
                StartError::Corrupt(
                    "no checkpoint root can be read: the metadata of this pool is damaged".into(),
                ),
                io,
            );
            return;
        };
        let objects = root.objects.clone();
        let records = match record::decode(&objects) {
            Ok(records) => records,
            Err(error) => {
                self.refuse(StartError::Corrupt(format!("the checkpoint root: {error}")), io);
                return;
            }
        };
        for found in &records {
            volumes.objects.replay_record(found);
        }
        self.begin_table(store, volumes, io);
    }

    /// One of the reads that the present stage waits for has been seen to.
    pub(crate) fn recovery_read_over(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        migration: &Migration,
        policy: &Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        let starting = self.starting();
        assert!(starting.outstanding > 0, "a read of a start is seen to once");
        starting.outstanding -= 1;
        let (stage, outstanding) = (starting.stage, starting.outstanding);
        if let Some(error) = starting.failed.take_if(|_| outstanding == 0) {
            self.refuse(error, io);
            return;
        }
        if starting.failed.is_some() {
            return;
        }
        match stage {
            Stage::Table => self.read_table(store, volumes, io),
            Stage::Leaves => self.read_leaves(store, io),
            Stage::Tables => self.read_tables(store, volumes, io),
            Stage::Journal => self.read_journal(store, volumes, io),
            _ if outstanding > 0 => {}
            Stage::Superblocks => self.read_roots(store, volumes, migration, policy, replicas, io),
            Stage::Roots => {
                let follows = store.metadata_replica.home();
                let follows = follows.filter(|_| !store.metadata.is_degraded());
                choose_root(self.starting(), follows, io);
                self.begin_objects(store, volumes, io);
            }
            Stage::Format | Stage::Flush | Stage::Erase => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;

    /// Room for 18 pages, and who has less of it.
    #[test]
    fn areas_hold_what_the_set_needs() {
        let mut io = drives(2, 1);
        let ssd = |area_pages| Layout { area_pages, ..Layout::default() };
        let hdd = Layout { home_blocks: 1, ..ssd(0) };
        let gone = Standing::Gone(crate::format::superblock::Numbered::of(&Layout::default()));
        for (layouts, want) in [
            ([ssd(18), ssd(19), hdd], None),
            ([ssd(18), ssd(17), hdd], Some(DeviceId(1))),
            ([ssd(0), ssd(18), hdd], Some(DeviceId(0))),
        ] {
            assert_eq!(has_short_area(&layouts, 18, &io), want, "{layouts:?}");
        }
        io[DeviceId(1)].standing = gone;
        assert_eq!(has_short_area(&[ssd(18), ssd(0), hdd], 18, &io), None, "it is gone");
        // one that is gone has as many slots as it says, and the others have no room for so many
        let beyond = Layout { slot_count: 1 << 34, ..ssd(0) };
        let needed = area_needed(&[ssd(18), beyond, hdd], &io);
        let short = has_short_area(&[ssd(18), beyond, hdd], needed, &io);
        // a page for each 300 slots, and a 16th
        let pages: u64 = (1 << 34) / 300;
        assert!((pages * 17 / 16..pages * 18 / 16).contains(&needed), "{needed} of {pages}");
        assert_eq!(short, Some(DeviceId(0)));
    }

    #[test]
    fn a_log_has_whole_segments() {
        let io = drives(1, 2);
        let segment = io.config().log_segment_bytes / BLOCK_BYTES;
        for (slots, is_log) in [
            (0, true),
            (1, false),
            (segment, false),
            (2 * segment, true),
            (2 * segment + 1, false),
            (9 * segment, true),
        ] {
            let log = Layout { slot_count: slots, ..Layout::default() };
            let found = has_no_log(&[Layout::default(), Layout::default(), log], &io);
            assert_eq!(found.is_none(), is_log, "{slots} slots: {found:?}");
        }
    }
}
