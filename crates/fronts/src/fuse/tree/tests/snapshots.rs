//! What of a volume of files is in a snapshot, who waits for one, and who does not?

use super::*;

/// What was asked before a snapshot is in it, what was asked later is not, and reads wait for neither.
#[test]
fn a_snapshot_parts_what_came_before_it_from_what_came_after() {
    for seed in 0..60 {
        let mut kernel = Kernel::new(seed);
        let (a, b) = (kernel.create(1, b"a"), kernel.create(1, b"b"));
        kernel.write(b, 0, &[7; 3000]).unwrap();
        let all = kernel.call(9, 1, &words(&[0o755, 0], b".snapshots\0")).unwrap();
        let all = u64_at(&all, 0);
        // some of it grows the file, some does not, and some has edges
        let piece = |at: u64| if at.is_multiple_of(3) { 1024 } else { 1100 };
        for at in 0..40 {
            kernel.ask(16, a, &write_body(at * 1024, &vec![1; piece(at)], 0));
        }
        let taking = kernel.ask(9, all, &words(&[0o755, 0], b"monday\0"));
        for at in 0..60 {
            kernel.ask(16, a, &write_body(at * 1024, &vec![2; piece(at)], 0));
        }
        kernel.ask(10, 1, b"b\0");
        let second = kernel.ask(9, all, &words(&[0o755, 0], b"tuesday\0"));
        kernel.ask(4, a, &size_body(100));
        // reads go on while the snapshot is taken: by the first answer none of the writes behind it has begun
        let reading = kernel.ask(15, b, &range_body(0, 4096, 0));
        let replies = kernel.settle();
        assert_eq!(replies.len(), 40 + 60 + 5);
        let at = |unique| replies.iter().position(|reply| reply.unique == unique).unwrap();
        assert!(at(reading) < at(taking) + 40 && at(taking) < at(second), "seed {seed}");
        assert!(replies.iter().all(|reply| reply.result.is_ok()), "seed {seed}: {replies:?}");

        let find = |kernel: &mut Kernel, at, name: &[u8]| {
            kernel.call(1, at, name).map(|entry| u64_at(&entry, 0))
        };
        let monday = find(&mut kernel, all, b"monday\0").unwrap();
        let (old_a, old_b) = (find(&mut kernel, monday, b"a\0"), find(&mut kernel, monday, b"b\0"));
        let (old_a, old_b) = (old_a.unwrap(), old_b.unwrap());
        assert_eq!(kernel.read(old_b, 0, 4096), [7; 3000]);
        assert!(kernel.read(old_a, 0, 1 << 20).iter().all(|byte| *byte < 2), "seed {seed}");
        assert_eq!(kernel.size(old_a), 39 * 1024 + 1024);
        let tuesday = find(&mut kernel, all, b"tuesday\0").unwrap();
        assert_eq!(find(&mut kernel, tuesday, b"b\0"), Err(2));
        let old_a = find(&mut kernel, tuesday, b"a\0").unwrap();
        assert_eq!(kernel.size(old_a), 59 * 1024 + 1100);
        assert!(kernel.read(old_a, 0, 59 * 1024).iter().all(|byte| *byte == 2), "seed {seed}");
        assert_eq!(kernel.size(a), 100);
        kernel.assert_sound();
    }
}

#[test]
fn snapshots_refuse_changes_and_go_when_they_are_removed() {
    const EROFS: i32 = 30;
    let mut kernel = Kernel::new(5);
    let d = u64_at(&kernel.call(9, 1, &words(&[0o755, 0], b"d\0")).unwrap(), 0);
    for name in 0..200u32 {
        let f = kernel.create(d, name.to_string().as_bytes());
        kernel.write(f, 0, b"1").unwrap();
    }
    let objects = kernel.pool.space().objects;
    let all = kernel.call(9, 1, &words(&[0o755, 0], b".snapshots\0")).unwrap();
    let all = u64_at(&all, 0);
    let made = kernel.call(9, all, &words(&[0o755, 0], b"x\0")).unwrap();
    let top = u64_at(&made, 0);
    assert_eq!(made, kernel.call(1, all, b"x\0").unwrap(), "as it is found later");
    assert_eq!(kernel.call(9, all, &words(&[0o755, 0], b"x\0")), Err(17));
    assert_eq!(kernel.pool.space().objects, 2 * objects + 1);
    let inner = u64_at(&kernel.call(1, top, b"d\0").unwrap(), 0);
    let old = u64_at(&kernel.call(1, inner, b"7\0").unwrap(), 0);
    // a punch of a hole, and what else does not go by names
    let punch = [vec![0; 8], [0u64, 4096].map(u64::to_ne_bytes).concat(), words(&[3, 0], &[])];
    assert_eq!(kernel.call(43, old, &punch.concat()), Err(EROFS));
    assert_eq!(kernel.write(old, 0, b"2"), Err(EROFS));
    assert_eq!(kernel.call(16, old, &write_body(0, &[2; 512], 0)), Err(EROFS));
    assert_eq!(kernel.truncate(old, 5), Err(EROFS));
    assert_eq!(kernel.call(35, inner, &create_body(b"new", 0)), Err(EROFS));
    assert_eq!(kernel.call(10, inner, b"7\0"), Err(EROFS));
    assert_eq!(kernel.call(11, all, b"y\0"), Err(2));
    assert_eq!(kernel.call(35, all, &create_body(b"file", 0)), Err(EROFS));
    assert_eq!(kernel.call(14, old, &words(&[1, 0], &[])), Err(EROFS), "opened to be written");
    kernel.call(14, old, &words(&[0, 0], &[])).unwrap();
    assert_eq!(kernel.read(old, 0, 10), b"1");
    assert_eq!(kernel.call(11, all, b"x\0"), Err(16), "something in it is open");
    kernel.call(18, old, &[0; 24]).unwrap();
    // it is gone at once, and what it holds soon, while others go on
    kernel.ask(11, all, b"x\0");
    for name in 0..20u32 {
        let made = words(&[0o755, 0], &named(format!("e{name}").as_bytes()));
        kernel.ask(9, 1, &made);
    }
    assert!(kernel.settle().iter().all(|reply| reply.result.is_ok()));
    assert_eq!(kernel.pool.space().objects, objects + 21);
    assert_eq!(kernel.call(1, all, b"x\0"), Err(2));
    kernel.call(11, 1, b".snapshots\0").unwrap();
    kernel.assert_sound();
}

/// Closing waits for no snapshot: else calls would pile up until none is taken any more, reads among them.
#[test]
fn files_are_closed_while_a_snapshot_is_taken() {
    let mut kernel = Kernel::new(6);
    kernel.pool.store.let_objects(10_000);
    let files: Vec<u64> =
        (0..900u32).map(|at| kernel.create(1, at.to_string().as_bytes())).collect();
    let all = kernel.call(9, 1, &words(&[0o755, 0], b".snapshots\0")).unwrap();
    let taking = kernel.ask(9, u64_at(&all, 0), &words(&[0o755, 0], b"x\0"));
    let mut files = files.into_iter();
    let mut closed = 0;
    loop {
        // `create` has left them open
        let closing: Vec<u64> =
            files.by_ref().take(2).map(|file| kernel.ask(18, file, &[0; 24])).collect();
        let (tag, work) = kernel.pool.asked.pop().expect("somebody has to go on");
        let result = kernel.pool.perform(work);
        kernel.session.answered(tag, result, &mut kernel.pool);
        let replies: Vec<u64> = kernel.session.take_replies().map(|reply| reply.unique).collect();
        if replies.contains(&taking) {
            break;
        }
        assert!(closing.iter().all(|unique| replies.contains(unique)), "{replies:?}");
        closed += closing.len();
    }
    assert!(closed >= 8, "it takes several steps: {closed}");
    kernel.settle();
    kernel.assert_sound();
}

/// Both take many steps, and each lets others between them: they must not let each other go first for ever.
#[test]
fn a_snapshot_is_taken_while_a_deleted_one_is_given_back() {
    for seed in 0..8 {
        let mut kernel = Kernel::new(seed);
        kernel.pool.store.let_objects(10_000);
        for at in 0..600u32 {
            kernel.create(1, at.to_string().as_bytes());
        }
        let all = kernel.call(9, 1, &words(&[0o755, 0], b".snapshots\0")).unwrap();
        let all = u64_at(&all, 0);
        kernel.call(9, all, &words(&[0o755, 0], b"monday\0")).unwrap();
        let objects = kernel.pool.space().objects;
        // neither has ended when the other one begins, and somebody else makes files meanwhile
        let asked = [
            kernel.ask(11, all, b"monday\0"),
            kernel.ask(9, all, &words(&[0o755, 0], b"tuesday\0")),
            kernel.ask(9, 1, &words(&[0o755, 0], &named(b"d"))),
        ];
        let replies = kernel.settle();
        for unique in asked {
            let reply =
                replies.iter().find(|reply| reply.unique == unique).expect("it is answered");
            assert!(reply.result.is_ok(), "seed {seed}: {reply:?}");
        }
        assert_eq!(
            kernel.pool.space().objects,
            objects + 1,
            "seed {seed}: one went, one came, and `d`"
        );
        kernel.assert_sound();
    }
}
