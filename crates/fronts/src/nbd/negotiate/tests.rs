//! What is said before TLS, and what is remembered behind it?

use super::*;
use tandem_block::ObjectId;

fn exports(names: &[&str]) -> Rc<[Export]> {
    let export = |name: &&str| Export {
        name: (*name).into(),
        object: ObjectId(1),
        size_bytes: 1 << 20,
        read_only: false,
        stream: None,
    };
    names.iter().map(export).collect()
}

fn begun(tls: Tls) -> Negotiation {
    let mut negotiation = Negotiation::new(exports(&["secret", "open"]));
    negotiation.tls = tls;
    let progress = negotiation.step(&3u32.to_be_bytes(), &mut Vec::new());
    assert_eq!(progress, Progress::Consumed(4));
    negotiation
}

/// Says one option; what came of it, and the types of the replies.
fn said(negotiation: &mut Negotiation, option: u32, data: &[u8]) -> (Progress, Vec<u32>) {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    wire::write_option(&mut input, option, data);
    let progress = negotiation.step(&input, &mut out);
    let (mut kinds, mut reader) = (Vec::new(), Reader::new(&out));
    while !reader.is_empty() {
        assert_eq!((reader.u64(), reader.u32()), (Some(wire::OPTION_REPLY_MAGIC), Some(option)));
        kinds.push(reader.u32().unwrap());
        let length = reader.u32().unwrap();
        reader.bytes(length as usize).unwrap();
    }
    (progress, kinds)
}

fn named(name: &str) -> Vec<u8> {
    let mut data = Vec::new();
    wire::write_string(&mut data, name);
    data.extend_from_slice(&0u16.to_be_bytes());
    data
}

#[test]
fn without_tls_a_listener_that_wants_it_tells_nothing() {
    let mut context = Vec::new();
    wire::write_string(&mut context, "secret");
    context.extend_from_slice(&0u32.to_be_bytes());
    let options: [(u32, &[u8]); 7] = [
        (option::LIST, &[]),
        (option::INFO, &named("secret")),
        (option::GO, &named("secret")),
        (option::GO, &named("no such export")),
        (option::STRUCTURED_REPLY, &[]),
        (option::SET_META_CONTEXT, &context),
        (77, &[1, 2, 3]),
    ];
    for (option, data) in options {
        let (progress, kinds) = said(&mut begun(Tls::Required), option, data);
        assert_eq!(kinds, [reply::ERR_TLS_REQD], "option {option}");
        assert_eq!(progress, Progress::Consumed(wire::OPTION_BYTES + data.len()));
    }
    let old = said(&mut begun(Tls::Required), option::EXPORT_NAME, b"secret");
    assert_eq!(old, (Progress::Close, vec![]), "the old way knows no errors");
    let gives_up = said(&mut begun(Tls::Required), option::ABORT, &[]);
    assert_eq!(gives_up, (Progress::Close, vec![reply::ACK]));
}

#[test]
fn tls_begins_once_and_where_it_is_offered() {
    let begins = (Progress::StartTls(wire::OPTION_BYTES), vec![reply::ACK]);
    for tls in [Tls::Offered, Tls::Required] {
        assert_eq!(said(&mut begun(tls), option::STARTTLS, &[]), begins);
        let odd = said(&mut begun(tls), option::STARTTLS, &[0]);
        assert_eq!(odd, (Progress::Consumed(wire::OPTION_BYTES + 1), vec![reply::ERR_INVALID]));
    }
    let off = said(&mut begun(Tls::Off), option::STARTTLS, &[]);
    assert_eq!(off, (Progress::Consumed(wire::OPTION_BYTES), vec![reply::ERR_UNSUP]));
    let mut negotiation = begun(Tls::Required);
    negotiation.secured(exports(&["open"]));
    let again = said(&mut negotiation, option::STARTTLS, &[]);
    assert_eq!(again, (Progress::Consumed(wire::OPTION_BYTES), vec![reply::ERR_INVALID]));
}

/// Whoever sits on the way can say options before TLS begins; none of them holds behind it.
#[test]
fn what_was_said_before_tls_is_forgotten() {
    let mut negotiation = begun(Tls::Offered);
    let mut context = Vec::new();
    wire::write_string(&mut context, "open");
    context.extend_from_slice(&1u32.to_be_bytes());
    wire::write_string(&mut context, wire::BASE_ALLOCATION);
    assert_eq!(said(&mut negotiation, option::STRUCTURED_REPLY, &[]).1, [reply::ACK]);
    let agreed = said(&mut negotiation, option::SET_META_CONTEXT, &context);
    assert_eq!(agreed.1, [reply::META_CONTEXT, reply::ACK]);
    assert!(matches!(said(&mut negotiation, option::STARTTLS, &[]).0, Progress::StartTls(_)));
    negotiation.secured(exports(&["open"]));
    assert!(!negotiation.structured && !negotiation.has_meta(0) && !negotiation.has_meta(1));
    let refused = said(&mut negotiation, option::SET_META_CONTEXT, &context);
    assert_eq!(refused.1, [reply::ERR_INVALID], "structured replies were not agreed on");
    // and other exports may be offered by then
    let hidden = said(&mut negotiation, option::GO, &named("secret"));
    assert_eq!(hidden.1, [reply::ERR_UNKNOWN]);
    let (progress, _) = said(&mut negotiation, option::GO, &named(""));
    assert!(matches!(progress, Progress::Chosen(_, 0)), "{progress:?}");
}
