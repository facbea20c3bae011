//! Where does a read of the pair go?
//!
//! Source: [IANUS §5.1]: to the leg that does not write, and to the cache for what that one lacks. Where
//! legs have no roles it goes to the one with the fewest reads outstanding.

use super::cache::Cache;
use super::commands::{Commands, Part};
use super::flight::{Flight, Read};
use super::journal::Journal;
use super::resync::Resync;
use super::roles::Roles;
use crate::port::IoOp;
use tandem_block::{Instant, IoError};

/// Reads so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    /// Sent to each leg.
    pub(crate) sent: [u64; 2],
    /// … and not answered by it yet
    outstanding: [u32; 2],
    /// Answered by the cache alone.
    pub(crate) cached: u64,
    /// … by a leg and the cache together
    pub(crate) mixed: u64,
    /// One leg could not answer and the other one did.
    pub(crate) repaired: u64,
}

/// Why nobody can be asked: the leg that has the bytes is dead.
pub(super) fn why_not(roles: &Roles, commands: &Commands) -> IoError {
    assert!(roles.is_alone(), "of two legs that live one has the bytes");
    commands.dead(if roles.is_alive(0) { 1 } else { 0 })
}

/// Is all that a leg which lives alone lacks of these bytes in the cache? It was written since, and
/// what was answered is read.
fn has_with_cache(
    leg: usize,
    (start, end): (u64, u64),
    roles: &Roles,
    resync: &Resync,
    cache: &Cache,
) -> bool {
    let in_cache = |(from, to): (u64, u64)| {
        let pieces = cache.newer_than(leg, from, to);
        pieces.iter().map(|piece| piece.length).sum::<u64>() == to - from
    };
    let alone = roles.is_alive(leg) && roles.is_alone();
    alone && resync.lacks_within(leg, start, end).into_iter().all(in_cache)
}

impl Reads {
    pub(crate) fn begin(
        &mut self,
        read: Read,
        roles: &Roles,
        resync: &mut Resync,
        journal: &Journal,
        cache: &mut Cache,
        commands: &mut Commands,
    ) {
        let range = (read.offset, read.end());
        let lead = roles.lead();
        let survivor = || Some(lead).filter(|_| has_with_cache(lead, range, roles, resync, cache));
        let first = self.first_leg(roles);
        let Some(leg) = resync.readable_leg(first, range, roles).or_else(survivor) else {
            let why = why_not(roles, commands);
            commands.end(read.io, Err(why), Vec::new());
            return;
        };
        resync.adopt(range, false, roles, journal);
        self.send(leg, read, roles, cache, commands);
    }

    /// The leg that is asked if it has the bytes.
    fn first_leg(&self, roles: &Roles) -> usize {
        if !roles.are_alike() {
            return roles.reader();
        }
        let load = |leg: usize| (self.outstanding[leg], self.sent[leg]);
        usize::from(load(1) < load(0))
    }

    /// A read is not with its leg any more.
    pub(crate) fn ended(&mut self, leg: usize) {
        assert!(self.outstanding[leg] > 0, "a read ends after it was sent");
        self.outstanding[leg] -= 1;
    }

    fn send(
        &mut self,
        leg: usize,
        mut read: Read,
        roles: &Roles,
        cache: &mut Cache,
        commands: &mut Commands,
    ) {
        assert!(read.pieces.is_empty(), "what was pinned before was let go");
        read.pieces = cache.newer_than(leg, read.offset, read.end());
        let cached: u64 = read.pieces.iter().map(|piece| piece.length).sum();
        assert!(cached <= read.length, "each byte has one newest write");
        if cached == read.length {
            self.cached += 1;
            overlay(&read, cache, commands);
            return;
        }
        self.mixed += u64::from(cached > 0);
        for piece in &read.pieces {
            cache.pin(piece.entry);
        }
        self.sent[leg] += 1;
        self.outstanding[leg] += 1;
        let op = IoOp::Read {
            offset_bytes: commands.place(read.offset),
            length_bytes: read.length,
            into: read.into,
            into_offset_bytes: read.into_offset,
        };
        commands.send(roles, leg, op, Flight::Read(Box::new(read)));
    }

    /// A leg could not read it; a dead or silent one is written off by now.
    pub(crate) fn again(
        &mut self,
        leg: usize,
        mut read: Read,
        error: IoError,
        (roles, resync): (&Roles, &Resync),
        cache: &mut Cache,
        commands: &mut Commands,
    ) {
        // together with the cache the other leg is as good, unless it is behind
        let range = (read.offset, read.end());
        let other = 1 - leg;
        let whole = resync.is_readable(other, range.0, range.1, roles);
        // a leg that did not answer may still write to the buffer: who asked reads again into another one
        let is_silent = matches!(error, IoError::NoAnswer(_));
        let is_good = || whole || has_with_cache(other, range, roles, resync, cache);
        if is_silent || read.tried || !is_good() {
            commands.end(read.io, Err(error), Vec::new());
            return;
        }
        self.repaired += 1;
        read.tried = true;
        self.send(other, read, roles, cache, commands);
    }
}

/// Copies what the cache has over what was read, and answers.
fn overlay(read: &Read, cache: &Cache, commands: &mut Commands) {
    if !commands.has_contents() {
        commands.end(read.io, Ok(()), Vec::new());
        return;
    }
    for piece in &read.pieces {
        let entry = cache.entry(piece.entry);
        assert!(piece.offset >= read.offset, "a piece begins within the read");
        assert!(
            piece.offset >= entry.offset && piece.offset + piece.length <= entry.end(),
            "a piece lies within its write"
        );
        let offset = piece.offset - entry.offset;
        let part = Part { payload: entry.payload, offset, length: piece.length };
        commands.copy(part, read.into, read.into_offset + (piece.offset - read.offset));
    }
    let part = Part { payload: read.into, offset: read.into_offset, length: read.length };
    commands.sum(part, Flight::ReadSum(read.io));
}

/// A leg has answered a read, or could not: what the cache had of it is put over that, and let go.
pub(super) fn landed(
    read: &mut Read,
    issued: Instant,
    checksums: Option<&[u32]>,
    roles: &mut Roles,
    cache: &mut Cache,
    commands: &mut Commands,
) {
    if let Some(checksums) = checksums {
        roles.note_read(issued, commands.now());
        if read.pieces.is_empty() {
            commands.end(read.io, Ok(()), checksums.to_vec());
        } else {
            overlay(read, cache, commands);
        }
    }
    for piece in std::mem::take(&mut read.pieces) {
        cache.unpin(piece.entry);
        commands.release_if(cache.forget(piece.entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::{PairConfig, RoleRule};

    #[test]
    fn without_roles_the_leg_with_the_fewest_reads_outstanding_is_asked() {
        let rule =
            |role_rule| Roles::new(&PairConfig { role_rule, ..PairConfig::default() }, false);
        let (alike, alternate) = (rule(RoleRule::Alike), rule(RoleRule::Alternate));
        for (outstanding, sent, leg) in [
            ([0, 0], [0, 0], 0),
            ([1, 0], [1, 0], 1),
            ([2, 3], [9, 3], 0),
            // equally many: the one that was sent fewer
            ([2, 2], [9, 3], 1),
            ([2, 2], [3, 9], 0),
        ] {
            let reads = Reads { sent, outstanding, ..Reads::default() };
            assert_eq!(reads.first_leg(&alike), leg, "{outstanding:?} {sent:?}");
            assert_eq!(reads.first_leg(&alternate), alternate.reader(), "roles decide");
        }
        let mut reads = Reads { outstanding: [2, 1], ..Reads::default() };
        reads.ended(0);
        reads.ended(0);
        assert_eq!(reads.first_leg(&alike), 0, "what has ended is not outstanding");
    }
}
