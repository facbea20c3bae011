//! What time is it in the real event loop? Nanoseconds of the monotonic clock since the event loop began.

use tandem_block::Instant;

/// A monotonic clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock { origin: std::time::Instant::now() }
    }

    /// Time since it began.
    pub fn now(&self) -> Instant {
        let ns = self.origin.elapsed().as_nanos();
        Instant::from_ns(u64::try_from(ns).expect("an event loop lives less than 584 years"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
