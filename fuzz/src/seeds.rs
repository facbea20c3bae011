//! What do sound inputs look like? Written by our own encoders, or lying among the fixtures.

use anyhow::{Context as _, Result};
use std::io::Read as _;
use std::path::Path;
use tandem_block::{BLOCK_BYTES, MIB, ObjectKind};
use tandem_engine::Role;
use tandem_engine::format::fuzz::{INDEX, POOL};
use tandem_engine::format::layout::Layout;
use tandem_engine::format::leaf::LeafImage;
use tandem_engine::format::pair::{self, PairRecord, Standing};
use tandem_engine::format::pair_journal::{JournalHead, UnitHeader};
use tandem_engine::format::pointer::{self, Kind, POINTERS, Pointer, TableRoot};
use tandem_engine::format::record::{
    FLAG_CHECKSUMS, FLAG_HOME, FragmentRecord, FragmentedRecord, ObjectRecord, ThinRecord,
};
use tandem_engine::format::record_writer::RecordWriter;
use tandem_engine::format::replacement::Mark;
use tandem_engine::format::root::{Root, RootImage};
use tandem_engine::format::superblock::{
    self, Member, Numbered, Successor, SuccessorState, Superblock,
};
use tandem_engine::format::{image, page, unit::Unit};
use tandem_engine::map::NONE;
use tandem_engine::map::runs::Piece;
use tandem_engine::map::space::BlockRange;
use tandem_fronts::nbd::wire::{
    self, RequestHeader, chunk, command, flag, handshake, info, option,
};

/// Fixtures of one format or of all, plain and, of all, packed as they lie there too.
pub fn traces(format: Option<&str>) -> Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let mut found = Vec::new();
    let entries = folder.read_dir().with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = name.split(['.', '-']).next().unwrap_or_default();
        if name.ends_with(".expected") || format.is_some_and(|format| format != stem) {
            continue;
        }
        let bytes = std::fs::read(&path)?;
        let mut plain = Vec::new();
        if name.ends_with(".gz") {
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain)?;
        } else if name.ends_with(".zst") {
            plain = zstd::decode_all(&bytes[..])?;
        }
        if plain.is_empty() {
            found.push(bytes);
        } else {
            found.push(plain);
            found.extend(format.is_none().then_some(bytes));
        }
    }
    Ok(found)
}

/// Records of a mirrored pair: stopped, open, and alone.
pub fn pair_records() -> Vec<Vec<u8>> {
    let capacity_bytes = 1 << 30;
    let record = |standing, marks: Vec<u32>, behind: Vec<(u64, u64)>| PairRecord {
        sequence: 7,
        pair: 1,
        own: 2,
        leg: 1,
        ahead: 0,
        standing,
        capacity_bytes,
        region_bytes: pair::region_bytes(capacity_bytes),
        marks,
        behind,
        journal: 0,
    };
    vec![
        record(Standing::Clean, Vec::new(), Vec::new()).encode(),
        record(Standing::Open, vec![0, 9, 100], vec![(0, 4096), (1 << 20, 512)]).encode(),
        record(Standing::Alone, Vec::new(), Vec::new()).encode(),
        PairRecord { journal: 3, ..record(Standing::Open, vec![1], Vec::new()) }.encode(),
    ]
}

/// Heads of a pair's journal.
pub fn pair_journal_heads() -> Vec<Vec<u8>> {
    let head = |sequence, members, tail_at, tail_unit| JournalHead {
        sequence,
        pair: 1,
        own: 2,
        generation: 3,
        members,
        ring_bytes: 64 * MIB,
        tail_at,
        tail_unit,
    };
    vec![head(0, 3, 0, 1).encode(), head(9, 1, 12 * MIB, 77).encode()]
}

/// Headers of units of a pair's journal.
pub fn pair_journal_units() -> Vec<Vec<u8>> {
    let unit = |extents: Vec<(u64, u64)>, blocks: u32| UnitHeader {
        own: 2,
        generation: 3,
        sequence: 78,
        durable_upto: 70,
        extents,
        checksums: (0..blocks).collect(),
    };
    let many = (0..100).map(|i| (i * 8192, 4096)).collect();
    vec![unit(vec![(0, 4096), (8192, 512)], 2).encode(), unit(many, 100).encode()]
}

/// Places of groups: all in slots, which take three pages, some of everything, and nothing.
pub fn leaves() -> Vec<Vec<u8>> {
    let full = LeafImage {
        placed: [u64::MAX; 16],
        slots: (0..1024).map(|slot| slot << 20).collect(),
        ..LeafImage::default()
    };
    let mut mixed = LeafImage::default();
    (mixed.homes[0], mixed.placed[0], mixed.fragmented[15]) = (3, 6, 1 << 63);
    mixed.slots = vec![100, 1 << 39];
    mixed.fragments = vec![vec![FragmentRecord { slot: 7, checksum: 8, mask: 9 }]];
    [full, mixed, LeafImage::default()].map(|image| image.encode().concat()).into()
}

/// Pages of pointers of version 3: to leaves, and to other pages.
pub fn pointers() -> Vec<Vec<u8>> {
    let mut leaves = [Pointer::default(); POINTERS];
    let leaf = Pointer { kind: Kind::Leaf, page: 9, crc: 1, on_ssd: 90, dirty: 80 };
    leaves[0] = leaf;
    leaves[255] = Pointer::AT_HOME;
    let pages = [Pointer { kind: Kind::Pointers, on_ssd: 0, dirty: 0, ..leaf }; POINTERS];
    [leaves, pages].map(|page| pointer::encode(&page)).into()
}

/// Marks of a successor: the first one, and a later one.
pub fn successor_marks() -> Vec<Vec<u8>> {
    let mark = |number, copied_bytes| Mark {
        number,
        pool: POOL,
        successor: 3,
        replaces: 2,
        index: 1,
        copied_bytes,
        total_bytes: 64 * MIB,
    };
    vec![mark(1, 0).encode(), mark(9, 32 * MIB).encode()]
}

/// A pool of an SSD and a hard drive, seen from each.
pub fn superblocks() -> Vec<Vec<u8>> {
    let member = |uuid, role| Member { uuid, role, capacity_bytes: 64 * MIB };
    let layout = Layout {
        journal_offset: BLOCK_BYTES,
        journal_bytes: MIB,
        root_offset: MIB + BLOCK_BYTES,
        root_bytes: 16 * BLOCK_BYTES,
        area_offset: 4 * MIB,
        area_pages: 4,
        home_offset: 8 * MIB,
        home_blocks: 1024,
        home_first: 0,
        slot_offset: 32 * MIB,
        slot_count: 4096,
        table_offset: 6 * MIB,
        table_bytes: 65_536,
    };
    let without_table = Layout { table_offset: 0, table_bytes: 0, ..layout };
    let of = |index| Superblock {
        generation: 7,
        pool: POOL,
        name: "laptop".into(),
        index,
        clean: index == 0,
        layout: if index == 0 { layout } else { without_table },
        members: vec![member(1, Role::Ssd), member(2, Role::Hdd)],
        standings: vec![superblock::Standing::Serves; 2],
        has_moved_homes: index == 1,
        has_metadata_replica: false,
        lagging: 0,
        compatible: 1 << 63,
        successor: None,
    };
    let told = Successor { state: SuccessorState::Replaced, index: 1, uuid: 3 };
    let replaced = Superblock { successor: Some(told), ..of(1) };
    let gone =
        superblock::Standing::Gone(Numbered { home_first: 0, home_blocks: 512, slot_count: 64 });
    let standings = vec![superblock::Standing::Drains, gone];
    let removed = Superblock { standings, has_metadata_replica: true, ..of(0) };
    vec![of(0).encode(), of(1).encode(), replaced.encode(), removed.encode()]
}

fn objects() -> Vec<u8> {
    let mut writer = RecordWriter::default();
    let name = "vol0".into();
    let (id, size_bytes, first, blocks, flags) = (1, 1 << 20, 0, 256, 0);
    writer.object(&ObjectRecord { id, size_bytes, first, blocks, flags, name, in_pieces: None });
    writer.take()
}

/// Every kind of record.
pub fn records() -> Vec<Vec<u8>> {
    let mut writer = RecordWriter::default();
    for block in 0..40 {
        writer.block(FLAG_CHECKSUMS, 100 + block, 40 + block, NONE, 7 + block as u32);
    }
    writer.block(FLAG_HOME, 300, NONE, NONE, 0);
    writer.block(0, 301, 5, 9, 1);
    let fragment = |slot, mask| FragmentRecord { slot, checksum: 5, mask };
    let (flags, logical, ssd, log, checksum) = (FLAG_HOME, 3, NONE, 9, 5);
    let fragments = vec![fragment(1, 0x0f), fragment(2, 0xc0)];
    writer.fragmented(&FragmentedRecord { flags, logical, ssd, log, checksum, fragments });
    writer.object_gone(7);
    vec![writer.take(), objects(), files()]
}

/// A file and a directory with an entry.
fn files() -> Vec<u8> {
    let mut writer = RecordWriter::default();
    for (id, kind) in [(8, ObjectKind::Directory), (9, ObjectKind::Data)] {
        writer.thin(&ThinRecord { id, size_bytes: 5000, volume: 1, owner: 1000, kind });
    }
    writer.piece(9, Piece { offset: 0, logical: Some(700), count: 2 }, false);
    writer.piece(9, Piece { offset: 2, logical: None, count: 1 }, false);
    writer.piece(9, Piece { offset: 3, logical: Some(700), count: 2 }, true);
    writer.attribute(8, b"a name", &9u64.to_le_bytes());
    writer.attribute_gone(8, b"another name");
    writer.homes(BlockRange { first: 640, count: 16 }, 32);
    writer.take()
}

/// Pages of the table of objects.
pub fn object_pages() -> Vec<Vec<u8>> {
    let page = |body: Vec<u8>| image::encode(POOL, INDEX, INDEX as u32, &body);
    vec![page(Vec::new()), page(objects()), page(files())]
}

/// The same in journal units.
pub fn units() -> Vec<Vec<u8>> {
    let unit = |body| Unit { sequence: 9, acked_upto: 8, body }.encode(POOL);
    records().into_iter().map(unit).collect()
}

/// A checkpoint's root.
pub fn roots() -> Vec<Vec<u8>> {
    let (checkpoint, replay_sequence, replay_offset) = (4, 10, 8192);
    let objects = objects();
    let replay_upto = 12;
    let root = Root {
        checkpoint,
        replay_sequence,
        replay_offset,
        replay_upto,
        objects,
        image: None,
        map: TableRoot::empty(300),
    };
    let image = Some(RootImage { generation: 3, area: 1, pages: 77, crc: 5 });
    let with_table = Root { objects: Vec::new(), image, ..root.clone() };
    vec![root.encode(POOL), with_table.encode(POOL)]
}

/// A page of home checksums.
pub fn pages() -> Vec<Vec<u8>> {
    let mut checksums = [0; page::PAGE_CHECKSUMS];
    checksums[5] = 77;
    vec![page::encode(&checksums)]
}

/// A client that negotiates and asks for everything once.
pub fn nbd_requests() -> Vec<Vec<u8>> {
    let flags = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    let mut query = Vec::new();
    wire::write_string(&mut query, "b");
    query.extend_from_slice(&1u32.to_be_bytes());
    wire::write_string(&mut query, wire::BASE_ALLOCATION);
    let mut go = Vec::new();
    wire::write_string(&mut go, "b");
    go.extend_from_slice(&1u16.to_be_bytes());
    go.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
    let mut out = flags.to_be_bytes().to_vec();
    wire::write_option(&mut out, option::LIST, &[]);
    wire::write_option(&mut out, option::STRUCTURED_REPLY, &[]);
    wire::write_option(&mut out, option::SET_META_CONTEXT, &query);
    wire::write_option(&mut out, option::GO, &go);
    let mut simple = flags.to_be_bytes().to_vec();
    wire::write_option(&mut simple, option::EXPORT_NAME, b"a");
    let ask = |out: &mut Vec<u8>, command, flags, offset, length: u32| {
        RequestHeader { flags, command, cookie: 5, offset, length }.write(out);
        if command == command::WRITE {
            out.resize(out.len() + length as usize, 7);
        }
    };
    let mut over_tls = flags.to_be_bytes().to_vec();
    wire::write_option(&mut over_tls, option::STARTTLS, &[]);
    wire::write_option(&mut over_tls, option::EXPORT_NAME, b"a");
    for out in [&mut out, &mut simple, &mut over_tls] {
        ask(out, command::WRITE, flag::FUA, 4096, 1024);
        ask(out, command::READ, 0, 4096, 512);
        ask(out, command::FLUSH, 0, 0, 0);
        ask(out, command::TRIM, 0, 8192, 4096);
        ask(out, command::WRITE_ZEROES, flag::NO_HOLE, 0, 65536);
        ask(out, command::BLOCK_STATUS, flag::REQ_ONE, 0, 1 << 20);
        ask(out, command::DISC, 0, 0, 0);
    }
    vec![out, simple, over_tls]
}

/// A server that answers two reads and two block states, in chunks.
pub fn nbd_answers() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    wire::write_greeting(&mut out);
    let reply = |out: &mut Vec<u8>, option, kind, data: &[u8]| {
        wire::write_option_reply(out, option, kind, data);
    };
    reply(&mut out, option::STRUCTURED_REPLY, wire::reply::ACK, &[]);
    let mut context = wire::BASE_ALLOCATION_ID.to_be_bytes().to_vec();
    context.extend_from_slice(wire::BASE_ALLOCATION.as_bytes());
    reply(&mut out, option::SET_META_CONTEXT, wire::reply::META_CONTEXT, &context);
    reply(&mut out, option::SET_META_CONTEXT, wire::reply::ACK, &[]);
    let mut export = info::EXPORT.to_be_bytes().to_vec();
    export.extend_from_slice(&(1u64 << 20).to_be_bytes());
    export.extend_from_slice(&wire::can::HAS_FLAGS.to_be_bytes());
    reply(&mut out, option::GO, wire::reply::INFO, &export);
    reply(&mut out, option::GO, wire::reply::ACK, &[]);
    for cookie in [1, 3] {
        wire::write_chunk(&mut out, chunk::OFFSET_DATA, cookie, 8 + 512);
        out.resize(out.len() + 8 + 512, 3);
        wire::write_chunk(&mut out, chunk::BLOCK_STATUS, cookie + 1, 12);
        out.resize(out.len() + 12, 0);
    }
    vec![out]
}

/// Pools that use every key.
pub const POOLS: [&str; 3] = [
    r#"
[pool]
name = "laptop"
[[device]]
role = "ssd"
path = "ssd.img"
size = "16GiB"
emulate = "960evo"
profile = "960evo"
write_cache = "volatile"
[[device]]
role = "hdd"
path = "hdd.img"
size = "64GiB"
emulate = "wd100efax"
profile = "wd100efax"
write_cache = "protected"
[[volume]]
name = "vol0"
size = "32GiB"
steer = "mios-d"
tier = "none"
durability = "volatile-ok"
[[volume]]
name = "vol1"
size = "1GiB"
steer = { policy = "mios-e", queue_length = 3 }
[serve]
nbd = ["unix:tandem.sock", "127.0.0.1:10809", "[::1]:10810"]
fuse = "mnt"
allow_remote = false
"#,
    "[pool]\nname = \"p\"\n[[device]]\nrole = \"ssd\"\npath = \"ram:64MiB\"\n\
     [[volume]]\nname = \"v\"\nsize = \"32MiB\"\n",
    "[pool]\nname = \"p\"\n[[device]]\nrole = \"ssd\"\npath = \"ram:64MiB\"\n\
     [[volume]]\nname = \"v\"\nsize = \"32MiB\"\n[serve]\nallow_remote = true\n\
     certificates = \"pki\"\nverify_clients = true\ncontrol = { path = \"c\", mode = \"0660\" }\n\
     nbd = [{ listen = \"unix:s\", mode = \"0660\", group = \"0\" },\n\
     { listen = \"0.0.0.0:1\", tls = \"require\", allow = [\"10.0.0.0/8\", \"fd00::1\"] }]\n\
     [[client]]\nname = \"db1\"\nexports = [\"v\"]\n",
];

/// Synthetic workloads with settings.
pub const SYNTHETIC: [&str; 4] =
    ["pangu-a", "zipf:theta=0.9", "interval:interval=100us,total=1GiB", "pangu-d:duration=10s"];
