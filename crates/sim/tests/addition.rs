//! Can a drive take the place of one that left, while the pool works, and who must not?
//!
//! Requirement of pool life. Power cuts at every moment are the swarm's (arm `added`); here are the ends.

use tandem_block::{DeviceId, KIB};
use tandem_drives::media::CutMode;
use tandem_engine::drain::DrainError;
use tandem_engine::handover::{Ending, ReplaceError};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::succession::{Plan, Turn};
use tandem_sim::swarm::Run;
use tandem_sim::{exodus, succession};

/// A pool of two SSDs and a hard drive from which an SSD leaves.
fn of_ssds(device: u8, then: Option<(u64, Turn)>) -> SwarmConfig {
    let device = DeviceId(device);
    let mut config = SwarmConfig::tiny(2, "even-split", 200);
    config.drives = (2, 1);
    config.drain = Some(exodus::Plan { device, at: 80, cancels: None, lingers: 0 });
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
    panic!("never {what}: {}", run.world.engine.debug_state());
}

fn ending(run: &Run) -> Option<Ending> {
    run.world.engine.handover().and_then(|view| view.ended).map(|(_, ending)| ending)
}

fn until_added(run: &mut Run) {
    works_until(run, "added", |run| ending(run).is_some());
    assert_eq!(ending(run), Some(Ending::Finished));
}

/// The drive that came has all metadata: the pool lives on when every other SSD has left.
#[test]
fn an_ssd_comes_and_the_other_one_leaves() {
    for device in [0, 1] {
        let mut run = Run::new(of_ssds(device, None)).unwrap();
        let all = run.world.engine.map().ssd_slots();
        until_added(&mut run);
        let (came, other) = (DeviceId(device), DeviceId(1 - device));
        let view = run.world.engine.handover().expect("it came");
        assert!(view.joins && view.copied_bytes == view.total_bytes, "{view:?}");
        assert!(view.stats.doubled_bytes > 0, "metadata was written meanwhile: {view:?}");
        assert_eq!(run.world.engine.map().ssd_slots(), all, "it is used again");
        works_until(&mut run, "written to", |run| run.world.engine.lies_on(came) > 0);
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            run.flush_all().unwrap();
            run.crash(mode, None).unwrap();
            run.extend(50, 4);
        }
        run.world.engine.drain(other).unwrap();
        run.world.wake();
        let is_drained =
            |run: &Run| run.world.engine.drain_view().is_some_and(|view| view.drained.is_some());
        works_until(&mut run, "drained", is_drained);
        run.world.engine.remove(other).unwrap();
        run.world.wake();
        works_until(&mut run, "removed", |run| {
            run.world.engine.can_drain(other) == Err(DrainError::Gone(other))
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
    config.drain = Some(exodus::Plan { device, at: 1_500, cancels: None, lingers: 0 });
    config.replace = Some(Plan { device, at: 0, more_bytes: 0, then: None });
    let mut run = Run::new(config).unwrap();
    let all = run.world.engine.space_blocks().0;
    until_added(&mut run);
    assert_eq!(run.world.engine.space_blocks().0, all);
    for mode in [CutMode::DropAll, CutMode::KeepAll] {
        run.flush_all().unwrap();
        run.crash(mode, None).unwrap();
        assert_eq!(run.world.engine.space_blocks().0, all, "in every life");
        run.extend(50, 4);
    }
    // another one leaves, and what lies there goes to the one that came
    let other = DeviceId(3);
    run.world.engine.drain(other).unwrap();
    run.world.wake();
    works_until(&mut run, "drained", |run| {
        run.world.engine.drain_view().is_some_and(|view| view.drained.is_some())
    });
    assert!(run.world.engine.lies_on(device) > 0);
    run.world.engine.remove(other).unwrap();
    run.world.wake();
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
        assert!(run.world.engine.devices()[1].is_gone());
        run.flush_all().unwrap();
        run.crash(CutMode::DropAll, None).unwrap();
        assert!(run.world.engine.devices()[1].is_gone());
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
    let (place, wanted) = (DeviceId(1), run.world.engine.devices()[1].config.capacity_bytes);
    assert_eq!(run.world.engine.empty_place(place), None, "somebody is there");
    works_until(&mut run, "draining", |run| run.world.engine.drain_view().is_some());
    let refused = run.world.engine.can_replace(place, wanted);
    assert!(matches!(refused, Err(ReplaceError::NotNow(_))), "{refused:?}");
    works_until(&mut run, "removed", |run| {
        run.world.engine.drain_view().is_some_and(|view| view.ended.is_some())
    });
    let engine = &run.world.engine;
    let (needs, copied) = engine.empty_place(place).expect("it is empty now");
    assert!(needs == wanted && copied > 0 && copied < wanted, "{needs} {copied}");
    let found = wanted - 4096;
    let refused = engine.can_replace(place, found);
    assert_eq!(refused, Err(ReplaceError::TooSmall { found, wanted }));
    assert_eq!(engine.can_replace(place, wanted), Ok(()));
    assert_eq!(engine.empty_place(DeviceId(9)), None);
    run.finish().unwrap();
}
