//! Is the newest version read, and does a power cut leave what it may?

use super::*;
use tandem_block::Rng;

fn media() -> Media<u64> {
    Media::ram()
}

/// Writes `tokens` from `sector` on; `settle_ns` is its settle time.
fn write(media: &mut Media<u64>, sector: u64, tokens: &[u64], settle_ns: Option<u64>) {
    let durable_at = settle_ns.map(Instant::from_ns);
    media.apply_write(Ticket(0), sector * 512, tokens.into(), durable_at);
}

fn read(media: &Media<u64>, sector: u64, count: usize) -> Vec<u64> {
    let mut out = vec![99; count];
    media.read(sector * 512, &mut out);
    out
}

#[test]
fn reads_see_the_newest_version_durable_or_not() {
    let mut media = media();
    assert_eq!(read(&media, 60, 3), [0, 0, 0]);
    write(&mut media, 60, &[1, 1, 1, 1, 1, 1], Some(10));
    media.settle(Instant::from_ns(10));
    write(&mut media, 62, &[2, 2, 2], None);
    write(&mut media, 63, &[3], None);
    assert_eq!(read(&media, 60, 6), [1, 1, 2, 3, 2, 1]);
    media.trim(Ticket(0), 60 * 512, 3 * 512, None);
    assert_eq!(read(&media, 60, 6), [0, 0, 0, 3, 2, 1]);
    media.settle_all();
    assert_eq!(read(&media, 60, 6), [0, 0, 0, 3, 2, 1]);
    assert_eq!(media.volatile_bytes(), 0);
}

/// A newer write that settles first is not undone by an older one, whatever happens to that.
#[test]
fn older_writes_never_come_back_over_newer_ones() {
    for mode in [CutMode::KeepAll, CutMode::DropAll, CutMode::RandomSubset] {
        for seed in 0..20 {
            let mut media = media();
            write(&mut media, 0, &[1, 1, 1, 1], None);
            write(&mut media, 1, &[2, 2], Some(5));
            media.settle(Instant::from_ns(5));
            assert_eq!(read(&media, 0, 4), [1, 2, 2, 1]);
            media.cut(Instant::from_ns(6), &mut Rng::new(seed), mode, &[]);
            assert_eq!(read(&media, 1, 2), [2, 2], "{mode:?}");
        }
    }
}

#[test]
fn a_flush_settles_what_was_acknowledged_before_it() {
    let mut media = media();
    write(&mut media, 0, &[1], None);
    let mark = media.mark();
    write(&mut media, 1, &[2], None);
    media.settle_upto(mark);
    media.cut(Instant::ZERO, &mut Rng::new(1), CutMode::DropAll, &[]);
    assert_eq!(read(&media, 0, 2), [1, 0]);
}

#[test]
fn a_cut_at_its_settle_time_keeps_a_write() {
    let mut media = media();
    write(&mut media, 0, &[1], Some(10));
    write(&mut media, 1, &[2], Some(11));
    media.cut(Instant::from_ns(10), &mut Rng::new(1), CutMode::DropAll, &[]);
    assert_eq!(read(&media, 0, 2), [1, 0]);
}

/// Every subset of two writes and one in flight turns up, torn ones too, and never a foreign token.
#[test]
fn a_random_cut_leaves_any_subset() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let mut media = media();
        write(&mut media, 0, &[1, 1], None);
        write(&mut media, 2, &[2], None);
        let in_flight = Write {
            ticket: Ticket(9),
            offset_bytes: 3 * 512,
            contents: Contents::Data([3].into()),
        };
        media.cut(Instant::ZERO, &mut Rng::new(seed), CutMode::RandomSubset, &[in_flight]);
        seen.insert(read(&media, 0, 4));
        assert_eq!(media.volatile_bytes(), 0);
    }
    assert_eq!(seen.len(), 16, "each of four sectors is there or not");
    for outcome in seen {
        assert!(outcome.iter().zip([1, 1, 2, 3]).all(|(got, new)| *got == 0 || *got == new));
    }
}

#[test]
fn drained_bytes_settle_oldest_first() {
    let mut media = media();
    for token in 1..=4 {
        write(&mut media, token, &[token], None);
    }
    media.trim(Ticket(0), 1 << 30, 1 << 30, None); // puts nothing into the buffer
    media.settle_older_than(1024);
    media.cut(Instant::ZERO, &mut Rng::new(1), CutMode::DropAll, &[]);
    assert_eq!(read(&media, 1, 4), [1, 2, 0, 0]);
}

#[test]
fn forks_do_not_see_each_other() {
    let mut media: Media<[u8; 512]> = Media::ram();
    media.apply_write(Ticket(0), 0, vec![[7; 512]; 100].into(), None);
    media.settle_all();
    let mut fork = media.clone();
    fork.corrupt(512, 9);
    let mut sectors = [[0; 512]; 2];
    media.read(0, &mut sectors);
    assert_eq!(sectors, [[7; 512]; 2]);
    fork.read(0, &mut sectors);
    assert_eq!(sectors[1][1], 7 ^ 2);
}

#[test]
fn bit_flips_hit_the_version_that_is_read() {
    let mut media = media();
    write(&mut media, 0, &[8], Some(0));
    media.settle(Instant::ZERO);
    media.corrupt(0, 0);
    assert_eq!(read(&media, 0, 1), [9]);
    write(&mut media, 0, &[16], None);
    media.corrupt(0, 1);
    assert_eq!(read(&media, 0, 1), [18]);
    media.settle_all();
    assert_eq!(read(&media, 0, 1), [18]);
}

#[test]
fn no_contents_cost_nothing_and_read_as_zeroes() {
    let mut media: Media<u64> = Media::none();
    write(&mut media, 0, &[1], None);
    assert_eq!((read(&media, 0, 1), media.volatile_bytes()), (vec![0], 0));
}

/// Random writes, settles and reads against a plain array.
#[test]
fn agrees_with_a_plain_array() {
    let mut rng = Rng::new(4);
    let mut media = media();
    let mut plain = [0u64; 300];
    for token in 1..3000u64 {
        let sector = rng.below(280) as usize;
        let count = rng.between(1, 20) as usize;
        match rng.below(8) {
            0 => {
                media.trim(Ticket(token), sector as u64 * 512, count as u64 * 512, None);
                plain[sector..sector + count].fill(0);
            }
            1 => media.settle(Instant::from_ns(token)),
            2 => media.settle_older_than(rng.below(20_000)),
            3 => media.settle_upto(media.mark()),
            _ => {
                let settle = (rng.below(2) == 0).then(|| token + rng.below(50));
                write(&mut media, sector as u64, &vec![token; count], settle);
                plain[sector..sector + count].fill(token);
            }
        }
        assert_eq!(read(&media, 0, 300), plain, "after step {token}");
    }
    media.cut(Instant::ZERO, &mut rng, CutMode::KeepAll, &[]);
    assert_eq!(read(&media, 0, 300), plain);
}
