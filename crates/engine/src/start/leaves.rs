//! How does a start read where the blocks of each group live?
//!
//! The pages of pointers are in memory by then. Leaves are read in the order in which they lie on the drive, and pages
//! that lie close together at once. A group of which a page
//! is missing there, or damaged, is read page by page: each page is asked of every home of the metadata in turn, since
//! it lies at the same place there.

use crate::format::leaf::LeafImage;
use crate::format::pointer::{Kind, MapLeaf, PAGE_BYTES, Pointer};
use crate::io::DeviceIo;
use crate::map::recovered::{Recovered, Recovery};
use crate::owner::{Owner, StartIo};
use crate::pages::Pages;
use crate::port::IoOp;
use crate::store::Store;
use tandem_block::{DeviceId, IoError};

/// Pages that one read asks for at most.
const RUN_PAGES_MAX: u64 = 16;

/// Groups whose pages lie close together.
#[derive(Clone, Debug)]
struct Run {
    first_page: u64,
    pages: u64,
    groups: Vec<u64>,
}

/// A group that is read page by page.
#[derive(Clone, Debug)]
struct Alone {
    group: u64,
    /// The pages so far.
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Read {
    Run(Run),
    Alone(Alone),
}

/// The leaves that a start reads.
#[derive(Clone, Debug, Default)]
pub(super) struct LeafReads {
    /// Groups that have a page, with the first one: the last of them is next. None: nobody has looked.
    groups: Option<Vec<(u64, u64)>>,
    alone: Vec<Alone>,
    /// What is being read, and which home was asked for it first. A tag is a place here.
    under_way: Vec<Option<(Read, DeviceId)>>,
    /// Groups of which a page was sound on another home alone.
    mended: Vec<u64>,
    /// A home that gave no answer. It is not asked first any more.
    silent: Option<DeviceId>,
}

/// Where leaves go, and what records say over them.
pub(super) struct Into<'a> {
    table: &'a Pages,
    recovery: Recovery<'a>,
}

impl<'a> Into<'a> {
    /// The map and the table of the store.
    pub(super) fn of(recovered: &'a Recovered, store: &'a mut Store) -> Self {
        let has_homes = store.checksums.homes() > 0;
        let recovery = Recovery::new(&mut store.map, recovered, has_homes);
        Into { table: store.checksums.table(), recovery }
    }

    /// Groups that have a page, the first page last. Those that have none are taken over: all their blocks lie at home,
    /// or where records say.
    fn groups_by_page(&mut self) -> Result<Vec<(u64, u64)>, String> {
        assert!(self.recovery.has_no_slot(), "leaves go into an empty map");
        let (mut found, mut from) = (Vec::new(), 0);
        // groups that follow each other become homes at once, and take no memory where they are many
        let mut at_home = 0..0;
        while let Some(leaf) = self.table.next_leaf(from) {
            from = leaf + 1;
            let pointer = self.table.leaf(leaf);
            match (MapLeaf::of_leaf(leaf), pointer.kind) {
                ((group, MapLeaf::Places(0)), Kind::AtHome) => {
                    if self.recovery.next_group(group) == Some(group) {
                        let taken = self.recovery.group_at_home(group);
                        taken.map_err(|why| wrong(group, &why))?;
                    } else if at_home.end == group {
                        at_home.end = group + 1;
                    } else {
                        self.recovery.at_home(&at_home)?;
                        at_home = group..group + 1;
                    }
                }
                ((group, MapLeaf::Places(0)), _) => found.push((pointer.page, group)),
                _ => {}
            }
        }
        self.recovery.at_home(&at_home)?;
        let mut from = 0;
        while let Some(group) = self.recovery.next_group(from) {
            from = group + 1;
            if self.table.leaf(MapLeaf::Places(0).leaf(group)).kind == Kind::Nothing {
                self.recover(group, &LeafImage::default())?;
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        Ok(found)
    }

    fn take(&mut self, group: u64, bytes: &[u8]) -> Result<(), String> {
        match LeafImage::decode(bytes) {
            Ok(image) => self.recover(group, &image),
            Err(error) => Err(wrong(group, &error.to_string())),
        }
    }

    fn recover(&mut self, group: u64, image: &LeafImage) -> Result<(), String> {
        self.recovery.group(group, image).map_err(|why| wrong(group, &why))
    }
}

fn wrong(group: u64, why: &str) -> String {
    format!("the places of group {group} of the map: {why}")
}

/// Where a page was read, and what came.
pub(super) struct PageEnded<'a> {
    pub(super) device: DeviceId,
    pub(super) tag: u64,
    pub(super) read: Result<&'a [u8], IoError>,
    /// All homes that have the leaves, in the order in which they are asked.
    pub(super) homes: &'a [DeviceId],
}

impl PageEnded<'_> {
    /// The home that is asked behind this one, unless all were. `first`: who was asked first.
    fn next(&self, first: DeviceId) -> Option<DeviceId> {
        let at = self.homes.iter().position(|&home| home == self.device)?;
        Some(self.homes[(at + 1) % self.homes.len()]).filter(|&next| next != first)
    }
}

impl LeafReads {
    /// Asks for leaves, until so many reads are under way as `outstanding` may have at most. True: all were read.
    /// `first`: the home that is asked first.
    ///
    /// # Errors
    /// Words, if records and leaves contradict each other.
    pub(super) fn advance(
        &mut self,
        first: DeviceId,
        (outstanding, most): (&mut u32, u32),
        into: &mut Into<'_>,
        io: &mut DeviceIo,
    ) -> Result<bool, String> {
        if self.groups.is_none() {
            self.groups = Some(into.groups_by_page()?);
        }
        let table = into.table;
        while *outstanding < most {
            let read = match self.alone.pop() {
                Some(alone) => Read::Alone(alone),
                None => match self.next_run(table) {
                    Some(run) => Read::Run(run),
                    None => return Ok(*outstanding == 0),
                },
            };
            let (page, pages) = match &read {
                Read::Run(run) => (run.first_page, run.pages),
                Read::Alone(alone) => (alone.wanted(table).1.page, 1),
            };
            let free = self.under_way.iter().position(Option::is_none);
            let tag = free.unwrap_or_else(|| {
                self.under_way.push(None);
                self.under_way.len() - 1
            });
            self.under_way[tag] = Some((read, first));
            ask(first, (page, pages), tag as u64, io);
            *outstanding += 1;
        }
        Ok(false)
    }

    fn next_run(&mut self, table: &Pages) -> Option<Run> {
        let groups = self.groups.as_mut().expect("looked for before");
        let &(first_page, _) = groups.last()?;
        let within = |page: u64| (first_page..first_page + RUN_PAGES_MAX).contains(&page);
        let mut run = Run { first_page, pages: 1, groups: Vec::new() };
        while let Some(&(_, group)) = groups.last().filter(|(page, _)| within(*page)) {
            let pages = table.places(group);
            // one that ends behind the run begins the next one
            if !run.groups.is_empty() && !pages.iter().all(|(_, pointer)| within(pointer.page)) {
                break;
            }
            groups.pop();
            let behind = pages.iter().map(|(_, pointer)| pointer.page).filter(|&page| within(page));
            let last = behind.max().expect("its first page is");
            run.pages = run.pages.max(last + 1 - first_page);
            run.groups.push(group);
        }
        Some(run)
    }

    /// A read has ended. True: another one was sent for it.
    ///
    /// # Errors
    /// Words, if nobody can read a page, or it says what no pool writes.
    pub(super) fn read_done(
        &mut self,
        ended: PageEnded<'_>,
        into: &mut Into<'_>,
        io: &mut DeviceIo,
    ) -> Result<bool, String> {
        let table = into.table;
        if matches!(ended.read, Err(IoError::NoAnswer(_) | IoError::Dead(_))) {
            self.silent = Some(ended.device);
        }
        let place = &mut self.under_way[ended.tag as usize];
        let (read, first) = place.take().expect("what comes was asked for");
        let next = ended.next(first);
        match read {
            // a drive that gives no bytes is not asked for each of them
            Read::Run(run) if ended.read.is_err() && next.is_some() => {
                let next = next.expect("asked above");
                self.mended.extend_from_slice(&run.groups);
                ask(next, (run.first_page, run.pages), ended.tag, io);
                self.under_way[ended.tag as usize] = Some((Read::Run(run), first));
                Ok(true)
            }
            Read::Run(run) => {
                let bytes = ended.read.unwrap_or_default();
                for &group in &run.groups {
                    match assemble(group, &run, bytes, table) {
                        Some(places) => into.take(group, &places)?,
                        None => self.alone.push(Alone { group, bytes: Vec::new() }),
                    }
                }
                Ok(false)
            }
            Read::Alone(mut alone) => {
                let (leaf, wanted) = alone.wanted(table);
                let read = ended.read.map_err(|error| error.to_string()).and_then(|bytes| {
                    let checked = table.check_leaf(leaf, bytes);
                    checked.map(|()| bytes).map_err(|error| error.to_string())
                });
                match (read, next) {
                    (Ok(bytes), _) => {
                        alone.bytes.extend_from_slice(bytes);
                        if alone.is_whole(table) {
                            into.take(alone.group, &alone.bytes)?;
                        } else {
                            self.alone.push(alone);
                        }
                        Ok(false)
                    }
                    (Err(_), Some(next)) => {
                        self.mended.push(alone.group);
                        self.under_way[ended.tag as usize] = Some((Read::Alone(alone), first));
                        ask(next, (wanted.page, 1), ended.tag, io);
                        Ok(true)
                    }
                    (Err(why), None) => Err(format!(
                        "page {} of the map on device {}: {why}: where its blocks lie is lost",
                        wanted.page, ended.device.0
                    )),
                }
            }
        }
    }

    /// Is this a home that gave no answer?
    pub(super) fn is_silent(&self, device: DeviceId) -> bool {
        self.silent == Some(device)
    }

    /// Groups that some home of the metadata lacks: the next checkpoint writes them anew.
    pub(super) fn mended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.mended)
    }
}

impl Alone {
    /// The page that is next.
    fn wanted(&self, table: &Pages) -> (u64, Pointer) {
        table.places(self.group)[self.bytes.len() / PAGE_BYTES as usize]
    }

    fn is_whole(&self, table: &Pages) -> bool {
        self.bytes.len() == table.places(self.group).len() * PAGE_BYTES as usize
    }
}

/// The pages of a group, if all of them were read, and are sound.
fn assemble(group: u64, run: &Run, bytes: &[u8], table: &Pages) -> Option<Vec<u8>> {
    let mut places = Vec::new();
    for (leaf, pointer) in table.places(group) {
        let at = pointer.page.checked_sub(run.first_page)? * PAGE_BYTES;
        let page = bytes.get(at as usize..(at + PAGE_BYTES) as usize)?;
        table.check_leaf(leaf, page).ok()?;
        places.extend_from_slice(page);
    }
    Some(places)
}

fn ask(device: DeviceId, (page, pages): (u64, u64), tag: u64, io: &mut DeviceIo) {
    let layout = &io[device].layout;
    let pages = pages.min(layout.area_pages.saturating_sub(page));
    assert!(pages > 0, "a page lies among the pages");
    let offset_bytes = layout.area_offset + page * PAGE_BYTES;
    let op = IoOp::ReadMeta { offset_bytes, length_bytes: pages * PAGE_BYTES };
    io.submit(device, op, Owner::Start(StartIo::Read(tag)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::{MAP_TABLE, groups_of, leaves_of};
    use crate::io::fixture::drives;
    use crate::map::{Map, NONE, SlotRegion};
    use crate::pages::Counts;
    use std::collections::BTreeMap;

    const BLOCKS: u64 = 40 * 1024;
    const SLOTS: u64 = BLOCKS;

    fn empty() -> Map {
        Map::new(vec![SlotRegion::new(DeviceId(0), false, SLOTS, 0)], BLOCKS as usize, 1)
    }

    fn recovery<'a>(map: &'a mut Map, recovered: &'a Recovered) -> Recovery<'a> {
        Recovery::new(map, recovered, true)
    }

    /// A table with groups of one page and of two, and its pages: those of later groups lie apart.
    fn written() -> (Pages, BTreeMap<u64, Vec<u8>>) {
        let mut table = Pages::new(7, MAP_TABLE, leaves_of(groups_of(BLOCKS)), 200);
        let mut area = BTreeMap::new();
        table.begin();
        for group in (0..40).rev().chain([3, 4, 5]) {
            let slots: u64 = match group % 4 {
                0 => 900,
                1 => 1024,
                2 => 3,
                _ => 0,
            };
            let bits = |word: usize| match slots.saturating_sub(64 * word as u64) {
                0 => 0,
                left @ 1..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
            let image = LeafImage {
                homes: [if slots == 0 { u64::MAX } else { 1 }; 16],
                placed: std::array::from_fn(bits),
                slots: (0..slots).map(|slot| group * 1024 + slot).collect(),
                ..LeafImage::default()
            };
            let image = (image, Counts::default());
            let writes = table.write_places(group, &image, 1024).expect("there is room");
            table.leaves_written();
            area.extend(writes.into_iter().map(|write| (write.page, write.bytes)));
        }
        while table.write_pointers().expect("there is room").is_some() {}
        table.durable();
        (table, area)
    }

    /// Reads all of it. `damaged`: a page is so, on this home. Returns reads, and groups that were mended.
    fn read(damaged: impl Fn(u64, u8) -> bool) -> Result<(u32, Vec<u64>), String> {
        let (table, area) = written();
        let (mut io, mut reads, mut map) = (drives(2, 1), LeafReads::default(), empty());
        let recovered = Recovered::nothing();
        let (mut outstanding, mut asked) = (0, 0);
        for (layout, _) in [0u8, 1].map(|id| (DeviceId(id), ())) {
            (io[layout].layout.area_offset, io[layout].layout.area_pages) = (0, 200);
        }
        let mut into = Into { table: &table, recovery: recovery(&mut map, &recovered) };
        while !reads.advance(DeviceId(0), (&mut outstanding, 16), &mut into, &mut io)? {
            let under_way = reads.under_way.iter().position(Option::is_some);
            let tag = under_way.expect("something is being read");
            let mut device = DeviceId(0);
            loop {
                asked += 1;
                let (page, pages) = match &reads.under_way[tag].as_ref().unwrap().0 {
                    Read::Run(run) => (run.first_page, run.pages),
                    Read::Alone(alone) => (alone.wanted(&table).1.page, 1),
                };
                let mut bytes = Vec::new();
                for page in page..page + pages {
                    let mut one = area.get(&page).cloned().unwrap_or(vec![0; 4096]);
                    one[77] ^= u8::from(damaged(page, device.0));
                    bytes.extend_from_slice(&one);
                }
                let homes = &[DeviceId(0), DeviceId(1)];
                let ended = PageEnded { device, tag: tag as u64, read: Ok(&bytes), homes };
                if !reads.read_done(ended, &mut into, &mut io)? {
                    break;
                }
                device = DeviceId(1);
            }
            outstanding -= 1;
        }
        assert!(map.entry(3 * 1024 + 5).home && map.entry(2 * 1024 + 2).ssd == 2050);
        assert_eq!(map.entry(2 * 1024 + 3).ssd, NONE);
        Ok((asked, reads.mended()))
    }

    #[test]
    fn pages_that_lie_close_together_are_read_at_once() {
        let (asked, mended) = read(|_, _| false).expect("all is sound");
        assert!(mended.is_empty());
        assert!((4..25).contains(&asked), "{asked} reads of 30 groups with 50 pages");
    }

    /// A home that gives no answer costs one wait for each read under way, and no more.
    #[test]
    fn a_home_that_gives_no_answer_is_not_asked_first_again() {
        let (table, area) = written();
        let (mut io, mut reads, mut map) = (drives(2, 1), LeafReads::default(), empty());
        let recovered = Recovered::nothing();
        for id in [DeviceId(0), DeviceId(1)] {
            (io[id].layout.area_offset, io[id].layout.area_pages) = (0, 200);
        }
        let (mut outstanding, mut silent) = (0, 0);
        loop {
            let first = DeviceId(u8::from(reads.is_silent(DeviceId(0))));
            let mut into = Into { table: &table, recovery: recovery(&mut map, &recovered) };
            if reads.advance(first, (&mut outstanding, 2), &mut into, &mut io) == Ok(true) {
                break;
            }
            let tag = reads.under_way.iter().position(Option::is_some).expect("it is being read");
            let Some((Read::Run(run), asked)) = reads.under_way[tag].clone() else {
                panic!("all is sound")
            };
            let pages = run.first_page..run.first_page + run.pages;
            let bytes: Vec<u8> =
                pages.flat_map(|page| area.get(&page).cloned().unwrap_or(vec![0; 4096])).collect();
            let (tag, homes) = (tag as u64, &[DeviceId(0), DeviceId(1)][..]);
            let end = |device, read| PageEnded { device, tag, read, homes };
            // what was asked of the first one before anybody knew
            if asked == DeviceId(0) {
                silent += 1;
                let ended = end(DeviceId(0), Err(IoError::NoAnswer(DeviceId(0))));
                let is_asked = reads.read_done(ended, &mut into, &mut io);
                assert_eq!(is_asked, Ok(true), "the other one is asked");
            }
            let is_asked = reads.read_done(end(DeviceId(1), Ok(&bytes)), &mut into, &mut io);
            assert_eq!(is_asked, Ok(false), "it is sound");
            outstanding -= 1;
        }
        assert!((1..=2).contains(&silent), "{silent} reads were under way when it was silent");
        assert!(reads.is_silent(DeviceId(0)) && !reads.is_silent(DeviceId(1)));
        assert!(!reads.mended().is_empty(), "nobody knows what the first one has");
    }

    #[test]
    fn every_home_is_asked_once_whoever_is_first() {
        let homes = &[DeviceId(0), DeviceId(1), DeviceId(2)];
        for (first, want) in [(0, [1, 2]), (1, [2, 0]), (2, [0, 1])] {
            let mut device = DeviceId(first);
            for next in want {
                let ended = PageEnded { device, tag: 0, read: Ok(&[]), homes };
                device = ended.next(DeviceId(first)).expect("not all were asked");
                assert_eq!(device, DeviceId(next));
            }
            let ended = PageEnded { device, tag: 0, read: Ok(&[]), homes };
            assert_eq!(ended.next(DeviceId(first)), None);
        }
    }

    #[test]
    fn a_page_that_is_damaged_is_asked_of_the_other_home() {
        let (table, _) = written();
        let wanted = table.places(5);
        for (_, pointer) in &wanted {
            let (_, mended) =
                read(|page, home| page == pointer.page && home == 0).expect("the other one has it");
            assert_eq!(mended, [5]);
            let lost = read(|page, _| page == pointer.page).expect_err("nobody has it");
            assert!(
                lost.contains(&format!("page {} of the map on device 1", pointer.page)),
                "{lost}"
            );
        }
    }
}
