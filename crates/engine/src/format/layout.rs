//! Which part of a drive holds what?
//!
//! ```text
//! every drive:  superblock A | journal | roots A B | …
//! SSD:          … | pages of the map | tables of objects A B | slots | superblock B
//! hard drive:   … | the same, where it leads or follows | homes | log | superblock B
//! ```
//! All of it is computed once, at format, and kept in the superblock: later programs may choose
//! other sizes and still read this pool.

use super::cursor::{Reader, Writer};
use super::{FormatError, image, pointer};
use crate::config::{DeviceConfig, EngineConfig, Placement, Role};
use crate::map::slots::DRIVE_SLOTS_MAX;
use tandem_block::{BLOCK_BYTES, GIB, KIB, MIB};

/// Bytes kept for each superblock copy.
pub const SUPERBLOCK_BYTES: u64 = BLOCK_BYTES;
/// The smallest drive that can be formatted.
pub const DEVICE_BYTES_MIN: u64 = 8 * MIB;

/// The smallest ring: the longest unit takes an eighth of it.
const JOURNAL_BYTES_MIN: u64 = 8 * BLOCK_BYTES;

/// Can a journal ring have this length?
fn is_ring(bytes: u64) -> bool {
    bytes >= JOURNAL_BYTES_MIN && bytes.is_multiple_of(BLOCK_BYTES)
}

/// Where everything lies on one drive. Offsets and lengths in bytes, multiples of 4096.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Start of the journal ring.
    pub journal_offset: u64,
    /// Its length.
    pub journal_bytes: u64,
    /// Start of the two checkpoint roots.
    pub root_offset: u64,
    /// Length of one root.
    pub root_bytes: u64,
    /// Start of the area for pages of the map; 0 if this drive holds none.
    pub area_offset: u64,
    /// How many pages: those of two tables.
    pub area_pages: u64,
    /// Start of the homes; hard drives only.
    pub home_offset: u64,
    /// How many home blocks.
    pub home_blocks: u64,
    /// Logical block of the first home.
    pub home_first: u64,
    /// Start of the slots (an SSD's data, a hard drive's log).
    pub slot_offset: u64,
    /// How many slots.
    pub slot_count: u64,
    /// Start of the two areas for the table of objects; 0 if this drive holds none.
    pub table_offset: u64,
    /// Length of one area; 0 in pools whose objects are in the root.
    pub table_bytes: u64,
}

/// Fields of a layout.
const FIELDS: usize = 13;

/// Room for one root at most (guess: the plan for 4 PiB takes 1 MiB, and a start holds all roots in memory).
const ROOT_BYTES_MAX: u64 = 64 * MIB;
/// Bytes of a root beside objects: its own numbers, and 256 pointers.
const ROOT_POINTERS_BYTES: u64 = 2 * BLOCK_BYTES;

impl Layout {
    pub(super) fn encode(&self, out: &mut Writer) {
        for value in self.fields() {
            out.u64(value);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Layout, FormatError> {
        let mut v = [0u64; FIELDS];
        for value in &mut v {
            *value = reader.u64()?;
        }
        Ok(Layout {
            journal_offset: v[0],
            journal_bytes: v[1],
            root_offset: v[2],
            root_bytes: v[3],
            area_offset: v[4],
            area_pages: v[5],
            home_offset: v[6],
            home_blocks: v[7],
            home_first: v[8],
            slot_offset: v[9],
            slot_count: v[10],
            table_offset: v[11],
            table_bytes: v[12],
        })
    }

    /// Two areas for the table of objects lie here. Returns where they end.
    fn place_table(&mut self, bytes: u64, at: u64) -> u64 {
        self.table_bytes = bytes;
        self.table_offset = if self.has_table() { at } else { 0 };
        at + 2 * bytes
    }

    /// Has this drive room for the table of objects?
    pub(crate) fn has_table(&self) -> bool {
        self.table_bytes > 0
    }

    /// Where a page of one of the two tables of objects lies, in bytes.
    pub(crate) fn table_page_offset(&self, area: u64, index: u64) -> u64 {
        self.table_offset + area * self.table_bytes + index * image::IMAGE_PAGE_BYTES
    }

    /// Pages in one area of the table of objects.
    pub fn table_pages(&self) -> u64 {
        self.table_bytes / image::IMAGE_PAGE_BYTES
    }

    fn fields(&self) -> [u64; FIELDS] {
        [
            self.journal_offset,
            self.journal_bytes,
            self.root_offset,
            self.root_bytes,
            self.area_offset,
            self.area_pages,
            self.home_offset,
            self.home_blocks,
            self.home_first,
            self.slot_offset,
            self.slot_count,
            self.table_offset,
            self.table_bytes,
        ]
    }

    /// Do all parts lie within a drive of this size, aligned, in order and apart? Has a unit room?
    pub fn is_sane(&self, capacity_bytes: u64) -> bool {
        let has_roots = (BLOCK_BYTES..=ROOT_BYTES_MAX).contains(&self.root_bytes)
            && self.root_bytes.is_multiple_of(BLOCK_BYTES);
        if !is_ring(self.journal_bytes) || !has_roots {
            return false;
        }
        let parts = [
            (SUPERBLOCK_BYTES, 0),
            (self.journal_offset, self.journal_bytes),
            (self.root_offset, self.root_bytes.saturating_mul(2)),
            (self.area_offset, self.area_pages.saturating_mul(pointer::PAGE_BYTES)),
            (self.table_offset, self.table_bytes.saturating_mul(2)),
            (self.home_offset, self.home_blocks.saturating_mul(BLOCK_BYTES)),
            (self.slot_offset, self.slot_count.saturating_mul(BLOCK_BYTES)),
        ];
        let mut end = 0u64;
        for (offset, length) in parts {
            if length == 0 && offset != SUPERBLOCK_BYTES {
                continue;
            }
            if offset < end || !offset.is_multiple_of(BLOCK_BYTES) {
                return false;
            }
            end = offset.saturating_add(length);
        }
        end <= capacity_bytes.saturating_sub(SUPERBLOCK_BYTES)
    }
}

/// Why a pool of these drives cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A drive has no room for the pool's own structures.
    #[error(
        "device {device} has {capacity_bytes} bytes, which is too small: give it at least {wanted_bytes}"
    )]
    TooSmall {
        /// Position in the configuration.
        device: usize,
        /// Its size.
        capacity_bytes: u64,
        /// The least that works with the other drives as they are.
        wanted_bytes: u64,
    },
    /// A journal ring in which no unit has room, or not of whole blocks.
    #[error("journal_bytes = {found} is not possible: write a multiple of 4096, at least {least}")]
    Journal {
        /// Its bytes.
        found: u64,
        /// The fewest.
        least: u64,
    },
    /// More space than one set can number.
    #[error(
        "a set can number 4 PiB of hard drives, and 64 TiB of slots on each drive: split the drives into two sets"
    )]
    TooLarge,
}

/// Bytes of a journal ring.
fn journal_bytes(config: &EngineConfig, smallest: u64) -> Result<u64, LayoutError> {
    let planned = || down((smallest / 128).clamp(512 * KIB, 256 * MIB));
    let found = config.journal_bytes.unwrap_or_else(planned);
    if is_ring(found) {
        Ok(found)
    } else {
        Err(LayoutError::Journal { found, least: JOURNAL_BYTES_MIN })
    }
}

/// Bytes of one area for the table of objects, unless the configuration says how many: a 256th of the
/// smallest drive, which is 256 bytes of records for each of 65,536 objects on 4 GiB (guess).
fn table_bytes(config: &EngineConfig, smallest: u64) -> u64 {
    let wanted = config.object_table_bytes;
    let bytes = wanted.unwrap_or_else(|| (smallest / 256).clamp(256 * KIB, 256 * MIB));
    bytes / image::IMAGE_PAGE_BYTES * image::IMAGE_PAGE_BYTES
}

/// Logical blocks over so many slots of SSDs, in a pool without homes: what is reserved for volumes must
/// leave room for new versions of everything under way.
pub fn blocks_without_homes(slots: u64) -> u64 {
    slots * 85 / 100
}

fn down(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES * BLOCK_BYTES
}

/// Logical blocks of a set with these drives.
pub(crate) fn logical_blocks(layouts: &[Layout], config: &EngineConfig) -> u64 {
    let homes: u64 = layouts.iter().map(|l| l.home_blocks).sum();
    let slots: u64 = layouts.iter().map(|l| l.slot_count).sum();
    match config.placement {
        Placement::Fixed => {
            config
                .devices
                .iter()
                .filter(|d| d.role == Role::Ssd)
                .map(|d| d.capacity_bytes)
                .sum::<u64>()
                / BLOCK_BYTES
        }
        // without hard drives there are no homes
        Placement::Mapped if homes == 0 => blocks_without_homes(slots),
        Placement::Mapped => homes,
    }
}

/// Lays out every drive of the configuration, in its order.
///
/// # Errors
/// If a drive is too small or the set too large.
pub fn plan(config: &EngineConfig) -> Result<Vec<Layout>, LayoutError> {
    let log_percent = config.log_percent;
    let hdds = config.present().filter(|(_, d)| d.role == Role::Hdd);
    let homes_max: u64 = hdds.map(|(_, d)| d.capacity_bytes / BLOCK_BYTES).sum();
    // one length for all, so that every drive can hold the same metadata at the same offsets
    let smallest = config.present().map(|(_, d)| d.capacity_bytes).min().unwrap_or(0);
    let journal_bytes = journal_bytes(config, smallest)?;
    let area_pages = area_pages(config, homes_max, log_percent);
    // what those that are gone leave behind is said by the superblocks
    let mut layouts = vec![Layout::default(); config.devices.len()];
    let mut home_first = 0u64;
    for (index, device) in config.present() {
        let mut layout = Layout::default();
        let mut at = SUPERBLOCK_BYTES;
        layout.journal_offset = at;
        layout.journal_bytes = journal_bytes;
        at += layout.journal_bytes;
        layout.root_offset = at;
        // objects, and the pointers to the table of the map
        layout.root_bytes =
            (config.areas.root_bytes + ROOT_POINTERS_BYTES).next_multiple_of(BLOCK_BYTES);
        at += 2 * layout.root_bytes;
        if config.keeps_map(index) {
            layout.area_offset = at;
            layout.area_pages = area_pages;
            at += area_pages * pointer::PAGE_BYTES;
            at = layout.place_table(table_bytes(config, smallest), at);
        }
        let end = down(device.capacity_bytes).saturating_sub(SUPERBLOCK_BYTES);
        let room_wanted = 64 * BLOCK_BYTES;
        if end < at + room_wanted || device.capacity_bytes < DEVICE_BYTES_MIN {
            return Err(LayoutError::TooSmall {
                device: index,
                capacity_bytes: device.capacity_bytes,
                wanted_bytes: (at + room_wanted + 2 * SUPERBLOCK_BYTES).max(DEVICE_BYTES_MIN),
            });
        }
        let room = end - at;
        match device.role {
            Role::Ssd => {
                layout.slot_offset = at;
                layout.slot_count = ssd_slots(room, device.capacity_bytes);
            }
            Role::Hdd => {
                layout.home_first = home_first;
                if !place_homes_and_log(&mut layout, at, room, log_percent, config) {
                    return Err(LayoutError::TooSmall {
                        device: index,
                        capacity_bytes: device.capacity_bytes,
                        wanted_bytes: at + 4 * config.log_segment_bytes + SUPERBLOCK_BYTES,
                    });
                }
                home_first += layout.home_blocks;
            }
        }
        assert!(layout.is_sane(device.capacity_bytes), "planned layouts are sane: {layout:?}");
        layouts[index] = layout;
    }
    if can_be_numbered(&layouts) { Ok(layouts) } else { Err(LayoutError::TooLarge) }
}

/// Lays out a drive behind those of a pool, without metadata of its own: homes from this block on, or slots. `like`: a
/// drive of the same role. `None`: it is too small.
pub(crate) fn of_bay(
    config: &EngineConfig,
    device: &DeviceConfig,
    home_first: u64,
    like: &Layout,
) -> Option<Layout> {
    let is_hdd = device.role == Role::Hdd;
    let at = if is_hdd { like.root_offset + 2 * like.root_bytes } else { like.slot_offset };
    let end = down(device.capacity_bytes).saturating_sub(SUPERBLOCK_BYTES);
    let room = end.checked_sub(at + 64 * BLOCK_BYTES)? + 64 * BLOCK_BYTES;
    let mut layout = Layout { home_first, ..Layout::default() };
    if device.capacity_bytes <= DEVICE_BYTES_MIN {
        return None; // an entry of a drive that is gone has no more
    }
    if is_hdd {
        let has_room = place_homes_and_log(&mut layout, at, room, config.log_percent, config);
        return has_room.then_some(layout);
    }
    (layout.home_first, layout.slot_offset) = (0, at);
    layout.slot_count = ssd_slots(room, device.capacity_bytes);
    Some(layout)
}

/// The tenth that is never used lets the drive's own GC breathe, and keeps the map within its 12 bytes per 4 KiB of
/// drive.
fn ssd_slots(room: u64, capacity_bytes: u64) -> u64 {
    (room / BLOCK_BYTES).min(capacity_bytes / BLOCK_BYTES * 9 / 10)
}

/// Have homes and slots numbers?
pub(crate) fn can_be_numbered(layouts: &[Layout]) -> bool {
    let mut homes = layouts.iter().map(|layout| layout.home_blocks);
    let homes = homes.try_fold(0u64, |sum, blocks| sum.checked_add(blocks));
    homes.is_some_and(|homes| homes < pointer::NUMBERS_END)
        && layouts.iter().all(|layout| layout.slot_count <= DRIVE_SLOTS_MAX)
}

/// Pages for the map of these drives: an upper bound, so that sizes do not depend on each other in a circle.
fn area_pages(config: &EngineConfig, homes_max: u64, log_percent: u64) -> u64 {
    let blocks: u64 = config.present().map(|(_, d)| d.capacity_bytes / BLOCK_BYTES).sum();
    let segments =
        segments_min(config) * config.log_segment_bytes / BLOCK_BYTES * config.devices.len() as u64;
    let slots = blocks - homes_max + homes_max * log_percent / 100 + segments;
    let logical = if homes_max > 0 { homes_max } else { blocks_without_homes(slots) };
    let groups = pointer::groups_of(logical);
    match config.areas.map_pages {
        Some(0) => pointer::area_pages_least(groups, slots),
        Some(pages) => pages,
        None => pointer::area_pages(groups, slots),
    }
}

/// Segments of a log at least. Without an SSD the largest write has to fit beside the segment that is
/// kept for merges.
fn segments_min(config: &EngineConfig) -> u64 {
    let has_ssd = config.devices.iter().any(|d| d.role == Role::Ssd);
    if has_ssd { 2 } else { 4 }
}

/// A log of more than this takes no more than a hundredth of its drive (guess): a drive fills it in five minutes, and
/// each of its slots takes memory.
const LARGE_LOG_BYTES: u64 = 64 * GIB;

/// Bytes for the log of a hard drive that has so many.
fn log_bytes_of(bytes: u64, log_percent: u64) -> u64 {
    (bytes / 100 * log_percent).min((bytes / 100).max(LARGE_LOG_BYTES))
}

/// A hard drive's homes come first, then its log. False if there is no room for both.
fn place_homes_and_log(
    layout: &mut Layout,
    at: u64,
    room: u64,
    log_percent: u64,
    config: &EngineConfig,
) -> bool {
    let segment = config.log_segment_bytes;
    let wanted_bytes = log_bytes_of(room, log_percent);
    let log_bytes = (wanted_bytes / segment).max(segments_min(config)) * segment;
    if log_bytes + 16 * BLOCK_BYTES > room {
        return false;
    }
    layout.home_offset = at;
    layout.home_blocks = (room - log_bytes) / BLOCK_BYTES;
    layout.slot_offset = at + layout.home_blocks * BLOCK_BYTES;
    layout.slot_count = log_bytes / BLOCK_BYTES;
    true
}

/// Lays out drives for fixed placement: the SSDs are the volumes, byte for byte; hard drives have
/// homes for all of it and a log, and nothing else.
///
/// # Errors
/// If a hard drive is too small.
pub fn plan_fixed(config: &EngineConfig) -> Result<Vec<Layout>, LayoutError> {
    let ssd_blocks: u64 = config
        .devices
        .iter()
        .filter(|d| d.role == Role::Ssd)
        .map(|d| d.capacity_bytes / BLOCK_BYTES)
        .sum();
    let hdds = config.devices.iter().filter(|d| d.role == Role::Hdd).count() as u64;
    if ssd_blocks >= pointer::NUMBERS_END {
        return Err(LayoutError::TooLarge);
    }
    let mut layouts = Vec::new();
    let mut home_first = 0;
    for (device, d) in config.devices.iter().enumerate() {
        let mut layout = Layout::default();
        if d.role == Role::Hdd {
            let segment = config.log_segment_bytes;
            let log_bytes =
                (log_bytes_of(d.capacity_bytes, config.log_percent) / segment).max(2) * segment;
            layout.home_first = home_first;
            layout.home_blocks = ssd_blocks.div_ceil(hdds);
            home_first += layout.home_blocks;
            layout.slot_offset = layout.home_blocks * BLOCK_BYTES;
            layout.slot_count = log_bytes / BLOCK_BYTES;
            let wanted_bytes = layout.slot_offset + log_bytes;
            if wanted_bytes > d.capacity_bytes {
                let capacity_bytes = d.capacity_bytes;
                return Err(LayoutError::TooSmall { device, capacity_bytes, wanted_bytes });
            }
        }
        layouts.push(layout);
    }
    Ok(layouts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DeviceConfig, WriteCache};
    use crate::profile::SsdProfile;

    fn with_journal(bytes: u64) -> EngineConfig {
        let device = DeviceConfig {
            role: Role::Ssd,
            capacity_bytes: GIB,
            write_cache: WriteCache::Volatile,
            depth: 32,
            uuid: 1,
            hdd_profile: None,
            ssd_profile: SsdProfile::default(),
        };
        let config = EngineConfig::with_drives(vec![device], Vec::new());
        EngineConfig { journal_bytes: Some(bytes), ..config }
    }

    #[test]
    fn roots_fill_whole_blocks() {
        for (bytes, fits) in [
            (0, false),
            (BLOCK_BYTES - 512, false),
            (BLOCK_BYTES, true),
            (BLOCK_BYTES + 512, false),
            (2 * BLOCK_BYTES, true),
            (ROOT_BYTES_MAX + BLOCK_BYTES, false),
            (u64::MAX, false),
        ] {
            let layout = plan(&with_journal(64 * KIB)).expect("this fits")[0];
            let found = Layout { root_bytes: bytes, ..layout };
            assert_eq!(found.is_sane(GIB), fits, "{bytes} in a superblock");
        }
    }

    #[test]
    fn a_journal_has_room_for_units() {
        for (bytes, fits) in [
            (0, false),
            (28 * KIB, false),
            (32 * KIB - 1, false),
            (32 * KIB, true),
            (32 * KIB + 512, false),
            (36 * KIB, true),
        ] {
            let planned = plan(&with_journal(bytes));
            let refused = Err(LayoutError::Journal { found: bytes, least: 32 * KIB });
            assert_eq!(planned.is_ok(), fits, "{bytes}");
            assert!(fits || planned == refused, "{planned:?}");
            let layout = plan(&with_journal(64 * KIB)).expect("this fits")[0];
            let found = Layout { journal_bytes: bytes, ..layout };
            assert_eq!(found.is_sane(GIB), fits, "{bytes} in a superblock");
        }
    }
}
