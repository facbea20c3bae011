//! Does a checkpoint take all that has changed, or a part of it, and where does replay begin then?
//!
//! All that has changed is taken in a round, of one part or several. The mark of a round is the moment at which its first
//! part began. A part leaves the mark of the round before as it is: the values and places that it has not taken stand in
//! the journal behind that mark. The last part of a round names the mark of the round.

use std::num::NonZeroU64;

/// How much the checkpoint under way takes, and the last ones did.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    /// It takes a part, or the last one did.
    is_part: bool,
    /// A part takes so many leaves, or a few more.
    leaves_max: NonZeroU64,
    /// Where replay begins, as the newest root says: offset, and number of the unit.
    replay_from: (u64, u64),
    /// Rounds that have begun in this life, and how many of them are durable. What a failed one took, the next one takes.
    begun: u64,
    durable: u64,
}

impl Default for Partial {
    /// Before the first checkpoint.
    fn default() -> Self {
        Partial::new(NonZeroU64::MAX)
    }
}

impl Partial {
    /// A part takes so many leaves.
    pub(super) fn new(leaves_max: NonZeroU64) -> Partial {
        Partial { is_part: false, leaves_max, replay_from: (0, 1), begun: 0, durable: 0 }
    }

    /// A start has found a checkpoint, and replays from there.
    pub(super) fn recovered(&mut self, replay_from: (u64, u64)) {
        assert!(self.begun == 0, "a life begins with what recovery found");
        self.replay_from = replay_from;
    }

    /// A checkpoint begins. True: with it a round does.
    pub(super) fn begin(&mut self) -> bool {
        let is_first = !self.is_part;
        self.begun += u64::from(is_first);
        self.is_part = false;
        is_first
    }

    /// It was given up: the next one begins a round.
    pub(super) fn give_up(&mut self) {
        self.is_part = false;
    }

    /// Does it take another leaf, behind so many? One that has taken some leaves the rest where there is no room, or it
    /// has taken many: what pointed where before stays in memory until it is durable. One that has taken none fails
    /// without room.
    pub(super) fn takes_more(&mut self, taken: u64, has_room: bool) -> bool {
        self.is_part |= taken > 0 && !has_room || taken >= self.leaves_max.get();
        !self.is_part
    }

    /// Does it take a part, or did the last one?
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// Its root is written. `mark`: where its round began. Returns where replay begins.
    pub(super) fn root_from(&mut self, mark: (u64, u64), cuts: bool) -> (u64, u64) {
        assert!(mark.1 >= self.replay_from.1, "replay never begins earlier");
        if cuts {
            self.replay_from = mark;
        }
        self.replay_from
    }

    /// It is durable.
    pub(super) fn note_durable(&mut self) {
        assert!(self.durable < self.begun, "a round is durable once");
        if !self.is_part {
            self.durable = self.begun;
        }
    }

    /// Number of the newest durable round.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Number of the newest round that has begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: NonZeroU64 = NonZeroU64::new(4).expect("it is not zero");

    /// What happens, where replay begins then, and the newest durable round.
    #[test]
    fn the_last_part_of_a_round_names_its_mark() {
        const ROUND: [(u64, u64); 4] = [(8, 40), (16, 50), (24, 80), (32, 90)];
        let mut part = Partial::new(FOUR);
        part.recovered(ROUND[0]);
        // (leaves that it takes first, room for more then, is it a part, round, replay begins there, the durable round)
        for (taken, has_room, is_part, round, from, durable) in [
            (3, true, false, 1, ROUND[1], 1),
            (3, false, true, 2, ROUND[1], 1),
            (5, true, true, 2, ROUND[1], 1),
            (0, true, false, 2, ROUND[2], 2),
            (4, true, true, 3, ROUND[2], 2),
            // one that has taken nothing finds out that there is no room when it writes
            (0, false, false, 3, ROUND[3], 3),
        ] {
            part.begin();
            assert!(part.takes_more(0, true), "it takes something");
            assert_eq!(part.takes_more(taken, has_room), !is_part, "{round}");
            assert_eq!(part.root_from(ROUND[round as usize], !part.is_part()), from, "{round}");
            part.note_durable();
            assert_eq!((part.is_part(), part.begun()), (is_part, round));
            assert_eq!(part.durable(), durable);
        }
    }

    #[test]
    fn one_that_is_given_up_ends_its_round() {
        let mut part = Partial::new(FOUR);
        assert!(part.begin());
        assert!(!part.takes_more(4, true));
        part.note_durable();
        assert!(!part.begin(), "the second part");
        part.give_up();
        assert!(part.begin());
        assert_eq!((part.begun(), part.durable()), (2, 0));
    }
}
