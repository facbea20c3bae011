//! What could go wrong with these bytes? Small changes of the kinds that find most defects.
//!
//! Source: the mutators of libFuzzer (Mutate_ChangeBit, InsertByte, CopyPart, CrossOver, …). Our own,
//! because libFuzzer wants a C++ compiler and, from cargo-fuzz, a nightly toolchain; this runs wherever
//! the tests run.

use tandem_block::Rng;

/// Longest input.
pub const BYTES_MAX: usize = 64 << 10;
/// Changes of one input at most.
const CHANGES_MAX: u64 = 6;

/// Numbers at which code behaves differently.
const EDGES: [u64; 16] = [
    0,
    1,
    7,
    16,
    127,
    128,
    255,
    256,
    511,
    4095,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Words at which text is understood differently.
const WORDS: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"1e999",
    b"nan",
    b"0.0000000001",
    b",",
    b",,",
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\"",
    b"#",
    b"\xff",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\0",
    b"[[",
    b"{}",
    b"=",
    b"GiB",
];

/// Changes `bytes` a few times; `other` is something to take parts of.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    for _ in 0..=rng.below(CHANGES_MAX) {
        change(bytes, other, rng);
    }
    bytes.truncate(BYTES_MAX);
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    if bytes.is_empty() {
        bytes.push(rng.bits() as u8);
        return;
    }
    let place = at(bytes, rng);
    match rng.below(10) {
        0 => bytes[place] ^= 1 << rng.below(8),
        1 => bytes[place] = rng.bits() as u8,
        2 => bytes.insert(place, rng.bits() as u8),
        3 => drop(bytes.drain(range(bytes, rng))),
        4 => number(bytes, rng),
        5 => digit(bytes, rng),
        6 => {
            let word = WORDS[rng.below(WORDS.len() as u64) as usize];
            let to =
                if rng.chance_ppm(500_000) { place } else { bytes.len().min(place + word.len()) };
            bytes.splice(place..to, word.iter().copied());
        }
        7 => {
            let part = bytes[range(bytes, rng)].to_vec();
            bytes.splice(place..place, part);
        }
        8 if !other.is_empty() => {
            let part = &other[range(other, rng)];
            let to =
                if rng.chance_ppm(500_000) { place } else { bytes.len().min(place + part.len()) };
            bytes.splice(place..to, part.iter().copied());
        }
        _ => bytes.truncate(place),
    }
}

fn at(bytes: &[u8], rng: &mut Rng) -> usize {
    rng.below(bytes.len() as u64) as usize
}

/// Mostly short.
fn range(bytes: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let from = at(bytes, rng);
    let longest = if rng.chance_ppm(900_000) { 64 } else { 4096 };
    from..bytes.len().min(from + 1 + rng.below(longest) as usize)
}

/// An edge, or the number that is there and a little more or less, in either order of bytes.
fn number(bytes: &mut [u8], rng: &mut Rng) {
    let width = 1usize << rng.below(4);
    let from = at(bytes, rng);
    let Some(place) = bytes.get_mut(from..from + width) else { return };
    let mut found = [0; 8];
    found[..width].copy_from_slice(place);
    let big_endian = rng.chance_ppm(500_000);
    if big_endian {
        found[..width].reverse();
    }
    let value = match rng.below(3) {
        0 => EDGES[rng.below(EDGES.len() as u64) as usize],
        1 => u64::from_le_bytes(found).wrapping_add(rng.below(64)).wrapping_sub(32),
        _ => 1u64 << rng.below(64),
    };
    let mut value = value.to_le_bytes();
    if big_endian {
        value[..width].reverse();
    }
    place.copy_from_slice(&value[..width]);
}

/// Another digit in a number that is written out, or more of them.
fn digit(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let from = at(bytes, rng);
    let Some(found) = bytes[from..].iter().position(u8::is_ascii_digit) else { return };
    let digit = b'0' + rng.below(10) as u8;
    if rng.chance_ppm(500_000) {
        bytes[from + found] = digit;
    } else {
        bytes.splice(
            from + found..from + found,
            std::iter::repeat_n(digit, 1 + rng.below(20) as usize),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_repeats_itself_and_changes_something() {
        let start = b"one, 22, three".to_vec();
        let changed = |seed| {
            let mut bytes = start.clone();
            mutate(&mut bytes, b"something else", &mut Rng::new(seed));
            bytes
        };
        assert!((0..100).all(|seed| changed(seed) == changed(seed)));
        assert!((0..100).filter(|seed| changed(*seed) != start).count() > 90);
    }

    #[test]
    fn nothing_grows_beyond_the_bound() {
        let mut rng = Rng::new(1);
        let (mut bytes, other) = (vec![7; BYTES_MAX], vec![b'1'; BYTES_MAX]);
        for _ in 0..500 {
            mutate(&mut bytes, &other, &mut rng);
            assert!(bytes.len() <= BYTES_MAX);
        }
    }
}
