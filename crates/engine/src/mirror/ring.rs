//! What is in the ring of a pair's journal, and where does the next unit go?
//!
//! Source: requirements I16. The books alone: units, what is still needed of them and how much of the
//! ring they take. What is sent to the drive is `journal`'s.

use super::roles::{Phase, Roles};
use crate::format::pair_journal::{header_bytes, padded};
use std::collections::VecDeque;
use tandem_block::BLOCK_BYTES;

/// The ring's tail is moved when so much of it is in use …
const USED_PERCENT: u64 = 50;
/// … and that brings so much.
const FREED_PERCENT: u64 = 12;
/// Legs are flushed for the journal's sake when so much is in use.
const PRESSING_PERCENT: u64 = 75;

/// A unit in the ring.
#[derive(Clone, Debug)]
struct Unit {
    at: u64,
    /// With what was left unused before it.
    bytes: u64,
    acknowledged: bool,
    /// Writes in it that each leg has not got yet.
    left: [u32; 2],
    /// When it got the last one.
    done_at: [u64; 2],
}

/// Room for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(crate) at: u64,
    /// Left unused before it.
    skipped: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Ring {
    bytes: u64,
    /// Units in the ring, the first with the number `first_unit`.
    units: VecDeque<Unit>,
    first_unit: u64,
    used_bytes: u64,
    next_at: u64,
    /// Units up to here are acknowledged, and durable.
    acknowledged: u64,
    durable: u64,
    /// Counts units that reached a leg; and where each leg's last flush stood.
    ticks: u64,
    flushed_to: [u64; 2],
}

/// What a write takes in the ring at most.
pub(super) fn bytes_of(length: u64) -> u64 {
    let data = padded(length);
    header_bytes(1, (data / BLOCK_BYTES) as usize) + data
}

impl Ring {
    pub(crate) fn new(bytes: u64) -> Ring {
        Ring {
            bytes,
            units: VecDeque::new(),
            first_unit: 1,
            used_bytes: 0,
            next_at: 0,
            acknowledged: 0,
            durable: 0,
            ticks: 0,
            flushed_to: [0; 2],
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// It begins anew, and is empty.
    pub(crate) fn begins(&mut self) {
        (self.first_unit, self.next_at) = (1, 0);
        (self.acknowledged, self.durable) = (0, 0);
        self.clear();
    }

    /// Nobody needs what is in it.
    pub(crate) fn clear(&mut self) {
        self.units.clear();
        self.used_bytes = 0;
    }

    /// Has the ring room for one more write, besides those that wait? One always passes when it is empty.
    pub(crate) fn has_room(&self, length: u64, waiting_bytes: u64) -> bool {
        let accepted = self.used_bytes + waiting_bytes;
        accepted == 0 || accepted + bytes_of(length) <= self.bytes / 8 * 7
    }

    /// Where a unit of so many bytes may go.
    pub(crate) fn room(&self, bytes: u64) -> Option<Room> {
        assert!(bytes <= self.bytes, "a ring holds the largest write: {bytes}");
        let (at, skipped) = if self.next_at + bytes <= self.bytes {
            (self.next_at, 0)
        } else {
            // in an empty ring nothing lies there
            (0, if self.units.is_empty() { 0 } else { self.bytes - self.next_at })
        };
        let fits = self.used_bytes + skipped + bytes <= self.bytes;
        fits.then_some(Room { at, skipped, bytes })
    }

    pub(crate) fn next_unit(&self) -> u64 {
        self.first_unit + self.units.len() as u64
    }

    /// Where this unit is in `units`, or will be.
    fn index(&self, unit: u64) -> usize {
        let known = self.first_unit..=self.next_unit();
        assert!(known.contains(&unit), "a unit is in the ring, or comes next");
        (unit - self.first_unit) as usize
    }

    /// A unit goes there that has so many writes which each leg lacks.
    pub(crate) fn push(&mut self, room: Room, left: [u32; 2]) {
        self.ticks += 1;
        let bytes = room.skipped + room.bytes;
        let done_at = [self.ticks; 2];
        self.units.push_back(Unit { at: room.at, bytes, acknowledged: false, left, done_at });
        self.used_bytes += bytes;
        assert!(self.used_bytes <= self.bytes, "a ring is not used twice");
        assert!(room.at == self.next_at || room.at == 0, "units lie one behind the other");
        self.next_at = room.at + room.bytes;
        assert!(self.next_at <= self.bytes, "a unit does not wrap");
    }

    pub(crate) fn is_acknowledged(&mut self, unit: u64) {
        assert_eq!(unit, self.acknowledged + 1, "units are acknowledged in order");
        self.acknowledged = unit;
        let index = self.index(unit);
        self.units[index].acknowledged = true;
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    pub(crate) fn is_durable_upto(&mut self, unit: u64) {
        assert!(unit >= self.durable, "what is durable stays so");
        assert!(unit <= self.acknowledged, "a unit is acknowledged before it is durable");
        self.durable = unit;
    }

    /// A leg has a write of this unit.
    pub(crate) fn reached(&mut self, unit: u64, leg: usize) {
        let Some(index) = unit.checked_sub(self.first_unit) else { return };
        let Some(unit) = self.units.get_mut(index as usize) else { return };
        assert!(unit.left[leg] > 0, "a leg gets each write of a unit once");
        unit.left[leg] -= 1;
        if unit.left[leg] == 0 {
            self.ticks += 1;
            unit.done_at[leg] = self.ticks;
        }
    }

    /// What a flush of a leg that begins now will cover.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    pub(crate) fn leg_flushed(&mut self, leg: usize, ticks: u64) {
        assert!(ticks <= self.ticks, "a flush covers what was before it");
        self.flushed_to[leg] = self.flushed_to[leg].max(ticks);
    }

    /// The first unit that a leg may lack; `early`: that the lead may lack, flushed or not.
    pub(crate) fn first_kept(&self, roles: &Roles, early: bool) -> u64 {
        let durable = |unit: &&Unit| {
            let on = |leg: usize| {
                let flushed = unit.done_at[leg] <= self.flushed_to[leg];
                unit.left[leg] == 0 && (flushed || !roles.is_durable())
            };
            let early = early && unit.left[roles.lead()] == 0;
            let all = (0..2).all(|leg| !roles.is_alive(leg) || on(leg));
            unit.acknowledged && (all || early)
        };
        self.first_unit + self.units.iter().take_while(durable).count() as u64
    }

    /// Is it worth a write of the head to begin at this unit?
    pub(crate) fn is_worth_moving(&self, tail: u64) -> bool {
        let count = self.index(tail);
        let freed: u64 = self.units.iter().take(count).map(|unit| unit.bytes).sum();
        let used = self.used_bytes * 100 > self.bytes * USED_PERCENT;
        let some = freed * 100 > self.bytes * FREED_PERCENT || tail == self.next_unit();
        used && freed > 0 && some
    }

    /// Legs whose flush would let the tail be moved from this unit, where roles do not bring it, or
    /// not soon enough.
    pub(crate) fn presses(&self, tail: u64, roles: &Roles) -> [bool; 2] {
        let percent = if roles.takes_turns() { PRESSING_PERCENT } else { USED_PERCENT };
        let Some(unit) = self.units.get(self.index(tail)) else {
            return [false; 2];
        };
        let full = self.used_bytes * 100 > self.bytes * percent;
        if !full || roles.phase() == Phase::Turning {
            return [false; 2];
        }
        [0, 1].map(|leg| {
            let lacks = unit.left[leg] == 0 && unit.done_at[leg] > self.flushed_to[leg];
            roles.is_alive(leg) && lacks
        })
    }

    /// Where this unit lies, or will lie.
    pub(crate) fn at(&self, unit: u64) -> u64 {
        self.units.get(self.index(unit)).map_or(self.next_at, |unit| unit.at)
    }

    /// The head that begins at this unit is durable.
    pub(crate) fn begins_at(&mut self, tail: u64) {
        assert!(tail >= self.first_unit, "the tail never goes back");
        while self.first_unit < tail {
            let unit = self.units.pop_front().expect("it was in the ring");
            assert!(unit.acknowledged, "what the ring lets go was written");
            assert!(self.used_bytes >= unit.bytes, "what goes was counted");
            self.used_bytes -= unit.bytes;
            self.first_unit += 1;
        }
        assert!(!self.units.is_empty() || self.used_bytes == 0, "an empty ring is not in use");
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::PairConfig;
    use super::*;
    use tandem_block::Instant;

    const RING: u64 = 1_000;

    fn filled(units: u64) -> Ring {
        let mut ring = Ring::new(RING);
        for unit in 1..=units {
            let room = ring.room(200).expect("there is room");
            ring.push(room, [1; 2]);
            ring.is_acknowledged(unit);
        }
        ring
    }

    #[test]
    fn units_lie_one_behind_the_other_and_the_last_one_does_not_wrap() {
        let mut ring = filled(3);
        assert_eq!(ring.room(300).map(|room| (room.at, room.skipped)), Some((600, 0)));
        assert_eq!(ring.room(500), None, "the first units are in the way");
        ring.begins_at(3);
        assert_eq!(ring.room(400).map(|room| (room.at, room.skipped)), Some((600, 0)));
        let room = ring.room(401);
        assert_eq!(room, None, "with what is left unused it does not fit");
        ring.push(ring.room(400).expect("asked above"), [0; 2]);
        assert_eq!(ring.room(400).map(|room| (room.at, room.skipped)), Some((0, 0)));
        assert_eq!((ring.used_bytes(), ring.at(3), ring.next_unit()), (600, 400, 5));
    }

    /// A unit is kept until both legs have it and were flushed since; a dead leg needs none.
    #[test]
    fn a_unit_is_kept_until_both_legs_have_it_durably() {
        let mut roles = Roles::new(&PairConfig::default(), true);
        roles.serves(Instant::ZERO);
        let mut ring = filled(4);
        assert_eq!(ring.first_kept(&roles, false), 1);
        ring.reached(1, 0);
        ring.reached(1, 1);
        ring.leg_flushed(0, ring.ticks());
        assert_eq!(ring.first_kept(&roles, false), 1, "one of them was flushed");
        assert_eq!(ring.presses(1, &roles), [false, true]);
        assert_eq!(ring.first_kept(&roles, true), 2, "early");
        ring.reached(2, 0);
        ring.leg_flushed(1, ring.ticks());
        assert_eq!(ring.first_kept(&roles, false), 2);
        assert!(ring.is_worth_moving(2) && !ring.is_worth_moving(1));
        ring.leg_flushed(0, ring.ticks());
        roles.is_absent(1);
        assert_eq!(ring.first_kept(&roles, false), 3);
    }
}
