//! What does the controller do in each state, at each event, under each control?

use super::*;
use crate::profile::HddDetail;
use tandem_block::{KIB, MIB};

fn profile() -> HddProfile {
    HddProfile {
        fast_latency: vec![(4 * KIB, 35_000), (16 * KIB, 66_000), (64 * KIB, 180_000)],
        mid_latency: vec![(4 * KIB, 55_000), (16 * KIB, 135_000), (64 * KIB, 280_000)],
        slow_latency_ns: 12_000_000,
        fast_stage_bytes: 16 * MIB,
        mid_stage_bytes: 8 * MIB,
        drain_idle_ns: 50_000_000,
        drain_bytes_per_s: 200_000_000,
        flush_base_ns: 200_000_000,
        position_ns: 14_000_000,
        // stages without spread: the tests look at their very ends
        detail: Box::new(HddDetail {
            fast_jitter_ppm: Some(0),
            mid_jitter_ppm: Some(0),
            ..HddDetail::default()
        }),
    }
}

const FAST: Duration = Duration::from_us(180);
const MID: Duration = Duration::from_us(280);
const SLOW: Duration = Duration::from_us(12_180);

fn fast() -> (Controller, Instant) {
    fast_under(Control::Full)
}

fn fast_under(control: Control) -> (Controller, Instant) {
    fast_with(control, true)
}

fn fast_with(control: Control, recalibrate: bool) -> (Controller, Instant) {
    let mut c = Controller::new(profile(), 10, u64::MAX, recalibrate);
    c.enable(control);
    let now = Instant::ZERO + Duration::from_s(1);
    assert!(c.accepting(now), "rested for a second: fast");
    (c, now)
}

fn write(c: &mut Controller, now: &mut Instant, latency: Duration) -> WriteState {
    c.commit(*now, 64 * KIB);
    c.issued(64 * KIB, false);
    *now += latency;
    c.completed(*now, 64 * KIB, latency, false)
}

#[test]
fn b2_a_user_never_runs_into_the_predicted_slow_write() {
    let (mut c, mut now) = fast();
    for _ in 0..255 {
        assert_eq!(c.next(now, Some(64 * KIB)), Action::Write);
        write(&mut c, &mut now, FAST);
    }
    // 255 x 64 KiB are in the stage; one more would fill it exactly, which is slow
    assert_eq!(c.predict(now, 64 * KIB), WriteState::Slow);
    assert_eq!(c.next(now, Some(64 * KIB)), Action::Return);
    assert_eq!(c.next(now, Some(4 * KIB)), Action::Write, "a smaller one still fits");
}

#[test]
fn b2_committed_bytes_count_before_they_are_written() {
    let (mut c, now) = fast();
    for _ in 0..255 {
        c.commit(now, 64 * KIB);
    }
    assert_eq!(c.predict(now, 64 * KIB), WriteState::Slow);
    c.uncommit(64 * KIB);
    assert_eq!(c.predict(now, 64 * KIB), WriteState::Fast);
}

#[test]
fn bcw_algorithm_2_pads_through_slow_into_mid_and_keeps_the_stream() {
    let (mut c, mut now) = fast();
    for _ in 0..255 {
        write(&mut c, &mut now, FAST);
    }
    c.commit(now, 60 * KIB);
    c.issued(60 * KIB, false);
    c.completed(now, 60 * KIB, FAST, false);
    assert_eq!(c.next(now, None), Action::Pad(SLOW_PADDING_BYTES));
    assert_eq!(c.state(), State::Slow);
    assert!(!c.accepting(now), "users go elsewhere while the slow write is brought on");
    c.issued(SLOW_PADDING_BYTES, true);
    now += SLOW;
    assert_eq!(c.completed(now, SLOW_PADDING_BYTES, SLOW, true), WriteState::Slow);
    assert_eq!(c.state(), State::Mid);
    assert!(c.accepting(now));
    assert_eq!(c.predict(now, 64 * KIB), WriteState::Mid);
    assert_eq!(c.next(now, None), Action::Pad(FAST_PADDING_BYTES));
    write(&mut c, &mut now, MID);
    assert_eq!(c.stats.user_slow_writes, 0);
    assert_eq!(c.stats.confusion.counts[2], [0, 0, 1], "the slow write was predicted");
}

#[test]
fn b2_after_an_idle_drain_the_drive_is_fast_for_free() {
    let (mut c, mut now) = fast();
    for _ in 0..200 {
        write(&mut c, &mut now, FAST);
    }
    assert_eq!(c.predict(now, 7 * MIB), WriteState::Slow);
    now += Duration::from_ms(500);
    assert_eq!(c.predict(now, 7 * MIB), WriteState::Fast);
}

#[test]
fn b2_without_demand_padding_stops_and_the_drive_rests() {
    let (mut c, mut now) = fast();
    c.model.profile_mut().drain_idle_ns = 900_000_000; // longer than demand lasts
    for _ in 0..256 {
        write(&mut c, &mut now, FAST);
    }
    write(&mut c, &mut now, SLOW);
    assert_eq!(c.state(), State::Mid);
    assert_eq!(c.stats.user_slow_writes, 1);
    now += DEMAND;
    assert!(matches!(c.next(now, None), Action::Rest(at) if at > now));
    assert_eq!(c.state(), State::Draining);
}

#[test]
fn b2_padding_that_never_sees_a_slow_write_ends_in_a_flush() {
    let (mut c, mut now) = fast();
    c.note_demand(now, 4096);
    c.disturbed(true);
    assert!(!c.accepting(now));
    let mut padded = 0;
    loop {
        c.note_demand(now, 4096);
        match c.next(now, None) {
            Action::Pad(bytes) => {
                padded += bytes;
                c.issued(bytes, true);
                now += MID;
                c.completed(now, bytes, MID, true);
            }
            Action::Flush => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(padded, 16 * MIB);
    assert_eq!(c.stats.padding_limits, 1);
    c.flush_done(now, true);
    assert_eq!(c.state(), State::Fast);
}

#[test]
fn a_spent_budget_means_rest() {
    let mut c = Controller::new(profile(), 10, 100 * KIB, true);
    c.enable(Control::Full);
    let now = Instant::ZERO + Duration::from_s(1);
    assert!(c.accepting(now));
    c.disturbed(true);
    c.note_demand(now, 4096);
    assert_eq!(c.next(now, None), Action::Pad(SLOW_PADDING_BYTES));
    assert!(matches!(c.next(now, None), Action::Rest(_)));
    assert_eq!(c.stats.budget_stops, 1);
}

#[test]
fn b4_what_is_redirected_has_a_budget_a_day() {
    let (mut c, mut now) = fast();
    c.bound_log(128 * KIB);
    write(&mut c, &mut now, FAST);
    assert!(c.accepting(now));
    write(&mut c, &mut now, FAST);
    assert_eq!(c.budgets().log(now), (128 * KIB, 128 * KIB));
    assert!(!c.accepting(now), "nothing is left of today's");
    // nor is the drive made ready for what may not come
    c.disturbed(true);
    c.note_demand(now, 4096);
    assert!(!matches!(c.next(now, None), Action::Pad(_)));
    now += Duration::from_s(86_400);
    assert!(c.accepting(now), "tomorrow");
}

#[test]
fn b4_a_drive_that_did_its_days_work_is_not_padded() {
    let (mut c, now) = fast();
    c.note_rating(true);
    assert!(c.accepting(now), "users' writes are useful, and come home in any case");
    c.disturbed(true);
    c.note_demand(now, 4096);
    assert!(!matches!(c.next(now, None), Action::Pad(_)));
    assert_eq!(c.stats.budget_stops, 1);
}

#[test]
fn a_failed_flush_is_a_faulted_drive() {
    let (mut c, now) = fast();
    c.flush_issued(now);
    assert_eq!(c.next(now, Some(4096)), Action::Return);
    c.flush_done(now, false);
    assert_eq!(c.state(), State::Faulted);
    assert!(!c.accepting(now + Duration::from_s(9)));
}

/// What each control does once the fast stage is used up, and what it does without demand.
#[test]
fn m39_b4_controls_differ_where_a_stage_is_used_up() {
    use Control::{Bare, FastOnly, Full, OnDemand};
    let rest = Action::Rest(Instant::NEVER);
    let pad = Action::Pad(SLOW_PADDING_BYTES);
    for (control, user, missed, served, accepts) in [
        // a user's write that would be slow; nobody waits: after a miss; without one; accepting then
        (Full, Action::Return, pad, pad, false),
        (FastOnly, Action::Return, Action::Flush, Action::Flush, false),
        (OnDemand, Action::Return, pad, rest, true),
        (Bare, Action::Write, rest, rest, true),
    ] {
        let (mut c, mut now) = fast_under(control);
        for _ in 0..255 {
            write(&mut c, &mut now, FAST);
        }
        assert_eq!(c.predict(now, 64 * KIB), WriteState::Slow);
        assert_eq!(c.next(now, Some(64 * KIB)), user, "{control:?}");
        let mut asked = c.clone();
        asked.note_demand(now, 64 * KIB);
        assert_eq!(asked.next(now, None), missed, "{control:?}");
        assert_eq!(c.next(now, None), served, "{control:?}");
        assert_eq!(c.accepting(now), accepts, "{control:?}");
    }
}

#[test]
fn m39_fast_only_never_writes_in_the_mid_state() {
    let (mut c, mut now) = fast_under(Control::FastOnly);
    write(&mut c, &mut now, SLOW);
    assert!(!c.accepting(now), "a slow write ends the stage");
    assert_eq!(c.next(now, Some(4096)), Action::Return);
    assert_eq!(c.next(now, None), Action::Flush);
    c.flush_done(now, true);
    assert!(c.accepting(now));
    assert_eq!(c.stats.fast_padding_bytes + c.stats.slow_padding_bytes, 0);
}

#[test]
fn m39_without_demand_fast_only_rests_until_the_drive_has_drained() {
    let (mut c, mut now) = fast_under(Control::FastOnly);
    c.model.profile_mut().drain_idle_ns = 900_000_000; // longer than demand lasts
    for _ in 0..256 {
        write(&mut c, &mut now, FAST);
    }
    now += DEMAND;
    assert!(matches!(c.next(now, None), Action::Rest(at) if at > now && at < Instant::NEVER));
    assert_eq!(c.state(), State::Draining);
}

#[test]
fn bare_drives_take_writes_unless_a_read_has_them_and_still_count_states() {
    let (mut c, mut now) = fast_under(Control::Bare);
    for latency in [FAST, SLOW, MID, SLOW] {
        assert_eq!(c.next(now, Some(64 * KIB)), Action::Write);
        write(&mut c, &mut now, latency);
    }
    let actual = c.stats.confusion.counts.map(|row| row.iter().sum::<u64>());
    assert_eq!((actual, c.stats.user_slow_writes), ([1, 1, 2], 2));
    c.disturbed(true);
    assert!(!c.accepting(now));
    c.undisturbed(now);
    assert!(c.accepting(now));
    assert_eq!(c.next(now, None), Action::Rest(Instant::NEVER));
    c.disturbed(false);
    assert!(c.accepting(now), "background work is just a queue");
    assert_eq!(c.next(now, Some(4096)), Action::Write);
    c.fault();
    assert!(!c.accepting(now));
    assert_eq!(c.next(now, Some(4096)), Action::Return);
}

#[test]
fn on_demand_padding_ends_in_the_mid_state_and_never_flushes() {
    let (mut c, mut now) = fast_under(Control::OnDemand);
    c.loops_max = 0;
    c.disturbed(true);
    c.undisturbed(now);
    assert_eq!((c.state(), c.stats.suspensions), (State::Suspended, 1));
    assert!(matches!(c.next(now, None), Action::Rest(_)), "nobody asks: it drains");
    c.note_demand(now, 4096);
    for latency in [MID, SLOW] {
        assert_eq!(c.next(now, None), Action::Pad(SLOW_PADDING_BYTES));
        c.issued(SLOW_PADDING_BYTES, true);
        now += latency;
        c.completed(now, SLOW_PADDING_BYTES, latency, true);
    }
    assert_eq!((c.state(), c.accepting(now)), (State::Mid, true));
    // no slow write within the limit: it rests
    c.disturbed(true);
    for step in 0.. {
        c.note_demand(now, 4096);
        let Action::Pad(bytes) = c.next(now, None) else {
            assert_eq!((step, c.stats.padding_limits), (256, 1));
            break;
        };
        c.issued(bytes, true);
        now += FAST;
        c.completed(now, bytes, FAST, true);
    }
}

/// Writes that would wait for longer elsewhere may be slow here, under the control that knows of them. Each stage that
/// they fill costs one slow write.
#[test]
fn slow_writes_are_taken_on_demand_alone_and_counted_before() {
    for control in [Control::Bare, Control::FastOnly, Control::OnDemand, Control::Full] {
        let (c, now) = fast_under(control);
        assert_eq!(c.takes_slow(now), control == Control::OnDemand, "{control:?}");
    }
    let (mut c, now) = fast_under(Control::OnDemand);
    for (promised_bytes, want) in
        [(0, 0), (16 * MIB, 0), (16 * MIB + 4096, 1), (24 * MIB - 4096, 1), (24 * MIB, 2)]
    {
        c.commit(now, promised_bytes);
        assert_eq!(c.slow_promised(), want, "{promised_bytes}");
        c.uncommit(promised_bytes);
    }
    c.disturbed(true);
    assert!(!c.accepting(now) && c.takes_slow(now), "after a read nobody knows the stage");
    let (mut full, now) = fast_under(Control::Full);
    full.commit(now, 64 * MIB);
    assert_eq!(full.slow_promised(), 0, "there users never meet one");
}

/// M23: after a read paddings are written until a slow write is seen, or until they look like the stage
/// that was interrupted.
#[test]
fn m23_after_a_read_the_stage_goes_on_if_it_looks_as_before() {
    let position = Duration::from_ms(9);
    for (recalibrate, latencies, want) in [
        (true, vec![position, FAST, FAST, FAST, FAST], (State::Fast, 15)),
        (true, vec![position, FAST, FAST, MID, FAST, FAST, FAST], (State::Slow, 17)),
        (true, vec![position, FAST, SLOW], (State::Mid, 0)),
        // as in the paper: the way back of the head is taken for a slow write
        (false, vec![position], (State::Mid, 0)),
        (false, vec![FAST; 9], (State::Slow, 19)),
    ] {
        let (mut c, mut now) = fast_with(Control::Full, recalibrate);
        for _ in 0..10 {
            write(&mut c, &mut now, FAST);
        }
        c.disturbed(true);
        now += Duration::from_ms(10);
        c.undisturbed(now);
        for latency in &latencies {
            assert_eq!(c.next(now, None), Action::Pad(SLOW_PADDING_BYTES), "{latencies:?}");
            c.issued(SLOW_PADDING_BYTES, true);
            now += *latency;
            c.completed(now, SLOW_PADDING_BYTES, *latency, true);
        }
        assert_eq!((c.state(), c.stage_bytes / (64 * KIB)), want, "{recalibrate} {latencies:?}");
    }
}

/// B6: each sort of misbehaviour stops steering, by name; a measurement after a while ends it.
#[test]
fn b6_a_drive_that_misbehaves_is_left_alone_and_measured_later() {
    use Unreliability::{Cleaning, Stalled, Surprises, WriteCacheOff};
    let long = Duration::from_ms(400);
    let early: Vec<Duration> = [vec![FAST; 9], vec![SLOW]].concat();
    for (latencies, why) in [
        (vec![SLOW; 3], WriteCacheOff),
        (vec![FAST, Duration::from_s(2)], Stalled),
        ([FAST, long].repeat(3), Cleaning),
        (early.repeat(6), Surprises),
    ] {
        let (mut c, mut now) = fast_under(Control::Full);
        // too fast for recalibration to follow: each stage is another drive
        for latency in &latencies {
            if c.state() == State::Unreliable {
                break;
            }
            c.model = Recalibration::new(profile(), true);
            write(&mut c, &mut now, *latency);
        }
        assert_eq!(c.stats.unreliable_times[why as usize], 1, "{why:?} {:?}", c.stats);
        let stopped = now;
        assert_eq!(c.unreliable(), Some((why, stopped)));
        assert!(!c.accepting(now) && !c.is_wanted(now), "{why:?}");
        assert_eq!(c.next(now, Some(4096)), Action::Return);
        let half = stopped + Duration::from_ms(500);
        assert_eq!(c.stats_at(half).unreliable_ns, 500_000_000, "not over yet");
        let Action::Rest(until) = c.next(now, None) else { panic!("{why:?}") };
        assert_eq!(until.since(now), Duration::from_s(1));
        now = until;
        assert_eq!(c.next(now, None), Action::Flush);
        c.flush_issued(now);
        c.flush_done(now, true);
        let mut padded = 0;
        while c.state() == State::Unreliable {
            let Action::Pad(bytes) = c.next(now, None) else { panic!("{why:?}") };
            c.issued(bytes, true);
            padded += bytes;
            let fast = padded < 8 * MIB;
            let slow = padded % (8 * MIB) < bytes;
            let small = bytes == FAST_PADDING_BYTES;
            let latency = match (slow, fast, small) {
                (true, ..) => SLOW,
                (_, true, false) => FAST,
                (_, true, true) => Duration::from_us(35),
                (_, false, false) => MID,
                (_, false, true) => Duration::from_us(55),
            };
            now += latency;
            c.completed(now, bytes, latency, true);
        }
        assert_eq!((c.stats.measurements, padded / MIB), (1, 32), "{why:?}");
        let away_ns = now.since(stopped).ns;
        let later = now + Duration::from_s(9);
        assert_eq!((c.unreliable(), c.stats_at(later).unreliable_ns), (None, away_ns), "{why:?}");
        assert!(c.accepting(now));
        let fast_mib = c.profile().fast_stage_bytes / MIB;
        assert!((8..13).contains(&fast_mib), "half of the profile's, seen once: {fast_mib}");
    }
}

#[test]
fn d6_a_policy_that_never_pads_explores_one_used_up_stage_in_thirty_two() {
    for (control, recalibrate, want) in [
        (Control::FastOnly, true, 2),
        (Control::OnDemand, true, 2),
        (Control::FastOnly, false, 0),
        (Control::OnDemand, false, 0),
    ] {
        let (mut c, mut now) = fast_with(control, recalibrate);
        for _ in 0..64 {
            for _ in 0..255 {
                write(&mut c, &mut now, FAST);
            }
            let mut flushed = false;
            for _ in 0..100 {
                match c.next(now, None) {
                    Action::Pad(bytes) => {
                        c.issued(bytes, true);
                        now += SLOW;
                        c.completed(now, bytes, SLOW, true);
                    }
                    Action::Flush => {
                        flushed = true;
                        break;
                    }
                    _ => {}
                }
            }
            assert_eq!(flushed, control == Control::FastOnly);
            if flushed {
                c.flush_issued(now);
                c.flush_done(now, true);
            }
            now += Duration::from_s(1);
            assert!(c.accepting(now));
        }
        assert_eq!(c.stats.explorations, want, "{control:?}");
        assert_eq!(c.stats.user_slow_writes, 0);
    }
}

#[test]
fn the_strongest_control_wins() {
    use Control::{Bare, FastOnly, Full, OnDemand};
    for (first, second, want) in [
        (Bare, Full, Full),
        (Full, Bare, Full),
        (OnDemand, FastOnly, FastOnly),
        (OnDemand, Bare, OnDemand),
    ] {
        let mut c = Controller::new(profile(), 10, 0, true);
        c.enable(first);
        c.enable(second);
        assert_eq!(c.control(), want);
    }
}

#[test]
fn m12_while_another_drive_has_room_the_uncertain_end_is_left_to_padding() {
    let mut profile = profile();
    profile.detail.fast_jitter_ppm = Some(10_000); // a guard of 480 KiB, and of twice that
    let mut c = Controller::new(profile, 10, u64::MAX, true);
    c.enable(Control::Full);
    let mut now = Instant::ZERO + Duration::from_s(1);
    assert!(c.accepting(now) && c.has_room());
    for _ in 0..242 {
        write(&mut c, &mut now, FAST);
    }
    assert!(!c.has_room(), "it cannot stand in for others");
    for (has_stand_in, state, action) in [
        (false, WriteState::Fast, Action::Rest(Instant::NEVER)),
        (true, WriteState::Slow, Action::Pad(SLOW_PADDING_BYTES)),
    ] {
        c.note_stand_in(has_stand_in);
        assert_eq!(c.predict(now, 64 * KIB), state);
        assert_eq!(c.next(now, Some(64 * KIB)), Action::Write, "what was promised is kept");
        assert_eq!(c.next(now, None), action);
    }
    assert_eq!(c.state(), State::Slow, "it brings the slow write on and comes back");
}

#[test]
fn b2_a_break_of_the_stream_is_padded_over_and_teaches_nothing() {
    let (mut c, mut now) = fast();
    assert_eq!(c.pad_over_break(now, 0), None, "nobody wants the drive");
    write(&mut c, &mut now, FAST);
    assert_eq!(c.pad_over_break(now, 96 * KIB), Some(Action::Pad(64 * KIB)));
    assert_eq!(c.pad_over_break(now, 0), Some(Action::Pad(FAST_PADDING_BYTES)));
    c.stream_breaks();
    let way_there = Duration::from_us(7_000);
    c.issued(FAST_PADDING_BYTES, true);
    now += way_there;
    c.completed(now, FAST_PADDING_BYTES, way_there, true);
    assert_eq!((c.state(), c.last_state()), (State::Fast, WriteState::Fast));
    assert_eq!(c.profile().fast_latency, profile().fast_latency);
}
