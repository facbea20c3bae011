//! Does a user of a volume find what was written, while drives come and go?

use super::PoolFixture;
use serde_json::Value;
use std::ops::Range;
use std::time::{Duration, Instant};
use tandem_fronts::nbd::Client;

/// Longest wait for anything of emulated drives on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(300);

/// One who writes pieces in rounds, and knows what each of them holds.
pub struct User {
    client: Client,
    piece_bytes: usize,
    /// Of each piece: how often it was written.
    rounds: Vec<u8>,
    /// Those that it works on, and how many at once.
    busy: (Range<usize>, usize),
}

impl User {
    /// Of so many pieces from the beginning of a volume, to which nothing was written.
    pub fn new(pool: &PoolFixture, volume: &str, (piece_bytes, pieces): (usize, usize)) -> User {
        let (client, busy) = (pool.client(volume), (0..pieces, pieces));
        User { client, piece_bytes, rounds: vec![0; pieces], busy }
    }

    /// It works on these pieces alone, so many at once.
    #[must_use]
    pub fn busy(self, pieces: Range<usize>, at_once: usize) -> User {
        User { busy: (pieces, at_once), ..self }
    }

    /// The same one at another server.
    #[must_use]
    pub fn back(self, pool: &PoolFixture, volume: &str) -> User {
        User { client: pool.client(volume), ..self }
    }

    fn holds(&self, piece: usize) -> Vec<u8> {
        match self.rounds[piece] {
            0 => vec![0; self.piece_bytes],
            round => vec![(piece as u8).wrapping_mul(7) ^ round.wrapping_mul(37); self.piece_bytes],
        }
    }

    /// Writes these pieces anew, and flushes.
    pub fn writes(&mut self, pieces: impl IntoIterator<Item = usize>) {
        for piece in pieces {
            self.rounds[piece] = self.rounds[piece].wrapping_add(1);
            let (offset, bytes) = ((piece * self.piece_bytes) as u64, self.holds(piece));
            self.client.write(offset, &bytes, false).unwrap();
        }
        self.client.flush().unwrap();
    }

    pub fn writes_all(&mut self) {
        self.writes(0..self.rounds.len());
    }

    /// Reads these pieces and compares.
    pub fn finds(&mut self, pieces: impl IntoIterator<Item = usize>) {
        for piece in pieces {
            let offset = (piece * self.piece_bytes) as u64;
            let found = self.client.read(offset, self.piece_bytes as u32).unwrap();
            assert!(found == self.holds(piece), "piece {piece} of round {}", self.rounds[piece]);
        }
    }

    pub fn finds_all(&mut self) {
        self.finds(0..self.rounds.len());
    }

    /// Finds what it is busy with, and writes it anew.
    pub fn works(&mut self) {
        let (pieces, _) = self.busy.clone();
        self.finds(pieces.clone());
        self.writes(pieces);
    }

    /// Works until the status of the pool is so.
    pub fn works_until(&mut self, pool: &PoolFixture, what: &str, so: impl Fn(&Value) -> bool) {
        self.until((pool, what), so, |user, pieces| {
            user.finds(pieces.clone());
            user.writes(pieces);
        });
    }

    /// Writes, and reads nothing meanwhile, until the status of the pool is so.
    pub fn writes_until(&mut self, pool: &PoolFixture, what: &str, so: impl Fn(&Value) -> bool) {
        self.until((pool, what), so, User::writes);
    }

    fn until(
        &mut self,
        (pool, what): (&PoolFixture, &str),
        so: impl Fn(&Value) -> bool,
        does: impl Fn(&mut User, Range<usize>),
    ) {
        let deadline = Instant::now() + LONG;
        let (pieces, at_once) = self.busy.clone();
        for from in pieces.clone().step_by(at_once).cycle() {
            does(self, from..(from + at_once).min(pieces.end));
            let told = pool.status();
            if so(&told) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {told}");
        }
    }
}
