//! How does a write reach both legs?
//!
//! Source: [IANUS §5.1, §5.2]. It is accepted at half of a leg's rate and while the cache has room,
//! written to the leg that writes, and to the other one when that writes.

use super::cache::{Cache, Entry, EntryId, Progress};
use super::commands::{Commands, Part};
use super::config::{Answer, PairConfig};
use super::flight::Flight;
use super::journal::Journal;
use super::pace::Pace;
use super::queue::Queues;
use super::read::why_not;
use super::record::Records;
use super::resync::Resync;
use super::roles::{LeadState, Phase, Roles};
use crate::mutant::Mutant;
use crate::port::{IoId, IoOp};
use std::collections::VecDeque;
use tandem_block::{Duration, Instant, PayloadId};

/// A write or TRIM that was not accepted yet.
#[derive(Clone, Debug)]
struct Held {
    io: IoId,
    op: IoOp,
    since: Instant,
}

fn extent(op: &IoOp) -> (u64, u64) {
    match *op {
        IoOp::Write { offset_bytes, length_bytes, .. }
        | IoOp::Trim { offset_bytes, length_bytes } => (offset_bytes, length_bytes),
        _ => unreachable!("only writes and TRIMs are held"),
    }
}

/// An entry that was with a leg, and whether it was new there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    pub(crate) leg: usize,
    pub(crate) id: EntryId,
    pub(crate) new: bool,
}

/// Writes so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteStats {
    pub(crate) accepted_bytes: u64,
    pub(crate) written_bytes: [u64; 2],
    pub(crate) held: u64,
    pub(crate) held_ns: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Writes {
    capacity_bytes: u64,
    cache_bytes: u64,
    depth: u32,
    rule: Answer,
    /// Writes that wait for the pace or for room.
    held: VecDeque<Held>,
    queues: Queues,
    pace: Pace,
    stats: WriteStats,
}

impl Writes {
    pub(crate) fn new(config: &PairConfig, capacity_bytes: u64, idle: Duration) -> Writes {
        Writes {
            capacity_bytes,
            cache_bytes: config.cache_bytes,
            depth: config.depth,
            rule: config.answer,
            held: VecDeque::new(),
            queues: Queues::default(),
            pace: Pace::of(config, idle),
            stats: WriteStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> WriteStats {
        self.stats
    }

    pub(crate) fn write_bytes_per_s(&self) -> u64 {
        self.pace.write_bytes_per_s()
    }

    /// Nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.are_empty() && self.held.is_empty()
    }

    pub(crate) fn reader_lacks(&self, roles: &Roles) -> bool {
        self.queues.has_backlog(roles.other())
    }

    pub(crate) fn hold(&mut self, io: IoId, op: IoOp, now: Instant) {
        let (offset, length) = extent(&op);
        assert!(length > 0, "a write has bytes");
        assert!(offset + length <= self.capacity_bytes, "a write lies within the pair");
        self.held.push_back(Held { io, op, since: now });
    }

    /// A leg is dead: all that the other one lacks is new to it.
    pub(crate) fn leg_died(&mut self, leg: usize) {
        self.queues.leg_died(leg);
    }

    /// From now on the legs take turns. What is accepted since then one of them lacks.
    pub(crate) fn begin_turns(&mut self, roles: &Roles, cache: &Cache, records: &mut Records) {
        self.queues.begin_turns(roles.other());
        records.begins_period(cache.iter().map(|(_, entry)| entry));
    }

    /// The writer wrote until then, and since so long.
    pub(crate) fn writer_rests(&mut self, (until, wrote_for): (Instant, Duration)) {
        self.pace.turns(until, wrote_for);
    }

    /// Roles have changed; a leg writes for this share of a period.
    pub(crate) fn turn(
        &mut self,
        share_ppm: u64,
        roles: &Roles,
        cache: &Cache,
        records: &mut Records,
    ) {
        self.pace.writes_for(share_ppm);
        self.queues.turn(roles.lead());
        let backlog = self.queues.backlog(roles.other());
        records.begins_period(backlog.filter_map(|(id, sequence)| cache.find(id, sequence)));
    }

    /// What the writer has and lacks; the caller knows of flushes.
    pub(crate) fn writer(
        &self,
        roles: &Roles,
        cache: &Cache,
        journal: &Journal,
        records: &Records,
    ) -> LeadState {
        let lead = roles.lead();
        let stuck = |held: &Held| !self.has_room(&held.op, roles, cache, journal, records);
        LeadState {
            is_level: self.queues.is_level(lead),
            is_behind_on_record: !records.behind().is_empty(),
            reader_lacks: self.reader_lacks(roles),
            is_stuck: !self.queues.has_new(lead) && self.held.front().is_some_and(stuck),
            in_flight: self.queues.in_flight(lead),
            is_recorded: records.is_writing(),
            is_flushed: false,
        }
    }

    /// Has the lead everything that was answered up to here and is not durable on the other leg? What
    /// waits for its answer is no part of a flush.
    pub(crate) fn lead_has(
        &self,
        upto: u64,
        roles: &Roles,
        cache: &Cache,
        commands: &Commands,
    ) -> bool {
        let lead = roles.lead();
        let waiting = self
            .queues
            .new_upto(lead, upto)
            .any(|(id, sequence)| cache.find(id, sequence).is_some_and(|e| e.answered));
        let sent = commands.sent().any(|sent| match sent.flight {
            Flight::Entry(id, _) if sent.leg == lead => {
                let entry = cache.entry(id);
                entry.answered && entry.sequence <= upto
            }
            _ => false,
        });
        !waiting && !sent
    }
}

/// Acceptance.
impl Writes {
    /// When the first held write may be accepted, as far as time decides it.
    pub(crate) fn due(
        &self,
        roles: &Roles,
        cache: &Cache,
        journal: &Journal,
        records: &Records,
    ) -> Instant {
        if !self.may_accept(roles, cache, journal, records) {
            return Instant::NEVER; // something else has to happen first
        }
        self.pace.next_at()
    }

    /// Is there room for the first held write?
    fn may_accept(
        &self,
        roles: &Roles,
        cache: &Cache,
        journal: &Journal,
        records: &Records,
    ) -> bool {
        let room = |held: &Held| self.has_room(&held.op, roles, cache, journal, records);
        roles.is_started() && self.held.front().is_some_and(room)
    }

    fn has_room(
        &self,
        op: &IoOp,
        roles: &Roles,
        cache: &Cache,
        journal: &Journal,
        records: &Records,
    ) -> bool {
        if matches!(op, IoOp::Trim { .. }) {
            return true;
        }
        let (_, length) = extent(op);
        // one write always passes, however small the cache is
        let fits = cache.bytes() == 0 || cache.bytes() + length <= self.cache_bytes;
        fits && journal.has_room(length) && !records.is_full(roles)
    }

    /// Accepts what may be accepted.
    pub(crate) fn admit(
        &mut self,
        roles: &Roles,
        cache: &mut Cache,
        journal: &mut Journal,
        records: &mut Records,
        commands: &mut Commands,
    ) {
        if roles.are_dead() {
            let why = why_not(roles, commands);
            self.held.drain(..).for_each(|held| commands.end(held.io, Err(why), Vec::new()));
            return;
        }
        while self.may_accept(roles, cache, journal, records) {
            let now = commands.now();
            if roles.takes_turns() && self.pace.next_at() > now {
                return;
            }
            let held = self.held.pop_front().expect("may_accept looked at it");
            if now > held.since {
                self.stats.held += 1;
                self.stats.held_ns += now.since(held.since).ns;
            }
            let id = self.accept(held, roles, cache, commands);
            journal.note(id, cache);
            let entry = cache.entry(id);
            for leg in (0..2).filter(|&leg| roles.is_alive(leg)) {
                let new = leg == roles.lead() || !roles.alternates();
                self.queues.push(leg, new, (id, entry.sequence));
            }
            if entry.is_trim {
                continue;
            }
            if roles.alternates() {
                records.accepted(entry.offset, entry.end());
            }
            if self.rule == Answer::Cached && !entry.fua {
                answer_from_cache(id, cache, commands);
            }
        }
    }

    /// Takes a write into the cache.
    fn accept(
        &mut self,
        held: Held,
        roles: &Roles,
        cache: &mut Cache,
        commands: &mut Commands,
    ) -> EntryId {
        let (offset, length) = extent(&held.op);
        let mut payload = PayloadId::NONE;
        let (is_trim, fua) = match held.op {
            IoOp::Write { from, from_offset_bytes, fua, .. } => {
                self.pace.accept(commands.now(), length);
                self.stats.accepted_bytes += length;
                if commands.has_contents() {
                    payload = commands.name_buffer();
                    commands.reserve(payload, length);
                    let part = Part { payload: from, offset: from_offset_bytes, length };
                    commands.copy(part, payload, 0);
                }
                (false, fua)
            }
            _ => (true, false),
        };
        let lives = |alive: bool| if alive { Progress::Waiting } else { Progress::Done };
        let entry = Entry {
            sequence: 0,
            offset,
            length,
            payload,
            is_trim,
            fua,
            progress: roles.alive().map(lives),
            journal: Progress::Done,
            unit: 0,
            units: Vec::new(),
            answered: false,
            after: Vec::new(),
            pins: 0,
            io: held.io,
            checksums: Vec::new(),
        };
        let mut over = Vec::new();
        let id = cache.insert(entry, &mut over);
        for older in over {
            commands.release_if(cache.forget(older));
        }
        id
    }
}

fn answer_from_cache(id: EntryId, cache: &mut Cache, commands: &mut Commands) {
    let &Entry { io, payload, length, .. } = cache.entry(id);
    if commands.has_contents() {
        let part = Part { payload, offset: 0, length };
        commands.sum(part, Flight::WriteSum(io, id));
    } else {
        cache.entry_mut(id).answered = true;
        commands.end(io, Ok(()), Vec::new());
    }
}

/// The checksums of a write are known that the cache has.
pub(super) fn summed(
    io: IoId,
    id: EntryId,
    checksums: &[u32],
    cache: &mut Cache,
    commands: &mut Commands,
) {
    assert_eq!(cache.entry(id).io, io, "a write is here until it was answered");
    if !cache.entry(id).answered {
        cache.entry_mut(id).answered = true;
        commands.end(io, Ok(()), checksums.to_vec());
    }
    commands.release_if(cache.forget(id));
}

/// To the legs.
impl Writes {
    /// Sends what the writing legs can take; `is_waited_for`: a FLUSH waits.
    pub(crate) fn send(
        &mut self,
        is_waited_for: bool,
        roles: &Roles,
        cache: &mut Cache,
        records: &mut Records,
        resync: &Resync,
        commands: &mut Commands,
    ) {
        if !matches!(roles.phase(), Phase::Serving | Phase::Stopping) || roles.blocks_all() {
            return;
        }
        // a user waits for what is new, unless the cache has answered; then the backlog goes first, as
        // in the paper. Shares are equal, since what is accepted is half of what a leg writes
        let new_first = match self.rule {
            Answer::Written => None,
            Answer::Cached | Answer::Journaled => Some(is_waited_for),
        };
        for leg in 0..2 {
            let writes = roles.is_alive(leg) && (leg == roles.lead() || !roles.takes_turns());
            if !writes {
                continue;
            }
            while self.queues.in_flight(leg) < self.depth {
                let may_send = |id: EntryId, new: bool| {
                    !resync.covers(cache.entry(id).offset, cache.entry(id).end())
                        && may_send((leg, id, new), roles, cache, records, commands)
                };
                let next = self.queues.pick(leg, new_first, cache, may_send);
                let Some((id, new)) = next else { break };
                self.send_entry(Landed { leg, id, new }, roles, cache, commands);
            }
            let is_full = self.queues.in_flight(leg) >= self.depth;
            if !self.queues.is_level(leg) || is_full {
                self.pace.begins(commands.now());
            } else {
                self.pace.ends(commands.now());
            }
        }
    }

    fn send_entry(
        &mut self,
        Landed { leg, id, new }: Landed,
        roles: &Roles,
        cache: &mut Cache,
        commands: &mut Commands,
    ) {
        cache.is_sent(id, leg);
        let entry = cache.entry(id);
        let offset_bytes = commands.place(entry.offset);
        // where both are written to at once, either may have to answer for it
        let first = leg == roles.lead() || !roles.takes_turns();
        let op = if entry.is_trim {
            IoOp::Trim { offset_bytes, length_bytes: entry.length }
        } else {
            self.stats.written_bytes[leg] += entry.length;
            IoOp::Write {
                offset_bytes,
                length_bytes: entry.length,
                from: entry.payload,
                from_offset_bytes: 0,
                fua: entry.fua && first,
            }
        };
        commands.send(roles, leg, op, Flight::Entry(id, new));
    }

    /// An entry is not with its leg any more.
    pub(crate) fn ended(&mut self, landed: Landed) {
        self.queues.ended(landed.leg, landed.new);
    }

    /// … and the leg has it, or is dead. Returns the extent of a write that it has.
    pub(crate) fn landed(
        &mut self,
        Landed { leg, id, .. }: Landed,
        checksums: Option<&[u32]>,
        roles: &Roles,
        cache: &mut Cache,
        journal: &mut Journal,
    ) -> Option<(u64, u64)> {
        cache.has_landed(id, leg);
        let entry = cache.entry_mut(id);
        for &unit in &entry.units {
            journal.reached(unit, leg);
        }
        if let Some(checksums) = checksums
            && !entry.answered
        {
            entry.checksums = checksums.to_vec();
        }
        if !roles.is_alive(leg) || entry.is_trim {
            return None;
        }
        self.pace.written(entry.length);
        Some((entry.offset, entry.end()))
    }
}

fn may_send(
    (leg, id, new): (usize, EntryId, bool),
    roles: &Roles,
    cache: &Cache,
    records: &mut Records,
    commands: &Commands,
) -> bool {
    let entry = cache.entry(id);
    let (offset, end, is_trim) = (entry.offset, entry.end(), entry.is_trim);
    if !cache.may_follow(id, leg) {
        return false;
    }
    // what the record calls behind is copied back after a crash: nothing new may lie there
    let behind = new && !is_trim && records.behind().touches(offset, end);
    let recorded = !new && leg == roles.lead();
    let anyway = recorded || is_trim || commands.breaks(Mutant::WriteBeforeMark);
    !behind && (anyway || records.mark(roles, offset, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::commands::PairDrives;
    use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

    /// What a held write is answered, by the legs that died before. Seen: with both it was never answered, or
    /// well, from a cache that nobody writes.
    #[test]
    fn no_write_is_held_for_two_dead_legs() {
        for rule in [Answer::Written, Answer::Cached] {
            for (dead, want) in [(&[0, 1][..], Some(Err(IoError::Dead(DeviceId(0))))), (&[0], None)]
            {
                let config = PairConfig { answer: rule, ..PairConfig::default() };
                let drives = PairDrives {
                    index: 0,
                    legs: [DeviceId(0), DeviceId(1)],
                    journal: DeviceId(2),
                    has_records: false,
                    contents: false,
                };
                let (mut roles, mut commands) = (Roles::new(&config, false), Commands::new(drives));
                roles.serves(Instant::ZERO);
                for &leg in dead {
                    roles.leg_dies(leg, IoError::Dead(DeviceId(leg as u8)), 0);
                }
                let mut writes = Writes::new(&config, 1 << 30, Duration::from_ns(0));
                let op = IoOp::Write {
                    offset_bytes: 0,
                    length_bytes: BLOCK_BYTES,
                    from: PayloadId::NONE,
                    from_offset_bytes: 0,
                    fua: true,
                };
                writes.hold(IoId(7), op, Instant::ZERO);
                let (mut cache, mut journal) =
                    (Cache::default(), Journal::new(&config, DeviceId(2)));
                let mut records = Records::new(1 << 30, [1, 2], false);
                writes.admit(&roles, &mut cache, &mut journal, &mut records, &mut commands);
                let ended = commands.take_ended();
                let status = ended.first().map(|ended| ended.status);
                assert_eq!(status, want, "{rule:?}, {dead:?}");
                assert!(writes.held.is_empty());
            }
        }
    }
}
