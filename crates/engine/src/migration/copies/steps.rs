//! Mirror copies, step by step.

use super::{Copies, Need, WANTED_MAX, copy_need};
use crate::drain::Evacuation;
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::{Logical, Map};
use crate::migration::Migration;
use crate::migration::moves::Moves;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::volumes::Volumes;
use tandem_block::PayloadId;

impl Copies {
    /// Does anybody wait for a home?
    pub(crate) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Is no block to be brought to a second place, and does nobody wait for that?
    #[inline]
    pub(crate) fn want_nothing(&self) -> bool {
        self.awaited.is_empty() && self.wanted.is_empty() && self.detoured.is_empty()
    }

    /// What a home was waited for has made durable: if users wait, the batch that says so is not to.
    pub(crate) fn durable(&mut self) {
        self.hurries |= self.are_awaited();
    }

    /// Is no block under way to an SSD because it is wanted there?
    pub(crate) fn restores_nothing(&self) -> bool {
        self.restoring.is_none()
    }

    /// Shall a commit begin at once?
    pub(crate) fn hurry(&self) -> bool {
        self.hurries
    }

    /// A batch has what was pending.
    pub(crate) fn composed(&mut self) {
        self.hurries = false;
    }
}

impl Copies {
    /// The tier wants these blocks on an SSD and on a hard drive.
    pub(crate) fn want_copies(&mut self, first: Logical, count: u64, io: &mut DeviceIo) {
        for block in first..first + count {
            if self.wanted.len() == WANTED_MAX && !self.wanted.contains(&block) {
                io.stats_mut().copies_forgone += 1;
                continue;
            }
            self.wanted.insert(block);
        }
        assert!(self.wanted.len() <= WANTED_MAX, "what is wanted is bounded");
    }

    /// These blocks are in a log by now, and their copies on an SSD are on the way: they lack nothing more, and
    /// whoever waits for what they were before waits in vain.
    pub(crate) fn are_made(&mut self, first: Logical, count: u64) {
        for block in first..first + count {
            self.looks |= self.wanted.remove(&block);
            self.detoured.remove(&block);
        }
    }

    /// Its user is answered when both places have it.
    pub(crate) fn await_both(&mut self, id: TaskId) {
        debug_assert!(!self.awaited.contains(&id), "a write waits once for its two places");
        self.awaited.push(id);
        (self.looks, self.hurries) = (true, true);
    }

    /// Could a home be written now for a wanted copy?
    pub(crate) fn copies_can_move(&self, commit: &Commit) -> bool {
        !self.wanted.is_empty() && commit.durable() >= self.not_before
    }

    /// Does a wanted copy wait until nobody is in the way?
    pub(crate) fn copies_await_quiet(&self) -> bool {
        !self.detoured.is_empty()
    }

    /// A move ended: if it brought a wanted block to an SSD, its home is next.
    pub(crate) fn restoring_done(&mut self, moved: bool, io: &mut DeviceIo) {
        self.looks = true;
        match self.restoring.take() {
            Some(block) if moved => self.want_copies(block, 1, io),
            Some(_) => io.stats_mut().copies_forgone += 1,
            None => {}
        }
    }
}

impl Copies {
    /// Answers whose blocks are in both places, or will not be.
    #[inline]
    pub(crate) fn answer_both(
        &mut self,
        requests: &mut Requests,
        commit: &Commit,
        moves: &Moves,
        io: &mut DeviceIo,
    ) {
        if !self.awaited.is_empty() {
            self.answer_awaited(requests, commit, moves, io);
        }
    }

    fn answer_awaited(
        &mut self,
        requests: &mut Requests,
        commit: &Commit,
        moves: &Moves,
        io: &mut DeviceIo,
    ) {
        let in_vain =
            commit.is_broken() || io.hdds().is_empty() || !io.is_serving() || io.is_stopping();
        if !(self.looks || in_vain) {
            return;
        }
        self.looks = false;
        for id in std::mem::take(&mut self.awaited) {
            let task = &requests[id];
            let is_awaited = |block| self.wanted.contains(&block) || moves.is_moving(block);
            if !in_vain && (task.first..task.end).any(is_awaited) {
                self.awaited.push(id);
            } else {
                requests.answer(id, PayloadId::NONE, 0, io);
            }
        }
    }

    fn begin_copies_home(
        &mut self,
        map: &mut Map,
        objects: &Objects,
        commit: &Commit,
        moves: &mut Moves,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) -> bool {
        assert!(moves.is_idle(), "copies are made while no other move is under way");
        assert!(commit.durable() >= self.not_before, "copies wait for the batch that they need");
        let blocks_max = (io.config().writeback_run_bytes / tandem_block::BLOCK_BYTES) as usize;
        let mut home = Vec::new();
        let mut elsewhere = Vec::new();
        let mut done = Vec::new();
        for &block in &self.wanted {
            match copy_need(block, io, map, objects, moves) {
                Need::Nothing => done.push(block),
                Need::Home(slot) => home.push((block, slot)),
                Need::Ssd => elsewhere.push(block),
                Need::Batch => {}
            }
            if home.len() == blocks_max {
                break;
            }
        }
        self.looks |= !done.is_empty() || !elsewhere.is_empty();
        let taken = done.iter().chain(&elsewhere).chain(home.iter().map(|(block, _)| block));
        for block in taken {
            self.wanted.remove(block);
        }
        for block in elsewhere {
            if self.detoured.len() < WANTED_MAX {
                self.detoured.insert(block);
            } else {
                io.stats_mut().copies_forgone += 1;
            }
        }
        if home.is_empty() {
            // a batch is due within the commit interval; looking again before it would be in vain
            self.not_before = commit.durable() + 1;
            return false;
        }
        io.stats_mut().copies_made += home.len() as u64;
        moves.begin_writeback_of(&home, commit, map, evacuation, io);
        true
    }
}

impl Migration {
    fn begin_restoring(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        while let Some(&block) = self.copies.detoured.first() {
            let need = copy_need(block, io, &store.map, &volumes.objects, &self.moves);
            if need == Need::Ssd && store.map.ssd_free() == 0 {
                // nor would those behind it find room
                self.copies.detoured.remove(&block);
                io.stats_mut().copies_forgone += 1;
                continue;
            }
            if need == Need::Ssd {
                if !self.moves.start_merge(block, &mut store.map, requests, io) {
                    return false; // a user's request holds it: the next turn asks again
                }
                assert!(self.copies.restoring.is_none(), "one block at a time comes to an SSD");
                self.copies.restoring = Some(block);
                self.copies.detoured.remove(&block);
                return true;
            }
            self.copies.detoured.remove(&block);
            if need != Need::Nothing {
                self.copies.want_copies(block, 1, io);
            }
        }
        self.copies.copies_can_move(&store.commit)
            && self.copies.begin_copies_home(
                &mut store.map,
                &volumes.objects,
                &store.commit,
                &mut self.moves,
                &self.evacuation,
                io,
            )
    }

    /// Begins a move for blocks that lack a place. False: nothing can be done now.
    pub(crate) fn begin_copies(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        (self.copies.copies_can_move(&store.commit)
            && self.copies.begin_copies_home(
                &mut store.map,
                &volumes.objects,
                &store.commit,
                &mut self.moves,
                &self.evacuation,
                io,
            ))
            || (self.copies.copies_await_quiet()
                && io.is_quiet()
                && self.begin_restoring(store, volumes, requests, io))
    }
}
