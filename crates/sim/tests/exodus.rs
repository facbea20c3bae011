//! Can an SSD leave while the pool works, and what may not leave?
//!
//! Requirement of pool life. Power cuts at every moment are the swarm's (arm `drained`); here are the ends.

use tandem_block::DeviceId;
use tandem_drives::media::CutMode;
use tandem_engine::StartError;
use tandem_engine::drain::{DrainError, Ending};
use tandem_sim::exodus::Plan;
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Failure, Run};

fn config(device: u8, cancels: Option<u64>) -> SwarmConfig {
    let mut config = SwarmConfig::tiny(2, "even-split", 200);
    config.drives = (2, 1);
    config.drain = Some(Plan { device: DeviceId(device), at: 80, cancels, lingers: 0 });
    config
}

/// Works until a drain has ended, and a little longer.
fn until_ended(run: &mut Run) -> Ending {
    for _ in 0..20_000 {
        let more = run.step().expect("nothing fails");
        if let Some((_, ending)) = run.world.engine.drain_view().and_then(|view| view.ended) {
            return ending;
        }
        if !more {
            run.extend(20, run.events);
        }
    }
    panic!("it does not end: {:?}", run.world.engine.drain_view());
}

#[test]
fn either_ssd_leaves_and_the_last_one_stays() {
    for device in [0, 1] {
        let mut run = Run::new(config(device, None)).unwrap();
        assert_eq!(until_ended(&mut run), Ending::Removed);
        let view = run.world.engine.drain_view().expect("it ended");
        assert!(view.moved_bytes > 0 && view.left_bytes == 0, "{view:?}");
        let gone = DeviceId(device);
        let (last, hdd) = (DeviceId(1 - device), DeviceId(2));
        let engine = &run.world.engine;
        assert_eq!(engine.can_drain(gone), Err(DrainError::Gone(gone)));
        assert_eq!(engine.can_drain(last), Err(DrainError::Last { device: last, role: "SSD" }));
        let role = "hard drive";
        assert_eq!(engine.can_drain(hdd), Err(DrainError::Last { device: hdd, role }));
        run.extend(50, 3);
        run.flush_all().unwrap();
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            run.crash(mode, None).unwrap();
            run.extend(50, 4);
        }
        run.finish().unwrap();
    }
}

#[test]
fn a_change_of_mind_keeps_it() {
    let mut run = Run::new(config(1, Some(10))).unwrap();
    assert_eq!(until_ended(&mut run), Ending::Cancelled);
    let standing = run.world.engine.devices()[1].standing;
    assert_eq!(standing, Default::default());
    run.finish().unwrap();
}

/// The drive that is drained dies: what lay there is lost as if it had never been drained, and said.
#[test]
fn its_death_ends_it() {
    let mut run = Run::new(config(1, None)).unwrap();
    while run.world.engine.drain_view().is_none_or(|view| view.left_bytes == 0) {
        assert!(run.step().unwrap(), "it begins");
    }
    run.allow_failures();
    run.world.kill_drive(DeviceId(1));
    assert_eq!(until_ended(&mut run), Ending::Failed);
}

#[test]
fn what_is_not_drained_is_not_removed_and_nobody_is_gone_by_word_alone() {
    let mut config = config(1, None);
    config.drain = None;
    let mut run = Run::new(config).unwrap();
    for _ in 0..200 {
        run.step().unwrap();
    }
    let (device, engine) = (DeviceId(1), &mut run.world.engine);
    let bytes = engine.can_drain(device).unwrap();
    assert!(bytes > 0);
    assert_eq!(engine.remove(device), Err(DrainError::NotDrained { device, bytes }));
    assert_eq!(engine.cancel_drain(), Err(DrainError::Nothing));
    run.call_gone(device);
    match run.crash(CutMode::KeepAll, None) {
        Err(Failure::Refused { error: StartError::NotGone { device: 1 }, .. }) => {}
        other => panic!("it is served without a drive that it has: {other:?}"),
    }
}
