//! What does an audit ask of background work and of those who wait for it?

use crate::map::{Logical, NONE, Run, Slot};
use crate::migration::moves::{Moves, Stage};
use crate::owner::{MoveKind, Parts};

impl Moves {
    /// Blocks and slots that a read of the move under way is about.
    pub(crate) fn read(&self, at: u64, count: u64) -> Vec<(Logical, Slot)> {
        let Some(m) = &self.active else { return Vec::new() };
        if matches!(m.kind, MoveKind::Rehome) || m.kind.is_of_one_block() {
            return Vec::new();
        }
        let parts = m.parts.iter().skip(at as usize).take(count as usize);
        parts.filter(|part| part.slot != NONE).map(|part| (part.logical, part.slot)).collect()
    }

    /// Slots that a write of the move under way goes to.
    pub(crate) fn written(&self, parts: Parts) -> Vec<Run> {
        let Some(m) = &self.active else { return Vec::new() };
        match m.kind {
            MoveKind::Merge | MoveKind::Promotion => vec![m.target],
            MoveKind::Drain => {
                let written = parts.range();
                let targets = m.targets.iter().skip(written.start).take(written.len());
                targets.filter(|slot| **slot != NONE).map(|&slot| Run { slot, count: 1 }).collect()
            }
            MoveKind::WriteBack | MoveKind::LogGc | MoveKind::Rehome => Vec::new(),
        }
    }

    /// Commands that the moves under way say they wait for.
    pub(crate) fn commands_counted(&self) -> u64 {
        let of_active = self.active.as_ref().map_or(0, |m| u64::from(m.outstanding));
        of_active + self.home_writes.commands_counted()
    }

    /// The block that a move reads as a user would.
    pub(crate) fn reading_task(&self) -> Option<Logical> {
        let m = self.active.as_ref()?;
        (m.kind.is_of_one_block() && m.stage == Stage::Reading).then(|| m.parts[0].logical)
    }

    /// Blocks that nobody has, and whose places the homes take that a move writes.
    pub(crate) fn taken_blocks(&self) -> u64 {
        let moves_homes = self.active.as_ref().filter(|m| m.kind == MoveKind::Rehome);
        moves_homes.map_or(0, |m| m.targets.len() as u64)
    }

    /// Slots of which homes were written and wait for a flush.
    pub(crate) fn homed_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.homed.parts().map(|part| part.slot)
    }

    /// How many of these are counted as an SSD's.
    pub(crate) fn homed_ssd_count(&self) -> u64 {
        self.homed.ssd_blocks()
    }

    /// How many blocks are noted for them.
    pub(crate) fn homed_set_count(&self) -> u64 {
        self.homed.blocks_counted()
    }
}
