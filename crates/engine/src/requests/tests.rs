//! Tables of events of requests alone: who waits for whom, and who is told what.

use super::*;
use crate::io::fixture::drives;
use tandem_block::{BLOCK_BYTES, RequestId};

/// What happens, and what must follow from it.
enum Step {
    /// This operation on blocks arrives: does it begin at once?
    Enter(Op, u64, u64, bool),
    /// The nth request ends: which ones begin?
    End(usize, &'static [usize]),
}
use Step::{End, Enter};

fn request(number: u64, op: Op) -> Request {
    Request::new(RequestId(number), ObjectId(1), op, (0, BLOCK_BYTES), Instant::default())
}

/// A request for these blocks of a volume that begins with the first block of all.
fn task(number: u64, op: Op, first: u64, end: u64) -> Task {
    let (offset_bytes, end_bytes) = (first * BLOCK_BYTES, end * BLOCK_BYTES);
    let length_bytes = end_bytes - offset_bytes;
    Task::new(Request { offset_bytes, length_bytes, ..request(number, op) }, first, end)
}

fn run(steps: &[Step]) {
    let (mut io, mut requests) = (drives(1, 0), Requests::default());
    let mut ids = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        match *step {
            Enter(op, first, end, begins) => {
                let number = ids.len() as u64;
                let id = requests.insert(task(number, op, first, end));
                ids.push(id);
                requests.take_blocks(id, &mut io);
                assert_eq!(requests.next(), begins.then_some(Next::Begin(id)), "step {index}");
            }
            End(nth, expected) => {
                requests.answer(ids[nth], PayloadId::NONE, 0, &mut io);
                let over = requests.next().expect("it has just ended");
                assert_eq!(over, Next::Over(ids[nth], PayloadId::NONE), "step {index}");
                let (_, woken) = requests.release(ids[nth]);
                let expected: Vec<TaskId> = expected.iter().map(|&nth| ids[nth]).collect();
                assert_eq!(woken, expected, "step {index}");
            }
        }
    }
    assert_eq!(requests.accepted(), 0, "the table ends what it begins");
    let told = io.next_event(Instant::default());
    assert_eq!(told.len(), ids.len(), "each user is told once");
}

#[test]
fn a_request_waits_for_all_earlier_writes_that_it_overlaps_and_for_nothing_else() {
    let (read, write, zero) = (Op::Read, Op::Write, Op::WriteZeroes);
    // reads wait for writes and hold nothing
    run(&[
        Enter(write, 0, 8, true),
        Enter(read, 7, 9, false),
        Enter(read, 8, 9, true),
        End(2, &[]),
        End(0, &[1]),
        End(1, &[]),
    ]);
    // a write behind a read begins at once; one behind two writes waits for both
    run(&[
        Enter(read, 0, 8, true),
        Enter(write, 0, 4, true),
        Enter(write, 4, 8, true),
        Enter(zero, 3, 5, false),
        End(2, &[]),
        End(1, &[3]),
        End(0, &[]),
        End(3, &[]),
    ]);
    // one that waits holds its blocks already
    run(&[
        Enter(write, 0, 1, true),
        Enter(write, 0, 2, false),
        Enter(read, 1, 2, false),
        End(0, &[1]),
        End(1, &[2]),
        End(2, &[]),
    ]);
}

#[test]
fn parts_and_the_engines_own_reads_tell_nobody() {
    let (mut io, mut requests) = (drives(1, 0), Requests::default());
    let parent = requests.insert(Task::new(request(1, Op::Read), 0, 0));
    let mut part = Task::new(request(1, Op::Read), 5, 6);
    part.parent = Some(parent);
    let part = requests.insert(part);
    let own = Request { kind: RequestKind::Background, ..request(2, Op::Read) };
    let own = requests.insert(Task::new(own, 9, 10));
    for id in [part, own] {
        requests.answer(id, PayloadId(7), 0, &mut io);
        assert_eq!(requests.next(), Some(Next::Over(id, PayloadId(7))));
    }
    assert!(io.next_event(Instant::default()).is_empty());
    assert_eq!((requests.next(), requests.len()), (None, 3), "they stay until released");
}

#[test]
fn a_request_that_was_answered_is_not_in_the_way() {
    let (mut io, mut requests) = (drives(1, 0), Requests::default());
    let read = requests.insert(Task::new(request(1, Op::Read), 5, 6));
    assert!(requests.is_in_use(ObjectId(1)) && requests.touch(0, 6) && !requests.touch(6, 9));
    requests.answer(read, PayloadId::NONE, 0, &mut io);
    assert!(!requests.is_in_use(ObjectId(1)) && !requests.touch(0, 6));
    requests.hold_back(request(2, Op::Write));
    assert!(requests.is_in_use(ObjectId(1)) && requests.holds_back(&request(3, Op::Read)));
    requests.let_first_begin();
    assert!(!requests.holds_back(&request(3, Op::Read)));
}

#[test]
fn who_waits_for_blocks_that_are_gone_learns_it_however_long_it_waits_for_others() {
    let (mut io, mut requests) = (drives(1, 0), Requests::default());
    let mut enter = |op, first, end| {
        let id = requests.insert(task(1, op, first, end));
        requests.take_blocks(id, &mut io);
        id
    };
    let link = enter(Op::Write, 0, 2);
    let other = enter(Op::Write, 2, 3);
    let read = enter(Op::Read, 1, 3);
    let behind = enter(Op::Read, 2, 3);
    requests.note_gone(0, 2, IoError::NoSpace);
    requests.answer(link, PayloadId::NONE, 0, &mut io);
    let (_, woken) = requests.release(link);
    assert!(woken.is_empty(), "the read waits for the other write, too");
    requests.answer(other, PayloadId::NONE, 0, &mut io);
    assert_eq!(requests.release(other).1, [read, behind]);
    assert_eq!(requests[read].blocks_gone, Some(IoError::NoSpace));
    assert_eq!(requests[behind].blocks_gone, None, "its blocks are there");
}

#[test]
fn the_first_error_stays() {
    let mut requests = Requests::default();
    let id = requests.insert(Task::new(request(1, Op::Write), 0, 1));
    requests.note_error(id, IoError::NoSpace);
    requests.note_error(id, IoError::Stopping);
    assert_eq!(requests[id].status, Err(IoError::NoSpace));
}

/// Steps of ours that break a rule.
fn answered_twice(requests: &mut Requests, io: &mut DeviceIo, id: TaskId) {
    requests.answer(id, PayloadId::NONE, 0, io);
    requests.answer(id, PayloadId::NONE, 0, io);
}

fn answered_too_early(requests: &mut Requests, io: &mut DeviceIo, id: TaskId) {
    requests[id].outstanding = 1;
    requests.answer(id, PayloadId::NONE, 0, io);
}

fn removed_while_it_holds(requests: &mut Requests, _: &mut DeviceIo, id: TaskId) {
    requests.hold(id);
    requests.remove(id);
}

fn held_twice(requests: &mut Requests, _: &mut DeviceIo, id: TaskId) {
    requests.hold(id);
    requests.hold(id);
}

#[test]
fn what_breaks_a_rule_is_refused() {
    type Wrong = fn(&mut Requests, &mut DeviceIo, TaskId);
    let table: [(Wrong, &str); 4] = [
        (answered_twice, "answered once"),
        (answered_too_early, "its commands have ended"),
        (removed_while_it_holds, "gives them back"),
        (held_twice, "held once"),
    ];
    for (wrong, reason) in table {
        let broken = std::panic::catch_unwind(|| {
            let (mut io, mut requests) = (drives(1, 0), Requests::default());
            let id = requests.insert(Task::new(request(1, Op::Write), 0, 1));
            wrong(&mut requests, &mut io, id);
        });
        let panic = broken.expect_err(reason);
        let said = panic.downcast_ref::<&str>().map_or_else(
            || panic.downcast_ref::<String>().cloned().unwrap_or_default(),
            |text| (*text).to_owned(),
        );
        assert!(said.contains(reason), "{said}");
    }
}
