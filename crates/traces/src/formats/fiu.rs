//! How does Florida International University write down a request?
//!
//! Source: the readme beside the traces (SNIA IOTTA 390, "FIU SRC Map"), and a sample.

use super::{Asked, Decoder, Format, vote};
use crate::device::Names;
use crate::error::Reason;
use crate::fields::{scaled, split_blank, whole};
use tandem_block::{Op, SECTOR_BYTES};

pub(super) const FORMAT: Format = Format {
    name: "fiu",
    summary: "FIU text: departmental servers, with a hash of each block",
    columns: "timestamp (ns), process id, process name (may hold blanks), address (sectors of 512 \
              bytes), length (sectors), R or W, major, minor, hash of the contents (ignored). Major \
              and minor name the device. A length of zero is an error.",
    detect: |sample| vote(sample, &mut Fiu::default()),
    open: |_, _| Ok(Box::new(Fiu::default())),
};

/// A process name holds at most 15 letters, hence 8 words.
const WORDS_MAX: usize = 16;

#[derive(Default)]
struct Fiu {
    names: Names,
}

impl Decoder for Fiu {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        let (words, found) = split_blank::<WORDS_MAX>(line);
        if !(9..=WORDS_MAX).contains(&found) {
            return Err(Reason::Columns { want: 9, found });
        }
        let time_ns = whole(words[0], "timestamp")?;
        whole(words[1], "process id")?;
        let [address, length, kind, major, minor] =
            [found - 6, found - 5, found - 4, found - 3, found - 2].map(|index| words[index]);
        let op = match kind {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Reason::Operation("R, W")),
        };
        whole(major, "major number")?;
        whole(minor, "minor number")?;
        let offset_bytes = scaled(whole(address, "address")?, SECTOR_BYTES, "address")?;
        let length_bytes = scaled(whole(length, "length")?, SECTOR_BYTES, "length")?;
        // "major minor" as it stands in the line, up to the hash
        let device =
            self.names.number(&line[within(line, major)..within(line, minor) + minor.len()])?;
        Ok(Some(Asked::new(time_ns, device, op, (offset_bytes, length_bytes))))
    }

    fn device_name(&self, device: u64) -> String {
        self.names.name(device).replace(' ', ",")
    }
}

/// Where a word of the line begins in it.
fn within(line: &[u8], word: &[u8]) -> usize {
    word.as_ptr().addr() - line.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_mean_what_the_readme_says() {
        let mut fiu = Fiu::default();
        let want = Asked::new(89_966_527_950_584, 0, Op::Write, (508_516_672 * 512, 4096));
        for line in [
            "89966527950584 4253 nfsd 508516672 8 W 6 0 88b93b628d84082186026d9da044f173",
            "89966527950584 4253 my own daemon 508516672 8 W 6 0 88b93b628d84082186026d9da044f173",
        ] {
            assert_eq!(fiu.decode(line.as_bytes()), Ok(Some(want)), "{line}");
        }
        assert_eq!(fiu.device_name(0), "6,0");
    }

    #[test]
    fn tar_headers_are_bad() {
        for line in ["30 atime=1410563628.272753818", "\0\0\0 1 nfsd 8 8 W 6 0 aa", "\0\0"] {
            assert!(Fiu::default().decode(line.as_bytes()).is_err(), "{line:?}");
        }
    }
}
