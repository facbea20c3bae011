//! Can a drive leave while the pool works, and what may not leave?
//!
//! Requirement of pool life. Power cuts at every moment are the swarm's (arms `drained` and `vacated`); here
//! are the ends.

use tandem_block::{BLOCK_BYTES, DeviceId, KIB, MIB};
use tandem_drives::media::CutMode;
use tandem_engine::StartError;
use tandem_engine::drain::{DrainError, Ending};
use tandem_engine::map::NONE;
use tandem_engine::map::entry::HOME;
use tandem_sim::evacuation::Plan;
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
        if let Some((_, ending)) = run.sim.engine.drain_view().and_then(|view| view.ended) {
            return ending;
        }
        if !more {
            run.extend(20, run.events);
        }
    }
    panic!("it does not end: {:?}", run.sim.engine.drain_view());
}

#[test]
fn either_ssd_leaves_and_the_last_one_stays() {
    for device in [0, 1] {
        let mut run = Run::new(config(device, None)).unwrap();
        assert_eq!(until_ended(&mut run), Ending::Removed);
        let view = run.sim.engine.drain_view().expect("it ended");
        assert!(view.moved_bytes > 0 && view.left_bytes == 0, "{view:?}");
        let gone = DeviceId(device);
        let (last, hdd) = (DeviceId(1 - device), DeviceId(2));
        let engine = &run.sim.engine;
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
    let standing = run.sim.engine.devices()[1].standing;
    assert_eq!(standing, Default::default());
    run.finish().unwrap();
}

/// The drive that is drained dies, also while superblocks are told that it drains: what lay there is lost as
/// if it had never been drained, and said. The pool goes on.
#[test]
fn its_death_ends_it() {
    for steps in 0..12 {
        let mut run = Run::new(config(1, None)).unwrap();
        while run.sim.engine.drain_view().is_none_or(|view| view.left_bytes == 0) {
            assert!(run.step().unwrap(), "it begins");
        }
        for _ in 0..steps {
            assert!(run.step().unwrap(), "it goes on");
        }
        run.allow_failures();
        run.sim.kill_drive(DeviceId(1));
        assert_eq!(until_ended(&mut run), Ending::Failed);
        while run.step().unwrap() {}
    }
}

/// A pool of two SSDs and three hard drives of which this one leaves, with data on all of them.
fn of_hard_drives(nth: u8) -> SwarmConfig {
    let mut config = SwarmConfig::vacated(5, "ssd-first", 2_000);
    assert_eq!(config.drives, (2, 3));
    config.tuning.writeback_percent = (3, 1);
    config.shape.footprint_offset_bytes = 0;
    config.shape.footprint_bytes = config.shape.volume_bytes;
    let plan = config.drain.as_mut().expect("it drains one");
    *plan = Plan { device: DeviceId(2 + nth), at: 6_000, cancels: None, lingers: 0 };
    config
}

/// Blocks that are at home on this drive.
fn at_home_on(run: &Run, device: DeviceId) -> Vec<u64> {
    let (engine, map) = (&run.sim.engine, run.sim.engine.map());
    let lies = |block: &u64| map.state(*block) & HOME != 0 && engine.home_of(*block).0 == device;
    (0..map.leaves().block_count() as u64).filter(lies).collect()
}

#[test]
fn a_hard_drive_leaves_with_its_homes_and_its_log() {
    for nth in [0, 1] {
        let mut run = Run::new(of_hard_drives(nth)).unwrap();
        let gone = DeviceId(2 + nth);
        let (all, ..) = run.sim.engine.space_blocks();
        while run.sim.engine.drain_view().is_none() {
            assert!(run.step().unwrap(), "it begins");
        }
        let began = run.sim.engine.drain_view().expect("it has begun");
        assert!(began.total_bytes > 0, "something lies there: {}", run.sim.engine.debug_state());
        let (left, free, used) = run.sim.engine.space_blocks();
        assert_eq!(left, free + used);
        assert_eq!(left, all - all / 3, "its homes are not offered any more");
        assert_eq!(until_ended(&mut run), Ending::Removed);
        assert_eq!(run.sim.engine.space_blocks().0, left);
        assert_eq!(at_home_on(&run, gone), []);
        let engine = &run.sim.engine;
        assert_eq!(engine.lies_on(gone), 0);
        assert_eq!(engine.can_drain(gone), Err(DrainError::Gone(gone)));
        run.extend(50, 3);
        run.flush_all().unwrap();
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            run.crash(mode, None).unwrap();
            assert_eq!(run.sim.engine.space_blocks().0, left, "in every life");
            run.extend(50, 4);
        }
        run.finish().unwrap();
    }
}

/// What cannot be read stays, is counted, and does not keep the rest.
#[test]
fn a_home_that_cannot_be_read_stays_until_it_is_written() {
    let mut config = of_hard_drives(0);
    config.shape.footprint_bytes = MIB;
    let mut run = Run::new(config).unwrap();
    let device = DeviceId(2);
    while at_home_on(&run, device).len() < 20 {
        assert!(run.step().unwrap(), "something comes home before it begins");
    }
    let bad = at_home_on(&run, device)[10];
    let (_, at) = run.sim.engine.home_of(bad);
    run.sim.corrupt(device, at, 3);
    run.allow_failures();
    let mut view = None;
    for _ in 0..20_000 {
        let more = run.step().unwrap();
        view = run.sim.engine.drain_view();
        if view.is_some_and(|view| view.unreadable_blocks > 0 && view.left_bytes <= BLOCK_BYTES) {
            break;
        }
        if !more {
            run.extend(20, run.events);
        }
    }
    let view = view.expect("it drains");
    let is_overwritten = view.ended.is_some();
    assert!(
        is_overwritten || (view.unreadable_blocks, view.left_bytes) == (1, BLOCK_BYTES),
        "{view:?}"
    );
    // the workload writes there sooner or later
    assert_eq!(until_ended(&mut run), Ending::Removed);
}

/// Seen: the page with the checksum had left a small cache when the home was read. Then the copy counted as sound.
#[test]
fn a_home_is_compared_though_its_page_leaves_the_cache() {
    let mut config = SwarmConfig::paged(4, "ssd-first", 3_000);
    config.drives = (2, 2);
    config.tuning.writeback_percent = (3, 1);
    config.tuning.object_table_bytes = 256 * KIB;
    config.drain = Some(Plan { device: DeviceId(2), at: 9_000, cancels: None, lingers: 0 });
    let mut run = Run::new(config).unwrap();
    let device = DeviceId(2);
    while run.sim.engine.drain_view().is_none() {
        assert!(run.step().unwrap(), "it begins");
    }
    let bad = at_home_on(&run, device);
    assert!(bad.len() > 100, "much is at home: {}", bad.len());
    for block in &bad {
        let (_, at) = run.sim.engine.home_of(*block);
        run.sim.corrupt(device, at, 3);
    }
    run.allow_failures();
    let is_over = |run: &Run| run.sim.engine.drain_view().is_some_and(|view| view.ended.is_some());
    for _ in 0..40_000 {
        if is_over(&run) {
            break;
        }
        // homes are compared with copies on SSDs in each audit
        if !run.step().unwrap() {
            run.extend(20, run.events);
        }
    }
    run.crash(CutMode::DropAll, None).unwrap();
    run.finish().unwrap();
}

/// One of which an SSD has a copy is given up, while nobody writes to it.
#[test]
fn a_home_that_cannot_be_read_is_left_where_a_copy_is_sound() {
    let mut config = of_hard_drives(0);
    config.shape.footprint_bytes = MIB;
    let mut run = Run::new(config).unwrap();
    let device = DeviceId(2);
    let with_copy = |run: &Run| {
        let has_copy = |block: &u64| run.sim.engine.map().entry(*block).ssd != NONE;
        at_home_on(run, device).into_iter().filter(has_copy).collect::<Vec<u64>>()
    };
    while with_copy(&run).len() < 20 {
        assert!(run.step().unwrap(), "something comes home before it begins");
    }
    run.read_only();
    run.flush_all().unwrap();
    let bad = with_copy(&run)[10];
    let (_, at) = run.sim.engine.home_of(bad);
    run.sim.corrupt(device, at, 3);
    let mut kept = true;
    for _ in 0..100_000 {
        let engine = &run.sim.engine;
        if engine.drain_view().is_some_and(|view| view.ended.is_some()) {
            break;
        }
        kept &= engine.drain_view().is_none() || engine.map().entry(bad).ssd != NONE;
        if !run.step().unwrap() {
            run.extend(20, run.events);
            run.read_only();
        }
    }
    assert!(kept, "its copy was there until the end, so that it is this that is tested");
    let view = run.sim.engine.drain_view().expect("it drains");
    let ended = view.ended.map(|(_, ending)| ending);
    assert_eq!((ended, view.unreadable_blocks), (Some(Ending::Removed), 0));
    run.crash(CutMode::DropAll, None).unwrap();
}

#[test]
fn a_hard_drive_that_is_needed_stays() {
    let refused = |config: SwarmConfig, device: u8| {
        let mut run = Run::new(SwarmConfig { drain: None, ..config }).unwrap();
        for _ in 0..100 {
            run.step().unwrap();
        }
        run.sim.engine.can_drain(DeviceId(device)).expect_err("it stays")
    };
    let with_drives = |drives| SwarmConfig { drives, ..of_hard_drives(0) };
    let second = "the metadata replica";
    let device = DeviceId(1);
    assert_eq!(refused(with_drives((1, 3)), 1), DrainError::Keeps { device, what: second });
    let (device, what) = (DeviceId(0), "the pool's metadata");
    let alone = SwarmConfig { drives: (0, 3), policy: "ssd-first".into(), ..of_hard_drives(0) };
    assert_eq!(refused(alone, 0), DrainError::Keeps { device, what });
    let mut full = of_hard_drives(0);
    full.shape.volume_bytes = full.shape.volume_bytes / 2 * 3;
    full.shape.footprint_offset_bytes = 0;
    let DrainError::NoRoom { room, wanted } = refused(full, 3) else { panic!("there is no room") };
    assert!(room < wanted, "{room} {wanted}");
    let mut old = of_hard_drives(0);
    old.tuning.object_table_bytes = 0;
    assert!(matches!(refused(old, 3), DrainError::NotNow(_)));
}

#[test]
fn what_is_not_drained_is_not_removed_and_nobody_is_gone_by_word_alone() {
    let mut config = config(1, None);
    config.drain = None;
    let mut run = Run::new(config).unwrap();
    for _ in 0..200 {
        run.step().unwrap();
    }
    let (device, engine) = (DeviceId(1), &mut run.sim.engine);
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

/// Begins to drain an SSD on which nothing lies, and removes it while superblocks are told that it drains.
fn removed_at_once() -> Run {
    let mut run = Run::new(SwarmConfig { drain: None, ..config(1, None) })
        .expect("a pool of this kind starts");
    let device = DeviceId(1);
    assert_eq!(run.sim.engine.can_drain(device), Ok(0));
    run.sim.engine.drain(device).expect("it may be drained");
    run.sim.wake();
    run.sim.take_said();
    let view = run.sim.engine.drain_view().expect("it drains");
    assert_eq!((view.stage, view.drained.is_some()), ("moves", true), "the round is not over");
    assert_eq!(run.sim.engine.remove(device), Ok(()));
    assert_eq!(run.sim.engine.cancel_drain(), Err(DrainError::TooLate));
    run.sim.wake();
    run
}

/// Seen: the pool, which served, began to serve once more.
#[test]
fn an_empty_drive_is_removed_while_its_drain_is_announced() {
    let mut run = removed_at_once();
    while run.sim.engine.drain_view().is_some_and(|view| view.ended.is_none()) {
        assert!(run.sim.step(), "it ends");
        assert!(run.sim.take_said().started.is_none(), "it serves already");
    }
    let ended = run.sim.engine.drain_view().and_then(|view| view.ended);
    assert_eq!(ended.map(|(_, ending)| ending), Some(Ending::Removed));
    run.finish().unwrap();
}

/// … and the power is cut after any of its steps.
#[test]
fn a_crash_while_an_empty_drive_is_removed_leaves_a_pool() {
    for steps in 0..12 {
        for mode in [CutMode::DropAll, CutMode::KeepAll] {
            let mut run = removed_at_once();
            (0..steps).for_each(|_| assert!(run.step().is_ok()));
            run.crash(mode, None).unwrap();
            run.extend(20, 4);
            run.finish().unwrap();
        }
    }
}
