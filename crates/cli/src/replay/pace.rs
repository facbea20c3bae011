//! How many runs fit side by side, and how far are they?

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Condvar, Mutex, PoisonError};
use tandem_block::Arrival;
use tandem_sim::replay::Plan;

/// Bytes of RAM per 4 KiB that a run needs, at most: flash map (9), slots and index (17), bits.
const RAM_PER_SSD_BLOCK: u64 = 28;
/// The same for a block of a hard drive's visible part: bits, and slots for its log.
const RAM_PER_HDD_BLOCK: u64 = 12;
/// Runs at the same time, at most: each is bound by memory more than by the processor.
const THREADS_MAX: usize = 2;
/// Arrivals between two steps of the progress bar.
const PROGRESS_STEP: u64 = 1 << 16;

/// Passes arrivals on and moves the bar every so many of them.
pub fn counted<'a>(
    arrivals: &'a mut dyn Iterator<Item = Arrival>,
    progress: &'a ProgressBar,
) -> impl Iterator<Item = Arrival> + 'a {
    let mut count = 0u64;
    arrivals.inspect(move |_| {
        count += 1;
        if count.is_multiple_of(PROGRESS_STEP) {
            progress.inc(PROGRESS_STEP);
        }
    })
}

/// On stderr, and only on a terminal (which indicatif sees to).
pub fn bar(length: Option<u64>) -> ProgressBar {
    match length {
        None => ProgressBar::new_spinner().with_message("reading"),
        Some(length) => {
            let style = "{wide_bar} {human_pos}/{human_len} requests, {per_sec}, {eta} left";
            let style = ProgressStyle::with_template(style).expect("a valid template");
            ProgressBar::new(length).with_style(style)
        }
    }
}

/// How many runs like this one fit the memory that is free now.
pub fn threads(plan: &Plan) -> usize {
    let fit = usable_bytes().checked_div(need_bytes(plan)).unwrap_or(u64::MAX);
    usize::try_from(fit).unwrap_or(THREADS_MAX).clamp(1, threads_max())
}

/// Threads for runs, whatever they need.
pub fn threads_max() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    THREADS_MAX.min(processors)
}

/// RAM that a run needs at most.
pub fn need_bytes(plan: &Plan) -> u64 {
    let of_drive = |drive: &tandem_sim::replay::PlannedDrive| match drive.role {
        tandem_engine::Role::Ssd => ssd_need_bytes(drive.visible_bytes),
        tandem_engine::Role::Hdd => drive.visible_bytes / 4096 * RAM_PER_HDD_BLOCK,
    };
    plan.drives.iter().map(of_drive).sum()
}

/// RAM that an SSD of this size needs at most.
pub fn ssd_need_bytes(capacity_bytes: u64) -> u64 {
    capacity_bytes / 4096 * RAM_PER_SSD_BLOCK
}

/// Three quarters of the RAM that is free now; 0 if nobody says.
fn usable_bytes() -> u64 {
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    free.unwrap_or(0) / 4 * 3
}

/// RAM that unlike runs share: each begins when it fits beside those under way, or alone.
pub struct Room {
    bytes: u64,
    taken_bytes: Mutex<u64>,
    given_back: Condvar,
}

impl Room {
    /// What is free now.
    pub fn of_free_memory() -> Room {
        Room::new(usable_bytes())
    }

    fn new(bytes: u64) -> Room {
        Room { bytes, taken_bytes: Mutex::new(0), given_back: Condvar::new() }
    }

    /// Does `work` when there is room for it.
    pub fn with<T>(&self, need_bytes: u64, work: impl FnOnce() -> T) -> T {
        let taken = self.taken_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let too_full = |taken: &mut u64| *taken > 0 && *taken + need_bytes > self.bytes;
        let mut taken =
            self.given_back.wait_while(taken, too_full).unwrap_or_else(PoisonError::into_inner);
        *taken += need_bytes;
        drop(taken);
        let _taken = Taken { room: self, bytes: need_bytes };
        work()
    }
}

/// Room that goes back when this is dropped, however the work ended.
struct Taken<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.room.taken_bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.room.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn runs_that_do_not_fit_beside_each_other_take_turns() {
        let room = Room::new(10);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            // the last needs more than there is, and has its turn alone
            for need in [4, 3, 6, 5, 4, 2, 8, 11] {
                let (room, now, most) = (&room, &now, &most);
                scope.spawn(move || {
                    room.with(need, || {
                        let taken = now.fetch_add(need, Ordering::SeqCst) + need;
                        most.fetch_max(taken, Ordering::SeqCst);
                        assert!(taken <= 10 || taken == need, "{taken} of 10");
                        std::thread::yield_now();
                        now.fetch_sub(need, Ordering::SeqCst);
                    });
                });
            }
        });
        assert_eq!(most.into_inner(), 11);
        assert_eq!(*room.taken_bytes.lock().unwrap(), 0, "all of it is given back");
    }
}
