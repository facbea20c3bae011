//! Tests of the account of a tier's space.

use super::*;

/// Room for four extents of four blocks.
fn space(name: &str, settings: &[(&str, u64)]) -> Space {
    let mut tier = TierConfig::named(name);
    tier.set("extent", 16 << 10).expect("a power of two");
    tier.set("size", 1 << 20).expect("within the bounds");
    for (setting, value) in settings {
        tier.set(setting, *value).expect("within the bounds");
    }
    let interval = tier.get("interval");
    let interval = (interval != NEVER).then(|| Duration::from_ns(interval));
    let reads = u8::try_from(tier.get("reads")).expect("within the bounds");
    // nine tenths of 18 slots: 16 blocks
    Space::new(&SpaceConfig { tier, interval, reads }, 18, 1024).expect("it fits")
}

const CLASS: Class = Class { comes: Comes::WhenRead, keeps_alone: true };

fn touch(space: &mut Space, now: Instant, extent: u64) -> bool {
    space.touched(now, extent * 4, extent * 4 + 1, CLASS)
}

fn read(space: &mut Space, extent: u64) -> bool {
    let held = touch(space, Instant::ZERO, extent);
    if !held {
        space.missed(extent * 4, extent * 4 + 1);
    }
    held
}

#[test]
fn what_is_read_comes_and_the_coldest_leaves() {
    let mut space = space("cache-read-only", &[]);
    assert_eq!(space.held(), (0, 4));
    for extent in [1, 2, 3, 4] {
        assert!(!read(&mut space, extent));
        assert_eq!(space.next_to_come(|_| 0), Some(Extent(extent)));
    }
    assert!(read(&mut space, 1), "it is held");
    assert!(!read(&mut space, 9));
    assert_eq!(space.next_to_come(|_| 0), Some(Extent(9)));
    assert_eq!(space.demoting_from(Extent(0)).collect::<Vec<_>>(), [Extent(2)]);
    assert_eq!((space.held(), space.next_to_come(|_| 0)), ((4, 4), None));
    // it is read before it has left: it need not be copied again, only kept
    assert!(!read(&mut space, 2));
    assert_eq!(space.next_to_come(|_| 0), Some(Extent(2)));
    assert_eq!(space.demoting_from(Extent(0)).collect::<Vec<_>>(), [Extent(3)]);
}

/// L9: an extent qualifies only if it is hotter than the last one that was evicted.
#[test]
fn what_is_colder_than_the_last_evicted_does_not_come() {
    let mut space = space("hot-dst", &[]);
    for extent in [1, 2, 3, 4] {
        for _ in 0..3 {
            read(&mut space, extent);
        }
        assert!(space.next_to_come(|_| 0).is_some());
    }
    for _ in 0..2 {
        read(&mut space, 5);
    }
    // nothing was evicted yet: it comes, and drives one out that is hotter
    assert_eq!(space.next_to_come(|_| 0), Some(Extent(5)));
    read(&mut space, 6);
    assert_eq!((space.next_to_come(|_| 0), space.stats().unqualified), (None, 1));
    for _ in 0..3 {
        read(&mut space, 6);
    }
    assert_eq!(space.next_to_come(|_| 0), Some(Extent(6)));
}

/// L15.
#[test]
fn at_an_interval_the_hottest_come_until_they_are_colder_than_what_leaves() {
    let mut space = space("hot-dst", &[("interval", 5_000_000_000)]);
    for extent in 1..=6 {
        for _ in 0..extent {
            touch(&mut space, Instant::ZERO, extent);
        }
    }
    assert_eq!((space.next_to_come(|_| 0), space.has_to_come()), (None, false));
    space.advance(Instant::ZERO + Duration::from_s(5));
    assert!(space.has_to_come());
    let came: Vec<u64> = std::iter::from_fn(|| space.next_to_come(|_| 0)).map(|e| e.0).collect();
    // the fifth drives the third out, as nothing was evicted before; then what is left is colder
    assert_eq!(came, [6, 5, 4, 3, 2]);
    assert_eq!(space.demoting_from(Extent(0)).collect::<Vec<_>>(), [Extent(3)]);
    assert_eq!(space.due(), Instant::NEVER, "nothing was touched since");
    touch(&mut space, Instant::ZERO + Duration::from_s(6), 0);
    assert_eq!(space.due(), Instant::ZERO + Duration::from_s(10));
}

/// B8: what comes at an interval is bounded; the rest is looked at anew at the next.
#[test]
fn at_an_interval_no_more_come_than_may() {
    let settings = [("interval", 5_000_000_000), ("moves_per_interval", 2)];
    let mut space = space("hot-dst", &settings);
    for (second, came) in [(5, [4, 3]), (10, [2, 1])] {
        for extent in 1..=4 {
            for _ in 0..extent {
                touch(&mut space, Instant::ZERO, extent);
            }
        }
        space.advance(Instant::ZERO + Duration::from_s(second));
        let found: Vec<u64> =
            std::iter::from_fn(|| space.next_to_come(|_| 0)).map(|e| e.0).collect();
        assert_eq!(found, came);
        assert!(!space.has_to_come());
    }
}

/// L13, L18: sixty extents are written where forty have room. The background cleaner makes as much room
/// again as writes had to wait for since it ran last: one extent each time, since then none waits
/// until that is used up; the aggressive one makes five at once.
#[test]
fn writes_make_their_room_and_cleaners_make_more() {
    for (cleaner, cleaned, left) in [(0, 0, 20), (1, 10, 20), (2, 20, 24)] {
        let tier = TierConfig::named("cold-dst").with("extent", 16 << 10);
        let tier = tier.with("size", 1 << 20).with("cleaner", cleaner);
        let config = SpaceConfig { tier, interval: None, reads: 1 };
        let mut space = Space::new(&config, 178, 1024).expect("it fits");
        assert_eq!(space.held(), (0, 40));
        for extent in 0..60 {
            assert!(space.claim(extent * 4, extent * 4 + 4));
            assert!(space.held().0 <= 40);
        }
        let stats = space.stats();
        assert_eq!((stats.cleaned, stats.left), (cleaned, left), "{cleaner}");
    }
}

/// B8: with a user's read an extent of 16 KiB takes 0.2 ms, and each read saves some 12 ms; an extent of
/// which the SSD has the only copy takes that, too, when it leaves.
#[test]
fn b8_what_is_not_worth_its_move_does_not_come() {
    let mut space = space("cache-write-back", &[("pays_within", 60_000_000_000)]);
    let read = |space: &mut Space, extent: u64, alone: u64| {
        touch(space, Instant::ZERO, extent);
        space.note_missed(extent * 4, extent * 4 + 1);
        space.may_come_at_once(Extent(extent), |_| alone)
    };
    for extent in [1, 2, 3, 4] {
        assert!(!read(&mut space, extent, 0), "the first read foretells nothing");
        assert!(read(&mut space, extent, 0));
    }
    assert_eq!((space.stats().unpaid, space.held()), (4, (4, 4)));
    assert!(!read(&mut space, 5, 4) && !read(&mut space, 5, 4), "extent 1 would be brought home");
    assert!(read(&mut space, 5, 4), "two reads save more than that");
    assert_eq!(space.demoting_from(Extent(0)).collect::<Vec<_>>(), [Extent(1)]);
    assert_eq!((space.stats().unpaid, space.stats().came), (6, 5));
    assert!(space.claim(24, 28), "what is written does not ask");
}

/// Those in the way begin anew, and the next hottest come.
#[test]
fn at_an_interval_what_is_not_worth_it_makes_way() {
    let settings = [("interval", 5_000_000_000), ("pays_within", 60_000_000_000)];
    let mut space = space("hot-dst", &settings);
    for extent in 1..=6 {
        for _ in 0..extent {
            touch(&mut space, Instant::ZERO, extent);
            if extent % 2 == 0 {
                space.note_missed(extent * 4, extent * 4 + 1);
            }
        }
    }
    space.advance(Instant::ZERO + Duration::from_s(5));
    let came: Vec<u64> = std::iter::from_fn(|| space.next_to_come(|_| 0)).map(|e| e.0).collect();
    assert_eq!(came, [6, 4], "the odd ones were written to only, and 2 was read once again");
    assert_eq!((space.stats().unpaid, space.has_to_come()), (4, false));
}

#[test]
fn the_second_read_lets_it_come() {
    let mut space = space("hot-dst", &[("reads", 2)]);
    read(&mut space, 1);
    assert!(!space.has_to_come());
    read(&mut space, 1);
    assert_eq!(space.next_to_come(|_| 0), Some(Extent(1)));
}

#[test]
fn what_is_removed_leaves_room() {
    let mut space = space("cold-dst", &[]);
    assert!(space.claim(0, 16));
    space.removed(2, 12);
    assert_eq!(space.held(), (2, 4), "two whole extents went, and two parts");
    assert!(space.is_held(Extent(0)) && !space.is_held(Extent(1)));
}

/// What is kept alone is counted whichever changes: what is held, or of which class it is.
#[test]
fn what_is_kept_alone_is_counted() {
    let mut space = space("cold-dst", &[]);
    let cached = Class { keeps_alone: false, ..CLASS };
    space.classify(0, 8, Some(CLASS));
    space.classify(8, 16, Some(cached));
    assert_eq!(space.keeping(), 0, "nothing is held");
    assert!(space.claim(0, 16));
    assert_eq!((space.keeping(), space.held()), (2, (4, 4)));
    assert!(space.keeps(7) && !space.keeps(8));
    space.touched(Instant::ZERO, 6, 9, CLASS);
    assert_eq!(space.keeping(), 3);
    space.classify(0, 8, None);
    assert_eq!((space.keeping(), space.keeps(0), space.keeps(11)), (1, false, true));
    space.removed(8, 12);
    assert_eq!((space.keeping(), space.held()), (0, (3, 4)));
    assert!(space.found(Extent(2)));
    assert_eq!(space.keeping(), 1, "its class is what it was");
    assert!(space.claim(16, 20), "another one leaves");
    assert!(space.keeping() <= 1);
    assert_eq!((0..20).step_by(4).filter(|&b| space.keeps(b)).count(), space.keeping() as usize);
}

#[test]
fn a_space_smaller_than_an_extent_is_refused() {
    let config = SpaceConfig { tier: TierConfig::named("hot-dst"), interval: None, reads: 1 };
    assert!(matches!(Space::new(&config, 10, 1024), Err(CollectError::Held(0))));
}
