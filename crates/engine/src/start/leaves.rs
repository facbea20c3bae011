//! How does a start read where the blocks of each group live?
//!
//! The pages of pointers are in memory by then. Pages that lie close together are read at once. A group of which a page
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
    /// Leaves before this one were asked for.
    next: u64,
    alone: Vec<Alone>,
    /// What is being read. A tag is a place here.
    under_way: Vec<Option<Read>>,
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
    /// The home that is asked behind this one, if there is another.
    pub(super) next: Option<DeviceId>,
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
            self.under_way[tag] = Some(read);
            ask(first, (page, pages), tag as u64, io);
            *outstanding += 1;
        }
        false
    }

    /// The next group that has pages. Those before it that lie at home are taken over.
    fn next_group(&mut self, table: &Pages, recovered: &mut Recovered) -> Option<u64> {
        while let Some(leaf) = table.next_leaf(self.next) {
            self.next = leaf + 1;
            let (group, part) = MapLeaf::of_leaf(leaf);
            match (part, table.leaf(leaf).kind) {
                (MapLeaf::Places(0), Kind::AtHome) => recovered.group_at_home(group),
                (MapLeaf::Places(0), _) => return Some(group),
                _ => {}
            }
        }
        None
    }

    fn next_run(&mut self, table: &Pages, recovered: &mut Recovered) -> Option<Run> {
        let mut run: Option<Run> = None;
        loop {
            let before = self.next;
            let Some(group) = self.next_group(table, recovered) else { return run };
            let pages = table.places(group);
            let first = pages[0].1.page;
            let known =
                run.get_or_insert_with(|| Run { first_page: first, pages: 1, groups: Vec::new() });
            let within =
                |page: u64| (known.first_page..known.first_page + RUN_PAGES_MAX).contains(&page);
            if !within(first) {
                self.next = before;
                return run;
            }
            let behind = pages.iter().map(|(_, pointer)| pointer.page).filter(|&page| within(page));
            let last = behind.max().expect("its first page is");
            known.pages = known.pages.max(last + 1 - known.first_page);
            known.groups.push(group);
        }
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
        match place.take().expect("what comes was asked for") {
            // a drive that gives no bytes is not asked for each of them
            Read::Run(run) if ended.read.is_err() && ended.next.is_some() => {
                let next = ended.next.expect("asked above");
                self.mended.extend_from_slice(&run.groups);
                ask(next, (run.first_page, run.pages), ended.tag, io);
                self.under_way[ended.tag as usize] = Some(Read::Run(run));
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
                match (read, ended.next) {
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
                        self.under_way[ended.tag as usize] = Some(Read::Alone(alone));
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
        let region = SlotRegion {
            device: DeviceId(0),
            is_log: false,
            first: 0,
            count: SLOTS,
            offset_bytes: 0,
        };
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
                let (page, pages) = match reads.under_way[tag].as_ref().unwrap() {
                    Read::Run(run) => (run.first_page, run.pages),
                    Read::Alone(alone) => (alone.wanted(&table).1.page, 1),
                };
                let mut bytes = Vec::new();
                for page in page..page + pages {
                    let mut one = area.get(&page).cloned().unwrap_or(vec![0; 4096]);
                    one[77] ^= u8::from(damaged(page, device.0));
                    bytes.extend_from_slice(&one);
                }
                let next = (device.0 == 0).then_some(DeviceId(1));
                let ended = PageEnded { device, tag: tag as u64, read: Ok(&bytes), next };
                if !reads.read_done(ended, &table, &mut found, &mut io)? {
                    break;
                }
                device = DeviceId(1);
            }
            outstanding -= 1;
        }
        let mut map = crate::map::Map::new(
            vec![SlotRegion {
                device: DeviceId(0),
                is_log: false,
                first: 0,
                count: SLOTS,
                offset_bytes: 0,
            }],
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
            let Some(Read::Run(run)) = reads.under_way[tag].clone() else { panic!("all is sound") };
            let pages = run.first_page..run.first_page + run.pages;
            let bytes: Vec<u8> =
                pages.flat_map(|page| area.get(&page).cloned().unwrap_or(vec![0; 4096])).collect();
            // what was asked of the first one before anybody knew
            let tag = tag as u64;
            if silent < 2 {
                silent += 1;
                let (device, next) = (DeviceId(0), Some(DeviceId(1)));
                let ended = PageEnded { device, tag, read: Err(IoError::NoAnswer(device)), next };
                assert!(
                    reads
                        .read_done(ended, &table, &mut found, &mut io)
                        .expect("the other one is asked")
                );
            }
            let ended = PageEnded { device: DeviceId(1), tag, read: Ok(&bytes), next: None };
            assert!(!reads.read_done(ended, &table, &mut found, &mut io).expect("it is sound"));
            outstanding -= 1;
        }
        assert!(reads.is_silent(DeviceId(0)) && !reads.is_silent(DeviceId(1)));
        assert!(!reads.mended().is_empty(), "nobody knows what the first one has");
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
