//! How does a start read the pages of pointers of a table, from the root down?
//!
//! Those of the checkpoint that leads are asked of each home of the metadata in turn: they lie at the same pages
//! there. Those of the drive that follows are asked of it alone. If they cannot be read it follows from the
//! beginning, and its roots are erased first.

use crate::format::pointer::{PAGE_BYTES, TableRoot};
use crate::io::DeviceIo;
use crate::owner::{Owner, StartIo};
use crate::pages::{PageWanted, Pages, Reading};
use crate::port::IoOp;
use crate::store::Store;
use tandem_block::DeviceId;

/// Whose table is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Whose {
    /// That of the checkpoint which leads.
    #[default]
    Leader,
    /// That of the drive which follows.
    Replica,
}

/// The pages of pointers that a start reads.
#[derive(Clone, Debug, Default)]
pub(super) struct TableReads {
    whose: Whose,
    reading: Reading,
    /// Pages that are being read. A tag is a place here.
    under_way: Vec<Option<PageWanted>>,
    /// The table of the drive that follows could not be read.
    replica_is_unread: bool,
}

impl TableReads {
    /// Begins with the table that leads.
    ///
    /// # Errors
    /// Words, if its root is one that no pool writes.
    pub(super) fn begin(&mut self, root: &TableRoot, store: &mut Store) -> Result<(), String> {
        let reading = Reading::begin(store.checksums.table_mut(), root);
        self.reading = reading.map_err(|error| format!("the checkpoint root: {error}"))?;
        Ok(())
    }

    /// Could the table of the drive that follows not be read? Then what its roots name may be written over.
    pub(super) fn replica_is_unread(&self) -> bool {
        self.replica_is_unread
    }

    fn table<'a>(&self, store: &'a mut Store) -> &'a mut Pages {
        match self.whose {
            Whose::Leader => store.checksums.table_mut(),
            Whose::Replica => store.metadata_replica.table_mut(),
        }
    }

    /// Asks for pages, until so many are under way as `outstanding` may have at most. True: all were read.
    /// `leader`: the drive whose root leads. `replica`: the root of the drive that follows, if it was found.
    ///
    /// # Errors
    /// Words, if the table that leads is one that no pool writes.
    pub(super) fn advance(
        &mut self,
        leader: DeviceId,
        replica: Option<&TableRoot>,
        (outstanding, most): (&mut u32, u32),
        store: &mut Store,
        io: &mut DeviceIo,
    ) -> Result<bool, String> {
        while *outstanding < most {
            if let Some(wanted) = self.reading.next(self.table(store)) {
                let home = store.metadata_replica.home().filter(|_| self.whose == Whose::Replica);
                let free = self.under_way.iter().position(Option::is_none);
                let tag = free.unwrap_or_else(|| {
                    self.under_way.push(None);
                    self.under_way.len() - 1
                });
                self.under_way[tag] = Some(wanted);
                ask(home.unwrap_or(leader), wanted, tag as u64, io);
                *outstanding += 1;
            } else if *outstanding > 0 {
                return Ok(false);
            } else if self.whose == Whose::Replica {
                std::mem::take(&mut self.reading).end(self.table(store));
                let sizes = sizes(store);
                if store.metadata_replica.table_mut().check_map(sizes).is_err() {
                    self.give_replica_up(store);
                }
                return Ok(true);
            } else {
                std::mem::take(&mut self.reading).end(self.table(store));
                let checked = store.checksums.table().check_map(sizes(store));
                checked.map_err(|error| error.to_string())?;
                self.begin_replica(replica, store);
            }
        }
        Ok(false)
    }

    /// One that has no root begins with nothing.
    fn begin_replica(&mut self, root: Option<&TableRoot>, store: &mut Store) {
        assert!(self.under_way.iter().all(Option::is_none), "the table that leads was read");
        self.whose = Whose::Replica;
        match root.map(|root| Reading::begin(store.metadata_replica.table_mut(), root)) {
            None => {}
            Some(Ok(reading)) => self.reading = reading,
            Some(Err(_)) => self.give_replica_up(store),
        }
    }

    fn give_replica_up(&mut self, store: &mut Store) {
        self.replica_is_unread = true;
        std::mem::take(&mut self.reading).end(store.metadata_replica.table_mut());
        store.metadata_replica.forget_table();
    }

    /// A page was read, or not. `next`: the home that is asked behind this one, if there is another.
    /// True: it is asked.
    ///
    /// # Errors
    /// Words, if nobody can read it and the pool cannot do without.
    pub(super) fn read_done(
        &mut self,
        (device, tag): (DeviceId, u64),
        read: Result<&[u8], String>,
        next: Option<DeviceId>,
        store: &mut Store,
        io: &mut DeviceIo,
    ) -> Result<bool, String> {
        let wanted = self.under_way[tag as usize].expect("a page comes that was asked for");
        let read = read.and_then(|bytes| {
            let read = self.reading.read(self.table(store), wanted, bytes);
            read.map_err(|error| error.to_string())
        });
        let Err(why) = read else {
            self.under_way[tag as usize] = None;
            return Ok(false);
        };
        if let (Whose::Leader, Some(next)) = (self.whose, next) {
            Reading::mend(self.table(store), wanted);
            ask(next, wanted, tag, io);
            return Ok(true);
        }
        self.under_way[tag as usize] = None;
        if self.whose == Whose::Replica {
            self.give_replica_up(store);
            return Ok(false);
        }
        Err(format!(
            "page {} of the map on device {}: {why}: where its blocks lie is lost",
            wanted.page, device.0
        ))
    }
}

/// Blocks of the map, and how many have homes.
fn sizes(store: &Store) -> (u64, u64) {
    (store.map.leaves().block_count() as u64, store.checksums.homes())
}

fn ask(device: DeviceId, wanted: PageWanted, tag: u64, io: &mut DeviceIo) {
    let layout = &io[device].layout;
    assert!(wanted.page < layout.area_pages, "a page lies among the pages");
    let offset_bytes = layout.area_offset + wanted.page * PAGE_BYTES;
    let op = IoOp::ReadMeta { offset_bytes, length_bytes: PAGE_BYTES };
    io.submit(device, op, Owner::Start(StartIo::Read(tag)));
}
