//! Pages of home checksums on their way into memory, and those that cannot be read.

use crate::device::{Class, Job};
use crate::format::page::PAGE_BYTES;
use crate::io::DeviceIo;
use crate::map::checksums::{HomeChecksums, Loaded};
use crate::metadata::MetadataHomes;
use crate::metadata_replica::MetadataReplica;
use crate::mutant::Mutant;
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
        /// Nobody waited, and it is tried again later: a checkpoint that needs it is over.
        is_unread: bool,
    },
}

/// Reads of pages that are under way, or failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageReads {
    /// Which page, and the request that waits for it, if one does.
    waiting: Vec<(u32, Option<TaskId>)>,
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
        (metadata, metadata_replica): (&MetadataHomes, &MetadataReplica),
        io: &mut DeviceIo,
    ) {
        let failed = self.unread.get(&page);
        if waiter.is_none() && failed.is_some_and(|failed| io.now() < failed.next) {
            return;
        }
        let under_way = self.is_under_way(page);
        if waiter.is_some() || !under_way {
            self.waiting.push((page, waiter));
        }
        if !under_way {
            let home = homes(page, metadata, metadata_replica, io).first().copied();
            read(home.unwrap_or(metadata.first_metadata_home(io)), page, io);
        }
    }

    /// A page was read, or not.
    pub(crate) fn read_done(
        &mut self,
        page: u32,
        ended: Ended<'_>,
        checksums: &mut HomeChecksums,
        (metadata, metadata_replica): (&MetadataHomes, &MetadataReplica),
        io: &mut DeviceIo,
    ) -> PageRead {
        assert!(self.is_under_way(page), "a page comes that somebody has asked for");
        let found = if !io.config().contents {
            checksums.load_empty(page);
            Loaded::Sound
        } else if ended.status.is_ok() {
            checksums.load(io.config().pool, page, ended.bytes)
        } else {
            Loaded::Lost
        };
        if found != Loaded::Sound {
            // another home may have it, or a newer one
            io.stats_mut().checksum_errors += 1;
            let homes = homes(page, metadata, metadata_replica, io);
            let at = homes.iter().position(|&home| home == ended.device);
            if let Some(&next) = homes.get(at.map_or(0, |at| at + 1)) {
                read(next, page, io);
                return PageRead::GoesOn;
            }
        }
        let is_loaded = checksums.has_page(page);
        let mut waiters = Vec::new();
        self.waiting.retain(|&(known, waiter)| {
            if known == page {
                waiters.extend(waiter);
            }
            known != page
        });
        let mut is_unread = false;
        if is_loaded {
            self.unread.remove(&page);
        } else if waiters.is_empty() {
            is_unread = self.note_unread(page, checksums, io);
        }
        PageRead::Over { waiters, is_loaded, is_unread }
    }

    /// A page that nobody waits for cannot be read, from nobody who has it. It is tried again later, which is
    /// true. When that was in vain for long, what the page knew is lost, and reads of its homes say so.
    fn note_unread(&mut self, page: u32, checksums: &mut HomeChecksums, io: &mut DeviceIo) -> bool {
        let now = io.now();
        let failed = self.unread.entry(page).or_insert(Unread { tries: 0, next: now });
        failed.tries += 1;
        failed.next = now + Duration::from_ns(RETRY_AFTER.ns << failed.tries.min(6));
        if failed.tries > TRIES_MAX {
            self.unread.remove(&page);
            io.stats_mut().lost_pages += 1;
            checksums.load_empty(page);
            return false;
        }
        true
    }

    /// When a page is tried again that somebody may wait for.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        let pages = self.unread.values().map(|unread| unread.next);
        pages.filter(|next| *next > now).min().unwrap_or(Instant::NEVER)
    }

    /// Is this page on its way?
    pub(crate) fn is_under_way(&self, page: u32) -> bool {
        self.waiting.iter().any(|(known, _)| *known == page)
    }

    /// Pages on their way, each with a request that waits for it, if one does.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, Option<TaskId>)> + '_ {
        self.waiting.iter().copied()
    }
}

/// Who has this page, in the order in which they are asked. The drive that follows is the last one, and only
/// where it has what the others have.
fn homes(
    page: u32,
    metadata: &MetadataHomes,
    metadata_replica: &MetadataReplica,
    io: &DeviceIo,
) -> Vec<DeviceId> {
    let believes_all = io.breaks(Mutant::BelievesLagging);
    let mut homes =
        if believes_all { metadata.metadata_homes(io) } else { metadata.sound_homes(io) };
    homes.extend(metadata_replica.level_home(page));
    homes
}

fn read(device: DeviceId, page: u32, io: &mut DeviceIo) {
    let layout = &io[device].layout;
    let op = IoOp::ReadMeta {
        offset_bytes: layout.checksum_offset + u64::from(page) * 2 * PAGE_BYTES,
        length_bytes: 2 * PAGE_BYTES,
    };
    let job = Job::Io(op, Owner::Metadata(MetadataIo::ChecksumPage(page)));
    io.enqueue(device, Class::Read, job, None);
}
