//! Who goes next on this device?
//!
//! A seam: one file per answer. The engine shows the heads of the waiting classes and carries out
//! the choice.

pub mod fifo;

use crate::device::Class;

/// What a choice is made from: the order of arrival of the first waiting job of each class.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueView {
    /// Of the reads.
    pub read: Option<u64>,
    /// Of the writes.
    pub write: Option<u64>,
    /// Of the background jobs.
    pub background: Option<u64>,
    /// Background commands in flight on this device.
    pub background_in_flight: u32,
}

/// An order of service.
pub trait Qos: std::fmt::Debug + Send {
    /// Which class goes next; `None` to wait.
    fn next(&self, view: &QueueView) -> Option<Class>;
    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Qos>;
}

impl Clone for Box<dyn Qos> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A registered order.
#[derive(Clone, Copy, Debug)]
pub struct QosEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Makes one.
    pub build: fn() -> Box<dyn Qos>,
}

/// Every order there is.
pub const ORDERS: &[QosEntry] = &[fifo::ENTRY];
