//! What may buffered writes still cost their hard drive today?
//!
//! Source:  requirements B4: padding of the papers' policies alone is beyond the workload that vendors
//!          rate drives for.
//! Differs: the papers have no bound. Here padding and redirected writes have a budget a day each, and
//!          padding ends when all that the drive did today has reached its rating.

use super::{Controller, Instant};
use crate::bcw::padding::DayBudget;

/// The budgets of one drive.
#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    padding: DayBudget,
    log: DayBudget,
    /// Everything that the drive did today has reached what it is rated for.
    rating_is_spent: bool,
}

impl Budgets {
    pub(super) fn new(padding_bytes_per_day: u64) -> Budgets {
        Budgets {
            padding: DayBudget::new(padding_bytes_per_day),
            log: DayBudget::new(u64::MAX),
            rating_is_spent: false,
        }
    }

    pub(super) fn take_padding(&mut self, now: Instant, bytes: u64) -> bool {
        // padding readies the drive for users' writes: without a budget for those it is for nothing
        !self.rating_is_spent && !self.log.is_spent(now, 0) && self.padding.take(now, bytes)
    }

    pub(super) fn spend_log(&mut self, now: Instant, bytes: u64) {
        self.log.spend(now, bytes);
    }

    pub(super) fn takes_log_writes(&mut self, now: Instant, promised_bytes: u64) -> bool {
        !self.log.is_spent(now, promised_bytes)
    }

    /// Is something left of what may be redirected to the drive in a day?
    pub(super) fn has_log_bytes(&self, now: Instant) -> bool {
        let (spent, allowed) = self.log.spent(now);
        spent < allowed
    }

    /// Bytes of padding today, and what is allowed.
    pub fn padding(&self, now: Instant) -> (u64, u64) {
        self.padding.spent(now)
    }

    /// Bytes redirected to the drive today, and what is allowed; `u64::MAX`: anything.
    pub fn log(&self, now: Instant) -> (u64, u64) {
        self.log.spent(now)
    }
}

impl Controller {
    /// What may be written today.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// At most so much may be redirected to the drive in a day.
    pub(crate) fn bound_log(&mut self, bytes_per_day: u64) {
        self.budgets.log = DayBudget::new(bytes_per_day);
    }

    /// Has the drive done today what it is rated for? Then nothing is padded.
    pub(crate) fn note_rating(&mut self, is_spent: bool) {
        self.budgets.rating_is_spent = is_spent;
    }
}
