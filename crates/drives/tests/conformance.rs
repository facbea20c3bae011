//! Does every known drive keep the contract of `tandem_block::Drive`?
//!
//! Source: design decision 4.

use tandem_block::{Drive, DriveOp, DriveOpKind, Instant, Outcome, Rng, Ticket};
use tandem_drives::spec::{DriveKind, SPECS};
use tandem_drives::{BuildOptions, SsdState, build};

/// Every drive at a gibibyte, whatever it really holds, so that forks are cheap.
fn drives() -> Vec<(&'static str, DriveKind, Box<dyn Drive>)> {
    let options = BuildOptions {
        capacity_bytes: Some(1 << 30),
        keep_events: true,
        ..BuildOptions::default()
    };
    SPECS
        .iter()
        .map(|known| {
            let drive = build(&known.spec(), options).expect("a gibibyte is possible");
            (known.name, known.kind, drive)
        })
        .collect()
}

/// The next command of a mixed workload, and how long to wait before it.
fn command(rng: &mut Rng, capacity_bytes: u64) -> (u64, DriveOp) {
    let kind = match rng.below(20) {
        0 => DriveOpKind::Flush,
        1 => DriveOpKind::Trim,
        2 => DriveOpKind::Write { fua: true },
        3..8 => DriveOpKind::Read,
        _ => DriveOpKind::Write { fua: false },
    };
    let wait_ns = if rng.below(50) == 0 { 300_000_000 } else { rng.below(200_000) };
    if kind == DriveOpKind::Flush {
        return (wait_ns, DriveOp { kind, offset_bytes: 0, length_bytes: 0 });
    }
    let sectors = rng.between(1, 256);
    let offset = rng.below(capacity_bytes / 512 - sectors);
    (wait_ns, DriveOp { kind, offset_bytes: offset * 512, length_bytes: sectors * 512 })
}

/// Runs `count` commands from `now` and returns what the drive answered.
fn run(drive: &mut dyn Drive, rng: &mut Rng, now: &mut u64, count: u64) -> Vec<Outcome> {
    (0..count)
        .map(|_| {
            let (wait_ns, op) = command(rng, drive.capacity_bytes());
            *now += wait_ns;
            drive.submit(Instant::from_ns(*now), op)
        })
        .collect()
}

#[test]
fn outcomes_are_never_in_the_past_and_tickets_rise_by_one() {
    for (name, _, mut drive) in drives() {
        let mut rng = Rng::new(1);
        let mut now = 0;
        for index in 0..3_000 {
            let (wait_ns, op) = command(&mut rng, drive.capacity_bytes());
            now += wait_ns;
            let outcome = drive.submit(Instant::from_ns(now), op);
            assert_eq!(outcome.ticket, Ticket(index), "{name}");
            assert!(outcome.ack_at.ns >= now, "{name}");
            assert_eq!(drive.ticket_ack(&outcome), (outcome.ack_at, outcome.status), "{name}");
            if op.kind == (DriveOpKind::Write { fua: true }) {
                assert!(outcome.durable_at.is_some_and(|at| at <= outcome.ack_at), "{name}");
            }
        }
    }
}

/// A fork and its original answer alike, whichever goes first.
#[test]
fn forks_equal_originals() {
    for (name, _, mut drive) in drives() {
        let (mut rng, mut now) = (Rng::new(2), 0);
        run(&mut *drive, &mut rng, &mut now, 1_000);
        let mut fork = drive.fork();
        let (mut fork_rng, mut fork_now) = (rng.clone(), now);
        let in_fork = run(&mut *fork, &mut fork_rng, &mut fork_now, 1_000);
        assert_eq!(run(&mut *drive, &mut rng, &mut now, 1_000), in_fork, "{name}");
        assert_eq!(drive.take_events(), fork.take_events(), "{name}");
        assert_eq!(drive.flash_pages(), fork.flash_pages(), "{name}");
        let later = Instant::from_ns(now);
        assert_eq!(drive.volatile_bytes(later), fork.volatile_bytes(later), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_outcomes_and_another_differs() {
    for known in SPECS {
        let outcomes = |seed| {
            let capacity_bytes = Some(1 << 30);
            let options = BuildOptions { seed, capacity_bytes, ..BuildOptions::default() };
            let mut drive = build(&known.spec(), options).expect("possible");
            run(&mut *drive, &mut Rng::new(3), &mut 0, 2_000)
        };
        let first = outcomes(1);
        assert_eq!(first, outcomes(1), "{}", known.name);
        if known.kind != DriveKind::Null {
            assert_ne!(first, outcomes(2), "{}", known.name);
        }
    }
}

/// A flush leaves nothing volatile, and a power cut neither.
#[test]
fn flushes_and_power_cuts_leave_nothing_volatile() {
    for (name, _, mut drive) in drives() {
        let mut now = 0;
        run(&mut *drive, &mut Rng::new(4), &mut now, 500);
        let flush = DriveOp { kind: DriveOpKind::Flush, offset_bytes: 0, length_bytes: 0 };
        let flushed = drive.submit(Instant::from_ns(now), flush).ack_at;
        assert_eq!(drive.volatile_bytes(flushed), 0, "{name}");
        let mut after = flushed.ns;
        run(&mut *drive, &mut Rng::new(5), &mut after, 500);
        let cut = Instant::from_ns(after);
        drive.power_cycle(cut);
        assert_eq!(drive.volatile_bytes(cut), 0, "{name}");
        let op = DriveOp { kind: DriveOpKind::Read, offset_bytes: 0, length_bytes: 4096 };
        let read = drive.submit(cut, op).ack_at.since(cut).ns;
        assert!(read < 100_000_000, "{name}: idle after a power cut, {read} ns");
    }
}

#[test]
fn a_null_drive_answers_at_once() {
    let mut null = build(
        &tandem_drives::spec::load("null").expect("known"),
        BuildOptions { ssd_state: SsdState::Fresh, ..BuildOptions::default() },
    )
    .expect("possible");
    for outcome in run(&mut *null, &mut Rng::new(6), &mut 0, 100) {
        assert_eq!(outcome.durable_at, Some(outcome.ack_at));
        assert_eq!(outcome.status, Ok(()));
    }
    assert_eq!(null.volatile_bytes(Instant::from_ns(1 << 40)), 0);
}

/// Time that goes back is a defect of the event loop, and is told at once.
#[test]
fn time_never_goes_back() {
    for (name, _, drive) in drives() {
        let went_back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut drive = drive;
            let op = DriveOp { kind: DriveOpKind::Read, offset_bytes: 0, length_bytes: 512 };
            drive.submit(Instant::from_ns(10), op);
            drive.submit(Instant::from_ns(9), op);
        }));
        assert!(went_back.is_err(), "{name}");
    }
}

/// Golden: the same answers on every machine, debug or release. A model or spec that changes on
/// purpose changes its own number. Nothing else may.
#[test]
fn answers_are_pinned() {
    let mut answers = Vec::new();
    for (name, _, mut drive) in drives() {
        let mut mix = 0xcbf2_9ce4_8422_2325u64;
        for outcome in run(&mut *drive, &mut Rng::new(7), &mut 0, 2_000) {
            let settle = outcome.durable_at.map_or(1, |at| at.ns);
            mix = (mix ^ outcome.ack_at.ns).wrapping_mul(0x0100_0000_01b3);
            mix = (mix ^ settle).wrapping_mul(0x0100_0000_01b3);
        }
        answers.push(format!("{name} {mix:016x}"));
    }
    let pinned: Vec<&str> = PINNED.lines().map(str::trim).collect();
    assert_eq!(answers, pinned, "left is what the models answer now");
}
const PINNED: &str = "\
    960evo 18a9f7bc4dcf9462
    960evo-bcw 5ee510d86c47db49
    960evo-bcw-85us f7f449d0ee455bf5
    660p dfa8680409be5ed6
    sm961 eda50aa01b268a05
    x25e d058e0333318157d
    510 f12c2fa7f1d75482
    vertex3 8993024f7c01656e
    wd100efax 61e180492fc50729
    wd8004fryz 2fac1c87b8a2a3fa
    wd40ezrz 776a3e18b33f7dc2
    st8000dm0004 4bf39885ec87cb3e
    st4000dm004 e63ce57be6788897
    wd5000aaks 195071afffd64600
    null 516ae0121dc34189";
