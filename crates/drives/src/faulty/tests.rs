//! Does each fault happen where the script says, and nowhere else?

use super::*;
use crate::{BuildOptions, build, spec};
use tandem_block::{
    ContentFault, ContentFaultKind, DeviceId, Drive, DriveEventKind, DriveOp, DriveOpKind,
    Duration, Instant, IoError, Outcome, Ticket,
};

const DEVICE: DeviceId = DeviceId(3);
const DEAD: Result<(), IoError> = Err(IoError::Dead(DEVICE));
const FAILED: Result<(), IoError> = Err(IoError::Device(DEVICE));

fn hdd() -> Box<dyn Drive> {
    let spec = spec::load("wd100efax").expect("known");
    build(&spec, BuildOptions::default()).expect("possible")
}

fn faulty(script: FaultScript) -> Faulty {
    Faulty::new(hdd(), DEVICE, script, 1)
}

fn at(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

fn read(offset_bytes: u64) -> DriveOp {
    DriveOp { kind: DriveOpKind::Read, offset_bytes, length_bytes: 4096 }
}

fn write(offset_bytes: u64) -> DriveOp {
    DriveOp { kind: DriveOpKind::Write { fua: false }, offset_bytes, length_bytes: 4096 }
}

const FLUSH: DriveOp = DriveOp { kind: DriveOpKind::Flush, offset_bytes: 0, length_bytes: 0 };

#[test]
fn without_a_script_it_is_the_drive_inside() {
    let (mut plain, mut wrapped) = (hdd(), faulty(FaultScript::default()));
    let mut now = Instant::ZERO;
    for index in 0..5_000 {
        let op = if index % 700 == 699 { FLUSH } else { write(index * 4096) };
        let outcome = plain.submit(now, op);
        assert_eq!(wrapped.submit(now, op), outcome);
        assert_eq!(wrapped.ticket_ack(&outcome), (outcome.ack_at, Ok(())));
        now = outcome.ack_at;
    }
    assert_eq!(wrapped.take_content_faults(), []);
}

#[test]
fn errors_hit_their_range_after_skipping_and_only_so_often() {
    let rule = FaultRule {
        ops: OpFilter::Reads,
        range: Some((8192, 12_288)),
        skip: 1,
        count: 2,
        ..FaultRule::once(Fault::Error)
    };
    let mut drive = faulty(FaultScript::of([rule]));
    let mut statuses = Vec::new();
    for index in 0..5 {
        assert_eq!(drive.submit(at(index), read(0)).status, Ok(()), "outside the range");
        assert_eq!(drive.submit(at(index), write(8192)).status, Ok(()), "not a read");
        statuses.push(drive.submit(at(index), read(8192)).status);
    }
    assert_eq!(statuses, [Ok(()), FAILED, FAILED, Ok(()), Ok(())]);
}

#[test]
fn chance_is_seeded() {
    let script = FaultScript::of([FaultRule::by_chance(Fault::Error, 100_000)]);
    let failures = |seed| {
        let mut drive = Faulty::new(hdd(), DEVICE, script.clone(), seed);
        (0..1000).map(|us| drive.submit(at(us), read(0)).status.is_err()).collect::<Vec<_>>()
    };
    let first = failures(1);
    let count = first.iter().filter(|failed| **failed).count();
    assert!((70..130).contains(&count), "{count}");
    assert_eq!(failures(1), first);
    assert_ne!(failures(2), first);
}

/// A stall delays what is in flight and what comes during it, and nothing that was answered.
#[test]
fn a_stall_moves_acknowledgements() {
    let stall = Duration::from_ms(100);
    let script = FaultScript { stalls: vec![(at(50), stall)], ..FaultScript::default() };
    let mut drive = faulty(script);
    let answered = drive.submit(at(0), write(0));
    let in_flight = drive.submit(at(40), write(4096));
    assert_eq!(drive.ticket_ack(&answered).0, at(35));
    assert_eq!(drive.ticket_ack(&in_flight).0, at(75) + stall);
    let during = drive.submit(at(60), write(8192));
    assert_eq!(drive.ticket_ack(&during).0, during.ack_at);
    assert!(during.ack_at >= at(50) + stall);
    assert_eq!(drive.ticket_ack(&in_flight).0, at(75) + stall, "counted once");
    assert!(drive.take_events().iter().any(|event| event.kind == DriveEventKind::Stall));
}

#[test]
fn death_ends_what_is_in_flight() {
    let script = FaultScript { dies_at: Some(at(50)), ..FaultScript::default() };
    let mut drive = faulty(script);
    let answered = drive.submit(at(0), write(0));
    let in_flight = drive.submit(at(40), write(4096));
    assert_eq!(drive.ticket_ack(&answered), (at(35), Ok(())));
    assert_eq!(drive.ticket_ack(&in_flight), (at(50), DEAD));
    let after = drive.submit(at(60), read(0));
    assert_eq!((after.ack_at, after.status), (at(60), DEAD));
    assert_eq!(drive.ticket_ack(&after), (at(60), DEAD));
}

#[test]
fn death_after_some_commands() {
    let script = FaultScript::of([FaultRule { skip: 2, ..FaultRule::once(Fault::Die) }]);
    let mut drive = faulty(script);
    let statuses: Vec<_> = (0..4).map(|us| drive.submit(at(us), read(0)).status).collect();
    assert_eq!(statuses, [Ok(()), Ok(()), DEAD, DEAD]);
}

/// A flush that fails and one that lies: the drive inside still has everything to lose.
#[test]
fn false_flushes_settle_nothing() {
    for (fault, status) in [(Fault::Error, FAILED), (Fault::IgnoreFlush, Ok(()))] {
        let rule = FaultRule { ops: OpFilter::Flushes, ..FaultRule::once(fault) };
        let mut drive = faulty(FaultScript::of([rule]));
        let written = drive.submit(at(0), write(0));
        let flush = drive.submit(at(100), FLUSH);
        assert_eq!((flush.status, flush.durable_at), (status, None), "{fault:?}");
        assert_eq!(drive.volatile_bytes(flush.ack_at), 4096);
        let lied = fault == Fault::IgnoreFlush;
        let note = ContentFault { ticket: flush.ticket, kind: ContentFaultKind::FlushIgnored };
        assert_eq!(drive.take_content_faults(), if lied { vec![note] } else { vec![] });
        // the next flush is a true one, and its ticket follows
        let second = drive.submit(flush.ack_at, FLUSH);
        assert_eq!(second.ticket, Ticket(flush.ticket.0 + 1));
        assert_eq!(drive.volatile_bytes(second.ack_at), 0);
        assert_eq!(drive.ticket_ack(&written).1, Ok(()));
    }
}

#[test]
fn content_faults_name_their_command() {
    for (fault, is_it) in [
        (Fault::Lost, (|kind| kind == ContentFaultKind::Lost) as fn(ContentFaultKind) -> bool),
        (Fault::Torn, |kind| matches!(kind, ContentFaultKind::Torn { .. })),
        (Fault::BitFlip, |kind| {
            matches!(kind, ContentFaultKind::BitFlip { offset_bytes: 4096..8192, bit: 0..4096 })
        }),
    ] {
        let mut drive = faulty(FaultScript::of([FaultRule::once(fault)]));
        drive.submit(at(0), FLUSH);
        let hit = drive.submit(at(1), write(4096));
        drive.submit(at(2), write(4096));
        assert_eq!(hit.status, Ok(()));
        let faults = drive.take_content_faults();
        assert_eq!(faults.len(), 1, "{fault:?}");
        assert_eq!(faults[0].ticket, hit.ticket);
        assert!(is_it(faults[0].kind), "{faults:?}");
    }
}

/// Wrappers wrap wrappers: tickets are translated both ways past swallowed commands.
#[test]
fn wrappers_compose() {
    let lost = FaultScript::of([FaultRule { skip: 1, ..FaultRule::once(Fault::Lost) }]);
    let inner = Faulty::new(hdd(), DEVICE, lost, 1);
    let lie = FaultScript::of([FaultRule::once(Fault::IgnoreFlush)]);
    let mut outer = Faulty::new(Box::new(inner), DEVICE, lie, 2);
    outer.submit(at(0), write(0));
    outer.submit(at(1), FLUSH);
    let second: Outcome = outer.submit(at(2), write(4096));
    let faults = outer.take_content_faults();
    assert_eq!(faults[1], ContentFault { ticket: second.ticket, kind: ContentFaultKind::Lost });
    assert_eq!(outer.ticket_ack(&second), (second.ack_at, Ok(())));
    let mut fork = outer.fork();
    assert_eq!(fork.submit(at(3), read(0)), outer.submit(at(3), read(0)));
}

#[test]
fn a_power_cut_voids_tickets() {
    let mut drive = faulty(FaultScript::default());
    let answered = drive.submit(at(0), write(0));
    let in_flight = drive.submit(at(40), write(4096));
    drive.power_cycle(at(50));
    assert_eq!(drive.ticket_ack(&answered).0, at(35));
    assert_eq!(drive.ticket_ack(&in_flight).0, Instant::NEVER);
    assert_eq!(drive.volatile_bytes(at(50)), 0);
}

/// What lies says so to the event loop alone; what refuses stores nothing.
#[test]
fn commands_that_go_elsewhere_are_stale_or_refused() {
    let faults = |fault, op: DriveOp| {
        let mut drive = faulty(FaultScript::of([FaultRule::once(fault)]));
        let hit = drive.submit(at(0), op);
        let after = drive.submit(at(1), op);
        assert_eq!(after.status, Ok(()));
        let kinds: Vec<_> = drive.take_content_faults().iter().map(|f| f.kind).collect();
        (hit.status, kinds)
    };
    let elsewhere = ContentFaultKind::Misdirected { offset_bytes: 12_288 };
    assert_eq!(faults(Fault::Misdirect(8192), write(4096)), (Ok(()), vec![elsewhere]));
    assert_eq!(faults(Fault::Misdirect(8192), read(4096)), (Ok(()), vec![elsewhere]));
    assert_eq!(faults(Fault::Stale, read(0)), (Ok(()), vec![ContentFaultKind::Stale]));
    assert_eq!(faults(Fault::Refused, write(0)), (FAILED, vec![]));
    // it stays on the drive, and goes on at its beginning
    let mut drive = faulty(FaultScript::of([FaultRule::once(Fault::Misdirect(8192))]));
    let last = drive.capacity_bytes() - 4096;
    drive.submit(at(0), write(last));
    let kind = drive.take_content_faults()[0].kind;
    assert_eq!(kind, ContentFaultKind::Misdirected { offset_bytes: 7680 });
}

/// One command is late, or never ends; those beside it are not.
#[test]
fn one_command_is_late_or_never_ends() {
    let late = Duration::from_s(3);
    for (fault, by) in [(Fault::Late(late), late), (Fault::Never, Duration::from_ns(u64::MAX))] {
        let (mut plain, mut drive) = (hdd(), faulty(FaultScript::of([FaultRule::once(fault)])));
        let usual = plain.submit(at(0), write(0));
        let hit = drive.submit(at(0), write(0));
        assert_eq!(hit.ack_at, usual.ack_at + by, "{fault:?}");
        assert_eq!(drive.ticket_ack(&hit).0, hit.ack_at);
        let next = drive.submit(at(100), write(4096));
        assert!(next.ack_at < at(0) + Duration::from_s(1), "{fault:?}: {next:?}");
        assert_eq!(drive.ticket_ack(&next), (next.ack_at, Ok(())));
    }
}

#[test]
fn a_rule_ends_with_its_time() {
    let upto = at(1_000);
    let rule = FaultRule { upto, ..FaultRule::by_chance(Fault::Error, 1_000_000) };
    let mut drive = faulty(FaultScript::of([rule]));
    assert_eq!(drive.submit(at(999), write(0)).status, FAILED);
    assert_eq!(drive.submit(at(1_000), write(0)).status, Ok(()));
}

/// A file has what it was given before, and gets more when there is room again.
#[test]
fn a_full_file_is_written_to_where_it_was_written_before() {
    let full = Some((at(1_000), at(9_000)));
    let mut drive = faulty(FaultScript { full, ..FaultScript::default() });
    assert_eq!(drive.submit(at(0), write(0)).status, Ok(()));
    assert_eq!(drive.submit(at(2_000), write(8192)).status, Ok(()), "of the same extent");
    assert_eq!(drive.submit(at(3_000), write(1 << 20)).status, FAILED);
    assert_eq!(drive.submit(at(4_000), read(1 << 20)).status, Ok(()));
    assert_eq!(drive.submit(at(9_000), write(1 << 20)).status, Ok(()));
}
