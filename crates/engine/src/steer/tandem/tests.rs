//! Decisions of our own policy alone, and what it learns of answers.

use super::*;
use crate::profile::SsdProfile;
use crate::steer::test_views::{hdd, hdd_profile, ssd, view};

const HDD: DeviceId = DeviceId(1);

/// 20 us for 4 KiB, then 300 MB/s. A way of the arm takes 8 ms, a slow write 12 ms.
fn tandem(slowdown_ppm: u64) -> Tandem {
    let ssd = SsdProfile { flush_ns: 1_000_000, ..SsdProfile::default() };
    let hdd = hdd_profile();
    let profiles = DriveProfiles { ssds: vec![(DeviceId(0), ssd)], hdds: vec![(HDD, hdd)] };
    let mut config = SteerConfig::named("tandem");
    config.set("slowdown", slowdown_ppm).expect("within the bounds");
    let mut tandem = Tandem::new(&config, &profiles);
    for bytes in (12..=20).map(|bits| 1u64 << bits) {
        // as much as is believed: 20 us, or 300 MB/s
        let took_ns = (bytes * 10 / 3).max(20_000);
        (0..8).for_each(|_| tandem.ssds.learn(DeviceId(0), bytes, took_ns));
    }
    tandem
}

/// An SSD that so much is being written to.
fn busy_ssd(bytes: u64) -> SsdView {
    SsdView { in_flight_bytes: bytes, written_bytes: bytes, ..ssd(0, 1) }
}

/// A write of 4 KiB on the SSD that met a stall.
fn stall(latency_ns: u64) -> Seen {
    Seen::Completion {
        device: DeviceId(0),
        read: false,
        is_users: true,
        bytes: 4096,
        latency_ns,
        queue_length: 0,
        in_flight_bytes: 4096,
        written_bytes: 4096,
    }
}

fn write_answered(redirected: bool, latency_ns: u64, expected: Expected) -> Seen {
    let from = if redirected { ServedFrom::HddLog } else { ServedFrom::Ssd };
    Seen::Answer(Answer { from, bytes: 4096, latency_ns, expected, ..Answer::default() })
}

fn read_answered(logical: Logical, from: ServedFrom, latency_ns: u64) -> Seen {
    let answer = Answer { read: true, from, logical, bytes: 4096, ..Answer::default() };
    Seen::Answer(Answer { latency_ns, ..answer })
}

#[test]
fn who_is_sooner_has_the_write() {
    // bytes before it on the SSD, age of its oldest command, what the hard drive takes, why
    for (in_flight_bytes, oldest_ns, expected_ns, want) in [
        (0, 0, 20_000, Reason::HddSooner),
        (0, 0, 60_000, Reason::SsdSooner),
        (1 << 20, 3_000_000, 3_000_000, Reason::HddSooner),
        (4096, 600_000, 2_000_000, Reason::Stalled),
        (4096, 500_000, 2_000_000, Reason::SsdSooner),
    ] {
        let (mut drive, mut other) = (hdd(1), busy_ssd(in_flight_bytes));
        (drive.expected_ns, other.oldest_ns) = (expected_ns, oldest_ns);
        let (ssds, hdds) = ([other], [drive]);
        let mut tandem = tandem(1_050_000);
        tandem.observe(Instant::ZERO, &stall(10_000_000));
        let decision = tandem.decide(&view(&ssds, &hdds));
        assert_eq!(decision.reason, want, "{in_flight_bytes} {oldest_ns} {expected_ns}");
        assert_eq!(decision.target.is_log(), want.redirects());
        assert!(decision.expected.ssd_ns >= 20_000, "what the SSD would take is told");
    }
}

/// Who was sent away from an SSD that was ready at once was late for nothing.
#[test]
fn a_wrong_alarm_counts_as_late() {
    let (mut drive, mut other) = (hdd(1), ssd(0, 1));
    (drive.expected_ns, other.oldest_ns) = (180_000, 600_000);
    let (ssds, hdds) = ([other], [drive]);
    let mut view = view(&ssds, &hdds);
    for (after_us, is_late) in [(100, true), (9_000, false)] {
        let mut tandem = tandem(1_050_000);
        assert_eq!(tandem.decide(&view).reason, Reason::SsdSooner, "it never stalled");
        tandem.observe(Instant::ZERO, &stall(10_000_000));
        for _ in 0..4 {
            view.now = Instant::from_ns(1_000_000_000);
            assert_eq!(tandem.decide(&view).reason, Reason::Stalled);
        }
        let ends = Instant::from_ns(1_000_000_000 + after_us * 1_000);
        tandem.observe(ends, &stall(600_000 + after_us * 1_000));
        assert_eq!(tandem.late_writes.is_spent(), is_late, "{after_us} us later");
    }
}

#[test]
fn a_drive_that_is_not_ready_or_would_be_slow_is_left_alone() {
    for (accepting, predicted, oldest_ns, want) in [
        (false, WriteState::Fast, 0, Reason::Resting),
        (true, WriteState::Slow, 0, Reason::Resting),
        (false, WriteState::Fast, 20_000_000, Reason::NotAccepting),
    ] {
        let (mut drive, mut other) = (hdd(1), ssd(0, 1));
        (drive.accepting, drive.predicted) = (accepting, predicted);
        other.oldest_ns = oldest_ns;
        let (ssds, hdds) = ([other], [drive]);
        let mut tandem = tandem(1_050_000);
        tandem.observe(Instant::ZERO, &stall(10_000_000));
        assert_eq!(tandem.decide(&view(&ssds, &hdds)).reason, want);
    }
}

/// Where a write to the hard drive takes 15 us longer, so much of it is bought as the operator allows. One in a hundred
/// takes 120 us on the SSD, so that nobody sees one of 35 us.
#[test]
fn bytes_are_bought_with_the_time_that_there_is() {
    let mut shares = Vec::new();
    for slowdown_ppm in [1_000_000, 1_050_000, 1_200_000, 3_000_000] {
        let mut tandem = tandem(slowdown_ppm);
        let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
        let (mut redirected, mut total_ns) = (0u64, 0u64);
        for number in 0..50_000 {
            let decision = tandem.decide(&view(&ssds, &hdds));
            let is_redirected = decision.target.is_log();
            let ssd_ns = if number % 100 == 0 { 120_000 } else { 20_000 };
            let took_ns = if is_redirected { 35_000 } else { ssd_ns };
            redirected += u64::from(is_redirected);
            total_ns += took_ns;
            let answered = write_answered(is_redirected, took_ns, decision.expected);
            tandem.observe(Instant::ZERO, &answered);
        }
        let allowed_ns = 50_000 * 21_000 / 1_000_000 * slowdown_ppm;
        assert!(total_ns <= allowed_ns + allowed_ns / 50, "{slowdown_ppm}: {total_ns} ns");
        shares.push(redirected * 100 / 50_000);
    }
    assert_eq!(shares[0], 0, "nothing may take longer");
    assert!((4..=9).contains(&shares[1]), "5 % of 20 us, at 15 us each: {shares:?}");
    assert!((20..=30).contains(&shares[2]), "{shares:?}");
    assert!(shares[3] >= 95, "there is time for all of them: {shares:?}");
}

/// A drive that would be slow is better than an SSD that takes even longer.
#[test]
fn a_slow_write_is_taken_only_where_the_ssd_is_slower_still() {
    for (accepting, predicted, expected_ns, queued_bytes, want) in [
        (true, WriteState::Slow, 12_055_000, 1 << 20, Reason::Resting),
        (true, WriteState::Slow, 12_055_000, 8 << 20, Reason::HddSooner),
        // the slow write is not in what is expected of it
        (false, WriteState::Fast, 35_000, 1 << 20, Reason::Resting),
        (false, WriteState::Fast, 35_000, 8 << 20, Reason::HddSooner),
    ] {
        let (mut drive, other) = (hdd(1), busy_ssd(queued_bytes));
        (drive.accepting, drive.takes_slow) = (accepting, true);
        (drive.predicted, drive.expected_ns) = (predicted, expected_ns);
        let (ssds, hdds) = ([other], [drive]);
        let decision = tandem(1_050_000).decide(&view(&ssds, &hdds));
        assert_eq!(decision.reason, want, "{accepting} {predicted:?} {queued_bytes}");
    }
}

#[test]
fn what_is_read_often_stays() {
    let mut tandem = tandem(1_050_000);
    for _ in 0..100 {
        tandem.observe(Instant::ZERO, &read_answered(0, ServedFrom::Ssd, 80_000));
    }
    let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
    hdds[0].expected_ns = 10_000;
    let mut view = view(&ssds, &hdds);
    assert_eq!(tandem.decide(&view).reason, Reason::SsdSooner, "reads would go to the arm");
    view.logical = 1 << 30;
    (0..1_000).for_each(|_| tandem.by_extent.note(view.logical, false));
    assert_eq!(tandem.decide(&view).reason, Reason::HddSooner, "nobody reads it");
}

#[test]
fn reads_that_the_hard_drive_serves_are_not_held_up() {
    let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
    for (reads_per_s, want) in [(0, Reason::HddSooner), (20, Reason::SsdSooner)] {
        (hdds[0].expected_ns, hdds[0].reads_per_s) = (10_000, reads_per_s);
        assert_eq!(tandem(1_050_000).decide(&view(&ssds, &hdds)).reason, want, "{reads_per_s}");
    }
}

/// Writes or reads that were late by far close the way, except for a clear gain, until they are made up for.
#[test]
fn users_that_were_slowed_down_are_not_slowed_down_further() {
    let expected = Expected { ns: 18_000, ssd_ns: 20_000 };
    let late_write = write_answered(true, 50_000_000, expected);
    let late_read = read_answered(0, ServedFrom::HddLog, 50_000_000);
    for late in [late_write, late_read] {
        let mut tandem = tandem(1_050_000);
        let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
        hdds[0].expected_ns = 18_000;
        let mut view = view(&ssds, &hdds);
        view.logical = 1 << 30;
        assert_eq!(tandem.decide(&view).reason, Reason::HddSooner);
        (0..4).for_each(|_| tandem.observe(Instant::ZERO, &late));
        (0..2_000).for_each(|_| tandem.by_extent.note(view.logical, false));
        tandem.slow_ppm = 0;
        assert_eq!(tandem.decide(&view).reason, Reason::OverBudget);
        let queued = [busy_ssd(1 << 20)];
        let busy = SteerView { ssds: &queued, ..view };
        assert_eq!(tandem.decide(&busy).reason, Reason::HddSooner, "a clear gain");
        let on_ssd = Expected { ns: 20_000, ssd_ns: 20_000 };
        for _ in 0..1_000_000 {
            tandem.observe(Instant::ZERO, &write_answered(false, 20_000, on_ssd));
            tandem.observe(Instant::ZERO, &read_answered(1, ServedFrom::Ssd, 20_000));
        }
        (0..2_000).for_each(|_| tandem.by_extent.note(view.logical, false));
        assert_eq!(tandem.decide(&view).reason, Reason::HddSooner, "it was made up for");
    }
}

/// Writes of the engine itself are no user's, and teach nothing.
#[test]
fn only_users_writes_are_learned_from() {
    for (is_users, want) in [(false, Reason::SsdSooner), (true, Reason::HddSooner)] {
        let mut tandem = tandem(1_000_000);
        for _ in 0..200 {
            let seen = Seen::Completion {
                device: DeviceId(0),
                read: false,
                is_users,
                bytes: 4096,
                latency_ns: 200_000,
                queue_length: 0,
                in_flight_bytes: 4096,
                written_bytes: 4096,
            };
            tandem.observe(Instant::ZERO, &seen);
        }
        let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
        assert_eq!(tandem.decide(&view(&ssds, &hdds)).reason, want);
    }
}
