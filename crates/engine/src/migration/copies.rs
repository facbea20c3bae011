//! Which blocks are wanted in two places, and what brings them there?
//!
//! Source: design decision 5: the intention of a tier stays, whatever steering did to the write, and
//! background work restores it. A block that belongs on an SSD *and* on a hard drive is written once
//! for its user; then it is moved home without waiting for the watermark, and its SSD copy stays. If
//! steering took the write to a log, it is first brought to an SSD.
//!
//! Where a tier acknowledges a write only when both places have it ([LORIS §II]: write-through pays in
//! the foreground for copies that are in sync), a log takes it, and the user waits for its copy on an SSD
//! (`migration/tail`). If steering took the write to an SSD alone, its user waits until the hard drive has
//! acknowledged the home: the SSD's place is recorded at once, since only then a home may be written over, and
//! the move goes before others. If a hard drive or the promise of durability is lost meanwhile, or the pool
//! stops, the one place that there is has to do.

mod audit;
mod steps;

use crate::io::DeviceIo;
use crate::map::entry::{FRAGMENTS, LOG, SSD};
use crate::map::objects::Objects;
use crate::map::{Logical, Map, Slot};
use crate::migration::moves::Moves;
use crate::requests::ordering::TaskId;
use std::collections::BTreeSet;

/// Blocks that are wanted in two places and are not there yet, at most: bounds RAM to some 4 MiB. What
/// does not fit is counted, and goes home by the watermarks like everything else (guess).
const WANTED_MAX: usize = 65_536;

/// Blocks that still lack one of their two places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// Whose homes are to be written.
    wanted: BTreeSet<Logical>,
    /// Nothing can be done for those before this batch is durable.
    not_before: u64,
    /// Which have to be brought to an SSD first, when nobody is in the way.
    detoured: BTreeSet<Logical>,
    /// The one that is under way to an SSD.
    restoring: Option<Logical>,
    /// Writes whose users wait for both places.
    awaited: Vec<TaskId>,
    /// A home was written, or is not wanted any more: perhaps somebody can be answered.
    looks: bool,
    /// Somebody waits for a record that no batch has yet.
    hurries: bool,
}

/// What one wanted block needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// It is in both places, or gone: nothing. A log is one of them once its drive was flushed.
    Nothing,
    /// Its home written from this slot.
    Home(Slot),
    /// An SSD slot of its own: it is in a log, perhaps with a tail copy, or under fragments.
    Ssd,
    /// A batch: its slot is not recorded yet.
    Batch,
}

fn copy_need(block: Logical, io: &DeviceIo, map: &Map, objects: &Objects, moves: &Moves) -> Need {
    let state = map.state(block);
    if state == LOG | SSD && map.is_safe_in_log(block) {
        return Need::Nothing;
    }
    if state & (FRAGMENTS | LOG) != 0 {
        return if io.ssds().is_empty() { Need::Nothing } else { Need::Ssd };
    }
    let (home, _) = objects.home_of(block, io);
    if state != SSD || io[home].is_faulted() {
        return Need::Nothing;
    }
    if moves.is_homed(block) {
        return Need::Batch; // an older version is on its way home: after that, this one
    }
    map.writeback_source(block).map_or(Need::Batch, Need::Home)
}
