//! Does every collector do what its source says, hit by hit and eviction by eviction?

use super::ranks::{Rank, Ranks, Side};
use super::reference::{self, Plain};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use tandem_block::{Rng, Zipf};

const PAGE: u64 = 4096;

fn touch(extent: u64, bytes: u64, at_s: u64) -> Touch {
    Touch { extent: Extent(extent), bytes, now: Instant::ZERO + Duration::from_s(at_s) }
}

fn made(name: &str, held_max: u32, tracked_max: u32) -> Box<dyn Collector> {
    build(name, &CollectConfig::new(held_max, tracked_max)).expect(name)
}

fn plain(name: &str, max: usize) -> Box<dyn Plain> {
    let queue = VecDeque::new;
    match name {
        "lru" => Box::new(reference::Lru { max, queue: queue() }),
        "lfu" => Box::new(reference::Lfu { max, uses: 0, held: Vec::new() }),
        "sieve" => Box::new(reference::Sieve { max, queue: Vec::new(), hand: None }),
        "2q" => Box::new(reference::TwoQ { max, a1in: queue(), a1out: queue(), am: queue() }),
        "s3-fifo" => Box::new(reference::S3Fifo {
            max,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: queue(),
        }),
        "arc" => Box::new(reference::Arc {
            c: max,
            p: 0,
            t1: queue(),
            t2: queue(),
            b1: queue(),
            b2: queue(),
        }),
        _ => panic!("{name} has no plain form"),
    }
}

const FOR_CACHES: &[&str] = &["lru", "lfu", "arc", "s3-fifo", "sieve", "2q"];

fn same(name: &str, max: u32, requests: impl Iterator<Item = u64>) -> Result<u64, String> {
    let mut ours = OnDemand::new(made(name, max, max), max);
    let mut theirs = plain(name, max as usize);
    let mut hits = 0;
    for (number, extent) in requests.enumerate() {
        let seen = ours.request(&touch(extent, PAGE, 0));
        let wanted = theirs.request(Extent(extent));
        if seen != wanted {
            return Err(format!("{name} of {max}, request {number}: {seen:?}, not {wanted:?}"));
        }
        hits += u64::from(seen == Seen::Hit);
        if !ours.collector().is_held(Extent(extent)) {
            return Err(format!("{name}: {extent} came and is not held"));
        }
    }
    Ok(hits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Hits and evictions, one by one; sizes down to one extent, at which parts of queues are empty.
    #[test]
    fn every_cache_is_the_textbooks(
        max in 1u32..40,
        requests in proptest::collection::vec(0u64..80, 1..600),
    ) {
        for name in FOR_CACHES {
            if let Err(what) = same(name, max, requests.iter().copied()) {
                prop_assert!(false, "{}", what);
            }
        }
    }
}

/// Longer, with few popular extents, and a loop that is larger than the cache now and then.
#[test]
fn every_cache_is_the_textbooks_on_skewed_requests() {
    for name in FOR_CACHES {
        for max in [10, 37, 200] {
            let zipf = Zipf::new(1000, 900_000);
            let mut rng = Rng::new(u64::from(max));
            let requests = (0..12_000u64).map(|number| {
                let is_loop = number / 1000 % 4 == 3;
                if is_loop { 10_000 + number % 250 } else { zipf.draw(&mut rng) }
            });
            let hits = same(name, max, requests).expect(name);
            assert!(hits > 0, "{name} of {max}");
        }
    }
}

/// What goes away in other ways is forgotten, and everything else goes on.
#[test]
fn what_is_removed_is_not_held_and_never_a_victim() {
    for entry in COLLECTORS {
        let mut rng = Rng::new(7);
        let mut collector = made(entry.name, 20, 64);
        let mut held: Vec<u64> = Vec::new();
        for number in 0..4000 {
            let extent = rng.below(60);
            let is_held = held.contains(&extent);
            assert_eq!(collector.touched(&touch(extent, PAGE, number)), is_held, "{}", entry.name);
            if rng.chance_ppm(200_000) {
                collector.removed(Extent(extent));
                held.retain(|other| *other != extent);
            } else if !is_held {
                if held.len() == 20 {
                    let victim = collector.victim(Some(Extent(extent))).expect("it holds some");
                    assert!(held.contains(&victim.0), "{} gives up what it has", entry.name);
                    collector.demoted(victim);
                    held.retain(|other| *other != victim.0);
                }
                collector.promoted(Extent(extent));
                held.push(extent);
            }
            let found = (0..60).filter(|extent| collector.is_held(Extent(*extent))).count();
            assert_eq!(found, held.len(), "{}", entry.name);
        }
    }
}

/// Moves that have nothing to do with requests, told late or twice, neither fail nor leak.
#[test]
fn what_is_told_in_any_order_is_borne() {
    for entry in COLLECTORS {
        let mut rng = Rng::new(11);
        let mut collector = made(entry.name, 8, 24);
        let mut held: Vec<u64> = Vec::new();
        for number in 0..6000 {
            let extent = rng.below(100);
            match rng.below(5) {
                0 if held.len() < 8 || held.contains(&extent) => {
                    collector.promoted(Extent(extent));
                    if !held.contains(&extent) {
                        held.push(extent);
                    }
                }
                1 => {
                    collector.demoted(Extent(extent));
                    held.retain(|other| *other != extent);
                }
                2 => {
                    let victim = collector.victim(None);
                    assert_eq!(victim.is_some(), !held.is_empty(), "{}", entry.name);
                    assert!(victim.is_none_or(|victim| held.contains(&victim.0)));
                }
                _ => {
                    collector.touched(&touch(extent, PAGE * rng.between(1, 80), number));
                }
            }
            assert!(collector.hottest().is_none_or(|hot| !held.contains(&hot.0)));
        }
    }
}

/// Counters as the paper has them: searched whole.
#[derive(Default)]
struct Searched {
    /// Counter, epoch in which it was last added to, last use, held by the SSD.
    files: BTreeMap<u64, (u32, u32, u64, bool)>,
    uses: u64,
    bar: Option<(u32, u32)>,
}

/// Worth now and then, in the same unit.
fn worth((counter, epoch): (u32, u32)) -> u128 {
    u128::from(counter) << epoch
}

impl Searched {
    fn touched(&mut self, file: u64, b: u32, epoch: u32) {
        self.uses += 1;
        let known = self.files.entry(file).or_insert((0, epoch, 0, false));
        let left = known.0.checked_shr(epoch - known.1).unwrap_or(0);
        *known = (left.saturating_add(b), epoch, self.uses, known.3);
    }

    fn first(&self, of_ssd: bool) -> Option<Extent> {
        let files = self.files.iter().filter(|(_, file)| file.3 == of_ssd);
        let order = |file: &(&u64, &(u32, u32, u64, bool))| (worth((file.1.0, file.1.1)), file.1.2);
        let found = if of_ssd { files.min_by_key(order) } else { files.max_by_key(order) };
        found.map(|(file, _)| Extent(*file))
    }

    fn qualifies(&self, file: u64) -> bool {
        let heat = self.files.get(&file).map_or(0, |file| worth((file.0, file.1)));
        heat > self.bar.map_or(0, worth)
    }
}

/// [LORIS §III]: the hottest on the hard drives, the coldest on the SSD, recency among equals, and the
/// counter of the last file that was evicted as the bar; with epochs, too.
fn is_searched(name: &str, epoch_s: Option<u64>, weigh: impl Fn(u64) -> u32) {
    // with a table for the SSD alone, and without
    for held_max in [30, 60] {
        is_searched_with(held_max, name, epoch_s, &weigh);
    }
}

fn is_searched_with(held_max: u32, name: &str, epoch_s: Option<u64>, weigh: impl Fn(u64) -> u32) {
    let mut rng = Rng::new(5);
    let config =
        CollectConfig { epoch: epoch_s.map(Duration::from_s), ..CollectConfig::new(held_max, 200) };
    let mut ours = build(name, &config).expect(name);
    let mut theirs = Searched::default();
    let zipf = Zipf::new(120, 600_000);
    let mut moves = [0; 3];
    for second in 0..6000u64 {
        let (file, pages) = (zipf.draw(&mut rng), 1 << rng.below(8));
        ours.touched(&touch(file, pages * PAGE, second));
        theirs.touched(file, weigh(pages), epoch_s.map_or(0, |length| (second / length) as u32));
        assert_eq!(ours.hottest(), theirs.first(false), "{name} hottest at {second}");
        assert_eq!(ours.victim(None), theirs.first(true), "{name} coldest at {second}");
        for file in [file, rng.below(140)] {
            assert_eq!(ours.qualifies(Extent(file)), theirs.qualifies(file), "{name} at {second}");
        }
        let held = theirs.files.values().filter(|file| file.3).count();
        let Some(hot) = ours.hottest().filter(|hot| ours.qualifies(*hot)) else { continue };
        if held == held_max as usize {
            let cold = ours.victim(None).expect("full");
            ours.demoted(cold);
            let file = theirs.files.get_mut(&cold.0).expect("known");
            file.3 = false;
            theirs.bar = Some((file.0, file.1));
            moves[1] += 1;
        }
        ours.promoted(hot);
        theirs.files.get_mut(&hot.0).expect("known").3 = true;
        moves[0] += 1;
        if second % 97 == 0 {
            ours.removed(hot);
            theirs.files.remove(&hot.0);
            moves[2] += 1;
        }
    }
    assert!(moves.iter().all(|count| *count > 0), "{name}: {moves:?} came, went, were removed");
}

#[test]
fn loris_counters_are_searched_without_a_search() {
    is_searched("inverse-bitmap", None, |pages| inverse_bitmap::inverse_bitmap(pages * PAGE));
    is_searched("counts", None, |_| 1);
}

#[test]
fn b8_counters_that_age_keep_their_order() {
    is_searched("inverse-bitmap", Some(60), |pages| inverse_bitmap::inverse_bitmap(pages * PAGE));
    is_searched("counts", Some(300), |_| 1);
}

/// B8: after a hot phase nothing gets in, because the bar never falls. With epochs it falls.
#[test]
fn b8_the_bar_of_a_hot_phase_falls_only_with_epochs() {
    for (epoch, comes) in [(None, false), (Some(Duration::from_s(10)), true)] {
        let config = CollectConfig { epoch, ..CollectConfig::new(1, 10) };
        let mut collector = build("counts", &config).expect("registered");
        for at_s in 0..100 {
            collector.touched(&touch(1, PAGE, at_s / 20));
        }
        collector.promoted(Extent(1));
        collector.demoted(Extent(1));
        for at_s in 100..105 {
            collector.touched(&touch(2, PAGE, at_s));
        }
        assert_eq!(collector.qualifies(Extent(2)), comes, "{epoch:?}");
    }
}

#[test]
fn edt_leaves_large_requests_to_the_hard_drives() {
    let mut edt = made("edt", 4, 16);
    for at_s in 0..9 {
        edt.touched(&touch(1, 1 << 20, at_s));
        edt.touched(&touch(3, PAGE, at_s));
    }
    edt.touched(&touch(2, 64 << 10, 9));
    assert_eq!(edt.hottest(), Some(Extent(3)));
    assert!(!edt.qualifies(Extent(1)) && edt.qualifies(Extent(2)));
    edt.promoted(Extent(3));
    edt.promoted(Extent(1));
    edt.promoted(Extent(2));
    assert_eq!(edt.victim(None), Some(Extent(1)), "nine large requests are colder than one small");
    edt.demoted(Extent(1));
    assert_eq!(edt.hottest(), None, "only the one by bandwidth is left");
    // many small requests make it one by IOPS
    for at_s in 10..200 {
        edt.touched(&touch(1, PAGE, at_s));
    }
    assert_eq!(edt.hottest(), Some(Extent(1)));
}

/// The extents that are forgotten are cold ones, and the SSD's are never among them.
#[test]
fn at_the_bound_cold_extents_are_forgotten() {
    let mut collector = made("counts", 10, 100);
    for extent in 0..10 {
        collector.promoted(Extent(extent));
    }
    for _ in 0..5 {
        for extent in 10..30 {
            collector.touched(&touch(extent, PAGE, 0));
        }
    }
    for extent in 1000..5000 {
        collector.touched(&touch(extent, PAGE, 0));
    }
    assert!((0..10).all(|extent| collector.is_held(Extent(extent))));
    let hot = (10..30).filter(|extent| collector.qualifies(Extent(*extent))).count();
    assert_eq!(hot, 20, "those used five times are still known");
    assert!(!collector.qualifies(Extent(1000)), "used once, long ago");
}

proptest! {
    /// Both heaps against a search, with ranks that rise and fall.
    #[test]
    fn ranks_are_in_order(
        steps in proptest::collection::vec((0u64..30, 0u64..12, 0u32..6), 1..500),
    ) {
        let mut ranks = Ranks::<0>::new(20);
        let mut truth: BTreeMap<u64, (Side, Rank)> = BTreeMap::new();
        for (used, (extent, heat, what)) in (0u64..).zip(steps) {
            let rank = Rank { heat, used };
            let side = if what % 2 == 0 { Side::Hdd } else { Side::Ssd };
            match (ranks.find(Extent(extent)), what) {
                (Some(node), 0) => {
                    ranks.remove(node);
                    truth.remove(&extent);
                }
                (Some(node), 1 | 2) => {
                    ranks.shift(node, side);
                    truth.get_mut(&extent).expect("known").0 = side;
                }
                (Some(node), _) => {
                    let found = if what > 3 { ranks.find_used(Extent(extent)) } else { Some(node) };
                    let node = found.expect("known");
                    let side = ranks.heat_up(node, used, |was, _| {
                        assert_eq!(was, truth[&extent].1.heat);
                        heat
                    });
                    prop_assert_eq!(side, truth[&extent].0);
                    truth.get_mut(&extent).expect("known").1 = rank;
                }
                (None, _) if !ranks.is_full() => {
                    ranks.insert(Extent(extent), side, rank, []);
                    truth.insert(extent, (side, rank));
                }
                (None, _) => {
                    let cold = ranks.cold().map(|node| ranks.extent(node).0);
                    prop_assert!(cold.is_none_or(|cold| truth[&cold].0 == Side::Hdd));
                    prop_assert_eq!(cold.is_some(), ranks.len_of(Side::Hdd) > 0);
                }
            }
            let of = |side| truth.iter().filter(move |file| file.1.0 == side);
            let hottest = of(Side::Hdd).max_by_key(|file| file.1.1).map(|file| Extent(*file.0));
            let coldest = of(Side::Ssd).min_by_key(|file| file.1.1).map(|file| Extent(*file.0));
            prop_assert_eq!(ranks.first(Side::Hdd).map(|node| ranks.extent(node)), hottest);
            prop_assert_eq!(ranks.first(Side::Ssd).map(|node| ranks.extent(node)), coldest);
            for (extent, (side, rank)) in &truth {
                let node = ranks.find(Extent(*extent)).expect("known");
                prop_assert_eq!((ranks.side(node), ranks.rank(node)), (*side, *rank));
            }
        }
    }
}

#[test]
fn an_extent_takes_at_most_64_bytes() {
    for entry in COLLECTORS {
        let memory = made(entry.name, 200_000, 1_000_000).memory();
        let bytes = memory.bytes_per_extent();
        assert!((20..=BYTES_PER_EXTENT_MAX).contains(&bytes), "{}: {bytes} bytes", entry.name);
        assert!(memory.tracked_max >= 200_000, "{}", entry.name);
    }
}

#[test]
fn bad_configurations_are_said() {
    let fails = |name: &str, config: CollectConfig| {
        build(name, &config).expect_err("it cannot be made").to_string()
    };
    let good = CollectConfig::new(10, 100);
    assert!(fails("fifo", good).contains("inverse-bitmap, counts"));
    assert!(fails("lru", CollectConfig::new(0, 100)).contains("0 extents"));
    assert!(fails("lru", CollectConfig::new(u32::MAX, 0)).contains("other extents"));
    assert!(fails("counts", CollectConfig::new(10, 10)).contains("more than it holds"));
    let zero = CollectConfig { epoch: Some(Duration::ZERO), ..good };
    assert!(fails("edt", zero).contains("0 ns"));
    build("lru", &CollectConfig::new(10, 0)).expect("it tracks only what is held");
}

#[test]
fn names_are_given_once_and_a_copy_goes_its_own_way() {
    let mut names: Vec<&str> = COLLECTORS.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), COLLECTORS.len());
    for entry in COLLECTORS {
        let mut first = made(entry.name, 2, 8);
        first.promoted(Extent(1));
        let mut second = first.clone();
        second.demoted(Extent(1));
        assert!(first.is_held(Extent(1)) && !second.is_held(Extent(1)), "{}", entry.name);
        first.touched(&touch(2, PAGE, 0));
        assert_eq!(first.hottest(), entry.ranks.then_some(Extent(2)), "{}", entry.name);
    }
}
