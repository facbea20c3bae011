//! Does a checkpoint take all that has changed, or a part of it, and where does replay begin then?
//!
//! A part leaves the mark of the root before as it is: the values and places that it has not taken stand in the
//! journal behind that mark.

/// How much the checkpoint under way takes, and the last ones did.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    /// It takes a part, or the last one did.
    is_part: bool,
    /// It has written leaves.
    has_written: bool,
    /// Where replay begins, as the newest root says: offset, and number of the unit.
    replay_from: (u64, u64),
    /// Number of the newest durable checkpoint that took all.
    whole: u64,
}

impl Default for Partial {
    /// Before the first checkpoint.
    fn default() -> Self {
        Partial { is_part: false, has_written: false, replay_from: (0, 1), whole: 0 }
    }
}

impl Partial {
    /// A start has found this checkpoint, and replays from there.
    pub(super) fn recovered(whole: u64, replay_from: (u64, u64)) -> Partial {
        Partial { replay_from, whole, ..Partial::default() }
    }

    /// A checkpoint begins, or was given up.
    pub(super) fn begin(&mut self) {
        (self.is_part, self.has_written) = (false, false);
    }

    /// It has written a leaf.
    pub(super) fn note_written(&mut self) {
        self.has_written = true;
    }

    /// Does it take another leaf? One that has written some leaves the rest where there is no room. One that has not
    /// fails when it finds none.
    pub(super) fn takes_more(&mut self, has_room: bool) -> bool {
        self.is_part |= self.has_written && !has_room;
        !self.is_part
    }

    /// Does it take a part, or did the last one?
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// Its root is written. `mark`: where it began. Returns where replay begins.
    pub(super) fn root_from(&mut self, mark: (u64, u64), cuts: bool) -> (u64, u64) {
        assert!(mark.1 >= self.replay_from.1, "replay never begins earlier");
        if cuts {
            self.replay_from = mark;
        }
        self.replay_from
    }

    /// It is durable, under this number.
    pub(super) fn note_durable(&mut self, number: u64) {
        assert!(number > self.whole, "numbers of checkpoints rise");
        if !self.is_part {
            self.whole = number;
        }
    }

    /// Number of the newest durable checkpoint that took all.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens, where replay begins then, and the newest whole checkpoint.
    #[test]
    fn a_part_leaves_the_mark_where_it_was() {
        let mut part = Partial::recovered(4, (8, 40));
        // (room for a first leaf, for a second one, is it a part, replay begins there, the newest whole one)
        for (number, rooms, is_part, from, whole) in [
            (5, [true, true], false, (16, 50), 5),
            (6, [true, false], true, (16, 50), 5),
            (7, [true, false], true, (16, 50), 5),
            // one that has written nothing finds out that there is no room when it writes
            (8, [false, true], false, (24, 80), 8),
        ] {
            part.begin();
            assert!(part.takes_more(rooms[0]), "{number}");
            part.note_written();
            assert_eq!(part.takes_more(rooms[1]), !is_part, "{number}");
            let mark = if number == 5 { (16, 50) } else { (24, 10 * number) };
            assert_eq!(part.root_from(mark, !part.is_part()), from, "{number}");
            part.note_durable(number);
            assert_eq!((part.is_part(), part.whole()), (is_part, whole), "{number}");
        }
    }
}
