//! Can a drive be replaced while the pool works, and what becomes of the drive that goes?
//!
//! Requirement L4. Power cuts at every moment are the swarm's (arm `replaced`); here are the ends.

use tandem_block::DeviceId;
use tandem_drives::media::CutMode;
use tandem_engine::StartError;
use tandem_engine::replacement::{Ending, ReplaceError};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::succession::{Plan, Turn};
use tandem_sim::swarm::{Failure, Run};

fn config(device: u8, then: Option<(u64, Turn)>) -> SwarmConfig {
    let mut config = SwarmConfig::tiny(1, "mios-d", 200);
    config.drives = (1, 1);
    let (device, at, more_bytes) = (DeviceId(device), 60, 1 << 18);
    config.replace = Some(Plan { device, at, more_bytes, then });
    config
}

/// Works until the replacement has ended, and a little longer.
fn until_ended(run: &mut Run) -> Ending {
    for _ in 0..20_000 {
        let more = run.step().expect("nothing fails");
        if let Some((_, ending)) = run.sim.engine.replacement().and_then(|view| view.ended) {
            return ending;
        }
        if !more {
            run.extend(20, run.events);
        }
    }
    panic!("it does not end: {:?}", run.sim.engine.replacement());
}

#[test]
fn either_drive_is_replaced_and_the_old_one_is_refused_afterwards() {
    for device in [0, 1] {
        let mut run = Run::new(config(device, None)).unwrap();
        assert_eq!(until_ended(&mut run), Ending::Finished);
        let view = run.sim.engine.replacement().expect("it ended");
        assert_eq!(view.copied_bytes, view.total_bytes);
        assert!(view.stats.doubled_bytes > 0, "users wrote meanwhile: {view:?}");
        let mut stale = run.clone();
        run.extend(50, 3);
        run.flush_all().unwrap();
        run.crash(CutMode::DropAll, None).unwrap();
        run.extend(50, 4);
        run.finish().unwrap();

        // somebody puts the old drive back, alone
        stale.sim.old_comes_back_alone();
        match stale.crash(CutMode::KeepAll, None) {
            Err(Failure::Refused { error: StartError::Replaced { device: told }, .. }) => {
                assert_eq!(told, usize::from(device));
            }
            other => panic!("the old drive serves: {other:?}"),
        }
    }
}

#[test]
fn a_change_of_mind_and_a_death_leave_the_old_drive() {
    for device in [0, 1] {
        for turn in [Turn::Cancel, Turn::SuccessorDies] {
            let mut run = Run::new(config(device, Some((70, turn)))).unwrap();
            let ending = until_ended(&mut run);
            let expected = match turn {
                Turn::Cancel => ending == Ending::Cancelled,
                Turn::SuccessorDies => matches!(ending, Ending::SuccessorFailed(_)),
            };
            assert!(expected, "{turn:?}: {ending:?}");
            run.extend(50, 3);
            run.flush_all().unwrap();
            run.crash(CutMode::DropAll, None).unwrap();
            run.finish().unwrap();
        }
    }
}

/// The old drive dies while it is copied: that is the death of a member, as it was before.
#[test]
fn the_death_of_the_old_drive_ends_it() {
    let mut run = Run::new(config(1, None)).unwrap();
    while run.sim.engine.replacement().is_none_or(|view| view.copied_bytes == 0) {
        assert!(run.step().unwrap(), "it begins");
    }
    run.allow_failures();
    run.sim.kill_drive(DeviceId(1));
    assert_eq!(until_ended(&mut run), Ending::OldFailed);
}

#[test]
fn what_cannot_be_is_refused() {
    let mut run = Run::new(SwarmConfig::tiny(1, "ssd-first", 50)).unwrap();
    let bytes = run.sim.engine.devices()[0].config.capacity_bytes;
    let engine = &run.sim.engine;
    let (found, wanted) = (bytes - 512, bytes);
    let refused = [
        (0, bytes - 512, ReplaceError::TooSmall { found, wanted }),
        (9, bytes, ReplaceError::NoDevice(DeviceId(9))),
    ];
    for (device, bytes, expected) in refused {
        assert_eq!(engine.can_replace(DeviceId(device), bytes), Err(expected));
    }
    assert_eq!(run.sim.engine.cancel_replace(), Err(ReplaceError::Nothing));
    let mut pair = Run::new(SwarmConfig::paired(0, "ssd-first", 10)).unwrap();
    let leg = DeviceId(0);
    assert_eq!(pair.sim.engine.can_replace(leg, 1 << 40), Err(ReplaceError::IsPair(leg)));
    pair.finish().unwrap();
    run.finish().unwrap();
}
