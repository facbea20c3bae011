//! In which order do the rooms see a request?
//!
//! Source: design decision 5. The only file that knows the order: admit → map → tier names the
//! intended place → steer may detour the write → a queue per device → qos → device. An event is
//! taken in first; then every room is asked once, in order, what it has made possible. What one job
//! does step by step is in `ops/`; the rooms are asked here and there, and never ask each other.

use crate::StartError;
use crate::engine::Engine;
use crate::io::DeviceIo;
use crate::io::Phase;
use crate::io::deadlines::Heard;
use crate::mirror;
use crate::port::{Command, Event, IoId};
use crate::replacement;
use crate::start::Start;
use tandem_block::{DeviceId, Duration, Instant, IoError};

impl Start {
    /// Fails to start, with a reason.
    pub(crate) fn refuse(&mut self, error: StartError, io: &mut DeviceIo) {
        self.end();
        io.enter(Phase::Stopped);
        io.send(Command::Started(Err(error)));
    }
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
        match event {
            Event::Request(request) => {
                self.mix(1, request.id.0);
                self.requests.on_request(
                    request,
                    &mut self.store,
                    &mut self.volumes,
                    &mut self.policy,
                    &mut self.io,
                );
            }
            Event::Batch(batch) => {
                self.mix(5, batch.id.0);
                self.volumes.on_batch(
                    batch,
                    &mut self.store,
                    &mut self.requests,
                    &mut self.policy,
                    &mut self.io,
                );
            }
            Event::Completion { io, status, checksums, bytes, took } => {
                self.mix(2 + u64::from(status.is_err()), u64::from(io.0));
                if let Heard::Of(io) = self.io.heard(io) {
                    self.hear((io, took), status, checksums, bytes);
                }
            }
            Event::Wake => {
                self.mix(4, 0);
                self.io.woke();
            }
            Event::Start if self.replicas.pairs.is_empty() => self.start.on_start(
                &mut self.store,
                &mut self.volumes,
                &mut self.policy,
                &mut self.replicas,
                &mut self.io,
            ),
            Event::Start => self.replicas.pairs.start_mirrors(&mut self.io),
            Event::Shutdown => self.io.on_shutdown(&mut self.start),
        }
        self.hear_kept();
        self.go_on();
        self.policy.ledger.turn_the_page(&self.io);
        if self.io.is_serving() {
            self.turn();
        }
        self.replicas.replacement.divert_all(&mut self.io);
        if !self.replicas.pairs.is_empty() {
            self.run_mirrors();
        }
        self.io.end_event(before, commands);
    }

    /// The end of a command, for who sent it.
    pub(crate) fn hear(
        &mut self,
        (io, took): (IoId, Option<Duration>),
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
    ) {
        if mirror::owner(io).is_some() {
            self.replicas.pairs.leg_completed(io, status, checksums, bytes, &mut self.io);
        } else if replacement::owns(io) {
            self.successor_completed(io, status, bytes);
        } else if !self.replicas.replacement.replacement_keeps(
            (io, took),
            status,
            checksums,
            bytes,
            &self.io,
        ) {
            self.on_completion((io, took), status, checksums, bytes);
        }
    }

    /// Answers that a replacement has kept back until both drives had answered.
    pub(crate) fn hear_kept(&mut self) {
        while let Some((io, ended)) = self.replicas.replacement.next_answered() {
            self.on_completion((io, ended.took), ended.status, &ended.checksums, &ended.bytes);
        }
    }

    /// What every event may have made possible, in order.
    pub(crate) fn turn(&mut self) {
        self.replicas.run_replacement(
            &mut self.store,
            &mut self.volumes,
            &mut self.requests,
            &mut self.migration,
            &mut self.policy,
            &mut self.io,
        );
        self.hear_kept();
        self.migration.evacuation.run_drain(
            &mut self.store.map,
            &mut self.volumes.objects,
            &mut self.store.commit,
            &mut self.policy.tiers,
            &mut self.store.metadata,
            &mut self.io,
        );
        self.store.deferred_free.release_freed(&mut self.store.map, &mut self.io);
        self.migration.tail_copies.rescue_tails(
            &mut self.io,
            &mut self.store.map,
            &mut self.requests,
        );
        self.store.run_lagging(
            &mut self.volumes,
            &mut self.migration,
            &mut self.replicas,
            &mut self.io,
        );
        self.migration.tail_copies.probe_failed(
            &mut self.requests,
            &mut self.store.metadata_replica,
            &mut self.policy.steering,
            &mut self.policy.tiers,
            &mut self.io,
        );
        // a checkpoint that ends makes room in the journal, so it comes before the commit
        self.store.run_checkpoint(
            &mut self.volumes,
            &mut self.migration,
            &mut self.replicas,
            &mut self.io,
        );
        // a snapshot looks at a moment between two commits, and there may be no other
        self.store.run_metadata_replica(&mut self.volumes, &mut self.io);
        self.go_on();
        self.run_requests();
        self.store.run_metadata_replica(&mut self.volumes, &mut self.io);
        self.migration.run_moves(
            &mut self.store,
            &mut self.volumes,
            &mut self.requests,
            &mut self.policy,
            &mut self.io,
        );
        let moved = self.go_on();
        self.policy.run_tiers(
            &mut self.store,
            &mut self.volumes,
            &mut self.requests,
            &mut self.migration,
            &mut self.io,
        );
        if self.go_on() || moved {
            self.run_requests();
        }
        self.migration.moves.flush_homed_at_rest(
            &mut self.store.commit,
            &mut self.migration.copies,
            &mut self.policy.tiers,
            &mut self.io,
        );
        if self.io.is_stopping() {
            self.store.stop_if_durable(
                &mut self.volumes,
                &mut self.requests,
                &mut self.migration,
                &mut self.policy,
                &mut self.replicas,
                &mut self.io,
            );
        }
        let short_of_space = self.io.waits_for_space();
        self.dispatch_all();
        if self.io.waits_for_space() && !short_of_space && self.io.ssds().is_empty() {
            // a write has just found its log full: nothing else may happen that would make room, nor may
            // a commit wait for that write any longer
            self.run_requests();
            self.migration.run_moves(
                &mut self.store,
                &mut self.volumes,
                &mut self.requests,
                &mut self.policy,
                &mut self.io,
            );
            self.dispatch_all();
        }
        while self.io.waits_for_space()
            && self.store.fail_without_room(
                &mut self.volumes,
                &mut self.requests,
                &mut self.migration,
                &mut self.policy,
                &mut self.io,
            )
        {
            // who waited behind these may go on, and no event follows
            self.go_on();
            self.run_requests();
            self.migration.run_moves(
                &mut self.store,
                &mut self.volumes,
                &mut self.requests,
                &mut self.policy,
                &mut self.io,
            );
            self.dispatch_all();
        }
        // nothing can be made durable any more, and no event will tell who has come to wait for it just now
        while self.store.commit.refuses() {
            self.store.run_commit(
                &mut self.volumes,
                &mut self.requests,
                &mut self.migration,
                &mut self.policy,
                &mut self.io,
            );
            self.dispatch_all();
        }
        // what waited for a drive that is out of service has ended just now, and no event follows
        if self.io.is_stopping() {
            self.store.stop_if_durable(
                &mut self.volumes,
                &mut self.requests,
                &mut self.migration,
                &mut self.policy,
                &mut self.replicas,
                &mut self.io,
            );
            self.hear_news();
        }
        self.arm_timer();
    }

    /// What waits for room in a commit, and the commit.
    fn run_requests(&mut self) {
        self.volumes.run_held_back(
            &mut self.store,
            &mut self.requests,
            &mut self.policy,
            &mut self.io,
        );
        self.go_on();
        self.volumes.run_batches(
            &mut self.store,
            &mut self.requests,
            &mut self.policy,
            &mut self.io,
        );
        self.go_on();
        self.store.run_commit(
            &mut self.volumes,
            &mut self.requests,
            &mut self.migration,
            &mut self.policy,
            &mut self.io,
        );
        self.go_on();
    }

    /// Issues what the drives can take now. What fails there may let others begin, and a write that found
    /// its SSD full may have gone to another one.
    fn dispatch_all(&mut self) {
        loop {
            for device in 0..self.io.drives().len() {
                self.requests.dispatch(
                    DeviceId(device as u8),
                    &mut self.store,
                    &mut self.volumes,
                    &mut self.migration,
                    &mut self.policy,
                    &mut self.io,
                );
            }
            let ended = self.go_on();
            if ended {
                self.run_requests();
            }
            if !self.io.take_redirected() && !ended {
                break;
            }
        }
    }

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

    /// Asks to be woken when the next timed thing is due.
    fn arm_timer(&mut self) {
        let due = self
            .store
            .commit
            .commit_due(&self.volumes.objects, &self.store.journal, &self.io)
            .min(self.store.checkpoint_due(&self.io))
            .min(self.store.metadata.due(self.io.now()))
            .min(self.migration.tail_copies.probe_due(&self.io));
        let due = due
            .min(self.migration.moves.moves_due(
                &self.store.map,
                &self.store.metadata_replica,
                &self.migration.copies,
                &self.policy.steering,
                &self.policy.tiers,
                &self.io,
            ))
            .min(self.store.metadata_replica.controllers_due(&self.io));
        let due = due
            .min(self.store.metadata_replica.due(&self.io))
            .min(self.policy.limits_due(&self.io))
            .min(self.policy.tiers.tiers_due(&self.store.commit, &self.io));
        self.io.wake_by(due.min(self.replicas.replacement.replacement_due(&self.io)).min(
            self.migration.evacuation.drain_due(
                &self.store.commit,
                &self.migration.moves,
                &self.io,
            ),
        ));
    }
}
