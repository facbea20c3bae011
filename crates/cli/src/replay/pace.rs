//! How many runs fit side by side, and how far are they?

use indicatif::{ProgressBar, ProgressStyle};
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

/// How many runs fit the memory that is free now.
pub fn threads(plan: &Plan) -> usize {
    let need: u64 = plan
        .drives
        .iter()
        .map(|drive| match drive.role {
            tandem_engine::Role::Ssd => drive.visible_bytes / 4096 * RAM_PER_SSD_BLOCK,
            tandem_engine::Role::Hdd => drive.visible_bytes / 4096 * RAM_PER_HDD_BLOCK,
        })
        .sum();
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    let fit = free.map_or(1, |free| (free / 4 * 3).checked_div(need).unwrap_or(u64::MAX));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    usize::try_from(fit).unwrap_or(THREADS_MAX).clamp(1, THREADS_MAX.min(processors))
}
