//! What is being copied or moved for the pool's sake, and which snapshots are there?

use serde::{Deserialize, Serialize};
use tandem_block::Instant;
use tandem_engine::Engine;
use tandem_engine::drain::{self, DrainView};
use tandem_engine::replacement::{self, ReplacementView};

/// Where the metadata is a second time, in a pool with one SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetadataReplica {
    pub device: usize,
    pub journal_units_behind: u64,
    /// Too much is missing: it is written anew.
    pub awaits_snapshot: bool,
    pub behind_ns: u64,
    pub lag_max_ns: u64,
}

/// A drive that is being replaced or added, or the last one that was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Replacing {
    pub device: usize,
    /// The bay was empty.
    pub joins: bool,
    pub stage: String,
    pub copied_bytes: u64,
    pub total_bytes: u64,
    pub marked_bytes: u64,
    pub resumed_bytes: u64,
    pub doubled_bytes: u64,
    pub unreadable_blocks: u64,
    pub marks: u64,
    pub ns: u64,
    pub finished: Option<bool>,
    /// How.
    pub ended: Option<String>,
}

impl Replacing {
    pub(super) fn of(view: &ReplacementView, now: Instant) -> Replacing {
        let end = view.ended.map_or(now, |(at, _)| at);
        Replacing {
            device: usize::from(view.device.0),
            joins: view.joins,
            stage: view.stage.to_owned(),
            copied_bytes: view.copied_bytes,
            total_bytes: view.total_bytes,
            marked_bytes: view.marked_bytes,
            resumed_bytes: view.stats.resumed_bytes,
            doubled_bytes: view.stats.doubled_bytes,
            unreadable_blocks: view.stats.unreadable_blocks,
            marks: view.stats.marks,
            ns: end.since(view.began).ns,
            finished: view.ended.map(|(_, ending)| ending == replacement::Ending::Finished),
            ended: view.ended.map(|(_, ending)| ending.to_string()),
        }
    }
}

/// A drive that is being drained or removed, or the last one that was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Draining {
    pub device: usize,
    pub stage: String,
    pub left_bytes: u64,
    pub total_bytes: u64,
    pub moved_bytes: u64,
    pub unreadable_blocks: u64,
    pub drained: bool,
    pub ns: u64,
    pub removed: Option<bool>,
    /// How.
    pub ended: Option<String>,
}

impl Draining {
    pub(super) fn of(view: &DrainView, now: Instant) -> Draining {
        let end = view.ended.map(|(at, _)| at).or(view.drained).unwrap_or(now);
        Draining {
            device: usize::from(view.device.0),
            stage: view.stage.to_owned(),
            left_bytes: view.left_bytes,
            total_bytes: view.total_bytes,
            moved_bytes: view.moved_bytes,
            unreadable_blocks: view.unreadable_blocks,
            drained: view.drained.is_some(),
            ns: end.since(view.began).ns,
            removed: view.ended.map(|(_, ending)| ending == drain::Ending::Removed),
            ended: view.ended.map(|(_, ending)| ending.to_string()),
        }
    }
}

/// A snapshot of a volume of blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub volume: String,
    pub name: String,
    pub bytes: u64,
    /// So much is free if it is deleted.
    pub own_bytes: u64,
}

impl Snapshot {
    pub(super) fn all(engine: &Engine) -> Vec<Snapshot> {
        let snapshots = engine.objects().named().filter(|(_, known)| known.is_snapshot);
        snapshots
            .map(|(id, known)| {
                let (volume, name) = known.name.rsplit_once('@').unwrap_or(("", &known.name));
                Snapshot {
                    volume: volume.to_owned(),
                    name: name.to_owned(),
                    bytes: known.size_bytes,
                    own_bytes: engine.own_bytes(id),
                }
            })
            .collect()
    }
}
