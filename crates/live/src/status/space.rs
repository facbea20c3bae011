//! What do tiers and the read-back cache hold, and what was redirected?

use serde::{Deserialize, Serialize};
use tandem_block::BLOCK_BYTES;
use tandem_engine::Engine;
use tandem_engine::stats::{self, ReadBackStats};

/// Writes for an SSD that went to hard drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Redirected {
    pub requests: u64,
    pub bytes: u64,
}

/// Users' reads of redirected data, and what reads have brought to SSDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadBackReads {
    pub ram: FromRam,
    pub hdd_log: Hits,
    pub promoted_blocks: u64,
    pub promotions_forgone: u64,
}

/// … answered from RAM, by why it was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FromRam {
    pub tail: Hits,
    pub cache: Hits,
}

/// Reads in runs of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hits {
    pub reads: u64,
    pub bytes: u64,
}

impl From<&ReadBackStats> for ReadBackReads {
    fn from(stats: &ReadBackStats) -> ReadBackReads {
        let hits = |hits: stats::Hits| Hits { reads: hits.count, bytes: hits.bytes };
        ReadBackReads {
            ram: FromRam { tail: hits(stats.from_tail), cache: hits(stats.from_cache) },
            hdd_log: hits(stats.from_drive),
            promoted_blocks: stats.promoted,
            promotions_forgone: stats.forgone,
        }
    }
}

/// … with what is in RAM now of what was redirected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadBack {
    #[serde(flatten)]
    pub reads: ReadBackReads,
    pub cache_bytes: u64,
    pub cache_bytes_max: u64,
    pub tail_bytes: u64,
}

impl ReadBack {
    pub(super) fn of(engine: &Engine) -> ReadBack {
        let (cache_bytes, cache_bytes_max) = engine.read_back_bytes();
        ReadBack {
            reads: (&engine.stats().read_back).into(),
            cache_bytes,
            cache_bytes_max,
            tail_bytes: engine.devices().iter().map(|device| device.tail.bytes).sum(),
        }
    }
}

/// What tiers hold of the SSDs, and what they did there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiers {
    pub extent_bytes: u64,
    pub held_bytes: u64,
    pub room_bytes: u64,
    pub collector_bytes: u64,
    pub reads: TierReads,
    pub came_bytes: u64,
    pub demoted_bytes: u64,
    pub dropped_bytes: u64,
    pub extents: TierExtents,
    pub refused: Refused,
    pub strays: u64,
}

/// What users read, by where it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierReads {
    pub ssd_bytes: u64,
    pub hdd_bytes: u64,
}

/// Extents that came because they were read, or written, and those that had to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierExtents {
    pub came: u64,
    pub written: u64,
    pub left: u64,
}

/// What did not come to an SSD, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    pub unqualified: u64,
    pub not_worth_moving: u64,
    pub too_few_reads: u64,
    pub full: u64,
    pub too_many_wait: u64,
    pub sieved_requests: u64,
    pub bypassed_writes: u64,
}

impl Tiers {
    /// None where no volume's tier has a share.
    pub(super) fn of(engine: &Engine) -> Option<Tiers> {
        let (held, room, extent_bytes) = engine.tier_room()?;
        let (account, collector_bytes) = engine.tier_account()?;
        let did = &engine.stats().tiers;
        let bytes = |blocks: u64| blocks * BLOCK_BYTES;
        Some(Tiers {
            extent_bytes,
            held_bytes: u64::from(held) * extent_bytes,
            room_bytes: u64::from(room) * extent_bytes,
            collector_bytes,
            reads: TierReads {
                ssd_bytes: bytes(did.hit_blocks),
                hdd_bytes: bytes(did.missed_blocks),
            },
            came_bytes: bytes(did.came_blocks),
            demoted_bytes: bytes(did.demoted_blocks),
            dropped_bytes: bytes(did.dropped_blocks),
            extents: TierExtents {
                came: account.came,
                written: account.claimed,
                left: account.left,
            },
            refused: Refused {
                unqualified: account.unqualified,
                not_worth_moving: account.unpaid,
                too_few_reads: account.sieved_reads,
                full: account.full,
                too_many_wait: account.forgone,
                sieved_requests: did.sieved,
                bypassed_writes: did.bypassed,
            },
            strays: did.strays,
        })
    }
}
