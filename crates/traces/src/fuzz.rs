//! Can a decoder be fooled? Entry points for fuzzers: any bytes, no panic, bounded memory.

use crate::formats::FORMATS;
use crate::reader::{OpenOptions, open_limited};
use std::io::Cursor;

/// A small archive may hold gigabytes; so much of it is read.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;

/// Reads the bytes as every format and as whatever they are detected to be, and returns how many
/// requests that gave in all.
///
/// # Panics
/// If a reader breaks its promises: times in order, whole sectors, counts that agree.
pub fn decode_any(bytes: &[u8]) -> u64 {
    let named = FORMATS.iter().map(|format| Some(format.name));
    named.chain([None]).map(|format| decode_as(bytes, format)).sum()
}

/// Reads the bytes as one format (or, with `None`, as the one detected), skipping what is bad.
///
/// # Panics
/// As `decode_any`, or if there is no such format.
pub fn decode_as(bytes: &[u8], format: Option<&str>) -> u64 {
    let options =
        OpenOptions { format: format.map(str::to_owned), skip_bad: true, ..OpenOptions::default() };
    let source = Cursor::new(bytes.to_vec());
    let Ok(mut reader) = open_limited("fuzz", source, &options, UNPACKED_BYTES_MAX) else {
        return 0;
    };
    let (mut requests, mut flushes, mut last_ns) = (0, 0, 0);
    for arrival in reader.by_ref() {
        let arrival = arrival.expect("in memory, what is bad is skipped");
        assert!(arrival.at.ns >= last_ns, "time goes back");
        assert!(arrival.offset_bytes.is_multiple_of(512), "half a sector");
        assert!(arrival.length_bytes.is_multiple_of(512), "half a sector");
        last_ns = arrival.at.ns;
        if arrival.op == tandem_block::Op::Flush {
            assert_eq!((arrival.offset_bytes, arrival.length_bytes), (0, 0), "a flush of a range");
            flushes += 1;
        } else {
            assert!(arrival.length_bytes > 0, "a request of nothing");
            requests += 1;
        }
    }
    let summary = reader.summary();
    assert!(summary.requests >= requests && summary.flushes >= flushes, "uncounted");
    let kinds = summary.reads + summary.writes + summary.discards;
    assert_eq!(summary.requests, kinds, "every request is of a kind");
    requests
}
