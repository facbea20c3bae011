//! Which roots does a start find, and what becomes of those that it cannot read?
//!
//! A root that cannot be read now may be read at a later start. Its number is then higher than that of the
//! root this life begins with, but it names what this life writes over. So it is settled before anything is
//! built on the other one.

use crate::format::root::Root;
use crate::io::DeviceIo;
use crate::owner::{Owner, StartIo};
use crate::port::IoOp;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

/// Bits of a tag that name the root, and those that name the first block of the part of it.
const INDEX_BITS: u32 = 8;
const FIRST_BITS: u32 = 28;

/// One of the two roots of a drive, as far as it has been read.
#[derive(Clone, Debug)]
struct RootRead {
    device: DeviceId,
    copy: u64,
    bytes: Vec<u8>,
    /// Why a block of it gave no bytes.
    unread: Option<IoError>,
}

/// Blocks of a root that one read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Among the roots that are read.
    index: usize,
    first: u64,
    blocks: u64,
}

impl Part {
    fn tag(self) -> u64 {
        assert!(
            (self.index as u64) >> INDEX_BITS == 0,
            "a set has two roots for each drive at most"
        );
        assert!(self.first >> FIRST_BITS == 0 && self.blocks >> FIRST_BITS == 0, "a root is small");
        self.index as u64 | self.first << INDEX_BITS | self.blocks << (INDEX_BITS + FIRST_BITS)
    }

    fn of_tag(tag: u64) -> Part {
        let first = tag >> INDEX_BITS & ((1 << FIRST_BITS) - 1);
        let index = (tag & ((1 << INDEX_BITS) - 1)) as usize;
        Part { index, first, blocks: tag >> (INDEX_BITS + FIRST_BITS) }
    }
}

/// What is wrong with a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// The drive gave no bytes. It may give them another time.
    Unread,
    /// What the drive gave is damaged, and stays so.
    Damaged,
    /// What a pair gave is damaged. Its other drive may have a sound one.
    DamagedInPair,
}

/// A root that cannot be read.
#[derive(Clone, Debug)]
struct UnreadRoot {
    device: DeviceId,
    /// Which of its two.
    copy: u64,
    why: String,
    doubt: Doubt,
    /// It is of the drive that follows.
    follows: bool,
}

/// The roots of all drives that a start asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    reads: Vec<RootRead>,
    /// Those that cannot be read, of which one may be the newest.
    unread: Vec<UnreadRoot>,
}

impl Roots {
    /// Asks for both roots of a drive. Returns how many reads that is.
    pub(super) fn ask(&mut self, device: DeviceId, io: &mut DeviceIo) -> u32 {
        let root_bytes = io[device].layout.root_bytes;
        for copy in 0..2 {
            let bytes = vec![0; root_bytes as usize];
            self.reads.push(RootRead { device, copy, bytes, unread: None });
            let index = self.reads.len() - 1;
            self.ask_part(Part { index, first: 0, blocks: root_bytes / BLOCK_BYTES }, io);
        }
        2
    }

    fn ask_part(&self, part: Part, io: &mut DeviceIo) {
        let root = &self.reads[part.index];
        let (device, layout) = (root.device, &io[root.device].layout);
        let begin = layout.root_offset + root.copy * layout.root_bytes;
        let offset_bytes = begin + part.first * BLOCK_BYTES;
        let op = IoOp::ReadMeta { offset_bytes, length_bytes: part.blocks * BLOCK_BYTES };
        io.submit(device, op, Owner::Start(StartIo::Read(part.tag())));
    }

    /// A part of a root was read.
    pub(super) fn take_part(&mut self, tag: u64, bytes: &[u8]) {
        let part = Part::of_tag(tag);
        assert!(bytes.len() as u64 == part.blocks * BLOCK_BYTES, "what was asked for was read");
        let at = (part.first * BLOCK_BYTES) as usize;
        self.reads[part.index].bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A part of a root could not be read: its halves are asked for. So one block that cannot be read does not
    /// cost what lies before and behind it. Returns how many reads that is.
    pub(super) fn part_failed(&mut self, tag: u64, error: IoError, io: &mut DeviceIo) -> u32 {
        let part = Part::of_tag(tag);
        // a drive that answers nothing is not asked for less
        let is_silent = matches!(error, IoError::NoAnswer(_) | IoError::Dead(_));
        if part.blocks <= 1 || is_silent {
            self.reads[part.index].unread.get_or_insert(error);
            return 0;
        }
        let half = part.blocks / 2;
        self.ask_part(Part { blocks: half, ..part }, io);
        let (first, blocks) = (part.first + half, part.blocks - half);
        self.ask_part(Part { first, blocks, ..part }, io);
        2
    }

    /// All roots have been read as far as they can be: returns the sound ones. `follows`: the drive that
    /// follows.
    pub(super) fn end(
        &mut self,
        follows: Option<DeviceId>,
        io: &DeviceIo,
    ) -> Vec<(DeviceId, Root)> {
        let mut found = Vec::new();
        for RootRead { device, copy, bytes, unread } in std::mem::take(&mut self.reads) {
            let error = match Root::decode(&bytes, io.config().pool) {
                Ok(root) => {
                    found.push((device, root));
                    continue;
                }
                Err(error) => error,
            };
            let is_blank = bytes[..BLOCK_BYTES as usize].iter().all(|&byte| byte == 0);
            let (why, doubt) = match unread {
                Some(unread) => (unread.to_string(), Doubt::Unread),
                None if is_blank => continue, // it was never written, or erased
                None if io[device].is_pair => (error.to_string(), Doubt::DamagedInPair),
                None => (error.to_string(), Doubt::Damaged),
            };
            let follows = follows == Some(device);
            self.unread.push(UnreadRoot { device, copy, why, doubt, follows });
        }
        found
    }

    /// Roots of metadata homes that cannot be read, and may be newer than number `chosen`: a checkpoint writes
    /// the copy that the one before did not.
    fn newer(&self, chosen: Option<u64>) -> impl Iterator<Item = &UnreadRoot> {
        let chosen = chosen.map(|number| number % 2);
        self.unread.iter().filter(move |unread| !unread.follows && chosen != Some(unread.copy))
    }

    /// One of those: its drive, and what is wrong.
    pub(super) fn newer_unread(&self, chosen: Option<u64>) -> Option<(DeviceId, &str)> {
        self.newer(chosen).next().map(|unread| (unread.device, unread.why.as_str()))
    }

    /// Did a drive give no bytes of a root that may be newer?
    pub(super) fn is_doubtful(&self, chosen: Option<u64>) -> bool {
        self.newer(chosen).any(|unread| unread.doubt == Doubt::Unread)
    }

    /// A root that gave no bytes may be the newest, and come back when newer checkpoints have written over what
    /// it names. What it knows is in the journal, which was read to its end. So where another home has what the
    /// chosen root says, this one lags from now on. The last one loses the root before it is written to.
    /// `level`: the homes that have the chosen root.
    pub(super) fn settle(&self, chosen: u64, level: &[DeviceId]) -> Settled {
        let gave_nothing = |home: &DeviceId| {
            let mut newer = self.newer(Some(chosen));
            newer.any(|unread| unread.device == *home && unread.doubt == Doubt::Unread)
        };
        let has_other = level.iter().any(|home| !gave_nothing(home));
        let is_erased = |unread: &&UnreadRoot| match unread.doubt {
            Doubt::Unread => !has_other,
            Doubt::Damaged => false,
            Doubt::DamagedInPair => true,
        };
        let erased = self.newer(Some(chosen)).filter(is_erased);
        Settled {
            erased: erased.map(|unread| (unread.device, unread.copy)).collect(),
            lags: level.iter().filter(|home| has_other && gave_nothing(home)).copied().collect(),
        }
    }

    /// Which of the two roots of the drive that follows may be newer than number `own`, which was found there,
    /// and come back.
    pub(super) fn unknown_of_replica(&self, own: Option<u64>) -> [bool; 2] {
        let own = own.map(|number| number % 2);
        [0, 1].map(|copy| {
            let may_come_back = |unread: &UnreadRoot| {
                unread.follows && unread.copy == copy && unread.doubt != Doubt::Damaged
            };
            own != Some(copy) && self.unread.iter().any(may_come_back)
        })
    }
}

/// What becomes of roots that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// They are erased: drive and copy.
    pub(super) erased: Vec<(DeviceId, u64)>,
    /// These drives lag.
    pub(super) lags: Vec<DeviceId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;

    #[test]
    fn a_part_is_what_its_tag_says() {
        for part in [
            Part { index: 0, first: 0, blocks: 1 },
            Part { index: 127, first: 255, blocks: (1 << 28) - 1 },
            Part { index: 1, first: (1 << 28) - 1, blocks: 17 },
        ] {
            assert_eq!(Part::of_tag(part.tag()), part);
        }
    }

    /// A root with blocks that give no bytes is asked for in halves, and no block more often than it has to be.
    #[test]
    fn blocks_around_one_that_gives_no_bytes_are_read() {
        let device = DeviceId(0);
        for bad in [&[][..], &[0], &[3], &[0, 7], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            let mut io = drives(1, 1);
            io[device].layout.root_bytes = 8 * BLOCK_BYTES;
            let mut roots = Roots::default();
            let mut sent = roots.ask(device, &mut io);
            let mut parts = vec![Part { index: 0, first: 0, blocks: 8 }];
            let (mut asked, mut read) = (0, [false; 8]);
            while let Some(part) = parts.pop() {
                asked += 1;
                let blocks = part.first..part.first + part.blocks;
                if blocks.clone().any(|block| bad.contains(&block)) {
                    sent += roots.part_failed(part.tag(), IoError::Device(device), &mut io);
                    if part.blocks > 1 {
                        let half = part.blocks / 2;
                        parts.push(Part { blocks: half, ..part });
                        let (first, blocks) = (part.first + half, part.blocks - half);
                        parts.push(Part { first, blocks, ..part });
                    }
                } else {
                    let bytes = vec![1; (part.blocks * BLOCK_BYTES) as usize];
                    roots.take_part(part.tag(), &bytes);
                    blocks.for_each(|block| read[block as usize] = true);
                }
            }
            let root = &roots.reads[0];
            for (block, is_read) in read.iter().enumerate() {
                assert_eq!(*is_read, !bad.contains(&(block as u64)), "{bad:?}, {block}");
                let byte = root.bytes[block * BLOCK_BYTES as usize];
                assert_eq!(byte, u8::from(*is_read), "{bad:?}, {block}");
            }
            assert_eq!(root.unread.is_some(), !bad.is_empty());
            // the two roots were asked for, and the halves of the first one
            let now = io.now();
            assert_eq!(sent, asked + 1, "{bad:?}");
            assert_eq!(io.next_event(now).len() as u32, sent, "{bad:?}");
            assert!(asked <= 1 + bad.len() as u32 * 6, "{bad:?}: {asked} reads");
        }
    }

    #[test]
    fn a_drive_that_answers_nothing_is_asked_once() {
        let device = DeviceId(0);
        for error in [IoError::NoAnswer(device), IoError::Dead(device)] {
            let (mut io, mut roots) = (drives(1, 1), Roots::default());
            assert_eq!(roots.ask(device, &mut io), 2);
            let blocks = io[device].layout.root_bytes / BLOCK_BYTES;
            assert!(blocks > 1, "it could be halved");
            let tag = Part { index: 0, first: 0, blocks }.tag();
            assert_eq!(roots.part_failed(tag, error, &mut io), 0, "{error:?}");
            assert_eq!(roots.reads[0].unread, Some(error));
        }
    }

    /// Two SSDs and the drive that follows: what becomes of a root that cannot be read.
    #[test]
    fn unread_roots_are_settled() {
        use Doubt::{Damaged, DamagedInPair, Unread};
        let [a, b] = [DeviceId(0), DeviceId(1)];
        let both = &[a, b][..];
        // (unread: drive, copy, doubt), homes that have root 6, erased, who lags
        let table = [
            (vec![], both, vec![], vec![]),
            // root 5 is older, root 7 may be there
            (vec![(a, 0, Unread)], &[b], vec![], vec![]),
            (vec![(a, 1, Unread)], both, vec![], vec![a]),
            (vec![(a, 1, Unread)], &[a], vec![(a, 1)], vec![]),
            (vec![(a, 1, Unread), (b, 1, Unread)], both, vec![(a, 1), (b, 1)], vec![]),
            (vec![(a, 1, Damaged)], both, vec![], vec![]),
            (vec![(a, 1, Damaged), (b, 1, Unread)], both, vec![], vec![b]),
            (vec![(a, 1, DamagedInPair)], both, vec![(a, 1)], vec![]),
            (vec![(a, 1, DamagedInPair), (b, 1, Unread)], &[b], vec![(a, 1), (b, 1)], vec![]),
        ];
        for (unread, level, erased, lags) in table {
            let unread = unread.into_iter().map(|(device, copy, doubt)| UnreadRoot {
                device,
                copy,
                why: String::new(),
                doubt,
                follows: false,
            });
            let roots = Roots { reads: Vec::new(), unread: unread.collect() };
            assert_eq!(roots.settle(6, level), Settled { erased, lags }, "{roots:?}");
        }
    }

    /// Which roots of the replica nobody knows, beside its root 6 or none.
    #[test]
    fn unknown_roots_of_the_replica() {
        use Doubt::{Damaged, DamagedInPair, Unread};
        for (own, copy, doubt, want) in [
            (Some(6), 1, Unread, [false, true]),
            (Some(6), 0, Unread, [false, false]),
            (Some(6), 1, Damaged, [false, false]),
            (Some(6), 1, DamagedInPair, [false, true]),
            (None, 0, Unread, [true, false]),
            (None, 0, Damaged, [false, false]),
        ] {
            let (device, why) = (DeviceId(2), String::new());
            let unread = vec![UnreadRoot { device, copy, why, doubt, follows: true }];
            let roots = Roots { reads: Vec::new(), unread };
            assert_eq!(roots.unknown_of_replica(own), want, "{own:?}, {roots:?}");
            assert!(!roots.is_doubtful(own), "the drive that follows does not lead");
        }
    }
}
