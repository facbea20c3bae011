//! Can a drive take the place of one that left, while the pool works, and who must not?
//!
//! Requirement of pool life. Power cuts at every moment are the swarm's (arms `added`, and `grown` for places
//! that were empty from birth); here are the ends.

use tandem_block::{DeviceId, KIB};
use tandem_drives::media::CutMode;
use tandem_engine::drain::DrainError;
use tandem_engine::format::superblock::MEMBERS_MAX;
use tandem_engine::replacement::{Ending, ReplaceError};
use tandem_engine::{ConfigError, Engine};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::succession::{Plan, Turn};
use tandem_sim::swarm::Run;
use tandem_sim::{evacuation, succession};

/// A pool of two SSDs and a hard drive from which an SSD leaves.
fn of_ssds(device: u8, then: Option<(u64, Turn)>) -> SwarmConfig {
    let device = DeviceId(device);
    let mut config = SwarmConfig::tiny(2, "even-split", 200);
    config.drives = (2, 1);
    config.drain = Some(evacuation::Plan { device, at: 80, cancels: None, lingers: 0 });
    config.replace = Some(succession::Plan { device, at: 0, more_bytes: 256 * KIB, then });
    config
}

/// Works until this is so.
fn works_until(run: &mut Run, what: &str, so: impl Fn(&Run) -> bool) {
    for _ in 0..60_000 {
        if so(run) {
            return;
        }
        if !run.step().expect("nothing fails") {
            run.extend(20, run.events);
        }
    }
    panic!("never {what}: {}", run.sim.engine.debug_state());
}

fn ending(run: &Run) -> Option<Ending> {
    run.sim.engine.replacement().and_then(|view| view.ended).map(|(_, ending)| ending)
}

fn until_added(run: &mut Run) {
    works_until(run, "added", |run| ending(run).is_some());
    assert_eq!(ending(run), Some(Ending::Finished));
}

/// The configuration has a bay more than the pool was formatted with. A start makes it, also if it is cut at any moment,
/// and a drive comes.
#[test]
fn a_bay_is_made_by_a_start() {
    for seed in 0..2 {
        let mut config = SwarmConfig::paged(seed, "mios-d", 600);
        config.drives = [(2, 2), (3, 2)][seed as usize];
        config.tuning.object_table_bytes = 256 * KIB;
        let mut run = Run::new(config).expect("a pool");
        for _ in 0..2_000 {
            run.step().expect("nothing fails");
        }
        let (all, ..) = run.sim.engine.space_blocks();
        run.add_bay(500);
        for cut in 0..60 {
            let mode = [CutMode::DropAll, CutMode::KeepAll][(cut % 2) as usize];
            let mut fork = run.clone();
            fork.crash(mode, Some(cut)).expect("it starts in the end");
        }
        run.crash(CutMode::DropAll, None).expect("it starts");
        assert_eq!(run.sim.engine.space_blocks().0, all, "nobody is there yet");
        for _ in 0..200 {
            run.step().expect("nothing fails");
        }
        run.crash(CutMode::DropAll, None).expect("it starts with the bay that it has");
        until_added(&mut run);
        let (more, ..) = run.sim.engine.space_blocks();
        assert!(more > all + all / 3, "{all} blocks before, {more} now");
        run.extend(50, 3);
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            run.crash(mode, None).expect("it starts with all drives");
            run.extend(50, 4);
        }
        run.finish().expect("nothing is lost");
    }
}

/// The drive that came has all metadata: the pool lives on when every other SSD has left.
#[test]
fn an_ssd_comes_and_the_other_one_leaves() {
    for device in [0, 1] {
        let mut run = Run::new(of_ssds(device, None)).unwrap();
        let all = run.sim.engine.map().ssd_slots();
        until_added(&mut run);
        let (came, other) = (DeviceId(device), DeviceId(1 - device));
        let view = run.sim.engine.replacement().expect("it came");
        assert!(view.joins && view.copied_bytes == view.total_bytes, "{view:?}");
        assert!(view.stats.doubled_bytes > 0, "metadata was written meanwhile: {view:?}");
        assert_eq!(run.sim.engine.map().ssd_slots(), all, "it is used again");
        works_until(&mut run, "written to", |run| run.sim.engine.lies_on(came) > 0);
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            run.flush_all().unwrap();
            run.crash(mode, None).unwrap();
            run.extend(50, 4);
        }
        run.sim.engine.drain(other).unwrap();
        run.sim.wake();
        let is_drained =
            |run: &Run| run.sim.engine.drain_view().is_some_and(|view| view.drained.is_some());
        works_until(&mut run, "drained", is_drained);
        run.sim.engine.remove(other).unwrap();
        run.sim.wake();
        works_until(&mut run, "removed", |run| {
            run.sim.engine.can_drain(other) == Err(DrainError::Gone(other))
        });
        run.extend(50, 5);
        run.flush_all().unwrap();
        run.crash(CutMode::DropAll, None).unwrap();
        run.extend(50, 6);
        run.finish().unwrap();
    }
}

/// Its homes can be had again, and blocks lie there.
#[test]
fn a_hard_drive_comes_with_its_homes_and_its_log() {
    let mut config = SwarmConfig::vacated(5, "ssd-first", 2_000);
    assert_eq!(config.drives, (2, 3));
    config.tuning.writeback_percent = (3, 1);
    config.shape.footprint_offset_bytes = 0;
    config.shape.footprint_bytes = config.shape.volume_bytes;
    let device = DeviceId(2);
    config.drain = Some(evacuation::Plan { device, at: 1_500, cancels: None, lingers: 0 });
    config.replace = Some(Plan { device, at: 0, more_bytes: 0, then: None });
    let mut run = Run::new(config).unwrap();
    let all = run.sim.engine.space_blocks().0;
    until_added(&mut run);
    assert_eq!(run.sim.engine.space_blocks().0, all);
    for mode in [CutMode::DropAll, CutMode::KeepAll] {
        run.flush_all().unwrap();
        run.crash(mode, None).unwrap();
        assert_eq!(run.sim.engine.space_blocks().0, all, "in every life");
        run.extend(50, 4);
    }
    // another one leaves, and what lies there goes to the one that came
    let other = DeviceId(3);
    run.sim.engine.drain(other).unwrap();
    run.sim.wake();
    works_until(&mut run, "drained", |run| {
        run.sim.engine.drain_view().is_some_and(|view| view.drained.is_some())
    });
    assert!(run.sim.engine.lies_on(device) > 0);
    run.sim.engine.remove(other).unwrap();
    run.sim.wake();
    run.extend(50, 5);
    run.finish().unwrap();
}

#[test]
fn a_change_of_mind_and_a_death_leave_the_place_empty() {
    for turn in [Turn::Cancel, Turn::SuccessorDies] {
        let mut run = Run::new(of_ssds(1, Some((10, turn)))).unwrap();
        works_until(&mut run, "ended", |run| ending(run).is_some());
        let expected = match turn {
            Turn::Cancel => ending(&run) == Some(Ending::Cancelled),
            Turn::SuccessorDies => matches!(ending(&run), Some(Ending::SuccessorFailed(_))),
        };
        assert!(expected, "{turn:?}: {:?}", ending(&run));
        assert!(run.sim.engine.devices()[1].is_gone());
        run.flush_all().unwrap();
        run.crash(CutMode::DropAll, None).unwrap();
        assert!(run.sim.engine.devices()[1].is_gone());
        // she tries again
        run.extend(50, 3);
        until_added(&mut run);
        run.finish().unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut config = of_ssds(1, None);
    config.replace = None;
    let mut run = Run::new(config).unwrap();
    let (place, wanted) = (DeviceId(1), run.sim.engine.devices()[1].config.capacity_bytes);
    assert_eq!(run.sim.engine.empty_place(place), None, "somebody is there");
    works_until(&mut run, "draining", |run| run.sim.engine.drain_view().is_some());
    let refused = run.sim.engine.can_replace(place, wanted);
    assert!(matches!(refused, Err(ReplaceError::NotNow(_))), "{refused:?}");
    works_until(&mut run, "removed", |run| {
        run.sim.engine.drain_view().is_some_and(|view| view.ended.is_some())
    });
    let engine = &run.sim.engine;
    let (needs, copied) = engine.empty_place(place).expect("it is empty now");
    assert!(needs == wanted && copied > 0 && copied < wanted, "{needs} {copied}");
    let found = wanted - 4096;
    let refused = engine.can_replace(place, found);
    assert_eq!(refused, Err(ReplaceError::TooSmall { found, wanted }));
    assert_eq!(engine.can_replace(place, wanted), Ok(()));
    assert_eq!(engine.empty_place(DeviceId(9)), None);
    run.finish().unwrap();
}

/// A pool with empty places, the first of which is filled.
fn with_spares(drives: (usize, usize), spares: &[u8]) -> SwarmConfig {
    let mut config = SwarmConfig::tiny(2, "ssd-first", 300);
    config.drives = drives;
    config.spares = spares.iter().map(|&id| DeviceId(id)).collect();
    config.shape.volume_bytes = 2 << 20;
    config.shape.footprint_bytes = 1 << 20;
    let device = config.spares[0];
    config.replace = Some(Plan { device, at: 60, more_bytes: 0, then: None });
    config
}

/// What nobody ever promised is there when the drive has come, and in every life from then on.
#[test]
fn a_pool_grows_beyond_the_drives_that_it_was_formatted_with() {
    for (drives, spares) in [
        ((2, 1), &[1][..]),
        ((1, 2), &[2]),
        ((2, 2), &[1, 3]),
        ((2, 2), &[3, 1]),
        ((2, 0), &[1]),
        ((0, 2), &[1]),
    ] {
        let config = with_spares(drives, spares);
        let mut run = Run::new(config).unwrap();
        let came = DeviceId(spares[0]);
        let sizes = |run: &Run| {
            let engine = &run.sim.engine;
            (engine.space_blocks().0, engine.map().ssd_slots())
        };
        let born = sizes(&run);
        // as without the place, but for what its metadata takes
        let mut alone = run.config().clone();
        let is_spare = |id: usize| spares.contains(&(id as u8));
        alone.drives.0 -= (0..drives.0).filter(|&id| is_spare(id)).count();
        alone.drives.1 -= (drives.0..drives.0 + drives.1).filter(|&id| is_spare(id)).count();
        (alone.spares, alone.replace) = (Vec::new(), None);
        let without = sizes(&Run::new(alone).unwrap());
        let nearly = |less: u64, more: u64| less <= more && more - less <= more / 20;
        assert!(nearly(born.0, without.0) && nearly(born.1, without.1), "{born:?} {without:?}");
        run.crash(CutMode::DropAll, None).unwrap();
        assert_eq!(sizes(&run), born, "in every life before");
        until_added(&mut run);
        let grown = sizes(&run);
        let is_ssd = usize::from(came.0) < drives.0;
        assert_eq!(grown.1 > born.1, is_ssd, "{born:?} {grown:?}");
        let is_home = !is_ssd || drives.1 == 0;
        assert_eq!(grown.0 > born.0, is_home, "{born:?} {grown:?}");
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            run.flush_all().unwrap();
            run.crash(mode, None).unwrap();
            assert_eq!(sizes(&run), grown, "in every life behind");
            run.extend(50, 4);
        }
        if is_ssd {
            works_until(&mut run, "written to", |run| run.sim.engine.lies_on(came) > 0);
        }
        let empty: Vec<u8> = spares[1..].to_vec();
        let is_gone = |id: &u8| run.sim.engine.devices()[usize::from(*id)].is_gone();
        assert!(empty.iter().all(is_gone), "another place stays empty");
        run.finish().unwrap();
    }
}

/// A volume that only fits behind it: its blocks have homes there.
#[test]
fn a_volume_has_its_homes_on_the_drive_that_came() {
    let mut run = Run::new(with_spares((1, 2), &[2])).unwrap();
    let device = DeviceId(2);
    until_added(&mut run);
    run.flush_all().unwrap();
    let mut rng = tandem_block::Rng::new(1);
    let mut config = run.config().engine(false);
    config.gone.clear();
    let mut volume = config.volumes[0].clone();
    let free = run.sim.engine.space_blocks().1;
    (volume.object, volume.name) = (tandem_block::ObjectId(2), "vol1".into());
    volume.size_bytes = free * 4096;
    config.volumes.push(volume);
    run.sim.power_cut(config, CutMode::DropAll, &mut rng);
    run.sim.start().unwrap();
    let engine = &run.sim.engine;
    let made = engine.objects().get(tandem_block::ObjectId(2)).expect("it was made");
    assert_eq!(made.size_bytes, free * 4096);
    assert_eq!(engine.space_blocks().1, 0);
    let blocks = 0..engine.map().leaves().block_count() as u64;
    let there = blocks.filter(|&block| engine.home_of(block).0 == device).count() as u64;
    assert_eq!(there, engine.devices()[2].layout.home_blocks, "each of its homes is somebody's");
}

#[test]
fn places_that_could_never_be_filled_are_refused() {
    let refused = |drives: (usize, usize), spares: &[u8]| {
        let mut config = SwarmConfig::tiny(2, "ssd-first", 10);
        config.drives = drives;
        config.spares = spares.iter().map(|&id| DeviceId(id)).collect();
        Engine::new(config.engine(true)).err()
    };
    for (drives, spares, wrong) in [
        ((1, 1), [0], 0), // the only SSD
        ((2, 1), [0], 0), // the first one
        ((1, 2), [1], 1),
        ((1, 1), [1], 1), // the only hard drive
        ((1, 3), [2], 2), // between two
    ] {
        let error = refused(drives, &spares);
        let is_named =
            matches!(error, Some(ConfigError::EmptyPlace { device, .. }) if device == wrong);
        assert!(is_named, "{drives:?} {spares:?}: {error:?}");
    }
    assert!(refused((2, 1), &[9]).is_some(), "there is no such place");
    assert_eq!(refused((2, 2), &[1, 3]), None);
    assert!(refused((MEMBERS_MAX, 1), &[1]).is_some(), "empty places are members, too");
    let mut paired = SwarmConfig::paired(0, "ssd-first", 10);
    (paired.drives, paired.spares) = ((2, 1), vec![DeviceId(1)]);
    let error = Engine::new(paired.engine(true)).err();
    assert!(matches!(error, Some(ConfigError::EmptyPlace { device: 1, .. })), "{error:?}");
}
