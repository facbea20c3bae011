//! For whom does a commit wait before it begins?
//!
//! Source: design decision 7, group commit; PostgreSQL's `commit_delay` and `commit_siblings`. Clients
//! that ask again as soon as they are answered split into two groups that are served in turn, each by
//! a commit of its own:
//!
//! ```text
//! without  |A commits|B commits|A commits|B commits|        A comes back while B's commit is under way
//! with     |A commits|..|A and B commit |..|A and B commit |  a short wait, and all share one
//! ```
//! So when a commit has answered several, or others wait already, the next one waits for as many as
//! were there before, at most half the time that the last one took. A request that comes alone, or
//! after a pause, waits for nobody. Where those who were answered do not come back in time, the wait
//! was in vain, and it is tried again only after ever more commits.

use tandem_block::{Duration, Instant};

/// The longest wait, for drives whose commits take tens of milliseconds.
const WAIT_MAX: Duration = Duration::from_ms(1);
/// Commits without a wait after waits that were in vain, at most: bounds what they cost to half of a
/// commit in sixty-four.
const PASSED_MAX: u32 = 63;

/// Who is expected, and until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering {
    began: Instant,
    until: Instant,
    /// How many had come together when the last commit ended: those it answered and those behind.
    expected: usize,
    /// With so many, the wait was worth it.
    enough: usize,
    /// Somebody waits, or has waited, for the others.
    held: bool,
    /// Commits still to pass without a wait, and how many the last vain wait cost.
    passes: u32,
    passed: u32,
}

impl Gathering {
    /// Shall the requests that wait be held back for others? If so, until `until` at the latest.
    pub(crate) fn holds(&mut self, now: Instant, waiting: usize) -> bool {
        let holds = waiting > 0 && waiting < self.expected && now < self.until;
        self.held |= holds;
        holds
    }

    /// When those who are held back are served at the latest; `NEVER` if none is.
    pub(crate) fn due(&self) -> Instant {
        if self.held { self.until } else { Instant::NEVER }
    }

    /// A commit begins for so many requests. True if some had been held back.
    pub(crate) fn begins(&mut self, now: Instant, waiting: usize) -> bool {
        assert!(now >= self.began, "commits begin one behind the other");
        if self.held {
            self.passed = match waiting >= self.enough {
                true => 0,
                false => (self.passed * 2 + 1).min(PASSED_MAX),
            };
            self.passes = self.passed;
        }
        (self.began, self.expected) = (now, 0);
        std::mem::take(&mut self.held)
    }

    /// The commit has answered so many, and so many others wait already.
    pub(crate) fn ends(&mut self, now: Instant, served: usize, waiting: usize) {
        let several = served > 0 && served + waiting > 1;
        if !several {
            return;
        }
        if self.passes > 0 {
            self.passes -= 1;
            return;
        }
        assert!(now >= self.began, "a commit ends after it began");
        let half = Duration::from_ns(now.since(self.began).ns / 2);
        self.until = now + half.min(WAIT_MAX);
        self.expected = served + waiting;
        self.enough = waiting + served.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_us(100);

    fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1000)
    }

    /// One that has just ended a commit of 100 us.
    fn after(served: usize, waiting: usize) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.begins(at(0), served);
        gathering.ends(at(0) + TOOK, served, waiting);
        gathering
    }

    #[test]
    fn who_comes_alone_waits_for_nobody() {
        assert!(!Gathering::default().holds(at(0), 1), "the first of a life");
        assert!(!after(1, 0).holds(at(101), 1), "one client");
        assert!(!after(64, 0).holds(at(151), 1), "after a pause");
        assert!(!after(0, 5).holds(at(101), 5), "nobody was answered, so nobody comes back");
    }

    #[test]
    fn the_two_groups_become_one() {
        let mut gathering = after(1, 63);
        assert!(gathering.holds(at(100), 63));
        assert_eq!(gathering.due(), at(150), "half of what the last one took");
        assert!(!gathering.holds(at(101), 64), "all are there");
        assert!(gathering.begins(at(101), 64));
        assert_eq!(gathering.due(), Instant::NEVER);
        gathering.ends(at(201), 64, 0);
        assert!(gathering.holds(at(202), 1), "the first to come back waits for the rest");
        assert!(!gathering.holds(at(251), 40), "but not for ever");
        assert!(gathering.begins(at(251), 40));
        gathering.ends(at(351), 40, 0);
        assert!(gathering.holds(at(352), 39), "most had come, so that was worth it");
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut gathering = after(4, 4);
        let (mut now, mut held) = (100, 0);
        for _ in 0..1000 {
            // four are answered, none of them comes back in time, four others come meanwhile
            if gathering.holds(at(now), 4) {
                held += 1;
                now += 50;
                assert!(!gathering.holds(at(now), 4));
            }
            gathering.begins(at(now), 4);
            now += 100;
            gathering.ends(at(now), 4, 4);
        }
        assert!((1000 / 64..1000 / 64 + 8).contains(&held), "{held} of 1000");
    }

    #[test]
    fn slow_drives_do_not_make_it_long() {
        let mut gathering = Gathering::default();
        gathering.begins(at(0), 2);
        gathering.ends(at(20_000), 2, 2);
        assert!(gathering.holds(at(20_000), 2));
        assert_eq!(gathering.due(), at(21_000));
    }
}
