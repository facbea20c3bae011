//! Do objects keep what is theirs?

use super::*;

fn range(first: u64, count: u64) -> BlockRange {
    BlockRange { first, count }
}

/// Objects of a pool that has a table.
fn with_table(blocks: u64) -> Objects {
    let mut objects = Objects::new(blocks);
    objects.bound(1 << 20, true);
    objects.create(ObjectId(1), "vol0", 10 * 4096).unwrap();
    objects
}

fn thin(id: u64) -> ObjectOp {
    let (object, kind, volume) = (ObjectId(id), ObjectKind::Data, ObjectId(1));
    ObjectOp::CreateThin { object, kind, volume, owner: 5 }
}

fn set(id: u64, key: &str, value: &str) -> ObjectOp {
    let (key, value) = (key.as_bytes().into(), value.as_bytes().into());
    ObjectOp::SetAttribute { object: ObjectId(id), key, value }
}

fn done(objects: &mut Objects, op: &ObjectOp) -> Vec<BlockRange> {
    let undo = objects.apply(op).unwrap();
    objects.note(&undo)
}

#[test]
fn gaps_are_used_again_once_they_are_released() {
    let mut objects = Objects::new(100);
    for id in 0..4 {
        objects.create(ObjectId(id), &format!("v{id}"), 25 * 4096).unwrap();
    }
    assert_eq!(objects.create(ObjectId(9), "v9", 4096), Err(IoError::NoSpace));
    let left = done(&mut objects, &ObjectOp::Remove { object: ObjectId(1) });
    assert_eq!(left, [range(25, 25)]);
    assert_eq!(objects.create(ObjectId(9), "v9", 4096), Err(IoError::NoSpace), "retired");
    objects.release(range(25, 25));
    assert_eq!(objects.create(ObjectId(9), "v0", 4096), Err(IoError::Exists));
    objects.create(ObjectId(9), "v9", 20 * 4096).unwrap();
    let found = objects.locate(ObjectId(9)).unwrap();
    assert_eq!((found.first, found.size_bytes, found.is_thin), (25, 20 * 4096, false));
    assert_eq!(objects.locate(ObjectId(1)), Err(IoError::NoObject));
    assert_eq!(objects.create(ObjectId(7), "v7", 100), Err(IoError::Misaligned));
}

#[test]
fn every_step_can_be_taken_back() {
    let mut objects = with_table(200);
    objects.create(ObjectId(2), "b", 10 * 4096).unwrap();
    for op in [thin(5), set(5, "k", "1"), set(5, "l", "2"), thin(6)] {
        done(&mut objects, &op);
    }
    done(&mut objects, &ObjectOp::Resize { object: ObjectId(5), size_bytes: 30 * 4096 });
    objects.fill(ObjectId(5), 0, 5, usize::MAX).unwrap();
    objects.fill(ObjectId(5), 20, 25, usize::MAX).unwrap();
    objects.take_unsaved();
    let steps = [
        ObjectOp::Rename { object: ObjectId(1), name: "c".into() },
        ObjectOp::Resize { object: ObjectId(2), size_bytes: 5 * 4096 },
        ObjectOp::Resize { object: ObjectId(1), size_bytes: 4096 },
        ObjectOp::Create { object: ObjectId(3), name: "vol0".into(), size_bytes: 4096 },
        set(5, "k", "3"),
        set(5, "m", "4"),
        ObjectOp::RemoveAttribute { object: ObjectId(5), key: b"l".as_slice().into() },
        ObjectOp::Resize { object: ObjectId(5), size_bytes: 4096 },
        ObjectOp::Remove { object: ObjectId(5) },
        thin(5),
        ObjectOp::Remove { object: ObjectId(2) },
    ];
    // blocks kept ahead are nobody's: truncation gives them back, and nothing takes them again
    objects.drop_ahead();
    objects.recent = None;
    let before = format!("{objects:?}");
    let undo: Vec<Undo> = steps.iter().map(|op| objects.apply(op).unwrap()).collect();
    assert!(objects.get(ObjectId(2)).is_none());
    assert_eq!(objects.runs().blocks(ObjectId(5)), 0);
    for undo in undo.into_iter().rev() {
        objects.undo(undo);
    }
    assert_eq!(format!("{objects:?}"), before);
}

#[test]
fn holes_are_filled_where_the_object_ends() {
    let mut objects = with_table(10_000);
    done(&mut objects, &thin(5));
    done(&mut objects, &thin(6));
    for i in 0..100 {
        // two files appended to in turn
        for id in [5, 6] {
            objects.fill(ObjectId(id), i * 4, i * 4 + 4, usize::MAX).unwrap();
        }
    }
    for id in [5, 6] {
        let pieces = objects.runs().of(ObjectId(id)).count();
        assert!(pieces <= 8, "{pieces} pieces of 400 blocks");
    }
    let free = objects.free_blocks();
    assert_eq!(free, 10_000 - 10 - 800, "what is kept ahead can be taken");
    objects.fill(ObjectId(5), 100, 300, usize::MAX).unwrap();
    assert_eq!(objects.free_blocks(), free, "there was no hole");
    assert_eq!(objects.fill(ObjectId(5), 400, 400 + free + 1, usize::MAX), Err(IoError::NoSpace));
    objects.fill(ObjectId(5), 400, 400 + free, usize::MAX).unwrap();
    assert_eq!(objects.free_blocks(), 0);
    let left = done(&mut objects, &ObjectOp::Resize { object: ObjectId(6), size_bytes: 0 });
    assert!(left.is_empty(), "its size was zero: nothing shrinks");
    let left = objects.punch(ObjectId(6), 0, 400);
    assert_eq!(left.iter().map(|range| range.count).sum::<u64>(), 400);
    assert_eq!(objects.free_blocks(), 0, "retired");
    left.into_iter().for_each(|range| objects.release(range));
    assert_eq!(objects.free_blocks(), 400);
}

#[test]
fn the_table_is_bounded_by_its_bytes() {
    let mut objects = with_table(1000);
    done(&mut objects, &thin(5));
    let (bytes, _) = objects.record_bytes();
    objects.bound(bytes + PIECE_RECORD_BYTES as u64, true);
    objects.fill(ObjectId(5), 0, 1, usize::MAX).unwrap();
    let before = (objects.free_blocks(), objects.record_bytes());
    assert_eq!(objects.fill(ObjectId(5), 10, 11, usize::MAX), Err(IoError::NoSpace));
    assert_eq!((objects.free_blocks(), objects.record_bytes()), before, "nothing was taken");
    objects.fill(ObjectId(5), 1, 2, usize::MAX).unwrap();
    let undo = objects.apply(&set(5, "k", "v")).unwrap();
    assert!(!objects.fits());
    objects.undo(undo);
    assert!(objects.fits());
}

#[test]
fn what_cannot_be_is_refused() {
    let mut objects = with_table(100);
    done(&mut objects, &thin(5));
    let resize = |size_bytes| ObjectOp::Resize { object: ObjectId(5), size_bytes };
    let rename = ObjectOp::Rename { object: ObjectId(5), name: "x".into() };
    let key = |id| ObjectOp::RemoveAttribute { object: ObjectId(id), key: b"x".as_slice().into() };
    let of_no_volume = ObjectOp::CreateThin {
        object: ObjectId(7),
        kind: ObjectKind::Data,
        volume: ObjectId(5),
        owner: 0,
    };
    for (op, error) in [
        (thin(5), IoError::Exists),
        (of_no_volume, IoError::NoObject),
        (rename, IoError::Unsupported),
        (resize(u64::MAX), IoError::NoSpace),
        (set(9, "k", "v"), IoError::NoObject),
        (set(5, "", "v"), IoError::AttributeSize),
        (key(5), IoError::NoAttribute),
        (key(9), IoError::NoObject),
    ] {
        assert_eq!(objects.apply(&op), Err(error), "{op:?}");
    }
    objects.apply(&resize(1)).unwrap();
    let mut without = Objects::new(100);
    without.create(ObjectId(1), "vol0", 4096).unwrap();
    assert_eq!(without.apply(&thin(5)), Err(IoError::Unsupported));
    assert_eq!(without.apply(&set(1, "k", "v")), Err(IoError::Unsupported));
}

#[test]
fn records_bring_everything_back() {
    let mut objects = with_table(1000);
    for op in [thin(5), set(5, "k", "1"), thin(6), set(6, "x", "y"), set(1, "of", "a volume")] {
        done(&mut objects, &op);
    }
    objects.fill(ObjectId(5), 3, 9, usize::MAX).unwrap();
    let mut records = RecordWriter::default();
    let undo = Undo::Made(ObjectId(1));
    objects.note(&undo);
    objects.record_changes(&mut records);
    assert!(objects.changes().is_empty());
    let mut first = records.take();
    done(&mut objects, &ObjectOp::Remove { object: ObjectId(6) });
    done(&mut objects, &ObjectOp::RemoveAttribute { object: ObjectId(5), key: b"k"[..].into() });
    objects.punch(ObjectId(5), 4, 6);
    let bytes = objects.changes().bytes();
    objects.record_changes(&mut records);
    let second = records.take();
    assert!(second.len() <= bytes, "{} of {bytes}", second.len());
    first.extend(second);
    let mut again = Objects::new(1000);
    again.bound(1 << 20, true);
    for record in crate::format::record::decode(&first).unwrap() {
        assert!(again.replay_record(&record));
    }
    again.end_replay().unwrap();
    assert!(again.iter().eq(objects.iter()));
    assert!(again.runs().iter().eq(objects.runs().iter()));
    assert_eq!(again.attributes().get(ObjectId(1), b"of"), Some(&b"a volume"[..]));
    assert_eq!(again.attributes().len(), 1);
    assert_eq!(again.record_bytes(), objects.record_bytes());
    assert_eq!(again.free_blocks(), 1000 - 10 - 4);
}

#[test]
fn records_that_contradict_each_other_are_refused_at_the_end() {
    let record = |id, first, name: &str| ObjectRecord {
        in_pieces: None,
        id,
        size_bytes: 4096,
        first,
        blocks: 10,
        flags: 0,
        name: name.into(),
    };
    let piece = |logical| Piece { offset: 0, logical: Some(logical), count: 5 };
    let mut objects = Objects::new(100);
    assert!(objects.replay(&record(1, 0, "a")) && objects.replay(&record(2, 5, "b")));
    assert!(objects.clone().end_replay().unwrap_err().contains("over blocks"));
    assert!(objects.replay(&record(2, 10, "a")));
    assert!(objects.clone().end_replay().unwrap_err().contains("two objects"));
    assert!(objects.replay(&record(2, 20, "b")));
    let mut strange = objects.clone();
    assert!(strange.replay_piece(ObjectId(9), piece(50)));
    assert!(strange.end_replay().unwrap_err().contains("not there"));
    let mut strange = objects.clone();
    strange.replay_attribute(ObjectId(9), b"k", Some(b"v"));
    assert!(strange.end_replay().unwrap_err().contains("not there"));
    objects.end_replay().unwrap();
    objects.create(ObjectId(3), "c", 10 * 4096).unwrap();
    assert_eq!(objects.get(ObjectId(3)).unwrap().first, 10, "the gap between them");
    assert!(!objects.replay(&record(4, 95, "d")), "beyond the end");
    assert!(!objects.replay_piece(ObjectId(4), piece(96)), "beyond the end");
}

/// A volume of ten blocks with something behind it, and a file over three of twenty blocks.
fn with_file() -> Objects {
    let mut objects = with_table(200);
    objects.create(ObjectId(2), "b", 10 * 4096).unwrap();
    done(&mut objects, &thin(5));
    done(&mut objects, &ObjectOp::Resize { object: ObjectId(5), size_bytes: 20 * 4096 });
    objects.fill(ObjectId(5), 4, 7, usize::MAX).unwrap();
    objects
}

fn share(from: u64, from_block: u64, to: u64, to_block: u64, blocks: u64) -> ObjectOp {
    let (from, to) = (ObjectId(from), ObjectId(to));
    ObjectOp::Share { from, from_block, to, to_block, blocks }
}

fn snapshot(from: u64, to: u64, name: &str) -> ObjectOp {
    ObjectOp::Snapshot { from: ObjectId(from), to: ObjectId(to), name: name.into() }
}

/// As a start finds them, by the records of all.
fn restarted(objects: &Objects) -> Objects {
    let mut records = RecordWriter::default();
    for (id, object) in objects.iter() {
        write_header(id, object, &mut records);
    }
    for (id, _) in objects.iter() {
        for piece in objects.runs().of(id) {
            records.piece(id.0, piece, objects.is_shared(&piece));
        }
    }
    let mut again = Objects::new(200);
    again.bound(1 << 20, true);
    for record in crate::format::record::decode(&records.take()).unwrap() {
        assert!(again.replay_record(&record));
    }
    again.end_replay().unwrap();
    again
}

#[test]
fn the_last_holder_of_blocks_leaves_them() {
    let mut objects = with_file();
    let free = objects.free_blocks();
    let at = objects.runs().single(ObjectId(5), 4, 7).unwrap();
    done(&mut objects, &thin(6));
    done(&mut objects, &ObjectOp::Resize { object: ObjectId(6), size_bytes: 20 * 4096 });
    assert_eq!(done(&mut objects, &share(5, 3, 6, 10, 5)), []);
    assert_eq!(objects.runs().single(ObjectId(6), 11, 14), Some(at));
    assert_eq!(objects.held_blocks(ObjectId(5)), (3, 0));
    assert_eq!(objects.free_blocks(), free, "a clone takes no blocks");
    assert_eq!(objects.shared_parts(ObjectId(6), 0, 20), [(11, 14)]);
    let again = restarted(&objects);
    assert!(again.iter().eq(objects.iter()));
    assert_eq!(again.shares().extra_blocks(), 3);
    // written to: elsewhere, at once for reads, and for records when it is recorded
    objects.link(ObjectId(6), &[(12, 13)]).unwrap();
    let new = objects.single(ObjectId(6), 12, 13).unwrap();
    assert!(new != at + 1 && objects.single(ObjectId(6), 11, 14).is_none());
    assert_eq!(objects.runs().single(ObjectId(6), 11, 14), Some(at));
    assert_eq!(objects.settle_links(|_| true), (vec![], vec![]), "it was not written to");
    objects.note_written(new);
    let (durable, left) = objects.settle_links(|_| true);
    assert_eq!((durable.len(), left), (1, vec![]), "the other one still has it");
    assert_eq!(objects.shared_parts(ObjectId(6), 0, 20), [(11, 12), (13, 14)]);
    assert_eq!(done(&mut objects, &ObjectOp::Remove { object: ObjectId(5) }), [range(at + 1, 1)]);
    assert!(objects.shares().is_empty());
    let mut left = done(&mut objects, &ObjectOp::Remove { object: ObjectId(6) });
    left.sort_unstable_by_key(|range| range.first);
    assert_eq!(left.iter().map(|range| range.count).sum::<u64>(), 3);
}

#[test]
fn shares_that_cannot_be_are_refused() {
    let mut objects = with_file();
    for (op, error) in [
        (share(5, 0, 5, 10, 11), IoError::OutOfRange),
        (share(5, 0, 5, 1, 3), IoError::OutOfRange),
        (share(5, 0, 5, 10, 0), IoError::OutOfRange),
        (share(5, u64::MAX, 5, 0, 2), IoError::OutOfRange),
        (share(5, 0, 5, 10, u64::MAX), IoError::OutOfRange),
        (share(5, 0, 9, 0, 1), IoError::NoObject),
        (share(1, 0, 5, 0, 1), IoError::Unsupported),
        (share(5, 0, 1, 0, 1), IoError::Unsupported),
        (snapshot(5, 9, "s"), IoError::Unsupported),
        (snapshot(1, 5, "s"), IoError::Exists),
        (snapshot(1, 9, "b"), IoError::Exists),
        (snapshot(7, 9, "s"), IoError::NoObject),
    ] {
        assert_eq!(objects.apply(&op), Err(error), "{op:?}");
    }
    done(&mut objects, &snapshot(1, 9, "s"));
    let resize = ObjectOp::Resize { object: ObjectId(9), size_bytes: 4096 };
    assert_eq!(objects.apply(&resize), Err(IoError::Snapshot));
}

/// With a snapshot a volume lies in runs; without it follows itself again, if nothing was written.
#[test]
fn a_volume_is_what_it_was_when_its_snapshots_are_gone() {
    let mut objects = with_file();
    let before = objects.get(ObjectId(1)).unwrap().clone();
    let plain = objects.clone();
    let undo = objects.apply(&snapshot(1, 9, "s")).unwrap();
    objects.undo(undo);
    assert!(objects.iter().eq(plain.iter()) && objects.runs().blocks(ObjectId(1)) == 0);
    done(&mut objects, &snapshot(1, 9, "s"));
    done(&mut objects, &snapshot(9, 10, "t"));
    let taken = objects.get(ObjectId(10)).unwrap();
    assert_eq!((taken.volume, taken.is_snapshot, &*taken.name), (ObjectId(1), true, "t"));
    assert!(objects.locate(ObjectId(1)).unwrap().is_thin);
    assert!(restarted(&objects).iter().eq(objects.iter()));
    assert_eq!(done(&mut objects, &ObjectOp::Remove { object: ObjectId(9) }), []);
    assert!(objects.locate(ObjectId(1)).unwrap().is_thin);
    let mut written = objects.clone();
    assert_eq!(done(&mut objects, &ObjectOp::Remove { object: ObjectId(10) }), []);
    assert_eq!(*objects.get(ObjectId(1)).unwrap(), before);
    assert!(objects.runs().blocks(ObjectId(1)) == 0 && objects.shares().is_empty());
    // … which it does not if something was
    written.link(ObjectId(1), &[(3, 4)]).unwrap();
    written.note_written(written.single(ObjectId(1), 3, 4).unwrap());
    assert_eq!(written.settle_links(|_| true).1, []);
    let left = done(&mut written, &ObjectOp::Remove { object: ObjectId(10) });
    assert_eq!(left, [range(before.first + 3, 1)]);
    assert!(written.locate(ObjectId(1)).unwrap().is_thin);
    assert!(restarted(&written).iter().eq(written.iter()));
}

#[test]
fn shared_blocks_are_damage_where_no_record_says_so() {
    let mut objects = Objects::new(200);
    objects.bound(1 << 20, true);
    for id in [5, 6] {
        let kind = ObjectKind::Data;
        let thin = |size_bytes| ThinRecord { id, size_bytes, volume: 1, owner: 0, kind };
        assert!(objects.replay_thin(&thin(1 << 20)));
        assert!(!objects.clone().replay_thin(&thin(1 << 52)), "no object has 2^40 blocks");
        let in_pieces = Some(InPieces { origin: 1, is_snapshot: false });
        for (blocks, fits) in [((1 << 40) - 2, true), ((1 << 40) - 1, false)] {
            let (size_bytes, name) = (blocks * BLOCK_BYTES, "v".to_owned());
            let (first, blocks, flags) = (0, 0, 0);
            let record = ObjectRecord { id, size_bytes, first, blocks, flags, name, in_pieces };
            assert_eq!(objects.clone().replay(&record), fits, "{size_bytes} bytes in pieces");
        }
    }
    let piece = |count| Piece { offset: 0, logical: Some(50), count };
    let shared = |id, count| crate::format::record::Record::SharedPiece(id, piece(count));
    objects.replay_piece(ObjectId(5), piece(3));
    objects.replay_piece(ObjectId(6), piece(2));
    assert!(objects.clone().end_replay().unwrap_err().contains("over blocks"));
    objects.replay_record(&shared(6, 2));
    let mut fine = objects.clone();
    fine.end_replay().unwrap();
    assert_eq!(fine.shares().extra_blocks(), 2);
    objects.replay_record(&shared(6, 2));
    objects.replay_piece(ObjectId(6), piece(3));
    assert!(objects.end_replay().unwrap_err().contains("over blocks"));
}
