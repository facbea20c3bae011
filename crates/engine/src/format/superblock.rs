//! Which pool does this drive belong to, and as what?
//!
//! ```text
//! 0 magic u64 | 8 crc u32 | 12 version u32 | 16 incompatible features u64 | 24 read-only compatible features u64
//! 32 compatible features u64 | 40 generation u64 | 48 pool u128 | 64 device u128
//! 80 index u8, role u8, members u8, clean u8 | 84 capacity u64
//! … layout 13 x u64 | members (uuid u128, role u8, capacity u64) | pool name
//! state u8 (0 none, 1 copying, 2 replaced), index u8, uuid u128 of a successor
//! with feature 1: members x standing u8 (0 serves, 1 is drained, 2 gone); what is numbered of each that is
//!     gone: first logical block u64, homes u64, slots u64
//! with feature 8: members that lag u64, bit i for member i
//! ```
//! Two copies, at the first and the last block. The newer generation that can be read wins.
//!
//! Who does not know an incompatible feature cannot read the pool. Who does not know a read-only compatible one may
//! read it, and must not write. A compatible one changes nothing for who does not know it: it is kept as it is.

use super::cursor::{Reader, Writer};
use super::layout::Layout;
use super::{FormatError, crc32c, pointer};
use crate::config::Role;
use tandem_block::BLOCK_BYTES;

const WHAT: &str = "superblock";
const MAGIC: u64 = u64::from_le_bytes(*b"TANDEMSB");
const VERSION: u32 = 3;
/// Incompatible feature: not every member serves.
const FEATURE_STANDINGS: u64 = 1;
/// Homes of blocks may lie at others' numbers.
const FEATURE_MOVED_HOMES: u64 = 2;
/// The first hard drive follows, whatever the number of SSDs is.
const FEATURE_METADATA_REPLICA: u64 = 4;
/// The metadata on some members is not to be believed, since they missed writes.
const FEATURE_LAGGING: u64 = 8;
/// Drives in one set at most.
pub const MEMBERS_MAX: usize = 64;
/// Bytes of a pool's name at most.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// One drive of the pool as every drive's superblock lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The drive's own id.
    pub uuid: u128,
    /// What it is for.
    pub role: Role,
    /// Its size when it was formatted.
    pub capacity_bytes: u64,
}

/// What a member is to the pool. Its number stays its own, also when it is gone: slots and homes are
/// numbered through all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is read and written.
    #[default]
    Serves,
    /// It takes nothing new, and what lies on it is moved away.
    Drains,
    /// It was removed. What others need to know of its layout.
    Gone(Numbered),
}

/// What a drive has a part of the numbering for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbered {
    /// First logical block of its homes.
    pub home_first: u64,
    /// How many homes.
    pub home_blocks: u64,
    /// How many slots.
    pub slot_count: u64,
}

impl Numbered {
    /// What a drive of this layout leaves behind.
    pub(crate) fn of(layout: &Layout) -> Numbered {
        let Layout { home_first, home_blocks, slot_count, .. } = *layout;
        Numbered { home_first, home_blocks, slot_count }
    }

    /// As much of a layout as there is of a drive that is gone.
    pub(crate) fn layout(self) -> Layout {
        let Numbered { home_first, home_blocks, slot_count } = self;
        Layout { home_first, home_blocks, slot_count, ..Layout::default() }
    }
}

/// How far is a successor?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessorState {
    /// It is being copied to; what its marks tell counts.
    Copying,
    /// It is the member, and this drive is not any more.
    Replaced,
}

/// A drive that shall take a member's place, or has. Programs that do not know of it leave it out, which
/// ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// How far it is.
    pub state: SuccessorState,
    /// Position of the member that it replaces.
    pub index: u8,
    /// Its id.
    pub uuid: u128,
}

/// A drive's superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Rises with every change.
    pub generation: u64,
    /// The pool's id.
    pub pool: u128,
    /// The pool's name.
    pub name: String,
    /// This drive's position among the members.
    pub index: u8,
    /// Was the pool stopped cleanly?
    pub clean: bool,
    /// This drive's layout.
    pub layout: Layout,
    /// All drives of the pool.
    pub members: Vec<Member>,
    /// … and what each of them is to it.
    pub standings: Vec<Standing>,
    /// May homes lie at other blocks' numbers, since a hard drive was drained, or is?
    pub has_moved_homes: bool,
    /// Has the first hard drive room for a metadata replica, although there are places for
    /// several SSDs?
    pub has_metadata_replica: bool,
    /// A drive that shall take a member's place, or has.
    pub successor: Option<Successor>,
    /// Members that missed writes, so that their metadata is not to be believed: bit `i` for member `i`.
    pub lagging: u64,
    /// Compatible features: this program knows none, and keeps all.
    pub compatible: u64,
}

fn role_code(role: Role) -> u8 {
    match role {
        Role::Ssd => 1,
        Role::Hdd => 2,
    }
}

fn role_of(code: u8) -> Result<Role, FormatError> {
    match code {
        1 => Ok(Role::Ssd),
        2 => Ok(Role::Hdd),
        _ => Err(FormatError::Field { what: WHAT, field: "role", value: u64::from(code) }),
    }
}

fn successor_of(reader: &mut Reader<'_>, members: usize) -> Result<Option<Successor>, FormatError> {
    let (state, index, uuid) = (reader.u8()?, reader.u8()?, reader.u128()?);
    let bad = |field, value| FormatError::Field { what: WHAT, field, value: u64::from(value) };
    let state = match state {
        0 => return Ok(None),
        1 => SuccessorState::Copying,
        2 => SuccessorState::Replaced,
        other => return Err(bad("state of a successor", other)),
    };
    if usize::from(index) >= members {
        return Err(bad("index of a successor", index));
    }
    Ok(Some(Successor { state, index, uuid }))
}

fn encode_successor(successor: &Successor, out: &mut Writer) {
    out.u8(match successor.state {
        SuccessorState::Copying => 1,
        SuccessorState::Replaced => 2,
    });
    out.u8(successor.index);
    out.u128(successor.uuid);
}

fn encode_standings(standings: &[Standing], out: &mut Writer) {
    for standing in standings {
        out.u8(match standing {
            Standing::Serves => 0,
            Standing::Drains => 1,
            Standing::Gone(_) => 2,
        });
    }
    for standing in standings {
        if let Standing::Gone(numbered) = standing {
            out.u64(numbered.home_first);
            out.u64(numbered.home_blocks);
            out.u64(numbered.slot_count);
        }
    }
}

fn standings_of(reader: &mut Reader<'_>, members: usize) -> Result<Vec<Standing>, FormatError> {
    let codes = (0..members).map(|_| reader.u8()).collect::<Result<Vec<u8>, _>>()?;
    let mut standings = Vec::with_capacity(members);
    for code in codes {
        standings.push(match code {
            0 => Standing::Serves,
            1 => Standing::Drains,
            2 => {
                let (home_first, home_blocks) = (reader.u64()?, reader.u64()?);
                let slot_count = reader.u64()?;
                let most = pointer::NUMBERS_END;
                if home_first > most || home_blocks > most || slot_count > most {
                    let (field, value) = ("numbers of a drive that is gone", slot_count);
                    return Err(FormatError::Field { what: WHAT, field, value });
                }
                Standing::Gone(Numbered { home_first, home_blocks, slot_count })
            }
            other => {
                let (field, value) = ("standing of a member", u64::from(other));
                return Err(FormatError::Field { what: WHAT, field, value });
            }
        });
    }
    Ok(standings)
}

fn members_of(reader: &mut Reader<'_>, count: u8) -> Result<Vec<Member>, FormatError> {
    let mut members = Vec::new();
    for _ in 0..count {
        let uuid = reader.u128()?;
        let role = role_of(reader.u8()?)?;
        members.push(Member { uuid, role, capacity_bytes: reader.u64()? });
    }
    Ok(members)
}

/// Some of so many members.
fn lagging_of(reader: &mut Reader<'_>, members: u8) -> Result<u64, FormatError> {
    let lagging = reader.u64()?;
    if lagging == 0 || u32::from(members) < 64 - lagging.leading_zeros() {
        return Err(FormatError::Field { what: WHAT, field: "members that lag", value: lagging });
    }
    Ok(lagging)
}

/// Does this block look like one of our superblocks, sound or not?
pub(crate) fn is_ours(block: &[u8]) -> bool {
    block.len() >= 8 && block[..8] == MAGIC.to_le_bytes()
}

/// Incompatible features, and compatible ones.
fn features_of(reader: &mut Reader<'_>) -> Result<(u64, u64), FormatError> {
    let (features, read_only, compatible) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let known = FEATURE_STANDINGS | FEATURE_MOVED_HOMES | FEATURE_METADATA_REPLICA;
    let unknown = features & !(known | FEATURE_LAGGING);
    for (kind, bits) in [("incompatible", unknown), ("read-only compatible", read_only)] {
        if bits != 0 {
            return Err(FormatError::Features { what: WHAT, kind, bits });
        }
    }
    Ok((features, compatible))
}

impl Superblock {
    /// The block to write.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.members.len() <= MEMBERS_MAX && usize::from(self.index) < self.members.len());
        assert!(self.name.len() <= NAME_BYTES_MAX && self.standings.len() == self.members.len());
        let own = self.members[usize::from(self.index)];
        assert!(self.layout.is_sane(own.capacity_bytes), "a start refuses any other layout");
        let beyond = self.lagging.checked_shr(self.members.len() as u32).unwrap_or(0);
        assert!(beyond == 0, "members lag, and nobody else");
        let is_member = |s: &Successor| usize::from(s.index) < self.members.len();
        assert!(self.successor.as_ref().is_none_or(is_member), "a successor replaces a member");
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        let all_serve = self.standings.iter().all(|standing| *standing == Standing::Serves);
        let own = self.members[usize::from(self.index)];
        let mut out = Writer::default();
        out.u64(MAGIC);
        out.u32(0);
        out.u32(VERSION);
        let standings = if all_serve { 0 } else { FEATURE_STANDINGS };
        let moved = if self.has_moved_homes { FEATURE_MOVED_HOMES } else { 0 };
        let second = if self.has_metadata_replica { FEATURE_METADATA_REPLICA } else { 0 };
        let lagging = if self.lagging != 0 { FEATURE_LAGGING } else { 0 };
        out.u64(standings | moved | second | lagging);
        out.u64(0);
        out.u64(self.compatible);
        out.u64(self.generation);
        out.u128(self.pool);
        out.u128(own.uuid);
        out.u8(self.index);
        out.u8(role_code(own.role));
        out.u8(self.members.len() as u8);
        out.u8(u8::from(self.clean));
        out.u64(own.capacity_bytes);
        self.layout.encode(&mut out);
        for member in &self.members {
            out.u128(member.uuid);
            out.u8(role_code(member.role));
            out.u64(member.capacity_bytes);
        }
        out.text(&self.name);
        match &self.successor {
            None if all_serve && self.lagging == 0 => {}
            None => out.bytes.extend([0; 18]),
            Some(successor) => encode_successor(successor, &mut out),
        }
        if !all_serve {
            encode_standings(&self.standings, &mut out);
        }
        if self.lagging != 0 {
            out.u64(self.lagging);
        }
        out.pad_to(BLOCK_BYTES as usize);
        let crc = crc32c(&out.bytes);
        out.patch_u32(8, crc);
        out.bytes
    }

    /// Reads a block.
    ///
    /// # Errors
    /// Not a superblock, damaged, of a newer version, or with impossible fields.
    pub fn decode(block: &[u8]) -> Result<Superblock, FormatError> {
        let mut reader = Reader::new(block, WHAT);
        if reader.u64()? != MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        let crc = reader.u32()?;
        let version = reader.u32()?;
        if block.len() != BLOCK_BYTES as usize {
            return Err(FormatError::Short { what: WHAT, at: block.len() });
        }
        let mut covered = block.to_vec();
        covered[8..12].fill(0);
        if crc32c(&covered) != crc {
            return Err(FormatError::Checksum { what: WHAT });
        }
        if version < VERSION {
            return Err(FormatError::Earlier { what: WHAT, found: version });
        }
        if version > VERSION {
            return Err(FormatError::Version { what: WHAT, found: version, known: VERSION });
        }
        let (features, compatible) = features_of(&mut reader)?;
        let generation = reader.u64()?;
        let pool = reader.u128()?;
        let own_uuid = reader.u128()?;
        let (index, own_role, count) = (reader.u8()?, role_of(reader.u8()?)?, reader.u8()?);
        let clean = reader.u8()? == 1;
        let own_capacity = reader.u64()?;
        let layout = Layout::decode(&mut reader)?;
        if usize::from(count) > MEMBERS_MAX || index >= count {
            return Err(FormatError::Field { what: WHAT, field: "index", value: u64::from(index) });
        }
        let members = members_of(&mut reader, count)?;
        let own = Member { uuid: own_uuid, role: own_role, capacity_bytes: own_capacity };
        if members[usize::from(index)] != own || !layout.is_sane(own_capacity) {
            return Err(FormatError::Field { what: WHAT, field: "layout or membership", value: 0 });
        }
        let name = reader.text()?;
        if name.len() > NAME_BYTES_MAX {
            let value = name.len() as u64;
            return Err(FormatError::Field { what: WHAT, field: "name length", value });
        }
        let successor = successor_of(&mut reader, members.len())?;
        let standings = match features & FEATURE_STANDINGS {
            0 => vec![Standing::Serves; members.len()],
            _ => standings_of(&mut reader, members.len())?,
        };
        let lagging = match features & FEATURE_LAGGING {
            0 => 0,
            _ => lagging_of(&mut reader, count)?,
        };
        Ok(Superblock {
            generation,
            pool,
            name,
            index,
            clean,
            layout,
            members,
            standings,
            has_moved_homes: features & FEATURE_MOVED_HOMES != 0,
            has_metadata_replica: features & FEATURE_METADATA_REPLICA != 0,
            successor,
            lagging,
            compatible,
        })
    }
}

#[cfg(test)]
impl Superblock {
    /// One of two members, for tests.
    pub(crate) fn sample() -> Superblock {
        let member = |uuid, role| Member { uuid, role, capacity_bytes: 1 << 30 };
        Superblock {
            generation: 3,
            pool: 1,
            name: "laptop".into(),
            index: 1,
            clean: false,
            layout: Layout {
                journal_offset: 4096,
                journal_bytes: 1 << 20,
                root_offset: 4096 + (1 << 20),
                root_bytes: 65536,
                ..Layout::default()
            },
            members: vec![member(10, Role::Ssd), member(11, Role::Hdd)],
            standings: vec![Standing::Serves; 2],
            has_moved_homes: false,
            has_metadata_replica: false,
            successor: None,
            lagging: 0,
            compatible: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a block has to hold at once.
    #[test]
    fn the_most_members_have_room() {
        let member = |uuid| Member { uuid, role: Role::Hdd, capacity_bytes: 1 << 30 };
        let numbered = Numbered { home_first: 9, home_blocks: 1, slot_count: pointer::NUMBERS_END };
        let mut standings = vec![Standing::Gone(numbered); MEMBERS_MAX];
        standings[1] = Standing::Serves;
        let most = Superblock {
            name: "n".repeat(NAME_BYTES_MAX),
            members: (0..MEMBERS_MAX as u128).map(member).collect(),
            standings,
            successor: Some(Successor { state: SuccessorState::Copying, index: 63, uuid: 12 }),
            lagging: u64::MAX,
            ..Superblock::sample()
        };
        let block = most.encode();
        assert_eq!(block.len() as u64, BLOCK_BYTES);
        assert_eq!(Superblock::decode(&block).unwrap(), most);
    }

    #[test]
    fn it_comes_back_and_every_flipped_bit_is_seen() {
        let mut with_table = Superblock::sample();
        (with_table.layout.table_offset, with_table.layout.table_bytes) = (2 << 20, 65536);
        let block = with_table.encode();
        assert_eq!(Superblock::decode(&block).unwrap(), with_table);
        assert_eq!(block[12], 3, "older programs refuse it");
        for state in [SuccessorState::Copying, SuccessorState::Replaced] {
            let mut replaced = Superblock::sample();
            replaced.successor = Some(Successor { state, index: 1, uuid: 12 });
            assert_eq!(Superblock::decode(&replaced.encode()).unwrap(), replaced);
        }
        let numbered = Numbered { home_first: 3, home_blocks: 4, slot_count: 5 };
        for standing in [Standing::Drains, Standing::Gone(numbered)] {
            let mut drained = Superblock::sample();
            drained.standings[1] = standing;
            let block = drained.encode();
            assert_eq!(Superblock::decode(&block).unwrap(), drained);
            assert_eq!(block[16], 1, "older programs refuse it");
        }
        let moved = Superblock { has_moved_homes: true, ..Superblock::sample() };
        assert_eq!(Superblock::decode(&moved.encode()).unwrap(), moved);
        assert_eq!(moved.encode()[16], 2, "older programs refuse it");
        let second = Superblock { has_metadata_replica: true, ..Superblock::sample() };
        assert_eq!(Superblock::decode(&second.encode()).unwrap(), second);
        assert_eq!(second.encode()[16], 4, "older programs refuse it");
        for standing in [Standing::Serves, Standing::Drains] {
            let mut lagging = Superblock { lagging: 2, ..Superblock::sample() };
            lagging.standings[0] = standing;
            assert_eq!(Superblock::decode(&lagging.encode()).unwrap(), lagging);
            assert_eq!(lagging.encode()[16] & 8, 8, "older programs refuse it");
        }
        let unknown = Superblock { lagging: 4, ..Superblock::sample() };
        assert!(Superblock::decode(&unknown.bytes()).is_err(), "there are two members");
        for (version, is_earlier) in [(1, true), (2, true), (4, false)] {
            let mut other = Superblock::sample().encode();
            other[12] = version;
            other[8..12].fill(0);
            let crc = crc32c(&other);
            other[8..12].copy_from_slice(&crc.to_le_bytes());
            let error = Superblock::decode(&other).unwrap_err();
            assert_eq!(matches!(error, FormatError::Earlier { .. }), is_earlier, "{error}");
            assert_eq!(matches!(error, FormatError::Version { .. }), !is_earlier, "{error}");
        }
        let kept = Superblock { compatible: 1 << 40, ..Superblock::sample() };
        assert_eq!(Superblock::decode(&kept.encode()).unwrap(), kept, "it is kept");
        for (at, kind) in [(17, "incompatible"), (24, "read-only compatible")] {
            let mut newer = Superblock::sample().encode();
            newer[at] = 1;
            newer[8..12].fill(0);
            let crc = crc32c(&newer);
            newer[8..12].copy_from_slice(&crc.to_le_bytes());
            let said = Superblock::decode(&newer).unwrap_err().to_string();
            assert!(said.contains(&format!("has {kind} features")), "{said}");
        }
        let block = Superblock::sample().encode();
        assert_eq!((block[12], block[16]), (3, 0), "no feature is in use");
        assert_eq!(Superblock::decode(&block).unwrap(), Superblock::sample());
        for at in 0..block.len() {
            let mut bad = block.clone();
            bad[at] ^= 1;
            assert!(Superblock::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Superblock::decode(&block[..512]).is_err());
    }
}
