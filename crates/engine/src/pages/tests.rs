//! Tables in pages: what a root names stays as it is, whatever fails and wherever the power is cut.

use super::*;
use crate::format::pointer::{MapLeaf, leaves_of, pages_of_levels};
use std::collections::BTreeMap;
use tandem_block::Rng;

const POOL: u128 = 77;
const PAGE: usize = PAGE_BYTES as usize;

/// Pages of an area for two tables of so many leaves.
fn area_pages(leaves: u64) -> u64 {
    2 * (leaves + pages_of_levels(leaves).iter().sum::<u64>()) + 16
}

/// The area of a drive, and what its two roots say.
#[derive(Clone, Default)]
struct Area {
    pages: BTreeMap<u64, Vec<u8>>,
    roots: Vec<Vec<Pointer>>,
}

impl Area {
    fn put(&mut self, write: &PageWrite) {
        self.pages.insert(write.page, write.bytes.clone());
    }

    fn get(&self, pointer: &Pointer) -> Vec<u8> {
        self.pages.get(&pointer.page).cloned().unwrap_or(vec![0; PAGE])
    }
}

/// What a start reads of a root: the table, and the bytes of its leaves.
fn read(
    area: &Area,
    top: &[Pointer],
    sizes: (u64, u64),
) -> Result<(Pages, BTreeMap<u64, Vec<u8>>), FormatError> {
    read_larger(area, (top, sizes.0), sizes)
}

/// … in a set that may have become larger since.
fn read_larger(
    area: &Area,
    (top, had): (&[Pointer], u64),
    (leaves, pages): (u64, u64),
) -> Result<(Pages, BTreeMap<u64, Vec<u8>>), FormatError> {
    let mut table = Pages::new(POOL, 1, leaves, pages);
    let root = TableRoot { leaves: had, top: top.to_vec() };
    let mut reading = Reading::begin(&mut table, &root)?;
    while let Some(wanted) = reading.next(&table) {
        let bytes = area.pages.get(&wanted.page).cloned().unwrap_or_default();
        reading.read(&mut table, wanted, &bytes)?;
    }
    reading.end(&mut table);
    assert_eq!(table.leaves(), leaves);
    let mut found = BTreeMap::new();
    for leaf in 0..leaves {
        let pointer = table.leaf(leaf);
        if pointer.kind == Kind::AtHome {
            found.insert(leaf, Vec::new());
        } else if pointer.kind != Kind::Nothing {
            let bytes = area.get(&pointer);
            table.check_leaf(leaf, &bytes)?;
            found.insert(leaf, bytes);
        }
    }
    Ok((table, found))
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    vec![rng.bits() as u8; PAGE]
}

/// Leaves and their bytes: none where all blocks lie at home.
type Content = BTreeMap<u64, Vec<u8>>;

/// Checkpoints that end well, fail at any step, or are cut off by the power. After each step the durable root
/// is whole. After a cut a start finds it, and goes on.
struct Lives {
    rng: Rng,
    /// Leaves, and pages of the area.
    sizes: (u64, u64),
    /// Two tables have room in the area.
    is_large: bool,
    table: Pages,
    area: Area,
    durable: Content,
}

impl Lives {
    fn new(seed: u64, sizes: (u64, u64), is_large: bool) -> Lives {
        let table = Pages::new(POOL, 1, sizes.0, sizes.1);
        let area = Area { roots: vec![table.top().to_vec()], ..Area::default() };
        Lives { rng: Rng::new(seed), sizes, is_large, table, area, durable: Content::new() }
    }

    /// Some leaves change: what there is then, and what is to be written, if all of it has room.
    fn change(&mut self) -> (Content, Vec<PageWrite>, bool) {
        let (rng, leaves) = (&mut self.rng, self.sizes.0);
        let (mut now, mut writes, mut has_room) = (self.durable.clone(), Vec::new(), true);
        let most = if rng.chance_ppm(200_000) { leaves } else { leaves.min(5) };
        let changed: BTreeSet<u64> = (0..rng.between(1, most)).map(|_| rng.below(leaves)).collect();
        for leaf in changed {
            if rng.chance_ppm(100_000) {
                let at_home = rng.chance_ppm(500_000);
                self.table.write_none(leaf, at_home);
                now.remove(&leaf);
                if at_home {
                    now.insert(leaf, Vec::new());
                }
                continue;
            }
            let content = bytes(rng);
            now.insert(leaf, content.clone());
            match self.table.write(leaf, content, Counts::default()) {
                Some(write) => writes.push(write),
                None => has_room = false,
            }
        }
        assert!(has_room || !self.is_large, "an area of two tables has room");
        (now, writes, has_room)
    }

    fn assert_durable(&self) -> Pages {
        let read = read(&self.area, &self.area.roots[0], self.sizes);
        let (table, found) = read.expect("the root is whole");
        assert_eq!(found, self.durable);
        table
    }

    /// Writes pages of pointers; true if all were.
    fn write_pointers(&mut self) -> bool {
        for written in 0.. {
            assert!(written <= self.sizes.0, "each page of pointers is written once");
            match self.table.write_pointers() {
                Ok(Some(write)) => self.area.put(&write),
                Ok(None) => return true,
                Err(NoRoom) => return false,
            }
            if self.rng.chance_ppm(50_000) {
                return false;
            }
        }
        unreachable!("it returns")
    }

    /// A checkpoint; true if its root was written.
    fn checkpoint(&mut self) -> bool {
        self.table.begin();
        let (now, writes, has_room) = self.change();
        // what is written may get to the drive or not, in any order
        for write in &writes {
            if self.rng.chance_ppm(500_000) {
                self.area.put(write);
            }
        }
        self.assert_durable();
        let mut is_whole = has_room && !self.rng.chance_ppm(150_000);
        if is_whole {
            writes.iter().for_each(|write| self.area.put(write));
            self.table.leaves_written();
            for (leaf, content) in now.iter().filter(|(_, content)| !content.is_empty()) {
                let is_there = self.table.check_leaf(*leaf, content).is_ok();
                assert!(is_there, "leaf {leaf} is read where it is");
            }
            is_whole = self.write_pointers();
            self.assert_durable();
        }
        if is_whole {
            let before = self.area.roots.swap_remove(0);
            self.area.roots = vec![self.table.top().to_vec(), before];
            self.durable = now;
        }
        if self.rng.chance_ppm(200_000) {
            self.table = self.assert_durable();
            return is_whole;
        }
        if is_whole {
            self.table.durable();
        } else {
            self.table.failed();
        }
        let again = self.assert_durable();
        let old = self.table.old_count;
        assert_eq!(self.table.space.free() + old, again.space.free(), "no page is lost");
        is_whole
    }

    /// How many ended well, and how many did not.
    fn live(mut self) -> (u64, u64) {
        let ended = (0..40).filter(|_| self.checkpoint()).count() as u64;
        (ended, 40 - ended)
    }
}

#[test]
fn the_durable_root_is_whole_at_every_moment() {
    let mut all = (0, 0);
    for seed in [7] {
        for leaves in [1, 3, 257, 400] {
            let sizes = (leaves, area_pages(leaves));
            let (ended, failed) = Lives::new(seed, sizes, true).live();
            all = (all.0 + ended, all.1 + failed);
        }
        // an area that is not always large enough
        let (ended, failed) = Lives::new(seed, (270, 400), false).live();
        all = (all.0 + ended, all.1 + failed);
    }
    assert!(all.0 > 100 && all.1 > 20, "ended and failed: {all:?}");
}

/// A table in which everything changes with every checkpoint has room in twice its own pages.
#[test]
fn two_tables_of_pages_are_enough() {
    for leaves in [1, 256, 257, 5000] {
        let mut table = Pages::new(POOL, 1, leaves, area_pages(leaves));
        for round in 0..5u8 {
            table.begin();
            for leaf in 0..leaves {
                let written = table.write(leaf, vec![round; PAGE], Counts::default());
                assert!(written.is_some(), "leaf {leaf} of {leaves} in round {round}");
            }
            table.leaves_written();
            while table.write_pointers().expect("there is room").is_some() {}
            table.durable();
        }
    }
}

/// While there is room, the root before the durable one stays whole, too.
#[test]
fn an_older_root_stays_whole_while_there_is_room() {
    let (leaves, pages) = (300, 120);
    let mut rng = Rng::new(4);
    let mut table = Pages::new(POOL, 1, leaves, pages);
    let mut area = Area::default();
    let mut versions: Vec<(Vec<Pointer>, Content)> = Vec::new();
    for round in 0..60usize {
        let mut now = versions.last().map(|(_, now)| now.clone()).unwrap_or_default();
        table.begin();
        for leaf in 0..40 {
            // few are hot, so that cold pages lie between those that are given out
            if round > 0 && !rng.chance_ppm(if leaf < 10 { 600_000 } else { 50_000 }) {
                continue;
            }
            let content = bytes(&mut rng);
            area.put(&table.write(leaf, content.clone(), Counts::default()).unwrap());
            now.insert(leaf, content);
        }
        table.leaves_written();
        while let Some(write) = table.write_pointers().unwrap() {
            area.put(&write);
        }
        versions.push((table.top().to_vec(), now));
        // before it is durable, the two roots before it are whole
        for (top, content) in &versions[round.saturating_sub(2)..] {
            assert_eq!(&read(&area, top, (leaves, pages)).unwrap().1, content, "round {round}");
        }
        table.durable();
    }
}

#[test]
fn an_older_page_or_one_of_another_leaf_is_never_believed() {
    let sizes = (300, 2000);
    let mut table = Pages::new(POOL, 1, sizes.0, sizes.1);
    let mut area = Area::default();
    for round in 1..=2u8 {
        table.begin();
        for leaf in [5, 6] {
            let written = table.write(leaf, vec![round; PAGE], Counts::default());
            area.put(&written.unwrap());
        }
        table.leaves_written();
        while let Some(write) = table.write_pointers().unwrap() {
            area.put(&write);
        }
        table.durable();
    }
    let top = table.top().to_vec();
    assert!(read(&area, &top, sizes).is_ok());
    let [five, six] = [5, 6].map(|leaf| table.leaf(leaf).page);
    assert_eq!(area.pages[&five], area.pages[&six], "the same bytes");
    assert!(
        table.check_leaf(5, &vec![2; PAGE]).is_ok() && table.check_leaf(5, &vec![1; PAGE]).is_err()
    );
    assert!(table.check_leaf(5, &vec![2; 2 * PAGE]).is_err(), "a page too many");
    let swapped = Pointer { page: six, ..table.leaf(6) };
    table.tree.set(At { level: 0, index: 5 }, swapped);
    assert!(table.check_leaf(5, &area.pages[&six]).is_err(), "the name is a part of the checksum");
    // a page of pointers that is damaged, or missing, and a root of another table
    for page in
        area.pages.keys().copied().filter(|page| ![five, six].contains(page)).collect::<Vec<_>>()
    {
        let mut wrong = area.clone();
        wrong.pages.get_mut(&page).unwrap()[100] ^= 1;
        let is_used =
            top.iter().any(|pointer| pointer.page == page && pointer.kind != Kind::Nothing);
        assert_eq!(read(&wrong, &top, sizes).is_err(), is_used, "page {page}");
    }
    assert!(read(&area, &top[..1], sizes).is_err());
}

/// A set becomes larger: the table is the same, with more leaves, in this life and in all that follow.
#[test]
fn a_table_grows_at_a_start() {
    // one more, more of the root, one level more, two more, and to another one of the same height
    for (leaves, more) in [
        (3, 4),
        (200, 256),
        (256, 257),
        (256, 70_000),
        (300, 600),
        (5_000, 65_537),
        (70_000, 70_001),
    ] {
        let mut lives = Lives::new(leaves, (leaves, area_pages(more)), true);
        while !lives.checkpoint() || lives.durable.is_empty() {}
        let (area, durable) = (lives.area.clone(), lives.durable.clone());
        let sizes = (more, area_pages(more));
        let grown = || read_larger(&area, (&area.roots[0], leaves), sizes).expect("it grows");
        let (mut table, found) = grown();
        assert_eq!(found, durable, "{leaves} to {more}");
        // a start that is cut finds the same
        assert_eq!(grown().1, durable);
        let pointers = table.pointer_pages;
        let lives = &mut lives;
        (lives.sizes, lives.table) = (sizes, table.clone());
        lives.table.begin();
        let last = bytes(&mut lives.rng);
        let write = lives.table.write(more - 1, last.clone(), Counts::default()).expect("room");
        lives.area.put(&write);
        lives.table.leaves_written();
        let mut written = 0;
        while let Ok(Some(write)) = lives.table.write_pointers() {
            lives.area.put(&write);
            written += 1;
        }
        assert!(written <= pointers, "{written} of {pointers}");
        lives.area.roots[0] = lives.table.top().to_vec();
        lives.durable.insert(more - 1, last);
        lives.table.durable();
        let again = lives.assert_durable();
        assert_eq!(again.space.free(), lives.table.space.free() + lives.table.old_count);
        // one that fails leaves it as it was, and what lies between is written by the next one
        table.begin();
        table.failed();
        table.begin();
        while let Ok(Some(write)) = table.write_pointers() {
            lives.area.put(&write);
        }
        let (_, found) = read(&lives.area, table.top(), sizes).expect("it is whole");
        assert_eq!(found, durable, "{leaves} to {more}");
    }
}

/// A stranger's pages: nothing panics, and two pointers to one page are refused.
#[test]
fn pages_of_a_stranger_are_refused() {
    let leaf = |page| Pointer { kind: Kind::Leaf, page, ..Pointer::default() };
    for (top, holds) in [
        (vec![leaf(1), leaf(2)], true),
        (vec![leaf(1), leaf(1)], false),
        (vec![leaf(1), Pointer::AT_HOME], true),
        (vec![leaf(1), leaf(9)], true),
        (vec![leaf(1), leaf(10)], false),
        (vec![leaf(1), leaf((1 << 40) - 2)], false),
        (vec![leaf(1)], false),
        (vec![leaf(1); 3], false),
    ] {
        let mut table = Pages::new(POOL, 1, 2, 10);
        let root = TableRoot { leaves: 2, top };
        assert_eq!(Reading::begin(&mut table, &root).is_ok(), holds, "{root:?}");
        // also in a set that has become larger: a table that is given up has all leaves
        let mut table = Pages::new(POOL, 1, 300, 10);
        let begun = Reading::begin(&mut table, &root);
        assert_eq!(begun.is_ok(), holds, "{root:?}");
        begun.unwrap_or_default().end(&mut table);
        assert_eq!(table.emptied().leaves(), 300, "{root:?}");
    }
}

#[test]
#[should_panic(expected = "pages that were written")]
fn a_root_waits_for_its_pages() {
    let mut table = Pages::new(POOL, 1, 300, 2000);
    table.begin();
    table.write(1, vec![1; PAGE], Counts::default());
    table.leaves_written();
    let _ = table.top();
}

/// A snapshot that goes on from newer marks writes leaves again before its root is durable. Each of them has one
/// page beside that of the durable root, however often it changes.
#[test]
fn a_leaf_that_changes_again_before_its_root_takes_no_more_room() {
    for leaves in [1, 257] {
        let mut table = Pages::new(POOL, 1, leaves, area_pages(leaves));
        let mut round = 0u8;
        let mut rewrite = |table: &mut Pages, times: u8| {
            for _ in 0..times {
                round += 1;
                for leaf in 0..leaves {
                    let written = table.write(leaf, vec![round; PAGE], Counts::default());
                    assert!(written.is_some(), "leaf {leaf} of {leaves} in round {round}");
                    table.leaves_written();
                }
                while table.write_pointers().expect("there is room").is_some() {}
            }
            round
        };
        table.begin();
        let durable = rewrite(&mut table, 5);
        table.durable();
        let free = table.space.free();
        table.begin();
        let newest = rewrite(&mut table, 6);
        assert!(table.check_leaf(0, &vec![newest; PAGE]).is_ok());
        assert_eq!(table.failed(), (0..leaves).collect::<Vec<_>>(), "each of them once");
        assert_eq!(table.space.free(), free, "no page is lost");
        assert!(table.check_leaf(0, &vec![durable; PAGE]).is_ok(), "the root before holds");
    }
}

#[test]
fn two_drives_compare_leaves_by_what_they_say() {
    let [mut one, mut other] = [40, 50].map(|pages| Pages::new(POOL, 1, 10, pages));
    (0..7).for_each(|_| _ = other.space.take());
    for table in [&mut one, &mut other] {
        table.begin();
        for leaf in [2, 5] {
            table.write(leaf, vec![leaf as u8; PAGE], Counts::default());
        }
        table.leaves_written();
    }
    assert_eq!(one.next_that_differs(&other, 0), None, "they lie elsewhere, and are the same");
    other.write(5, vec![6; PAGE], Counts::default());
    other.write(7, vec![6; PAGE], Counts::default());
    other.leaves_written();
    let differ = |from| one.next_that_differs(&other, from);
    assert_eq!([differ(0), differ(6), differ(8)], [Some(5), Some(7), None]);
}

/// A page of pointers that another drive had to give is written anew by the next checkpoint that is durable.
#[test]
fn pages_that_were_mended_are_written_anew() {
    let (leaves, pages) = (70_000, 2_000);
    let mut table = Pages::new(POOL, 1, leaves, pages);
    let mut area = Area::default();
    table.begin();
    area.put(&table.write(69_999, vec![1; PAGE], Counts::default()).unwrap());
    table.leaves_written();
    while let Some(write) = table.write_pointers().unwrap() {
        area.put(&write);
    }
    let root = table.root();
    let mut table = Pages::new(POOL, 1, leaves, pages);
    let mut reading = Reading::begin(&mut table, &root).unwrap();
    while let Some(wanted) = reading.next(&table) {
        if wanted.at.level == 1 {
            Reading::mend(&mut table, wanted);
        }
        reading.read(&mut table, wanted, &area.pages[&wanted.page]).unwrap();
    }
    let at = At { level: 1, index: 273 };
    let before = table.tree.get(at).page;
    // (is the checkpoint durable, pages that it writes: the mended one, and the one above it)
    for (is_durable, want) in [(false, 2), (false, 2), (true, 2), (true, 0)] {
        table.begin();
        table.leaves_written();
        let writes = std::iter::from_fn(|| table.write_pointers().unwrap()).count();
        assert_eq!(writes, want, "durable: {is_durable}");
        if is_durable {
            table.durable();
        } else {
            table.failed();
            assert_eq!(table.tree.get(at).page, before);
        }
    }
    assert_ne!(table.tree.get(at).page, before);
}

/// A search passes by pages of pointers that are all to nothing.
#[test]
fn leaves_are_found_in_order() {
    let leaves = leaves_of(1000);
    let mut table = Pages::new(POOL, 1, leaves, 100);
    let known = [
        (0, MapLeaf::Places(0)),
        (0, MapLeaf::Checksums),
        (127, MapLeaf::Places(3)),
        (999, MapLeaf::Places(0)),
    ];
    let mut known = known.map(|(group, part)| part.leaf(group));
    known.sort_unstable();
    table.begin();
    for leaf in known {
        table.write(leaf, vec![1; PAGE], Counts::default());
    }
    table.leaves_written();
    let mut from = 0;
    let found = std::iter::from_fn(|| {
        let leaf = table.next_leaf(from)?;
        from = leaf + 1;
        Some(leaf)
    });
    assert_eq!(found.collect::<Vec<_>>(), known);
}

#[test]
fn writes_of_pages_that_follow_each_other_become_one() {
    let mut queue = VecDeque::new();
    for page in [3, 4, 5, 7, 6] {
        PageWrite { page, bytes: vec![page as u8; PAGE] }.join(&mut queue);
    }
    let found: Vec<_> = queue.iter().map(|write| (write.page, write.bytes.len() / PAGE)).collect();
    assert_eq!(found, [(3, 3), (7, 1), (6, 1)]);
    assert_eq!(queue[0].bytes[2 * PAGE], 5);
}

/// Another drive is brought level: all pages of pointers are written anew, by the first checkpoint that begins behind
/// the asking and is durable.
#[test]
fn all_pages_of_pointers_are_written_anew_when_asked_for() {
    let mut table = Pages::new(POOL, 1, 70_000, 2_000);
    let checkpoint = |table: &mut Pages, leaves: &[u64], asks_within: bool, is_durable: bool| {
        table.begin();
        for &leaf in leaves {
            table.write(leaf, vec![1; PAGE], Counts::default()).expect("there is room");
        }
        table.leaves_written();
        if asks_within {
            table.write_all_pointers();
        }
        let writes = std::iter::from_fn(|| table.write_pointers().unwrap()).count();
        if is_durable {
            table.durable();
        } else {
            table.failed();
        }
        writes
    };
    // two leaves under pages of their own, and one page above each of these
    assert_eq!(checkpoint(&mut table, &[0, 69_999], false, true), 4);
    assert_eq!(checkpoint(&mut table, &[], true, true), 0, "one that is under way does not");
    assert_eq!(checkpoint(&mut table, &[], false, false), 4, "the next one does, and fails");
    assert_eq!(checkpoint(&mut table, &[], false, true), 4);
    assert_eq!(checkpoint(&mut table, &[], false, true), 0, "once");
}
