//! Which move begins next, and how one goes on.

use super::merging::is_readable;
use super::sums::advance_reading;
use super::{HOMED_BLOCKS_MAX, Stage};
use crate::io::DeviceIo;
use crate::log::gc::Need;
use crate::map::objects::Objects;
use crate::map::{Logical, Map};
use crate::migration::Migration;
use crate::mutant::Mutant;
use crate::owner::MoveKind;
use crate::policy::Policy;
use crate::requests::Requests;
use crate::requests::arrival::REQUEST_BYTES_MAX;
use crate::store::Store;
use crate::store::room::Room;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

impl Migration {
    /// A source of a move was read.
    pub(crate) fn move_read_done(
        &mut self,
        at: u64,
        status: Result<(), IoError>,
        checksums: &[u32],
        store: &mut Store,
        io: &mut DeviceIo,
    ) {
        let contents = io.config().contents;
        let m = self.moves.active.as_mut().expect("a move was reading");
        assert!(m.stage == Stage::Reading, "a read of a move ends while it reads");
        assert!(!m.kind.is_of_one_block(), "one block is read as a user would read it");
        assert!(m.outstanding > 0, "a move waits for each of its reads");
        assert!((at as usize) < m.parts.len(), "a move reads its own parts");
        m.outstanding -= 1;
        let moves_home = matches!(m.kind, MoveKind::LogGc | MoveKind::WriteBack);
        let mut unmovable = Vec::new();
        if let Err(error) = status {
            m.failed = true;
            if moves_home && m.parts.len() == 1 {
                unmovable.push((m.parts[0].logical, error));
            } else if m.kind == MoveKind::LogGc {
                self.moves.single = m.parts.len();
            }
        } else if contents {
            for (part, &found) in m.parts[at as usize..].iter_mut().zip(checksums) {
                part.found = Some(found);
            }
        }
        unmovable.into_iter().for_each(|(block, error)| {
            self.moves.leave_unmovable(block, error, &mut store.map, io)
        });
        advance_reading(&mut self.moves, &mut self.evacuation, store, io);
    }

    fn advance_move(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let m = self.moves.active.as_ref().expect("asked by the caller");
        if m.kind.is_of_one_block() || m.stage != Stage::Waiting {
            return;
        }
        if m.kind == MoveKind::Drain {
            return if m.failed {
                self.evacuation.drained_unread(
                    &mut store.map,
                    &mut self.moves,
                    &mut self.copies,
                    &mut policy.tiers,
                    io,
                )
            } else {
                self.evacuation.write_drained(
                    &mut store.map,
                    &mut self.moves,
                    &mut self.copies,
                    &mut policy.tiers,
                    io,
                )
            };
        }
        if m.kind == MoveKind::Rehome {
            return self.advance_rehoming(store, volumes, policy, io);
        }
        // nobody waits for it, and the stop would
        let is_given_up = io.is_stopping() && !io.waits_for_space() && !self.copies.are_awaited();
        if m.failed || is_given_up {
            self.moves.end_move(
                &mut store.map,
                &mut self.copies,
                &mut policy.tiers,
                &mut self.evacuation,
                io,
            );
            return;
        }
        let ready = self.moves.home_writes.has_room()
            && (io.is_fixed()
                || ((store.commit.durable() >= m.after_batch || io.breaks(Mutant::EarlyHome))
                    && self.moves.are_homes_unread(&volumes.objects, io)));
        if ready {
            self.moves.write_homes(
                &mut store.map,
                &mut volumes.objects,
                &mut self.copies,
                &mut policy.tiers,
                &mut self.evacuation,
                io,
            );
        }
    }

    /// Begins or advances background moves.
    #[inline]
    pub(crate) fn run_moves(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        self.copies.answer_both(requests, &store.commit, &self.moves, io);
        if (io.hdds().is_empty() && !self.evacuation.is_under_way() && self.moves.is_idle())
            || store.commit.is_broken()
        {
            return;
        }
        if self.moves.active.is_some() {
            // space may run out while a move waits for the drive: then it must not wait for users to
            // leave, who want the drive all the more for finding its log full
            self.moves.urgent = self.moves.urgent
                || self.moves.space_is_urgent(
                    self.moves.log_need(io),
                    &store.map,
                    &self.copies,
                    &policy.tiers,
                    io,
                );
            if !io.is_fixed() {
                // a drive that writes a log without a pause may hold the move up for long
                self.moves.drop_clean_copies(
                    &mut store.commit,
                    &mut store.map,
                    &volumes.objects,
                    io,
                );
                self.moves.flush_homed(&store.commit, &self.copies, &policy.tiers, &store.map, io);
            }
            advance_reading(&mut self.moves, &mut self.evacuation, store, io);
            self.advance_move(store, volumes, policy, io);
            return;
        }
        assert!(
            self.copies.restores_nothing(),
            "a block is brought to an SSD by the move under way"
        );
        // a stop waits for requests, and these may wait for room
        let stops = io.is_stopping() && !io.waits_for_space();
        if !io.is_serving() || stops {
            return;
        }
        if io.now() < self.moves.rests_until {
            return;
        }
        if self.has_nothing_to_move(&store.map, &policy.tiers, io) {
            (self.moves.writing_back, self.moves.urgent) = (false, false);
            self.moves.cleans_logs = false;
            return;
        }
        let is_alone = self.moves.is_idle();
        if !is_alone && self.evacuation.is_under_way() {
            return;
        }
        if is_alone && self.begin_draining(store, volumes, requests, io) || io.hdds().is_empty() {
            advance_reading(&mut self.moves, &mut self.evacuation, store, io);
            return;
        }
        self.begin_next(store, volumes, requests, policy, io);
        advance_reading(&mut self.moves, &mut self.evacuation, store, io);
    }

    /// Is there certainly nothing to be moved, and nothing that was moved to be flushed? It is asked in each
    /// turn, and nearly always so.
    #[inline]
    fn has_nothing_to_move(&self, map: &Map, tiers: &Tiers, io: &DeviceIo) -> bool {
        let config = io.config();
        let gc_percent = config.log_gc_percent.min(config.log_stop_percent);
        let is_low =
            |id: &DeviceId| io[*id].log.as_ref().is_none_or(|log| log.used_percent() < gc_percent);
        map.spare_copies() == 0
            && !self.moves.merging.wants_quiet(map)
            && self.moves.homed.is_empty()
            && !io.waits_for_space()
            && !self.moves.is_dirty(map, config)
            && self.copies.want_nothing()
            && self.promotions.wait_for_none()
            && !tiers.much_is_demoting()
            && !self.evacuation.is_under_way()
            && io.hdds().iter().all(is_low)
    }

    /// Begins the move that is wanted most.
    fn begin_next(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        if !io.is_fixed() {
            self.moves.drop_clean_copies(&mut store.commit, &mut store.map, &volumes.objects, io);
            self.moves.flush_homed(&store.commit, &self.copies, &policy.tiers, &store.map, io);
            // what lies on an SSD goes home in any case where a write waits for room
            self.moves.writing_back = may_need_room(&store.map, io)
                || self.moves.wants_writeback(
                    io.is_quiet(),
                    &store.map,
                    &policy.steering,
                    &policy.tiers,
                    io,
                );
        }
        let log_need = self.moves.log_need(io);
        self.moves.urgent =
            self.moves.space_is_urgent(log_need, &store.map, &self.copies, &policy.tiers, io);
        let is_alone = self.moves.is_idle();
        let has_room = is_alone && self.moves.homed.count() < HOMED_BLOCKS_MAX;
        if has_room && self.copies.are_awaited() && self.begin_copies(store, volumes, requests, io)
        {
            return;
        }
        if self.moves.writing_back {
            if self.moves.begin_writeback(
                &mut store.map,
                &volumes.objects,
                &mut store.commit,
                &policy.tiers,
                &self.evacuation,
                io,
            ) {
                return;
            }
            // what is dirty is home already, or was not found: the flush makes it clean
            if is_alone && (io.waits_for_space() || io.is_quiet()) {
                self.moves.want_home_flush(io);
            }
        }
        if has_room && self.begin_copies(store, volumes, requests, io) {
            return;
        }
        self.moves.cleans_logs =
            log_need != Need::None && self.begin_log_gc(store, volumes, requests, io);
        if self.moves.cleans_logs || !is_alone {
            return;
        }
        if self.promotions.begin_promotion(
            &mut store.map,
            requests,
            &mut self.moves,
            &policy.ledger,
            io,
        ) {
            return;
        }
        if let Some(block) = self.next_merge(&store.map, &volumes.objects, io) {
            self.moves.start_merge(block, &mut store.map, requests, io);
        }
    }
}

impl Migration {
    /// The next block to merge, if it is time for one.
    fn next_merge(&mut self, map: &Map, objects: &Objects, io: &DeviceIo) -> Option<Logical> {
        let mut merging = std::mem::take(&mut self.moves.merging);
        let can_move = |block| {
            !self.moves.is_unmovable(block, map, io) && is_readable(block, map, objects, io)
        };
        let next = merging.next(map, io, can_move);
        self.moves.merging = merging;
        next
    }
}

/// Does a write wait for room that SSDs may not have, however large it is? Then the high mark does not count: it may be
/// above what the write leaves.
fn may_need_room(map: &Map, io: &DeviceIo) -> bool {
    if !io.waits_for_space() {
        return false;
    }
    let slots = map.ssd_slots();
    let largest = io.ssds().len() as u64 * (REQUEST_BYTES_MAX / BLOCK_BYTES) + slots / 64;
    let is_failing = io.stats().faulted_drives > io.stats().healed_drives;
    is_failing || Room::of(map, 0).left() < largest.max(slots / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use crate::log::Log;
    use crate::map::SlotRegion;
    use crate::migration::moves::Part;
    use std::collections::BTreeMap;

    const SSD: DeviceId = DeviceId(0);
    const HDD: DeviceId = DeviceId(1);
    const SLOTS: u64 = 100;

    /// A request has 32 MiB at most: 8,192 blocks.
    #[test]
    fn a_write_that_waits_for_room_begins_write_back_below_the_high_mark() {
        for (slots, dirty, waits, needs) in [
            (8_192, 1, true, true),
            (8_192, 1, false, false),
            (65_536, 65_536 / 4 * 3, true, false),
            (65_536, 65_536 / 4 * 3 + 1, true, true),
            (16_384, 16_384 - 8_192 - 256, true, false),
            (16_384, 16_384 - 8_192 - 255, true, true),
        ] {
            let mut io = drives(1, 1);
            if waits {
                io.note_wait_for_space();
            }
            let ssd = SlotRegion::new(SSD, false, slots, 0);
            let mut map = Map::new(vec![ssd], slots as usize, 1);
            write(dirty, &mut map);
            assert_eq!(may_need_room(&map, &io), needs, "{dirty} of {slots}");
        }
    }

    type Change = fn(&mut Migration, &mut Map, &mut DeviceIo);

    fn write(blocks: u64, map: &mut Map) {
        for block in 0..blocks {
            let slot = map.allocate_ssd(1).expect("there is room").slot;
            map.assign(block, slot, 0);
        }
    }

    /// The marks are those of a pool that names none: 40 % for write-back, 70 % for a log.
    #[test]
    fn moves_look_wherever_one_thing_may_be_moved() {
        let changes: [(&str, bool, Change); 9] = [
            ("nothing", true, |_, _, _| {}),
            ("a few dirty blocks", true, |_, map, _| write(40, map)),
            ("dirty blocks at the low mark", false, |_, map, _| write(41, map)),
            ("a clean copy", false, |_, map, _| {
                map.assume_home(0, 1);
                assert!(map.assume_ssd_copy(0));
            }),
            ("fragments", false, |_, map, _| {
                write(1, map);
                let slot = map.allocate_ssd(1).expect("there is room").slot;
                assert!(map.assign_fragment(0, slot, 1, 0));
            }),
            ("a home to be flushed", false, |migration, map, _| {
                let copied = Some(map.watch(1));
                migration.moves.homed.add(1, Part { copied, ..Part::new(1, 2) }, true);
            }),
            ("a write without room", false, |_, _, io| io.note_wait_for_space()),
            ("a copy that is wanted", false, |migration, _, io| {
                migration.copies.want_copies(0, 1, io);
            }),
            ("a log at its mark", false, |_, _, io| {
                let log = io[HDD].log.as_mut().expect("it has one");
                (0..7).for_each(|_| assert!(log.append(10, true).is_some()));
            }),
        ];
        for (what, is_rest, change) in changes {
            let mut io = drives(1, 1);
            let ssd = SlotRegion::new(SSD, false, SLOTS, 0);
            let log = SlotRegion::new(HDD, true, SLOTS, 0);
            let mut map = Map::new(vec![ssd, log], 1000, 2);
            io[HDD].log = Some(Log::new(log, 10));
            let mut migration = Migration::new(io.config());
            change(&mut migration, &mut map, &mut io);
            let tiers = Tiers::new(BTreeMap::new(), None);
            assert_eq!(migration.has_nothing_to_move(&map, &tiers, &io), is_rest, "{what}");
        }
    }
}
