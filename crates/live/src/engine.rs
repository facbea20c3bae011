//! Who decides? The engine, seen through what the real event loop needs of it.

use crate::status::Status;
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, ObjectId};
use tandem_engine::map::runs::Piece;
use tandem_engine::replacement::SuccessorConfig;
use tandem_engine::{Command, Engine, Event, TierConfig};

/// A part of an object that is alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long it is, in bytes.
    pub length_bytes: u64,
    /// Does it hold data, or is it absent and reads as zeroes?
    pub allocated: bool,
}

/// The engine, or in a test something that answers like one.
pub trait LiveEngine {
    /// Takes one event at `now` and appends what is to be done.
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Vec<Command>);

    /// Does it take another request now? If not, requests wait in the event loop.
    fn can_accept(&self) -> bool {
        true
    }

    /// What there is to know.
    fn status(&self, now: Instant) -> Status;

    /// Gives a volume another tier.
    ///
    /// # Errors
    /// Why not, in words.
    fn set_tier(&mut self, volume: &str, _tier: TierConfig) -> Result<(), String> {
        Err(format!("nothing here has tiers, so {volume} gets none"))
    }

    /// The engine, if it is one: for front ends that look at objects.
    fn engine(&self) -> Option<&Engine> {
        None
    }

    /// Could this drive be replaced by one of so many bytes?
    ///
    /// # Errors
    /// Why not, in words.
    fn can_replace(&self, _device: DeviceId, _capacity_bytes: u64) -> Result<(), String> {
        Err("nothing here has drives that could be replaced".into())
    }

    /// A drive behind all others shall take this one's place; it is begun with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    fn replace(&mut self, device: DeviceId, bytes: u64, _uuid: u128) -> Result<(), String> {
        self.can_replace(device, bytes)
    }

    /// Ends the replacement under way with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    fn cancel_replace(&mut self) -> Result<(), String> {
        Err("nothing is being replaced".into())
    }

    /// How many bytes would be moved if this drive were drained?
    ///
    /// # Errors
    /// Why it cannot be, in words.
    fn can_drain(&self, _device: DeviceId) -> Result<u64, String> {
        Err("nothing here has drives that could leave".into())
    }

    /// A drive shall leave, stay after all, or be gone; it is begun with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    fn change_members(&mut self, _asked: Leave) -> Result<(), String> {
        Err("nothing here has drives that could leave".into())
    }

    /// Appends what lies in `offset_bytes..offset_bytes + length_bytes` of an object, from its
    /// beginning on and without gaps; it may stop early but says something. "All of it is data" is
    /// always true enough.
    fn extents(&self, object: ObjectId, range: (u64, u64), out: &mut Vec<Extent>) {
        let _ = object;
        out.push(Extent { length_bytes: range.1, allocated: true });
    }
}

/// How a drive leaves a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Everything is moved off it.
    Drain(DeviceId),
    /// The one that is drained stays.
    Cancel,
    /// It was drained, and is none of the pool any more.
    Remove(DeviceId),
}

/// Blocks looked at for one answer of [`LiveEngine::extents`] at most: a millisecond where each of them is in use.
/// An object that lies in runs may have one for each block.
const EXTENT_BLOCKS_MAX: u64 = 1 << 24;
const RUN_BLOCKS_MAX: u64 = 1 << 17;
/// Extents of one answer at most.
const EXTENTS_MAX: usize = 1 << 13;

impl LiveEngine for Engine {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Vec<Command>) {
        Engine::on(self, now, event, out);
    }

    fn can_accept(&self) -> bool {
        Engine::can_accept(self)
    }

    fn engine(&self) -> Option<&Engine> {
        Some(self)
    }

    fn set_tier(&mut self, volume: &str, tier: TierConfig) -> Result<(), String> {
        let found = self.objects().iter().find(|(_, known)| known.name == volume);
        let (object, _) = found.ok_or_else(|| format!("there is no volume called {volume:?}"))?;
        Engine::set_tier(self, object, tier).map_err(|why| why.to_string())
    }

    fn can_replace(&self, device: DeviceId, capacity_bytes: u64) -> Result<(), String> {
        Engine::can_replace(self, device, capacity_bytes).map_err(|why| why.to_string())
    }

    fn replace(&mut self, device: DeviceId, bytes: u64, uuid: u128) -> Result<(), String> {
        let successor = SuccessorConfig { device, capacity_bytes: bytes };
        Engine::replace(self, successor, uuid).map_err(|why| why.to_string())
    }

    fn cancel_replace(&mut self) -> Result<(), String> {
        Engine::cancel_replace(self).map_err(|why| why.to_string())
    }

    fn can_drain(&self, device: DeviceId) -> Result<u64, String> {
        Engine::can_drain(self, device).map_err(|why| why.to_string())
    }

    fn change_members(&mut self, asked: Leave) -> Result<(), String> {
        let done = match asked {
            Leave::Drain(device) => Engine::drain(self, device),
            Leave::Cancel => Engine::cancel_drain(self),
            Leave::Remove(device) => Engine::remove(self, device),
        };
        done.map_err(|why| why.to_string())
    }

    fn status(&self, now: Instant) -> Status {
        Status::of(self, now)
    }

    fn extents(&self, object: ObjectId, range: (u64, u64), out: &mut Vec<Extent>) {
        let Some(found) = self.objects().get(object) else { return };
        let (start, end) = (range.0, range.0.saturating_add(range.1));
        let first = start / BLOCK_BYTES;
        let most = if found.lies_in_runs() { RUN_BLOCKS_MAX } else { EXTENT_BLOCKS_MAX };
        let last = end.div_ceil(BLOCK_BYTES).min(first.saturating_add(most));
        let pieces = match found.lies_in_runs() {
            true => self.objects().pieces(object, first, last),
            false => {
                let count = last.min(found.blocks).saturating_sub(first);
                vec![Piece { offset: first, logical: Some(found.first + first), count }]
            }
        };
        let mut at = start;
        let mut put = |behind: u64, allocated: bool, out: &mut Vec<Extent>| {
            let next = (behind * BLOCK_BYTES).min(end);
            match out.last_mut() {
                _ if next <= at => return,
                Some(last) if last.allocated == allocated => last.length_bytes += next - at,
                _ => out.push(Extent { length_bytes: next - at, allocated }),
            }
            at = next;
        };
        for piece in pieces {
            let ends = piece.offset + piece.count;
            let Some(logical) = piece.logical else {
                put(ends, false, out);
                continue;
            };
            let (mut from, to) = (logical, logical + piece.count);
            let offset_of = |block: u64| block - logical + piece.offset;
            while let Some((used, behind)) = self.map().next_used(from, to) {
                put(offset_of(used), false, out);
                put(offset_of(behind), true, out);
                from = behind;
                if out.len() >= EXTENTS_MAX {
                    return;
                }
            }
            put(ends, false, out);
        }
        put(last, false, out);
    }
}
