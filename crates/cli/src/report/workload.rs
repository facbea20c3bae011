//! Is a drive given more work than its vendor rates it for?
//!
//! Source: requirements B4: the padding of MIOS-E alone is 391 to 981 TB a year. A replay is taken to
//! go on at its rate for ever, as for `life_years`.

use super::table;
use serde::Serialize;
use tandem_engine::Role;
use tandem_sim::replay::DeviceResult;

const DAY_NS: u128 = 86_400_000_000_000;

/// Work of drives a day: of hard drives reads and writes, of SSDs writes.
#[derive(Debug, Serialize)]
pub struct Workload {
    bytes_per_day: u64,
    rated_bytes_per_day: Option<u64>,
    rated_share: Option<f64>,
    rating: Option<String>,
}

/// Of these drives together; a rating is told if all of them have one.
pub fn of(devices: &[&DeviceResult], elapsed_ns: u64) -> Workload {
    let bytes_per_day = devices.iter().map(|device| per_day(device, elapsed_ns)).sum();
    let ratings: Option<Vec<_>> = devices.iter().map(|device| device.rating.as_ref()).collect();
    let ratings = ratings.filter(|ratings| !ratings.is_empty());
    let rated_bytes_per_day =
        ratings.as_ref().map(|ratings| ratings.iter().map(|rating| rating.bytes_per_day).sum());
    Workload {
        bytes_per_day,
        rated_bytes_per_day,
        rated_share: rated_bytes_per_day
            .map(|rated: u64| (bytes_per_day as f64 * 1e4 / rated.max(1) as f64).round() / 1e4),
        rating: ratings.map(|ratings| ratings[0].basis.clone()),
    }
}

fn per_day(device: &DeviceResult, elapsed_ns: u64) -> u64 {
    let read = if device.role == Role::Hdd { device.stats.read_bytes } else { 0 };
    let bytes = u128::from(device.stats.written_bytes() + read);
    u64::try_from(bytes * DAY_NS / u128::from(elapsed_ns.max(1))).unwrap_or(u64::MAX)
}

/// A drive that would be worked harder than it is rated for, in words.
pub fn beyond(device: &DeviceResult, elapsed_ns: u64) -> Option<String> {
    let workload = of(&[device], elapsed_ns);
    let times = workload.rated_share.filter(|share| *share > 1.0)?;
    Some(format!(
        "at this rate {} a day, {times:.1} times what it is rated for ({})",
        table::bytes(workload.bytes_per_day),
        workload.rating.unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_engine::stats::DeviceStats;
    use tandem_sim::profiles::Rating;

    fn drive(role: Role, rated: Option<u64>) -> DeviceResult {
        DeviceResult {
            role,
            name: "d".into(),
            stats: DeviceStats { user_bytes: 300, read_bytes: 700, ..DeviceStats::default() },
            gauge: Default::default(),
            queue_found: Default::default(),
            steering: Default::default(),
            flash_pages: (0, 0),
            model_bytes: 0,
            endurance_bytes: None,
            rating: rated.map(|bytes_per_day| Rating { bytes_per_day, basis: "so many".into() }),
        }
    }

    /// Half a day each.
    #[test]
    fn b4_work_a_day_is_held_against_the_rating() {
        let half = (DAY_NS / 2) as u64;
        for (role, rated, bytes, share) in [
            (Role::Hdd, Some(1_000), 2_000, Some(2.0)),
            (Role::Hdd, Some(4_000), 2_000, Some(0.5)),
            (Role::Ssd, Some(1_000), 600, Some(0.6)),
            (Role::Hdd, None, 2_000, None),
        ] {
            let drive = drive(role, rated);
            let found = of(&[&drive], half);
            assert_eq!((found.bytes_per_day, found.rated_share), (bytes, share));
            let told = beyond(&drive, half);
            assert_eq!(told.is_some(), share.is_some_and(|share| share > 1.0));
            assert!(told.is_none_or(|told| told.contains("2.0 times") && told.contains("so many")));
        }
        let (one, other) = (drive(Role::Hdd, Some(1_000)), drive(Role::Hdd, None));
        assert_eq!(of(&[&one, &one], half).rated_share, Some(2.0));
        assert_eq!(of(&[&one, &other], half).rated_share, None);
        assert_eq!(of(&[], half).rated_share, None);
    }
}
