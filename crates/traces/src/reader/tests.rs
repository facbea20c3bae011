//! Does reading keep its promises: alike times, named errors, counted damage?

use super::*;
use std::io::{Cursor, Write as _};
use tandem_block::{Instant, ObjectId, Op, RequestType, StreamId};

const THREE: &str =
    "100,web,0,Read,1000,100,7\n90,web,1,Write,4096,4096,7\n\n120,web,0,Flush,0,0,7\n";

fn read(bytes: &[u8], options: &OpenOptions) -> (Vec<Arrival>, Summary, Option<TraceError>) {
    let mut reader = open_reader("t", Cursor::new(bytes.to_vec()), options).unwrap();
    let mut arrivals = Vec::new();
    let mut trouble = None;
    for item in reader.by_ref() {
        match item {
            Ok(arrival) => arrivals.push(arrival),
            Err(error) => trouble = Some(error),
        }
    }
    assert!(reader.next().is_none(), "the end stays the end");
    (arrivals, reader.summary().clone(), trouble)
}

fn skip_bad() -> OpenOptions {
    OpenOptions { format: Some("msr".into()), skip_bad: true, ..OpenOptions::default() }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn times_devices_and_sectors_are_made_alike() {
    let (arrivals, summary, trouble) = read(THREE.as_bytes(), &OpenOptions::default());
    assert!(trouble.is_none());
    let arrival = |at_ns, object, op, offset_bytes, length_bytes| Arrival {
        at: Instant::from_ns(at_ns),
        object: ObjectId(object),
        op,
        offset_bytes,
        length_bytes,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    };
    assert_eq!(
        arrivals,
        [
            // bytes 1000..1100 lie in sectors 1 and 2
            arrival(0, 0, Op::Read, 512, 1024),
            arrival(0, 1, Op::Write, 4096, 4096),
            arrival(2000, 0, Op::Flush, 0, 0),
        ]
    );
    assert_eq!((summary.requests, summary.reads, summary.writes, summary.flushes), (2, 1, 1, 1));
    assert_eq!((summary.clamped, summary.rounded, summary.bad_lines), (1, 1, 0));
    assert_eq!((summary.read_bytes, summary.write_bytes, summary.duration.ns), (1024, 4096, 2000));
    let devices: Vec<_> =
        summary.devices.iter().map(|d| (&*d.name, d.requests, d.end_bytes)).collect();
    assert_eq!(devices, [("web_0", 1, 1536), ("web_1", 1, 8192)]);
}

#[test]
fn compression_is_known_by_content() {
    let plain = read(THREE.as_bytes(), &skip_bad());
    let zstd = zstd::encode_all(THREE.as_bytes(), 1).unwrap();
    let two_members = [gzip(&THREE.as_bytes()[..30]), gzip(&THREE.as_bytes()[30..])].concat();
    for packed in [gzip(THREE.as_bytes()), two_members, zstd] {
        let unpacked = read(&packed, &skip_bad());
        assert_eq!((&unpacked.0, &unpacked.1), (&plain.0, &plain.1));
    }
}

#[test]
fn a_bad_line_is_named_or_counted() {
    let text =
        "1,a,0,Read,0,512,1\n\n1,a,0,Read,zero,512,1\n2,a,0,Read,0,0,1\n3,a,0,Read,0,512,1\n";
    let (arrivals, _, trouble) = read(text.as_bytes(), &OpenOptions::default());
    assert_eq!(arrivals.len(), 1);
    let message = trouble.unwrap().to_string();
    assert_eq!(
        message,
        "t, line 3: the offset is not a number (read as msr): \"1,a,0,Read,zero,512,1\" \
         (--skip-bad counts such lines instead)"
    );
    let (arrivals, summary, trouble) = read(text.as_bytes(), &skip_bad());
    assert_eq!((arrivals.len(), summary.bad_lines, trouble.is_none()), (2, 2, true));
}

#[test]
fn a_cut_archive_is_named_or_ends_the_trace() {
    let text: String = (0..20_000).map(|i| format!("{i},a,0,Write,{},512,1\n", i * 512)).collect();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for packed in [gzip(text.as_bytes()), zstd] {
        let cut = &packed[..packed.len() * 2 / 3];
        let (arrivals, _, trouble) = read(cut, &OpenOptions::default());
        assert!((1..20_000).contains(&arrivals.len()), "{}", arrivals.len());
        let Some(TraceError::Damaged { place: Place::Line(line), .. }) = trouble else {
            panic!("{trouble:?}")
        };
        assert_eq!(line, arrivals.len() as u64);
        let (again, summary, trouble) = read(cut, &skip_bad());
        assert_eq!((again, summary.bad_lines), (arrivals, 1));
        assert!(trouble.is_none());
    }
}

#[test]
fn a_failing_disk_is_an_error_even_when_bad_lines_are_skipped() {
    struct Failing(u32);
    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 > 3 {
                return Err(io::Error::from_raw_os_error(5));
            }
            let text = b"1,a,0,Read,0,512,1\n";
            let count = text.len().min(into.len());
            into[..count].copy_from_slice(&text[..count]);
            Ok(count)
        }
    }
    let reader = open_reader("t", Failing(0), &skip_bad()).unwrap();
    let last = reader.last().unwrap();
    assert!(matches!(last, Err(TraceError::Io { .. })), "{last:?}");
}

#[test]
fn formats_are_asked_for_by_name() {
    let asked = OpenOptions { format: Some("mrs".into()), ..OpenOptions::default() };
    let error = open_reader("t", Cursor::new(b"".to_vec()), &asked).unwrap_err();
    assert_eq!(error.to_string(), "no trace format is called \"mrs\"; did you mean \"msr\"?");
    for nothing in [&b""[..], b"three blind mice\nsee how they run\n", &[0u8; 4096]] {
        let error = open_reader("t", Cursor::new(nothing.to_vec()), &OpenOptions::default());
        assert!(matches!(error, Err(TraceError::NotRecognised { .. })), "{error:?}");
    }
}

#[test]
fn a_tie_is_reported_and_decided_by_name() {
    let text = b"0 0 7 8 1\n900 0 9 8 1\n";
    let error = open_reader("t", Cursor::new(text.to_vec()), &OpenOptions::default()).unwrap_err();
    let message = "t could be disksim or mqsim: name one with --format (same columns, other units)";
    assert_eq!(error.to_string(), message);
    for (format, at_ns) in [("disksim", 900_000_000), ("mqsim", 900)] {
        let asked = OpenOptions { format: Some(format.into()), ..OpenOptions::default() };
        let (arrivals, _, trouble) = read(text, &asked);
        assert_eq!((arrivals[1].at.ns, trouble.is_none()), (at_ns, true), "{format}");
    }
}

#[test]
fn a_cut_record_is_named_or_counted() {
    let mut record = [0u8; 32];
    record[4..8].copy_from_slice(&512u32.to_le_bytes());
    record[12] = 0x2a;
    record[15] = 1;
    let bytes = &record.repeat(10)[..310];
    let (arrivals, _, trouble) = read(bytes, &OpenOptions::default());
    assert_eq!(arrivals.len(), 9);
    let message = trouble.unwrap().to_string();
    let start = "t, record 10 at byte 288: the trace is cut: its last record has 22 of 32 bytes";
    assert!(message.starts_with(start), "{message}");
    let asked = OpenOptions { format: Some("vscsi".into()), ..skip_bad() };
    let (arrivals, summary, trouble) = read(bytes, &asked);
    assert_eq!((arrivals.len(), summary.bad_lines, trouble.is_none()), (9, 1, true));
}

#[test]
fn a_file_of_another_format_is_refused() {
    for format in ["vscsi", "fio"] {
        let asked = OpenOptions { format: Some(format.into()), ..OpenOptions::default() };
        let text = THREE.as_bytes().repeat(3);
        let error = open_reader("t", Cursor::new(text), &asked).unwrap_err();
        assert!(matches!(error, TraceError::WrongFormat { .. }), "{error}");
    }
}

#[test]
fn ranges_have_limits() {
    for (line, want) in [
        ("1,a,0,Read,0,1073741825", Reason::TooLarge("length")),
        ("1,a,0,Read,4611686018427387904,512", Reason::TooLarge("offset")),
        ("1,a,0,Discard,18446744073709551615,512", Reason::TooLarge("offset")),
    ] {
        let asked = OpenOptions { skip_bad: false, ..skip_bad() };
        let (_, _, trouble) = read(line.as_bytes(), &asked);
        assert!(
            matches!(trouble, Some(TraceError::Bad { reason, .. }) if reason == want),
            "{line}"
        );
    }
}
