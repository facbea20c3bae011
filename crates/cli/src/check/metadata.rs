//! Is every copy of the pool's own metadata sound, on every drive that keeps one?
//!
//! Source: design decision 7. A start is content with one sound copy of each superblock, root,
//! journal unit and page of the map; here each is looked at on each drive, by its own checksum. The older
//! of two copies that are written in turn may be torn after a crash, which does no harm: that is a note.

use crate::config::{PoolConfig, PoolDevice};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use tandem_block::BLOCK_BYTES;
use tandem_engine::Role;
use tandem_engine::format::FormatError;
use tandem_engine::format::image::{self, IMAGE_PAGE_BYTES};
use tandem_engine::format::pair::{self, PairRecord};
use tandem_engine::format::pointer::{
    self, Kind, MAP_TABLE, MapLeaf, PAGE_BYTES, POINTERS, PageName, Pointer,
};
use tandem_engine::format::root::Root;
use tandem_engine::format::superblock::Superblock;
use tandem_engine::format::unit::{self, Unit};
use tandem_live::Backing;

/// Drives whose checkpoints are looked at side by side.
const CHECKPOINTS_AT_ONCE: usize = 16;
/// … and journals, each of which is in memory as a whole.
const JOURNALS_AT_ONCE: usize = 2;

/// A part of the metadata that cannot be used on one drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BadMetadata {
    /// The drive.
    pub device: String,
    /// Which part.
    pub part: String,
    /// Where on the drive.
    pub device_offset_bytes: u64,
    /// What is wrong.
    pub error: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// All drives were closed cleanly.
    pub clean: bool,
    /// Harmless, and mended by a start or a checkpoint.
    pub notes: Vec<String>,
    pub bad: Vec<BadMetadata>,
}

/// One drive's metadata.
struct Home {
    label: String,
    part: Part,
    superblock: Superblock,
    root: Option<Root>,
}

/// Looks at all drives; those whose superblock cannot be read at all are the start's to refuse.
pub(super) fn check(pool: &PoolConfig, capacities: &[u64]) -> anyhow::Result<Found> {
    let mut found = Found { clean: true, ..Found::default() };
    let mut homes = Vec::new();
    // what the engine is told is without the records of pairs
    let config = pool.engine_config(capacities);
    for (index, (device, told)) in pool.devices.iter().zip(&config.devices).enumerate() {
        if device.gone {
            continue;
        }
        let capacity = &told.capacity_bytes;
        let (Backing::Path(path), Some(last)) =
            (&device.backing, (capacity / BLOCK_BYTES).checked_sub(1))
        else {
            continue;
        };
        let leg = pool.legs.iter().find(|leg| leg.device == index);
        let part = match leg {
            None => Part { file: File::open(path)?, base: 0 },
            Some(leg) => match leader(path, &leg.drive) {
                Some(part) => part,
                None => continue,
            },
        };
        let newest = superblock(device, &part, last, &mut found);
        found.clean &= newest.as_ref().is_some_and(|newest| newest.clean);
        // a drive that was cut is refused by the start
        let is_whole = |known: &Superblock| known.layout.is_sane(*capacity);
        if let Some(superblock) = newest.filter(is_whole) {
            homes.push(Home { label: device.label(), part, superblock, root: None });
        }
    }
    homes.retain(|home| keeps(&home.superblock) != Keeps::Nothing);
    let bar = bar(2 * homes.len() as u64);
    at_once(&mut homes, CHECKPOINTS_AT_ONCE, &bar, &mut found, Home::checkpoint);
    let leaders = homes.iter().filter(|home| keeps(&home.superblock) == Keeps::First);
    let roots = leaders.filter_map(|home| home.root.clone());
    let newest = roots.max_by_key(|root| root.checkpoint);
    at_once(&mut homes, JOURNALS_AT_ONCE, &bar, &mut found, |home, found| {
        let follows = keeps(&home.superblock) == Keeps::Replica;
        let root = if follows { home.root.as_ref() } else { newest.as_ref() };
        if let Some(Err(error)) = root.map(|root| home.journal(root, found)) {
            home.unreadable("journal", &error, found);
        }
    });
    bar.finish_and_clear();
    Ok(found)
}

/// On stderr, and only on a terminal.
fn bar(steps: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:40} {pos} of {len} parts of the metadata, {eta} left");
    ProgressBar::new(steps).with_style(style.expect("the template is sound"))
}

/// Looks at some drives at once. What was found is told in their order.
fn at_once(
    homes: &mut [Home],
    most: usize,
    bar: &ProgressBar,
    found: &mut Found,
    look: impl Fn(&mut Home, &mut Found) + Sync,
) {
    for some in homes.chunks_mut(most) {
        let of_each = std::thread::scope(|scope| {
            let look = |home| {
                let look = &look;
                scope.spawn(move || {
                    let mut found = Found::default();
                    look(home, &mut found);
                    bar.inc(1);
                    found
                })
            };
            let threads: Vec<_> = some.iter_mut().map(look).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|found| found.expect("looking at a drive ends")).collect::<Vec<_>>()
        });
        for of_one in of_each {
            found.notes.extend(of_one.notes);
            found.bad.extend(of_one.bad);
        }
    }
}

/// What a drive keeps beside its own superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Nothing,
    /// A home of the metadata that every commit writes.
    First,
    /// The one that follows.
    Replica,
}

fn keeps(superblock: &Superblock) -> Keeps {
    let roles: Vec<Role> = superblock.members.iter().map(|member| member.role).collect();
    let own = usize::from(superblock.index);
    let ssds = roles.iter().filter(|role| **role == Role::Ssd).count();
    let first_hdd = roles.iter().position(|role| *role == Role::Hdd);
    let follows = ssds == 1 || superblock.has_metadata_replica;
    match (roles.get(own), ssds) {
        (Some(Role::Ssd), _) => Keeps::First,
        (Some(Role::Hdd), 0) if first_hdd == Some(own) => Keeps::First,
        (Some(Role::Hdd), _) if first_hdd == Some(own) && follows => Keeps::Replica,
        _ => Keeps::Nothing,
    }
}

fn superblock(
    device: &PoolDevice,
    part: &Part,
    last: u64,
    found: &mut Found,
) -> Option<Superblock> {
    let copy = |block: u64| {
        let bytes = part.read(block * BLOCK_BYTES, BLOCK_BYTES).ok()?;
        Superblock::decode(&bytes).ok()
    };
    let copies = [copy(0), copy(last)];
    let missing = copies.iter().any(Option::is_none);
    let newest = copies.into_iter().flatten().max_by_key(|copy| copy.generation);
    if newest.is_some() && missing {
        found.notes.push(format!(
            "{}: one of its two superblocks is damaged; the next start writes it anew",
            device.label()
        ));
    }
    newest
}

/// A device's own bytes: those of a drive, or of the leg of a pair that is ahead.
struct Part {
    file: File,
    /// Where they begin.
    base: u64,
}

impl Part {
    fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, self.base + offset)?;
        Ok(bytes)
    }
}

/// The leg that is right about the pair's metadata; `None` if neither says so: the start says why.
fn leader(first: &Path, second: &PoolDevice) -> Option<Part> {
    let Backing::Path(second) = &second.backing else { return None };
    let legs = [first, second].map(|path| File::open(path).ok());
    let newest = |file: &File| {
        let slot = |slot: u64| {
            let mut bytes = vec![0; pair::RECORD_BYTES as usize];
            file.read_exact_at(&mut bytes, slot * pair::RECORD_BYTES).ok()?;
            PairRecord::decode(&bytes).ok()
        };
        (0..2).filter_map(slot).max_by_key(|record| record.sequence)
    };
    let records = legs.iter().flatten().filter_map(newest);
    let ahead = records.max_by_key(|record| record.sequence)?.ahead;
    let [first, second] = legs;
    let file = if ahead == 0 { first } else { second };
    Some(Part { file: file?, base: pair::HEADER_BYTES })
}

impl Home {
    /// The newest checkpoint: roots, the table of objects, the map.
    fn checkpoint(&mut self, found: &mut Found) {
        match self.roots(found) {
            Ok(root) => self.root = root,
            Err(error) => self.unreadable("checkpoint roots", &error, found),
        }
        if let Err(error) = self.table(found) {
            self.unreadable("table of objects", &error, found);
        }
        if let Err(error) = self.pages(found) {
            self.unreadable("map pages", &error, found);
        }
    }

    fn bad(&self, part: String, offset: u64, error: impl ToString) -> BadMetadata {
        let (device, error) = (self.label.clone(), error.to_string());
        BadMetadata { device, part, device_offset_bytes: offset, error }
    }

    /// The drive answers with an error; what lies behind it was not looked at.
    fn unreadable(&self, part: &str, error: &io::Error, found: &mut Found) {
        found.bad.push(self.bad(part.into(), 0, error));
    }

    /// The newer of the two roots.
    fn roots(&self, found: &mut Found) -> io::Result<Option<Root>> {
        let (layout, pool) = (&self.superblock.layout, self.superblock.pool);
        let mut sound = Vec::new();
        let mut damaged = false;
        for copy in 0..2 {
            let bytes =
                self.part.read(layout.root_offset + copy * layout.root_bytes, layout.root_bytes)?;
            match Root::decode(&bytes, pool) {
                Ok(root) => sound.push(root),
                // another pool's, or nothing: never written
                Err(FormatError::Magic { .. }) => {}
                Err(_) => damaged = true,
            }
        }
        let newest = sound.into_iter().max_by_key(|root| root.checkpoint);
        if damaged && newest.is_some() {
            found.notes.push(format!(
                "{}: one of its two checkpoint roots is damaged; checkpoints write it anew",
                self.label
            ));
        } else if damaged {
            let error = "neither copy can be read; another home's is used where there is one";
            found.bad.push(self.bad("checkpoint roots".into(), layout.root_offset, error));
        }
        Ok(newest)
    }

    /// Every page of the table of objects that the root names.
    fn table(&self, found: &mut Found) -> io::Result<()> {
        let Some(named) = self.root.as_ref().and_then(|root| root.image) else { return Ok(()) };
        let layout = &self.superblock.layout;
        let begin = layout.table_offset + u64::from(named.area) * layout.table_bytes;
        for index in 0..named.pages.min(layout.table_pages() as u32) {
            let offset = begin + u64::from(index) * IMAGE_PAGE_BYTES;
            let bytes = self.part.read(offset, IMAGE_PAGE_BYTES)?;
            let page = image::decode(&bytes, self.superblock.pool, named.generation, index);
            if let Err(error) = page {
                let part = format!("page {index} of the table of objects");
                found.bad.push(self.bad(part, offset, error));
            }
        }
        Ok(())
    }

    /// Every page of the map that the root names, and the pages of pointers above them.
    fn pages(&self, found: &mut Found) -> io::Result<()> {
        let Some(root) = &self.root else { return Ok(()) };
        let (layout, pool) = (&self.superblock.layout, self.superblock.pool);
        let mut seen = vec![0u64; usize::try_from(layout.area_pages.div_ceil(64)).unwrap_or(0)];
        let mut is_first = |page: u64| {
            let word = &mut seen[(page / 64) as usize];
            let before = std::mem::replace(word, *word | 1 << (page % 64));
            before >> (page % 64) & 1 == 0
        };
        let named = |level, index| PageName { pool, table: MAP_TABLE, level, index };
        let tops = (0..).zip(root.map.top.iter().copied());
        let levels = root.map.levels();
        let tops = tops.map(|(index, top)| (named(levels, index), top));
        // a level after the other, each in the order in which its pages lie
        let mut wanted: VecDeque<_> = by_page(tops.collect()).into();
        let mut next = Vec::new();
        loop {
            if wanted.is_empty() {
                wanted = by_page(std::mem::take(&mut next)).into();
            }
            let Some((name, pointer)) = wanted.pop_front() else { break };
            if pointer.kind == Kind::AtHome && name.level > 0 {
                let error = "it says that a page of pointers lies at home";
                found.bad.push(self.bad(part_of(name), layout.area_offset, error));
            }
            let Some(page) = pointer.page() else { continue };
            let offset = layout.area_offset.saturating_add(page.saturating_mul(PAGE_BYTES));
            let is_leaf = name.level == 0;
            if page >= layout.area_pages
                || (pointer.kind == Kind::Leaf) != is_leaf
                || is_leaf && name.index >= root.map.leaves
                || !is_first(page)
            {
                found.bad.push(self.bad(part_of(name), offset, "it is named where none can be"));
                continue;
            }
            let bytes = self.part.read(offset, PAGE_BYTES)?;
            if name.crc(&bytes) != pointer.crc {
                found.bad.push(self.bad(part_of(name), offset, what_is_lost(name)));
                continue;
            }
            if is_leaf {
                continue;
            }
            match pointer::decode(&bytes) {
                Ok(below) => {
                    let below = (name.index * POINTERS as u64..).zip(below);
                    let named = |(index, below)| (named(name.level - 1, index), below);
                    next.extend(below.map(named).filter(|(_, below)| below.kind != Kind::Nothing));
                }
                Err(error) => found.bad.push(self.bad(part_of(name), offset, error)),
            }
        }
        Ok(())
    }

    /// The units behind the root: the first that cannot be read must not have been whole once.
    fn journal(&self, root: &Root, found: &mut Found) -> io::Result<()> {
        let (layout, pool) = (&self.superblock.layout, self.superblock.pool);
        let ring = self.part.read(layout.journal_offset, layout.journal_bytes)?;
        let Ok(mut at) = usize::try_from(root.replay_offset) else { return Ok(()) };
        let mut sequence = root.replay_sequence;
        let decode = |from: usize, sequence: u64| {
            let unit = Unit::decode(ring.get(from..)?, pool).ok()?;
            let end = from + unit::disk_bytes(unit.body.len());
            (unit.sequence == sequence && end <= ring.len()).then_some(end)
        };
        while let Some(end) = decode(at, sequence).or_else(|| decode(0, sequence)) {
            at = if end == ring.len() { 0 } else { end };
            sequence += 1;
        }
        let damaged = [at, 0].into_iter().find(|&from| {
            ring.get(from..).is_some_and(|bytes| unit::is_damaged(bytes, pool, sequence))
        });
        // the metadata replica may have been cut off while it caught up: units may lie behind a gap there
        let follows = keeps(&self.superblock) == Keeps::Replica;
        let later = !follows
            && (0..ring.len()).step_by(BLOCK_BYTES as usize).any(|from| {
                Unit::decode(&ring[from..], pool).is_ok_and(|unit| unit.sequence > sequence)
            });
        if damaged.is_some() || later {
            let offset = layout.journal_offset + damaged.unwrap_or(at) as u64;
            let error = "it was written and cannot be read now";
            found.bad.push(self.bad(format!("journal unit {sequence}"), offset, error));
        }
        Ok(())
    }
}

/// Pointers in the order of their pages.
fn by_page(mut pointers: Vec<(PageName, Pointer)>) -> Vec<(PageName, Pointer)> {
    pointers.sort_by_key(|(_, pointer)| pointer.page);
    pointers
}

/// What a page of the map is called.
fn part_of(name: PageName) -> String {
    if name.level > 0 {
        return format!("page {} of pointers to the map, level {}", name.index, name.level);
    }
    match MapLeaf::of_leaf(name.index) {
        (group, MapLeaf::Checksums) => format!("checksum page {group}"),
        (group, MapLeaf::Places(0)) => format!("map page {group}"),
        (group, MapLeaf::Places(page)) => format!("map page {group}, part {}", page + 1),
    }
}

/// What nobody knows if it cannot be read anywhere.
fn what_is_lost(name: PageName) -> &'static str {
    match (name.level, MapLeaf::of_leaf(name.index).1) {
        (0, MapLeaf::Checksums) => "it cannot be read: its homes cannot be verified",
        _ => "it cannot be read: it says where blocks lie",
    }
}

/// What the user reads, and what he does about it.
pub(super) fn describe(bad: &[BadMetadata], out: &mut String) {
    for bad in bad {
        out.push_str(&format!(
            "  {}: {} at byte {}: {}\n",
            bad.device, bad.part, bad.device_offset_bytes, bad.error
        ));
    }
    if !bad.is_empty() {
        out.push_str(
            "  Metadata has a metadata replica where there are two SSDs, or an SSD and a hard drive. If the \
             pool can be served, let it run until a checkpoint has written these parts anew, and \
             check again; a drive with more of them should be replaced.\n",
        );
    }
}
