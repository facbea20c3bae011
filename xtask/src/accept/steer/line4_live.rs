//! Is the order of policies live the one of virtual time?
//!
//! Source: acceptance of our own steering, line 4.

use super::Options;
use crate::accept::fidelity::line5_live::{WriteMean, write_means};
use crate::row::Row;
use anyhow::Result;

const POLICIES: [&str; 4] = ["ssd-first", "mios-d", "ect", "tandem"];
/// Means that differ by less have no order, in percent.
const ALIKE_PERCENT: u64 = 15;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let means = write_means(&POLICIES)?;
    Ok(means.iter().map(|(job, means)| order(job, means)).collect())
}

/// Whoever is sooner in virtual time, and by far, is sooner live.
fn order(job: &str, means: &[WriteMean]) -> Row {
    let is_sooner = |one: u64, other: u64| one + one * ALIKE_PERCENT / 100 < other;
    let pairs = || means.iter().flat_map(|one| means.iter().map(move |other| (one, other)));
    let sooner = || pairs().filter(|(one, other)| is_sooner(one.model_ns, other.model_ns));
    let kept = sooner().filter(|(one, other)| one.live_ns < other.live_ns).count();
    let ms = |ns: u64| format!("{}.{:02}", ns / 1_000_000, ns % 1_000_000 / 10_000);
    let told: Vec<String> = means
        .iter()
        .map(|one| format!("{} {} ({})", one.policy, ms(one.live_ns), ms(one.model_ns)))
        .collect();
    let (told, of) = (told.join(", "), sooner().count());
    Row::new(
        format!("{job}: the same order as in virtual time"),
        format!("{kept} of {of} pairs; write means in ms, in virtual time in brackets: {told}"),
        kept == of,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_turns_round_fails() {
        let row = |live: [u64; 3]| {
            let model = [10_000_000, 20_000_000, 21_000_000];
            let names = ["a", "b", "c"];
            let mean =
                |at: usize| WriteMean { policy: names[at], live_ns: live[at], model_ns: model[at] };
            let means: Vec<_> = (0..3).map(mean).collect();
            order("job", &means)
        };
        let ms = |of: [u64; 3]| of.map(|ms| ms * 1_000_000);
        assert!(!row(ms([11, 19, 22])).fails());
        assert!(!row(ms([11, 22, 19])).fails(), "they are alike");
        assert!(row(ms([23, 22, 19])).fails());
    }
}
