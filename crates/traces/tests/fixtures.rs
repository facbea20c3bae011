//! Is every format read exactly as its fixture says?
//!
//! The fixtures and what is expected of them are written by the example `fixtures`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tandem_block::Rng;
use tandem_traces::{FORMATS, OpenOptions, fuzz, open};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Every trace of the folder, with the first part of its name.
fn fixtures() -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let stem = name.split('.').next()?.to_owned();
            let has_expectation = folder().join(format!("{stem}.expected")).is_file();
            (has_expectation && !name.ends_with(".expected")).then_some((stem, path.clone()))
        })
        .collect();
    found.sort();
    found
}

fn read(path: &Path, options: &OpenOptions) -> (&'static str, String) {
    let mut reader = open(path, options).unwrap();
    let mut out = String::new();
    for arrival in reader.by_ref() {
        let arrival = arrival.unwrap();
        writeln!(
            out,
            "{} {} {:?} {} {} {}",
            arrival.at.ns,
            arrival.object.0,
            arrival.op,
            arrival.offset_bytes,
            arrival.length_bytes,
            arrival.fua
        )
        .unwrap();
    }
    let got = reader.summary();
    writeln!(
        out,
        "requests {} flushes {} bad {} clamped {} devices {}",
        got.requests,
        got.flushes,
        got.bad_lines,
        got.clamped,
        got.devices.len()
    )
    .unwrap();
    (reader.format().name, out)
}

#[test]
fn fixtures_are_detected_and_read_as_expected() {
    let options = OpenOptions { skip_bad: true, ..OpenOptions::default() };
    for (stem, path) in fixtures() {
        let (format, got) = read(&path, &options);
        assert_eq!(format, stem.split('-').next().unwrap());
        let want = std::fs::read_to_string(folder().join(format!("{stem}.expected"))).unwrap();
        for (number, (got, want)) in got.lines().zip(want.lines()).enumerate() {
            assert_eq!(got, want, "{stem}, arrival {}", number + 1);
        }
        assert_eq!(got.lines().count(), want.lines().count(), "{stem}");
    }
}

#[test]
fn every_format_has_a_fixture() {
    let fixtures = fixtures();
    for format in FORMATS {
        let has_one = fixtures.iter().any(|(stem, _)| stem.split('-').next() == Some(format.name));
        assert!(has_one, "{} has no fixture", format.name);
    }
}

#[test]
fn naming_the_format_changes_nothing() {
    for (stem, path) in fixtures() {
        let format = Some(stem.split('-').next().unwrap().to_owned());
        let named = OpenOptions { skip_bad: true, format, ..OpenOptions::default() };
        let detected = OpenOptions { skip_bad: true, ..OpenOptions::default() };
        assert_eq!(read(&path, &named), read(&path, &detected), "{stem}");
    }
}

/// Bits flipped, bytes replaced, pieces cut out, doubled or cut off.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.between(1, 8) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        let upto = (at + rng.between(1, 64) as usize).min(bytes.len());
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = [0, 0xff, b'\n', b' ', b',', b'9', b'-', b'.'][rng.below(8) as usize],
            2 => drop(bytes.drain(at..upto)),
            3 => {
                let piece = bytes[at..upto].to_vec();
                bytes.splice(at..at, piece.repeat(3));
            }
            4 => bytes.truncate(at),
            _ => bytes[at..upto].iter_mut().for_each(|byte| *byte = rng.bits() as u8),
        }
    }
}

#[test]
fn mutated_fixtures_never_panic() {
    let mut rng = Rng::new(11);
    let mut requests = 0;
    for (_, path) in fixtures() {
        let original = std::fs::read(&path).unwrap();
        for _ in 0..60 {
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut rng);
            requests += fuzz::decode_any(&bytes);
        }
    }
    assert!(requests > 10_000, "most lines survive: {requests}");
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = Rng::new(12);
    let alphabet = b"0123456789 ,.\n\tRWQF+-fioversion\0\xff";
    for round in 0..400 {
        let length = rng.below(2000);
        let text = (0..length).map(|_| match round % 2 {
            0 => rng.bits() as u8,
            _ => alphabet[rng.below(alphabet.len() as u64) as usize],
        });
        let mut bytes: Vec<u8> = text.collect();
        // some of them look packed
        for (magic, of) in [(&[0x1f, 0x8b, 8, 0][..], 5), (&[0x28, 0xb5, 0x2f, 0xfd], 7)] {
            if round % of == 0 {
                bytes.splice(0..0, magic.iter().copied());
            }
        }
        fuzz::decode_any(&bytes);
    }
}
