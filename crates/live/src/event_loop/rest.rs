//! What does the real event loop do while nothing happens? It spins if that pays, then it sleeps.

use super::{EventLoop, Phase, SLEEP_MAX, TIMER_LEAD, YIELDED};
use crate::engine::LiveEngine;
use crate::spin::Spin;
use std::sync::atomic::Ordering;
use tandem_block::Instant;

impl<M: LiveEngine> EventLoop<M> {
    /// Of those that have room for it.
    fn has_news(&mut self) -> bool {
        let loads = self.core.counter.loads.iter();
        let mut open = self.fronts.iter_mut().zip(loads).filter(|(_, load)| !load.waits_for_room);
        open.any(|(front, _)| front.has_news()) || self.stop_asked.load(Ordering::Relaxed)
    }

    /// Nothing to do: spins if that pays, then sleeps until something happens or is due. True if
    /// something happened.
    pub(super) fn rest(&mut self, now: Instant, spin: &mut Spin) -> bool {
        let due = match self.phase {
            Phase::Settling(latest) | Phase::Ending(latest) => self.core.next_due().min(latest),
            _ => self.core.next_due(),
        };
        self.core.ring.submit_queued();
        let (mut now, awake_until) = (now, spin.until());
        while now < awake_until || due.since(now) <= TIMER_LEAD {
            if now >= due || self.core.ring.has_news() || self.has_news_to_serve() {
                spin.ends(now, false);
                return now < due;
            }
            if due.since(now) <= TIMER_LEAD {
                for _ in 0..8 {
                    std::hint::spin_loop();
                }
                now = self.core.clock.now();
                continue;
            }
            // on few CPUs a client may wait for the very one that we spin on; then sleeping is
            // cheap, because the CPU does not halt
            let before = now;
            std::thread::yield_now();
            now = self.core.clock.now();
            if now.since(before) > YIELDED {
                break;
            }
        }
        for (index, front) in self.fronts.iter_mut().enumerate() {
            front.falls_asleep(&mut self.core.context(index, now, &mut self.engine));
        }
        self.waker.falls_asleep();
        if !self.has_news_to_serve() {
            let sleep = (due - TIMER_LEAD).since(now).min(SLEEP_MAX);
            self.core.ring.wait(Some(sleep));
        }
        self.waker.is_awake();
        spin.ends(self.core.clock.now(), true);
        self.core.ring.has_news()
    }

    /// While the event loop starts or ends, remote queues are shut, so what waits there is no reason to hurry.
    fn has_news_to_serve(&mut self) -> bool {
        self.phase == Phase::Serving && self.has_news()
    }
}
