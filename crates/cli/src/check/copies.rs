//! Which copy on which drive is bad, and does another one still hold what was written?
//!
//! The engine has compared every place of every block that was read; here its findings get the names
//! that a user knows, neighbours together.

use crate::config::PoolConfig;
use serde::Serialize;
use tandem_block::{BLOCK_BYTES, IoError};
use tandem_engine::{BadPlace, Engine, ServedFrom};

/// Neighbouring blocks of a volume whose copies on one drive are bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BadCopy {
    /// Position of the volume in the configuration; `None`: no volume that it lists.
    pub volume: Option<usize>,
    /// First byte within the volume.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
    /// The drive.
    pub device: String,
    /// Where on the drive.
    pub device_offset_bytes: u64,
    /// What kind of copy.
    pub place: &'static str,
    /// What was met there.
    pub error: String,
    /// Does another place hold the same bytes, soundly?
    pub has_sound_copy: bool,
}

/// All that the engine found.
pub(super) fn of(pool: &PoolConfig, engine: &Engine) -> Vec<BadCopy> {
    let mut copies: Vec<BadCopy> = Vec::new();
    let places = &engine.stats().bad_places;
    for (&(device, address), bad) in places {
        let (volume, offset_bytes) = volume_of(pool, engine, bad.logical);
        let wrong = places.values().filter(|other| other.logical == bad.logical).count();
        let copy = BadCopy {
            volume,
            offset_bytes,
            length_bytes: BLOCK_BYTES,
            device: pool.devices[usize::from(device.0)].label(),
            device_offset_bytes: address,
            place: kind(bad),
            error: what(bad.error),
            has_sound_copy: wrong < engine.map().entry(bad.logical).places().count(),
        };
        match copies.last_mut() {
            Some(last) if is_continued(last, &copy) => last.length_bytes += BLOCK_BYTES,
            _ => copies.push(copy),
        }
    }
    copies
}

fn is_continued(last: &BadCopy, next: &BadCopy) -> bool {
    let expected = BadCopy {
        offset_bytes: last.offset_bytes + last.length_bytes,
        device_offset_bytes: last.device_offset_bytes + last.length_bytes,
        length_bytes: next.length_bytes,
        ..last.clone()
    };
    expected == *next
}

fn volume_of(pool: &PoolConfig, engine: &Engine, logical: u64) -> (Option<usize>, u64) {
    let owner = engine
        .objects()
        .iter()
        .find(|(_, object)| logical >= object.first && logical - object.first < object.blocks);
    let Some((id, object)) = owner else { return (None, 0) };
    let volume = pool.volumes.iter().position(|volume| volume.object() == id);
    (volume, (logical - object.first) * BLOCK_BYTES)
}

fn kind(bad: &BadPlace) -> &'static str {
    match bad.from {
        ServedFrom::Ram | ServedFrom::Ssd => "SSD",
        ServedFrom::SsdCopy => "SSD copy",
        ServedFrom::HddLog => "log",
        ServedFrom::HddHome => "home",
    }
}

fn what(error: IoError) -> String {
    match error {
        IoError::Checksum(_) => "it holds something else than was written".into(),
        error => error.to_string(),
    }
}

/// What the user reads, and what he does about it.
pub(super) fn describe(pool: &PoolConfig, copies: &[BadCopy], out: &mut String) {
    for copy in copies {
        let volume = copy.volume.map_or("no volume", |index| &pool.volumes[index].name);
        out.push_str(&format!(
            "  {volume}: {} bytes at {}: the {} on {} at byte {} is bad: {}; {}\n",
            copy.length_bytes,
            copy.offset_bytes,
            copy.place,
            copy.device,
            copy.device_offset_bytes,
            copy.error,
            if copy.has_sound_copy { "another copy is sound" } else { "there is no sound copy" },
        ));
    }
    if copies.iter().any(|copy| copy.has_sound_copy) {
        out.push_str(
            "  Nothing is lost where another copy is sound, but it is the last: serve the pool, read \
             these bytes of the volume and write them back, which gives them new places. A drive \
             with more than a few bad places should be replaced.\n",
        );
    }
}
