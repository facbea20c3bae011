//! Does a session follow the protocol, and survive those who do not?

use super::super::wire::{can, info, option, reply};
use super::*;
use tandem_block::Rng;

const SIZE: u64 = 1 << 30;

fn exports() -> Rc<[Export]> {
    Rc::from([
        Export {
            name: "vol0".into(),
            object: ObjectId(5),
            size_bytes: SIZE,
            read_only: false,
            stream: None,
        },
        Export {
            name: "vol1".into(),
            object: ObjectId(6),
            size_bytes: 1 << 20,
            read_only: true,
            stream: Some(StreamId(9)),
        },
    ])
}

/// Feeds everything, as many bytes at a time as `piece`; the asks, and what was answered.
fn feed(session: &mut Session, bytes: &[u8], piece: usize) -> (Vec<Ask>, Vec<u8>, bool) {
    let (mut asks, mut out, mut start, mut end) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        match session.step(&bytes[start..end], &mut out) {
            Step::Consumed(count) => start += count,
            Step::Ask(count, ask) => {
                start += count;
                if ask.command == Command::Write {
                    start += ask.length as usize;
                    end = end.max(start);
                }
                asks.push(ask);
            }
            Step::Wait(needed) => {
                assert!(needed > end - start, "{needed} bytes are there already");
                if end == bytes.len() {
                    return (asks, out, false);
                }
                end = bytes.len().min(end + piece);
            }
            Step::StartTls(_) => unreachable!("nothing offers TLS"),
            Step::Full => return (asks, out, false),
            Step::Close => return (asks, out, true),
        }
    }
}

fn with_option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_option(&mut out, option, data);
    out
}

fn named(name: &str, tail: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_string(&mut out, name);
    out.extend_from_slice(tail);
    out
}

fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut out = named(name, &(queries.len() as u32).to_be_bytes());
    for query in queries {
        wire::write_string(&mut out, query);
    }
    out
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut out = Vec::new();
    RequestHeader { flags, command, cookie: 77, offset, length }.write(&mut out);
    out
}

/// A session in the transmission phase.
fn ready(structured: bool) -> Session {
    let mut script = 3u32.to_be_bytes().to_vec();
    if structured {
        script.extend(with_option(option::STRUCTURED_REPLY, &[]));
        let query = meta("vol0", &[wire::BASE_ALLOCATION]);
        script.extend(with_option(option::SET_META_CONTEXT, &query));
    }
    script.extend(with_option(option::GO, &named("vol0", &[0, 0])));
    let mut session = Session::new(exports(), &mut Vec::new());
    let (asks, _, closed) = feed(&mut session, &script, usize::MAX / 2);
    assert!(asks.is_empty() && !closed);
    session
}

/// Kind and data of the replies to options.
fn replies(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut reader = wire::Reader::new(bytes);
        assert_eq!(reader.u64(), Some(wire::OPTION_REPLY_MAGIC));
        let (_, kind, length) = (reader.u32(), reader.u32().unwrap(), reader.u32().unwrap());
        found.push((kind, reader.bytes(length as usize).unwrap().to_vec()));
        bytes = &bytes[20 + length as usize..];
    }
    found
}

#[test]
fn the_greeting_is_newstyle() {
    let mut out = Vec::new();
    Session::new(exports(), &mut out);
    assert_eq!(out, *b"NBDMAGICIHAVEOPT\x00\x03");
}

/// However the bytes are cut, the answers are the same.
#[test]
fn options_are_answered() {
    let kinds = |option: u32, data: &[u8]| {
        let mut whole = Vec::new();
        for piece in [1, 7, 1000] {
            let mut session = Session::new(exports(), &mut Vec::new());
            let script = [3u32.to_be_bytes().to_vec(), with_option(option, data)].concat();
            let (_, out, closed) = feed(&mut session, &script, piece);
            let found: Vec<u32> = replies(&out).iter().map(|(kind, _)| *kind).collect();
            whole.push((found, closed));
        }
        assert!(whole.iter().all(|one| *one == whole[0]), "{whole:?}");
        whole.swap_remove(0)
    };
    let go = |tail: &[u8]| named("vol1", tail);
    let table: [(u32, Vec<u8>, &[u32], bool); 13] = [
        (option::LIST, vec![], &[reply::SERVER, reply::SERVER, reply::ACK], false),
        (option::LIST, vec![1], &[reply::ERR_INVALID], false),
        (option::ABORT, vec![], &[reply::ACK], true),
        (5, vec![], &[reply::ERR_UNSUP], false), // STARTTLS
        (option::STRUCTURED_REPLY, vec![0], &[reply::ERR_INVALID], false),
        (option::INFO, go(&[0, 0]), &[reply::INFO, reply::INFO, reply::ACK], false),
        (
            option::GO,
            go(&[0, 1, 0, 1]),
            &[reply::INFO, reply::INFO, reply::INFO, reply::ACK],
            false,
        ),
        (option::GO, go(&[0, 2, 0, 1]), &[reply::ERR_INVALID], false),
        (option::GO, vec![255; 9], &[reply::ERR_INVALID], false),
        (option::GO, named("none", &[0, 0]), &[reply::ERR_UNKNOWN], false),
        (option::SET_META_CONTEXT, meta("vol0", &[]), &[reply::ERR_INVALID], false),
        (option::EXPORT_NAME, b"none".to_vec(), &[], true),
        (option::GO, vec![0; 20_000], &[reply::ERR_TOO_BIG], true),
    ];
    for (option, data, want, closed) in table {
        assert_eq!(kinds(option, &data), (want.to_vec(), closed), "option {option} {data:?}");
    }
}

#[test]
fn info_tells_size_flags_and_block_sizes() {
    let mut session = Session::new(exports(), &mut Vec::new());
    let script =
        [3u32.to_be_bytes().to_vec(), with_option(option::INFO, &named("", &[0, 0]))].concat();
    let (_, out, _) = feed(&mut session, &script, 1000);
    let found = replies(&out);
    let mut export = wire::Reader::new(&found[0].1);
    assert_eq!((export.u16(), export.u64()), (Some(info::EXPORT), Some(SIZE)));
    let flags = export.u16().unwrap();
    let want =
        can::HAS_FLAGS | can::FLUSH | can::FUA | can::TRIM | can::WRITE_ZEROES | can::MULTI_CONN;
    assert_eq!(flags, want);
    let mut sizes = wire::Reader::new(&found[1].1);
    assert_eq!(sizes.u16(), Some(info::BLOCK_SIZE));
    assert_eq!((sizes.u32(), sizes.u32(), sizes.u32()), (Some(512), Some(4096), Some(32 << 20)));
}

#[test]
fn export_name_begins_without_a_reply_header() {
    for (client_flags, zeroes) in [(3u32, 0), (1, 124)] {
        let mut session = Session::new(exports(), &mut Vec::new());
        let name = with_option(option::EXPORT_NAME, b"vol1");
        let script = [client_flags.to_be_bytes().to_vec(), name].concat();
        let (_, out, closed) = feed(&mut session, &script, 5);
        assert_eq!((out.len(), closed), (10 + zeroes, false));
        assert_eq!(out[..8], (1u64 << 20).to_be_bytes());
    }
}

#[test]
fn unknown_client_flags_and_endless_options_end_the_connection() {
    let mut session = Session::new(exports(), &mut Vec::new());
    assert!(feed(&mut session, &4u32.to_be_bytes(), 4).2);
    let mut session = Session::new(exports(), &mut Vec::new());
    let mut script = 3u32.to_be_bytes().to_vec();
    (0..65).for_each(|_| script.extend(with_option(99, &[])));
    let (_, out, closed) = feed(&mut session, &script, 100);
    assert_eq!((replies(&out).len(), closed), (64, true));
}

#[test]
fn requests_are_checked() {
    use wire::error::{EINVAL, ENOSPC};
    let big = REQUEST_BYTES_MAX;
    let table = [
        (command::READ, 0, 0, 512, Ok(Command::Read)),
        (command::READ, flag::DF, SIZE - 512, 512, Ok(Command::Read)),
        (command::READ, 0, SIZE, 512, Err(EINVAL)),
        (command::READ, 0, u64::MAX - 511, 512, Err(EINVAL)),
        (command::READ, 0, 1, 512, Err(EINVAL)),
        (command::READ, 0, 0, 100, Err(EINVAL)),
        (command::READ, 0, 0, 0, Err(EINVAL)),
        (command::READ, 0, 0, big, Ok(Command::Read)),
        (command::READ, 0, 0, big + 512, Err(EINVAL)),
        // the document: with SEND_FUA, FUA is for every command
        (command::READ, flag::FUA, 0, 512, Ok(Command::Read)),
        (command::READ, flag::FUA | flag::DF, 0, 512, Ok(Command::Read)),
        (command::READ, flag::NO_HOLE, 0, 512, Err(EINVAL)),
        (command::FLUSH, 0, 0, 0, Ok(Command::Flush)),
        (command::FLUSH, flag::FUA, 0, 0, Ok(Command::Flush)),
        (command::WRITE_ZEROES, flag::FUA, 0, 4096, Ok(Command::WriteZeroes)),
        (command::BLOCK_STATUS, flag::FUA, 0, 512, Ok(Command::BlockStatus { one: false })),
        (command::TRIM, flag::FUA, 0, big + 512, Ok(Command::Trim)),
        (command::TRIM, 0, SIZE, 512, Err(EINVAL)),
        (command::WRITE_ZEROES, flag::NO_HOLE, 0, 4096, Ok(Command::WriteZeroes)),
        (command::WRITE_ZEROES, flag::FAST_ZERO, 0, 4096, Err(EINVAL)),
        (command::WRITE_ZEROES, 0, SIZE - 512, 1024, Err(ENOSPC)),
        (command::BLOCK_STATUS, flag::REQ_ONE, 0, 512, Ok(Command::BlockStatus { one: true })),
        (5, 0, 0, 512, Err(EINVAL)), // CACHE
        (99, 0, 0, 512, Err(EINVAL)),
    ];
    for structured in [true, false] {
        for (command, flags, offset, length, want) in table {
            let mut session = ready(structured);
            let (asks, out, closed) =
                feed(&mut session, &request(command, flags, offset, length), 9);
            assert!(!closed);
            match want {
                Err(error) => check_error(&out, structured, command, error),
                Ok(Command::BlockStatus { .. }) if !structured => {
                    check_error(&out, structured, command, EINVAL);
                }
                Ok(kind) => {
                    let fua = flags & flag::FUA != 0 && kind.writes();
                    let may_divide = structured && flags & flag::DF == 0;
                    let (object, slot, stream) = (ObjectId(5), asks[0].slot, None);
                    let ask = Ask {
                        slot,
                        command: kind,
                        object,
                        stream,
                        offset,
                        length,
                        fua,
                        may_divide,
                    };
                    assert_eq!((asks, out.len()), (vec![ask], 0));
                }
            }
        }
    }
}

fn check_error(out: &[u8], structured: bool, command: u16, error: u32) {
    let mut reader = wire::Reader::new(out);
    if structured && matches!(command, command::READ | command::BLOCK_STATUS) {
        assert_eq!(reader.u32(), Some(wire::CHUNK_MAGIC));
        assert_eq!((reader.u16(), reader.u16()), (Some(chunk::DONE), Some(chunk::ERROR)));
        assert_eq!((reader.u64(), reader.u32()), (Some(77), Some(6)));
        assert_eq!((reader.u32(), reader.u16()), (Some(error), Some(0)));
    } else {
        assert_eq!(reader.u32(), Some(wire::SIMPLE_REPLY_MAGIC));
        assert_eq!((reader.u32(), reader.u64()), (Some(error), Some(77)));
    }
    assert!(reader.is_empty(), "one error, one answer");
}

/// The body of a refused write is thrown away, and the next request is understood.
#[test]
fn a_refused_write_is_skipped_and_a_mad_one_ends_the_connection() {
    let cases = [(SIZE, 1024, wire::error::ENOSPC), (3, 1024, wire::error::EINVAL)];
    for (offset, length, error) in cases {
        let mut session = ready(true);
        let mut script = request(command::WRITE, 0, offset, length);
        script.extend(vec![0xAB; length as usize]);
        script.extend(request(command::READ, 0, 512, 512));
        for piece in [1, 50, 5000] {
            let (asks, out, closed) = feed(&mut session, &script, piece);
            check_error(&out, true, command::WRITE, error);
            assert_eq!((asks.len(), asks[0].offset, closed), (1, 512, false));
        }
    }
    let mut session = ready(true);
    let (_, out, closed) = feed(&mut session, &request(command::WRITE, 0, 0, (64 << 20) + 512), 28);
    assert!(closed && out.is_empty());
}

#[test]
fn answers_have_the_form_that_was_agreed_on() {
    for structured in [true, false] {
        let mut session = ready(structured);
        let (asks, _, _) = feed(&mut session, &request(command::READ, 0, 1024, 512), 28);
        let mut out = Vec::new();
        assert_eq!(session.complete(asks[0].slot, Ok(()), &mut out), 512);
        let head = if structured { wire::CHUNK_BYTES + 8 } else { wire::SIMPLE_REPLY_BYTES };
        assert_eq!((out.len(), session.in_flight()), (head, 0));
        if structured {
            assert_eq!(out[16..20], 520u32.to_be_bytes());
            assert_eq!(out[20..], 1024u64.to_be_bytes());
        }
        let (asks, _, _) = feed(&mut session, &request(command::READ, 0, 1024, 512), 28);
        out.clear();
        let status = Err(IoError::Checksum(tandem_block::DeviceId(1)));
        assert_eq!(session.complete(asks[0].slot, status, &mut out), 0);
        check_error(&out, structured, command::READ, wire::error::EIO);
    }
}

#[test]
fn block_status_merges_clips_and_stops_at_one() {
    let extents = [(4096, true), (4096, true), (8192, false), (1 << 40, true)]
        .map(|(length_bytes, allocated)| Extent { length_bytes, allocated });
    for (flags, want) in
        [(0, vec![(8192u32, 0u32), (8192, 3), (16384, 0)]), (flag::REQ_ONE, vec![(8192, 0)])]
    {
        let mut session = ready(true);
        let (asks, _, _) = feed(&mut session, &request(command::BLOCK_STATUS, flags, 0, 32768), 28);
        let mut out = Vec::new();
        session.complete_status(asks[0].slot, &extents, &mut out);
        let mut reader = wire::Reader::new(&out[wire::CHUNK_BYTES..]);
        assert_eq!(reader.u32(), Some(wire::BASE_ALLOCATION_ID));
        let mut found = Vec::new();
        while let (Some(length), Some(flags)) = (reader.u32(), reader.u32()) {
            found.push((length, flags));
        }
        assert_eq!(found, want);
    }
}

/// Where it was not offered FUA is no more welcome than before, but on a flush, which some clients send so.
#[test]
fn fua_is_for_those_to_whom_it_was_offered() {
    let mut script = 3u32.to_be_bytes().to_vec();
    script.extend(with_option(option::STRUCTURED_REPLY, &[]));
    script.extend(with_option(option::SET_META_CONTEXT, &meta("vol1", &[wire::BASE_ALLOCATION])));
    script.extend(with_option(option::GO, &named("vol1", &[0, 0])));
    let mut session = Session::new(exports(), &mut Vec::new());
    feed(&mut session, &script, usize::MAX / 2);
    for (command, length, taken) in
        [(command::READ, 512, 0), (command::BLOCK_STATUS, 512, 0), (command::FLUSH, 0, 1)]
    {
        let (asks, ..) = feed(&mut session, &request(command, flag::FUA, 0, length), 28);
        assert_eq!(asks.len(), taken, "command {command}");
    }
}

/// A disconnect is one, whatever its flags say.
#[test]
fn a_disconnect_with_fua_is_a_disconnect() {
    let mut session = ready(true);
    let (asks, out, closed) = feed(&mut session, &request(command::DISC, flag::FUA, 0, 0), 28);
    assert!(asks.is_empty() && out.is_empty() && closed);
}

/// Names of 4096 bytes are heard and said back as far as they may be; longer ones and NULs are not.
#[test]
fn no_string_is_too_long_or_holds_a_nul() {
    let raw =
        |name: &[u8], tail: &[u8]| [&(name.len() as u32).to_be_bytes()[..], name, tail].concat();
    let long = [b'x'; 4096];
    let longer = [b'x'; 4097];
    let queries =
        |query: &[u8]| raw(b"vol0", &[&1u32.to_be_bytes()[..], &raw(query, &[])].concat());
    let table: [(u32, Vec<u8>, u32); 8] = [
        (option::INFO, raw(&long, &[0, 0]), reply::ERR_UNKNOWN),
        (option::INFO, raw(&[0xF0, 0x9F, 0x90, 0x89].repeat(1024), &[0, 0]), reply::ERR_UNKNOWN),
        (option::INFO, raw(&longer, &[0, 0]), reply::ERR_INVALID),
        (option::GO, raw(b"vol0\0", &[0, 0]), reply::ERR_INVALID),
        (option::GO, raw(&[1; 4096], &[0, 0]), reply::ERR_UNKNOWN),
        (option::SET_META_CONTEXT, queries(&long), reply::ACK),
        (option::SET_META_CONTEXT, queries(&longer), reply::ERR_INVALID),
        (option::LIST_META_CONTEXT, queries(b"base:\0"), reply::ERR_INVALID),
    ];
    for (number, (option, data, want)) in table.into_iter().enumerate() {
        let mut script = 3u32.to_be_bytes().to_vec();
        script.extend(with_option(option::STRUCTURED_REPLY, &[]));
        script.extend(with_option(option, &data));
        let mut session = Session::new(exports(), &mut Vec::new());
        let (_, out, closed) = feed(&mut session, &script, usize::MAX / 2);
        let (kind, said) = replies(&out).pop().unwrap();
        assert_eq!((kind, closed), (want, false), "case {number}");
        assert!(wire::as_string(&said).is_some(), "case {number} says {} bytes", said.len());
    }
    for name in [&longer[..], b"vol0\0"] {
        let mut session = Session::new(exports(), &mut Vec::new());
        let script = [3u32.to_be_bytes().to_vec(), with_option(option::EXPORT_NAME, name)].concat();
        assert!(feed(&mut session, &script, usize::MAX / 2).2, "it knows no other answer");
    }
}

/// Where as many clients are served as may be, the next one is told.
#[test]
fn who_is_one_too_many_is_told_why() {
    let greeted = || {
        let mut session = Session::new(exports(), &mut Vec::new());
        session.set_full(Some(7));
        feed(&mut session, &3u32.to_be_bytes(), 4);
        session
    };
    let go = with_option(option::GO, &named("vol0", &[0, 0]));
    let mut session = greeted();
    let (_, out, closed) = feed(&mut session, &go, 1000);
    let (kind, said) = replies(&out).pop().unwrap();
    assert_eq!((kind, closed), (reply::ERR_POLICY, false));
    assert!(String::from_utf8(said).unwrap().contains("7 clients"));
    assert!(session.is_negotiating());
    session.set_full(None);
    let (_, out, _) = feed(&mut session, &go, 1000);
    assert_eq!((replies(&out).pop().unwrap().0, session.is_negotiating()), (reply::ACK, false));
    let mut old = greeted();
    assert!(feed(&mut old, &with_option(option::EXPORT_NAME, b"vol0"), 1000).2);
}

/// A read may be answered in pieces: several chunks, of which the last is marked. A write in parts is
/// answered once, when all of them are done. What fails is said at the end.
#[test]
fn requests_are_done_in_parts_and_answered_once() {
    for fails in [false, true] {
        let mut session = ready(true);
        let (asks, ..) = feed(&mut session, &request(command::READ, 0, 0, 1536), 28);
        let slot = asks[0].slot;
        let mut out = Vec::new();
        session.part_begins(slot, false);
        assert_eq!(session.part_ends(slot, Ok(()), (0, 1024), &mut out), 1024);
        assert_eq!(out[4..8], [0, 0, 0, 1], "not the last chunk");
        assert_eq!(out[20..28], 0u64.to_be_bytes());
        out.clear();
        if fails {
            session.fail(slot, IoError::NoMemory, &mut out);
            check_error(&out, true, command::READ, wire::error::ENOMEM);
        } else {
            session.part_begins(slot, true);
            assert_eq!(session.part_ends(slot, Ok(()), (1024, 512), &mut out), 512);
            assert_eq!(out[4..8], [0, 1, 0, 1], "the last chunk");
            assert_eq!(out[20..28], 1024u64.to_be_bytes());
        }
        assert_eq!(session.in_flight(), 0);

        let write = [request(command::WRITE, 0, 0, 1536), vec![7; 1536]].concat();
        let (asks, ..) = feed(&mut session, &write, 28);
        let slot = asks[0].slot;
        out.clear();
        session.part_begins(slot, false);
        session.part_begins(slot, true);
        let first = if fails { Err(IoError::NoSpace) } else { Ok(()) };
        assert_eq!(session.part_ends(slot, first, (0, 1024), &mut out), 0);
        assert!(out.is_empty(), "the other part is under way");
        session.part_ends(slot, Ok(()), (1024, 512), &mut out);
        let want = if fails { wire::error::ENOSPC } else { 0 };
        check_error(&out, true, command::WRITE, want);
        assert_eq!(session.in_flight(), 0);
    }
}

#[test]
fn what_is_under_way_is_bounded() {
    let mut session = ready(true);
    let small: Vec<u8> = (0..400).flat_map(|_| request(command::READ, 0, 0, 512)).collect();
    assert_eq!(feed(&mut session, &small, 28).0.len(), IN_FLIGHT_MAX);
    let mut session = ready(true);
    let large: Vec<u8> = (0..4).flat_map(|_| request(command::READ, 0, 0, 32 << 20)).collect();
    let (asks, _, _) = feed(&mut session, &large, 28);
    assert_eq!(asks.len(), 2);
    session.complete(asks[0].slot, Ok(()), &mut Vec::new());
    assert_eq!(feed(&mut session, &large[56..], 28).0.len(), 1, "an answer makes room");
}

/// Noise, and valid scripts with a few bytes changed.
#[test]
fn strangers_bytes_never_panic() {
    let mut script = 3u32.to_be_bytes().to_vec();
    script.extend(with_option(option::STRUCTURED_REPLY, &[]));
    script.extend(with_option(option::LIST_META_CONTEXT, &meta("b", &[])));
    script.extend(with_option(option::SET_META_CONTEXT, &meta("b", &[wire::BASE_ALLOCATION])));
    script.extend(with_option(option::GO, &named("b", &[0, 1, 0, 3])));
    for command in 0..9 {
        script.extend(request(command, 0, 4096, 512));
        if command == command::WRITE {
            script.extend([1; 512]);
        }
    }
    super::fuzz(&script);
    let mut rng = Rng::new(11);
    for _ in 0..3000 {
        let mut changed = script.clone();
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(changed.len() as u64) as usize;
            changed[at] ^= 1 << rng.below(8);
        }
        let cut = rng.below(changed.len() as u64 + 1) as usize;
        super::fuzz(&changed[..cut]);
        let noise: Vec<u8> = (0..rng.below(200)).map(|_| rng.bits() as u8).collect();
        super::fuzz(&noise);
    }
}

/// What comes by an export that is somebody's is theirs.
#[test]
fn requests_say_whose_they_are_where_the_export_does() {
    for (name, stream) in [("vol0", None), ("vol1", Some(StreamId(9)))] {
        let mut script = 3u32.to_be_bytes().to_vec();
        script.extend(with_option(option::GO, &named(name, &[0, 0])));
        script.extend(request(command::READ, 0, 0, 512));
        let mut session = Session::new(exports(), &mut Vec::new());
        let (asks, ..) = feed(&mut session, &script, usize::MAX / 2);
        assert_eq!((asks.len(), asks[0].stream), (1, stream), "{name}");
    }
}
