//! Who goes next, where some requests are served apart from others, in slices of time?
//!
//! Source: [IANUS §4.4, §5.1, §6] name three orders that differ in what they part, for how long, and in
//! whether they keep promises; each has a file for these, and this is what they share.

use super::edf::owed_then_slack;
use super::{Apart, Candidate, Qos, QueueView, StreamsView};
use crate::device::Class;

/// `edf` within each slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliced {
    /// What is parted, and for how long.
    pub(crate) apart: Apart,
    /// Are promises kept? Otherwise streams are alike but for their weights.
    pub(crate) promises: bool,
}

impl Qos for Sliced {
    fn next(&self, view: &QueueView) -> Option<Class> {
        super::fifo::users_first(view)
    }

    fn tells_streams(&self) -> bool {
        true
    }

    fn keeps_promises(&self) -> bool {
        self.promises
    }

    fn apart(&self) -> Option<Apart> {
        Some(self.apart)
    }

    fn next_stream(&self, view: &StreamsView) -> Option<Candidate> {
        owed_then_slack(view)
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}
