//! How does a start read where the blocks of each group live?
//!
//! The pages of pointers are in memory by then. Leaves are read in the order in which they lie on the drive, and pages
//! that lie close together at once. A group of which a page
//! is missing there, or damaged, is read page by page: each page is asked of every home of the metadata in turn, since
//! it lies at the same place there.

use crate::format::leaf::LeafImage;
use crate::format::pointer::{Kind, MapLeaf, PAGE_BYTES, Pointer};
use crate::io::DeviceIo;
use crate::map::checkpoint::Recovered;
use crate::owner::{Owner, StartIo};
use crate::pages::Pages;
use crate::port::IoOp;
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
    pub(super) fn advance(
        &mut self,
        first: DeviceId,
        (outstanding, most): (&mut u32, u32),
        table: &Pages,
        recovered: &mut Recovered,
        io: &mut DeviceIo,
    ) -> bool {
        while *outstanding < most {
            let read = match self.alone.pop() {
                Some(alone) => Read::Alone(alone),
                None => match self.next_run(table, recovered) {
                    Some(run) => Read::Run(run),
                    None => return *outstanding == 0,
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
        false
    }

    /// Groups that have a page, the first page last. Those that lie at home are taken over.
    fn groups_by_page(table: &Pages, recovered: &mut Recovered) -> Vec<(u64, u64)> {
        let (mut found, mut from) = (Vec::new(), 0);
        while let Some(leaf) = table.next_leaf(from) {
            from = leaf + 1;
            let pointer = table.leaf(leaf);
            match (MapLeaf::of_leaf(leaf), pointer.kind) {
                ((group, MapLeaf::Places(0)), Kind::AtHome) => recovered.group_at_home(group),
                ((group, MapLeaf::Places(0)), _) => found.push((pointer.page, group)),
                _ => {}
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found
    }

    fn next_run(&mut self, table: &Pages, recovered: &mut Recovered) -> Option<Run> {
        let groups = self.groups.get_or_insert_with(|| Self::groups_by_page(table, recovered));
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
        table: &Pages,
        recovered: &mut Recovered,
        io: &mut DeviceIo,
    ) -> Result<bool, String> {
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
                        Some(places) => take(group, &places, recovered)?,
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
                            take(alone.group, &alone.bytes, recovered)?;
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

fn take(group: u64, bytes: &[u8], recovered: &mut Recovered) -> Result<(), String> {
    let wrong = |why: String| format!("the places of group {group} of the map: {why}");
    let image = LeafImage::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    if recovered.group(group, &image) {
        Ok(())
    } else {
        Err(wrong("it names blocks or slots that do not exist".into()))
    }
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
    use crate::map::{NONE, SlotRegion};
    use crate::pages::Counts;
    use std::collections::BTreeMap;

    const BLOCKS: u64 = 40 * 1024;
    const SLOTS: u64 = 30_000;

    fn recovered() -> Recovered {
        let region = SlotRegion::new(DeviceId(0), false, SLOTS, 0);
        Recovered::new(&[region], BLOCKS as usize, true)
    }

    /// A table with groups of one page and of three, and its pages: those of later groups lie apart.
    fn written() -> (Pages, BTreeMap<u64, Vec<u8>>) {
        let mut table = Pages::new(7, MAP_TABLE, leaves_of(groups_of(BLOCKS)), 200);
        let mut area = BTreeMap::new();
        table.begin();
        for group in (0..40).rev().chain([3, 4, 5]) {
            let slots: u64 = match group % 4 {
                0 => 600,
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
                slots: (0..slots).map(|slot| (group * 700 + slot % 700, group as u32)).collect(),
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
        let (mut io, mut reads, mut found) = (drives(2, 1), LeafReads::default(), recovered());
        let (mut outstanding, mut asked) = (0, 0);
        for (layout, _) in [0u8, 1].map(|id| (DeviceId(id), ())) {
            (io[layout].layout.area_offset, io[layout].layout.area_pages) = (0, 200);
        }
        while !reads.advance(DeviceId(0), (&mut outstanding, 16), &table, &mut found, &mut io) {
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
                if !reads.read_done(ended, &table, &mut found, &mut io)? {
                    break;
                }
                device = DeviceId(1);
            }
            outstanding -= 1;
        }
        let mut map = crate::map::Map::new(
            vec![SlotRegion::new(DeviceId(0), false, SLOTS, 0)],
            BLOCKS as usize,
            1,
        );
        let _contradicts = found.install(&mut map);
        assert!(map.entry(3 * 1024 + 5).home && map.entry(2 * 1024 + 2).ssd == 1402);
        assert_eq!(map.entry(2 * 1024 + 3).ssd, NONE);
        Ok((asked, reads.mended()))
    }

    #[test]
    fn pages_that_lie_close_together_are_read_at_once() {
        let (asked, mended) = read(|_, _| false).expect("all is sound");
        assert!(mended.is_empty());
        assert!((5..30).contains(&asked), "{asked} reads of 30 groups with 60 pages");
    }

    /// A home that gives no answer costs one wait for each read under way, and no more.
    #[test]
    fn a_home_that_gives_no_answer_is_not_asked_first_again() {
        let (table, area) = written();
        let (mut io, mut reads, mut found) = (drives(2, 1), LeafReads::default(), recovered());
        for id in [DeviceId(0), DeviceId(1)] {
            (io[id].layout.area_offset, io[id].layout.area_pages) = (0, 200);
        }
        let (mut outstanding, mut silent) = (0, 0);
        loop {
            let first = DeviceId(u8::from(reads.is_silent(DeviceId(0))));
            if reads.advance(first, (&mut outstanding, 2), &table, &mut found, &mut io) {
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
                let is_asked = reads.read_done(ended, &table, &mut found, &mut io);
                assert_eq!(is_asked, Ok(true), "the other one is asked");
            }
            let is_asked =
                reads.read_done(end(DeviceId(1), Ok(&bytes)), &table, &mut found, &mut io);
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
