//! Who goes next? Whoever came first; background work only when no user waits.

use super::{Qos, QosEntry, QueueView};
use crate::device::Class;

/// Registry line.
pub(crate) const ENTRY: QosEntry = QosEntry {
    name: "fifo",
    summary: "users in order of arrival, background work when no user waits",
    source: "design decision 10",
    build: || Box::new(Fifo),
};

/// Background commands in flight on one device at most, so that a user's command never queues
/// behind a burst of them inside the drive (guess).
const BACKGROUND_IN_FLIGHT_MAX: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Fifo;

/// Users by arrival, background work when no user waits.
#[inline]
pub(super) fn users_first(view: &QueueView) -> Option<Class> {
    match (view.read, view.write) {
        (Some(read), Some(write)) if read < write => Some(Class::Read),
        (_, Some(_)) => Some(Class::Write),
        (Some(_), None) => Some(Class::Read),
        (None, None) => (view.background.is_some()
            && view.background_in_flight < BACKGROUND_IN_FLIGHT_MAX)
            .then_some(Class::Background),
    }
}

impl Qos for Fifo {
    fn next(&self, view: &QueueView) -> Option<Class> {
        users_first(view)
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_arrival_then_background() {
        let view =
            |read, write, background| QueueView { read, write, background, ..QueueView::default() };
        for (view, want) in [
            (view(Some(1), Some(2), Some(0)), Some(Class::Read)),
            (view(Some(3), Some(2), None), Some(Class::Write)),
            (view(Some(3), None, None), Some(Class::Read)),
            (view(None, None, Some(9)), Some(Class::Background)),
            (view(None, None, None), None),
        ] {
            assert_eq!(Fifo.next(&view), want);
        }
        let busy = QueueView { background_in_flight: 16, ..view(None, None, Some(1)) };
        assert_eq!(Fifo.next(&busy), None);
    }
}
