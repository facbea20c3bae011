//! In which order does an engine take in an event, and ask its owners?
//!
//! Source: design decision 5. The only file that knows the order. An event is taken in first. Then each owner
//! is asked once what has become possible. An owner never calls the engine: what one of its steps leads to is
//! in a queue (`requests::Next`, `io::News`), and `go_on` hands it to whom it concerns.
//!
//! ```text
//! event ─▶ go_on ─▶ background ─▶ requests held back, batches, commit ─▶ moves, tiers ─▶ dispatch ─▶ timer
//!            ▲                                                                         │
//!            └───────────────── what failed or found no room lets others begin ◀───────┘
//! ```

use super::Engine;
use super::commits::Owners;
use crate::StartError;
use crate::device::Service;
use crate::io::DeviceIo;
use crate::io::deadlines::Heard;
use crate::io::{News, Phase};
use crate::owner::Ended;
use crate::port::{Command, Event};
use crate::requests::Next;
use crate::requests::detour::{detours_wait, run_detours};
use crate::requests::hedge::hedges_due;
use crate::requests::ordering::TaskId;
use crate::store::Store;
use tandem_block::{DeviceId, Instant, IoError, Op};

/// When the next write may take room on an SSD, if one waits for that.
fn room_due(store: &mut Store, io: &DeviceIo) -> Instant {
    let next = store.room().next();
    let waits = next > io.now() && io.ssds().iter().any(|&id| io[id].has_waiting());
    if waits { next } else { Instant::NEVER }
}

impl Engine {
    /// Takes one event at `now`, which never goes back, and appends what the event loop shall do.
    pub fn on(&mut self, now: Instant, event: Event<'_>, commands: &mut Vec<Command>) {
        let before = commands.len();
        self.io.begin_event(now, commands);
        if now >= self.io.deadline_due() {
            self.abandon_overdue();
            self.go_on();
        }
        self.take_in(event);
        self.go_on();
        self.policy.ledger.turn_the_page(&self.io);
        if self.io.is_serving() {
            self.turn();
        }
        self.replicas.replacement.divert_all(&mut self.io);
        if !self.replicas.pairs.is_empty() {
            self.run_mirrors();
        }
        assert!(
            !self.io.has_news() && !self.requests.has_next(),
            "what steps have led to is done before the event ends"
        );
        self.io.end_event(before, commands);
    }

    fn take_in(&mut self, event: Event<'_>) {
        let Engine { io, store, volumes, requests, policy, replicas, start, .. } = self;
        match event {
            Event::Request(request) => {
                requests.on_request(request, store, volumes, policy, io);
                self.mix(1, request.id.0);
            }
            Event::Batch(batch) => {
                volumes.on_batch(batch, store, requests, policy, io);
                self.mix(5, batch.id.0);
            }
            Event::Completion { io, status, checksums, bytes, took } => {
                self.mix(2 + u64::from(status.is_err()), u64::from(io.0));
                if let Heard::Of(io) = self.io.heard(io) {
                    self.hear((io, took), status, checksums, bytes);
                }
            }
            Event::Wake => {
                io.woke();
                self.mix(4, 0);
            }
            Event::Start if replicas.pairs.is_empty() => {
                start.on_start(store, volumes, policy, replicas, io);
            }
            Event::Start => replicas.pairs.start_mirrors(io),
            Event::Shutdown => start.shut_down(io),
        }
    }

    // ---- what steps have led to ----

    /// Has any step led to something that nobody has done yet?
    #[inline]
    fn has_more(&self) -> bool {
        self.io.has_news() || self.requests.has_next() || self.replicas.replacement.has_answered()
    }

    /// Hands on what steps have led to, until nothing more comes of it. False: there was nothing, which is
    /// so nearly always, and asked many times in each turn.
    #[inline]
    fn go_on(&mut self) -> bool {
        if !self.has_more() {
            return false;
        }
        self.hand_on();
        true
    }

    /// What became of drives comes first, then answers that a replacement had kept back, then requests.
    #[inline(never)]
    fn hand_on(&mut self) {
        while self.has_more() {
            self.hear_news();
            self.hear_kept();
            if let Some(next) = self.requests.next() {
                self.step(next);
            }
        }
    }

    fn step(&mut self, next: Next) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        match next {
            Next::Begin(id) => self.begin(id),
            Next::Read(id) => requests.begin_user_read(id, store, volumes, migration, policy, io),
            Next::Written(id) => requests.finish_write(id, store, volumes, migration, policy, io),
            Next::Durable(id, status) => {
                requests.durable(id, status, store, volumes, policy, io);
            }
            Next::Over(id, payload) => {
                requests.end((id, payload), store, volumes, migration, policy, io);
            }
        }
    }

    /// Nothing is before this request in its blocks any more.
    fn begin(&mut self, id: TaskId) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        let task = &requests[id];
        assert!(task.blocked_by == 0, "a request begins when nothing is before it");
        assert!(
            task.holds == task.request.op.is_write(),
            "writes hold their blocks, reads hold none"
        );
        if task.request.op.is_write() && policy.tiers.has_share() {
            policy.tiers.note_changing(task.first, task.end);
        }
        if volumes.fails_with_link(id, store, requests, policy, io) {
            return;
        }
        match requests[id].request.op {
            Op::Read => requests.begin_user_read(id, store, volumes, migration, policy, io),
            Op::Write => requests.begin_user_write(id, store, policy, io),
            Op::Discard | Op::WriteZeroes => requests.begin_zeroes(id, store, policy, io),
            Op::Flush => unreachable!("flushes wait in the commit"),
        }
    }

    /// Answers that a replacement has kept back until both drives had answered.
    #[inline]
    fn hear_kept(&mut self) {
        while let Some((io, ended)) = self.replicas.replacement.next_answered() {
            self.on_completion((io, ended.took), ended.status, &ended.checksums, &ended.bytes);
            // a drive that has failed just now is out of service for everybody before the next answer
            self.hear_news();
        }
    }

    /// What became of drives and their commands.
    #[inline]
    fn hear_news(&mut self) {
        while let Some(news) = self.io.next_news() {
            self.hear_of(news);
        }
    }

    fn hear_of(&mut self, news: News) {
        let Engine { io, store, volumes, migration, policy, replicas, start, .. } = self;
        match news {
            News::Unsent(device, owner, error) => {
                let status = Err(error);
                self.finish_io(owner, Ended { device, status, checksums: &[], bytes: &[] });
            }
            News::Superblocks { clean, copy } => self.write_superblocks(clean, copy),
            News::SuperblocksWritten { copy } => self.superblocks_written(copy),
            // a read of a successor may end behind a stop
            News::StartReadOver if start.is_cut() => {}
            News::StartReadOver => {
                start.recovery_read_over(store, volumes, migration, policy, replicas, io);
            }
            News::StartWritesOver => {
                start.writes_over(store, volumes, migration, policy, replicas, io);
            }
            News::Lags => store.run_lagging(volumes, migration, replicas, io),
            News::TakenOut { device, service, first } => {
                let fault = (device, service, first);
                store.tell_of_fault(fault, volumes, migration, policy, io);
            }
        }
    }

    /// Drives that have left a command without an answer for too long: nothing is asked of them any more,
    /// and who waits for them is told.
    fn abandon_overdue(&mut self) {
        for drive in self.io.overdue() {
            let error = IoError::NoAnswer(drive);
            self.io.stats_mut().silent_drives += 1;
            // a pair, or a replacement, does without one of its drives
            let device = self.io.drives().get(drive).filter(|device| !device.is_pair);
            if device.is_some() && self.io.is_serving() {
                self.store.metadata.take_out(drive, Service::Out(error), &mut self.io);
                self.hear_news();
            }
            for io in self.io.abandon(drive) {
                self.hear((io, None), Err(error), &[], &[]);
            }
        }
    }

    // ---- the turn ----

    /// What every event may have made possible, in order.
    fn turn(&mut self) {
        self.run_background();
        self.go_on();
        self.run_requests();
        self.run_migration();
        self.stop_if_durable();
        let short_of_space = self.io.waits_for_space();
        self.dispatch_all();
        self.make_room(short_of_space);
        // nothing can be made durable any more, and no event will tell who has come to wait for it just now
        while self.store.commit.refuses() {
            self.run_commit();
            self.dispatch_all();
        }
        if self.io.is_stopping() {
            // what waited for a drive that is out of service has ended just now, and no event follows
            self.stop_if_durable();
            self.dispatch_all();
        }
        while self.go_on() || self.lets_paced_begin() {
            self.run_requests();
            self.dispatch_all();
        }
        self.arm_timer();
    }

    /// Drives that come, go or fail, and the metadata that follows.
    fn run_background(&mut self) {
        let Engine { io, store, volumes, requests, migration, policy, replicas, .. } = self;
        replicas.run_replacement(store, volumes, requests, migration, policy, io);
        self.go_on();
        let Engine { io, store, volumes, requests, migration, policy, replicas, .. } = self;
        migration.evacuation.run_drain(
            &mut store.map,
            &mut volumes.objects,
            &store.commit,
            &mut policy.tiers,
            &mut store.metadata,
            io,
        );
        store.deferred_free.release_freed(&mut store.map, io);
        migration.tail_copies.rescue_tails(io, &mut store.map, &mut store.commit, requests);
        store.run_lagging(volumes, migration, replicas, io);
        migration.tail_copies.probe_failed(
            requests,
            &mut store.metadata_replica,
            &mut policy.steering,
            &policy.tiers,
            io,
        );
        // a checkpoint that ends makes room in the journal, so it comes before the commit
        store.run_checkpoint(volumes, migration, replicas, io);
        // a snapshot looks at a moment between two commits, and there may be no other
        store.run_metadata_replica(volumes, io);
    }

    /// What waits for room in a commit, and the commit.
    fn run_requests(&mut self) {
        loop {
            let Engine { io, store, volumes, requests, policy, .. } = self;
            requests.run_paced(store, volumes, policy, io);
            volumes.run_held_back(store, requests, policy, io);
            self.go_on();
            let Engine { io, store, volumes, requests, policy, .. } = self;
            volumes.run_batches(store, requests, policy, io);
            self.go_on();
            self.run_commit();
            // a commit with nothing to write ends at once: who has waited for its end may go on, and no event follows
            if !self.go_on() && !self.lets_paced_begin() {
                return;
            }
        }
    }

    /// May writes begin that waited for commits or for a checkpoint? These have gone on, or never will.
    fn lets_paced_begin(&self) -> bool {
        self.requests.lets_paced_begin(&self.store, &self.io)
    }

    fn run_commit(&mut self) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        store.run_commit(&mut Owners { volumes, requests, migration, policy }, io);
    }

    /// Blocks that move, and what their moves let begin.
    fn run_migration(&mut self) {
        let Engine { io, store, volumes, .. } = self;
        store.run_metadata_replica(volumes, io);
        self.run_moves();
        let moved = self.go_on();
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        policy.run_tiers(store, volumes, requests, migration, io);
        if self.go_on() || moved {
            self.run_requests();
        }
        let Engine { io, store, requests, migration, policy, .. } = self;
        if detours_wait(requests) {
            let kept_blocks = policy.tiers.kept_blocks_max(&store.map, io);
            run_detours(requests, kept_blocks, &mut store.map, io);
        }
        let (copies, tiers) = (&mut migration.copies, &mut policy.tiers);
        migration.moves.flush_homed_at_rest(&store.commit, copies, tiers, &store.map, io);
    }

    fn run_moves(&mut self) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        migration.run_moves(store, volumes, requests, policy, io);
    }

    /// Issues what the drives can take now. What fails there may let others begin. A write whose drive is
    /// full, or takes none any more, goes into the queue of another one, which may have been asked before.
    fn dispatch_all(&mut self) {
        loop {
            let Engine { io, store, volumes, requests, migration, policy, .. } = self;
            io.take_queued();
            for device in 0..io.drives().len() {
                let device = DeviceId(device as u8);
                requests.dispatch(device, store, volumes, migration, policy, io);
            }
            let ended = self.go_on();
            if ended {
                self.run_requests();
            }
            if !self.io.take_queued() && !ended {
                break;
            }
        }
    }

    /// Writes that wait for space: what else may make room, or why they fail.
    fn make_room(&mut self, short_before: bool) {
        if self.io.waits_for_space() && !short_before {
            // a write has just found no room, and what was freed just now was too little for it: nothing else
            // may happen that would make room, nor may a commit wait for that write any longer
            self.run_requests();
            self.run_moves();
            self.dispatch_all();
        }
        while self.io.waits_for_space() && self.fail_without_room() {
            // who waited behind these may go on, and no event follows
            self.go_on();
            self.run_requests();
            self.run_moves();
            self.dispatch_all();
        }
    }

    fn fail_without_room(&mut self) -> bool {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        store.fail_without_room(volumes, requests, migration, policy, io)
    }

    fn stop_if_durable(&mut self) {
        let Engine { io, store, volumes, requests, migration, policy, replicas, .. } = self;
        if io.is_stopping() {
            store.stop_if_durable(volumes, requests, migration, policy, replicas, io);
        }
    }

    /// Asks to be woken when the next timed thing is due.
    fn arm_timer(&mut self) {
        let Engine { io, store, volumes, requests, migration, policy, replicas, .. } = self;
        let kept_bytes = volumes.journal_bytes_kept(store.journal.ring_bytes());
        let moves_due = migration.moves.moves_due(
            &store.map,
            &store.metadata_replica,
            &migration.copies,
            &policy.steering,
            &policy.tiers,
            io,
        );
        let due = (store.commit.commit_due(kept_bytes, &store.journal, io))
            .min(store.checkpoint_due(io))
            .min(room_due(store, io))
            .min(store.metadata.due(io.now()))
            .min(store.metadata_replica.due(io))
            .min(store.metadata_replica.controllers_due(io))
            .min(migration.tail_copies.probe_due(io))
            .min(migration.tail_copies.lost_logs_due())
            .min(moves_due)
            .min(migration.evacuation.drain_due(&store.commit, &migration.moves, io))
            .min(policy.limits_due(io))
            .min(hedges_due(policy, requests, io))
            .min(policy.tiers.tiers_due(&store.commit, io))
            .min(replicas.replacement.replacement_due(io));
        io.wake_by(due);
    }

    // ---- pairs ----

    /// Lets mirrors take what is theirs, until nothing more comes of it.
    fn run_mirrors(&mut self) {
        loop {
            let Engine { io, replicas, .. } = self;
            replicas.pairs.route(io);
            let ended = replicas.pairs.advance(io);
            let opened = self.take_opened();
            for end in &ended {
                self.on_completion((end.io, None), end.status, &end.checksums, &end.bytes);
                self.go_on();
            }
            if ended.is_empty() && !opened {
                break;
            }
            if self.io.is_serving() {
                self.turn();
            }
            self.replicas.replacement.divert_all(&mut self.io);
        }
        let Engine { io, replicas, .. } = self;
        replicas.pairs.stop_after_mirrors(io);
        io.wake_by(replicas.pairs.due());
    }

    /// Starts the engine when its pairs are ready; true if it did.
    fn take_opened(&mut self) -> bool {
        let Engine { io, store, volumes, policy, replicas, start, .. } = self;
        let opened = match replicas.pairs.take_opened() {
            Ok(opened) => opened,
            Err(error) => {
                if !start.is_cut() {
                    start.refuse(StartError::Pair(error), io);
                }
                return false;
            }
        };
        let begins = opened && io.phase() == Phase::Created;
        if begins {
            start.on_start(store, volumes, policy, replicas, io);
        }
        begins
    }

    // ---- digest ----

    /// Everything that happened so far, in 64 bits: equal runs have equal digests.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    #[inline]
    fn mix(&mut self, kind: u64, id: u64) {
        let value = self.io.now().ns.wrapping_mul(8).wrapping_add(kind) ^ id.rotate_left(40);
        let mixed = (self.digest ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.digest = mixed ^ mixed >> 29;
    }
}
