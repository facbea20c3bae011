//! How does a drive leave a pool that is served, without another one in its place?
//!
//! Requirement: pool life. It is drained first: nothing new goes to it, and what lies on it is moved to
//! others (`drain/slots`, `drain/homes`), by moves that are recorded like any other. Then it is removed.
//!
//! ```text
//! drain ─▶ superblocks: it drains ─▶ moves, until no record names a place on it ─▶ (remove) it is no metadata
//!   │                                                                              home any more, all is quiet
//!   └── cancel ─▶ superblocks: it serves                                           ─▶ superblocks of the others:
//!                                                                                  GONE ─▶ its own ─▶ let go
//! ```
//! - What superblocks say of a drive that drains only makes the next life go on with it: a crash costs the
//!   move under way.
//! - A drive that is gone keeps its number, and its part of the numbering of slots and homes: nothing else
//!   moves. No record names any of it, which a start makes sure of.

pub(crate) mod homes;
mod places;
pub(crate) mod slots;
mod steps;
mod switch;

use crate::drain::homes::Rehomed;
use crate::format::superblock::Standing;
use crate::io::{DeviceIo, Phase};
use crate::map::objects::Objects;
use crate::map::{Logical, Map, Slot};
use crate::metadata::MetadataHomes;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use std::collections::BTreeSet;
use tandem_block::{BLOCK_BYTES, DeviceId, Instant};

/// Places that could not be read are remembered up to so many: bounds RAM (guess).
pub(crate) const UNREADABLE_MAX: usize = 65_536;

/// Where a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The superblocks are to be told, or are being told. Moves have begun.
    Announcing { begun: bool },
    /// What lies on it is moved, or nothing does any more.
    Moving,
    /// The superblocks are told that it serves again.
    Voiding { begun: bool },
    /// It becomes none of the pool.
    Removing(Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The round that tells that it drains ends, if it was empty from the beginning,
    Announced,
    /// what is under way with it ends,
    Quiet,
    /// … the other members are told,
    Others,
    /// … and its own superblocks.
    Own,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The drive is none of the pool any more.
    Removed,
    /// The administrator wanted to keep it.
    Cancelled,
    /// It failed while something lay on it.
    Failed,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Ending::Removed => "removed",
            Ending::Cancelled => "cancelled",
            Ending::Failed => "the drive failed before all was moved away",
        })
    }
}

/// A drain as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainView {
    /// Which drive.
    pub device: DeviceId,
    /// What goes on, in a word: `moves`, `drained`, `leaves` or `ended`.
    pub stage: &'static str,
    /// Bytes on it that a record names, or that are being written there.
    pub left_bytes: u64,
    /// … when the drain began in this life.
    pub total_bytes: u64,
    /// Bytes moved to other drives in this life.
    pub moved_bytes: u64,
    /// Blocks on it that could not be read, and stay.
    pub unreadable_blocks: u64,
    /// Since when, in this life.
    pub began: Instant,
    /// When nothing was left.
    pub drained: Option<Instant>,
    /// When it ended, and how.
    pub ended: Option<(Instant, Ending)>,
}

/// Why a drive cannot be drained, or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The pool does not run as it must for that.
    #[error("the pool {0}")]
    NotNow(&'static str),
    /// One at a time.
    #[error("device {} is being drained; remove it, or cancel that, first", .0.0)]
    UnderWay(DeviceId),
    /// Nothing to cancel.
    #[error("no drive is being drained")]
    Nothing,
    /// It is decided already.
    #[error("the drive is being removed: it is too late to cancel")]
    TooLate,
    /// No such drive.
    #[error("there is no device {}", .0.0)]
    NoDevice(DeviceId),
    /// It was removed before.
    #[error("device {} is gone already", .0.0)]
    Gone(DeviceId),
    /// Legs leave in another way.
    #[error("device {} is a mirrored pair, which cannot be drained", .0.0)]
    IsPair(DeviceId),
    /// The drive is out of service.
    #[error("device {} has failed: nothing can be moved away from it", .0.0)]
    Faulted(DeviceId),
    /// Nobody else has its role.
    #[error("device {} is the pool's last {role} in service, which has to stay; replace it instead", .device.0)]
    Last {
        /// Which drive.
        device: DeviceId,
        /// What it is.
        role: &'static str,
    },
    /// The others cannot take it.
    #[error("the other drives have room for {room} bytes of the {wanted} that must move to them")]
    NoRoom {
        /// Bytes that they have room for.
        room: u64,
        /// Bytes that must find some.
        wanted: u64,
    },
    /// It holds what no other drive has a place for.
    #[error("device {} keeps {what}, which no other drive has room for; replace it instead", .device.0)]
    Keeps {
        /// Which drive.
        device: DeviceId,
        /// What.
        what: &'static str,
    },
    /// What was promised to streams needs it.
    #[error("streams were promised a part of every SSD: take the promises back first")]
    Promised,
    /// The tiers' share of the SSDs would not fit the others.
    #[error("tiers: {0}")]
    Tier(String),
    /// It holds something still.
    #[error("device {} holds {bytes} bytes: drain it first", .device.0)]
    NotDrained {
        /// Which drive.
        device: DeviceId,
        /// How much.
        bytes: u64,
    },
}

/// A drive that is about to leave, if there is one, and the last one that did, or did not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evacuation {
    current: Option<Box<Drain>>,
    ended: Option<DrainView>,
}

impl Evacuation {
    /// Is a drive about to leave?
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// A move that began at `since` has ended. If it was one of these, the drive rests for as long as it took.
    /// `moved_blocks`: those that a sound one has brought away.
    pub(crate) fn move_ended(&mut self, moved_blocks: u64, since: Instant, now: Instant) {
        let drain = self.current.as_deref_mut().filter(|drain| drain.owns_move);
        let Some(drain) = drain else { return };
        assert!(since <= now, "a move ends after it has begun");
        drain.owns_move = false;
        drain.moved_blocks += moved_blocks;
        drain.rests_until = now + now.since(since);
    }
}

/// A drain under way.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    device: DeviceId,
    stage: Stage,
    /// The block to look at next.
    cursor: Logical,
    /// It has not seen all blocks since it began at the first one.
    goes_on: bool,
    /// Places of blocks before this one are read one by one: one of them is bad.
    careful_until: Logical,
    /// Places that could not be read.
    unreadable: BTreeSet<Slot>,
    /// Blocks whose homes there could not be read.
    unreadable_homes: BTreeSet<Logical>,
    /// Homes that were written elsewhere and are not durable there.
    rehomed: Vec<Rehomed>,
    /// The batch that records the last home that was left.
    left_with: u64,
    /// The move under way is its own. That of a drain that was cancelled is nobody's.
    owns_move: bool,
    /// Others' moves had their turn.
    has_turn: bool,
    rests_until: Instant,
    looks_at: Instant,
    total_bytes: u64,
    moved_blocks: u64,
    began: Instant,
    drained: Option<Instant>,
}

impl Drain {
    fn new(device: DeviceId, stage: Stage, total_bytes: u64, now: Instant) -> Drain {
        Drain {
            device,
            stage,
            cursor: 0,
            goes_on: false,
            careful_until: 0,
            unreadable: BTreeSet::new(),
            unreadable_homes: BTreeSet::new(),
            rehomed: Vec::new(),
            left_with: 0,
            owns_move: false,
            has_turn: true,
            rests_until: Instant::ZERO,
            looks_at: now,
            total_bytes,
            moved_blocks: 0,
            began: now,
            drained: None,
        }
    }

    /// Does it move what lies on the drive?
    pub(crate) fn moves(&self) -> bool {
        matches!(self.stage, Stage::Announcing { .. } | Stage::Moving)
    }
}

impl Evacuation {
    /// The drain under way, or the last one that ended in this life.
    pub(crate) fn drain_view(
        &self,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Option<DrainView> {
        self.current.as_deref().map(|drain| self.view_drain(drain, map, objects, io)).or(self.ended)
    }

    fn view_drain(&self, drain: &Drain, map: &Map, objects: &Objects, io: &DeviceIo) -> DrainView {
        let stage = match drain.stage {
            Stage::Announcing { .. } => "moves",
            Stage::Moving if drain.drained.is_none() => "moves",
            Stage::Moving => "drained",
            Stage::Voiding { .. } => "ends",
            Stage::Removing(_) => "leaves",
        };
        let is_there = |slot: &&Slot| map.slots().is_place(**slot);
        DrainView {
            device: drain.device,
            stage,
            left_bytes: self.lies_on(drain.device, map, objects, io),
            total_bytes: drain.total_bytes,
            moved_bytes: drain.moved_blocks * BLOCK_BYTES,
            unreadable_blocks: (drain.unreadable.iter().filter(is_there).count()
                + self.unreadable_homes(drain, map, objects)) as u64,
            began: drain.began,
            drained: drain.drained,
            ended: None,
        }
    }

    /// Bytes of a drive that a record names, or that are being written.
    pub(crate) fn lies_on(
        &self,
        device: DeviceId,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> u64 {
        let blocks = match io.ssds().iter().position(|&id| id == device) {
            Some(ssd) => map.ssd_used(ssd),
            None => self.blocks_on_hdd(device, map, objects, io),
        };
        blocks * BLOCK_BYTES
    }

    /// The drive that drains serves again; what was moved stays where it is. The caller wakes the engine.
    ///
    /// # Errors
    /// If there is none, or it is decided.
    pub(crate) fn cancel_drain(
        &mut self,
        map: &mut Map,
        objects: &mut Objects,
        tiers: &mut Tiers,
        io: &mut DeviceIo,
    ) -> Result<(), DrainError> {
        let drain = self.current.as_deref_mut().ok_or(DrainError::Nothing)?;
        if !drain.moves() {
            return Err(DrainError::TooLate);
        }
        // a round under way says that it drains: another one follows
        drain.stage = Stage::Voiding { begun: false };
        let device = drain.device;
        assert!(
            io[device].standing == Standing::Drains,
            "a drive drains until it serves again, or is gone"
        );
        self.set_standing(device, Standing::Serves, map, objects, tiers, io);
        Ok(())
    }
}

pub(crate) fn can_change_members(
    commit: &Commit,
    io: &DeviceIo,
    metadata: &MetadataHomes,
) -> Result<(), DrainError> {
    if io.phase() != Phase::Running || commit.is_broken() {
        return Err(DrainError::NotNow("is not served"));
    }
    if io.is_fixed() || metadata.is_degraded() {
        return Err(DrainError::NotNow("is served read-only"));
    }
    Ok(())
}
