//! Who goes next? The earliest deadline among what is owed; then the slack, by weight.
//!
//! Source: [IANUS §4.2] for the deadlines and their order; requirements B9 for the rest: a stream
//! that runs ahead of its share takes part in the slack alone, so that it can neither burst past
//! others after a pause nor be short of space later for what nobody else wanted.

use super::{Candidate, Qos, QosEntry, QueueView, StreamsView};
use crate::device::Class;

/// Registry line.
pub(crate) const ENTRY: QosEntry = QosEntry {
    name: "edf",
    summary: "reserved streams by deadline (earliest first), the slack to others by weight",
    source: "IANUS 4.2; requirements B9",
    build: || Box::new(Edf),
};

/// Background commands in flight on one device at most, as under `fifo` (guess).
const BACKGROUND_IN_FLIGHT_MAX: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Edf;

/// What is owed by deadline, then the slack.
pub(super) fn owed_then_slack(view: &StreamsView) -> Option<Candidate> {
    let has_room = view.background_in_flight < BACKGROUND_IN_FLIGHT_MAX;
    let (background_due, background) =
        if has_room { (view.background_due, view.background) } else { (None, None) };
    match (view.due, background_due) {
        (Some(user), Some(work)) if work < user => return Some(Candidate::BackgroundDue),
        (Some(_), _) => return Some(Candidate::Due),
        (None, Some(_)) => return Some(Candidate::BackgroundDue),
        (None, None) => {}
    }
    match (view.weighted, background) {
        (Some(user), Some(work)) if work < user => Some(Candidate::Background),
        (Some(_), _) => Some(Candidate::Weighted),
        (None, Some(_)) => Some(Candidate::Background),
        (None, None) => view.ahead.map(|_| Candidate::Ahead),
    }
}

impl Qos for Edf {
    /// Hard drives have one head and users' requests on them no reservation: as under `fifo`.
    fn next(&self, view: &QueueView) -> Option<Class> {
        super::fifo::users_first(view)
    }

    fn tells_streams(&self) -> bool {
        true
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
    use tandem_block::Instant;

    #[test]
    fn what_is_owed_by_deadline_then_the_slack_by_weight() {
        let at = |ns| Some(Instant::from_ns(ns));
        let view = |due, weighted, ahead, background_due, background| StreamsView {
            due,
            weighted,
            ahead,
            background_due,
            background,
            background_in_flight: 0,
        };
        for (view, want) in [
            (view(at(9), Some(0), Some(0), None, Some(0)), Some(Candidate::Due)),
            (view(at(9), None, None, at(8), Some(0)), Some(Candidate::BackgroundDue)),
            (view(at(9), None, None, at(9), Some(0)), Some(Candidate::Due)),
            (view(None, Some(0), None, at(8), Some(0)), Some(Candidate::BackgroundDue)),
            (view(None, Some(5), Some(0), None, Some(5)), Some(Candidate::Weighted)),
            (view(None, Some(5), Some(0), None, Some(4)), Some(Candidate::Background)),
            (view(None, None, Some(0), None, Some(4)), Some(Candidate::Background)),
            (view(None, None, Some(7), None, None), Some(Candidate::Ahead)),
            (view(None, None, None, None, None), None),
        ] {
            assert_eq!(Edf.next_stream(&view), want, "{view:?}");
        }
        let busy =
            StreamsView { background_in_flight: 16, ..view(None, None, None, at(1), Some(1)) };
        assert_eq!(Edf.next_stream(&busy), None);
    }
}
