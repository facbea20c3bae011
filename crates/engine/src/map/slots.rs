//! What lies in each 4 KiB slot of an SSD or of an HDD log?
//!
//! Source: design decision 7. A slot is one block of data space outside the homes. Its number has 40 bits: the
//! drive, and the number on the drive. So drives come and go, and no other slot gets another number.
//! Of a slot of a log the owner is kept, a logical block: five bytes. They begin as zeroes, so that slots that were
//! never used take no memory. Whose the slot of an SSD is, only leaves say: there are many, and nobody asks by slot.

use super::bits::Bits;
use crate::format::pointer::NUMBERS_END;
use tandem_block::{BLOCK_BYTES, DeviceId, Table};

/// Number of a slot: which drive, and which slot of it.
pub type Slot = u64;
/// Number of a logical block, over all objects of the set.
pub type Logical = u64;
/// No slot, or no owner.
pub const NONE: u64 = u64::MAX;

/// Bits of a slot's number on its drive: 64 TiB.
pub(super) const SLOT_BITS: u32 = 34;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// Slots of a drive at most. So what is behind the last one of the last drive has a number, which is not `NONE`.
pub(crate) const DRIVE_SLOTS_MAX: u64 = SLOT_MASK - 1;
/// Drives with slots at most.
pub(super) const DRIVES_MAX: u64 = 1 << (40 - SLOT_BITS);

const _: () = assert!(first_slot(DeviceId(DRIVES_MAX as u8 - 1)) + DRIVE_SLOTS_MAX < NUMBERS_END);

/// A number of 40 bits as it is kept.
pub(crate) type Packed = [u8; 5];

/// The first slot of a drive.
pub(crate) const fn first_slot(device: DeviceId) -> Slot {
    assert!((device.0 as u64) < DRIVES_MAX, "a slot's number has room for its drive");
    (device.0 as u64) << SLOT_BITS
}

/// Which drive the slot is of, as an index, and which one it is there.
#[inline]
const fn split(slot: Slot) -> (usize, usize) {
    ((slot >> SLOT_BITS) as usize, (slot & SLOT_MASK) as usize)
}

/// The number of a block or slot, or `NONE`, in five bytes.
///
/// # Panics
/// If a set cannot have that many: the layout has looked.
#[inline]
pub(crate) fn pack(number: u64) -> Packed {
    assert!(
        number == NONE || number < NUMBERS_END,
        "blocks and slots are numbered as the format can"
    );
    let [a, b, c, d, e, ..] = number.to_le_bytes();
    [a, b, c, d, e]
}

/// The number of a block or slot, or `NONE`, from five bytes.
#[inline]
pub(crate) fn unpack([a, b, c, d, e]: Packed) -> u64 {
    let number = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
    if number == NUMBERS_END { NONE } else { number }
}

/// The slots of one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRegion {
    /// Which drive.
    pub device: DeviceId,
    /// Is it an HDD log?
    pub(crate) is_log: bool,
    /// Number of its first slot: `first_slot` of the drive.
    pub first: Slot,
    /// How many.
    pub count: u64,
    /// Where its first slot lies on the drive, in bytes.
    pub(crate) offset_bytes: u64,
}

impl SlotRegion {
    /// So many slots of a drive, from this byte of it on.
    pub(crate) const fn new(device: DeviceId, is_log: bool, count: u64, offset_bytes: u64) -> Self {
        SlotRegion { device, is_log, first: first_slot(device), count, offset_bytes }
    }

    /// Does the slot lie in this region?
    pub(crate) const fn contains(&self, slot: Slot) -> bool {
        slot >= self.first && slot - self.first < self.count
    }

    /// Its slots.
    pub fn slots(&self) -> std::ops::Range<Slot> {
        self.first..self.first + self.count
    }

    /// Where the slot lies on its drive, in bytes.
    pub const fn address(&self, slot: Slot) -> u64 {
        assert!(self.contains(slot), "a slot has an address in its own region");
        self.offset_bytes + (slot - self.first) * BLOCK_BYTES
    }
}

/// The tables of one drive's slots.
#[derive(Clone, Debug, Default)]
struct DriveSlots {
    count: usize,
    /// Of a log, the complement of each slot's owner: zero is `NONE`.
    owners: Table<Packed>,
    /// Named by the newest journal batch (or an older one) and not displaced by it.
    recorded: Bits,
    /// A current place of its owner. Slots that were left keep their owner, so that leaving one
    /// touches no more than a bit.
    current: Bits,
}

impl DriveSlots {
    fn new(count: usize, is_log: bool) -> Self {
        DriveSlots {
            count,
            owners: Table::new(if is_log { count } else { 0 }),
            recorded: Bits::new(count),
            current: Bits::new(count),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.owners.memory_bytes() + self.recorded.memory_bytes() + self.current.memory_bytes()
    }
}

/// Owners and the recorded state of every slot.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// By drive: of one that has no slots they are empty.
    drives: Vec<DriveSlots>,
    regions: Vec<SlotRegion>,
    /// The drives whose slots are logs, a bit for each.
    logs: u64,
}

impl Slots {
    /// Slots for these regions, at most one for each drive, SSDs before logs.
    pub(crate) fn new(regions: Vec<SlotRegion>) -> Self {
        let mut slots = Slots::default();
        for region in &regions {
            let (drive, _) = split(region.first);
            assert_eq!(region.first, first_slot(region.device), "slots are numbered by drive");
            assert!(region.count <= DRIVE_SLOTS_MAX, "a drive has at most 2^34 - 2 slots");
            assert!(slots.logs == 0 || region.is_log, "SSD regions come before log regions");
            if slots.drives.len() <= drive {
                slots.drives.resize_with(drive + 1, DriveSlots::default);
            }
            assert!(slots.drives[drive].count == 0, "a drive has one region of slots");
            slots.drives[drive] = DriveSlots::new(region.count as usize, region.is_log);
            slots.logs |= u64::from(region.is_log) << drive;
        }
        slots.regions = regions;
        slots
    }

    /// The slots of a drive lie from another byte of it on: another one has taken its place.
    pub(crate) fn bay_region(&mut self, device: DeviceId, offset_bytes: u64) -> SlotRegion {
        let mut regions = self.regions.iter_mut();
        let region = regions.find(|region| region.device == device).expect("it has slots");
        assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "slots lie on whole blocks");
        region.offset_bytes = offset_bytes;
        *region
    }

    /// How many slots there are in all.
    pub(crate) fn count(&self) -> u64 {
        self.regions.iter().map(|region| region.count).sum()
    }

    /// All slots, drive by drive.
    pub(crate) fn all(&self) -> impl Iterator<Item = Slot> + '_ {
        self.regions.iter().flat_map(SlotRegion::slots)
    }

    /// Are all of these slots of one drive?
    pub(crate) fn have(&self, first: Slot, count: u64) -> bool {
        let (drive, at) = split(first);
        let slots = self.drives.get(drive).map_or(0, |drive| drive.count as u64);
        (at as u64).checked_add(count).is_some_and(|end| end <= slots)
    }

    /// Who owns the slot of a log, or owned it last; `NONE` if nobody ever did.
    ///
    /// # Panics
    /// If it is of an SSD.
    #[inline]
    pub fn log_owner(&self, slot: Slot) -> Logical {
        let (drive, at) = split(slot);
        unpack(self.drives[drive].owners[at].map(|byte| !byte))
    }

    /// The slots of a run in a log that have an owner, or had one, and whose they are.
    ///
    /// # Panics
    /// If they are of an SSD.
    #[inline]
    pub(crate) fn log_owners(
        &self,
        (first, count): (Slot, u64),
    ) -> impl Iterator<Item = (Slot, Logical)> + '_ {
        let (drive, at) = split(first);
        let owners = &self.drives[drive].owners[at..at + count as usize];
        let known = (first..).zip(owners).filter(|(_, owner)| **owner != Packed::default());
        known.map(|(slot, owner)| (slot, unpack(owner.map(|byte| !byte))))
    }

    /// Asks memory for all that is known of a slot.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        let (drive, at) = split(slot);
        let drive = &self.drives[drive];
        drive.recorded.prefetch(at);
        drive.current.prefetch(at);
    }

    /// Asks memory whether a record names a slot.
    #[inline]
    pub(crate) fn prefetch_recorded(&self, slot: Slot) {
        let (drive, at) = split(slot);
        self.drives[drive].recorded.prefetch(at);
    }

    /// Gives the slot to a logical block.
    #[inline]
    pub(crate) fn assign(&mut self, slot: Slot, owner: Logical) {
        debug_assert_ne!(owner, NONE);
        assert!(!self.is_recorded(slot), "slot {slot} keeps what a record names there");
        assert!(!self.is_place(slot), "slot {slot} is given to one block at a time");
        let (drive, at) = split(slot);
        let drive = &mut self.drives[drive];
        if !drive.owners.is_empty() {
            drive.owners[at] = pack(owner).map(|byte| !byte);
        }
        drive.current.set(at, true);
    }

    /// The owner has left the slot: it is current no more.
    #[inline]
    pub(crate) fn leave(&mut self, slot: Slot) {
        assert!(self.is_place(slot), "slot {slot} is left once");
        let (drive, at) = split(slot);
        self.drives[drive].current.set(at, false);
    }

    /// Is the slot a current place of any block?
    #[inline]
    pub fn is_place(&self, slot: Slot) -> bool {
        let (drive, at) = split(slot);
        self.drives[drive].current.get(at)
    }

    /// Takes the slot of a log from its owner.
    #[inline]
    pub(crate) fn disown(&mut self, slot: Slot) {
        assert!(!self.is_place(slot), "slot {slot} was left before it has no owner");
        let (drive, at) = split(slot);
        self.drives[drive].owners[at] = Packed::default();
    }

    /// Is the slot named by a journal batch that was composed?
    #[inline]
    pub(crate) fn is_recorded(&self, slot: Slot) -> bool {
        let (drive, at) = split(slot);
        self.drives[drive].recorded.get(at)
    }

    /// Notes that a composed batch names the slot.
    #[inline]
    pub(crate) fn set_recorded(&mut self, slot: Slot, value: bool) {
        let (drive, at) = split(slot);
        self.drives[drive].recorded.set(at, value);
    }

    /// Does the slot belong to an HDD log?
    #[inline]
    pub(crate) fn is_log(&self, slot: Slot) -> bool {
        debug_assert!(slot != NONE, "what lies nowhere lies in no log");
        let (drive, _) = split(slot);
        self.logs.checked_shr(drive as u32).unwrap_or(0) & 1 == 1
    }

    /// The region that holds the slot.
    pub fn region(&self, slot: Slot) -> &SlotRegion {
        self.regions.iter().find(|r| r.contains(slot)).expect("every slot lies in a region")
    }

    /// All regions.
    pub fn regions(&self) -> &[SlotRegion] {
        &self.regions
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.drives.iter().map(DriveSlots::memory_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_their_bytes() {
        for number in [0, 1, 1 << 32, NUMBERS_END - 1, NONE] {
            assert_eq!(unpack(pack(number)), number);
        }
        assert_eq!((pack(NONE), pack(258)), ([0xff; 5], [2, 1, 0, 0, 0]));
    }

    #[test]
    #[should_panic(expected = "numbered as the format can")]
    fn a_number_that_the_format_has_not_is_not_written() {
        pack(NUMBERS_END);
    }

    /// Drives need not follow each other, and the last one has the last numbers.
    #[test]
    fn each_drive_has_its_own_slots() {
        let region = |device, is_log, count| SlotRegion::new(DeviceId(device), is_log, count, 4096);
        let mut slots =
            Slots::new(vec![region(3, false, 10), region(0, true, 7), region(63, true, 5)]);
        assert_eq!((slots.count(), slots.all().count()), (22, 22));
        let last = first_slot(DeviceId(63)) + 4;
        assert!(slots.is_log(last) && slots.is_log(6) && !slots.is_log(first_slot(DeviceId(3))));
        for (first, count, exist) in [
            (0, 7, true),
            (0, 8, false),
            (7, 1, false),
            (first_slot(DeviceId(1)), 1, false),
            (first_slot(DeviceId(2)), 1, false),
            (first_slot(DeviceId(3)) + 2, 8, true),
            (last, 1, true),
            (last, 2, false),
            (NUMBERS_END - 1, 1, false),
            (NUMBERS_END - 1, u64::MAX, false),
        ] {
            assert_eq!(slots.have(first, count), exist, "{count} from {first:#x} on");
        }
        slots.assign(last, 1 << 39);
        assert_eq!(slots.log_owner(last), 1 << 39);
        assert!(slots.is_place(last) && slots.log_owner(4) == NONE);
        assert_eq!(slots.region(last).address(last), 4096 + 4 * BLOCK_BYTES);
        slots.leave(last);
        slots.disown(last);
        assert_eq!(slots.log_owner(last), NONE);
        let of_ssd = first_slot(DeviceId(3)) + 2;
        slots.assign(of_ssd, 5);
        assert!(slots.is_place(of_ssd) && !slots.is_place(of_ssd + 1));
    }
}
