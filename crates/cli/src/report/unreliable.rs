//! Why was a hard drive not steered to for a while, in words?
//!
//! Source: requirements B6 (a drive that is not what it is believed to be), B4 (the padding budget).

use super::table::count;
use tandem_block::Duration;
use tandem_engine::bcw::controller::ControllerStats;
use tandem_engine::bcw::unreliability::Unreliability;

/// How often steering stopped, by reason; nothing if it never did.
pub fn reasons(times: impl Iterator<Item = (String, u64)>) -> String {
    let met: Vec<String> = times
        .filter(|(_, times)| *times > 0)
        .map(|(why, times)| format!("{} {}", count(times), why.replace('_', " ")))
        .collect();
    met.join(", ")
}

/// … of a controller.
pub fn reasons_of(stats: &ControllerStats) -> String {
    let times =
        |why: &Unreliability| (why.name().to_owned(), stats.unreliable_times[*why as usize]);
    reasons(Unreliability::ALL.iter().map(times))
}

/// What somebody should know of a controller's troubles, a line each.
pub fn lines(stats: &ControllerStats) -> Vec<String> {
    let mut lines = Vec::new();
    let stops: u64 = stats.unreliable_times.iter().sum();
    if stops > 0 {
        lines.push(format!(
            "steering stopped {} times ({}), for {} together; the drive was measured anew {} times",
            count(stops),
            reasons_of(stats),
            Duration::from_ns(stats.unreliable_ns),
            count(stats.measurements),
        ));
    }
    if stats.budget_stops > 0 {
        lines.push(format!(
            "its padding budget was spent {} times: it rested instead",
            count(stats.budget_stops)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_are_told_by_reason_and_only_if_there_were_any() {
        let mut stats = ControllerStats::default();
        assert_eq!(lines(&stats), Vec::<String>::new());
        stats.unreliable_times[Unreliability::Surprises as usize] = 2;
        stats.unreliable_times[Unreliability::WriteCacheOff as usize] = 1;
        (stats.unreliable_ns, stats.measurements) = (3_000_000_000, 1);
        assert_eq!(
            lines(&stats),
            ["steering stopped 3 times (2 surprises, 1 write cache off), for 3.0 s together; the \
              drive was measured anew 1 times"]
        );
        stats = ControllerStats { budget_stops: 1_234, ..ControllerStats::default() };
        assert_eq!(lines(&stats), ["its padding budget was spent 1,234 times: it rested instead"]);
    }
}
