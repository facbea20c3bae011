//! Locations of blocks: where a block can be read from, and what must be found there.
//!
//! A view of the map and the drives that nothing is changed through.

use crate::io::DeviceIo;
use crate::map::checksums::BlockChecksums;
use crate::map::objects::Objects;
use crate::map::{Entry, Logical, Map, NONE, Place, Slot};
use crate::owner::ReadPart;
use crate::policy::Policy;
use crate::policy::steering::Steering;
use crate::port::ServedFrom;
use crate::requests::ordering::TaskId;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, PayloadId};

/// Where a run of blocks is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) device: DeviceId,
    pub(crate) address: u64,
    pub(crate) slot: Slot,
    pub(crate) from: ServedFrom,
}

impl Source {
    /// The slot of its block `i`, or `NONE`.
    fn at(self, i: u64) -> Slot {
        if self.slot == NONE { NONE } else { self.slot + i }
    }

    /// Does `next` lie right behind `count` blocks from here?
    pub(crate) fn is_continued_by(self, next: Source, count: u64) -> bool {
        next.device == self.device
            && next.from == self.from
            && next.address == self.address + count * BLOCK_BYTES
            && (self.slot == NONE) == (next.slot == NONE)
            && (self.slot == NONE || next.slot == self.slot + count)
    }
}

/// Where blocks can be read from.
#[derive(Clone, Copy)]
pub(super) struct Locations<'a> {
    pub(super) map: &'a Map,
    pub(super) objects: &'a Objects,
    pub(super) checksums: &'a BlockChecksums,
    pub(super) steering: &'a Steering,
    pub(super) io: &'a DeviceIo,
    /// Where a hard drive has it, too, that is read.
    prefers_hdd: bool,
}

impl<'a> Locations<'a> {
    /// Where blocks can be read from now.
    #[inline]
    pub(super) fn of(
        store: &'a Store,
        volumes: &'a Volumes,
        policy: &'a Policy,
        io: &'a DeviceIo,
    ) -> Locations<'a> {
        Locations {
            map: &store.map,
            objects: &volumes.objects,
            checksums: &store.checksums,
            steering: &policy.steering,
            io,
            prefers_hdd: false,
        }
    }

    /// The same for a read that a hard drive shall serve, if it can.
    #[inline]
    pub(super) fn preferring_hdd(self, prefers_hdd: bool) -> Locations<'a> {
        Locations { prefers_hdd, ..self }
    }
}

impl Locations<'_> {
    /// Where this block's base is read from: the fastest place on a drive that was not tried. Of two on
    /// hard drives that on the one which users' writes leave alone (M12).
    pub(super) fn source(&self, block: Logical, tried: &[DeviceId]) -> Option<Source> {
        if self.io.is_fixed() {
            return Some(self.source_fixed(block));
        }
        let entry = self.map.entry(block);
        if entry == Entry::NOWHERE {
            return None;
        }
        let places = entry.places().map(|(place, _)| self.source_at(block, place, entry.home));
        let mut untried = places.filter(|source| !tried.contains(&source.device));
        let first = untried.next()?;
        if self.prefers_hdd && self.io[first.device].is_ssd() {
            let takes = |other: &Source| !self.io[other.device].is_faulted();
            let other = untried.find(|other| !self.io[other.device].is_ssd() && takes(other));
            return Some(other.unwrap_or(first));
        }
        // who compares all copies counts them from the fastest on
        if self.io.hdds().len() < 2
            || self.io.config().verify_copies
            || self.io.is_spare(first.device)
        {
            return Some(first);
        }
        Some(untried.find(|other| self.io.is_spare(other.device)).unwrap_or(first))
    }

    /// The nth place of this block, in the order in which they are tried.
    pub(super) fn nth_source(&self, block: Logical, nth: usize) -> Option<Source> {
        let entry = self.map.entry(block);
        let (place, _) = entry.places().nth(nth)?;
        Some(self.source_at(block, place, entry.home))
    }

    fn source_at(&self, block: Logical, place: Place, has_home: bool) -> Source {
        match place {
            Place::Ssd(slot) | Place::Log(slot) => {
                let region = self.map.slots().region(slot);
                assert!(
                    region.is_log == matches!(place, Place::Log(_)),
                    "slots of logs are on hard drives, and others on SSDs"
                );
                let from = match (region.is_log, has_home) {
                    (true, _) => ServedFrom::HddLog,
                    (false, true) => ServedFrom::SsdCopy,
                    (false, false) => ServedFrom::Ssd,
                };
                Source { device: region.device, address: region.address(slot), slot, from }
            }
            Place::Home => {
                let (device, address) = self.objects.home_of(block, self.io);
                Source { device, address, slot: NONE, from: ServedFrom::HddHome }
            }
        }
    }

    /// Under fixed placement: the log or the home if the block was redirected, else the identity.
    fn source_fixed(&self, block: Logical) -> Source {
        let entry = self.map.entry(block);
        if entry.log != NONE {
            let region = self.map.slots().region(entry.log);
            let (device, address) = (region.device, region.address(entry.log));
            return Source { device, address, slot: entry.log, from: ServedFrom::HddLog };
        }
        let (from, (device, address)) = if entry.home {
            (ServedFrom::HddHome, self.objects.home_of(block, self.io))
        } else {
            (ServedFrom::Ssd, self.steering.fixed_place(block, self.io))
        };
        Source { device, address, slot: NONE, from }
    }

    /// A read under way: `blocks` (first, count) from `source` into a payload from an offset in bytes on,
    /// and what each of them must hold. A slot may be another block's when the read ends, so that is kept here.
    pub(super) fn read_part(
        &self,
        task: TaskId,
        (logical, count): (Logical, u64),
        source: Source,
        (into, into_offset_bytes): (PayloadId, u64),
    ) -> ReadPart {
        let expected = if self.io.config().contents && !self.io.is_fixed() {
            let known = |i: u64| self.checksum(logical + i, source.at(i));
            (0..count).map(|i| known(i).expect("its page was asked for before")).collect()
        } else {
            Vec::new()
        };
        ReadPart {
            task,
            logical,
            count,
            slot: source.slot,
            expected,
            from: source.from,
            tried: Vec::new(),
            into,
            into_offset_bytes,
        }
    }

    /// What this slot of the block must hold, or its home (`NONE`). `None`: a page has to be read.
    pub(super) fn checksum(&self, block: Logical, slot: Slot) -> Option<u32> {
        self.checksums.of_place(block, slot, self.map)
    }
}
