//! How much memory may a front end hold, and how much of it each of its clients?
//!
//! One half belongs to the clients in equal parts: each may always have its own, however many there are
//! and whatever the others do. The other half is for who needs more, by dynamic thresholds (Choudhury and
//! Hahne, 1998, for the queues of a shared memory): a client may hold as much of it as is free, so that one
//! client alone gets half of that, and who holds the most is the first who gets no more.
//!
//! ```text
//!   limit ├─ own ─┼─ own ─┼─ … ─┼─ own ─┤├── held beyond by a ──┼─ by b ─┼──── free ────┤
//!            a       b          the last                                └ b may take half of
//!                                                                         (free - held beyond by b)
//! ```

/// The memory of one front end. Clients note themselves what they hold of it ([`Share`]).
#[derive(Debug)]
pub struct Budget {
    /// What each client may always have.
    own_bytes: u64,
    /// What there is beyond that.
    common_bytes: u64,
    /// What clients hold beyond their own.
    beyond_bytes: u64,
    used_bytes: u64,
}

/// What one client holds of a budget, in bytes.
#[derive(Debug, Default)]
pub struct Share {
    held_bytes: u64,
}

impl Share {
    /// Bytes that it holds.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}

impl Budget {
    /// A budget of so many bytes for at most so many clients.
    pub fn new(limit_bytes: u64, clients_max: usize) -> Budget {
        let own_bytes = limit_bytes / 2 / (clients_max.max(1) as u64);
        let common_bytes = limit_bytes - limit_bytes / 2;
        Budget { own_bytes, common_bytes, beyond_bytes: 0, used_bytes: 0 }
    }

    /// What all clients hold.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn beyond(&self, held_bytes: u64) -> u64 {
        held_bytes.saturating_sub(self.own_bytes)
    }

    /// Bytes that a client may take now, as far as it is for all.
    fn allowance(&self, share: &Share) -> u64 {
        let own = self.own_bytes.saturating_sub(share.held_bytes);
        let free = self.common_bytes.saturating_sub(self.beyond_bytes);
        own + free.saturating_sub(self.beyond(share.held_bytes)) / 2
    }

    /// May this client take so many bytes more?
    pub fn allows(&self, share: &Share, bytes: u64) -> bool {
        bytes <= self.allowance(share)
    }

    /// The same for what cannot be had in pieces: it may take all that is left for all.
    pub fn allows_whole(&self, share: &Share, bytes: u64) -> bool {
        let beyond = self.beyond(share.held_bytes + bytes) - self.beyond(share.held_bytes);
        beyond <= self.common_bytes.saturating_sub(self.beyond_bytes)
    }

    /// Could a client that holds nothing take so many bytes at once, if nobody held anything?
    pub fn could_allow_whole(&self, bytes: u64) -> bool {
        self.beyond(bytes) <= self.common_bytes
    }

    /// How much of `wanted` bytes may this client take now? All of it, or a power of two from `least` on;
    /// `None`: it has to wait until somebody gives something back.
    pub fn piece(&self, share: &Share, wanted: u64, least: u64) -> Option<u64> {
        let may = self.allowance(share);
        if wanted <= may {
            return Some(wanted);
        }
        let piece = may.checked_ilog2().map(|log2| 1 << log2)?;
        (piece >= least).then_some(piece)
    }

    /// Notes that a client took so many bytes, whether it may or not.
    pub fn take(&mut self, share: &mut Share, bytes: u64) {
        let before = self.beyond(share.held_bytes);
        share.held_bytes += bytes;
        self.used_bytes += bytes;
        self.beyond_bytes += self.beyond(share.held_bytes) - before;
    }

    /// Notes that it gave so many back.
    ///
    /// # Panics
    /// If it did not hold them.
    pub fn give(&mut self, share: &mut Share, bytes: u64) {
        assert!(bytes <= share.held_bytes, "more is given back than was taken");
        let before = self.beyond(share.held_bytes);
        share.held_bytes -= bytes;
        self.used_bytes -= bytes;
        self.beyond_bytes -= before - self.beyond(share.held_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LEAST: u64 = 64 << 10;
    const LIMIT: u64 = 256 * MIB;
    const CLIENTS: usize = 128;

    /// Takes what it may in requests of 8 MiB; what it holds then.
    fn greedy(budget: &mut Budget, share: &mut Share) -> u64 {
        while let Some(piece) = budget.piece(share, 8 * MIB, LEAST) {
            budget.take(share, piece);
        }
        share.held_bytes()
    }

    #[test]
    fn everybody_has_their_own_whatever_the_others_hold() {
        let mut budget = Budget::new(LIMIT, CLIENTS);
        let mut all: Vec<Share> = (0..CLIENTS).map(|_| Share::default()).collect();
        let (last, greedy_ones) = all.split_last_mut().unwrap();
        let first = greedy(&mut budget, &mut greedy_ones[0]);
        assert!((64 * MIB..=66 * MIB).contains(&first), "half of what is for all: {first}");
        for share in greedy_ones {
            assert!(greedy(&mut budget, share) >= MIB - LEAST);
        }
        assert!(budget.allows(last, MIB) && !budget.allows(last, 2 * MIB));
        assert_eq!(budget.piece(last, 32 * MIB, LEAST), Some(MIB));
        assert!(!budget.allows_whole(last, 8 * MIB) && budget.could_allow_whole(32 * MIB));
        greedy(&mut budget, last);
        assert!(budget.used_bytes() <= LIMIT, "{} MiB", budget.used_bytes() / MIB);
        for share in &mut all {
            let held = share.held_bytes();
            budget.give(share, held);
        }
        assert_eq!((budget.used_bytes(), budget.beyond_bytes), (0, 0));
    }

    #[test]
    fn who_holds_the_most_gets_no_more_when_something_is_given_back() {
        let mut budget = Budget::new(LIMIT, CLIENTS);
        let mut shares: Vec<Share> = (0..4).map(|_| Share::default()).collect();
        for share in &mut shares {
            greedy(&mut budget, share);
        }
        budget.give(&mut shares[3], 4 * MIB);
        assert!(budget.piece(&shares[0], MIB, LEAST).is_none());
        assert!(budget.piece(&Share::default(), 2 * MIB, LEAST).is_some());
    }

    #[test]
    fn pieces_are_powers_of_two_or_all() {
        let budget = Budget::new(6 * MIB, 1 << 20);
        let share = Share::default();
        assert_eq!(budget.piece(&share, MIB + 512, LEAST), Some(MIB + 512));
        assert_eq!(budget.piece(&share, 2 * MIB, LEAST), Some(MIB));
        assert_eq!(budget.piece(&share, 2 * MIB, 2 * MIB), None);
        assert!(budget.allows_whole(&share, 3 * MIB) && !budget.could_allow_whole(4 * MIB));
        assert_eq!(Budget::new(0, 1).piece(&share, 1, 1), None);
    }
}
