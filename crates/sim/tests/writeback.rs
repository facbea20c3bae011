//! Does write-back stop where it should?
//!
//! Source: design decision 10: from 60 % of dirty SSD space (or in the quiet) down to 40 %. A home that
//! is written and waits for its drive's flush is not to be made up for by another one.

use tandem_block::{BLOCK_BYTES, Duration, KIB, MIB};
use tandem_sim::swarm::{Run, SwarmConfig};
use tandem_sim::workload::Mix;

/// Whole blocks, written once each more or less, into a pool of one SSD and one hard drive.
fn writes(seed: u64) -> SwarmConfig {
    let mut config = SwarmConfig::tiny(seed, "ssd-first", u64::MAX);
    config.drives = (1, 1 + seed as usize % 2);
    config.shape.depth = 4;
    config.shape.footprint_bytes = 12 * MIB;
    config.shape.length_bytes_max = 32 * KIB;
    config.shape.unaligned_ppm = 0;
    config.shape.pause = Duration::from_us(50);
    config.shape.mix = Mix { read: 0, flush: 0, zero: 0, fua: 0 };
    config
}

/// Dirty SSD blocks, and how many of them are one percent, times a hundred.
fn dirty(run: &Run) -> (u64, u64) {
    let map = run.sim.engine.map();
    (map.population().dirty_ssd, map.ssd_slots())
}

fn home_blocks(run: &Run) -> u64 {
    let devices = &run.sim.engine.stats().devices;
    devices.iter().map(|device| device.home_bytes).sum::<u64>() / BLOCK_BYTES
}

/// Writes until so much of the SSD is dirty.
fn fill(run: &mut Run, percent: u64) {
    while dirty(run).0 * 100 < percent * dirty(run).1 {
        assert!(run.step().unwrap_or_else(|failure| panic!("{failure}")), "it goes on");
    }
}

/// From so many dirty blocks down to the mark: no fewer homes than that takes, and no more than one
/// run beyond.
fn stopped_at_the_mark(run: &Run, from: u64, homes: u64, what: &str) {
    let (left, slots) = dirty(run);
    let run_blocks = 256 * KIB / BLOCK_BYTES;
    assert!(left * 100 < 41 * slots, "{what}: {left} of {slots} are still dirty");
    assert!(left * 100 + run_blocks * 100 >= 41 * slots, "{what}: {left} of {slots} are dirty");
    let wanted = from - left;
    assert!(homes >= wanted, "{what}: {homes} homes cannot clean {wanted} blocks");
    assert!(homes <= wanted + run_blocks, "{what}: {homes} homes written for {wanted}");
}

#[test]
fn in_the_quiet_it_stops_at_the_lower_mark() {
    for seed in 0..6 {
        let mut run = Run::new(writes(seed)).expect("a pool");
        fill(&mut run, 52);
        assert_eq!(home_blocks(&run), 0, "below the upper mark users are not disturbed");
        let from = dirty(&run).0;
        while run.sim.step() {}
        let from = from.max(dirty(&run).0);
        stopped_at_the_mark(&run, from, home_blocks(&run), &format!("seed {seed}"));
    }
}

#[test]
fn while_others_read_it_stops_at_the_lower_mark() {
    for seed in 0..6 {
        let mut run = Run::new(writes(seed)).expect("a pool");
        fill(&mut run, 61);
        let before = home_blocks(&run);
        let from = dirty(&run).0;
        run.extend(4000, seed);
        run.read_only();
        while run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
        stopped_at_the_mark(&run, from, home_blocks(&run) - before, &format!("seed {seed}"));
    }
}
