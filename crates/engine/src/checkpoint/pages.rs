//! Pages of checksums on their way into memory, and those that cannot be read.
//!
//! A page has moved when a checkpoint was durable while it was read. Then it is read where it is now. Its pointer
//! has the CRC, so any drive that has these bytes will do, and an older page is never taken.

use crate::device::{Class, Job};
use crate::format::pointer::{PAGE_BYTES, Pointer};
use crate::io::DeviceIo;
use crate::map::checksums::BlockChecksums;
use crate::metadata::MetadataHomes;
use crate::metadata_replica::MetadataReplica;
use crate::owner::{Ended, MetadataIo, Owner};
use crate::port::IoOp;
use crate::requests::ordering::TaskId;
use std::collections::BTreeMap;
use tandem_block::{DeviceId, Duration, Instant};

/// Tries of a page before it is taken as lost: half a minute (guess).
const TRIES_MAX: u32 = 5;
/// Half of the pause before the second try; each further one is twice as long, up to 64 times this (guess).
const RETRY_AFTER: Duration = Duration::from_ms(500);

/// A page that could not be read: how often, and when it is tried again.
#[derive(Clone, Copy, Debug)]
struct Unread {
    tries: u32,
    next: Instant,
}

/// A page that is being read.
#[derive(Clone, Debug, Default)]
struct PageRequest {
    /// Requests that wait for it.
    waiters: Vec<TaskId>,
    /// A checkpoint, a snapshot or a move has no way without it.
    has_to_come: bool,
    /// What is wanted, and where it was looked for in vain.
    wanted: Pointer,
    tried: Vec<(DeviceId, u64)>,
}

/// How the read of a page has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageRead {
    /// Another home is asked.
    GoesOn,
    /// It is over: who waited for it, and is it in memory?
    Over {
        /// Requests that go on, or fail.
        waiters: Vec<TaskId>,
        /// It is in memory.
        is_loaded: bool,
    },
}

/// Reads of pages that are under way, or failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageReads {
    under_way: BTreeMap<u32, PageRequest>,
    /// Pages that nobody could read.
    unread: BTreeMap<u32, Unread>,
}

impl PageReads {
    /// Loads a page; a request that needs it goes on when it is there. One that nobody waits for, and that
    /// could not be read, is not read again at once.
    pub(crate) fn load(
        &mut self,
        page: u32,
        waiter: Option<TaskId>,
        checksums: &BlockChecksums,
        (metadata, metadata_replica): (&MetadataHomes, &MetadataReplica),
        io: &mut DeviceIo,
    ) {
        assert!(!checksums.has_page(page), "a page is read that is not in memory");
        let failed = self.unread.get(&page);
        if waiter.is_none() && failed.is_some_and(|failed| io.now() < failed.next) {
            return;
        }
        let has_to_come = waiter.is_none();
        if let Some(request) = self.under_way.get_mut(&page) {
            request.has_to_come |= has_to_come;
            request.waiters.extend(waiter);
            return;
        }
        let (wanted, waiters) = (checksums.place(page), waiter.into_iter().collect());
        let mut request = PageRequest { waiters, has_to_come, wanted, tried: Vec::new() };
        let places = places(page, wanted, metadata, metadata_replica, io);
        let first = places.first().copied();
        request.read(first.unwrap_or((metadata.first_metadata_home(io), wanted.page)), page, io);
        self.under_way.insert(page, request);
    }

    /// A page was read, or not.
    pub(crate) fn read_done(
        &mut self,
        page: u32,
        ended: Ended<'_>,
        checksums: &mut BlockChecksums,
        (metadata, metadata_replica): (&MetadataHomes, &MetadataReplica),
        io: &mut DeviceIo,
    ) -> PageRead {
        io.stats_mut().page_reads += 1;
        let request = self.under_way.get_mut(&page).expect("a page comes that somebody asked for");
        if !io.config().contents {
            checksums.load_empty(page);
        } else if ended.status.is_err() || !checksums.load(page, ended.bytes) {
            let wanted = checksums.place(page);
            let places = places(page, wanted, metadata, metadata_replica, io);
            if request.tried.last().is_some_and(|read| places.contains(read)) {
                io.stats_mut().checksum_errors += 1;
            } // else it has moved meanwhile, so nothing was wrong with what was read
            if request.wanted != wanted {
                (request.wanted, request.tried) = (wanted, Vec::new());
            }
            let next = places.into_iter().find(|place| !request.tried.contains(place));
            if let Some(next) = next.filter(|_| !checksums.has_page(page)) {
                request.read(next, page, io);
                return PageRead::GoesOn;
            }
        }
        let is_loaded = checksums.has_page(page);
        let request = self.under_way.remove(&page).expect("found above");
        if is_loaded {
            self.unread.remove(&page);
        } else if request.has_to_come {
            self.note_unread(page, checksums, io);
        }
        PageRead::Over { waiters: request.waiters, is_loaded }
    }

    /// A page that has to come cannot be read, from nobody who has it. It is tried again later. When that was in
    /// vain for long, what the page knew is lost, and reads of its homes say so.
    fn note_unread(&mut self, page: u32, checksums: &mut BlockChecksums, io: &mut DeviceIo) {
        let now = io.now();
        let failed = self.unread.entry(page).or_insert(Unread { tries: 0, next: now });
        failed.tries += 1;
        failed.next = now + Duration::from_ns(RETRY_AFTER.ns << failed.tries.min(6));
        if failed.tries > TRIES_MAX {
            self.unread.remove(&page);
            io.stats_mut().lost_pages += 1;
            checksums.load_lost(page);
        }
    }

    /// When a page is tried again that somebody may wait for.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        let pages = self.unread.values().map(|unread| unread.next);
        pages.filter(|next| *next > now).min().unwrap_or(Instant::NEVER)
    }

    /// Is this page on its way?
    pub(crate) fn is_under_way(&self, page: u32) -> bool {
        self.under_way.contains_key(&page)
    }

    /// Pages on their way, each with a request that waits for it, if one does.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, Option<TaskId>)> + '_ {
        self.under_way.iter().flat_map(|(&page, request)| {
            let nobody = request.waiters.is_empty().then_some(None);
            request
                .waiters
                .iter()
                .copied()
                .map(Some)
                .chain(nobody)
                .map(move |waiter| (page, waiter))
        })
    }
}

/// Where this page lies, in the order in which the drives are asked. The drive that follows is the last one. It
/// has the page where its own pointer has the same CRC.
fn places(
    page: u32,
    wanted: Pointer,
    metadata: &MetadataHomes,
    metadata_replica: &MetadataReplica,
    io: &DeviceIo,
) -> Vec<(DeviceId, u64)> {
    let homes = metadata.sound_homes(io).into_iter();
    let mut places: Vec<_> = homes.map(|home| (home, wanted.page)).collect();
    places.extend(metadata_replica.place_of(page, wanted));
    places
}

impl PageRequest {
    fn read(&mut self, place: (DeviceId, u64), number: u32, io: &mut DeviceIo) {
        self.tried.push(place);
        let (device, page) = place;
        let layout = &io[device].layout;
        assert!(page < layout.area_pages, "a page lies among the pages");
        let op = IoOp::ReadMeta {
            offset_bytes: layout.area_offset + page * PAGE_BYTES,
            length_bytes: PAGE_BYTES,
        };
        let job = Job::Io(op, Owner::Metadata(MetadataIo::ChecksumPage(number)));
        io.enqueue(device, Class::Read, job, None);
    }
}
