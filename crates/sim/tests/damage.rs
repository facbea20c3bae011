//! Is damage on a drive an error with a name, or mended, and never silently old data?
//!
//! Source: design, "The promise"; acceptance of the spine, "Bad input". One bit of a stopped or cut pool
//! is flipped, anywhere; then the pool either refuses to start with a reason, or answers every block
//! with its contents or an error.

use tandem_block::{BLOCK_BYTES, DeviceId, Rng, SECTOR_BYTES};
use tandem_drives::media::CutMode;
use tandem_sim::swarm::{Failure, Run, SwarmConfig};

/// Flips a bit in each place and recovers; returns (sound, refused) counts.
fn damage(run: &Run, places: &[(u8, u64)], rng: &mut Rng) -> (u64, u64) {
    let (mut served, mut refused) = (0, 0);
    for &(device, offset) in places {
        let mut fork = run.clone();
        fork.allow_failures();
        fork.sim.power_cut(fork.config().engine(false), CutMode::KeepAll, rng);
        let sector = offset + rng.below(8) * 512;
        // low bits: a token's and a metadata sector's are both in the first eight bytes
        let bits = if rng.chance_ppm(500_000) { 64 } else { 4096 };
        let bit = rng.below(bits) as u16;
        fork.sim.corrupt(DeviceId(device), sector, bit);
        match fork.after_damage() {
            Ok(_) => served += 1,
            Err(Failure::Refused { error, .. }) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Err(failure) => panic!("device {device}, byte {sector}, bit {bit}: {failure}"),
        }
    }
    (served, refused)
}

fn pool(seed: u64, policy: &str) -> Run {
    let mut run = Run::new(SwarmConfig::tiny(seed, policy, 400)).expect("a pool");
    while run.step().expect("no faults yet") {}
    run.flush_all().expect("no faults yet");
    run
}

#[test]
fn every_metadata_block_may_be_damaged() {
    let mut rng = Rng::new(1);
    let (mut served, mut refused) = (0, 0);
    for seed in 0..6 {
        let run = pool(seed, ["ssd-first", "mios-e"][seed as usize % 2]);
        let mut places = Vec::new();
        for device in run.sim.engine.devices() {
            let layout = device.layout;
            let first_data = layout.home_offset;
            let end = if device.is_ssd() { layout.slot_offset } else { first_data };
            let last = device.config.capacity_bytes / BLOCK_BYTES - 1;
            let blocks = (0..end / BLOCK_BYTES).step_by(3).chain([0, last]);
            places.extend(blocks.map(|block| (device.id.0, block * BLOCK_BYTES)));
            let journal = layout.journal_offset / BLOCK_BYTES;
            let of_journal = journal..journal + layout.journal_bytes / BLOCK_BYTES;
            places.extend(of_journal.map(|block| (device.id.0, block * BLOCK_BYTES)));
        }
        let (more_served, more_refused) = damage(&run, &places, &mut rng);
        served += more_served;
        refused += more_refused;
    }
    assert!(served > 100 && refused > 0, "{served} served, {refused} refused");
}

#[test]
fn every_data_block_may_be_damaged() {
    let mut rng = Rng::new(2);
    for seed in 10..14 {
        let run = pool(seed, ["ssd-first", "mios-e"][seed as usize % 2]);
        let mut places = Vec::new();
        for device in run.sim.engine.devices() {
            let blocks = device.config.capacity_bytes / BLOCK_BYTES;
            places.extend((0..60).map(|_| (device.id.0, rng.below(blocks) * BLOCK_BYTES)));
        }
        damage(&run, &places, &mut rng);
    }
}

#[test]
fn both_superblocks_gone_is_said() {
    let run = pool(3, "ssd-first");
    let last = run.sim.engine.devices()[0].config.capacity_bytes - BLOCK_BYTES;
    let mut fork = run.clone();
    let mut rng = Rng::new(3);
    fork.sim.power_cut(fork.config().engine(false), CutMode::KeepAll, &mut rng);
    fork.sim.corrupt(DeviceId(0), 0, 200);
    fork.sim.corrupt(DeviceId(0), last, 200);
    let error = fork.after_damage().expect_err("no superblock is left");
    assert!(error.to_string().contains("both superblocks"), "{error}");
}

/// The newest unit has no later one that proves it: the stamps of its sectors do.
#[test]
fn the_newest_unit_of_a_single_ssd_may_be_damaged() {
    let mut rng = Rng::new(4);
    for seed in 0..8 {
        let mut config = SwarmConfig::tiny(seed, ["ssd-first", "mios-e"][seed as usize % 2], 300);
        config.drives = (1, 1);
        let mut run = Run::new(config).expect("a pool");
        while run.step().expect("no faults yet") {}
        run.flush_all().expect("no faults yet");
        let layout = run.sim.engine.devices()[0].layout;
        let mut refused = 0;
        for sector in 0..layout.journal_bytes / SECTOR_BYTES {
            let mut fork = run.clone();
            fork.sim.power_cut(fork.config().engine(false), CutMode::KeepAll, &mut rng);
            let offset = layout.journal_offset + sector * SECTOR_BYTES;
            let bit = rng.below(8 * SECTOR_BYTES) as u16;
            fork.sim.corrupt(DeviceId(0), offset, bit);
            match fork.after_damage() {
                Ok(_) => {}
                Err(Failure::Refused { .. }) => refused += 1,
                Err(failure) => panic!("seed {seed}, byte {offset}, bit {bit}: {failure}"),
            }
        }
        assert!(refused >= 8, "seed {seed}: a unit has eight sectors, {refused} were missed");
    }
}
