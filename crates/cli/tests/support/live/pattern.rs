//! What does each sector of a volume hold? It names its run, volume, place and version, so that whatever
//! is read says whose it is.

/// Bytes of a sector.
pub const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;
/// The first word of each sector that was ever written.
const MAGIC: u64 = 0x7441_6E44_654D_0001;

/// Where a sector lies, and in which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the run: drives may hold what another run left.
    pub run: u64,
    /// Number of the volume.
    pub volume: u64,
    /// Number of the sector.
    pub sector: u64,
}

/// What was found in a sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Zeroes.
    Zero,
    /// This version of what belongs here.
    Version(u64),
    /// What belongs elsewhere: run, volume, sector and version.
    Elsewhere(Place, u64),
    /// Nothing that anybody wrote.
    Garbage([u8; 16]),
}

impl std::fmt::Display for Found {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Zero => write!(out, "zeroes"),
            Found::Version(version) => write!(out, "version {version}"),
            Found::Elsewhere(Place { run, volume, sector }, version) => {
                write!(out, "version {version} of sector {sector} of volume {volume} of run {run}")
            }
            Found::Garbage(first) => write!(out, "bytes that nobody wrote: {first:02x?}"),
        }
    }
}

fn words(place: Place, version: u64) -> [u64; WORDS] {
    let head = [MAGIC, place.run, place.volume, place.sector, version];
    let mix = head
        .iter()
        .fold(0, |mix: u64, word| (mix ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29));
    std::array::from_fn(|index| match head.get(index) {
        Some(word) => *word,
        None => mix.wrapping_add(index as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93),
    })
}

/// Writes this version of a sector.
pub fn fill(bytes: &mut [u8], place: Place, version: u64) {
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words(place, version)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Says what a sector holds that lies at this place.
pub fn read(bytes: &[u8], place: Place) -> Found {
    if bytes == [0; SECTOR] {
        return Found::Zero;
    }
    let word = |index: usize| {
        u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("eight bytes are eight"))
    };
    let found = Place { run: word(1), volume: word(2), sector: word(3) };
    let version = word(4);
    let is_whole = words(found, version).iter().enumerate().all(|(at, good)| word(at) == *good);
    match is_whole {
        true if found == place => Found::Version(version),
        true => Found::Elsewhere(found, version),
        false => Found::Garbage(bytes[..16].try_into().expect("a sector has more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_says_whose_it_is() {
        let place = Place { run: 7, volume: 2, sector: 900 };
        let mut bytes = [0; SECTOR];
        assert_eq!(read(&bytes, place), Found::Zero);
        fill(&mut bytes, place, 33);
        assert_eq!(read(&bytes, place), Found::Version(33));
        let other = Place { sector: 901, ..place };
        assert_eq!(read(&bytes, other), Found::Elsewhere(place, 33));
        for at in 0..SECTOR {
            let mut torn = bytes;
            torn[at] ^= 1;
            assert!(matches!(read(&torn, place), Found::Garbage(_)), "byte {at}");
        }
        bytes[256..].fill(0);
        assert!(matches!(read(&bytes, place), Found::Garbage(_)));
    }
}
