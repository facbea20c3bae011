//! Is a bad copy found while another one still answers?
//!
//! Source: design decision 7: an entry has one to three places. One bit of each place in turn is
//! flipped; a read that compares every copy answers right and names that place, and no other.

use std::collections::BTreeSet;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, Op, Request, RequestId, Rng};
use tandem_drives::media::CutMode;
use tandem_engine::map::{Logical, Place, PlaceRole};
use tandem_engine::tier::{Intention, Tier, TierView};
use tandem_engine::{Engine, ServedFrom};
use tandem_sim::Simulation;
use tandem_sim::swarm::{Run, SwarmConfig, VOLUME};

/// Everything on an SSD and on a hard drive.
#[derive(Clone, Copy, Debug)]
struct Twice;

impl Tier for Twice {
    fn intend(&self, _: &TierView) -> Intention {
        Intention::Both
    }

    fn boxed_clone(&self) -> Box<dyn Tier> {
        Box::new(*self)
    }
}

fn address(engine: &Engine, block: Logical, place: Place) -> (DeviceId, u64) {
    if let Place::Ssd(slot) | Place::Log(slot) = place {
        let region = engine.map().slots().region(slot);
        return (region.device, region.address(slot));
    }
    let home = engine.devices().iter().find_map(|device| {
        let layout = &device.layout;
        let nth = block.checked_sub(layout.home_first).filter(|&nth| nth < layout.home_blocks)?;
        Some((device.id, layout.home_offset + nth * BLOCK_BYTES))
    });
    home.expect("every block has a home")
}

/// Reads a range in pieces of four blocks: did all of them succeed?
fn read(sim: &mut Simulation, (offset, length): (u64, u64)) -> bool {
    let mut sound = true;
    for at in (offset..offset + length).step_by(4 * BLOCK_BYTES as usize) {
        let id = RequestId(1 << 40 | at);
        let length = (offset + length - at).min(4 * BLOCK_BYTES);
        let request = Request::new(id, VOLUME, Op::Read, (at, length), sim.now);
        sim.request(&request);
        let mut is_done = false;
        loop {
            sim.drain_done(|done| {
                // who waits behind a write may read the damaged copy when it is the only one, and is told so
                let is_own = done.request == id;
                is_done |= is_own;
                let is_told = !is_own && matches!(done.status, Err(IoError::Checksum(_)));
                sound &= done.status.is_ok() || is_told;
            });
            if is_done {
                break;
            }
            assert!(sim.step(), "a read ends: {}", sim.engine.debug_state());
        }
    }
    sound
}

/// While it serves: a log place has a copy on an SSD only until its drive was flushed. Bits flip in
/// both; the map may have moved on before the read.
fn damage_tails(run: &Run, rng: &mut Rng, kinds: &mut BTreeSet<ServedFrom>) {
    let map = run.sim.engine.map();
    let first = run.sim.engine.objects().get(VOLUME).expect("the volume").first;
    let tails = (first..map.leaves().block_count() as Logical)
        .filter(|&block| map.entry(block).places().any(|(_, role)| role == PlaceRole::Tail));
    for block in tails.take(3) {
        for (place, _) in map.entry(block).places() {
            let at = address(&run.sim.engine, block, place);
            let mut sim = run.sim.clone();
            sim.corrupt(at.0, at.1 + rng.below(8) * 512, rng.below(64) as u16);
            let offset = (block - first) * BLOCK_BYTES;
            assert!(read(&mut sim, (offset, BLOCK_BYTES)), "another copy answers");
            let bad = &sim.engine.stats().bad_places;
            if let Some(found) = bad.get(&at) {
                kinds.insert(found.from);
            }
            assert!(bad.keys().all(|found| *found == at), "{place:?}");
        }
    }
}

/// Recovers a copy of `run` as it is now, and flips a bit in every copy of every few blocks.
fn damage(run: &Run, every: usize, rng: &mut Rng, kinds: &mut BTreeSet<ServedFrom>) {
    let mut cut = run.clone();
    let mut config = cut.config().engine(false);
    config.verify_copies = true;
    cut.sim.power_cut(config, CutMode::KeepAll, rng);
    cut.sim.start().expect("nothing is damaged");
    let size = cut.sim.engine.objects().get(VOLUME).expect("the volume").size_bytes;
    let mut sound = cut.sim.clone();
    assert!(read(&mut sound, (0, size)));
    assert!(sound.engine.stats().bad_places.is_empty(), "nothing was damaged");
    let map = cut.sim.engine.map();
    let copied: Vec<Logical> = (0..map.leaves().block_count() as Logical)
        .filter(|&block| map.entry(block).places().count() > 1)
        .collect();
    for &block in copied.iter().step_by(every) {
        let places: Vec<Place> = map.entry(block).places().map(|(it, _)| it).collect();
        for place in places {
            let at = address(&cut.sim.engine, block, place);
            let mut sim = cut.sim.clone();
            sim.corrupt(at.0, at.1 + rng.below(8) * 512, rng.below(64) as u16);
            assert!(read(&mut sim, (0, size)), "another copy answers");
            let bad = &sim.engine.stats().bad_places;
            let found: Vec<_> = bad.iter().map(|(at, bad)| (*at, bad.logical)).collect();
            assert_eq!(found, [(at, block)], "{place:?}");
            kinds.insert(bad[&at].from);
        }
    }
}

#[test]
fn a_flipped_bit_is_found_in_every_copy_and_nowhere_else() {
    let mut kinds = BTreeSet::new();
    for (seed, policy) in [(5, "ssd-first"), (6, "mios-e")] {
        let mut config = SwarmConfig::tiny(seed, policy, 300);
        config.drives = (2, 3);
        config.shape.footprint_bytes = 1 << 20;
        let mut set = config.engine(true);
        set.verify_copies = true;
        let engine =
            Engine::new(set).expect("a valid configuration").with_tier(VOLUME, Box::new(Twice));
        let drives = config.drives();
        let mut run = Run::over(config, Simulation::new(engine, drives, true)).expect("a pool");
        let mut rng = Rng::new(seed);
        let mut steps = 0;
        while run.step().expect("no faults") {
            steps += 1;
            damage_tails(&run, &mut rng, &mut kinds);
            if steps % 100 == 0 {
                damage(&run, 23, &mut rng, &mut kinds);
            }
        }
        run.flush_all().expect("no faults");
        while run.sim.step() {}
        damage(&run, 7, &mut rng, &mut kinds);
    }
    let all = [ServedFrom::Ssd, ServedFrom::SsdCopy, ServedFrom::HddLog, ServedFrom::HddHome];
    assert!(all.iter().all(|kind| kinds.contains(kind)), "met only {kinds:?}");
}
