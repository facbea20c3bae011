//! Does the kernel get what it asks for, in whichever order the pool does its work?

mod snapshots;

use super::call::{Header, set};
use super::*;
use tandem_block::{ObjectId, Rng};
use tandem_names::memory::{Memory, Mounted};
use tandem_names::{Caller, Objects, Space, check};

const ROOT: ObjectId = ObjectId(5);
const EIO: i32 = 5;

/// Objects in RAM, and what was asked and is not done yet.
struct MemoryPool {
    store: Memory,
    asked: Vec<(usize, Work)>,
    /// Writes and discards fail.
    is_broken: bool,
}

impl Objects for MemoryPool {
    fn size_bytes(&self, object: ObjectId) -> Option<u64> {
        self.store.size_bytes(object)
    }
    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.store.attribute(object, key)
    }
    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        self.store.next_attribute(object, after)
    }
    fn next_object(&self, after: ObjectId) -> Option<ObjectId> {
        self.store.next_object(after)
    }
    fn fresh_ids(&self, count: u64) -> ObjectId {
        self.store.fresh_ids(count)
    }
    fn space(&self) -> Space {
        self.store.space()
    }
}

impl Pool for MemoryPool {
    fn file_tiers(&self) -> Vec<&str> {
        vec!["hot"]
    }

    fn ask(&mut self, tag: usize, work: Work) {
        self.asked.push((tag, work));
    }
}

impl MemoryPool {
    fn perform(&mut self, work: Work) -> Result<Vec<u8>, i32> {
        match work {
            Work::Commit(changes) => {
                self.store.commit(&changes).map_err(tandem_block::IoError::errno)?;
            }
            Work::Read { object, offset_bytes, length_bytes } => {
                return Ok(self.store.read(object, offset_bytes, length_bytes));
            }
            Work::Write { .. } | Work::Discard { .. } if self.is_broken => return Err(EIO),
            Work::Write { object, offset_bytes, bytes } => {
                self.store.write(object, offset_bytes, &bytes);
            }
            Work::Discard { object, offset_bytes, length_bytes } => {
                self.store.write(object, offset_bytes, &vec![0; length_bytes as usize]);
            }
            Work::Flush => self.store.flush(),
        }
        Ok(Vec::new())
    }
}

struct Kernel {
    session: Session,
    pool: MemoryPool,
    unique: u64,
    rng: Rng,
}

impl Kernel {
    fn new(seed: u64) -> Kernel {
        Kernel::agreeing(seed, Agreed { direct: true, strips: true })
    }

    fn agreeing(seed: u64, agreed: Agreed) -> Kernel {
        let mut store = Memory::new(1000);
        let owner = Caller { uid: 0, gid: 0, now_ns: 0 };
        store.format(ROOT, 0o755, &owner).unwrap();
        Kernel::with(store, seed, agreed)
    }

    fn over(store: Memory, seed: u64) -> Kernel {
        Kernel::with(store, seed, Agreed::default())
    }

    fn with(store: Memory, seed: u64, agreed: Agreed) -> Kernel {
        let Mounted { store, tree } = Mounted::mount(store, ROOT, &[]).unwrap();
        let pool = MemoryPool { store, asked: Vec::new(), is_broken: false };
        Kernel { session: Session::new(tree, agreed), pool, unique: 0, rng: Rng::new(seed) }
    }

    /// Asks without waiting; gives the request's number.
    fn ask(&mut self, opcode: u32, node: u64, body: &[u8]) -> u64 {
        self.unique += 1;
        let header = Header { unique: self.unique, node, uid: 1, gid: 2 };
        let now_ns = self.unique as i64 * 1_000_000_000;
        let bytes = message(opcode, &header, body);
        assert!(self.session.message(&bytes, now_ns, &mut self.pool));
        self.unique
    }

    /// The pool does everything, in any order.
    fn settle(&mut self) -> Vec<Reply> {
        while !self.pool.asked.is_empty() {
            let which = self.rng.below(self.pool.asked.len() as u64) as usize;
            let (tag, work) = self.pool.asked.swap_remove(which);
            let result = self.pool.perform(work);
            self.session.answered(tag, result, &mut self.pool);
        }
        assert!(self.session.is_quiet(), "nobody waits for ever");
        self.session.take_replies().collect()
    }

    fn call(&mut self, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        let unique = self.ask(opcode, node, body);
        let mut replies = self.settle();
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].unique, unique);
        replies.remove(0).result
    }

    /// Makes a file; gives its node.
    fn create(&mut self, parent: u64, name: &[u8]) -> u64 {
        let reply = self.call(35, parent, &create_body(name, 0)).unwrap();
        assert_eq!(reply.len(), 128 + 16);
        u64_at(&reply, 0)
    }

    fn read(&mut self, node: u64, offset: u64, size: u32) -> Vec<u8> {
        self.call(15, node, &range_body(offset, size, 0)).unwrap()
    }

    fn write(&mut self, node: u64, offset: u64, bytes: &[u8]) -> Result<Vec<u8>, i32> {
        self.call(16, node, &write_body(offset, bytes, 0))
    }

    fn size(&mut self, node: u64) -> u64 {
        u64_at(&self.call(3, node, &[0; 16]).unwrap(), 16 + 8)
    }

    fn truncate(&mut self, node: u64, size: u64) -> Result<Vec<u8>, i32> {
        self.call(4, node, &size_body(size))
    }

    fn assert_sound(&self) {
        check::check(&self.pool, ROOT, &mut |fault| panic!("{fault}"));
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn words(values: &[u32], rest: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    body.extend_from_slice(rest);
    body
}

fn named(name: &[u8]) -> Vec<u8> {
    [name, b"\0"].concat()
}

fn create_body(name: &[u8], flags: u32) -> Vec<u8> {
    words(&[flags, 0o644, 0, 0], &named(name))
}

fn range_body(offset: u64, size: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend_from_slice(&offset.to_ne_bytes());
    body.extend_from_slice(&words(&[size, 0, 0, 0, flags, 0], &[]));
    body
}

fn write_body(offset: u64, bytes: &[u8], flags: u32) -> Vec<u8> {
    [range_body(offset, bytes.len() as u32, flags), bytes.to_vec()].concat()
}

fn size_body(size: u64) -> Vec<u8> {
    let mut body = vec![0; 88];
    body[..4].copy_from_slice(&set::SIZE.to_ne_bytes());
    body[16..24].copy_from_slice(&size.to_ne_bytes());
    body
}

#[test]
fn files_are_made_written_read_and_removed() {
    let mut kernel = Kernel::new(1);
    let made = kernel.call(9, 1, &words(&[0o755, 0], b"d\0")).unwrap();
    assert_eq!(made.len(), 128);
    let d = u64_at(&made, 0);
    let f = kernel.create(d, b"f");
    assert_eq!(kernel.write(f, 1000, b"hello").unwrap(), words(&[5, 0], &[]));
    assert_eq!(kernel.read(f, 998, 100), b"\0\0hello");
    assert_eq!(kernel.read(f, 1005, 100), b"", "the end");
    assert_eq!(kernel.size(f), 1005);
    assert_eq!(u64_at(&kernel.call(1, d, b"f\0").unwrap(), 0), f);
    assert_eq!(kernel.call(1, d, b"g\0"), Err(2));
    assert_eq!(kernel.call(11, 1, b"d\0"), Err(39));
    let exclusive = create_body(b"f", 0o200);
    assert_eq!(kernel.call(35, d, &exclusive), Err(17));
    kernel.call(6, 1, b"link\0d/f\0").unwrap();
    let link = u64_at(&kernel.call(1, 1, b"link\0").unwrap(), 0);
    assert_eq!(kernel.call(5, link, &[]).unwrap(), b"d/f");
    kernel.call(12, d, &[1u64.to_ne_bytes().to_vec(), b"f\0g\0".to_vec()].concat()).unwrap();
    kernel.call(13, d, &[f.to_ne_bytes().to_vec(), b"second\0".to_vec()].concat()).unwrap();
    let listed = kernel.call(28, 1, &range_body(0, 4096, 0)).unwrap();
    for name in [&b".."[..], b"d", b"g", b"link"] {
        assert!(listed.windows(name.len()).any(|window| window == name), "{name:?}");
    }
    // open, and without a name
    kernel.call(10, 1, b"g\0").unwrap();
    kernel.call(10, d, b"second\0").unwrap();
    assert_eq!(kernel.read(f, 1000, 100), b"hello");
    kernel.call(18, f, &[0; 24]).unwrap();
    assert_eq!(kernel.call(3, f, &[0; 16]), Err(2));
    assert_eq!(kernel.call(18, f, &[0; 24]), Err(EIO), "closed before");
    kernel.call(11, 1, b"d\0").unwrap();
    assert_eq!(kernel.call(17, 1, &[]).unwrap().len(), 80);
    assert_eq!(kernel.call(31, 1, &[0; 48]), Err(38), "no locks here");
    kernel.assert_sound();
}

#[test]
fn attributes_are_set_and_told() {
    let mut kernel = Kernel::new(2);
    let f = kernel.create(1, b"f");
    let value = words(&[3, 0], b"user.a\0abc");
    kernel.call(21, f, &value).unwrap();
    assert_eq!(kernel.call(21, f, &words(&[3, 1], b"user.a\0abc")), Err(17), "XATTR_CREATE");
    assert_eq!(kernel.call(22, f, &words(&[0, 0], b"user.a\0")).unwrap(), words(&[3, 0], &[]));
    assert_eq!(kernel.call(22, f, &words(&[2, 0], b"user.a\0")), Err(34));
    assert_eq!(kernel.call(22, f, &words(&[3, 0], b"user.a\0")).unwrap(), b"abc");
    assert_eq!(kernel.call(23, f, &words(&[100, 0], &[])).unwrap(), b"user.a\0");
    kernel.call(24, f, b"user.a\0").unwrap();
    assert_eq!(kernel.call(22, f, &words(&[3, 0], b"user.a\0")), Err(61));
    assert_eq!(kernel.call(21, f, &words(&[4, 0], b"user.tandem.tier\0warm")), Err(22));
    kernel.call(21, f, &words(&[3, 0], b"user.tandem.tier\0hot")).unwrap();
    let mut body = vec![0; 88];
    let valid = set::MODE | set::UID | set::MTIME | set::ATIME_NOW;
    body[..4].copy_from_slice(&valid.to_ne_bytes());
    body[40..48].copy_from_slice(&77u64.to_ne_bytes());
    body[60..64].copy_from_slice(&5u32.to_ne_bytes());
    body[68..72].copy_from_slice(&0o4711u32.to_ne_bytes());
    body[76..80].copy_from_slice(&9u32.to_ne_bytes());
    let it = kernel.call(4, f, &body).unwrap();
    assert_eq!(it.len(), 104);
    let word = |at: usize| u32::from_ne_bytes(it[16 + at..20 + at].try_into().unwrap());
    assert_eq!((word(60), word(68), u64_at(&it, 16 + 32), word(52)), (0o104_711, 9, 77, 5));
    assert_eq!(u64_at(&it, 16 + 24), kernel.unique, "read just now");
}

/// Parts of sectors that are written at once must all be there in the end.
#[test]
fn many_writes_at_once_lose_nothing() {
    for seed in 0..40 {
        let mut kernel = Kernel::new(seed);
        let files = [kernel.create(1, b"a"), kernel.create(1, b"b")];
        let mut pieces: Vec<(u64, u64, usize)> = Vec::new();
        for file in files {
            let mut at = 0;
            while at < 30_000 {
                let lengths = [1, 100, 512, 1000, 4096, 8192];
                let length = lengths[kernel.rng.below(6) as usize];
                pieces.push((file, at, length as usize));
                at += length;
            }
        }
        let mut expected = std::collections::BTreeMap::new();
        for round in 0..2 {
            for index in (1..pieces.len()).rev() {
                let other = kernel.rng.below(index as u64 + 1) as usize;
                pieces.swap(index, other);
            }
            let fill = |at: u64| (at % 251) as u8 ^ round;
            for &(file, at, length) in &pieces {
                let bytes: Vec<u8> = (at..at + length as u64).map(fill).collect();
                let end = at + length as u64;
                let size: &mut u64 = expected.entry(file).or_default();
                *size = end.max(*size);
                kernel.ask(16, file, &write_body(at, &bytes, 0));
            }
            let replies = kernel.settle();
            assert_eq!(replies.len(), pieces.len());
            assert!(replies.iter().all(|reply| reply.result.is_ok()));
            for (&file, &size) in &expected {
                assert_eq!(kernel.size(file), size);
                let bytes = kernel.read(file, 0, 1 << 20);
                let expected: Vec<u8> = (0..size).map(fill).collect();
                assert!(bytes == expected, "seed {seed}, round {round}");
            }
        }
        kernel.assert_sound();
    }
}

/// Of several that want one name one gets it, and nobody waits behind a failure.
#[test]
fn changes_queue_and_failures_let_others_go_on() {
    let mut kernel = Kernel::new(3);
    for _ in 0..5 {
        kernel.ask(9, 1, &words(&[0o755, 0], b"d\0"));
    }
    kernel.ask(9, 1, &words(&[0o755, 0], b"e\0"));
    let replies = kernel.settle();
    let count = |wanted: &dyn Fn(&Reply) -> bool| replies.iter().filter(|r| wanted(r)).count();
    assert_eq!(count(&|reply| reply.result.is_ok()), 2);
    assert_eq!(count(&|reply| reply.result == Err(17)), 4);
    kernel.assert_sound();
}

#[test]
fn a_write_that_failed_behind_the_end_never_shows() {
    let mut kernel = Kernel::new(4);
    let f = kernel.create(1, b"f");
    kernel.write(f, 0, b"begin").unwrap();
    kernel.pool.is_broken = true;
    assert_eq!(kernel.write(f, 10, b"lost"), Err(EIO));
    assert_eq!(kernel.size(f), 5);
    assert_eq!(kernel.truncate(f, 100), Err(EIO), "the end cannot be made zeroes");
    kernel.pool.is_broken = false;
    kernel.truncate(f, 100).unwrap();
    assert_eq!(kernel.read(f, 0, 1000), [&b"begin"[..], &[0; 95]].concat());
    kernel.assert_sound();
}

#[test]
fn what_was_cut_off_is_zeroes_when_the_file_grows() {
    let mut kernel = Kernel::new(5);
    let f = kernel.create(1, b"f");
    kernel.write(f, 0, &[7; 10_000]).unwrap();
    kernel.truncate(f, 4100).unwrap();
    kernel.write(f, 5000, b"x").unwrap();
    let bytes = kernel.read(f, 4096, 2000);
    assert_eq!(bytes, [&[7; 4][..], &[0; 900], b"x"].concat());
    // after a crash that took the batch and left the bytes
    kernel.call(20, f, &[0; 16]).unwrap();
    kernel.write(f, 5001, &[8; 100]).unwrap();
    let store = kernel.pool.store.after_crash(0, || true);
    let mut kernel = Kernel::over(store, 6);
    assert_eq!(kernel.size(f), 5001);
    kernel.truncate(f, 6000).unwrap();
    assert_eq!(kernel.read(f, 5000, 2000), [&b"x"[..], &[0; 999]].concat());
}

#[test]
fn holes_are_punched_and_ranges_zeroed() {
    let allocate = |offset: u64, length: u64, mode: u32| {
        let mut body = vec![0; 8];
        body.extend_from_slice(&offset.to_ne_bytes());
        body.extend_from_slice(&length.to_ne_bytes());
        body.extend_from_slice(&words(&[mode, 0], &[]));
        body
    };
    let mut kernel = Kernel::new(7);
    let f = kernel.create(1, b"f");
    kernel.write(f, 0, &[7; 3000]).unwrap();
    kernel.call(43, f, &allocate(100, 1000, 3)).unwrap();
    kernel.call(43, f, &allocate(1300, 10, 3)).unwrap();
    kernel.call(43, f, &allocate(2900, 1000, 3)).unwrap();
    let mut expected = vec![7; 3000];
    expected[100..1100].fill(0);
    expected[1300..1310].fill(0);
    expected[2900..].fill(0);
    assert!(kernel.read(f, 0, 10_000) == expected);
    kernel.call(43, f, &allocate(2000, 3000, 0x10)).unwrap();
    assert_eq!(kernel.size(f), 5000);
    assert!(kernel.read(f, 2000, 10_000) == [0; 3000]);
    assert_eq!(kernel.call(43, f, &allocate(0, 10, 0)), Err(95), "space is not reserved");
    assert_eq!(kernel.call(43, f, &allocate(0, 10, 2)), Err(95));
}

/// What was synced is there after a power cut, whatever else was lost.
#[test]
fn fsync_means_it() {
    let mut kernel = Kernel::new(8);
    let f = kernel.create(1, b"f");
    kernel.write(f, 3, b"kept").unwrap();
    kernel.call(20, f, &[0; 16]).unwrap();
    kernel.write(f, 3, b"lost").unwrap();
    kernel.call(10, 1, b"f\0").unwrap();
    let mut after = Kernel::over(kernel.pool.store.after_crash(0, || false), 9);
    assert_eq!(after.read(f, 0, 10), b"\0\0\0kept");
    // O_DSYNC
    after.call(16, f, &write_body(3, b"safe", 0o10_000)).unwrap();
    let mut after = Kernel::over(after.pool.store.after_crash(0, || false), 10);
    assert_eq!(after.read(f, 0, 10), b"\0\0\0safe");
}

/// Who asks for direct I/O gets it where the kernel can map such files, too; nobody else does.
#[test]
fn handles_go_past_the_kernels_memory_where_they_ask_for_it() {
    const DIRECT: u32 = rustix::fs::OFlags::DIRECT.bits();
    let flags = |reply: &[u8]| {
        let at = reply.len() - 8;
        u32::from_ne_bytes(reply[at..at + 4].try_into().unwrap())
    };
    for agreed in [true, false] {
        let mut kernel = Kernel::agreeing(11, Agreed { direct: agreed, strips: false });
        let f = kernel.create(1, b"f");
        let past = if agreed { 1 << 6 | 1 } else { 0 };
        let opened = kernel.call(14, f, &words(&[DIRECT, 0], &[])).unwrap();
        assert_eq!(flags(&opened), 1 << 1 | past);
        assert_eq!(flags(&kernel.call(14, f, &words(&[2, 0], &[])).unwrap()), 1 << 1);
        let made = kernel.call(35, 1, &create_body(b"g", DIRECT | 2)).unwrap();
        assert_eq!(flags(&made), 1 << 1 | past);
    }
}

/// A program that others have changed does not keep its rights, if the kernel has left that to us; and
/// where it knows the mode, it is told.
#[test]
fn privileges_go_with_what_others_write() {
    const CAPABILITY: &[u8] = b"security.capability\0";
    let written = |strips: u32, offset: u64, bytes: &[u8]| {
        let mut body = write_body(offset, bytes, 0);
        body[20..24].copy_from_slice(&(strips << 2).to_ne_bytes());
        body
    };
    let set = |valid: u32, mode: u32, size: u64| {
        let mut body = size_body(size);
        body[..4].copy_from_slice(&valid.to_ne_bytes());
        body[68..72].copy_from_slice(&mode.to_ne_bytes());
        body
    };
    // what is done, who does it, and the mode and capability that are left of 6755 with one
    type Deed<'a> = (&'a str, u32, Vec<u8>);
    let hole = [vec![0; 8], [0u64, 100].map(u64::to_ne_bytes).concat(), words(&[3, 0], &[])];
    let deeds: [(Deed<'_>, u32, bool); 7] = [
        (("within, by root", 16, written(0, 0, &[7; 512])), 0o6755, false),
        (("within", 16, written(1, 0, &[7; 512])), 0o755, false),
        (("at the end", 16, written(1, 3000, b"more")), 0o755, false),
        (("a size, by root", 4, set(set::SIZE, 0, 5)), 0o6755, false),
        (("a size", 4, set(set::SIZE | set::STRIPS, 0, 5)), 0o755, false),
        (("an owner", 4, set(set::UID, 0, 0)), 0o755, false),
        (("a hole", 43, hole.concat()), 0o755, false),
    ];
    for agreed in [true, false] {
        for ((what, opcode, body), mode, has) in &deeds {
            let mut kernel = Kernel::agreeing(12, Agreed { direct: false, strips: agreed });
            let f = kernel.create(1, b"f");
            kernel.write(f, 0, &[1; 2048]).unwrap();
            kernel.call(21, f, &words(&[3, 0], &[CAPABILITY, b"cap"].concat())).unwrap();
            kernel.call(4, f, &set(set::MODE, 0o6755, 0)).unwrap();
            kernel.session.take_stale();
            kernel.call(*opcode, f, body).unwrap();
            let it = kernel.call(3, f, &[0; 16]).unwrap();
            let found = u32::from_ne_bytes(it[76..80].try_into().unwrap()) & 0o7777;
            let cap = kernel.call(22, f, &words(&[0, 0], CAPABILITY)).is_ok();
            let expected = if agreed { (*mode, *has) } else { (0o6755, true) };
            assert_eq!((found, cap), expected, "{what}, {agreed}");
            let is_told = agreed && *opcode != 4 && *mode == 0o755;
            let told = if is_told { vec![f] } else { vec![] };
            assert_eq!(kernel.session.take_stale(), told, "{what}");
            kernel.assert_sound();
        }
    }
    // a directory keeps its group, and so does a file that the group may not execute
    let mut kernel = Kernel::new(13);
    let made = kernel.call(9, 1, &words(&[0o755, 0], b"d\0")).unwrap();
    let (d, f) = (u64_at(&made, 0), kernel.create(1, b"f"));
    for node in [d, f] {
        kernel.call(4, node, &set(set::MODE, 0o2644, 0)).unwrap();
        let it = kernel.call(4, node, &set(set::GID, 0, 0)).unwrap();
        let found = u32::from_ne_bytes(it[76..80].try_into().unwrap()) & 0o7777;
        assert_eq!(found, 0o2644);
    }
}

/// Direct writes of one file are under way side by side, and so are reads; who changes its size is alone.
#[test]
fn whole_sectors_within_a_file_wait_for_nobody() {
    let mut kernel = Kernel::new(14);
    let f = kernel.create(1, b"f");
    kernel.write(f, 0, &[1; 8192]).unwrap();
    for at in 0..4 {
        kernel.ask(16, f, &write_body(at * 512, &[at as u8 + 2; 512], 0));
        kernel.ask(15, f, &range_body(4096 + at * 512, 512, 0));
    }
    assert_eq!(kernel.pool.asked.len(), 8);
    kernel.ask(4, f, &size_body(1024));
    kernel.ask(15, f, &range_body(0, 8192, 0));
    assert_eq!(kernel.pool.asked.len(), 8, "the size waits for all, and who came later for it");
    let replies = kernel.settle();
    let last = replies.last().unwrap().result.clone().unwrap();
    assert!(last == [[2; 512], [3; 512]].concat(), "{last:?}");
    assert!(replies.iter().all(|reply| reply.result.is_ok()) && replies.len() == 10);
    kernel.pool.is_broken = true;
    assert_eq!(kernel.write(f, 0, &[9; 512]), Err(EIO));
    kernel.pool.is_broken = false;
    assert!(kernel.truncate(f, 0).is_ok(), "nobody holds it any more");
    kernel.assert_sound();
}

#[test]
fn messages_of_each_kind_are_understood() {
    for bytes in sound_messages() {
        assert_eq!(fuzz_message(&bytes), Some(1), "{bytes:?}");
    }
}

fn copy_body(offset: u64, to: u64, to_offset: u64, length: u64) -> Vec<u8> {
    let words = [0, offset, to, 0, to_offset, length, 0];
    words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
}

/// Whole blocks are shared, also while somebody writes to the file that gets them; the kernel copies others.
#[test]
fn copies_share_what_they_can() {
    let mut kernel = Kernel::new(7);
    let (from, to) = (kernel.create(1, b"a"), kernel.create(1, b"b"));
    let bytes: Vec<u8> = (0..100_001u32).map(|i| (i / 7) as u8).collect();
    kernel.write(from, 0, &bytes).unwrap();
    kernel.write(to, 200_000, b"end").unwrap();
    let shared = |count: u32| Ok(words(&[count, 0], &[]));
    assert_eq!(kernel.call(47, from, &copy_body(0, to, 4096, 1 << 40)), shared(98_304));
    assert_eq!(kernel.read(to, 4096, 98_304), bytes[..98_304]);
    assert_eq!(kernel.size(to), 200_003);
    assert_eq!(kernel.call(47, from, &copy_body(0, to, 204_800, 1 << 40)), shared(100_001));
    assert_eq!(kernel.size(to), 304_801);
    assert_eq!(kernel.read(to, 204_800, 200_000), bytes);
    assert_eq!(kernel.call(47, from, &copy_body(1, to, 0, 90_000)), Err(95));
    assert_eq!(kernel.call(47, from, &copy_body(200_000, to, 0, 90_000)), shared(0));
    assert_eq!(kernel.call(47, from, &copy_body(0, 99, 0, 90_000)), Err(2));
    // one behind the other for the file that grows
    let copy = kernel.ask(47, from, &copy_body(0, to, 307_200, 100_001));
    let write = kernel.ask(16, to, &write_body(500_000, b"x", 0));
    let replies = kernel.settle();
    assert_eq!(replies.iter().map(|reply| reply.unique).collect::<Vec<_>>(), [copy, write]);
    assert!(replies.iter().all(|reply| reply.result.is_ok()), "{replies:?}");
    assert_eq!(kernel.read(to, 307_200, 100_001), bytes);
    assert_eq!(kernel.read(to, 407_201, 92_799), vec![0; 92_799], "nothing else shows");
    kernel.write(from, 0, b"new").unwrap();
    assert_eq!(kernel.read(to, 4096, 3), bytes[..3]);
    kernel.assert_sound();
}
