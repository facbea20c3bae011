//! Do deadlines, slack and limits follow the rules?

use super::super::edf;
use super::super::reserve::{Promise, Selector, StreamConfig};
use super::*;
use crate::device::Job;
use crate::io::pins::Pin;
use crate::owner::{LogIo, Owner};
use crate::port::IoOp;
use tandem_block::{Duration, StreamId};

const MS: u64 = 1_000_000;
/// What every request of these tests costs, if it is not said otherwise.
const COST_NS: u64 = 10 * MS;

fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * MS)
}

/// One stream: its share in percent, its weight, its limit.
fn stream(share: u64, weight: Option<u32>, limit: Option<Rate>) -> (StreamConfig, u64) {
    let promise = (share > 0).then(|| Promise::of(Rate::Requests(1), 4096));
    let of = Selector::Stream(StreamId(0));
    (StreamConfig { name: "s".into(), of, promise, weight, limit }, share * WHOLE_PPB / 100)
}

struct Rig {
    streams: Streams,
    sequence: u64,
}

impl Rig {
    fn new(list: &[(StreamConfig, u64)], background_percent: u64) -> Rig {
        let (streams, shares): (Vec<_>, Vec<_>) = list.iter().cloned().unzip();
        let background_ppb = background_percent * WHOLE_PPB / 100;
        let config = QosConfig { streams, background_ppb, ..QosConfig::default() };
        Rig { streams: Streams::new(&config, &shares, 1, None), sequence: 0 }
    }

    fn waiting(&mut self) -> Waiting {
        self.sequence += 1;
        let job = Job::Io(IoOp::Flush, Owner::Log(LogIo::Flush));
        Waiting::new(self.sequence, 4096, job, Pin::NONE)
    }

    fn push(&mut self, ms: u64, index: StreamIndex, read: bool) {
        let waiting = self.waiting();
        let kind = Kind { read, sequential: false };
        self.streams.push(at(ms), index, kind, COST_NS, waiting);
    }

    /// Serves one request at `ms` as the order says: of whom?
    fn serve(&mut self, ms: u64) -> Option<Pick> {
        let view = self.streams.view(at(ms), 0);
        let candidate = (edf::ENTRY.build)().next_stream(&view)?;
        let taken = self.streams.take(at(ms), candidate);
        let was_owed = matches!(candidate, Candidate::Due | Candidate::BackgroundDue);
        let (pick, tags) = (taken.pick, taken.tags);
        self.streams.done(at(ms), pick, was_owed, tags, taken.waiting.bytes);
        if let Pick::Stream { index, .. } = pick {
            self.streams.completed(at(ms), index);
        }
        Some(pick)
    }

    fn index(&mut self, ms: u64) -> usize {
        match self.serve(ms) {
            Some(Pick::Stream { index, .. }) => usize::from(index),
            other => panic!("{other:?} at {ms} ms"),
        }
    }

    /// Serves `count` requests, one every `gap_ms`: how many of each stream?
    fn share(&mut self, from_ms: u64, gap_ms: u64, count: u64) -> Vec<u64> {
        let mut served = vec![0; self.streams.list.len()];
        for i in 0..count {
            served[self.index(from_ms + i * gap_ms)] += 1;
        }
        served
    }
}

/// [IANUS §4.2]: `d = e/u`, `D_s = T_s + d`, `T_s` the sum of the deadlines so far.
#[test]
fn a_deadline_is_the_sum_of_costs_over_shares() {
    let mut rig = Rig::new(&[stream(25, None, None)], 0);
    for _ in 0..3 {
        rig.push(0, 0, true);
    }
    // 10 ms at a quarter of the drive: 40 ms each
    for (now, want) in [(0, 40), (40, 80), (80, 120)] {
        assert_eq!(rig.streams.view(at(now), 0).due, Some(at(want)));
        assert_eq!(rig.index(now), 0);
    }
    assert_eq!(rig.serve(120), None);
}

/// B9: `T_s = max(T_s, now)`: who paused has no credit.
#[test]
fn a_stream_that_paused_has_no_credit() {
    let mut rig = Rig::new(&[stream(50, None, None), stream(50, None, None)], 0);
    // the first has been served all along, the second comes after a pause of an hour
    let hour = 3_600_000;
    (0..100).for_each(|_| rig.push(hour, 0, true));
    (0..100).for_each(|_| rig.push(hour, 1, true));
    let served = rig.share(hour, 10, 20);
    assert_eq!(served, [10, 10, 0], "not a burst of the second alone");
}

/// A drive that is late owes it to all that always asked, whatever the length of their queues.
#[test]
fn a_long_queue_wins_nothing_on_a_late_drive() {
    let mut rig = Rig::new(&[stream(50, None, None), stream(50, None, None)], 0);
    (0..1_000).for_each(|_| rig.push(0, 0, true));
    let mut served = [0; 2];
    // the second has four requests outstanding; the drive takes three times as long as believed
    (0..4).for_each(|_| rig.push(0, 1, true));
    for i in 0..300 {
        let index = rig.index(i * 30);
        served[index] += 1;
        if index == 1 {
            rig.push(i * 30, 1, true);
        }
    }
    assert_eq!(served, [150, 150]);
}

/// A client whose requests have all ended, after a drive that stood still, has its next ones under way:
/// the drive still owes what it owed.
#[test]
fn what_a_drive_owes_outlives_the_way_to_the_client_and_back() {
    let mut rig = Rig::new(&[stream(50, None, None)], 0);
    (0..10).for_each(|_| rig.push(0, 0, true));
    // served, and the drive stands still until 400 ms; what comes then is due at once, as ten requests
    // of 20 ms each left 200 ms of the 400
    (0..10).for_each(|i| assert_eq!(rig.index(i * 20), 0));
    (0..10).for_each(|_| rig.streams.completed(at(400), 0));
    (0..20).for_each(|_| rig.push(401, 0, true));
    let mut due = 0;
    while rig.streams.view(at(401), 0).due.is_some() {
        assert_eq!(rig.index(401), 0);
        due += 1;
    }
    assert_eq!(due, 11, "200 ms of what was owed, and the one whose time has come");
}

#[test]
fn the_earliest_deadline_goes_first() {
    let mut rig = Rig::new(&[stream(10, None, None), stream(40, None, None)], 0);
    rig.push(0, 0, true); // by 100 ms
    rig.push(5, 1, false); // by 30 ms
    assert_eq!((rig.index(5), rig.index(5)), (1, 0));
}

#[test]
fn everyone_gets_the_share_that_was_promised() {
    let mut rig =
        Rig::new(&[stream(50, None, None), stream(30, None, None), stream(20, None, None)], 0);
    for index in 0..3 {
        (0..1_000).for_each(|_| rig.push(0, index, index % 2 == 0));
    }
    assert_eq!(rig.share(0, 10, 1_000), [500, 300, 200, 0]);
}

/// B9: what reservations leave goes to best effort, by weight; a stream that was promised something
/// has of it what those leave.
#[test]
fn slack_goes_to_best_effort_by_weight() {
    let list = [stream(20, None, None), stream(0, Some(300), None), stream(0, None, None)];
    let mut rig = Rig::new(&list, 0);
    for index in 0..3 {
        (0..2_000).for_each(|_| rig.push(0, index, true));
    }
    // the drive takes twice as many as costs say: 20 % of 1,000 x 5 ms are 100
    let served = rig.share(0, 5, 1_000);
    assert!((100..=101).contains(&served[0]), "{served:?}");
    assert!(served[1].abs_diff(served[2] * 3) <= 3, "300 to 100: {served:?}");
    // alone, it has all of it
    let mut rig = Rig::new(&list, 0);
    (0..100).for_each(|_| rig.push(0, 0, true));
    assert_eq!(rig.share(0, 1, 100), [100, 0, 0, 0]);
}

/// What was served in the slack does not count against a promise: nobody is short of space later for what
/// nobody else wanted.
#[test]
fn slack_is_not_paid_back() {
    let mut rig = Rig::new(&[stream(50, None, None), stream(50, None, None)], 0);
    (0..5_000).for_each(|_| rig.push(0, 0, true));
    assert_eq!(rig.share(0, 1, 1_000), [1_000, 0, 0], "alone for a second");
    (0..1_000).for_each(|_| rig.push(1_000, 1, true));
    let served = rig.share(1_000, 10, 100);
    assert!(served[0].abs_diff(50) <= 2, "{served:?}");
}

/// Reserved streams without weight share what is left in proportion to their shares, as under the
/// paper's order, in which every deadline comes sooner.
#[test]
fn without_best_effort_slack_is_shared_as_promised() {
    let mut rig = Rig::new(&[stream(60, None, None), stream(20, None, None)], 0);
    for index in 0..2 {
        (0..5_000).for_each(|_| rig.push(0, index, false));
    }
    let served = rig.share(0, 2, 2_000);
    assert!(served[0].abs_diff(3 * served[1]) <= 20, "{served:?}");
}

#[test]
fn a_limit_holds_a_stream_back_and_nobody_else() {
    let mut rig = Rig::new(&[stream(0, None, Some(Rate::Requests(10))), stream(0, None, None)], 0);
    for index in 0..2 {
        (0..2_000).for_each(|_| rig.push(0, index, true));
    }
    let served = rig.share(0, 1, 1_000);
    assert!((10..=11).contains(&served[0]), "{served:?}");
    assert_eq!(served[0] + served[1], 1_000);
    // alone it leaves the drive idle, and says until when
    let mut rig = Rig::new(&[stream(0, None, Some(Rate::Bytes(40_960)))], 0);
    (0..9).for_each(|_| rig.push(0, 0, true));
    assert_eq!(rig.index(500), 0);
    assert_eq!(rig.serve(500), None);
    let next = rig.streams.next_allowed();
    assert!((580..=600).contains(&(next.ns / MS)), "{next:?}");
    assert_eq!(rig.serve(next.ns / MS + 1), Some(Pick::Stream { index: 0, read: true }));
}

#[test]
fn background_work_has_its_share_beside_full_reservations() {
    let mut rig = Rig::new(&[stream(90, None, None)], 10);
    (0..1_000).for_each(|_| rig.push(0, 0, true));
    for _ in 0..1_000 {
        let waiting = rig.waiting();
        rig.streams.push_background(at(0), COST_NS, waiting);
    }
    let picks: Vec<Pick> = (0..500).filter_map(|i| rig.serve(i * 10)).collect();
    let background = picks.iter().filter(|pick| **pick == Pick::Background).count();
    assert_eq!((picks.len(), background), (500, 50));
}

/// Seen: while writes wait for space, background work goes as if its share were owed. Without a share that
/// had no deadline.
#[test]
fn background_work_without_a_share_is_served_in_the_slack_though_it_is_called_owed() {
    let mut rig = Rig::new(&[stream(50, None, None)], 0);
    for _ in 0..2 {
        let waiting = rig.waiting();
        rig.streams.push_background(at(0), COST_NS, waiting);
    }
    let had = |rig: &mut Rig| {
        let view = rig.streams.view(at(0), 0);
        (view.background_due, view.background)
    };
    assert_eq!(had(&mut rig), (None, Some(0)));
    let work = rig.streams.take_any_background().expect("it waits");
    rig.streams.done(at(0), work.pick, true, work.tags, work.waiting.bytes);
    let (due, slack) = had(&mut rig);
    assert_eq!(due, None);
    assert!(slack > Some(0), "it is charged for what it had: {slack:?}");
}

#[test]
fn requests_of_a_stream_go_in_order_and_dear_ones_count_as_such() {
    let mut rig = Rig::new(&[stream(50, None, None), stream(50, None, None)], 0);
    for i in 0..400 {
        let (read, waiting) = (i % 2 == 0, rig.waiting());
        // those of the second cost three times as much
        let kind = Kind { read, sequential: false };
        rig.streams.push(at(0), 0, kind, COST_NS, waiting);
        let waiting = rig.waiting();
        rig.streams.push(at(0), 1, kind, 3 * COST_NS, waiting);
    }
    let mut reads = [true, true];
    let mut served = [0; 2];
    for i in 0..200 {
        match rig.serve(i * 15) {
            Some(Pick::Stream { index, read }) => {
                assert_eq!(read, reads[usize::from(index)], "in the order of arrival");
                reads[usize::from(index)] = !read;
                served[usize::from(index)] += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(served, [150, 50], "the same time of the drive");
}

#[test]
fn who_must_wait_for_space_is_first_again_and_reads_pass() {
    let mut rig = Rig::new(&[stream(50, None, None)], 0);
    rig.push(0, 0, false);
    rig.push(1, 0, true);
    let before = rig.streams.view(at(1), 0).due;
    let taken = rig.streams.take(at(1), Candidate::Due);
    assert_eq!(taken.pick, Pick::Stream { index: 0, read: false });
    let tags = taken.tags;
    rig.streams.put_back(at(1), taken.pick, tags, taken.waiting);
    assert_eq!(rig.streams.view(at(1), 0).due, before);
    let read = rig.streams.take_only(at(1), true).expect("a read waits");
    let tags = read.tags;
    rig.streams.done(at(1), read.pick, true, tags, 4096);
    assert_eq!((rig.streams.waiting(), rig.streams.waiting_reads()), (1, 0));
    assert!(rig.streams.take_only(at(1), true).is_none());
    assert_eq!(rig.serve(30), Some(Pick::Stream { index: 0, read: false }));
    assert!(rig.streams.take_any(at(30)).is_none());
}

/// Seen: a write that another SSD took, or that was refused, counted as one in flight for ever.
#[test]
fn what_leaves_without_a_command_is_not_charged() {
    let mut rig = Rig::new(&[stream(50, None, None)], 0);
    rig.push(0, 0, false);
    rig.push(0, 0, false);
    let before = rig.streams.view(at(1), 0).due;
    let taken = rig.streams.take(at(1), Candidate::Due);
    rig.streams.left(at(1), taken.pick);
    assert_eq!(
        rig.streams.view(at(1), 0).due,
        before,
        "the next one has the deadline of the first"
    );
    assert_eq!(rig.streams.waiting(), 1);
}

#[test]
fn limits_are_shared_by_the_drives() {
    let (config, _) = stream(0, None, Some(Rate::Requests(10)));
    let config = QosConfig { streams: vec![config], ..QosConfig::default() };
    let streams = Streams::new(&config, &[0], 4, None);
    assert_eq!(streams.list[0].limit, Some(Rate::Requests(2)));
    assert_eq!(Rate::Requests(2).interval_ns(4096), Duration::from_ms(500).ns);
}

/// Two streams of one sort each, and who is served in so many milliseconds under an order that parts
/// them: is it a read?
fn parted(entry: super::super::QosEntry, ms: u64) -> (Rig, Vec<bool>) {
    let list = [stream(0, None, None), stream(0, None, None)];
    let (streams, shares): (Vec<_>, Vec<_>) = list.iter().cloned().unzip();
    let config = QosConfig { streams, background_ppb: 0, ..QosConfig::default() };
    let apart = (entry.build)().apart();
    let streams = Streams::new(&config, &shares, 1, apart);
    let mut rig = Rig { streams, sequence: 0 };
    for _ in 0..1_000 {
        rig.push(0, 0, true);
        rig.push(0, 1, false);
    }
    let picks: Vec<bool> = (0..ms)
        .map(|ms| match rig.serve(ms) {
            Some(Pick::Stream { read, .. }) => read,
            other => panic!("{other:?}"),
        })
        .collect();
    (rig, picks)
}

/// P9: reads for 100 ms, then writes as long.
#[test]
fn p9_reads_and_writes_come_in_batches() {
    let (_, picks) = parted(super::super::batches::ENTRY, 1_000);
    let reads = picks.iter().filter(|read| **read).count();
    assert!((480..=520).contains(&reads), "{reads}");
    let switches = picks.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((9..=10).contains(&switches), "{switches}");
}

/// Served apart: reads for 90 ms, writes for 10 ms, each sort alone in its slice; who has nobody
/// waiting gives the turn away.
#[test]
fn reads_and_writes_have_slices_of_their_own() {
    let (mut rig, picks) = parted(super::super::fios::ENTRY, 400);
    let reads = picks.iter().filter(|read| **read).count();
    assert!((355..=365).contains(&reads), "{reads}");
    let switches = picks.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((7..=9).contains(&switches), "{switches}");
    // the reads come to an end: writes go on all the time after a moment's grace
    while rig.streams.waiting_reads() > 0 {
        assert!(rig.streams.take_only(at(400), true).is_some());
    }
    let idle = (400..600).filter(|ms| rig.serve(*ms).is_none()).count();
    assert!(idle <= 6, "{idle}");
}
