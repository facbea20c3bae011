//! Who goes next? The stream that has had the least, its weight counted: start-time fair queueing with a depth.
//!
//! Source:  SFQ(D) (SIGMETRICS 2004), from memory, P18 of the requirements. Ianus names it beside others. Each request has
//!          a start tag, and the least one is sent while fewer than D are in the drive.
//! Names:   D → `depth` of the pool, start tag → what a stream has had of the slack (`streams.rs`)
//! Differs: a tag counts what requests cost the drive, not how many they are. Nothing is promised: reservations are
//!          taken for weights. Background work has a weight of its own.

use super::edf::owed_then_slack;
use super::{Candidate, Qos, QosEntry, QueueView, StreamsView};
use crate::device::Class;

/// Registry line.
pub(crate) const ENTRY: QosEntry = QosEntry {
    name: "sfq",
    summary: "streams by weight alone, nothing promised (start-time fair queueing with a depth)",
    source: "SFQ(D), a baseline (P18)",
    build: || Box::new(Sfq),
};

#[derive(Clone, Copy, Debug)]
struct Sfq;

impl Qos for Sfq {
    fn next(&self, view: &QueueView) -> Option<Class> {
        super::fifo::users_first(view)
    }

    fn tells_streams(&self) -> bool {
        true
    }

    fn keeps_promises(&self) -> bool {
        false
    }

    fn next_stream(&self, view: &StreamsView) -> Option<Candidate> {
        owed_then_slack(view)
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p18_the_least_start_tag_goes_first() {
        for (weighted, background, want) in [
            (Some(4), Some(5), Some(Candidate::Weighted)),
            (Some(5), Some(5), Some(Candidate::Weighted)),
            (Some(6), Some(5), Some(Candidate::Background)),
            (Some(6), None, Some(Candidate::Weighted)),
            (None, Some(5), Some(Candidate::Background)),
            (None, None, None),
        ] {
            let view = StreamsView { weighted, background, ..StreamsView::default() };
            assert_eq!(Sfq.next_stream(&view), want, "{weighted:?} {background:?}");
        }
        let sfq = (ENTRY.build)();
        assert!(sfq.tells_streams() && !sfq.keeps_promises() && sfq.apart().is_none());
    }
}
